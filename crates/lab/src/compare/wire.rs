//! How the load generator's requests travel over UDP: as frames, without a stack.

use std::net::SocketAddrV4;
use std::time::Duration;

use napier_runtime::device::DeviceHandle;
use napier_runtime::engine::Engine;
use napier_runtime::raw::{BindRawError, RawBusyPoll, RawPort};

use napier_kv::load::codec::{Format, Request, read_datagram};
use napier_kv::load::wire::{Came, Wire};

use napier_core::frames::{HEADER_BYTES, Template, udp_payload};

/// Room for the largest frame.
const FRAME_BYTES: usize = 1514;

/// Frames per poll of the load generator.
const CLIENT_BUDGET: u16 = 64;

/// One flow over raw ports.
pub struct RawFlow {
    /// Frame of its requests.
    pub template: Template,
    /// Port that reaches the server's queue for this flow.
    pub port: usize,
}

/// Frames over raw ports of a device of the engine, one per queue.
pub struct RawWire {
    pub(crate) engine: Engine,
    /// One per queue.
    pub ports: Vec<RawPort>,
    /// By number.
    pub flows: Vec<RawFlow>,
    first_port: u16,
    dirty: Vec<bool>,
}

impl RawWire {
    /// Binds a port to each queue of the generator's end. Flow n has UDP port `first_port` + n.
    ///
    /// # Errors
    /// A queue has another port, or too many are bound.
    pub fn new(
        engine: &Engine,
        device: &DeviceHandle,
        flows: Vec<RawFlow>,
        first_port: u16,
    ) -> Result<Self, BindRawError> {
        let ports = (0..device.queues())
            .map(|queue| {
                let port = RawPort::bind(device, queue)?;
                port.set_busy_poll(RawBusyPoll { usecs: 1, prefer: true, budget: CLIENT_BUDGET });
                Ok(port)
            })
            .collect::<Result<Vec<_>, BindRawError>>()?;
        let dirty = vec![false; ports.len()];
        Ok(Self { engine: engine.clone(), ports, flows, first_port, dirty })
    }
}

impl Wire for RawWire {
    fn now_ns(&self) -> u64 {
        self.engine.now_ns()
    }

    #[inline]
    fn send(&mut self, flow: usize, id: u16, request: &Request<'_>) {
        let RawFlow { template, port } = &self.flows[flow];
        // A full ring is a lost packet; the ring counts it and the flow gives the request up later.
        let _ = self.ports[*port].build(FRAME_BYTES, |frame| write(frame, template, id, request));
        self.dirty[*port] = true;
    }

    #[inline]
    fn flush(&mut self) -> anyhow::Result<()> {
        for (port, dirty) in self.ports.iter().zip(&mut self.dirty) {
            if std::mem::take(dirty) {
                port.flush();
            }
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, _: Duration, mut each: impl FnMut(u64, Came<'_>)) -> anyhow::Result<()> {
        for port in &self.ports {
            if !port.recv() {
                continue;
            }
            let now_ns = self.engine.now_ns();
            while let Some(frame) = port.next() {
                let Some((udp_port, payload)) = udp_payload(frame.data()) else { continue };
                let flow = flow_of(udp_port, self.first_port, self.flows.len());
                let reply = read_datagram(Format::Ascii, payload).ok();
                each(now_ns, flow.zip(reply).map(|(flow, (id, reply))| (flow, id, reply)));
            }
        }
        Ok(())
    }
}

/// Builds the frame of a request; returns its length.
#[inline]
pub fn write(frame: &mut [u8], template: &Template, id: u16, request: &Request<'_>) -> usize {
    let mut room = &mut frame[HEADER_BYTES..];
    let room_bytes = room.len();
    request.write_datagram(Format::Ascii, id, &mut room).expect("requests of the profile fit a frame");
    let bytes = room_bytes - room.len();
    template.complete(frame, bytes)
}

/// The flow that a reply to `udp_port` belongs to; none if it belongs to nothing that was asked.
fn flow_of(udp_port: u16, first_port: u16, flows: usize) -> Option<usize> {
    let flow = usize::from(udp_port.wrapping_sub(first_port));
    (flow < flows).then_some(flow)
}

/// The address of a flow.
pub(crate) fn address_of(flow: usize, first: SocketAddrV4) -> SocketAddrV4 {
    let port = first.port() + u16::try_from(flow).expect("checked with the options");
    SocketAddrV4::new(*first.ip(), port)
}

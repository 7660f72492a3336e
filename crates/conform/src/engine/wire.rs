//! The other ends of a scenario's links: what is sent to its devices, and what comes from them.

use std::net::{SocketAddr, SocketAddrV4};

use napier_core::frames::{HEADER_BYTES, Template};
use napier_runtime::raw::RawPort;
use napier_scenario::{DeviceIx, Packets, Target};

use super::addresses::{PEER_PORT, addr, mac};
use super::rig::EngineRig;

/// A port that no socket is bound to.
const DISCARD_PORT: u16 = 9;
const PAYLOAD_BYTES: usize = 8;

/// The other ends of the links: one port per instance.
#[derive(Default)]
pub(super) struct LinkWire {
    pub(super) ports: Vec<RawPort>,
}

/// Which flows packets are of.
#[derive(Copy, Clone, Default)]
pub(super) struct Sending {
    pub(super) flow: u32,
    pub(super) own_flow: bool,
    pub(super) unmergeable: bool,
}

impl Sending {
    /// Beginning with the `nth` packet of a step.
    pub(super) fn of(packets: &Packets, nth: u32) -> Self {
        let flow = packets.flow + if packets.own_flow { nth } else { 0 };
        Self { flow, own_flow: packets.own_flow, unmergeable: !packets.mergeable }
    }
}

impl LinkWire {
    /// Takes what has come from the devices that transmit.
    pub(super) fn take(&self, rig: &EngineRig<'_>) {
        for (position, device) in (0..).zip(&rig.scenario.machine.devices) {
            if device.transmit.is_some() {
                let device = DeviceIx(position);
                let port = &self.ports[rig.scenario.machine.napi(device, 0).at()];
                port.drain(usize::MAX, |frame| rig.transmits.arrived(rig.scenario, rig.engine.now_ns(), device, frame));
            }
        }
    }

    /// Sends packets together; how many found room in the ring.
    pub(super) fn send(&self, rig: &EngineRig<'_>, target: Target, count: u32, how: Sending) -> u32 {
        let napi = rig.napi_to(target);
        let (device, _) = rig.scenario.machine.queue_of(napi);
        let to = match target {
            Target::Socket(socket) => rig.addr(socket.at()),
            Target::Napi(_) => SocketAddrV4::new(addr(device.at(), 1), DISCARD_PORT).into(),
        };
        let SocketAddr::V4(to) = to else { unreachable!("all addresses are of one kind") };
        let merges = rig.scenario.machine.devices[device.at()].gro;
        let template = |nth: u32| {
            // Only where packets are merged does it matter of which flow they are.
            let flow = if merges { how.flow + if how.own_flow { nth } else { 0 } } else { 0 };
            let port = PEER_PORT + u16::try_from(flow % 50_000).expect("the remainder is smaller");
            let from = SocketAddrV4::new(addr(device.at(), 2), port);
            Template::new(mac(device.at(), 2), mac(device.at(), 1), from, to)
        };
        let port = &self.ports[napi.at()];
        let build = |nth: u32, frame: &mut [u8]| {
            frame[HEADER_BYTES..HEADER_BYTES + PAYLOAD_BYTES].fill(0);
            let length = template(nth).complete(frame, PAYLOAD_BYTES);
            if how.unmergeable {
                // Datagrams without checksum are not merged.
                frame[HEADER_BYTES - 2..HEADER_BYTES].fill(0);
            }
            length
        };
        let room = HEADER_BYTES + PAYLOAD_BYTES;
        let sent = (0..count).take_while(|nth| port.build(room, |frame| build(*nth, frame)).is_ok()).count();
        port.flush();
        u32::try_from(sent).expect("at most as many as were asked for")
    }
}

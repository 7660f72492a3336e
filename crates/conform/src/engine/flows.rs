//! The flows that are sent by way of transmit queues: a socket for each, and what was seen of them.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::Mutex;

use napier_runtime::device::DeviceHandle;
use napier_runtime::socket::{NetNs, UdpSocket};
use napier_runtime::tx::QdiscConfig;
use napier_scenario::{
    Action, Call, CpuIx, DeviceIx, Event, QdiscIx, QdiscSpec, Scenario, Seen, Sending, ThreadIx, TxEvent, TxqIx,
};

use super::addresses::{addr, mac};
use crate::Refused;
use crate::real::clock::RunWindow;
use crate::real::failed;

const FIRST_FLOW_PORT: u16 = 20_000;
/// Where the source port is in a frame.
const SOURCE_PORT_BYTES: std::ops::Range<usize> = 34..36;

/// Sockets of the flows, and what was seen so far.
pub(super) struct Transmits {
    pub(super) flows: BTreeMap<(DeviceIx, u32), UdpSocket>,
    /// With the times by the engine's clock. Held while a thread sends or takes a device down, so that no
    /// other's drops are counted for it.
    pub(super) seen: Mutex<Vec<(u64, TxEvent)>>,
}

/// Whether anything is sent by way of a transmit queue.
pub(super) fn is_part_of(scenario: &Scenario) -> bool {
    scenario.machine.devices.iter().any(|device| device.transmit.is_some())
}

/// Calls that send, by whom.
pub(super) fn sends(scenario: &Scenario) -> impl Iterator<Item = (ThreadIx, &Sending)> {
    scenario.timeline.iter().filter_map(|step| match &step.action {
        Action::Call { thread, call: Call::Send(sending) } => Some((*thread, sending)),
        _ => None,
    })
}

/// The flow of each packet.
pub(super) fn flows(sending: &Sending) -> impl Iterator<Item = u32> {
    let (first, step) = (sending.flow, u32::from(sending.own_flow));
    (0..sending.packets).map(move |nth| first.wrapping_add(nth.wrapping_mul(step)))
}

pub(super) fn device_of(scenario: &Scenario, txq: TxqIx) -> DeviceIx {
    scenario.machine.tx_queues().nth(txq.at()).expect("a transmit queue of this machine").0
}

/// The only discipline of a device; others are refused.
pub(super) fn qdisc_of(scenario: &Scenario, device: DeviceIx) -> QdiscIx {
    let position = scenario.machine.qdiscs().position(|(of, _)| of == device).expect("it was checked that it sends");
    QdiscIx(u16::try_from(position).expect("positions in a scenario have 16 bits"))
}

/// The only transmit queue of a device; others are refused.
fn txq_of(scenario: &Scenario, device: DeviceIx) -> TxqIx {
    let position = scenario.machine.tx_queues().position(|(of, ..)| of == device);
    TxqIx(u16::try_from(position.expect("it was checked that it sends")).expect("positions have 16 bits"))
}

fn port(nth: usize) -> u16 {
    FIRST_FLOW_PORT + u16::try_from(nth).expect("the number of flows was checked")
}

impl Transmits {
    pub(super) const fn none() -> Self {
        Self { flows: BTreeMap::new(), seen: Mutex::new(Vec::new()) }
    }

    /// Gives the devices their disciplines, and opens a socket for each flow.
    pub(super) fn build(scenario: &Scenario, devices: &[DeviceHandle], namespaces: &[NetNs]) -> Result<Self, Refused> {
        for (position, device) in scenario.machine.devices.iter().enumerate() {
            let Some(transmit) = &device.transmit else { continue };
            let set = devices[position].set_qdisc(0, &config(&transmit.qdisc));
            set.map_err(|error| failed("setting a queueing discipline", error))?;
            let set = devices[position].set_byte_limits(0, None);
            set.map_err(|error| failed("taking the byte limits away", error))?;
            let peer = addr(position, 2).into();
            let added = namespaces[position].neighbour_add(devices[position].ifindex(), peer, mac(position, 2));
            added.map_err(|error| failed("adding a neighbour", error))?;
        }
        let mut transmits = Self::none();
        for (_, sending) in sends(scenario) {
            let device = device_of(scenario, sending.to);
            for flow in flows(sending) {
                if transmits.flows.contains_key(&(device, flow)) {
                    continue;
                }
                let from = SocketAddrV4::new(addr(device.at(), 1), port(transmits.flows.len()));
                let socket = UdpSocket::bind(&namespaces[device.at()], from);
                let socket = socket.map_err(|error| failed("binding the socket of a flow", error))?;
                transmits.flows.insert((device, flow), socket);
            }
        }
        Ok(transmits)
    }

    /// The events of the window.
    pub(super) fn events(&self, window: RunWindow) -> Vec<Seen> {
        let seen = self.seen.lock().expect("no panic while held");
        let seen = seen
            .iter()
            .filter_map(|(at_ns, event)| window.place(*at_ns).map(|at| Seen { at, event: Event::Tx(event.clone()) }));
        seen.collect()
    }

    /// A frame came to the other end of a device's link.
    pub(super) fn arrived(&self, scenario: &Scenario, now_ns: u64, device: DeviceIx, frame: &[u8]) {
        let from = frame.get(SOURCE_PORT_BYTES).map(|port| u16::from_be_bytes(port.try_into().expect("two bytes")));
        let of_flow = |socket: &UdpSocket| from == socket.local_addr().ok().map(|addr| addr.port());
        let flow = self.flows.iter().find(|((of, _), socket)| *of == device && of_flow(socket));
        let Some(((_, flow), _)) = flow else { return };
        // Neither is seen from there, and a file that asks for them is refused.
        let (more, cpu) = (false, CpuIx(u16::MAX));
        let event = TxEvent::Transmit { txq: txq_of(scenario, device), flow: *flow, more, cpu };
        self.seen.lock().expect("no panic while held").push((now_ns, event));
    }
}

fn config(spec: &QdiscSpec) -> QdiscConfig {
    match spec {
        QdiscSpec::Noqueue => QdiscConfig::Noqueue,
        QdiscSpec::Pfifo { limit } => QdiscConfig::Pfifo { limit_pkts: *limit as usize },
        // The engine's has its bands behind the root lock; the one without is refused.
        QdiscSpec::Prio { limit } | QdiscSpec::PfifoFast { limit } => {
            QdiscConfig::PfifoFast { limit_pkts: *limit as usize }
        }
        QdiscSpec::Fq(config) => QdiscConfig::Fq(config.clone()),
    }
}

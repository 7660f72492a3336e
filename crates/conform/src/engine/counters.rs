//! Counters under the names of scenarios, from time zero on.

use napier_runtime::device::NapiStats;
use napier_runtime::engine::SoftirqStats;
use napier_runtime::socket::StackCounters;

use super::rig::EngineRig;
use super::{Refused, log, transmit};
use crate::real::clock::RunWindow;
use crate::real::refused;

/// All counters at one time.
pub(super) struct EngineReading {
    softirq: Vec<SoftirqStats>,
    napis: Vec<NapiStats>,
    stack: Vec<StackCounters>,
    transmit: Vec<(String, u64)>,
}

impl EngineReading {
    pub(super) fn take(rig: &EngineRig<'_>) -> Self {
        let queues = |device: &napier_runtime::device::DeviceHandle| (0..device.queues()).collect::<Vec<_>>();
        let napis = rig.devices.iter().flat_map(|device| queues(device).into_iter().map(|q| device.napi_stats(q)));
        let (softirq, stack, transmit) = (rig.engine.softirq_stats(), rig.stack_counters(), transmit::counters(rig));
        Self { softirq, napis: napis.collect(), stack, transmit }
    }
}

/// What came since a reading.
///
/// # Errors
/// The scenario asks for a counter that the engine does not have.
pub(super) fn since(
    rig: &EngineRig<'_>,
    before: &EngineReading,
    window: RunWindow,
) -> Result<Vec<(String, i64)>, Refused> {
    let after = EngineReading::take(rig);
    let mut counters = Vec::new();
    let mut add = |name: String, before: u64, after: u64| {
        counters.push((name, i64::try_from(after - before).expect("a run is short")));
    };
    for (cpu, (before, after)) in before.softirq.iter().zip(&after.softirq).enumerate() {
        add(format!("cpu{cpu}.time_squeeze"), before.time_squeeze, after.time_squeeze);
        add(format!("cpu{cpu}.softirq_runs"), before.runs, after.runs);
        add(format!("cpu{cpu}.ksoftirqd"), before.ksoftirqd, after.ksoftirqd);
    }
    for (napi, (before, after)) in before.napis.iter().zip(&after.napis).enumerate() {
        let name = rig.napi_name(napi);
        add(format!("{name}.polls"), before.polls_total(), after.polls_total());
        add(format!("{name}.packets"), before.packets_total(), after.packets_total());
        add(format!("{name}.interrupts"), before.interrupts, after.interrupts);
        add(format!("{name}.timer_fires"), before.timer_fires, after.timer_fires);
        add(format!("{name}.unmasks"), before.unmasks, after.unmasks);
    }
    let busy = |napis: &[NapiStats]| napis.iter().map(|napi| napi.busy_poll_rx_packets).sum();
    add("busy_poll_rx_packets".to_owned(), busy(&before.napis), busy(&after.napis));
    let full = |stack: &[StackCounters]| stack.iter().map(|stack| stack.udp_rcvbuf_errors).sum();
    add("drops.socket-full".to_owned(), full(&before.stack), full(&after.stack));
    let no_port = |stack: &[StackCounters]| stack.iter().map(|stack| stack.udp_no_ports).sum();
    add("drops.no-socket".to_owned(), no_port(&before.stack), no_port(&after.stack));
    for ((name, before), (_, after)) in before.transmit.iter().zip(&after.transmit) {
        add(name.clone(), *before, *after);
    }
    let records = rig.engine.journal().records;
    let first = log::delivered(rig, &records, window.start_ns);
    let last = log::delivered(rig, &records, window.end_ns);
    for (socket, (before, after)) in rig.scenario.machine.sockets.iter().zip(first.iter().zip(&last)) {
        add(format!("{}.delivered", socket.name), *before, *after);
    }
    let unknown = |name: &String| !counters.iter().any(|(known, _)| known == name);
    match rig.scenario.expect.counters.iter().map(|(name, _)| name).find(|name| unknown(name)) {
        Some(name) => Err(refused(format!("the engine has no counter {name}"))),
        None => Ok(counters),
    }
}

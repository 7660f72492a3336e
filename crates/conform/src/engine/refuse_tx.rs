//! What cannot be done with the engine's transmit queues, or is not seen there.

use std::collections::BTreeSet;

use napier_core::tx::queue::QueueBits;
use napier_core::tx::state::QdiscState;
use napier_scenario::{Action, Call, Device, Kind, Machine, Pattern, QdiscSpec, Scenario, Sending, TxCheck, TxDeed};

use super::flows::{flows, sends};
use super::{Refused, watched};
use crate::real::refused;

/// Time that a packet takes on the wire in scenarios that do not care, in ns.
const WIRE_NS: u64 = 1000;
/// Each is a socket.
const FLOWS_MAX: usize = 256;
/// Shortest and longest frame of a datagram.
const FRAME_BYTES: std::ops::RangeInclusive<u32> = 60..=1514;

/// Refuses a device whose transmit side the engine's cannot be.
pub(super) fn check_device(device: &Device) -> Result<(), Refused> {
    let Some(transmit) = &device.transmit else { return Ok(()) };
    let why = if matches!(transmit.qdisc, QdiscSpec::PfifoFast { .. }) {
        "the engine has no discipline without root lock"
    } else if transmit.lower.is_some() {
        "its driver hands packets to another transmit queue"
    } else if transmit.queues != 1 || device.queues != 1 {
        "the engine's sockets choose the transmit queue of a packet, not the program"
    } else if transmit.bql.is_some() {
        "byte limits follow the speed of the wire, which in the engine is that of the peer"
    } else if transmit.wire.ns != WIRE_NS {
        "the wire has a speed, and in the engine that is the peer's"
    } else if transmit.ring != device.ring {
        "both directions of a link have rings of one size"
    } else if !device.up {
        "it is down at first, and the engine gives a discipline to a device that is up"
    } else {
        return Ok(());
    };
    Err(refused(why))
}

/// Refuses what is asked of the transmit side beyond its devices.
pub(super) fn check(scenario: &Scenario) -> Result<(), Refused> {
    check_expected(scenario)?;
    check_senders(scenario)?;
    check_down(scenario)
}

pub(super) const fn recorded(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::Push
            | Kind::Flush
            | Kind::TxRun
            | Kind::TxRunEnd
            | Kind::Requeue
            | Kind::TxSchedule
            | Kind::TxStop
            | Kind::TxWake
            | Kind::TxComplete
            | Kind::WatchdogStart
            | Kind::WatchdogFire
    )
}

fn check_expected(scenario: &Scenario) -> Result<(), Refused> {
    let watched = watched(scenario);
    for expected in scenario.expect.events.iter().filter(|expected| watched.contains(&expected.kind)) {
        for (field, pattern) in &expected.fields {
            let why = match (expected.kind, field.as_str(), pattern) {
                (Kind::Transmit, "more", _) => "the engine does not show whether its driver was told that more follow",
                (Kind::Transmit, "cpu", _) => "the engine does not show which processor has transmitted",
                (Kind::Xmit, "code", Pattern::Number(range)) if range.max > 1 => {
                    "the engine's sockets do not tell congestion from success"
                }
                _ => continue,
            };
            return Err(refused(why));
        }
    }
    Ok(())
}

fn check_senders(scenario: &Scenario) -> Result<(), Refused> {
    let threads: BTreeSet<_> = sends(scenario).map(|(thread, _)| thread).collect();
    let all: BTreeSet<_> =
        sends(scenario).flat_map(|(_, sending)| flows(sending).map(|flow| (sending.to, flow))).collect();
    let why = if threads.len() > 1 {
        "several threads send, and whose drop it was is not seen"
    } else if all.len() > FLOWS_MAX {
        "it has more than 256 flows"
    } else if let Some(why) = sends(scenario).find_map(|(_, sending)| wrong_send(sending)) {
        why
    } else {
        return Ok(());
    };
    Err(refused(why))
}

fn wrong_send(sending: &Sending) -> Option<&'static str> {
    if !FRAME_BYTES.contains(&sending.bytes) {
        Some("a packet has another length than a datagram in an Ethernet frame")
    } else if i32::try_from(sending.priority).is_err() || sending.rate.is_some_and(|rate| i32::try_from(rate).is_err())
    {
        Some("a priority or rate exceeds what the engine's socket options take")
    } else {
        None
    }
}

/// Where a device with a discipline is down, senders find in the kernel what drops everything and reports congestion; the
/// engine reports that the device is down.
fn check_down(scenario: &Scenario) -> Result<(), Refused> {
    let machine = &scenario.machine;
    let mut down = BTreeSet::new();
    for step in &scenario.timeline {
        let Action::Call { call, .. } = &step.action else { continue };
        match call {
            Call::Down { device } => drop(down.insert(*device)),
            Call::Up { device } => drop(down.remove(device)),
            Call::Send(sending) => {
                let (device, ..) = machine.tx_queues().nth(sending.to.at()).expect("a transmit queue of this machine");
                let transmit = machine.devices[device.at()].transmit.as_ref();
                let waits = transmit.is_some_and(|transmit| transmit.qdisc != QdiscSpec::Noqueue);
                if waits && down.contains(&device) {
                    return Err(refused(
                        "the engine reports that a device is down where its discipline was taken away",
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Why something cannot be done to a transmit queue.
pub(super) const fn deed(deed: TxDeed) -> &'static str {
    match deed {
        TxDeed::Stop => "it stops a transmit queue, which the engine does only when the ring is full",
        TxDeed::Wake => "it wakes a transmit queue from outside",
        TxDeed::Freeze | TxDeed::Thaw => "the engine never freezes a transmit queue",
        TxDeed::Stall(_) => "it lets nothing leave a ring for a time",
        TxDeed::Busy(_) => "it makes the driver busy",
    }
}

/// Why a check cannot be made; none if it can.
pub(super) fn look(check: &TxCheck, machine: &Machine) -> Option<&'static str> {
    let TxCheck {
        qdisc,
        set,
        clear,
        qlen: _,
        backlog_bytes: _,
        deferred,
        defer_count,
        requeued,
        running,
        txq: _,
        queue_set,
        queue_clear,
        in_ring,
        limit_bytes,
    } = check;
    let of = qdisc.and_then(|qdisc| machine.qdiscs().nth(qdisc.at())).map(|(device, _)| device);
    let noqueue = of.is_some_and(|device| {
        machine.devices[device.at()].transmit.as_ref().is_some_and(|transmit| transmit.qdisc == QdiscSpec::Noqueue)
    });
    if noqueue {
        Some("it looks at a discipline where there is none")
    } else if *set != QdiscState::EMPTY || *clear != QdiscState::EMPTY {
        Some("the engine does not show the state word of a discipline")
    } else if *queue_set != QueueBits::EMPTY || *queue_clear != QueueBits::EMPTY {
        Some("the engine does not show the state of a transmit queue")
    } else if deferred.is_some() || defer_count.is_some() {
        Some("the engine does not show its defer list")
    } else if requeued.is_some() || running.is_some() {
        Some("the engine does not show who runs a discipline, nor what waits to be sent again")
    } else if in_ring.is_some() || limit_bytes.is_some() {
        Some("what is in a ring follows the speed of the wire")
    } else {
        None
    }
}

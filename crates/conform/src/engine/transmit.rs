//! The transmit side: sends, what becomes of each packet, and what arrives at the other end of the link.
//!
//! A packet is a datagram of a UDP socket, one socket for each flow. Whether it was dropped, and why, is read from the
//! counters of its queue before and after; what the socket answered must agree.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use napier_core::control::Errno;
use napier_core::frames::HEADER_BYTES;
use napier_core::tx::{DropReason, XmitCode};
use napier_runtime::device::DeviceHandle;
use napier_runtime::socket::{SocketOption, UdpSocket};
use napier_runtime::tx::TxQueueStats;
use napier_scenario::{Answer, DeviceIx, QdiscSpec, Sending, ThreadIx, TxCheck, TxEvent};

use super::addresses::{PEER_PORT, addr};
use super::flows::{device_of, flows, is_part_of, qdisc_of};
use super::rig::EngineRig;
use crate::Refused;
use crate::real::answers::{Made, errno};
use crate::real::clock::RunPace;
use crate::real::{failed, refused};

fn stats(device: &DeviceHandle) -> TxQueueStats {
    device.tx_stats(0).expect("every device has a first queue")
}

/// Packets that a device and its discipline have dropped so far.
fn drops(device: &DeviceHandle) -> BTreeMap<DropReason, u64> {
    let stats = stats(device);
    let mut drops: BTreeMap<_, _> = stats.drops.into_iter().collect();
    drops.insert(DropReason::Burst, stats.burst_drops);
    drops.insert(DropReason::DeviceDown, device.stats().tx_down);
    drops
}

/// Does something to a device and notes what was dropped by it; how many packets that were.
fn noting_drops<R>(
    rig: &EngineRig<'_>,
    device: DeviceIx,
    seen: &mut Vec<(u64, TxEvent)>,
    act: impl FnOnce() -> R,
) -> (R, u64) {
    let handle = &rig.devices[device.at()];
    let before = drops(handle);
    let result = act();
    let (at_ns, qdisc) = (rig.engine.now_ns(), qdisc_of(rig.scenario, device));
    let mut dropped = 0;
    for (why, after) in drops(handle) {
        let packets = after - before.get(&why).copied().unwrap_or(0);
        if packets > 0 {
            dropped += packets;
            let packets = u32::try_from(packets).expect("a run is short");
            seen.push((at_ns, TxEvent::Drop { qdisc, why, packets }));
        }
    }
    (result, dropped)
}

/// Makes a call that takes a device down, or up again.
pub(super) fn switch(rig: &EngineRig<'_>, device: DeviceIx, call: impl FnOnce() -> Made) -> Made {
    if rig.scenario.machine.devices[device.at()].transmit.is_none() {
        return call();
    }
    let mut seen = rig.transmits.seen.lock().expect("no panic while held");
    noting_drops(rig, device, &mut seen, call).0
}

/// Sends.
pub(super) fn send(rig: &EngineRig<'_>, pace: RunPace<'_>, thread: ThreadIx, sending: &Sending) -> Made {
    let device = device_of(rig.scenario, sending.to);
    let to = SocketAddrV4::new(addr(device.at(), 2), PEER_PORT).into();
    let payload = vec![0; sending.bytes as usize - HEADER_BYTES];
    // A caller that sees the path itself learns everything.
    let asks = sending.socket.is_none_or(|socket| rig.scenario.machine.sockets[socket.at()].recverr);
    let mut taken = 0;
    for flow in flows(sending) {
        let socket = &rig.transmits.flows[&(device, flow)];
        set_options(socket, sending, asks)?;
        let mut seen = rig.transmits.seen.lock().expect("no panic while held");
        let (sent, dropped) = noting_drops(rig, device, &mut seen, || match sending.txtime {
            Some(at) => socket.send_at(&payload, Some(to), pace.window.start_ns + at.ns),
            None => socket.send_to(&payload, to),
        });
        let sent = match sent {
            Ok(_) => Ok(()),
            Err(error) => Err(errno(&error)?),
        };
        let code = code(sent, dropped, asks)?;
        seen.push((rig.engine.now_ns(), TxEvent::Xmit { thread, to: sending.to, code }));
        match (sent, sending.socket) {
            (Err(error), Some(_)) if taken == 0 => return Ok((Answer::Error(error), Vec::new())),
            (Err(_), Some(_)) => break,
            (Ok(()), Some(_)) => taken += 1,
            (_, None) => taken += i64::from(code == XmitCode::Success),
        }
    }
    Ok((Answer::Number(taken), Vec::new()))
}

fn set_options(socket: &UdpSocket, sending: &Sending, asks: bool) -> Result<(), Refused> {
    socket.set_recverr(asks);
    let number = |value| i32::try_from(value).expect("it was checked that the options take it");
    let set = socket.setsockopt(SocketOption::Priority, number(u64::from(sending.priority)));
    set.map_err(|error| failed("setting a priority", error))?;
    if let Some(rate) = sending.rate {
        let set = socket.setsockopt(SocketOption::MaxPacingRate, number(rate));
        set.map_err(|error| failed("setting a pacing rate", error))?;
    }
    Ok(())
}

/// What the path has answered, by what the socket did and by what was dropped meanwhile.
fn code(sent: Result<(), Errno>, dropped: u64, asks: bool) -> Result<XmitCode, Refused> {
    match (sent, dropped) {
        (Ok(()), 0) => Ok(XmitCode::Success),
        (Ok(()), 1) if !asks => Ok(XmitCode::Drop),
        (Err(Errno::ENOBUFS), 1) if asks => Ok(XmitCode::Drop),
        (Err(Errno::ENETDOWN), 1) => Ok(XmitCode::Error(Errno::ENETDOWN)),
        _ => Err(refused(format!("a socket answered {sent:?} to a send during which {dropped} packets were dropped"))),
    }
}

/// Refuses a run in which something was dropped while no call looked: its time is not known.
pub(super) fn check_noted(rig: &EngineRig<'_>) -> Result<(), Refused> {
    let seen = rig.transmits.seen.lock().expect("no panic while held");
    let noted: u64 = seen
        .iter()
        .map(|(_, event)| if let TxEvent::Drop { packets, .. } = event { u64::from(*packets) } else { 0 })
        .sum();
    let sending = rig.devices.iter().zip(&rig.scenario.machine.devices).filter(|(_, device)| device.transmit.is_some());
    let counted: u64 = sending.flat_map(|(handle, _)| drops(handle).into_values()).sum();
    if noted == counted {
        return Ok(());
    }
    Err(refused(format!("{counted} packets were dropped, {noted} of them by a call")))
}

/// Counters under the names of scenarios.
pub(super) fn counters(rig: &EngineRig<'_>) -> Vec<(String, u64)> {
    let machine = &rig.scenario.machine;
    let mut counters = Vec::new();
    let mut by_reason: BTreeMap<DropReason, u64> = DropReason::ALL.into_iter().map(|why| (why, 0)).collect();
    for (position, device) in (0..).zip(&machine.devices) {
        let Some(transmit) = &device.transmit else { continue };
        let handle = &rig.devices[usize::from(position)];
        let name = machine.qdisc_name(qdisc_of(rig.scenario, DeviceIx(position)));
        drops(handle).iter().for_each(|(why, packets)| *by_reason.entry(*why).or_default() += packets);
        counters.push((format!("{}.tx_packets", device.name), handle.stats().tx_packets));
        if transmit.qdisc == QdiscSpec::Noqueue {
            counters.push((format!("{}.tx_dropped", device.name), handle.stats().tx_down));
            continue;
        }
        let stats = stats(handle);
        counters.push((format!("{name}.packets"), stats.packets));
        counters.push((format!("{name}.bytes"), stats.bytes));
        counters.push((format!("{name}.requeues"), stats.requeues));
        counters.push((format!("{name}.dropped"), stats.drops.iter().map(|(_, packets)| packets).sum()));
    }
    if is_part_of(rig.scenario) {
        counters.extend(by_reason.into_iter().map(|(why, packets)| (format!("tx_drops.{}", why.name()), packets)));
        let lost = rig.stack_counters().iter().map(|stack| stack.udp_sndbuf_errors).sum();
        counters.push(("UdpSndbufErrors".to_owned(), lost));
    }
    counters
}

/// Looks at a discipline; both sides of what differs.
pub(super) fn look(rig: &EngineRig<'_>, check: &TxCheck) -> Option<(String, String)> {
    let qdisc = check.qdisc?;
    let (device, _) = rig.scenario.machine.qdiscs().nth(qdisc.at()).expect("a discipline of this machine");
    let stats = stats(&rig.devices[device.at()]);
    let compared = [("qlen", check.qlen, stats.qlen), ("backlog", check.backlog_bytes, stats.backlog_bytes)];
    let differs = compared.into_iter().filter_map(|(name, want, have)| {
        let want = u64::from(want?);
        (want != have).then(|| (format!("{name} = {want}"), format!("{name} = {have}")))
    });
    let (expected, seen): (Vec<_>, Vec<_>) = differs.unzip();
    (!expected.is_empty()).then(|| (expected.join(", "), seen.join(", ")))
}

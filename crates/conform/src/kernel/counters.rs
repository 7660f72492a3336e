//! Counters under the names of scenarios: from what was seen, and from the kernel's own of the namespaces.

use napier_scenario::{Event, Scenario, Seen};

use super::addresses::device_ix;
use super::rig::KernelRig;
use crate::Refused;
use crate::real::failed;

/// The kernel's counters at one time, summed over the namespaces: the file below `/proc/net`, the group, the name, and what
/// scenarios call it.
const OF_NAMESPACES: [(&str, &str, &str, &str); 3] = [
    ("netstat", "TcpExt:", "BusyPollRxPackets", "busy_poll_rx_packets"),
    ("snmp", "Udp:", "NoPorts", "drops.no-socket"),
    ("snmp", "Udp:", "RcvbufErrors", "drops.socket-full"),
];

/// One reading of them.
pub(super) struct KernelReading([u64; OF_NAMESPACES.len()]);

impl KernelReading {
    pub(super) fn take(rig: &KernelRig<'_>) -> Result<Self, Refused> {
        let mut sums = [0; OF_NAMESPACES.len()];
        for device in (0..rig.scenario.machine.devices.len()).map(device_ix) {
            let read = rig.end(device).netns().run(|| {
                ["netstat", "snmp"].map(|file| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")))
            });
            let [netstat, snmp] = read.map_err(|error| failed("entering a namespace", error))?;
            let netstat = netstat.map_err(|error| failed("reading /proc/net/netstat", error))?;
            let snmp = snmp.map_err(|error| failed("reading /proc/net/snmp", error))?;
            for (sum, (file, group, name, _)) in sums.iter_mut().zip(OF_NAMESPACES) {
                *sum += value_of(if file == "snmp" { &snmp } else { &netstat }, group, name).unwrap_or(0);
            }
        }
        Ok(Self(sums))
    }
}

/// Two lines for each group: names, then values.
fn value_of(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let (names, values) = (lines.next()?, lines.next()?);
    let position = names.split_whitespace().position(|found| found == name)?;
    values.split_whitespace().nth(position)?.parse().ok()
}

/// What came since a reading, and what was seen.
pub(super) fn since(
    scenario: &Scenario,
    before: &KernelReading,
    after: &KernelReading,
    events: &[Seen],
) -> Vec<(String, i64)> {
    let mut counters = Vec::new();
    for (position, (.., name)) in OF_NAMESPACES.iter().enumerate() {
        let came = after.0[position].saturating_sub(before.0[position]);
        counters.push(((*name).to_owned(), i64::try_from(came).unwrap_or(i64::MAX)));
    }
    let machine = &scenario.machine;
    for (name, _) in &scenario.expect.counters {
        let Some((of, what)) = name.rsplit_once('.') else { continue };
        let amount = |event: &Event| match (event, what) {
            (Event::Poll { napi, .. }, "polls") if machine.napi_name(*napi) == of => 1,
            (Event::Poll { napi, work, .. }, "packets") if machine.napi_name(*napi) == of => i64::from(*work),
            (Event::TimerFire { napi, .. }, "timer_fires") if machine.napi_name(*napi) == of => 1,
            (Event::Deliver { socket, packets }, "delivered") if machine.sockets[socket.at()].name == of => {
                i64::from(*packets)
            }
            _ => 0,
        };
        if matches!(what, "polls" | "packets" | "timer_fires" | "delivered") {
            counters.push((name.clone(), events.iter().map(|seen| amount(&seen.event)).sum()));
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_name() {
        let text = "Ip: Forwarding\nIp: 2\nUdp: InDatagrams NoPorts\nUdp: 7 3\n";
        assert_eq!(value_of(text, "Udp:", "NoPorts"), Some(3));
        assert_eq!(value_of(text, "Udp:", "RcvbufErrors"), None);
    }
}

//! Packets of an interface, and those of them that its instances took.

use serde::Serialize;

use crate::change::DeviceRef;
use crate::{link, sys};

/// What an interface received.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Received {
    /// Packets, as `ip -s link` shows them.
    pub packets: u64,
    /// Of these, packets that NAPI instances took; `None` where the driver counts them together. Only veth does not: a packet of a peer that
    /// sends segments of its own size goes to the backlog of a CPU instead, and no instance sees it.
    pub polled: Option<u64>,
}

impl Received {
    /// What was received from `before` until now.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let polled = self.polled.zip(before.polled).map(|(now, before)| now.saturating_sub(before));
        Self { packets: self.packets.saturating_sub(before.packets), polled }
    }
}

/// What an interface of the calling thread's namespace has received so far; `None` if it is gone.
#[must_use]
pub fn received(device: &DeviceRef) -> Option<Received> {
    let (counters, kind) = link::received(device.ifindex).ok()?;
    let packets = counters.rx_packets;
    let polled = (kind.as_deref() == Some("veth")).then(|| polled_of_veth(&device.name)).flatten();
    // What is counted at two moments may not fit by a packet or two.
    Some(Received { packets, polled: polled.map(|polled| polled.min(packets)) })
}

/// Packets that the instances of a veth took. Source: `drivers/net/veth.c veth_xdp_rcv`, which counts them as `rx_queue_N_xdp_packets`
/// with an XDP program or without.
#[must_use]
pub(crate) fn polled_of_veth(name: &str) -> Option<u64> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None).ok()?;
    let counters = sys::stats::veth_counters(std::os::fd::AsFd::as_fd(&socket), name).ok()?;
    let mut polled = counters.iter().filter(|(name, _)| is_polled(name)).map(|(_, count)| *count).peekable();
    polled.peek()?;
    Some(polled.sum())
}

fn is_polled(name: &str) -> bool {
    let queue = name.strip_prefix("rx_queue_").and_then(|rest| rest.strip_suffix("_xdp_packets"));
    queue.is_some_and(|queue| queue.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_instances_took_is_found_among_counters() {
        assert!(["rx_queue_0_xdp_packets", "rx_queue_17_xdp_packets"].into_iter().all(is_polled));
        let others = ["peer_ifindex", "rx_queue_0_xdp_bytes", "rx_queue_0_drops", "tx_queue_0_xdp_xmit", "rx_queue__x"];
        assert!(!others.into_iter().any(is_polled));
    }

    #[test]
    fn a_counter_that_began_anew_counts_nothing() {
        let of = |packets, polled| Received { packets, polled };
        assert_eq!(of(10, Some(4)).since(of(7, Some(4))), of(3, Some(0)));
        assert_eq!(of(3, None).since(of(7, Some(4))), of(0, None));
    }
}

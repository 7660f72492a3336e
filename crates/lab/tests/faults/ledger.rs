//! Where packets may be lost, each place by its counter.

use std::fmt;

use napier_lab::compare::parts::Pair;

/// Places in the order of a packet's way: out of the generator, into the server, back.
const PLACES: usize = 13;

/// Packets lost since the pair was made, by counter.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Losses([(&'static str, u64); PLACES]);

impl Losses {
    /// Reads the counters of both ends.
    ///
    /// What the server's stack refuses to send is counted there by datagram (`UdpSndbufErrors`); its device counts the
    /// attempts, of which a blocking sender makes many, so that counter is no loss.
    pub(crate) fn read(pair: &Pair) -> Self {
        let (out, back) = (pair.peer.stats(), pair.tested.stats());
        let (server, generator) = (pair.tested_ns.counters(), pair.peer_ns.counters());
        Self([
            ("peer tx_ring_full", out.tx_ring_full),
            ("peer tx_no_frame", out.tx_no_frame),
            ("peer tx_down", out.tx_down),
            ("tested rx_no_frame", back.rx_no_frame),
            ("tested rx_bad_descriptors", back.rx_bad_descriptors),
            ("tested UdpNoPorts", server.udp_no_ports),
            ("tested UdpInErrors", server.udp_in_errors),
            ("tested UdpCloseDiscards", server.udp_close_discards),
            // Those that the discipline dropped are counted there.
            ("tested UdpSndbufErrors", server.udp_sndbuf_errors.saturating_sub(back.tx_qdisc_drops_told)),
            ("tested tx_qdisc_drops", back.tx_qdisc_drops),
            ("tested tx_down", back.tx_down),
            ("peer rx_no_frame", out.rx_no_frame),
            ("peer UdpNoPorts", generator.udp_no_ports),
        ])
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Losses that came because something was full.
    pub(crate) fn overflows(&self) -> u64 {
        let full = [
            "peer tx_ring_full",
            "tested rx_no_frame",
            "tested UdpInErrors",
            "tested UdpSndbufErrors",
            "tested tx_qdisc_drops",
        ];
        self.0.iter().filter(|(place, _)| full.contains(place)).map(|(_, count)| count).sum()
    }

    /// Adds those of another pair.
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, (place, count)) in self.0.iter_mut().zip(other.0) {
            *mine = (place, mine.1 + count);
        }
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        for (place, count) in self.0.iter().filter(|(_, count)| *count > 0) {
            write!(f, "{gap}{place} {count}")?;
            gap = ", ";
        }
        if gap.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

//! Which packets of a flow become one. Source: `net/ipv4/tcp_offload.c tcp_gro_receive`, `net/ipv4/udp_offload.c
//! udp_gro_receive_segment`, `include/net/gro.h gro_receive_network_flush`, `net/core/gro.c skb_gro_receive` (Linux 6.18).
//!
//! Who reads headers decides which packets are of one flow: the same Ethernet addresses, IP addresses, protocol, ports
//! and, over IPv6, flow label. Packets with IP options, extension headers, padding or a bad checksum are of none.
//!
//! A packet joins a train of its flow if all of this holds:
//!
//! | of | TCP | UDP |
//! |---|---|---|
//! | TTL, TOS, DF | as in the first packet | the same |
//! | IPv4 identification | counts on by one per packet; or with DF always the same | the same |
//! | payload | 1 byte to that of the first packet | the same |
//! | sequence | begins where the train ends | - |
//! | ACK number, window, options, flags but FIN and PSH | as in the first packet, which alone may have CWR | - |
//! | length of the whole | less than 65536 with headers | the same |
//!
//! and then the train is complete if the packet was shorter than the first one, or had PSH or FIN (TCP), or was the 64th
//! (UDP).

/// Most packets of a merged datagram. Source: `net/ipv4/udp_offload.c UDP_GRO_CNT_MAX`.
pub const UDP_GRO_CNT_MAX: u32 = 64;
/// A merged packet is shorter than this, IP header included. Source: `include/linux/netdevice.h GRO_LEGACY_MAX_SIZE`.
pub const GRO_MAX_BYTES: u32 = 65536;
/// Most bytes of TCP options.
pub const TCP_OPTIONS_MAX: usize = 40;

/// What the rules ask of an IP header.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ip {
    /// Time to live, or hop limit.
    pub hops: u8,
    /// Type of service, or traffic class.
    pub class: u8,
    /// Over IPv4: identification, and whether DF is set.
    pub id: Option<(u16, bool)>,
}

/// What the rules ask of a TCP header.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tcp {
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Data offset, flags and window: bytes 12 to 15 of the header, as one number in network order.
    pub word: u32,
    /// The options, then zeros.
    pub options: [u8; TCP_OPTIONS_MAX],
}

/// Flags in [`Tcp::word`]. Source: `include/uapi/linux/tcp.h TCP_FLAG_*`.
pub mod tcp_flag {
    /// Congestion window reduced.
    pub const CWR: u32 = 0x0080_0000;
    /// Urgent pointer.
    pub const URG: u32 = 0x0020_0000;
    /// Push.
    pub const PSH: u32 = 0x0008_0000;
    /// Reset.
    pub const RST: u32 = 0x0004_0000;
    /// Synchronise.
    pub const SYN: u32 = 0x0002_0000;
    /// No more data.
    pub const FIN: u32 = 0x0001_0000;
}
use tcp_flag::{CWR, FIN, PSH, RST, SYN, URG};

/// A packet of a flow.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Segment {
    /// Its IP header.
    pub ip: Ip,
    /// Its TCP header; `None`: UDP.
    pub tcp: Option<Tcp>,
    /// Bytes of both headers.
    pub header_bytes: u16,
    /// Bytes behind them.
    pub payload_bytes: u16,
}

impl Segment {
    /// Whether a packet that joined nothing is held for others to join it.
    #[inline]
    #[must_use]
    pub const fn may_be_held(&self) -> bool {
        self.payload_bytes > 0 && !self.ends_train()
    }

    const fn ends_train(&self) -> bool {
        match &self.tcp {
            Some(tcp) => tcp.word & (URG | PSH | RST | SYN | FIN) != 0,
            None => false,
        }
    }
}

/// What came of a packet's attempt to join.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Join {
    /// It joined; more may.
    Held,
    /// It joined, and no more may.
    Complete,
    /// It did not: the train is complete without it.
    Separate,
}

/// Packets of a flow that have become one.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Train {
    first: Segment,
    segments: u32,
    payload_bytes: u32,
    /// All have the same IPv4 identification.
    fixed_id: bool,
    /// Flags of later packets that the first one did not have: FIN and PSH.
    flags: u32,
}

impl Train {
    /// A packet by itself.
    #[must_use]
    pub const fn new(first: Segment) -> Self {
        Self { first, segments: 1, payload_bytes: first.payload_bytes as u32, fixed_id: false, flags: 0 }
    }

    /// Its packets; 1: nothing was merged.
    #[inline]
    #[must_use]
    pub const fn segments(&self) -> u32 {
        self.segments
    }

    /// Bytes of all payloads.
    #[must_use]
    pub const fn payload_bytes(&self) -> u32 {
        self.payload_bytes
    }

    /// The packet that it began with.
    #[must_use]
    pub const fn first(&self) -> &Segment {
        &self.first
    }

    /// FIN and PSH as far as a later packet brought them; the merged packet has them too.
    #[must_use]
    pub const fn later_flags(&self) -> u32 {
        self.flags
    }

    /// A packet of the same flow would join.
    ///
    /// # Panics
    /// If one is TCP and the other UDP: they are not of one flow.
    pub fn join(&mut self, next: &Segment) -> Join {
        let first = &self.first;
        let (length, whole) = (u32::from(next.payload_bytes), u32::from(first.payload_bytes));
        let mut differs = length == 0 || length > whole || self.ip_differs(&next.ip);
        differs |= u32::from(first.header_bytes) + self.payload_bytes + length >= GRO_MAX_BYTES;
        match (&first.tcp, &next.tcp) {
            (Some(first), Some(tcp)) => {
                differs |= tcp.word & CWR != 0
                    || (tcp.word ^ first.word) & !(CWR | FIN | PSH) != 0
                    || tcp.ack != first.ack
                    || tcp.options != first.options
                    || tcp.seq != first.seq.wrapping_add(self.payload_bytes);
            }
            (None, None) => {}
            _ => panic!("a flow is of one protocol"),
        }
        if differs {
            return Join::Separate;
        }
        // The second packet shows whether identifications count.
        self.fixed_id |=
            self.segments == 1 && matches!(next.ip.id, Some((id, true)) if Some((id, true)) == first.ip.id);
        self.segments += 1;
        self.payload_bytes += length;
        self.flags |= next.tcp.map_or(0, |tcp| tcp.word & (FIN | PSH));
        let full = next.tcp.is_none() && self.segments >= UDP_GRO_CNT_MAX;
        if length < whole || next.ends_train() || full { Join::Complete } else { Join::Held }
    }

    fn ip_differs(&self, next: &Ip) -> bool {
        let first = &self.first.ip;
        if next.hops != first.hops || next.class != first.class {
            return true;
        }
        match (first.id, next.id) {
            (Some((first, df)), Some((id, next_df))) => {
                let counted = id.wrapping_sub(first);
                let fixed = self.fixed_id || (self.segments == 1 && df && counted == 0);
                // At most 65535 packets, for each has a byte.
                df != next_df || counted != if fixed { 0 } else { self.segments as u16 }
            }
            (None, None) => false,
            _ => true,
        }
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;

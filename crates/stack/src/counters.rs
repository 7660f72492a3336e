//! The counters of a name space, with the names that `nstat` prints where the kernel has the same counter.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use napier_core::metric::{Kind, Metric, Unit};
use napier_sys::current;

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $field:ident $variant:ident $name:literal $($mark:ident)*;)*) => {
        /// Which counter.
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub(super) enum Counter { $($variant,)* }

        /// A reading of all counters of a name space. Each only grows; they are read one after the other, so sums of a
        /// running system may be off by the packets in flight.
        ///
        /// Names follow `nstat` (`net/ipv4/proc.c`, `net/ipv6/proc.c`) and `ip -s -s link`; those that Linux has no
        /// counter for say so.
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct StackCounters { $($(#[doc = $doc])* pub $field: u64,)* }

        impl StackCounters {
            /// Name and value of every counter, in a fixed order.
            ///
            /// ```
            /// use napier_runtime::socket::StackCounters;
            /// let names: Vec<_> = StackCounters::default().iter().map(|(name, _)| name).collect();
            /// assert!(names.contains(&"UdpRcvbufErrors"));
            /// ```
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($name, self.$field),)*].into_iter()
            }
        }

        /// What stands behind each counter, in the order of [`StackCounters::iter`]. The label is [`crate::NetNs::number`].
        pub static STACK_METRICS: [Metric; COUNT] = [$(Metric {
            name: concat!("napier_stack_", stringify!($field)),
            kind: kind(&[$(stringify!($mark)),*]),
            unit: unit(&[$(stringify!($mark)),*]),
            help: first_sentence(concat!($($doc),*)),
            labels: &["netns"],
        },)*];

        const COUNT: usize = [$(Counter::$variant,)*].len();

        impl Counters {
            pub(super) fn snapshot(&self) -> StackCounters {
                StackCounters { $($field: self.get(Counter::$variant),)* }
            }
        }
    };
}

/// What falls is marked in the table, and behind that what is bytes.
const fn kind(marks: &[&str]) -> Kind {
    if marks.is_empty() { Kind::Counter } else { Kind::Gauge }
}

const fn unit(marks: &[&str]) -> Unit {
    if marks.len() > 1 { Unit::Bytes } else { Unit::Count }
}

/// The first sentence of a comment, without its full stop.
const fn first_sentence(comment: &'static str) -> &'static str {
    let text = comment.trim_ascii();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'.' && (at + 1 == bytes.len() || bytes[at + 1] == b' ') {
            return text.split_at(at).0;
        }
        at += 1;
    }
    panic!("a comment on a counter is whole sentences")
}

counters! {
    /// Frames addressed to another station (`rx_otherhost_dropped`).
    rx_otherhost_dropped RxOtherhost "RxOtherhostDropped";
    /// Frames shorter than an Ethernet header (Linux: `SKB_DROP_REASON_DEV_HDR`, no counter).
    rx_length_errors RxLength "RxLengthErrors";
    /// Frames lost because handling them met a mistake of ours, a panic (Linux: no counter).
    rx_faults RxFaults "RxFaults";
    /// Frames of a protocol that is not handled, VLAN tagged ones among them (`rx_nohandler`).
    rx_nohandler RxNohandler "RxNohandler";
    /// IPv4 packets received, good or bad.
    ip_in_receives IpInReceives "IpInReceives";
    /// IPv4 packets with a bad version, length or header checksum.
    ip_in_hdr_errors IpInHdrErrors "IpInHdrErrors";
    /// IPv4 packets to an address that is not ours; broadcast and multicast datagrams are counted here.
    ip_in_addr_errors IpInAddrErrors "IpInAddrErrors";
    /// IPv4 packets of a protocol other than TCP, UDP and ICMP.
    ip_in_unknown_protos IpInUnknownProtos "IpInUnknownProtos";
    /// IPv4 packets handed to TCP, UDP or ICMP.
    ip_in_delivers IpInDelivers "IpInDelivers";
    /// IPv4 packets of which a fragment was the first to come, or another, that were given up: fragments overlapped, came too late
    /// or were too many.
    ip_reasm_fails IpReasmFails "IpReasmFails";
    /// IPv4 packets that were given up because the rest did not come in 30 s; also in `IpReasmFails`.
    ip_reasm_timeout IpReasmTimeout "IpReasmTimeout";
    /// IPv4 fragments received.
    ip_reasm_reqds IpReasmReqds "IpReasmReqds";
    /// IPv4 packets put together of fragments.
    ip_reasm_oks IpReasmOks "IpReasmOKs";
    /// IPv4 packets sent in fragments.
    ip_frag_oks IpFragOks "IpFragOKs";
    /// IPv4 packets that were to be sent in fragments, some of which the device did not take.
    ip_frag_fails IpFragFails "IpFragFails";
    /// IPv4 fragments sent.
    ip_frag_creates IpFragCreates "IpFragCreates";
    /// IPv4 packets shorter than their header says.
    ip_ext_in_truncated_pkts IpInTruncated "IpExtInTruncatedPkts";
    /// IPv4 packets with a bad header checksum; also in `IpInHdrErrors`.
    ip_ext_in_csum_errors IpInCsumErrors "IpExtInCsumErrors";
    /// IPv6 packets received, good or bad.
    ip6_in_receives Ip6InReceives "Ip6InReceives";
    /// IPv6 packets with a bad version or a bad extension header.
    ip6_in_hdr_errors Ip6InHdrErrors "Ip6InHdrErrors";
    /// IPv6 packets to an address that is not ours; multicast datagrams are counted here.
    ip6_in_addr_errors Ip6InAddrErrors "Ip6InAddrErrors";
    /// IPv6 packets whose next header is not TCP, UDP, ICMPv6 or hop-by-hop: routing and destination options too.
    ip6_in_unknown_protos Ip6InUnknownProtos "Ip6InUnknownProtos";
    /// IPv6 packets shorter than their header says.
    ip6_in_truncated_pkts Ip6InTruncated "Ip6InTruncatedPkts";
    /// IPv6 packets handed to TCP, UDP or ICMPv6.
    ip6_in_delivers Ip6InDelivers "Ip6InDelivers";
    /// As `IpReasmFails`, over IPv6.
    ip6_reasm_fails Ip6ReasmFails "Ip6ReasmFails";
    /// As `IpReasmTimeout`, over IPv6, after 60 s.
    ip6_reasm_timeout Ip6ReasmTimeout "Ip6ReasmTimeout";
    /// As `IpReasmReqds`, over IPv6.
    ip6_reasm_reqds Ip6ReasmReqds "Ip6ReasmReqds";
    /// As `IpReasmOKs`, over IPv6.
    ip6_reasm_oks Ip6ReasmOks "Ip6ReasmOKs";
    /// As `IpFragOKs`, over IPv6.
    ip6_frag_oks Ip6FragOks "Ip6FragOKs";
    /// As `IpFragFails`, over IPv6.
    ip6_frag_fails Ip6FragFails "Ip6FragFails";
    /// As `IpFragCreates`, over IPv6.
    ip6_frag_creates Ip6FragCreates "Ip6FragCreates";
    /// ICMP messages received.
    icmp_in_msgs IcmpInMsgs "IcmpInMsgs";
    /// ICMP messages that were malformed, had a bad checksum, or were about a packet that no socket has sent.
    icmp_in_errors IcmpInErrors "IcmpInErrors";
    /// ICMP messages with a bad checksum.
    icmp_in_csum_errors IcmpInCsumErrors "IcmpInCsumErrors";
    /// ICMP echo requests received, which are answered.
    icmp_in_echos IcmpInEchos "IcmpInEchos";
    /// ICMP echo replies sent.
    icmp_out_echo_reps IcmpOutEchoReps "IcmpOutEchoReps";
    /// ICMP messages sent that a datagram went to a port that no socket has.
    icmp_out_dest_unreachs IcmpOutDestUnreachs "IcmpOutDestUnreachs";
    /// ICMP messages sent that the rest of a packet did not come in time.
    icmp_out_time_excds IcmpOutTimeExcds "IcmpOutTimeExcds";
    /// ICMP and ICMPv6 errors not sent because there were too many in all.
    icmp_out_rate_limit_global IcmpOutLimitGlobal "IcmpOutRateLimitGlobal";
    /// ICMP and ICMPv6 errors not sent because there were too many to that host.
    icmp_out_rate_limit_host IcmpOutLimitHost "IcmpOutRateLimitHost";
    /// ICMP messages that a packet of ours could not be delivered, or was too long for a router; sockets are told.
    icmp_in_dest_unreachs IcmpInDestUnreachs "IcmpInDestUnreachs";
    /// ICMP messages that a packet of ours was on its way for too long; sockets are told.
    icmp_in_time_excds IcmpInTimeExcds "IcmpInTimeExcds";
    /// ICMP messages that a header of ours was wrong; sockets are told.
    icmp_in_parm_probs IcmpInParmProbs "IcmpInParmProbs";
    /// ICMP redirects received. None is followed: the gateway is the one that the program has set.
    icmp_in_redirects IcmpInRedirects "IcmpInRedirects";
    /// ICMP echo replies received; no socket here asks.
    icmp_in_echo_reps IcmpInEchoReps "IcmpInEchoReps";
    /// ICMP messages of other types, such as timestamps: dropped (Linux: `IcmpMsgInType`).
    icmp_in_others IcmpInOthers "IcmpInOthers";
    /// ICMPv6 messages received.
    icmp6_in_msgs Icmp6InMsgs "Icmp6InMsgs";
    /// ICMPv6 messages that were malformed, had a bad checksum, or were about a packet that no socket has sent.
    icmp6_in_errors Icmp6InErrors "Icmp6InErrors";
    /// ICMPv6 messages with a bad checksum.
    icmp6_in_csum_errors Icmp6InCsumErrors "Icmp6InCsumErrors";
    /// ICMPv6 echo requests received.
    icmp6_in_echos Icmp6InEchos "Icmp6InEchos";
    /// ICMPv6 echo replies sent.
    icmp6_out_echo_replies Icmp6OutEchoReplies "Icmp6OutEchoReplies";
    /// As `IcmpOutDestUnreachs`, for ICMPv6.
    icmp6_out_dest_unreachs Icmp6OutDestUnreachs "Icmp6OutDestUnreachs";
    /// As `IcmpOutTimeExcds`, for ICMPv6.
    icmp6_out_time_excds Icmp6OutTimeExcds "Icmp6OutTimeExcds";
    /// As `IcmpInDestUnreachs`, for ICMPv6.
    icmp6_in_dest_unreachs Icmp6InDestUnreachs "Icmp6InDestUnreachs";
    /// ICMPv6 messages that a packet of ours was too long for a router.
    icmp6_in_pkt_too_bigs Icmp6InPktTooBigs "Icmp6InPktTooBigs";
    /// As `IcmpInTimeExcds`, for ICMPv6.
    icmp6_in_time_excds Icmp6InTimeExcds "Icmp6InTimeExcds";
    /// As `IcmpInParmProbs`, for ICMPv6.
    icmp6_in_parm_problems Icmp6InParmProblems "Icmp6InParmProblems";
    /// As `IcmpInEchoReps`, for ICMPv6.
    icmp6_in_echo_replies Icmp6InEchoReplies "Icmp6InEchoReplies";
    /// Router advertisements received. They tell where a known router is, and change no route.
    icmp6_in_router_advertisements Icmp6InRouterAdverts "Icmp6InRouterAdvertisements";
    /// As `IcmpInRedirects`, for ICMPv6.
    icmp6_in_redirects Icmp6InRedirects "Icmp6InRedirects";
    /// As `IcmpInOthers`, for ICMPv6: router solicitations, multicast listener messages.
    icmp6_in_others Icmp6InOthers "Icmp6InOthers";
    /// Neighbour solicitations received.
    icmp6_in_neighbor_solicits Icmp6InNeighborSolicits "Icmp6InNeighborSolicits";
    /// Neighbour advertisements received.
    icmp6_in_neighbor_advertisements Icmp6InNeighborAdverts "Icmp6InNeighborAdvertisements";
    /// Neighbour advertisements sent.
    icmp6_out_neighbor_advertisements Icmp6OutNeighborAdverts "Icmp6OutNeighborAdvertisements";
    /// UDP datagrams put into the queue of a socket. Linux counts them when they are read.
    udp_in_datagrams UdpInDatagrams "UdpInDatagrams";
    /// UDP datagrams to a port that no socket has. ICMP messages answer them.
    udp_no_ports UdpNoPorts "UdpNoPorts";
    /// UDP datagrams dropped for any other reason (length, checksum, full queue).
    udp_in_errors UdpInErrors "UdpInErrors";
    /// UDP datagrams sent.
    udp_out_datagrams UdpOutDatagrams "UdpOutDatagrams";
    /// UDP datagrams dropped because the receive queue was full; also in `UdpInErrors`.
    udp_rcvbuf_errors UdpRcvbufErrors "UdpRcvbufErrors";
    /// UDP datagrams not sent because the transmit ring was full.
    udp_sndbuf_errors UdpSndbufErrors "UdpSndbufErrors";
    /// UDP datagrams, over IPv4 or IPv6, that were unread when their socket was closed (Linux: no counter).
    udp_close_discards UdpCloseDiscards "UdpCloseDiscards";
    /// UDP datagrams with a bad checksum; also in `UdpInErrors`.
    udp_in_csum_errors UdpInCsumErrors "UdpInCsumErrors";
    /// As `UdpInDatagrams`, over IPv6.
    udp6_in_datagrams Udp6InDatagrams "Udp6InDatagrams";
    /// As `UdpNoPorts`, over IPv6.
    udp6_no_ports Udp6NoPorts "Udp6NoPorts";
    /// As `UdpInErrors`, over IPv6.
    udp6_in_errors Udp6InErrors "Udp6InErrors";
    /// As `UdpOutDatagrams`, over IPv6.
    udp6_out_datagrams Udp6OutDatagrams "Udp6OutDatagrams";
    /// As `UdpRcvbufErrors`, over IPv6.
    udp6_rcvbuf_errors Udp6RcvbufErrors "Udp6RcvbufErrors";
    /// As `UdpSndbufErrors`, over IPv6.
    udp6_sndbuf_errors Udp6SndbufErrors "Udp6SndbufErrors";
    /// As `UdpInCsumErrors`, over IPv6; a zero checksum counts here (RFC 8200 section 8.1).
    udp6_in_csum_errors Udp6InCsumErrors "Udp6InCsumErrors";
    /// TCP segments received, good or bad.
    tcp_in_segs TcpInSegs "TcpInSegs";
    /// TCP segments with a bad header or checksum.
    tcp_in_errs TcpInErrs "TcpInErrs";
    /// TCP segments with a bad checksum; also in `TcpInErrs`.
    tcp_in_csum_errors TcpInCsumErrors "TcpInCsumErrors";
    /// TCP segments handed to a device, retransmitted ones not counted, resets included.
    tcp_out_segs TcpOutSegs "TcpOutSegs";
    /// TCP segments that carry something that was sent before.
    tcp_retrans_segs TcpRetransSegs "TcpRetransSegs";
    /// TCP resets sent.
    tcp_out_rsts TcpOutRsts "TcpOutRsts";
    /// Connections that a program asked for.
    tcp_active_opens TcpActiveOpens "TcpActiveOpens";
    /// Connections that a peer asked for.
    tcp_passive_opens TcpPassiveOpens "TcpPassiveOpens";
    /// Connections that ended before they were established.
    tcp_attempt_fails TcpAttemptFails "TcpAttemptFails";
    /// Established connections that ended at once, without an exchange of FINs.
    tcp_estab_resets TcpEstabResets "TcpEstabResets";
    /// Connections that are established now, or that only the peer has closed. It falls too.
    tcp_curr_estab TcpCurrEstab "TcpCurrEstab" falls;
    /// Connections that a listener could not take because its backlog was full.
    tcp_ext_listen_overflows ListenOverflows "TcpExtListenOverflows";
    /// SYNs, and last segments of handshakes, that a listener dropped for whatever reason.
    tcp_ext_listen_drops ListenDrops "TcpExtListenDrops";
    /// Connections that waited in TIME-WAIT (counted when that begins).
    tcp_ext_tw TcpTimeWaits "TcpExtTW";
    /// Connections in TIME-WAIT that gave way to a newer one between the same ends.
    tcp_ext_tw_recycled TcpTimeWaitRecycled "TcpExtTWRecycled";
    /// Connections in TIME-WAIT that were given up because there were too many (Linux: those that begin to wait).
    tcp_ext_tcp_time_wait_overflow TcpTimeWaitOverflow "TcpExtTCPTimeWaitOverflow";
    /// Bytes that buffers of TCP connections have now (`TCP: mem` of `/proc/net/sockstat`, there in pages).
    tcp_mem TcpMem "TcpMem" falls bytes;
    /// Times that memory for TCP became short.
    tcp_ext_tcp_memory_pressures TcpMemoryPressures "TcpExtTCPMemoryPressures";
    /// Milliseconds for which memory for TCP was short, counted when that is over.
    tcp_ext_tcp_memory_pressures_chrono TcpMemoryPressuresChrono "TcpExtTCPMemoryPressuresChrono";
    /// Segments dropped because there was no memory for what they carry; they are sent again.
    tcp_ext_tcp_rcv_q_drop TcpRcvQDrop "TcpExtTCPRcvQDrop";
    /// The same of segments behind a hole.
    tcp_ext_tcp_ofo_drop TcpOfoDrop "TcpExtTCPOFODrop";
    /// Times that a program wrote less than it wanted because memory for TCP was short (Linux: no counter).
    tcp_send_mem_waits TcpSendMemWaits "TcpSendMemWaits";
    /// Connections reset because they were closed with unread data, or with a linger time of 0.
    tcp_ext_tcp_abort_on_close TcpAbortOnClose "TcpExtTCPAbortOnClose";
    /// Connections reset because data came after they were closed.
    tcp_ext_tcp_abort_on_data TcpAbortOnData "TcpExtTCPAbortOnData";
    /// Connections given up because the peer was silent for too long.
    tcp_ext_tcp_abort_on_timeout TcpAbortOnTimeout "TcpExtTCPAbortOnTimeout";
    /// Connections reset because too many were closed by programs and not by their peers.
    tcp_ext_tcp_abort_on_memory TcpAbortOnMemory "TcpExtTCPAbortOnMemory";
    /// Connections given up because the peer of their device was gone (Linux: no counter).
    tcp_abort_on_link TcpAbortOnLink "TcpAbortOnLink";
    /// Handshakes given up because others began and a listener had too many (Linux: no counter).
    tcp_embryos_evicted TcpEmbryosEvicted "TcpEmbryosEvicted";
    /// Challenge ACKs sent (RFC 5961).
    tcp_ext_tcp_challenge_ack TcpChallengeAcks "TcpExtTCPChallengeACK";
    /// SYNs for a connection that is there already, answered or not.
    tcp_ext_tcp_syn_challenge TcpSynChallenges "TcpExtTCPSYNChallenge";
    /// Challenge ACKs not sent because there were too many, on the connection or in all.
    tcp_ext_tcp_ack_skipped_challenge TcpChallengesSkipped "TcpExtTCPACKSkippedChallenge";
    /// Connections given up because the protocol machine met a case that it does not know (Linux: no counter).
    tcp_faults TcpFaults "TcpFaults";
    /// Segments that waited for the program which held their connection (Linux: no counter).
    tcp_backlogged TcpBacklogged "TcpBacklogged";
    /// Segments dropped because too many waited for the program which held their connection.
    tcp_ext_tcp_backlog_drop TcpBacklogDrop "TcpExtTCPBacklogDrop";
    /// TCP segments that waited because the transmit ring was full (Linux: no counter).
    tcp_tx_waits TcpTxWaits "TcpTxWaits";
    /// TCP acknowledgements that gave way to a newer one while they waited for room in the transmit ring (Linux: no
    /// counter).
    tcp_tx_acks_replaced TcpTxAcksReplaced "TcpTxAcksReplaced";
    /// TCP segments lost on their way out because the device was down, or its ring full and too many waited; they are sent
    /// again.
    tcp_tx_drops TcpTxDrops "TcpTxDrops";
    /// TCP segments lost on their way out because no device leads to the peer any more (`IpOutNoRoutes`).
    ip_out_no_routes IpOutNoRoutes "IpOutNoRoutes";
    /// ICMP errors about TCP segments that are not under way: old, or forged.
    tcp_ext_out_of_window_icmps OutOfWindowIcmps "TcpExtOutOfWindowIcmps";
    /// Times that a router's word lowered what packets to a destination may have: its path MTU (Linux: no counter).
    path_mtu_lowered PathMtuLowered "PathMtuLowered";
    /// Times that a connection takes smaller packets because full ones were not answered (Linux: no counter).
    tcp_black_holes TcpBlackHoles "TcpBlackHoles";
    /// ARP packets received.
    arp_in_pkts ArpInPkts "ArpInPkts";
    /// ARP packets that were malformed, or questions for others.
    arp_in_ignored ArpInIgnored "ArpInIgnored";
    /// ARP replies sent.
    arp_out_replies ArpOutReplies "ArpOutReplies";
    /// Questions for a neighbour sent: ARP requests and neighbour solicitations (`/proc/net/stat/arp_cache` has none).
    neigh_probes NeighProbes "NeighProbes";
    /// Packets dropped while their neighbour was unknown (`unresolved_discards`).
    neigh_unresolved_discards NeighUnresolvedDiscards "NeighUnresolvedDiscards";
    /// Neighbours that asked for us and were not learnt, because too many came at once (`table_fulls`).
    neigh_table_fulls NeighTableFulls "NeighTableFulls";
    /// Learnt neighbours that were forgotten because the table was full (`forced_gc_runs`).
    neigh_forced_gc_runs NeighForcedGcRuns "NeighForcedGcRuns";
    /// Learnt neighbours that did not answer and were forgotten; the next packet asks for them anew (`res_failed`).
    neigh_res_failed NeighResFailed "NeighResFailed";
    /// Changes of a neighbour's Ethernet address that were ignored: several stations answer for it, or too many changes came
    /// at once (Linux: no counter).
    neigh_changes_ignored NeighChangesIgnored "NeighChangesIgnored";
    /// ARP, neighbour discovery and echo answers lost because the transmit ring was full or the device down.
    reply_tx_drops ReplyTxDrops "ReplyTxDrops";
}

/// Threads that count share this many sets of cells.
const SETS: usize = 8;

/// The live counters, in several sets so that threads do not fight for cache lines. A reading is the sum.
pub(super) struct Counters([Set; SETS]);

#[repr(align(128))]
struct Set([AtomicU64; COUNT]);

impl Counters {
    pub(super) fn new() -> Self {
        Self([const { Set([const { AtomicU64::new(0) }; COUNT]) }; SETS])
    }

    /// Adds to a counter from any thread.
    #[inline]
    pub(super) fn add(&self, counter: Counter, n: u64) {
        let set = current::number() as usize % SETS;
        // Relaxed: a counter orders nothing.
        self.0[set].0[counter as usize].fetch_add(n, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Takes one off a counter that also falls.
    pub(super) fn uncount(&self, counter: Counter) {
        self.take_off(counter, 1);
    }

    /// Takes `n` off a counter that also falls.
    pub(super) fn take_off(&self, counter: Counter, n: u64) {
        self.add(counter, n.wrapping_neg());
    }

    fn get(&self, counter: Counter) -> u64 {
        // Relaxed: see `add`.
        // Wrapping: what falls is taken off in one set and may have been added in another.
        self.0.iter().fold(0, |sum, set| sum.wrapping_add(set.0[counter as usize].load(Ordering::Relaxed)))
    }
}

impl fmt::Display for StackCounters {
    /// One line per counter that is not 0, as `nstat` prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.iter().filter(|(_, value)| *value != 0) {
            writeln!(f, "{name:<32}{value}")?;
        }
        Ok(())
    }
}

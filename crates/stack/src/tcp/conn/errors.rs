//! What routers and hosts say of a connection's segments, and what retransmissions without an answer say of its path. The rules
//! are in [`napier_core::icmp`].

use napier_core::icmp::{OnConnection, lowered};
use napier_core::time::Instant;
use napier_sys::clock::Clock;
use smoltcp::socket::tcp::State;

use crate::counters::Counter;
use crate::errno::of_icmp;
use crate::tables::Tables;
use crate::tables::path_mtu::PathMtu;
use crate::tcp::conn::Core;
use crate::tcp::conn::note::IcmpReport;
use crate::tcp::conn::owned::OwnedConn;
use crate::tcp::rules::Cause;
use crate::wire::quote::About;
use crate::wire::{IPV4_LEN, IPV6_LEN, TCP_LEN};

/// Times that smoltcp is asked to send before it comes to what it has to send again.
const TURNS_MAX: u32 = 4;

impl OwnedConn<'_> {
    /// A message about a segment of this connection has come.
    pub(super) fn told(&mut self, report: &IcmpReport) {
        if self.dead || !self.is_under_way(report.seq) {
            return self.tables().counters.count(Counter::OutOfWindowIcmps);
        }
        let (tables, now) = (self.tables(), Clock.now());
        let connecting = matches!(self.state, State::SynSent | State::SynReceived);
        match report.about {
            About::TooBig(_) if connecting => {}
            About::TooBig(mtu) => self.too_big(mtu, report.packet_bytes, now),
            About::Error(told) => match OnConnection::of(connecting) {
                OnConnection::GoesOn => self.soft = (of_icmp(told.error), now),
                OnConnection::Ends => {
                    if self.embryo.is_some() {
                        tables.counters.count(Counter::ListenDrops);
                    }
                    (self.error, self.dead) = (of_icmp(told.error), true);
                }
            },
        }
        self.settle(now, Cause::Segment);
    }

    /// A router's next link takes only packets of `mtu` bytes.
    fn too_big(&mut self, mtu: u32, packet_bytes: u32, now: Instant) {
        let tables = self.tables();
        self.outlet.route.refresh_at(tables, now);
        let (_, peer) = self.outlet.route.ends();
        let before = u32::try_from(self.outlet.route.mtu()).unwrap_or(u32::MAX);
        if let Some(bytes) = lowered(peer.addr.is_v4(), mtu, packet_bytes, before) {
            let path = PathMtu::learnt(bytes, now);
            // Others that send there need not hear it as well. If it is left to another thread, this one knows already.
            tables.lower_path(peer.addr, path);
            self.outlet.route.lower(tables, path);
        }
        self.send_again_shorter(tables, now);
    }
}

impl Core {
    /// Whether a segment with this number may be on its way (RFC 5927 section 4.1).
    fn is_under_way(&self, seq: u32) -> bool {
        let (Some(first), Some(sent_to)) = (self.outlet.first(), self.outlet.sent_to()) else { return false };
        let unacknowledged = match self.state {
            State::SynSent | State::SynReceived => first,
            // What was written and is not there any more was acknowledged, and the SYN before it.
            _ => {
                let acknowledged = self.written.wrapping_sub(self.socket().send_queue() as u32);
                first.wrapping_add(1).wrapping_add(acknowledged)
            }
        };
        seq.wrapping_sub(unacknowledged).cast_signed() >= 0 && sent_to.wrapping_sub(seq).cast_signed() >= 0
    }

    /// What the timer wants to be sent; a path on which full packets get lost without a word gets shorter ones.
    pub(super) fn drive_by_timer(&mut self, tables: &Tables, now: Instant) {
        self.outlet.again = None;
        self.drive(tables, now, None);
        let Some((seq, bytes)) = self.outlet.again else { return };
        let v4 = self.outlet.route.ends().1.addr.is_v4();
        let bytes = u32::try_from(bytes).expect("at most 64 KiB");
        if let Some(mtu) = self.hole.sent_again(v4, seq, bytes) {
            tables.counters.count(Counter::TcpBlackHoles);
            self.outlet.route.lower(tables, PathMtu::learnt(mtu, now));
            self.send_again_shorter(tables, now);
        }
    }

    /// If segments are under way that the path does not take, sends from the first on again, in shorter ones.
    ///
    /// smoltcp does that when its retransmission timer is over. Its clock is ours, so it is over now: as after a time-out the
    /// window opens anew, for what was under way is lost (RFC 1191 section 6.4).
    fn send_again_shorter(&mut self, tables: &Tables, now: Instant) {
        let ip_len = if self.outlet.route.ends().1.addr.is_v4() { IPV4_LEN } else { IPV6_LEN };
        let mss = self.outlet.route.mtu().saturating_sub(ip_len + TCP_LEN);
        if !self.outlet.shorten(mss) || self.dead || self.socket().send_queue() == 0 {
            return;
        }
        self.outlet.again = None;
        for _ in 0..TURNS_MAX {
            let Some(at) = self.next_poll(tables, now).instant() else { return };
            self.with_poll(tables, at.max(now), |poll| poll.send());
            if self.dead || self.outlet.again.is_some() || self.outlet.is_stuck() {
                return;
            }
        }
    }

    /// Why a connection ends by silence, if a message has said so since its peer was heard last. Source:
    /// `net/ipv4/tcp_timer.c tcp_write_err`.
    pub(super) fn why_silent(&self, cause: Cause) -> Option<i32> {
        let (error, at) = self.soft;
        (cause == Cause::Silence && error != 0 && at >= self.heard).then_some(error)
    }
}

//! What routers and hosts say of a connection's segments, and what retransmissions without an answer say of its path. The rules
//! are in [`napier_core::icmp`].

use napier_core::icmp::{OnConnection, lowered};
use napier_core::tcp::seq::Seq;
use napier_core::time::Instant;
use napier_sys::clock::Clock;

use crate::counters::Counter;
use crate::errno::of_icmp;
use crate::tables::Tables;
use crate::tables::path_mtu::PathMtu;
use crate::tcp::conn::Core;
use crate::tcp::conn::note::IcmpReport;
use crate::tcp::conn::owned::OwnedConn;
use crate::tcp::machine::TcpState;
use crate::tcp::rules::Cause;
use crate::wire::quote::About;

impl OwnedConn<'_> {
    /// A message about a segment of this connection has come.
    pub(super) fn told(&mut self, report: &IcmpReport) {
        if self.dead || !self.is_under_way(report.seq) {
            return self.tables().counters.count(Counter::OutOfWindowIcmps);
        }
        let (tables, now) = (self.tables(), Clock.now());
        let connecting = matches!(self.state, TcpState::SynSent | TcpState::SynReceived);
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
        // What is under way and longer goes again at once.
        self.drive(tables, now);
    }
}

impl Core {
    /// Whether a segment with this number may be on its way (RFC 5927 section 4.1).
    fn is_under_way(&self, seq: u32) -> bool {
        let (una, next) = self.machine.sender.under_way();
        self.state != TcpState::Closed && Seq(seq).is_within(una, next)
    }

    /// What the timer wants to be sent; a path on which full packets get lost without a word gets shorter ones.
    pub(super) fn drive_by_timer(&mut self, tables: &Tables, now: Instant) {
        self.outlet.again = None;
        self.drive(tables, now);
        let Some((seq, bytes)) = self.outlet.again else { return };
        let v4 = self.outlet.route.ends().1.addr.is_v4();
        if let Some(mtu) = self.hole.sent_again(v4, seq, bytes) {
            tables.counters.count(Counter::TcpBlackHoles);
            self.outlet.route.lower(tables, PathMtu::learnt(mtu, now));
            self.drive(tables, now);
        }
    }

    /// Why a connection ends by silence, if a message has said so since its peer was heard last. Source:
    /// `net/ipv4/tcp_timer.c tcp_write_err`.
    pub(super) fn why_silent(&self, cause: Cause) -> Option<i32> {
        let (error, at) = self.soft;
        (cause == Cause::Silence && error != 0 && at >= self.heard).then_some(error)
    }
}

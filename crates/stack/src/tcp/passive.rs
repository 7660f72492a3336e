//! The passive side: a SYN for a listener makes a connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::sockopt::{SocketBusy, record_napi_id};
use napier_core::tcp::seq::Seq;

use super::Tcp;
use super::by_age::LimitKind;
use super::conn::{Arrived, Conn};
use super::flow::Flow;
use super::listener::ListenerInner;
use super::machine::{Inbound, TcpMachine};
use super::outlet::route::Route;
use super::rules::Cause;
use crate::counters::Counter;
use crate::options;
use crate::tables::path::Destination;

impl ListenerInner<Conn> {
    /// A SYN that no connection wants. `first`: our first number, where one with these ends has just gone.
    #[cold]
    pub(super) fn open(self: &Arc<Self>, tcp: &Tcp, arrived: &Arrived<'_>, first: Option<Seq>) {
        let tables = &*tcp.tables;
        let Arrived { napi_id, ifindex, now, segment, packet } = *arrived;
        let Some(syn) = Inbound::of_packet(packet) else { return };
        if self.is_full() {
            tables.counters.count(Counter::ListenOverflows);
            return tables.counters.count(Counter::ListenDrops);
        }
        // A flood must not keep others out: who has not answered for longest goes.
        if self.embryos.count() >= self.limits.syns
            && !self.embryos.end_oldest(LimitKind::Embryo, |conn| conn.give_way(tcp, LimitKind::Embryo))
        {
            return tables.counters.count(Counter::ListenDrops);
        }
        // Relaxed: the id is a hint that orders nothing.
        let current = self.napi_id.load(Ordering::Relaxed);
        self.napi_id.store(record_napi_id(current, napi_id, false), Ordering::Relaxed);
        let flow = Flow { local: segment.dst, peer: segment.src };
        let scope = if flow.peer.addr.is_link_local_v6() { ifindex } else { 0 };
        let route = Route::new(tables, flow.local, Destination { dst: flow.peer, scope });
        let busy = SocketBusy { napi_id, ..options::unpack(self.busy.load(Ordering::Relaxed)) };
        let settings = &self.limits.settings;
        let mut numbers = tcp.numbers(&flow, now);
        numbers.first = first.unwrap_or(numbers.first);
        let machine = TcpMachine::accept(now, &settings.beginning(numbers, &route), &syn);
        let conn = Arc::new(Conn::new(tcp, flow, route, machine, &busy));
        self.embryos.counted();
        let mut core = conn.try_own(tcp).expect("no other thread knows it yet");
        core.adopt(self.clone(), settings.patience, now);
        // With the connection in hand: the answer to our answer may come before we are done.
        let alone = tcp.flows.insert(&conn);
        if alone {
            core.drive(tables, now);
        } else {
            core.dead = true;
        }
        core.settle(now, Cause::Segment);
        drop(core);
        self.embryos.enter(&conn, LimitKind::Embryo);
    }
}

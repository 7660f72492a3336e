//! TCP: smoltcp's protocol machine, one socket per connection, behind tables, timers and sockets of our own.
//!
//! A segment is parsed and verified by the pass (`../wire`), finds its connection in [`flows`] or its listener in the
//! snapshot, and goes to smoltcp alone with that connection's socket (`workspace`), so that what it costs does not depend
//! on how many there are. What smoltcp wants to send goes straight into a transmit slot (`outlet`). Programs do the same
//! from their own threads. Deadlines stand in a wheel (`wheel`).
//!
//! # What is not here
//! Selective acknowledgements on the sending side, timestamps, urgent data, Fast Open, SYN cookies,
//! `TCP_CORK`, lingering closes (only a linger time of 0). What smoltcp drops within a connection (segments outside of the
//! window, a 17th hole) is not counted.
//!
//! # Files
//! `ahead` puts the segments of a poll together; `challenge` meets a SYN or RST for a connection that is there; `congestion` has what bounds what is under way; `losses` how acknowledgements are put to smoltcp, `conn` is a connection, how it settles and what others say of its segments, `calls` what programs do to it, `rules` what follows from what, `timing` when smoltcp does not do as it is, `limits` how many there may be, `listener`
//! the passive side, `connect` the active side; `accept` and `stream` are the public types, `builder` makes them.

mod accept;
pub(super) mod ahead;
mod builder;
mod calls;
mod challenge;
mod congestion;
mod conn;
mod connect;
mod crossing;
mod flows;
mod limits;
mod listener;
mod losses;
mod outlet;
mod rules;
mod settings;
mod stop;
mod stream;
mod timing;
mod wheel;
mod workspace;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::{Arc, Weak};

use napier_core::time::Instant;
use napier_ring::Owned;
use smoltcp::iface::SocketSet;

pub use accept::TcpListener;
pub use builder::{TcpListenerBuilder, TcpStreamBuilder};
pub use congestion::CongestionControl;
pub(super) use listener::ListenerInner;
pub use stream::TcpStream;

use super::addr::End;
use super::counters::Counter;
use super::netns::Inner;
use super::pass::RxPass;
use super::wire::{ETH_LEN, Segment, flag};
use crate::seams::PacketClass;
use challenge::Challenges;
pub(crate) use conn::Report;
use conn::{Arrived, Conn, Input, Note};
use flows::{Flow, Flows};
use limits::Orphans;
use outlet::ResetSink;
use wheel::Wheel;
use workspace::Poll;

/// Connections in TIME-WAIT that keep their memory; beyond this the oldest is given up.
const TIME_WAITS_MAX: usize = 1024;

/// The connections of one name space.
pub(crate) struct Tcp {
    flows: Flows,
    wheel: Arc<Wheel>,
    /// Drawn by the operating system: what is made with it cannot be guessed.
    keys: RandomState,
    /// Connections in TIME-WAIT, oldest first; new ones are left for whoever looks after them.
    time_waits: Owned<VecDeque<Weak<Conn>>, Weak<Conn>>,
    challenges: Challenges,
    orphans: Orphans,
}

impl Tcp {
    /// The connections of `ns`, made and their timer's thread started with the first call.
    ///
    /// # Errors
    /// EAGAIN if no thread can be started, ESHUTDOWN if the engine has stopped.
    fn of(ns: &Arc<Inner>) -> io::Result<&Self> {
        let writer = ns.lock();
        ns.check_running()?;
        if ns.tcp.get().is_none() {
            let keys = RandomState::new();
            let wheel = Arc::new(Wheel::new());
            let (turned, of) = (wheel.clone(), Arc::downgrade(ns));
            std::thread::Builder::new().name("napier-tcp".to_owned()).spawn(move || {
                if let Some(ns) = of.upgrade() {
                    ns.host.thread_begins("tcp timer");
                }
                turned.turn(&of);
            })?;
            let flows = Flows::new(keys.hash_one("flows"));
            let tcp = Self {
                flows,
                wheel,
                keys,
                time_waits: Owned::new(VecDeque::new()),
                challenges: Challenges::new(),
                orphans: Orphans::new(),
            };
            assert!(ns.tcp.set(tcp).is_ok(), "made once, under the writers' lock");
        }
        drop(writer);
        Ok(ns.tcp.get().expect("just made"))
    }

    /// What the first sequence number of a connection is made of (RFC 6528).
    fn secret(&self, flow: &Flow, now: Instant) -> u64 {
        let (local, peer) = (flow.local, flow.peer);
        self.keys.hash_one((local.addr, local.port, peer.addr, peer.port, now.ns))
    }

    /// A number that nobody outside can know, the same for the same `of`.
    fn draw(&self, of: u64) -> u64 {
        self.keys.hash_one(of)
    }

    /// A connection waits out its end: the oldest that does so may have to make room.
    fn time_wait_begins(&self, ns: &Inner, conn: &Arc<Conn>) {
        let Some(waiting) = self.time_waits.post(Arc::downgrade(conn)) else { return };
        let mut ended = Vec::new();
        waiting.line_up(|waiting| {
            // What has ended holds memory as long as it stands here.
            while waiting.front().is_some_and(|oldest| oldest.strong_count() == 0) {
                waiting.pop_front();
            }
            while waiting.len() > TIME_WAITS_MAX {
                ended.extend(waiting.pop_front());
            }
        });
        for oldest in ended.iter().filter_map(Weak::upgrade) {
            oldest.leave(ns, Note::Recycle);
        }
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.wheel.stop();
    }
}

/// Takes one received segment. `frame` is the whole frame; the IP packet in it may be longer than the MTU.
#[inline]
pub(super) fn receive(pass: &RxPass<'_>, now: Instant, frame: &[u8], segment: &Segment) {
    let (ns, snapshot) = (pass.ns, pass.snapshot);
    let (src, dst) = (segment.src.addr, segment.dst.addr);
    if !snapshot.is_local(dst) || src.is_any() || src.is_group() || snapshot.is_local(src) {
        return ns.counters.count(if dst.is_v4() { Counter::IpInAddrErrors } else { Counter::Ip6InAddrErrors });
    }
    let packet = &frame[ETH_LEN..segment.end];
    let Some(tcp) = ns.tcp.get() else { return refuse(pass, now, frame, segment) };
    let flow = Flow { local: segment.dst, peer: segment.src };
    let arrived = Arrived { napi_id: pass.napi_id(), ifindex: pass.interface.ifindex, now, segment, packet };
    if let Some(Input::Taken) = tcp.flows.find(&flow, |conn| conn.input(ns, &arrived)) {
        return;
    }
    if segment.flags & (flag::SYN | flag::ACK | flag::RST) == flag::SYN
        && let Some(listener) = snapshot.listeners.find(segment.src, segment.dst, pass.napi_id())
    {
        return listener.open(ns, tcp, &arrived);
    }
    refuse(pass, now, frame, segment);
}

/// Takes a message about a segment that was sent from `local` to `peer`. False: no connection has these ends.
#[cold]
pub(super) fn told(ns: &Inner, local: End, peer: End, report: &Report) -> bool {
    let Some(tcp) = ns.tcp.get() else { return false };
    tcp.flows.find(&Flow { local, peer }, |conn| conn.hear(ns, report)).is_some()
}

/// A SYN that was left to the owner of a connection which has ended since.
#[cold]
fn reopen(ns: &Inner, arrived: &Arrived<'_>) {
    let snapshot = ns.snapshot.load();
    let Segment { src, dst, .. } = *arrived.segment;
    if let (Some(tcp), Some(listener)) = (ns.tcp.get(), snapshot.listeners.find(src, dst, arrived.napi_id)) {
        listener.open(ns, tcp, arrived);
    }
}

/// Nobody wants the segment: its sender hears so.
#[cold]
fn refuse(pass: &RxPass<'_>, now: Instant, frame: &[u8], segment: &Segment) {
    // Connections of an engine that stops end without a word.
    if segment.flags & flag::RST != 0 || pass.ns.is_stopped() {
        return;
    }
    let interface = pass.interface;
    let (src, dst) = (segment.dst.socket_addr(0), segment.src.socket_addr(0));
    let mac = frame[6..12].try_into().expect("a whole Ethernet header");
    let class = PacketClass::of_flow(interface.egress.rss_hash(&src, &dst));
    let mut sink = ResetSink { ns: pass.ns, interface, mac, class };
    let mut nobody = SocketSet::new(Vec::new());
    let mut poll = Poll { now, mtu: interface.mtu, sockets: &mut nobody, sink: &mut sink };
    if poll.receive(&frame[ETH_LEN..segment.end]).is_err() {
        pass.ns.counters.count(Counter::TcpFaults);
    }
}

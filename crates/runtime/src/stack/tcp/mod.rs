//! TCP: smoltcp's protocol machine, one socket per connection, behind tables, timers and sockets of our own.
//!
//! A segment is parsed and verified by the pass (`../wire`), finds its connection in [`flows`] or its listener in the
//! snapshot, and goes to smoltcp alone with that connection's socket (`workspace`), so that what it costs does not depend
//! on how many there are. What smoltcp wants to send goes straight into a transmit slot (`outlet`). Programs do the same
//! from their own threads. Deadlines stand in a wheel (`wheel`).
//!
//! # What is not here
//! Congestion control (a destination is on the link, and the peer's window bounds what is in flight), selective
//! acknowledgements on the sending side, timestamps, urgent data, Fast Open, SYN cookies, path MTU discovery,
//! `TCP_CORK`, lingering closes (only a linger time of 0). What smoltcp drops within a connection (segments outside of the
//! window, a 17th hole) is not counted.
//!
//! # Files
//! `ahead` puts the segments of a poll together; `conn` is a connection and how it settles, `calls` what programs do to it, `rules` what follows from what, `listener`
//! the passive side, `connect` the active side; `accept` and `stream` are the public types, `builder` makes them.

mod accept;
pub(super) mod ahead;
mod builder;
mod calls;
mod conn;
mod connect;
mod flows;
mod listener;
mod outlet;
mod rules;
mod stream;
mod wheel;
mod workspace;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use napier_core::time::Instant;
use smoltcp::iface::SocketSet;

pub use accept::TcpListener;
pub use builder::{TcpListenerBuilder, TcpStreamBuilder};
pub(super) use listener::ListenerInner;
pub use stream::TcpStream;

use super::counters::Counter;
use super::netns::Inner;
use super::pass::RxPass;
use super::wire::{ETH_LEN, Segment, flag};
use crate::tx::PacketClass;
use conn::{Conn, Input};
use flows::{Flow, Flows};
use listener::Arrival;
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
    time_waits: Mutex<VecDeque<Weak<Conn>>>,
}

impl Tcp {
    /// The connections of `ns`, made and their timer's thread started with the first call.
    ///
    /// # Errors
    /// EAGAIN if no thread can be started.
    fn of(ns: &Arc<Inner>) -> io::Result<&Self> {
        let writer = ns.lock();
        if ns.tcp.get().is_none() {
            let keys = RandomState::new();
            let wheel = Arc::new(Wheel::new(ns.host.clock().now()));
            let (turned, of) = (wheel.clone(), Arc::downgrade(ns));
            std::thread::Builder::new().name("napier-tcp".to_owned()).spawn(move || {
                if let Some(ns) = of.upgrade() {
                    ns.host.thread_begins("tcp timer");
                }
                turned.turn(&of);
            })?;
            let flows = Flows::new(keys.hash_one("flows"));
            let tcp = Self { flows, wheel, keys, time_waits: Mutex::default() };
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

    /// A connection waits out its end: the oldest that does so may have to make room.
    fn time_wait_begins(&self, ns: &Inner, conn: &Arc<Conn>) {
        let oldest = {
            let mut waiting = self.time_waits.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push_back(Arc::downgrade(conn));
            if waiting.len() > TIME_WAITS_MAX { waiting.pop_front() } else { None }
        };
        if let Some(oldest) = oldest.and_then(|weak| weak.upgrade()) {
            oldest.recycle(ns);
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
    let input = |conn: &Arc<Conn>| conn.input(ns, pass.napi_id(), now, segment.flags, packet);
    if let Some(Input::Taken) = tcp.flows.find(&flow, input) {
        return;
    }
    if segment.flags & (flag::SYN | flag::ACK | flag::RST) == flag::SYN
        && let Some(listener) = snapshot.listeners.find(segment.src, segment.dst, pass.napi_id())
    {
        let arrival = Arrival { ns, tcp, napi_id: pass.napi_id(), ifindex: pass.interface.ifindex, now };
        return listener.open(&arrival, segment, packet);
    }
    refuse(pass, now, frame, segment);
}

/// Nobody wants the segment: its sender hears so.
#[cold]
fn refuse(pass: &RxPass<'_>, now: Instant, frame: &[u8], segment: &Segment) {
    if segment.flags & flag::RST != 0 {
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

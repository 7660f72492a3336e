//! TCP: a protocol machine per connection, behind tables, timers and sockets.
//!
//! A segment is parsed and verified by the pass (`../wire`), finds its connection in [`flows`] or its listener in the
//! snapshot, and goes to that connection's machine alone (`machine`), so that what it costs does not depend
//! on how many there are. What the machine wants to send goes straight into a transmit slot (`outlet`). Programs do the same
//! from their own threads. Deadlines stand in a wheel (`wheel`).
//!
//! # What is not here
//! Urgent data, Fast Open, SYN cookies, pacing, ECN, `TCP_CORK`. What a machine drops
//! (segments outside of the window, more holes than it keeps) is not counted.
//!
//! # Files
//! From the bottom up: `flow` names a connection by its ends, `rules` say what follows from what, `memory` is what all have together, `machine` is the protocol,
//! `outlet` the way out; `by_age` and `listener` have connections that wait for something and do not know what a connection is.
//! `remnant` is what stays of a connection, `conn` is one. Above it, `flows` finds one, `time_waits` what stays of one, `wheel` calls both in time, `limits`
//! say how many there may be; `passive` and `connect` make one. `accept` and `stream` are the public types, `builder` and `settings` what they are made with, `open` makes them,
//! `congestion` what bounds what is under way.

mod accept;
mod builder;
mod by_age;
mod congestion;
mod conn;
mod connect;
mod flow;
mod flows;
mod info;
mod limits;
mod listener;
mod machine;
mod memory;
mod open;
mod outlet;
mod passive;
mod remnant;
mod rules;
mod settings;
mod stream;
mod time_waits;
mod wheel;

#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use napier_core::tcp::seq::{Seq, first_number};
use napier_core::time::Instant;

pub use accept::TcpListener;
pub use builder::{TcpListenerBuilder, TcpStreamBuilder};
pub use congestion::CongestionControl;
pub use info::TcpInfo;
pub use stream::TcpStream;

use crate::counters::Counter;
use crate::tables::demux::Demux;
use crate::tables::protocol::Protocol;
use crate::tables::writer::Writing;
use crate::tables::{Ingress, Snapshot, Tables};
use crate::wait::park::Parker;
use crate::wire::quote::{About, Quoted};
use crate::wire::{ETH_LEN, PROTO_TCP, Segment, flag};
use conn::challenge::Challenges;
use conn::{Arrived, Conn, IcmpReport, Input, Note};
use flow::Flow;
use flows::Flows;
use limits::Orphans;
use listener::ListenerInner;
use machine::{Departure, Inbound, TcpNumbers};
use memory::MemoryAccount;
use outlet::send_back;
use time_waits::TimeWaits;
use wheel::Wheel;

/// Segments whose connections' memory is asked for at once: it fits into the first-level cache, and as many are on their way as a
/// processor can ask for.
pub(crate) const FETCH_MAX: usize = 8;

/// The connections and listeners of one name space.
pub(crate) struct Tcp {
    pub(crate) tables: Arc<Tables>,
    /// Itself, for connections.
    this: Weak<Self>,
    flows: Flows,
    /// Sockets that listen.
    listeners: ArcSwap<Demux<ListenerInner<Conn>>>,
    wheel: Arc<Wheel>,
    /// Drawn by the operating system: what is made with it cannot be guessed.
    keys: RandomState,
    time_waits: TimeWaits,
    challenges: Challenges,
    orphans: Orphans,
    memory: Arc<MemoryAccount>,
}

impl Tcp {
    /// No connections, and the thread of their timers.
    ///
    /// # Errors
    /// EAGAIN if no thread can be started.
    pub(crate) fn start(tables: Arc<Tables>, writer: &Writing<'_>) -> io::Result<Arc<Self>> {
        let keys = RandomState::new();
        let timer = Arc::new(Parker::new());
        let memory = MemoryAccount::new(tables.host.tcp_mem(), timer.clone(), tables.counters.clone());
        let tcp = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            flows: Flows::new(keys.hash_one("flows")),
            listeners: ArcSwap::from_pointee(Demux::new(tables.seed)),
            wheel: Arc::new(Wheel::new(timer, memory.clone())),
            time_waits: TimeWaits::new(keys.hash_one("time waits")),
            keys,
            challenges: Challenges::new(),
            orphans: Orphans::new(),
            memory,
            tables,
        });
        let (turned, of) = (tcp.wheel.clone(), tcp.this.clone());
        std::thread::Builder::new().name("napier-tcp".to_owned()).spawn(move || {
            if let Some(tcp) = of.upgrade() {
                tcp.tables.host.thread_begins("tcp timer");
            }
            turned.turn(&of);
        })?;
        let protocol: Weak<Self> = tcp.this.clone();
        tcp.tables.add_protocol(writer, protocol);
        Ok(tcp)
    }

    /// Swaps in changed listeners. The guard proves that no other writer copies the same ones.
    fn edit_listeners(&self, _writer: &Writing<'_>, change: impl FnOnce(&mut Demux<ListenerInner<Conn>>)) {
        let mut listeners = Demux::clone(&self.listeners.load());
        change(&mut listeners);
        self.listeners.store(Arc::new(listeners));
    }

    /// The first number of a connection, and where its clock of timestamps begins. Both grow from one connection of two ends to the next, by which
    /// a peer in TIME-WAIT knows that it is a new one (RFC 6528, RFC 7323 section 5.4). Source: `net/core/secure_seq.c`.
    fn numbers(&self, flow: &Flow, now: Instant) -> TcpNumbers {
        let (local, peer) = (flow.local, flow.peer);
        let ends = self.keys.hash_one(("first", local.addr, local.port, peer.addr, peer.port));
        let clock = self.keys.hash_one(("clock", local.addr, peer.addr));
        // Halves of what cannot be guessed.
        TcpNumbers { first: first_number(ends as u32, now), clock: clock as u32 }
    }

    /// A number that no other station can know, another one each time.
    fn chance(&self, flow: &Flow, now: Instant) -> u64 {
        let (local, peer) = (flow.local, flow.peer);
        self.keys.hash_one(("chance", local.addr, local.port, peer.addr, peer.port, now.ns))
    }

    /// A number that no other station can know, the same for the same `of`.
    fn draw(&self, of: u64) -> u64 {
        self.keys.hash_one(of)
    }

    /// Asks for the memory of the connections that these segments are for: at most [`FETCH_MAX`]. The way to a connection has
    /// three steps, each known only when the one before has arrived; each is taken for all segments before the next.
    pub(crate) fn fetch<'a>(&self, segments: impl ExactSizeIterator<Item = &'a Segment>) {
        let flows = &self.flows;
        let mut hashes = [0; FETCH_MAX];
        let count = segments.len().min(FETCH_MAX);
        for (hash, segment) in hashes.iter_mut().zip(segments) {
            *hash = flows.hash(&Flow { local: segment.dst, peer: segment.src });
            flows.fetch_place(*hash);
        }
        let hashes = &hashes[..count];
        hashes.iter().for_each(|hash| flows.fetch_shard(*hash));
        hashes.iter().for_each(|hash| flows.fetch_conn(*hash));
        hashes.iter().for_each(|hash| flows.fetch_buffer(*hash));
    }

    /// A SYN that was left to the owner of a connection which has ended since.
    #[cold]
    fn reopen(&self, arrived: &Arrived<'_>, first: Option<Seq>) {
        let Segment { src, dst, .. } = *arrived.segment;
        if first.is_none() && self.time_waits.find(&Flow { local: dst, peer: src }).is_some() {
            // It came in the moment in which the connection began to wait out its end: the next one is judged by what stays.
            return;
        }
        if let Some(listener) = self.listeners.load().find(src, dst, arrived.napi_id) {
            listener.open(self, arrived, first);
        }
    }

    /// Whether a socket listens where a segment goes.
    #[cold]
    fn is_listened_to(&self, arrived: &Arrived<'_>) -> bool {
        let Segment { src, dst, .. } = *arrived.segment;
        self.listeners.load().find(src, dst, arrived.napi_id).is_some()
    }
}

impl Protocol for Tcp {
    fn number(&self) -> u8 {
        PROTO_TCP
    }

    #[cold]
    fn hear(&self, _snapshot: &Snapshot, about: About, quoted: &Quoted) -> bool {
        let &Quoted { from: local, to: peer, seq, packet_bytes, .. } = quoted;
        let report = IcmpReport { about, seq, packet_bytes };
        let flow = Flow { local, peer };
        if self.flows.find(&flow, |conn| conn.hear(self, &report)).is_some() {
            return true;
        }
        // Nothing of what waits out its end is under way.
        let waits = self.time_waits.find(&flow).is_some();
        if waits {
            self.tables.counters.count(Counter::OutOfWindowIcmps);
        }
        waits
    }

    /// Ends every connection, without a word to its peer, and stops the timer's thread.
    fn engine_stopped(&self) {
        self.listeners.load().each(|listener| listener.engine_stopped());
        for conn in self.flows.close() {
            conn.leave(self, Note::EngineStopped);
        }
        self.wheel.stop();
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.wheel.stop();
    }
}

/// Takes one received segment. `frame` is the whole frame; the IP packet in it may be longer than the MTU. `tcp`: there have been
/// TCP sockets.
#[inline]
pub(crate) fn receive(tcp: Option<&Tcp>, at: &Ingress<'_>, now: Instant, frame: &[u8], segment: &Segment) {
    let Ingress { tables, devices, interface, napi_id } = *at;
    let (src, dst) = (segment.src.addr, segment.dst.addr);
    if !devices.is_local(dst) || src.is_any() || src.is_group() || devices.is_local(src) {
        return tables.counters.count(if dst.is_v4() { Counter::IpInAddrErrors } else { Counter::Ip6InAddrErrors });
    }
    let packet = &frame[ETH_LEN..segment.end];
    let Some(tcp) = tcp else { return refuse(at, frame, segment) };
    let flow = Flow { local: segment.dst, peer: segment.src };
    let arrived = Arrived { napi_id, ifindex: interface.ifindex, now, segment, packet };
    let first = match tcp.flows.find(&flow, |conn| conn.input(tcp, &arrived)) {
        Some(Input::Taken) => return,
        Some(Input::Reopen(Some(first))) => Some(first),
        Some(Input::Reopen(None)) | None => match tcp.late(at, frame, &arrived) {
            Some(Input::Taken) => return,
            Some(Input::Reopen(first)) => first,
            None => None,
        },
    };
    if segment.flags & (flag::SYN | flag::ACK | flag::RST) == flag::SYN
        && let Some(listener) = tcp.listeners.load().find(segment.src, segment.dst, napi_id)
    {
        return listener.open(tcp, &arrived, first);
    }
    refuse(at, frame, segment);
}

/// No socket wants the segment: its sender is told so.
#[cold]
fn refuse(at: &Ingress<'_>, frame: &[u8], segment: &Segment) {
    // Connections of an engine that stops end without a word.
    if segment.flags & flag::RST != 0 || at.tables.is_stopped() {
        return;
    }
    let Some(seg) = Inbound::of_packet(&frame[ETH_LEN..segment.end]) else { return };
    let flow = Flow { local: segment.dst, peer: segment.src };
    send_back(at, frame, flow, &Departure::refusal(&seg));
}

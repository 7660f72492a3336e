//! The receive path: what the owner of a NAPI instance does with the frames of one poll.
//!
//! A poll takes a [`View`], starts one [`RxPass`] on it and hands over its frames. Several instances may do so at the
//! same time. A pass holds the snapshot, so a packet costs no reference count, lock or allocation.
//!
//! # Delivery rounds
//! A frame is put into its socket's queue at once. What belongs to a socket and not to a packet (charging bytes,
//! telling event contexts, waking a sleeper) is done once per round for each socket that got something. A round is
//! [`ROUND_PKTS`] frames or the end of the pass, whichever comes first, as `net/core/gro.c gro_normal_one` hands over
//! in batches of `gro_normal_batch` = 8.
//!
//! Edge-triggered waiters need a report *after* each arrival, and reports may merge: a reader that was told early, read
//! everything and found the queue empty must be told again about a frame that came later in the same pass. Reporting
//! only when a push finds the queue empty would miss that a reader already took the list but has not yet seen its end;
//! reporting at the end of each round covers every frame by a report that comes after it. The price is a report about
//! frames that a fast reader has already taken; an event context looks again before it returns the socket.

mod dry;
mod held;
mod lost;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::Guard;
use napier_core::gro::GRO_NORMAL_BATCH;
use napier_core::time::Instant;
use napier_ring::Frame;
use napier_sys::clock::Clock;

use super::counters::Counter;
use super::in_hand::InHand;
#[cfg(any(test, feature = "fuzzing"))]
use super::in_hand::injected;
use super::merge::Merging;
use super::netns::{Inner, Interface, NetNs, Snapshot};
use super::queue::UdpInner;
use super::seams::Deliveries;
use super::slow;
use super::tcp::ahead::Waiting;
use super::wire::{self, Datagram, Meta, Packet};
use crate::event::Interest;
pub use dry::DryRun;
use lost::{ADDR_ERRORS, NO_PORTS, RCVBUF_ERRORS};

/// Frames after which sockets are told.
const ROUND_PKTS: usize = GRO_NORMAL_BATCH as usize;

/// The name space as it is now, for the length of one poll.
pub struct View<'n> {
    ns: &'n Inner,
    snapshot: Guard<Arc<Snapshot>>,
}

impl NetNs {
    /// What one poll works on. Keep it for one poll only: while it lives, closed sockets keep their memory.
    #[doc(hidden)]
    #[inline]
    pub fn view(&self) -> View<'_> {
        View { ns: &self.0, snapshot: self.0.snapshot.load() }
    }
}

impl NetNs {
    /// A frame was lost because handling it panicked.
    #[doc(hidden)]
    #[cold]
    pub fn note_fault(&self) {
        self.0.counters.count(Counter::RxFaults);
    }
}

impl View<'_> {
    /// Begins the poll of instance `napi_id` on a device; `None` if the device is not in this name space.
    #[inline]
    pub fn pass(&self, napi_id: u32, ifindex: u32) -> Option<RxPass<'_>> {
        let snapshot = &**self.snapshot;
        let interface = snapshot.interface(ifindex)?;
        Some(RxPass {
            ns: self.ns,
            snapshot,
            interface,
            napi_id,
            touched: [Touched::default(); ROUND_PKTS],
            sockets: 0,
            round_pkts: 0,
            tally: Tally::default(),
            journal: None,
            now: None,
            merging: None,
            in_hand: None,
            dry: None,
        })
    }
}

/// One poll's worth of received frames.
pub struct RxPass<'v> {
    pub(super) ns: &'v Inner,
    pub(super) snapshot: &'v Snapshot,
    pub(super) interface: &'v Interface,
    napi_id: u32,
    /// Sockets that got something in this round, each once.
    touched: [Touched<'v>; ROUND_PKTS],
    sockets: usize,
    round_pkts: usize,
    tally: Tally,
    journal: Option<&'v dyn Deliveries>,
    /// Read with the first segment that needs it.
    now: Option<Instant>,
    /// What the instance holds; without it nothing is merged.
    merging: Option<&'v mut Merging>,
    /// The frame that is parsed: a guard of its own (`InHand`) would cost each datagram.
    in_hand: Option<Frame>,
    /// Nothing has come: a dry run ends at the socket, and leaves its frame here.
    dry: Option<&'v mut Option<(Frame, DryRun)>>,
}

/// A socket that got something.
#[derive(Copy, Clone, Default)]
struct Touched<'v> {
    socket: Option<&'v UdpInner>,
    /// To be charged.
    bytes: usize,
    packets: u32,
}

/// Good datagrams, counted here and added to the shared counters at the end.
#[derive(Default)]
struct Tally {
    udp4: u64,
    udp6: u64,
    /// Good segments.
    tcp4: u64,
    tcp6: u64,
}

impl<'v> RxPass<'v> {
    /// Records who gets how many packets.
    #[inline]
    pub fn journal(&mut self, journal: Option<&'v impl Deliveries>) {
        self.journal = journal.map(|journal| journal as &dyn Deliveries);
    }

    /// Lets packets of this poll join what the instance holds.
    #[inline]
    pub fn merge_into(&mut self, merging: &'v mut Merging) {
        self.merging = Some(merging);
    }

    /// Takes a received frame of `len` bytes: into a socket's queue, or home after it was answered or counted.
    ///
    /// # Panics
    /// If the frame is shorter than `len`: whoever took it from the ring has checked that.
    #[inline]
    pub fn receive(&mut self, frame: Frame, len: u32) {
        let frames = &*self.ns.frames;
        let bytes = frames.data_mut(self.in_hand.insert(frame));
        let truesize = bytes.len();
        #[cfg(any(test, feature = "fuzzing"))]
        injected::fault(&bytes[..len as usize]);
        let parsed = wire::parse(&bytes[..len as usize], self.interface.mac);
        let mut frame = self.in_hand.take().expect("put there above");
        match parsed {
            Ok(Packet::Udp(datagram)) => {
                let meta = Meta::new(&datagram, truesize, self.interface.ifindex);
                frames.set_meta(&mut frame, meta.bits());
                self.deliver(frame, len, &datagram, meta.truesize());
            }
            _ if self.dry.is_some() => self.end_dry(frame, DryRun::Nowhere),
            Ok(Packet::Tcp(segment)) => {
                *(if segment.dst.addr.is_v4() { &mut self.tally.tcp4 } else { &mut self.tally.tcp6 }) += 1;
                let Some(merging) = &mut self.merging else { return self.take_segment(frame, len, &segment) };
                if merging.ahead.put(Waiting { frame, len, segment }) {
                    self.take_waiting();
                }
            }
            Ok(packet) => {
                let mut hand = InHand::new(frames, frame);
                self.take_waiting();
                slow::receive(self, frames.data(hand.frame(), len as usize), &packet);
            }
            Err(refused) => {
                self.count_refused(frames.data(&frame, len as usize), &refused);
                frames.give_back(frame);
            }
        }
    }

    pub(super) fn napi_id(&self) -> u32 {
        self.napi_id
    }

    fn now(&mut self) -> Instant {
        *self.now.get_or_insert_with(|| Clock.now())
    }

    /// Ends the poll: everybody who got something knows. Dropping the pass does the same, but what waits does so on if the
    /// thread panics: it may be what the panic is about.
    #[inline]
    pub fn end(mut self) {
        self.take_waiting();
    }

    #[inline]
    fn deliver(&mut self, frame: Frame, len: u32, datagram: &Datagram, truesize: usize) {
        let snapshot = self.snapshot;
        let v4 = datagram.dst.addr.is_v4();
        if !snapshot.is_local(datagram.dst.addr) {
            return self.lose(frame, v4, ADDR_ERRORS);
        }
        let Some(socket) = snapshot.demux.find(datagram.src, datagram.dst, self.napi_id) else {
            return self.lose(frame, v4, NO_PORTS);
        };
        if self.dry.is_some() {
            let came = if socket.has_room(0, truesize) { DryRun::Reached } else { DryRun::Nowhere };
            return self.end_dry(frame, came);
        }
        if socket.wants_merged()
            && let Some(merging) = self.merging.take_if(|merging| merging.is_on())
        {
            return self.hold(merging, frame, len);
        }
        if !self.book(socket, truesize, 1) {
            return self.lose(frame, v4, RCVBUF_ERRORS);
        }
        socket.list.push(&self.ns.frames, frame);
        self.booked(v4, 1);
    }

    /// Makes room for a datagram, or for several that are merged; false if there is none.
    #[inline]
    fn book(&mut self, socket: &'v UdpInner, truesize: usize, more: u32) -> bool {
        let at = self.slot_of(socket);
        let Touched { bytes, packets, .. } = self.touched[at];
        if !socket.has_room(bytes, truesize) {
            return false;
        }
        self.touched[at] = Touched { socket: Some(socket), bytes: bytes + truesize, packets: packets + more };
        self.sockets = self.sockets.max(at + 1);
        socket.record(self.napi_id);
        true
    }

    /// What was booked is in its socket's queue.
    #[inline]
    fn booked(&mut self, v4: bool, packets: u32) {
        *(if v4 { &mut self.tally.udp4 } else { &mut self.tally.udp6 }) += u64::from(packets);
        self.round_pkts += packets as usize;
        if self.round_pkts >= ROUND_PKTS {
            self.end_round();
        }
    }

    /// The socket's place among those of this round, or the next free one; there is always one, because a round is over
    /// after as many frames as there are places.
    #[inline]
    fn slot_of(&self, socket: &UdpInner) -> usize {
        let same = |touched: &Touched<'_>| touched.socket.is_some_and(|t| std::ptr::eq(t, socket));
        self.touched[..self.sockets].iter().position(same).unwrap_or(self.sockets)
    }

    /// Charges and tells the sockets of this round.
    fn end_round(&mut self) {
        for touched in &mut self.touched[..self.sockets] {
            let Touched { socket: Some(socket), bytes, packets } = std::mem::take(touched) else { continue };
            socket.charge(bytes);
            if let Some(journal) = self.journal {
                journal.delivered(self.napi_id, socket.ends.load().place.local.socket_addr(0), packets);
            }
            // Relaxed: the id is a hint that orders nothing.
            socket.source.notify(socket.napi_id.load(Ordering::Relaxed), Interest::IN);
            socket.parker.wake();
        }
        self.sockets = 0;
        self.round_pkts = 0;
    }
}

impl Drop for RxPass<'_> {
    fn drop(&mut self) {
        if let Some(frame) = self.in_hand.take() {
            self.ns.frames.give_back(frame);
        }
        if !std::thread::panicking() {
            self.take_waiting();
        }
        self.end_round();
        let counters = &self.ns.counters;
        let Tally { udp4, udp6, tcp4, tcp6 } = self.tally;
        if tcp4 + tcp6 != 0 {
            counters.add(Counter::IpInReceives, tcp4);
            counters.add(Counter::IpInDelivers, tcp4);
            counters.add(Counter::Ip6InReceives, tcp6);
            counters.add(Counter::Ip6InDelivers, tcp6);
            counters.add(Counter::TcpInSegs, tcp4 + tcp6);
        }
        if udp4 != 0 {
            counters.add(Counter::IpInReceives, udp4);
            counters.add(Counter::IpInDelivers, udp4);
            counters.add(Counter::UdpInDatagrams, udp4);
        }
        if udp6 != 0 {
            counters.add(Counter::Ip6InReceives, udp6);
            counters.add(Counter::Ip6InDelivers, udp6);
            counters.add(Counter::Udp6InDatagrams, udp6);
        }
    }
}

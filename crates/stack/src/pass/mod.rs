//! The receive path: what the owner of a NAPI instance does with the frames of one poll.
//!
//! A poll takes a [`View`], starts one [`RxPass`] on it and hands over its frames. Several instances may do so at the
//! same time. A pass holds the published moment, so a packet costs no reference count, lock or allocation.
//!
//! Each frame is parsed once (`wire`). A datagram goes into the queue of its socket (`udp::deliver`); a segment waits for others of
//! the poll (`ahead`) and goes to its connection; both may be merged with others of their flow before (`merge`); ARP, neighbour
//! discovery and ICMP are rare (`slow`), and so are fragments (`rare`). What is not delivered is counted (`lost`). `dry` is a pass without a packet.

mod ahead;
mod dry;
mod held;
mod in_hand;
mod lost;
pub mod merge;
mod rare;
mod slow;

use std::sync::{Arc, OnceLock};

use arc_swap::Guard;
use napier_core::time::Instant;
use napier_ring::Frame;
use napier_sys::clock::Clock;

use crate::counters::Counter;
use crate::host::Deliveries;
use crate::tables::demux::Demux;
use crate::tables::published::Moment;
use crate::tables::{Ingress, Tables};
use crate::tcp::Tcp;
use crate::udp::Udp;
use crate::udp::deliver::Round;
use crate::udp::queue::UdpInner;
use crate::udp::wishes::Needs;
use crate::wire::{self, Datagram, Meta, Packet};
use ahead::Waiting;
pub use dry::DryRun;
#[cfg(any(test, feature = "fuzzing"))]
pub use in_hand::injected;
use lost::{ADDR_ERRORS, RCVBUF_ERRORS};
use merge::Merging;

/// The name space as it is now, for the length of one poll.
pub struct View<'n> {
    tables: &'n Tables,
    tcp: &'n OnceLock<Arc<Tcp>>,
    moment: Guard<Arc<Moment<Demux<UdpInner>>>>,
}

impl<'n> View<'n> {
    #[inline]
    pub(crate) fn new(tables: &'n Tables, udp: &'n Udp, tcp: &'n OnceLock<Arc<Tcp>>) -> Self {
        View { tables, tcp, moment: udp.published.load() }
    }

    /// Takes a frame that is another's, as that of the kernel is which shares the interface, for what can be learnt of it:
    /// where neighbours are, and what routers and hosts say of our packets. Nothing is answered or counted.
    #[cold]
    pub(crate) fn hear(&self, ifindex: u32, frame: &[u8]) {
        if let Some(at) = self.ingress(0, ifindex) {
            slow::hear(&at, frame);
        }
    }

    #[inline]
    fn ingress(&self, napi_id: u32, ifindex: u32) -> Option<Ingress<'_>> {
        let devices = &self.moment.devices;
        let interface = devices.interface(ifindex)?;
        Some(Ingress { tables: self.tables, devices, interface, napi_id })
    }

    /// Begins the poll of instance `napi_id` on a device; `None` if the device is not in this name space.
    #[inline]
    pub fn pass(&self, napi_id: u32, ifindex: u32) -> Option<RxPass<'_>> {
        let at = self.ingress(napi_id, ifindex)?;
        Some(RxPass {
            tcp: self.tcp,
            at,
            sockets: &self.moment.sockets,
            round: Round::new(napi_id, self.tables),
            tcp4: 0,
            tcp6: 0,
            now: None,
            merging: None,
            in_hand: None,
            put_together: false,
            dry: None,
        })
    }
}

/// One poll's worth of received frames.
pub struct RxPass<'v> {
    tcp: &'v OnceLock<Arc<Tcp>>,
    at: Ingress<'v>,
    sockets: &'v Demux<UdpInner>,
    round: Round<'v>,
    /// Good segments.
    tcp4: u64,
    tcp6: u64,
    /// Read with the first segment that needs it.
    now: Option<Instant>,
    /// What the instance holds; without it nothing is merged.
    merging: Option<&'v mut Merging>,
    /// The frame that is parsed: a guard of its own (`InHand`) would cost each datagram.
    in_hand: Option<Frame>,
    /// What is received has been put together from fragments.
    put_together: bool,
    /// Nothing has come: a dry run ends at the socket, and leaves its frame here.
    dry: Option<&'v mut Option<(Frame, DryRun)>>,
}

impl<'v> RxPass<'v> {
    /// Records who gets how many packets.
    #[inline]
    pub fn journal(&mut self, journal: Option<&'v impl Deliveries>) {
        self.round.journal(journal.map(|journal| journal as &dyn Deliveries));
    }

    /// Lets packets of this poll join what the instance holds.
    #[inline]
    pub fn merge_into(&mut self, merging: &'v mut Merging) {
        self.merging = Some(merging);
    }

    /// Takes a received frame of `len` bytes: into a socket's queue, or home after it was answered or counted.
    ///
    /// # Panics
    /// If the frame is shorter than `len`: the thread that took it from the ring has checked that.
    #[inline]
    pub fn receive(&mut self, frame: Frame, len: u32) {
        let frames = &*self.at.tables.frames;
        let bytes = frames.data_mut(self.in_hand.insert(frame));
        let truesize = bytes.len();
        #[cfg(any(test, feature = "fuzzing"))]
        injected::fault(&bytes[..len as usize]);
        let parsed = wire::parse(&bytes[..len as usize], self.at.interface.mac);
        let mut frame = self.in_hand.take().expect("put there above");
        match parsed {
            Ok(Packet::Udp(datagram)) => {
                let meta = Meta::new(&datagram, truesize, self.at.interface.ifindex);
                frames.set_meta(&mut frame, meta.bits());
                self.deliver(frame, len, &datagram, meta.truesize());
            }
            _ if self.dry.is_some() => self.end_dry(frame, DryRun::Nowhere),
            Ok(Packet::Tcp(segment)) => {
                *(if segment.dst.addr.is_v4() { &mut self.tcp4 } else { &mut self.tcp6 }) += 1;
                let Some(merging) = &mut self.merging else { return self.take_segment(frame, len, &segment) };
                if merging.ahead.put(Waiting { frame, len, segment }) {
                    self.take_waiting();
                }
            }
            Ok(packet) => self.take_rare(frame, len, packet),
            Err(refused) => {
                self.count_refused(frames.data(&frame, len as usize), &refused);
                frames.give_back(frame);
            }
        }
    }

    fn now(&mut self) -> Instant {
        *self.now.get_or_insert_with(|| Clock.now())
    }

    /// Ends the poll: every socket that got something is notified. Dropping the pass does the same, but what waits does so on if the
    /// thread panics: it may be what the panic is about.
    #[inline]
    pub fn end(mut self) {
        self.take_waiting();
    }

    #[inline]
    fn deliver(&mut self, frame: Frame, len: u32, datagram: &Datagram, truesize: usize) {
        let Ingress { devices, napi_id, .. } = self.at;
        let v4 = datagram.dst.addr.is_v4();
        if !devices.is_local(datagram.dst.addr) {
            return self.lose(frame, v4, ADDR_ERRORS);
        }
        let Some(socket) = self.sockets.find(datagram.src, datagram.dst, napi_id) else {
            return self.lose_without_port(frame, v4);
        };
        if self.dry.is_some() {
            let came = if socket.has_room(0, truesize) { DryRun::Reached } else { DryRun::Nowhere };
            return self.end_dry(frame, came);
        }
        if socket.needs(Needs::MERGED | Needs::STAMPED | Needs::BOUND) {
            return self.deliver_with_needs(socket, frame, len, (v4, truesize));
        }
        self.put(socket, frame, v4, truesize);
    }

    /// Puts a datagram into the queue of its socket, if that has room.
    #[inline]
    fn put(&mut self, socket: &'v UdpInner, frame: Frame, v4: bool, truesize: usize) {
        if !self.round.book(socket, truesize, 1) {
            return self.lose(frame, v4, RCVBUF_ERRORS);
        }
        socket.list.push(&self.at.tables.frames, frame);
        self.round.booked(v4, 1);
    }
}

impl Drop for RxPass<'_> {
    fn drop(&mut self) {
        let tables = self.at.tables;
        if let Some(frame) = self.in_hand.take() {
            tables.frames.give_back(frame);
        }
        if !std::thread::panicking() {
            self.take_waiting();
        }
        self.round.end();
        let (counters, tcp4, tcp6) = (&tables.counters, self.tcp4, self.tcp6);
        if tcp4 + tcp6 != 0 {
            counters.add(Counter::IpInReceives, tcp4);
            counters.add(Counter::IpInDelivers, tcp4);
            counters.add(Counter::Ip6InReceives, tcp6);
            counters.add(Counter::Ip6InDelivers, tcp6);
            counters.add(Counter::TcpInSegs, tcp4 + tcp6);
        }
        self.round.count(counters);
    }
}

//! What does not go up at once: segments that wait for others of the poll, and packets that the instance holds for merging.
//!
//! What is held delivers into the pass, so the pass lends itself: [`Merging`] is taken out of it for the call, and put back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use napier_core::completion::Flush;
use napier_core::time::Instant;
use napier_ring::Frame;

use crate::counters::Counter;
use crate::pass::RxPass;
use crate::pass::ahead::Waiting;
use crate::pass::in_hand::InHand;
#[cfg(any(test, feature = "fuzzing"))]
use crate::pass::in_hand::injected;
use crate::pass::lost::{ADDR_ERRORS, NO_PORTS, RCVBUF_ERRORS};
use crate::pass::merge::{self, Bundle, Merging};
use crate::tables::Ingress;
use crate::tcp::{self, Tcp};
use crate::udp::queue::UdpInner;
use crate::udp::wishes::Needs;
use crate::wire::{self, Meta, Segment, headers};

impl<'v> RxPass<'v> {
    /// Takes the segments that were put aside.
    #[inline]
    pub(super) fn take_waiting(&mut self) {
        if self.merging.as_ref().is_some_and(|merging| !merging.ahead.is_empty()) {
            self.take_waiting_now();
        }
    }

    #[inline(never)]
    fn take_waiting_now(&mut self) {
        let Some(merging) = &mut self.merging else { return };
        let mut waiting = merging.ahead.take();
        // One alone gains nothing.
        if waiting.len() > 1
            && let Some(tcp) = self.tcp.get()
        {
            tcp.fetch(waiting.iter().map(|waiting| &waiting.segment));
        }
        let (tables, mut rest) = (self.at.tables, waiting.drain(..));
        let mut turn = || {
            for Waiting { frame, len, segment } in rest.by_ref() {
                self.take_segment(frame, len, &segment);
            }
        };
        // Those behind one whose handling panics have their turn: each takes one at least.
        while catch_unwind(AssertUnwindSafe(&mut turn)).is_err() {
            tables.counters.count(Counter::RxFaults);
        }
        drop(rest);
        if let Some(merging) = &mut self.merging {
            merging.ahead.give_back(waiting);
        }
    }

    #[inline]
    pub(super) fn take_segment(&mut self, frame: Frame, len: u32, segment: &Segment) {
        if let Some(merging) = self.merging.take_if(|merging| merging.is_on()) {
            return self.hold_segment(merging, frame, len, segment);
        }
        let (now, frames) = (self.now(), &*self.at.tables.frames);
        let mut hand = InHand::new(frames, frame);
        let bytes = frames.data(hand.frame(), len as usize);
        #[cfg(any(test, feature = "fuzzing"))]
        injected::fault(bytes);
        tcp::receive(self.tcp(), &self.at, now, bytes, segment);
    }

    /// A datagram of a socket that has to be asked what to do with it.
    #[cold]
    #[inline(never)]
    pub(super) fn deliver_with_needs(
        &mut self,
        socket: &'v UdpInner,
        mut frame: Frame,
        len: u32,
        (v4, truesize): (bool, usize),
    ) {
        if !socket.wishes.takes_from(self.at.interface.ifindex) {
            return self.lose_without_port(frame, v4);
        }
        let stamped = socket.needs(Needs::STAMPED);
        if socket.needs(Needs::MERGED)
            && let Some(merging) = self.merging.take_if(|merging| merging.is_on())
        {
            return self.hold(merging, frame, len, stamped);
        }
        self.stamp(&mut frame, stamped);
        self.put(socket, frame, v4, truesize);
    }

    /// A datagram that may wait for others of its flow, or joins those that do. Its headers are read again: what is kept
    /// of them for this would cost those that are not merged.
    fn hold(&mut self, merging: &'v mut Merging, mut frame: Frame, len: u32, stamped: bool) {
        let tables = self.at.tables;
        let meta = Meta::from_bits(tables.frames.meta(&frame));
        let headers = headers::udp(tables.frames.data(&frame, len as usize), meta);
        self.stamp(&mut frame, stamped);
        let now = merge::jiffy(self.now());
        let bundle = Bundle::new(headers, frame, meta.truesize());
        merging.receive(bundle, now, &tables.frames, |bundle, room| self.deliver_bundle(bundle, room));
        self.merging = Some(merging);
    }

    /// Writes into a frame when this poll took it, if its socket wants to know.
    fn stamp(&mut self, frame: &mut Frame, wanted: bool) {
        if wanted {
            let (now, frames) = (self.now(), &*self.at.tables.frames);
            let meta = Meta::from_bits(frames.meta(frame)).stamped(frames.data_mut(frame), now);
            frames.set_meta(frame, meta.bits());
        }
    }

    /// A segment, which may wait for others of its flow, join those that do, or send them up before it.
    fn hold_segment(&mut self, merging: &'v mut Merging, frame: Frame, len: u32, segment: &Segment) {
        let tables = self.at.tables;
        let mut hand = InHand::new(&tables.frames, frame);
        let truesize = tables.frames.capacity(hand.frame());
        let bytes = tables.frames.data(hand.frame(), len as usize);
        #[cfg(any(test, feature = "fuzzing"))]
        injected::fault(bytes);
        let (headers, payload) = headers::tcp(bytes, segment);
        let now = self.now();
        if merging.held() || headers.may_be_held() {
            let meta = Meta::of_segment(payload, truesize, segment.dst.addr.is_v4());
            tables.frames.set_meta(hand.frame(), meta.bits());
            let bundle = Bundle::new(headers, hand.give_on(), truesize);
            let now = merge::jiffy(now);
            merging.receive(bundle, now, &tables.frames, |bundle, room| self.deliver_bundle(bundle, room));
        } else {
            // Most often: one that says by itself that nothing follows.
            tcp::receive(self.tcp(), &self.at, now, bytes, segment);
        }
        self.merging = Some(merging);
    }

    /// Delivers what an instance holds, all or what is older than this jiffy.
    pub fn flush(&mut self, merging: &mut Merging, which: Flush, now: Instant) {
        merging.flush(which, now, |bundle, room| self.deliver_bundle(bundle, room));
    }

    #[inline]
    fn tcp(&self) -> Option<&'v Tcp> {
        self.tcp.get().map(|tcp| &**tcp)
    }

    /// Delivers what was held, as a whole: into its socket's queue, or home after it was counted.
    fn deliver_bundle(&mut self, bundle: Bundle, room: &mut Vec<u8>) {
        let (Ingress { tables, devices, napi_id, .. }, flow) = (self.at, bundle.flow);
        if flow.protocol == wire::PROTO_TCP {
            let segment = bundle.into_segment(&tables.frames, room);
            let now = self.now();
            return tcp::receive(self.tcp(), &self.at, now, room, &segment);
        }
        let (packets, truesize, v4) = (bundle.packets(), bundle.truesize(), flow.dst.addr.is_v4());
        let frames = bundle.into_frames(&tables.frames);
        if !devices.is_local(flow.dst.addr) {
            return self.lose_chain(frames, v4, ADDR_ERRORS);
        }
        // Who is bound now gets it, as with a packet that comes now.
        let Some(socket) = self.sockets.find(flow.src, flow.dst, napi_id) else {
            return self.lose_chain(frames, v4, NO_PORTS);
        };
        if !self.round.book(socket, truesize, packets) {
            return self.lose_chain(frames, v4, RCVBUF_ERRORS);
        }
        socket.list.push_chain(&tables.frames, frames);
        self.round.booked(v4, packets);
    }
}

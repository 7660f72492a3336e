//! What is rare: fragments, and what `slow` takes. What fragments make whole goes the way of every other packet.

use napier_ring::Frame;

use crate::counters::Counter;
use crate::pass::in_hand::InHand;
use crate::pass::{RxPass, slow};
use crate::tables::Ingress;
use crate::wire::Packet;
use crate::wire::fragment::Fragment;

impl RxPass<'_> {
    /// What is rare: a piece of a packet, or neither datagram nor segment.
    #[cold]
    #[inline(never)]
    pub(super) fn take_rare(&mut self, frame: Frame, len: u32, packet: Packet) {
        if let Packet::Fragment { at, end } = packet {
            return self.take_fragment(frame, len, at, end);
        }
        let frames = &*self.at.tables.frames;
        let mut hand = InHand::new(frames, frame);
        self.take_waiting();
        slow::receive(&self.at, frames.data(hand.frame(), len as usize), &packet);
    }

    /// Takes a piece of a packet, in these bytes of its frame.
    fn take_fragment(&mut self, frame: Frame, len: u32, at: usize, end: usize) {
        let Ingress { tables, devices, interface, .. } = self.at;
        let now = self.now();
        let frames = &tables.frames;
        let mut hand = InHand::new(frames, frame);
        let bytes = frames.data(hand.frame(), len as usize);
        let counters = &tables.counters;
        let fragment = Fragment::read(bytes, at, end, interface.ifindex);
        let v4 = bytes[12..14] == crate::wire::ETHERTYPE_IPV4;
        if self.put_together {
            // A packet is in fragments once: else each level of them would be a call.
            counters.count(if v4 { Counter::IpReasmFails } else { Counter::Ip6ReasmFails });
            return;
        }
        let (receives, wrong, address) = if v4 {
            (Counter::IpInReceives, Counter::IpInHdrErrors, Counter::IpInAddrErrors)
        } else {
            (Counter::Ip6InReceives, Counter::Ip6InHdrErrors, Counter::Ip6InAddrErrors)
        };
        let Some(fragment) = fragment else {
            counters.count(receives);
            return counters.count(wrong);
        };
        if !devices.is_local(fragment.key.dst) || fragment.key.src.is_group() {
            counters.count(receives);
            return counters.count(address);
        }
        let whole = tables.reassembly.take(frames, counters, (bytes, fragment), now);
        drop(hand);
        tables.ageing.ask(tables.reassembly.ends());
        if whole.is_empty() {
            // The one that makes a packet whole is counted with it.
            counters.count(receives);
        }
        for (frame, len) in whole {
            self.put_together = true;
            self.receive(frame, len);
            self.put_together = false;
        }
    }
}

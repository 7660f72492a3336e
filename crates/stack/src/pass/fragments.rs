//! Fragments: what they make whole goes the way of every other packet.

use napier_ring::Frame;

use crate::counters::Counter;
use crate::pass::RxPass;
use crate::pass::in_hand::InHand;
use crate::tables::Ingress;
use crate::wire::fragment::Fragment;

impl RxPass<'_> {
    /// Takes a piece of a packet, in these bytes of its frame.
    #[cold]
    #[inline(never)]
    pub(super) fn take_fragment(&mut self, frame: Frame, len: u32, at: usize, end: usize) {
        let Ingress { tables, devices, interface, .. } = self.at;
        let now = self.now();
        let frames = &tables.frames;
        let mut hand = InHand::new(frames, frame);
        let bytes = frames.data(hand.frame(), len as usize);
        let counters = &tables.counters;
        let fragment = Fragment::read(bytes, at, end, interface.ifindex);
        let v4 = bytes[12..14] == crate::wire::ETHERTYPE_IPV4;
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
        if whole.is_empty() {
            // The one that makes a packet whole is counted with it.
            counters.count(receives);
        }
        for (frame, len) in whole {
            self.receive(frame, len);
        }
    }
}

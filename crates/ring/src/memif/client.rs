//! The client's ends. The client owns the memory, so its frames are the buffers: nothing is copied.

use super::protocol::{Leader, Low, RingMemory, RingWord, mask, unmask};
use super::{InterruptSwitch, Publish, RingEnd, RingView};
use crate::frame::FramePlaces;
use crate::memory;
use crate::{ArenaId, Frame, FramePool, FrameTable};

/// A ring's leader with the frames that are in the ring. What the peer says about frames is not believed: a slot's
/// frame is the one that was put there.
struct Slots {
    leader: Leader<RingView>,
    frames: Box<[Option<Frame>]>,
    arena: ArenaId,
    /// Where the arena's frames are: no look-up per packet.
    place: FramePlaces,
    /// A second arena of the region whose frames are taken as well.
    second: Option<(ArenaId, FramePlaces)>,
}

impl Slots {
    fn new(ring: RingView, table: &FrameTable, arena: ArenaId, start: u16) -> Self {
        assert_eq!(ring.end(), RingEnd::Client, "the client's ends need the client's view");
        assert!(table.arena_is_in(arena, ring.mapping()), "the frames are not in the ring's region");
        let frames = (0..ring.size()).map(|_| None).collect();
        let place = table.places_of(arena);
        Self { leader: Leader::new(ring, start), frames, arena, place, second: None }
    }

    #[inline]
    fn slot(&mut self, index: u16) -> &mut Option<Frame> {
        let mask = self.frames.len() - 1; // a power of two
        &mut self.frames[usize::from(index) & mask]
    }

    #[inline]
    fn offer(&mut self, frame: Frame, length: Option<u32>) -> Result<(), Frame> {
        if self.leader.free() == 0 {
            return Err(frame);
        }
        let place = self.place_of(frame.arena());
        let (offset, capacity) = (place.offset_of(&frame), place.capacity());
        let length = length.unwrap_or(capacity);
        assert!((1..=capacity).contains(&length), "a packet has 1 byte to one frame");
        let index = self.leader.next();
        let before = self.slot(index).replace(frame);
        assert!(before.is_none(), "a free slot held a frame");
        self.leader.offer(offset, length);
        Ok(())
    }

    /// The oldest slot, which is empty and the next to offer as well, gets this frame.
    #[inline]
    fn recycle(&mut self, index: u16, frame: Frame, capacity: u32) {
        let offset = self.place.offset_of(&frame);
        *self.slot(index) = Some(frame);
        self.leader.recycle(offset, capacity);
    }

    #[inline]
    fn place_of(&self, arena: ArenaId) -> &FramePlaces {
        if arena == self.arena {
            return &self.place;
        }
        match &self.second {
            Some((second, place)) if *second == arena => place,
            _ => panic!("only frames of the ring's own region can be offered"),
        }
    }

    #[inline]
    fn take_back(&mut self) -> Option<(u16, Frame)> {
        let index = self.leader.take_back()?;
        let frame = self.slot(index).take();
        match frame {
            Some(frame) => Some((index, frame)),
            None => panic!("an offered slot held no frame"),
        }
    }
}

/// The client's end of a C2S ring: packets go out in the client's own frames.
pub struct C2sProducer {
    slots: Slots,
}

impl C2sProducer {
    /// The end over a ring that is initialised and empty; `arena` lies in the ring's mapping.
    ///
    /// # Panics
    ///
    /// If the view is not the client's or the arena lies elsewhere.
    #[must_use]
    pub fn new(ring: RingView, table: &FrameTable, arena: ArenaId) -> Self {
        Self::starting_at(ring, table, arena, 0)
    }

    pub(super) fn starting_at(ring: RingView, table: &FrameTable, arena: ArenaId, start: u16) -> Self {
        Self { slots: Slots::new(ring, table, arena, start) }
    }

    /// Takes frames of a second arena too.
    ///
    /// # Panics
    ///
    /// If the arena does not lie in the ring's mapping, or there is a second one already.
    pub fn add_arena(&mut self, table: &FrameTable, arena: ArenaId) {
        assert!(
            table.arena_is_in(arena, self.slots.leader.memory.mapping()),
            "the frames are not in the ring's region"
        );
        assert!(self.slots.second.is_none(), "a ring takes frames of two arenas");
        self.slots.second = Some((arena, table.places_of(arena)));
    }

    /// Whether frames of this arena can be pushed.
    #[must_use]
    #[inline]
    pub fn takes(&self, arena: ArenaId) -> bool {
        arena == self.slots.arena || self.slots.second.as_ref().is_some_and(|(second, _)| *second == arena)
    }

    /// Packets that can be pushed. Slots of sent packets count after [`reclaim`](Self::reclaim).
    #[must_use]
    #[inline]
    pub fn free_slots(&self) -> u32 {
        u32::from(self.slots.leader.free())
    }

    /// Adds a packet: the first `len` bytes of `frame`. The peer sees it after [`publish`](Self::publish).
    ///
    /// # Errors
    ///
    /// The frame, if the ring is full.
    ///
    /// # Panics
    ///
    /// If `len` is 0 or more than a frame, or the frame is not of the ring's arena.
    #[inline]
    pub fn push(&mut self, frame: Frame, len: u32) -> Result<(), Frame> {
        self.slots.offer(frame, Some(len))
    }

    /// Shows the peer what was pushed, and tells whether it wants an interrupt for it.
    #[inline]
    pub fn publish(&mut self) -> Publish {
        self.slots.leader.announce()
    }

    /// Takes back the frames that the peer has read, and hands each to `home`. Returns how many.
    #[inline]
    pub fn reclaim(&mut self, mut home: impl FnMut(Frame)) -> u32 {
        let count = self.slots.leader.look();
        while let Some((_, frame)) = self.slots.take_back() {
            home(frame);
        }
        count
    }

    /// Frames in the ring: pushed and not reclaimed.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        u32::from(self.slots.leader.outstanding())
    }

    /// Times that the peer's index was impossible.
    #[must_use]
    pub fn index_errors(&self) -> u64 {
        self.slots.leader.index_errors()
    }
}

/// The client's end of an S2C ring: empty frames go out, packets come back in them.
pub struct S2cConsumer {
    slots: Slots,
    in_chain: bool,
    bad_descriptors: u64,
}

impl S2cConsumer {
    /// The end over a ring that is initialised and empty; `arena` lies in the ring's mapping.
    ///
    /// # Panics
    ///
    /// If the view is not the client's or the arena lies elsewhere.
    #[must_use]
    pub fn new(ring: RingView, table: &FrameTable, arena: ArenaId) -> Self {
        Self::starting_at(ring, table, arena, 0)
    }

    pub(super) fn starting_at(ring: RingView, table: &FrameTable, arena: ArenaId, start: u16) -> Self {
        Self { slots: Slots::new(ring, table, arena, start), in_chain: false, bad_descriptors: 0 }
    }

    /// Frames that can be posted.
    #[must_use]
    #[inline]
    pub fn free_slots(&self) -> u32 {
        u32::from(self.slots.leader.free())
    }

    /// Posts an empty frame. The peer sees it after [`publish_posts`](Self::publish_posts).
    ///
    /// # Errors
    ///
    /// The frame, if the ring is full.
    ///
    /// # Panics
    ///
    /// If the frame is not of the ring's arena.
    #[inline]
    pub fn post(&mut self, frame: Frame) -> Result<(), Frame> {
        self.slots.offer(frame, None)
    }

    /// Shows the peer what was posted; returns how many frames. No interrupt goes with it: a peer without buffers
    /// drops and counts.
    #[inline]
    pub fn publish_posts(&mut self) -> u32 {
        u32::from(self.slots.leader.publish())
    }

    /// Packets that wait, with a look at the peer's index.
    pub fn pending(&mut self) -> u32 {
        self.slots.leader.look()
    }

    /// Takes the oldest packet: its frame and its length in bytes.
    ///
    /// A packet with an impossible length or in several slots is counted and its frame posted again at once.
    #[inline]
    pub fn take(&mut self) -> Option<(Frame, u32)> {
        if !self.slots.leader.has_answered() {
            return None;
        }
        while let Some((index, frame)) = self.slots.take_back() {
            // Hostile: read once. The frame and its size are ours; only length and flags are the peer's word.
            let low = Low::unpack(self.slots.leader.memory.load_low(index));
            let capacity = self.slots.place.capacity();
            let part_of_chain = self.in_chain || low.chained;
            self.in_chain = low.chained;
            if !part_of_chain && (1..=capacity).contains(&low.length) {
                return Some((frame, low.length));
            }
            self.bad_descriptors += 1;
            let posted = self.slots.offer(frame, None);
            assert!(posted.is_ok(), "a slot was taken back, so one is free");
        }
        None
    }

    /// Takes the oldest packet, its frame and its length in bytes, and posts a frame of `fresh` in its place. Where
    /// `fresh` has none the packet is dropped, `dropped` is told, and its own frame is posted again.
    ///
    /// # Panics
    ///
    /// If not all slots are posted, or a fresh frame is not of the ring's arena.
    #[inline]
    pub fn exchange(
        &mut self,
        mut fresh: impl FnMut() -> Option<Frame>,
        mut dropped: impl FnMut(),
    ) -> Option<(Frame, u32)> {
        assert_eq!(self.slots.leader.free(), 0, "an exchange needs a ring that is full of frames");
        let capacity = self.slots.place.capacity();
        while self.slots.leader.has_answered() {
            let index = self.slots.leader.oldest();
            // Hostile: read once. The frame and its size are ours; only length and flags are the peer's word.
            let low = Low::unpack(self.slots.leader.memory.load_low(index));
            let good = !(self.in_chain || low.chained) && (1..=capacity).contains(&low.length);
            self.in_chain = low.chained;
            if good && let Some(frame) = fresh() {
                assert_eq!(frame.arena(), self.slots.arena, "only frames of the ring's own region can be offered");
                let offset = self.slots.place.offset_of(&frame);
                let Some(taken) = self.slots.slot(index).replace(frame) else {
                    panic!("an offered slot held no frame")
                };
                self.slots.leader.recycle(offset, capacity);
                return Some((taken, low.length));
            }
            // The frame stays where it is; only its slot counts as new.
            let Some(kept) = self.slots.slot(index).take() else { panic!("an offered slot held no frame") };
            self.slots.recycle(index, kept, capacity);
            if good {
                dropped();
            } else {
                self.bad_descriptors += 1;
            }
        }
        None
    }

    /// As [`exchange`](Self::exchange) with frames of `pool`, for at most `max` slots, and with one look at the peer's index at
    /// most, only if fewer packets are known; each packet goes to `each`. Returns packets and bytes. The lines of what was taken
    /// are asked for, so that they are there when the packets are looked at.
    ///
    /// # Panics
    ///
    /// As [`exchange`](Self::exchange).
    #[inline]
    pub fn exchange_many(
        &mut self,
        max: u32,
        pool: &mut FramePool,
        mut dropped: impl FnMut(),
        mut each: impl FnMut(Frame, u32),
    ) -> (u32, u64) {
        let slots = &mut self.slots;
        assert_eq!(slots.leader.free(), 0, "an exchange needs a ring that is full of frames");
        assert!(
            pool.arena() == slots.arena && pool.is_of(&slots.place),
            "only frames of the ring's own region can be offered"
        );
        let known = u32::from(slots.leader.answered());
        let many = if known < max { slots.leader.look().min(max) } else { max };
        let (mut taken, mut bytes) = (0, 0);
        let capacity = slots.place.capacity();
        for _ in 0..many {
            let index = slots.leader.oldest();
            // Hostile: read once. The frame and its size are ours; only length and flags are the peer's word.
            let low = Low::unpack(slots.leader.memory.load_low(index));
            let good = !(self.in_chain || low.chained) && (1..=capacity).contains(&low.length);
            self.in_chain = low.chained;
            if good && let Some(fresh) = pool.alloc() {
                // Where the packet is, by the peer's word: good enough for a hint, which cannot fault.
                let offset = slots.leader.memory.load_high(index) as u32 as usize; // bits 0..32
                memory::will_read(slots.leader.memory.mapping().at(offset));
                let offset = slots.place.offset_at(fresh.index());
                let Some(full) = slots.slot(index).replace(fresh) else { panic!("an offered slot held no frame") };
                slots.leader.recycle(offset, capacity);
                taken += 1;
                bytes += u64::from(low.length);
                each(full, low.length);
                continue;
            }
            // The frame stays where it is; only its slot counts as new.
            let Some(kept) = slots.slot(index).take() else { panic!("an offered slot held no frame") };
            slots.recycle(index, kept, capacity);
            if good {
                dropped();
            } else {
                self.bad_descriptors += 1;
            }
        }
        (taken, bytes)
    }

    /// Frames in the ring: posted and not taken.
    #[must_use]
    #[inline]
    pub fn posted(&self) -> u32 {
        u32::from(self.slots.leader.outstanding())
    }

    /// The ring's interrupt, to be switched beside the owner of this end.
    #[must_use]
    pub fn interrupt_switch(&self) -> InterruptSwitch {
        InterruptSwitch::new(self.slots.leader.memory.for_switch(), RingWord::Tail, self.consumed())
    }

    /// Index of the oldest packet that was not taken, for [`InterruptSwitch::note_consumed`].
    #[must_use]
    #[inline]
    pub fn consumed(&self) -> u16 {
        self.slots.leader.oldest()
    }

    /// No interrupts from now on; one may be on its way.
    pub fn mask(&mut self) {
        mask(&self.slots.leader.memory);
    }

    /// Interrupts from now on. `true` = packets were there already, for which there may be no interrupt.
    #[must_use = "true means that packets wait and no interrupt may come"]
    pub fn unmask(&mut self) -> bool {
        unmask(&self.slots.leader.memory);
        self.slots.leader.look() > 0
    }

    /// Packets dropped because the peer described them wrongly.
    #[must_use]
    pub fn bad_descriptors(&self) -> u64 {
        self.bad_descriptors
    }

    /// Times that the peer's index was impossible.
    #[must_use]
    pub fn index_errors(&self) -> u64 {
        self.slots.leader.index_errors()
    }
}

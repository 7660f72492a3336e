//! An interrupt that is held back after the last one, until a time or until the CPU that it would interrupt has nothing to do.
//!
//! | state | what it means | next |
//! |---|---|---|
//! | free | the line is unmasked by the thread that has polled last | [begun](IrqHold::begin): open |
//! | open | the interrupt was taken, and the queue is polled | [closed](IrqHold::close): held, or free if the time has passed; [ended](IrqHold::end): free |
//! | held | no thread polls, and the line stays masked | ended, or [due](IrqHold::take_due): free, by the thread that unmasks the line |
//!
//! Each change is one step on one word, so of those that end a hold and the one that closes it exactly one unmasks.

use crate::sync::{AtomicU64, Ordering, Point, order, replace_long};

const FREE: u64 = 0;
/// Set in a word that is held; clear in one that is open.
const HELD: u64 = 1;
const CPU_SHIFT: u32 = 1;
const CPU_BITS: u32 = 10;
const CPU_MASK: u64 = (1 << CPU_BITS) - 1;
const TIME_SHIFT: u32 = CPU_SHIFT + CPU_BITS;
/// Nanoseconds of a unit: 53 bits of them are 36 years.
const UNIT_NS: u64 = 128;

/// The holding back of one interrupt line. All times are nanoseconds of one clock that began less than 36 years ago.
#[derive(Default)]
pub struct IrqHold {
    word: AtomicU64,
}

/// What the poller does with the line after its last poll.
#[must_use]
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AfterPoll {
    /// Unmask it.
    Unmask,
    /// Leave it masked: a CPU ends the hold at this time, in ns, unless another thread does before.
    Held {
        /// Which CPU.
        cpu: u32,
        /// When.
        until_ns: u64,
    },
}

impl IrqHold {
    /// Nothing is held back.
    #[must_use]
    pub fn new() -> Self {
        Self { word: AtomicU64::new(FREE) }
    }

    /// Whether nothing is held back, and nothing will be without a [`begin`](Self::begin).
    #[must_use]
    #[inline]
    pub fn is_free(&self) -> bool {
        // Relaxed: a poller asks about what it or an owner before it has begun, which the ownership orders; others ask again
        // in one step.
        self.word.load(Ordering::Relaxed) == FREE
    }

    /// The interrupt was taken, by the owner of the queue, before any thread learns what was received: it is held back until
    /// `until_ns`, which `cpu` sees to.
    #[inline]
    pub fn begin(&self, until_ns: u64, cpu: u32) {
        assert!(u64::from(cpu) <= CPU_MASK, "CPU number does not fit");
        let word = until_ns.div_ceil(UNIT_NS) << TIME_SHIFT | u64::from(cpu) << CPU_SHIFT;
        // Release: pairs with the Acquire in `end`. 0 is no time that is still to come.
        self.word.store(word.max(2), Ordering::Release);
    }

    /// The owner has given the queue up, and its interrupt is to come again.
    #[inline]
    pub fn close(&self, now_ns: u64) -> AfterPoll {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            if word == FREE {
                return AfterPoll::Unmask;
            }
            let held = AfterPoll::Held { cpu: cpu_of(word), until_ns: until_ns(word) };
            if word & HELD != 0 {
                return held;
            }
            let late = until_ns(word) <= now_ns;
            let next = if late { FREE } else { word | HELD };
            // Release: pairs with the Acquire of who ends it and looks at the queue, as far as it was emptied here.
            let release = order(Point::HoldClose, Ordering::AcqRel);
            match self.word.compare_exchange_weak(word, next, release, Ordering::Acquire) {
                Ok(_) if late => return AfterPoll::Unmask,
                Ok(_) => return held,
                Err(other) => word = other,
            }
        }
    }

    /// Nothing is held back any more. `true` = the caller unmasks the line and looks; else the thread that polls does.
    #[must_use = "true means that the caller has to unmask"]
    #[inline]
    pub fn end(&self) -> bool {
        if self.is_free() {
            return false;
        }
        // AcqRel: pairs with `begin` and `close`.
        replace_long(&self.word, FREE, Point::HoldEnd) & HELD != 0
    }

    /// Holds a line of `cpu` back for longer whose time has come, and that has nothing to tell. False if that is over.
    pub fn extend(&self, cpu: u32, now_ns: u64, until_ns: u64) -> bool {
        let word = self.word.load(Ordering::Acquire);
        let later = until_ns.div_ceil(UNIT_NS) << TIME_SHIFT | u64::from(cpu) << CPU_SHIFT | HELD;
        word & HELD != 0
            && cpu_of(word) == cpu
            && self::until_ns(word) <= now_ns
            // AcqRel: what `close` published stays so for who ends it.
            && self.word.compare_exchange(word, later, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// When `cpu` has to end the hold, in ns; none if the line is not held back or is another's.
    #[must_use]
    #[inline]
    pub fn until_on(&self, cpu: u32) -> Option<u64> {
        let word = self.word.load(Ordering::Acquire);
        (word & HELD != 0 && cpu_of(word) == cpu).then(|| until_ns(word))
    }

    /// How long the line is held back, in ns, or will be; 0 if it is not.
    #[must_use]
    pub fn until_ns(&self) -> u64 {
        until_ns(self.word.load(Ordering::Relaxed))
    }

    /// Whether `cpu` sees to the line, which is held back or will be.
    #[must_use]
    #[inline]
    pub fn is_on(&self, cpu: u32) -> bool {
        let word = self.word.load(Ordering::Acquire);
        word != FREE && cpu_of(word) == cpu
    }

    /// Ends a hold of `cpu` whose time has come. `true` = the caller unmasks the line and looks.
    #[must_use = "true means that the caller has to unmask"]
    pub fn take_due(&self, cpu: u32, now_ns: u64) -> bool {
        let word = self.word.load(Ordering::Acquire);
        word & HELD != 0
            && cpu_of(word) == cpu
            && until_ns(word) <= now_ns
            // Acquire: pairs with `close`. One that was begun anew in between is left to its own time.
            && self.word.compare_exchange(word, FREE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

fn cpu_of(word: u64) -> u32 {
    (word >> CPU_SHIFT & CPU_MASK) as u32 // ten bits
}

fn until_ns(word: u64) -> u64 {
    (word >> TIME_SHIFT) * UNIT_NS
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn held(hold: &IrqHold, now_ns: u64) -> bool {
        hold.close(now_ns) != AfterPoll::Unmask
    }

    #[test]
    fn a_hold_ends_once() {
        let hold = IrqHold::new();
        assert!(!hold.end() && !held(&hold, 5) && hold.is_free(), "nothing was begun");
        hold.begin(1_000, 3);
        assert!(hold.is_on(3) && !hold.is_on(2) && hold.until_on(3).is_none(), "not held yet");
        assert_eq!(hold.close(999), AfterPoll::Held { cpu: 3, until_ns: 1_024 });
        assert!(held(&hold, 5_000), "who comes second leaves it as it is");
        assert_eq!((hold.until_on(3), hold.until_on(2)), (Some(1_024), None));
        assert!(!hold.take_due(3, 1_023) && !hold.take_due(2, 9_000));
        assert!(hold.take_due(3, 1_024) && !hold.take_due(3, 9_000) && !hold.end());
    }

    #[test]
    fn what_is_ended_while_it_is_polled_is_unmasked_by_the_poller() {
        let hold = IrqHold::new();
        hold.begin(1_000, 0);
        assert!(!hold.end() && !held(&hold, 0));
        hold.begin(1_000, 0);
        assert!(held(&hold, 0) && hold.end() && hold.is_free());
    }

    #[test]
    fn a_hold_is_extended_when_it_is_due() {
        let hold = IrqHold::new();
        assert!(!hold.extend(3, 5_000, 9_000));
        hold.begin(1_024, 3);
        assert!(!hold.extend(3, 5_000, 9_000), "it is polled");
        assert!(held(&hold, 0) && !hold.extend(3, 1_023, 9_000) && !hold.extend(2, 5_000, 9_000));
        assert!(hold.extend(3, 5_000, 8_960) && hold.until_on(3) == Some(8_960) && !hold.take_due(3, 5_000));
        assert!(hold.take_due(3, 8_960));
    }

    #[test]
    fn what_was_polled_for_longer_than_the_hold_is_unmasked() {
        let hold = IrqHold::new();
        hold.begin(1_000, 1_023);
        assert!(!held(&hold, 1_024) && hold.is_free());
        hold.begin(0, 0);
        assert!(!hold.is_free() && !held(&hold, 0));
    }
}

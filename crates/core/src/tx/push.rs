//! The push of one packet to the defer list. Source: `net/core/dev.c __dev_xmit_skb`, `net/core/hotdata.c
//! qdisc_max_burst` (Linux 7.3).
//!
//! ```text
//! look at the head --empty------------------------> Link --swapped--> Flush: this sender flushes
//!        |                                            |  \--swapped--> Handed: the flusher has it
//!        |--not empty, not yet counted--> Count --ok--+
//!        |                                  \--over the limit--> drop
//!        \--not empty, counted------------------------+--the head has moved--> look again
//! ```
//! The first packet of a batch is never counted, and a push counts at most once, however often its swap fails. A
//! packet that is dropped stays counted until the next flush, which begins again at 0.

use super::XmitCode;

/// Default of `net.core.qdisc_max_burst`. Source: `net/core/hotdata.c`.
pub const QDISC_MAX_BURST: i32 = 1000;

/// What the sender does next.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum PushStep {
    /// Add 1 to the defer count and take the sum. Answer: [`Push::on_counted`].
    Count,
    /// Link the packet to the head that was seen and swap it in. Answer: [`Push::on_linked`], or [`Push::on_moved`] if
    /// another sender was faster.
    Link,
    /// The push is over.
    Done(Pushed),
}

/// How a push ended.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Pushed {
    /// This packet is the first: take the root lock and flush ([`crate::tx::flush`]). No other sender flushes until the
    /// list has been taken.
    Flush,
    /// Another sender flushes this packet as well: the sender is done.
    Handed,
    /// Too many wait already: drop the packet for [`super::DropReason::Burst`], and count it, which the kernel does
    /// not.
    BurstDrop,
}

impl Pushed {
    /// What the sender is told; `None`: the flush decides.
    #[inline]
    #[must_use]
    pub const fn code(self) -> Option<XmitCode> {
        match self {
            Self::Flush => None,
            Self::Handed => Some(XmitCode::Success),
            Self::BurstDrop => Some(XmitCode::Drop),
        }
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
enum PushPhase {
    Counting,
    Linking { empty: bool },
    Done(Pushed),
}

/// One push.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Push {
    counted: bool,
    phase: PushPhase,
}

impl Push {
    /// Begins: the head was looked at, and the list was `empty` or not.
    #[inline]
    #[must_use]
    pub const fn new(empty: bool) -> Self {
        Self { counted: false, phase: Self::looked(empty, false) }
    }

    /// What to do next.
    #[inline]
    pub const fn next(&self) -> PushStep {
        match self.phase {
            PushPhase::Counting => PushStep::Count,
            PushPhase::Linking { .. } => PushStep::Link,
            PushPhase::Done(pushed) => PushStep::Done(pushed),
        }
    }

    /// The defer count was raised to `count`. `max_burst` is `net.core.qdisc_max_burst` as it is now.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub const fn on_counted(&mut self, count: u64, max_burst: i32) {
        assert!(matches!(self.phase, PushPhase::Counting), "on_counted answers Count");
        self.counted = true;
        self.phase = if exceeds_burst(count, max_burst) {
            PushPhase::Done(Pushed::BurstDrop)
        } else {
            PushPhase::Linking { empty: false }
        };
    }

    /// The swap failed; the list is now `empty` or not.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub const fn on_moved(&mut self, empty: bool) {
        assert!(matches!(self.phase, PushPhase::Linking { .. }), "on_moved answers Link");
        self.phase = Self::looked(empty, self.counted);
    }

    /// The packet is on the list.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub const fn on_linked(&mut self) {
        let PushPhase::Linking { empty } = self.phase else { panic!("on_linked answers Link") };
        self.phase = PushPhase::Done(if empty { Pushed::Flush } else { Pushed::Handed });
    }

    const fn looked(empty: bool, counted: bool) -> PushPhase {
        if empty || counted { PushPhase::Linking { empty } } else { PushPhase::Counting }
    }
}

/// True if `count` packets behind the first are more than `max_burst`. The comparison is unsigned, as in the kernel: a
/// negative limit is none, and 0 refuses every packet that finds the list not empty.
#[inline]
#[must_use]
pub const fn exceeds_burst(count: u64, max_burst: i32) -> bool {
    count > max_burst as i64 as u64
}

#[cfg(test)]
#[path = "push_tests.rs"]
mod tests;

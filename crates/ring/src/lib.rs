//! The unsafe island: everything that two threads, or two processes, touch at the same time.
//!
//! Nothing here knows what a packet means. Four families of types:
//!
//! * **words**: [`StateCell`] (one compare-and-swap cell), [`Exclusive`] (data with one owner at a time),
//!   [`CombiningLock`] and [`CombiningFlag`] (enter, or leave the work to the thread inside), [`Owned`] (own it or leave a
//!   message to the owner), [`Doorbell`] (wake a sleeper, at most once), [`IrqLatch`] (raise an interrupt, at most once per
//!   unmask), [`IrqHold`] (moderate it: hold it back for a time), [`Demand`] and [`DemandOnce`] (which news are wanted), [`Remainder`] (whether
//!   a taker is at something), [`LazyTimer`] and [`Alarm`] (when a sleeper is called);
//! * **queues**: [`List`] and [`Inbox`] (push one, take all), [`ReadyQueue`] (the same, each once at most),
//!   [`spsc`] (bounded words), [`outbox`] (bytes of a program, beside a socket), [`record`] (heads of its datagrams), [`memif`] (the descriptor rings of memif), [`xsk`] (those of AF_XDP, with the kernel at the
//!   other end);
//! * **tables**: [`Published`] (a value that is replaced as a whole), [`FlowTable`] (a hash table of such lists);
//! * **memory**: [`Mapping`], and [`Frame`]s in a [`FrameTable`]. A frame is the only handle to its bytes: it is
//!   moved, never copied, so giving it to a ring is losing it.
//!
//! Every atomic comes from [`sync`], which is std's in a normal build and loom's under `--cfg loom`.
//! An index or a descriptor that a peer wrote is read once into a local, checked in release builds too, and only
//! the local is used after that.
#![allow(unsafe_code)]

mod alarm;
mod claim;
mod combining_flag;
mod combining_lock;
mod demand;
mod doorbell;
mod exclusive;
mod flow_table;
mod frame;
mod inbox;
mod indices;
mod irq_hold;
mod irq_latch;
mod lazy_timer;
mod list;
#[cfg(all(test, loom))]
mod loom_tests;
mod mapping;
pub mod memif;
mod memory;
pub mod outbox;
mod outboxes;
mod owned;
mod published;
mod ready;
pub mod record;
#[cfg(all(test, not(loom)))]
mod record_tests;
mod remainder;
mod sections;
mod sleepers;
pub mod spsc;
mod stand_in;
mod state;
pub mod sync;
mod wake;
pub mod xsk;

pub use alarm::Alarm;
pub use combining_flag::{Combiner, CombiningFlag};
pub use combining_lock::{CombiningLock, Inside};
pub use demand::{Demand, DemandOnce};
pub use doorbell::Doorbell;
pub use exclusive::{Entered, Exclusive};
pub use flow_table::FlowTable;
pub use frame::{
    ArenaConfig, ArenaError, ArenaId, Frame, FrameBatch, FrameChain, FrameFifo, FrameList, FramePool, FrameSorter,
    FrameTable, PACKET_BURST_MAX, PacketBurst, PacketReceiver, PacketSender, packet_queue,
};
pub use inbox::{Inbox, Letters};
pub use irq_hold::{AfterPoll, IrqHold};
pub use irq_latch::IrqLatch;
pub use lazy_timer::LazyTimer;
pub use list::{Chain, Fifo, Links, List};
pub use mapping::{ClaimError, Mapping};
pub use outboxes::{Outboxes, SharedOutbox};
pub use owned::{Owned, Owner, Release, TooMuch};
pub use published::{Published, Reading};
pub use ready::ReadyQueue;
pub use remainder::Remainder;
pub use sections::{enter_section, section_is_over};
pub use sleepers::Sleepers;
pub use stand_in::StandIn;
pub use state::StateCell;
pub use wake::{flush_fence, wake_fence};

#[deprecated(note = "it is `CombiningFlag`")]
#[doc(hidden)]
pub type Baton = CombiningFlag;
#[deprecated(note = "it is `Combiner`")]
#[doc(hidden)]
pub type Held<'a> = Combiner<'a>;
#[deprecated(note = "it is `CombiningLock`")]
#[doc(hidden)]
pub type Relay<T> = CombiningLock<T>;

#[cfg(all(test, not(loom)))]
mod test_rng {
    /// A small repeatable generator for operation tests (xorshift64*).
    pub(crate) struct Rng(u64);

    impl Rng {
        pub(crate) fn new(seed: u64) -> Self {
            Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
        }

        pub(crate) fn below(&mut self, bound: u32) -> u32 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
            (high % u64::from(bound)) as u32
        }
    }
}

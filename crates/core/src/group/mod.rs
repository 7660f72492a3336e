//! CPU polling groups: a set of CPUs that hold a set of queues for ever, and poll them from whichever of the CPUs is
//! awake. Linux has none; the idea is E. Dumazet's ("Busy Polling: Past, Present, Future", Netdev 2.1, slides 20-29).
//!
//! A **member** is a queue of a device: its NAPI instance and its transmit run. Three words say who may do what, and each
//! is changed by one compare-and-swap:
//!
//! | word | of | says |
//! |---|---|---|
//! | [`crate::state::State`], bits `SCHED` and `GROUP` | the instance | the group polls it; it has a poller or is armed |
//! | [`Seat`] | the member | which CPU has it, and whether a thread is in a turn |
//! | [`CpuWord`] | the CPU | it polls, is about to sleep, sleeps |
//!
//! # The order of things
//!
//! * **Attach**: [`Seat::reserve`]; [`crate::state::State::group_attach_begin`] and, once the owner has let go,
//!   [`crate::state::State::group_attach_claim`]; mask; [`Seat::attached`]; wake the CPU.
//! * **A turn**: [`Seat::take`]; [`crate::state::State::group_turn`]; poll; [`Seat::give`].
//! * **Move**: [`Seat::move_to`]; then wake the new CPU. If it has left the group ([`Woken::Gone`]), move on.
//! * **Park**: [`CpuWord::announce`]; each of its members is armed by [`Arming`]; no member [`Seat::keeps_awake`];
//!   [`CpuWord::sleep`]; sleep.
//! * **An event of an armed member**: take `SCHED`; mask; [`crate::state::State::to_group`]; [`Seat::ready`]; wake.
//! * **Disable** (device down): `DISABLE` is set; the poller's next turn says [`crate::state::GroupTurn::GiveUp`]:
//!   [`Seat::arm`], [`crate::state::State::group_release`], nothing is unmasked. The member stays; enabling unmasks, and
//!   the first event gives it back to the group.
//! * **Detach**: [`Seat::hold`]; [`Seat::take_held`], or `SCHED` and [`Seat::take_armed`]; then
//!   [`crate::state::State::group_leave`]; [`Seat::free`]; schedule the instance as after any event. Who polls it then
//!   looks at its ring, completes and unmasks.
//! * **A CPU leaves**: [`CpuWord::go`]; its members are moved; [`CpuWord::leave`]; it looks at its members again.
//!
//! The last CPU does not leave a group with members: that is refused ([`GroupError::LastCpu`]).

mod check;
mod cpu;
mod policy;
mod seat;
mod turn;

pub use check::{DELAY_TARGET_MAX, DELAY_TARGET_MIN, GroupError, GroupSpec, Groups, Machine, MemberId, NAME_BYTES_MAX};
pub use cpu::{Awake, CpuWord, Doing, Woken};
pub use policy::{CpuState, CpuView, Decider, Decision, Distance, MemberView, Policy, Settings};
pub use seat::{GroupCpu, NoTurn, Phase, Seat};
pub use turn::{ArmStep, Arming, GiveWay, Load};

#[cfg(test)]
mod walk_tests;

//! Scenarios: a machine, what happens to it, and what must be seen. `docs/scenarios.md` describes the file.
//!
//! A scenario is plain data. The machine in virtual time carries it out, the engine does, and so may any other executor. All names of the file are resolved to positions here, so an executor never looks a name up.

mod action;
pub mod compare;
mod event;
mod expect;
mod group;
mod machine;
mod names;
mod parse;
mod stretch;
mod thread;
mod transmit;
mod visible;

pub use action::{Action, Call, Callable, Check, NapiRef, Packets, Quirk, Step, Target};
pub use event::{Answer, DropReason, Event, Kind, Seen};
pub use expect::{EnginePart, Expect, Expected, KernelPart, Pattern, Range, Release, Tolerance};
pub use group::{Group, GroupCall, GroupCheck, GroupDeed, GroupEvent, GroupIx};
pub use machine::{Costs, Device, Epoll, Machine, Socket, SocketKind, Sysctl, Topology};
pub use napier_core::context::PollContext;
pub use parse::ParseError;
pub use thread::{Policy, Thread};
pub use transmit::{ByteLimits, QdiscIx, QdiscSpec, Sending, StopBy, Transmit, TxCheck, TxDeed, TxEvent, TxqIx};
pub use visible::NotLookedAt;

/// The strict reader of files: what is wrong has a line, and what was expected.
pub mod read {
    pub use crate::parse::node::{Node, Table};
    pub use crate::parse::read_file;
}

/// One scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// One sentence: what holds.
    pub title: String,
    /// Ids of the rules that it covers, as `conformance/rules.toml` lists them.
    pub rules: Vec<String>,
    /// What exists.
    pub machine: Machine,
    /// What happens, in order of time; steps of one instant happen in the order of the file.
    pub timeline: Vec<Step>,
    /// What must be seen.
    pub expect: Expect,
    /// What the engine makes of it.
    pub engine: EnginePart,
    /// What a live kernel makes of it.
    pub kernel: KernelPart,
}

/// A NAPI instance: position in the list of all devices' queues, device by device.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NapiIx(pub u16);

/// A device: position in [`Machine::devices`].
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceIx(pub u16);

/// An application thread: position in [`Machine::threads`].
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ThreadIx(pub u16);

/// A socket: position in [`Machine::sockets`].
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketIx(pub u16);

/// An event context: position in [`Machine::epolls`].
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EpollIx(pub u16);

/// A virtual CPU.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CpuIx(pub u16);

macro_rules! index {
    ($($name:ident),*) => {$(
        impl $name {
            /// As a position.
            #[inline]
            #[must_use]
            pub const fn at(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
index!(NapiIx, DeviceIx, ThreadIx, SocketIx, EpollIx, CpuIx);

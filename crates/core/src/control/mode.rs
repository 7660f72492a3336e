//! The names of the ways of delivering packets, and what each one sets.
//!
//! Source of base, deferX, napibusy, fullbusy, suspend0 and suspendX: J. Damato, M. Karsten, "[PATCH net-next v6 0/7]
//! Suspend IRQs during application busy periods", section "Benchmark configs & descriptions". Of busy-read: the script
//! in the cover letter of "net: Add support to do threaded napi busy poll".

mod words;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use super::plan::{Plan, Write};
use super::{NapiChange, ThreadedSetting};
use crate::event::EpollParams;
use crate::sockopt::BusyOption;
use crate::time::Span;

/// A named way of delivering packets; see [`Mode::parse`] for the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is documented by the plan it stands for")]
pub enum Mode {
    Base,
    Defer { us: u32 },
    NapiBusy,
    FullBusy,
    Suspend0,
    Suspend { us: u32 },
    Threaded,
    Workqueue,
    ThreadedBusyPoll,
    BusyRead,
    Group,
}

/// Why a name is no mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModeError {
    /// Not a name of a mode.
    Unknown {
        /// As given.
        name: String,
    },
    /// A number with a unit.
    Unit {
        /// As given.
        name: String,
        /// The name without the number.
        stem: &'static str,
        /// What was meant, in us.
        us: u64,
        /// Largest X, in us.
        us_max: u32,
    },
    /// A deferral of 0 us.
    DeferZero,
    /// The number is too large.
    Range {
        /// As given.
        name: String,
        /// Largest X, in us.
        us_max: u32,
        /// Why, where it is not evident.
        why: &'static str,
    },
    /// An item of a list is empty, or all of it.
    Empty,
    /// A list names a mode twice.
    Twice {
        /// As given.
        name: String,
    },
}

impl fmt::Display for ModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => write!(f, "`{name}` is no mode; give one of {ACCEPTED}"),
            Self::Unit { name, stem, us, us_max } => {
                let meant = meant(stem, *us, *us_max);
                write!(f, "`{name}` is no mode: X is in us and has no unit, so {meant}")
            }
            Self::DeferZero => {
                write!(f, "`defer0` defers nothing; give `base`, or deferX with X from 1 to {DEFER_US_MAX} us")
            }
            Self::Range { name, us_max, why } => {
                write!(f, "`{name}` is out of range; X is from 1 to {us_max} us{why}")
            }
            Self::Empty => {
                f.write_str("no mode given, or nothing between two commas; give a list such as ")?;
                write!(f, "`base,defer20,suspend20`, of {ACCEPTED}")
            }
            Self::Twice { name } => write!(f, "`{name}` is given twice; each mode is one row"),
        }
    }
}

impl core::error::Error for ModeError {}

/// All that [`Mode::parse`] accepts, for help and errors.
pub const ACCEPTED: &str = "base, deferX, napibusy, fullbusy, suspend0, suspendX (X in us, such as defer20), threaded, \
                            workqueue, threaded-busy-poll, busy-read, group";

/// The same as a list: what a name may be that was mistyped. An X at the end stands for a number.
pub const NAMES: [&str; 11] = [
    "base",
    "deferX",
    "napibusy",
    "fullbusy",
    "suspend0",
    "suspendX",
    "threaded",
    "workqueue",
    "threaded-busy-poll",
    "busy-read",
    "group",
];

const DEFER_US_MAX: u32 = 1_000_000;
/// Below irq-suspend-timeout: suspension is an alternation between a short timeout and a long one.
const SUSPEND_US_MAX: u32 = 19_999;
const DEFER_HARD_IRQS: u32 = 100;
const IRQ_SUSPEND_TIMEOUT: Span = Span::from_ms(20);
const BUDGET: u16 = 64;

impl Mode {
    /// Reads a name: see [`ACCEPTED`].
    ///
    /// # Errors
    /// [`ModeError`] says what is accepted.
    pub fn parse(name: &str) -> Result<Self, ModeError> {
        Ok(match name {
            "base" => Self::Base,
            "napibusy" => Self::NapiBusy,
            "fullbusy" => Self::FullBusy,
            "suspend0" => Self::Suspend0,
            "threaded" => Self::Threaded,
            "workqueue" => Self::Workqueue,
            "threaded-busy-poll" => Self::ThreadedBusyPoll,
            "busy-read" => Self::BusyRead,
            "group" => Self::Group,
            "defer0" => return Err(ModeError::DeferZero),
            _ => {
                if let Some(us) = name.strip_prefix("defer") {
                    Self::Defer { us: timeout(name, "defer", us, DEFER_US_MAX, "")? }
                } else if let Some(us) = name.strip_prefix("suspend") {
                    let why = ", below the irq-suspend-timeout of 20 ms";
                    Self::Suspend { us: timeout(name, "suspend", us, SUSPEND_US_MAX, why)? }
                } else {
                    return Err(ModeError::Unknown { name: name.to_owned() });
                }
            }
        })
    }

    /// Reads a list of names with commas between them; spaces around a name do not matter.
    ///
    /// # Errors
    /// [`ModeError`] for the first name that is wrong or given twice, or if there is none.
    pub fn parse_list(names: &str) -> Result<Vec<Self>, ModeError> {
        let mut modes = Vec::new();
        for name in names.split(',').map(str::trim) {
            if name.is_empty() {
                return Err(ModeError::Empty);
            }
            let mode = Self::parse(name)?;
            if modes.contains(&mode) {
                return Err(ModeError::Twice { name: name.to_owned() });
            }
            modes.push(mode);
        }
        Ok(modes)
    }

    /// What the mode sets: all attributes of each instance, since they outlast programs; of sockets, contexts and waits,
    /// which are a program's own, what differs from new ones.
    #[must_use]
    pub fn plan(self) -> Plan {
        use ThreadedSetting::Disabled;
        // A wait with a timeout of zero never busy polls (fs/eventpoll.c ep_poll), so the cover letter's libevent patch,
        // and this, give it 1 ms.
        let full_busy = [busy_context(1000), Write::Wait(Some(Span::from_ms(1)))];
        let (defer_us, suspends, threaded, program): (u32, bool, ThreadedSetting, &[Write]) = match self {
            // What polls is no setting of an instance: the group is made beside (`apply`).
            Self::Base | Self::Group => (0, false, Disabled, &[]),
            Self::Defer { us } => (us, false, Disabled, &[]),
            Self::NapiBusy => (200, false, Disabled, &[busy_context(64)]),
            Self::FullBusy => (5000, false, Disabled, &full_busy),
            Self::Suspend0 => (0, true, Disabled, &[busy_context(0)]),
            Self::Suspend { us } => (us, true, Disabled, &[busy_context(0)]),
            Self::Threaded => (0, false, ThreadedSetting::Enabled, &[]),
            Self::Workqueue => (0, false, ThreadedSetting::Workqueue, &[]),
            Self::ThreadedBusyPoll => (0, false, ThreadedSetting::BusyPoll, &[]),
            Self::BusyRead => (15, false, Disabled, &busy_socket(400)),
        };
        let deferral = deferral(if defer_us > 0 { DEFER_HARD_IRQS } else { 0 }, Span::from_us(defer_us.into()));
        let suspension = if suspends { IRQ_SUSPEND_TIMEOUT } else { Span::ZERO };
        let rest = [NapiChange::IrqSuspendTimeout(suspension), NapiChange::Threaded(threaded)].map(Write::Instance);
        deferral.into_iter().chain(rest).chain(program.iter().copied()).collect()
    }

    /// Whether a thread polls, of its own or of a pool.
    #[must_use]
    pub fn is_threaded(self) -> bool {
        self.plan().changes().any(|change| match change {
            NapiChange::Threaded(setting) => setting != ThreadedSetting::Disabled,
            _ => false,
        })
    }

    /// Whether it is a mode of a server that waits in an event context, on a kernel as it is: what plans and advice are about.
    #[must_use]
    pub fn is_simulated(self) -> bool {
        !matches!(self, Self::Workqueue | Self::BusyRead | Self::Group)
    }

    /// Whether a thread polls for ever: the instance's, or one of a group.
    fn has_pollers(self) -> bool {
        self == Self::Group
            || self.plan().changes().any(|change| change == NapiChange::Threaded(ThreadedSetting::BusyPoll))
    }

    /// CPUs the server needs with `queues` queues (and as many workers): one per queue, which softirq and worker
    /// share as on the cover letter's machine, and one more per queue for a thread that never sleeps.
    #[must_use]
    pub fn server_cpus(self, queues: usize) -> usize {
        if self.has_pollers() { 2 * queues } else { queues }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base => f.pad("base"),
            Self::Defer { us } => f.pad(&format!("defer{us}")),
            Self::NapiBusy => f.pad("napibusy"),
            Self::FullBusy => f.pad("fullbusy"),
            Self::Suspend0 => f.pad("suspend0"),
            Self::Suspend { us } => f.pad(&format!("suspend{us}")),
            Self::Threaded => f.pad("threaded"),
            Self::Workqueue => f.pad("workqueue"),
            Self::ThreadedBusyPoll => f.pad("threaded-busy-poll"),
            Self::BusyRead => f.pad("busy-read"),
            Self::Group => f.pad("group"),
        }
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(name: &str) -> Result<Self, ModeError> {
        Self::parse(name)
    }
}

/// Deferral of interrupts: `defer-hard-irqs` and `gro-flush-timeout`.
#[must_use]
pub fn deferral(count: u32, flush_timeout: Span) -> [Write; 2] {
    [NapiChange::DeferHardIrqs(count), NapiChange::GroFlushTimeout(flush_timeout)].map(Write::Instance)
}

/// Deferral that keeps interrupts away from a program that polls, as `fullbusy` has it.
#[must_use]
pub fn for_pollers() -> [Write; 2] {
    deferral(DEFER_HARD_IRQS, Span::from_ms(5))
}

/// Options of a socket that busy polls for so long, and keeps interrupts and softirq away meanwhile.
#[must_use]
pub fn busy_socket(usecs: i32) -> [Write; 2] {
    [Write::Socket(BusyOption::BusyPoll, usecs), Write::Socket(BusyOption::PreferBusyPoll, 1)]
}

/// An event context that busy polls for so long, likewise; 0 us: exactly one poll.
#[must_use]
pub fn busy_context(busy_poll_usecs: u32) -> Write {
    Write::Context(EpollParams { busy_poll_usecs, busy_poll_budget: BUDGET, prefer_busy_poll: true })
}

/// No tip is given for more: the time is none that was meant.
const US_SAID_MAX: f64 = 1e12;

/// What to give in place of a name with a unit.
fn meant(stem: &str, us: u64, us_max: u32) -> String {
    if us <= us_max.into() { format!("give {stem}{us}") } else { format!("that is {us}, and X is from 1 to {us_max}") }
}

/// A number of us that was written with a unit, such as `20us`, `20 us`, `0.02ms` or `1ms`, or with a space before it.
fn us_with_unit(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let ns_each = match text[digits.len()..].trim() {
        "" if digits.starts_with(' ') => 1e3,
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let digits = digits.trim_start();
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let ns = digits.parse::<f64>().ok()? * ns_each;
    // The nearest number; what is negative, too large or none is refused.
    let nearest_ns = if ns <= US_SAID_MAX * 1000.0 { (ns + 0.5) as u64 } else { 0 };
    (nearest_ns >= 1000 && nearest_ns.is_multiple_of(1000)).then_some(nearest_ns / 1000)
}

/// The X of a name, 1 to `us_max`, written without sign or leading zero, so that each mode has one name.
fn timeout(name: &str, stem: &'static str, us: &str, us_max: u32, why: &'static str) -> Result<u32, ModeError> {
    if let Some(us) = us_with_unit(us) {
        return Err(ModeError::Unit { name: name.to_owned(), stem, us, us_max });
    }
    let plain = us.bytes().all(|byte| byte.is_ascii_digit()) && !us.is_empty() && !us.starts_with('0');
    if !plain {
        return Err(ModeError::Unknown { name: name.to_owned() });
    }
    match us.parse() {
        Ok(us) if us <= us_max => Ok(us),
        _ => Err(ModeError::Range { name: name.to_owned(), us_max, why }),
    }
}

#[cfg(test)]
#[path = "mode_tests.rs"]
mod tests;

//! What a mode sets, as a list of writes that names no executor; and how a list is applied and taken back.
//!
//! ```text
//! Plan --apply--> Sink: for each write, for each place: read, note, write --> changes
//!                   a write is refused: what was noted is put back, last first --> NotApplied
//! changes --put_back--> Sink: each value that was there, last first
//! ```
//!
//! The order of a plan matters, and the way back is the same list from its end. Deferral comes before suspension, for a
//! suspended instance that is not deferred has its interrupt unmasked, and gets a poll too many; `threaded` comes after both, so
//! that on the way back a thread is gone before the values change that it polls by. Source: `net/core/dev.c
//! napi_suspend_irqs`, `napi_resume_irqs`.

use alloc::vec::Vec;
use core::{fmt, slice};

use super::{DevSetting, NapiChange};
use crate::event::EpollParams;
use crate::sockopt::BusyOption;
use crate::time::Span;

/// What a write goes to.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub enum Target {
    /// Every NAPI instance that the device has now (napi-set).
    Instance,
    /// The device (sysfs): its own value, that of every instance, and that of instances to come.
    Device,
    /// A socket (setsockopt).
    Socket,
    /// An event context (`EPIOCSPARAMS`).
    Context,
    /// A program's wait (the time-out of epoll_wait).
    Wait,
}

/// One value for one setting.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// An attribute of an instance.
    Instance(NapiChange),
    /// A file of a device.
    Device(DevSetting),
    /// An option of a socket.
    Socket(BusyOption, i32),
    /// The parameters of an event context.
    Context(EpollParams),
    /// The longest time that a wait may last; `None` = until there is an event.
    Wait(Option<Span>),
}

impl Write {
    /// What it goes to.
    #[must_use]
    pub const fn target(&self) -> Target {
        match self {
            Self::Instance(_) => Target::Instance,
            Self::Device(_) => Target::Device,
            Self::Socket(..) => Target::Socket,
            Self::Context(_) => Target::Context,
            Self::Wait(_) => Target::Wait,
        }
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance(change) => change.fmt(f),
            Self::Device(setting) => setting.as_napi_change().fmt(f),
            Self::Socket(option, value) => write!(f, "{} {value}", option.name()),
            Self::Context(EpollParams { busy_poll_usecs, busy_poll_budget, prefer_busy_poll }) => {
                write!(f, "busy_poll_usecs {busy_poll_usecs}, budget {busy_poll_budget}, ")?;
                write!(f, "prefer {} (EPIOCSPARAMS)", u8::from(*prefer_busy_poll))
            }
            Self::Wait(Some(span)) => write!(f, "a wait of at most {} ns", span.ns),
            Self::Wait(None) => f.write_str("a wait until there is an event"),
        }
    }
}

/// Writes in the order in which they are made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan(Vec<Write>);

impl Plan {
    /// The writes, in order.
    pub fn writes(&self) -> slice::Iter<'_, Write> {
        self.0.iter()
    }

    /// The writes to the attributes of an instance, in order.
    pub fn changes(&self) -> impl Iterator<Item = NapiChange> {
        self.writes().filter_map(|write| if let Write::Instance(change) = write { Some(*change) } else { None })
    }

    /// The value for an option of sockets.
    #[must_use]
    pub fn option(&self, wanted: BusyOption) -> Option<i32> {
        self.writes().find_map(|write| match write {
            Write::Socket(option, value) if *option == wanted => Some(*value),
            _ => None,
        })
    }

    /// The parameters of event contexts.
    #[must_use]
    pub fn context(&self) -> Option<EpollParams> {
        self.writes().find_map(|write| if let Write::Context(params) = write { Some(*params) } else { None })
    }

    /// The longest time that a wait may last; `None` = until there is an event, also if the plan does not say.
    #[must_use]
    pub fn wait(&self) -> Option<Span> {
        self.writes().find_map(|write| if let Write::Wait(longest) = write { *longest } else { None })
    }

    /// The same with files of the device instead of those attributes that instances do not take by themselves. A write
    /// for which a device has no file stays.
    #[must_use]
    pub fn device_wide(&self, instances_take: impl Fn(NapiChange) -> bool) -> Self {
        let place = |write: &Write| match *write {
            Write::Instance(change) if !instances_take(change) => change.as_dev_setting().map_or(*write, Write::Device),
            write => write,
        };
        self.writes().map(place).collect()
    }
}

impl FromIterator<Write> for Plan {
    fn from_iter<I: IntoIterator<Item = Write>>(writes: I) -> Self {
        Self(writes.into_iter().collect())
    }
}

impl Extend<Write> for Plan {
    fn extend<I: IntoIterator<Item = Write>>(&mut self, writes: I) {
        self.0.extend(writes);
    }
}

/// Where writes go: the engine, the kernel, a test's own table.
pub trait Sink {
    /// One instance, device, socket or context; named in messages.
    type Place: Clone + fmt::Display;
    /// Why a read or a write was refused.
    type Error: fmt::Display;

    /// All places of a kind; a plan's writes to a target that has none here are left out.
    ///
    /// # Errors
    /// They cannot be listed.
    fn places(&mut self, target: Target) -> Result<Vec<Self::Place>, Self::Error>;

    /// What is there now for the setting of `write`, whatever its value; `None` if it cannot be read.
    ///
    /// # Errors
    /// The place is gone.
    fn read(&mut self, place: &Self::Place, write: &Write) -> Result<Option<Write>, Self::Error>;

    /// Makes a write.
    ///
    /// # Errors
    /// The write is refused, or the place is gone.
    fn write(&mut self, place: &Self::Place, write: &Write) -> Result<(), Self::Error>;
}

/// A place of a sink with one device, one socket or one context.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// The instance with this id.
    Instance(u32),
    /// The instance of this queue, which is disabled: it is enabled with what is set here (`struct napi_config`).
    Queue(u16),
    /// The device.
    Device,
    /// The socket.
    Socket,
    /// The event context.
    Context,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance(id) => write!(f, "NAPI instance {id}"),
            Self::Queue(queue) => write!(f, "the NAPI instance of queue {queue}"),
            Self::Device => f.write_str("the device"),
            Self::Socket => f.write_str("the socket"),
            Self::Context => f.write_str("the context"),
        }
    }
}

/// What a write found and left at one place.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Change<P> {
    /// Where.
    pub place: P,
    /// What was there.
    pub before: Write,
    /// What was written.
    pub after: Write,
}

/// A write that was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal<P, E> {
    /// Where; `None` if the places could not be listed.
    pub place: Option<P>,
    /// The write.
    pub write: Write,
    /// Why.
    pub error: E,
}

impl<P: fmt::Display, E: fmt::Display> fmt::Display for Refusal<P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.write)?;
        if let Some(place) = &self.place {
            write!(f, " on {place}")?;
        }
        write!(f, ": {}", self.error)
    }
}

impl<P: fmt::Display + fmt::Debug, E: fmt::Display + fmt::Debug> core::error::Error for Refusal<P, E> {}

/// A plan that was not applied: all that it had changed was put back, but for `left`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotApplied<P, E> {
    /// The write that ended it.
    pub refused: Refusal<P, E>,
    /// What could not be put back.
    pub left: Vec<Refusal<P, E>>,
}

impl<P: fmt::Display, E: fmt::Display> fmt::Display for NotApplied<P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refused.fmt(f)?;
        self.left.iter().try_for_each(|left| write!(f, "; not put back: {left}"))
    }
}

impl<P: fmt::Display + fmt::Debug, E: fmt::Display + fmt::Debug> core::error::Error for NotApplied<P, E> {}

/// What a sink refused.
pub type RefusedBy<S> = Refusal<<S as Sink>::Place, <S as Sink>::Error>;

/// What a plan left at a sink that refused it.
pub type NotAppliedBy<S> = NotApplied<<S as Sink>::Place, <S as Sink>::Error>;

/// Makes the writes of a plan in order. A value that is there already is not written again, so that a kernel without a
/// setting is not asked to switch it off.
///
/// # Errors
/// The first write that is refused. What was changed until then is put back.
pub fn apply<S: Sink>(sink: &mut S, plan: &Plan) -> Result<Vec<Change<S::Place>>, NotAppliedBy<S>> {
    let mut changes = Vec::new();
    for write in plan.writes() {
        if let Err((place, error)) = make(sink, write, &mut changes) {
            let left = put_back(sink, &changes).err().unwrap_or_default();
            return Err(NotApplied { refused: Refusal { place, write: *write, error }, left });
        }
    }
    Ok(changes)
}

/// Puts back what changes found, from the last to the first, as far as it is not there already.
///
/// # Errors
/// What could not be put back; all else was.
pub fn put_back<S: Sink>(sink: &mut S, changes: &[Change<S::Place>]) -> Result<(), Vec<RefusedBy<S>>> {
    let mut left = Vec::new();
    for Change { place, before, .. } in changes.iter().rev() {
        if matches!(sink.read(place, before), Ok(Some(now)) if now == *before) {
            continue;
        }
        if let Err(error) = sink.write(place, before) {
            left.push(Refusal { place: Some(place.clone()), write: *before, error });
        }
    }
    if left.is_empty() { Ok(()) } else { Err(left) }
}

/// One write at every place it goes to. What is there is noted first, for a write that is refused may have changed some of
/// it.
fn make<S: Sink>(
    sink: &mut S,
    write: &Write,
    changes: &mut Vec<Change<S::Place>>,
) -> Result<(), (Option<S::Place>, S::Error)> {
    for place in sink.places(write.target()).map_err(|error| (None, error))? {
        let mut step = || {
            if let Write::Device(setting) = write {
                // The device's value is written to all instances, whose own values would be lost.
                let to_each = Write::Instance(setting.as_napi_change());
                for instance in sink.places(Target::Instance)? {
                    if let Some(before) = sink.read(&instance, &to_each)? {
                        changes.push(Change { place: instance, before, after: to_each });
                    }
                }
            }
            match sink.read(&place, write)? {
                Some(before) if before == *write && write.target() != Target::Device => return Ok(()),
                Some(before) => changes.push(Change { place: place.clone(), before, after: *write }),
                None => {}
            }
            sink.write(&place, write)
        };
        step().map_err(|error| (Some(place.clone()), error))?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

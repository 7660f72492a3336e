//! Classes of scheduling (`sched_setscheduler(2)`).

use std::io;

use rustix::process::Pid;

/// A class, as `chrt(1)` names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Other,
    Fifo,
    Rr,
    Batch,
    Idle,
    /// One that is only shown.
    Unknown(u32),
}

impl Class {
    /// Source: `include/uapi/linux/sched.h SCHED_*`.
    pub(crate) const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Other,
            1 => Self::Fifo,
            2 => Self::Rr,
            3 => Self::Batch,
            5 => Self::Idle,
            other => Self::Unknown(other),
        }
    }

    const fn number(self) -> libc::c_int {
        match self {
            Self::Other => libc::SCHED_OTHER,
            Self::Fifo => libc::SCHED_FIFO,
            Self::Rr => libc::SCHED_RR,
            Self::Batch => libc::SCHED_BATCH,
            Self::Idle => libc::SCHED_IDLE,
            Self::Unknown(number) => number.cast_signed(),
        }
    }

    /// `fifo 50`, `other`.
    pub(crate) fn with(self, priority: u32) -> String {
        match self {
            Self::Other => "other".to_owned(),
            Self::Fifo => format!("fifo {priority}"),
            Self::Rr => format!("rr {priority}"),
            Self::Batch => "batch".to_owned(),
            Self::Idle => "idle".to_owned(),
            Self::Unknown(6) => "deadline".to_owned(),
            Self::Unknown(number) => format!("class {number}"),
        }
    }

    /// What [`Self::with`] makes, of the classes that can be set.
    pub(crate) fn parse(text: &str) -> Option<(Self, u32)> {
        let (class, priority) = text.split_once(' ').unwrap_or((text, "0"));
        let priority: u32 = priority.parse().ok()?;
        let (class, range) = match class {
            "other" => (Self::Other, 0..=0),
            "batch" => (Self::Batch, 0..=0),
            "idle" => (Self::Idle, 0..=0),
            "fifo" => (Self::Fifo, 1..=99),
            "rr" => (Self::Rr, 1..=99),
            _ => return None,
        };
        range.contains(&priority).then_some((class, priority))
    }
}

/// Gives a thread a class. The niceness stays.
pub(crate) fn set(thread: Pid, class: Class, priority: u32) -> io::Result<()> {
    let (tid, priority) = (thread.as_raw_nonzero().get(), priority.cast_signed());
    // The kernel's own call: musl has none.
    // SAFETY: `priority`, which is all of `struct sched_param`, lives through the call, which only reads it; the thread is a number.
    let failed = unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, class.number(), &raw const priority) };
    super::checked(failed.min(0) as libc::c_int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_read_as_they_are_written() {
        for (class, priority) in [(Class::Other, 0), (Class::Fifo, 50), (Class::Rr, 1), (Class::Batch, 0)] {
            assert_eq!(Class::parse(&class.with(priority)), Some((class, priority)));
        }
        for wrong in ["fifo", "fifo 0", "fifo 100", "other 1", "deadline", ""] {
            assert_eq!(Class::parse(wrong), None, "{wrong}");
        }
    }
}

//! epoll's part in packet delivery: parameters, the id slot, the busy loop before a sleep, interrupt suspension, and
//! the flow of one wait. Source: `fs/eventpoll.c` (Linux 7.3).
//!
//! An event context has one id slot. It is filled by [`attach`] and emptied by the executor after
//! [`after_busy_loop`]; it may be overwritten by any member's event, so the functions here take its value.

use core::fmt;

use crate::busy::{BusyLimit, BusyParams};
use crate::completion::Tunables;
use crate::errno::Errno;
use crate::ids::napi_id_valid;
use crate::time::{Deadline, Instant, Span};

/// Largest busy-poll budget that needs no capability. Source: `fs/eventpoll.c ep_eventpoll_bp_ioctl`.
pub const UNPRIVILEGED_BUDGET_PKTS_MAX: u16 = 64;

/// Busy-poll parameters of an event context; all zero at first. Source: `include/uapi/linux/eventpoll.h struct
/// epoll_params`.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct EpollParams {
    /// Time limit of the busy loop in busy-poll microseconds (1024 ns each). 0: the `busy_poll` sysctl.
    pub busy_poll_usecs: u32,
    /// Packets per iteration; 0 means 8.
    pub busy_poll_budget: u16,
    /// Prefer busy polling, and suspend interrupts while events are found.
    pub prefer_busy_poll: bool,
}

/// The parameters as a user gave them.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct EpollParamsRequest {
    /// As in [`EpollParams`]; at most 2^31 - 1.
    pub busy_poll_usecs: u32,
    /// As in [`EpollParams`]; more than 64 needs CAP_NET_ADMIN.
    pub busy_poll_budget: u16,
    /// 0 or 1.
    pub prefer_busy_poll: u8,
    /// Must be 0.
    pub pad: u8,
}

impl From<EpollParams> for EpollParamsRequest {
    fn from(params: EpollParams) -> Self {
        let EpollParams { busy_poll_usecs, busy_poll_budget, prefer_busy_poll } = params;
        Self { busy_poll_usecs, busy_poll_budget, prefer_busy_poll: u8::from(prefer_busy_poll), pad: 0 }
    }
}

/// Why parameters were refused. Nothing was stored.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum EpollParamsError {
    /// EINVAL: the named field is out of range.
    Invalid(&'static str),
    /// EPERM: the budget needs CAP_NET_ADMIN.
    NotPermitted,
}

impl EpollParamsError {
    /// The kernel's error number for it.
    #[must_use]
    pub const fn errno(self) -> Errno {
        match self {
            Self::Invalid(_) => Errno::EINVAL,
            Self::NotPermitted => Errno::EPERM,
        }
    }
}

impl fmt::Display for EpollParamsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid("pad") => f.write_str("EINVAL: pad must be 0"),
            Self::Invalid("busy_poll_usecs") => f.write_str("EINVAL: busy_poll_usecs must be at most 2147483647"),
            Self::Invalid("prefer_busy_poll") => f.write_str("EINVAL: prefer_busy_poll must be 0 or 1"),
            Self::Invalid(field) => write!(f, "EINVAL: {field} is out of range"),
            Self::NotPermitted => {
                f.write_str("EPERM: busy_poll_budget above 64 needs CAP_NET_ADMIN; give at most 64, or the capability")
            }
        }
    }
}

impl core::error::Error for EpollParamsError {}

impl EpollParamsRequest {
    /// Checks in the kernel's order; the first failure wins. Source: `fs/eventpoll.c ep_eventpoll_bp_ioctl`.
    ///
    /// # Errors
    /// See [`EpollParamsError`].
    pub const fn check(self, cap_net_admin: bool) -> Result<EpollParams, EpollParamsError> {
        if self.pad != 0 {
            return Err(EpollParamsError::Invalid("pad"));
        }
        if self.busy_poll_usecs > i32::MAX as u32 {
            return Err(EpollParamsError::Invalid("busy_poll_usecs"));
        }
        if self.prefer_busy_poll > 1 {
            return Err(EpollParamsError::Invalid("prefer_busy_poll"));
        }
        if self.busy_poll_budget > UNPRIVILEGED_BUDGET_PKTS_MAX && !cap_net_admin {
            return Err(EpollParamsError::NotPermitted);
        }
        Ok(EpollParams {
            busy_poll_usecs: self.busy_poll_usecs,
            busy_poll_budget: self.busy_poll_budget,
            prefer_busy_poll: self.prefer_busy_poll == 1,
        })
    }
}

/// True if a context busy polls at all; `sysctl_busy_poll` is `net.core.busy_poll`. Source: `fs/eventpoll.c
/// ep_busy_loop_on`.
#[inline]
#[must_use]
pub const fn busy_poll_on(p: &EpollParams, sysctl_busy_poll: u32) -> bool {
    p.busy_poll_usecs != 0 || p.prefer_busy_poll || sysctl_busy_poll != 0
}

/// The slot after a member was added (not modified) or became ready; `socket_napi_id` is what its socket recorded, 0
/// for anything that is no socket. The last event wins. Source: `fs/eventpoll.c ep_set_busy_poll_napi_id`.
#[inline]
#[must_use]
pub const fn attach(slot: u32, p: &EpollParams, sysctl_busy_poll: u32, socket_napi_id: u32, first_id: u32) -> u32 {
    if busy_poll_on(p, sysctl_busy_poll) && napi_id_valid(socket_napi_id, first_id) { socket_napi_id } else { slot }
}

/// The busy loop to run on the instance in `slot` before sleeping; `None`: none, and nothing is resumed either. Source:
/// `fs/eventpoll.c ep_busy_loop`.
#[inline]
#[must_use]
pub const fn ep_busy_loop(slot: u32, p: &EpollParams, sysctl_busy_poll: u32, first_id: u32) -> Option<BusyParams> {
    if !napi_id_valid(slot, first_id) || !busy_poll_on(p, sysctl_busy_poll) {
        return None;
    }
    let usecs = if p.busy_poll_usecs != 0 { p.busy_poll_usecs } else { sysctl_busy_poll };
    Some(BusyParams { prefer: p.prefer_busy_poll, budget_pkts: p.busy_poll_budget, limit: BusyLimit::For(usecs) })
}

/// What follows a context's busy loop.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum EpollAfter {
    /// There are events. The slot stays.
    Events,
    /// None: resume the interrupts of this instance ([`resume`]), and empty the slot.
    Resume {
        /// The instance.
        napi_id: u32,
    },
    /// None, and nothing to resume: empty the slot.
    Nothing,
}

/// Decides after a busy loop on the instance in `slot`. Unless there are events the slot becomes 0, until the next
/// [`attach`]. Source: `fs/eventpoll.c ep_busy_loop`.
#[inline]
pub const fn after_busy_loop(slot: u32, p: &EpollParams, events: bool) -> EpollAfter {
    if events {
        EpollAfter::Events
    } else if p.prefer_busy_poll {
        EpollAfter::Resume { napi_id: slot }
    } else {
        EpollAfter::Nothing
    }
}

/// The instance whose interrupts are to be suspended ([`suspend`]) because the wait returns events. Source:
/// `fs/eventpoll.c ep_suspend_napi_irqs`.
#[inline]
#[must_use]
pub const fn suspend_on_events(slot: u32, p: &EpollParams, first_id: u32) -> Option<u32> {
    if p.prefer_busy_poll && napi_id_valid(slot, first_id) { Some(slot) } else { None }
}

/// The instance whose interrupts are to be resumed ([`resume`]) because the last reference to the context goes. Source:
/// `fs/eventpoll.c ep_free`.
#[inline]
#[must_use]
pub const fn resume_on_close(slot: u32, p: &EpollParams, first_id: u32) -> Option<u32> {
    suspend_on_events(slot, p, first_id)
}

/// Suspends: the time to arm the instance's timer with, if any. The state word and the deferral counter stay as they
/// are, and nothing is masked: it works while a deferral keeps the interrupt masked already. Source: `net/core/dev.c
/// napi_suspend_irqs`.
#[inline]
#[must_use]
pub const fn suspend(t: &Tunables) -> Option<Span> {
    if t.irq_suspend_timeout.is_zero() { None } else { Some(t.irq_suspend_timeout) }
}

/// Resumes: true if the instance is to be scheduled ([`crate::state::State::schedule_prep`]). An armed timer stays
/// armed. Source: `net/core/dev.c napi_resume_irqs`.
#[inline]
#[must_use]
pub const fn resume(t: &Tunables) -> bool {
    !t.irq_suspend_timeout.is_zero()
}

/// What a wait does next; each is answered by the method named.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum WaitStep {
    /// Hand out events, as many as fit. More than none: suspend ([`suspend_on_events`]), return them, and forget this
    /// machine. Answer: [`EpollWait::on_transferred`].
    Transfer,
    /// Return no events.
    Return0,
    /// Run [`ep_busy_loop`] if there is one, then [`after_busy_loop`]. Answer: [`EpollWait::on_busy`].
    BusyLoop,
    /// Sleep until there are events or this deadline (which may have passed). Answer: [`EpollWait::on_woken`].
    Sleep {
        /// When to give up.
        until: Deadline,
    },
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
enum WaitPhase {
    Transferring,
    Busy,
    Sleeping,
    TimedOut,
    Returned,
}

/// One wait on an event context. A time-out of zero neither busy polls nor resumes interrupts; any other runs one busy
/// loop before each sleep. Source: `fs/eventpoll.c ep_poll`.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct EpollWait {
    phase: WaitPhase,
    timed_out: bool,
    until: Deadline,
}

impl EpollWait {
    /// A wait begins at `now`. `ready`: the context has events; `timeout`: `None` waits for ever, zero not at all.
    #[inline]
    #[must_use]
    pub const fn new(now: Instant, timeout: Option<Span>, ready: bool) -> Self {
        let (until, timed_out) = match timeout {
            None => (Deadline::NEVER, false),
            Some(span) => (Deadline::after(now, span), span.is_zero()),
        };
        let idle = if timed_out { WaitPhase::TimedOut } else { WaitPhase::Busy };
        Self { phase: if ready { WaitPhase::Transferring } else { idle }, timed_out, until }
    }

    /// What to do next.
    ///
    /// # Panics
    /// After events were handed out: the wait is over.
    #[inline]
    pub const fn next(&self) -> WaitStep {
        match self.phase {
            WaitPhase::Transferring => WaitStep::Transfer,
            WaitPhase::Busy => WaitStep::BusyLoop,
            WaitPhase::Sleeping => WaitStep::Sleep { until: self.until },
            WaitPhase::TimedOut => WaitStep::Return0,
            WaitPhase::Returned => panic!("the wait has returned its events"),
        }
    }

    /// So many events were handed out; none if what looked ready was not.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub fn on_transferred(&mut self, events: usize) {
        assert!(self.phase == WaitPhase::Transferring, "on_transferred answers Transfer");
        self.phase = match (events, self.timed_out) {
            (1.., _) => WaitPhase::Returned,
            (0, true) => WaitPhase::TimedOut,
            (0, false) => WaitPhase::Busy,
        };
    }

    /// The busy loop (if any) is over, and there are events or not.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub fn on_busy(&mut self, ready: bool) {
        assert!(self.phase == WaitPhase::Busy, "on_busy answers BusyLoop");
        self.phase = if ready { WaitPhase::Transferring } else { WaitPhase::Sleeping };
    }

    /// The sleep is over. `ready`: there are events. `false` says that the deadline has passed; a wake-up before it
    /// that brought nothing is not reported (sleep on).
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub fn on_woken(&mut self, ready: bool) {
        assert!(self.phase == WaitPhase::Sleeping, "on_woken answers Sleep");
        assert!(ready || !self.until.is_never(), "a sleep without deadline ends with events");
        self.timed_out = !ready;
        self.phase = if ready { WaitPhase::Transferring } else { WaitPhase::TimedOut };
    }
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;

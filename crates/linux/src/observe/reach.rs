//! Which waits of a program a mode can reach.
//!
//! | a program waits in | polls by the program come from |
//! |---|---|
//! | `epoll_wait` on an epoll instance that has sockets | parameters of that instance, or `net.core.busy_poll` |
//! | `epoll_wait` on one that has another one, `poll` or `select` on one | nothing: what sleeps has no socket of its own, so it learns no instance |
//! | `poll`, `select` | `net.core.busy_poll`, with `SO_BUSY_POLL` |
//! | a receive that blocks | `SO_BUSY_POLL` |
//! | `io_uring_enter` | `IORING_REGISTER_NAPI`; there is no suspension |
//!
//! Source: `fs/eventpoll.c ep_busy_loop`, `ep_set_busy_poll_napi_id`, `fs/select.c do_poll`, `net/core/sock.c sk_busy_loop_end`,
//! `io_uring/napi.c`.

use std::collections::BTreeSet;

use napier_core::control::NapiChange;
use napier_core::control::plan::Plan;
use napier_core::sockopt::BusyOption;
use serde::Serialize;

use super::{How, Waits};
use crate::observe::parts::Program;

/// Looks at a wait that make it a habit: a program may ask a name server in another way, once.
const HABIT: u32 = 2;

/// What is seen so many times less often than the most frequent wait is none.
const RARE: u32 = 5;

/// What of a mode a program has to have a part in.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Its epoll instances poll.
    pub epolls: bool,
    /// Its sockets poll in receives.
    pub sockets: bool,
    /// Interrupts are suspended while its epoll instances find events.
    pub suspends: bool,
    /// `net.core.busy_poll` is set: `poll` and `select` poll sockets that busy poll.
    pub is_poll_busy: bool,
}

impl Needs {
    /// What a mode's plan needs, on this machine.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let suspends = |change| matches!(change, NapiChange::IrqSuspendTimeout(span) if span.ns > 0);
        let busy_poll = std::fs::read_to_string("/proc/sys/net/core/busy_poll").ok();
        Self {
            epolls: plan.context().is_some_and(|params| params.prefer_busy_poll || params.busy_poll_usecs > 0),
            sockets: plan.option(BusyOption::BusyPoll).is_some_and(|usecs| usecs > 0),
            suspends: plan.changes().any(suspends),
            is_poll_busy: busy_poll.and_then(|text| text.trim().parse::<u64>().ok()).is_some_and(|usecs| usecs > 0),
        }
    }
}

/// Waits of a program that a mode does not reach.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Unreached {
    /// It waits in this way for so many of its sockets.
    Calls {
        /// The way.
        how: How,
        /// How many.
        sockets: usize,
    },
    /// An epoll instance is waited for with another one.
    Nested {
        /// The one that has sockets.
        inner: i32,
        /// The one that is waited in.
        outer: i32,
    },
    /// An epoll instance is waited for with `poll` or `select`.
    Polled {
        /// Its descriptor.
        epoll: i32,
        /// With which.
        how: How,
    },
    /// A ring of io_uring that does not poll, or that waits under suspension.
    Ring {
        /// Its descriptor.
        fd: i32,
        /// It polls by itself, but nothing suspends.
        polls: bool,
    },
    /// Sockets that poll in receives wait in an epoll instance that does not.
    EpollOfSockets {
        /// How many.
        sockets: usize,
    },
    /// It has sockets, and none of them in an epoll instance; how it waits is not shown.
    NoEpoll {
        /// How many.
        sockets: usize,
    },
}

/// What of a program a mode does not reach; empty where all is reached, or nothing is known.
#[must_use]
pub fn unreached(program: &Program, waits: &Waits, needs: Needs) -> Vec<Unreached> {
    let mut found = Vec::new();
    if !needs.epolls && !needs.sockets {
        return found;
    }
    let most = waits.found.values().copied().max().unwrap_or(0);
    let habits = |how: How| -> BTreeSet<i32> {
        // A call that waits for something else inside, such as a lock, is seen now and then.
        let is_habit = |looks: u32| looks >= HABIT && looks * RARE >= most;
        let often = waits.found.iter().filter(|((found, _), looks)| *found == how && is_habit(**looks));
        often.map(|((_, fd), _)| *fd).collect()
    };
    let calls = |how: How| {
        let sockets = habits(how).intersection(&program.internet).count();
        (sockets > 0).then_some(Unreached::Calls { how, sockets })
    };
    let members: BTreeSet<i32> = program.epolls.iter().flat_map(|epoll| epoll.members.iter().copied()).collect();
    let in_epolls = program.internet.intersection(&members).count();
    let uses_rings = in_epolls == 0 || !habits(How::Ring).is_empty();
    if needs.epolls {
        found.extend(epolls_behind_others(program, &habits));
        found.extend(rings(program, needs, uses_rings));
        found.extend([How::Poll, How::Select, How::Receive].into_iter().filter_map(calls));
        // Of one that was in use when it was asked that is not known.
        let rings_poll = program.rings.iter().any(|ring| ring.polls != Some(false));
        if found.is_empty() && in_epolls == 0 && !rings_poll && !program.internet.is_empty() && has_time(waits) {
            found.push(Unreached::NoEpoll { sockets: program.internet.len() });
        }
    } else {
        if !needs.is_poll_busy {
            found.extend([How::Poll, How::Select].into_iter().filter_map(calls));
        }
        found.extend(rings(program, needs, uses_rings));
        let polls = |fd: &i32| {
            let epoll = program.epolls.iter().find(|epoll| epoll.members.contains(fd));
            needs.is_poll_busy
                || epoll.is_some_and(|epoll| epoll.params.is_some_and(|params| params.busy_poll_usecs > 0))
        };
        let sockets = program.internet.intersection(&members).filter(|fd| !polls(fd)).count();
        if sockets > 0 {
            found.push(Unreached::EpollOfSockets { sockets });
        }
    }
    found
}

/// It has been looked at for as long as a habit takes, or will not be.
fn has_time(waits: &Waits) -> bool {
    waits.waiting + waits.running >= HABIT || waits.is_hidden
}

/// Epoll instances with sockets that the program sleeps before in another call.
fn epolls_behind_others(program: &Program, habits: &dyn Fn(How) -> BTreeSet<i32>) -> Vec<Unreached> {
    let with_sockets =
        program.epolls.iter().filter(|epoll| epoll.members.iter().any(|fd| program.internet.contains(fd)));
    let behind = |fd: i32| {
        if let Some(outer) = program.outer_of(fd) {
            return Some(Unreached::Nested { inner: fd, outer });
        }
        let how = [How::Poll, How::Select].into_iter().find(|how| habits(*how).contains(&fd))?;
        Some(Unreached::Polled { epoll: fd, how })
    };
    with_sockets.filter_map(|epoll| behind(epoll.fd)).collect()
}

/// Rings that do not poll, or that poll where suspension is what was asked for. A ring may be for files alone: it counts where a thread waits
/// in one, or where no socket is in an epoll instance.
fn rings(program: &Program, needs: Needs, is_used: bool) -> Vec<Unreached> {
    let is_hit = |polls| polls == Some(false) || (needs.suspends && polls == Some(true));
    let hit = program.rings.iter().filter(|ring| is_used && is_hit(ring.polls));
    hit.map(|ring| Unreached::Ring { fd: ring.fd, polls: ring.polls == Some(true) }).collect()
}

impl Unreached {
    /// It makes the program slower than no mode would.
    #[must_use]
    pub const fn does_harm(&self) -> bool {
        self.epoll_behind().is_some()
    }

    /// The epoll instance with sockets that the program sleeps before in another call.
    #[must_use]
    pub const fn epoll_behind(&self) -> Option<i32> {
        match self {
            Self::Nested { inner, .. } => Some(*inner),
            Self::Polled { epoll, .. } => Some(*epoll),
            Self::Calls { .. } | Self::Ring { .. } | Self::EpollOfSockets { .. } | Self::NoEpoll { .. } => None,
        }
    }

    /// What the program does, for a sentence that begins with its name.
    #[must_use]
    pub fn text(&self) -> String {
        let some = |count: usize, word: &str| if count == 1 { format!("a {word}") } else { format!("{count} {word}s") };
        match self {
            Self::Calls { how, sockets } => {
                let call = how.call();
                format!("waits for {} in {call}", some(*sockets, "socket"))
            }
            Self::Nested { inner, outer } => {
                format!(
                    "waits for epoll instance {inner} by way of epoll instance {outer}, which learns no NAPI instance"
                )
            }
            Self::Polled { epoll, how } => {
                format!("waits for epoll instance {epoll} in {}, which polls nothing", how.call())
            }
            Self::Ring { fd, polls: false } => {
                format!("waits in io_uring (descriptor {fd}), and that ring does not poll")
            }
            Self::Ring { fd, polls: true } => {
                format!("waits in io_uring (descriptor {fd}), which polls but knows no suspension")
            }
            Self::EpollOfSockets { sockets } => {
                let polls = "busy polls in receives that find nothing alone";
                format!("waits for {} with epoll, and SO_BUSY_POLL {polls}", some(*sockets, "socket"))
            }
            Self::NoEpoll { sockets } => {
                format!("has {} and none of them in an epoll instance", some(*sockets, "socket"))
            }
        }
    }

    /// Modes that would act, in words.
    #[must_use]
    pub const fn instead(&self) -> &'static str {
        match self {
            Self::Calls { how: How::Receive, .. } => "busy-read, threaded or threaded-busy-poll",
            Self::EpollOfSockets { .. } => "suspendX or napibusy",
            Self::Ring { .. } => "napibusy, threaded or threaded-busy-poll",
            Self::Calls { .. } | Self::Nested { .. } | Self::Polled { .. } | Self::NoEpoll { .. } => {
                "threaded or threaded-busy-poll"
            }
        }
    }
}

impl How {
    /// The call, for people.
    #[must_use]
    pub const fn call(self) -> &'static str {
        match self {
            Self::Epoll => "epoll_wait()",
            Self::Poll => "poll()",
            Self::Select => "select()",
            Self::Receive => "receives that block",
            Self::Ring => "io_uring",
        }
    }
}

#[cfg(test)]
#[path = "reach_tests.rs"]
mod tests;

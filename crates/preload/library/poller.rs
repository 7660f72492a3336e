//! Polls the NAPI instances of a program's sockets when Linux does not: it forgets which instance an epoll instance is for at the
//! end of each busy loop that found nothing, and knows it again at the next event from that instance (`fs/eventpoll.c
//! ep_busy_loop`), which then waits for a timer. A new epoll instance knows it when a socket is added (`ep_set_busy_poll_napi_id`).

use core::ffi::c_int;

use super::abi::{self, EINTR, EPOLL_CTL_ADD, EPOLL_CTL_DEL, Event, Params, Signals};
use super::known;
use super::marks::OWN_PARAMS;

/// How it polls: for so many microseconds at once, and by a budget that no mode has, by which others know the instance.
const PARAMS: Params = Params { usecs: OWN_PARAMS.0, budget: OWN_PARAMS.1, prefer: 1, pad: 0 };

/// NAPI instances that are polled in turn.
const INSTANCES_MAX: usize = 8;

/// Turns until its sockets are looked for anew, and whether the mode still is in force.
const TURNS_MAX: u32 = 1024;

/// A turn that takes longer has other parameters: another program has set its own.
const TURN_MAX_NS: u64 = 500_000;

/// What came of a turn.
#[derive(PartialEq, Eq)]
pub(crate) enum Turn {
    Polled,
    /// A signal came, and was handled.
    Signal,
    /// There is no socket to poll for.
    Useless,
}

/// An epoll instance of the library's own. It is closed by [`SocketPoller::close`] and not when it is dropped: a thread that is cancelled unwinds
/// no frame that would have to drop it.
pub(crate) struct SocketPoller {
    epoll: c_int,
    of: c_int,
    sockets: [c_int; INSTANCES_MAX],
    count: usize,
    turns: u32,
}

impl SocketPoller {
    /// For the sockets of a program's epoll instance; `None` if none of them has had a packet from a NAPI instance.
    pub(crate) fn open(of: c_int) -> Option<Self> {
        let mut poller = Self { epoll: -1, of, sockets: [-1; INSTANCES_MAX], count: 0, turns: 0 };
        poller.find();
        if poller.count == 0 {
            return None;
        }
        poller.epoll = abi::create()?;
        if !abi::set_params(poller.epoll, PARAMS) {
            abi::close(poller.epoll);
            return None;
        }
        Some(poller)
    }

    /// One socket of each instance.
    fn find(&mut self) {
        let mut ids = [0; INSTANCES_MAX];
        self.count = 0;
        for nth in 0..known::EACH {
            let Some(fd) = known::before_last(self.of, nth) else { continue };
            let Some(id) = abi::napi_id(fd) else { continue };
            if ids[..self.count].contains(&id) {
                continue;
            }
            self.sockets[self.count] = fd;
            ids[self.count] = id;
            self.count += 1;
            if self.count == INSTANCES_MAX {
                return;
            }
        }
    }

    /// Polls one instance for a moment. The mask is in force meanwhile.
    pub(crate) fn turn(&mut self, mask: *const Signals) -> Turn {
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(TURNS_MAX) {
            // The mode may have been taken back.
            if abi::params(self.of).is_none_or(|found| found.prefer == 0) {
                return Turn::Useless;
            }
            self.find();
        }
        if self.count == 0 {
            return Turn::Useless;
        }
        let at = self.turns as usize % self.count;
        let socket = self.sockets[at];
        if !abi::control(self.epoll, EPOLL_CTL_ADD, socket) {
            // Closed since.
            self.forget(at);
            return Turn::Polled;
        }
        let mut event = Event { events: 0, data: 0 };
        let begun = abi::now();
        // SAFETY: there is room for one event, and the mask is the caller's.
        let found = unsafe { abi::pwait2(self.epoll, &raw mut event, 1, 1, mask) };
        let failure = if found < 0 { abi::errno() } else { 0 };
        abi::control(self.epoll, EPOLL_CTL_DEL, socket);
        if found > 0 {
            // Its connection is over, so that it is ready for ever, and nothing was polled.
            self.forget(at);
        } else if abi::now().wrapping_sub(begun) > TURN_MAX_NS {
            abi::set_params(self.epoll, PARAMS);
        }
        match failure {
            0 => Turn::Polled,
            EINTR => Turn::Signal,
            // A filter of system calls.
            _ => Turn::Useless,
        }
    }

    fn forget(&mut self, at: usize) {
        self.count -= 1;
        self.sockets[at] = self.sockets[self.count];
    }

    pub(crate) fn close(self) {
        abi::close(self.epoll);
    }
}

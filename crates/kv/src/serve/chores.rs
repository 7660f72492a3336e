//! What a worker does beside serving, each at its time: it takes up accepting again after it was out of descriptors,
//! closes connections that are idle, and gives memory back to the operating system.
//!
//! A worker without any of it to do looks at no clock for it.

use std::time::{Duration, Instant};

use crate::session::Server;

/// How long nothing is accepted after the system had no descriptor or memory for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long memory that connections gave back may be wanted again before the operating system gets it.
const MEMORY_PAUSE: Duration = Duration::from_secs(1);

/// Idle connections are looked for four times in the time that they may be idle, but not more often than this.
const SWEEP_MIN: Duration = Duration::from_millis(10);
const SWEEP_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Chores {
    started: Instant,
    idle_timeout: Option<Duration>,
    /// Since the start, if there is a time-out for idle connections.
    now: Duration,
    accept_at: Option<Instant>,
    sweep_at: Option<Instant>,
    memory_at: Option<Instant>,
    /// The first of them.
    first_at: Option<Instant>,
}

impl Default for Chores {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Chores {
    pub(super) fn new(idle_timeout: Option<Duration>) -> Self {
        let started = Instant::now();
        let mut chores = Self {
            started,
            idle_timeout,
            now: Duration::ZERO,
            accept_at: None,
            sweep_at: None,
            memory_at: None,
            first_at: None,
        };
        chores.plan_sweep(started);
        chores
    }

    /// The longest wait that is in time for all.
    #[inline]
    pub(super) fn wait(&self, wait_max: Option<Duration>) -> Option<Duration> {
        let Some(first) = self.first_at else { return wait_max };
        let left = first.saturating_duration_since(Instant::now());
        Some(wait_max.map_or(left, |wait_max| wait_max.min(left)))
    }

    /// To be called once per turn, after the wait.
    pub(super) fn begin_turn(&mut self) {
        if self.idle_timeout.is_some() {
            self.now = self.started.elapsed();
        }
    }

    /// The clock by which connections are idle, in ms; it stands still if they may be so for ever.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.now.as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether there is something to do; also finds out whether there is memory to give back some time.
    #[inline]
    pub(super) fn are_due(&mut self, server: &Server) -> bool {
        if self.memory_at.is_none() && server.store.has_slack() {
            self.memory_at = Some(Instant::now() + MEMORY_PAUSE);
            self.plan();
        }
        self.first_at.is_some_and(|first| first <= Instant::now())
    }

    pub(super) fn accept_later(&mut self) {
        self.accept_at = Some(Instant::now() + ACCEPT_PAUSE);
        self.plan();
    }

    pub(super) fn takes_up_accepting(&mut self) -> bool {
        self.take_if_due(|chores| &mut chores.accept_at)
    }

    /// If idle connections are to be looked for: those last seen alive before this time, by [`now_ms`](Self::now_ms).
    pub(super) fn sweeps_idle(&mut self) -> Option<u64> {
        if !self.take_if_due(|chores| &mut chores.sweep_at) {
            return None;
        }
        self.plan_sweep(Instant::now());
        let oldest = self.now.checked_sub(self.idle_timeout?)?;
        u64::try_from(oldest.as_millis()).ok()
    }

    pub(super) fn gives_back_memory(&mut self, server: &Server) -> bool {
        self.take_if_due(|chores| &mut chores.memory_at) && server.store.take_slack()
    }

    fn plan_sweep(&mut self, now: Instant) {
        self.sweep_at = self.idle_timeout.map(|timeout| now + (timeout / 4).clamp(SWEEP_MIN, SWEEP_MAX));
        self.plan();
    }

    fn take_if_due(&mut self, which: fn(&mut Self) -> &mut Option<Instant>) -> bool {
        let is_due = which(self).take_if(|at| *at <= Instant::now()).is_some();
        self.plan();
        is_due
    }

    fn plan(&mut self) {
        self.first_at = [self.accept_at, self.sweep_at, self.memory_at].into_iter().flatten().min();
    }
}

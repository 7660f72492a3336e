//! One NAPI instance on one CPU with a virtual clock: what happens is what the rules say, and is written to a log.

use napier_core::busy::{AfterStopPoll, BusyLoop, BusyParams, BusyStep, BusyStop, after_stop_poll, busy_poll_stop};
use napier_core::completion::{Completed, Completion, Tunables, complete};
use napier_core::event::{self, EpollAfter, EpollParams, EpollWait, WaitStep, after_busy_loop, attach, ep_busy_loop};
use napier_core::poll::{AfterPoll, NAPI_POLL_WEIGHT, after_poll};
use napier_core::sockopt::SocketBusy;
use napier_core::state::{State, Threaded};
use napier_core::time::{Deadline, Instant, Span};

pub(crate) const FIRST_ID: u32 = 9;
pub(crate) const ID: u32 = 20;
/// What one iteration of a busy loop takes.
pub(crate) const ITERATION: Span = Span::from_us(4);

/// What the log holds.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Soft { work: u32, budget: u32 },
    User { work: u32, budget: u32 },
    Start(Span),
    Fire,
    Unmask,
}

pub(crate) struct Bench {
    pub(crate) now: Instant,
    pub(crate) word: State,
    pub(crate) defers_left: u32,
    pub(crate) tunables: Tunables,
    pub(crate) pending: u32,
    pub(crate) masked: bool,
    pub(crate) timer: Deadline,
    /// Packets in the socket's queue.
    pub(crate) queue: u32,
    pub(crate) delivered_at: Vec<Instant>,
    pub(crate) arrivals: Vec<Instant>,
    pub(crate) socket: SocketBusy,
    pub(crate) slot: u32,
    pub(crate) params: EpollParams,
    pub(crate) sysctl_busy_poll: u32,
    /// The application, on another CPU, returns from its wait before the delivering poll completes.
    pub(crate) suspend_inside_poll: bool,
    pub(crate) log: Vec<(Instant, Event)>,
}

impl Bench {
    pub(crate) fn new(dhi: u32, gft: Span, ist: Span) -> Self {
        let tunables = Tunables { defer_hard_irqs: dhi, gro_flush_timeout: gft, irq_suspend_timeout: ist };
        Self {
            now: Instant::from_ns(1 << 30),
            word: State::ADDED.enable(Threaded::Disabled).expect("it is disabled"),
            defers_left: 0,
            tunables,
            pending: 0,
            masked: false,
            timer: Deadline::NEVER,
            queue: 0,
            delivered_at: Vec::new(),
            arrivals: Vec::new(),
            socket: SocketBusy { napi_id: ID, ..SocketBusy::new(0) },
            slot: 0,
            params: EpollParams::default(),
            sysctl_busy_poll: 0,
            suspend_inside_poll: false,
            log: Vec::new(),
        }
    }

    fn note(&mut self, event: Event) {
        self.log.push((self.now, event));
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.log.iter().map(|(_, event)| *event).collect()
    }

    pub(crate) fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.log.iter().filter(|(_, event)| wanted(event)).count()
    }

    pub(crate) fn soft_polls(&self) -> usize {
        self.count(|event| matches!(event, Event::Soft { .. }))
    }

    pub(crate) fn user_polls(&self) -> usize {
        self.count(|event| matches!(event, Event::User { .. }))
    }

    pub(crate) fn arm(&mut self, span: Span) {
        self.note(Event::Start(span));
        self.timer = Deadline::after(self.now, span);
    }

    /// A packet arrives now.
    pub(crate) fn packet(&mut self) {
        self.pending += 1;
        if !self.masked && self.prep() {
            self.masked = true;
            self.softirq();
        }
    }

    fn prep(&mut self) -> bool {
        let (word, got) = self.word.schedule_prep();
        self.word = word;
        got
    }

    fn deliver(&mut self, work: u32) {
        self.pending -= work;
        self.queue += work;
        for _ in 0..work {
            self.delivered_at.push(self.now);
            self.slot = attach(self.slot, &self.params, self.sysctl_busy_poll, ID, FIRST_ID);
        }
        if work > 0 && self.suspend_inside_poll {
            self.suspend();
        }
    }

    /// Polls until the instance is released.
    fn softirq(&mut self) {
        loop {
            let work = self.pending.min(NAPI_POLL_WEIGHT);
            self.note(Event::Soft { work, budget: NAPI_POLL_WEIGHT });
            self.deliver(work);
            if work < NAPI_POLL_WEIGHT {
                if !self.complete_and_unmask(work) {
                    continue;
                }
                return;
            }
            let after = after_poll(self.word, work, NAPI_POLL_WEIGHT, 250);
            assert!(matches!(after, AfterPoll::Repoll { .. }), "{after:?}");
        }
    }

    /// False: rescheduled, poll again.
    fn complete_and_unmask(&mut self, work: u32) -> bool {
        let t = self.tunables;
        let Completion::Release(release) = complete(self.word, work, false, &t, &mut self.defers_left) else {
            panic!("refused");
        };
        let (word, missed) = self.word.complete_release();
        self.word = word;
        match release.finish(missed) {
            Completed::Reschedule => return false,
            Completed::Released { arm, unmask } => {
                if let Some(span) = arm {
                    self.arm(span);
                }
                if unmask {
                    self.note(Event::Unmask);
                    self.masked = false;
                }
            }
        }
        true
    }

    /// Time passes, timers fire, packets arrive; stops early when there is something in the queue, if asked to.
    pub(crate) fn advance_until(&mut self, until: Deadline, stop_on_events: bool) {
        while !(stop_on_events && self.queue > 0) {
            let arrival = self.arrivals.first().map_or(Deadline::NEVER, |at| Deadline::at(*at));
            let next = self.timer.earliest(arrival).earliest(until);
            self.now = self.now.max(next.instant().expect("something ends the wait"));
            if next == arrival && !arrival.is_never() {
                self.arrivals.remove(0);
                self.packet();
            } else if next == self.timer {
                self.timer = Deadline::NEVER;
                self.note(Event::Fire);
                if let Some(word) = self.word.timer_acquire() {
                    self.word = word;
                    self.softirq();
                }
            } else {
                return;
            }
        }
    }

    pub(crate) fn advance(&mut self, span: Span) {
        self.advance_until(Deadline::after(self.now, span), false);
    }

    pub(crate) fn set_prefer(&mut self, prefer: bool) {
        self.socket.prefer = prefer;
        self.params.prefer_busy_poll = prefer;
    }

    /// A receive call on an empty queue; returns true if it found something.
    pub(crate) fn recv(&mut self, nonblocking: bool) -> bool {
        if self.queue == 0
            && let Some(params) = self.socket.busy_params(nonblocking, FIRST_ID)
        {
            self.busy_loop(params);
        }
        self.queue > 0
    }

    fn busy_loop(&mut self, params: BusyParams) {
        let mut busy = BusyLoop::new(params, self.now);
        let mut budget = 0;
        loop {
            match busy.next() {
                BusyStep::Acquire => {
                    let word = self.word.busy_acquire();
                    self.word = word.unwrap_or(self.word);
                    busy.on_acquire(word.is_some());
                }
                BusyStep::Poll { budget_pkts } => {
                    budget = budget_pkts;
                    let work = self.user_poll(budget_pkts);
                    busy.on_polled(work);
                }
                BusyStep::CheckEnd => {
                    self.advance(ITERATION);
                    busy.on_ended(self.now, self.queue > 0, false);
                }
                BusyStep::Stop => {
                    self.stop(params.prefer, budget);
                    busy.on_stopped();
                }
                BusyStep::Yield => unreachable!("nobody else wants the CPU"),
                BusyStep::Leave => return,
            }
        }
    }

    fn user_poll(&mut self, budget: u16) -> u32 {
        let work = self.pending.min(budget.into());
        self.note(Event::User { work, budget: budget.into() });
        self.deliver(work);
        work
    }

    fn stop(&mut self, prefer: bool, budget: u16) {
        self.word = self.word.busy_stop_begin();
        let t = self.tunables;
        match busy_poll_stop(prefer, &t, &mut self.defers_left) {
            BusyStop::ArmTimer(span) => {
                self.word = self.word.busy_stop_release();
                self.arm(span);
            }
            BusyStop::PollOnce => {
                let work = self.user_poll(budget);
                let again = match after_stop_poll(work, budget) {
                    AfterStopPoll::HandOver => true,
                    AfterStopPoll::Gone => !self.complete_and_unmask(work),
                };
                if again {
                    self.softirq();
                }
            }
        }
    }

    fn suspend(&mut self) {
        if event::suspend_on_events(self.slot, &self.params, FIRST_ID).is_some()
            && let Some(span) = event::suspend(&self.tunables)
        {
            self.arm(span);
        }
    }

    fn resume(&mut self) {
        if event::resume(&self.tunables) && self.prep() {
            self.softirq();
        }
    }

    /// The context's last reference goes.
    pub(crate) fn close(&mut self) {
        if event::resume_on_close(self.slot, &self.params, FIRST_ID).is_some() {
            self.resume();
        }
    }

    /// Waits and takes at most `max_events` packets, one event each.
    pub(crate) fn epoll_wait(&mut self, timeout: Option<Span>, max_events: u32) -> u32 {
        let mut wait = EpollWait::new(self.now, timeout, self.queue > 0);
        loop {
            match wait.next() {
                WaitStep::Transfer => {
                    let events = self.queue.min(max_events);
                    self.queue -= events;
                    if events > 0 {
                        self.suspend();
                        return events;
                    }
                    wait.on_transferred(0);
                }
                WaitStep::Return0 => return 0,
                WaitStep::BusyLoop => {
                    if let Some(params) = ep_busy_loop(self.slot, &self.params, self.sysctl_busy_poll, FIRST_ID) {
                        self.busy_loop(params);
                        match after_busy_loop(self.slot, &self.params, self.queue > 0) {
                            EpollAfter::Events => {}
                            EpollAfter::Resume { napi_id } => {
                                assert_eq!(napi_id, ID);
                                self.resume();
                                self.slot = 0;
                            }
                            EpollAfter::Nothing => self.slot = 0,
                        }
                    }
                    wait.on_busy(self.queue > 0);
                }
                WaitStep::Sleep { until } => {
                    self.advance_until(until, true);
                    wait.on_woken(self.queue > 0);
                }
            }
        }
    }

    /// Link down.
    pub(crate) fn disable(&mut self) {
        self.word = self.word.disable_begin();
        self.word = self.word.disable_claim().expect("nobody owns it");
        self.timer = Deadline::NEVER;
        self.word = self.word.disable_end();
    }
}

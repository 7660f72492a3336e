//! The load generator: one thread, many flows with a window of requests each, over any wire.
//!
//! Latency is taken from the moment a request should have left, so a generator or a server that falls behind is not
//! excused from the waiting time it causes; the figure from the moment it was handed to its flow is kept beside. A
//! request that finds all windows full waits, and that waiting counts, unless the plan lets it overrun them.

use napier_rng::load::Load;
use std::iter::Peekable;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::bail;

use super::codec::{ReplyVerdict, Request};
use super::plan::{Measured, Plan, Window, nanos};
use super::wire::Wire;
use crate::arrivals::Poisson;
use crate::flight::{InFlight, Sent};
use crate::profile::{Draw, Operation, Requests};

/// Sets of the first fill that may be lost.
const LOST_SETS_MAX: u64 = 1000;

/// The generator sleeps only if nothing is due for longer than this, and wakes up so much earlier.
const SPIN_NS: u64 = 60_000;

/// Most requests that are counted as due after the last that was sent: a run that is so far behind is behind.
const UNSENT_MAX: u64 = 1_000_000;

/// Longest sleep: whether the run shall end is looked at after it.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// Flows to a server.
pub struct Generator<W> {
    /// How requests travel.
    pub wire: W,
    /// What is asked for.
    pub plan: Plan,
    /// What is out, by flow.
    flows: Vec<InFlight>,
}

/// One run in progress.
struct LoadRun<'a, W> {
    generator: &'a mut Generator<W>,
    /// Replies to requests that were due in here count.
    from_ns: u64,
    until_ns: u64,
    /// Nothing is sent from then on.
    end_ns: u64,
    out: Measured,
    /// Flows that have room in their window, once for each request; `None` in an open loop.
    idle: Option<Vec<usize>>,
    /// The flow whose turn it is in an open loop.
    next: usize,
    /// When it is next looked for requests to give up.
    next_look_ns: u64,
}

impl<W: Wire> Generator<W> {
    /// A generator of this many flows.
    pub fn new(wire: W, flows: usize, plan: Plan) -> Self {
        Self { wire, plan, flows: vec![InFlight::new(1); flows] }
    }

    /// Flows.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Sets every record once.
    ///
    /// # Errors
    /// The wire breaks, or the server answers what it must not.
    pub fn fill(&mut self, stop: &AtomicBool) -> anyhow::Result<Measured> {
        let mut left: Vec<u32> = (0..self.plan.profile.config().records).rev().collect();
        let mut draws = self.plan.profile.requests("fill");
        let mut run = LoadRun::new(self, (0, u64::MAX), u64::MAX, Load::Max);
        loop {
            let now_ns = run.generator.wire.now_ns();
            run.send_all(now_ns, || {
                let record = left.pop()?;
                Some(Draw { record, operation: Operation::Set { value_bytes: draws.value_bytes(record) } })
            });
            run.generator.wire.flush()?;
            if (run.unanswered() == 0 && left.is_empty()) || stop.load(Ordering::Relaxed) {
                return Ok(run.finish());
            }
            run.receive(WAIT_MAX)?;
            // A set that was lost is sent again, a server that loses everything is not waited for.
            run.give_up(now_ns, |record| left.push(record));
            if run.out.lost > LOST_SETS_MAX {
                let within = run.generator.plan.give_up.unwrap_or_default();
                bail!("{} sets got no answer within {} ms: is the server there?", run.out.lost, within.as_millis());
            }
        }
    }

    /// Runs one load; `name` and the seeds decide what is asked for and when. `on_edge(true)` is called a margin before measuring
    /// begins, `on_edge(false)` a margin after it has ended; requests are sent until then.
    ///
    /// # Errors
    /// The wire breaks, or what comes is no reply.
    pub fn run(
        &mut self,
        pace: Load,
        window: Window,
        (seed, name): (u64, &str),
        stop: &AtomicBool,
        on_edge: &mut dyn FnMut(bool),
    ) -> anyhow::Result<Measured> {
        let start_ns = self.wire.now_ns();
        let from_ns = start_ns + nanos(window.warm_up);
        let (until_ns, drain_ns) = (from_ns + nanos(window.measure), nanos(window.drain));
        let margin_ns = nanos(window.margin);
        let (edge_ns, end_ns) = ([from_ns.saturating_sub(margin_ns), until_ns + margin_ns], until_ns + margin_ns);
        let mut requests = self.plan.profile.requests(name);
        let mut arrivals = match pace {
            Load::Rps(rate_rps) => Some(Poisson::new(rate_rps, seed, name).map(|ns| start_ns + ns).peekable()),
            Load::Max => None,
        };
        let mut run = LoadRun::new(self, (from_ns, until_ns), end_ns, pace);
        let mut edges = 0;
        // When the loop is to go on.
        let mut expected_ns = u64::MAX;
        loop {
            let mut now_ns = run.generator.wire.now_ns();
            if edges == 1 {
                run.out.paused_ns = run.out.paused_ns.max(now_ns.saturating_sub(expected_ns));
            }
            for (number, edge_ns) in edge_ns.into_iter().enumerate() {
                if edges == number && now_ns >= edge_ns {
                    edges += 1;
                    on_edge(number == 0);
                    now_ns = run.generator.wire.now_ns();
                }
            }
            // A generator that is late sends what was due all the same: leaving it out would hide that it waited.
            let owes = now_ns >= end_ns && arrivals.as_mut().is_some_and(|arrivals| due_ns(arrivals) < until_ns);
            let is_over = now_ns >= end_ns && !(owes && now_ns < end_ns + drain_ns);
            if is_over || stop.load(Ordering::Relaxed) {
                break;
            }
            let wait = match &mut arrivals {
                Some(arrivals) => run.send_due(now_ns, &mut requests, arrivals),
                None => {
                    run.send_all(now_ns, || Some(requests.draw()));
                    WAIT_MAX
                }
            };
            run.generator.wire.flush()?;
            let wait = wait.min(Duration::from_nanos(end_ns.saturating_sub(now_ns)));
            expected_ns = now_ns + nanos(wait);
            run.receive(wait)?;
            run.give_up(now_ns, |_| ());
        }
        run.out.due = run.out.sent;
        if let Some(arrivals) = arrivals.as_mut().filter(|_| !stop.load(Ordering::Relaxed)) {
            run.out.due += unsent(arrivals, (from_ns, until_ns));
        }
        let drained_ns = run.generator.wire.now_ns() + drain_ns;
        while run.unanswered() > 0 && run.generator.wire.now_ns() < drained_ns && !stop.load(Ordering::Relaxed) {
            run.generator.wire.flush()?;
            run.receive(Duration::from_millis(1))?;
        }
        Ok(run.finish())
    }

    /// Waits until nothing has come for `quiet`, or for `longest`: what is left of a run that the server could not keep up with is no part of
    /// the next one.
    ///
    /// # Errors
    /// The wire breaks.
    pub fn quiesce(&mut self, quiet: Duration, longest: Duration, stop: &AtomicBool) -> anyhow::Result<()> {
        let began_ns = self.wire.now_ns();
        let mut last_ns = began_ns;
        loop {
            self.wire.receive(Duration::from_millis(1), |now_ns, _| last_ns = now_ns)?;
            let now_ns = self.wire.now_ns();
            let is_quiet = now_ns.saturating_sub(last_ns) >= nanos(quiet);
            if is_quiet || now_ns - began_ns >= nanos(longest) || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
}

/// The next arrival.
#[inline]
fn due_ns(arrivals: &mut Peekable<impl Iterator<Item = u64>>) -> u64 {
    *arrivals.peek().expect("arrivals never end")
}

/// Requests that are due in the measured time and were never sent.
fn unsent(arrivals: &mut Peekable<impl Iterator<Item = u64>>, (from_ns, until_ns): (u64, u64)) -> u64 {
    let mut unsent = 0;
    while due_ns(arrivals) < until_ns && unsent < UNSENT_MAX {
        unsent += u64::from(due_ns(arrivals) >= from_ns);
        arrivals.next();
    }
    unsent
}

impl<'a, W: Wire> LoadRun<'a, W> {
    fn new(generator: &'a mut Generator<W>, (from_ns, until_ns): (u64, u64), end_ns: u64, pace: Load) -> Self {
        let depth = generator.plan.depth;
        for flow in &mut generator.flows {
            flow.reset(depth.next_power_of_two());
        }
        let flows = 0..generator.flows.len();
        let idle = (pace == Load::Max).then(|| flows.flat_map(|flow| std::iter::repeat_n(flow, depth)).collect());
        let out = Measured::new(until_ns - from_ns);
        Self { generator, from_ns, until_ns, end_ns, out, idle, next: 0, next_look_ns: 0 }
    }

    /// Sends what is due while there is room; returns how long nothing will be due.
    fn send_due(
        &mut self,
        now_ns: u64,
        requests: &mut Requests,
        arrivals: &mut Peekable<impl Iterator<Item = u64>>,
    ) -> Duration {
        for _ in 0..self.generator.plan.burst {
            let intended_ns = due_ns(arrivals);
            if intended_ns > now_ns || intended_ns >= self.end_ns {
                break;
            }
            // Answers make room; until then the requests that are due wait, and their time runs.
            let Some(flow) = self.next_with_room() else { return WAIT_MAX };
            arrivals.next();
            self.send(flow, requests.draw(), intended_ns, now_ns);
        }
        Duration::from_nanos(due_ns(arrivals).saturating_sub(now_ns).saturating_sub(SPIN_NS)).min(WAIT_MAX)
    }

    /// The next flow that takes a request, each in its turn.
    #[inline]
    fn next_with_room(&mut self) -> Option<usize> {
        let Generator { wire, plan, flows } = &*self.generator;
        for _ in 0..flows.len() {
            let flow = self.next;
            self.next = if flow + 1 == flows.len() { 0 } else { flow + 1 };
            if (plan.overruns || flows[flow].out() < plan.depth) && wire.has_room(flow) {
                return Some(flow);
            }
        }
        None
    }

    /// Fills the windows, as long as there is something to send.
    fn send_all(&mut self, now_ns: u64, mut draw: impl FnMut() -> Option<Draw>) {
        let mut idle = self.idle.take().expect("a closed loop");
        for at in (0..idle.len()).rev() {
            if !self.generator.wire.has_room(idle[at]) {
                continue;
            }
            let Some(draw) = draw() else { break };
            self.send(idle.swap_remove(at), draw, now_ns, now_ns);
        }
        self.idle = Some(idle);
    }

    #[inline]
    fn send(&mut self, flow: usize, draw: Draw, intended_ns: u64, now_ns: u64) {
        let Generator { wire, plan, flows } = &mut *self.generator;
        let value_bytes = match draw.operation {
            Operation::Get => None,
            Operation::Set { value_bytes } => Some(plan.value_bytes.unwrap_or(usize::from(value_bytes))),
        };
        let flight = &mut flows[flow];
        if !plan.overruns {
            flight.skip_taken();
        }
        let sent = Sent { record: draw.record, is_set: value_bytes.is_some(), intended_ns, actual_ns: now_ns };
        let (id, given_up) = flight.send(sent);
        self.out.lost += u64::from(given_up.is_some());
        self.out.sent += u64::from(intended_ns >= self.from_ns && intended_ns < self.until_ns);
        wire.send(flow, id, &Request { key: plan.profile.key(draw.record), value_bytes });
    }

    #[inline]
    fn receive(&mut self, wait: Duration) -> anyhow::Result<()> {
        let Self { generator, from_ns, until_ns, out, idle, .. } = self;
        let Generator { wire, plan, flows } = &mut **generator;
        let measured = *from_ns..*until_ns;
        wire.receive(wait, |now_ns, came| {
            let Some((flow, id, reply)) = came else {
                out.wrong += 1;
                return;
            };
            out.replies += 1;
            let Some(sent) = flows[flow].receive(id) else { return };
            match reply.verdict(plan.profile.key(sent.record), sent.is_set) {
                ReplyVerdict::Right => {}
                ReplyVerdict::Missing => out.missing += 1,
                ReplyVerdict::Refused => out.refused += 1,
                ReplyVerdict::Wrong => out.wrong += 1,
            }
            if let Some(idle) = idle {
                idle.push(flow);
            }
            out.answered += u64::from(measured.contains(&now_ns));
            out.fastest_ns = out.fastest_ns.min(now_ns.saturating_sub(sent.actual_ns));
            if measured.contains(&sent.intended_ns) {
                out.in_time += u64::from(measured.contains(&now_ns));
                out.recorder.record(sent.intended_ns, sent.actual_ns, now_ns);
            }
        })
    }

    /// Gives up what is too old, now and then.
    fn give_up(&mut self, now_ns: u64, mut on_lost: impl FnMut(u32)) {
        let Some(age) = self.generator.plan.give_up else { return };
        if now_ns < self.next_look_ns {
            return;
        }
        self.next_look_ns = now_ns + nanos(age) / 4;
        let before_ns = now_ns.saturating_sub(nanos(age));
        for (flow, flight) in self.generator.flows.iter_mut().enumerate() {
            while let Some(sent) = flight.give_up(before_ns) {
                self.out.lost += 1;
                self.idle.iter_mut().for_each(|idle| idle.push(flow));
                on_lost(sent.record);
            }
        }
    }

    fn unanswered(&self) -> usize {
        self.generator.flows.iter().map(InFlight::out).sum()
    }

    /// What is out is lost.
    fn finish(mut self) -> Measured {
        self.out.lost += self.generator.flows.iter_mut().map(|flow| flow.reset(1) as u64).sum::<u64>();
        self.out
    }
}

#[cfg(test)]
mod tests;

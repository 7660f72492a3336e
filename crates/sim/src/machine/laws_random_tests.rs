//! Laws on random machines: whatever work costs, whatever is set and whatever is asked, below saturation.
//!
//! Each run is held against the laws of every run as well. Beside them stand laws that need two runs, or to know that the server keeps up.

use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting;
use napier_core::event::EpollParams;
use napier_core::time::Span;
use napier_rng::Xoshiro256PlusPlus;
use napier_rng::load::Load;
use rand::RngExt;

use super::DEVIATIONS;
use crate::machine::figures::{self, Core, Experiment, Figures, Length, Setting};
use crate::machine::{Class, Clients, Disturbance, RTO_MIN, STEP_BY_STEP, Work, WorkCosts};

/// Machines of a test run.
const MACHINES: u64 = 500;
/// Requests of one run, and of one of a server that polls for ever, whose steps are those of its polls.
const REQUESTS: (u64, u64) = (500, 150);
/// At half the load there is at most so much of the work: what chance and timers take.
const HALF_MOST: f64 = 1.05;
/// How much of a core requests take at most.
const FULL: f64 = 0.6;
/// Two machines of another scale that differ are run again for so many times as long.
const LONGER: u64 = 10;

/// A server and what is asked of it.
#[derive(Clone, Debug)]
struct Drawn {
    core: Core,
    clients: Clients,
    length: Length,
    /// Its card and its settings know nothing of real time.
    scales: bool,
}

impl Drawn {
    fn new(seed: u64) -> Self {
        let mut rng = napier_rng::stream(seed, "machine");
        let costs = costs(&mut rng);
        let mut core = Core::of(costs, [1, 64, 4096][rng.random_range(0..3)]);
        if rng.random_bool(0.5) {
            let ns = |rng: &mut Xoshiro256PlusPlus| Span::from_ns(rng.random_range(0..20_000));
            let (after_hard_irq, after_timer_irq, after_switch) = (ns(&mut rng), ns(&mut rng), ns(&mut rng));
            let slower_pct = rng.random_range(0..40);
            core.disturbance =
                Disturbance { after_hard_irq, after_timer_irq, after_switch, slower_pct, unseen: Span::ZERO };
        }
        let spins = set_mode(&mut core, &mut rng);
        core.moderates = rng.random_bool(0.2);
        core.apply = Span::from_us(rng.random_range(1..100));
        if !core.moderates && rng.random_bool(0.3) {
            core.coalescing = (rng.random_range(1..40), rng.random_range(0..32));
        }
        core.interrupt_apart = rng.random_bool(0.2);
        if rng.random_bool(0.3) {
            core.service_ns = vec![rng.random_range(100..5_000), rng.random_range(100..20_000)].into();
        }
        let each_ns = worst_ns(&core) as f64;
        let rate_rps = (rng.random_range(0.05..FULL) * 1e9 / each_ns) as u64;
        let requests = if spins { REQUESTS.1 } else { REQUESTS.0 };
        let length = Length { warm_up: Span::from_ms(2), measured: Span::from_ns(requests * 1_000_000_000 / rate_rps) };
        let clients = Clients {
            connections: rng.random_range(1..400),
            load: Load::Rps(rate_rps),
            to_server: Span::from_ns(rng.random_range(100..20_000)),
            to_client: Span::from_ns(rng.random_range(100..20_000)),
            to_client_noise: Span::from_ns(rng.random_range(0..3_000)),
            step_per_100k: 0,
            step: (Span::ZERO, Span::ZERO),
            request_bytes: 120,
            acknowledges: rng.random_bool(0.5),
            rto_min: Some(RTO_MIN),
        };
        core.disturbance.unseen = Span::from_ns(rng.random_range(0..2_000));
        core.polls_at_stop = rng.random_bool(0.5);
        Self { scales: !core.moderates && core.coalescing.0 == 0, core, clients, length }
    }

    fn run(&self, seed: u64) -> Figures {
        let setting = Setting::Server(self.core.clone(), self.clients);
        let figures = figures::run(&Experiment { setting, length: self.length, seed });
        assert_eq!(figures.broken, None, "{self:#?}");
        figures
    }

    /// What it is, in short.
    fn words(&self) -> String {
        let Core { tunables, epoll, threaded, apart, interrupt_apart, coalescing, moderates, events_max, .. } =
            &self.core;
        format!(
            "{tunables:?} {epoll:?} {threaded:?} apart {apart} {interrupt_apart} {coalescing:?} {moderates} {events_max} {}/s {} {}",
            self.rate_rps(),
            self.clients.connections,
            self.core.hz
        )
    }

    fn rate_rps(&self) -> u64 {
        let Load::Rps(rate_rps) = self.clients.load else { unreachable!("they ask at a rate") };
        rate_rps
    }

    /// The same with half the requests in a second.
    fn half(&self) -> Self {
        let clients = Clients { load: Load::Rps((self.rate_rps() / 2).max(1)), ..self.clients };
        Self { clients, ..self.clone() }
    }

    /// The same for longer.
    fn longer(&self) -> Self {
        let measured = Span::from_ns(LONGER * self.length.measured.ns);
        Self { length: Length { measured, ..self.length }, ..self.clone() }
    }

    /// The same with all that there is of time twice as long.
    fn slowed(&self) -> Self {
        let twice = |span: Span| Span::from_ns(2 * span.ns);
        let mut core = self.core.clone();
        for work in Work::ALL {
            core.costs.set(*work, twice(core.costs.get(*work)));
        }
        let Disturbance { after_hard_irq, after_timer_irq, after_switch, unseen, .. } = &mut core.disturbance;
        for span in [after_hard_irq, after_timer_irq, after_switch, unseen] {
            *span = twice(*span);
        }
        let Tunables { gro_flush_timeout, irq_suspend_timeout, .. } = &mut core.tunables;
        (*gro_flush_timeout, *irq_suspend_timeout) = (twice(*gro_flush_timeout), twice(*irq_suspend_timeout));
        core.epoll.busy_poll_usecs *= 2;
        core.wait = core.wait.map(twice);
        core.hz /= 2;
        core.service_ns = core.service_ns.iter().map(|ns| 2 * ns).collect();
        let clients = Clients {
            load: Load::Rps(self.rate_rps() / 2),
            to_server: twice(self.clients.to_server),
            to_client: twice(self.clients.to_client),
            to_client_noise: twice(self.clients.to_client_noise),
            ..self.clients
        };
        let length = Length { warm_up: twice(self.length.warm_up), measured: twice(self.length.measured) };
        Self { core, clients, length, scales: true }
    }
}

fn costs(rng: &mut Xoshiro256PlusPlus) -> WorkCosts {
    let mut costs = WorkCosts::NONE;
    for (work, least, most) in [
        (Work::Op, 5, 20),
        (Work::HardIrq, 100, 3_000),
        (Work::TimerIrq, 100, 1_000),
        (Work::SoftirqEntry, 20, 500),
        (Work::PollEmpty, 100, 1_000),
        (Work::Poll, 50, 800),
        (Work::PacketUp, 100, 3_000),
        (Work::AckUp, 50, 1_000),
        (Work::Syscall, 20, 300),
        (Work::EpollReturn, 50, 2_000),
        (Work::EpollEvent, 20, 200),
        (Work::SpinPause, 30, 100),
        (Work::Wake, 50, 1_500),
        (Work::Switch, 50, 1_500),
        (Work::IdleExit, 0, 5_000),
        (Work::Request, 100, 5_000),
        (Work::Answer, 100, 5_000),
    ] {
        costs.set(work, Span::from_ns(rng.random_range(least..=most)));
    }
    costs
}

/// A mode and its times; whether somebody polls for ever.
fn set_mode(core: &mut Core, rng: &mut Xoshiro256PlusPlus) -> bool {
    let us = Span::from_us(rng.random_range(20..300));
    let deferral = Tunables { defer_hard_irqs: rng.random_range(1..200), gro_flush_timeout: us, ..Tunables::default() };
    let epoll = |usecs: u32| EpollParams { busy_poll_usecs: usecs, busy_poll_budget: 64, prefer_busy_poll: true };
    match rng.random_range(0..7) {
        0 => {}
        1 => core.tunables = deferral,
        2 => (core.tunables, core.epoll) = (deferral, epoll(64)),
        3 => {
            core.tunables = Tunables { irq_suspend_timeout: Span::from_ms(20), ..deferral };
            core.epoll = epoll(0);
        }
        4 => (core.threaded, core.apart) = (ThreadedSetting::Enabled, rng.random_bool(0.5)),
        5 => {
            (core.tunables, core.epoll) = (deferral, epoll(1000));
            core.wait = Some(Span::from_ms(1));
            return true;
        }
        _ => {
            (core.threaded, core.apart) = (ThreadedSetting::BusyPoll, true);
            return true;
        }
    }
    false
}

/// What a request takes if it has all that there is by itself, and all of it is slow.
fn worst_ns(core: &Core) -> u64 {
    let all = Work::ALL.iter().map(|work| core.costs.get(*work).ns).sum::<u64>();
    let service = core.service_ns.iter().copied().max().unwrap_or(0);
    all * (100 + u64::from(core.disturbance.slower_pct)) / 100 + service
}

/// Time of the cores but for what they spin.
fn working_ns(of: &Figures) -> f64 {
    (of.account.awake().ns - of.account.of(Class::Spin).ns) as f64
}

fn mean_ns(of: &Figures) -> f64 {
    of.latency_ns.iter().sum::<u64>() as f64 / of.latency_ns.len() as f64
}

/// What does not hold of one run of a server that keeps up.
fn wrong_alone(drawn: &Drawn, of: &Figures) -> Vec<String> {
    let mut wrong = Vec::new();
    let due = drawn.rate_rps() as f64 * of.measured.ns as f64 / 1e9;
    // Beside chance: what is on its way at either end.
    let ends = mean_ns(of) * drawn.rate_rps() as f64 / 1e9 + 2.0;
    if (of.answered as f64 - due).abs() > DEVIATIONS * due.sqrt() + ends {
        wrong.push(format!("{} are answered of {due:.0}", of.answered));
    }
    // Utilisation: what requests take, at the least.
    let demand_ns = of.answered as f64 * least_ns(drawn) as f64;
    if demand_ns > working_ns(of) + 4.0 * worst_ns(&drawn.core) as f64 {
        wrong.push(format!("{} ns of work where requests take {demand_ns} ns", working_ns(of)));
    }
    let Clients { to_server, to_client, .. } = drawn.clients;
    let way_ns = to_server.ns + to_client.ns + least_ns(drawn);
    let least = of.latency_ns.iter().min().copied().unwrap_or(u64::MAX);
    if least < way_ns {
        wrong.push(format!("an answer after {least} ns, and its way and work take {way_ns} ns"));
    }
    wrong
}

/// What a request takes at the least.
fn least_ns(drawn: &Drawn) -> u64 {
    let works = [Work::PacketUp, Work::Request, Work::Answer];
    let service = drawn.core.service_ns.iter().copied().min().unwrap_or(0);
    works.iter().map(|work| drawn.core.costs.get(*work).ns).sum::<u64>() + service
}

/// What is not twice as long in a run at half the speed.
fn off_in_scale(full: &Figures, slowed: &Figures) -> Vec<String> {
    let each_ns = |of: &Figures| working_ns(of) / of.answered as f64;
    let mut off = Vec::new();
    for (what, of, most) in
        [("a mean latency", mean_ns as fn(&Figures) -> f64, 0.1), ("work for a request", each_ns, 0.05)]
    {
        let (was, is) = (of(full), of(slowed) / 2.0);
        if (is / was - 1.0).abs() > most {
            off.push(format!("{what} of {was:.0} ns is twice {is:.0} ns at half the speed"));
        }
    }
    off
}

/// The law of scale: what is not twice as long at half the speed, however long it is run.
///
/// Both runs have the same chance until two events that are close change places, for times are whole nanoseconds and a busy poll's are 1024 of
/// them. From there on each has its own, and the latencies of a few hundred requests with timers of 100 us spread by as much as is allowed. Of seed
/// 29, with timers of 225 us, what the law compares has a standard deviation of 7 % among 20 runs of 500 requests, of 2.7 % with 5,000 and of
/// 0.6 % with 50,000, about means of 1.016, 1.007 and 1.002. So what is off is run for longer: chance is a third of what it was then, and a time
/// that does not scale is what it was.
fn wrong_in_scale((drawn, full): (&Drawn, &Figures), slowed: &Drawn, seed: u64) -> Vec<String> {
    let off = off_in_scale(full, &slowed.run(seed));
    if off.is_empty() { off } else { off_in_scale(&drawn.longer().run(seed), &slowed.longer().run(seed)) }
}

/// What does not hold of a machine, by its run, one at half the load, and one at half the speed.
fn wrong(seed: u64) -> Vec<String> {
    let drawn = Drawn::new(seed);
    let full = drawn.run(seed);
    let mut wrong = wrong_alone(&drawn, &full);
    if seed.is_multiple_of(10) {
        STEP_BY_STEP.set(true);
        let again = drawn.run(seed);
        STEP_BY_STEP.set(false);
        if full != again {
            wrong.push("the same again, with each step the executor's, is another".to_owned());
        }
    }
    let half = drawn.half().run(seed);
    // More requests are no less work.
    if working_ns(&half) > working_ns(&full) * HALF_MOST {
        wrong.push(format!("{} ns of work, {} ns at half the load", working_ns(&full), working_ns(&half)));
    }
    if drawn.scales {
        wrong.extend(wrong_in_scale((&drawn, &full), &drawn.slowed(), seed));
    }
    wrong.into_iter().map(|what| format!("seed {seed}, {}: {what}", drawn.words())).collect()
}

#[test]
fn laws_hold_on_random_machines() {
    let found: Vec<String> = (0..MACHINES).flat_map(wrong).collect();
    assert!(found.is_empty(), "{} of {MACHINES} machines break a law:\n{}", found.len(), found.join("\n"));
}

/// A timer that does not go with the rest is found, however long is run.
#[test]
fn a_time_that_does_not_scale_is_found() {
    let is_deferred = |drawn: &Drawn| {
        let Tunables { defer_hard_irqs, gro_flush_timeout, irq_suspend_timeout } = drawn.core.tunables;
        let waits = defer_hard_irqs > 20 && gro_flush_timeout >= Span::from_us(100) && irq_suspend_timeout.is_zero();
        drawn.scales && waits && !drawn.core.epoll.prefer_busy_poll
    };
    let deferred: Vec<(u64, Drawn)> =
        (0..200).map(|seed| (seed, Drawn::new(seed))).filter(|(_, drawn)| is_deferred(drawn)).collect();
    assert!(deferred.len() >= 5, "{} of 200 machines", deferred.len());
    for (seed, drawn) in deferred {
        let mut slowed = drawn.slowed();
        slowed.core.tunables = drawn.core.tunables;
        let wrong = wrong_in_scale((&drawn, &drawn.run(seed)), &slowed, seed);
        assert!(!wrong.is_empty(), "seed {seed}, {}", drawn.words());
    }
}

use napier_core::completion::Tunables;
use napier_core::event::EpollParams;

use napier_rng::load::Load;

use super::super::figures::{self, Core, Experiment, Figures, Length, Setting};
use super::super::{Clients, RTO_MIN, WorkCosts};
use super::*;
use crate::machine::cpu::work::Disturbance;

/// A core that takes 3 us for a request, if nothing slows it down.
fn core() -> Core {
    let costs = WorkCosts::of_ns([
        (Work::Op, 5),
        (Work::HardIrq, 300),
        (Work::PollEmpty, 100),
        (Work::SpinPause, 30),
        (Work::Poll, 100),
        (Work::PacketUp, 500),
        (Work::Switch, 200),
        (Work::Wake, 200),
        (Work::Request, 1000),
        (Work::Answer, 1500),
    ]);
    Core::of(costs, 4096)
}

/// The same that polls by itself, so that what it does not come to stays in the ring.
fn polling() -> Core {
    let tunables =
        Tunables { defer_hard_irqs: 100, gro_flush_timeout: Span::from_us(20), irq_suspend_timeout: Span::from_ms(20) };
    let epoll = EpollParams { busy_poll_usecs: 1000, busy_poll_budget: 64, prefer_busy_poll: true };
    Core { tunables, epoll, ..core() }
}

/// The same with nothing that takes time to speak of.
fn fast() -> Core {
    let mut costs = WorkCosts::NONE;
    for work in [Work::PollEmpty, Work::SpinPause, Work::PacketUp, Work::Request, Work::Answer] {
        costs.set(work, Span::from_ns(20));
    }
    Core { costs, ..core() }
}

fn run(core: &Core, clients: &Clients, length: Length, seed: u64) -> Figures {
    figures::run(&Experiment { setting: Setting::Server(core.clone(), *clients), length, seed })
}

fn clients(connections: u16, load: Load) -> Clients {
    Clients {
        connections,
        load,
        to_server: Span::from_ns(20),
        to_client: Span::from_ns(20),
        to_client_noise: Span::ZERO,
        step_per_100k: 0,
        step: (Span::ZERO, Span::ZERO),
        request_bytes: 64,
        acknowledges: false,
        rto_min: Some(RTO_MIN),
    }
}

fn ms(warm_up: u64, measured: u64) -> Length {
    Length { warm_up: Span::from_ms(warm_up), measured: Span::from_ms(measured) }
}

fn holds(figures: &Figures) {
    assert_eq!(figures.broken, None);
}

/// Whatever the rate and however many connections: what is asked is the rate, from the first moment on.
#[test]
fn the_load_is_what_was_asked_for() {
    for rate_rps in [10, 1_000, 30_000, 1_000_000] {
        for connections in [1, 20, 700, 8_000, 60_000] {
            let measured_ms = (20_000_000 / rate_rps).clamp(10, 3_000);
            let figures = run(&fast(), &clients(connections, Load::Rps(rate_rps)), ms(1, measured_ms), 7);
            holds(&figures);
            let due = rate_rps as f64 * measured_ms as f64 / 1000.0;
            let off = (figures.answered as f64 - due).abs();
            let chance = 3.0 * due.sqrt() + 1.0;
            assert!(off <= chance.max(due / 100.0), "{rate_rps}/s of {connections}: {} of {due}", figures.answered);
        }
    }
}

/// What ticks do not see of interrupts of an idle CPU changes who it is counted for, and nothing else.
#[test]
fn what_counts_as_idleness_takes_its_cycles_all_the_same() {
    let with = |unseen_ns: u64, rate_rps: u64| {
        let disturbance = Disturbance { unseen: Span::from_ns(unseen_ns), ..Disturbance::default() };
        let figures = run(&Core { disturbance, ..core() }, &clients(20, Load::Rps(rate_rps)), ms(1, 50), 7);
        holds(&figures);
        figures
    };
    let [seen, unseen] = [0, 250].map(|ns| with(ns, 20_000));
    let of = |figures: &Figures, class| figures.account.of(class).ns;
    assert_eq!(
        (of(&seen, Class::Unseen), seen.account.awake(), &seen.latency_ns),
        (0, seen.account.busy(), &unseen.latency_ns)
    );
    assert_eq!(unseen.account.awake(), seen.account.awake());
    // Nearly each request finds the CPU idle, and no interrupt has more than its handler and what follows it.
    let hidden_ns = of(&unseen, Class::Unseen);
    assert_eq!(hidden_ns, seen.account.busy().ns - unseen.account.busy().ns);
    assert!(hidden_ns <= 250 * unseen.interrupts && hidden_ns > 200 * unseen.interrupts, "{hidden_ns} {unseen:?}");
    assert_eq!(of(&seen, Class::Irq) - of(&unseen, Class::Irq), hidden_ns, "the handler takes longer than that");
    // A CPU that is never idle hides nothing.
    let over = with(250, 2_000_000);
    assert!(of(&over, Class::Unseen) <= 250 * 20, "{over:?}");
}

/// Linux before 7.3 polls once more where a busy poll ends: each wait that finds nothing has one poll more, and nothing else changes.
#[test]
fn a_busy_poll_that_ends_polls_once_more_if_its_kernel_does() {
    let with = |polls_at_stop: bool| {
        let epoll = EpollParams { busy_poll_usecs: 0, ..polling().epoll };
        let core = Core { polls_at_stop, epoll, ..polling() };
        let figures = run(&core, &clients(20, Load::Rps(20_000)), ms(1, 50), 7);
        holds(&figures);
        figures
    };
    let [once, twice] = [false, true].map(with);
    assert!(once.waits > 500 && once.waits.abs_diff(twice.waits) < once.waits / 50, "{once:?} {twice:?}");
    let more = (twice.polls as f64 - once.polls as f64) / twice.waits as f64;
    assert!((0.8..1.2).contains(&more), "{more} polls more for each of {} waits", twice.waits);
    assert!(twice.answered.abs_diff(once.answered) <= 2, "{} {}", twice.answered, once.answered);
}

/// Requests that were recorded come as often as they did, and those of a burst wait for one another.
#[test]
fn recorded_requests_come_as_they_did() {
    let at = |ns: u64, connection: u32| (Span::from_ns(ns), connection);
    // 100 at once, each 10 ms; and as many by a clock.
    let bursts = (0..10_000).map(|nth| at(nth / 100 * 10_000_000 + nth % 100, (nth % 100) as u32));
    let clock = (0..10_000).map(|nth| at(nth * 100_000, (nth % 100) as u32));
    let second = Span::from_ms(1000);
    let of = |recorded| {
        let recorded =
            std::sync::Arc::new(super::super::RecordedArrivals::new(second, recorded).expect("there are some"));
        let setting = Setting::Replayed(core(), clients(1, Load::Max), recorded);
        figures::run(&Experiment { setting, length: ms(20, 2000), seed: 5 })
    };
    let (bursts, clock) = (of(bursts.collect::<Vec<_>>()), of(clock.collect::<Vec<_>>()));
    for figures in [&bursts, &clock] {
        holds(figures);
        assert!((19_800..=20_200).contains(&figures.answered), "{}", figures.answered);
    }
    let mean_us =
        |figures: &Figures| figures.from_due_ns.iter().sum::<u64>() as f64 / figures.from_due_ns.len() as f64 / 1000.0;
    // The last of a burst waits for 99 others, that take 3 us each.
    assert!(mean_us(&clock) < 20.0 && mean_us(&bursts) > 100.0, "{} {}", mean_us(&clock), mean_us(&bursts));
}

/// More connections than the ring has room for: those whose request is lost ask again, and none is dead.
#[test]
fn connections_outlive_a_ring_that_is_too_small() {
    for connections in [1, 30, 560, 1_500, 5_000] {
        let figures = run(&polling(), &clients(connections, Load::Max), ms(5, 20), 3);
        holds(&figures);
        let mean_s = figures.latency_ns.iter().sum::<u64>() as f64 / figures.latency_ns.len() as f64 / 1e9;
        let out = figures.answered as f64 * 1e9 / figures.measured.ns as f64 * mean_s;
        let off = (out / f64::from(connections) - 1.0).abs();
        assert!(off < 0.3, "{connections}: {out} are out, {} lost", figures.lost);
        assert!(connections < 1_024 || figures.lost > 0, "else this shows nothing");
    }
}

#[test]
fn an_overload_answers_what_it_can_and_loses_no_connection() {
    let open = clients(5_000, Load::Rps(600_000));
    let figures = run(&polling(), &open, ms(50, 300), 3);
    holds(&figures);
    let most = 0.3 / 3e-6;
    assert!((most * 0.8..most).contains(&(figures.answered as f64)), "{} of {most}", figures.answered);
}

#[test]
fn a_loss_for_which_nothing_is_sent_again_breaks_the_run() {
    let silent = Clients { rto_min: None, ..clients(1_500, Load::Max) };
    let broken = run(&polling(), &silent, ms(5, 20), 3).broken.expect("476 connections are dead");
    assert!(broken.contains("requests are not conserved: 1500 are out") && broken.contains("lost"), "{broken}");
}

/// A second of a closed loop with 10 connections, as it must be: 1,000,000 answers of 10 us each, a CPU that is busy for 0.6 s.
fn window() -> MeasuredWindow {
    let mut tally = RequestTally::new(Instant::ZERO);
    (0..10).for_each(|_| tally.asks(Instant::ZERO));
    let before = LawsLook {
        at: Instant::ZERO,
        tally: Some(tally),
        taken: 0,
        service_ns: 0,
        user_ns: 0,
        behind: 0.0,
        lost_ns: 0,
        busy_ns: vec![0],
    };
    let at = Instant::from_ns(1_000_000_000);
    tally.go_on(at);
    (tally.asked, tally.answered, tally.sojourn_ns) = (1_000_010, 1_000_000, 10_000_000_000);
    let after = LawsLook {
        at,
        tally: Some(tally),
        taken: 1_000_000,
        service_ns: 100_000_000,
        user_ns: 400_000_000,
        busy_ns: vec![600_000_000],
        ..before.clone()
    };
    MeasuredWindow { before, after, slack_ns: 100 }
}

const EACH: Span = Span::from_ns(300);

fn laws(window: &MeasuredWindow, expected: f64) -> Vec<String> {
    let held =
        [window.busy(), window.closed(), window.offered(expected), window.work(EACH, 1), window.capacity(EACH, 1)];
    held.into_iter().filter_map(Result::err).collect()
}

#[test]
fn every_law_finds_its_violation_and_no_other_one_does() {
    type Wrong = fn(&mut MeasuredWindow);
    assert_eq!(laws(&window(), 1e6), Vec::<String>::new());
    let cases: [(&str, Wrong, f64); 6] = [
        ("CPU 0 was busy for 1000000101 ns of 1000000000", |it| it.after.busy_ns[0] = 1_000_000_101, 1e6),
        ("Little's law: 10.0 requests are out", |it| it.after.tally.as_mut().unwrap().sojourn_ns /= 2, 1e6),
        ("Little's law: 10.0 requests are out", |it| it.after.tally.as_mut().unwrap().answered = 0, 1e6),
        ("1000000 requests were answered where 990000 were offered", |_| (), 990_000.0),
        ("programs were busy for 401000000 ns", |it| it.after.user_ns += 1_000_000, 1e6),
        (
            "1000000 requests were answered, which take 1100000000 ns",
            |it| (it.after.service_ns, it.after.user_ns) = (800_000_000, 1_100_000_000),
            1e6,
        ),
    ];
    for (expected, wrong, offered) in cases {
        let mut window = window();
        wrong(&mut window);
        let found = laws(&window, offered);
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
    }
    // What was late before may be answered beside what was offered, and chance takes its part.
    let mut late = window();
    late.before.behind = 10_000.0;
    assert_eq!(laws(&late, 990_000.0), Vec::<String>::new());
    assert_eq!(laws(&window(), 996_000.0), Vec::<String>::new());
}

#[test]
fn a_tally_finds_what_is_counted_twice_or_not_at_all() {
    let at = |ns| Instant::from_ns(ns);
    let mut tally = RequestTally::new(at(0));
    tally.asks(at(0));
    tally.asks(at(10));
    tally.is_answered(at(30), at(0));
    let out = [at(10)];
    assert_eq!(tally.holds(at(50), out.into_iter()), Ok(()));
    let says = |tally: RequestTally, out: &[Instant]| tally.holds(at(50), out.iter().copied()).unwrap_err();
    assert!(says(tally, &[]).contains("2 were sent, 1 are answered, 0 are out"));
    assert!(says(RequestTally { answered: 2, ..tally }, &out).contains("are not conserved"));
    assert!(
        says(RequestTally { sojourn_ns: 29, ..tally }, &out)
            .contains("for 70 ns by their number and the clock, for 69 ns")
    );
    assert!(says(tally, &[at(11)]).contains("Little's law"));
}

use napier_core::control::ThreadedSetting;
use napier_core::group::Policy as How;

use super::super::super::cpu::work::Account;
use super::super::figures::{Experiment, Figures, Length, Setting, run};
use super::super::server::Core;
use super::*;

const MS: fn(u64) -> Span = Span::from_ms;

fn server(polling: Polling, pct: u32) -> Many {
    let costs = WorkCosts::of_ns([
        (Work::Op, 15),
        (Work::HardIrq, 700),
        (Work::PollEmpty, 150),
        (Work::SpinPause, 30),
        (Work::Poll, 300),
        (Work::PacketUp, 2500),
        (Work::Syscall, 150),
        (Work::EpollReturn, 1000),
        (Work::Wake, 1000),
        (Work::Switch, 1200),
        (Work::Answer, 4000),
    ]);
    let threaded = if polling == Polling::Threads { ThreadedSetting::BusyPoll } else { ThreadedSetting::Disabled };
    Many {
        core: Core { threaded, apart: polling == Polling::Threads, warm_max: 64, ..Core::of(costs, 4096) },
        cpus: 16,
        nodes: 2,
        sibling_pct: 0,
        deep_after: Span::ZERO,
        polling,
        connections: 8,
        full_rps: 100_000,
        shape: Some(Shape::Steady { pct }),
        way: (Span::from_us(10), Span::from_us(5)),
    }
}

fn figures(of: &Many) -> Figures {
    let length = Length { warm_up: MS(2), measured: MS(8) };
    let of = Experiment { setting: Setting::Many(of.clone()), length, seed: 1 };
    let figures = run(&of);
    assert_eq!(figures.broken, None);
    assert_eq!(figures, run(&of), "the same again");
    figures
}

fn busy(account: &Account) -> f64 {
    account.busy().ns as f64 / MS(8).ns as f64
}

/// The nodes' halves: 16 CPUs are 8 cores, 4 of each node, 2 of them for programs.
#[test]
fn programs_and_those_who_poll_have_halves_of_each_node() {
    let of = server(Polling::Threads, 1);
    let cpus = |of_queue: &dyn Fn(u16) -> CpuIx| (0..of.queues()).map(|queue| of_queue(queue).0).collect::<Vec<_>>();
    assert_eq!(cpus(&|queue| of.program_cpu(queue)), [0, 1, 8, 9, 4, 5, 12, 13]);
    assert_eq!(cpus(&|queue| of.polling_cpu(queue)), [2, 3, 10, 11, 6, 7, 14, 15]);
    let groups = groups(&server(Polling::Groups(Settings::default()), 1));
    let of_group = |nth: usize| groups[nth].cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>();
    assert_eq!((of_group(0), of_group(1)), (vec![2, 3, 10, 11], vec![6, 7, 14, 15]));
    let own = server(Polling::NoCpus, 1);
    assert_eq!((0..8).map(|queue| own.program_cpu(queue).0).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn what_is_asked_for_is_answered_whoever_polls() {
    let group = Settings::default();
    for polling in [Polling::NoCpus, Polling::Threads, Polling::Groups(group)] {
        let figures = figures(&server(polling, 40));
        // 8 queues at 40 % of 100,000 for 8 ms, and three standard deviations of chance.
        let due = 8.0 * 40_000.0 * 0.008;
        assert!((figures.answered as f64 - due).abs() < 3.0 * due.sqrt(), "{polling:?}: {}", figures.answered);
        let least = figures.latency_ns.iter().min().expect("answers");
        assert!((5000..20_000).contains(least), "{polling:?}: the way is no part of it, {least} ns");
    }
}

#[test]
fn a_thread_for_each_queue_polls_for_ever_and_a_group_as_the_load_needs() {
    let threads = figures(&server(Polling::Threads, 10));
    assert!(busy(&threads.polling) > 7.9 && threads.wakes == 0);
    let fixed = figures(&server(Polling::Groups(Settings { policy: How::Static, ..Settings::default() }), 10));
    assert!(busy(&fixed.polling) > 7.9 && fixed.moves == [0; 4]);
    let (low, high) = (
        figures(&server(Polling::Groups(Settings::default()), 1)),
        figures(&server(Polling::Groups(Settings::default()), 80)),
    );
    assert!(busy(&low.polling) < 3.0 && busy(&low.polling) < busy(&high.polling), "{}", busy(&low.polling));
    assert_eq!(low.moves[3] + high.moves[3], 0, "groups of a node stay on it");
}

/// The load that it has is no load that it had: a step up wakes CPUs, a step down parks them.
#[test]
fn a_group_follows_steps() {
    let steps = Shape::Steps { low_pct: 2, high_pct: 80, each: MS(2) };
    let of = Many { shape: Some(steps), ..server(Polling::Groups(Settings::default()), 1) };
    let figures = figures(&of);
    assert!(figures.wakes >= 2 && figures.parks >= 2, "{} and {}", figures.wakes, figures.parks);
    assert!(figures.moves.iter().sum::<u64>() >= figures.wakes, "who is woken is given something");
}

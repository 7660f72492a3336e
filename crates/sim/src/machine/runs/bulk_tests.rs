use std::sync::Arc;

use napier_core::time::Span;
use napier_rng::load::Load;

use super::*;
use crate::machine::figures::{Experiment, Figures, Length, Setting, run};
use crate::machine::{Disturbance, Work};

/// A host of eight CPUs whose programs have a lot to do.
fn hosts(polls: Polls) -> Flows {
    let costs = WorkCosts::of_ns([
        (Work::Op, 15),
        (Work::HardIrq, 700),
        (Work::PollEmpty, 150),
        (Work::SpinPause, 30),
        (Work::Poll, 300),
        (Work::PacketUp, 2500),
        (Work::SegmentUp, 250),
        (Work::Syscall, 150),
        (Work::EpollReturn, 1000),
        (Work::Wake, 1000),
        (Work::Switch, 1200),
        (Work::QueueWork, 500),
        (Work::Request, 300),
        (Work::Answer, 4500),
    ]);
    Flows {
        costs,
        disturbance: Disturbance::default(),
        deep_after: Span::ZERO,
        hz: 1000,
        cpus: 8,
        sibling_pct: 0,
        migration_cost: Span::from_us(500),
        queues: 2,
        threads: 8,
        flows: 120,
        polls,
        pinned: false,
        rx_usecs: 0,
        request_bytes: 1,
        response_bytes: 1,
        both_ways: false,
        load: Load::Max,
        storage_ns: Arc::new([]),
        wire: Span::from_us(10),
        wire_noise: Span::from_us(1),
        mbit_s: 0,
    }
}

fn figures(of: &Flows) -> Figures {
    let length = Length { warm_up: Span::from_ms(10), measured: Span::from_ms(40) };
    let of = Experiment { setting: Setting::Flows(of.clone()), length, seed: 1 };
    let mut figures = run(&of);
    assert_eq!(figures.broken, None);
    assert_eq!(figures, run(&of), "the same again");
    figures.latency_ns.sort_unstable();
    figures
}

fn percentile(of: &Figures, percent: usize) -> u64 {
    of.latency_ns[of.latency_ns.len() * percent / 100]
}

#[test]
fn queues_that_are_full_are_the_limit_and_waiting_follows_from_it() {
    for polls in [Polls::Softirq, Polls::Thread, Polls::Pool] {
        let figures = figures(&hosts(polls));
        let rate = figures.answered as f64 * 1e9 / figures.measured.ns as f64;
        // Two queues at 2.5 us a packet; the law of Little for 120 requests.
        assert!((600e3..800e3).contains(&rate), "{polls:?}: {rate}");
        let mean = figures.latency_ns.iter().sum::<u64>() as f64 / figures.latency_ns.len() as f64;
        // What a client does between answer and request is no part of a latency.
        assert!((0.88..1.0).contains(&(mean * rate / 1e9 / 120.0)), "{polls:?}: {mean} at {rate}");
    }
}

/// What the document on threads is about: the scheduler does not see softirqs, and puts threads where they run.
#[test]
fn threads_that_the_scheduler_sees_are_avoided_where_softirqs_are_not() {
    let busy = |polls| {
        let mut of = hosts(polls);
        of.costs.set(Work::Request, Span::from_us(45));
        of.costs.set(Work::PacketUp, Span::from_us(5));
        Flows { cpus: 16, threads: 16, flows: 300, load: Load::Rps(143_000), pinned: true, ..of }
    };
    let (softirq, thread) = (figures(&busy(Polls::Softirq)), figures(&busy(Polls::Thread)));
    let p99 = |of| percentile(of, 99);
    assert!(p99(&thread) < p99(&softirq), "{} and {} ns", p99(&thread), p99(&softirq));
}

#[test]
fn a_wire_with_a_rate_is_shared() {
    let bytes = 1_000_000;
    let mut of = Flows { request_bytes: bytes, mbit_s: 100_000, flows: 40, ..hosts(Polls::Softirq) };
    of.costs.set(Work::SegmentUp, Span::from_ns(100));
    let figures = figures(&of);
    // A megabyte takes 85 us of the wire; nothing else is in the way.
    let rate = figures.answered as f64 * 1e9 / figures.measured.ns as f64;
    assert!((10_500.0..12_000.0).contains(&rate), "{rate}");
}

#[test]
fn the_other_hyper_thread_slows_a_cpu_down() {
    let shared = Flows { sibling_pct: 50, ..hosts(Polls::Softirq) };
    assert!(figures(&shared).answered < figures(&hosts(Polls::Softirq)).answered);
}

#[test]
fn what_a_storage_device_takes_is_in_the_answer() {
    let of = Flows {
        load: Load::Rps(20_000),
        storage_ns: Arc::new([1_000_000]),
        both_ways: true,
        response_bytes: 4096,
        ..hosts(Polls::Thread)
    };
    let figures = figures(&of);
    assert!((1_020_000..1_200_000).contains(&percentile(&figures, 50)), "{}", percentile(&figures, 50));
    let rate = figures.answered as f64 * 1e9 / figures.measured.ns as f64;
    assert!((18_000.0..22_000.0).contains(&rate), "{rate}");
}

//! `bench tx-list`: the hand-over from many senders to one consumer, alone.
//!
//! The part of the transmit path that all senders of a queue share: one item at a time goes in, one thread takes them
//! out. Items are numbers of packets; each sender owns some, and they come back to it. So memory is bounded and every
//! scheme works under the same back-pressure, which is not part of the measured push.

mod handover;
mod run;

use std::time::Duration;

use crossbeam_queue::{ArrayQueue, SegQueue};
use serde::Serialize;

use self::handover::{MutexQueue, OurList, SpinRing};
use self::run::{ListRun, ListSetup, run};
use super::stat::Spread;
use super::ticks::TickClock;
use crate::report::{CpuUse, PowerHistogram};

/// Most senders of an experiment.
pub const TX_LIST_SENDERS_MAX: u32 = 4096;

/// How an item gets from a sender to the consumer.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TxListVariant {
    /// The list of this project: push one, take all.
    List,
    /// A bounded ring behind a spin lock.
    Spin,
    /// The standard library's mutex round its ring buffer.
    Mutex,
    /// A bounded lock-free ring (crossbeam's `ArrayQueue`).
    Ring,
    /// An unbounded lock-free queue in segments (crossbeam's `SegQueue`).
    Seg,
}

impl TxListVariant {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::List, Self::Spin, Self::Mutex, Self::Ring, Self::Seg];

    /// The name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Spin => "spin",
            Self::Mutex => "mutex",
            Self::Ring => "ring",
            Self::Seg => "seg",
        }
    }

    /// The variant of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }

    fn run(self, setup: ListSetup<'_>) -> ListRun {
        match self {
            Self::List => run::<OurList>(setup),
            Self::Spin => run::<SpinRing>(setup),
            Self::Mutex => run::<MutexQueue>(setup),
            Self::Ring => run::<ArrayQueue<u32>>(setup),
            Self::Seg => run::<SegQueue<u32>>(setup),
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct TxListConfig {
    /// Numbers of senders, each an experiment of its own.
    pub threads: Vec<u32>,
    /// Schemes, interleaved.
    pub variants: Vec<TxListVariant>,
    /// Runs per scheme.
    pub runs: u32,
    /// Length of each run.
    pub length: Duration,
    /// Keep each thread on one processor.
    pub pin: bool,
}

/// One scheme at one number of senders.
#[derive(Clone, Debug, Serialize)]
pub struct TxList {
    /// The scheme.
    pub variant: TxListVariant,
    /// Senders.
    pub threads: u32,
    /// Whether each thread was kept on one processor.
    pub pinned: bool,
    /// Runs behind the figures.
    pub runs: u32,
    /// Items per second.
    pub items_per_s: Spread,
    /// Items per second by those of the list in the same round; absent if the list did not run.
    pub ratio_to_list: Option<Spread>,
    /// Time in the push call: median of each run, in ns.
    pub p50_ns: Spread,
    /// 99th percentile of each run, in ns.
    pub p99_ns: Spread,
    /// 99.9th percentile of each run, in ns.
    pub p999_ns: Spread,
    /// Longest of each run, in ns.
    pub max_ns: Spread,
    /// CPU time of all threads per item, in ns.
    pub cpu_ns_per_item: Spread,
    /// Who used the processors; the consumer is the receiver. Median of each share.
    pub cpu: CpuUse,
    /// What reading the clock adds to each time in the push call, in ns.
    pub clock_ns: u64,
    /// Times in the push call, in ns; all runs.
    pub push_calls: PowerHistogram,
    /// Items per take that found any; all runs.
    pub batch_items: PowerHistogram,
}

/// Runs every scheme in turn, round by round, for each number of senders.
///
/// # Errors
/// A number of senders or of runs that is none.
pub fn tx_list(config: &TxListConfig) -> anyhow::Result<Vec<TxList>> {
    let legal = |threads: &u32| (1..=TX_LIST_SENDERS_MAX).contains(threads);
    anyhow::ensure!(config.threads.iter().all(legal), "senders are 1 to {TX_LIST_SENDERS_MAX}");
    anyhow::ensure!(config.runs > 0 && !config.variants.is_empty(), "give at least one run and one variant");
    let clock = TickClock::calibrate();
    let cpus = napier_runtime::available_cpus();
    let pin = config.pin.then_some(cpus.as_slice());
    let mut rows = Vec::new();
    for &senders in &config.threads {
        let setup = ListSetup { senders, length: config.length, cpus: cpus.len(), pin, clock };
        let mut runs: Vec<Vec<ListRun>> = config.variants.iter().map(|_| Vec::new()).collect();
        for _ in 0..config.runs {
            for (variant, runs) in config.variants.iter().zip(&mut runs) {
                runs.push(variant.run(setup));
            }
        }
        let list = config.variants.iter().position(|variant| *variant == TxListVariant::List);
        for (variant, own) in config.variants.iter().zip(&runs) {
            rows.push(row(*variant, &setup, own, list.map(|list| runs[list].as_slice())));
        }
    }
    Ok(rows)
}

fn row(variant: TxListVariant, setup: &ListSetup<'_>, runs: &[ListRun], list: Option<&[ListRun]>) -> TxList {
    let spread = |of: &dyn Fn(&ListRun) -> f64| Spread::of(&runs.iter().map(of).collect::<Vec<_>>());
    let rate = |run: &ListRun| run.items as f64 / run.wall.as_secs_f64();
    let percentile = |quantile: f64| spread(&|run| run.push_ns.percentile(quantile) as f64);
    let ratio = |list: &[ListRun]| {
        let pairs = runs.iter().zip(list);
        Spread::of(&pairs.map(|(own, list)| rate(own) / rate(list)).collect::<Vec<_>>())
    };
    let merged = |of: fn(&ListRun) -> &PowerHistogram| {
        let mut all = PowerHistogram::default();
        runs.iter().for_each(|run| all.merge(of(run)));
        all
    };
    TxList {
        variant,
        threads: setup.senders,
        pinned: setup.pin.is_some(),
        runs: runs.len() as u32,
        items_per_s: spread(&rate),
        ratio_to_list: list.map(ratio),
        p50_ns: percentile(0.5),
        p99_ns: percentile(0.99),
        p999_ns: percentile(0.999),
        max_ns: spread(&|run| run.push_ns.max() as f64),
        cpu_ns_per_item: spread(&|run| {
            (run.cpu.sending() + run.cpu.receivers).as_nanos() as f64 / run.items.max(1) as f64
        }),
        cpu: CpuUse::median(&runs.iter().map(|run| run.cpu.shares(run.wall, setup.cpus)).collect::<Vec<_>>()),
        clock_ns: setup.clock.cost_ns(),
        push_calls: merged(|run| &run.push_ns),
        batch_items: merged(|run| &run.batch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for variant in TxListVariant::ALL {
            assert_eq!(TxListVariant::parse(variant.name()), Some(variant));
        }
        assert_eq!(TxListVariant::parse("llist"), None);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let run = |items| ListRun { items, wall: Duration::from_secs(1), ..ListRun::default() };
        let clock = TickClock::calibrate();
        let setup = ListSetup { senders: 2, length: Duration::from_secs(1), cpus: 2, pin: None, clock };
        let (list, own) = ([run(100), run(200), run(400)], [run(50), run(300), run(400)]);
        let row = row(TxListVariant::Ring, &setup, &own, Some(&list));
        let ratio = row.ratio_to_list.expect("the list ran");
        assert_eq!((ratio.median, ratio.min, ratio.max), (1.0, 0.5, 1.5));
        assert_eq!((row.items_per_s.median, row.runs, row.pinned), (300.0, 3, false));
    }

    #[test]
    fn every_number_of_senders_and_every_scheme_has_a_row() {
        let config = TxListConfig {
            threads: vec![1, 2],
            variants: vec![TxListVariant::Mutex, TxListVariant::List],
            runs: 1,
            // Long enough for every sender to get a processor of a loaded machine.
            length: Duration::from_millis(200),
            pin: true,
        };
        let rows = tx_list(&config).expect("nothing is refused");
        let seen: Vec<_> = rows.iter().map(|row| (row.threads, row.variant)).collect();
        let (mutex, list) = (TxListVariant::Mutex, TxListVariant::List);
        assert_eq!(seen, [(1, mutex), (1, list), (2, mutex), (2, list)]);
        assert!(rows.iter().all(|row| row.items_per_s.median > 0.0 && row.push_calls.count() > 0));
        assert!(tx_list(&TxListConfig { threads: vec![0], ..config.clone() }).is_err());
        assert!(tx_list(&TxListConfig { variants: vec![], ..config }).is_err());
    }
}

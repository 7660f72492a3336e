//! Rows of an experiment that are compared: measured in slices, in rounds of random order, and decided by the verdicts that decide on modes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use napier_rng::{below, stream};
use napier_verdict::{Beside, Estimate, Metric, Pair, Settings, Slice, Slices, Verdict};
use serde::Serialize;

use super::pin::EndCpus;
use crate::compare::Outside;
use crate::loads::SustainSearch;
use crate::report::Estimated;

/// What is measured: rows in blocks, such as those of one load; rows of a block are compared.
pub(super) struct Blocks<'a> {
    /// Names of the rows of each.
    names: Vec<Vec<String>>,
    /// By what they are compared.
    metrics: &'a [Metric],
    rounds: u32,
    /// CPUs that the experiment uses.
    cpus: &'a [usize],
    /// Packets go through the kernel's network. What it does for a row is then not told from what it does for others.
    in_kernel: bool,
}

impl<'a> Blocks<'a> {
    /// One block of rows.
    pub(super) fn of_rows<N: Into<String>>(
        names: impl IntoIterator<Item = N>,
        metrics: &'a [Metric],
        rounds: u32,
        cpus: &'a [usize],
    ) -> Self {
        Self::of_engine(vec![names.into_iter().map(N::into).collect()], metrics, rounds, cpus)
    }

    /// Rows of which each is the engine's.
    pub(super) fn of_engine(names: Vec<Vec<String>>, metrics: &'a [Metric], rounds: u32, cpus: &'a [usize]) -> Self {
        Self { names, metrics, rounds, cpus, in_kernel: false }
    }

    /// The same where packets go through the kernel's network.
    pub(super) fn in_kernel(self, in_kernel: bool) -> Self {
        Self { in_kernel, ..self }
    }
}

/// One slice of a row.
pub(super) struct RowSlice<R> {
    /// Latencies, in ns.
    pub(super) latency: napier_verdict::Histogram,
    /// What was done in it.
    pub(super) answered: u64,
    /// How long it was.
    pub(super) window: Duration,
    /// CPU time of what is measured.
    pub(super) cpu: Duration,
    /// All else that the experiment keeps of it.
    pub(super) run: R,
}

/// Why there is no slice.
pub(super) enum Stopped {
    /// It cannot be run here; in words for a user. The row has no figures then.
    Refused(String),
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// What came of a block.
pub(super) struct Block<R> {
    pub(super) decided: BenchDecided,
    pub(super) rows: Vec<BlockRow<R>>,
}

/// What came of a row.
pub(super) struct BlockRow<R> {
    /// Of the slices that count; where the machine was taken away in all of them, of all.
    pub(super) runs: Vec<R>,
    pub(super) refused: Option<String>,
}

/// Rows of an experiment, and what was decided of them.
#[derive(Clone, Debug, Serialize)]
pub struct Compared<Row> {
    /// In the order of the table.
    pub rows: Vec<Row>,
    /// A block each of rows that were compared.
    pub decided: Vec<BenchDecided>,
}

/// What was decided of the rows of a block.
#[derive(Clone, Debug, Serialize)]
pub struct BenchDecided {
    /// What is the same for all rows of the block, such as the load; empty where there is one block.
    pub block: String,
    /// Rounds that were run: a slice of each row.
    pub rounds: u32,
    /// Slices in which the machine was taken away; no figure has anything of them.
    pub left_out: usize,
    /// Of so many.
    pub of: usize,
    /// More than half of the slices were left out, so nothing is decided, and figures are of all slices.
    pub taken: bool,
    /// Figures of each row, in the order of the table.
    pub rows: Vec<RowFigures>,
    /// A verdict on each two rows that have figures.
    pub pairs: Vec<RowPair>,
}

impl BenchDecided {
    /// Nothing is said of rows whose latencies are those of a queue.
    pub(super) fn without(&mut self, is_queue: impl Fn(usize) -> bool) {
        self.pairs.retain(|pair| !is_queue(pair.a) && !is_queue(pair.b));
    }
}

/// Figures of a row, each with its 95 % interval; null in one that was refused.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "each name says it all, and docs/bench.md does")]
pub struct RowFigures {
    pub row: String,
    pub p50_ns: Option<Estimated>,
    pub p99_ns: Option<Estimated>,
    pub p999_ns: Option<Estimated>,
    /// CPU time in % of one CPU.
    pub cpu_pct: Option<Estimated>,
    pub per_s: Option<Estimated>,
}

/// Two rows in one figure.
#[derive(Clone, Debug, Serialize)]
pub struct RowPair {
    /// One, by its place in `rows`.
    pub a: usize,
    /// The other, which stands behind it.
    pub b: usize,
    /// The figure.
    #[serde(serialize_with = "by_name")]
    pub metric: Metric,
    /// The figure of `b` over that of `a`.
    pub ratio: Option<Estimated>,
    /// `better`, `worse` (`b` than `a`), `no-different` or `undecided`.
    pub verdict: &'static str,
    /// The bound of `no-different`, in percent.
    pub within_pct: Option<u32>,
    /// Rounds more that would decide it, if that can be told.
    pub more_rounds: Option<u32>,
}

fn by_name<S: serde::Serializer>(metric: &Metric, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(metric)
}

/// What an experiment's histogram has, as a slice.
pub(super) fn latencies(histogram: &Histogram<u64>) -> napier_verdict::Histogram {
    let steps = histogram.iter_recorded();
    steps.map(|step| (step.value_iterated_to(), step.count_since_last_iteration())).collect()
}

/// All histograms of a row together.
pub(super) fn together<'a>(histograms: impl IntoIterator<Item = &'a Histogram<u64>>) -> Histogram<u64> {
    let mut all = super::rtt::histogram();
    histograms.into_iter().for_each(|one| all.add(one).expect("the bounds are the same"));
    all
}

/// What a row has of one slice, and whether it counts.
type Runs<R> = Vec<(bool, R)>;

impl<R> BlockRow<R> {
    /// Slices behind its figures.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.runs.len()).expect("as many as were asked for")
    }
}

/// Rows of all blocks, each made by its block and its place there.
pub(super) fn compared<R, Row>(
    found: Vec<Block<R>>,
    mut row: impl FnMut(usize, usize, BlockRow<R>) -> Row,
) -> Compared<Row> {
    let (mut rows, mut decided) = (Vec::new(), Vec::new());
    for (block, found) in found.into_iter().enumerate() {
        rows.extend(found.rows.into_iter().enumerate().map(|(at, one)| row(block, at, one)));
        decided.push(found.decided);
    }
    Compared { rows, decided }
}

/// Two CPUs: of the client and of the server.
pub(super) fn two_cpus() -> anyhow::Result<EndCpus> {
    let cpus = napier_runtime::available_cpus();
    anyhow::ensure!(cpus.len() >= 2, "needs 2 CPUs, this process may use 1: each end polls or sleeps on its own");
    Ok(EndCpus { client: cpus[0], server: cpus[1] })
}

/// What a block has so far.
struct SoFar<R> {
    slices: Slices,
    runs: Vec<Runs<R>>,
    refused: Vec<Option<String>>,
}

impl Blocks<'_> {
    /// Measures all of it; `slice` runs a row of a block once, and `progress` is told which.
    pub(super) fn run<R>(
        &self,
        interrupted: &AtomicBool,
        progress: &mut dyn FnMut(&str),
        mut slice: impl FnMut(usize, usize) -> Result<RowSlice<R>, Stopped>,
    ) -> anyhow::Result<Vec<Block<R>>> {
        let begun = |names: &Vec<String>| SoFar {
            slices: Slices::new(names.len(), Settings::DEFAULT),
            runs: names.iter().map(|_| Vec::new()).collect(),
            refused: vec![None; names.len()],
        };
        let mut found: Vec<SoFar<R>> = self.names.iter().map(begun).collect();
        let rows = |(block, names): (usize, &Vec<String>)| (0..names.len()).map(move |row| (block, row));
        let mut all: Vec<(usize, usize)> = self.names.iter().enumerate().flat_map(rows).collect();
        let mut order = stream(Settings::DEFAULT.seed, "order of slices");
        for round in 0..self.rounds.max(1) {
            for left in (1..all.len()).rev() {
                let end = u32::try_from(left + 1).expect("rows are few");
                all.swap(left, below(&mut order, end) as usize);
            }
            for &(block, row) in &all {
                anyhow::ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
                let (name, found) = (&self.names[block][row], &mut found[block]);
                if found.refused[row].is_some() {
                    continue;
                }
                progress(&format!("{name}, round {} of {}", round + 1, self.rounds));
                match self.one(row, round, || slice(block, row)) {
                    Ok((one, run)) => {
                        found.runs[row].push((found.slices.cause(&one).is_none(), run));
                        found.slices.add(one);
                    }
                    Err(Stopped::Refused(why)) => {
                        // A row has figures of all its rounds, or none.
                        found.runs[row].clear();
                        found.refused[row] = Some(why);
                    }
                    Err(Stopped::Failed(error)) => return Err(error.context(name.clone())),
                }
            }
        }
        Ok(found.into_iter().zip(&self.names).map(|(found, names)| self.block(found, names)).collect())
    }

    /// One slice, with what the machine did beside.
    fn one<R>(
        &self,
        candidate: usize,
        round: u32,
        slice: impl FnOnce() -> Result<RowSlice<R>, Stopped>,
    ) -> Result<(Slice, R), Stopped> {
        let (before, begun) = (Outside::read(self.cpus, Duration::ZERO)?, Instant::now());
        let RowSlice { latency, answered, window, cpu, run } = slice()?;
        let elapsed = begun.elapsed();
        let outside = Outside::read(self.cpus, Duration::ZERO)?.since(&before, elapsed, self.cpus.len());
        let share = window.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        let of_window = |time: Duration| nanos(time.mul_f64(share.min(1.0)));
        let beside = Beside {
            others_ns: (!self.in_kernel).then(|| of_window(outside.others_for_sure(self.cpus.len()))),
            stolen_ns: Some(of_window(outside.stolen())),
            client_waited_ns: Some(of_window(outside.waited())),
            pause_ns: None,
        };
        let slice = Slice {
            candidate,
            round,
            window_ns: nanos(window),
            cpus: 1,
            latency,
            cpu_ns: nanos(cpu),
            due: 0,
            in_time: 0,
            answered,
            beside,
        };
        Ok((slice, run))
    }

    fn block<R>(&self, SoFar { slices, runs, refused }: SoFar<R>, names: &[String]) -> Block<R> {
        let has = |row: &usize| refused[*row].is_none();
        let left_out = slices.left_out_of_all();
        // Where nothing is decided all slices are shown, without intervals.
        let taken = slices.taken();
        let shown = if taken { with_all(&slices) } else { slices.clone() };
        let figures = |(row, name): (usize, &String)| {
            let of = |metric, scale| {
                let estimate = shown.estimate(row, metric).filter(|_| refused[row].is_none())?;
                let interval = estimate.interval.filter(|_| !taken);
                Some(Estimated::of(Estimate { interval, ..estimate }, scale))
            };
            RowFigures {
                row: name.clone(),
                p50_ns: of(Metric::P50, 1.0),
                p99_ns: of(Metric::P99, 1.0),
                p999_ns: of(Metric::P999, 1.0),
                cpu_pct: of(Metric::Cpu, 1e2),
                per_s: of(Metric::Throughput, 1.0),
            }
        };
        let pairs: Vec<(usize, usize)> =
            (0..names.len()).filter(has).flat_map(|a| (a + 1..names.len()).filter(has).map(move |b| (a, b))).collect();
        let verdicts = if slices.taken() { Vec::new() } else { slices.verdicts(&pairs, self.metrics) };
        let decided = BenchDecided {
            block: String::new(),
            rounds: self.rounds,
            left_out: left_out.slices,
            of: left_out.of,
            taken: slices.taken(),
            rows: names.iter().enumerate().map(figures).collect(),
            pairs: verdicts.iter().map(row_pair).collect(),
        };
        let row = |(runs, refused): (Runs<R>, Option<String>)| {
            let any = runs.iter().any(|(counts, _)| *counts);
            let runs = runs.into_iter().filter(|(counts, _)| *counts || !any).map(|(_, run)| run).collect();
            BlockRow { runs, refused }
        };
        Block { decided, rows: runs.into_iter().zip(refused).map(row).collect() }
    }
}

/// Requests that may be on their way at the end of a run, however short it is, without a word of overload.
const ON_THEIR_WAY: u64 = 10;

/// Whether too few of what was due in so many runs were answered in time, as in `compare`.
#[expect(clippy::cast_precision_loss, reason = "a share")]
pub(super) fn is_overload(due: u64, in_time: u64, runs: u64) -> bool {
    let late = due.saturating_sub(in_time);
    late > ON_THEIR_WAY * runs && (in_time as f64) < SustainSearch::ACHIEVED_MIN * due as f64
}

/// No time of ours is longer than it can say.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The same, with those that were left out.
fn with_all(slices: &Slices) -> Slices {
    let mut all = Slices::new(slices.candidates(), *slices.settings());
    let quiet = |slice: &Slice| Slice { beside: Beside::default(), ..slice.clone() };
    slices.all().iter().map(quiet).for_each(|slice| all.add(slice));
    all
}

fn row_pair(pair: &Pair) -> RowPair {
    let (verdict, within_pct, more_rounds) = match pair.verdict {
        Verdict::Better { which } if which == pair.b => ("better", None, None),
        Verdict::Better { .. } => ("worse", None, None),
        Verdict::NoDifferent { within } => ("no-different", Some((within * 100.0).round() as u32), None),
        Verdict::Undecided { more_rounds, .. } => ("undecided", None, more_rounds),
    };
    let ratio = pair.ratio.map(|ratio| Estimated::of(ratio.inverse(), 1.0));
    RowPair { a: pair.a, b: pair.b, metric: pair.metric, ratio, verdict, within_pct, more_rounds }
}

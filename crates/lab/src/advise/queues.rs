//! A server by its queues: each is simulated by itself, for they have nothing in common, and some stand for all.
//!
//! ```text
//! Workload + Load --Queues::of--> up to four, from the emptiest to the fullest; the fullest of all beside them
//!                                     --simulate_queue--> Figures of each --> ServerRun: latency and CPU of those that stand for all,
//!                                                                             whether it keeps up of the fullest of all too
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use napier_core::time::Span;
use napier_sim::machine::Class;
use napier_sim::machine::figures::{self, Experiment, Figures, Length, Setting};

use super::Workload;
use crate::loads::Load;
use crate::machines::{MachineFile, clients_of, core_of, fullest_queue, queue_connections};
use crate::modes::Mode;

/// Points of a distribution of service times.
const POINTS: usize = 4096;
/// Queues that are simulated of a server with more.
const LOOKED_AT: u16 = 4;
/// Bounds of a run's length.
const LENGTH_MS: (u64, u64) = (20, 2_000);
/// Nothing counts before.
const WARM_UP: Span = Span::from_ms(20);
/// A load is sustained that is answered to this share, less what chance takes from so many requests at random times.
const SUSTAINED: f64 = 0.99;
/// A core that works for more of the time has nothing left.
const WORKING_MAX: f64 = 0.995;
/// A recording is taken as it is if the rate is off by no more.
const ALIKE: f64 = 0.01;
/// Chance: so many standard deviations.
const DEVIATIONS: f64 = 3.0;

/// How long a run is.
#[derive(Copy, Clone, Debug)]
pub enum Extent {
    /// About so many requests, within bounds; the closed loop takes the shortest time.
    Requests(u64),
    /// So long, within the same bounds.
    Time(Span),
}

impl Extent {
    fn measured(self, queue_rps: Option<u64>) -> Span {
        let ms = match (self, queue_rps) {
            (Self::Requests(requests), Some(rate_rps)) => requests * 1000 / rate_rps,
            (Self::Requests(_), None) => 0,
            (Self::Time(span), _) => span.ns / 1_000_000,
        };
        Span::from_ms(ms.clamp(LENGTH_MS.0, LENGTH_MS.1))
    }

    /// What so many queues together take, each for as long, or the emptier ones would count for more.
    pub(super) fn of_each(self, workload: &Workload, load: Load, queues: usize) -> Self {
        let of_mean = rps(load).map(|rate_rps| (rate_rps / u64::from(workload.queues)).max(1));
        match self {
            Self::Requests(requests) => Self::Time(Self::Requests(requests / queues as u64).measured(of_mean)),
            Self::Time(span) => Self::Time(span),
        }
    }
}

fn rps(load: Load) -> Option<u64> {
    if let Load::Rps(rate_rps) = load { Some(rate_rps) } else { None }
}

/// What comes to a queue.
#[derive(Copy, Clone, PartialEq, Debug)]
pub(super) struct OfQueue {
    connections: u16,
    load: Load,
}

/// The queues of a server that are simulated.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Queues {
    /// They stand for all, from the emptiest to the fullest.
    pub(super) looked_at: Vec<OfQueue>,
    /// The fullest of all, which says beside them whether the server keeps up; none if all are alike, and in a closed loop, which never
    /// asks for more than is answered.
    pub(super) fullest: Option<OfQueue>,
}

impl Queues {
    /// Of a server at a load over all queues.
    pub(super) fn of(workload: &Workload, load: Load) -> Self {
        let Workload { queues, connections, .. } = *workload;
        let part = |connections: u16, of: &dyn Fn(u64) -> u64| OfQueue {
            connections,
            load: rps(load).map_or(Load::Max, |rate_rps| Load::Rps(of(rate_rps).max(1))),
        };
        if queues == 1 || workload.recorded.is_some() {
            // What was recorded says by itself which connections have how much.
            let own = part((connections / queues).max(1), &|rate_rps| rate_rps / u64::from(queues));
            return Self { looked_at: vec![own], fullest: None };
        }
        let all = queue_connections(connections, queues, queues.min(LOOKED_AT));
        let of_all = all.iter().copied().map(u64::from).sum::<u64>() * u64::from(queues);
        let share = |rate_rps: u64, own: u16| rate_rps * u64::from(own) * all.len() as u64 / of_all;
        let looked_at = all.iter().map(|own| part(*own, &|rate_rps| share(rate_rps, *own))).collect();
        let most = fullest_queue(connections, queues);
        let fullest = part(most, &|rate_rps| rate_rps * u64::from(most) / u64::from(connections));
        Self { looked_at, fullest: (load != Load::Max).then_some(fullest) }
    }

    /// Those that stand for all, and the fullest behind them.
    pub(super) fn iter(&self) -> impl Iterator<Item = OfQueue> + Clone {
        self.looked_at.iter().copied().chain(self.fullest)
    }
}

/// The seed of a server's nth queue, with chance of its own.
pub(super) fn seed_of(seed: u64, nth: usize) -> u64 {
    seed.wrapping_add((nth as u64) << 32)
}

/// A run of a queue; the load of the whole server says how much faster a recording is. `None`: it was told to stop.
pub(super) fn simulate_queue(
    machine: &MachineFile,
    (workload, load): (&Workload, Load),
    queue: OfQueue,
    mode: Mode,
    seed: u64,
    extent: Extent,
    stop: &AtomicBool,
) -> Option<Figures> {
    let service_ns: Arc<[u64]> = workload.service.as_ref().map_or_else(Vec::new, |it| it.points_ns(POINTS)).into();
    let core = core_of(machine, mode, service_ns);
    let clients = clients_of(machine, queue.connections, queue.load);
    let length = Length { warm_up: WARM_UP, measured: extent.measured(rps(queue.load)) };
    let setting = match (&workload.recorded, load) {
        (Some(recorded), Load::Rps(rate_rps)) => {
            // Each run has another of the queues.
            let mut own = recorded.of_queue(seed as usize, workload.queues.into());
            let factor = rate_rps as f64 / recorded.rate_rps();
            if (factor - 1.0).abs() > ALIKE {
                own = own.faster(factor);
            }
            Setting::Replayed(core, clients, Arc::new(own))
        }
        (Some(_) | None, _) => Setting::Server(core, clients),
    };
    figures::run_or_stop(&Experiment { setting, length, seed }, stop)
}

/// One run of a server: of each of the queues that stand for all, and of the fullest.
#[derive(Clone, Debug)]
pub struct ServerRun {
    queues: Queues,
    /// In the order of the queues.
    runs: Vec<Figures>,
}

impl ServerRun {
    /// Of as many runs as there are queues, in order.
    pub(super) fn of(queues: Queues, runs: Vec<Figures>) -> Self {
        assert_eq!(queues.iter().count(), runs.len(), "each queue has a run");
        Self { queues, runs }
    }

    /// The runs of the queues that stand for all.
    #[must_use]
    pub fn queues(&self) -> &[Figures] {
        &self.runs[..self.queues.looked_at.len()]
    }

    /// The rule that did not hold in one of its queues, if there is one.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        self.runs.iter().find_map(|run| run.broken.clone())
    }

    /// Whether every queue keeps up, by runs of the same server.
    #[must_use]
    pub fn keep_up(runs: &[Self]) -> bool {
        let Some(first) = runs.first() else { return true };
        let keeps_up = |(nth, queue): (usize, OfQueue)| {
            rps(queue.load).is_none_or(|rps| is_sustained(runs.iter().map(|run| &run.runs[nth]), rps as f64))
        };
        first.queues.iter().enumerate().all(keeps_up)
    }
}

/// Runs a server in a mode at a load over all queues. `None`: it was told to stop.
#[must_use]
pub fn simulate(
    machine: &MachineFile,
    workload: &Workload,
    load: Load,
    mode: Mode,
    seed: u64,
    extent: Extent,
    stop: &AtomicBool,
) -> Option<ServerRun> {
    let queues = Queues::of(workload, load);
    let extent = extent.of_each(workload, load, queues.looked_at.len());
    let one = |(nth, queue)| simulate_queue(machine, (workload, load), queue, mode, seed_of(seed, nth), extent, stop);
    let runs = queues.iter().enumerate().map(one).collect::<Option<_>>()?;
    Some(ServerRun::of(queues, runs))
}

/// Whether runs of a queue answer what `queue_rps` asks for, with something left: a core that works all the time and does not even spin
/// keeps a queue that grows, however short a run is.
fn is_sustained<'a>(runs: impl Iterator<Item = &'a Figures> + Clone, queue_rps: f64) -> bool {
    let sum = |of: &dyn Fn(&Figures) -> u64| runs.clone().map(of).sum::<u64>() as f64;
    let ns = sum(&|run| run.measured.ns);
    // Recorded requests do not come by chance.
    let due: f64 =
        runs.clone().map(|run| run.due.map_or(queue_rps * run.measured.ns as f64 / 1e9, |due| due as f64)).sum();
    let working_ns = sum(&|run| run.program.busy().ns - run.program.of(Class::Spin).ns);
    sum(&|run| run.answered) >= due * SUSTAINED - due.sqrt() * DEVIATIONS && working_ns < ns * WORKING_MAX
}

/// What runs of queues say of a server of so many. Latencies count from when a request was due.
#[expect(missing_docs, reason = "the unit stands last in the name")]
pub struct Ran {
    pub achieved_rps: f64,
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub cpu_pct: f64,
}

impl Ran {
    /// Of runs of queues that stand for all.
    #[must_use]
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a Figures>, queues: u16) -> Self {
        let runs: Vec<&Figures> = runs.into_iter().collect();
        let mut latency: Vec<u64> = runs.iter().flat_map(|run| run.from_due_ns.iter().copied()).collect();
        let ns = runs.iter().map(|run| run.measured.ns).sum::<u64>() as f64;
        let sum = |of: &dyn Fn(&Figures) -> u64| runs.iter().map(|run| of(run)).sum::<u64>() as f64;
        Self {
            achieved_rps: sum(&|run| run.answered) * 1e9 / ns * f64::from(queues),
            p50_us: select_us(&mut latency, 50),
            p95_us: select_us(&mut latency, 95),
            p99_us: select_us(&mut latency, 99),
            cpu_pct: sum(&|run| run.account.busy().ns) * 100.0 / ns,
        }
    }
}

/// Of latencies in order; without any it is endless, for nothing was answered.
#[must_use]
pub fn percentile_us(sorted_ns: &[u64], percent: usize) -> f64 {
    sorted_ns.get(sorted_ns.len() * percent / 100).map_or(f64::INFINITY, |ns| *ns as f64 / 1000.0)
}

/// The same of latencies in any order; they are in another one then. For one or a few percentiles all need not be put in order.
pub(super) fn select_us(latency_ns: &mut [u64], percent: usize) -> f64 {
    let at = latency_ns.len() * percent / 100;
    if at < latency_ns.len() { *latency_ns.select_nth_unstable(at).1 as f64 / 1000.0 } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_same_in_any_order() {
        let sorted: Vec<u64> = (0..1000).map(|nth| nth * nth).collect();
        let mut mixed: Vec<u64> = (0..1000).map(|nth| sorted[nth * 7 % 1000]).collect();
        for percent in [50, 95, 99, 0] {
            assert_eq!(select_us(&mut mixed, percent), percentile_us(&sorted, percent), "{percent}");
        }
        assert_eq!((select_us(&mut [], 99), percentile_us(&[], 99)), (f64::INFINITY, f64::INFINITY));
    }

    fn workload(queues: u16, connections: u16) -> Workload {
        Workload { rate_rps: 1, peak_rps: None, queues, connections, cpus: queues, service: None, recorded: None }
    }

    #[test]
    fn queues_stand_for_all_and_the_fullest_is_beside_them() {
        let of = |queues, connections, load| {
            let queues = Queues::of(&workload(queues, connections), load);
            let rates: Vec<u64> = queues.looked_at.iter().filter_map(|queue| rps(queue.load)).collect();
            (queues.looked_at.len(), rates, queues.fullest)
        };
        // One queue has all, and none is fuller.
        assert_eq!(of(1, 64, Load::Rps(9000)), (1, vec![9000], None));
        let (looked_at, rates, fullest) = of(8, 4480, Load::Rps(800_000));
        assert!(looked_at == 4 && rates.is_sorted() && rates[0] < 97_000 && rates[3] > 103_000, "{rates:?}");
        assert!(rates.iter().sum::<u64>().abs_diff(400_000) < 4, "together they are asked for their part: {rates:?}");
        let most = fullest.expect("queues are unequal");
        assert!((588..=596).contains(&most.connections) && rps(most.load) > Some(rates[3]), "{most:?}");
        // As many queues as there are, if there are few; and a closed loop has rates nowhere.
        assert_eq!((of(2, 64, Load::Rps(9000)).0, of(2, 64, Load::Max)), (2, (2, vec![], None)));
    }

    #[test]
    fn each_queue_is_run_for_as_long() {
        let ms = |extent: Extent, load| match extent.of_each(&workload(4, 64), load, 4) {
            Extent::Time(span) => span.ns / 1_000_000,
            Extent::Requests(_) => panic!("a time"),
        };
        // 20,000 requests of four queues with 10,000 a second each are half a second of all.
        assert_eq!(ms(Extent::Requests(20_000), Load::Rps(40_000)), 500);
        assert_eq!(ms(Extent::Requests(20_000), Load::Max), LENGTH_MS.0);
        assert_eq!(ms(Extent::Time(Span::from_ms(70)), Load::Rps(40_000)), 70);
    }

    /// The queue in the middle keeps up with a rate that the fullest does not.
    #[test]
    fn a_server_falls_over_where_its_fullest_queue_does() {
        let machine = crate::machines::server_named("epyc-7662-cx5").expect("it comes along");
        let at = |queues: u16| {
            let load = Load::Rps(112_000 * u64::from(queues));
            let stop = AtomicBool::new(false);
            let extent = Extent::Requests(8_000);
            let run = simulate(&machine, &workload(queues, 200 * queues), load, Mode::Base, 1, extent, &stop);
            let run = run.expect("nothing stops it");
            assert_eq!(run.broken(), None);
            ServerRun::keep_up(&[run])
        };
        assert!(at(1) && !at(8));
    }
}

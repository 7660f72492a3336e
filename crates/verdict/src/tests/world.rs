//! Made machines: servers with known latencies, a machine that drifts and pauses.

use napier_rng::{Xoshiro256PlusPlus, below, open_unit, stream};

use crate::{Beside, Histogram, Settings, Slice, Slices};

/// How latencies are distributed, about 50 us in the middle.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Exponential,
    Lognormal,
    /// 4 % of the requests wait for something that takes ten times as long, with an end that is long.
    Bimodal,
}

pub(super) const SHAPES: [Shape; 3] = [Shape::Exponential, Shape::Lognormal, Shape::Bimodal];

/// What is measured, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct World {
    pub(super) shape: Shape,
    pub(super) rounds: u32,
    /// Requests of a slice of 50 ms.
    pub(super) requests: u32,
    /// How far slices of one candidate differ beside their requests, as the deviation of a logarithm.
    pub(super) noise: f64,
    /// Whether the machine drifts, under all alike: by up to 2 over the rounds.
    pub(super) drifts: bool,
    /// Share of the time that goes in pauses of 20 ms, at random.
    pub(super) paused: f64,
    /// Share of the slices with a pause in which it is seen beside.
    pub(super) seen: f64,
}

/// Quiet, at 60,000 requests a second.
pub(super) const QUIET: World =
    World { shape: Shape::Exponential, rounds: 40, requests: 3000, noise: 0.05, drifts: false, paused: 0.0, seen: 1.0 };

const WINDOW_NS: u64 = 50_000_000;
const PAUSE_NS: f64 = 20e6;

/// Latency and CPU time of a candidate, as multiples of the plain ones.
pub(super) type Candidate = (f64, f64);

pub(super) fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (-2.0 * open_unit(rng).ln()).sqrt() * (std::f64::consts::TAU * open_unit(rng)).cos()
}

impl Shape {
    pub(super) fn draw(self, rng: &mut Xoshiro256PlusPlus) -> f64 {
        match self {
            Self::Exponential => -50e3 * open_unit(rng).ln(),
            Self::Lognormal => 50e3 * (0.5 * normal(rng)).exp(),
            Self::Bimodal if open_unit(rng) < 0.04 => 300e3 * open_unit(rng).powf(-0.4),
            Self::Bimodal => -30e3 * open_unit(rng).ln(),
        }
    }

    /// The quantile of very many requests, in slices that differ by `noise`.
    pub(super) fn quantile(self, q: f64, noise: f64) -> f64 {
        let mut rng = stream(99, "truth");
        let mut all: Vec<f64> =
            (0..1_000_000).map(|_| self.draw(&mut rng) * (noise * normal(&mut rng)).exp()).collect();
        all.sort_by(f64::total_cmp);
        all[(q * 1e6) as usize]
    }
}

/// Where pauses begin, over time.
struct Pauses {
    begins: Vec<f64>,
}

impl Pauses {
    fn of(world: &World, length_ns: f64, rng: &mut Xoshiro256PlusPlus) -> Self {
        let (mut begins, mut at) = (Vec::new(), 0.0);
        while world.paused > 0.0 && at < length_ns {
            at -= PAUSE_NS * (1.0 / world.paused - 1.0) * open_unit(rng).ln();
            begins.push(at);
            at += PAUSE_NS;
        }
        Self { begins }
    }

    /// How long a request that comes at `at` waits for the end of a pause.
    fn wait(&self, at: f64) -> f64 {
        let before = self.begins.partition_point(|begin| *begin <= at);
        let last = before.checked_sub(1).map(|last| self.begins[last]);
        last.map_or(0.0, |begin| (begin + PAUSE_NS - at).max(0.0))
    }

    /// The longest part of a pause between two moments.
    fn longest(&self, from: f64, to: f64) -> f64 {
        let within = |begin: &f64| (begin + PAUSE_NS).min(to) - begin.max(from);
        self.begins.iter().map(within).fold(0.0, f64::max)
    }
}

impl World {
    /// All slices of an experiment, round by round, each round in random order.
    pub(super) fn slices(&self, candidates: &[Candidate], seed: u64) -> Vec<Slice> {
        let mut rng = stream(seed, "world");
        let number = candidates.len() * self.rounds as usize;
        let pauses = Pauses::of(self, number as f64 * WINDOW_NS as f64, &mut rng);
        let (mut made, mut drift): (Vec<Slice>, f64) = (Vec::with_capacity(number), 0.0);
        for round in 0..self.rounds {
            drift = 0.9 * drift + 0.1 * normal(&mut rng);
            let slow = if self.drifts { drift.clamp(-0.35, 0.35).exp() } else { 1.0 };
            let mut order: Vec<usize> = (0..candidates.len()).collect();
            (1..order.len()).rev().for_each(|at| order.swap(at, below(&mut rng, at as u32 + 1) as usize));
            for candidate in order {
                let from = made.len() as f64 * WINDOW_NS as f64;
                made.push(self.slice(candidate, candidates[candidate], round, slow, (&pauses, from), &mut rng));
            }
        }
        made
    }

    fn slice(
        &self,
        candidate: usize,
        (latency, cpu): Candidate,
        round: u32,
        slow: f64,
        (pauses, from): (&Pauses, f64),
        rng: &mut Xoshiro256PlusPlus,
    ) -> Slice {
        let window = WINDOW_NS as f64;
        let scale = latency * slow * (self.noise * normal(rng)).exp();
        let cpu_ns = (0.4 * window * cpu * slow.sqrt() * (self.noise * normal(rng)).exp()) as u64;
        let mut latencies: Vec<u64> = (0..self.requests)
            .map(|n| {
                let at = from + window * f64::from(n) / f64::from(self.requests);
                (scale * self.shape.draw(rng) + pauses.wait(at)) as u64
            })
            .collect();
        latencies.sort_unstable();
        let longest = pauses.longest(from, from + window);
        let seen = open_unit(rng) < self.seen;
        let requests = u64::from(self.requests);
        Slice {
            candidate,
            round,
            window_ns: WINDOW_NS,
            cpus: 1,
            latency: latencies.into_iter().map(|latency| (latency, 1)).collect::<Histogram>(),
            cpu_ns,
            due: requests,
            in_time: requests,
            answered: requests,
            beside: Beside { pause_ns: Some(if seen { longest as u64 } else { 0 }), ..Beside::default() },
        }
    }
}

/// The slices of an experiment up to a round.
pub(super) fn up_to(slices: &[Slice], rounds: u32, settings: Settings) -> Slices {
    let candidates = slices.iter().map(|slice| slice.candidate).max().expect("slices") + 1;
    let mut some = Slices::new(candidates, settings);
    slices.iter().filter(|slice| slice.round < rounds).for_each(|slice| some.add(slice.clone()));
    some
}

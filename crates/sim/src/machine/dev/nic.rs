//! A NIC that moderates its interrupts by itself, as drivers of Mellanox cards have it at boot: a time, a number of frames, and DIM,
//! which moves among five pairs of the two. The time counts from the first frame: the intervals between interrupts that were
//! measured are 64 us and what a poll takes, at 260,000 frames a second as well as at 100,000.
//!
//! Source: `include/linux/dim.h`, `lib/dim/dim.c`, `lib/dim/net_dim.c`; `drivers/net/ethernet/mellanox/mlx5/core/en_dim.c`.

use napier_core::time::{Instant, Span};

/// Time in us and frames of each profile (`net_dim.c`, RX CQE profiles).
const PROFILES: [(u64, u32); 5] = [(2, 256), (8, 128), (16, 64), (32, 64), (64, 64)];

const FIRST: usize = 1;

/// Interrupts of one measurement (`DIM_NEVENTS`).
const EVENTS: u64 = 64;

/// Steps after which it rests, for as many measurements (`NET_DIM_PARAMS_NUM_PROFILES * 2`).
const TIRED: u32 = 10;

/// A difference of more whole percents counts (`IS_SIGNIFICANT_DIFF`).
const BETTER_PCT: u64 = 10;

/// Moderation of one receive queue.
#[derive(Debug)]
pub(crate) struct Nic {
    dim: Dim,
    /// Frames since the last interrupt.
    frames: u32,
    /// Of the timer that runs.
    pub(crate) generation: u32,
    /// How long the card takes to change to another profile, without interrupts.
    apply: Span,
    held_until: Instant,
    /// A profile was chosen since the last measurement began (`DIM_APPLY_NEW_PROFILE`).
    applies: bool,
}

/// What a frame does.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum OnFrame {
    Fire,
    StartTimer(Span),
    Wait,
}

impl Nic {
    pub(crate) fn new(now: Instant, apply: Span) -> Self {
        Self { dim: Dim::new(now), frames: 0, generation: 0, apply, held_until: now, applies: false }
    }

    /// A frame came while the interrupt is unmasked.
    pub(crate) fn on_frame(&mut self, now: Instant) -> OnFrame {
        let (usecs, frames) = PROFILES[self.dim.profile];
        self.frames += 1;
        let held = Span::from_ns(self.held_until.ns.saturating_sub(now.ns));
        if self.frames >= frames && held.is_zero() {
            return OnFrame::Fire;
        }
        if self.frames > 1 {
            return OnFrame::Wait;
        }
        self.generation += 1;
        OnFrame::StartTimer(Span::from_us(usecs).max(held))
    }

    /// The timer of `generation` expires; true: interrupt.
    pub(crate) fn on_timer(&self, generation: u32) -> bool {
        self.generation == generation
    }

    /// The interrupt is on its way, or nothing waits any more.
    pub(crate) fn done(&mut self) {
        self.frames = 0;
        self.generation += 1;
    }

    /// A poll is complete: what was received up to now, by how many interrupts.
    /// While the card changes to another profile nothing is measured, and the next measurement begins with the first poll behind it
    /// (`DIM_START_MEASURE`).
    pub(crate) fn completed(&mut self, now: Instant, packets: u64, bytes: u64, interrupts: u64) {
        let sample = Sample { at: now, packets, bytes, interrupts };
        if self.applies {
            if now >= self.held_until {
                (self.dim.start, self.applies) = (sample, false);
            }
            return;
        }
        let before = self.dim.profile;
        self.dim.sample(sample);
        if self.dim.profile != before {
            (self.held_until, self.applies) = (now + self.apply, true);
        }
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Sample {
    at: Instant,
    packets: u64,
    bytes: u64,
    interrupts: u64,
}

/// Per ms.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
struct PerMs {
    bytes: u64,
    packets: u64,
    interrupts: u64,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Tune {
    Right,
    Left,
    OnTop,
    Tired,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Trend {
    Same,
    Better,
    Worse,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Stepped {
    Further,
    TooTired,
    OnEdge,
}

/// Dynamic interrupt moderation.
#[derive(Debug)]
struct Dim {
    profile: usize,
    tune: Tune,
    start: Sample,
    before: PerMs,
    left: u32,
    right: u32,
    tired: u32,
}

impl Dim {
    fn new(now: Instant) -> Self {
        let start = Sample { at: now, packets: 0, bytes: 0, interrupts: 0 };
        Self { profile: FIRST, tune: Tune::Right, start, before: PerMs::default(), left: 0, right: 0, tired: 0 }
    }

    /// `net_dim`.
    fn sample(&mut self, now: Sample) {
        if now.interrupts - self.start.interrupts < EVENTS {
            return;
        }
        let ns = now.at.ns.saturating_sub(self.start.at.ns).max(1);
        let per_ms = |count: u64| (count * 1_000_000).div_ceil(ns);
        let rates = PerMs {
            bytes: per_ms(now.bytes - self.start.bytes),
            packets: per_ms(now.packets - self.start.packets),
            interrupts: per_ms(EVENTS),
        };
        self.decide(rates);
        self.start = now;
    }

    /// `net_dim_decision`.
    fn decide(&mut self, now: PerMs) {
        let before = self.tune;
        match self.tune {
            Tune::OnTop => {
                if self.compare(now) != Trend::Same {
                    self.exit_parking();
                }
            }
            Tune::Tired => {
                self.tired -= 1;
                if self.tired == 0 {
                    self.exit_parking();
                }
            }
            Tune::Right | Tune::Left => {
                if self.compare(now) != Trend::Better {
                    self.turn();
                }
                if self.is_on_top() {
                    self.park(Tune::OnTop);
                } else {
                    match self.step() {
                        Stepped::OnEdge => self.park(Tune::OnTop),
                        Stepped::TooTired => self.park(Tune::Tired),
                        Stepped::Further => {}
                    }
                }
            }
        }
        if before != Tune::OnTop || self.tune != Tune::OnTop {
            self.before = now;
        }
    }

    /// `net_dim_stats_compare`.
    fn compare(&self, now: PerMs) -> Trend {
        let differs = |now: u64, before: u64| now.abs_diff(before) * 100 / before > BETTER_PCT;
        for (now, before) in [(now.bytes, self.before.bytes), (now.packets, self.before.packets)] {
            if before == 0 {
                return if now > 0 { Trend::Better } else { Trend::Same };
            }
            if differs(now, before) {
                return if now > before { Trend::Better } else { Trend::Worse };
            }
        }
        let before = self.before.interrupts;
        if before > 0 && differs(now.interrupts, before) {
            return if now.interrupts < before { Trend::Better } else { Trend::Worse };
        }
        Trend::Same
    }

    fn turn(&mut self) {
        match self.tune {
            Tune::Right => (self.tune, self.left) = (Tune::Left, 0),
            Tune::Left => (self.tune, self.right) = (Tune::Right, 0),
            Tune::OnTop | Tune::Tired => {}
        }
    }

    fn is_on_top(&self) -> bool {
        match self.tune {
            Tune::OnTop | Tune::Tired => true,
            Tune::Right => self.left > 1 && self.right == 1,
            Tune::Left => self.right > 1 && self.left == 1,
        }
    }

    fn park(&mut self, how: Tune) {
        (self.left, self.right, self.tune) = (0, 0, how);
        if how == Tune::OnTop {
            self.tired = 0;
        }
    }

    fn exit_parking(&mut self) {
        self.tune = if self.profile > 0 { Tune::Left } else { Tune::Right };
        self.step();
    }

    /// `net_dim_step`.
    fn step(&mut self) -> Stepped {
        if self.tired == TIRED {
            return Stepped::TooTired;
        }
        match self.tune {
            Tune::OnTop | Tune::Tired => {}
            Tune::Right if self.profile == PROFILES.len() - 1 => return Stepped::OnEdge,
            Tune::Left if self.profile == 0 => return Stepped::OnEdge,
            Tune::Right => (self.profile, self.right) = (self.profile + 1, self.right + 1),
            Tune::Left => (self.profile, self.left) = (self.profile - 1, self.left + 1),
        }
        self.tired += 1;
        Stepped::Further
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates as given, measurement after measurement; the profiles.
    fn walk(dim: &mut Dim, interrupts: impl Fn(usize) -> u64, times: usize) -> Vec<usize> {
        let mut seen = Vec::new();
        for _ in 0..times {
            dim.decide(PerMs { bytes: 1000, packets: 50, interrupts: interrupts(dim.profile) });
            seen.push(dim.profile);
        }
        seen
    }

    #[test]
    fn it_goes_right_while_that_saves_interrupts_and_rests_at_the_edge() {
        let mut dim = Dim::new(Instant::ZERO);
        let seen = walk(&mut dim, |profile| [50, 40, 30, 20, 10][profile], 8);
        assert_eq!(seen, [2, 3, 4, 4, 4, 4, 4, 4]);
        assert_eq!(dim.tune, Tune::OnTop);
    }

    #[test]
    fn more_traffic_wakes_it() {
        let mut dim = Dim::new(Instant::ZERO);
        walk(&mut dim, |profile| [50, 40, 30, 20, 10][profile], 8);
        dim.decide(PerMs { bytes: 2000, packets: 100, interrupts: 10 });
        assert_eq!((dim.profile, dim.tune), (3, Tune::Left));
    }

    #[test]
    fn the_first_frame_starts_the_timer_and_many_fire() {
        let mut nic = Nic::new(Instant::ZERO, Span::ZERO);
        assert_eq!(nic.on_frame(Instant::ZERO), OnFrame::StartTimer(Span::from_us(8)));
        let first = nic.generation;
        assert_eq!(nic.on_frame(Instant::ZERO), OnFrame::Wait);
        assert!(nic.on_timer(first));
        let fires = (0..126).map(|_| nic.on_frame(Instant::ZERO)).position(|done| done == OnFrame::Fire);
        assert_eq!(fires, Some(125), "the 128th");
        nic.done();
        assert!(!nic.on_timer(first), "of the interrupt before");
        assert_eq!(nic.on_frame(Instant::ZERO), OnFrame::StartTimer(Span::from_us(8)));
    }

    /// While the card takes its new profile there are no interrupts.
    #[test]
    fn a_change_of_profile_takes_time() {
        let mut nic = Nic::new(Instant::ZERO, Span::from_us(400));
        let at = Instant::from_ns(1_000_000);
        nic.completed(at, 1000, 100_000, EVENTS);
        assert_eq!(nic.dim.profile, 2);
        nic.done();
        assert_eq!(nic.on_frame(at), OnFrame::StartTimer(Span::from_us(400)));
    }

    /// Nor is anything measured: what the card held back meanwhile would look like fewer interrupts.
    #[test]
    fn a_measurement_begins_when_the_new_profile_is_in_force() {
        let mut nic = Nic::new(Instant::ZERO, Span::from_us(400));
        nic.completed(Instant::from_ns(1_000_000), 1000, 100_000, EVENTS);
        nic.completed(Instant::from_ns(1_399_999), 1001, 100_100, EVENTS + 1);
        assert_eq!((nic.dim.start.at, nic.applies), (Instant::from_ns(1_000_000), true));
        nic.completed(Instant::from_ns(1_400_000), 1400, 140_000, EVENTS + 2);
        assert_eq!((nic.dim.start.packets, nic.dim.start.interrupts, nic.applies), (1400, EVENTS + 2, false));
        // As many packets as before in as long, and fewer interrupts: further on.
        nic.completed(Instant::from_ns(2_800_000), 2800, 280_000, 2 * EVENTS + 2);
        assert_eq!((nic.dim.profile, nic.applies), (3, true));
    }

    #[test]
    fn a_tenth_is_no_difference_and_more_than_that_is() {
        let mut dim = Dim::new(Instant::ZERO);
        dim.before = PerMs { bytes: 1000, packets: 1000, interrupts: 100 };
        for (interrupts, trend) in [(110, Trend::Same), (90, Trend::Same), (111, Trend::Worse), (89, Trend::Better)] {
            assert_eq!(dim.compare(PerMs { interrupts, ..dim.before }), trend, "{interrupts}");
        }
        dim.before.bytes = 1_000_000;
        // Whole percents are compared: 10.9 are 10.
        assert_eq!(dim.compare(PerMs { bytes: 1_109_000, ..dim.before }), Trend::Same);
        assert_eq!(dim.compare(PerMs { bytes: 1_110_000, ..dim.before }), Trend::Better);
    }
}

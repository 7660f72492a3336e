//! Which candidate has its turn when: blocks in random order, each candidate once in every round.
//!
//! ```text
//! round 0              round 1
//! | B | A | C |        | A | C | B |  ...      a block: | settling | first half | second half |
//! ```
//!
//! The order within a round is drawn anew for each. So whatever drifts, or comes and goes, meets all candidates alike, and if two of them
//! are the same it is chance which of the two figures of a round is higher: that is what verdicts rest on. A candidate may have its turn
//! twice in a row, at the end of a round and the beginning of the next: a rule against that would tell the order in advance.

use std::time::Duration;

use napier_rng::{below, stream};

/// One turn of one candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Which round, from 0.
    pub round: u32,
    /// Which candidate, from 0.
    pub candidate: usize,
}

/// How long everything takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockTimes {
    /// A block, with its settling time.
    pub block: Duration,
    /// What is left out at the beginning of each block.
    pub settle: Duration,
    /// The whole trial at most.
    pub whole: Duration,
}

/// These times let nothing be decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BlockTimesError {
    /// Nothing is left of a block.
    #[error(
        "blocks of {} s with a settling time of {} s leave nothing to measure: the settling time is to be at most half of a block",
        block.as_secs_f64(),
        settle.as_secs_f64()
    )]
    Settle {
        /// A block.
        block: Duration,
        /// What is left out of it.
        settle: Duration,
    },
    /// Too few rounds.
    #[error(
        "{} s are {rounds} rounds of {candidates} modes in blocks of {} s, and {needed} are the fewest that can decide: give {} s or more, \
         shorter blocks, or fewer modes",
        whole.as_secs_f64(),
        block.as_secs_f64(),
        (*block * *needed * *candidates).as_secs_f64().ceil()
    )]
    Rounds {
        /// The trial.
        whole: Duration,
        /// A block.
        block: Duration,
        /// How many candidates take turns.
        candidates: u32,
        /// How many rounds that makes.
        rounds: u32,
        /// How many there have to be.
        needed: u32,
    },
}

/// The settling time if none is given: a fifth of a block, and not more than this.
const SETTLE_MAX: Duration = Duration::from_secs(3);

impl BlockTimes {
    /// With a settling time, or the usual one.
    #[must_use]
    pub fn new(whole: Duration, block: Duration, settle: Option<Duration>) -> Self {
        Self { block, settle: settle.unwrap_or((block / 5).min(SETTLE_MAX)), whole }
    }

    /// What is measured of a block: two of these.
    #[must_use]
    pub fn half(&self) -> Duration {
        self.block.saturating_sub(self.settle) / 2
    }

    /// How many rounds there are at most.
    ///
    /// # Errors
    /// [`BlockTimesError`]: so few that nothing could be decided.
    pub fn rounds(&self, candidates: usize) -> Result<u32, BlockTimesError> {
        let Self { block, settle, whole } = *self;
        if block.is_zero() || settle * 2 > block {
            return Err(BlockTimesError::Settle { block, settle });
        }
        let candidates = u32::try_from(candidates).unwrap_or(u32::MAX).max(1);
        let rounds = u32::try_from(whole.as_nanos() / (block * candidates).as_nanos()).unwrap_or(u32::MAX);
        let needed = rounds_needed(candidates as usize);
        if rounds < needed {
            return Err(BlockTimesError::Rounds { whole, block, candidates, rounds, needed });
        }
        Ok(rounds)
    }
}

/// Rounds of which all speak for the same candidate and which say that only then, at the error that one look among the fewest has:
/// signs of `n` rounds are as one-sided as they can be in 2 of 2^n outcomes.
#[must_use]
pub fn rounds_needed(candidates: usize) -> u32 {
    let pairs = (candidates * candidates.saturating_sub(1) / 2).max(1);
    let each = 0.05 / f64::from(LOOKS_MIN) / pairs as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few")]
    let needed = 1 + (1.0 / each).log2().ceil() as u32;
    needed
}

/// One look at the end, and one if it ends before its time.
const LOOKS_MIN: u32 = 2;
/// More looks leave each too little of the error.
const LOOKS_MAX: u32 = 5;

/// After how many rounds it is looked what is decided, the last of them all rounds.
#[must_use]
pub fn looks(rounds: u32, candidates: usize) -> Vec<u32> {
    let each = rounds_needed(candidates).max(1);
    let looks = (rounds / each).clamp(1, LOOKS_MAX - 1);
    (1..=looks).map(|look| rounds * look / looks).collect()
}

/// Of how many looks each has its share of the error: one more than are planned, for a trial may be ended before its time.
#[must_use]
pub fn looks_counted(rounds: u32, candidates: usize) -> u32 {
    looks(rounds, candidates).len() as u32 + 1
}

/// All blocks in order. The same seed gives the same order.
#[must_use]
pub fn blocks(candidates: usize, rounds: u32, seed: u64) -> Vec<Block> {
    let mut rng = stream(seed, "order of blocks");
    let mut all = Vec::new();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..candidates).collect();
        for left in (1..candidates).rev() {
            order.swap(left, below(&mut rng, left as u32 + 1) as usize);
        }
        all.extend(order.into_iter().map(|candidate| Block { round, candidate }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(whole: u64, block: u64) -> BlockTimes {
        BlockTimes::new(Duration::from_secs(whole), Duration::from_secs(block), None)
    }

    #[test]
    fn each_round_has_each_candidate_once_in_an_order_of_its_own() {
        let all = blocks(3, 200, 7);
        let mut first = [0; 3];
        let mut follows = [[0; 3]; 3];
        for round in all.chunks(3) {
            let mut there: Vec<usize> = round.iter().map(|block| block.candidate).collect();
            first[there[0]] += 1;
            there.sort_unstable();
            assert_eq!(there, [0, 1, 2]);
            assert!(round.iter().all(|block| block.round == round[0].round));
        }
        for pair in all.windows(2) {
            follows[pair[0].candidate][pair[1].candidate] += 1;
        }
        // A third of the rounds each; six standard deviations are 40.
        assert!(first.iter().all(|times| (27..=107).contains(times)), "{first:?}");
        let beside =
            follows.iter().enumerate().flat_map(|(a, row)| row.iter().enumerate().map(move |(b, n)| (a == b, *n)));
        assert!(beside.clone().all(|(same, n)| if same { n > 5 } else { n > 55 }), "{follows:?}");
        assert_eq!(all, blocks(3, 200, 7), "the same seed");
        assert_ne!(all, blocks(3, 200, 8));
    }

    #[test]
    fn what_cannot_decide_is_refused_with_what_would() {
        assert_eq!(times(120, 2).rounds(3), Ok(20));
        assert_eq!(times(20 * 60, 20).rounds(3), Ok(20));
        let error = times(30, 2).rounds(3).expect_err("five rounds").to_string();
        assert!(error.contains("5 rounds of 3 modes") && error.contains("give 48 s or more"), "{error}");
        let short = BlockTimes::new(Duration::from_secs(60), Duration::from_secs(2), Some(Duration::from_millis(1500)));
        assert!(matches!(short.rounds(2), Err(BlockTimesError::Settle { .. })));
        assert_eq!(times(60, 2).half(), Duration::from_millis(800));
        assert_eq!(times(6000, 60).settle, SETTLE_MAX);
    }

    #[test]
    fn looks_end_with_all_rounds_and_each_could_decide() {
        for (rounds, candidates) in [(8, 2), (9, 3), (20, 3), (60, 3), (400, 4)] {
            let all = looks(rounds, candidates);
            assert_eq!(all.last(), Some(&rounds));
            assert!(all.iter().all(|look| *look >= rounds_needed(candidates).min(rounds)), "{all:?}");
            assert!(all.windows(2).all(|pair| pair[0] < pair[1]) && all.len() < LOOKS_MAX as usize);
            assert_eq!(looks_counted(rounds, candidates) as usize, all.len() + 1);
        }
    }
}

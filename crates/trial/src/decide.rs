//! What the blocks say: which candidate to take, or that it is not known yet.
//!
//! Figures of a round are pairs, for its blocks are next to each other in random order. Verdicts are those of `napier-verdict`: a paired test by
//! ranks, corrected for all pairs and for looking several times; intervals by a bootstrap over rounds.

use napier_verdict::{Estimate, Settings, Verdict};

use crate::Measured;
use crate::figure_slices::{FigureSlices, levelled};
use crate::judge::{Better, JudgedFigure};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// All figures.
    pub figures: &'a [JudgedFigure],
    /// The one that decides.
    pub decides: usize,
    /// What of the others must not become worse.
    pub bounds: &'a [Within],
    /// How many candidates there are.
    pub candidates: usize,
    /// The one that the others are held against.
    pub reference: usize,
    /// Candidates that were taken back, or never acted: nothing is decided of them.
    pub out: &'a [usize],
    /// Of these, those that no figure speaks against ([`CourseOutcome::unheard`](crate::CourseOutcome::unheard)).
    pub unheard: &'a [usize],
    /// How often it is looked, this time among them.
    pub looks: u32,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// A figure must not become worse than the reference's by more than a share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Within {
    /// Which figure.
    pub figure: usize,
    /// By how much it may: 0.1 is 10 %.
    pub share: f64,
}

/// What is said.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// In one word.
    pub answer: TrialAnswer,
    /// All pairs in the figure that decides.
    pub pairs: Vec<Versus>,
    /// Every candidate in every figure.
    pub standings: Vec<Standing>,
    /// Rounds that were measured.
    pub rounds: usize,
    /// Candidates whose halves of blocks differ: what a block begins with is not over after its settling time.
    pub carried: Vec<Carried>,
}

/// Which candidate to take.
#[derive(Clone, PartialEq, Debug)]
pub enum TrialAnswer {
    /// This one: better than the reference, within all bounds, and no other one is better.
    Take {
        /// Which.
        candidate: usize,
        /// Others that are no different from it.
        alike: Vec<usize>,
    },
    /// The reference.
    Stay {
        /// The others differ from it by less than this share; `None`: each is worse, or not within its bounds.
        within: Option<f64>,
    },
    /// It is not known yet.
    Undecided {
        /// Those that are better than the reference all the same.
        better: Vec<usize>,
        /// About how many rounds more it would take; `None` if that cannot be said.
        more_rounds: Option<u32>,
    },
}

/// Two candidates in the figure that decides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Versus {
    /// One.
    pub a: usize,
    /// The other.
    pub b: usize,
    /// The figure of `a` divided by that of `b`.
    pub ratio: Option<Estimate>,
    /// What is said of them.
    pub verdict: Verdict,
}

/// A candidate in one figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Standing {
    /// Which candidate.
    pub candidate: usize,
    /// Which figure.
    pub figure: usize,
    /// The median of its blocks.
    pub value: Option<Estimate>,
    /// Divided by that of the reference.
    pub ratio: Option<Estimate>,
    /// Whether it is within its bound; `None` without one.
    pub bound: Option<Holds>,
}

/// Whether a bound holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holds {
    /// All of the interval is within.
    Yes,
    /// None of it is.
    No,
    /// It is not known yet.
    Open,
}

/// A candidate whose second halves differ from its first ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Carried {
    /// Which.
    pub candidate: usize,
    /// The second half's figure divided by the first's.
    pub ratio: Estimate,
}

/// The differences that "no different" may be said of.
const WITHIN: [f64; 4] = [0.02, 0.03, 0.05, 0.10];
/// The largest of which a trial ends before its time, and the least gain for which another mode than the reference is taken.
const WITHIN_EARLY: f64 = 0.05;

impl Decision {
    /// Of blocks that were measured. One in which a candidate did not act does not count for it; the reference has not to act.
    #[must_use]
    pub fn of(question: &Question<'_>, blocks: &[Measured]) -> Self {
        let counts = |one: &&Measured| one.block.candidate == question.reference || one.acted();
        let blocks: &[&Measured] = &blocks.iter().filter(counts).collect::<Vec<_>>();
        let figures = 0..question.figures.len();
        let plain: Vec<FigureSlices> = figures.clone().map(|figure| question.plain(figure, blocks)).collect();
        let all: Vec<FigureSlices> = figures.map(|figure| question.slices(figure, blocks)).collect();
        let live: Vec<usize> = (0..question.candidates).filter(|one| !question.out.contains(one)).collect();
        let pairs: Vec<(usize, usize)> =
            live.iter().flat_map(|a| live.iter().filter(move |b| *b > a).map(move |b| (*a, *b))).collect();
        let versus = |pair: napier_verdict::Pair| Versus {
            a: pair.a,
            b: pair.b,
            ratio: pair.ratio.map(|ratio| all[question.decides].seen(ratio)),
            verdict: pair.verdict,
        };
        let said = match all.get(question.decides) {
            Some(first) if !pairs.is_empty() => first.slices().verdicts(&pairs, &[FigureSlices::METRIC]),
            _ => Vec::new(),
        };
        let pairs: Vec<Versus> = said.into_iter().map(versus).collect();
        let standing = |candidate: usize, figure: usize| {
            let slices = &all[figure];
            let is_reference = candidate == question.reference;
            let ratio = if is_reference { None } else { slices.ratio(candidate, question.reference) };
            let bound = question.bounds.iter().find(|bound| bound.figure == figure && !is_reference);
            let bound = bound.map(|bound| bound.holds(question.figures[figure].better, ratio));
            Standing { candidate, figure, value: plain[figure].estimate(candidate), ratio, bound }
        };
        let standings: Vec<Standing> = (0..question.candidates)
            .flat_map(|candidate| (0..all.len()).map(move |figure| (candidate, figure)))
            .map(|(candidate, figure)| standing(candidate, figure))
            .collect();
        let answer = Judged { question, live: &live, pairs: &pairs, standings: &standings }.answer();
        let rounds = all.get(question.decides).map_or(0, |decides| decides.slices().rounds());
        Self { answer, pairs, standings, rounds, carried: question.carried(blocks) }
    }

    /// Whether a mode is to be taken, or none: else it is not known yet.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        match self.answer {
            TrialAnswer::Take { .. } | TrialAnswer::Stay { .. } => true,
            TrialAnswer::Undecided { .. } => false,
        }
    }

    /// Whether more blocks would tell nothing that matters: a small difference may be found yet where none of less than 10 % is known.
    #[must_use]
    pub fn ends_early(&self) -> bool {
        match self.answer {
            TrialAnswer::Take { .. } => true,
            TrialAnswer::Stay { within } => within.is_none_or(|within| within <= WITHIN_EARLY),
            TrialAnswer::Undecided { .. } => false,
        }
    }

    /// A candidate in a figure.
    #[must_use]
    pub fn standing(&self, candidate: usize, figure: usize) -> Option<&Standing> {
        self.standings.iter().find(|one| one.candidate == candidate && one.figure == figure)
    }

    /// What is said of two candidates, whichever comes first.
    #[must_use]
    pub fn versus(&self, one: usize, other: usize) -> Option<&Versus> {
        self.pairs.iter().find(|pair| [(one, other), (other, one)].contains(&(pair.a, pair.b)))
    }
}

impl Question<'_> {
    fn settings(&self) -> Settings {
        Settings { seed: self.seed, looks: self.looks, within: WITHIN, ..Settings::DEFAULT }
    }

    fn values(figure: usize, blocks: &[&Measured]) -> Vec<(usize, u32, f64)> {
        let of = |one: &&Measured| Some((one.block.candidate, one.block.round, one.value(figure)?));
        blocks.iter().filter_map(of).collect()
    }

    /// As it is, for a candidate by itself.
    fn plain(&self, figure: usize, blocks: &[&Measured]) -> FigureSlices {
        let values = Self::values(figure, blocks);
        FigureSlices::new(&self.figures[figure], self.candidates, self.settings(), &values)
    }

    /// For candidates against each other.
    fn slices(&self, figure: usize, blocks: &[&Measured]) -> FigureSlices {
        let values = levelled(&Self::values(figure, blocks));
        FigureSlices::new(&self.figures[figure], self.candidates, self.settings(), &values)
    }

    /// First halves against second ones, as candidates of their own.
    fn carried(&self, blocks: &[&Measured]) -> Vec<Carried> {
        let Some(figure) = self.figures.get(self.decides) else { return Vec::new() };
        let halves = |one: &&Measured| {
            let of =
                |half: usize| Some((2 * one.block.candidate + half, one.block.round, one.half(half, self.decides)?));
            [of(0), of(1)]
        };
        let values: Vec<(usize, u32, f64)> = blocks.iter().flat_map(halves).flatten().collect();
        let slices = FigureSlices::new(figure, 2 * self.candidates, self.settings(), &levelled(&values));
        let pairs: Vec<(usize, usize)> = (0..self.candidates).map(|one| (2 * one + 1, 2 * one)).collect();
        let said = slices.slices().verdicts(&pairs, &[FigureSlices::METRIC]).into_iter();
        said.filter(|pair| matches!(pair.verdict, Verdict::Better { .. }))
            .filter_map(|pair| Some(Carried { candidate: pair.b / 2, ratio: slices.seen(pair.ratio?) }))
            .collect()
    }
}

impl Within {
    fn holds(&self, better: Better, ratio: Option<Estimate>) -> Holds {
        let worse = |ratio: Estimate| match better {
            Better::Less => ratio,
            Better::More => ratio.inverse(),
        };
        let Some(interval) = ratio.map(worse).and_then(|ratio| ratio.interval) else { return Holds::Open };
        let most = 1.0 + self.share;
        if interval.high <= most {
            Holds::Yes
        } else if interval.low > most {
            Holds::No
        } else {
            Holds::Open
        }
    }
}

/// What an answer is made of.
struct Judged<'a> {
    question: &'a Question<'a>,
    live: &'a [usize],
    pairs: &'a [Versus],
    standings: &'a [Standing],
}

impl Judged<'_> {
    fn answer(&self) -> TrialAnswer {
        let reference = self.question.reference;
        let others: Vec<usize> = self.live.iter().copied().filter(|one| *one != reference).collect();
        // One that is not within a bound is out, however good it is.
        let fit: Vec<usize> = others.iter().copied().filter(|one| self.holds(*one) != Holds::No).collect();
        let best = |one: &usize| {
            self.is_better(*one, reference)
                && self.holds(*one) == Holds::Yes
                && fit.iter().all(|other| other == one || self.is_not_worse(*one, *other))
        };
        let mut best: Vec<usize> = fit.iter().copied().filter(best).collect();
        best.sort_by(|a, b| self.cost(*a).total_cmp(&self.cost(*b)));
        if let Some((candidate, alike)) = best.split_first() {
            return TrialAnswer::Take { candidate: *candidate, alike: alike.to_vec() };
        }
        // That nothing was heard of any other candidate is no reason to stay.
        let is_nothing_heard = others.is_empty() && !self.question.unheard.is_empty();
        if !is_nothing_heard && fit.iter().all(|one| self.is_not_worse(reference, *one)) {
            let widths = fit.iter().filter_map(|one| self.alike(*one, reference));
            return TrialAnswer::Stay { within: widths.reduce(f64::max) };
        }
        let open = |pair: &&Versus| {
            let is_asked = |one: usize| one == reference || fit.contains(&one);
            is_asked(pair.a) && is_asked(pair.b)
        };
        let more = self.pairs.iter().filter(open).filter_map(|pair| match pair.verdict {
            Verdict::Undecided { more_rounds, .. } => Some(more_rounds),
            Verdict::Better { .. } | Verdict::NoDifferent { .. } => None,
        });
        // One of which that cannot be said makes that unknown of all.
        let more: Option<Vec<u32>> = more.collect();
        let more_rounds = more.filter(|_| !is_nothing_heard).and_then(|more| more.into_iter().max());
        let better = fit.iter().copied().filter(|one| self.is_better(*one, reference)).collect();
        TrialAnswer::Undecided { better, more_rounds }
    }

    fn verdict(&self, one: usize, other: usize) -> Option<Verdict> {
        let is_it = |pair: &&Versus| [(one, other), (other, one)].contains(&(pair.a, pair.b));
        self.pairs.iter().find(is_it).map(|pair| pair.verdict)
    }

    fn is_better(&self, one: usize, other: usize) -> bool {
        let is_small = other == self.question.reference && self.small_gain(one).is_some();
        matches!(self.verdict(one, other), Some(Verdict::Better { which }) if which == one) && !is_small
    }

    /// By how much less than this share they differ. A gain that is too small to change anything for is no difference.
    fn alike(&self, one: usize, other: usize) -> Option<f64> {
        let reference = self.question.reference;
        match self.verdict(one, other) {
            Some(Verdict::NoDifferent { within }) => Some(within),
            Some(Verdict::Better { which }) if which != reference && [one, other].contains(&reference) => {
                self.small_gain(which)
            }
            _ => None,
        }
    }

    /// What a candidate gains against the reference at most, if that is less than is worth a change.
    fn small_gain(&self, candidate: usize) -> Option<f64> {
        let standing =
            self.standings.iter().find(|one| one.candidate == candidate && one.figure == self.question.decides)?;
        let less = match self.question.figures[self.question.decides].better {
            Better::Less => standing.ratio?,
            Better::More => standing.ratio?.inverse(),
        };
        let most = less.interval.map_or(less.value, |interval| interval.low);
        (1.0 - less.value < WITHIN_EARLY).then_some((1.0 - most).max(WITHIN_EARLY))
    }

    fn is_not_worse(&self, one: usize, other: usize) -> bool {
        self.is_better(one, other) || self.alike(one, other).is_some()
    }

    /// Over all its bounds.
    fn holds(&self, candidate: usize) -> Holds {
        let all: Vec<Holds> =
            self.standings.iter().filter(|one| one.candidate == candidate).filter_map(|one| one.bound).collect();
        match () {
            () if all.contains(&Holds::No) => Holds::No,
            () if all.contains(&Holds::Open) => Holds::Open,
            () => Holds::Yes,
        }
    }

    /// Of those that are alike the one that costs less in CPU time is taken, or in the first other figure.
    fn cost(&self, candidate: usize) -> f64 {
        let figures = self.question.figures;
        let others = || (0..figures.len()).filter(|at| *at != self.question.decides);
        let next = others().find(|at| figures[*at].name == "cpu").or_else(|| others().next());
        let standing = self.standings.iter().find(|one| one.candidate == candidate && Some(one.figure) == next);
        let value = standing.and_then(|one| one.value).map_or(f64::INFINITY, |found| found.value);
        match next.map(|at| figures[at].better) {
            Some(Better::More) => -value,
            Some(Better::Less) | None => value,
        }
    }
}

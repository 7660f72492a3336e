//! What a trial says, the answer first.

use napier_lab::modes::Mode;
use napier_linux::change::shown;
use napier_trial::{
    Better, Block, Decision, EndedBy, Estimate, Holds, Interval, JudgedFigure, Standing, TrialAnswer, Trip, Verdict,
};

use super::acts::{self, Acted};
use super::{REFERENCE, TrialPlan, TrialResult};
use crate::page::{Page, plural};

/// What is going to be done.
pub(super) fn begins(plan: &TrialPlan, dev: &str, program: &str) -> Vec<String> {
    let names: Vec<String> = plan.modes.iter().map(ToString::to_string).collect();
    let seconds = |span: std::time::Duration| format!("{} s", (span.as_secs_f64() * 100.0).round() / 100.0);
    let (block, settle) = (seconds(plan.times.block), seconds(plan.times.settle));
    let others = (0..plan.figures.len()).filter(|at| *at != plan.decides);
    let others: Vec<&str> = others.map(|at| plan.figures[at].name.as_str()).collect();
    let watched = if others.is_empty() { String::new() } else { format!("; beside it: {}", others.join(", ")) };
    vec![
        format!(
            "{} take turns of {block} on {dev} for {program}, at most {} of them in random order; the first {settle} of each are left out",
            names.join(", "),
            plural(plan.rounds, "round"),
        ),
        format!("{} decides{watched}", plan.figures[plan.decides].name),
    ]
}

/// The order of turns: some of it.
pub(super) fn order(plan: &TrialPlan, blocks: &[Block]) -> String {
    const ROUNDS: usize = 4;
    let names = |round: &[Block]| {
        let names: Vec<String> = round.iter().map(|block| plan.modes[block.candidate].to_string()).collect();
        names.join(" ")
    };
    let first: Vec<String> = blocks.chunks(plan.modes.len()).take(ROUNDS).map(names).collect();
    format!("{} | ... ({} in all, seed {})", first.join(" | "), blocks.len(), plan.seed)
}

/// A mode that was taken back.
pub(super) fn trip(plan: &TrialPlan, trip: &Trip) -> String {
    let (at, took) = (trip.at.as_secs_f64(), trip.took.as_secs_f64() * 1e3);
    let what = match trip.candidate {
        Some(REFERENCE) => format!("a block of {} was lost", plan.modes[REFERENCE]),
        Some(candidate) => format!("{} was taken back", plan.modes[candidate]),
        None => "it was taken back".to_owned(),
    };
    format!("{what} at {at:.1} s: {}; everything was back {took:.0} ms later", trip.why)
}

/// The answer, in sentences.
pub(super) fn answer(result: &TrialResult<'_>) -> Vec<String> {
    let TrialResult { plan, decision, .. } = result;
    let figure = &plan.figures[plan.decides];
    let name = |candidate: usize| plan.modes[candidate].to_string();
    let base = name(REFERENCE);
    let mut said = Vec::new();
    match &decision.answer {
        TrialAnswer::Take { candidate, alike } => {
            said.push(format!("Take {}: {}.", name(*candidate), gain(result, *candidate, plan.decides)));
            said.push(costs(result, *candidate));
            if !alike.is_empty() {
                let names: Vec<String> = alike.iter().map(|one| name(*one)).collect();
                said.push(format!("No different from it in {figure}: {}.", names.join(", ")));
            }
            said.push(how_sure(decision));
        }
        TrialAnswer::Stay { within: Some(within) } => {
            said.push(format!(
                "Stay with {base}: no other mode is better in {figure} by {:.0} % or more.",
                within * 100.0
            ));
            said.push(how_sure(decision));
            said.extend(hidden(result));
        }
        TrialAnswer::Stay { within: None } => {
            said.push(format!("Stay with {base}: {}.", against(result).join("; ")));
            said.push(how_sure(decision));
        }
        TrialAnswer::Undecided { better, more_rounds } => {
            said.push(format!("Undecided after {}: {}.", plural(rounds(decision), "round"), open(result)));
            said.push(hidden(result).unwrap_or_else(|| more(result, *more_rounds)));
            said.extend(full(result));
            let worse = (0..plan.modes.len()).filter(|one| {
                let versus = decision.versus(REFERENCE, *one).map(|versus| versus.verdict);
                matches!(versus, Some(Verdict::Better { which: REFERENCE }))
            });
            let worse: Vec<String> =
                worse.map(|one| format!("{} ({})", name(one), gain(result, one, plan.decides))).collect();
            if !worse.is_empty() {
                said.push(format!("Worse than {base} for certain: {}.", worse.join("; ")));
            }
            if !better.is_empty() {
                let all: Vec<String> =
                    better.iter().map(|one| format!("{} ({})", name(*one), gain(result, *one, plan.decides))).collect();
                said.push(format!("Better than {base} all the same: {}.", all.join("; ")));
            }
        }
    }
    said.retain(|line| !line.is_empty());
    said
}

fn rounds(decision: &Decision) -> u32 {
    u32::try_from(decision.rounds).unwrap_or(u32::MAX)
}

/// What speaks against each mode but the reference.
fn against(result: &TrialResult<'_>) -> Vec<String> {
    let TrialResult { plan, decision, outcome, .. } = result;
    let why = |candidate: usize| {
        let name = &plan.modes[candidate];
        let beyond = (0..plan.figures.len()).find(|figure| {
            decision.standing(candidate, *figure).is_some_and(|standing| standing.bound == Some(Holds::No))
        });
        match beyond {
            _ if outcome.out.contains(&candidate) => {
                let trip = outcome.trips.iter().find(|trip| trip.candidate == Some(candidate));
                let why = trip.map(|trip| format!(" ({})", trip.why)).unwrap_or_default();
                format!("{name} was taken back{why}, and is not judged")
            }
            _ if result.acts[candidate].is_idle() => format!("{name} did not act in any block, and is not judged"),
            Some(figure) => format!("{name} is beyond its bound: {}", gain(result, candidate, figure)),
            None => format!("with {name} {}", gain(result, candidate, plan.decides)),
        }
    };
    (0..plan.modes.len()).filter(|candidate| *candidate != REFERENCE).map(why).collect()
}

fn how_sure(decision: &Decision) -> String {
    if decision.pairs.is_empty() {
        return String::new();
    }
    let pairs = u32::try_from(decision.pairs.len()).unwrap_or(u32::MAX);
    format!(
        "Sure at 95 %, over {}, {} of modes and all looks together.",
        plural(rounds(decision), "round"),
        plural(pairs, "pair")
    )
}

/// What is not known yet.
fn open(result: &TrialResult<'_>) -> String {
    let TrialResult { plan, decision, .. } = result;
    let mut all: Vec<String> = Vec::new();
    for pair in &decision.pairs {
        if let Verdict::Undecided { why, .. } = pair.verdict {
            all.push(format!("{} against {}: {why}", plan.modes[pair.a], plan.modes[pair.b]));
        }
    }
    let bounds = decision.standings.iter().filter(|one| one.bound == Some(Holds::Open));
    all.extend(bounds.map(|one| {
        format!("whether {} of {} is within its bound", plan.figures[one.figure].name, plan.modes[one.candidate])
    }));
    match all.is_empty() {
        true if is_alone(result) => against(result).join("; "),
        true => "too little was measured".to_owned(),
        false => all.join("; "),
    }
}

/// All modes but the reference are out.
fn is_alone(result: &TrialResult<'_>) -> bool {
    result.outcome.out.len() + 1 == result.plan.modes.len()
}

fn more(result: &TrialResult<'_>, more_rounds: Option<u32>) -> String {
    let plan = result.plan;
    if is_alone(result) {
        return "No figure speaks against what was taken back. Try again where there is less to do beside the service, or with a judge that \
                answers sooner."
            .to_owned();
    }
    let Some(rounds) = more_rounds else {
        return "How much longer it would take cannot be said from these.".to_owned();
    };
    let candidates = u32::try_from(plan.modes.len()).unwrap_or(1);
    let seconds = (plan.times.block * candidates * rounds).as_secs_f64();
    let all = (plan.times.block * candidates * (plan.rounds + rounds)).as_secs_f64();
    format!(
        "About {} more would decide it: {} longer, such as --for {:.0}s.",
        plural(rounds, "round"),
        time(seconds),
        all
    )
}

/// A figure of the reference by its name.
fn of_reference(result: &TrialResult<'_>, name: &str) -> Option<f64> {
    let at = result.plan.figures.iter().position(|figure| figure.name == name)?;
    Some(result.decision.standing(REFERENCE, at)?.value?.value)
}

/// The round trip that decides may be the pause of clients: it is then as long as the time between two segments of a connection.
fn hidden(result: &TrialResult<'_>) -> Option<String> {
    let decides = &result.plan.figures[result.plan.decides];
    if !decides.name.starts_with("rtt-") {
        return None;
    }
    let (trip, between) = (of_reference(result, "rtt-p50")?, of_reference(result, "between")?);
    (0.75..1.33).contains(&(trip / between)).then(|| {
        let [trip, between] = [trip, between].map(|value| decides.unit.show(value));
        format!(
            "rtt-p50 ({trip}) is about the time between two segments of a connection ({between}): if clients ask by a clock it is their \
             pause, and no mode changes that. Let a figure of the service or of its clients judge (docs/judges.md), or give --by cpu."
        )
    })
}

/// Where the CPUs are taken, by whatever.
fn full(result: &TrialResult<'_>) -> Option<String> {
    let cpus = std::thread::available_parallelism().ok()?.get() as f64;
    let used = of_reference(result, "machine-cpu")?;
    (used >= 0.95 * cpus).then(|| {
        format!(
            "The CPUs of this machine were taken ({:.0} % of {:.0} %): with less to do beside the service it is decided sooner.",
            used * 100.0,
            cpus * 100.0
        )
    })
}

fn time(seconds: f64) -> String {
    if seconds < 300.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", (seconds / 60.0).ceil()) }
}

/// `p99 is 23 % lower than with base (17 to 28 %)`.
pub(super) fn gain(result: &TrialResult<'_>, candidate: usize, figure: usize) -> String {
    let plan = result.plan;
    let (name, base) = (&plan.figures[figure].name, &plan.modes[REFERENCE]);
    let ratio = result.decision.standing(candidate, figure).and_then(|one| one.ratio);
    ratio.map_or_else(
        || format!("{name} is not known"),
        |ratio| format!("{name} is {} than with {base}", differs(&ratio)),
    )
}

/// `23 % lower (17 to 28 %)`.
fn differs(ratio: &Estimate) -> String {
    let part = |value: f64| (value - 1.0).abs() * 100.0;
    let word = |value: f64| if value < 1.0 { "lower" } else { "higher" };
    let round = |value: f64| if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") };
    let own = format!("{} % {}", round(part(ratio.value)), word(ratio.value));
    match ratio.interval {
        Some(Interval { low, high }) if word(low) == word(high) => {
            let (near, far) = if high < 1.0 { (part(high), part(low)) } else { (part(low), part(high)) };
            format!("{own} ({} to {} %)", round(near), round(far))
        }
        Some(Interval { low, high }) => {
            format!("{own} ({} % lower to {} % higher)", round(part(low)), round(part(high)))
        }
        None => own,
    }
}

/// What else differs under a mode, for the worse and for the better.
fn costs(result: &TrialResult<'_>, candidate: usize) -> String {
    let TrialResult { plan, decision, .. } = result;
    let differing = |figure: usize| {
        let ratio = decision.standing(candidate, figure)?.ratio?;
        let Interval { low, high } = ratio.interval?;
        let is_worse = match plan.figures[figure].better {
            Better::Less => low > 1.0,
            Better::More => high < 1.0,
        };
        let is_other = low > 1.0 || high < 1.0;
        is_other.then(|| (is_worse, format!("{} {}", plan.figures[figure].name, differs(&ratio))))
    };
    let others = (0..plan.figures.len()).filter(|at| *at != plan.decides);
    let all: Vec<(bool, String)> = others.filter_map(differing).collect();
    let of = |is_worse: bool| -> Vec<&str> {
        all.iter().filter(|(worse, _)| *worse == is_worse).map(|(_, words)| words.as_str()).collect()
    };
    let (worse, better) = (of(true), of(false));
    let costs = if worse.is_empty() {
        "It costs nothing that was seen to differ.".to_owned()
    } else {
        format!("It costs: {}.", worse.join("; "))
    };
    if better.is_empty() { costs } else { format!("{costs} It gains as well: {}.", better.join("; ")) }
}

/// The whole text.
pub(super) fn text(result: &TrialResult<'_>) -> String {
    let TrialResult { plan, decision, outcome, keep, left, acts, .. } = result;
    let mut page = Page::default();
    page.paragraph(&answer(result).join(" "));
    page.blank();
    if let Some((why, words)) = outcome.ended.as_ref().filter(|(why, _)| *why != EndedBy::Alone) {
        page.paragraph(&format!("It ended early: {why} ({words})."));
        page.blank();
    }
    if !keep.is_empty() {
        page.title("Keep it");
        keep.iter().for_each(|command| page.command(command));
        page.blank();
    }
    let base = &plan.modes[REFERENCE];
    page.words(
        "",
        &format!(
            "Medians of blocks; percent is against {base}, of blocks beside each other, with its interval at 95 %:"
        ),
    );
    for row in rows(result) {
        page.title(&row);
    }
    page.blank();
    let words = |(at, acted): (usize, &Acted)| acted.words(&plan.modes[at], plan.kinds[at] == Mode::Base);
    let acts: Vec<String> = acts.iter().enumerate().flat_map(words).collect();
    if !acts.is_empty() {
        page.title("Whether they act");
        acts.iter().for_each(|words| page.words("", words));
        page.blank();
    }
    for trip in &outcome.trips {
        page.paragraph(&self::trip(plan, trip));
    }
    for carried in &decision.carried {
        page.paragraph(&format!(
            "{}: {} is {} in the second halves of its blocks than in the first: what a turn begins with is not over after {} s. Give a longer \
             --settle and --block.",
            plan.modes[carried.candidate],
            plan.figures[plan.decides].name,
            differs(&carried.ratio),
            plan.times.settle.as_secs_f64()
        ));
    }
    let blocks = u32::try_from(outcome.measured.len()).unwrap_or(u32::MAX);
    page.paragraph(&format!(
        "{} of {} s were measured in {}; everything is {}.",
        plural(blocks, "block"),
        plan.times.block.as_secs_f64(),
        time(outcome.took.as_secs_f64()),
        if left.is_empty() { "as it was before" } else { "put back but for what is said above" }
    ));
    page.finish()
}

/// A table of figures and modes, and of who polled, as lines.
fn rows(result: &TrialResult<'_>) -> Vec<String> {
    let TrialResult { plan, decision, acts, .. } = result;
    let head = std::iter::once(String::new()).chain(plan.modes.iter().cloned());
    let mut cells: Vec<Vec<String>> = vec![head.collect()];
    for (at, figure) in plan.figures.iter().enumerate() {
        let own = (0..plan.modes.len()).map(|candidate| cell(figure, decision.standing(candidate, at)));
        cells.push(std::iter::once(figure.name.clone()).chain(own).collect());
    }
    cells.extend(acts::rows(acts));
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=plan.modes.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        shown(format!("  {}", padded.collect::<Vec<_>>().join("   ")).trim_end())
    };
    cells.iter().map(line).collect()
}

/// `123 us -12 % [-15, -9]`: what it is, and against base.
fn cell(figure: &JudgedFigure, standing: Option<&Standing>) -> String {
    let Some(value) = standing.and_then(|one| one.value) else { return "-".to_owned() };
    let own = figure.unit.show(value.value);
    let ratio = standing.and_then(|one| one.ratio).map(|ratio| {
        // Nothing has no sign.
        let of = |ratio: f64| match ((ratio - 1.0) * 100.0).round() {
            0.0 => "0".to_owned(),
            percent => format!("{percent:+.0}"),
        };
        let interval = ratio.interval.map(|it| format!(" [{}, {}]", of(it.low), of(it.high))).unwrap_or_default();
        format!(" {} %{interval}", of(ratio.value))
    });
    let bound = match standing.and_then(|one| one.bound) {
        Some(Holds::No) => " beyond its bound",
        Some(Holds::Open) => " perhaps beyond its bound",
        Some(Holds::Yes) | None => "",
    };
    format!("{own}{}{bound}", ratio.unwrap_or_default())
}

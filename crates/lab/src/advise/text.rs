//! Advice for a person, in 80 columns.

use std::fmt::Write as _;

use super::{Advice, Effect, Goal, Predicted};
use crate::modes::Mode;
use crate::wrap::wrapped;

/// Columns of the text.
const COLUMNS: usize = 80;

/// The whole page.
#[must_use]
pub fn text(advice: &Advice, device: &str) -> String {
    let mut page = String::new();
    let workload = &advice.workload;
    let service = workload.service.as_ref().map_or_else(String::new, |it| format!(", {it} of work each"));
    wrap(
        &mut page,
        &format!(
            "{} requests/s over {} {} and {} connections{service}, on: {} ({} figures, {} of them fitted).",
            workload.rate_rps,
            workload.queues,
            if workload.queues == 1 { "queue" } else { "queues" },
            workload.connections,
            advice.machine,
            advice.parameters.0,
            advice.parameters.1,
        ),
    );
    table(&mut page, &advice.rows, advice);
    if !advice.at_peak.is_empty() {
        table(&mut page, &advice.at_peak, advice);
    }
    page += "> the choice   * no other mode beats it in both p99 and CPU   ! overloaded\n\
             50%lat, 99%lat in us from when a request was due; cpu in % of one CPU per queue\n\n";
    wrap(&mut page, &sentence(advice));
    wrap(&mut page, &certainty(advice));
    for effect in &advice.effects {
        wrap(&mut page, &effect_words(effect));
    }
    page.push('\n');
    page += "To put it into force for a program, changed back when it ends:\n";
    for command in commands(advice.choice.mode, device) {
        let _ = writeln!(page, "  {command}");
    }
    page += "What that sets:\n";
    for write in advice.choice.mode.plan().writes() {
        let _ = writeln!(page, "  {write}");
    }
    page
}

fn table(page: &mut String, rows: &[Predicted], advice: &Advice) {
    let _ = writeln!(
        page,
        "\n  {:>18} {:>9} {:>9} {:>8} {:>8} {:>15} {:>5}",
        "testcase", "load", "qps", "50%lat", "99%lat", "(of each run)", "cpu"
    );
    let front = super::frontier(rows);
    for row in rows {
        let is_choice = row.mode == advice.choice.mode;
        let mark = match (row.sustained, front.contains(&row.mode)) {
            (false, _) => '!',
            (true, true) => '*',
            (true, false) => ' ',
        };
        let (low, high) = spread(row.by_seed.iter().map(|seed| seed.p99_us));
        let spread = format!("[{}, {}]", us(low), us(high));
        let _ = writeln!(
            page,
            "{}{} {:>17} {:>9} {:>9.0} {:>8} {:>8} {:>15} {:>5.0}",
            if is_choice { '>' } else { ' ' },
            mark,
            row.mode,
            row.load_rps,
            row.achieved_rps,
            us(row.p50_us),
            us(row.p99_us),
            spread,
            row.cpu_pct,
        );
    }
}

fn us(us: f64) -> String {
    if us.is_infinite() {
        "-".to_owned()
    } else if us < 100.0 {
        format!("{us:.1}")
    } else {
        format!("{us:.0}")
    }
}

fn spread(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max))
}

fn wanted(goal: &Goal) -> String {
    let target = goal.p99_us.map(|us| format!("a p99 of at most {us} us"));
    let budget = goal.cpu_pct.map(|pct| format!("at most {pct} % of the CPUs"));
    [target, budget].into_iter().flatten().collect::<Vec<_>>().join(" at ")
}

/// The choice and why.
pub(super) fn sentence(advice: &Advice) -> String {
    let row = |mode: Mode| advice.rows.iter().find(|row| row.mode == mode);
    let figures = |row: &Predicted| format!("p99 {} us at {:.0} % CPU", us(row.p99_us), row.cpu_pct);
    let mode = advice.choice.mode;
    let chosen = row(mode).expect("a choice is one of the rows");
    let goal = wanted(&advice.goal);
    let overloaded = advice.choice.overloaded.contains(&mode);
    let mut said = if advice.choice.reaches {
        let why = match (advice.goal.p99_us, advice.goal.cpu_pct) {
            (Some(_), _) => format!("the cheapest that keeps {goal}"),
            (None, Some(_)) => format!("the lowest p99 within {goal}"),
            (None, None) => "the cheapest whose p99 is within a quarter of the lowest".to_owned(),
        };
        format!("Take {mode}: {}, {why}.", figures(chosen))
    } else if overloaded {
        format!("No mode sustains this load; the nearest is {mode}, which answers {:.0} a second.", chosen.achieved_rps)
    } else {
        let peak = if advice.at_peak.is_empty() { "" } else { ", at the rate and at the peak" };
        format!("No mode reaches {goal}{peak}; the nearest is {mode}: {}.", figures(chosen))
    };
    let mut beside = |mode: Mode, what: &str| {
        if let Some(row) = row(mode).filter(|row| row.mode != advice.choice.mode && row.sustained) {
            let _ = write!(said, " {what} {mode}: {}.", figures(row));
        }
    };
    let front = &advice.choice.frontier;
    if let Some(lowest) = front.last() {
        beside(*lowest, "The lowest p99 has");
    }
    if let Some(cheapest) = front.first().filter(|_| front.len() > 1) {
        beside(*cheapest, "The cheapest is");
    }
    if front.first() != Some(&Mode::Base) && front.last() != Some(&Mode::Base) {
        beside(Mode::Base, "What there is without any setting is");
    }
    said
}

fn certainty(advice: &Advice) -> String {
    let (agreeing, seeds) = advice.agreeing;
    let sure = if agreeing == seeds { "" } else { ": a close call" };
    format!(
        "Of {seeds} runs, each by itself, {agreeing} give this choice{sure}. How near such a machine comes to a real one is in \
         docs/fidelity.md."
    )
}

fn effect_words(effect: &Effect) -> String {
    let Effect { what, value_ns, .. } = effect;
    let name = format!("{} ({what}; {value_ns} ns here)", effect.cost);
    match effect.flip {
        Some(flip) => format!(
            "Flips to {} if {name} costs {} than {} ns.",
            flip.to,
            if flip.is_above { "more" } else { "less" },
            flip.at_ns
        ),
        None => format!(
            "Does not flip with a quarter or four times of {name}; four times: p99 {:+.0} %, CPU {:+.0} points.",
            effect.p99_pct, effect.cpu_points
        ),
    }
}

/// The commands that put a mode into force.
#[must_use]
pub fn commands(mode: Mode, device: &str) -> Vec<String> {
    vec![
        format!("sudo napier doctor --dev {device}"),
        format!("sudo napier run --dev {device} --mode {mode} -- PROGRAM"),
        format!("sudo napier run --dev {device} --mode {mode} --dry-run -- PROGRAM"),
    ]
}

fn wrap(page: &mut String, words: &str) {
    *page += &wrapped("", words, COLUMNS);
}

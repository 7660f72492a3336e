//! Advice for a person, in 80 columns.

use std::fmt::Write as _;

use super::{Advice, Choice, Effect, Goal, Predicted, Verdict};
use crate::machines::fullest_queue;
use crate::modes::Mode;
use crate::wrap::wrapped;

/// Columns of the text.
const COLUMNS: usize = 80;

/// The whole page.
#[must_use]
pub fn text(advice: &Advice, device: &str) -> String {
    answer(advice, device) + &flips(advice)
}

/// The page without what would change the choice: the choice, what it is told by, what to type, and only then the table.
#[must_use]
pub fn answer(advice: &Advice, device: &str) -> String {
    let mut page = String::new();
    if let Some(why) = advice.known.distrust() {
        wrap(&mut page, &format!("NOT TO BE BELIEVED: {why}."));
    }
    if advice.left_out > 0 {
        let all = advice.rows.len() + advice.left_out;
        wrap(
            &mut page,
            &format!("Interrupted: {} of {all} modes were run; the others are not judged.", advice.rows.len()),
        );
    }
    wrap(&mut page, &(said(advice) + leave_it(advice)));
    wrap(&mut page, &asked(advice));
    wrap(&mut page, &in_words(advice));
    let others = others(advice);
    let width = others.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
    for (what, row) in others {
        let _ = writeln!(page, "  {what:width$}  {}: {}", row.mode, figures(row));
    }
    put_in_force(&mut page, advice, device);
    table(&mut page, &advice.rows, advice);
    if !advice.at_peak.is_empty() {
        table(&mut page, &advice.at_peak, advice);
    }
    page += "> the choice   * no other mode is known to beat it in both   ! overloaded\n\
             50%lat, 99%lat in us from when a request was due; cpu in % of one CPU per queue\n\
             [from, to]: as far as such predictions were off; -: nothing says so\n\n";
    wrap(&mut page, near(advice).trim_start());
    wrap(&mut page, &certainty(advice));
    wrap(&mut page, &whose(advice));
    wrap(&mut page, &uneven(advice));
    what_that_sets(&mut page, advice, device);
    page
}

/// What would change the choice, after the answer; empty if it was not looked for.
#[must_use]
pub fn flips(advice: &Advice) -> String {
    let mut page = String::new();
    for effect in &advice.effects {
        wrap(&mut page, &effect_words(effect));
    }
    if page.is_empty() { page } else { format!("\n{page}") }
}

/// What was asked, on what, and how far that is to be believed.
fn asked(advice: &Advice) -> String {
    let workload = &advice.workload;
    let service = workload.service.as_ref().map_or_else(String::new, |it| format!(", {it} of work each"));
    let error = match advice.known.words() {
        Some(words) => words,
        None if advice.parameters.1 > 0 => "its file does not say how far it is off: fit it again".to_owned(),
        None => "nothing says how far it is off".to_owned(),
    };
    let counted = |count: u16, what: &str| if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") };
    format!(
        "Predicted, not measured; {error}: {} requests/s over {} and {}{service}, on {} ({} figures, {} of them fitted).",
        workload.rate_rps,
        counted(workload.queues, "queue"),
        counted(workload.connections, "connection"),
        advice.machine,
        advice.parameters.0,
        advice.parameters.1,
    )
}

fn table(page: &mut String, rows: &[Predicted], advice: &Advice) {
    let rate = rows.first().map_or(0, |row| row.load_rps);
    let _ = writeln!(
        page,
        "\nAt {rate} requests/s:\n  {:>18} {:>9} {:>8} {:>8} {:>14} {:>4} {:>10}",
        "testcase", "qps", "50%lat", "99%lat", "[from, to]", "cpu", "[from, to]"
    );
    let front = super::frontier(rows);
    for row in rows {
        let is_choice = row.mode == advice.choice.mode;
        let mark = match (row.sustained, front.contains(&row.mode)) {
            (false, _) => '!',
            (true, true) => '*',
            (true, false) => ' ',
        };
        let shown = |range: Option<(f64, f64)>, show: fn(f64) -> String| {
            range.map_or_else(|| "-".to_owned(), |(low, high)| format!("[{}, {}]", show(low), show(high)))
        };
        let _ = writeln!(
            page,
            "{}{} {:>17} {:>9.0} {:>8} {:>8} {:>14} {:>4.0} {:>10}",
            if is_choice { '>' } else { ' ' },
            mark,
            row.mode,
            row.achieved_rps,
            us(row.p50_us),
            us(row.p99_us),
            shown(row.p99_range_us, us),
            row.cpu_pct,
            shown(row.cpu_range_pct, |pct| format!("{pct:.0}")),
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

fn wanted(goal: &Goal) -> String {
    let target = goal.p99_us.map(|us| format!("a p99 of at most {us} us"));
    let budget = goal.cpu_pct.map(|pct| format!("at most {pct} % of the CPUs"));
    [target, budget].into_iter().flatten().collect::<Vec<_>>().join(" at ")
}

/// Figures of a row, with how far they may be off.
fn figures(row: &Predicted) -> String {
    let range = |range: Option<(f64, f64)>, show: fn(f64) -> String| {
        range.map_or_else(String::new, |(low, high)| format!(" ({} to {})", show(low), show(high)))
    };
    format!(
        "p99 {} us{} at {:.0} % CPU{}",
        us(row.p99_us),
        range(row.p99_range_us, us),
        row.cpu_pct,
        range(row.cpu_range_pct, |pct| format!("{pct:.0}")),
    )
}

/// No mode can keep the target, for the way there and back alone takes longer.
fn is_impossible(advice: &Advice) -> bool {
    let way_us = advice.rows.iter().map(|row| row.way_p99_us).fold(f64::INFINITY, f64::min);
    advice.goal.p99_us.is_some_and(|target| target < way_us)
}

/// The choice and why, and what else there is.
pub(super) fn sentence(advice: &Advice) -> String {
    let beside = others(advice).into_iter().map(|(what, row)| {
        let what = what[..1].to_uppercase() + &what[1..];
        format!(" {what}: {} with {}.", row.mode, figures(row))
    });
    said(advice) + &near(advice) + &beside.collect::<String>()
}

/// The choice and why.
fn said(advice: &Advice) -> String {
    let row = |mode: Mode| advice.rows.iter().find(|row| row.mode == mode);
    let choice = &advice.choice;
    let mode = choice.mode;
    let chosen = row(mode).expect("a choice is one of the rows");
    let goal = wanted(&advice.goal);
    let peak = if advice.at_peak.is_empty() { "" } else { ", at the rate and at the peak" };
    let mut said = match choice.verdict {
        Verdict::Reaches => {
            let why = match (advice.goal.p99_us, advice.goal.cpu_pct) {
                (Some(_), _) => format!("the cheapest that keeps {goal}"),
                (None, Some(_)) => format!("the lowest p99 within {goal}"),
                (None, None) => "the cheapest whose p99 is within a quarter of the lowest".to_owned(),
            };
            format!("Take {mode}: {}, {why}.", figures(chosen))
        }
        Verdict::TooNear => format!(
            "Too near to call: no mode is known to reach {goal}{peak}. {mode} may: {}. Measure it (napier compare) before it is relied \
             upon.",
            figures(chosen)
        ),
        Verdict::Misses if choice.overloaded.contains(&mode) => {
            format!(
                "No mode sustains this load; the nearest is {mode}, which answers {:.0} a second.",
                chosen.achieved_rps
            )
        }
        Verdict::Misses => format!("No mode reaches {goal}{peak}; the nearest is {mode}: {}.", figures(chosen)),
    };
    if is_impossible(advice) {
        let _ = write!(
            said,
            " No mode can: for 1 % of the requests the way there and back and the client's machine alone take {} us or more.",
            us(chosen.way_p99_us)
        );
    }
    said
}

/// What the choice is, and what it asks of kernel and program.
fn in_words(advice: &Advice) -> String {
    let mode = advice.choice.mode;
    let asks = mode.asks_for().map_or_else(String::new, |what| format!(" It needs {what}."));
    format!("{mode}: {}.{asks}", mode.in_words())
}

/// How connections are taken to fall on queues.
fn uneven(advice: &Advice) -> String {
    let workload = &advice.workload;
    if workload.queues == 1 || workload.recorded.is_some() {
        return String::new();
    }
    format!(
        "Connections fall on queues as a hash lets them: the fullest of {} is taken to have {} of {}, and a mode is overloaded if that queue is.",
        workload.queues,
        fullest_queue(workload.connections, workload.queues),
        workload.connections
    )
}

/// What is said of `base`, which is what there is.
fn leave_it(advice: &Advice) -> &'static str {
    let is_base = advice.choice.mode == Mode::Base && advice.choice.verdict != Verdict::Misses;
    if is_base { " It is what there is without any setting: leave it as it is." } else { "" }
}

/// Modes that cannot be told from the choice.
fn near(advice: &Advice) -> String {
    let Choice { mode, near, .. } = &advice.choice;
    if near.is_empty() {
        return String::new();
    }
    let near: Vec<String> = near.iter().map(Mode::to_string).collect();
    format!(
        " Too near to call between {mode} and {}: neither p99 nor CPU differs by more than such predictions were off.{}",
        near.join(", "),
        if *mode == Mode::Base { " base needs no setting." } else { "" }
    )
}

/// Other modes to hold the choice against, and why these.
fn others(advice: &Advice) -> Vec<(&'static str, &Predicted)> {
    let of = |mode: Mode| advice.rows.iter().find(|row| row.mode == mode && row.sustained);
    let front = &advice.choice.frontier;
    let p99 = |mode: &&Mode| advice.rows.iter().find(|row| row.mode == **mode).map_or(f64::INFINITY, |row| row.p99_us);
    let lowest = front.iter().min_by(|one, other| p99(one).total_cmp(&p99(other))).copied();
    let cheapest = front.first().filter(|_| front.len() > 1).copied();
    let all = [("as it is now", Some(Mode::Base)), ("the lowest p99", lowest), ("the cheapest", cheapest)];
    let mut found: Vec<(&str, &Predicted)> = Vec::new();
    for (what, row) in all.into_iter().filter_map(|(what, mode)| Some((what, of(mode?)?))) {
        if row.mode != advice.choice.mode && found.iter().all(|(_, known)| known.mode != row.mode) {
            found.push((what, row));
        }
    }
    found
}

pub(crate) fn certainty(advice: &Advice) -> String {
    let (agreeing, seeds) = advice.agreeing;
    let sure = if agreeing == seeds { "" } else { ": a close call" };
    let off = if advice.rows.iter().any(|row| row.p99_range_us.is_some()) {
        "That is chance alone; how far such predictions are off, the ranges say (docs/fidelity.md)."
    } else {
        "That is chance alone; how far such predictions are off, nothing says: no p99 of such a machine was held against one that was \
         measured."
    };
    if seeds == 1 {
        return format!("One run gives this choice. {off}");
    }
    format!("Of {seeds} runs, each by itself, {agreeing} give this choice{sure}. {off}{}", run_once(advice))
}

/// Modes that were not run with every seed.
fn run_once(advice: &Advice) -> String {
    let seeds = usize::from(advice.agreeing.1);
    let once = advice.rows.iter().filter(|row| row.by_seed.len() < seeds).map(|row| row.mode.to_string());
    match &once.collect::<Vec<_>>()[..] {
        [] => String::new(),
        once => format!(
            " After one run chance cannot make these the choice, so that they have no other: {}.",
            once.join(", ")
        ),
    }
}

/// What of the choice's p99 is the server's.
pub(crate) fn whose(advice: &Advice) -> String {
    let Some(row) = advice.rows.iter().find(|row| row.mode == advice.choice.mode && row.p99_us.is_finite()) else {
        return String::new();
    };
    let mut said = format!(
        "Of {}'s p99 of {} us the server itself takes {} us; the rest is the way there and back and the clients' machines.",
        row.mode,
        us(row.p99_us),
        us(row.server_p99_us)
    );
    if row.lost_per_s > 0.0 {
        let _ = write!(
            said,
            " {:.0} requests a second find the ring of the card full, and are sent again after 200 ms or more.",
            row.lost_per_s
        );
    }
    said
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

/// The commands that apply a mode: none for a choice that does not do what is wanted, or that is what there is anyhow.
#[must_use]
pub fn commands(choice: &Choice, device: &str) -> Vec<String> {
    let mode = choice.mode;
    if choice.verdict == Verdict::Misses || mode == Mode::Base {
        return Vec::new();
    }
    vec![
        format!("sudo napier doctor --dev {device}"),
        format!("sudo napier run --dev {device} --mode {mode} --dry-run -- PROGRAM"),
        format!("sudo napier run --dev {device} --mode {mode} -- PROGRAM"),
    ]
}

/// What to type next, each with what it is for. A command is never broken.
fn put_in_force(page: &mut String, advice: &Advice, device: &str) {
    let commands = commands(&advice.choice, device);
    if commands.is_empty() {
        return;
    }
    let Advice { choice, workload, .. } = advice;
    let prove = format!(
        "sudo napier compare --backend kernel --modes base,{} --load {} -- PROGRAM",
        choice.mode, workload.rate_rps
    );
    page.push('\n');
    for (what, command) in ["Look", "See", "Set", "Prove"].iter().zip(commands.into_iter().chain([prove])) {
        let _ = writeln!(page, "  {what:5}  {command}");
    }
}

fn what_that_sets(page: &mut String, advice: &Advice, device: &str) {
    if commands(&advice.choice, device).is_empty() {
        return;
    }
    let _ = writeln!(page, "\nWhat {} sets, changed back when the program ends:", advice.choice.mode);
    for write in advice.choice.mode.plan().writes() {
        let _ = writeln!(page, "  {write}");
    }
}

fn wrap(page: &mut String, words: &str) {
    if !words.is_empty() {
        *page += &wrapped("", words, COLUMNS);
    }
}

//! Pages of comparisons: the answer, the figures, the tables, and how it was measured.

mod differences;
mod figures;
mod how;
mod tables;

use maud::{Markup, html};

use super::shell::Page;
use crate::loads::Load;
use crate::report::differ::SideBySide;
use crate::report::{Report, Row, answer};

/// The page of a comparison. `notes` are sentences of what it lacks.
#[must_use]
pub fn page_of_one(report: &Report, notes: &[String]) -> String {
    let mut page = Page::new(title(report), answer::of(report).paragraphs());
    page.lead(figures::lead(report));
    for (heading, content) in sections(report, notes) {
        page.section(heading, content);
    }
    page.render()
}

/// The page of several comparisons: what differs, then each of them.
#[must_use]
pub fn page_of_several(all: &SideBySide<'_>) -> String {
    let names: Vec<&str> = all.files.iter().map(|saved| saved.name.as_str()).collect();
    let mut page = Page::new(format!("napier report: {}", names.join(", ")), differences::answer(all));
    page.section("What differs", differences::section(all));
    for saved in &all.files {
        let content = html! {
            @for paragraph in answer::of(&saved.report).paragraphs() { p { (super::shell::printable(&paragraph)) } }
            @for (heading, content) in sections(&saved.report, &saved.notes) {
                h3 { (heading) }
                (content)
            }
        };
        page.section(&saved.name, content);
    }
    page.render()
}

fn title(report: &Report) -> String {
    let workload = &report.workload;
    let way = format!(" over {}, {}", workload.way(), workload.proto);
    if workload.device == "sim" {
        return format!("napier compare: {}, predicted by simulation", workload.name);
    }
    let served = workload.program.as_deref().unwrap_or(&workload.name);
    format!("napier compare: {served} on the {}{way}", workload.backend)
}

fn sections(report: &Report, notes: &[String]) -> Vec<(&'static str, Markup)> {
    let mut all = vec![("Figures that decide", tables::deciding(report))];
    if report.rows.iter().any(|row| row.figures().is_some()) {
        all.push(("CPU time and 99th percentile", figures::frontiers(report)));
        all.push(("Percentiles", figures::percentiles(report)));
        if figures::has_several_loads(report) {
            all.push(("Latency over load", figures::over_load(report)));
        }
        all.push(("Where the CPU time goes", figures::cpu_split(report)));
    }
    all.push(("All figures", tables::all(report)));
    all.push(("How it was measured", how::how(report, notes)));
    all
}

/// Loads that have begun, with their rows.
fn loads(report: &Report) -> Vec<(Load, Vec<&Row>)> {
    let begun = |rows: &[&Row]| !rows.iter().all(|row| row.was_not_run());
    report.by_load().into_iter().filter(|(_, rows)| begun(rows)).collect()
}

/// A load as words.
fn load_words(load: Load) -> String {
    match load {
        Load::Max => "closed loop".to_owned(),
        Load::Rps(_) => format!("{load} requests/s"),
    }
}

/// A span in the unit that it deserves.
pub(super) fn span(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 1e3 => (us, "µs"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let digits = if value < 9.95 { 1 } else { 0 };
    let text = format!("{value:.digits$}");
    format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// A rate as loads are written.
fn rate(rps: f64) -> String {
    if rps >= 1e6 { format!("{}M", (rps / 1e4).round() / 1e2) } else { Load::Rps(rps.round() as u64).to_string() }
}

#[cfg(test)]
mod tests;

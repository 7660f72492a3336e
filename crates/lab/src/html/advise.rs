//! The page of advice: which mode, why, and what would change it.

use maud::{Markup, html};
use serde_json::Value;

use super::plot::frontier::{Dot, frontier};
use super::plot::{Axis, HALF, Said, Scale, SeriesStyle};
use super::shell::{Page, TableCell, facts, figure, printable, table};
use super::value::shown;
use crate::advise::{Advice, Predicted, certainty, frontier as unbeaten, json, whose};
use crate::subject::Subject;

/// The page of advice for a device.
#[must_use]
pub fn advise_page(advice: &Advice, device: &str) -> String {
    let value = json(advice, device);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut summary = vec![text(&value["why"]), certainty(advice), whose(advice)];
    summary.extend(advice.known.distrust().map(|why| format!("Not to be believed: {why}.")));
    let mut page = Page::new(format!("napier advise: {}", advice.choice.mode), summary);
    page.section("CPU time and 99th percentile", html! {
        p.note {
            "Predicted in virtual time. Each mode at what it costs and what it gives: lower left is better. Filled marks are on the frontier, which the "
            "line joins; thin lines reach as far as such predictions were off, and from the lowest to the highest run where nothing says so."
        }
        div.grid {
            (rows_figure("At the rate", &advice.rows, advice))
            @if !advice.at_peak.is_empty() { (rows_figure("At the peak", &advice.at_peak, advice)) }
        }
    });
    page.section(
        "All modes",
        html! {
            (rows_table("At the rate", &advice.rows, advice))
            @if !advice.at_peak.is_empty() { (rows_table("At the peak", &advice.at_peak, advice)) }
        },
    );
    if !advice.effects.is_empty() {
        page.section("What would change the choice", effects(&value["sensitivity"]));
    }
    let commands: Vec<String> = value["commands"].as_array().into_iter().flatten().map(text).collect();
    if !commands.is_empty() {
        page.section(
            "How to put it into force",
            html! {
                pre { (commands.join("\n")) }
                p.note { "What that sets:" }
                ul { @for write in advice.choice.mode.plan().writes() { li { (write) } } }
            },
        );
    }
    page.section("On what", facts(&asked(advice)));
    page.render()
}

fn rows_figure(caption: &str, rows: &[Predicted], advice: &Advice) -> Markup {
    let front = unbeaten(rows);
    let subjects: Vec<Subject> = rows.iter().map(|row| Subject::sim(row.mode)).collect();
    let looks = SeriesStyle::of_modes(&subjects, false);
    let range = |row: &Predicted, figure: fn(&crate::advise::BySeed) -> f64| {
        let all = row.by_seed.iter().map(figure).filter(|figure| figure.is_finite());
        (all.clone().fold(f64::INFINITY, f64::min), all.fold(0.0, f64::max))
    };
    let dot = |(row, look): (&Predicted, &SeriesStyle)| {
        let is_front = front.contains(&row.mode);
        let chosen = if row.mode == advice.choice.mode { " (the choice)" } else { "" };
        (row.sustained && row.p99_us.is_finite()).then(|| Dot {
            name: format!("{}{chosen}", row.mode),
            look: *look,
            x: row.cpu_pct,
            y: row.p99_us,
            x_range: row.cpu_range_pct.unwrap_or_else(|| range(row, |seed| seed.cpu_pct)),
            y_range: row.p99_range_us.unwrap_or_else(|| range(row, |seed| seed.p99_us)),
            is_front,
            title: format!(
                "{}: p99 {} µs at {:.0} % CPU{}",
                row.mode,
                shown(row.p99_us),
                row.cpu_pct,
                if is_front { ", on the frontier" } else { "" }
            ),
        })
    };
    let dots: Vec<Dot> = rows.iter().zip(&looks).filter_map(dot).collect();
    if dots.is_empty() {
        return html! { div { h3 { (caption) } p { "No mode sustains this load." } } };
    }
    // The choice may be named with more than its mode, so dots are found by their place.
    let mut on_front: Vec<usize> = dots.iter().enumerate().filter(|(_, dot)| dot.is_front).map(|(i, _)| i).collect();
    on_front.sort_by(|a, b| dots[*a].x.total_cmp(&dots[*b].x));
    let text = dots.iter().map(|dot| dot.title.as_str()).collect::<Vec<_>>().join("; ");
    figure(html! { b { (caption) } }, HALF, |size| {
        let x = Axis {
            scale: Scale::from_zero(dots.iter().map(|dot| dot.x_range.1), 100.0, |pct| format!("{pct:.0}")),
            name: "CPU time, % of one CPU per queue".to_owned(),
        };
        let ys: Vec<f64> = dots.iter().flat_map(|dot| [dot.y, dot.y_range.0, dot.y_range.1]).collect();
        let y = Axis {
            scale: Scale::log(ys.into_iter(), super::compare::span),
            name: "99th percentile latency, log scale".to_owned(),
        };
        frontier(size, &Said { title: caption, text: &text }, x, y, &dots, std::slice::from_ref(&on_front))
    })
}

fn rows_table(caption: &str, rows: &[Predicted], advice: &Advice) -> Markup {
    let heads = [
        "mode",
        "load",
        "qps",
        "50%lat, µs",
        "99%lat, µs",
        "99%lat, from\u{2013}to",
        "99%lat of the runs",
        "cpu %",
        "cpu %, from\u{2013}to",
        "spin %",
        "",
    ];
    let heads: Vec<(String, String)> = heads.iter().map(|head| ((*head).to_owned(), String::new())).collect();
    let front = unbeaten(rows);
    let us = |us: f64| if us.is_finite() { format!("{us:.1}") } else { "-".to_owned() };
    let none = || "not known".to_owned();
    let row = |row: &Predicted| {
        let is_choice = row.mode == advice.choice.mode;
        let low = row.by_seed.iter().map(|seed| seed.p99_us).fold(f64::INFINITY, f64::min);
        let high = row.by_seed.iter().map(|seed| seed.p99_us).fold(0.0, f64::max);
        let says = [
            (is_choice, "the choice"),
            (row.sustained && front.contains(&row.mode), "on the frontier"),
            (!row.sustained, "overloaded"),
        ];
        let says: Vec<&str> = says.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what).collect();
        let p99 = us(row.p99_us);
        vec![
            TableCell::Name(row.mode.to_string()),
            TableCell::Figure(row.load_rps.to_string()),
            TableCell::Figure(format!("{:.0}", row.achieved_rps)),
            TableCell::Figure(us(row.p50_us)),
            if is_choice { TableCell::Best(p99) } else { TableCell::Figure(p99) },
            TableCell::Figure(
                row.p99_range_us.map_or_else(none, |(low, high)| format!("{}\u{2013}{}", us(low), us(high))),
            ),
            TableCell::Figure(format!("{}\u{2013}{}", us(low), us(high))),
            TableCell::Figure(format!("{:.0}", row.cpu_pct)),
            TableCell::Figure(row.cpu_range_pct.map_or_else(none, |(low, high)| format!("{low:.0}\u{2013}{high:.0}"))),
            TableCell::Figure(format!("{:.0}", row.spin_pct)),
            TableCell::Name(says.join(", ")),
        ]
    };
    table(caption, &heads, &rows.iter().map(row).collect::<Vec<_>>())
}

/// Costs of the machine to which the choice is most sensitive.
fn effects(value: &Value) -> Markup {
    let heads =
        ["cost", "what it is", "here, ns", "another choice", "p99 with four times of it", "CPU with four times of it"];
    let heads = heads.map(|head| (head.to_owned(), String::new()));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |effect: &Value| {
        let flip = &effect["flip"];
        let than = if flip["is_above"].as_bool().unwrap_or_default() { "more" } else { "less" };
        let flip = if flip.is_null() {
            "none".to_owned()
        } else {
            format!("{} if {than} than {} ns", text(&flip["to"]), flip["at_ns"])
        };
        vec![
            TableCell::Name(text(&effect["cost"])),
            TableCell::Name(text(&effect["what"])),
            TableCell::Figure(effect["value_ns"].to_string()),
            TableCell::Name(flip),
            TableCell::Figure(effect["p99_pct"].as_f64().map_or_else(String::new, |pct| format!("{pct:+.0} %"))),
            TableCell::Figure(
                effect["cpu_points"].as_f64().map_or_else(String::new, |points| format!("{points:+.0} points")),
            ),
        ]
    };
    let rows: Vec<Vec<TableCell>> = value.as_array().into_iter().flatten().map(row).collect();
    table("Costs of the machine, each a quarter to four times of what it is", &heads, &rows)
}

fn asked(advice: &Advice) -> Vec<(String, String)> {
    let workload = &advice.workload;
    let goal = [
        advice.goal.p99_us.map(|us| format!("p99 of at most {us} µs")),
        advice.goal.cpu_pct.map(|pct| format!("at most {pct} % of the CPUs")),
    ];
    let goal: Vec<String> = goal.into_iter().flatten().collect();
    let facts = [
        ("machine", printable(&advice.machine)),
        ("figures of the machine", format!("{}, of which {} were fitted", advice.parameters.0, advice.parameters.1)),
        ("requests/s", workload.rate_rps.to_string()),
        ("peak, requests/s", workload.peak_rps.map_or_else(|| "none given".to_owned(), |peak| peak.to_string())),
        ("queues, connections, CPUs", format!("{}, {}, {}", workload.queues, workload.connections, workload.cpus)),
        ("service", workload.service.as_ref().map_or_else(|| "none added".to_owned(), ToString::to_string)),
        (
            "wanted",
            if goal.is_empty() {
                "the cheapest whose p99 is within a quarter of the lowest".to_owned()
            } else {
                goal.join(", ")
            },
        ),
        (
            "how far predictions on it were off",
            advice.known.words().unwrap_or_else(|| "nothing says so".to_owned()) + "; docs/fidelity.md",
        ),
    ];
    facts.map(|(name, what)| (name.to_owned(), what)).into()
}

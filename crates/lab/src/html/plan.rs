//! The page of a plan: what was predicted, beside what was published.

use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

use super::plot::scatter::{Both, scatter};
use super::plot::series::key;
use super::plot::{HALF, Said, SeriesStyle, Size};
use super::shell::{Page, TableCell, facts, figure, table};
use super::value::shown;

/// The page of what `napier sim plan` prints as JSON.
///
/// # Panics
/// If that cannot be written as JSON.
#[must_use]
pub fn plan_page(plan: &impl Serialize) -> String {
    let value = &serde_json::to_value(plan).expect("numbers, texts and maps by text always serialize");
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut page = Page::new(format!("napier sim plan: {}", text("title")), answer(value));
    let cells = value["cells"].as_array().map(Vec::as_slice).unwrap_or_default();
    let figures = figures(cells);
    if !figures.is_empty() {
        let entries = [
            (SeriesStyle::nth(0), "no figure was fitted to this row".to_owned()),
            (SeriesStyle::nth(1), "figures were fitted to this row".to_owned()),
        ];
        let content = html! {
            p.note { "Each mark is a mode at a load. On the line the prediction is what was published; above it, more was predicted." }
            (key(&entries))
            div.grid { @for figure in &figures { (figure) } }
        };
        page.section("Predicted over published", content);
    }
    page.section("All cells", tables(cells));
    let machine = vec![("machine".to_owned(), text("machine")), ("kind".to_owned(), text("kind"))];
    page.section("On what", html! {
        (facts(&machine))
        p.note { "Everything here was predicted in virtual time, and nothing was measured. How near predictions come: docs/fidelity.md." }
        (parameters(&value["parameters"]))
    });
    page.render()
}

fn answer(value: &Value) -> Vec<String> {
    let errors = |key: &str| {
        let errors = &value[key];
        let figure = |name: &str| errors[name].as_f64();
        Some((errors["figures"].as_u64()?, figure("median_pct")?, figure("p90_pct")?))
    };
    let said = |what: &str, (count, median, p90): (u64, f64, f64)| {
        format!(
            "{what}, {count} figures: half are within {median:.1} % of what was published, nine of ten within {p90:.1} %."
        )
    };
    let mut answer = Vec::new();
    answer.extend(errors("checked").map(|found| said("Of rows to which nothing was fitted", found)));
    answer.extend(errors("fitted").map(|found| said("Of rows to which figures of the machine were fitted", found)));
    if answer.is_empty() {
        let cells = value["cells"].as_array().map_or(0, Vec::len);
        answer.push(format!("{cells} cells were predicted; nothing was published to hold them against."));
    }
    answer
}

/// Mode and load of a cell.
fn name(cell: &Value) -> (String, String) {
    let load = cell.get("load_rps").or_else(|| cell.get("load")).unwrap_or(&Value::Null);
    let load = match load {
        Value::Number(number) => {
            number.as_u64().map_or_else(|| number.to_string(), |rps| crate::loads::Load::Rps(rps).to_string())
        }
        Value::String(text) if text == "max" => "closed".to_owned(),
        other => other.as_str().map_or_else(|| other.to_string(), str::to_owned),
    };
    (cell["mode"].as_str().unwrap_or_default().to_owned(), load)
}

/// A figure for each quantity that was published.
fn figures(cells: &[Value]) -> Vec<Markup> {
    let mut names: Vec<String> = Vec::new();
    for cell in cells {
        for name in cell["published"].as_object().into_iter().flat_map(serde_json::Map::keys) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names.iter().filter_map(|quantity| of_quantity(cells, quantity)).collect()
}

fn of_quantity(cells: &[Value], quantity: &str) -> Option<Markup> {
    let both = |cell: &Value| {
        let (published, predicted) = (cell["published"][quantity].as_f64()?, cell["predicted"][quantity].as_f64()?);
        let is_fitted = cell["fitted"].as_bool().unwrap_or_default();
        let (mode, load) = name(cell);
        let title = format!("{mode} at {load}: published {}, predicted {}", shown(published), shown(predicted));
        let look = SeriesStyle::nth(usize::from(is_fitted));
        (published > 0.0 && predicted > 0.0).then_some(Both { look, published, predicted, title })
    };
    let all: Vec<Both> = cells.iter().filter_map(both).collect();
    if all.len() < 2 {
        return None;
    }
    let (what, unit) =
        quantity.rsplit_once('_').filter(|(_, unit)| ["us", "ns", "pct"].contains(unit)).unwrap_or((quantity, ""));
    let unit = match unit {
        "pct" => "%",
        "us" => "µs",
        "" => "count",
        unit => unit,
    };
    let what = what.replace('_', " ");
    let text = all.iter().map(|both| both.title.as_str()).collect::<Vec<_>>().join("; ");
    let title = format!("{what}: predicted over published");
    // As wide as high, so that the line is one of 45 degrees.
    let sizes = [Size { height: 420.0, width: 460.0 }, HALF[1]];
    Some(figure(html! { b { (what) } span.soft { " (" (unit) ")" } }, sizes, |size| {
        scatter(size, &Said { title: &title, text: &text }, unit, shown, &all)
    }))
}

/// Load by load: what was predicted, and beside it what was published.
fn tables(cells: &[Value]) -> Markup {
    let mut loads: Vec<(String, Vec<&Value>)> = Vec::new();
    for cell in cells {
        let (_, load) = name(cell);
        match loads.iter_mut().find(|(other, _)| *other == load) {
            Some((_, cells)) => cells.push(cell),
            None => loads.push((load, vec![cell])),
        }
    }
    html! {
        p.note { "Predicted; in brackets what was published and how far the prediction is from it. ~: figures were fitted to this row." }
        @for (load, cells) in &loads { (of_load(load, cells)) }
    }
}

fn of_load(load: &str, cells: &[&Value]) -> Markup {
    let mut names: Vec<String> = Vec::new();
    for cell in cells {
        for name in cell["predicted"].as_object().into_iter().flat_map(serde_json::Map::keys) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    let mut heads = vec![("mode".to_owned(), String::new())];
    heads.extend(names.iter().map(|name| (name.replace('_', " "), String::new())));
    let rows: Vec<Vec<TableCell>> = cells
        .iter()
        .map(|cell| {
            let mark = if cell["fitted"].as_bool().unwrap_or_default() { "~ " } else { "" };
            let mut row = vec![TableCell::Name(format!("{mark}{}", name(cell).0))];
            if let Some(failed) = cell["failed"].as_str() {
                row.push(TableCell::Words(format!("a rule did not hold: {failed}"), names.len().max(1)));
                return row;
            }
            row.extend(names.iter().map(|name| {
                let figure = |part: &str| cell[part][name].as_f64();
                let published = figure("published").map(shown);
                let error = figure("error_pct").map_or_else(String::new, |pct| format!(", {pct:+.0} %"));
                let beside = published.map_or_else(String::new, |published| format!(" ({published}{error})"));
                TableCell::Figure(figure("predicted").map_or_else(|| "-".to_owned(), |figure| shown(figure) + &beside))
            }));
            row
        })
        .collect();
    table(&format!("At {load}"), &heads, &rows)
}

fn parameters(value: &Value) -> Markup {
    let heads = ["figure", "value", "unit", "origin", "why"].map(|head| (head.to_owned(), String::new()));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let row = |one: &Value| {
        vec![
            TableCell::Name(text(&one["name"])),
            TableCell::Figure(one["value"].as_f64().map_or_else(|| "-".to_owned(), shown)),
            TableCell::Name(text(&one["unit"])),
            TableCell::Name(text(&one["origin"])),
            TableCell::Words(text(&one["why"]), 1),
        ]
    };
    let rows: Vec<Vec<TableCell>> = value.as_array().into_iter().flatten().map(row).collect();
    html! { @if !rows.is_empty() { (table("Figures of the machine", &heads, &rows)) } }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn predictions_stand_beside_what_was_published() {
        let cell = |mode: &str, predicted: f64, published: f64| {
            json!({"mode": mode, "load_rps": 200_000, "fitted": mode == "base", "failed": null, "predicted": {"p99_us": predicted, "cpu_pct": 30.0},
                   "published": {"p99_us": published}, "error_pct": {"p99_us": 100.0 * (predicted / published - 1.0)}})
        };
        let value = json!({
            "title": "A <plan>", "kind": "event-loop", "machine": "M", "cells": [cell("base", 110.0, 100.0), cell("fullbusy", 45.0, 50.0)],
            "checked": {"figures": 1, "median_pct": 10.0, "p90_pct": 10.0}, "fitted": null, "parameters": [],
        });
        let page = plan_page(&value);
        for said in
            ["A &lt;plan&gt;", "nine of ten within 10.0 %", "~ base", "110 (100, +10 %)", "45 (50, -10 %)", "At 200K"]
        {
            assert!(page.contains(said), "{said}: {page}");
        }
        assert_eq!(page.matches("<figure>").count(), 1, "p99 alone was published");
        assert!(plan_page(&json!({})).contains("0 cells were predicted"));
    }
}

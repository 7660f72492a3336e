//! The page of an experiment of `napier bench`.

use maud::html;
use serde_json::Value;

use super::shell::{Page, facts};
use super::value::{Ranged, Rows, quantity, rows_of};

/// The page of what an experiment prints as JSON: `bench`, `host`, `commit`, `rows`.
#[must_use]
pub fn bench_page(value: &Value) -> String {
    let name = value["bench"].as_str().unwrap_or("experiment");
    let items = value["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let all = rows_of("", items);
    let answer = all.iter().find_map(answer).unwrap_or_else(|| format!("{} rows were measured.", items.len()));
    let mut page = Page::new(format!("napier bench {name}"), vec![answer]);
    let figures: Vec<_> = all
        .iter()
        .flat_map(|rows| rows.figures().into_iter().map(move |(name, values)| rows.draw(&name, &values)))
        .collect();
    if !figures.is_empty() {
        page.section("Figures", html! { div.grid { @for figure in figures { (figure) } } });
    }
    page.section(
        "All figures",
        html! { @for rows in &all { (rows.table(if rows.name.is_empty() { name } else { &rows.name })) } },
    );
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let host = &value["host"];
    let machine = format!("{}, {} CPUs, Linux {}", text(&host["cpu_model"]), host["cpus"], text(&host["kernel"]));
    let mut how = vec![("machine".to_owned(), machine), ("commit".to_owned(), text(&value["commit"]))];
    for part in ["in_force", "notes"] {
        let entries = host[part].as_object().into_iter().flatten();
        how.extend(entries.map(|(name, what)| (name.clone(), text(what))));
    }
    page.section("How it was measured", html! {
        (facts(&how))
        p.note { "Figures with a range are the median, the lowest and the highest of the runs. A figure of one machine is a figure of that machine." }
    });
    page.render()
}

/// Which row is best in the first figure, and whether its runs lie apart from those of the others.
fn answer(rows: &Rows) -> Option<String> {
    let (name, values) = rows.figures().into_iter().next()?;
    let is_more_better = name.contains("per_s") || name.ends_with("pps") || name.ends_with("mbps");
    let known: Vec<(usize, Ranged)> = values.iter().enumerate().filter_map(|(i, value)| Some((i, (*value)?))).collect();
    let by = |a: &&(usize, Ranged), b: &&(usize, Ranged)| {
        let order = a.1.median.total_cmp(&b.1.median);
        if is_more_better { order.reverse() } else { order }
    };
    let (best, of_best) = known.iter().min_by(by)?;
    let overlaps = |other: &Ranged| other.low <= of_best.high && of_best.low <= other.high;
    let rivals: Vec<String> =
        known.iter().filter(|(i, other)| i != best && overlaps(other)).map(|(i, _)| rows.row_name(*i)).collect();
    let (what, shown) = quantity(&name);
    let which = if is_more_better { "highest" } else { "lowest" };
    let Ranged { median, low, high } = of_best;
    let figures = format!("{} [{} to {}]", shown(*median), shown(*low), shown(*high));
    Some(match rivals.as_slice() {
        [] => format!("The {which} {what} has {}: {figures}.", rows.row_name(*best)),
        rivals => format!(
            "The {which} median of {what} has {}: {figures}; it is not decided between it and {} (ranges overlap).",
            rows.row_name(*best),
            rivals.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(second: [f64; 3]) -> Value {
        let spread = |[median, min, max]: [f64; 3]| json!({"median": median, "min": min, "max": max});
        json!({
            "bench": "udp-rr", "commit": "abc", "host": {"cpu_model": "A <b>CPU</b>", "cpus": 2, "kernel": "6.1", "in_force": {}, "notes": {}},
            "rows": [{"mode": "event-context", "p50_ns": spread([20e3, 19e3, 21e3])}, {"mode": "busy", "p50_ns": spread(second)}],
        })
    }

    #[test]
    fn the_best_is_named_only_if_its_runs_lie_apart() {
        let page = bench_page(&rows([10e3, 9e3, 11e3]));
        assert!(page.contains("The lowest p50 has busy: 10 µs [9 µs to 11 µs]."), "{page}");
        assert!(bench_page(&rows([10e3, 9e3, 19.5e3])).contains("not decided between it and event-context"));
        assert!(
            page.contains("A &lt;b&gt;CPU") && page.contains("20\u{202f}000 [19\u{202f}000\u{2013}21\u{202f}000]"),
            "text from outside is text"
        );
    }

    #[test]
    fn a_page_is_made_of_anything() {
        for value in [json!({}), json!({"rows": [1, "x"]}), json!({"rows": [{"a": []}], "host": 3})] {
            assert!(bench_page(&value).contains("<h1>napier bench"), "{value}");
        }
    }
}

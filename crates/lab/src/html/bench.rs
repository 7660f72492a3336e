//! The page of an experiment of `napier bench`.

use maud::html;
use serde_json::Value;

use super::shell::{Page, facts};
use super::value::rows_of;
use crate::wrap::counted;

/// The page of what an experiment prints as JSON: `bench`, `host`, `commit`, `answer`, `rows`.
#[must_use]
pub fn bench_page(value: &Value) -> String {
    let name = value["bench"].as_str().unwrap_or("experiment");
    let items = value["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let all = rows_of("", items);
    let said = value["answer"].as_array().into_iter().flatten().filter_map(|line| line.as_str().map(str::to_owned));
    let mut answer: Vec<String> = said.collect();
    if answer.is_empty() {
        answer.push(match items.len() {
            1 => "1 row was measured.".to_owned(),
            rows => format!("{rows} rows were measured."),
        });
    }
    let mut page = Page::new(format!("napier bench {name}"), answer);
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
    let cpus = host["cpus"].as_u64().map_or_else(|| "CPUs unknown".to_owned(), |cpus| counted(cpus, "CPU"));
    let machine = format!("{}, {}, Linux {}", text(&host["cpu_model"]), cpus, text(&host["kernel"]));
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
    fn the_answer_is_what_was_decided_and_none_is_made_of_ranges() {
        let mut value = rows([10e3, 9e3, 11e3]);
        let page = bench_page(&value);
        assert!(page.contains("2 rows were measured.") && !page.contains("The lowest"), "{page}");
        value["answer"] = json!(["Lowest p50: busy, 10.0 us."]);
        let page = bench_page(&value);
        assert!(page.contains("Lowest p50: busy, 10.0 us."), "{page}");
        assert!(
            page.contains("A &lt;b&gt;CPU") && page.contains("10\u{202f}000 [9000\u{2013}11\u{202f}000]"),
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

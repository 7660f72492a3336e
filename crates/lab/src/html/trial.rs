//! The page of a trial: the answer, and the blocks as they came.

use maud::{Markup, html};
use serde_json::Value;

use super::plot::series::key;
use super::plot::{Axis, Frame, HALF, Margins, Said, Scale, SeriesStyle, Size, WIDE};
use super::shell::{Page, TableCell, facts, figure, table};
use super::value::shown;
use crate::subject::Subject;
use crate::wrap::counted;

/// The page of what `napier trial --json` prints.
#[must_use]
pub fn trial_page(value: &Value) -> String {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let answer = list(&value["answer"]).filter_map(Value::as_str).map(ToOwned::to_owned).collect();
    let mut page = Page::new(format!("napier trial: {} on {}", text("program"), text("dev")), answer);
    let keep: Vec<&str> = list(&value["keep"]).filter_map(Value::as_str).collect();
    if !keep.is_empty() {
        page.lead(html! { @for command in &keep { p { code { (command) } } } });
    }
    let styles = styles(value);
    let mut all: Vec<&Value> = list(&value["figures"]).collect();
    all.sort_by_key(|one| one["name"] != value["decides"]);
    let figures: Vec<Markup> = all
        .into_iter()
        .filter_map(|one| of_figure(value, one, &styles, if one["name"] == value["decides"] { WIDE } else { HALF }))
        .collect();
    if let Some((decides, others)) = figures.split_first() {
        let entries: Vec<(SeriesStyle, String)> = styles.iter().map(|(name, style)| (*style, name.clone())).collect();
        page.section(
            "The blocks as they came",
            html! {
                p.note { "Each mark is a block, at the time at which it began." }
                (key(&entries))
                div.first { (decides) }
            div.grid { @for figure in others { (figure) } }
            },
        );
    }
    page.section("Modes", modes(value));
    let notes = notes(value);
    if !notes.is_empty() {
        page.section("What happened", html! { ul { @for note in &notes { li { (note) } } } });
    }
    page.section("How it was measured", html! { (facts(&how(value))) });
    page.render()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Names of modes, in their order, and how each is drawn.
fn styles(value: &Value) -> Vec<(String, SeriesStyle)> {
    let names: Vec<String> = list(&value["modes"]).filter_map(|one| Some(one["mode"].as_str()?.to_owned())).collect();
    let subjects: Option<Vec<Subject>> = names.iter().map(|name| name.parse().ok()).collect();
    let styles = match subjects {
        Some(subjects) => SeriesStyle::of_modes(&subjects, false),
        None => (0..names.len()).map(SeriesStyle::nth).collect(),
    };
    names.into_iter().zip(styles).collect()
}

/// A unit for axes, and what a value is multiplied by.
fn unit(name: &str) -> (f64, &'static str) {
    match name {
        "s" => (1e6, "µs"),
        "share" => (100.0, "% of a CPU"),
        "1/s" => (1.0, "per second"),
        "B/s" => (1.0, "bytes per second"),
        _ => (1.0, ""),
    }
}

fn of_figure(value: &Value, one: &Value, styles: &[(String, SeriesStyle)], sizes: [Size; 2]) -> Option<Markup> {
    let name = one["name"].as_str()?;
    let (scale, unit) = unit(one["unit"].as_str().unwrap_or_default());
    let points: Vec<(SeriesStyle, f64, f64, String)> = list(&value["blocks"])
        .filter_map(|block| {
            let (mode, at, value) = (block["mode"].as_str()?, block["at_s"].as_f64()?, block["values"][name].as_f64()?);
            let style = styles.iter().find(|(known, _)| known == mode)?.1;
            Some((style, at, value * scale, format!("{mode} at {at:.0} s: {} {unit}", shown(value * scale))))
        })
        .collect();
    // Where nothing ever was there is nothing to see.
    if points.len() < 2 || points.iter().all(|point| point.2 == 0.0) {
        return None;
    }
    let says = points.iter().map(|point| point.3.as_str()).collect::<Vec<_>>().join("; ");
    let title = format!("{name} of each block over time");
    let caption = html! { b { (name) } span.soft { " (" (unit) ")" } };
    Some(figure(caption, sizes, |size| draw(size, &Said { title: &title, text: &says }, (name, unit), &points)))
}

fn draw(size: Size, said: &Said<'_>, (name, unit): (&str, &str), points: &[(SeriesStyle, f64, f64, String)]) -> Markup {
    let x = Scale::from_zero(points.iter().map(|point| point.1), 1.0, shown);
    let y = Scale::from_zero(points.iter().map(|point| point.2 * 1.05), f64::MIN_POSITIVE, shown);
    let margins = Margins { left: 62.0, right: 16.0, top: 26.0, bottom: 44.0 };
    let axis = |scale, name: String| Axis { scale, name };
    let frame =
        Frame::new(size, margins, axis(x, "since the beginning, s".to_owned()), axis(y, format!("{name}, {unit}")));
    let content = html! {
        @for (style, at, value, title) in points { (style.draw((frame.x(*at), frame.y(*value)), false, title)) }
    };
    frame.draw(said, &content)
}

fn modes(value: &Value) -> Markup {
    let figures: Vec<(&str, f64, &str)> = list(&value["figures"])
        .filter_map(|one| {
            let (scale, unit) = unit(one["unit"].as_str().unwrap_or_default());
            Some((one["name"].as_str()?, scale, unit))
        })
        .collect();
    let mut heads = vec![("figure".to_owned(), String::new())];
    for (nth, mode) in list(&value["modes"]).enumerate() {
        let taken = if mode["taken_back"].as_bool().unwrap_or_default() { " (taken back)" } else { "" };
        heads.push((format!("{}{taken}", mode["mode"].as_str().unwrap_or_default()), String::new()));
        if nth > 0 {
            heads.push(("against base".to_owned(), "95 %".to_owned()));
        }
    }
    // No sign at what is rounded to nothing.
    let percent = |ratio: &Value| ratio.as_f64().map(|ratio| format!("{:+.0}", ((ratio - 1.0) * 100.0).round() + 0.0));
    let row = |(name, scale, unit): &(&str, f64, &str)| {
        let mut row = vec![TableCell::Name(format!("{name} ({unit})"))];
        for (nth, mode) in list(&value["modes"]).enumerate() {
            let (own, ratio) = (&mode["figures"][name]["value"]["value"], &mode["figures"][name]["ratio"]);
            row.push(TableCell::Figure(own.as_f64().map_or_else(|| "-".to_owned(), |own| shown(own * scale))));
            let interval = |end: usize| percent(&ratio["interval"][end]);
            let interval = interval(0).zip(interval(1)).map(|(low, high)| format!(" [{low}, {high}]"));
            let said = percent(&ratio["value"]).map(|own| format!("{own} %{}", interval.unwrap_or_default()));
            if nth > 0 {
                row.push(TableCell::Figure(said.unwrap_or_default()));
            }
        }
        row
    };
    let rows: Vec<Vec<TableCell>> = figures.iter().map(row).chain(who_polled(value)).collect();
    table("The median block of each mode", &heads, &rows)
}

/// Who polls: the key of a trial's `polls`, and what a row of it is called.
pub const WHO_POLLED: [(&str, &str); 4] = [
    ("program", "polls: program"),
    ("napi_threads", "polls: threads of instances"),
    ("softirq", "polls: softirq"),
    ("others", "polls: others"),
];
/// The row of packets that no instance took.
pub const PASSED_BY: &str = "packets passed by";

/// Rows of who polled, and of packets that no instance took.
fn who_polled(value: &Value) -> Vec<Vec<TableCell>> {
    let row = |name: &str, of: &dyn Fn(&Value) -> Option<f64>| {
        let all: Vec<Option<f64>> = list(&value["modes"]).map(of).collect();
        all.iter().flatten().any(|share| *share >= 0.005).then(|| {
            let mut row = vec![TableCell::Name(format!("{name} (%)"))];
            for (nth, share) in all.into_iter().enumerate() {
                row.push(TableCell::Figure(
                    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}", share * 100.0)),
                ));
                if nth > 0 {
                    row.push(TableCell::Figure(String::new()));
                }
            }
            row
        })
    };
    let polls = WHO_POLLED.iter().map(|(key, name)| row(name, &|mode| mode["polls"][key].as_f64()));
    polls.chain([row(PASSED_BY, &|mode| mode["passed_by"].as_f64())]).flatten().collect()
}

fn notes(value: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut notes: Vec<String> = list(&value["taken_back"])
        .map(|one| {
            let (at, back) = (one["at_s"].as_f64().unwrap_or(0.0), one["back_ms"].as_f64().unwrap_or(0.0));
            format!(
                "{} was taken back at {at:.1} s: {} (back {back:.0} ms later)",
                text(&one["mode"]),
                text(&one["why"])
            )
        })
        .collect();
    let idle = list(&value["modes"]).filter(|mode| mode["mode"] != value["reference"]);
    notes.extend(idle.filter_map(|mode| {
        let missed = mode["acted"]["no"].as_u64().filter(|missed| *missed > 0)?;
        let mode = text(&mode["mode"]);
        Some(format!(
            "{mode} did not act in {}: what did not act does not count for it",
            counted(u32::try_from(missed).ok()?, "block")
        ))
    }));
    notes.extend(list(&value["carried"]).map(|one| {
        format!(
            "{}: the halves of its blocks differ, so what a turn begins with is not over in time",
            text(&one["mode"])
        )
    }));
    if let Some(ended) = value["ended"].as_object() {
        let of = |key: &str| ended.get(key).map(text).unwrap_or_default();
        notes.push(format!("It ended early: {} ({})", of("why"), of("words")));
    }
    notes.extend(list(&value["left"]).map(|left| format!("not put back: {}", text(left))));
    notes
}

fn how(value: &Value) -> Vec<(String, String)> {
    let number = |key: &str| value[key].as_f64().map_or_else(|| "-".to_owned(), shown);
    let count = |key: &str| u32::try_from(value[key].as_array().map_or(0, Vec::len)).unwrap_or(u32::MAX);
    let (blocks, pairs) = (count("blocks"), count("pairs"));
    [
        (
            "blocks",
            format!("{} of {} s, the first {} s of each left out", blocks, number("block_s"), number("settle_s")),
        ),
        ("rounds", format!("{} of at most {}", number("measured_rounds"), number("rounds"))),
        ("it took", format!("{} s", number("took_s"))),
        ("seed", number("seed")),
        (
            "verdicts",
            format!("on {} of modes, all of them and all looks together sure at 95 %", counted(pairs, "pair")),
        ),
    ]
    .map(|(name, what)| (name.to_owned(), what))
    .to_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_answer_stands_first_and_each_block_is_a_mark() {
        let estimate = |value: f64| json!({"value": value, "interval": [value * 0.9, value * 1.1]});
        let mode = |name: &str, p99: f64| json!({"mode": name, "taken_back": name == "defer20", "figures": {"p99": {"value": estimate(p99), "ratio": estimate(0.8), "bound": null}}, "polls": {"program": 0.88}, "acted": {"no": 2}});
        let block = |at: f64, mode: &str| json!({"at_s": at, "round": 0, "mode": mode, "values": {"p99": 1e-4}});
        let value = json!({
            "program": "memcached <1>", "dev": "eth0", "answer": ["Take suspend20: it is better."], "keep": ["sudo napier mode keep"],
            "figures": [{"name": "p99", "unit": "s"}], "decides": "p99", "modes": [mode("base", 1e-4), mode("defer20", 9e-5), mode("suspend20", 8e-5)],
            "blocks": [block(0.0, "base"), block(2.0, "suspend20"), block(4.0, "base")], "pairs": [{}],
            "taken_back": [{"mode": "defer20", "why": "p99 is 3 ms", "at_s": 5.0, "back_ms": 12.0}],
        });
        let page = trial_page(&value);
        for said in [
            "Take suspend20",
            "memcached &lt;1&gt;",
            "-20 % [-28, -12]",
            "defer20 (taken back)",
            "back 12 ms later",
            "polls: program (%)",
            "suspend20 did not act in 2 blocks",
        ] {
            assert!(page.contains(said), "{said}: {page}");
        }
        // The figure is there twice, for two widths of the window.
        assert_eq!(page.matches("suspend20 at 2 s: 100 µs</title>").count(), 2);
        assert!(trial_page(&json!({})).contains("<h1>napier trial"), "a page is made of anything");
    }
}

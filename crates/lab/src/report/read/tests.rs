use serde_json::json;

use super::*;
use crate::report::json::render;
use crate::report::samples::{beside_the_kernel, cover_letter, predicted, sustained};

fn parsed(text: &str) -> Result<Saved, String> {
    parse(text.as_bytes(), "A".to_owned())
}

fn value() -> Value {
    serde_json::from_str(&render(&cover_letter())).unwrap()
}

fn refusal(value: &Value) -> String {
    parsed(&value.to_string()).expect_err("it is refused")
}

#[test]
fn what_was_written_comes_back_and_says_the_same() {
    for mut report in [cover_letter(), beside_the_kernel()] {
        report.sustained = sustained();
        report.rows.push(predicted("fullbusy", Load::Rps(200_000), 2e5, 9.0, 100.0));
        let text = render(&report);
        let saved = parsed(&text).unwrap();
        assert_eq!((saved.notes.as_slice(), render(&saved.report)), (&[] as &[String], text));
    }
}

#[test]
fn an_older_version_lacks_keys_and_is_read() {
    let mut old = value();
    for key in ["ended", "failures", "machine", "memory", "prediction", "searched_again", "sustained"] {
        old.as_object_mut().unwrap().remove(key);
    }
    for row in old["rows"].as_array_mut().unwrap() {
        let row = row.as_object_mut().unwrap();
        for key in ["latency_cdf", "in_time_pct", "sustains", "receive", "copy", "timers_per_s", "lost", "lost_runs"] {
            row.remove(key);
        }
        for bound in ["min", "max"] {
            if let Some(spread) = row["spread"].get_mut(bound) {
                spread.as_object_mut().unwrap().remove("latency_cdf");
                spread.as_object_mut().unwrap().remove("in_time_pct");
            }
        }
    }
    let saved = parsed(&old.to_string()).unwrap();
    assert_eq!(saved.report.rows.len(), cover_letter().rows.len());
    assert!(saved.notes[0].contains("no latency_cdf"), "{:?}", saved.notes);
    assert!(saved.notes[1].contains("did not count the requests that were due"), "{:?}", saved.notes);
    let sustain = |report: &Report| report.rows.iter().map(Row::sustains).collect::<Vec<_>>();
    assert_eq!(sustain(&saved.report), sustain(&cover_letter()));
    // Some of 200,000 a second too few is chance: 2000 is not.
    for (achieved_rps, sustains) in [(197_600.0, true), (194_000.0, false)] {
        old["rows"][0]["achieved_rps"] = json!(achieved_rps);
        assert_eq!(parsed(&old.to_string()).unwrap().report.rows[0].sustains(), sustains, "{achieved_rps}");
    }
}

#[test]
fn a_newer_version_has_more_and_is_read_but_for_modes_that_are_not_known() {
    let mut new = value();
    new["schema"] = json!({"version": 9});
    new["rows"][0]["joules_per_request"] = json!(3e-6);
    new["rows"][1]["mode"] = json!("clairvoyant");
    let saved = parsed(&new.to_string()).unwrap();
    assert_eq!(saved.report.rows.len() + 1, cover_letter().rows.len());
    assert!(saved.notes[0].contains("clairvoyant"), "{:?}", saved.notes);
}

#[test]
fn what_is_no_comparison_is_refused_with_the_reason() {
    for (text, why) in [
        ("", "is empty"),
        (" \n", "is empty"),
        ("qps 12", "is not JSON"),
        ("[]", "no comparison"),
        ("{}", "no comparison"),
        (r#"{"bench": "wakeup", "host": {}, "rows": []}"#, "`napier bench`"),
        (r#"{"choice": "base", "rows": []}"#, "`napier advise`"),
        (r#"{"cells": []}"#, "`napier sim plan`"),
    ] {
        let said = parsed(text).expect_err(text);
        assert!(said.contains(why), "{text}: {said}");
    }
    let text = render(&cover_letter());
    for cut in [1, text.len() / 3, text.len() - 3] {
        let said = parsed(&text[..cut]).expect_err("cut short");
        assert!(said.contains("cut short"), "{cut}: {said}");
    }
}

#[test]
fn figures_that_cannot_be_are_refused_with_their_place() {
    for wrong in [json!(-1.0), json!(1e300), json!(u64::MAX)] {
        let mut value = value();
        value["rows"][3]["latency_us"]["p99"] = wrong;
        assert!(refusal(&value).contains("rows[3].latency_us.p99"), "{}", refusal(&value));
    }
    let mut value = value();
    value["rows"][3]["latency_us"]["p99"] = Value::Null;
    assert!(refusal(&value).contains("written by commit 0123456789ab"), "{}", refusal(&value));
    value["rows"][3]["latency_us"]["p99"] = json!("fast");
    assert!(refusal(&value).contains("expected f64"), "{}", refusal(&value));
    let text = render(&cover_letter()).replacen("415.0", "1e999", 1);
    assert!(parsed(&text).is_err(), "no number is so large");
}

#[test]
fn a_row_without_figures_has_none_whatever_it_says_of_runs() {
    let mut value = value();
    value["rows"][0]["latency_us"] = Value::Null;
    let saved = parsed(&value.to_string()).unwrap();
    assert!(saved.report.rows[0].figures().is_none());
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let said = read(Path::new("/nowhere/a.json")).unwrap_err().to_string();
    assert!(said.starts_with("cannot read /nowhere/a.json: No such file"), "{said}");
}

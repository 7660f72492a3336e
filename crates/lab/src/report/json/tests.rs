use serde_json::{Value, json};

use super::*;
use crate::report::samples::{cover_letter, keys, predicted, prediction, taken};

fn value() -> Value {
    serde_json::from_str(&render(&cover_letter())).unwrap()
}

#[test]
fn names_are_the_documented_ones() {
    let value = value();
    assert_eq!(
        keys(&value),
        [
            "at_start",
            "commit",
            "decided",
            "ended",
            "failures",
            "host",
            "loads_wrong",
            "machine",
            "memory",
            "modes",
            "prediction",
            "rows",
            "searched_again",
            "slices",
            "sustained",
            "took_minutes",
            "verdicts",
            "workload"
        ]
    );
    let row_keys = [
        "achieved_rps",
        "backend",
        "context_switches_per_s",
        "copy",
        "cores",
        "cpu",
        "cycles_per_request",
        "empty_polls_pct",
        "events_per_wait",
        "in_time_pct",
        "interrupts_per_s",
        "latency_cdf",
        "latency_us",
        "left_out",
        "load_rps",
        "lost",
        "lost_runs",
        "mode",
        "polls_per_s",
        "receive",
        "refused",
        "run_delay_ms_per_s",
        "runs",
        "service_latency_us",
        "softirq_polls_per_s",
        "softirqs_per_s",
        "spread",
        "sustains",
        "timers_per_s",
        "work_per_poll",
    ];
    let rows = value["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| keys(row) == row_keys), "the same keys in every row, refused or not");
    for latency in ["latency_us", "service_latency_us"] {
        assert_eq!(keys(&rows[0][latency]), ["max", "mean", "p50", "p90", "p95", "p99", "p999"]);
    }
    assert_eq!(keys(&rows[0]["cpu"]), ["spin_pct", "total_pct", "useful_pct"]);
    assert_eq!(keys(&rows[0]["spread"]), ["max", "min"]);
    assert_eq!(keys(&rows[0]["spread"]["min"]).len(), row_keys.len() - 12);
}

#[test]
fn values_are_the_reports() {
    let value = value();
    let row = &value["rows"][0];
    assert_eq!((&row["mode"], &row["load_rps"], &row["runs"]), (&json!("base"), &json!(200_000), &json!(3)));
    assert_eq!(row["latency_us"]["p99"], json!(415.0));
    assert_eq!(row["refused"], Value::Null);
    assert_eq!(value["rows"][9]["load_rps"], json!("max"));
    assert_eq!(value["modes"]["defer20"]["gro_flush_timeout_ns"], json!(20_000));
    assert_eq!(value["modes"]["fullbusy"]["server"]["event-context"]["wait_timeout_ns"], json!(1_000_000));
    assert_eq!(value["host"]["in_force"]["softirq threads"], json!("SCHED_FIFO 50"));
    assert_eq!(value["machine"][2]["load_rps"], json!("max"));
    assert_eq!(value["machine"][0]["others_pct"], json!(0.2));
}

#[test]
fn a_predicted_row_is_one_of_sim_and_says_on_what() {
    let mut report = cover_letter();
    report.rows = vec![predicted("base", Load::Max, 1e3, 7.0, 10.0)];
    report.prediction = Some(prediction());
    let value: Value = serde_json::from_str(&render(&report)).unwrap();
    let row = &value["rows"][0];
    assert_eq!((&row["backend"], &row["runs"], &row["refused"]), (&json!("sim"), &json!(3), &Value::Null));
    assert_eq!(row["latency_us"]["p99"], json!(7.0));
    let said = json!({
        "machine": "mine.toml", "title": "fitted to a comparison", "machine_figures": 24, "machine_figures_fitted": 10, "runs": 3,
    });
    assert_eq!(value["prediction"], said);
    assert_eq!(self::value()["prediction"], Value::Null);
}

#[test]
fn what_is_sustained_has_its_limit_and_why() {
    let report = Report { sustained: crate::report::samples::sustained(), ..cover_letter() };
    let value: Value = serde_json::from_str(&render(&report)).unwrap();
    let base = &value["sustained"][0];
    assert_eq!((&base["sustained_rps"], &base["failed_rps"]), (&json!(480_000), &json!(505_000)));
    assert_eq!((&base["why"], &base["cpu_pct"]), (&json!("96 % answered"), &json!(98.0)));
    assert_eq!(value["sustained"][2]["p99_us"], Value::Null);
}

#[test]
fn a_mode_is_written_as_documented() {
    let context =
        |params: &str, wait: &str| format!(r#"{{"event-context":{{"params":{params},"wait_timeout_ns":{wait}}}}}"#);
    let params = |usecs| format!(r#"{{"busy_poll_usecs":{usecs},"busy_poll_budget":64,"prefer_busy_poll":true}}"#);
    let blocking = r#"{"blocking-receive":{"busy_poll_usecs":400,"prefer_busy_poll":true}}"#;
    let rows = [
        ("base", 0, 0, 0, "softirq", context("null", "null")),
        ("fullbusy", 100, 5_000_000, 0, "softirq", context(&params(1000), "1000000")),
        ("suspend20", 100, 20_000, 20_000_000, "softirq", context(&params(0), "null")),
        ("threaded", 0, 0, 0, "thread", context("null", "null")),
        ("workqueue", 0, 0, 0, "workqueue", context("null", "null")),
        ("threaded-busy-poll", 0, 0, 0, "busy-poll-thread", context("null", "null")),
        ("busy-read", 100, 15_000, 0, "softirq", blocking.to_owned()),
    ];
    for (name, defer, flush, suspend, threaded, server) in rows {
        let plan = crate::modes::Mode::parse(name).unwrap().plan();
        let written = format!(
            r#"{{"defer_hard_irqs":{defer},"gro_flush_timeout_ns":{flush},"irq_suspend_timeout_ns":{suspend},"threaded":"{threaded}","server":{server}}}"#
        );
        assert_eq!(serde_json::to_string(&JsonMode::from(&plan)).unwrap(), written, "{name}");
    }
}

#[test]
fn refused_rows_have_a_reason_and_no_figure() {
    let value = value();
    let row = &value["rows"][5];
    assert!(row["refused"].as_str().unwrap().starts_with("needs 5 CPUs"));
    let filled = row.as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
    assert_eq!(
        filled.map(|(key, _)| key.as_str()).collect::<Vec<_>>().len(),
        9,
        "mode, backend, receive, copy, load_rps, runs, lost_runs, left_out, refused"
    );
    assert_eq!(row["runs"], json!(0));
}

#[test]
fn what_is_written_can_be_read() {
    let text = render(&cover_letter());
    let report: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(render(&report), text, "nothing is lost on the way");
}

#[test]
fn a_program_need_not_judge_again() {
    let value = value();
    let verdicts = value["verdicts"].as_array().unwrap();
    let names = [
        "backend",
        "cheaper",
        "doubt",
        "faster",
        "fastest",
        "frontier",
        "load_rps",
        "lowest_p99",
        "said",
        "sustain",
        "take",
    ];
    assert!(verdicts.len() == 3 && verdicts.iter().all(|one| keys(one) == names));
    assert_eq!(verdicts[0]["frontier"], json!(["defer200", "defer20", "fullbusy"]));
    assert_eq!((&verdicts[0]["lowest_p99"], &verdicts[0]["doubt"]), (&json!("fullbusy"), &Value::Null));
    assert_eq!(
        (&verdicts[1]["sustain"], &verdicts[1]["lowest_p99"]),
        (&json!(["fullbusy", "suspend20"]), &Value::Null)
    );
    assert_eq!((&verdicts[2]["load_rps"], &verdicts[2]["fastest"]), (&json!("max"), &Value::Null), "no different");
    let loads = [Load::Rps(200_000), Load::Rps(1_000_000), Load::Max];
    let report = loads.into_iter().fold(cover_letter(), taken);
    let value: Value = serde_json::from_str(&render(&report)).unwrap();
    for one in value["verdicts"].as_array().unwrap() {
        assert!(["sustain", "frontier", "lowest_p99", "fastest"].iter().all(|key| one[key].is_null()), "{one}");
        assert!(one["doubt"].as_str().is_some(), "{one}");
    }
}

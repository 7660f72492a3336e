//! Experiments with many connections, by small runs: what they print, and what they refuse.

mod common;

use common::{ended, refused, two_cpus};
use serde_json::Value;

fn words(args: &str) -> Vec<&str> {
    ["bench"].into_iter().chain(args.split_whitespace()).collect()
}

/// Status, standard output and standard error of a bench.
fn bench(args: &str) -> (Option<i32>, String, String) {
    ended(&words(args))
}

fn rows(args: &str) -> Vec<Value> {
    let (status, out, errors) = bench(&format!("{args} --json"));
    assert_eq!(status, Some(0), "{args}: {errors}");
    assert_eq!(errors, "", "{args}: silent without a terminal");
    let report: Value = serde_json::from_str(&out).expect("it prints JSON");
    report["rows"].as_array().expect("rows").clone()
}

/// A row has figures that can be, of as many requests as it says.
fn has_figures(row: &Value) {
    let figures = &row["figures"];
    let of = |key: &str| figures[key]["median"].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
    assert!(of("qps") > 0.0 && of("p50_ns") > 0.0 && figures["count"].as_u64() > Some(0), "{row}");
    assert!(of("p50_ns") <= of("p90_ns") && of("p90_ns") <= of("p95_ns") && of("p95_ns") <= of("p99_ns"), "{row}");
    assert!(of("p99_ns") <= of("p999_ns") && row["refused"].is_null(), "{row}");
}

/// Whether a veth pair can be made; a line that says why not.
fn veth(test: &str) -> bool {
    common::pair(test).is_some()
}

#[test]
fn flows_of_every_size_are_answered_by_the_engine() {
    if !two_cpus("flows_of_every_size_are_answered_by_the_engine") {
        return;
    }
    let rows = rows("tcp-rr --flows 20 --request 1 --response 1,5000,1M --seconds 0.1 --runs 1");
    let found: Vec<_> =
        rows.iter().map(|row| (row["response_bytes"].as_u64().unwrap(), row["mode"].as_str().unwrap())).collect();
    let modes = ["base", "threaded", "workqueue"];
    let expected: Vec<_> = [1, 5000, 1 << 20].into_iter().flat_map(|bytes| modes.map(|mode| (bytes, mode))).collect();
    assert_eq!(found, expected);
    for row in &rows {
        has_figures(row);
        assert_eq!((row["backend"].as_str(), row["flows"].as_u64()), (Some("engine"), Some(20)));
        assert_eq!(row["published"].is_null(), row["response_bytes"].as_u64() != Some(1), "{row}");
    }
    assert_eq!(rows[0]["published"]["qps"].as_f64(), Some(2.75e6));
}

#[test]
fn large_requests_are_carried_both_ways() {
    if !two_cpus("large_requests_are_carried_both_ways") {
        return;
    }
    let rows = rows("tcp-rr --flows 3 --request 1M --response 1M --modes base --seconds 0.1 --runs 1");
    has_figures(&rows[0]);
    assert_eq!(rows[0]["published"]["p50_ns"].as_u64(), Some(79_000_000));
}

#[test]
fn flows_are_answered_by_the_kernel_in_the_modes_that_it_has() {
    let test = "flows_are_answered_by_the_kernel_in_the_modes_that_it_has";
    if !two_cpus(test) || !veth(test) {
        return;
    }
    let rows = rows("tcp-rr --flows 20 --response 5000 --backend kernel --seconds 0.1 --runs 1");
    for row in &rows[..2] {
        has_figures(row);
    }
    let refused = rows[2]["refused"].as_str().expect("a reason");
    assert!(refused.contains("extension of the engine") && rows[2]["figures"].is_null(), "{refused}");
}

#[test]
fn a_store_is_read_and_written() {
    let test = "a_store_is_read_and_written";
    if !two_cpus(test) {
        return;
    }
    let backend = if veth(test) { "engine,kernel" } else { "engine" };
    let rows = rows(&format!(
        "storage --rate 200 --size 4K,64K --read-pct 50 --modes base --service 100us --backend {backend} --seconds 0.3 --runs 1"
    ));
    assert_eq!(rows.len(), if backend == "engine" { 2 } else { 4 });
    for row in &rows {
        has_figures(row);
        assert_eq!(row["due"].as_u64(), Some(59), "one after each period, none at the end: {row}");
        assert_eq!(row["lost"].as_u64(), Some(0), "{row}");
        // The store's own time is in it.
        assert!(row["figures"]["p50_ns"]["min"].as_f64() >= Some(100e3), "{row}");
    }
}

#[test]
fn a_store_that_takes_longer_than_there_is_is_called_overloaded() {
    if !two_cpus("a_store_that_takes_longer_than_there_is_is_called_overloaded") {
        return;
    }
    // One operation at a time, each of which takes twice its period.
    let args = "storage --rate 500 --connections 1 --service 4ms --modes base --seconds 0.5 --runs 1";
    let row = &rows(args)[0];
    assert_eq!(row["overloaded"].as_bool(), Some(true), "{row}");
    let (status, out, _) = bench(args);
    assert!(status == Some(0) && out.contains("overloaded: "), "{out}");
}

#[test]
fn tables_fit_a_hundred_columns_and_say_the_answer_first() {
    let test = "tables_fit_a_hundred_columns_and_say_the_answer_first";
    if !two_cpus(test) {
        return;
    }
    let backend = if veth(test) { "engine,kernel" } else { "engine" };
    for args in [
        format!("tcp-rr --flows 5 --backend {backend} --seconds 0.05 --runs 2"),
        format!("storage --rate 100 --size 4K,1M --backend {backend} --seconds 0.1 --runs 2"),
        format!("xsk-rr --backend {backend} --seconds 0.05 --runs 2 --oversubscribe"),
    ] {
        let (status, out, errors) = bench(&args);
        assert_eq!(status, Some(0), "{errors}");
        let wide: Vec<&str> = out.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(wide.is_empty(), "{wide:#?}");
        // Two slices decide nothing, and that is the answer.
        let first = out.lines().next().unwrap_or_default();
        assert!(["Lowest ", "Most ", "No answer", "Left out"].iter().any(|begins| first.starts_with(begins)), "{out}");
        let words: Vec<&str> = out.split_whitespace().collect();
        assert!(words.join(" ").contains("on another machine"), "{out}");
    }
}

#[test]
fn af_xdp_sockets_are_polled_in_every_way_that_the_kernel_has() {
    let test = "af_xdp_sockets_are_polled_in_every_way_that_the_kernel_has";
    if !two_cpus(test) || !veth(test) {
        return;
    }
    // With all threads on their two CPUs: what is looked at is that packets come and go, not how soon.
    let rows = rows("xsk-rr --backend kernel -P 5000 -d 10 --seconds 0.5 --runs 1 --oversubscribe");
    assert_eq!(rows.len(), 4);
    for row in &rows[..3] {
        assert!(row["latency"]["count"].as_u64() > Some(0) && row["refused"].is_null(), "{row}");
        assert_eq!((row["backend"].as_str(), row["due"].as_u64()), (Some("kernel"), Some(99)));
        let by = row["polled_by"].as_str().expect("a way");
        assert_eq!(by.contains("pilot"), row["mode"] != "interrupts", "{row}");
    }
    let last = &rows[3];
    assert_eq!(last["mode"].as_str(), Some("threaded-busy-poll"));
    // A kernel before 6.19 has no such mode.
    assert!(last["refused"].as_str().is_none_or(|why| why.contains("since Linux 6.19")), "{last}");
}

#[test]
fn what_has_too_few_cpus_is_refused_in_words_and_fails() {
    let cpus = napier_runtime::available_cpus().len();
    if cpus > 64 {
        return napier_testkit::skip!("what_has_too_few_cpus_is_refused_in_words_and_fails", "more CPUs than workers");
    }
    let (status, out, errors) = bench(&format!("tcp-rr --flows 2 --modes base --workers {cpus} --runs 1"));
    assert_eq!(status, Some(1), "{out}");
    assert!(errors.contains("nothing was measured: needs") && errors.contains("--oversubscribe"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn bad_usage_is_said_before_anything_is_begun() {
    for (args, said) in [
        ("tcp-rr --flows 0", "--flows"),
        ("tcp-rr --response 5000", "--flows"),
        ("tcp-rr --flows 2 --connections 3", "cannot be used with"),
        ("tcp-rr --flows 2 --request 0", "is no size"),
        ("tcp-rr --flows 2 --response 17M", "at most 16M"),
        ("tcp-rr --flows 2 --modes base,base", "given twice"),
        ("tcp-rr --flows 2 --modes busy-read", "block in a receive"),
        ("tcp-rr --flows 2 --backend engine,engine", "twice"),
        ("storage", "--rate"),
        ("storage --rate 0", "cannot be offered"),
        ("storage --rate max", "a fixed rate is needed"),
        ("storage --rate 1k --read-pct 101", "--read-pct"),
        ("storage --rate 1k --service 3", "no time of service"),
        ("storage --rate 100m --seconds 3600", "too many"),
    ] {
        refused(&words(args), 2, said);
    }
}

#[test]
fn rows_are_decided_by_slices_and_the_json_says_how() {
    if !two_cpus("rows_are_decided_by_slices_and_the_json_says_how") {
        return;
    }
    let (status, out, errors) = bench("udp-rr --round-trips 600 --runs 6 --json");
    assert_eq!(status, Some(0), "{errors}");
    let report: Value = serde_json::from_str(&out).expect("it prints JSON");
    let decided = &report["decided"][0];
    assert_eq!((decided["rounds"].as_u64(), decided["of"].as_u64()), (Some(6), Some(24)), "{decided}");
    let rows = decided["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4);
    if decided["taken"] == true {
        return napier_testkit::skip!("rows_are_decided_by_slices_and_the_json_says_how", "the machine was taken away");
    }
    for row in rows {
        assert!(row["p50_ns"]["value"].as_f64() > Some(0.0), "{row}");
    }
    // Each two of four rows in two figures, each with a word.
    let pairs = decided["pairs"].as_array().expect("pairs");
    assert_eq!(pairs.len(), 12, "{decided}");
    let words = ["better", "worse", "no-different", "undecided"];
    assert!(pairs.iter().all(|pair| words.iter().any(|word| pair["verdict"] == *word)), "{pairs:?}");
    assert!(report["answer"].as_array().is_some_and(|said| !said.is_empty()), "{report}");
}

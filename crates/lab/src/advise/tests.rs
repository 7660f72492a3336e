use std::sync::atomic::AtomicBool;

use super::choose::choose;
use super::predict::{BySeed, predict};
use super::*;
use crate::plan::server_named;

fn row(mode: &str, p99_us: f64, cpu_pct: f64) -> Predicted {
    let one = BySeed { achieved_rps: 1000.0, sustained: true, p99_us, cpu_pct };
    Predicted {
        mode: Mode::parse(mode).unwrap(),
        load_rps: 1000,
        achieved_rps: 1000.0,
        sustained: true,
        p50_us: p99_us / 2.0,
        p95_us: p99_us,
        p99_us,
        cpu_pct,
        spin_pct: 0.0,
        interrupts_per_s: 0.0,
        by_seed: vec![one],
    }
}

fn rows() -> Vec<Predicted> {
    vec![
        row("base", 400.0, 40.0),
        row("defer200", 330.0, 30.0),
        row("suspend20", 170.0, 48.0),
        row("fullbusy", 150.0, 100.0),
    ]
}

fn chosen(p99_us: Option<f64>, cpu_pct: Option<f64>) -> (String, bool) {
    let choice = choose(&Goal { p99_us, cpu_pct }, &rows(), &[]);
    (choice.mode.to_string(), choice.reaches)
}

#[test]
fn what_is_chosen_by_what_is_wanted() {
    for (p99_us, cpu_pct, mode, reaches) in [
        // Within a quarter of 150 us: suspend20 and fullbusy, of which the first is cheaper.
        (None, None, "suspend20", true),
        (Some(1000.0), None, "defer200", true),
        (Some(200.0), None, "suspend20", true),
        (Some(160.0), None, "fullbusy", true),
        (Some(200.0), Some(60.0), "suspend20", true),
        (None, Some(45.0), "defer200", true),
        (None, Some(100.0), "fullbusy", true),
        // Nothing reaches it: suspend20 is 1.7 times too slow, fullbusy 2 times too dear.
        (Some(100.0), Some(50.0), "suspend20", false),
        (Some(10.0), None, "fullbusy", false),
    ] {
        assert_eq!(chosen(p99_us, cpu_pct), (mode.to_owned(), reaches), "{p99_us:?} {cpu_pct:?}");
    }
}

#[test]
fn who_cannot_keep_up_is_not_chosen_and_not_on_the_frontier() {
    let mut rows = rows();
    rows[1].sustained = false;
    let goal = Goal { p99_us: Some(1000.0), cpu_pct: None };
    let choice = choose(&goal, &rows, &[]);
    assert_eq!(choice.mode, Mode::Base);
    assert_eq!(choice.overloaded, [Mode::Defer { us: 200 }]);
    assert_eq!(choice.frontier.len(), 3);
    // What keeps up at the rate has to at the peak.
    let mut peak = rows.clone();
    peak[0].sustained = false;
    assert_eq!(choose(&goal, &rows, &peak).mode, Mode::Suspend { us: 20 });
}

#[test]
fn nobody_on_the_frontier_is_beaten_in_both() {
    let mut rows = rows();
    rows.push(row("suspend0", 180.0, 49.0));
    let front = frontier(&rows);
    assert!(!front.contains(&Mode::Suspend0) && !front.contains(&Mode::Base), "{front:?}");
    assert_eq!(front.first(), Some(&Mode::Defer { us: 200 }), "the cheapest comes first");
    assert_eq!(front.last(), Some(&Mode::FullBusy));
}

fn small() -> (Workload, Effort) {
    let workload =
        Workload { rate_rps: 50_000, peak_rps: None, queues: 1, connections: 64, cpus: 1, service: "2us".parse().ok() };
    (workload, Effort { seeds: 2, jobs: 1, sensitivity: false })
}

fn advice(jobs: usize) -> Advice {
    let machine = server_named("epyc-7662-cx5").unwrap();
    let (workload, effort) = small();
    let modes = Mode::parse_list("base,defer50,suspend20,fullbusy,threaded").unwrap();
    let stop = AtomicBool::new(false);
    advise(&machine, &workload, &Goal::default(), &modes, Effort { jobs, ..effort }, &stop, &|_, _| ()).unwrap()
}

#[test]
fn advice_is_the_same_for_any_number_of_threads() {
    let (one, two) = (advice(1), advice(2));
    assert_eq!(json(&one, "eth0").to_string(), json(&two, "eth0").to_string());
    assert!(one.rows.iter().all(|row| row.sustained && row.p50_us > 2.0), "{:?}", one.rows);
    let page = text(&one, "eth0");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
}

#[test]
fn a_thread_that_polls_for_ever_needs_a_cpu_of_its_own() {
    let (workload, _) = small();
    assert!(!swept(&workload).contains(&Mode::ThreadedBusyPoll));
    assert!(swept(&Workload { cpus: 2, ..workload }).contains(&Mode::ThreadedBusyPoll));
}

#[test]
fn work_of_a_request_is_time_of_the_server() {
    let machine = server_named("epyc-7662-cx5").unwrap();
    let (workload, effort) = small();
    let stop = AtomicBool::new(false);
    let cpu_pct = |service: Option<&str>| {
        let workload = Workload { service: service.map(|text| text.parse().unwrap()), ..workload.clone() };
        predict(&machine, &workload, 50_000, &[Mode::Base], effort, &stop, &|_, _| ()).unwrap()[0].cpu_pct
    };
    let (nothing, four) = (cpu_pct(None), cpu_pct(Some("4us")));
    // 50,000 times 4 us are a fifth of a second; that less is idle changes the rest a little.
    assert!((four - nothing - 20.0).abs() < 3.0, "{nothing} {four}");
}

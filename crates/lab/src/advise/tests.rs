use std::sync::atomic::AtomicBool;

use super::choose::{choose, choose_by_most, may_be_chosen, may_be_chosen_between};
use super::predict::{AtRate, BySeed};
use super::*;
use crate::machines::server_named;

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
        p99_within_pct: None,
        cpu_pct,
        spin_pct: 0.0,
        interrupts_per_s: 0.0,
        lost_per_s: 0.0,
        server_p99_us: p99_us - 20.0,
        way_p99_us: 20.0,
        p99_range_us: None,
        cpu_range_pct: None,
        work_pct: Vec::new(),
        by_seed: vec![one],
    }
}

/// The same where predictions were off: from these to those percents.
fn off(row: Predicted, p99_pct: (f64, f64), cpu_pct: (f64, f64)) -> Predicted {
    let range = |of: f64, (low, high): (f64, f64)| Some((of * low / 100.0, of * high / 100.0));
    Predicted { p99_range_us: range(row.p99_us, p99_pct), cpu_range_pct: range(row.cpu_pct, cpu_pct), ..row }
}

/// Every mode at a rate, with each seed.
fn predict(
    machine: &MachineFile,
    workload: &Workload,
    rate_rps: u64,
    modes: &[Mode],
    Effort { seeds, jobs, .. }: Effort,
) -> Vec<Predicted> {
    let stop = AtomicBool::new(false);
    let at = AtRate { machine, workload, rate_rps, jobs, stop: &stop, progress: &|_, _| () };
    let all = at.run(modes, 1..=seeds).expect("no rule breaks");
    all.iter().map(|(mode, runs)| at.row(*mode, runs)).collect()
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
    (choice.mode.to_string(), choice.verdict == Verdict::Reaches)
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

/// A mode that needs no setting, and one of which a run says that it is better by less than predictions of both are off.
fn alike() -> Vec<Predicted> {
    let interrupts = ((100.0, 250.0), (85.0, 105.0));
    let [base, suspend0] = [row("base", 400.0, 47.0), row("suspend0", 300.0, 46.0)];
    vec![off(base, interrupts.0, interrupts.1), off(suspend0, interrupts.0, interrupts.1)]
}

#[test]
fn what_differs_by_less_than_predictions_are_off_is_too_near_to_call() {
    let choice = choose(&Goal::default(), &alike(), &[]);
    assert_eq!((choice.mode, choice.verdict), (Mode::Base, Verdict::Reaches), "what needs no setting");
    assert_eq!((choice.near, choice.frontier.len()), (vec![Mode::Suspend0], 2));
    // As predicted one keeps it and the other does not; both may not.
    let goal = Goal { p99_us: Some(390.0), cpu_pct: None };
    let choice = choose(&goal, &alike(), &[]);
    assert_eq!((choice.mode, choice.verdict), (Mode::Suspend0, Verdict::TooNear));
    // A mode that keeps it in any case goes before one that is cheaper and may not.
    let mut rows = alike();
    rows.push(off(row("suspend20", 170.0, 50.0), (90.0, 116.0), (80.0, 100.0)));
    let choice = choose(&goal, &rows, &[]);
    assert_eq!((choice.mode, choice.verdict), (Mode::Suspend { us: 20 }, Verdict::Reaches));
    // Without a word on how far they are off, figures are taken as they are.
    let known = alike().into_iter().map(|row| Predicted { p99_range_us: None, cpu_range_pct: None, ..row });
    let choice = choose(&goal, &known.collect::<Vec<_>>(), &[]);
    assert_eq!((choice.mode, choice.verdict, choice.near), (Mode::Suspend0, Verdict::Reaches, Vec::new()));
}

/// Together the runs have one mode just below a bound that two of three runs have it above.
#[test]
fn the_mode_that_most_runs_choose_is_taken() {
    let with = |mode: &str, p99_us: f64, cpu_pct: f64, of_runs: [f64; 3]| {
        let row = row(mode, p99_us, cpu_pct);
        let by_seed = of_runs.map(|cpu_pct| BySeed { cpu_pct, ..row.by_seed[0] });
        Predicted { by_seed: by_seed.to_vec(), ..row }
    };
    let rows = [with("defer100", 317.0, 70.4, [70.1, 69.9, 71.2]), with("suspend100", 255.0, 69.9, [71.5, 69.1, 69.1])];
    let goal = Goal { p99_us: None, cpu_pct: Some(70.0) };
    let (choice, agreeing) = choose_by_most(&goal, &rows, &[], 3);
    assert_eq!((choice.mode, choice.verdict, agreeing), (Mode::Suspend { us: 100 }, Verdict::Reaches, 2));
    let turned =
        [with("defer100", 317.0, 69.9, [70.1, 70.2, 69.4]), with("suspend100", 255.0, 70.1, [69.9, 69.9, 70.5])];
    let (choice, agreeing) = choose_by_most(&goal, &turned, &[], 3);
    assert_eq!((choice.mode, agreeing), (Mode::Suspend { us: 100 }, 2), "not the one of all runs together");
}

/// A row whose only run says that chance is so much of p99, in percent.
fn once(row: Predicted, within_pct: f64) -> Predicted {
    Predicted { p99_within_pct: Some(within_pct), ..row }
}

#[test]
fn a_mode_that_chance_may_make_the_choice_is_run_again() {
    let of = |p99_us: Option<f64>, cpu_pct: Option<f64>, rows: &[Predicted], at_peak: &[Predicted]| {
        let open = may_be_chosen(&Goal { p99_us, cpu_pct }, rows, at_peak);
        open.iter().map(Mode::to_string).collect::<Vec<_>>().join(" ")
    };
    let rows: Vec<Predicted> = rows().into_iter().map(|row| once(row, 4.0)).collect();
    for (p99_us, cpu_pct, open) in [
        // defer200 is the cheapest by far, and base is always among them.
        (Some(1000.0), None, "base defer200"),
        // A tenth is taken where a run says less: suspend20 may have 153 us, and 187.
        (Some(160.0), None, "base suspend20 fullbusy"),
        (Some(175.0), None, "base suspend20 fullbusy"),
        (Some(250.0), None, "base suspend20"),
        // 100 % of CPU are more than 45, and so are 48 but for chance: 46.6.
        (None, Some(45.0), "base defer200"),
        (None, Some(47.0), "base defer200 suspend20"),
        // Nothing reaches it: the nearest is suspend20, with 1.7 times.
        (Some(100.0), Some(50.0), "base suspend20"),
    ] {
        assert_eq!(of(p99_us, cpu_pct, &rows, &[]), open, "{p99_us:?} {cpu_pct:?}");
    }
    // Where its run says that half of p99 may be chance, or does not say it, defer200 may keep 250 us.
    for within in [Some(50.0), None] {
        let mut wide = rows.clone();
        wide[1].p99_within_pct = within;
        assert_eq!(of(Some(250.0), None, &wide, &[]), "base defer200 suspend20");
    }
    // Overloaded at the peak, but by chance perhaps not.
    let mut peak = rows.clone();
    (peak[1].sustained, peak[1].achieved_rps) = (false, 980.0);
    assert_eq!(of(Some(1000.0), None, &rows, &peak), "base defer200");
    peak[1].achieved_rps = 900.0;
    assert_eq!(of(Some(1000.0), None, &rows, &peak), "base");
}

#[test]
fn who_may_be_chosen_between_two_figures_each() {
    let goal = Goal { p99_us: Some(200.0), cpu_pct: None };
    // suspend20 is the cheapest that keeps it: nothing is open while all is known.
    assert_eq!(may_be_chosen_between(&goal, (&rows(), &[]), (&rows(), &[])), [2]);
    // defer200 may keep it, fullbusy is dearer at its best.
    let mut best = rows();
    (best[1].p99_us, best[3].p99_us) = (190.0, 20.0);
    assert_eq!(may_be_chosen_between(&goal, (&best, &[]), (&rows(), &[])), [1, 2]);
    // At the peak it does not.
    assert_eq!(may_be_chosen_between(&goal, (&best, &rows()), (&rows(), &rows())), [2]);
    // If suspend20 may not, fullbusy may be the one.
    let mut worst = rows();
    worst[2].p99_us = 210.0;
    assert_eq!(may_be_chosen_between(&goal, (&best, &[]), (&worst, &[])), [1, 2, 3]);
}

/// What is chosen from all runs of all modes is chosen without the runs of modes that cannot be.
#[test]
fn runs_that_change_nothing_are_not_made() {
    let machine = server_named("epyc-7662-cx5").unwrap();
    let (workload, effort) = small();
    let goal = Goal { p99_us: Some(800.0), cpu_pct: None };
    let modes = Mode::parse_list("base,defer200,fullbusy").unwrap();
    let stop = AtomicBool::new(false);
    let advice = advise(&machine, &workload, &goal, &modes, effort, &stop, &|_, _| ()).unwrap();
    let runs: Vec<usize> = advice.rows.iter().map(|row| row.by_seed.len()).collect();
    assert_eq!((runs[2], advice.agreeing.1), (1, effort.seeds), "{:?}", advice.rows);
    let all = predict(&machine, &workload, workload.rate_rps, &modes, effort);
    let (choice, agreeing) = choose_by_most(&goal, &all, &[], effort.seeds);
    assert_eq!((choice.mode, choice.verdict, agreeing), (advice.choice.mode, advice.choice.verdict, advice.agreeing.0));
    assert!(
        runs[usize::from(choice.mode != Mode::Base)] == 2 && text(&advice, "eth0").contains("no other: "),
        "{runs:?}"
    );
    assert_eq!(all[2].by_seed[0], advice.rows[2].by_seed[0], "the run that it has is the first");
}

pub(super) fn small() -> (Workload, Effort) {
    let workload = Workload {
        rate_rps: 50_000,
        peak_rps: None,
        queues: 1,
        connections: 64,
        cpus: 1,
        service: "2us".parse().ok(),
        recorded: None,
    };
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
    // A command is not broken, so that it can be copied.
    assert!(page.lines().all(|line| line.chars().count() <= 80 || line.contains(" napier ")), "{page}");
    let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}: {page}"));
    assert!(page.starts_with(&format!("Take {}: p99 ", one.choice.mode)), "the answer is first: {page}");
    assert!(at("Predicted, not measured; predictions were") < at("99%lat"), "{page}");
    let base = one.choice.mode == Mode::Base;
    assert_eq!(
        (page.contains("leave it as it is"), page.contains("  Set    sudo napier run")),
        (base, !base),
        "{page}"
    );
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let chosen = one.rows.iter().find(|row| row.mode == one.choice.mode).unwrap();
    assert!(chosen.server_p99_us < chosen.p99_us && chosen.way_p99_us < chosen.p99_us, "{chosen:?}");
    assert!(words.contains("the server itself takes") && words.contains("predictions were"), "{page}");
}

/// What the queues beside it do is nothing to a queue and its clients: with more queues only the fullest has more connections.
#[test]
fn a_queue_is_the_same_beside_however_many_others() {
    let machine = server_named("epyc-7662-cx5").unwrap();
    let modes = Mode::parse_list("defer50,suspend20,fullbusy").unwrap();
    let of = |queues: u16| {
        let rate_rps = 75_000 * u64::from(queues);
        let workload = Workload {
            rate_rps,
            peak_rps: None,
            queues,
            connections: 200 * queues,
            cpus: queues,
            service: None,
            recorded: None,
        };
        let effort = Effort { seeds: 1, jobs: 2, sensitivity: false };
        let rows = predict(&machine, &workload, rate_rps, &modes, effort);
        rows.iter().flat_map(|row| [row.p50_us, row.p99_us, row.cpu_pct]).collect::<Vec<_>>()
    };
    let one = of(1);
    for queues in [8, 64, 256] {
        let many = of(queues);
        let worst = one.iter().zip(&many).map(|(one, many)| (many / one - 1.0).abs()).fold(0.0, f64::max);
        assert!(worst < 0.05, "{queues} queues: {many:?}, one: {one:?}");
    }
}

/// The mean queue keeps up, and the fullest does not.
#[test]
fn a_server_keeps_up_if_its_fullest_queue_does() {
    let machine = server_named("epyc-7662-cx5").unwrap();
    let (workload, effort) = small();
    let at = |queues: u16, connections: u16| {
        let rate_rps = 112_000 * u64::from(queues);
        let workload = Workload { rate_rps, queues, connections, cpus: queues, service: None, ..workload.clone() };
        predict(&machine, &workload, rate_rps, &[Mode::Base], effort).remove(0)
    };
    let (one, many) = (at(1, 200), at(8, 1600));
    assert!(one.sustained && !many.sustained, "{one:?} {many:?}");
}

/// Many connections, each of which asks seldom: the load is the same, and so is what is advised.
#[test]
fn more_connections_are_no_more_load() {
    let machine = server_named("epyc-7662-cx5").unwrap();
    let modes = Mode::parse_list("base,suspend50").unwrap();
    for connections in [500, 20_000] {
        let workload = Workload {
            rate_rps: 100_000,
            peak_rps: None,
            queues: 1,
            connections,
            cpus: 1,
            service: None,
            recorded: None,
        };
        let effort = Effort { seeds: 1, jobs: 2, sensitivity: false };
        let rows = predict(&machine, &workload, 100_000, &modes, effort);
        for row in rows {
            let off = (row.achieved_rps / 100_000.0 - 1.0).abs();
            // 20,000 requests, three standard deviations.
            assert!(row.sustained && off < 3.0 / 20_000_f64.sqrt() && row.p99_us < 700.0, "{connections}: {row:?}");
        }
    }
}

/// Nearly more than it can do is not sustained, though the first 20,000 requests are answered nearly in time.
#[test]
fn a_core_without_anything_left_is_overloaded() {
    let machine = server_named("epyc-7662-cx5").unwrap();
    let (workload, effort) = small();
    let at = |rate_rps: u64| {
        let workload = Workload { rate_rps, connections: 560, service: None, ..workload.clone() };
        predict(&machine, &workload, rate_rps, &[Mode::Base], effort).remove(0)
    };
    assert!(at(90_000).sustained);
    let full = at(125_000);
    assert!(!full.sustained && full.achieved_rps > 115_000.0, "{full:?}");
}

#[test]
fn what_the_way_alone_takes_no_mode_can_keep() {
    let machine = server_named("epyc-7662-cx5").unwrap();
    let (workload, effort) = small();
    let goal = Goal { p99_us: Some(5.0), cpu_pct: None };
    let modes = Mode::parse_list("base,fullbusy").unwrap();
    let advice = advise(&machine, &workload, &goal, &modes, effort, &AtomicBool::new(false), &|_, _| ()).unwrap();
    assert_eq!(advice.choice.verdict, Verdict::Misses);
    let page = text(&advice, "eth0");
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("No mode can: for 1 % of the requests the way there and back"), "{page}");
    assert!(!page.contains("napier run") && commands(&advice.choice, "eth0").is_empty(), "{page}");
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
    let cpu_pct = |service: Option<&str>| {
        let workload = Workload { service: service.map(|text| text.parse().unwrap()), ..workload.clone() };
        predict(&machine, &workload, 50_000, &[Mode::Base], effort)[0].cpu_pct
    };
    let (nothing, four) = (cpu_pct(None), cpu_pct(Some("4us")));
    // 50,000 times 4 us are a fifth of a second; that less is idle changes the rest a little.
    assert!((four - nothing - 20.0).abs() < 3.0, "{nothing} {four}");
}

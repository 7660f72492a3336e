//! Plan files, and short runs of the plans that the program brings along.

use std::sync::atomic::AtomicBool;

use napier_core::time::Span;
use napier_lab::loads::Load;
use napier_lab::machines::MachineFile;
use napier_sim::machine::Shape;
use napier_sim::machine::figures::Length;

use super::score::pairs;
use super::*;

mod own;
mod wrong;

fn plan(name: &str) -> Plan {
    named(name).expect("a plan")
}

fn short(name: &str, modes: &[&str], loads: impl Fn(&PlanLoad) -> bool) -> Plan {
    let mut plan = plan(name);
    plan.keep_modes(&modes.iter().map(|mode| (*mode).to_owned()).collect::<Vec<_>>()).expect("modes of it");
    plan.loads.retain(loads);
    let (warm_up, measured, seeds) = match &mut plan.scale {
        Scale::Hosts { cpus, threads, flows, .. } => {
            (*cpus, *threads, *flows) = (32, 32, 400);
            (4, 6, 1)
        }
        Scale::Queues { .. } => (20, 60, 2),
        _ => (2, 3, 2),
    };
    plan.seeds = if plan.kind == PlanKind::UdpStream { 1 } else { seeds };
    for load in &mut plan.loads {
        load.length = Length { warm_up: Span::from_ms(warm_up), measured: Span::from_ms(measured) };
    }
    plan
}

fn run_all(plan: &Plan, jobs: usize) -> Vec<PlanCell> {
    run(plan, &plan.cells().collect::<Vec<_>>(), jobs, &AtomicBool::new(false), &|_, _| ())
}

fn cell<'a>(cells: &'a [PlanCell], mode: &str, load: &str) -> &'a PlanCell {
    let found = cells.iter().find(|cell| cell.mode.name == mode && cell.load.to_string() == load).expect("a cell");
    found.predicted.as_ref().expect("the rules hold");
    found
}

fn figure(cells: &[PlanCell], mode: &str, load: &str, name: &str) -> f64 {
    cell(cells, mode, load).figure(name).expect("a figure of this name")
}

fn written(plan: &Plan, cells: &[PlanCell]) -> (String, String) {
    let score = score(plan, cells);
    (table(plan, cells, &score), serde_json::to_string(&json(plan, cells, &score)).expect("JSON"))
}

fn cells_with(plan: &Plan, predicted: impl Fn() -> Predicted) -> Vec<PlanCell> {
    plan.cells().map(|(load, mode)| PlanCell { load, mode: mode.clone(), predicted: Ok(predicted()) }).collect()
}

#[test]
fn every_figure_that_is_fitted_names_rows_of_the_plan_and_some_rows_are_left_to_check() {
    let plan = plan("irq-suspension");
    let modes: Vec<String> = plan.modes.iter().map(|mode| mode.name.clone()).collect();
    let machine = plan.machine.as_ref().expect("a machine");
    for parameter in &machine.parameters {
        assert!(parameter.rows.iter().all(|row| modes.contains(row)), "{}: {:?}", parameter.name, parameter.rows);
        assert!(!parameter.why.is_empty(), "{}", parameter.name);
    }
    let is_fitted = |mode: &&String| machine.parameters.iter().any(|parameter| parameter.rows.contains(mode));
    assert!(modes.iter().filter(|mode| !is_fitted(mode)).count() >= 6);
}

/// What advice knows of its errors is what the page on fidelity says, which is what the plan gives.
#[test]
fn the_errors_of_a_machine_are_those_of_its_plan() {
    let page = include_str!("../../../../docs/fidelity.md");
    let lines = plan("irq-suspension").machine.expect("a machine").known.lines();
    assert!(lines.len() > 5, "{lines:?}");
    for line in lines {
        assert!(page.lines().any(|said| said.trim() == line), "{line:?} is not in docs/fidelity.md");
    }
}

#[test]
fn the_same_whatever_the_number_of_jobs() {
    for (name, modes, loads) in [
        ("irq-suspension", &["base", "suspend20"][..], &["400K", "MAX"][..]),
        ("xsk-rr", &["interrupts", "threaded-busy-poll"], &["32K+30us"]),
    ] {
        let plan = short(name, modes, |load| loads.contains(&load.to_string().as_str()));
        let (one, three) = (run_all(&plan, 1), run_all(&plan, 3));
        assert_eq!(one, three, "{name}");
        assert_eq!(written(&plan, &one), written(&plan, &three), "{name}");
        let object: JsonPlan = serde_json::from_str(&written(&plan, &one).1).expect("it reads back");
        assert_eq!((object.kind.as_str(), object.cells.len()), (plan.kind.name(), one.len()));
        let cells: Vec<_> = plan.cells().collect();
        assert_eq!(run(&plan, &cells, 1, &AtomicBool::new(true), &|_, _| ()), Vec::new(), "interrupted before");
    }
    let plan = short("xsk-rr", &["threaded-busy-poll"], |load| load.to_string() == "32K+30us");
    let object: JsonPlan = serde_json::from_str(&written(&plan, &run_all(&plan, 1)).1).expect("it reads back");
    let cell = &object.cells[0];
    assert_eq!(cell.published["p50_ns"], 13_000.0);
    let error = (cell.predicted["p50_ns"] / 13_000.0 - 1.0) * 100.0;
    assert!((cell.error_pct["p50_ns"] - error).abs() < 1e-9 && !cell.fitted);
}

#[test]
fn parts_join_to_the_same_bytes_and_what_is_missing_is_named() {
    let folder = std::env::temp_dir().join(format!("napier-plan-results-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str| folder.join(name);
    let text = include_str!("../../plans/irq-suspension.toml");
    let text =
        text.replace("\"350ms\"", "\"20ms\"").replace("seeds = 8", "seeds = 1").replace("400000, 600000, 800000, ", "");
    let plan = Plan::parse(&text, "plan").expect("a plan");
    let whole = run_all(&plan, 2);
    let cells: Vec<_> = plan.cells().collect();
    let (one, two) = cells.split_at(7);
    for (name, part) in [("one", one), ("two", two)] {
        let done = run(&plan, part, 1, &AtomicBool::new(false), &|_, _| ());
        Results::new("plan", &plan, &done).write(&file(name)).expect("written");
    }
    let (joined, cells) = merge(&[file("two"), file("one")]).expect("all is there");
    assert_eq!(written(&joined, &cells), written(&plan, &whole));
    let missing = merge(&[file("two")]).expect_err("seven are not there").to_string();
    assert!(
        missing.contains("7 of 36 cells are missing") && missing.contains("--cells base@200K,defer10@200K"),
        "{missing}"
    );
    let other = Plan::parse(&text.replace("seeds = 1", "seeds = 2"), "plan").expect("a plan");
    Results::new("plan", &other, &[]).write(&file("other")).expect("written");
    let refused = merge(&[file("one"), file("other")]).expect_err("another plan").to_string();
    assert!(refused.contains("is of another plan"), "{refused}");
    std::fs::write(file("none"), "{}").expect("written");
    assert!(matches!(merge(&[file("none")]), Err(ResultsError::NotOurs { .. })));
    assert!(matches!(merge(&[file("nowhere")]), Err(ResultsError::Io { .. })));
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// What the document is about, whatever the figures: suspension stays up where interrupts collapse, and costs less than spinning.
#[test]
fn suspension_does_not_collapse_and_interrupts_fall_with_load() {
    let modes = ["base", "defer10", "fullbusy", "suspend20"];
    let mut plan = short("irq-suspension", &modes, |load| ["200K", "800K", "MAX"].contains(&load.to_string().as_str()));
    // The card's moderation moves among its profiles; in 60 ms chance decides where it is.
    plan.loads.iter_mut().for_each(|load| load.length.measured = Span::from_ms(300));
    let cells = run_all(&plan, 2);
    let at = |mode, load, name| figure(&cells, mode, load, name);
    let interrupts = "interrupts_per_s_per_core";
    assert!(at("base", "200K", interrupts) > at("base", "MAX", interrupts));
    assert!(at("fullbusy", "200K", "cpu_pct") > 99.0 && at("suspend20", "200K", "cpu_pct") < 50.0);
    assert!(at("suspend20", "MAX", "qps") > 1.08 * at("base", "MAX", "qps"));
    assert!(at("base", "MAX", "qps") > at("defer10", "MAX", "qps"));
    assert!(at("suspend20", "800K", "p99_us") < at("base", "800K", "p99_us"));
    assert!(at("base", "200K", "cpu_spin_pct") == 0.0 && at("suspend20", "200K", interrupts) < 1000.0);
}

fn is_published(plan: &Plan, cell: &PlanCell) -> bool {
    plan.published.row(&cell.mode.name, &cell.load.to_string()).is_some()
}

/// What was fitted to a row names it, names rows that there are, and is in no sum of what was checked.
#[test]
fn a_row_that_something_was_fitted_to_is_never_a_check() {
    for (name, least) in [("xsk-rr", 7), ("busy-read", 1), ("tcp-rr", 5), ("remote-ssd", 4)] {
        let plan = plan(name);
        let machine = plan.machine.clone().expect("a machine");
        let cells = cells_with(&plan, Vec::new);
        for parameter in &machine.parameters {
            for row in &parameter.rows {
                // A machine of several plans says which one's row it is.
                let row = match row.split_once(':') {
                    Some((plan, row)) if plan == name => row,
                    Some((other, _)) => {
                        assert!(["tcp-rr", "remote-ssd"].contains(&other), "{other} is no plan of this machine");
                        continue;
                    }
                    None => row,
                };
                let is_it = |cell: &&PlanCell| row == cell.mode.name || row == PlanCell::name(cell.load, &cell.mode);
                let hit: Vec<&PlanCell> = cells.iter().filter(is_it).collect();
                assert!(!hit.is_empty(), "{}: there is no row {row}", parameter.name);
                assert!(hit.iter().all(|cell| plan.is_fitted(cell)), "{}: {row} counts as a check", parameter.name);
                let published = |cell: &&&PlanCell| is_published(&plan, cell);
                assert_eq!(hit.iter().filter(published).count(), hit.len(), "{row} was not published");
            }
        }
        let is_check = |cell: &&PlanCell| !plan.is_fitted(cell) && is_published(&plan, cell);
        assert!(cells.iter().filter(is_check).count() >= least, "{name}: something is left to check");
    }
}

/// Every row of a document is a cell of its plan, and the figures of a fitted row are in the fitted sum alone.
#[test]
fn every_published_row_is_a_cell_and_counts_once() {
    for name in names() {
        let plan = plan(name);
        for (mode, load, _) in &plan.published.rows {
            assert!(
                plan.cells().any(|(at, of)| of.name == *mode && at.to_string() == *load),
                "{name}: {mode} at {load}"
            );
        }
        let figures = || plan.figures().into_iter().map(|name| (name, 1.0)).collect();
        let cells = cells_with(&plan, figures);
        let all: usize = cells.iter().map(|cell| pairs(&plan, cell).len()).sum();
        assert_eq!(all, plan.published.rows.len() * plan.published.columns.len(), "{name}");
        if plan.is_of_server() {
            continue;
        }
        let score = score(&plan, &cells);
        let count = |errors: Option<score::Errors>| errors.map_or(0, |errors| errors.figures);
        assert_eq!(count(score.fitted) + count(score.checked), all, "{name}");
        let fitted = cells.iter().filter(|cell| plan.is_fitted(cell) && is_published(&plan, cell)).count();
        assert_eq!(count(score.fitted), fitted * plan.columns().len(), "{name}");
    }
}

/// What the document is about: computing costs those who poll by themselves, and not those who are polled for.
#[test]
fn polling_on_a_core_of_its_own_makes_latency_independent_of_the_delay() {
    let modes = ["busy-read", "busy-read-separate", "threaded-busy-poll"];
    let plan = short("xsk-rr", &modes, |load| ["12K+0us", "12K+78us"].contains(&load.to_string().as_str()));
    let cells = run_all(&plan, 2);
    let p50 = |mode, load| figure(&cells, mode, load, "p50_ns");
    for mode in ["busy-read-separate", "threaded-busy-poll"] {
        assert!((p50(mode, "12K+0us") - p50(mode, "12K+78us")).abs() < 200.0, "{mode}");
    }
    assert!(p50("busy-read", "12K+78us") > p50("busy-read", "12K+0us") + 2500.0);
    assert!(p50("busy-read-separate", "12K+0us") > p50("threaded-busy-poll", "12K+0us"), "each call is a poll");
    assert!(figure(&cells, "threaded-busy-poll", "12K+0us", "interrupts_per_s") == 0.0);
}

/// Waiting makes up for all that a faster end cannot answer: a closed loop has as many requests out as it has connections.
#[test]
fn many_connections_share_what_the_queues_take() {
    let plan = short("tcp-rr", &["base", "threaded", "workqueue"], |load| load.to_string() == "1B/1B");
    let cells = run_all(&plan, 2);
    for PlanMode { name: mode, .. } in &plan.modes {
        let of = |name| figure(&cells, mode, "1B/1B", name);
        assert!((1e6..3e6).contains(&of("qps")), "{mode}: {}", of("qps"));
        assert!(of("p50_us") * of("qps") < 450e6, "{mode}: {} and {}", of("p50_us"), of("qps"));
        assert!(of("p50_us") <= of("p99_us") && of("p99_us") <= of("p999_us"), "{mode}");
    }
}

/// Operations of a device are answered at the rate at which they are asked for, by whomever packets are polled.
#[test]
fn storage_is_asked_at_a_fixed_rate() {
    let mut plan = short("remote-ssd", &["base", "threaded"], |load| load.to_string() == "64K");
    plan.loads[0].length = Length { warm_up: Span::from_ms(20), measured: Span::from_ms(20) };
    let cells = run_all(&plan, 2);
    for PlanMode { name: mode, .. } in &plan.modes {
        let qps = figure(&cells, mode, "64K", "qps");
        assert!((qps / 100_000.0 - 1.0).abs() < 0.1, "{mode}: {qps}");
        assert!(figure(&cells, mode, "64K", "p50_us") > 127.0, "the device alone takes that");
    }
}

#[test]
fn a_distribution_of_times_meets_its_quantiles() {
    let times = [10, 100, 1000, 5000, 9000, 20_000];
    let points = napier_lab::machines::points_ns(&times);
    assert_eq!((points.len(), points[0]), (10_000, 10));
    for (per_mille, time) in [(500, 100), (950, 1000), (990, 5000), (999, 9000)] {
        assert_eq!(points[per_mille * 10], time, "{per_mille} of 1000");
    }
    assert!(points.is_sorted() && points[9999] < 20_000);
}

#[test]
fn a_stream_is_faster_without_coalescing_and_faster_still_without_interrupts() {
    let mut plan = plan("busy-read");
    plan.seeds = 1;
    plan.loads[0].length = Length { warm_up: Span::from_ms(2), measured: Span::from_ms(3) };
    let cells = run_all(&plan, 2);
    let rate = |mode: &PlanMode| figure(&cells, &mode.name, "closed", "transactions_per_s");
    let rates: Vec<f64> = plan.modes.iter().map(rate).collect();
    assert!(rates.windows(2).all(|two| two[0] < two[1]), "{rates:?}");
}

#[test]
fn other_senders_are_a_prediction() {
    let text = include_str!("../../plans/udp-stream.toml");
    let text = text.replace("senders = 240", "senders = 8").replace("queues = 30", "queues = 2");
    let plan = Plan::parse(&text, "plan").expect("a plan");
    let (text, _) = written(&plan, &run_all(&plan, 2));
    assert!(text.contains("\n? llist") && !text.contains("\n= "), "{text}");
}

/// What a document has and no plan does: a file, with modes of its own, and a table beside it.
#[test]
fn a_published_table_is_a_file_and_a_plan() {
    let table_file = std::env::temp_dir().join(format!("napier-table-{}.csv", std::process::id()));
    std::fs::write(&table_file, "# Ours.\nmode,load,transactions_per_s,p99_ns\nheld,closed,9000,120000\n")
        .expect("written");
    let text = include_str!("../../plans/busy-read.toml").replace("\"busy-read\"\n#", "\"TABLE\"\n#");
    let text = text.replace("TABLE", &table_file.display().to_string()).replace("seeds = 2", "seeds = 1");
    let modes = "modes = [{ name = \"held\", mode = \"interrupts-1-1\", rx-usecs = 40, rx-frames = 90 }]\nplace";
    let text =
        text.lines().filter(|line| !line.starts_with("modes")).collect::<Vec<_>>().join("\n").replace("place", modes);
    let mut plan = Plan::parse(&text, "plan").expect("a plan");
    std::fs::remove_file(&table_file).expect("it is there");
    plan.loads[0].length = Length { warm_up: Span::from_ms(2), measured: Span::from_ms(3) };
    let cells = run_all(&plan, 1);
    let (text, _) = written(&plan, &cells);
    assert!(text.contains("p99_ns") && text.contains("\n= held"), "{text}");
    // Held back for 40 us at each end.
    assert!((figure(&cells, "held", "closed", "p50_ns") / 80_000.0 - 1.0).abs() < 0.5, "{text}");
}

#[test]
fn only_modes_that_there_are() {
    let mut plan = plan("xsk-rr");
    let error = plan.keep_modes(&["base".to_owned()]).expect_err("a mode of another kind");
    assert!(error.contains("which has interrupts, busy-read"), "{error}");
    plan.keep_modes(&["busy-read".to_owned()]).expect("a mode");
    assert_eq!(plan.modes.iter().map(|mode| mode.name.as_str()).collect::<Vec<_>>(), ["busy-read"]);
}

/// The smallest server of groups for a short time.
fn of_groups(shape: Option<Shape>, modes: &[&str]) -> Plan {
    let mut plan = short("groups", modes, |_| true);
    let load = if shape.is_some() { Load::Rps(120_000) } else { Load::Max };
    let length = Length { warm_up: Span::from_ms(2), measured: Span::from_ms(4) };
    (plan.loads, plan.seeds) = (vec![PlanLoad { load, asked: Asked::OfServer(16, 1, shape), length }], 1);
    plan
}

/// Not how much less, which is a figure; that it is less, for the same work.
#[test]
fn a_group_takes_fewer_cpus_than_a_thread_for_each_queue_and_answers_as_much() {
    let plan = of_groups(
        Some(Shape::Steady { pct: 20 }),
        &["threaded-busy-poll", "group", "group-compact", "group-static", "suspend20"],
    );
    let cells = run_all(&plan, 2);
    let figure = |mode, name| figure(&cells, mode, "16cpus/20%", name);
    // A piece of work counts when it begins, so that a little more than all is possible.
    assert!((7.9..8.1).contains(&figure("threaded-busy-poll", "cpus_polling")));
    assert!((7.9..8.1).contains(&figure("group-static", "cpus_polling")));
    for mode in ["group", "group-compact"] {
        assert!(figure(mode, "cpus_polling") < 6.0, "{mode}");
        let (is, of) = (figure(mode, "qps"), figure("threaded-busy-poll", "qps"));
        // Some 800 requests at times of their own in each: five standard deviations.
        assert!((is / of - 1.0).abs() < 0.2, "{mode}: {is} and {of}");
    }
    let (text, json) = written(&plan, &cells);
    assert!(plan.modes.iter().all(|mode| text.contains(&mode.name)), "{text}");
    assert!(text.lines().skip(1).all(|line| line.len() <= 80), "{text}");
    assert!(json.contains("\"load\":\"16cpus/20%\"") && json.contains("\"cpus_polling\""), "{json}");
}

#[test]
fn a_closed_loop_asks_for_more_than_the_full_rate() {
    let cells = run_all(&of_groups(None, &["threaded-busy-poll", "fullbusy"]), 2);
    let full = 8.0 * 120_000.0;
    assert!(figure(&cells, "fullbusy", "16cpus/closed", "qps") > 0.95 * full);
    assert!(figure(&cells, "threaded-busy-poll", "16cpus/closed", "qps") > full);
}

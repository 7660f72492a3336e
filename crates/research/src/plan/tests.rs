//! Plan and machine files, and short runs of the plans that the program brings along.

use std::sync::atomic::AtomicBool;

use super::*;
use napier_core::time::Span;
use napier_lab::machines::MachineFile;
use napier_lab::modes::Mode;

/// The plan of a server that comes along.
fn event_loop() -> EventLoopPlan {
    match named("irq-suspension").expect("a plan") {
        AnyPlan::EventLoop(plan) => *plan,
        AnyPlan::Grid(grid) => panic!("{} is no plan of a server", grid.title),
    }
}

fn short(modes: &[&str], loads: &[Load]) -> EventLoopPlan {
    let mut plan = event_loop();
    plan.modes = modes.iter().map(|mode| Mode::parse(mode).expect("a mode")).collect();
    plan.loads = loads.to_vec();
    (plan.warm_up, plan.measured, plan.seeds) = (Span::from_ms(20), Span::from_ms(60), 2);
    plan
}

fn run_all(plan: &EventLoopPlan, jobs: usize) -> Vec<PlanCell> {
    run(plan, &plan.cells().collect::<Vec<_>>(), jobs, &AtomicBool::new(false), &|_, _| ())
}

fn predicted(cells: &[PlanCell], mode: &str, load: Load) -> Predicted {
    let mode = Mode::parse(mode).expect("a mode");
    let cell = cells.iter().find(|cell| cell.mode == mode && cell.load == load).expect("a cell");
    cell.predicted.clone().expect("the rules hold")
}

#[test]
fn every_figure_that_is_fitted_names_rows_of_the_plan_and_some_rows_are_left_to_check() {
    let plan = event_loop();
    let modes: Vec<String> = plan.modes.iter().map(Mode::to_string).collect();
    for parameter in &plan.machine.parameters {
        assert!(parameter.rows.iter().all(|row| modes.contains(row)), "{}: {:?}", parameter.name, parameter.rows);
        assert!(!parameter.why.is_empty(), "{}", parameter.name);
    }
    let is_fitted = |mode: &&String| plan.machine.parameters.iter().any(|parameter| parameter.rows.contains(mode));
    assert!(modes.iter().filter(|mode| !is_fitted(mode)).count() >= 6);
}

/// What advice knows of its errors is what the page on fidelity says, which is what the plan gives.
#[test]
fn the_errors_of_a_machine_are_those_of_its_plan() {
    let page = include_str!("../../../../docs/fidelity.md");
    let lines = event_loop().machine.known.lines();
    assert!(lines.len() > 5, "{lines:?}");
    for line in lines {
        assert!(page.lines().any(|said| said.trim() == line), "{line:?} is not in docs/fidelity.md");
    }
}

#[test]
fn the_same_whatever_the_number_of_jobs() {
    let plan = short(&["base", "suspend20"], &[Load::Rate(400_000), Load::Max]);
    let (one, three) = (run_all(&plan, 1), run_all(&plan, 3));
    assert_eq!(one, three);
    let text = |cells: &[PlanCell]| serde_json::to_string(&json(&plan, cells, &score(&plan, cells))).expect("JSON");
    assert_eq!(text(&one), text(&three));
}

#[test]
fn interruption_keeps_what_is_done_and_begins_nothing() {
    let plan = short(&["base"], &[Load::Rate(200_000)]);
    let wanted: Vec<_> = plan.cells().collect();
    assert_eq!(run(&plan, &wanted, 1, &AtomicBool::new(true), &|_, _| ()), Vec::new());
}

#[test]
fn parts_join_to_the_same_bytes_and_what_is_missing_is_named() {
    let folder = std::env::temp_dir().join(format!("napier-plan-results-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str| folder.join(name);
    let text = include_str!("../../plans/irq-suspension.toml");
    let text =
        text.replace("\"1s\"", "\"20ms\"").replace("seeds = 3", "seeds = 1").replace("400000, 600000, 800000, ", "");
    let plan = EventLoopPlan::parse(&text, "plan").expect("a plan");
    let whole = run_all(&plan, 2);
    let cells: Vec<_> = plan.cells().collect();
    let (one, two) = cells.split_at(7);
    for (name, part) in [("one", one), ("two", two)] {
        let done = run(&plan, part, 1, &AtomicBool::new(false), &|_, _| ());
        Results::new("plan", &plan, &done).write(&file(name)).expect("written");
    }
    let (joined, cells) = merge(&[file("two"), file("one")]).expect("all is there");
    let bytes = |plan: &EventLoopPlan, cells: &[PlanCell]| {
        let score = score(plan, cells);
        (table(plan, cells, &score), serde_json::to_string(&json(plan, cells, &score)).expect("JSON"))
    };
    assert_eq!(bytes(&joined, &cells), bytes(&plan, &whole));
    let missing = merge(&[file("two")]).expect_err("seven are not there").to_string();
    assert!(
        missing.contains("7 of 36 cells are missing") && missing.contains("--cells base@200K,defer10@200K"),
        "{missing}"
    );
    let other = EventLoopPlan::parse(&text.replace("seeds = 1", "seeds = 2"), "plan").expect("a plan");
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
    let [low, high] = [Load::Rate(200_000), Load::Rate(800_000)];
    let mut plan = short(&["base", "defer10", "fullbusy", "suspend20"], &[low, high, Load::Max]);
    // The card's moderation moves among its profiles; in 60 ms chance decides where it is.
    plan.measured = Span::from_ms(300);
    let cells = run_all(&plan, 2);
    let at = |mode, load| predicted(&cells, mode, load);
    assert!(at("base", low).interrupts_per_s_per_core > at("base", Load::Max).interrupts_per_s_per_core);
    assert!(at("fullbusy", low).cpu_pct > 99.0 && at("suspend20", low).cpu_pct < 50.0);
    assert!(at("suspend20", Load::Max).qps > 1.08 * at("base", Load::Max).qps);
    assert!(at("base", Load::Max).qps > at("defer10", Load::Max).qps);
    assert!(at("suspend20", high).p99_us < at("base", high).p99_us);
    assert!(at("base", low).cpu_spin_pct == 0.0 && at("suspend20", low).interrupts_per_s_per_core < 1000.0);
}

#[test]
fn what_is_wrong_has_a_file_and_a_line() {
    let plan = include_str!("../../plans/irq-suspension.toml");
    let machine = include_str!("../../machines/epyc-7662-cx5.toml");
    let wrong =
        |was: &str, is: &str| EventLoopPlan::parse(&plan.replace(was, is), "plan.toml").expect_err(is).to_string();
    let refused = |was: &str, is: &str| {
        assert!(machine.contains(was), "{was}");
        MachineFile::parse(&machine.replace(was, is), "machine.toml").expect_err(is).to_string()
    };
    for (found, expected) in [
        (
            wrong("queues = 8", "queues = 6"),
            "plan.toml:6: connections: the connections of 6 queues are equally many each",
        ),
        (wrong("seeds = 3", "seed = 3"), "plan.toml:11: unknown key \"seed\"; expected"),
        (wrong("\"base\"", "\"bass\""), "plan.toml:7: modes[0]: `bass` is no mode"),
        (wrong("\"base\"", "\"busy-read\""), "no mode of a server that waits in an event context"),
        (wrong("200000", "\"many\""), "plan.toml:8: loads[0]: expected requests per second, or \"max\""),
        (wrong("measured = \"1s\"", "measured = \"1\""), "expected a time such as"),
        (wrong("measured = \"1s\"", "measured = 0"), "something has to be measured"),
        (wrong("epyc-7662-cx5", "cray"), "there is no machine \"cray\""),
        (
            refused("op = { ns = 15", "op = { ns = -15"),
            "machine.toml:8: cost.op.ns: found the number -15; expected a whole number",
        ),
        (refused("op = { ns = 15", "op = { us = 15"), "unknown key \"us\"; expected ns"),
        (refused("op = { ns = 15,", "op = {"), "a figure has one unit: ns, pct, per-100k, count or mbit-s"),
        (refused("poll-empty = { ns = 700", "poll-empty = { ns = 0"), "poll-empty and spin-pause are at least 1 ns"),
        (refused("rows = [\"base\"], why = \"entry", "why = \"entry"), "what is fitted names the rows"),
        (refused("syscall", "sysca11"), "unknown figure; expected one of op, hard-irq"),
        (refused("step-share-per-100k", "step-share-per-million"), "unknown figure; expected one of to-server"),
        (refused("clock-mhz = 3300", "clock-mhz = \"fast\""), "machine.toml:2: clock-mhz"),
    ] {
        assert!(found.contains(expected), "{found}");
    }
    assert!(named("no-such-plan").expect_err("none").to_string().contains("or one of irq-suspension"));
}

//! Plan and machine files of these kinds, and short runs of the plans that the program brings along.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::plan::{AnyPlan, EventLoopPlan, named};

const XSK_RR: &str = include_str!("../../../plans/xsk-rr.toml");
const BUSY_READ: &str = include_str!("../../../plans/busy-read.toml");
const UDP_STREAM: &str = include_str!("../../../plans/udp-stream.toml");
const TCP_RR: &str = include_str!("../../../plans/tcp-rr.toml");
const REMOTE_SSD: &str = include_str!("../../../plans/remote-ssd.toml");
const MANY: &str = include_str!("../../../machines/threaded-napi-pair.toml");
const MACHINE: &str = include_str!("../../../machines/xsk-rr-pair.toml");

fn grid(name: &str) -> Grid {
    match named(name).expect("a plan") {
        AnyPlan::Grid(grid) => *grid,
        AnyPlan::EventLoop(plan) => panic!("{} is a plan of a server", plan.title),
    }
}

fn short(name: &str, modes: &[&str], loads: impl Fn(&Offer) -> bool) -> Grid {
    let mut grid = grid(name);
    grid.modes.retain(|mode| modes.contains(mode));
    grid.loads.retain(loads);
    match &mut grid.subject {
        GridSubject::Pair { measured, warm_up, seeds, .. } => {
            (*warm_up, *measured, *seeds) = (Span::from_ms(2), Span::from_ms(3), 2);
        }
        GridSubject::Many { size, seeds, .. } => {
            (size.cpus, size.threads, size.flows, *seeds) = (32, 32, 400, 1);
            for load in &mut grid.loads {
                if let Offer::Messages { length, .. } | Offer::Operations { length, .. } = load {
                    *length = Length { warm_up: Span::from_ms(4), measured: Span::from_ms(6) };
                }
            }
        }
        GridSubject::Server { .. } => {
            for load in &mut grid.loads {
                if let Offer::Requests { length, .. } = load {
                    *length = Length { warm_up: Span::from_ms(2), measured: Span::from_ms(3) };
                }
            }
        }
        GridSubject::Senders { .. } => {}
    }
    grid
}

fn run_all(grid: &Grid, jobs: usize) -> Vec<GridCell> {
    run_grid(grid, jobs, &AtomicBool::new(false), &|_, _| ())
}

fn figure(cells: &[GridCell], mode: &str, load: &str, name: &str) -> f64 {
    let cell = cells.iter().find(|cell| cell.mode == mode && cell.load.to_string() == load).expect("a cell");
    let predicted = cell.predicted.as_ref().expect("the rules hold");
    predicted.iter().find(|(other, _)| *other == name).expect("a figure of this name").1
}

/// What was fitted to a row names it, names rows that there are, and is in no sum of what was checked.
#[test]
fn a_row_that_something_was_fitted_to_is_never_a_check() {
    for (name, least) in [("xsk-rr", 7), ("busy-read", 1), ("tcp-rr", 5), ("remote-ssd", 4)] {
        let grid = grid(name);
        let machine = grid.machine().expect("a machine");
        let cells: Vec<GridCell> =
            grid.cells().map(|(load, mode)| GridCell { load, mode, predicted: Ok(Vec::new()) }).collect();
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
                let is_it = |cell: &&GridCell| row == cell.mode || row == format!("{}@{}", cell.mode, cell.load);
                let hit: Vec<&GridCell> = cells.iter().filter(is_it).collect();
                assert!(!hit.is_empty(), "{}: there is no row {row}", parameter.name);
                assert!(hit.iter().all(|cell| grid.is_fitted(cell)), "{}: {row} counts as a check", parameter.name);
                let published = |cell: &&&GridCell| grid.published.row(cell.mode, cell.load).is_some();
                assert_eq!(hit.iter().filter(published).count(), hit.len(), "{row} was not published");
            }
        }
        let is_check = |cell: &&GridCell| !grid.is_fitted(cell) && grid.published.row(cell.mode, cell.load).is_some();
        assert!(cells.iter().filter(is_check).count() >= least, "{name}: something is left to check");
    }
}

/// Every row of a document is a cell of its plan, and the figures of a fitted row are in the fitted sum alone.
#[test]
fn every_published_row_is_a_cell_and_counts_once() {
    for name in ["xsk-rr", "busy-read", "udp-stream", "tcp-rr", "remote-ssd"] {
        let grid = grid(name);
        for (mode, load) in grid.published.names() {
            assert!(grid.cells().any(|(at, of)| of == mode && at.to_string() == load), "{mode} at {load}");
        }
        let figures = || published::columns(grid.kind).iter().map(|name| (*name, 1.0)).collect();
        let cells: Vec<GridCell> =
            grid.cells().map(|(load, mode)| GridCell { load, mode, predicted: Ok(figures()) }).collect();
        let count = |fitted| table::errors_of(&grid, &cells, fitted).0.map_or(0, |errors| errors.figures);
        let all = grid.published.names().len() * published::columns(grid.kind).len();
        assert_eq!(count(true) + count(false), all, "{name}");
        let fitted = cells.iter().filter(|cell| grid.is_fitted(cell)).count();
        assert_eq!(count(true), fitted * published::columns(grid.kind).len(), "{name}");
    }
}

#[test]
fn the_same_whatever_the_number_of_jobs() {
    let grid = short("xsk-rr", &["interrupts", "threaded-busy-poll"], |load| load.to_string() == "32K+30us");
    let (one, three) = (run_all(&grid, 1), run_all(&grid, 3));
    assert_eq!(one, three);
    assert_eq!(grid_table(&grid, &one), grid_table(&grid, &three));
    let text = |cells: &[GridCell]| serde_json::to_string(&grid_json(&grid, cells)).expect("JSON");
    assert_eq!(text(&one), text(&three));
    let object: JsonGrid = serde_json::from_str(&text(&one)).expect("it reads back");
    assert_eq!((object.kind.as_str(), object.cells.len()), ("xsk-rr", 2));
    let cell = &object.cells[1];
    assert_eq!(cell.published["p50_ns"], 13_000.0);
    let error = (cell.predicted["p50_ns"] / 13_000.0 - 1.0) * 100.0;
    assert!((cell.error_pct["p50_ns"] - error).abs() < 1e-9 && !cell.fitted);
    assert_eq!(run_grid(&grid, 1, &AtomicBool::new(true), &|_, _| ()), Vec::new(), "interrupted before it began");
}

/// What the document is about: computing costs those who poll by themselves, and not those who are polled for.
#[test]
fn polling_on_a_core_of_its_own_makes_latency_independent_of_the_delay() {
    let modes = ["busy-read", "busy-read-separate", "threaded-busy-poll"];
    let grid = short("xsk-rr", &modes, |load| ["12K+0us", "12K+78us"].contains(&load.to_string().as_str()));
    let cells = run_all(&grid, 2);
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
    let grid = short("tcp-rr", &["base", "threaded", "workqueue"], |load| load.to_string() == "1B/1B");
    let cells = run_all(&grid, 2);
    for mode in &grid.modes {
        let of = |name| figure(&cells, mode, "1B/1B", name);
        assert!((1e6..3e6).contains(&of("qps")), "{mode}: {}", of("qps"));
        assert!(of("p50_us") * of("qps") < 450e6, "{mode}: {} and {}", of("p50_us"), of("qps"));
        assert!(of("p50_us") <= of("p99_us") && of("p99_us") <= of("p999_us"), "{mode}");
    }
}

/// Operations of a device are answered at the rate at which they are asked for, by whomever packets are polled.
#[test]
fn storage_is_asked_at_a_fixed_rate() {
    let mut grid = short("remote-ssd", &["base", "threaded"], |load| load.to_string() == "64K");
    if let Some(Offer::Operations { length, .. }) = grid.loads.first_mut() {
        *length = Length { warm_up: Span::from_ms(20), measured: Span::from_ms(20) };
    }
    let cells = run_all(&grid, 2);
    for mode in &grid.modes {
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
    let grid = short("busy-read", GridKind::BusyRead.modes(), |_| true);
    let cells = run_all(&grid, 2);
    let rates: Vec<f64> = grid.modes.iter().map(|mode| figure(&cells, mode, "closed", "transactions_per_s")).collect();
    assert!(rates.windows(2).all(|two| two[0] < two[1]), "{rates:?}");
}

#[test]
fn other_senders_are_a_prediction() {
    let text = UDP_STREAM.replace("senders = 240", "senders = 8").replace("queues = 30", "queues = 2");
    let grid = Grid::parse(GridKind::UdpStream, &text, "plan").expect("a plan");
    let text = grid_table(&grid, &run_all(&grid, 2));
    assert!(text.contains("\n? llist") && !text.contains("\n= "), "{text}");
}

#[test]
fn only_modes_that_there_are() {
    let mut grid = grid("xsk-rr");
    let error = grid.keep_modes(&["base".to_owned()]).expect_err("a mode of another kind");
    assert!(error.contains("which has interrupts, busy-read"), "{error}");
    grid.keep_modes(&["busy-read".to_owned()]).expect("a mode");
    assert_eq!(grid.modes, ["busy-read"]);
}

#[test]
fn what_is_wrong_has_a_file_and_a_line() {
    let wrong = |plan: &str, was: &str, is: &str| {
        assert!(plan.contains(was), "{was}");
        AnyPlan::parse(&plan.replace(was, is), "plan.toml").expect_err(is).to_string()
    };
    let wrong_machine = |text: &str, was: &str, is: &str| {
        assert!(text.contains(was), "{was}");
        MachineFile::parse(&text.replace(was, is), "machine.toml").expect_err(is).to_string()
    };
    let refused = |was: &str, is: &str| wrong_machine(MACHINE, was, is);
    for (found, expected) in [
        (wrong(XSK_RR, "\"xsk-rr\"\nmachine", "\"xsk\"\nmachine"), "plan.toml:2: kind: "),
        (wrong(XSK_RR, "\"xsk-rr\"\nmachine", "\"xsk\"\nmachine"), "event-loop, xsk-rr, busy-read"),
        (wrong(XSK_RR, "\"interrupts\"", "\"base\""), "plan.toml:7: modes[0]: "),
        (wrong(XSK_RR, "\"busy-read\",", "\"interrupts\","), "interrupts is there already"),
        (wrong(XSK_RR, "seeds = 2", "seed = 2"), "unknown key \"seed\"; expected"),
        (wrong(XSK_RR, "rate = 32000", "rate = -32000"), "plan.toml:11: loads[1].rate: found the number -32000"),
        (wrong(XSK_RR, "delay = \"30us\"", "delay = \"30\""), "expected a time such as"),
        (wrong(XSK_RR, "delay = \"30us\"", "pause = \"30us\""), "unknown key \"pause\"; expected rate"),
        (wrong(XSK_RR, "xsk-rr-pair", "cray"), "plan.toml:3: machine: there is no machine \"cray\""),
        (wrong(XSK_RR, "xsk-rr-pair", "epyc-7662-cx5"), "plan.toml:3: machine: this machine is a server with clients"),
        (
            wrong(XSK_RR, "published = \"xsk-rr\"", "published = \"busy-read\""),
            "no published table \"busy-read\" of this kind",
        ),
        (wrong(XSK_RR, "measured = \"15ms\"", "measured = 0"), "something has to be measured"),
        (wrong(BUSY_READ, "warm-up", "loads = []\nwarm-up"), "unknown key \"loads\"; expected"),
        (wrong(TCP_RR, "cpus = 56", "cpus = 55"), "plan.toml:8: cpus: each core has two hyper-threads"),
        (wrong(TCP_RR, "queues = 8", "queues = 57"), "plan.toml:9: queues"),
        (wrong(TCP_RR, "request = 1,", "request = 0,"), "plan.toml:15: loads[0].request: found the number 0"),
        (wrong(TCP_RR, "request = 1,", "bytes = 1,"), "unknown key \"bytes\"; expected request"),
        (wrong(TCP_RR, "threaded-napi-pair", "small-vm"), "this machine is a server with clients"),
        (wrong(REMOTE_SSD, "threaded-napi-pair", "xsk-rr-pair"), "this machine has no storage"),
        (wrong(REMOTE_SSD, "rate = 572600", "rate = 0"), "plan.toml:13: loads[0].rate"),
        (wrong_machine(MANY, "small-p50 = { ns = 127000", "small-p50 = { ns = 50000"), "times grow from the least"),
        (wrong_machine(MANY, "rate = { mbit-s", "rate = { mbit"), "unknown key \"mbit\"; expected ns, pct"),
        (wrong(UDP_STREAM, "senders = 240", "senders = 0"), "plan.toml:5: senders"),
        (refused("op = { ns = 15", "op = { ns = -15"), "machine.toml:10: cost.op.ns: found the number -15"),
        (refused("op = { ns = 15,", "op = {"), "a figure has one unit: ns, pct, per-100k, count or mbit-s"),
        (refused("one-way = {", "both-ways = {"), "unknown figure; expected one of one-way, noise"),
        (refused("rows = [\"interrupts@12K+0us\"], ", ""), "what is fitted names the rows"),
        (refused("[wire]", "[client]\n[wire]"), "a machine has clients, or it is two hosts on a wire"),
    ] {
        assert!(found.contains(expected), "{found}");
    }
    let plan = include_str!("../../../plans/irq-suspension.toml").replace("epyc-7662-cx5", "mlx4-pair");
    let found = EventLoopPlan::parse(&plan, "plan.toml").expect_err("no clients").to_string();
    assert!(found.contains("plan.toml:2: machine: two hosts on a wire are no server"), "{found}");
}

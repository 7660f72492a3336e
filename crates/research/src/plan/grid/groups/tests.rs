//! Plans about groups: what is refused, and a short run of the plan that comes along.

use std::sync::atomic::AtomicBool;

use super::super::{Grid, GridCell, grid_json, grid_table, run_grid};
use super::*;

const GROUPS: &str = include_str!("../../../../../../plans/groups.toml");

fn parse(text: &str) -> Result<Grid, ParseError> {
    Grid::parse(GridKind::Groups, text, "groups.toml")
}

/// The smallest machine for a short time.
fn short(shape: Option<Shape>, modes: &[&str]) -> Grid {
    let mut grid = parse(GROUPS).expect("a plan of ours");
    grid.modes.retain(|mode| modes.contains(mode));
    let length = Length { warm_up: Span::from_ms(2), measured: Span::from_ms(4) };
    grid.loads = vec![Offer::Requests { cpus: 16, nodes: 1, shape, length }];
    grid
}

fn run_all(grid: &Grid, jobs: usize) -> Vec<GridCell> {
    run_grid(grid, jobs, &AtomicBool::new(false), &|_, _| ())
}

fn figure(cells: &[GridCell], mode: &str, name: &str) -> f64 {
    let cell = cells.iter().find(|cell| cell.mode == mode).expect("a cell");
    let predicted = cell.predicted.as_ref().expect("the rules hold");
    predicted.iter().find(|(other, _)| *other == name).expect("a figure of this name").1
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let sizes = "sizes = [{ cpus = 16, nodes = 1 }, { cpus = 56, nodes = 2 }, { cpus = 240, nodes = 4 }]";
    let table = [
        (sizes, "sizes = [{ cpus = 18 }]", "cpus is a multiple of 4 times nodes"),
        (sizes, "sizes = []", "a size and a load at least"),
        ("\"fullbusy\"", "\"defer20\"", "expected"),
        ("{ pct = 1,", "{ pct = 0,", "expected"),
        ("steps = \"5ms\"", "steps = \"5us\"", "at least \"24us\""),
        ("connections = 16", "connections = 0", "expected"),
        ("machine = \"many-cpus\"", "machine = \"threaded-napi-pair\"", "two hosts on a wire"),
        ("seeds = 1", "group = { delay-target = \"1ns\" }", "delay-target is from 1us to 1s"),
    ];
    for (was, is, expected) in table {
        assert!(GROUPS.contains(was), "{was}");
        let error = parse(&GROUPS.replace(was, is)).expect_err(is).to_string();
        assert!(error.contains(expected), "{is}: {error}");
    }
}

#[test]
fn the_same_whatever_the_number_of_jobs_and_every_mode_is_shown() {
    let grid = short(Some(Shape::Steady { pct: 20 }), MODES);
    let (one, three) = (run_all(&grid, 1), run_all(&grid, 3));
    assert_eq!(one, three);
    let text = grid_table(&grid, &one);
    assert!(grid.modes.iter().all(|mode| text.contains(mode)), "{text}");
    assert!(text.lines().skip(1).all(|line| line.len() <= 80), "{text}");
    let json = serde_json::to_string(&grid_json(&grid, &one)).expect("JSON");
    assert!(json.contains("\"load\":\"16cpus/20%\"") && json.contains("\"cpus_polling\""), "{json}");
}

/// Not how much less, which is a figure; that it is less, for the same work.
#[test]
fn a_group_takes_fewer_cpus_than_a_thread_for_each_queue_and_answers_as_much() {
    let grid =
        short(Some(Shape::Steady { pct: 20 }), &["threaded-busy-poll", "group", "group-compact", "group-static"]);
    let cells = run_all(&grid, 2);
    // A piece of work counts when it begins, so that a little more than all is possible.
    assert!((7.9..8.1).contains(&figure(&cells, "threaded-busy-poll", "cpus_polling")));
    assert!((7.9..8.1).contains(&figure(&cells, "group-static", "cpus_polling")));
    for mode in ["group", "group-compact"] {
        assert!(figure(&cells, mode, "cpus_polling") < 6.0, "{mode}");
        let (is, of) = (figure(&cells, mode, "qps"), figure(&cells, "threaded-busy-poll", "qps"));
        // Some 800 requests at times of their own in each: five standard deviations.
        assert!((is / of - 1.0).abs() < 0.2, "{mode}: {is} and {of}");
    }
}

#[test]
fn a_closed_loop_asks_for_more_than_the_full_rate() {
    let cells = run_all(&short(None, &["threaded-busy-poll", "fullbusy"]), 2);
    let full = 8.0 * 120_000.0;
    assert!(figure(&cells, "fullbusy", "qps") > 0.95 * full);
    assert!(figure(&cells, "threaded-busy-poll", "qps") > full);
}

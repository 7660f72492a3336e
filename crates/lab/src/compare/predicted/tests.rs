use std::time::Duration;

use super::*;
use crate::advise::Workload;
use crate::machines::server_named;
use crate::modes::Mode;

fn config(modes: &str, loads: &[Load]) -> CompareConfig {
    CompareConfig {
        backends: vec![crate::subject::Backend::Sim],
        sim: Some(SimConfig { name: "small-vm".to_owned(), machine: server_named("small-vm").unwrap(), jobs: 2 }),
        modes: Mode::parse_list(modes).unwrap(),
        loads: Some(loads.to_vec()),
        sustained: false,
        flows: 32,
        ..CompareConfig::default()
    }
}

fn run(config: &CompareConfig) -> Report {
    alone(config, &AtomicBool::new(false)).unwrap()
}

const LOAD: Load = Load::Rps(40_000);

#[test]
fn rows_are_what_the_adviser_predicts() {
    let config = CompareConfig { service: "2us".parse().ok(), ..config("base,suspend20", &[LOAD]) };
    let report = run(&config);
    let asked = Workload {
        recorded: None,
        rate_rps: 40_000,
        peak_rps: None,
        queues: 1,
        connections: 32,
        cpus: 1,
        service: config.service.clone(),
    };
    let effort = advise::Effort { seeds: 3, jobs: 1, sensitivity: false };
    let machine = &config.sim.as_ref().unwrap().machine;
    let stop = AtomicBool::new(false);
    let goal = advise::Goal::default();
    let advice = advise::advise(machine, &asked, &goal, &config.modes, effort, &stop, &|_, _| ()).unwrap();
    for (row, expected) in report.rows.iter().zip(&advice.rows) {
        let figures = row.figures().unwrap();
        assert_eq!((row.subject, figures.runs), (Subject::sim(expected.mode), 3));
        // The adviser runs a mode once that chance cannot make the choice.
        let (same, digits) = if expected.by_seed.len() == 3 { (1e-6, 0.01) } else { (0.02, 0.1) };
        let of = |figure: fn(&advise::BySeed) -> f64| {
            let mut all: Vec<f64> = expected.by_seed.iter().map(figure).collect();
            crate::stats::median(&mut all)
        };
        let near = |one: f64, other: f64, by: f64| assert!((one / other - 1.0).abs() < by, "{one} {other}");
        near(figures.median.achieved_rps, of(|seed| seed.achieved_rps), same);
        near(figures.median.cpu.total_pct, of(|seed| seed.cpu_pct), same);
        // A histogram has three digits.
        near(figures.median.latency_us.p99, of(|seed| seed.p99_us), digits);
    }
    let said = report.prediction.unwrap();
    assert_eq!((said.machine.as_str(), said.machine_figures), ("small-vm", machine.parameters.len()));
    assert_eq!((said.machine_figures_fitted, said.runs), (0, 3));
}

#[test]
fn what_is_not_simulated_is_refused_and_what_is_not_counted_is_not_there() {
    let config = config("workqueue,base,busy-read,threaded-busy-poll", &[LOAD, Load::Max]);
    let report = run(&CompareConfig { runs: 1, ..config });
    assert_eq!((report.rows.len(), report.workload.seconds, report.memory), (8, None, None));
    for row in &report.rows {
        let refused = matches!(&row.outcome, Outcome::Refused(why) if why.contains("waits in an event context"));
        assert_eq!(refused, advise::why_not(row.subject.mode).is_some(), "{row:?}");
        assert!(row.measured().is_none(), "nothing was measured: {row:?}");
        let Some(figures) = row.figures() else { continue };
        let median = figures.median;
        assert_eq!((median.cycles_per_request, median.events_per_wait, median.timers_per_s), (None, None, None));
        assert!(median.cpu.total_pct > 0.0 && median.cpu.total_pct <= 100.0, "{median:?}");
        assert!(median.latency_us.p99 >= median.service_latency_us.p99);
    }
}

#[test]
fn rows_do_not_depend_on_threads_and_do_on_the_seed() {
    let with = |jobs, seed| {
        let mut config = CompareConfig { seed, ..config("base,defer20", &[LOAD]) };
        config.sim.as_mut().unwrap().jobs = jobs;
        run(&config).rows.iter().map(|row| *row.figures().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(with(1, 1), with(3, 1));
    assert_ne!(with(1, 1), with(1, 9));
}

#[test]
fn more_than_it_can_do_is_not_sustained_and_the_most_is_below() {
    let most = CompareConfig { sustained: true, loads: Some(Vec::new()), ..config("base", &[]) };
    let report = run(&CompareConfig { service: "20us".parse().ok(), ..most.clone() });
    let rps = report.sustained[0].rps;
    // No server with requests of 20 us answers 50000 in a second; and the machine's own costs are below 20 us.
    assert!((25_000..50_000).contains(&rps), "{report:?}");
    assert!(report.sustained[0].failed_rps.is_some_and(|failed_rps| failed_rps > rps));
    let loads = Some(vec![Load::Rps(rps / 2), Load::Rps(rps * 2)]);
    let report = run(&CompareConfig { service: "20us".parse().ok(), loads, sustained: false, ..most });
    let sustained: Vec<bool> = report.rows.iter().map(Row::sustains).collect();
    assert_eq!(sustained, [true, false], "{report:?}");
}

#[test]
fn without_loads_they_are_those_that_base_sustains() {
    let report = run(&CompareConfig { loads: None, runs: 1, ..config("base", &[]) });
    let last = report.rows.last().unwrap().load;
    assert_eq!((report.rows.len(), last), (6, Load::Max));
    assert!(report.rows.iter().all(Row::sustains), "{report:?}");
    let error = alone(&CompareConfig { loads: None, ..config("defer20", &[]) }, &AtomicBool::new(false));
    assert!(error.unwrap_err().to_string().contains("give --load"));
}

#[test]
fn a_length_that_is_asked_for_is_kept_within_bounds() {
    let of = |seconds| {
        let run_length = Some(Duration::from_secs_f64(seconds));
        let report = run(&CompareConfig { run_length, runs: 1, ..config("base", &[Load::Rps(1000)]) });
        report.rows[0].figures().unwrap().median.achieved_rps
    };
    // Of 20 ms every answer is 50 a second; of 1 s it is one.
    assert_eq!(of(0.001) % 50.0, 0.0);
    assert_eq!(of(1.0) % 1.0, 0.0);
    assert_ne!(of(1.0) % 50.0, 0.0, "some 1000 requests came at random");
}

#[test]
fn told_to_stop_it_ends_with_what_it_has() {
    let done = run(&config("base", &[LOAD]));
    let mut report = Report { rows: Vec::new(), ..done.clone() };
    let subjects = [Subject::sim(Mode::Base)];
    let ended = fill(&mut report, &[LOAD, Load::Max], (&subjects, 3), |load| match load {
        Load::Max => Err(Interrupted),
        Load::Rps(_) => Ok(PredictedRows { rows: done.rows.clone(), failures: Vec::new() }),
    });
    assert_eq!((ended.is_err(), report.rows.len()), (true, 2));
    assert!(report.rows[0].figures().is_some(), "{report:?}");
    assert_eq!(report.rows[1].lost.as_ref().map(|lost| (lost.not_run, lost.of)), Some((3, 3)), "{report:?}");
    let stop = AtomicBool::new(true);
    assert!(alone(&config("base", &[LOAD]), &stop).is_err(), "nothing was predicted at all");
}

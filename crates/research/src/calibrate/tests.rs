use std::sync::atomic::AtomicBool;

use super::fit::Fitter;
use super::*;
use napier_lab::machines::server_named;
use napier_lab::modes::Mode;
use napier_lab::subject::Backend;

fn workload() -> Workload {
    Workload { rate_rps: 1, peak_rps: None, queues: 1, connections: 32, cpus: 1, service: None, recorded: None }
}

const SHORT: Depth = Depth { requests: 600, rounds: 3 };

/// What a machine would measure of itself.
fn comparison(machine: &MachineFile) -> Comparison {
    let empty = |mode: &str, load| Observed {
        mode: Mode::parse(mode).unwrap(),
        load,
        achieved_rps: 1.0,
        p50_us: 1.0,
        p99_us: 1.0,
        cpu_pct: 1.0,
        tail_counts: true,
    };
    let asked: Vec<Observed> = ["base", "defer20"]
        .into_iter()
        .flat_map(|mode| [Load::Rps(20_000), Load::Rps(60_000), Load::Max].map(|load| empty(mode, load)))
        .collect();
    let workload = workload();
    let stop = AtomicBool::new(false);
    let fitter = Fitter { workload: &workload, rows: &asked, settled: None, depth: SHORT, jobs: 2, stop: &stop };
    let rows = fitter.look(machine, &asked).unwrap().into_iter().map(|seen| seen.predicted).collect();
    Comparison { workload, host: "a test".to_owned(), rows, wakeups: None }
}

#[test]
fn a_machine_is_found_again_from_what_it_would_measure() {
    let start = server_named("small-vm").unwrap();
    let mut other = start.clone();
    other.costs.set(Work::Answer, Span::from_ns(3 * start.costs.get(Work::Answer).ns));
    other.costs.set(Work::HardIrq, Span::from_ns(2 * start.costs.get(Work::HardIrq).ns));
    let comparison = comparison(&other);
    let stop = AtomicBool::new(false);
    let held = [Load::Rps(60_000)];
    let found = calibrate(&start, comparison.clone(), &held, SHORT, 2, &stop, &|_, _| ()).unwrap();
    assert!(found.error_pct < 4.0, "{found:?}");
    assert!(found.held_back.len() == 2 && found.fitted.len() == 4);
    for seen in &found.held_back {
        let near = |one: f64, other: f64| (one / other - 1.0).abs() < 0.15;
        assert!(near(seen.predicted.p50_us, seen.measured.p50_us), "{seen:?}");
        assert!(near(seen.predicted.cpu_pct, seen.measured.cpu_pct), "{seen:?}");
    }
    // The file says what was fitted, to which rows, and gives the same machine again.
    let again = MachineFile::parse(&found.machine.text, "again").unwrap();
    assert_eq!(again, found.machine);
    let fitted = again.parameters.iter().filter(|figure| figure.origin == napier_lab::machines::Origin::Fitted);
    assert_eq!(fitted.count(), FITTED.len());
    let hardly = found.determined.iter().filter(|one| one.is_hardly(found.error_pct)).count();
    let said = again.parameters.iter().filter(|figure| figure.hardly_determined).count();
    assert!(hardly == said && said < FITTED.len(), "{hardly} {said}");
    assert!(text(&found).lines().all(|line| line.chars().count() <= 110), "{}", text(&found));
    // And how far it is off, of what was held back.
    let known = &again.known;
    assert!((known.fit_pct.unwrap() - found.error_pct).abs() < 1.0, "{known:?}");
    assert!(known.held_back_pct.unwrap() < 20.0 && known.distrust().is_none(), "{known:?}");
    let off = known.off(Mode::Threaded, 10.0).unwrap();
    assert!(off.rows == 2 && off.p99.is_some() && off.cpu.is_some(), "{off:?}");
}

#[test]
fn a_fit_that_is_far_off_says_so_and_so_does_one_without_a_tail() {
    let start = server_named("small-vm").unwrap();
    let right = comparison(&start);
    let fitted = |change: fn(&mut Observed)| {
        let mut comparison = right.clone();
        comparison.rows.iter_mut().for_each(change);
        let depth = Depth { rounds: 0, ..SHORT };
        calibrate(&start, comparison, &[Load::Rps(60_000)], depth, 2, &AtomicBool::new(false), &|_, _| ()).unwrap()
    };
    let far = fitted(|row| (row.p50_us, row.p99_us) = (row.p50_us * 9.0, row.p99_us * 9.0));
    let why = far.machine.known.distrust();
    assert!(matches!(why, Some(napier_lab::machines::Distrust::Far { off_pct }) if off_pct > 100.0), "{why:?}");
    assert!(text(&far).contains("NOT TO BE BELIEVED: its predictions were"), "{}", text(&far));
    let no_tail = fitted(|row| row.tail_counts = false);
    assert_eq!(
        no_tail.machine.known.distrust(),
        Some(napier_lab::machines::Distrust::NoTail),
        "{}",
        no_tail.machine.text
    );
    let words = text(&no_tail).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("nothing says what p99 a mode has"), "{words}");
}

#[test]
fn a_fitted_figure_that_the_start_does_not_name_is_in_the_file() {
    let text = include_str!("../../machines/small-vm.toml");
    let is_lost = |line: &&str| line.starts_with("answer = ") || line.starts_with("to-client-noise = ");
    let kept: Vec<&str> = text.lines().filter(|line| !is_lost(line)).collect();
    let start = MachineFile::parse(&kept.join("\n"), "a start without them").unwrap();
    assert_eq!(start.parameters.len() + 2, server_named("small-vm").unwrap().parameters.len());
    let comparison = comparison(&server_named("small-vm").unwrap());
    let stop = AtomicBool::new(false);
    let depth = Depth { rounds: 1, ..SHORT };
    let found = calibrate(&start, comparison, &[Load::Rps(60_000)], depth, 2, &stop, &|_, _| ()).unwrap();
    for one in &found.determined {
        let written = found.machine.parameters.iter().find(|parameter| parameter.name == one.name);
        assert_eq!(written.map(|parameter| parameter.value), Some(one.value_ns), "{}", one.name);
    }
    assert!(Figure::Cost(Work::Answer).get(&found.machine) > 0, "{}", found.machine.text);
    assert!(found.machine.text.contains("not in the machine that the fit began with"), "{}", found.machine.text);
}

#[test]
fn the_result_does_not_depend_on_threads() {
    let start = server_named("small-vm").unwrap();
    let comparison = comparison(&start);
    let stop = AtomicBool::new(false);
    let fitted = |jobs| {
        calibrate(
            &start,
            comparison.clone(),
            &[Load::Rps(20_000)],
            Depth { rounds: 1, ..SHORT },
            jobs,
            &stop,
            &|_, _| (),
        )
        .unwrap()
    };
    assert_eq!(fitted(1).machine.text, fitted(3).machine.text);
}

#[test]
fn every_second_load_is_held_back() {
    let rows = comparison(&server_named("small-vm").unwrap()).rows;
    assert_eq!(default_held_back(&rows), [Load::Rps(60_000)]);
    assert_eq!(default_held_back(&[]), []);
}

#[test]
fn what_is_no_comparison_is_refused() {
    let error = parse("{}", "x.json", Backend::Engine).unwrap_err().to_string();
    assert!(error.starts_with("x.json is no report of `napier compare --json`"), "{error}");
    let error = parse("{}", "x.json", Backend::Sim).unwrap_err().to_string();
    assert!(error.starts_with("rows of sim are predictions"), "{error}");
    let stop = AtomicBool::new(true);
    let start = server_named("small-vm").unwrap();
    assert!(calibrate(&start, comparison(&start), &[], SHORT, 1, &stop, &|_, _| ()).is_err());
}

#[test]
fn what_was_measured_by_itself_is_not_fitted() {
    let start = server_named("small-vm").unwrap();
    let mut other = start.clone();
    other.costs.set(Work::Answer, Span::from_ns(3 * start.costs.get(Work::Answer).ns));
    let wakeups = Wakeups { host: "a test".to_owned(), gap_ns: 50_000, until_program_ns: 40_000, after_poll_ns: 8_000 };
    Settled::new(wakeups.clone(), &start).put_into(&mut other);
    let comparison = Comparison { wakeups: Some(wakeups), ..comparison(&other) };
    let stop = AtomicBool::new(false);
    let found = calibrate(&start, comparison, &[Load::Rps(60_000)], SHORT, 2, &stop, &|_, _| ()).unwrap();
    assert!(found.error_pct < 6.0, "{found:?}");
    let of = |origin| {
        let figures = found.machine.parameters.iter().filter(move |figure| figure.origin == origin);
        figures.map(|figure| figure.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of(napier_lab::machines::Origin::Measured), ["cost.idle-exit", "cost.wake"]);
    let fitted = of(napier_lab::machines::Origin::Fitted);
    assert_eq!((fitted.len(), fitted.contains(&"cost.idle-exit")), (FITTED.len() - 1, false), "{fitted:?}");
    assert_eq!(found.determined.len(), fitted.len());
    // However the other figures were fitted, the sums are those that were measured.
    let mut again = found.machine.clone();
    Settled::new(found.comparison.wakeups.clone().unwrap(), &start).put_into(&mut again);
    assert_eq!(again.costs, found.machine.costs);
    let page = text(&found);
    let line =
        format!("cost.idle-exit           {:>10}   napier bench wakeup, p50 after 50 us", found.settled[0].value_ns);
    assert!(page.contains("measured, not fitted") && page.contains(&line), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 110), "{page}");
}

#[test]
fn what_is_fitted_takes_no_more_than_was_measured_of_all() {
    let start = server_named("small-vm").unwrap();
    let mut other = start.clone();
    // Rows of a machine whose interrupts are far dearer than the other measurement leaves room for.
    other.costs.set(Work::HardIrq, Span::from_us(30));
    let wakeups = Wakeups { host: "a test".to_owned(), gap_ns: 50_000, until_program_ns: 5_000, after_poll_ns: 0 };
    let settled = Settled::new(wakeups.clone(), &start);
    let fitted = |wakeups| {
        let comparison = Comparison { wakeups, ..comparison(&other) };
        calibrate(&start, comparison, &[], SHORT, 2, &AtomicBool::new(false), &|_, _| ()).unwrap().machine
    };
    let (free, bound) = (fitted(None), fitted(Some(wakeups)));
    assert!(settled.over_ns(&free) > 0, "else this shows nothing: {}", free.text);
    assert_eq!(settled.over_ns(&bound), 0, "{}", bound.text);
}

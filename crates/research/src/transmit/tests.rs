use super::*;

fn experiment(paths: &[Path]) -> Experiment {
    Experiment {
        senders: published::SENDERS,
        queues: published::QUEUES,
        pinned: false,
        seed: 1,
        paths: paths.to_vec(),
        sensitivity: false,
        jobs: 2,
    }
}

fn report(experiment: &Experiment) -> TransmitReport {
    run(experiment, &AtomicBool::new(false), &|_, _| {}).expect("an experiment that can be run")
}

/// The default seed gives the published rates within the tolerance, and the fullest buckets.
#[test]
fn the_published_rates_are_reproduced() {
    let report = report(&experiment(&Path::ALL));
    let checks = checks(&report);
    for name in ["Mpps", "busy CPUs, %", "fullest bucket, ns", "below 1 us, %"] {
        for path in Path::ALL {
            let check = checks.iter().find(|check| check.path == Some(path) && check.name == name);
            let check = check.expect("a check of this name");
            assert!(check.holds, "{check:?}");
        }
    }
    let text = table(&report);
    assert!(text.lines().all(|line| line.len() <= 120), "a line is too long");
    assert!(text.contains("Reproduced: Mpps of locked"), "{text}");
    let object: JsonReport = serde_json::from_str(&json(&report)).expect("the object reads back");
    assert_eq!(object.checks.len(), checks.len());
    assert_eq!(object.paths.iter().map(|path| path.path.as_str()).collect::<Vec<_>>(), ["locked", "llist"]);
    let first = &object.paths[0];
    let in_buckets: u64 = first.histogram.iter().map(|bucket| bucket.count).sum();
    assert_eq!(in_buckets, report.results[0].outcome.stays.count());
}

#[test]
fn other_senders_are_a_prediction_and_are_compared_with_nothing() {
    let few = report(&Experiment { senders: 8, queues: 2, ..experiment(&[Path::List]) });
    assert!(checks(&few).is_empty());
    let text = table(&few);
    assert!(text.contains("these are predictions") && !text.contains("published,"), "{text}");
    // Nor were pinned senders, however many there are.
    let pinned = report(&Experiment { pinned: true, ..few.experiment.clone() });
    let object: JsonReport = serde_json::from_str(&json(&pinned)).expect("the object reads back");
    assert!(object.pinned && object.paths[0].mpps > 0.0, "{object:?}");
    assert!(table(&pinned).contains("  pinned                         1  "), "{}", table(&pinned));
    let as_many = Experiment { pinned: true, ..experiment(&[]) };
    assert!(!TransmitReport { experiment: as_many, ..few }.is_published());
}

#[test]
fn the_sentence_says_what_was_missed() {
    let check = |name, holds| Check {
        path: Some(Path::List),
        name,
        published: "1".to_owned(),
        model: "2".to_owned(),
        difference: "+100.0 %".to_owned(),
        holds,
    };
    let text = sentence(&[check("Mpps", true), check("busy CPUs, %", false)]);
    assert_eq!(text, "Reproduced: Mpps of llist (+100.0 %). Missed: busy CPUs of llist (+100.0 %).");
    assert_eq!(sentence(&[check("Mpps", false)]), "Missed: Mpps of llist (+100.0 %).");
    assert_eq!(
        sentence(&[check("Mpps", true)]),
        "Reproduced: Mpps of llist (+100.0 %). Missed: nothing that is compared."
    );
}

/// Each parameter that is not from a source is there, and a change that matters is seen.
#[test]
fn sensitivity_varies_everything_that_is_not_from_a_source() {
    let report = report(&Experiment { senders: 12, queues: 1, sensitivity: true, ..experiment(&Path::ALL) });
    for cost in COSTS {
        let is_row = |row: &&Sensitivity| matches!(row.change, Change::Cost(other, _) if other.name == cost.name);
        let rows = report.sensitivity.iter().filter(is_row).count();
        match cost.origin {
            Origin::Source => assert_eq!(rows, 0, "{}", cost.name),
            Origin::Computed => assert!(rows == 2 || cost.value(&report.plan.costs) == 1 && rows == 1, "{}", cost.name),
            Origin::Chosen => assert_eq!(rows, FACTORS_PCT.len(), "{}", cost.name),
        }
    }
    assert!(report.sensitivity.iter().all(|row| row.change.apply(&report.plan) != report.plan));
    assert!(report.sensitivity.iter().all(|row| row.results.len() == 2));
    let mpps = |percent: u64| {
        let row = report.sensitivity.iter().find(|row| {
            matches!(row.change, Change::Cost(cost, by) if cost.name == "transfer_other_socket_ns" && by == percent)
        });
        row.expect("a row of this change").results[0].outcome.mpps()
    };
    assert!(mpps(50) > 1.1 * mpps(200), "{} and {} Mpps", mpps(50), mpps(200));
}

#[test]
fn what_cannot_be_run_is_refused() {
    let stop = AtomicBool::new(false);
    let none = Experiment { paths: Vec::new(), ..experiment(&[]) };
    assert_eq!(run(&none, &stop, &|_, _| {}).err(), Some(PlanError::Nothing));
    let many = Experiment { senders: 480, ..experiment(&[Path::List]) };
    assert_eq!(run(&many, &stop, &|_, _| {}).err(), Some(PlanError::TooFewCpus { cpus: 480 }));
}

//! Journals of runs that own some receive queues of an interface.

mod common;

use common::{config, pair};
use napier_core::control::NapiChange;
use napier_core::control::plan::{Plan, Write};
use napier_linux::change::{DeviceRef, JournalError, Ledger, Line, Recovered, Scope, lines_of_queues};
use napier_linux::{Veth, VethConfig, VethEnd};

fn device(end: &VethEnd) -> DeviceRef {
    DeviceRef { ifindex: end.ifindex(), name: end.name().to_owned() }
}

fn lines(end: &VethEnd, queues: &str) -> Vec<Line> {
    let plan: Plan = [NapiChange::DeferHardIrqs(9)].map(Write::Instance).into_iter().collect();
    lines_of_queues(&plan, &device(end), &queues.parse().expect("a list")).expect("they are there")
}

struct Stage {
    pair: Veth,
    folder: napier_testkit::Folder,
}

impl Stage {
    fn new(test: &str) -> Option<Self> {
        let pair = pair(test, &VethConfig { queues: 4, gro: true, tso: false, ..config() })?;
        Some(Self { pair, folder: napier_testkit::Folder::new(test) })
    }

    fn end(&self) -> &VethEnd {
        self.pair.left()
    }

    /// Counts of the instances, in the order of their queues.
    fn counts(&self) -> Vec<u32> {
        let mut napis = self.end().napis().expect("listed");
        napis.sort_unstable_by_key(|napi| napi.id);
        napis.iter().map(|napi| napi.defer_hard_irqs.expect("shown")).collect()
    }

    fn begin(&self, queues: Option<&str>) -> (Result<Ledger, JournalError>, Vec<Recovered>) {
        let queues = queues.map(|list| list.parse().expect("a list"));
        let scope = Scope::device_or_queues(device(self.end()), queues).expect("a namespace");
        let mut found = Vec::new();
        let begun = Ledger::begin_in(&self.folder, &scope, 8, &mut |one| found.push(one.clone()));
        (begun, found)
    }

    fn inside(&self, act: impl FnOnce() + Send) {
        self.end().netns().run(act).expect("entered");
    }
}

#[test]
fn what_a_killed_run_left_is_put_back_by_one_that_wants_some_of_it() {
    let Some(stage) = Stage::new("what_a_killed_run_left_is_put_back_by_one_that_wants_some_of_it") else { return };
    stage.inside(|| {
        // Another set of queues, all of them, and the same.
        for next in [Some("1-3"), None, Some("0-1"), Some("1")] {
            let mut killed = stage.begin(Some("0-1")).0.expect("a journal");
            killed.apply(&lines(stage.end(), "0-1")).expect("applied");
            assert_eq!(stage.counts(), [9, 9, 0, 0]);
            drop(killed);
            let (ledger, found) = stage.begin(next);
            let put_back: usize = found.iter().map(|one| one.undone.put_back.len()).sum();
            assert_eq!((put_back, stage.counts()), (2, vec![0; 4]), "{next:?}: {found:?}");
            assert!(ledger.expect("a journal").put_back().left.is_empty());
        }
        // One that wants none of it leaves it.
        let mut killed = stage.begin(Some("0-1")).0.expect("a journal");
        killed.apply(&lines(stage.end(), "0-1")).expect("applied");
        drop(killed);
        let (ledger, found) = stage.begin(Some("2"));
        assert_eq!((found.iter().flat_map(|one| &one.undone.put_back).count(), stage.counts()), (0, vec![9, 9, 0, 0]));
        assert!(ledger.expect("a journal").put_back().left.is_empty());
        assert!(stage.begin(None).0.expect("a journal").put_back().left.is_empty());
        assert_eq!(stage.counts(), [0; 4]);
        assert_eq!(std::fs::read_dir(&stage.folder).expect("there").count(), 0);
    });
}

#[test]
fn queues_have_one_owner_each() {
    let Some(stage) = Stage::new("queues_have_one_owner_each") else { return };
    stage.inside(|| {
        let mut one = stage.begin(Some("0,2")).0.expect("a journal");
        let two = stage.begin(Some("1,3")).0.expect("they are others");
        for wanted in [Some("2"), Some("0,2"), Some("2-3"), None] {
            let refused = stage.begin(wanted).0.expect_err("it is held").to_string();
            assert!(refused.contains(&format!("(pid {}) has queue", std::process::id())), "{refused}");
        }
        one.apply(&lines(stage.end(), "0,2")).expect("applied");
        assert!(two.put_back().left.is_empty());
        assert_eq!(stage.counts(), [9, 0, 9, 0]);
        assert_eq!(one.put_back().put_back.len(), 2);
        assert_eq!(stage.counts(), [0; 4]);
    });
}

/// What a reset of the driver, or another program, made of a value is written again, and what was there at first is put back.
#[test]
fn what_is_applied_again_keeps_what_was_there_at_first() {
    let Some(stage) = Stage::new("what_is_applied_again_keeps_what_was_there_at_first") else { return };
    stage.inside(|| {
        let lines = lines(stage.end(), "1-2");
        lines[0].key.write("4").expect("written");
        let mut ledger = stage.begin(Some("1-2")).0.expect("a journal");
        assert_eq!(ledger.apply_again(&lines).expect("applied"), 0, "they are new");
        for _ in 0..3 {
            lines[0].key.write("1").expect("written");
            assert_eq!(ledger.apply_again(&lines).expect("applied"), 1);
            assert_eq!((stage.counts(), ledger.entries().len()), (vec![0, 9, 9, 0], 2));
        }
        assert_eq!(ledger.apply_again(&lines).expect("applied"), 0);
        assert!(ledger.put_back().left.is_empty());
        assert_eq!(stage.counts(), [0, 4, 0, 0]);
    });
}

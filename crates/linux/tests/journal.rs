//! The journal of a run that is killed, at every point of it: what the next one finds is put back.

mod common;

use std::path::{Path, PathBuf};

use common::{config, pair};
use napier_core::control::NapiChange;
use napier_core::control::plan::{Plan, Write};
use napier_core::time::Span;
use napier_linux::change::{DeviceRef, Entry, Journal, JournalError, Keep, Ledger, Line, Recovered, Scope, lines_of};
use napier_linux::{Veth, VethConfig};

/// A folder that ends with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("napier-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("made");
        Self(path)
    }

    /// Begins a journal, and what it found of an earlier run.
    fn begin(&self, scope: &Scope, keep: Keep) -> (Result<Journal, JournalError>, Vec<Recovered>) {
        let mut found = Vec::new();
        let begun = Journal::begin_in(&self.0, scope, keep, 8, &mut |one| found.push(one.clone()));
        (begun, found)
    }

    fn journal(&self) -> PathBuf {
        let entries = std::fs::read_dir(&self.0).expect("listed").flatten().map(|entry| entry.path());
        entries.into_iter().find(|path| path.extension().is_some_and(|end| end == "journal")).expect("a journal")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn plan() -> Plan {
    let changes = [
        NapiChange::DeferHardIrqs(100),
        NapiChange::GroFlushTimeout(Span::from_us(20)),
        NapiChange::IrqSuspendTimeout(Span::from_secs(5)),
    ];
    changes.map(Write::Instance).into_iter().collect()
}

fn in_pair(test: &str, act: impl FnOnce(&Folder, &Scope, &[Line]) + Send) {
    let Some(pair): Option<Veth> = pair(test, &VethConfig { gro: true, tso: false, ..config() }) else { return };
    let end = pair.left();
    let at_first = end.napis().expect("listed");
    end.netns()
        .run(|| {
            let device = DeviceRef { ifindex: end.ifindex(), name: end.name().to_owned() };
            let lines = lines_of(&plan(), &device).expect("lines");
            let scope = Scope::device(device).expect("a namespace");
            act(&Folder::new(test), &scope, &lines);
        })
        .expect("entered");
    assert_eq!(end.napis().expect("listed"), at_first);
}

fn entry(line: &Line) -> Entry {
    let before = line.key.read().expect("read");
    Entry { key: line.key.clone(), before, after: line.value.clone(), or: None }
}

fn cut(path: &Path, bytes: usize) {
    let whole = std::fs::read(path).expect("read");
    std::fs::write(path, &whole[..bytes]).expect("written");
}

#[test]
fn a_run_that_is_killed_between_any_two_steps_is_put_back() {
    in_pair("a_run_that_is_killed_between_any_two_steps_is_put_back", |folder, scope, lines| {
        for noted in 0..=lines.len() {
            for written in noted.saturating_sub(1)..=noted {
                let (journal, _) = folder.begin(scope, Keep::Run);
                let mut journal = journal.expect("a journal");
                for (at, line) in lines.iter().enumerate().take(noted) {
                    journal.note(&entry(line)).expect("noted");
                    if at < written {
                        line.key.write(&line.value).expect("written");
                    }
                }
                journal.keep();
                let (journal, found) = folder.begin(scope, Keep::Run);
                assert_eq!(found[0].undone.put_back.len(), written, "{noted} noted, {written} written: {found:?}");
                assert!(found[0].undone.left.is_empty() && found[0].damaged == 0, "{found:?}");
                journal.expect("a journal").close();
            }
        }
    });
}

#[test]
fn a_journal_that_was_not_written_whole_is_read_as_far_as_it_is() {
    in_pair("a_journal_that_was_not_written_whole_is_read_as_far_as_it_is", |folder, scope, lines| {
        let noted = |folder: &Folder| {
            let mut journal = folder.begin(scope, Keep::Run).0.expect("a journal");
            for line in lines {
                journal.note(&entry(line)).expect("noted");
            }
            journal.keep();
            folder.journal()
        };
        let path = noted(folder);
        let whole = std::fs::read(&path).expect("read");
        let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
        assert_eq!(ends.len(), lines.len() + 1);
        let used = ends[lines.len()] + 1;
        for bytes in (ends[0]..used).step_by(7).chain([used]) {
            let path = noted(folder);
            cut(&path, bytes);
            // The change of a line that is not there whole was not made.
            let entries = ends[1..].iter().filter(|end| bytes >= **end).count();
            lines[..entries].iter().for_each(|line| line.key.write(&line.value).expect("written"));
            let (journal, found) = folder.begin(scope, Keep::Run);
            assert_eq!((found[0].undone.put_back.len(), found[0].damaged), (entries, 0), "{bytes}: {found:?}");
            journal.expect("a journal").close();
        }
    });
}

#[test]
fn damage_is_said_and_the_file_is_kept_aside() {
    in_pair("damage_is_said_and_the_file_is_kept_aside", |folder, scope, lines| {
        // In the header, and in the second of three entries.
        for (damaged_line, put_back) in [(0, 0), (2, 2)] {
            let mut journal = folder.begin(scope, Keep::Run).0.expect("a journal");
            for line in lines {
                journal.note(&entry(line)).expect("noted");
            }
            journal.keep();
            lines.iter().for_each(|line| line.key.write(&line.value).expect("written"));
            let path = folder.journal();
            let mut bytes = std::fs::read(&path).expect("read");
            let start = bytes.split(|byte| *byte == b'\n').take(damaged_line).map(|line| line.len() + 1).sum::<usize>();
            bytes[start + 40] ^= 1;
            std::fs::write(&path, &bytes).expect("written");
            let (journal, found) = folder.begin(scope, Keep::Run);
            assert_eq!((found[0].undone.put_back.len(), found[0].damaged), (put_back, 1), "{found:?}");
            let aside = found[0].aside.clone().expect("kept");
            assert_eq!(std::fs::read(&aside).expect("there"), bytes);
            std::fs::remove_file(aside).expect("ours");
            journal.expect("a journal").close();
            lines.iter().for_each(|line| line.key.write("0").expect("written"));
        }
    });
}

#[test]
fn a_journal_is_written_anew_with_what_still_counts() {
    in_pair("a_journal_is_written_anew_with_what_still_counts", |folder, scope, lines| {
        let mut journal = folder.begin(scope, Keep::Run).0.expect("a journal");
        let first = entry(&lines[0]);
        let mut count = 0;
        while journal.has_room() {
            journal.note(&first).expect("noted");
            count += 1;
        }
        assert!(count >= 8, "{count}");
        let kept: Vec<Entry> = lines.iter().map(entry).collect();
        journal.rewrite(&kept, 4).expect("written");
        assert!(journal.has_room());
        // It is still this run's.
        assert!(matches!(folder.begin(scope, Keep::Run).0, Err(JournalError::Busy { .. })));
        lines.iter().for_each(|line| line.key.write(&line.value).expect("written"));
        journal.keep();
        let (journal, found) = folder.begin(scope, Keep::Run);
        assert_eq!(found[0].undone.put_back.len(), lines.len(), "{found:?}");
        journal.expect("a journal").close();
    });
}

#[test]
fn a_run_comes_on_top_of_what_is_kept() {
    in_pair("a_run_comes_on_top_of_what_is_kept", |folder, scope, _| {
        let kept = folder.begin(scope, Keep::UntilUndone).0.expect("a journal");
        kept.keep();
        let run = folder.begin(scope, Keep::Run).0.expect("a run may come");
        // Tuning, and its way back, wait for the run.
        assert!(matches!(folder.begin(scope, Keep::UntilUndone).0, Err(JournalError::Busy { .. })));
        run.close();
        assert!(matches!(folder.begin(scope, Keep::UntilUndone).0, Err(JournalError::Kept { .. })));
    });
}

/// The interface goes down and up very often in one run: the journal does not grow with that.
#[test]
fn instances_that_are_made_anew_take_the_place_of_those_that_went() {
    let test = "instances_that_are_made_anew_take_the_place_of_those_that_went";
    let Some(pair): Option<Veth> = pair(test, &VethConfig { gro: true, tso: false, ..config() }) else { return };
    let (end, folder) = (pair.left(), Folder::new(test));
    let values = || {
        let napis = end.napis().expect("listed");
        napis.iter().map(|napi| (napi.defer_hard_irqs, napi.gro_flush_timeout)).collect::<Vec<_>>()
    };
    let device = DeviceRef { ifindex: end.ifindex(), name: end.name().to_owned() };
    let lines = || lines_of(&plan(), &device).expect("lines");
    let run = || {
        // What the first instance has is forgotten by the kernel, and put back all the same.
        let own = lines().into_iter().find(|line| line.key.to_string().starts_with("gro-flush-timeout"));
        own.expect("a line").key.write("7777").expect("written");
        let at_first = values();
        let scope = Scope::device(device.clone()).expect("a namespace");
        for is_killed in [false, true] {
            let mut ledger = Ledger::begin_in(&folder.0, &scope, 8, &mut |_| {}).expect("a journal");
            ledger.apply(&lines()).expect("applied");
            let in_force = values();
            assert_ne!(in_force, at_first);
            let (mut longest, size) = (0, || std::fs::metadata(folder.journal()).expect("there").len());
            for _ in 0..200 {
                end.set_up(false).and_then(|()| end.set_up(true)).expect("down and up");
                assert_ne!(values(), in_force, "the kernel forgets it");
                ledger.apply(&lines()).expect("applied");
                assert_eq!(values(), in_force);
                longest = longest.max(ledger.entries().len());
            }
            assert!(longest > 100 && size() < 100_000, "{longest} entries, {} bytes", size());
            if is_killed {
                drop(ledger);
                let begun = folder.begin(&scope, Keep::Run);
                assert_eq!(begun.1[0].undone.left, Vec::<String>::new());
                begun.0.expect("a journal").close();
            } else {
                let undone = ledger.put_back();
                assert!(undone.left.is_empty() && undone.gone.is_empty(), "{undone:?}");
            }
            assert_eq!(values(), at_first);
        }
    };
    end.netns().run(run).expect("entered");
}

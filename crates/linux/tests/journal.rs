//! The journal of a run that is killed, at every point of it: what the next one finds is put back.

mod common;

use std::path::{Path, PathBuf};

use common::{config, pair};
use napier_core::control::NapiChange;
use napier_core::control::plan::{Plan, Write};
use napier_core::time::Span;
use napier_linux::change::{
    DeviceRef, Entry, EthtoolKey, Journal, JournalError, Keep, Key, Ledger, Line, Recovered, Scope, lines_of,
};
use napier_linux::ethtool::Group;
use napier_linux::{Veth, VethConfig};

/// A folder that ends with the test.
struct Folder(napier_testkit::Folder);

impl Folder {
    fn new(test: &str) -> Self {
        Self(napier_testkit::Folder::new(test))
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

/// What is behind the first bytes was not written.
fn cut(path: &Path, bytes: usize) {
    let mut whole = std::fs::read(path).expect("read");
    whole[bytes..].fill(0);
    std::fs::write(path, &whole).expect("written");
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
        // In the header, in the second of three entries, and in the last.
        for (damaged_line, put_back) in [(0, 0), (2, 2), (3, 2)] {
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
fn a_file_that_was_cut_is_said() {
    in_pair("a_file_that_was_cut_is_said", |folder, scope, lines| {
        let mut journal = folder.begin(scope, Keep::Run).0.expect("a journal");
        lines.iter().for_each(|line| journal.note(&entry(line)).expect("noted"));
        journal.keep();
        let path = folder.journal();
        let whole = std::fs::read(&path).expect("read");
        let used = whole.iter().rposition(|byte| *byte == b'\n').expect("lines") + 1;
        std::fs::write(&path, &whole[..used]).expect("written");
        let (journal, found) = folder.begin(scope, Keep::Run);
        assert_eq!(found[0].damaged, 1, "{found:?}");
        journal.expect("a journal").close();
    });
}

#[test]
fn runs_with_different_folders_see_each_other() {
    in_pair("runs_with_different_folders_see_each_other", |folder, scope, lines| {
        let other = Folder::new("another-folder");
        let mut ledger = Ledger::begin_in(&folder.0, scope, lines.len(), &mut |_| {}).expect("a journal");
        ledger.apply(lines).expect("applied");
        let refused = other.begin(scope, Keep::Run).0.expect_err("it is held");
        let pid = std::process::id();
        assert!(matches!(&refused, JournalError::Busy { pid: found, .. } if *found == pid), "{refused}");
        assert!(matches!(other.begin(scope, Keep::UntilUndone).0, Err(JournalError::Busy { .. })));
        assert_eq!(std::fs::read_dir(&other.0).expect("there").count(), 0, "and nothing is left of that");
        assert!(ledger.put_back().left.is_empty());
        other.begin(scope, Keep::Run).0.expect("it is free").close();
    });
}

#[test]
fn a_folder_that_others_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    in_pair("a_folder_that_others_write_to_is_refused", |folder, scope, _| {
        std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(0o777)).expect("ours");
        let refused = folder.begin(scope, Keep::Run).0.expect_err("anybody may put a journal there");
        assert!(refused.to_string().contains("another user may write there"), "{refused}");
    });
}

/// A number of an interface is given again: what is put back belongs to the one that was changed.
#[test]
fn another_interface_with_its_number_is_left_alone() {
    in_pair("another_interface_with_its_number_is_left_alone", |folder, scope, lines| {
        let Scope::Device { device, netns, node, queues } = scope.clone() else { unreachable!("it is an interface") };
        let other = Scope::Device { device, netns, node: node.map(|node| node ^ (1 << 40)), queues };
        let mut ledger = Ledger::begin_in(&folder.0, &other, lines.len(), &mut |_| {}).expect("a journal");
        ledger.apply(lines).expect("applied");
        let undone = ledger.put_back();
        assert_eq!((undone.put_back.len(), undone.gone.len()), (0, 1), "{undone:?}");
        lines.iter().for_each(|line| assert_eq!(line.key.read().expect("read").as_ref(), Some(&line.value)));
        lines.iter().for_each(|line| line.key.write("0").expect("written"));
    });
}

fn channels(device: &DeviceRef, name: &str) -> Key {
    Key::Ethtool(EthtoolKey { device: device.clone(), group: Group::Channels, name: name.to_owned() })
}

/// A queue is switched off when the run ends: its instance keeps what it has, and has it again when it is there again.
#[test]
fn what_is_away_at_the_end_is_put_back_when_it_is_there_again() {
    let test = "what_is_away_at_the_end_is_put_back_when_it_is_there_again";
    let Some(pair): Option<Veth> = pair(test, &VethConfig { queues: 2, gro: true, tso: false, ..config() }) else {
        return;
    };
    let (end, folder) = (pair.left(), Folder::new(test));
    let values = || {
        let napis = end.napis().expect("listed");
        napis.iter().map(|napi| (napi.defer_hard_irqs, napi.irq_suspend_timeout)).collect::<Vec<_>>()
    };
    let at_first = values();
    let run = || {
        let device = DeviceRef { ifindex: end.ifindex(), name: end.name().to_owned() };
        let scope = Scope::device(device.clone()).expect("a namespace");
        let lines = || lines_of(&plan(), &device).expect("lines");
        let mut ledger = Ledger::begin_in(&folder.0, &scope, 8, &mut |_| {}).expect("a journal");
        ledger.apply(&lines()).expect("applied");
        channels(&device, "rx").write("1").expect("one queue less");
        let undone = ledger.put_back();
        assert!(undone.away > 0 && undone.gone.is_empty() && !undone.is_refused, "{undone:?}");
        assert!(undone.left.iter().all(|left| left.contains("when it is there again")), "{undone:?}");
        // A run without it may come, and leaves it as it is noted.
        let mut ledger = Ledger::begin_in(&folder.0, &scope, 8, &mut |_| {}).expect("the queue is none of its matter");
        ledger.apply(&lines()).expect("applied");
        assert_eq!(ledger.put_back().away, undone.away);
        channels(&device, "rx").write("2").expect("there again");
        assert_ne!(values(), at_first, "the kernel has kept it");
        let (journal, found) = folder.begin(&scope, Keep::Run);
        assert_eq!(found[0].undone.away, 0, "{found:?}");
        journal.expect("a journal").close();
        assert_eq!(values(), at_first);
    };
    end.netns().run(run).expect("entered");
}

#[test]
fn what_queues_had_that_were_switched_off_comes_back_with_them() {
    let test = "what_queues_had_that_were_switched_off_comes_back_with_them";
    let Some(pair): Option<Veth> = pair(test, &VethConfig { queues: 2, gro: true, tso: false, ..config() }) else {
        return;
    };
    let (end, folder) = (pair.left(), Folder::new(test));
    let run = || {
        let device = DeviceRef { ifindex: end.ifindex(), name: end.name().to_owned() };
        let scope = Scope::device(device.clone()).expect("a namespace");
        let of = |file: &str| Key::device_file(&device, format!("queues/{file}"));
        let masks = [of("rx-1/rps_cpus"), of("tx-1/xps_cpus")];
        masks.iter().for_each(|mask| mask.write("1").expect("written"));
        for is_killed in [false, true] {
            let mut ledger = Ledger::begin_in(&folder.0, &scope, 8, &mut |_| {}).expect("a journal");
            ledger.apply(&["rx", "tx"].map(|kind| Line::new(channels(&device, kind), "1"))).expect("applied");
            assert!(masks.iter().all(|mask| mask.read().is_err()), "they went with their queues");
            if is_killed {
                drop(ledger);
                folder.begin(&scope, Keep::Run).0.expect("a journal").close();
            } else {
                assert_eq!(ledger.put_back().left, Vec::<String>::new());
            }
            for mask in &masks {
                assert!(mask.read().is_ok_and(|now| now.is_some_and(|now| mask.same(&now, "1"))), "{mask}");
            }
        }
    };
    end.netns().run(run).expect("entered");
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

//! `--confirm`: what nobody confirms is put back, whatever becomes of the command that made it.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Folder, kill_and_wait, napier_at, pair, text, would_change_the_machine};
use napier_linux::{Veth, VethEnd};
use napier_testkit::eventually;

/// A pair whose left end has no instance, so that there is something to mend.
fn to_mend(test: &str) -> Option<(Veth, Folder)> {
    let (pair, folder) = (pair(test)?, Folder::new(test));
    (!would_change_the_machine(test, pair.left(), &folder)).then_some((pair, folder))
}

fn instances(end: &VethEnd) -> usize {
    end.napis().expect("listed").len()
}

/// Files of the state folder that end so.
fn files(folder: &Folder, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.file("state")).into_iter().flatten();
    let paths = entries.map(|entry| entry.expect("one").path());
    paths.filter(|path| path.extension().is_some_and(|found| found == end)).collect()
}

/// The process that waits for the end of a trial.
fn watcher(file: &Path) -> Option<u32> {
    let wanted = file.to_str().expect("text");
    let pids =
        std::fs::read_dir("/proc").expect("listed").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let waits = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split('\0').any(|word| word == wanted))
    };
    pids.into_iter().find(waits)
}

const FIX: [&str; 4] = ["doctor", "--dev", "server", "--fix"];

#[test]
fn what_nobody_confirms_is_put_back_after_the_command_has_ended() {
    let Some((pair, folder)) = to_mend("what_nobody_confirms_is_put_back_after_the_command_has_ended") else { return };
    let end = pair.left();
    let fixed = napier_at(end, &folder, &[&FIX[..], &["--confirm", "5s"]].concat());
    let said = String::from_utf8_lossy(&fixed.stderr).into_owned();
    assert!(said.contains("on trial for 5 s: `napier host confirm` keeps it"), "{said}");
    // A slow machine may have put it back already; if not, the end of its terminal does not keep it from that.
    if let [file] = &files(&folder, "trial")[..]
        && let Some(watcher) = watcher(file)
    {
        let _ = Command::new("kill").args(["-HUP", &watcher.to_string()]).status();
    }
    eventually("it is put back", || instances(end) == 0);
    eventually("nothing is left", || ["trial", "over", "journal"].iter().all(|end| files(&folder, end).is_empty()));
}

#[test]
fn what_is_confirmed_stays_until_it_is_undone() {
    let Some((pair, folder)) = to_mend("what_is_confirmed_stays_until_it_is_undone") else { return };
    let end = pair.left();
    let fixed = napier_at(end, &folder, &[&FIX[..], &["--confirm", "1h"]].concat());
    let [file] = &files(&folder, "trial")[..] else { panic!("{fixed:?}") };
    let watcher = watcher(file).expect("a process waits");
    assert_eq!(text(&napier_at(end, &folder, &["host", "confirm"])), "kept\n");
    eventually("nobody waits any more", || !Path::new(&format!("/proc/{watcher}")).exists());
    assert_eq!(instances(end), 1);
    assert_eq!(text(&napier_at(end, &folder, &["host", "confirm"])), "nothing is on trial\n");
    napier_at(end, &folder, &["host", "undo"]);
    assert_eq!(instances(end), 0);
}

#[test]
fn a_trial_whose_process_was_killed_ends_with_the_next_command() {
    let Some((pair, folder)) = to_mend("a_trial_whose_process_was_killed_ends_with_the_next_command") else { return };
    let end = pair.left();
    napier_at(end, &folder, &[&FIX[..], &["--confirm", "1h"]].concat());
    let [file] = &files(&folder, "trial")[..] else { panic!("no trial") };
    let watcher = watcher(file).expect("a process waits");
    kill_and_wait(watcher);
    assert_eq!(instances(end), 1);
    napier_at(end, &folder, &["napi-get", "--dump"]);
    assert_eq!((instances(end), files(&folder, "trial").len()), (0, 0));
}

#[test]
fn a_mode_that_nobody_confirms_ends_with_its_program() {
    let test = "a_mode_that_nobody_confirms_ends_with_its_program";
    let Some(pair) = pair(test) else { return };
    let (end, folder) = (pair.left(), Folder::new(test));
    end.set_feature(c"rx-gro", true).expect("switched");
    let before = end.napis().expect("listed");
    let args = ["run", "--dev", "server", "--mode", "defer20", "--confirm", "1s", "--", "sleep", "50"];
    let ended = napier_at(end, &folder, &args);
    assert_eq!(ended.status.code(), Some(128 + 15), "{ended:?}");
    let settings = |of: &[napier_core::control::NapiInfo]| {
        of.iter().map(|info| (info.defer_hard_irqs, info.gro_flush_timeout)).collect::<Vec<_>>()
    };
    assert_eq!(settings(&end.napis().expect("listed")), settings(&before));
    eventually("nothing is left", || ["trial", "over"].iter().all(|end| files(&folder, end).is_empty()));
    // Not on trial, it goes on.
    let args = ["run", "--dev", "server", "--mode", "defer20", "--confirm", "no", "--", "true"];
    assert_eq!(napier_at(end, &folder, &args).status.code(), Some(0));
}

#[test]
fn nothing_is_on_trial_where_nothing_was_changed() {
    let Some((pair, folder)) = to_mend("nothing_is_on_trial_where_nothing_was_changed") else { return };
    pair.left().set_feature(c"rx-gro", true).expect("switched");
    let fixed = napier_at(pair.left(), &folder, &[&FIX[..], &["--confirm", "1h"]].concat());
    assert!(files(&folder, "trial").is_empty() && fixed.stderr.is_empty(), "{fixed:?}");
}

use std::path::Path;

use napier_testkit::Folder;

use super::super::Look;
use super::*;

fn once(command: &str, limit: Duration) -> Result<(f64, Unit), String> {
    PrintedNumber::new(command, limit).run(&Going::once())
}

/// Long enough for whatever a shell does on a busy machine.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn numbers_are_read_with_their_units() {
    let printed = [
        ("echo 1.2ms", 0.0012, Unit::Seconds),
        ("echo 200us", 0.0002, Unit::Seconds),
        ("printf ' 0.03\\n\\n'", 0.03, Unit::Plain),
        ("printf 1e3", 1000.0, Unit::Plain),
        ("echo 12%", 0.12, Unit::Share),
        ("echo 5; echo said >&2", 5.0, Unit::Plain),
    ];
    for (command, value, unit) in printed {
        let (found, its) = once(command, LONG).unwrap_or_else(|why| panic!("{command}: {why}"));
        assert!((found - value).abs() < 1e-12 && its == unit, "{command}: {found} {its:?}");
    }
}

#[test]
fn what_is_no_number_is_told() {
    for (command, told) in [
        ("true", "it printed nothing"),
        ("echo fast", "it printed `fast`"),
        ("echo nan", "it printed `nan`"),
        ("echo 1; echo 2", "it printed `1` and more lines"),
        ("echo no route >&2; exit 3", "a run of it failed: `no route`"),
        ("exit 3", "a run of it failed (exit status: 3)"),
        ("kill -9 $$", "a run of it failed (signal: 9"),
        ("yes", "it prints more than 4096 bytes"),
        ("head -c 3000000 /dev/zero", "it prints more than 4096 bytes"),
        ("/no/such/program", "a run of it failed:"),
    ] {
        let why = once(command, LONG).expect_err(command);
        assert!(why.starts_with(told), "{command}: {why}");
    }
}

/// Whether a process with this text in its command line runs.
fn runs(text: &str) -> bool {
    let of = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(of);
    all.into_iter().any(|line| String::from_utf8_lossy(&line).replace('\0', " ").contains(text))
}

#[test]
fn a_run_that_hangs_is_ended_with_all_that_it_started() {
    let mark = format!("9{:05}.25", std::process::id() % 100_000);
    let hangs = format!("sleep {mark} & sleep {mark}; echo 1");
    let why = once(&hangs, Duration::from_millis(200)).expect_err("it hangs");
    assert!(why.contains("took longer than"), "{why}");
    napier_testkit::eventually("they are ended", || !runs(&format!("sleep {mark}")));
    // One that leaves a child which keeps its outputs open is not waited for, and the child is ended.
    assert_eq!(once(&format!("sleep {mark} & echo 7"), LONG), Ok((7.0, Unit::Plain)));
    napier_testkit::eventually("it is ended", || !runs(&format!("sleep {mark}")));
}

#[test]
fn a_run_ends_with_the_judge() {
    let folder = Folder::new("judge-command");
    let mark = format!("8{:05}.25", std::process::id() % 100_000);
    let flag = folder.file("is-second");
    // The first run, before the judge begins, does not hang.
    let text = format!("if test -e {flag}; then sleep {mark}; else touch {flag}; echo 1; fi");
    let mut judge = command("cmd:x", &text, None, Better::Less).expect("the first run prints a number");
    judge.begin().expect("it begins");
    napier_testkit::eventually("it hangs", || runs(&format!("sleep {mark}")));
    assert_eq!(judge.look(), Ok(Look::Nothing), "it does not wait");
    drop(judge);
    napier_testkit::eventually("it is ended", || !runs(&format!("sleep {mark}")));
    assert!(Path::new(&flag).exists());
}

#[test]
fn numbers_of_a_block_have_a_mean() {
    let folder = Folder::new("judge-command");
    let at = folder.file("n");
    std::fs::write(&at, "10").expect("written");
    let mut judge = command("cmd:x", &format!("cat {at}"), Some("rate"), Better::More).expect("a number");
    assert_eq!(judge.figures(), [JudgedFigure { name: "rate".to_owned(), unit: Unit::Plain, better: Better::More }]);
    judge.begin().expect("it begins");
    napier_testkit::eventually(
        "it is seen",
        || matches!(judge.look(), Ok(Look::Seen(reading)) if reading.values == [Some(10.0)]),
    );
    assert!(judge.patience() >= PAUSE);
    assert!(command("cmd:x", "echo", None, Better::Less).is_err());
}

#[test]
fn a_command_names_its_figure() {
    let names = [("./p99.sh", "p99"), ("/usr/bin/tail-of.py -n 3", "tail-of"), ("curl|jq", "command"), ("", "command")];
    for (command, name) in names {
        assert_eq!(name_of(command), name, "{command}");
    }
}

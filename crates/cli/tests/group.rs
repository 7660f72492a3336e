//! `napier group` on a server's engine, as a user has it.

mod common;

use common::{Served, ended, refused};
use serde_json::Value;

impl Served {
    fn words<'a>(&'a self, line: &'a str) -> Vec<&'a str> {
        ["group"].into_iter().chain(line.split_whitespace()).chain(["--engine", &self.pid]).collect()
    }

    fn done(&self, line: &str) -> String {
        let (status, out, said) = ended(&self.words(line));
        assert_eq!((status, said.as_str()), (Some(0), ""), "{line}: {out}");
        out
    }

    fn shown(&self) -> Value {
        serde_json::from_str(&self.done("show --json")).expect("JSON")
    }
}

#[test]
fn a_group_is_made_changed_shown_and_taken_away() {
    let served = Served::new("group-life");
    assert_eq!(served.done("show"), "no groups\n");
    let cpu = allowed_cpu();
    served.done(&format!("new g --cpus {cpu} --min-active 0 --delay-target 20us"));
    let shown = served.shown();
    assert_eq!(
        (&shown[0]["name"], &shown[0]["delay-target"], &shown[0]["min-active"]),
        (&"g".into(), &20_000.into(), &0.into())
    );
    assert_eq!(shown[0]["cpus"][0]["cpu"], cpu);
    assert!(
        shown[0]["cpus"][0]["pid"].as_u64().is_some_and(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists())
    );
    served.done("set g --policy compact --min-active 1");
    let shown = served.shown();
    assert_eq!(
        (&shown[0]["policy"], &shown[0]["delay-target"]),
        (&"compact".into(), &20_000.into()),
        "what was not named stays"
    );
    assert_eq!((&shown[0]["class"], &shown[0]["cpus"][0]["class"]), (&"auto".into(), &"other".into()));
    let page = served.done("show g");
    assert!(page.starts_with("g: policy compact, delay-target 20 us, min-active 1\n"), "{page}");
    served.done("del g");
    assert_eq!(served.shown(), Value::Array(Vec::new()));
}

#[test]
fn what_cannot_be_is_said_in_a_line_and_changes_nothing() {
    let served = Served::new("group-refused");
    let cpu = allowed_cpu();
    served.done(&format!("new g --cpus {cpu}"));
    let before = served.shown();
    for (line, status, words) in [
        (format!("new g --cpus {cpu}"), 1, "there is a group g already"),
        (format!("new h --cpus {cpu}"), 1, "is in group g"),
        ("new h --cpus 9999".to_owned(), 1, "CPU 9999 is not there"),
        ("new h --cpus 1-".to_owned(), 2, "no list of CPUs"),
        ("new h --numa 999".to_owned(), 2, "there is no NUMA node 999"),
        (format!("new a/b --cpus {cpu}"), 1, "cannot name a group"),
        ("set g".to_owned(), 2, "nothing to set"),
        ("set g --min-active 2".to_owned(), 1, "min-active 2 for a group of 1 CPU:"),
        ("set g --delay-target soon".to_owned(), 2, "give one such as 200us"),
        ("set g --delay-target 2s".to_owned(), 1, "a delay target of 2000000000 ns"),
        ("set g --class best".to_owned(), 2, "invalid value 'best' for '--class"),
        ("set g --policy best".to_owned(), 2, "none of delay, static, compact"),
        ("set h --min-active 1".to_owned(), 1, "there is no group h"),
        ("attach g".to_owned(), 2, "--cpu"),
        ("attach g --cpu 0 --id 1".to_owned(), 2, "cannot be used with"),
        ("attach g --queue eth7/0".to_owned(), 1, "no device of that name"),
        ("attach g --queue eth7".to_owned(), 1, "queue must be DEVICE/QUEUE"),
        ("attach g --id 4000000".to_owned(), 1, "no enabled NAPI instance has id 4000000"),
        ("detach g --cpu 9999".to_owned(), 1, "CPU 9999 is not in group g"),
        ("del h".to_owned(), 1, "there is no group h"),
        ("show h".to_owned(), 1, "there is no group h"),
    ] {
        refused(&served.words(&line), status, words);
    }
    assert_eq!(before[0]["name"], "g");
    let (now, members) = (served.shown(), before[0]["members"].as_array().map(Vec::len));
    assert_eq!((now.as_array().map(Vec::len), members), (Some(1), Some(0)));
}

/// A CPU that this process may use.
fn allowed_cpu() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list").trim();
    let first = list.split([',', '-']).next().expect("a CPU");
    first.parse().expect("a number")
}

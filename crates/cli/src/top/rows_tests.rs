//! Two snapshots, and what lies between them.

use super::*;

pub(in crate::top) fn instance(packets: u64, polls: u64) -> Instance {
    Instance {
        device: "napier0".to_owned(),
        queue: "0".to_owned(),
        id: "8193".to_owned(),
        mode: "suspend20".to_owned(),
        owner: "none".to_owned(),
        polls: vec![("softirq".to_owned(), polls / 4), ("user".to_owned(), polls - polls / 4)],
        polls_all: Some(polls),
        empty_polls: Some(polls / 2),
        packets: Some(packets),
        taken: None,
        interrupts: Some(packets / 100),
        deferrals: Some(packets / 10),
        suspensions: Some(packets / 5),
        timers: Some(3),
        spinning_ns: Some(polls * 1000),
    }
}

/// Everything that an engine has, as it is after `seconds` of the same load.
pub(in crate::top) fn snapshot(seconds: u64) -> Snapshot {
    let ns = seconds * 1_000_000_000;
    let thread = |name: &str, busy_pct: u64, spinning_pct: u64| Thread {
        role: "napi".to_owned(),
        name: name.to_owned(),
        alive: 1,
        cpu_ns: Some(ns / 100 * busy_pct),
        spinning_ns: Some(ns / 100 * spinning_pct),
        lived_ns: Some(ns),
        ..Thread::default()
    };
    Snapshot {
        at_ns: ns,
        instances: vec![instance(120_000 * seconds, 10_000 * seconds)],
        threads: vec![thread("napier0-0", 100, 60), thread("napier0-1", 10, 0)],
        cpus: vec![Cpu { cpu: "0".to_owned(), runs: Some(70 * seconds), wakeups: Some(5 * seconds), ..Cpu::default() }],
        queues: vec![Queue {
            device: "napier0".to_owned(),
            queue: "0".to_owned(),
            qdisc: "pfifo".to_owned(),
            packets: Some(1000 * seconds),
            waiting: Some(12),
            ..Queue::default()
        }],
        contexts: vec![Context {
            number: "1".to_owned(),
            waits: Some(100 * seconds),
            events: Some(250 * seconds),
            ..Context::default()
        }],
        groups: vec![GroupCpu { group: "g".to_owned(), cpu: "3".to_owned(), queues: 2, ..GroupCpu::default() }],
        programs: vec![ProgramRow {
            program: "nginx".to_owned(),
            whole: "/usr/sbin/nginx".to_owned(),
            programs: 1,
            connected: 9,
            accepted: Some(30 * seconds),
            ..ProgramRow::default()
        }],
        notes: Vec::new(),
    }
}

/// A cell by the key of its column.
fn cell<'a>(table: &'a TopTable, row: usize, key: &str) -> &'a Cell {
    let column = table.columns.iter().position(|column| column.key == key).unwrap_or_else(|| panic!("{key}"));
    &table.rows[row][column]
}

fn number(table: &TopTable, row: usize, key: &str) -> Option<f64> {
    match cell(table, row, key) {
        Cell::Number(number) => number.map(|number| (number * 1e6).round() / 1e6),
        Cell::Text(text) => panic!("{key} is {text}"),
    }
}

fn table(tables: &[TopTable], tab: Tab) -> &TopTable {
    let found = tables.iter().find(|table| table.tab == tab).expect("each tab has a table");
    assert!(found.rows.iter().all(|row| row.len() == found.columns.len()), "{tab:?}");
    found
}

#[test]
fn rates_are_per_second_and_shares_of_the_interval() {
    let tables = tables(&snapshot(10), &snapshot(12));
    let instances = table(&tables, Tab::Instances);
    assert_eq!(number(instances, 0, "packets_per_s"), Some(120_000.0));
    assert_eq!(number(instances, 0, "work_per_poll"), Some(12.0));
    assert_eq!(number(instances, 0, "empty_polls_pct"), Some(50.0));
    assert_eq!(number(instances, 0, "timers_per_s"), Some(0.0));
    assert_eq!(number(instances, 0, "spinning_pct"), Some(1.0));
    assert_eq!(*cell(instances, 0, "poller"), Cell::Text("user".to_owned()));
    let threads = table(&tables, Tab::Threads);
    let shares = |row| ["useful_pct", "spinning_pct", "asleep_pct"].map(|key| number(threads, row, key));
    assert_eq!(shares(0), [Some(40.0), Some(60.0), Some(0.0)]);
    assert_eq!(shares(1), [Some(10.0), Some(0.0), Some(90.0)]);
    assert_eq!(number(table(&tables, Tab::Cpus), 0, "receive_runs_per_s"), Some(70.0));
    assert_eq!(number(table(&tables, Tab::Cpus), 0, "user_pct"), None);
    assert_eq!(number(table(&tables, Tab::Queues), 0, "waiting_pkts"), Some(12.0));
    assert_eq!(number(table(&tables, Tab::Contexts), 0, "events_per_wait"), Some(2.5));
    assert_eq!(*cell(table(&tables, Tab::Groups), 0, "doing"), Cell::Text("awake".to_owned()));
    let programs = table(&tables, Tab::Programs);
    assert_eq!((number(programs, 0, "connected"), number(programs, 0, "accepted_per_s")), (Some(9.0), Some(30.0)));
    assert_eq!(number(programs, 0, "held_calls_per_s"), None);
}

#[test]
fn what_is_new_or_began_anew_has_no_rate() {
    let (then, mut now) = (snapshot(10), snapshot(11));
    now.instances[0].packets = Some(1);
    now.instances.insert(0, Instance { id: "8194".to_owned(), ..instance(5, 5) });
    now.queues[0].qdisc = "fq".to_owned();
    let tables = tables(&then, &now);
    let instances = table(&tables, Tab::Instances);
    assert_eq!(number(instances, 0, "packets_per_s"), None, "it is new");
    assert_eq!(number(instances, 1, "packets_per_s"), None, "it counts from 0 again");
    assert_eq!(number(instances, 1, "work_per_poll"), None);
    assert_eq!(number(instances, 1, "polls_per_s"), Some(10_000.0), "the row is found at another place");
    assert_eq!(number(table(&tables, Tab::Queues), 0, "packets_per_s"), None);
}

#[test]
fn nothing_is_divided_by_nothing() {
    let same = snapshot(10);
    let tables = tables(&same, &same);
    for table in &tables {
        for cell in table.rows.iter().flatten() {
            assert!(!matches!(cell, Cell::Number(Some(number)) if !number.is_finite()), "{:?} {cell:?}", table.tab);
        }
    }
    assert_eq!(*cell(table(&tables, Tab::Instances), 0, "poller"), Cell::Text("-".to_owned()));
}

#[test]
fn a_thread_that_was_preempted_while_it_spun_is_not_useful_below_nothing() {
    let (then, mut now) = (snapshot(1), snapshot(2));
    now.threads[0].cpu_ns = then.threads[0].cpu_ns.map(|ns| ns + 300_000_000);
    let tables = tables(&then, &now);
    let threads = table(&tables, Tab::Threads);
    let shares = ["useful_pct", "spinning_pct", "asleep_pct"].map(|key| number(threads, 0, key));
    assert_eq!(shares, [Some(0.0), Some(30.0), Some(70.0)]);
}

#[test]
fn the_page_has_every_key() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/top.md")).expect("docs/top.md");
    for table in tables(&snapshot(1), &snapshot(2)) {
        let (_, part) = page.split_once(&format!("\n## {}\n", table.tab.name())).expect("a part for each table");
        let part = part.split("\n## ").next().expect("a split has a first part");
        for column in &table.columns {
            assert!(part.contains(&format!("`{}`", column.key)), "{} of {}", column.key, table.tab.name());
        }
    }
}

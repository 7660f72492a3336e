//! The page about the figures is made of the figures.

use std::fmt::Write as _;

use napier_runtime::metric::{Kind, Metric, Unit, metrics};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");

const HEAD: &str = "# The figures of an engine

A running engine counts what happens in it. `Engine::metrics` hands all of it to a program that embeds the engine, each figure with a
name, a unit, a sentence and labels; the control socket answers `metrics` with the same as JSON. This page is made of the code:
`NAPIER_UPDATE=1 cargo test -p napier-runtime --test engine page` writes it anew.

A **counter** only grows; rates are differences of two readings. A **gauge** is what is so now. Times are nanoseconds here; an exporter
for Prometheus writes seconds, and appends the unit and `_total` to the name (`napier_napi_spinning_seconds_total`).

Each figure is read for itself, while the engine runs: sums may be off by the packets that are under way. Reading costs the threads that
poll, send and deliver nothing: it takes no lock of theirs. What queues of AF_XDP sockets lose is asked of the kernel, with
one system call for each.

## What comes and goes

- **Threads.** Samples are by what threads do (`role`), for whom (`name`: device and queue, group, or what the program calls it), and on
  which CPU. When a thread ends its figures stay in the sum of its labels, and the next thread with the same labels is
  added. So none falls. An engine keeps the sums of 64 different sets of labels whose threads are gone; of more, the
  oldest goes into a sum with the name `(gone)` of the same role, and the sum over a role still only grows.
- **Event contexts** are numbered in the order in which the process makes them. The figures of one go with it; the
  first 1024 that are there are listed.
- **Name spaces** are numbered likewise (`netns`), and listed if a device is in them.
- **Transmit queues** begin at 0 when they get another queueing discipline, as a new one does in the kernel.
  `napier_device_tx_qdisc_drops` goes on.
- **Captures** count from 0 while one runs.
- **Members of groups** count from when they were attached.
- **Instances** are listed from the first time that their device is up. Their ids stay.

`context` says who polled: `softirq`, `ksoftirqd` (counted as `softirq`), `kthread` (the instance's thread, or a worker of the pool),
`kthread-busy`, `group`, `user`.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut part = "";
    for metric in metrics() {
        let Metric { name, kind, unit, help, labels } = metric;
        let this = part_of(name);
        if this != part {
            part = this;
            let _ = write!(page, "\n## {part}\n\n| name | kind | unit | labels | what |\n|---|---|---|---|---|\n");
        }
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let unit = match unit {
            Unit::Count => "",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "ns",
            Unit::Truth => "0 or 1",
        };
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(page, "| `{name}` | {kind} | {unit} | {} | {help} |", labels.join(", "));
    }
    page
}

fn part_of(name: &str) -> &'static str {
    let parts = [
        ("napier_engine_", "The engine"),
        ("napier_softirq_", "Softirq CPUs"),
        ("napier_thread", "Threads"),
        ("napier_event_", "Event contexts"),
        ("napier_group_", "Groups of CPUs"),
        ("napier_device_", "Devices"),
        ("napier_xdp_", "AF_XDP sockets of a device"),
        ("napier_capture_", "Captures of a device"),
        ("napier_napi_", "NAPI instances"),
        ("napier_tx", "Transmit queues"),
        ("napier_stack_", "Name spaces"),
    ];
    let part = parts.iter().find(|(begin, _)| name.starts_with(begin));
    part.unwrap_or_else(|| panic!("{name} belongs to no part of the page")).1
}

#[test]
fn the_page_of_metrics_is_current() {
    let made = page();
    if std::env::var_os("NAPIER_UPDATE").is_some() {
        std::fs::write(PAGE, &made).expect("the page can be written");
    }
    let there = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        there == made,
        "docs/metrics.md is old; run: NAPIER_UPDATE=1 cargo test -p napier-runtime --test engine page"
    );
}

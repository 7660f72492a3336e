use std::fmt::Write as _;

use super::{DRIVERS, DriverFacts, Fact, Numbers, OLDEST, READ, Since, of};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/drivers.md");

const HEAD: &str = "\
# What drivers do

Which settings of NAPI instances a driver keeps, what it tells the kernel of its queues, and what it can do: `napier doctor` uses this table to name
a loss before it happens ([settings-not-kept](doctor/settings-not-kept.md), [threaded-lost](doctor/threaded-lost.md),
[queues-without-ids](doctor/queues-without-ids.md), [xsk-copies](doctor/xsk-copies.md)), and the names of interrupts are read by it.
It is made from the code (`crates/linux/src/drivers/table.rs`), and says what Linux's own drivers do. Distributions bring changes of drivers to older kernels, and
a maker's own driver is another one: where the kernel itself answers, its answer counts.

Versions are those of the first release that has it; `OLDEST` is in the oldest kernel that was read already (Linux @OLDEST), `no` is in none
up to the newest one (Linux @READ), and `?` is not known. Nothing is guessed.

* **down, queues**: what is set on an instance stays when the interface goes down and up, and when its queues change (`ethtool -L`): the driver uses
  `netif_napi_add_config`, and then the id stays too, or its instances outlive that.
* **ids**: queue-get names the instance of a queue (`netif_queue_set_napi`); without, an AF_XDP socket cannot busy poll.
* **interrupts**: napi-get names the interrupt of an instance (`netif_napi_set_irq`).
* **zero copy**: of AF_XDP. **rules**: flow rules, `ethtool -N`. **contexts**: further tables of receive-side scaling, `ethtool -X context new`.
* **adaptive**: `ethtool -C adaptive-rx`; deferral by NAPI comes on top of it.
";

fn short(fact: &Fact) -> String {
    match fact.since {
        Since::Unknown => "?".to_owned(),
        Since::Never => "no".to_owned(),
        Since::Long => "OLDEST".to_owned(),
        Since::Linux(major, minor) => format!("{major}.{minor}"),
    }
}

fn each(facts: &DriverFacts) -> [(&'static str, Fact); 8] {
    [
        ("kept over link down", facts.keeps_down),
        ("kept over a change of queues", facts.keeps_channels),
        ("ids of queues", facts.queues),
        ("interrupts", facts.irqs),
        ("zero copy", facts.zero_copy),
        ("rules", facts.flow_rules),
        ("contexts", facts.contexts),
        ("adaptive", facts.adaptive),
    ]
}

fn numbers(numbers: Numbers) -> &'static str {
    match numbers {
        Numbers::Queue => "the number is the queue's",
        Numbers::OneMore => "receive queue N has the number N + 1",
        Numbers::Vector => "the number is a vector's, and tells no queue unless they begin at 0 without a gap",
        Numbers::None => "there is no number",
    }
}

fn page() -> String {
    let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let mut page = HEAD.replace("@OLDEST", &version(OLDEST)).replace("@READ", &version(READ)).replace("OLDEST", "old");
    page += "\n| driver | down | queues | ids | interrupts | zero copy | rules | contexts | adaptive |\n|---|---|---|---|---|---|---|---|---|\n";
    for facts in DRIVERS {
        let cells: Vec<String> = each(facts).iter().map(|(_, fact)| short(fact).replace("OLDEST", "old")).collect();
        writeln!(page, "| [{name}](#{name}) | {} |", cells.join(" | "), name = facts.names[0]).expect("text");
    }
    for facts in DRIVERS {
        writeln!(page, "\n## {}\n", facts.names[0]).expect("text");
        writeln!(page, "`{}`. {}\n", facts.folder, facts.instances).expect("text");
        writeln!(page, "Interrupts: {}; {}.\n", facts.irq_names, numbers(facts.numbers)).expect("text");
        for (name, fact) in each(facts) {
            writeln!(page, "* {name}: {}. {}", short(&fact).replace("OLDEST", "old"), fact.source).expect("text");
        }
    }
    page
}

#[test]
fn the_page_says_what_the_table_has() {
    let page = page();
    if std::env::var_os("NAPIER_UPDATE").is_some() {
        std::fs::write(PAGE, &page).expect("docs/drivers.md is written");
    }
    let found = std::fs::read_to_string(PAGE).expect("docs/drivers.md");
    assert_eq!(found, page, "docs/drivers.md is old; run: NAPIER_UPDATE=1 cargo test -p napier-linux --lib drivers");
}

#[test]
fn each_fact_has_a_source_and_each_driver_one_place() {
    for facts in DRIVERS {
        for (what, fact) in each(facts) {
            assert!(fact.since == Since::Unknown || !fact.source.is_empty(), "{}: {what}", facts.names[0]);
            if let Since::Linux(major, minor) = fact.since {
                assert!((major, minor) <= READ, "{}: {what} in a kernel that was not read", facts.names[0]);
            }
        }
        // Nothing could be kept before there was a place to keep it, nor told before it was asked.
        let least = [(facts.keeps_down, 13), (facts.keeps_channels, 13), (facts.queues, 8), (facts.irqs, 8)];
        for (fact, first) in least {
            assert!(!matches!(fact.since, Since::Linux(6, minor) if minor < first), "{facts:?}");
        }
        for told in [facts.queues, facts.irqs] {
            assert!(told.since != Since::Long, "{facts:?}");
        }
        for name in facts.names {
            assert_eq!(DRIVERS.iter().filter(|other| other.names.contains(name)).count(), 1, "{name}");
            assert_eq!(of(name).map(|found| found.folder), Some(facts.folder));
        }
    }
    assert!(of("no such driver").is_none());
}

#[test]
fn what_is_not_known_is_not_told() {
    let fact = |since| Fact { since, source: "" };
    assert_eq!(fact(Since::Unknown).on((6, 18)), None);
    assert_eq!((fact(Since::Never).on((6, 18)), fact(Since::Never).on((READ.0, READ.1 + 1))), (Some(false), None));
    assert_eq!((fact(Since::Long).on((6, 18)), fact(Since::Long).on((5, 10))), (Some(true), None));
    let later = fact(Since::Linux(6, 13));
    assert_eq!(
        (later.on((6, 12)), later.on((6, 13)), later.on((7, 0)), later.on((0, 0))),
        (Some(false), Some(true), Some(true), None)
    );
    assert_eq!((later.before(), fact(Since::Never).before()), (" before Linux 6.13".to_owned(), String::new()));
}

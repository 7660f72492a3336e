//! Machines of `tests/machines`, as each reader sees them, and what is found in them.

mod machine;
mod picture;

use std::fs;
use std::path::PathBuf;

use super::{Facts, Irq, Picture, Role};
use crate::change::{FileKey, Key, Line};
use crate::doctor::{Severity, diagnose, looked_at};
use crate::tune::{Delivery, Step, Tuning, default_cpus, steps};
use machine::Machine;

fn role(irq: &Irq) -> &'static str {
    match irq.role {
        Role::Receive => "receive",
        Role::Transmit => "transmit",
        Role::Both => "both",
        Role::Control => "control",
    }
}

fn or_none(number: Option<u32>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn irqs(facts: &Facts) -> Vec<String> {
    let irqs = facts.devices.last().into_iter().flat_map(|device| &device.irqs);
    let words = |irq: &Irq| match irq.role {
        Role::Control => format!("control {}", irq.number),
        _ => format!("queue {} {} {} {}", irq.number, or_none(irq.queue), role(irq), or_none(irq.only_cpu())),
    };
    irqs.map(words).collect()
}

fn findings(facts: &Facts) -> Vec<String> {
    let words = |(id, severity): (&str, Severity)| format!("finding {id} {}", severity.name());
    diagnose(facts).into_iter().map(|finding| words((finding.id, finding.severity))).collect()
}

/// Where interrupts go.
fn tuned(facts: &Facts) -> Vec<String> {
    let Some(device) = facts.devices.last().filter(|device| !device.irqs.is_empty()) else { return Vec::new() };
    let delivery = Delivery::Interrupts;
    let tuning = Tuning { delivery, cpus: default_cpus(facts, device, delivery, None), queues: None };
    let of = |step: &Step| match step {
        Step::Line(Line { key: Key::File(FileKey { path }), value }) => {
            let irq = path.strip_prefix("/proc/irq/")?.split('/').next()?;
            Some(format!("tune {irq} {value}"))
        }
        _ => None,
    };
    steps(facts, device, &tuning).iter().filter_map(of).collect()
}

/// What comes out of a machine and should not, or does not and should.
fn differs(name: &str, facts: &Facts, wanted: &[Vec<String>]) -> Option<String> {
    let wanted: Vec<String> = wanted.iter().map(|words| words.join(" ")).collect();
    let found = [irqs(facts), findings(facts), tuned(facts)].concat();
    let missing: Vec<&String> = wanted.iter().filter(|line| !found.contains(line)).collect();
    let beside: Vec<&String> = found.iter().filter(|line| !wanted.contains(line)).collect();
    let is_same = missing.is_empty() && beside.is_empty() && wanted.len() == found.len();
    let words = || format!("{name}: missing {missing:#?}, beside {beside:#?}, {} of {}", found.len(), wanted.len());
    (!is_same).then(words)
}

#[test]
fn each_machine_is_read_judged_and_tuned_as_its_file_says() {
    let machines = Machine::all();
    assert!(machines.len() >= 20, "{}", machines.len());
    let wrong = |machine: &Machine| differs(machine.name(), &machine.facts(), &machine.wanted);
    let wrong: Vec<String> = machines.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Machines that `napier doctor --save` wrote: the picture, and beside it a file with what must come out.
#[test]
fn each_picture_is_read_judged_and_tuned_as_the_file_beside_it_says() {
    let paths = machine::paths("json");
    assert!(paths.len() >= 4, "{paths:?}");
    let wrong = |path: &PathBuf| {
        let picture = Picture::read(path).expect("a picture");
        let beside = fs::read_to_string(path.with_extension("wanted")).expect("a file beside it");
        let name = path.display().to_string();
        let wanted = Machine::of(picture.contents().interfaces.join("-"), &beside).wanted.clone();
        differs(&name, &picture.facts(None).expect("facts"), &wanted)
    };
    let wrong: Vec<String> = paths.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn of(text: &str) -> (Machine, Facts) {
    // One folder for each.
    let sum: u64 = text.bytes().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let machine = Machine::of(format!("{sum:x}"), text);
    let facts = machine.facts();
    (machine, facts)
}

#[test]
fn what_cannot_be_read_is_not_zero() {
    let (machine, facts) = of("kernel 7.3.0\ncpus 2\ndevice eth0 2 - ena 0000:00:05.0\nnapi 5\n");
    drop(machine);
    assert!(facts.devices[0].irqs.is_empty() && facts.devices[0].rx_queues.is_empty());
    assert_eq!((facts.sysctls.netdev_budget, facts.devices[0].files.gro_flush_timeout), (None, None));
    let (_, facts) = of("cpus 2\nidle C6 133\n");
    assert!(facts.unseen.iter().any(|unseen| unseen.contains("cpu_dma_latency")), "{:?}", facts.unseen);
    // Nothing was to be looked at, so nothing is called good.
    assert_eq!(looked_at(&Facts::default(), &[]), Vec::<&str>::new());
}

#[test]
fn the_same_on_many_interfaces_is_one_finding_with_a_list() {
    let pairs: String =
        (0..300).map(|at| format!("device veth{at} {} veth - -\nqueues 1\nnapi {at}\n", at + 10)).collect();
    let (_, facts) = of(&format!("kernel 7.3.0\ncpus 2\n{pairs}"));
    let found = diagnose(&facts);
    let [one] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((one.id, one.devices().count()), ("queues-without-ids", 300));
    assert!(one.what.contains("299 more interfaces: veth1, veth2,") && one.what.ends_with("more."), "{}", one.what);
}

#[test]
fn losses_of_now_weigh_more_than_those_of_long_ago() {
    let text = "kernel 7.3.0\ncpus 2\nsoftnet 0 1000000 900 0\nsoftnet 1 5 0 0\n";
    let (_, mut facts) = of(text);
    let weight = |facts: &Facts| diagnose(facts).iter().map(|found| (found.id, found.severity)).collect::<Vec<_>>();
    assert_eq!(weight(&facts), [("packets-lost", Severity::Note)]);
    let (_, later) = of(&text.replace("1000000 900", "1000100 903"));
    facts.watched = Some(super::Watched { ms: 500, losses: later.losses.since(&facts.losses) });
    assert_eq!(weight(&facts), [("packets-lost", Severity::Warning)]);
    let said = &diagnose(&facts)[0].what;
    assert!(said.contains("CPU 0: 3 in 500 ms just now; 900 of 1000005"), "{said}");
    // Some of very many, long ago: nothing.
    let (_, facts) = of(&text.replace("1000000 900", "1000000000 900"));
    assert_eq!(weight(&facts), []);
}

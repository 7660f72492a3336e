//! The machine's part: time, locks, rings. What the rules do on it is in `conformance/K-transmit`.

use crate::machine::{Decision, Outcome, run};
use napier_scenario::{Event, Scenario, TxEvent};

const DEVICE: &str = "[[device]]\nname = \"eth0\"\nqdisc = \"pfifo\"\n";

fn outcome(head: &str, steps: &str) -> Outcome {
    let threads: String = (0..3).map(|n| format!("[[thread]]\nname = \"t{n}\"\ncpu = {n}\n")).collect();
    let text = format!("title = \"A test\"\n{head}{threads}[timeline]\nsteps = [\n{steps}]\n");
    let scenario = Scenario::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let outcome = run(&scenario);
    assert_eq!(outcome.broken, None);
    outcome
}

fn send(at: &str, thread: u32, more: &str) -> String {
    format!("{{ at = \"{at}\", by = \"t{thread}\", call = \"send\", to = \"eth0/tx-0\"{more} }},\n")
}

/// Times of events that a function picks, ns.
fn times(outcome: &Outcome, pick: impl Fn(&TxEvent) -> bool) -> Vec<u64> {
    let picked = |event: &Event| matches!(event, Event::Tx(event) if pick(event));
    outcome.events.iter().filter(|seen| picked(&seen.event)).map(|seen| seen.at.ns).collect()
}

fn counter(outcome: &Outcome, name: &str) -> i64 {
    outcome.counters.iter().find(|(known, _)| known == name).expect("it exists").1
}

#[test]
fn the_wire_takes_its_time() {
    let device = format!("{DEVICE}tx-time = \"10us\"\n");
    let outcome = outcome(&format!("[machine]\ncpus = 3\n{device}"), &send("1ms", 0, ", packets = 4"));
    let left = times(&outcome, |event| matches!(event, TxEvent::Complete { packets: 1, .. }));
    assert_eq!(left.len(), 4);
    assert!(left.windows(2).all(|pair| (9_900..10_100).contains(&(pair[1] - pair[0]))), "{left:?}");
    assert_eq!(counter(&outcome, "eth0.tx_packets"), 4);
}

/// The holder of the root lock is stalled: the next flusher spins for it, and what comes meanwhile goes with that batch.
#[test]
fn who_waits_for_the_root_lock_spends_time() {
    let head = format!("[machine]\ncpus = 3\ncosts = {{ op = \"1us\" }}\n{DEVICE}");
    let steps = [
        send("1ms", 0, ""),
        // It has the lock, and has taken the list.
        "{ at = \"1005300ns\", stall = \"t0\", for = \"100us\" },\n".to_owned(),
        send("1010us", 1, ""),
        send("1020us", 2, ""),
        "{ at = \"1090us\", check = \"eth0/tx-0\", deferred = 2, running = false },\n".to_owned(),
    ];
    let outcome = outcome(&head, &steps.concat());
    let flushed = times(&outcome, |event| matches!(event, TxEvent::Flush { .. }));
    assert!(flushed.len() == 2 && flushed[0] > 1_105_000, "{flushed:?}");
    let spins = outcome.coverage.of_decision(Decision::TxRootSpin);
    assert!((85..110).contains(&spins), "a look every microsecond: {spins}");
    assert_eq!(counter(&outcome, "eth0/tx-0.packets"), 3);
}

#[test]
fn a_stalled_wire_fills_the_ring_and_then_everything_goes() {
    let device = format!("{DEVICE}tx-ring = 4\n");
    let steps = "{ at = 0, tx-stall = \"eth0/tx-0\", for = \"5ms\" },\n".to_owned()
        + &send("1ms", 0, ", packets = 6")
        + "{ at = \"4ms\", check = \"eth0/tx-0\", in-ring = 4, qlen = 2, set = [\"DRIVER_OFF\"] },\n";
    let outcome = outcome(&format!("[machine]\ncpus = 3\n{device}"), &steps);
    let left = times(&outcome, |event| matches!(event, TxEvent::Complete { .. }));
    assert!(left.iter().all(|at| *at >= 5_000_000), "{left:?}");
    assert_eq!(counter(&outcome, "eth0.tx_packets"), 6);
}

/// While the instance is masked and deferred, what has left is freed by the timer's poll.
#[test]
fn completions_wait_for_the_instance() {
    let device = format!("{DEVICE}defer-hard-irqs = 1\ngro-flush-timeout = \"2ms\"\n");
    let steps = "{ at = \"1ms\", packets = 1, to = \"eth0/0\" },\n".to_owned() + &send("1500us", 0, "");
    let outcome = outcome(&format!("[machine]\ncpus = 3\n{device}"), &steps);
    let freed = times(&outcome, |event| matches!(event, TxEvent::Complete { .. }));
    assert!(freed.len() == 1 && (3_000_000..3_010_000).contains(&freed[0]), "{freed:?}");
}

/// Fewer receive queues: the transmit queues of those that are gone complete in the others.
#[test]
fn transmit_queues_outlive_receive_queues() {
    let device = format!("{DEVICE}queues = 2\ntx-queues = 2\ntx-time = \"1ms\"\n");
    let steps = "{ at = \"1ms\", by = \"t0\", call = \"send\", to = \"eth0/tx-1\" },\n\
                 { at = \"1500us\", call = \"set-queues\", device = \"eth0\", queues = 1 },\n";
    let outcome = outcome(&format!("[machine]\ncpus = 3\n{device}"), steps);
    let freed = times(&outcome, |event| matches!(event, TxEvent::Complete { .. }));
    assert!(freed.len() == 1 && freed[0] >= 2_000_000, "{freed:?}");
}

/// They take turns, and every packet of each sender leaves in order (the machine checks it).
#[test]
fn senders_meet_at_a_transmit_lock() {
    let head = "[machine]\ncpus = 3\nseed = 5\njitter = true\n[[device]]\nname = \"eth0\"\nqdisc = \"noqueue\"\n";
    let steps = send("1ms", 0, ", packets = 200") + &send("1ms", 1, ", packets = 200") + &send("1ms", 2, "");
    let outcome = outcome(head, &steps);
    assert_eq!(counter(&outcome, "eth0.tx_packets") + counter(&outcome, "eth0.tx_dropped"), 401);
    assert!(outcome.coverage.of_decision(Decision::TxLockSpin) > 0);
}

/// A device that comes up is given nothing before its instances are enabled, or nobody would free what has left.
#[test]
fn a_device_without_discipline_sends_once_its_instances_are_enabled() {
    let head = "[machine]\ncpus = 3\ncosts = { op = \"10us\" }\n[[device]]\nname = \"eth0\"\nqueues = 3\nup = false\n\
                qdisc = \"noqueue\"\ntx-time = \"100ns\"\n";
    let steps = "{ at = \"1ms\", call = \"up\", device = \"eth0\" },\n".to_owned() + &send("1ms", 0, ", packets = 20");
    let outcome = outcome(head, &steps);
    let dropped = times(&outcome, |event| matches!(event, TxEvent::Drop { .. })).len();
    let freed = times(&outcome, |event| matches!(event, TxEvent::Complete { .. })).len();
    assert!(dropped > 0 && freed > 0 && dropped + freed <= 20, "{dropped} were dropped, {freed} were freed");
}

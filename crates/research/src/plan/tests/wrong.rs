//! What is wrong in a plan or a machine has a file and a line.

use super::*;

const XSK_RR: &str = include_str!("../../../plans/xsk-rr.toml");
const BUSY_READ: &str = include_str!("../../../plans/busy-read.toml");
const UDP_STREAM: &str = include_str!("../../../plans/udp-stream.toml");
const TCP_RR: &str = include_str!("../../../plans/tcp-rr.toml");
const REMOTE_SSD: &str = include_str!("../../../plans/remote-ssd.toml");
const MANY: &str = include_str!("../../../machines/threaded-napi-pair.toml");
const MACHINE: &str = include_str!("../../../machines/xsk-rr-pair.toml");
const GROUPS: &str = include_str!("../../../plans/groups.toml");

#[test]
fn of_a_server() {
    let plan = include_str!("../../../plans/irq-suspension.toml");
    let machine = include_str!("../../../machines/epyc-7662-cx5.toml");
    let wrong = |was: &str, is: &str| Plan::parse(&plan.replace(was, is), "plan.toml").expect_err(is).to_string();
    let refused = |was: &str, is: &str| {
        assert!(machine.contains(was), "{was}");
        MachineFile::parse(&machine.replace(was, is), "machine.toml").expect_err(is).to_string()
    };
    for (found, expected) in [
        (
            wrong("queues = 8", "queues = 6"),
            "plan.toml:6: connections: the connections of 6 queues are equally many each",
        ),
        (wrong("seeds = 8", "seed = 3"), "plan.toml:11: unknown key \"seed\"; expected"),
        (wrong("\"base\"", "\"bass\""), "plan.toml:7: modes[0]: `bass` is no mode"),
        (wrong("\"base\"", "\"busy-read\""), "no mode of a server that waits in an event context"),
        (wrong("200000", "\"many\""), "plan.toml:8: loads[0]: expected requests per second, or \"max\""),
        (wrong("measured = \"350ms\"", "measured = \"1\""), "expected a time such as"),
        (wrong("measured = \"350ms\"", "measured = 0"), "something has to be measured"),
        (wrong("epyc-7662-cx5", "cray"), "there is no machine \"cray\""),
        (
            refused("op = { ns = 15", "op = { ns = -15"),
            "machine.toml:13: cost.op.ns: found the number -15; expected a whole number",
        ),
        (refused("op = { ns = 15", "op = { us = 15"), "unknown key \"us\"; expected ns"),
        (refused("op = { ns = 15,", "op = {"), "a figure has one unit: ns, pct, per-100k, count or mbit-s"),
        (refused("poll-empty = { ns = 700", "poll-empty = { ns = 0"), "poll-empty and spin-pause are at least 1 ns"),
        (
            refused("rows = [\"base\"], hardly-determined = true, why = \"entry", "why = \"entry"),
            "what is fitted names the rows",
        ),
        (
            refused("op = { ns = 15, origin", "op = { ns = 15, hardly-determined = true, origin"),
            "only what was fitted may be hardly determined",
        ),
        (refused("syscall", "sysca11"), "unknown figure; expected one of op, hard-irq"),
        (refused("step-share-per-100k", "step-share-per-million"), "unknown figure; expected one of to-server"),
        (refused("clock-mhz = 3300", "clock-mhz = \"fast\""), "machine.toml:5: clock-mhz"),
    ] {
        assert!(found.contains(expected), "{found}");
    }
    assert!(named("no-such-plan").expect_err("none").to_string().contains("or one of irq-suspension"));
}

#[test]
fn of_two_hosts_and_of_senders() {
    let wrong = |plan: &str, was: &str, is: &str| {
        assert!(plan.contains(was), "{was}");
        Plan::parse(&plan.replace(was, is), "plan.toml").expect_err(is).to_string()
    };
    let wrong_machine = |text: &str, was: &str, is: &str| {
        assert!(text.contains(was), "{was}");
        MachineFile::parse(&text.replace(was, is), "machine.toml").expect_err(is).to_string()
    };
    let refused = |was: &str, is: &str| wrong_machine(MACHINE, was, is);
    for (found, expected) in [
        (wrong(XSK_RR, "\"xsk-rr\"\nmachine", "\"xsk\"\nmachine"), "plan.toml:2: kind: "),
        (wrong(XSK_RR, "\"xsk-rr\"\nmachine", "\"xsk\"\nmachine"), "event-loop, xsk-rr, busy-read"),
        (wrong(XSK_RR, "\"interrupts\"", "\"base\""), "plan.toml:7: modes[0]: "),
        (wrong(XSK_RR, "\"busy-read\",", "\"interrupts\","), "interrupts is there already"),
        (wrong(XSK_RR, "seeds = 2", "seed = 2"), "unknown key \"seed\"; expected"),
        (wrong(XSK_RR, "rate = 32000", "rate = -32000"), "plan.toml:11: loads[1].rate: found the number -32000"),
        (wrong(XSK_RR, "delay = \"30us\"", "delay = \"30\""), "expected a time such as"),
        (wrong(XSK_RR, "delay = \"30us\"", "pause = \"30us\""), "unknown key \"pause\"; expected rate"),
        (wrong(XSK_RR, "xsk-rr-pair", "cray"), "plan.toml:3: machine: there is no machine \"cray\""),
        (wrong(XSK_RR, "xsk-rr-pair", "epyc-7662-cx5"), "plan.toml:3: machine: this machine is a server with clients"),
        (wrong(XSK_RR, "published = \"xsk-rr\"", "published = \"busy\""), "no published table \"busy\""),
        (wrong(XSK_RR, "measured = \"15ms\"", "measured = 0"), "something has to be measured"),
        (wrong(BUSY_READ, "warm-up", "loads = []\nwarm-up"), "unknown key \"loads\"; expected"),
        (wrong(TCP_RR, "cpus = 56", "cpus = 55"), "plan.toml:8: cpus: each core has two hyper-threads"),
        (wrong(TCP_RR, "queues = 8", "queues = 57"), "plan.toml:9: queues"),
        (wrong(TCP_RR, "request = 1,", "request = 0,"), "plan.toml:15: loads[0].request: found the number 0"),
        (wrong(TCP_RR, "request = 1,", "bytes = 1,"), "unknown key \"bytes\"; expected request"),
        (wrong(TCP_RR, "threaded-napi-pair", "small-vm"), "this machine is a server with clients"),
        (wrong(REMOTE_SSD, "threaded-napi-pair", "xsk-rr-pair"), "this machine has no storage"),
        (wrong(REMOTE_SSD, "rate = 572600", "rate = 0"), "plan.toml:13: loads[0].rate"),
        (wrong_machine(MANY, "small-p50 = { ns = 127000", "small-p50 = { ns = 50000"), "times grow from the least"),
        (wrong_machine(MANY, "rate = { mbit-s", "rate = { mbit"), "unknown key \"mbit\"; expected ns, pct"),
        (wrong(UDP_STREAM, "senders = 240", "senders = 0"), "plan.toml:5: senders"),
        (refused("op = { ns = 15", "op = { ns = -15"), "machine.toml:10: cost.op.ns: found the number -15"),
        (refused("op = { ns = 15,", "op = {"), "a figure has one unit: ns, pct, per-100k, count or mbit-s"),
        (refused("one-way = {", "both-ways = {"), "unknown figure; expected one of one-way, noise"),
        (refused("rows = [\"interrupts@12K+0us\"], ", ""), "what is fitted names the rows"),
        (refused("[wire]", "[client]\n[wire]"), "a machine has clients, or it is two hosts on a wire"),
    ] {
        assert!(found.contains(expected), "{found}");
    }
    let plan = include_str!("../../../plans/irq-suspension.toml").replace("epyc-7662-cx5", "mlx4-pair");
    let found = Plan::parse(&plan, "plan.toml").expect_err("no clients").to_string();
    assert!(found.contains("plan.toml:2: machine: two hosts on a wire are no server"), "{found}");
}

#[test]
fn of_groups() {
    let sizes = "sizes = [{ cpus = 16, nodes = 1 }, { cpus = 56, nodes = 2 }, { cpus = 240, nodes = 4 }]";
    let table = [
        (sizes, "sizes = [{ cpus = 18 }]", "cpus is a multiple of 4 times nodes"),
        (sizes, "sizes = []", "a size and a load at least"),
        ("\"fullbusy\"", "\"defer20\"", "expected"),
        ("{ pct = 1,", "{ pct = 0,", "expected"),
        ("steps = \"5ms\"", "steps = \"5us\"", "at least \"24us\""),
        ("connections = 16", "connections = 0", "expected"),
        ("machine = \"many-cpus\"", "machine = \"threaded-napi-pair\"", "two hosts on a wire"),
        ("seeds = 1", "group = { delay-target = \"1ns\" }", "delay-target is from 1us to 1s"),
    ];
    for (was, is, expected) in table {
        assert!(GROUPS.contains(was), "{was}");
        let error = Plan::parse(&GROUPS.replace(was, is), "groups.toml").expect_err(is).to_string();
        assert!(error.contains(expected), "{is}: {error}");
    }
}

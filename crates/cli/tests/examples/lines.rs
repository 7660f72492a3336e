//! The single commands of pages and help, and what is expected of each on the machine that is made for them.

use super::blocks::{Fate, blocks_of, pages};

/// What is to come of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// It ends by itself, with success.
    Ends,
    /// It ends with success, or with 1 because it has found something wrong.
    Judges,
    /// It goes on until it is interrupted, and then ends in order: 0, or 130 as README and `--help` say.
    Serves,
    /// As [`How::Serves`], on a terminal.
    Shows,
    /// It cannot be run here.
    Not(&'static str),
}

/// Why namespaces of a page are not made.
const PAIR: &str = "the machine of this test has such a pair already, under another name";

/// The first whose word is in the line decides. What is not named here ends with success.
const HOW: &[(&str, How)] = &[
    ("cargo ", How::Not("builds for minutes; .ci/run does what is to be done before a change")),
    ("scripts/package", How::Not("builds a release: .ci/packages does it")),
    ("scripts/cards", How::Not("boots machines under emulation: many minutes")),
    ("scripts/in-vm", How::Not("boots a machine under emulation")),
    ("apt-get install", How::Not("installs on this machine: scripts/package-test does it in a root of its own")),
    ("sudo install", How::Not("installs on this machine")),
    ("dnf install", How::Not("installs on this machine: scripts/install-test has roots")),
    ("rustup target", How::Not("installs on this machine")),
    ("https://sh.rustup.rs", How::Not("fetches Rust")),
    ("~/.cargo", How::Not("wants what the line above it installs")),
    ("run --engine", How::Not("wants an engine: crates/cli/tests/engine_programs.rs")),
    ("engine ss", How::Not("wants an engine: crates/cli/tests/engine_programs.rs")),
    ("engine start", How::Serves),
    ("sim plan idea.toml", How::Not("wants the plan that the page has above it")),
    ("cc -o echo", How::Not("wants the library installed: scripts/capi-install-test")),
    ("--container", How::Not("wants a container: crates/cli/tests/run/targets.rs")),
    ("--pod", How::Not("wants a pod: crates/cli/tests/run/targets.rs")),
    ("--unit", How::Not("wants systemd: crates/cli/tests/run/targets.rs")),
    ("--cgroup", How::Not("wants a control group: crates/cli/tests/run/targets.rs")),
    ("systemctl", How::Not("wants the package: scripts/package-test")),
    ("podman", How::Not("wants images: scripts/container-test")),
    ("kubectl", How::Not("wants a cluster: crates/cli/tests/deploy.rs runs what the manifests say")),
    ("ansible-playbook", How::Not("wants hosts: scripts/ansible-test")),
    ("sweep.sh", How::Not("wants hosts: crates/cli/tests/deploy.rs")),
    ("slurm/submit.sh", How::Not("wants Slurm: crates/cli/tests/deploy.rs")),
    ("export NAPIER", How::Not("a part of the line below it")),
    ("xdp:eth0 ...", How::Not("is cut short on the page")),
    ("prometheus --config", How::Not("crates/cli/tests/prometheus.rs starts it with free ports")),
    ("valgrind", How::Not("minutes; the file is cut from a plan by hand")),
    ("ns3-queue", How::Not("wants ns-3")),
    ("sim groups", How::Not("ten minutes of CPU time")),
    ("sim plan irq-suspension --cells", How::Not("a part of the plan that is run")),
    ("sim plan mine.toml --shard", How::Not("crates/cli/tests/deploy.rs runs plans in parts")),
    ("--shard 1/3", How::Not("crates/cli/tests/deploy.rs runs plans in parts")),
    ("sim merge", How::Not("crates/cli/tests/deploy.rs merges what other machines made")),
    ("sim farm --runs 10000", How::Not("minutes; .ci/run has the farm for 40 s")),
    ("--seconds 60", How::Not("a minute; .ci/run has the farm for 40 s")),
    ("advise --judge", How::Not("wants comparisons of several loads on a quiet machine")),
    ("advise --live", How::Not("wants a program with traffic, and half a minute: crates/cli/tests/advise_seen.rs")),
    ("advise --pcap", How::Not("wants packets that were captured: crates/cli/tests/advise_seen.rs")),
    ("advise --arrivals", How::Not("wants a log of requests: crates/cli/tests/advise_seen.rs")),
    ("tcpdump", How::Not("captures until it is ended")),
    ("--judge 'cmd:", How::Not("wants a script that prints a number")),
    ("--measure", How::Not("measures for minutes; crates/cli/tests/advise.rs does it shorter")),
    (
        "sim calibrate",
        How::Not("refuses what a busy machine measured, rightly: crates/cli/tests/compare_sim.rs has saved files"),
    ),
    ("--machine mine.toml", How::Not("wants the file of the line that is not run")),
    ("udp-stream --threads 16", How::Not("wants 16 CPUs")),
    ("sim transmit", How::Not("minutes of CPU time; crates/lab runs it with few senders")),
    (
        "bench memif --role server",
        How::Not("a part of the line below it, that the line ends: crates/cli/tests/bench.rs runs both"),
    ),
    ("bench memif --role client", How::Not("crates/cli/tests/bench.rs runs both ends")),
    (
        "host tune --profile low-latency --dev eth0 --cpus",
        How::Not("tunes the whole machine; the line above it is run dry"),
    ),
    (
        "host tune --dev eth0 --confirm",
        How::Not("tunes the whole machine; crates/cli/tests/confirm.rs has a run on trial"),
    ),
    ("--scope queue", How::Not("a veth counts nothing for its queues")),
    ("--delivery threaded", How::Not("tunes the whole machine; the line above it is run dry")),
    ("executor kernel", How::Not("minutes; crates/cli/tests/conform.rs has a part of the files")),
    ("ethtool -C", How::Not("a veth has no coalescing")),
    ("tso off", How::Not("names the other end")),
    ("net.core.busy_poll=", How::Not("settings of the whole machine, not there in a namespace")),
    ("chrt --fifo", How::Not("names the thread that the finding names")),
    ("/proc/irq/41", How::Not("names an interrupt of a card")),
    ("--queues 0-3 --mode", How::Not("wants a card with queues; crates/cli/tests/run/queues.rs has one with three")),
    ("--queues 4-5 --mode", How::Not("wants a card with queues; crates/cli/tests/run/queues.rs has one with three")),
    ("mode enable", How::Not("wants a service: crates/cli/tests/run/keep.rs")),
    ("mode disable", How::Not("wants a service: crates/cli/tests/run/keep.rs")),
    ("journalctl", How::Not("wants the unit of the line above")),
    ("$(pidof", How::Not("wants a server: crates/cli/tests/run/keep.rs keeps a mode for one")),
    ("--cgroup /sys", How::Not("wants a control group: crates/cli/tests/run/keep.rs makes one")),
    ("mode keep", How::Serves),
    ("ip netns add srv", How::Not(PAIR)),
    ("ip link add eth7 netns srv", How::Not(PAIR)),
    ("ip -n srv", How::Not(PAIR)),
    ("ip -n cli", How::Not(PAIR)),
    ("netns exec cli", How::Not("loads the server of a line above: crates/cli/tests/run loads such a pair")),
    ("ip netns del srv", How::Not(PAIR)),
    ("rps_sock_flow_entries", How::Not("a setting of the whole machine, not there in a namespace")),
    ("trial --dev eth0 --attach 4711 --dry-run", How::Ends),
    ("--attach", How::Serves),
    ("compare", How::Ends),
    ("--dry-run", How::Ends),
    ("napier doctor", How::Judges),
    ("napier explain", How::Judges),
    ("napier run", How::Serves),
    ("serve kv", How::Serves),
    ("--agent", How::Serves),
    ("--once", How::Ends),
    ("top --json", How::Ends),
    ("napier export", How::Serves),
    ("napier top", How::Shows),
];

/// A command as it stands on a page.
#[derive(Clone, Debug)]
pub(crate) struct PageLine {
    /// The page and the number of its line.
    pub(crate) at: String,
    pub(crate) text: String,
    pub(crate) how: How,
}

/// Blocks of `text` on the page of commands are the examples of `--help` and of the manual.
const OF_HELP: &str = "docs/commands.md";

/// All commands in blocks that are not run whole: of the pages, of help and of the manual.
pub(crate) fn lines() -> Vec<PageLine> {
    let mut found = Vec::new();
    for (page, text) in pages() {
        for block in blocks_of(&page, &text) {
            if block.fate != Fate::Run {
                found.extend(commands(&page, block.line + 1, &block.text));
            }
        }
        if page == OF_HELP {
            let lines = text.lines().enumerate();
            let examples =
                lines.filter(|(_, line)| ["napier ", "sudo napier "].iter().any(|begin| line.starts_with(begin)));
            // A synopsis names what is to be filled in.
            let examples = examples.filter(|(_, line)| !line.contains(['[', '<']) || line.contains("[::]"));
            found.extend(examples.flat_map(|(at, line)| commands(&page, at + 1, line)));
        }
    }
    found
}

fn commands(page: &str, first: usize, text: &str) -> Vec<PageLine> {
    let mut found: Vec<PageLine> = Vec::new();
    let mut goes_on = false;
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        // A comment begins behind blanks; what is not run to its end on the page is by itself here.
        let line = line.split_once(" # ").or(line.split_once("   #")).map_or(line, |(before, _)| before).trim();
        let line = line.strip_suffix('&').unwrap_or(line).trim();
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        let open = |text: &str| text.ends_with('|') || text.matches('\'').count() % 2 == 1;
        if let (true, Some(last)) = (goes_on, found.last_mut()) {
            last.text = format!("{}\n{line}", last.text);
        } else {
            found.push(PageLine { at: format!("{page}:{}", first + at), text: line.to_owned(), how: How::Ends });
        }
        goes_on = found.last().is_some_and(|last| open(&last.text));
    }
    for line in &mut found {
        line.how = HOW.iter().find(|(word, _)| line.text.contains(word)).map_or(How::Ends, |(_, how)| *how);
    }
    found
}

#[test]
fn lines_are_taken_apart_as_a_reader_does() {
    let text = "napier a   # what\n\nnapier b --json |\n  jq '.x |\n   .y'\nnapier serve kv & \n# all of it\n";
    let found: Vec<(String, String, How)> =
        commands("p", 7, text).into_iter().map(|line| (line.at, line.text, line.how)).collect();
    let line = |at: &str, text: &str, how| (at.to_owned(), text.to_owned(), how);
    assert_eq!(
        found,
        [
            line("p:7", "napier a", How::Ends),
            line("p:9", "napier b --json |\njq '.x |\n.y'", How::Ends),
            line("p:12", "napier serve kv", How::Serves),
        ]
    );
}

#[test]
fn every_reason_is_that_of_a_command() {
    let lines = lines();
    assert!(lines.len() > 150, "{} commands", lines.len());
    for (word, _) in HOW {
        assert!(lines.iter().any(|line| line.text.contains(word)), "no command has {word:?}: take it off the list");
    }
}

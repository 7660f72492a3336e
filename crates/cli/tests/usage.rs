//! Bad usage is one line on stderr that says what is wrong, and status 2; nothing is begun.

mod common;

use std::process::{Command, Stdio};

use common::{Folder, NAPIER, ended, refused};
use napier_testkit::eventually;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};

fn is_bad_usage(line: &str, words: &str) {
    refused(&line.split_whitespace().collect::<Vec<_>>(), 2, words);
}

#[test]
fn nothing_is_measured_zero_times() {
    for (line, option) in [
        ("bench rx-cost --runs 0", "--runs"),
        ("bench rx-cost --millis 0", "--millis"),
        ("bench wakeup --samples 0", "--samples"),
        ("bench raw-rr -P 0 -d 0", "--period"),
        ("bench xsk-rr --period -1 --delay 0", "--period"),
        ("bench xsk-rr --period 10 --delay -1", "--delay"),
        ("bench raw-rr --seconds 0", "--seconds"),
        ("bench udp-rr --round-trips 0", "--round-trips"),
        ("bench udp-rr --runs 0", "--runs"),
        ("bench tcp-rr --round-trips 0", "--round-trips"),
        ("bench tcp-rr --runs 0", "--runs"),
        ("bench tcp-rr --connections 0", "--connections"),
        ("bench udp-stream --seconds -1", "--seconds"),
        ("bench udp-stream --threads 1,,2", "--threads"),
        ("bench udp-stream --runs 0", "--runs"),
        ("bench memif --role client --socket @x --runs 0", "--runs"),
        ("bench xdp-rr --round-trips 0", "--round-trips"),
        ("bench xdp-rr --runs 0", "--runs"),
        ("bench xdp-rx --runs 0", "--runs"),
        ("bench xdp-rx --seconds 0", "--seconds"),
        ("compare --runs 0", "--runs"),
        ("compare --seconds -1", "`-1` is not within 0.05s to 3600s"),
        ("compare --load -5", "`-5` is no load"),
        ("load kv --server 127.0.0.1 --seconds -1", "`-1` is not within 0.05s to 3600s"),
        ("load kv --server 127.0.0.1 --runs 0", "--runs"),
        ("sim farm --runs 0", "--runs"),
    ] {
        is_bad_usage(line, option);
    }
}

#[test]
fn a_list_has_no_empty_items() {
    for line in ["compare --modes base,,suspend20", "compare --modes base,", "compare --load 1k,,2k"] {
        is_bad_usage(line, "nothing between two commas");
    }
    is_bad_usage("bench xsk-rr --modes interrupts,", "no such mode");
}

#[test]
fn what_clap_refuses_is_one_line_as_well() {
    is_bad_usage("compare --mode base", "a similar argument exists: '--modes'");
    is_bad_usage("run --dev lo --mode base", "give a program and its arguments behind --, or --attach PID");
    is_bad_usage("bench memif", "--role <ROLE> --socket <SOCKET>");
    is_bad_usage("compare --over token-ring", "[possible values: link, xdp, memif]");
    for asked in [&["--help"][..], &["--version"], &["bench", "memif", "--help"]] {
        let (status, _, said) = ended(asked);
        assert_eq!((status, said.as_str()), (Some(0), ""));
    }
}

#[test]
fn a_device_has_an_address_that_one_host_can_have() {
    for command in
        ["serve kv --dev memif:@x", "serve kv --dev xdp:no-such-if", "load kv --server 10.1.0.1 --dev memif:@x"]
    {
        is_bad_usage(&format!("{command} --ip 10.1.0.255/24"), "needs an address of its own");
    }
}

#[test]
fn no_option_is_ignored_in_silence() {
    for option in ["--pcapng F", "--secret x", "--role client", "--queues 9", "--neighbour 10.0.0.2=02:00:00:00:00:01"]
    {
        let name = option.split(' ').next().expect("its name");
        is_bad_usage(&format!("serve kv --dev kernel {option}"), name);
        is_bad_usage(&format!("load kv --server 127.0.0.1 {option}"), name);
    }
    is_bad_usage(
        "serve kv --dev kernel --secret x --queues 9",
        "--secret, --queues would be ignored with --over kernel",
    );
    is_bad_usage("serve kv --dev xdp:no-such-if --ip 10.1.0.1/24 --secret x", "--secret would be ignored");
    is_bad_usage("load kv --server 127.0.0.1 --ip 10.0.0.1/24", "--ip is for devices of the engine");
}

/// Every option and argument that names a file to read; `FILE` stands for it.
const READERS: &[&str] = &[
    "conform FILE",
    "sim plan FILE",
    "sim merge FILE",
    "sim calibrate FILE",
    "report FILE",
    "advise --rate 10k --quick --machine FILE",
    "advise --rate 10k --quick --from FILE",
    "advise --rate 10k --quick --service hist:FILE",
    "compare --quick --service hist:FILE",
    "load kv --agent 127.0.0.1:0 --secret-file FILE",
];

#[test]
fn no_file_is_read_for_ever() {
    for reader in READERS {
        let words = reader.replace("FILE", "/dev/zero");
        let output = Command::new(NAPIER).args(words.split(' ')).output().expect("napier starts");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(!output.status.success(), "{words}: {said}");
        // A secret that others may read is refused before.
        assert!(said.contains("it is a device") || said.contains("chmod 600"), "{words}: {said}");
    }
}

#[test]
fn a_signal_ends_the_wait_for_a_pipe() {
    let folder = Folder::new("pipes");
    let pipe = folder.file("pipe");
    assert!(Command::new("mkfifo").args(["-m", "600", &pipe]).status().expect("mkfifo is there").success());
    for reader in READERS {
        let words = reader.replace("FILE", &pipe);
        let mut command = Command::new(NAPIER);
        let child = command.args(words.split(' ')).stderr(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut child = child.expect("napier starts");
        // It can be opened for writing once it is open for reading; it is not written to.
        let mut writer = None;
        eventually("it opens the pipe", || {
            let options = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            writer = rustix::fs::open(pipe.as_str(), options, Mode::empty()).ok();
            writer.is_some()
        });
        kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
        let status = child.wait().expect("it ends");
        assert!(!status.success(), "{words}: {status}");
        drop(writer);
    }
}

#[test]
fn a_scenario_has_a_bound() {
    let folder = Folder::new("usage");
    // Longer than a scenario may be, and nobody knows beforehand: the end of such a file is never seen.
    let long = folder.file("long.toml");
    std::fs::File::create(&long).and_then(|file| file.set_len((16 << 20) + 1)).expect("a file without blocks");
    let output = Command::new(NAPIER).args(["conform", &long]).output().expect("napier starts");
    assert!(String::from_utf8_lossy(&output.stdout).contains("more than 16 MiB"), "{output:?}");
}

#[test]
fn too_few_seeds_are_said_to_be_too_few() {
    let (status, _, said) = ended(&["sim", "farm", "--runs", "1", "--jobs", "1"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("no seed failed") && said.contains("too few seeds"), "{said}");
    assert!(!said.contains("panicked"), "a planted mistake that was found is no panic: {said}");
}

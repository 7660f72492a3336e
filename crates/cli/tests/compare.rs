//! `napier compare` over real devices, as a user runs it: what is printed, what is refused and how, what is left behind.

mod common;

use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{NAPIER, has_ended, refused, said, signal, two_cpus};
use serde_json::Value;

/// Longest wait for anything; only a fault takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

fn napier(arguments: &[&str]) -> Command {
    let mut command = Command::new(NAPIER);
    command.arg("compare").args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    napier(arguments).output().expect("napier starts")
}

/// The report of a comparison that is long enough for each row to have answers, or a line that says why the test is skipped.
fn report(test: &str, arguments: &[&str]) -> Option<Value> {
    napier_testkit::in_time_enough("each row has answers", Duration::from_millis(200), |length| {
        let seconds = length.as_secs_f64().to_string();
        let output = run(&[arguments, &["--json", "--runs", "1", "--seconds", &seconds]].concat());
        let said = said(&output);
        if output.status.code() == Some(1) && ["CAP_SYS_ADMIN", "CPUs"].iter().any(|reason| said.contains(reason)) {
            napier_testkit::skip!(test, "{said}");
            return Some(None);
        }
        assert!(output.status.success(), "{said}");
        assert!(said.is_empty(), "silent when piped: {said}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        rows(&report).iter().all(|row| !row["refused"].is_null() || has_answers(row)).then_some(Some(report))
    })
}

fn has_answers(row: &Value) -> bool {
    row["achieved_rps"].as_f64().is_some_and(|rate| rate > 0.0)
}

fn rows(report: &Value) -> &Vec<Value> {
    report["rows"].as_array().expect("rows")
}

fn is_measured(row: &Value) -> bool {
    assert_eq!(row["refused"], Value::Null, "{row}");
    has_answers(row)
}

#[test]
fn backends_that_do_not_fit_are_bad_usage() {
    for (arguments, words) in [
        (&["--peer", "kernel", "--dev", "xdp"][..], "--backend engine,kernel"),
        (&["--backend", "kernel", "--dev", "memif"], "omit --over"),
        (&["--backend", "simulator"], "give engine, kernel, sim, or several such as engine,kernel,sim"),
        (&["--modes", "base-irq"], "give --backend kernel"),
        (&["--backend", "engine,kernel", "--", "memcached"], "give --backend kernel before --"),
        (&["--backend", "kernel", "--speak", "redis"], "give one behind --"),
    ] {
        refused(&[&["compare"], arguments].concat(), 2, words);
    }
}

#[test]
fn a_time_of_service_has_a_unit_and_a_page_a_width() {
    for (arguments, words) in [
        (["--service", "6x"], "such as 6us"),
        (["--service", "hist:/nowhere"], "/nowhere"),
        (["--load", "sustained,fast"], "`fast` is no load"),
        (["--width", "20"], "80..=160"),
    ] {
        refused(&[&["compare"], &arguments[..]].concat(), 2, words);
    }
}

#[test]
fn dear_requests_take_time_and_what_base_sustains_is_found() {
    let test = "dear_requests_take_time_and_what_base_sustains_is_found";
    if !two_cpus(test) {
        return;
    }
    let arguments = ["--load", "1k,sustained", "--modes", "base", "--service", "exp:200us"];
    let Some(report) = report(test, &arguments) else { return };
    assert_eq!(report["workload"]["service"], "exp:200us");
    let sustained = &report["sustained"][0];
    assert_eq!((&sustained["mode"], &sustained["backend"]), (&"base".into(), &"engine".into()));
    // A bound that no machine breaks: a worker that takes 200 us for a request does not answer 20000 in a second.
    assert!(sustained["sustained_rps"].as_u64().is_some_and(|rps| rps < 20_000), "{report}");
    assert_eq!(report["machine"][0]["load_rps"], 1000);
}

#[test]
fn memif_rows_are_measured_by_another_process() {
    let test = "memif_rows_are_measured_by_another_process";
    if !two_cpus(test) {
        return;
    }
    for proto in ["udp", "tcp"] {
        let arguments =
            ["--dev", "memif", "--proto", proto, "--load", "max", "--modes", "base,suspend20", "--flows", "4"];
        let Some(report) = report(test, &arguments) else { return };
        assert_eq!((&report["workload"]["device"], &report["workload"]["proto"]), (&"memif".into(), &proto.into()));
        assert_eq!(rows(&report).len(), 2);
        assert!(rows(&report).iter().all(|row| is_measured(row) && row["backend"] == "engine"), "{report}");
    }
}

#[test]
fn the_kernel_stands_beside_the_engine() {
    let test = "the_kernel_stands_beside_the_engine";
    if !two_cpus(test) {
        return;
    }
    for proto in ["udp", "tcp"] {
        let peer = ["--backend", "engine,kernel", "--proto", proto, "--flows", "4"];
        let arguments = [&peer[..], &["--load", "max", "--modes", "base,workqueue,busy-read"]].concat();
        let Some(report) = report(test, &arguments) else { return };
        let rows = rows(&report);
        let names: Vec<String> = rows.iter().map(|row| format!("{}/{}", row["backend"], row["mode"])).collect();
        assert_eq!(names.len(), 7, "{names:?}");
        assert_eq!(names[..3], [r#""engine"/"base""#, r#""kernel"/"base""#, r#""kernel"/"base""#]);
        let receive: Vec<&Value> = rows.iter().map(|row| &row["receive"]).take(3).collect();
        assert_eq!(receive, ["device", "device", "irq"]);
        assert!(rows[..3].iter().all(is_measured), "{report}");
        for row in &rows[..3] {
            assert!(row["cores"]["busy_pct"].is_f64(), "the CPU of both cores is stated: {row}");
        }
        assert_eq!(rows[1]["cpu"]["spin_pct"], Value::Null, "nobody counts the kernel's polls in vain");
        let workqueue = rows[4]["refused"].as_str().expect("the kernel has no workqueue");
        assert!(workqueue.contains("extension of the engine"), "{workqueue}");
        assert_eq!(rows[6]["refused"].is_null(), proto == "udp", "{}", rows[6]);
    }
}

#[test]
fn without_the_capability_one_line_says_what_to_do() {
    let mut command = napier(&["--dev", "xdp", "--load", "max", "--runs", "1", "--seconds", "0.1"]);
    if rustix::process::geteuid().is_root() {
        // Nobody: without any capability.
        command.uid(65_534).gid(65_534);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            napier_testkit::skip!(
                "without_the_capability_one_line_says_what_to_do",
                "nobody cannot run the binary: {error}"
            );
            return;
        }
    };
    let said = said(&output);
    if output.status.success() {
        napier_testkit::skip!("without_the_capability_one_line_says_what_to_do", "everybody has the capability here");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(said.contains("run it as root") && said.contains("omit --over"), "{said}");
}

/// Whether a process is the generator of this parent (`proc_pid_stat(5)`).
fn is_generator(pid: u32, parent: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent_pid = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
    parent_pid == Some(parent)
        && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with(b"internal-load\0"))
}

/// The generator's process of a running comparison, once it is there.
fn generator_of(parent: &Child) -> Option<u32> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let processes = fs::read_dir("/proc")
            .expect("/proc is there")
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        if let Some(pid) = processes.into_iter().find(|pid| is_generator(*pid, parent.id())) {
            return Some(pid);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

/// Whether a process ends in time. One that has ended but was not waited for counts as gone.
fn ends(pid: u32) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if has_ended(pid) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn the_generator_ends_with_its_parent_however_that_ends() {
    let test = "the_generator_ends_with_its_parent_however_that_ends";
    if !two_cpus(test) {
        return;
    }
    for name in ["INT", "KILL"] {
        let arguments = ["--dev", "memif", "--load", "1k", "--modes", "base", "--runs", "1", "--seconds", "600"];
        let mut parent = napier(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("napier starts");
        let Some(generator) = generator_of(&parent) else {
            let _ = parent.kill();
            panic!("no generator: {:?}", parent.wait());
        };
        signal(parent.id(), name);
        let status = parent.wait().expect("it ends");
        match name {
            "INT" => assert_eq!(status.code(), Some(130), "interrupted, as a shell tells it"),
            _ => assert_eq!(status.signal(), Some(9)),
        }
        assert!(ends(generator), "the generator {generator} outlives its parent");
    }
}

#[test]
fn the_generator_is_not_for_hands() {
    let output = Command::new(NAPIER).arg("internal-load").stdin(Stdio::null()).output();
    let output = output.expect("napier starts");
    assert!(String::from_utf8_lossy(&output.stdout).contains("failed"), "{output:?}");
    let help = Command::new(NAPIER).arg("--help").output().expect("napier starts");
    assert!(!String::from_utf8_lossy(&help.stdout).contains("internal"), "it is not in the list of commands");
}

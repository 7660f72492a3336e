//! `napier doctor` and `napier host tune` on interfaces of the test's own.

mod common;

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use common::{Folder, NAPIER, napier_at, pair, text, would_change_the_machine};
use napier_linux::{Veth, VethEnd};
use serde_json::Value;

/// Runs napier in the namespace of an interface, with journals in a folder of the test's.
fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(output)))
}

/// Ids of what is found on the left interface, and the exit status.
fn found(end: &VethEnd, folder: &Folder) -> (Vec<String>, Option<i32>) {
    let output = napier_at(end, folder, &["doctor", "--dev", end.name(), "--json"]);
    let document = json(&output);
    let ids = document["findings"].as_array().expect("findings").iter();
    (ids.map(|finding| finding["id"].as_str().expect("an id").to_owned()).collect(), output.status.code())
}

fn assert_found(end: &VethEnd, folder: &Folder, id: &str, status: i32) {
    let (ids, code) = found(end, folder);
    assert!(ids.iter().any(|found| found == id) && code == Some(status), "{id}: {ids:?} {code:?}");
}

fn assert_not_found(end: &VethEnd, folder: &Folder, id: &str) {
    let (ids, _) = found(end, folder);
    assert!(ids.iter().all(|found| found != id), "{id}: {ids:?}");
}

/// A pair of which the left end has an instance.
fn with_instance(test: &str) -> Option<Veth> {
    let pair = pair(test)?;
    pair.left().set_feature(c"rx-gro", true).expect("switched");
    Some(pair)
}

/// A file of the interface, as a shell in its namespace sees it.
fn shell(end: &VethEnd, script: &str) -> String {
    let script = format!("mount -t sysfs sysfs /sys && cd /sys/class/net/{} && {script}", end.name());
    let run = || Command::new("unshare").args(["-m", "sh", "-c", &script]).output();
    let output = end.netns().run(run).expect("entered").expect("unshare is installed");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    text(&output).trim().to_owned()
}

#[test]
fn a_veth_without_instances_is_mended_and_put_back() {
    let test = "a_veth_without_instances_is_mended_and_put_back";
    let Some(pair) = pair(test) else { return };
    let (end, folder) = (pair.left(), Folder::new("doctor-fix"));
    if would_change_the_machine(test, end, &folder) {
        return;
    }
    assert_found(end, &folder, "no-instance", 1);
    let dry = napier_at(end, &folder, &["doctor", "--dev", "server", "--fix", "--dry-run"]);
    assert!(text(&dry).contains("Would change\n  ethtool -K server rx-gro on\n"), "{}", text(&dry));
    assert_eq!((dry.status.code(), end.napis().expect("listed").len()), (Some(1), 0));
    let fixed = napier_at(end, &folder, &["doctor", "--dev", "server", "--fix"]);
    assert!(text(&fixed).contains("Changed\n  ethtool -K server rx-gro on\n"), "{}", text(&fixed));
    assert_eq!((fixed.status.code(), end.napis().expect("listed").len()), (Some(0), 1));
    assert_not_found(end, &folder, "no-instance");
    let undone = napier_at(end, &folder, &["host", "undo"]);
    assert!(undone.status.success(), "{undone:?}");
    assert_eq!(end.napis().expect("listed").len(), 0);
}

#[test]
fn settings_that_do_not_go_together_are_found() {
    let test = "settings_that_do_not_go_together_are_found";
    let Some(pair) = with_instance(test) else { return };
    let (end, folder) = (pair.left(), Folder::new("doctor-settings"));
    if would_change_the_machine(test, end, &folder) {
        return;
    }
    assert_eq!(found(end, &folder).1, Some(0));
    let good = text(&napier_at(end, &folder, &["doctor", "--dev", "server"])).replace('\n', " ");
    assert!(good.starts_with("GOOD: ") || good.starts_with("WORKS AT A COST: "), "the answer is first: {good}");
    assert!(good.contains(" instances, ") && good.contains("not asked"), "{good}");
    let all = text(&napier_at(end, &folder, &["doctor", "--dev", "server", "--all"]));
    assert!(good.contains(" more (--all)") && !all.contains("(--all)"), "{all}");
    shell(end, "echo 7000 > gro_flush_timeout");
    assert_found(end, &folder, "flush-without-defer", 0);
    shell(end, "echo 0 > gro_flush_timeout && echo 5 > napi_defer_hard_irqs");
    assert_found(end, &folder, "defer-without-timeout", 0);
    // What a busy poller that was killed leaves behind.
    shell(end, "echo 500000000 > gro_flush_timeout");
    assert_found(end, &folder, "timeout-too-long", 1);
    shell(end, "echo 0 > gro_flush_timeout");
    shell(end, "echo 0 > napi_defer_hard_irqs && echo 1 > queues/rx-0/rps_cpus");
    assert_found(end, &folder, "rps-in-the-way", 0);
    assert_found(end, &folder, "queues-without-ids", 0);
    let fixed = napier_at(end, &folder, &["doctor", "--dev", "server", "--fix", "--json"]);
    assert_eq!(json(&fixed)["fix"]["refused"], Value::Array(vec![]), "{}", text(&fixed));
    assert_eq!(shell(end, "cat queues/rx-0/rps_cpus").trim_start_matches(['0', ',']), "");
    assert_not_found(end, &folder, "rps-in-the-way");
    // What is mended stays mended until it is undone; meanwhile nothing else is.
    let again = napier_at(end, &folder, &["doctor", "--dev", "server", "--fix"]);
    assert!(again.status.success(), "nothing is left to mend: {again:?}");
    napier_at(end, &folder, &["host", "undo"]);
    assert!(shell(end, "cat queues/rx-0/rps_cpus").ends_with('1'));
    end.set_up(false).expect("down");
    assert_found(end, &folder, "interface-down", 0);
}

#[test]
fn instances_that_are_set_by_themselves_are_judged() {
    use napier_linux::change::{DeviceRef, Key, NapiAttribute, NapiKey};
    let test = "instances_that_are_set_by_themselves_are_judged";
    let Some(pair) = with_instance(test) else { return };
    let (end, folder) = (pair.left(), Folder::new("doctor-instances"));
    if would_change_the_machine(test, end, &folder) {
        return;
    }
    let device = DeviceRef { ifindex: end.ifindex(), name: end.name().to_owned() };
    let id = end.napis().expect("listed")[0].id;
    let write = |attribute, value: &str| {
        let key = Key::Napi(NapiKey { device: device.clone(), id, place: 0, queue: None, attribute });
        end.netns().run(|| key.write(value)).expect("entered")
    };
    if let Err(error) = write(NapiAttribute::IrqSuspendTimeout, "20000000") {
        napier_testkit::skip!(test, "{error}");
        return;
    }
    assert_found(end, &folder, "suspension-without-deferral", 1);
    let before = end.napis().expect("listed");
    let fixed = napier_at(end, &folder, &["doctor", "--dev", "server", "--fix"]);
    assert_eq!(fixed.status.code(), Some(0), "{}", text(&fixed));
    let info = end.napis().expect("listed")[0];
    assert_eq!((info.defer_hard_irqs, info.gro_flush_timeout.map(|span| span.ns)), (Some(100), Some(20_000)));
    assert_found(end, &folder, "instance-hides-sysfs", 0);
    napier_at(end, &folder, &["host", "undo"]);
    assert_eq!(end.napis().expect("listed"), before);
    if write(NapiAttribute::Threaded, "enabled").is_err() {
        napier_testkit::skip!(test, "this kernel makes no single instance threaded");
        return;
    }
    // It was suspended before as well, which is what the status is of.
    assert_found(end, &folder, "threaded-lost", 1);
    write(NapiAttribute::Threaded, "disabled").expect("written");
}

#[test]
fn a_report_fits_a_terminal_of_80_columns() {
    let Some(pair) = pair("a_report_fits_a_terminal_of_80_columns") else { return };
    let folder = Folder::new("doctor-columns");
    let report = text(&napier_at(pair.left(), &folder, &["doctor", "--workers", "3"]));
    assert!(report.starts_with("NOT IN EFFECT: 1 serious"), "{report}");
    assert!(
        report.contains("SERIOUS  no-instance\n") && report.contains("page  docs/doctor/no-instance.md"),
        "{report}"
    );
    // A command is not broken, so that it can be copied.
    let long: Vec<&str> = report.lines().filter(|line| line.chars().count() > 80 && !line.contains("echo ")).collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn an_interface_whose_instances_have_no_ids_is_named() {
    let test = "an_interface_whose_instances_have_no_ids_is_named";
    let Some(pair) = with_instance(test).filter(|_| common::has(test, "ip")) else { return };
    let (end, folder) = (pair.left(), Folder::new("doctor-tap"));
    let script = "ip tuntap add dev tap0 mode tap && ip link set tap0 up";
    let made = end.netns().run(|| Command::new("sh").args(["-c", script]).output()).expect("entered").expect("a shell");
    if !made.status.success() {
        napier_testkit::skip!(test, "{}", String::from_utf8_lossy(&made.stderr).trim());
        return;
    }
    let output = napier_at(end, &folder, &["doctor", "--dev", "tap0"]);
    let said = text(&output).replace('\n', " ");
    assert!(said.contains("WARNING  driver-without-ids   tap0 has no NAPI instance: it is a TUN or TAP"), "{said}");
    assert_eq!(output.status.code(), Some(0), "nothing is set there that is not in force");
    // Beside one that has instances it is not in the way of anything.
    let beside = napier_at(end, &folder, &["doctor"]);
    assert!(!text(&beside).contains("driver-without-ids"), "{}", text(&beside));
}

#[test]
fn bad_arguments_are_usage() {
    let Some(pair) = pair("bad_arguments_are_usage") else { return };
    let folder = Folder::new("doctor-usage");
    let cases: [&[&str]; 7] = [
        &["doctor", "--dev", "nowhere"],
        &["doctor", "--pid", "4294967295"],
        &["doctor", "--workers", "0"],
        &["doctor", "--dry-run"],
        &["host", "tune"],
        &["host", "tune", "--dev", "server", "--cpus", "1-"],
        &["host", "tune", "--dev", "server", "--cpus", "4095"],
    ];
    for args in cases {
        let output = napier_at(pair.left(), &folder, args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.starts_with("napier: ") && said.lines().count() == 1, "{args:?}: {said}");
    }
}

#[test]
fn without_privileges_it_says_what_it_cannot_see() {
    let test = "without_privileges_it_says_what_it_cannot_see";
    let own = std::fs::metadata("/proc/self").expect("/proc");
    if std::os::unix::fs::MetadataExt::uid(&own) != 0 {
        napier_testkit::skip!(test, "only root can give privileges away");
        return;
    }
    let folder = Folder::new("doctor-user");
    let copy = folder.file("napier");
    std::fs::copy(NAPIER, &copy).expect("copied");
    for path in [&folder.file("."), &copy] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("opened");
    }
    let mut command = Command::new("timeout");
    command.arg("60").arg(copy).args(["doctor", "--pid", "1", "--json"]).uid(65534).gid(65534);
    let document = json(&command.output().expect("timeout is installed"));
    let ids: Vec<&Value> =
        document["findings"].as_array().expect("findings").iter().map(|found| &found["id"]).collect();
    assert!(ids.iter().any(|id| **id == "capabilities-missing"), "{ids:?}");
    assert!(document["unseen"].to_string().contains("CAP_SYS_PTRACE"), "{}", document["unseen"]);
}

#[test]
fn tuning_is_shown_and_changes_nothing() {
    let Some(pair) = with_instance("tuning_is_shown_and_changes_nothing") else { return };
    let (end, folder) = (pair.left(), Folder::new("tune-dry"));
    let values = "cat threaded napi_defer_hard_irqs gro_flush_timeout /proc/sys/kernel/sched_rt_runtime_us \
                  /proc/sys/kernel/timer_migration /sys/devices/virtual/workqueue/cpumask";
    let before = shell(end, values);
    for delivery in ["interrupts", "busy-read", "threaded", "threaded-busy-poll"] {
        let args = ["host", "tune", "--dev", "server", "--cpus", "0", "--delivery", delivery, "--dry-run", "--json"];
        let output = napier_at(end, &folder, &args);
        assert!(output.status.success(), "{output:?}");
        let document = json(&output);
        let lines = document["lines"].as_array().expect("lines");
        let state = |state: &str| lines.iter().filter(|line| line["state"] == state).count();
        // Neither rings nor interrupts nor coalescing, and no sysctl of busy reading in a namespace.
        assert!(state("refused") >= 4 && state("would-change") >= 1, "{delivery}: {lines:#?}");
        assert!(lines.iter().all(|line| (line["state"] == "refused") == line["why"].is_string()), "{lines:#?}");
    }
    assert_eq!(shell(end, values), before);
    assert!(!std::path::Path::new(&folder.file("state")).exists(), "nothing was begun");
}

/// What `run` puts into force is not found wrong by doctor, while it is.
#[test]
fn doctor_is_silent_while_a_mode_is_in_force() {
    let test = "doctor_is_silent_while_a_mode_is_in_force";
    let Some(pair) = with_instance(test) else { return };
    let (end, folder) = (pair.left(), Folder::new("doctor-modes"));
    if found(end, &folder).1 != Some(0) {
        napier_testkit::skip!(test, "doctor has something to say of this machine");
        return;
    }
    let (before, _) = found(end, &folder);
    for mode in
        ["defer20", "defer200", "napibusy", "suspend0", "suspend20", "busy-read", "threaded", "threaded-busy-poll"]
    {
        let doctor = [NAPIER, "doctor", "--dev", "server", "--json"];
        let output =
            napier_at(end, &folder, &[&["run", "--dev", "server", "--mode", mode, "--"], &doctor[..]].concat());
        if output.stdout.is_empty() {
            // This kernel does not have the mode, and says so.
            assert!(mode.starts_with("threaded") && !output.status.success(), "{mode}: {output:?}");
            continue;
        }
        let document = json(&output);
        let findings = document["findings"].as_array().expect("findings").iter();
        // What the machine loses while it is looked at is no matter of the mode.
        let heavy = findings.filter(|finding| finding["severity"] != "note" && finding["id"] != "packets-lost");
        let new: Vec<_> = heavy.filter(|finding| before.iter().all(|id| finding["id"] != id.as_str())).collect();
        assert!(new.is_empty(), "{mode}: {new:#?}");
    }
}

/// Interfaces of which no mode can be had: each is told what is true of it, by `run` as well.
#[test]
fn what_is_said_of_an_interface_without_instances_is_true_of_it() {
    let test = "what_is_said_of_an_interface_without_instances_is_true_of_it";
    let Some(pair) = pair(test).filter(|_| common::has(test, "ip")) else { return };
    let (end, folder) = (pair.left(), Folder::new("doctor-kinds"));
    let script = "ip link set lo up; ip link add br0 type bridge && ip link set br0 up && ip tuntap add dev tap0 mode tap && \
                  ip link set tap0 up";
    let made = end.netns().run(|| Command::new("sh").args(["-c", script]).output()).expect("entered").expect("a shell");
    if !made.status.success() {
        napier_testkit::skip!(test, "{}", String::from_utf8_lossy(&made.stderr).trim());
        return;
    }
    let kinds = [("lo", "loopback device"), ("br0", "is a bridge interface"), ("tap0", "TUN or TAP device")];
    for (dev, word) in kinds.into_iter().chain([("server", "ethtool -K server gro on")]) {
        let output = napier_at(end, &folder, &["run", "--dev", dev, "--mode", "suspend20", "--", "true"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(word), "{dev}: {said}");
        assert_eq!(said.contains("ethtool"), dev == "server", "{dev}: {said}");
    }
    // None of them has instances: one note for each kind, and the veth alone is serious.
    let document = json(&napier_at(end, &folder, &["doctor", "--json"]));
    assert_eq!(document["serious"], 1, "{:#}", document["findings"]);
}

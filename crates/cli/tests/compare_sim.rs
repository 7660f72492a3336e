//! `napier compare --backend sim` as a person calls it: predictions beside measurements, and never taken for them.

mod common;

use std::time::Duration;

use common::{Folder, napier, printed, refused, said, text, two_cpus};
use napier_testkit::in_time_enough;
use serde_json::Value;

const SIM: [&str; 7] = ["compare", "--backend", "sim", "--machine", "small-vm", "--runs", "2"];
const FEW: [&str; 4] = ["--load", "40k,max", "--modes", "base,fullbusy,busy-read"];

fn report(args: &[&str]) -> Value {
    printed(&napier(args))
}

#[test]
fn a_prediction_takes_no_device_and_says_what_it_is() {
    let output = napier(&[&SIM[..], &FEW, &["--width", "80"]].concat());
    let page = text(&output);
    assert!(output.status.success() && output.stderr.is_empty(), "{page}{}", said(&output));
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "kv, 64 flows: PREDICTED on small-vm, not measured.",
        "40K/s offered mode",
        "Closed loop, 64 in flight",
        "sim/busy-read refused: busy-read is no mode of a server that waits in an event context",
        "sim: PREDICTED, not measured: 2 runs in virtual time",
        "on small-vm (a virtual machine of two CPUs; packets come through memory). Of the 24 figures of that machine 0 were fitted.",
    ] {
        assert!(words.contains(said), "{said}: {page}");
    }
    let longest = page.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{page}");
}

#[test]
fn the_same_rows_as_json_and_again() {
    let args = [&SIM[..], &FEW, &["--json"]].concat();
    let value = report(&args);
    assert_eq!(value, report(&args), "in virtual time nothing is left to chance");
    assert_eq!(value["prediction"]["machine"], "small-vm");
    assert_eq!(value["workload"]["seconds"], Value::Null);
    let rows = value["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 6);
    for row in rows {
        assert_eq!(row["backend"], "sim");
        let refused = row["mode"] == "busy-read";
        assert_eq!((row["refused"].is_string(), row["runs"] == 0), (refused, refused), "{row}");
        assert_eq!(row["latency_us"]["p99"].as_f64().is_some_and(|us| us > 0.0), !refused, "{row}");
        assert_eq!((&row["cycles_per_request"], &row["events_per_wait"]), (&Value::Null, &Value::Null), "{row}");
    }
}

#[test]
fn predictions_stand_beside_measurements_and_nothing_is_fitted_to_them() {
    let test = "predictions_stand_beside_measurements_and_nothing_is_fitted_to_them";
    if !two_cpus(test) {
        return;
    }
    let folder = Folder::new("compare-sim");
    let (both, alone) = (folder.file("both.json"), folder.file("alone.json"));
    let modes = ["--modes", "base,workqueue", "--load", "1k", "--json"];
    let mixed = ["compare", "--backend", "engine,sim", "--machine", "small-vm", "--runs", "1", "--seconds"];
    let value = in_time_enough("the engine answers", Duration::from_millis(200), |length| {
        let seconds = length.as_secs_f64().to_string();
        let value = report(&[&mixed[..], &[&seconds], &modes].concat());
        value["rows"][0]["latency_us"]["p99"].is_f64().then_some(value)
    });
    let rows = value["rows"].as_array().expect("rows");
    let who: Vec<(&Value, &Value)> = rows.iter().map(|row| (&row["backend"], &row["mode"])).collect();
    let [engine, sim] = ["engine", "sim"].map(Value::from);
    let [base, workqueue] = ["base", "workqueue"].map(Value::from);
    assert_eq!(who, [(&engine, &base), (&sim, &base), (&engine, &workqueue), (&sim, &workqueue)]);
    // Chance has requests come more often or less; a row of nothing else has the rate.
    assert!(rows[1]["achieved_rps"].as_f64().is_some_and(|rps| (700.0..1300.0).contains(&rps)), "{value}");
    assert!(rows[2]["refused"].is_null() && rows[3]["refused"].is_string(), "{value}");
    assert_eq!(value["machine"].as_array().map(Vec::len), Some(1));

    std::fs::write(&both, value.to_string()).expect("a file");
    let predictions = "rows of sim are predictions, and nothing is fitted to them";
    refused(&["sim", "calibrate", &both, "--backend", "sim"], 2, predictions);
    std::fs::write(&alone, report(&[&SIM[..], &modes].concat()).to_string()).expect("a file");
    for args in [
        &["sim", "calibrate", &alone][..],
        &["advise", "--rate", "1k", "--from", &alone],
        &["advise", "--judge", &alone, "--machine", "small-vm"],
    ] {
        refused(args, 2, "has no row with figures of engine");
    }
    let args = ["advise", "--judge", &both, "--machine", "small-vm", "--seeds", "1", "--json"];
    let judged = report(&args);
    let measured = &rows[0]["latency_us"]["p99"];
    assert_eq!((judged.as_array().map(Vec::len), &judged[0]["best_p99_us"]), (Some(1), measured), "{judged}");
}

#[test]
fn what_is_wrong_is_said_and_nothing_runs() {
    let folder = Folder::new("compare-sim-wrong");
    let broken = folder.file("machine.toml");
    std::fs::write(&broken, "title = \"x\"\nclock-mhz = 1\nspeed-of-light = 1\n").expect("a file");
    for (args, why) in [
        (&["--machine", "small-vm"][..], "--machine small-vm is for rows of sim: give --backend with sim in it"),
        (&["--backend", "kernel,engine", "--machine", "small-vm"], "is for rows of sim"),
        (
            &["--backend", "sim", "--machine", "cray"],
            "there is no machine cray: give a file, or one of epyc-7662-cx5, small-vm",
        ),
        (&["--backend", "sim", "--machine", "xsk-rr-pair"], "is two hosts on a wire"),
        (&["--backend", "engine,sim", "--machine", &broken], "machine.toml:"),
        (&["--backend", "sim,sim"], "`sim` is given twice"),
        (&["--backend", "sim", "--dev", "link"], "--over is for what is measured"),
        (&["--backend", "sim", "--proto", "tcp"], "--proto is for what is measured"),
        (&["--backend", "sim", "--oversubscribe"], "--oversubscribe is for what is measured"),
        (&["--backend", "sim", "--out", "/tmp"], "--out keeps the histograms of what was measured"),
        (
            &["--backend", "sim", "--queues", "8", "--flows", "4"],
            "each of 8 queues needs a flow: give more --connections",
        ),
        (&["--backend", "sim", "--", "memcached"], "a program serves over the kernel's sockets"),
        (&["--backend", "sim", "--modes", "base-irq"], "give --backend kernel"),
    ] {
        refused(&[&["compare"], args].concat(), 2, why);
    }
}

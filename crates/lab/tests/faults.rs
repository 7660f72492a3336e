//! The workload `kv` while everything is disturbed: nothing stalls, nothing leaks, every loss is counted.

use std::sync::mpsc;
use std::time::Duration;

use napier_lab::compare::faults::{FaultConfig, run};

/// A run that takes this much longer than asked for hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn from_env(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a whole number, not {text:?}")),
        Err(_) => default,
    }
}

#[test]
fn disturbances_cost_no_packet_without_a_counter() {
    let seed = from_env("NAPIER_FAULT_SEED", 1);
    let length = Duration::from_secs(from_env("NAPIER_FAULT_SECONDS", 10));
    println!("faults: seed {seed}, {} s (NAPIER_FAULT_SEED, NAPIER_FAULT_SECONDS)", length.as_secs());
    let (done, outcome) = mpsc::channel();
    std::thread::spawn(move || done.send(run(&FaultConfig { seed, length }).map(|report| report.to_string())).is_ok());
    match outcome.recv_timeout(length + PATIENCE) {
        Ok(Ok(report)) => println!("faults: {report}"),
        Ok(Err(error)) => panic!("seed {seed}: {error:#}"),
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("seed {seed}: the run hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("seed {seed}: the run panicked"),
    }
}

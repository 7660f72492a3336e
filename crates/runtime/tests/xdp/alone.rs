//! Tests that run in processes of their own.

use std::io;
use std::process::{Command, ExitStatus};

use napier_runtime::device::{AddXdpError, XdpConfig, XskError};

use crate::rig::*;

/// Without the capability: in a child, which runs this test alone.
#[test]
fn a_missing_capability_is_named() {
    const CHILD: &str = "NAPIER_XDP_TEST_INTERFACE";
    let test = "a_missing_capability_is_named";
    if let Ok(name) = std::env::var(CHILD) {
        let none = rustix::thread::CapabilitySets {
            effective: rustix::thread::CapabilitySet::empty(),
            permitted: rustix::thread::CapabilitySet::empty(),
            inheritable: rustix::thread::CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, none).expect("giving up is allowed");
        let engine = napier_runtime::engine::Engine::builder().start().expect("an engine");
        let end = end_in(&engine.namespace(), "x", &[LEFT]);
        let error = engine.add_xdp(&XdpConfig::on(&name), end).err().expect("refused");
        assert!(
            matches!(error, AddXdpError::Interface(XskError::NeedsCapability { capability: "CAP_NET_RAW", .. })),
            "{error}"
        );
        return;
    }
    let Some(pair) = veth(test, 1) else { return };
    let run = || in_a_child(test, CHILD, pair.left().name());
    assert!(pair.left().netns().run(run).expect("entered").expect("run").success());
}

/// Runs a test of these in a child, to which the variable says so.
fn in_a_child(test: &str, variable: &str, value: &str) -> io::Result<ExitStatus> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", &format!("alone::{test}")]).env(variable, value);
    napier_testkit::spawn(&mut command)?.wait()
}

/// In a process of its own, for it counts threads.
#[test]
fn everything_is_free_again_when_the_device_goes() {
    const ALONE: &str = "NAPIER_XDP_TEST_ALONE";
    let test = "everything_is_free_again_when_the_device_goes";
    if std::env::var_os(ALONE).is_none() {
        assert!(in_a_child(test, ALONE, "1").expect("run").success());
        return;
    }
    let Some(pair) = veth(test, 2) else { return };
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    for _ in 0..10 {
        let Some(xdp) = Xdp::new(test, pair.left(), XdpConfig { queues: 2, ..small() }, &[LEFT]) else { return };
        assert!(pair.left().has_xdp().expect("asked"));
        drop(xdp);
        assert!(!pair.left().has_xdp().expect("asked"));
    }
    eventually("no thread is left", || threads() <= before);
}

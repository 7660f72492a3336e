//! A memif client that cannot take its second queue into use. In a process of its own, for its limit of descriptors.

mod common;

use std::fs::File;
use std::time::Duration;

use common::{PATIENCE, PEER_MAC, TESTED_MAC, end, eventually};
use napier_runtime::device::{DeviceHandle, MemifConfig, MemifRole};
use napier_runtime::engine::Engine;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that stay free below the client's doorbells, for all that connecting takes.
const ROOM: usize = 200;
const QUEUES: u16 = 2;
/// More than are open while a connection is being made.
const TRIES: u64 = 150;

fn device(engine: &Engine, role: MemifRole, mac: [u8; 6]) -> DeviceHandle {
    let socket = format!("@napier-attach-{}", std::process::id());
    let retry = Duration::from_millis(1);
    let config = MemifConfig { queues: QUEUES, ring_size: 64, retry, ..MemifConfig::new(role, &socket) };
    engine.add_memif(config, end("memif0", &engine.namespace(), mac, &[])).unwrap()
}

/// Numbers of the open eventfds.
fn eventfds() -> Vec<u64> {
    let is_eventfd = |fd: &u64| {
        let name = std::fs::read_link(format!("/proc/self/fd/{fd}"));
        name.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
    };
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    all.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok()).filter(is_eventfd).collect()
}

fn limit(current: u64) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).unwrap();
}

/// A doorbell whose number is beyond the limit cannot be another file (`dup3`): the first queue of the client has what
/// it needs then, and the second one does not.
#[test]
fn an_attachment_that_fails_half_way_gives_back_what_it_took() {
    let before = getrlimit(Resource::Nofile).current.unwrap_or(65_536);
    let (one, other) = (Engine::builder().start().unwrap(), Engine::builder().start().unwrap());
    let room: Vec<_> = (0..ROOM).map(|_| File::open("/dev/null").unwrap()).collect();
    let known = eventfds();
    let client = device(&one, MemifRole::Client, PEER_MAC);
    // Nothing is there to connect to: what is new is the control thread's, and then the doorbells.
    let doorbells: Vec<u64> = eventfds().into_iter().filter(|fd| !known.contains(fd)).collect();
    assert!(doorbells.len() > usize::from(QUEUES), "{doorbells:?}");
    let last = doorbells.into_iter().max().unwrap();
    limit(last);
    drop(room);
    let server = device(&other, MemifRole::Server, TESTED_MAC);
    let tried = |count: u64| server.link_state().losses >= count;
    eventually("some tries", || tried(10));
    let (held, tries) = (eventfds().len(), server.link_state().losses);
    for more in (10..=TRIES).step_by(10) {
        eventually("more tries", || tried(tries + more));
    }
    assert!(!client.link_state().carrier, "its second queue cannot be");
    // What one connection takes may be open at either look: rings of both sides, and what they ring.
    let now = eventfds().len();
    assert!(now <= held + 20, "{held} eventfds were open, and {now} are after {TRIES} tries more");
    limit(before);
    assert!(client.wait_link(PATIENCE) && server.wait_link(PATIENCE), "{:?}", client.link_state());
}

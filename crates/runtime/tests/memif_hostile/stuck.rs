//! Peers that want somebody to wait for ever, or to go round for ever.

use std::sync::Arc;
use std::sync::mpsc;

use napier_runtime::device::{DeviceHandle, MemifRole};
use napier_runtime::engine::Engine;
use napier_runtime::raw::RawPort;

use crate::common::{PATIENCE, eventually};
use crate::raw::{Client, config, device, serves_an_honest_client, socket};

/// Fills the eventfd that the device rings and lets a write to it wait.
fn lets_a_ringer_wait(client: &mut Client) {
    for slot in 0..64_u32 {
        client.descriptor(false, slot.into(), (0, 0, 2048, 8192 + (64 + slot) * 2048));
    }
    client.head(false, 64);
    for fd in &client.eventfds {
        rustix::io::ioctl_fionbio(fd, false).unwrap();
    }
    rustix::io::write(&client.eventfds[1], &(u64::MAX - 1).to_ne_bytes()).unwrap();
}

/// Does something that may wait for ever, elsewhere.
fn in_time(what: &str, work: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    is_done.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} waits for ever"));
}

fn send_one(device: &DeviceHandle) {
    let port = RawPort::bind(device, 0).unwrap();
    let _ = port.build(64, |_| 64);
    port.flush();
}

#[test]
fn a_peer_that_makes_a_ringer_wait_is_closed() {
    let name = socket("waited");
    let engine = Engine::builder().start().unwrap();
    let device = Arc::new(device(&engine, config(MemifRole::Server, &name)));
    for round in 1..=3 {
        let mut client = Client::connected(&name);
        eventually("carrier", || device.link_state().carrier);
        lets_a_ringer_wait(&mut client);
        let sender = device.clone();
        in_time("a sender", move || send_one(&sender));
        assert_eq!(client.raw.is_refused(), "it filled an eventfd and made the other side wait for it");
        eventually("the liar is gone", || device.link_state().losses == round);
    }
    serves_an_honest_client(&device, &name);
}

/// The peer goes while somebody waits for it: whoever takes the device down waits for that one.
#[test]
fn a_peer_that_makes_a_ringer_wait_and_goes_freezes_nobody() {
    let name = socket("waited-and-gone");
    let engine = Engine::builder().start().unwrap();
    let device = Arc::new(device(&engine, config(MemifRole::Server, &name)));
    for _ in 0..10 {
        let mut client = Client::connected(&name);
        eventually("carrier", || device.link_state().carrier);
        lets_a_ringer_wait(&mut client);
        let sender = device.clone();
        let sends = std::thread::spawn(move || send_one(&sender));
        // The other eventfd is kept: nothing the kernel does at the end of the peer frees anybody.
        let Client { raw, eventfds, .. } = client;
        std::thread::yield_now();
        drop(raw);
        let asked = device.clone();
        in_time("link_state", move || eventually("the liar is gone", || !asked.link_state().carrier));
        in_time("the sender", move || sends.join().unwrap());
        drop(eventfds);
    }
    serves_an_honest_client(&device, &name);
}

#[test]
fn an_impossible_index_ends_the_connection_and_occupies_nobody() {
    let name = socket("index");
    let engine = Engine::builder().start().unwrap();
    let device = device(&engine, config(MemifRole::Server, &name));
    let polls = || device.napi_stats(0).polls_total();
    for (c2s, head) in [(true, 65), (true, 0x8000), (true, u16::MAX), (false, 65), (false, u16::MAX)] {
        let mut client = Client::connected(&name);
        eventually("carrier", || device.link_state().carrier);
        let before = polls();
        client.head(c2s, head);
        if c2s {
            rustix::io::write(&client.eventfds[0], &1_u64.to_ne_bytes()).unwrap();
        } else {
            send_one(&device);
        }
        assert_eq!(client.raw.is_refused(), "a ring index of its is impossible");
        // One or two looks; who goes round makes thousands until the control thread comes.
        assert!(polls() < before + 100, "{} polls for one index", polls() - before);
        eventually("the liar is gone", || !device.link_state().carrier);
        let reason = device.link_state().reason.unwrap();
        assert_eq!(reason, "refused the peer: a ring index of its is impossible");
    }
    serves_an_honest_client(&device, &name);
}

/// A producer that does not ring is found by the control thread, which leaves the poll to those whose work it is.
#[test]
fn the_control_thread_runs_no_softirq() {
    let name = socket("control");
    let engine = Engine::builder().start().unwrap();
    let device = device(&engine, config(MemifRole::Server, &name));
    let mut client = Client::connected(&name);
    eventually("carrier", || device.link_state().carrier);
    let by_others = || engine.softirq_stats().iter().map(|cpu| cpu.task_runs).sum::<u64>();
    let before = by_others();
    for slot in 0..60_u16 {
        client.descriptor(true, slot.into(), (0, 0, 64, 8192 + u32::from(slot) * 2048));
        client.head(true, slot + 1);
        eventually("the packet is found", || device.stats().rx_packets == u64::from(slot) + 1);
    }
    assert_eq!(by_others(), before);
}

/// The peer rings without end, fills the eventfd that we ring and makes it a blocking one.
#[test]
fn eventfds_of_a_hostile_client_stop_nobody() {
    let name = socket("eventfd");
    let engine = Engine::builder().start().unwrap();
    let device = device(&engine, config(MemifRole::Server, &name));
    let mut client = Client::connected(&name);
    eventually("carrier", || device.link_state().carrier);
    let port = RawPort::bind(&device, 0).unwrap();
    lets_a_ringer_wait(&mut client);
    for _ in 0..20 {
        // Waits in the kernel until the guard sees it; nothing is sent any more once the peer is closed.
        let _ = port.build(64, |_| 64);
        port.flush();
    }
    for _ in 0..10_000 {
        rustix::io::write(&client.eventfds[0], &1_u64.to_ne_bytes()).unwrap();
    }
    drop((port, client));
    eventually("the liar is gone", || !device.link_state().carrier);
    serves_an_honest_client(&device, &name);
}

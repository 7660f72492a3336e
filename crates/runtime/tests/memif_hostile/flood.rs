//! Clients that only keep others out.

use std::collections::VecDeque;
use std::io::Write as _;
use std::time::{Duration, Instant};

use napier_core::memif::Message;
use napier_runtime::device::MemifRole;
use napier_runtime::engine::Engine;

use crate::common::PATIENCE;
use crate::program::Program;
use crate::raw::{Raw, config, device, init, serves_an_honest_client, socket};

/// A client that says nothing holds no interface, and one that has it and falls silent loses it.
#[test]
fn silence_is_ended() {
    let name = socket("silence");
    let engine = Engine::builder().start().unwrap();
    let device = device(&engine, config(MemifRole::Server, &name));
    let silent: Vec<Raw> = (0..10).map(|_| Raw::connect(&name)).collect();
    serves_an_honest_client(&device, &name);
    let begun = Instant::now();
    let holder = Raw::connect(&name);
    assert!(matches!(holder.receive(), Some(Message::Hello(_))));
    assert_eq!(holder.reply(&Message::Init(init()), None), Some(Message::Ack));
    assert_eq!(holder.is_refused(), "the handshake took longer than 5 s");
    assert!(begun.elapsed() >= Duration::from_secs(5));
    drop(silent);
    serves_an_honest_client(&device, &name);
}

/// Connects and says nothing, without end; the oldest is closed so that there are descriptors.
pub(crate) fn flood(name: &str) {
    let flooder = || {
        let mut open = VecDeque::new();
        loop {
            open.extend(Raw::try_connect(name));
            if open.len() > 100 {
                open.pop_front();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(flooder);
        scope.spawn(flooder);
    });
}

#[test]
fn silent_clients_keep_nobody_out() {
    let name = socket("silent");
    let engine = Engine::builder().start().unwrap();
    let device = device(&engine, config(MemifRole::Server, &name));
    let mut silent = Vec::new();
    for more in [23, 100, 200] {
        silent.extend((0..more).map(|_| Raw::connect(&name)));
        serves_an_honest_client(&device, &name);
    }
    drop(silent);
    serves_an_honest_client(&device, &name);
}

#[test]
fn a_flood_keeps_nobody_out() {
    let name = socket("flood");
    let engine = Engine::builder().start().unwrap();
    let server = device(&engine, config(MemifRole::Server, &name));
    let floods = [Program::start("flood", &name, 0), Program::start("flood", &name, 0)];
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..5 {
        let begun = Instant::now();
        let other = Engine::builder().start().unwrap();
        let client = device(&other, config(MemifRole::Client, &name));
        assert!(client.wait_link(PATIENCE), "{:?}", client.link_state());
        let _ = writeln!(std::io::stderr(), "an honest client came in after {:?}", begun.elapsed());
        drop((client, other));
        crate::common::eventually("the honest client is gone", || !server.link_state().carrier);
    }
    drop(floods);
    serves_an_honest_client(&server, &name);
}

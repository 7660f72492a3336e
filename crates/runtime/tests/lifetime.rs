//! Engines that come and go in one process leave nothing behind. Alone in its program: it counts what the process has.
//!
//! `NAPIER_ENGINES=1000 cargo test --release --test lifetime -- --nocapture` makes more of them and says what it counted.

mod common;

use std::io::{Read as _, Write as _};
use std::time::Duration;

use common::{PATIENCE, PEER_MAC, PEER_V4, Pair, TESTED_MAC, TESTED_V4, bound, end, eventually, v4};
use napier_runtime::control::{DevAttribute, DevSet, NapiSet};
use napier_runtime::device::{DeviceHandle, LinkConfig, MemifConfig, MemifRole};
use napier_runtime::engine::Engine;
use napier_runtime::event::{EventContext, Interest, Timeout};
use napier_runtime::socket::{NetNs, TcpListener, TcpStream, UdpSocket};

/// Engines after which memory has been fetched that the allocator keeps.
const WARM_UP: u32 = 10;
/// Memory that may come and go with the allocator. One engine that is not freed is more than this.
const SLACK_KIB: u64 = 16 << 10;

const THREADED: DevSet = DevSet { attribute: DevAttribute::Threaded, value: 1 };

/// What a process has.
#[derive(Clone, Copy, Debug)]
struct Holdings {
    files: usize,
    threads: usize,
    resident_kib: u64,
}

fn holdings() -> Holdings {
    let entries = |path| std::fs::read_dir(path).expect("procfs").count();
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
    let resident_kib = line.trim().trim_end_matches(" kB").parse().expect("a number");
    Holdings { files: entries("/proc/self/fd"), threads: entries("/proc/self/task"), resident_kib }
}

fn open_files() -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("procfs");
    entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).collect()
}

/// A datagram and a connection from `from` to `to`, whose address is `TESTED_V4`; what is open then.
fn traffic(from: &NetNs, to: &NetNs) -> (Vec<UdpSocket>, Vec<TcpStream>, TcpListener) {
    let server = bound(to, v4(TESTED_V4, 7));
    let client = UdpSocket::bind(from, v4(PEER_V4, 0)).unwrap();
    client.send_to(b"datagram", v4(TESTED_V4, 7)).unwrap();
    assert_eq!(server.recv(&mut [0; 64]).unwrap(), 8);

    let listener = TcpListener::bind(to, v4(TESTED_V4, 80)).unwrap();
    let asking = TcpStream::connect(from, v4(TESTED_V4, 80)).unwrap();
    let (answering, _) = listener.accept().unwrap();
    (&asking).write_all(b"stream").unwrap();
    answering.set_read_timeout(Some(PATIENCE)).unwrap();
    (&answering).read_exact(&mut [0; 6]).unwrap();
    (vec![server, client], vec![asking, answering], listener)
}

/// A link in one engine, with each kind of thread that it can have.
fn one_link(turn: u32) {
    let pair = Pair::new(&LinkConfig::default());
    let Pair { engine, tested, peer, tested_ns, peer_ns } = &pair;
    let id = Some(tested.napi_id(0).into());
    match turn % 3 {
        0 => engine.napi_set(NapiSet { id, threaded: Some(1), ..NapiSet::default() }).unwrap(),
        1 => engine.napi_set(NapiSet { id, workqueue: true, ..NapiSet::default() }).unwrap(),
        _ => peer.set(THREADED).unwrap(),
    }
    let context = EventContext::new(engine);
    let (sockets, streams, listener) = traffic(peer_ns, tested_ns);
    context.add(&sockets[0], Interest::IN, 1).unwrap();
    context.add(&listener, Interest::IN, 2).unwrap();
    assert_eq!(context.wait(&mut [Default::default(); 4], Timeout::Now).unwrap(), 0);
    // Open connections and a member of a context: what is left open goes after the frames are counted.
    drop((streams, listener, sockets, context));
}

fn memif_end(engine: &Engine, ns: &NetNs, role: MemifRole, socket: &str) -> DeviceHandle {
    let config = MemifConfig { ring_size: 128, retry: Duration::from_millis(20), ..MemifConfig::new(role, socket) };
    let is_server = role == MemifRole::Server;
    let (mac, addr) = if is_server { (TESTED_MAC, TESTED_V4) } else { (PEER_MAC, PEER_V4) };
    engine.add_memif(config, end("memif0", ns, mac, &[(addr.into(), 24)])).unwrap()
}

/// Two engines that are joined by memif. Everything outlives its engine.
fn two_memifs(turn: u32) {
    let socket = format!("@napier-lifetime-{}-{turn}", std::process::id());
    let start = |role| {
        let engine = Engine::builder().start().unwrap();
        let ns = engine.namespace();
        let device = memif_end(&engine, &ns, role, &socket);
        (engine, ns, device)
    };
    let (server, server_ns, server_device) = start(MemifRole::Server);
    let (client, client_ns, client_device) = start(MemifRole::Client);
    for device in [&server_device, &client_device] {
        assert!(device.wait_link(PATIENCE), "no peer: {:?}", device.link_state());
    }
    let open = traffic(&client_ns, &server_ns);
    let context = EventContext::new(&client);
    context.add(&open.1[0], Interest::IN, 1).unwrap();
    drop(server);
    drop(client);
    assert!(server_device.stats().rx_packets > 0, "a device can be asked when its engine has gone");
    assert!(server_device.set_up().is_err() && server_device.set(THREADED).is_err());
    drop((server_ns, server_device, open, context));
}

fn engines(count: u32) {
    for turn in 0..count {
        if turn % 2 == 0 { one_link(turn / 2) } else { two_memifs(turn) }
    }
}

#[test]
fn engines_that_come_and_go_leave_nothing() {
    let at_start = holdings();
    let count = std::env::var("NAPIER_ENGINES").map_or(30, |count| count.parse().expect("a number"));
    engines(WARM_UP);
    let warm = holdings();
    engines(count);
    // Timers of connections end by themselves.
    eventually("threads have ended", || holdings().threads <= at_start.threads);
    let end = holdings();
    println!("at the start {at_start:?}\nafter {WARM_UP} {warm:?}\nafter {count} more {end:?}");
    assert_eq!(end.files, at_start.files, "descriptors: {:?}", open_files());
    let grown_kib = end.resident_kib.saturating_sub(warm.resident_kib);
    assert!(grown_kib <= SLACK_KIB, "memory grew by {grown_kib} KiB: {warm:?}, {end:?}");
}

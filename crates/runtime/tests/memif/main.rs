//! memif devices whose peer is in another engine: both roles, queues, interrupts, peers that come and go.

#[path = "../common/mod.rs"]
mod common;

mod ends;
mod side;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use common::{PATIENCE, PEER_MAC, PEER_V4, TESTED_MAC, TESTED_V4, eventually, v4};
use napier_runtime::control::NapiGet;
use napier_runtime::control::mode::Mode;
use napier_runtime::control::plan::Write;
use napier_runtime::device::{AddInterfaceError, AddMemifError, MemifConfig, MemifRole, MemifSecret, MemifSocketError};
use napier_runtime::engine::Engine;
use napier_runtime::raw::{RawBusyPoll, RawPort};
use napier_runtime::socket::{TcpListener, TcpStream};
use napier_testkit::closing_frees;
use side::{Side, bound, config, datagrams, end, pair, socket};

#[test]
fn datagrams_go_both_ways_by_interrupt() {
    for queues in [1, 2, 4] {
        let (server, client) = pair(&format!("udp{queues}"), |config| config.queues = queues);
        datagrams(&server, &client, 200);
        for side in [&server, &client] {
            side.has_counted(200);
            let stats = side.device.stats();
            assert_eq!((stats.rx_packets, stats.tx_packets), (200, 200));
            assert!(stats.interrupts > 0 && stats.tx_kicks > 0, "{stats:?}");
            assert_eq!((stats.rx_bad_descriptors, stats.rx_index_errors, stats.tx_bad_descriptors), (0, 0, 0));
        }
    }
}

/// Numbered frames from one side to the other while the receiver only waits; the ring is full again and again.
fn flood(from: &Side, to: &Side, queue: u16, frames: u64) {
    let (tx, rx) = (RawPort::bind(&from.device, queue).unwrap(), RawPort::bind(&to.device, queue).unwrap());
    let (mut progress, dropped_before) = (Instant::now(), to.device.stats().rx_no_frame);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..frames {
                let build = || {
                    tx.build(64, |frame| {
                        frame[..8].copy_from_slice(&number.to_le_bytes());
                        60
                    })
                };
                while build().is_err() {
                    tx.flush();
                    std::thread::yield_now();
                }
                if number % 32 == 31 {
                    tx.flush();
                }
            }
            tx.flush();
        });
        // What finds all frames in this port's queue is dropped, and counted.
        let dropped = || to.device.stats().rx_no_frame - dropped_before;
        let (mut received, mut next) = (0, 0_u64);
        while received + dropped() < frames {
            let _ = rx.wait(Some(Duration::from_millis(100)));
            let drained = rx.drain(64, |frame| {
                let number = u64::from_le_bytes(frame[..8].try_into().expect("eight bytes"));
                assert!(frame.len() == 60 && number >= next, "frame {number} where {next} belongs");
                (received, next) = (received + 1, number + 1);
            });
            if drained > 0 {
                progress = Instant::now();
            }
            assert!(progress.elapsed() < PATIENCE, "{received} came and {} were dropped", dropped());
        }
        assert!(received > 0);
    });
}

#[test]
fn a_flood_arrives_in_order_on_every_queue() {
    let (server, client) = pair("flood", |config| config.queues = 2);
    for queue in 0..2 {
        flood(&server, &client, queue, 50_000);
        flood(&client, &server, queue, 50_000);
    }
    for side in [&server, &client] {
        side.has_counted(100_000);
        let stats = side.device.stats();
        assert_eq!((stats.rx_packets + stats.rx_no_frame, stats.tx_packets), (100_000, 100_000));
        assert_eq!((stats.rx_bytes, stats.tx_too_long), (60 * stats.rx_packets, 0));
    }
}

/// Built, forwarded and drained in batches, by ports that poll themselves; every frame is home while the ports are bound.
#[test]
fn batches_go_there_and_back() {
    const PACKETS: u64 = 20_000;
    let (server, client) = pair("batches", |_| ());
    let (near, far) = (RawPort::bind(&client.device, 0).unwrap(), RawPort::bind(&server.device, 0).unwrap());
    for port in [&near, &far] {
        port.set_busy_poll(RawBusyPoll { usecs: 1, prefer: true, budget: 64 });
    }
    let (mut sent, mut back, begun) = (0_u64, 0_u64, Instant::now());
    while back < PACKETS {
        // Lengths on both sides of a block. Never more on the way than half a ring: what was drained leaves its slots when the instance's owner
        // looks next, and that may be a thread that has no CPU now.
        let max = (PACKETS - sent).min(64 - (sent - back)) as usize;
        near.build_batch(max, 300, |frame| {
            let (number, len) = (sent, 60 + sent as usize % 240);
            sent += 1;
            frame[..8].copy_from_slice(&number.to_le_bytes());
            frame[8..len].fill(number as u8);
            len
        });
        near.flush();
        far.recv();
        let (taken, forwarded) = far.forward_batch(48, |frame| frame[8] ^= 0xff);
        assert_eq!(taken, forwarded, "there is room for all");
        near.recv();
        near.drain(40, |frame| {
            let len = 60 + back as usize % 240;
            assert_eq!((frame.len(), &frame[..8]), (len, &back.to_le_bytes()[..]));
            assert!(frame[8] == !(back as u8) && frame[9..].iter().all(|byte| *byte == back as u8));
            back += 1;
        });
        assert!(begun.elapsed() < PATIENCE, "{back} of {sent} came back");
    }
    assert_eq!([&client, &server].map(|side| side.device.frames_out()), [0, 0]);
    // A batch ends at a length of 0, and one packet that finds the ring full is counted.
    assert_eq!(near.build_batch(8, 64, |_| 0), 0);
    let mut built = 0;
    near.build_batch(8, 64, |_| {
        built += 1;
        if built < 4 { 60 } else { 0 }
    });
    assert_eq!(built, 4);
    let full = client.device.stats().tx_ring_full;
    assert_eq!(near.build_batch(5000, 64, |_| 60), 128 - 3);
    assert_eq!(client.device.stats().tx_ring_full, full + 1);
}

/// A server with fewer queues and smaller rings than its client wants; the client sends on what there is.
#[test]
fn the_server_limits_its_client() {
    let socket = socket("limits");
    let server = Side::new(MemifConfig { queues: 2, ring_size: 64, ..config(MemifRole::Server, &socket) });
    let client = Side::new(MemifConfig { queues: 4, ring_size: 512, ..config(MemifRole::Client, &socket) });
    datagrams(server.linked(), client.linked(), 50);
    flood(&client, &server, 1, 1000);
    // The third queue leads nowhere.
    let nowhere = RawPort::bind(&client.device, 2).unwrap();
    assert!(nowhere.build(64, |_| 64).is_err());
}

#[test]
fn either_side_may_go_and_come_back() {
    let (socket, _free) = (socket("come-and-go"), closing_frees());
    let mut server = Side::new(config(MemifRole::Server, &socket));
    let mut client = Side::new(config(MemifRole::Client, &socket));
    for round in 0..6 {
        datagrams(server.linked(), client.linked(), 20);
        if round % 2 == 0 {
            drop(client);
            server.unlinked();
            let state = server.device.link_state();
            assert_eq!(state.reason.as_deref(), Some("the peer disconnected: the interface is closed"));
            server.at_rest();
            client = Side::new(config(MemifRole::Client, &socket));
        } else {
            drop(server);
            client.unlinked();
            client.at_rest();
            // Nothing is sent to nobody, and nothing is lost of what is ours.
            assert!(bound(&client.netns, 9).send_to(b"x", v4(TESTED_V4, 7)).is_err());
            server = Side::new(config(MemifRole::Server, &socket));
        }
    }
    assert!(server.device.link_state().losses + client.device.link_state().losses > 0);
}

#[test]
fn a_mode_that_was_set_while_no_peer_was_there_is_in_force_when_it_comes() {
    let socket = socket("mode-first");
    let server = Side::new(config(MemifRole::Server, &socket));
    for name in ["suspend20", "base", "threaded", "fullbusy", "workqueue", "defer200"] {
        let mode: Mode = name.parse().unwrap();
        server.engine.set_mode(&server.device, mode).unwrap();
        let client = Side::new(config(MemifRole::Client, &socket));
        datagrams(server.linked(), client.linked(), 5);
        let info = server.engine.napi_get(NapiGet { id: Some(server.device.napi_id(0).into()) }).unwrap();
        for write in mode.plan().writes() {
            if let Write::Instance(change) = write {
                assert_eq!(info.in_place_of(*change), Some(*change), "{name}");
            }
        }
        drop(client);
        server.unlinked();
    }
}

/// Both ends of the traffic go on sending while the peer goes and comes back.
#[test]
fn a_peer_may_go_under_traffic() {
    let socket = socket("under-traffic");
    let server = Side::new(config(MemifRole::Server, &socket));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let port = RawPort::bind(&server.device, 0).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = port.build(64, |_| 64);
                port.flush();
                port.drain(64, |frame| assert_eq!(frame.len(), 64));
                std::thread::yield_now();
            }
        });
        for _ in 0..10 {
            let client = Side::new(config(MemifRole::Client, &socket));
            let port = RawPort::bind(&client.linked().device, 0).unwrap();
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(20) {
                let _ = port.build(64, |_| 64);
                port.flush();
                port.drain(64, |frame| assert_eq!(frame.len(), 64));
            }
            drop(port);
            client.at_rest();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    server.at_rest();
    eventually("ten peers went", || server.device.link_state().losses == 10);
}

#[test]
fn who_does_not_belong_here_is_told_so() {
    let socket = socket("wrong");
    let secret = |text: &str| MemifSecret::new(text.as_bytes());
    let server = Side::new(MemifConfig { secret: secret("open sesame"), id: 3, ..config(MemifRole::Server, &socket) });
    let wrong = |change: &dyn Fn(&mut MemifConfig), reason: &str| {
        let mut config = MemifConfig { id: 3, secret: secret("open sesame"), ..config(MemifRole::Client, &socket) };
        change(&mut config);
        let client = Side::new(config);
        eventually(reason, || client.device.link_state().reason.is_some_and(|why| why.ends_with(reason)));
        assert!(!client.device.link_state().carrier);
    };
    wrong(&|config| config.id = 4, "no interface with id 4 on this socket");
    wrong(&|config| config.secret = None, "secret required");
    wrong(&|config| config.secret = secret("open simsim"), "wrong secret");
    wrong(&|config| config.socket.push('x'), "Connection refused (os error 111)");
    assert!(!server.device.link_state().carrier);
    let client = Side::new(MemifConfig { id: 3, secret: secret("open sesame"), ..config(MemifRole::Client, &socket) });
    datagrams(server.linked(), client.linked(), 5);
    wrong(&|_| (), "interface id 3 has a peer already");
    datagrams(&server, &client, 5);
    assert_eq!(server.device.link_state().losses, 0);
}

#[test]
fn several_interfaces_share_a_socket() {
    let socket = socket("shared");
    let engine = Engine::builder().start().unwrap();
    let netns = [engine.namespace(), engine.namespace()];
    let add = |id: u32| {
        let config = MemifConfig { id, ..config(MemifRole::Server, &socket) };
        let netns = &netns[id as usize];
        let device = engine.add_memif(config, end(netns, &format!("memif{id}"), TESTED_MAC, TESTED_V4)).unwrap();
        netns.neighbour_add(device.ifindex(), PEER_V4.into(), PEER_MAC).unwrap();
        Side { engine: engine.clone(), device, netns: netns.clone() }
    };
    let servers = [add(0), add(1)];
    let again = engine.add_memif(config(MemifRole::Server, &socket), end(&netns[0], "memif2", TESTED_MAC, TESTED_V4));
    assert!(matches!(again, Err(AddMemifError::Interface(AddInterfaceError::IdTaken { id: 0, .. }))));
    let clients = [1, 0].map(|id| Side::new(MemifConfig { id, ..config(MemifRole::Client, &socket) }));
    datagrams(servers[1].linked(), clients[0].linked(), 10);
    datagrams(servers[0].linked(), clients[1].linked(), 10);
    for server in &servers {
        server.has_counted(10);
        assert_eq!(server.device.stats().rx_packets, 10);
    }
}

#[test]
fn a_socket_file_is_replaced_only_if_nobody_listens() {
    let _free = closing_frees();
    let path = std::env::temp_dir().join(format!("napier-test-{}.sock", std::process::id()));
    let socket = path.to_str().unwrap().to_owned();
    let engine = Engine::builder().start().unwrap();
    let add = |name: &str| {
        let end = end(&engine.namespace(), name, TESTED_MAC, TESTED_V4);
        engine.add_memif(config(MemifRole::Server, &socket), end)
    };
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(
        add("a"),
        Err(AddMemifError::Interface(AddInterfaceError::Socket(MemifSocketError::NotASocket { .. })))
    ));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_file(&path).unwrap();
    // A listener of another kind is somebody's as well.
    let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert!(matches!(
        add("a"),
        Err(AddMemifError::Interface(AddInterfaceError::Socket(MemifSocketError::Taken { .. })))
    ));
    // Its file stays behind.
    drop(other);
    assert!(path.exists());
    let server = Side::new(config(MemifRole::Server, &socket));
    assert!(matches!(
        add("a"),
        Err(AddMemifError::Interface(AddInterfaceError::Socket(MemifSocketError::Taken { .. })))
    ));
    let client = Side::new(config(MemifRole::Client, &socket));
    datagrams(server.linked(), client.linked(), 5);
    drop(server);
    assert!(!path.exists(), "the file is removed with its listener");
}

#[test]
fn what_cannot_be_is_refused() {
    let engine = Engine::builder().start().unwrap();
    let add = |change: &dyn Fn(&mut MemifConfig)| {
        let mut config = config(MemifRole::Server, &socket("refused"));
        change(&mut config);
        engine.add_memif(config, end(&engine.namespace(), "memif0", TESTED_MAC, TESTED_V4)).map(drop)
    };
    assert!(matches!(add(&|config| config.queues = 0), Err(AddMemifError::Shape(_))));
    assert!(matches!(add(&|config| config.queues = 65), Err(AddMemifError::Shape(_))));
    assert!(matches!(add(&|config| config.ring_size = 100), Err(AddMemifError::Shape(_))));
    assert!(matches!(
        add(&|config| config.frame_bytes = 65536),
        Err(AddMemifError::Interface(AddInterfaceError::FrameBytes { .. }))
    ));
    for path in ["", "@", "a\0b", &"x".repeat(200)] {
        let refused = add(&|config| config.socket = path.to_owned());
        assert!(
            matches!(refused, Err(AddMemifError::Interface(AddInterfaceError::Socket(MemifSocketError::Path { .. })))),
            "{path:?}"
        );
    }
    assert!(matches!(
        add(&|config| config.socket = "/no/such/folder/socket".to_owned()),
        Err(AddMemifError::Interface(AddInterfaceError::Socket(MemifSocketError::System { .. })))
    ));
    assert!(add(&|_| ()).is_ok());
    assert!(matches!(add(&|config| config.id = 1), Err(AddMemifError::Device(_))), "the name is taken");
}

#[test]
fn a_removed_device_tells_its_peer_and_gives_its_number_back() {
    let _free = closing_frees();
    for removed in [MemifRole::Server, MemifRole::Client] {
        let test = format!("removed{removed:?}");
        let (server, client) = pair(&test, |_| {});
        datagrams(&server, &client, 20);
        let (goes, stays) = if removed == MemifRole::Server { (&server, &client) } else { (&client, &server) };
        goes.engine.remove_device(&goes.device).unwrap();
        stays.unlinked();
        assert!(goes.device.link_state().gone && !stays.device.link_state().gone);
        // The same number and the same name; the other side has its peer again.
        let (mac, addr) = if removed == MemifRole::Server { (TESTED_MAC, TESTED_V4) } else { (PEER_MAC, PEER_V4) };
        let again =
            goes.engine.add_memif(config(removed, &socket(&test)), end(&goes.netns, "memif0", mac, addr)).unwrap();
        assert!(again.wait_link(PATIENCE) && stays.device.wait_link(PATIENCE), "{removed:?}");
        goes.engine.remove_device(&again).unwrap();
    }
}

/// One that has no peer yet, or another device of its socket.
#[test]
fn a_device_without_peer_is_removed_beside_another_on_its_socket() {
    let engine = Engine::builder().start().unwrap();
    let (netns, socket) = (engine.namespace(), socket("beside"));
    let add = |id: u32, name: &str| {
        let config = MemifConfig { id, ..config(MemifRole::Server, &socket) };
        engine.add_memif(config, end(&netns, name, TESTED_MAC, Ipv4Addr::new(10, 78, id as u8, 1))).unwrap()
    };
    let (first, second) = (add(0, "first"), add(1, "second"));
    engine.remove_device(&first).unwrap();
    let client = Side::new(MemifConfig { id: 1, ..config(MemifRole::Client, &socket) });
    assert!(client.linked().device.link_state().carrier && second.wait_link(PATIENCE));
    let first = add(0, "first");
    engine.remove_device(&second).unwrap();
    client.unlinked();
    engine.remove_device(&first).unwrap();
}

//! Workers on a network in memory.

mod fake;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fake::{FakeNet, Scene, World};
use napier_runtime::control::plan::Plan;
use napier_runtime::engine::Engine;
use napier_runtime::event::UserEvent;
use rustix::net::sockopt;

use super::connection::READ_BYTES;
use super::engine::EngineNet;
use super::kernel::{KernelNet, KernelStop};
use super::net::{KEEPALIVE, Net as _};
use super::worker::{Addresses, Worker};
use crate::session::{OUTPUT_BYTES_HIGH, Server, Totals};
use crate::store::{How, NEVER_MS, Put, VALUE_BYTES_MAX};

const EMFILE: i32 = 24;
const MIB: usize = 1 << 20;

fn server(memory_bytes: usize) -> Server {
    Server::new(memory_bytes, 1, super::now_ms())
}

fn scene(scene: impl FnMut(&mut World) + 'static) -> Scene {
    Box::new(scene)
}

/// Plays the scenes to a worker, and hands out the world as it is in the end, with the worker gone.
fn play(server: &Server, idle_timeout: Option<Duration>, scenes: Vec<Scene>) -> (World, Totals) {
    let at = Addresses { memcached: Some("127.0.0.1:1".parse().unwrap()), ..Addresses::default() };
    play_at(at, server, idle_timeout, scenes)
}

fn play_at(at: Addresses, server: &Server, idle_timeout: Option<Duration>, scenes: Vec<Scene>) -> (World, Totals) {
    let net = FakeNet::new(scenes);
    let world = net.0.clone();
    let mut worker = Worker::new(net, server, 0, at).unwrap().with_idle_timeout(idle_timeout);
    worker.run(None).unwrap();
    drop(worker);
    (world.take(), server.totals())
}

fn store(server: &Server, key: &[u8], bytes: usize) {
    let put = Put { how: How::Set, cas: 0, flags: 0, expires_ms: NEVER_MS, value: &vec![b'v'; bytes] };
    server.store.put(super::now_ms(), key, &put).unwrap();
}

/// Does nothing so many times, so that what is under way gets done.
fn rounds(count: usize) -> impl Iterator<Item = Scene> {
    (0..count).map(|_| scene(|_| ()))
}

#[test]
fn values_that_lack_their_last_bytes_stay_inside_the_account_and_come_back() {
    const CLIENTS: usize = 40;
    let memory = 16 * MIB;
    let server: &'static Server = Box::leak(Box::new(server(memory)));
    for key in 0..2000_u32 {
        store(server, &key.to_be_bytes(), 10_000);
    }
    let mut scenes = vec![scene(|w| {
        for _ in 0..CLIENTS {
            let client = w.connect(usize::MAX);
            w.send(client, format!("set big{client} 0 0 {VALUE_BYTES_MAX}\r\n").as_bytes());
            w.send(client, &vec![b'x'; VALUE_BYTES_MAX - 5]);
        }
    })];
    let within = move || {
        let stats = server.store_stats();
        assert!(stats.bytes + stats.held_bytes <= memory as u64, "{stats:?}");
        assert!(stats.held_bytes <= memory as u64 / 4 * 3, "{stats:?}");
    };
    scenes.extend((0..40).map(|_| scene(move |_| within())));
    scenes.push(scene(|w| {
        let good = w.connect(usize::MAX);
        w.send(good, b"set k 0 0 2\r\nhi\r\nget k\r\n");
    }));
    scenes.extend(rounds(3));
    scenes.push(scene(move |w| {
        within();
        assert_eq!(w.streams[CLIENTS].answered, b"STORED\r\nVALUE k 0 2\r\nhi\r\nEND\r\n", "a good client is served");
        for client in 0..CLIENTS {
            // Not `k`: the values that are taken may have driven it out.
            w.send(client, b"xxxxx\r\nget absent\r\n");
        }
    }));
    scenes.extend(rounds(10));
    let (world, totals) = play(server, None, scenes);
    let got = b"END\r\n";
    let refused = world.streams[..CLIENTS].iter().filter(|wire| {
        let refused = wire.answered == [&b"SERVER_ERROR out of memory storing object\r\n"[..], got].concat();
        assert!(refused || wire.answered == [&b"STORED\r\n"[..], got].concat(), "{:?}", wire.answered);
        refused
    });
    let refused = refused.count();
    // About 12 MiB for values of one: some are taken, most are not, and none is left without an answer.
    assert!((CLIENTS - 12..CLIENTS - 5).contains(&refused), "{refused} refused");
    assert_eq!((totals.requests_out_of_memory, totals.refused), (refused as u64, refused as u64));
    assert_eq!(server.store_stats().held_bytes, 0, "all is given back");
    assert_eq!(server.connections_now(), 0);
}

#[test]
fn the_start_of_a_line_takes_no_more_than_it_is_long() {
    const CLIENTS: usize = 1000;
    let server: &'static Server = Box::leak(Box::new(server(8 * MIB)));
    let mut scenes = vec![scene(|w| {
        for _ in 0..CLIENTS {
            let client = w.connect(usize::MAX);
            w.send(client, b"get");
        }
    })];
    scenes.extend(rounds(200));
    scenes.push(scene(|_| {
        let held = server.store_stats().held_bytes as usize;
        assert!(server.connections_now() == CLIENTS && held / CLIENTS < 1200, "{held} bytes");
    }));
    play(server, None, scenes);
}

#[test]
fn answers_that_nobody_takes_are_bounded_and_part_of_the_account() {
    const CLIENTS: usize = 40;
    let memory = 32 * MIB;
    let server: &'static Server = Box::leak(Box::new(server(memory)));
    store(server, b"big", VALUE_BYTES_MAX);
    let mut scenes = vec![scene(|w| {
        for _ in 0..CLIENTS {
            let client = w.connect(1000);
            w.send(client, &b"get big\r\n".repeat(2 * READ_BYTES / 9));
        }
    })];
    let within = move || {
        let stats = server.store_stats();
        assert!(stats.bytes + stats.held_bytes <= memory as u64, "{stats:?}");
        // Of each one answer is kept, and what it asked for behind that.
        let most = CLIENTS * (OUTPUT_BYTES_HIGH + VALUE_BYTES_MAX + READ_BYTES + 4096);
        assert!(stats.held_bytes <= most as u64, "{stats:?}");
    };
    scenes.extend((0..60).map(|_| scene(move |_| within())));
    scenes.push(scene(|w| {
        let good = w.connect(usize::MAX);
        w.send(good, b"set k 0 0 2\r\nhi\r\nget k\r\n");
    }));
    scenes.extend(rounds(3));
    let (world, totals) = play(server, None, scenes);
    assert_eq!(world.streams[CLIENTS].answered, b"STORED\r\nVALUE k 0 2\r\nhi\r\nEND\r\n", "a good client is served");
    let closed = totals.connections_out_of_memory;
    assert!((1..CLIENTS as u64).contains(&closed), "{closed} closed");
    assert_eq!(server.store_stats().held_bytes, 0, "all is given back");
}

#[test]
fn a_client_with_many_requests_lets_others_have_their_turn() {
    let server: &'static Server = Box::leak(Box::new(server(64 * MIB)));
    store(server, b"big", VALUE_BYTES_MAX);
    let requests = READ_BYTES / 9;
    let mut scenes = vec![scene(move |w| {
        let greedy = w.connect(usize::MAX);
        w.send(greedy, &b"get big\r\n".repeat(requests));
    })];
    scenes.extend(rounds(2));
    scenes.push(scene(|w| {
        let good = w.connect(usize::MAX);
        w.send(good, b"get k\r\n");
    }));
    scenes.extend(rounds(3));
    let (world, _) = play(server, None, scenes);
    assert_eq!(world.streams[1].answered, b"END\r\n");
    let given = world.streams[0].answered.len();
    // It takes all that it is given, and still it is one load of answers per turn.
    assert!(given > 0 && given <= 7 * (OUTPUT_BYTES_HIGH + VALUE_BYTES_MAX + 100), "{given} bytes");
}

#[test]
fn those_who_ask_for_much_share_a_bound_per_turn() {
    const CLIENTS: usize = 30;
    let server: &'static Server = Box::leak(Box::new(server(64 * MIB)));
    store(server, b"big", VALUE_BYTES_MAX);
    let mut scenes = vec![scene(|w| {
        for _ in 0..CLIENTS {
            let greedy = w.connect(usize::MAX);
            w.send(greedy, b"get big\r\n");
        }
    })];
    scenes.extend(rounds(10));
    // All of them are known as greedy by now, and ask again.
    scenes.push(scene(|w| {
        for client in 0..CLIENTS {
            assert!(w.streams[client].answered.ends_with(b"END\r\n"), "{client}");
            w.streams[client].answered.clear();
            w.send(client, b"get big\r\n");
        }
    }));
    scenes.push(scene(|w| {
        let answered = w.streams.iter().filter(|wire| !wire.answered.is_empty()).count();
        assert!((1..=2).contains(&answered), "{answered} in one turn");
    }));
    scenes.extend(rounds(CLIENTS));
    let (world, _) = play(server, None, scenes);
    assert!(world.streams.iter().all(|wire| wire.answered.ends_with(b"END\r\n")), "all are answered in the end");
}

#[test]
fn all_of_a_long_row_of_requests_is_answered_in_the_end() {
    let server: &'static Server = Box::leak(Box::new(server(64 * MIB)));
    store(server, b"big", 100_000);
    let mut scenes = vec![scene(|w| {
        let client = w.connect(usize::MAX);
        w.send(client, &b"get big\r\n".repeat(100));
    })];
    scenes.extend(rounds(100));
    let (world, totals) = play(server, None, scenes);
    assert_eq!(totals.get_hits, 100);
    assert!(world.streams[0].answered.len() > 100 * 100_000 && world.streams[0].answered.ends_with(b"END\r\n"));
}

#[test]
fn more_connections_than_there_may_be_are_refused_in_memcacheds_words() {
    let server: &'static Server = Box::leak(Box::new(server(0).with_connections_max(3)));
    let mut scenes = vec![scene(|w| {
        for _ in 0..5 {
            w.connect(usize::MAX);
        }
    })];
    scenes.extend(rounds(2));
    scenes.push(scene(|w| {
        for client in 0..5 {
            let expected: &[u8] = if client < 3 { b"" } else { b"ERROR Too many open connections\r\n" };
            assert_eq!((&w.streams[client].answered[..], w.streams[client].dropped), (expected, client >= 3));
        }
        // One that goes makes room.
        w.send(0, b"quit\r\n");
    }));
    scenes.extend(rounds(1));
    scenes.push(scene(|w| {
        w.connect(usize::MAX);
        w.send(5, b"mn\r\n");
    }));
    scenes.extend(rounds(2));
    let (world, totals) = play(server, None, scenes);
    assert_eq!(world.streams[5].answered, b"MN\r\n");
    assert_eq!((totals.connections, totals.connections_refused), (4, 2));
}

#[test]
fn a_connection_without_memory_for_it_is_refused() {
    let server: &'static Server = Box::leak(Box::new(server(8 * MIB)));
    let mut hoard = server.store.held();
    hoard.set(6 * MIB - 100).unwrap();
    let mut scenes = vec![scene(|w| {
        w.connect(usize::MAX);
    })];
    scenes.extend(rounds(2));
    let (world, totals) = play(server, None, scenes);
    assert_eq!(world.streams[0].answered, b"SERVER_ERROR out of memory for another connection\r\n");
    assert_eq!((totals.connections, totals.connections_refused_memory), (0, 1));
}

#[test]
fn a_connection_that_nobody_can_watch_is_refused_and_counted() {
    let server: &'static Server = Box::leak(Box::new(server(0)));
    let mut scenes = vec![scene(|w| {
        w.is_full = true;
        w.connect(usize::MAX);
    })];
    scenes.extend(rounds(1));
    scenes.push(scene(|w| {
        assert!(w.streams[0].dropped && server.connections_now() == 0, "its seat is free");
        w.is_full = false;
        w.connect(usize::MAX);
        w.send(1, b"mn\r\n");
    }));
    scenes.extend(rounds(2));
    let (world, totals) = play(server, None, scenes);
    assert_eq!(world.streams[0].answered, b"SERVER_ERROR out of memory for another connection\r\n");
    assert_eq!(world.streams[1].answered, b"MN\r\n");
    let counted = (totals.connections, totals.connections_refused_memory, totals.accepts_paused);
    assert_eq!(counted, (1, 1, 0), "nobody pauses for what may come at the next connection");
}

#[test]
fn a_worker_on_the_engine_can_watch_as_many_connections_as_there_may_be() {
    const CONNECTIONS: u16 = 5000;
    let engine = Engine::builder().start().unwrap();
    let net =
        EngineNet::new(&engine, &engine.namespace(), &UserEvent::new(), &Plan::default(), CONNECTIONS.into()).unwrap();
    // The place to wait knows no difference between them and streams.
    let sockets: Vec<_> = (0..CONNECTIONS)
        .map(|index| net.bind(SocketAddr::from(([0; 4], 1 + index)), u64::from(index)).unwrap())
        .collect();
    assert_eq!(sockets.len(), usize::from(CONNECTIONS));
}

#[test]
fn without_a_descriptor_a_worker_pauses_and_goes_on() {
    let server: &'static Server = Box::leak(Box::new(server(0)));
    let begun = Instant::now();
    let mut scenes = vec![scene(|w| w.arriving.push_back(Err(EMFILE)))];
    scenes.extend(rounds(50));
    scenes.push(scene(move |w| {
        let tries_max = 1 + begun.elapsed().as_millis() as usize / 50;
        assert!((1..=tries_max).contains(&w.accept_errors), "{} tries, not {tries_max}", w.accept_errors);
        // One wait has no end if this thread was stopped until the pause was over: then it has just been taken up.
        let pauses: Vec<Duration> = w.timeouts.iter().copied().flatten().collect();
        assert!(!pauses.is_empty() && pauses.iter().all(|pause| *pause <= Duration::from_millis(50)), "{pauses:?}");
        // A descriptor is free.
        w.arriving.clear();
        w.connect(usize::MAX);
        w.send(0, b"mn\r\n");
        std::thread::sleep(Duration::from_millis(60));
    }));
    scenes.extend(rounds(3));
    let (world, totals) = play(server, None, scenes);
    assert_eq!(world.streams[0].answered, b"MN\r\n");
    assert_eq!((totals.accepts_paused, totals.connections), (world.accept_errors as u64, 1));
    assert!(world.timeouts.last().copied().flatten().is_none(), "no more reason to wake up");
}

#[test]
fn a_pause_that_fails_half_way_ends_all_the_same() {
    let server: &'static Server = Box::leak(Box::new(server(0)));
    let at = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
    let both = Addresses { memcached: at(1), redis: at(2), ..Addresses::default() };
    let past_pause = || std::thread::sleep(Duration::from_millis(60));
    let mut scenes = vec![scene(|w| {
        w.arriving.push_back(Err(EMFILE));
        // The second listener stays watched.
        w.changes_left = Some(1);
    })];
    scenes.push(scene(move |w| {
        assert_eq!(w.watched_listeners().count(), 1);
        // Half of taking it up fails as well.
        w.arriving.clear();
        w.changes_left = Some(0);
        past_pause();
    }));
    scenes.push(scene(move |w| {
        w.changes_left = None;
        past_pause();
    }));
    scenes.extend(rounds(1));
    scenes.push(scene(|w| {
        assert_eq!(w.watched_listeners().count(), 2, "both are watched again");
        w.connect(usize::MAX);
        w.send(0, b"mn\r\n");
    }));
    scenes.extend(rounds(2));
    let (world, totals) = play_at(both, server, None, scenes);
    assert_eq!(world.streams[0].answered, b"MN\r\n");
    assert_eq!(totals.connections, 1);
    assert!(totals.accepts_paused > 0 && world.timeouts.last().copied().flatten().is_none(), "no more to do");
}

#[test]
fn idle_connections_are_closed_and_those_in_use_are_not() {
    let server: &'static Server = Box::leak(Box::new(server(0)));
    let mut scenes = vec![scene(|w| {
        for _ in 0..3 {
            w.connect(usize::MAX);
        }
    })];
    for _ in 0..20 {
        scenes.push(scene(|w| {
            w.send(0, b"mn\r\n");
            // One byte after the other of a line without an end is no sign of life.
            w.send(1, b"g");
            std::thread::sleep(Duration::from_millis(50));
        }));
    }
    let (world, totals) = play(server, Some(Duration::from_millis(500)), scenes);
    assert_eq!(world.streams[0].answered, b"MN\r\n".repeat(20));
    assert_eq!((totals.connections_idle, totals.connections_closed), (2, 2));
    assert!(world.timeouts.iter().all(|timeout| timeout.is_some_and(|timeout| timeout <= Duration::from_millis(125))));
}

#[test]
fn the_kernel_probes_silent_peers_of_accepted_connections() {
    let stop = KernelStop::new().unwrap();
    let mut net = KernelNet::new(&stop, &Plan::default()).unwrap();
    let listener = net.listen("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let stream = loop {
        net.wait(None, &mut Vec::new()).unwrap();
        if let Some(stream) = net.accept(&listener).unwrap() {
            net.join(&stream, 2).unwrap();
            break stream;
        }
    };
    assert!(sockopt::socket_keepalive(&stream).unwrap());
    let set = (sockopt::tcp_keepidle(&stream), sockopt::tcp_keepintvl(&stream), sockopt::tcp_keepcnt(&stream));
    assert_eq!((set.0.unwrap(), set.1.unwrap(), set.2.unwrap()), KEEPALIVE);
}

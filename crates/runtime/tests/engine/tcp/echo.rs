//! Bytes arrive whole and in order, whatever the sizes of the writes and reads.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use napier_runtime::device::LinkConfig;
use napier_runtime::socket::{SocketOption, TcpListener, TcpStream};

use super::{connected, echo, link, servers};
use crate::common::{Dice, PATIENCE, Pair, eventually};

/// The shortest that a segment waits for its acknowledgement before it is sent again (Linux: `TCP_RTO_MIN`).
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(200);

#[test]
fn a_byte_goes_to_and_fro() {
    let pair = link();
    let begun = Instant::now();
    for server in servers(7000) {
        let (client, server) = connected(&pair, server);
        let thread = echo(server);
        let mut buffer = [0; 8];
        for round in 0..100 {
            (&client).write_all(&[round]).unwrap();
            assert_eq!((client.recv(&mut buffer).unwrap(), buffer[0]), (1, round));
        }
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.recv(&mut buffer).unwrap(), 0);
        assert_eq!(thread.join().unwrap(), 100);
    }
    let (client, server) = (pair.peer_ns.counters(), pair.tested_ns.counters());
    assert_eq!((client.tcp_active_opens, client.tcp_passive_opens), (2, 0));
    assert_eq!((server.tcp_active_opens, server.tcp_passive_opens), (0, 2));
    // Nothing is sent again, unless a thread without a processor owed the answer for so long.
    let late = begun.elapsed() >= SHORTEST_TIMEOUT;
    assert!(late || (client.tcp_retrans_segs, server.tcp_retrans_segs) == (0, 0), "{client:?} {server:?}");
    // What a round of an instance received is counted at its end, after the receiver was woken.
    eventually("each segment is counted at both ends", || {
        let (client, server) = (pair.peer_ns.counters(), pair.tested_ns.counters());
        (client.tcp_out_segs, server.tcp_out_segs) == (server.tcp_in_segs, client.tcp_in_segs)
    });
}

/// Writes and reads of random sizes both ways at once.
fn exchange(pair: &Pair, seed: u64, bytes: usize) {
    let mut dice = Dice(seed);
    let buffer = |dice: &mut Dice| 2304 + dice.roll(60_000) as usize;
    let listener = TcpListener::builder()
        .rcvbuf(buffer(&mut dice))
        .sndbuf(buffer(&mut dice))
        .bind(&pair.tested_ns, servers(7000)[seed as usize % 2])
        .unwrap();
    let client = TcpStream::builder()
        .rcvbuf(buffer(&mut dice))
        .sndbuf(buffer(&mut dice))
        .connect(&pair.peer_ns, listener.local_addr().unwrap())
        .unwrap();
    client.set_nodelay(dice.roll(2) == 0).unwrap();
    let (server, _) = listener.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
    }
    let byte = |at: usize| (at * 31 + at / 251) as u8;
    let push = |stream: &TcpStream, seed| {
        let (mut dice, mut at) = (Dice(seed), 0);
        while at < bytes {
            let most = if dice.roll(4) == 0 { 30_000 } else { 200 };
            let len = (1 + dice.roll(most) as usize).min(bytes - at);
            let chunk: Vec<u8> = (at..at + len).map(byte).collect();
            let mut stream = stream;
            stream.write_all(&chunk).unwrap();
            at += len;
        }
        stream.shutdown(Shutdown::Write).unwrap();
    };
    let pull = |stream: &TcpStream, seed| {
        let (mut dice, mut at) = (Dice(seed), 0);
        let mut buffer = vec![0; 30_000];
        loop {
            let room = 1 + dice.roll(30_000) as usize;
            match stream.recv(&mut buffer[..room]).unwrap() {
                0 => break,
                len => {
                    assert!(buffer[..len].iter().enumerate().all(|(i, b)| *b == byte(at + i)), "at {at}, seed {seed}");
                    at += len;
                }
            }
        }
        assert_eq!(at, bytes, "seed {seed}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| push(&client, seed));
        scope.spawn(|| push(&server, seed + 1));
        scope.spawn(|| pull(&client, seed + 2));
        pull(&server, seed + 3);
    });
}

#[test]
fn random_sizes_arrive_whole() {
    let pair = link();
    for seed in 0..12 {
        exchange(&pair, seed, 400_000);
    }
}

#[test]
fn neighbours_are_asked_for() {
    let pair = Pair::strangers(&LinkConfig::default());
    for server in servers(7000) {
        let (client, server) = connected(&pair, server);
        (&client).write_all(b"hello").unwrap();
        let mut buffer = [0; 5];
        (&server).read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"hello");
    }
}

#[test]
fn peeking_takes_nothing() {
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[0]);
    (&client).write_all(b"abc").unwrap();
    let mut buffer = [0; 8];
    assert_eq!(server.peek(&mut buffer).unwrap(), 3);
    assert_eq!(server.peek(&mut buffer[..2]).unwrap(), 2);
    assert_eq!((server.recv(&mut buffer).unwrap(), &buffer[..3]), (3, &b"abc"[..]));
}

#[test]
fn reading_busy_polls() {
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[0]);
    let thread = std::thread::spawn(move || {
        server.setsockopt(SocketOption::BusyPoll, 100).unwrap();
        let mut byte = [0];
        while server.recv(&mut byte).unwrap() == 1 {
            server.send(&byte).unwrap();
        }
        server.getsockopt(SocketOption::IncomingNapiId).unwrap()
    });
    client.setsockopt(SocketOption::BusyPoll, 100).unwrap();
    let mut byte = [0];
    for round in 0..200 {
        client.send(&[round]).unwrap();
        assert_eq!((client.recv(&mut byte).unwrap(), byte[0]), (1, round));
    }
    assert_eq!(client.getsockopt(SocketOption::IncomingNapiId).unwrap().cast_unsigned(), pair.peer.napi_id(0));
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(thread.join().unwrap().cast_unsigned(), pair.tested.napi_id(0));
}

#[test]
fn a_device_that_goes_down_loses_nothing() {
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[0]);
    let thread = echo(server);
    let mut sent = vec![0_u8; 300_000];
    sent.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 7) as u8);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&client).write_all(&sent).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        });
        scope.spawn(|| {
            for _ in 0..5 {
                std::thread::sleep(std::time::Duration::from_millis(5));
                pair.tested.set_down();
                std::thread::sleep(std::time::Duration::from_millis(5));
                pair.tested.set_up().unwrap();
            }
        });
        let mut back = Vec::new();
        (&client).read_to_end(&mut back).unwrap();
        assert!(back == sent, "{} bytes came back", back.len());
    });
    assert_eq!(thread.join().unwrap(), 300_000);
    drop(client);
    eventually("nobody is connected", || pair.peer_ns.counters().tcp_curr_estab == 0);
}

/// A connection is owned by one thread at a time, and all the others that want it get it.
#[test]
fn threads_share_a_connection() {
    const THREADS: usize = 4;
    const WRITES: usize = 2000;
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[0]);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..WRITES).for_each(|_| assert_eq!(client.send(b"word").unwrap(), 4)));
        }
        let mut left = THREADS * WRITES * 4;
        let mut buffer = [0; 4096];
        while left > 0 {
            let count = server.recv(&mut buffer).unwrap();
            assert!(count > 0, "{left} bytes are missing");
            left -= count;
        }
    });
}

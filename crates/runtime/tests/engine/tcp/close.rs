//! How connections end.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use napier_runtime::socket::{TcpListener, TcpStream};

use super::{clients, connected, connected_narrow, echo, errno, join, link, servers, would_block};
use crate::common::{PATIENCE, eventually, v4};

#[test]
fn either_half_may_close_first() {
    let pair = link();
    for (round, server) in servers(7000).into_iter().cycle().take(4).enumerate() {
        let (client, server) = connected(&pair, server);
        let (first, second) = if round < 2 { (&client, &server) } else { (&server, &client) };
        { first }.write_all(b"last words").unwrap();
        first.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        { second }.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"last words");
        assert_eq!(errno(first.send(b"more")), libc::EPIPE);
        // The other half goes on.
        let mut buffer = [0; 6];
        for _ in 0..50 {
            { second }.write_all(b"answer").unwrap();
            { first }.read_exact(&mut buffer).unwrap();
            assert_eq!(&buffer, b"answer");
        }
        second.shutdown(Shutdown::Write).unwrap();
        assert_eq!(first.recv(&mut buffer).unwrap(), 0);
    }
    let resets = pair.peer_ns.counters().tcp_out_rsts + pair.tested_ns.counters().tcp_out_rsts;
    assert_eq!(resets, 0);
}

#[test]
fn nobody_listens() {
    let pair = link();
    let begun = std::time::Instant::now();
    for server in servers(7000) {
        assert_eq!(errno(TcpStream::connect(&pair.peer_ns, server)), libc::ECONNREFUSED);
        let late = TcpStream::builder().nonblocking(true).connect(&pair.peer_ns, server).unwrap();
        eventually("the refusal is reported", || late.peer_addr().is_err());
        let mut error = None;
        eventually("the refusal arrives", || {
            error = late.take_error().unwrap();
            error.is_some()
        });
        assert_eq!(error.unwrap().raw_os_error(), Some(libc::ECONNREFUSED));
        assert!(late.take_error().unwrap().is_none());
    }
    // A SYN is sent again if a thread without a processor owed the answer for a second.
    let late = begun.elapsed() >= Duration::from_secs(1);
    assert!(late || pair.tested_ns.counters().tcp_out_rsts == 4, "{}", pair.tested_ns.counters());
    assert_eq!(pair.peer_ns.counters().tcp_attempt_fails, 4);
    assert_eq!(errno(TcpStream::connect(&pair.peer_ns, v4([192, 0, 2, 1].into(), 80))), libc::ENETUNREACH);
    assert_eq!(errno(TcpStream::connect(&pair.peer_ns, v4([10, 77, 0, 9].into(), 80))), libc::EHOSTUNREACH);
}

#[test]
fn unread_data_resets() {
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[0]);
    (&client).write_all(b"never read").unwrap();
    eventually("the data is there", || server.peek(&mut [0; 1]).unwrap() == 1);
    drop(server);
    assert_eq!(errno(client.recv(&mut [0; 8])), libc::ECONNRESET);
    // The error is told once.
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 0);
    assert_eq!(errno(client.send(b"x")), libc::EPIPE);
    assert_eq!(pair.tested_ns.counters().tcp_ext_tcp_abort_on_close, 1);
    assert_eq!(pair.peer_ns.counters().tcp_estab_resets, 1);
}

#[test]
fn a_linger_time_of_zero_resets() {
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[1]);
    server.set_linger(Some(Duration::from_secs(1))).unwrap();
    server.set_linger(Some(Duration::ZERO)).unwrap();
    drop(server);
    assert_eq!(errno(client.recv(&mut [0; 8])), libc::ECONNRESET);
}

#[test]
fn data_for_a_closed_socket_resets() {
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[0]);
    drop(server);
    assert_eq!(client.recv(&mut [0; 8]).unwrap(), 0);
    client.send(b"anybody there?").unwrap();
    eventually("the reset comes", || client.send(b"x").is_err());
    assert_eq!(pair.tested_ns.counters().tcp_ext_tcp_abort_on_data, 1);
}

#[test]
fn what_was_sent_before_closing_arrives() {
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[0]);
    // More than both buffers hold is never in flight at once, so the tail leaves after the close.
    (&client).write_all(&[7; 16_000]).unwrap();
    (&client).write_all(&[8; 12_000]).unwrap();
    drop(client);
    let mut all = Vec::new();
    (&server).read_to_end(&mut all).unwrap();
    assert_eq!((all.len(), all[15_999], all[16_000], all[27_999]), (28_000, 7, 8, 8));
    drop(server);
    eventually("nobody is connected", || {
        pair.peer_ns.counters().tcp_curr_estab + pair.tested_ns.counters().tcp_curr_estab == 0
    });
}

#[test]
fn a_full_peer_holds_the_sender_back() {
    let pair = link();
    let (client, server) = connected_narrow(&pair, servers(7000)[0]);
    client.set_nonblocking(true).unwrap();
    let mut sent = 0;
    eventually("both buffers are full", || {
        match client.send(&[1; 5000]) {
            Ok(count) => sent += count,
            Err(_) => return sent >= 32_768,
        }
        false
    });
    assert!(would_block(client.send(b"x")));
    assert_eq!(sent, 32_768);
    let mut buffer = [0; 1024];
    while sent > 0 {
        sent -= server.recv(&mut buffer).unwrap();
    }
    eventually("there is room again", || client.send(b"x").is_ok());
}

#[test]
fn timeouts_are_kept() {
    let pair = link();
    let (client, _server) = connected_narrow(&pair, servers(7000)[0]);
    client.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    assert!(would_block(client.recv(&mut [0; 8])));
    client.set_write_timeout(Some(Duration::from_millis(5))).unwrap();
    // Without a reader a blocking write gets as far as both buffers, if the acknowledgements come in time.
    let sent = client.send(&[0; 100_000]).unwrap();
    assert!((16_384..=32_768).contains(&sent), "{sent}");
    client.set_nonblocking(true).unwrap();
    assert!(would_block(client.recv(&mut [0; 8])));
    assert_eq!(errno(client.set_read_timeout(Some(Duration::ZERO))), libc::EINVAL);
}

/// Probes go on for a second, in which a peer that lives has its turn on a busy machine too.
const KEEP_ALIVE: Option<(Duration, Duration, u32)> = Some((Duration::from_millis(30), Duration::from_millis(20), 50));

#[test]
fn a_dead_peer_is_noticed_by_keep_alive() {
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[0]);
    client.set_keepalive(KEEP_ALIVE).unwrap();
    // A peer that lives answers.
    std::thread::sleep(Duration::from_millis(300));
    client.send(b"x").unwrap();
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 1);
    // What is not acknowledged is sent again instead, for longer than a probe is waited for.
    eventually("it is acknowledged", || client.info().unacknowledged == 0);
    pair.tested.set_down();
    assert_eq!(errno(client.recv(&mut [0; 8])), libc::ETIMEDOUT);
    assert_eq!(pair.peer_ns.counters().tcp_ext_tcp_abort_on_timeout, 1);
    pair.tested.set_up().unwrap();
}

#[test]
fn accepted_connections_inherit_keep_alive() {
    let pair = link();
    let listener =
        TcpListener::builder().keepalive(KEEP_ALIVE).unwrap().bind(&pair.tested_ns, servers(7000)[0]).unwrap();
    let (client, server) = join(&pair.peer_ns, &listener);
    std::thread::sleep(Duration::from_millis(300));
    client.send(b"x").unwrap();
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 1);
    pair.peer.set_down();
    assert_eq!(errno(server.recv(&mut [0; 8])), libc::ETIMEDOUT);
    pair.peer.set_up().unwrap();
    let bad = Some((Duration::from_millis(30), Duration::ZERO, 3));
    assert_eq!(errno(TcpListener::builder().keepalive(bad)), libc::EINVAL);
}

#[test]
fn a_user_timeout_bounds_what_is_not_acknowledged() {
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[0]);
    assert_eq!(errno(client.set_user_timeout(Some(Duration::ZERO))), libc::EINVAL);
    client.set_user_timeout(Some(Duration::from_secs(1))).unwrap();
    // Idle for longer, and alive.
    std::thread::sleep(Duration::from_millis(1100));
    client.send(b"x").unwrap();
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 1);
    pair.tested.set_down();
    client.send(b"lost").unwrap();
    assert_eq!(errno(client.recv(&mut [0; 8])), libc::ETIMEDOUT);
    assert_eq!(pair.peer_ns.counters().tcp_ext_tcp_abort_on_timeout, 1);
    pair.tested.set_up().unwrap();
}

#[test]
fn a_connection_in_time_wait_gives_way_to_a_new_one() {
    let pair = link();
    let listener = TcpListener::bind(&pair.tested_ns, servers(7000)[0]).unwrap();
    let local = clients(6000)[0];
    for round in 0..5 {
        let mut client = None;
        // The server waits already when its last ACK is still on the way; until it comes the client's ends are in use.
        eventually("the client's side is gone", || {
            match TcpStream::builder().local(local).connect(&pair.peer_ns, listener.local_addr().unwrap()) {
                Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => {}
                connected => client = Some(connected.unwrap()),
            }
            client.is_some()
        });
        let client = client.unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let (server, from) = listener.accept().unwrap();
        assert_eq!(from, local);
        // The server closes first, so it waits; the client is free to come again.
        server.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.recv(&mut [0; 8]).unwrap(), 0);
        drop(client);
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(server.recv(&mut [0; 8]).unwrap(), 0);
        let waits = || pair.tested_ns.counters().tcp_ext_tw;
        eventually("the server waits", || waits() == round + 1);
    }
    assert_eq!(pair.tested_ns.counters().tcp_ext_tw_recycled, 4);
}

#[test]
fn the_same_ends_twice_are_refused() {
    let pair = link();
    let listener = TcpListener::bind(&pair.tested_ns, servers(7000)[0]).unwrap();
    let again = || TcpStream::builder().local(clients(6000)[0]).connect(&pair.peer_ns, servers(7000)[0]);
    let _first = again().unwrap();
    assert_eq!(errno(again()), libc::EADDRINUSE);
    assert_eq!(errno(TcpListener::bind(&pair.tested_ns, servers(7000)[0])), libc::EADDRINUSE);
    drop(listener);
    TcpListener::bind(&pair.tested_ns, servers(7000)[0]).unwrap();
}

#[test]
fn a_listener_that_closes_resets_who_waits() {
    let pair = link();
    let listener = TcpListener::bind(&pair.tested_ns, servers(7000)[0]).unwrap();
    let (accepted, server) = join(&pair.peer_ns, &listener);
    let waiting = TcpStream::connect(&pair.peer_ns, servers(7000)[0]).unwrap();
    waiting.set_read_timeout(Some(PATIENCE)).unwrap();
    drop(listener);
    assert_eq!(errno(waiting.recv(&mut [0; 8])), libc::ECONNRESET);
    // Who was accepted stays.
    let thread = echo(server);
    (&accepted).write_all(b"still here").unwrap();
    let mut buffer = [0; 10];
    (&accepted).read_exact(&mut buffer).unwrap();
    drop(accepted);
    assert_eq!(thread.join().unwrap(), 10);
}

//! TCP sockets as members of event contexts.

use std::net::Shutdown;
use std::time::Duration;

use napier_runtime::event::{Event, EventContext, Interest, Timeout};
use napier_runtime::socket::{TcpListener, TcpStream};

use super::{connected, connected_narrow, link, servers, would_block};
use crate::common::{PATIENCE, Pair, eventually, prefer};

fn wait(context: &EventContext) -> Option<Event> {
    let mut events = [Event::default(); 4];
    match context.wait(&mut events, Timeout::After(PATIENCE)).unwrap() {
        0 => None,
        1 => Some(events[0]),
        more => panic!("{more} events"),
    }
}

fn nothing(context: &EventContext) -> bool {
    now(context).is_none()
}

fn now(context: &EventContext) -> Option<Event> {
    let mut events = [Event::default(); 4];
    let found = context.wait(&mut events, Timeout::Now).unwrap();
    events[..found].first().copied()
}

/// The conditions once they are as wanted.
fn becomes(context: &EventContext, wanted: Interest) {
    eventually("the conditions change", || wait(context).is_some_and(|event| event.events == wanted));
}

#[test]
fn level_triggered_conditions() {
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[0]);
    let context = EventContext::new(&pair.engine);
    context.add(&server, Interest::IN | Interest::OUT | Interest::RDHUP, 3).unwrap();
    assert_eq!(wait(&context), Some(Event { events: Interest::OUT, data: 3 }));
    client.send(b"abc").unwrap();
    becomes(&context, Interest::IN | Interest::OUT);
    // Level: told again until it is read.
    assert_eq!(wait(&context).unwrap().events, Interest::IN | Interest::OUT);
    assert_eq!(server.recv(&mut [0; 8]).unwrap(), 3);
    assert_eq!(wait(&context).unwrap().events, Interest::OUT);
    client.shutdown(Shutdown::Write).unwrap();
    becomes(&context, Interest::IN | Interest::OUT | Interest::RDHUP);
    server.shutdown(Shutdown::Write).unwrap();
    becomes(&context, Interest::IN | Interest::OUT | Interest::RDHUP | Interest::HUP);
}

#[test]
fn an_error_is_told() {
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[0]);
    let context = EventContext::new(&pair.engine);
    context.add(&client, Interest::IN, 1).unwrap();
    server.set_linger(Some(Duration::ZERO)).unwrap();
    drop(server);
    becomes(&context, Interest::IN | Interest::ERR | Interest::HUP);
    assert_eq!(client.take_error().unwrap().unwrap().raw_os_error(), Some(libc::ECONNRESET));
    becomes(&context, Interest::IN | Interest::HUP);
}

#[test]
fn edge_triggered_news() {
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[0]);
    server.set_nonblocking(true).unwrap();
    let context = EventContext::new(&pair.engine);
    context.add(&server, Interest::IN | Interest::EDGE, 1).unwrap();
    assert!(nothing(&context));
    for round in 0..100 {
        client.send(&[round]).unwrap();
        assert_eq!(wait(&context).unwrap().events, Interest::IN);
        // Not read: no news until more comes.
        if round % 3 == 0 {
            assert!(nothing(&context));
        }
        if round % 2 == 0 {
            while server.recv(&mut [0; 8]).is_ok() {}
        }
    }
}

#[test]
fn room_to_send_is_news() {
    let pair = link();
    let (client, server) = connected_narrow(&pair, servers(7000)[0]);
    client.set_nonblocking(true).unwrap();
    let context = EventContext::new(&pair.engine);
    context.add(&client, Interest::OUT | Interest::EDGE, 1).unwrap();
    // What is on its way makes room once more, however late.
    eventually("the buffers are full", || {
        while client.send(&[0; 4096]).is_ok() {}
        std::thread::sleep(Duration::from_millis(60));
        would_block(client.send(&[0; 4096])) && nothing(&context)
    });
    // How much there is depends on what had come when the sender's buffer was full.
    server.set_nonblocking(true).unwrap();
    let mut told = None;
    eventually("there is room", || {
        while server.recv(&mut [0; 4096]).is_ok() {}
        told = now(&context);
        told.is_some()
    });
    assert_eq!(told.unwrap().events, Interest::OUT);
    assert!(client.send(&[0; 100]).is_ok());
}

#[test]
fn listeners_and_connects_are_told_of() {
    let pair = link();
    let listener = TcpListener::builder().nonblocking(true).bind(&pair.tested_ns, servers(7000)[0]).unwrap();
    let (accepts, connects) = (EventContext::new(&pair.engine), EventContext::new(&pair.engine));
    accepts.add(&listener, Interest::IN, 1).unwrap();
    assert!(would_block(listener.accept()));
    assert!(nothing(&accepts));
    let client = TcpStream::builder().nonblocking(true).connect(&pair.peer_ns, servers(7000)[0]).unwrap();
    connects.add(&client, Interest::OUT, 2).unwrap();
    assert_eq!(wait(&connects), Some(Event { events: Interest::OUT, data: 2 }));
    assert!(client.take_error().unwrap().is_none());
    assert_eq!(wait(&accepts), Some(Event { events: Interest::IN, data: 1 }));
    listener.accept().unwrap();
    assert!(nothing(&accepts));
    let refused = TcpStream::builder().nonblocking(true).connect(&pair.peer_ns, servers(7001)[0]).unwrap();
    connects.delete(&client).unwrap();
    connects.add(&refused, Interest::OUT, 3).unwrap();
    becomes(&connects, Interest::OUT | Interest::ERR | Interest::HUP);
}

/// Both programs busy poll by way of their contexts, with interrupts suspended.
#[test]
fn busy_polling_contexts_serve_connections() {
    let pair = link();
    let (client, server) = connected(&pair, servers(7000)[0]);
    let set = napier_runtime::control::NapiSet {
        defer_hard_irqs: Some(10),
        gro_flush_timeout: Some(200_000),
        irq_suspend_timeout: Some(20_000_000),
        ..napier_runtime::control::NapiSet::default()
    };
    pair.set_all(&pair.tested, &set);
    pair.set_all(&pair.peer, &set);
    let before = crate::common::stats_of(&pair.tested).busy_poll_rx_packets;
    std::thread::scope(|scope| {
        scope.spawn(|| run(&pair, &server, false));
        run(&pair, &client, true);
    });
    assert!(crate::common::stats_of(&pair.tested).busy_poll_rx_packets > before, "nobody busy polled");
}

fn run(pair: &Pair, stream: &TcpStream, first: bool) {
    stream.set_nonblocking(true).unwrap();
    let context = EventContext::new(&pair.engine);
    context.set_params(prefer(200)).unwrap();
    context.add(stream, Interest::IN, 0).unwrap();
    if first {
        stream.send(b"x").unwrap();
    }
    for _ in 0..500 {
        wait(&context).expect("the other end answers");
        let mut byte = [0];
        match stream.recv(&mut byte) {
            Ok(0) => return,
            Ok(_) => assert_eq!(stream.send(&byte).unwrap(), 1),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    stream.shutdown(Shutdown::Both).unwrap();
}

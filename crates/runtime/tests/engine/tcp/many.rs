//! Ten thousand connections at once on one instance.

use std::collections::HashMap;
use std::io::Read;

use napier_runtime::event::{Event, EventContext, Interest, Timeout};
use napier_runtime::socket::{TcpListener, TcpStream};

use super::{link, servers};
use crate::common::{PATIENCE, eventually};

const CONNECTIONS: usize = 10_000;

#[test]
fn ten_thousand_connections_echo() {
    let pair = link();
    let builder = TcpListener::builder().rcvbuf(2304).sndbuf(2304).backlog(CONNECTIONS);
    let listener = builder.bind(&pair.tested_ns, servers(7000)[0]).unwrap();
    let clients: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let builder = TcpStream::builder().rcvbuf(2304).sndbuf(2304);
            builder.connect(&pair.peer_ns, servers(7000)[0]).unwrap()
        })
        .collect();
    let mut accepted = HashMap::new();
    for _ in 0..CONNECTIONS {
        let (stream, from) = listener.accept().unwrap();
        assert!(accepted.insert(from, stream).is_none(), "{from} twice");
    }
    assert_eq!(pair.tested_ns.counters().tcp_curr_estab, CONNECTIONS as u64);
    std::thread::scope(|scope| {
        // One thread serves all of them by way of one event context.
        scope.spawn(|| {
            let context = EventContext::with_members_max(&pair.engine, CONNECTIONS as u32);
            let streams: Vec<TcpStream> = accepted.into_values().collect();
            for (at, stream) in streams.iter().enumerate() {
                stream.set_nonblocking(true).unwrap();
                context.add(stream, Interest::IN, at as u64).unwrap();
            }
            let (mut events, mut closed) = ([Event::default(); 64], 0);
            let mut buffer = [0; 64];
            while closed < CONNECTIONS {
                let count = context.wait(&mut events, Timeout::After(PATIENCE)).unwrap();
                assert!(count > 0, "stalled with {closed} closed");
                for event in &events[..count] {
                    let stream = &streams[event.data as usize];
                    match stream.recv(&mut buffer) {
                        Ok(0) => {
                            context.delete(stream).unwrap();
                            stream.shutdown(std::net::Shutdown::Write).unwrap();
                            closed += 1;
                        }
                        Ok(len) => assert_eq!(stream.send(&buffer[..len]).unwrap(), len),
                        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
                    }
                }
            }
        });
        for round in 0..2_u32 {
            for (at, client) in clients.iter().enumerate() {
                let question = (at as u32 ^ round << 20).to_be_bytes();
                client.send(&question).unwrap();
            }
            for (at, mut client) in clients.iter().enumerate() {
                let mut answer = [0; 4];
                client.read_exact(&mut answer).unwrap();
                assert_eq!(u32::from_be_bytes(answer), at as u32 ^ round << 20);
            }
        }
        drop(clients);
    });
    for ns in [&pair.peer_ns, &pair.tested_ns] {
        eventually("nobody is connected", || ns.counters().tcp_curr_estab == 0);
    }
    // The last FINs may still wait for room in the ring.
    eventually("all wait out their end", || pair.peer_ns.counters().tcp_ext_tw == CONNECTIONS as u64);
    let counters = pair.peer_ns.counters();
    assert_eq!((counters.tcp_attempt_fails, counters.tcp_estab_resets), (0, 0));
}

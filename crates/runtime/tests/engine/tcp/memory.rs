//! Many connections share little memory.

use std::io::{Read, Write};
use std::net::Shutdown;

use napier_runtime::device::LinkConfig;
use napier_runtime::engine::Engine;
use napier_runtime::socket::{MemoryLimits, TcpListener, TcpStream};

use super::{join, servers};
use crate::common::{Pair, eventually};

const CONNECTIONS: usize = 10;
const BYTES: usize = 20_000;

/// What goes one way by connection `of`.
fn message(of: usize) -> Vec<u8> {
    (0..BYTES).map(|at| (at * 7 + at / 251 + of) as u8).collect()
}

fn reads_all(mut stream: &TcpStream, of: usize) {
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert!(got == message(of), "connection {of}: {} bytes", got.len());
}

fn writes_all(mut stream: &TcpStream, of: usize) {
    stream.write_all(&message(of)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
}

#[test]
fn all_bytes_arrive_where_memory_is_short() {
    // Half of what one of the connections would have by itself.
    let limits = MemoryLimits::new(12 << 10, 16 << 10, 32 << 10).unwrap();
    let pair = Pair::on(Engine::builder().tcp_mem(limits), &LinkConfig::default());
    let listener = TcpListener::bind(&pair.tested_ns, servers(7000)[0]).unwrap();
    let connections: Vec<_> = (0..CONNECTIONS).map(|_| join(&pair.peer_ns, &listener)).collect();
    std::thread::scope(|scope| {
        for (of, (client, server)) in connections.iter().enumerate() {
            scope.spawn(move || writes_all(client, of));
            scope.spawn(move || writes_all(server, of + 100));
            scope.spawn(move || reads_all(server, of));
            scope.spawn(move || reads_all(client, of + 100));
        }
    });
    let counters = pair.peer_ns.counters();
    assert!(counters.tcp_ext_tcp_memory_pressures > 0, "{counters}");
    drop(connections);
    for ns in [&pair.peer_ns, &pair.tested_ns] {
        eventually("all is given back", || ns.counters().tcp_mem == 0);
    }
}

#[test]
fn without_a_bound_of_ones_own_it_is_the_machines() {
    let pair = super::link();
    let listener = TcpListener::bind(&pair.tested_ns, servers(7000)[0]).unwrap();
    let (client, server) = join(&pair.peer_ns, &listener);
    writes_all(&client, 0);
    reads_all(&server, 0);
    let counters = pair.peer_ns.counters();
    assert_eq!((counters.tcp_ext_tcp_memory_pressures, counters.tcp_send_mem_waits), (0, 0));
}

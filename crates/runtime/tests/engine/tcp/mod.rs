//! TCP end to end: both ends are name spaces of one engine, joined by a link.

mod again;
mod close;
mod echo;
mod event;
mod hostile;
mod limits;
mod locked;
mod losses;
mod many;
mod memory;

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::thread::JoinHandle;

use napier_runtime::device::LinkConfig;
use napier_runtime::socket::{NetNs, TcpListener, TcpStream, TcpStreamBuilder};

use crate::common::{PATIENCE, PEER_V4, PEER_V6, Pair, TESTED_V4, TESTED_V6, v4, v6};

/// Where servers listen: over IPv4 and over IPv6.
fn servers(port: u16) -> [SocketAddr; 2] {
    [v4(TESTED_V4, port), v6(TESTED_V6, port)]
}

/// A connection, and its other end.
fn connected(pair: &Pair, server: SocketAddr) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(&pair.tested_ns, server).unwrap();
    join(&pair.peer_ns, &listener)
}

/// The same with buffers of 16 KiB that do not grow.
fn connected_narrow(pair: &Pair, server: SocketAddr) -> (TcpStream, TcpStream) {
    let listener = TcpListener::builder().rcvbuf(16_384).sndbuf(16_384).bind(&pair.tested_ns, server).unwrap();
    join_by(TcpStream::builder().rcvbuf(16_384).sndbuf(16_384), &pair.peer_ns, &listener)
}

/// Connects to a listener from `ns`.
fn join(ns: &NetNs, listener: &TcpListener) -> (TcpStream, TcpStream) {
    join_by(TcpStream::builder(), ns, listener)
}

fn join_by(builder: TcpStreamBuilder, ns: &NetNs, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = builder.connect(ns, listener.local_addr().unwrap()).unwrap();
    let (server, from) = listener.accept().unwrap();
    assert_eq!(from, client.local_addr().unwrap());
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
    }
    (client, server)
}

/// Sends back what comes until the peer closes; then closes too.
fn echo(stream: TcpStream) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let (mut buffer, mut bytes) = (vec![0; 20_000], 0);
        loop {
            match (&stream).read(&mut buffer).unwrap() {
                0 => return bytes,
                len => {
                    (&stream).write_all(&buffer[..len]).unwrap();
                    bytes += len as u64;
                }
            }
        }
    })
}

/// The error number of a call that must fail.
fn errno<T>(result: std::io::Result<T>) -> i32 {
    match result {
        Ok(_) => panic!("the call should have failed"),
        Err(error) => error.raw_os_error().unwrap(),
    }
}

fn would_block<T>(result: std::io::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

fn link() -> Pair {
    Pair::new(&LinkConfig::default())
}

/// The peer's addresses, for what has to come from there.
fn clients(port: u16) -> [SocketAddr; 2] {
    [v4(PEER_V4, port), v6(PEER_V6, port)]
}

//! What becomes of connections where the memory that all have together is short (`net.ipv4.tcp_mem`).

use napier_core::tcp::memory::{LEAST, MemoryLimits};
use napier_testkit::eventually;

use crate::event::{Interest, Watchable};
use crate::tcp::TcpStream;
use crate::tcp::tests::segments::{PEER, US, connected, segment, sent};
use crate::testing::Rig;
use crate::wire::flag;

const LITTLE: usize = LEAST as usize;

/// So much for all, and no thread but the test's looks after it.
fn limit_quietly(rig: &Rig, bytes: u64) {
    rig.ns.tcp().unwrap().memory.never_sweeps();
    limit(rig, bytes);
}

fn limit(rig: &Rig, bytes: u64) {
    rig.ns.set_tcp_mem(MemoryLimits::new(bytes, bytes, bytes).unwrap()).unwrap();
}

fn held(rig: &Rig) -> u64 {
    rig.ns.counters().tcp_mem
}

fn is_writable(stream: &TcpStream) -> bool {
    stream.watched().ready().contains(Interest::OUT)
}

#[test]
fn a_write_without_memory_takes_the_least_and_waits_for_its_peer() {
    let (mut rig, _listener, stream, ours) = connected();
    limit_quietly(&rig, 0);
    stream.set_nonblocking(true).unwrap();
    let writes = |bytes: usize| stream.send(&vec![7; bytes]).map_err(|error| error.raw_os_error());
    assert_eq!(writes(100_000), Ok(LITTLE));
    assert_eq!(writes(1), Err(Some(libc::EAGAIN)));
    assert!(!is_writable(&stream), "a program that waits for room sleeps");
    assert!(rig.ns.counters().tcp_send_mem_waits > 0);
    let acknowledges = |bytes: usize| segment(PEER, US, flag::ACK, 1001, ours + bytes as u32, b"");
    rig.inject(&acknowledges(LITTLE));
    assert!(is_writable(&stream));
    assert_eq!(writes(100_000), Ok(LITTLE), "as long as it is short");
    limit_quietly(&rig, 1 << 30);
    rig.inject(&acknowledges(2 * LITTLE));
    assert_eq!(writes(100_000), Ok(64 << 10), "the buffer is what it was before");
    assert!(rig.ns.counters().tcp_ext_tcp_memory_pressures > 0);
}

#[test]
fn what_comes_without_memory_is_dropped_unless_the_program_waits_for_it() {
    let (mut rig, _listener, stream, ours) = connected();
    limit_quietly(&rig, 0);
    let data = |seq: u32| segment(PEER, US, flag::ACK, seq, ours, &[seq as u8; 1000]);
    // The first is forced and has some room behind it.
    rig.inject(&data(1001));
    rig.inject(&data(2001));
    drop(sent(&rig));
    rig.inject(&data(3001));
    let answer = sent(&rig);
    assert_eq!((answer.len(), answer[0].flags, answer[0].ack), (1, flag::ACK, 3001));
    rig.inject(&data(4001));
    let counters = rig.ns.counters();
    assert_eq!((counters.tcp_ext_tcp_rcv_q_drop, counters.tcp_ext_tcp_ofo_drop), (1, 1));
    let mut buffer = [0; 4096];
    assert_eq!(stream.recv(&mut buffer).unwrap(), 2000);
    rig.inject(&data(3001));
    assert_eq!(stream.recv(&mut buffer).unwrap(), 1000);
    assert_eq!(buffer[..1000], [(3001_u32 & 0xff) as u8; 1000]);
    drop(stream);
    rig.inject(&segment(PEER, US, flag::ACK | flag::FIN, 4001, ours + 1, b""));
    assert_eq!(rig.ns.counters().tcp_ext_tw, 1);
    assert_eq!(held(&rig), 0, "what only waits out its end has no buffers");
}

#[test]
fn an_orphan_with_much_is_reset() {
    let (rig, _listener, stream, _) = connected();
    stream.set_nonblocking(true).unwrap();
    assert_eq!(stream.send(&[7; 20_000]).unwrap(), 20_000);
    limit_quietly(&rig, 0);
    drop(sent(&rig));
    drop(stream);
    assert!(sent(&rig).iter().any(|seen| seen.flags & flag::RST != 0));
    assert_eq!(rig.ns.counters().tcp_ext_tcp_abort_on_memory, 1);
    assert_eq!(held(&rig), 0);
}

#[test]
fn what_an_idle_connection_keeps_is_taken_back() {
    let (mut rig, _listener, stream, ours) = connected();
    let data = |seq: u32| segment(PEER, US, flag::ACK, seq, ours, b"request");
    rig.inject(&data(1001));
    assert_eq!(stream.recv(&mut [0; 64]).unwrap(), 7);
    assert_eq!(held(&rig), 2048);
    rig.host.timers.open();
    limit(&rig, 2000);
    eventually("it has been asked", || held(&rig) == 0);
    rig.inject(&data(1008));
    assert_eq!(stream.recv(&mut [0; 64]).unwrap(), 7);
}

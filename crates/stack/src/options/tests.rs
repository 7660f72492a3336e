use super::*;
use crate::tables::reuse::ReusePort;
use crate::testing::{FIRST_ID, NAPI, Rig, at, udp};
use crate::{NetNs, UdpSocket};
use std::sync::atomic::Ordering::Relaxed;

fn bound(ns: &NetNs) -> UdpSocket {
    UdpSocket::bind(ns, at("0.0.0.0:0")).expect("a socket")
}

/// The errno of a refused setsockopt, 0 if it was taken.
fn set(socket: &UdpSocket, option: SocketOption, value: i32) -> i32 {
    match socket.setsockopt(option, value) {
        Ok(()) => 0,
        Err(error) => std::io::Error::from(error).raw_os_error().expect("a number"),
    }
}

fn get(socket: &UdpSocket, option: SocketOption) -> Result<i32, i32> {
    socket.getsockopt(option).map_err(|error| std::io::Error::from(error).raw_os_error().expect("a number"))
}

#[test]
fn names_and_numbers() {
    for option in SocketOption::ALL {
        assert_eq!(option.name().parse(), Ok(option));
    }
    assert_eq!(SocketOption::ALL.map(SocketOption::number), [7, 8, 12, 15, 46, 47, 56, 69, 70, 103, 104]);
    assert!("SO_LINGER".parse::<SocketOption>().unwrap_err().to_string().contains("SO_BUSY_POLL_BUDGET"));
}

#[test]
fn busy_poll_needs_no_capability() {
    let rig = Rig::new();
    let socket = bound(&rig.ns);
    assert_eq!(get(&socket, SocketOption::BusyPoll), Ok(0));
    assert_eq!(set(&socket, SocketOption::BusyPoll, -1), libc::EINVAL);
    assert_eq!(set(&socket, SocketOption::BusyPoll, i32::MAX), 0);
    assert_eq!(get(&socket, SocketOption::BusyPoll), Ok(i32::MAX));
}

#[test]
fn prefer_needs_the_capability_to_be_set() {
    let rig = Rig::new();
    let socket = bound(&rig.ns);
    assert_eq!(set(&socket, SocketOption::PreferBusyPoll, 1), libc::EPERM);
    assert_eq!(set(&socket, SocketOption::PreferBusyPoll, 0), 0);
    rig.host.unprivileged.store(false, Relaxed);
    assert_eq!(set(&socket, SocketOption::PreferBusyPoll, 5), 0);
    assert_eq!(get(&socket, SocketOption::PreferBusyPoll), Ok(1));
    rig.host.unprivileged.store(true, Relaxed);
    assert_eq!(set(&socket, SocketOption::PreferBusyPoll, 0), 0);
    assert_eq!(get(&socket, SocketOption::PreferBusyPoll), Ok(0));
}

#[test]
fn budget_rows() {
    let rig = Rig::new();
    let socket = bound(&rig.ns);
    let budget = SocketOption::BusyPollBudget;
    assert_eq!(set(&socket, budget, 1), libc::EPERM);
    assert_eq!(set(&socket, budget, 70_000), libc::EPERM, "the capability is asked first");
    assert_eq!(set(&socket, budget, -1), libc::EINVAL);
    rig.host.unprivileged.store(false, Relaxed);
    assert_eq!(set(&socket, budget, 65_536), libc::EINVAL);
    assert_eq!(set(&socket, budget, 65_535), 0);
    rig.host.unprivileged.store(true, Relaxed);
    assert_eq!(set(&socket, budget, 65_535), 0, "no raise");
    assert_eq!(set(&socket, budget, 64), 0);
    assert_eq!(set(&socket, budget, 65), libc::EPERM);
    assert_eq!(get(&socket, budget), Err(libc::ENOPROTOOPT));
}

#[test]
fn incoming_napi_id_is_read_only_and_valid_or_zero() {
    let mut rig = Rig::new();
    let socket = UdpSocket::bind(&rig.ns, at("10.0.0.1:9")).unwrap();
    let id = SocketOption::IncomingNapiId;
    assert_eq!(set(&socket, id, 1), libc::ENOPROTOOPT);
    assert_eq!(get(&socket, id), Ok(0));
    // Unconnected: the first number stays, even one that names no instance.
    let packet = udp("10.0.0.2:1", "10.0.0.1:9", b"");
    rig.inject_from(FIRST_ID - 1, &[&packet]);
    rig.inject_from(NAPI, &[&packet]);
    assert_eq!(get(&socket, id), Ok(0));
    // Connected: follows the last packet.
    socket.connect(at("10.0.0.2:1")).unwrap();
    rig.inject_from(NAPI, &[&packet]);
    assert_eq!(get(&socket, id).unwrap().unsigned_abs(), NAPI);
    rig.inject_from(NAPI + 1, &[&packet]);
    assert_eq!(get(&socket, id).unwrap().unsigned_abs(), NAPI + 1);
    rig.inject_from(0, &[&packet]);
    assert_eq!(get(&socket, id), Ok(0));
}

#[test]
fn busy_read_counts_at_creation_only() {
    let rig = Rig::new();
    let old = bound(&rig.ns);
    rig.host.busy_read.store(77, Relaxed);
    let new = bound(&rig.ns);
    assert_eq!(get(&old, SocketOption::BusyPoll), Ok(0));
    assert_eq!(get(&new, SocketOption::BusyPoll), Ok(77));
}

#[test]
fn rcvbuf_is_doubled_and_bounded() {
    let rig = Rig::new();
    let socket = bound(&rig.ns);
    let rcvbuf = SocketOption::RcvBuf;
    assert_eq!(get(&socket, rcvbuf), Ok(212_992));
    for (asked, got) in [(100_000, 200_000), (0, 2304), (-1, 8 << 20), (i32::MAX, 8 << 20), (1152, 2304)] {
        assert_eq!(set(&socket, rcvbuf, asked), 0);
        assert_eq!(get(&socket, rcvbuf), Ok(got));
    }
    let small = UdpSocket::builder().rcvbuf(5000).bind(&rig.ns, at("0.0.0.0:0")).unwrap();
    assert_eq!(get(&small, rcvbuf), Ok(10_000));
}

#[test]
fn reuse_port_is_chosen_before_binding() {
    let rig = Rig::new();
    assert_eq!(get(&bound(&rig.ns), SocketOption::ReusePort), Ok(0));
    let shared = UdpSocket::builder().reuse_port(ReusePort::Hash).bind(&rig.ns, at("0.0.0.0:7")).unwrap();
    assert_eq!(get(&shared, SocketOption::ReusePort), Ok(1));
    assert_eq!(set(&shared, SocketOption::ReusePort, 1), libc::ENOPROTOOPT);
}

//! The table, and beside it the kernel's own answers to threads with fewer capabilities.

use std::os::fd::OwnedFd;

use napier_linux::process::Notifier;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{CapabilitySet, capabilities, gettid, set_capabilities};

use super::*;
use crate::rules::datagrams::{self, DatagramRule};
use crate::rules::options::{self, OptionRule};

const STRICT: OptionRights = OptionRights { priority_by_net_raw: false, busy_poll_is_free: false };
const FREE: OptionRights = OptionRights { priority_by_net_raw: true, busy_poll_is_free: true };

#[test]
fn who_may_what() {
    let rights = [
        CallerRights::default(),
        CallerRights::new(&[NetRaw], &[]),
        // A root of a container that has its own network.
        CallerRights::new(&[NetAdmin, NetRaw, NetBindService], &[]),
        CallerRights::new(&[NetAdmin, NetRaw, NetBindService], &[NetAdmin]),
        // A root of the machine over a network that is not to be seen.
        CallerRights::new(&[], &[NetAdmin, NetRaw, NetBindService]),
    ];
    let table = [
        (STRICT, libc::SO_PRIORITY, 0, 6, [true; 5]),
        (STRICT, libc::SO_PRIORITY, 0, 0, [true; 5]),
        (STRICT, libc::SO_PRIORITY, 0, 7, [false, false, true, true, false]),
        (STRICT, libc::SO_PRIORITY, 7, 7, [false, false, true, true, false]),
        (STRICT, libc::SO_PRIORITY, 0, -1, [false, false, true, true, false]),
        (FREE, libc::SO_PRIORITY, 0, 7, [false, true, true, true, false]),
        (STRICT, libc::SO_BUSY_POLL, 0, 1, [false, false, false, true, true]),
        (STRICT, libc::SO_BUSY_POLL, 50, 50, [true; 5]),
        (STRICT, libc::SO_BUSY_POLL, 50, 20, [true; 5]),
        (FREE, libc::SO_BUSY_POLL, 0, 1, [true; 5]),
        (STRICT, libc::SO_MARK, 0, 0, [false, true, true, true, false]),
        (FREE, libc::SO_RCVBUFFORCE, 0, 0, [false, false, false, true, true]),
        (FREE, libc::SO_SNDBUFFORCE, 0, 0, [false, false, false, true, true]),
        (STRICT, libc::SO_REUSEADDR, 0, 1, [true; 5]),
    ];
    for (kernel, name, before, value, may) in table {
        let need = of_option(kernel, (libc::SOL_SOCKET, name), before, value);
        let said = rights.map(|rights| need.map_or(Ok(()), |need| need.judge(rights)));
        assert_eq!(said, may.map(|may| if may { Ok(()) } else { Err(libc::EPERM) }), "{name} {before} {value}");
    }
    let port = |unprivileged, port| {
        let need = of_port(unprivileged, port);
        rights.map(|rights| need.map_or(Ok(()), |need| need.judge(rights)))
    };
    let refused = Err(libc::EACCES);
    assert_eq!(port(1024, 1023), [refused, refused, Ok(()), Ok(()), refused]);
    assert_eq!([port(1024, 0), port(1024, 1024), port(80, 80), port(0, 1)], [[Ok(()); 5]; 4]);
}

/// Whether a program's option is set on one of the kernel's by the engine, or judged before the call goes on.
fn is_judged(level: i32, name: i32) -> [bool; 2] {
    let of_stream = match options::rule(level, name) {
        OptionRule::OfPair | OptionRule::Engine | OptionRule::Kept => true,
        OptionRule::Kernel => of_option(STRICT, (level, name), 0, 0).is_some(),
        OptionRule::Told | OptionRule::Refuse(_) => false,
    };
    let of_datagrams = match datagrams::rule(level, name) {
        DatagramRule::OfPair | DatagramRule::Engine | DatagramRule::Kept => true,
        DatagramRule::Kernel => of_option(STRICT, (level, name), 0, 0).is_some(),
        DatagramRule::Told | DatagramRule::Refuse(_) => false,
    };
    [of_stream, of_datagrams]
}

/// Each option that is judged, with some values, by a thread that has these capabilities alone; how many there are.
fn agree(kept: CapabilitySet) -> usize {
    let mut own = capabilities(None).expect("this thread is there");
    own.effective = kept;
    set_capabilities(None, own).expect("it has more");
    let rights = Notifier::rights_of(gettid().as_raw_nonzero().get().cast_unsigned());
    let kernel = OptionRights::of_this_kernel();
    let mut judged = 0;
    for level in [libc::SOL_SOCKET, libc::IPPROTO_IP, libc::IPPROTO_IPV6, libc::IPPROTO_TCP, libc::IPPROTO_UDP] {
        let family = if level == libc::IPPROTO_IPV6 { AddressFamily::INET6 } else { AddressFamily::INET };
        for (name, of, value) in (0..120).flat_map(|name| {
            [0, 1].into_iter().flat_map(move |of| [-1, 0, 1, 6, 7, 0xe0, i32::MAX].map(|value| (name, of, value)))
        }) {
            if !is_judged(level, name)[of] {
                continue;
            }
            // A machine may lack IPv6.
            let Ok(made) = socket(family, [SocketType::STREAM, SocketType::DGRAM][of], None) else { continue };
            let made: OwnedFd = made;
            let set = Notifier::set_option(&made, level, name, &value.to_ne_bytes());
            let is_refused = set.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM));
            let need = of_option(kernel, (level, name), 0, value);
            let says = need.map_or(Ok(()), |need| need.judge(rights));
            assert_eq!(is_refused, says.is_err(), "level {level} option {name} value {value} with {kept:?}");
            judged += 1;
        }
    }
    judged
}

#[test]
fn the_kernel_refuses_what_the_table_refuses() {
    let permitted = capabilities(None).expect("this thread is there").permitted;
    for kept in [CapabilitySet::empty(), CapabilitySet::NET_RAW, CapabilitySet::NET_ADMIN] {
        if !permitted.contains(kept) {
            napier_testkit::skip!("the_kernel_refuses_what_the_table_refuses", "there is no {kept:?} here");
            continue;
        }
        let judged = std::thread::spawn(move || agree(kept)).join().expect("they agree");
        assert!(judged > 300, "{judged}");
    }
}

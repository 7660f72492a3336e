//! The calls of the header over a link in memory: what they do, and how they fail.
#![allow(unsafe_code)]

mod c;
mod messages;
mod raw;

use std::time::Duration;

use c::*;
use napier::*;

const ANY: [u8; 4] = [0; 4];
const ONE: [u8; 4] = [10, 0, 0, 1];
const DATAGRAMS: i32 = libc::SOCK_DGRAM;
const QUIET: i32 = libc::SOCK_NONBLOCK;

#[test]
fn datagrams_are_answered_in_every_mode() {
    let rig = rig();
    let context = fine(napier_epoll_create1(rig.engine, 0));
    let server = fine(napier_socket(rig.engine, libc::AF_INET, DATAGRAMS | QUIET, 0));
    fine(bind(server, &v4(ANY, 7)));
    fine(ctl(context, libc::EPOLL_CTL_ADD, server, libc::EPOLLIN, 77));
    let client = fine(napier_socket(rig.netns, libc::AF_INET, DATAGRAMS, 0));
    for mode in [c"suspend20", c"base", c"napibusy", c"defer50", c"threaded", c"busy-read", c"suspend0"] {
        fine(set_mode(rig.engine, mode));
        for round in 0..20_u8 {
            assert_eq!(fine(sendto(client, &[round; 100], &v4(ONE, 7))), 100);
            assert_eq!(wait(context, 10_000), (1, 77), "{mode:?}");
            let mut bytes = [0; 200];
            let (count, from) = recvfrom(server, &mut bytes);
            assert_eq!((fine(count), &bytes[..100]), (100, &[round; 100][..]), "{mode:?}");
            assert_eq!(address_of(&from), ([10, 0, 0, 2], local_port(client)).into());
            fine(sendto(server, &bytes[..50], &from));
            assert_eq!(fine(recv(client, &mut bytes, 0)), 50);
        }
    }
    refused(recv(server, &mut [0; 10], 0), libc::EAGAIN);
    let figures = stats(context);
    assert!(figures.iter().any(|(name, value)| name == "events" && *value >= 140), "{figures:?}");
    for handle in [context, server, client] {
        fine(napier_close(handle));
        refused(napier_close(handle), libc::EBADF);
    }
}

#[test]
fn streams_as_posix_has_them() {
    let rig = rig();
    let listener = fine(napier_socket(rig.engine, libc::AF_INET, libc::SOCK_STREAM, 0));
    fine(setsockopt(listener, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1));
    fine(setsockopt(listener, libc::SOL_SOCKET, libc::SO_RCVBUF, 8192));
    fine(setsockopt(listener, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1));
    refused(accept(listener), libc::EINVAL);
    fine(bind(listener, &v4(ONE, 80)));
    refused(bind(listener, &v4(ONE, 81)), libc::EINVAL);
    fine(napier_listen(listener, 5));
    assert_eq!(getsockopt(listener, libc::SOL_SOCKET, libc::SO_ACCEPTCONN), 1);
    assert_eq!(local_port(listener), 80);

    let client = fine(napier_socket(rig.netns, libc::AF_INET, libc::SOCK_STREAM, 0));
    refused(send(client, b"x"), libc::EPIPE);
    refused(recv(client, &mut [0; 4], 0), libc::ENOTCONN);
    refused(napier_shutdown(client, libc::SHUT_WR), libc::ENOTCONN);
    fine(connect(client, &v4(ONE, 80)));
    refused(connect(client, &v4(ONE, 80)), libc::EISCONN);
    let server = fine(accept(listener));
    assert_eq!(getsockopt(server, libc::SOL_SOCKET, libc::SO_RCVBUF), 8192);
    assert_eq!(getsockopt(server, libc::SOL_SOCKET, libc::SO_TYPE), libc::SOCK_STREAM);

    let sent: Vec<u8> = (0..100_000).map(|at| (at % 251) as u8).collect();
    let sends = std::thread::spawn({
        let sent = sent.clone();
        move || {
            assert_eq!(fine(send(client, &sent)), sent.len() as isize);
            fine(napier_shutdown(client, libc::SHUT_WR));
            client
        }
    });
    let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        assert!(fine(recv(server, &mut buffer, libc::MSG_PEEK)) >= 0);
        match fine(recv(server, &mut buffer, 0)) {
            0 => break,
            bytes => got.extend_from_slice(&buffer[..bytes as usize]),
        }
    }
    assert!(got == sent, "{} bytes", got.len());
    let client = sends.join().expect("it sends");
    fine(napier_close(server));
    assert_eq!(fine(recv(client, &mut buffer, 0)), 0);
    fine(napier_close(client));
    fine(napier_close(listener));
}

#[test]
fn a_connect_that_does_not_block_is_told_by_its_context() {
    let rig = rig();
    let context = fine(napier_epoll_create1(rig.engine, 0));
    for (port, error) in [(80, 0), (81, libc::ECONNREFUSED)] {
        let listener = fine(napier_socket(rig.engine, libc::AF_INET, libc::SOCK_STREAM, 0));
        fine(bind(listener, &v4(ONE, 80)));
        fine(napier_listen(listener, -1));
        let client = fine(napier_socket(rig.netns, libc::AF_INET, libc::SOCK_STREAM | QUIET, 0));
        refused(ctl(context, libc::EPOLL_CTL_ADD, client, libc::EPOLLOUT, 1), libc::EINVAL);
        refused(connect(client, &v4(ONE, port)), libc::EINPROGRESS);
        fine(ctl(context, libc::EPOLL_CTL_ADD, client, libc::EPOLLOUT, 5));
        assert_eq!(wait(context, 10_000), (1, 5));
        assert_eq!(getsockopt(client, libc::SOL_SOCKET, libc::SO_ERROR), error);
        fine(napier_close(client));
        fine(napier_close(listener));
    }
    // A blocking one tries again after a failure.
    let client = fine(napier_socket(rig.netns, libc::AF_INET, libc::SOCK_STREAM, 0));
    refused(connect(client, &v4(ONE, 81)), libc::ECONNREFUSED);
    refused(connect(client, &v4(ONE, 81)), libc::ECONNREFUSED);
    fine(napier_close(client));
    fine(napier_close(context));
}

#[test]
fn wrong_calls_have_the_numbers_of_posix() {
    let rig = rig();
    let [device, _] = rig.devices;
    refused(napier_socket(rig.engine, libc::AF_UNIX, DATAGRAMS, 0), libc::EAFNOSUPPORT);
    refused(napier_socket(rig.engine, libc::AF_INET, libc::SOCK_RAW, 0), libc::EPROTONOSUPPORT);
    refused(napier_socket(device, libc::AF_INET, DATAGRAMS, 0), libc::EINVAL);
    refused(napier_socket(3, libc::AF_INET, DATAGRAMS, 0), libc::EBADF);
    refused(recv(device, &mut [0; 1], 0), libc::ENOTSOCK);
    refused(set_mode(rig.engine, c"turbo"), libc::EINVAL);
    assert!(last_error().contains("suspendX"), "{}", last_error());
    refused(set_mode(rig.engine, c"group"), libc::EINVAL);
    let socket = fine(napier_socket(rig.engine, libc::AF_INET, DATAGRAMS, 0));
    refused(set_mode(socket, c"base"), libc::EINVAL);
    refused(send(socket, b"x"), libc::EDESTADDRREQ);
    refused(bind(socket, &v4([10, 9, 9, 9], 1)), libc::EINVAL);
    refused(sendto(socket, &[0; 65_508], &v4([10, 0, 0, 2], 1)), libc::EMSGSIZE);
    refused(sendto(socket, b"x", &v4([10, 9, 9, 9], 1)), libc::ENETUNREACH);
    refused(recv(socket, &mut [0; 1], libc::MSG_DONTWAIT), libc::EAGAIN);
    refused(recv(socket, &mut [0; 1], libc::MSG_OOB), libc::EOPNOTSUPP);
    refused(setsockopt(socket, libc::SOL_SOCKET, 12345, 1), libc::ENOPROTOOPT);
    refused(setsockopt(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1), libc::ENOPROTOOPT);
    refused(napier_listen(socket, 1), libc::EOPNOTSUPP);
    refused(accept(socket), libc::EINVAL);
    assert_eq!(fine(napier_fcntl(socket, libc::F_GETFL, 0)), libc::O_RDWR);
    fine(napier_fcntl(socket, libc::F_SETFL, libc::O_NONBLOCK));
    assert_eq!(fine(napier_fcntl(socket, libc::F_GETFL, 0)), libc::O_RDWR | libc::O_NONBLOCK);
    refused(recv(socket, &mut [0; 1], libc::MSG_DONTWAIT), libc::EAGAIN);
    // SAFETY: NULL is refused.
    refused(unsafe { napier_recv(socket, std::ptr::null_mut(), 5, 0) }, libc::EFAULT);
    // SAFETY: NULL is refused.
    refused(unsafe { napier_bind(socket, std::ptr::null(), 16) }, libc::EFAULT);
    let context = fine(napier_epoll_create1(rig.engine, 0));
    refused(wait(socket, 0).0, libc::EINVAL);
    refused(ctl(context, libc::EPOLL_CTL_MOD, socket, libc::EPOLLIN, 0), libc::ENOENT);
    refused(ctl(context, libc::EPOLL_CTL_ADD, socket, libc::EPOLLEXCLUSIVE, 0), libc::EINVAL);
    refused(ctl(context, libc::EPOLL_CTL_ADD, device, libc::EPOLLIN, 0), libc::EPERM);
    refused(ctl(context, libc::EPOLL_CTL_ADD, 3, libc::EPOLLIN, 0), libc::EBADF);
    refused(ctl(context, 9, socket, libc::EPOLLIN, 0), libc::EINVAL);
    fine(ctl(context, libc::EPOLL_CTL_ADD, socket, libc::EPOLLOUT, 0));
    refused(ctl(context, libc::EPOLL_CTL_ADD, socket, libc::EPOLLOUT, 0), libc::EEXIST);
    let taken = texts("a0", "10.0.0.7/24");
    let mut devices = [0; 2];
    // SAFETY: the texts outlive the call, and there is room for two.
    let added = unsafe { napier_add_link(rig.engine, &taken.options(0), &taken.options(0), devices.as_mut_ptr()) };
    refused(added, libc::EEXIST);
    fine(napier_close(context));
    fine(napier_close(socket));
}

#[test]
fn a_thread_of_another_event_ends_a_wait() {
    let rig = rig();
    let context = fine(napier_epoll_create1(rig.engine, 0));
    let event = fine(napier_user_event());
    fine(ctl(context, libc::EPOLL_CTL_ADD, event, libc::EPOLLIN, 9));
    let waits = std::thread::spawn(move || wait(context, -1));
    fine(napier_user_event_trigger(event));
    assert_eq!(waits.join().expect("no panic"), (1, 9));
    assert_eq!((napier_user_event_clear(event), napier_user_event_clear(event)), (1, 0));
    assert_eq!(wait(context, 0).0, 0);
    fine(napier_close(event));
    fine(napier_close(context));
}

#[test]
fn a_context_stands_in_a_poll_of_the_kernel() {
    let rig = rig();
    let context = fine(napier_epoll_create1(rig.engine, 0));
    let event = fine(napier_user_event());
    fine(ctl(context, libc::EPOLL_CTL_ADD, event, libc::EPOLLIN | libc::EPOLLET, 9));
    let fd = fine(napier_epoll_fd(context));
    let readable = || {
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: there is one.
        unsafe { libc::poll(&raw mut poll, 1, 0) }
    };
    assert_eq!(wait(context, NAPIER_OUTSIDE).0, 0);
    assert_eq!(readable(), 0);
    fine(napier_user_event_trigger(event));
    assert_eq!(readable(), 1);
    assert_eq!(wait(context, NAPIER_OUTSIDE), (1, 9));
    assert_eq!(wait(context, NAPIER_OUTSIDE).0, 0);
    assert_eq!(readable(), 0);
    fine(napier_close(event));
    fine(napier_close(context));
}

#[test]
fn what_waits_ends_with_the_engine() {
    let rig = rig();
    let context = fine(napier_epoll_create1(rig.engine, 0));
    let socket = fine(napier_socket(rig.engine, libc::AF_INET, DATAGRAMS, 0));
    fine(bind(socket, &v4(ANY, 7)));
    let waits = std::thread::spawn(move || (wait(context, -1).0, errno()));
    let reads = std::thread::spawn(move || (recv(socket, &mut [0; 9], 0), errno()));
    std::thread::sleep(Duration::from_millis(20));
    fine(napier_engine_stop(rig.engine));
    assert_eq!(waits.join().expect("no panic"), (-1, libc::ESHUTDOWN));
    assert_eq!(reads.join().expect("no panic"), (-1, libc::ESHUTDOWN));
    refused(sendto(socket, b"x", &v4([10, 0, 0, 2], 1)), libc::ESHUTDOWN);
    refused(napier_epoll_create1(rig.engine, 0), libc::EBADF);
    refused(set_mode(rig.devices[0], c"base"), libc::ESHUTDOWN);
    fine(napier_close(socket));
    fine(napier_close(context));
}

#[test]
fn a_socket_that_is_closed_meanwhile_stays_until_the_call_ends() {
    let rig = rig();
    let socket = fine(napier_socket(rig.engine, libc::AF_INET, DATAGRAMS, 0));
    fine(bind(socket, &v4(ANY, 7)));
    let reads = std::thread::spawn(move || recv(socket, &mut [0; 9], 0));
    std::thread::sleep(Duration::from_millis(20));
    fine(napier_close(socket));
    refused(recv(socket, &mut [0; 9], 0), libc::EBADF);
    let client = fine(napier_socket(rig.netns, libc::AF_INET, DATAGRAMS, 0));
    // The thread may have come late: then it found EBADF, and nothing is bound.
    while !reads.is_finished() {
        fine(sendto(client, b"hello", &v4(ONE, 7)));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!([5, -1].contains(&reads.join().expect("no panic")));
    fine(napier_close(client));
}

#[test]
fn figures_have_names() {
    let rig = rig();
    let client = fine(napier_socket(rig.netns, libc::AF_INET, DATAGRAMS, 0));
    fine(sendto(client, b"hello", &v4(ONE, 7)));
    let sent =
        |figures: &[(String, u64)], wanted: &str| figures.iter().any(|(name, value)| name == wanted && *value > 0);
    napier_testkit::eventually("the device has sent", || sent(&stats(rig.devices[1]), "tx_packets"));
    let of_engine = stats(rig.engine);
    assert!(of_engine.len() > 50 && of_engine.iter().all(|(name, _)| name.starts_with("napier_")), "{of_engine:?}");
    // A thread of the engine that begins meanwhile has figures of its own.
    napier_testkit::eventually("who asks for no room is told how much there is", || {
        // SAFETY: no room is asked for.
        let count = unsafe { napier_stats(rig.engine, std::ptr::null_mut(), 0) };
        count as usize == stats(rig.engine).len()
    });
    fine(napier_close(client));
}

#[test]
fn a_device_is_removed_while_its_engine_goes_on() {
    let rig = rig();
    let client = fine(napier_socket(rig.netns, libc::AF_INET, DATAGRAMS, 0));
    let port = fine(napier_raw_open(rig.devices[0], 0));
    fine(napier_remove_device(rig.devices[0]));
    refused(napier_raw_wait(port, -1), libc::ENODEV);
    refused(sendto(client, b"x", &v4(ONE, 7)), libc::ENETUNREACH);
    // The other end of the link went along; handles show what was.
    for device in rig.devices {
        refused(napier_remove_device(device), libc::ENODEV);
        refused(napier_set_up(device, 1), libc::ENODEV);
        assert_eq!(fine(napier_wait_link(device, -1)), 0);
        assert_eq!(fine(napier_queues(device)), 1);
    }
    // No mode is asked of what is not there.
    fine(set_mode(rig.engine, c"suspend20"));
    fine(napier_close(port));
    fine(napier_close(client));
}

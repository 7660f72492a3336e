//! Several datagrams with one call, and datagrams of several parts.

use std::ffi::c_int;
use std::ptr::null_mut;

use libc::{iovec, mmsghdr, msghdr, sockaddr_in};
use napier::*;

use super::c::*;
use super::{DATAGRAMS, ONE, QUIET};

fn part(bytes: &mut [u8]) -> iovec {
    iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn message(name: Option<&mut sockaddr_in>, parts: &mut [iovec]) -> msghdr {
    let (msg_name, msg_namelen) = name.map_or((null_mut(), 0), |name| ((&raw mut *name).cast(), LEN));
    msghdr {
        msg_name,
        msg_namelen,
        msg_iov: parts.as_mut_ptr(),
        msg_iovlen: parts.len(),
        msg_control: null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    }
}

fn sendmmsg(socket: c_int, messages: &mut [mmsghdr]) -> c_int {
    // SAFETY: the messages are as many as said, and what they point to outlives the call.
    unsafe { napier_sendmmsg(socket, messages.as_mut_ptr(), messages.len() as u32, 0) }
}

fn recvmmsg(socket: c_int, messages: &mut [mmsghdr]) -> c_int {
    // SAFETY: the messages are as many as said, and what they point to outlives the call.
    unsafe { napier_recvmmsg(socket, messages.as_mut_ptr(), messages.len() as u32, 0) }
}

#[test]
fn several_datagrams_with_one_call() {
    let rig = rig();
    let server = fine(napier_socket(rig.engine, libc::AF_INET, DATAGRAMS | QUIET, 0));
    fine(bind(server, &v4(ONE, 7)));
    let client = fine(napier_socket(rig.netns, libc::AF_INET, DATAGRAMS, 0));

    let mut texts = [*b"one ", *b"two ", *b"tree"];
    let mut more = *b"and more";
    let mut to = v4(ONE, 7);
    let mut parts = texts.each_mut().map(|text| [part(text), part(&mut more)]);
    let mut messages = parts.each_mut().map(|parts| mmsghdr { msg_hdr: message(Some(&mut to), parts), msg_len: 0 });
    assert_eq!(fine(sendmmsg(client, &mut messages)), 3);
    assert_eq!(messages.map(|message| message.msg_len), [12; 3]);

    let mut got = Vec::new();
    napier_testkit::eventually("three datagrams", || {
        let mut buffers = [[0_u8; 6]; 4];
        let mut names = [v4([0; 4], 0); 4];
        let mut parts = buffers.each_mut().map(|buffer| {
            let (one, other) = buffer.split_at_mut(3);
            [part(one), part(other)]
        });
        let mut messages = Vec::new();
        for (name, parts) in names.iter_mut().zip(&mut parts) {
            messages.push(mmsghdr { msg_hdr: message(Some(name), parts), msg_len: 0 });
        }
        let count = recvmmsg(server, &mut messages);
        if count < 0 {
            assert_eq!(errno(), libc::EAGAIN);
            return false;
        }
        for at in 0..count as usize {
            assert_eq!((messages[at].msg_len, messages[at].msg_hdr.msg_flags), (6, libc::MSG_TRUNC));
            assert_eq!((messages[at].msg_hdr.msg_namelen, address_of(&names[at]).ip()), (LEN, [10, 0, 0, 2].into()));
            got.push(buffers[at]);
        }
        got.len() == 3
    });
    assert_eq!(got, [*b"one an", *b"two an", *b"treean"]);
    fine(napier_close(server));
    fine(napier_close(client));
}

#[test]
fn messages_that_cannot_be() {
    let rig = rig();
    let client = fine(napier_socket(rig.netns, libc::AF_INET, DATAGRAMS, 0));
    let (mut bytes, mut to) = ([0; 4], v4(ONE, 7));
    let mut parts = [part(&mut bytes)];
    let good = message(Some(&mut to), &mut parts);
    // SAFETY: each message is there, and what it points to, or it is refused.
    let send = |message: &msghdr| unsafe { napier_sendmsg(client, message, 0) };
    assert_eq!(fine(send(&good)), 4);
    refused(send(&msghdr { msg_controllen: 16, ..good }), libc::EFAULT);
    let mut short = [0_usize; 2];
    refused(send(&msghdr { msg_control: short.as_mut_ptr().cast(), msg_controllen: 16, ..good }), libc::EINVAL);
    refused(send(&msghdr { msg_iovlen: 1025, ..good }), libc::EMSGSIZE);
    refused(send(&msghdr { msg_iov: null_mut(), ..good }), libc::EFAULT);
    refused(send(&msghdr { msg_name: null_mut(), ..good }), libc::EDESTADDRREQ);
    let mut wild = [iovec { iov_base: null_mut(), iov_len: 4 }];
    refused(send(&msghdr { msg_iov: wild.as_mut_ptr(), ..good }), libc::EFAULT);
    let stream = fine(napier_socket(rig.netns, libc::AF_INET, libc::SOCK_STREAM, 0));
    let mut one = [mmsghdr { msg_hdr: good, msg_len: 0 }];
    refused(recvmmsg(stream, &mut one), libc::EOPNOTSUPP);
    refused(sendmmsg(stream, &mut one), libc::EOPNOTSUPP);
    refused(setsockopt(stream, libc::IPPROTO_IP, libc::IP_PKTINFO, 1), libc::ENOPROTOOPT);
    refused(setsockopt(client, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1), libc::ENOPROTOOPT);
    fine(napier_close(stream));
    fine(napier_close(client));
}

/// Level, kind and data.
type Control = (c_int, c_int, Vec<u8>);

/// Control messages as `CMSG_LEN` and `CMSG_SPACE` of the system's headers lay them out.
fn laid_out(messages: &[Control]) -> Vec<u64> {
    let mut bytes = Vec::new();
    for (level, kind, data) in messages {
        // SAFETY: it computes.
        let len = unsafe { libc::CMSG_LEN(data.len() as u32) };
        // SAFETY: it computes.
        let end = bytes.len() + unsafe { libc::CMSG_SPACE(data.len() as u32) } as usize;
        bytes.extend((len as usize).to_ne_bytes());
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(end, 0);
    }
    bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().expect("whole words"))).collect()
}

/// What a message has, read by the macros of the system's headers.
fn read_out(message: &msghdr) -> Vec<Control> {
    let mut all = Vec::new();
    // SAFETY: it computes.
    let empty = unsafe { libc::CMSG_LEN(0) } as usize;
    // SAFETY: the message has its control messages still.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !at.is_null() {
        // SAFETY: it is one of the message's.
        let head = unsafe { at.read_unaligned() };
        // SAFETY: the same.
        let data = unsafe { libc::CMSG_DATA(at) };
        // SAFETY: it is as long as it says.
        let data = unsafe { std::slice::from_raw_parts(data, head.cmsg_len - empty) };
        all.push((head.cmsg_level, head.cmsg_type, data.to_vec()));
        // SAFETY: it is one of the message's.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    all
}

fn sends(socket: c_int, to: Option<&mut sockaddr_in>, bytes: &mut [u8], control: &[Control]) -> isize {
    let mut control = laid_out(control);
    let mut parts = [part(bytes)];
    let good = message(to, &mut parts);
    let message = msghdr { msg_control: control.as_mut_ptr().cast(), msg_controllen: control.len() * 8, ..good };
    // SAFETY: what the message points to outlives the call.
    unsafe { napier_sendmsg(socket, &message, 0) }
}

/// Bytes, flags and control messages of the next datagram, with room for `words` of them.
fn receives(socket: c_int, parts: &mut [iovec], words: usize) -> (isize, c_int, Vec<Control>) {
    let mut control = vec![0_u64; words];
    let good = message(None, parts);
    let mut message = msghdr { msg_control: control.as_mut_ptr().cast(), msg_controllen: words * 8, ..good };
    // SAFETY: what the message points to outlives the call.
    let bytes = fine(unsafe { napier_recvmsg(socket, &raw mut message, 0) });
    (bytes, message.msg_flags, read_out(&message))
}

fn int(value: c_int) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

#[test]
fn what_goes_with_a_datagram() {
    let rig = rig();
    let server = fine(napier_socket(rig.engine, libc::AF_INET, DATAGRAMS, 0));
    let (ip, socket) = (libc::IPPROTO_IP, libc::SOL_SOCKET);
    // Before it has an address, and after that.
    fine(setsockopt(server, ip, libc::IP_PKTINFO, 1));
    fine(bind(server, &v4([0; 4], 7)));
    for name in [libc::IP_RECVTTL, libc::IP_RECVTOS] {
        fine(setsockopt(server, ip, name, 1));
        assert_eq!(getsockopt(server, ip, name), 1);
    }
    let client = fine(napier_socket(rig.netns, libc::AF_INET, DATAGRAMS, 0));
    let mut to = v4(ONE, 7);
    let mut text = *b"question";
    // The interface of the client has the second number, and an own address may be named.
    let from = [int(0), vec![10, 0, 0, 2], vec![0; 4]].concat();
    let wishes = [(ip, libc::IP_TOS, int(0x2e << 2)), (ip, libc::IP_TTL, int(9)), (ip, libc::IP_PKTINFO, from)];
    assert_eq!(fine(sends(client, Some(&mut to), &mut text, &wishes)), 8);
    let mut buffer = [0; 64];
    let (bytes, flags, told) = receives(server, &mut [part(&mut buffer)], 16);
    assert_eq!((bytes, flags, &buffer[..8]), (8, 0, &b"question"[..]));
    let [(_, kind, info), ttl, tos] = &told[..] else { panic!("{told:?}") };
    assert_eq!((*kind, &info[4..]), (libc::IP_PKTINFO, &[10, 0, 0, 1, 10, 0, 0, 1][..]));
    assert!(info[..4] != [0; 4], "it came in by an interface");
    assert_eq!(*ttl, (ip, libc::IP_TTL, int(9)));
    assert_eq!(*tos, (ip, libc::IP_TOS, vec![0x2e << 2]));
    // No room for the last one; as napier_recvmmsg has it too.
    fine(sends(client, Some(&mut to), &mut text, &[]));
    let (_, flags, told) = receives(server, &mut [part(&mut buffer)], 4 + 3);
    assert_eq!((flags, told.len()), (libc::MSG_CTRUNC, 2));
    fine(sends(client, Some(&mut to), &mut text, &[]));
    let mut control = [0_u64; 16];
    let mut parts = [part(&mut buffer)];
    let room = msghdr { msg_control: control.as_mut_ptr().cast(), msg_controllen: 128, ..message(None, &mut parts) };
    let mut messages = [mmsghdr { msg_hdr: room, msg_len: 0 }];
    assert_eq!(fine(recvmmsg(server, &mut messages)), 1);
    assert_eq!(read_out(&messages[0].msg_hdr).len(), 3);
    // Time stamps of either kind, and none.
    for name in [libc::IP_PKTINFO, libc::IP_RECVTTL, libc::IP_RECVTOS] {
        fine(setsockopt(server, ip, name, 0));
    }
    for (name, on, kinds) in [
        (libc::SO_TIMESTAMP, 1, &[libc::SO_TIMESTAMP][..]),
        (libc::SO_TIMESTAMPNS, 1, &[libc::SO_TIMESTAMPNS]),
        (libc::SO_TIMESTAMP, 0, &[]),
    ] {
        fine(setsockopt(server, socket, name, on));
        fine(sends(client, Some(&mut to), &mut text, &[]));
        let (_, _, told) = receives(server, &mut [part(&mut buffer)], 16);
        assert_eq!(told.iter().map(|(_, kind, _)| *kind).collect::<Vec<_>>(), kinds);
        for (level, _, time) in told {
            let seconds = u64::from_ne_bytes(time[..8].try_into().expect("seconds"));
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later");
            assert!(level == socket && time.len() == 16 && now.as_secs().abs_diff(seconds) < 3600, "{seconds}");
        }
    }
    fine(napier_close(server));
    fine(napier_close(client));
}

#[test]
fn one_buffer_is_several_datagrams_and_back() {
    let rig = rig();
    let server = fine(napier_socket(rig.engine, libc::AF_INET, DATAGRAMS, 0));
    fine(bind(server, &v4([0; 4], 7)));
    fine(setsockopt(server, libc::SOL_UDP, libc::UDP_GRO, 1));
    let client = fine(napier_socket(rig.netns, libc::AF_INET, DATAGRAMS, 0));
    let mut to = v4(ONE, 7);
    let mut bytes: Vec<u8> = (0..2500).map(|at| (at % 251) as u8).collect();
    let wishes = [(libc::SOL_UDP, libc::UDP_SEGMENT, 1000_u16.to_ne_bytes().to_vec())];
    assert_eq!(fine(sends(client, Some(&mut to), &mut bytes, &wishes)), 2500);
    // Whether a poll finds all three at once is the machine's; what comes together says how it is put together.
    let mut got: Vec<u8> = Vec::new();
    while got.len() < 2500 {
        let (mut one, mut other) = ([0; 700], [0; 4000]);
        let (count, flags, told) = receives(server, &mut [part(&mut one), part(&mut other)], 16);
        got.extend([&one[..], &other].concat()[..count as usize].iter());
        assert_eq!(flags, 0);
        if count > 1000 {
            assert_eq!(told, [(libc::SOL_UDP, libc::UDP_GRO, int(1000))]);
        } else {
            assert!(told.is_empty(), "{told:?}");
        }
    }
    assert!(got == bytes, "{} bytes", got.len());
    fine(napier_close(server));
    fine(napier_close(client));
}

#[test]
fn how_long_a_packet_of_the_path_may_be() {
    let rig = rig();
    let server = fine(napier_socket(rig.engine, libc::AF_INET, DATAGRAMS, 0));
    fine(bind(server, &v4(ONE, 7)));
    let client = fine(napier_socket(rig.netns, libc::AF_INET, DATAGRAMS, 0));
    fine(setsockopt(client, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO));
    refused(setsockopt(client, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, 9), libc::EINVAL);
    fine(connect(client, &v4(ONE, 7)));
    assert_eq!(getsockopt(client, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER), libc::IP_PMTUDISC_DO);
    let mtu = getsockopt(client, libc::IPPROTO_IP, libc::IP_MTU);
    let longest = vec![0; mtu as usize - 28];
    assert_eq!(fine(send(client, &longest)), longest.len() as isize);
    refused(send(client, &vec![0; longest.len() + 1]), libc::EMSGSIZE);
    fine(setsockopt(client, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT));
    assert_eq!(fine(send(client, &vec![0; longest.len() + 1])), longest.len() as isize + 1);
    fine(napier_close(client));
    fine(napier_close(server));
}

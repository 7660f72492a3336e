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
    refused(send(&msghdr { msg_controllen: 16, ..good }), libc::EOPNOTSUPP);
    refused(send(&msghdr { msg_iovlen: 1025, ..good }), libc::EMSGSIZE);
    refused(send(&msghdr { msg_iov: null_mut(), ..good }), libc::EFAULT);
    refused(send(&msghdr { msg_name: null_mut(), ..good }), libc::EDESTADDRREQ);
    let mut wild = [iovec { iov_base: null_mut(), iov_len: 4 }];
    refused(send(&msghdr { msg_iov: wild.as_mut_ptr(), ..good }), libc::EFAULT);
    let stream = fine(napier_socket(rig.netns, libc::AF_INET, libc::SOCK_STREAM, 0));
    let mut one = [mmsghdr { msg_hdr: good, msg_len: 0 }];
    refused(recvmmsg(stream, &mut one), libc::EOPNOTSUPP);
    refused(sendmmsg(stream, &mut one), libc::EOPNOTSUPP);
    fine(napier_close(stream));
    fine(napier_close(client));
}

//! TCP and UDP sockets of this namespace as the kernel lists them (`sock_diag(7)`): what is known of a socket without a copy of its
//! descriptor. Source: `include/uapi/linux/inet_diag.h`, `net/ipv4/inet_diag.c inet_sk_diag_fill`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

use crate::Netns;

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SocketRow {
    /// 0 for one that no program has, such as a connection that was not accepted yet.
    pub(crate) inode: u64,
    /// `SO_COOKIE`: no other socket gets it.
    pub(crate) cookie: u64,
    /// Its own port.
    pub(crate) port: u16,
    pub(crate) is_listening: bool,
}

/// Which are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// TCP, with those that listen.
    Tcp,
    /// Those that listen, and UDP.
    Receivers,
}

/// `include/uapi/linux/inet_diag.h SOCK_DIAG_BY_FAMILY`, and `include/net/tcp_states.h`.
const BY_FAMILY: u16 = 20;
pub(crate) const LISTEN: u8 = 10;
const ALL_STATES: u32 = 0xfff;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `struct nlmsghdr`, `struct inet_diag_req_v2`, `struct inet_diag_msg`.
const HEAD: usize = 16;
const REQUEST: usize = 56;
pub(crate) const MESSAGE: usize = 72;
pub(crate) const BUFFER: usize = 32 * 1024;
/// `INET_DIAG_REQ_BYTECODE`.
const BYTECODE: u16 = 1;

/// Lists them.
pub(crate) fn list(wanted: Wanted) -> io::Result<Vec<SocketRow>> {
    let fd = open()?;
    let mut rows = Vec::new();
    let mut buffer = vec![0; BUFFER];
    let (tcp, udp) = (libc::IPPROTO_TCP as u8, libc::IPPROTO_UDP as u8);
    let asked: &[(u8, u32)] = match wanted {
        Wanted::Tcp => &[(tcp, ALL_STATES)],
        Wanted::Receivers => &[(tcp, 1 << LISTEN), (udp, ALL_STATES)],
    };
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        for (protocol, states) in asked {
            let request = request(family, *protocol, *states, 0, &[]);
            dump(&fd, &mut buffer, &request, &mut |message| rows.extend(SocketRow::parse(message, *protocol == tcp)))?;
        }
    }
    Ok(rows)
}

/// The same of another namespace, if one is named.
pub(crate) fn list_in(netns: Option<&Netns>, wanted: Wanted) -> io::Result<Vec<SocketRow>> {
    netns.map_or_else(|| list(wanted), |netns| netns.run(|| list(wanted)).map_err(io::Error::other)?)
}

/// A socket to ask by, of the calling thread's namespace for good.
pub(crate) fn open() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?)
}

/// What is asked for: `more` is what each answer shall have beside (`idiag_ext`), `program` which sockets pass, if some do not.
pub(crate) fn request(family: u8, protocol: u8, states: u32, more: u8, program: &[u8]) -> Vec<u8> {
    let filter = if program.is_empty() { 0 } else { 4 + program.len() };
    let mut bytes = Vec::with_capacity(HEAD + REQUEST + filter);
    bytes.extend(((HEAD + REQUEST + filter) as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family, protocol, more, 0]);
    bytes.extend(states.to_ne_bytes());
    bytes.resize(HEAD + REQUEST, 0);
    if filter > 0 {
        bytes.extend((filter as u16).to_ne_bytes());
        bytes.extend(BYTECODE.to_ne_bytes());
        bytes.extend(program);
    }
    bytes
}

/// Asks, and gives each answer to `each`.
pub(crate) fn dump(fd: &impl AsFd, buffer: &mut [u8], request: &[u8], each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    send(fd, request, SendFlags::empty())?;
    loop {
        let length = match recv(fd, &mut *buffer, RecvFlags::TRUNC) {
            Err(rustix::io::Errno::INTR) => continue,
            received => received?.1,
        };
        let mut rest = buffer.get(..length).filter(|bytes| !bytes.is_empty()).ok_or(io::ErrorKind::InvalidData)?;
        while rest.len() >= HEAD {
            let size = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
            let kind = u16::from_ne_bytes([rest[4], rest[5]]);
            let message = rest.get(HEAD..size).ok_or(io::ErrorKind::InvalidData)?;
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => {
                    let number = message.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
                    return Err(io::Error::from_raw_os_error(-number));
                }
                _ => each(message),
            }
            rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

impl SocketRow {
    fn parse(message: &[u8], is_tcp: bool) -> Option<Self> {
        let message: &[u8; MESSAGE] = message.get(..MESSAGE)?.try_into().ok()?;
        let word = |at: usize| u32::from_ne_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]);
        Some(Self {
            inode: word(68).into(),
            cookie: u64::from(word(44)) | u64::from(word(48)) << 32,
            port: u16::from_be_bytes([message[4], message[5]]),
            is_listening: is_tcp && message[1] == LISTEN,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;
    use crate::sys;

    #[test]
    fn sockets_are_listed_with_what_tells_them_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let to = listener.local_addr().expect("an address");
        let client = TcpStream::connect(to).expect("connected");
        let datagrams = UdpSocket::bind("[::1]:0").or_else(|_| UdpSocket::bind("127.0.0.1:0")).expect("bound");
        let inode = |fd: std::os::fd::BorrowedFd<'_>| rustix::fs::fstat(fd).expect("told").st_ino;
        let rows = match list(Wanted::Tcp) {
            Ok(rows) => rows,
            Err(error) => return napier_testkit::skip!("sockets_are_listed_with_what_tells_them_apart", "{error}"),
        };
        let of = |rows: &[SocketRow], wanted| rows.iter().find(|row| row.inode == wanted).cloned();
        let found = of(&rows, inode(listener.as_fd())).expect("it is there");
        assert!(found.is_listening && found.port == to.port(), "{found:?}");
        assert_eq!(
            Ok(found.cookie),
            sys::socket_cookie(listener.as_fd(), libc::SO_COOKIE).map_err(|error| error.kind())
        );
        assert!(!of(&rows, inode(client.as_fd())).expect("it is there").is_listening);
        // The other end was not accepted, so no program has it.
        let waits = |row: &SocketRow| row.inode == 0 && row.port == to.port();
        assert!(rows.iter().any(waits), "{rows:?}");
        let (accepted, _) = listener.accept().expect("accepted");
        let rows = list(Wanted::Tcp).expect("listed");
        assert_eq!(of(&rows, inode(accepted.as_fd())).map(|row| row.port), Some(to.port()));
        let rows = list(Wanted::Receivers).expect("listed");
        assert!(of(&rows, inode(datagrams.as_fd())).is_some_and(|row| !row.is_listening));
        assert!(of(&rows, inode(client.as_fd())).is_none());
    }
}

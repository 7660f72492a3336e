//! A socket for the `netdev` family: one request at a time, and what the kernel says of it, whole.
//!
//! By hand, because `netlink-socket2` 0.3.5 loses the number of an error that ends a dump and the words that come with it. Source:
//! `include/uapi/linux/netlink.h`, `include/uapi/linux/genetlink.h`, `net/netlink/af_netlink.c netlink_dump_done`,
//! `netlink_ack`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use napier_core::control::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink::GENERIC, recv, send, socket_with,
};

use super::wire;
use crate::error::errno_of;
use crate::sys;

/// Bytes of `struct nlmsghdr` and of `struct genlmsghdr`.
const HEAD: usize = 16;
const GENL_HEAD: usize = 4;
/// The kernel fills at most so much of a buffer at a time. `net/netlink/af_netlink.c netlink_recvmsg`.
const BUFFER: usize = 32 * 1024;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
/// Of an error: the request is not repeated, attributes follow.
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
/// `NLMSGERR_ATTR_*`, and `NL_POLICY_TYPE_ATTR_MAX_VALUE_*` in one of them.
const SAID: u16 = 1;
const OFFSET: u16 = 2;
const POLICY: u16 = 4;
const MAX_SIGNED: u16 = 3;
const MAX_UNSIGNED: u16 = 5;

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID`, `CTRL_ATTR_FAMILY_NAME`.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// What the kernel said instead of an answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct NetlinkRefusal {
    /// Its number.
    pub(super) errno: i32,
    /// Its words.
    pub(super) said: Option<String>,
    /// Type of the attribute that it does not take.
    pub(super) attribute: Option<u16>,
    /// The largest value of it.
    pub(super) max: Option<u64>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// This kernel has no such family.
    NoFamily,
    /// The kernel refused.
    Refused(NetlinkRefusal),
    /// As the system says it, or an answer that cannot be read.
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The socket, and the family's number.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    family: u16,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// A socket in the namespace of the calling thread, where it stays.
    pub(super) fn open() -> Result<Self, Trouble> {
        let flags = SocketFlags::CLOEXEC;
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(GENERIC)).map_err(io::Error::from)?;
        // Errors with words, and without the request that they are about. Kernels before 4.12 have neither.
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            let _ = sys::set_netlink_option(fd.as_fd(), option);
        }
        let mut socket = Self { fd, family: CONTROLLER, sequence: 0, buffer: vec![0; BUFFER] };
        let mut name = Vec::new();
        wire::push(&mut name, FAMILY_NAME, b"netdev\0");
        let mut found = None;
        let answer = socket.exchange(GET_FAMILY, false, &name, &mut |attributes| {
            let mut attributes = wire::attributes(attributes).flatten();
            found = attributes.find_map(|(kind, value)| match kind {
                FAMILY_ID => value.try_into().ok().map(u16::from_ne_bytes),
                _ => None,
            });
            found.is_some()
        });
        answer.map_err(|trouble| match trouble {
            Trouble::Refused(NetlinkRefusal { errno, .. }) if errno == Errno::ENOENT.number() => Trouble::NoFamily,
            other => other,
        })?;
        socket.family = found.ok_or(Trouble::NoFamily)?;
        Ok(socket)
    }

    /// Sends a request and gives the attributes of each answer to `each`, which says whether it could read them.
    pub(super) fn exchange(
        &mut self,
        command: u8,
        dump: bool,
        attributes: &[u8],
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Trouble> {
        self.sequence = self.sequence.wrapping_add(1);
        let flags = NLM_F_REQUEST | if dump { NLM_F_DUMP } else { NLM_F_ACK };
        let request = request(self.family, flags, self.sequence, command, attributes);
        send(&self.fd, &request, SendFlags::empty()).map_err(io::Error::from)?;
        let (mut readable, mut done) = (true, None);
        while done.is_none() {
            let received = recv(&self.fd, &mut self.buffer[..], RecvFlags::TRUNC);
            let length = match received {
                Err(rustix::io::Errno::INTR) => continue,
                received => received.map_err(io::Error::from)?.1,
            };
            // Longer than the buffer, or nothing at all: neither is an answer.
            let mut rest = self.buffer.get(..length).filter(|bytes| !bytes.is_empty()).ok_or_else(unreadable)?;
            while !rest.is_empty() && done.is_none() {
                let (message, after) = NetlinkMessage::first(rest).ok_or_else(unreadable)?;
                rest = after;
                if message.sequence != self.sequence {
                    continue;
                }
                match message.kind {
                    NLMSG_ERROR | NLMSG_DONE => done = Some(message.verdict(&request).ok_or_else(unreadable)?),
                    _ => readable &= message.body.get(GENL_HEAD..).is_some_and(&mut *each),
                }
            }
        }
        match done {
            Some(Some(refused)) => Err(Trouble::Refused(refused)),
            _ if readable => Ok(()),
            _ => Err(unreadable().into()),
        }
    }
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer over netdev netlink cannot be read")
}

fn request(family: u16, flags: u16, sequence: u32, command: u8, attributes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEAD + GENL_HEAD + attributes.len()).expect("a few attributes");
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    // The port is the kernel's to choose; version 1.
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(attributes);
    bytes
}

/// One message of a datagram.
struct NetlinkMessage<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    body: &'a [u8],
}

impl<'a> NetlinkMessage<'a> {
    /// The first message, and the rest.
    fn first(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let u16_at = |at: usize| bytes.get(at..)?.first_chunk().map(|two| u16::from_ne_bytes(*two));
        let u32_at = |at: usize| bytes.get(at..)?.first_chunk().map(|four| u32::from_ne_bytes(*four));
        let length = u32_at(0)? as usize;
        let body = bytes.get(HEAD..length)?;
        let message = Self { kind: u16_at(4)?, flags: u16_at(6)?, sequence: u32_at(8)?, body };
        Some((message, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
    }

    /// How the request ended; `None` inside for success, outside for what cannot be read.
    fn verdict(&self, request: &[u8]) -> Option<Option<NetlinkRefusal>> {
        let errno = i32::from_ne_bytes(*self.body.first_chunk()?);
        if errno == 0 {
            return Some(None);
        }
        let mut refused = NetlinkRefusal { errno: -errno, ..NetlinkRefusal::default() };
        if self.flags & NLM_F_ACK_TLVS != 0 {
            let begin = match self.kind {
                NLMSG_DONE => 4,
                // The request that it is about is repeated: its head alone, or all of it.
                _ if self.flags & NLM_F_CAPPED != 0 => 4 + HEAD,
                _ => 4 + u32::from_ne_bytes(*self.body.get(4..)?.first_chunk()?) as usize,
            };
            let words = self.body.get(begin.next_multiple_of(4)..).unwrap_or_default();
            wire::attributes(words).flatten().for_each(|(kind, value)| refused.learn(kind, value, request));
        }
        Some(Some(refused))
    }
}

impl NetlinkRefusal {
    fn learn(&mut self, kind: u16, value: &[u8], request: &[u8]) {
        match kind {
            SAID => {
                let text = String::from_utf8_lossy(value);
                self.said = Some(text.trim_end_matches('\0').to_owned()).filter(|text| !text.is_empty());
            }
            OFFSET => self.attribute = wire::u32_of(value).and_then(|at| wire::kind_at(request, at as usize)),
            POLICY => {
                let mut policy = wire::attributes(value).flatten();
                self.max = policy.find_map(|(kind, value)| match kind {
                    MAX_SIGNED | MAX_UNSIGNED => value.try_into().ok().map(u64::from_ne_bytes),
                    _ => None,
                });
            }
            _ => {}
        }
    }

    pub(super) fn number(&self) -> Option<Errno> {
        errno_of(&self.plain())
    }

    pub(super) fn plain(&self) -> io::Error {
        io::Error::from_raw_os_error(self.errno)
    }
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;

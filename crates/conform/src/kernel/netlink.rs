//! Requests of the `netdev` family as bytes, and the kernel's own answer to each: what is malformed must reach it, which no
//! binding allows. Source: `include/uapi/linux/{netlink,genetlink,netdev}.h`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

/// `NETDEV_CMD_QUEUE_GET`.
pub(super) const QUEUE_GET: u8 = 10;
/// `NETDEV_CMD_NAPI_GET`.
pub(super) const NAPI_GET: u8 = 11;
/// `NETDEV_CMD_NAPI_SET`.
pub(super) const NAPI_SET: u8 = 14;

/// `NETDEV_A_NAPI_*`, by the kernel's names.
pub(super) const NAPI_ATTRIBUTES: [(&str, u16); 8] = [
    ("ifindex", 1),
    ("id", 2),
    ("irq", 3),
    ("pid", 4),
    ("defer-hard-irqs", 5),
    ("gro-flush-timeout", 6),
    ("irq-suspend-timeout", 7),
    ("threaded", 8),
];
/// `NETDEV_A_QUEUE_*`.
pub(super) const QUEUE_ATTRIBUTES: [(&str, u16); 4] = [("id", 1), ("ifindex", 2), ("type", 3), ("napi-id", 4)];
/// An attribute that no kernel has, for names that are none.
pub(super) const NO_SUCH_ATTRIBUTE: u16 = 1000;

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
/// Bytes of `struct nlmsghdr`, and with `struct genlmsghdr`.
const HEAD: usize = 16;
const HEADS: usize = 20;
const TYPE_MASK: u16 = 0x3fff;
const BUFFER_BYTES: usize = 1 << 16;
/// Messages of one answer; a dump of more instances than a scenario can have.
const MESSAGES_MAX: usize = 100_000;

/// Attributes of a request.
#[derive(Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    /// With one of 32 bits, or of 64 if the value needs them.
    pub(super) fn number(mut self, kind: u16, value: u64) -> Self {
        match u32::try_from(value) {
            Ok(value) => push(&mut self.0, kind, &value.to_ne_bytes()),
            Err(_) => push(&mut self.0, kind, &value.to_ne_bytes()),
        }
        self
    }
}

/// One message of an answer: its attributes, as numbers.
pub(super) type Reply = Vec<(u16, u64)>;

/// Asks the `netdev` family in the namespace of the calling thread, with its capabilities.
///
/// # Errors
/// What the kernel answered; or there is no such family (before Linux 6.8), or no socket.
pub(super) fn ask(command: u8, dump: bool, attributes: &Attributes) -> io::Result<Vec<Reply>> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::GENERIC))?;
    let mut name = Vec::new();
    push(&mut name, CTRL_ATTR_FAMILY_NAME, b"netdev\0");
    let family = exchange(&socket, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, NLM_F_ACK, &name)?;
    let id = family.first().and_then(|reply| reply.iter().find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID));
    let id = id.and_then(|(_, id)| u16::try_from(*id).ok()).ok_or(io::ErrorKind::InvalidData)?;
    exchange(&socket, id, command, if dump { NLM_F_DUMP } else { NLM_F_ACK }, &attributes.0)
}

fn exchange(socket: &OwnedFd, family: u16, command: u8, flags: u16, attributes: &[u8]) -> io::Result<Vec<Reply>> {
    let bytes = u32::try_from(HEADS + attributes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut message = Vec::with_capacity(HEADS + attributes.len());
    message.extend(bytes.to_ne_bytes());
    message.extend(family.to_ne_bytes());
    message.extend((NLM_F_REQUEST | flags).to_ne_bytes());
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend(attributes);
    send(socket, &message, SendFlags::empty())?;
    let (mut replies, mut buffer) = (Vec::new(), vec![0; BUFFER_BYTES]);
    for _ in 0..MESSAGES_MAX {
        let (_, received) = recv(socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        let mut rest = &buffer[..received.min(BUFFER_BYTES)];
        while let Some((kind, body, after)) = message_of(rest) {
            rest = after;
            match kind {
                // Both begin with the negated number of an error, or 0.
                NLMSG_ERROR | NLMSG_DONE => {
                    let errno = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
                    return if errno < 0 { Err(io::Error::from_raw_os_error(-errno)) } else { Ok(replies) };
                }
                _ => replies.push(attributes_of(body.get(HEADS - HEAD..).unwrap_or_default())),
            }
        }
    }
    Err(io::Error::other("the kernel's answer does not end"))
}

/// Type and body of the first message, and what follows.
fn message_of(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let head = bytes.first_chunk::<HEAD>()?;
    let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let body = bytes.get(HEAD..length)?;
    Some((u16::from_ne_bytes([head[4], head[5]]), body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// Numbers of 1 to 8 bytes; other attributes read as 0.
fn attributes_of(mut bytes: &[u8]) -> Reply {
    let mut found = Vec::new();
    while let Some([low, high, kind_low, kind_high]) = bytes.first_chunk() {
        let length = usize::from(u16::from_ne_bytes([*low, *high]));
        let Some(value) = bytes.get(4..length) else { break };
        let number = match value.len() {
            2 => value.first_chunk().map_or(0, |bytes| u16::from_ne_bytes(*bytes).into()),
            4 => value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes).into()),
            8 => value.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)),
            _ => 0,
        };
        found.push((u16::from_ne_bytes([*kind_low, *kind_high]) & TYPE_MASK, number));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn push(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).expect("a short value");
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_and_read() {
        let attributes = Attributes::default().number(5, 7).number(6, 5_000_000_000);
        assert_eq!(attributes_of(&attributes.0), vec![(5, 7), (6, 5_000_000_000)]);
        let mut message = Vec::new();
        message.extend(20_u32.to_ne_bytes());
        message.extend(NLMSG_DONE.to_ne_bytes());
        message.extend([0; 10]);
        message.extend((-19_i32).to_ne_bytes());
        let (kind, body, rest) = message_of(&message).expect("one message");
        assert_eq!((kind, body, rest.len()), (NLMSG_DONE, &(-19_i32).to_ne_bytes()[..], 0));
        assert_eq!(message_of(&message[..19]), None);
    }
}

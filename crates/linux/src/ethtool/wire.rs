//! Messages of the `ethtool` family as bytes.
//!
//! By hand, because the bindings of 0.3.5 number the requests of this family wrongly: they count notifications, which the
//! kernel numbers apart. Source: `include/uapi/linux/ethtool_netlink_generated.h`.

use netlink_bindings::traits::{NetlinkRequest, Protocol};
use netlink_socket2::{NetlinkSocket, ReplyError};

use super::{EthtoolError, refused};

/// Bytes of `struct genlmsghdr`.
const GENL_HEADER: usize = 4;
/// Bytes before an attribute's value: its length with them, and its type.
const HEAD: usize = 4;
const ALIGN: usize = 4;
/// `include/uapi/linux/netlink.h`.
const NLA_F_NESTED: u16 = 1 << 15;
const NLA_TYPE_MASK: u16 = 0x3fff;
/// Every request begins with it (`ETHTOOL_A_*_HEADER`); within it the interface (`ETHTOOL_A_HEADER_DEV_INDEX`).
const HEADER: u16 = 1;
const DEV_INDEX: u16 = 1;

/// A request about one interface.
struct EthtoolRequest(Vec<u8>);

impl EthtoolRequest {
    fn new(command: u8, ifindex: u32, values: &[(u16, Vec<u8>)]) -> Self {
        let mut bytes = vec![command, 1, 0, 0];
        let mut header = Vec::new();
        push(&mut header, DEV_INDEX, &ifindex.to_ne_bytes());
        push(&mut bytes, HEADER | NLA_F_NESTED, &header);
        for (kind, value) in values {
            push(&mut bytes, *kind, value);
        }
        Self(bytes)
    }
}

fn push(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = u16::try_from(HEAD + value.len()).expect("requests are short");
    bytes.extend(len.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
}

impl NetlinkRequest for EthtoolRequest {
    fn protocol(&self) -> Protocol {
        Protocol::Generic(b"ethtool")
    }

    fn flags(&self) -> u16 {
        0
    }

    fn payload(&self) -> &[u8] {
        &self.0
    }

    type ReplyType<'buf> = &'buf [u8];

    fn decode_reply(bytes: &[u8]) -> &[u8] {
        bytes.get(GENL_HEADER..).unwrap_or_default()
    }
}

/// The attributes of the answer to a question; `None` without an answer.
pub(super) fn get(command: u8, ifindex: u32) -> Result<Option<Vec<u8>>, EthtoolError> {
    ask(&EthtoolRequest::new(command, ifindex, &[]))
}

/// Sets values.
pub(super) fn set(command: u8, ifindex: u32, values: &[(u16, Vec<u8>)]) -> Result<(), EthtoolError> {
    ask(&EthtoolRequest::new(command, ifindex, values)).map(|_| ())
}

fn ask(request: &EthtoolRequest) -> Result<Option<Vec<u8>>, EthtoolError> {
    let words = |error: &ReplyError| refused(error.as_io_error(), error.to_string());
    let mut socket = NetlinkSocket::new();
    let mut replies = socket.request(request).map_err(|error| refused(&error, error.to_string()))?;
    let mut answer = None;
    while let Some(reply) = replies.recv() {
        answer = Some(reply.map_err(|error| words(&error))?.to_vec());
    }
    Ok(answer)
}

/// Types and values, up to the first that is cut off.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = bytes.first_chunk::<HEAD>()?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]) & NLA_TYPE_MASK;
        let value = bytes.get(HEAD..len)?;
        bytes = bytes.get(len.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of a type.
pub(super) fn nested(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_begins_with_the_interface() {
        let request = EthtoolRequest::new(17, 5, &[(9, 2_u32.to_ne_bytes().to_vec())]);
        assert_eq!(request.0[..4], [17, 1, 0, 0]);
        let all: Vec<_> = attributes(&request.0[4..]).collect();
        assert_eq!(all[0].0, HEADER);
        assert_eq!(nested(all[0].1, DEV_INDEX), Some(5_u32.to_ne_bytes().as_slice()));
        assert_eq!(all[1], (9, 2_u32.to_ne_bytes().as_slice()));
    }

    #[test]
    fn what_is_cut_off_ends_the_list() {
        let mut bytes = Vec::new();
        push(&mut bytes, 7, &[1]);
        push(&mut bytes, 8, &[1, 2, 3, 4]);
        bytes.truncate(bytes.len() - 1);
        assert_eq!(attributes(&bytes).collect::<Vec<_>>(), [(7, [1_u8].as_slice())]);
        // A length that does not even hold itself.
        assert_eq!(attributes(&[1, 0, 7, 0]).count(), 0);
    }
}

//! Heads of datagrams: what is written is what is read, and nothing else is a head.

use crate::record::{HAS_OWN, HAS_PEER, HAS_TOS, HAS_TTL, HEAD_BYTES, RecordHead, RecordKind, RecordPeer};
use crate::test_rng::Rng;

fn any(rng: &mut Rng) -> RecordHead {
    let mut sixteen = || core::array::from_fn(|_| rng.below(256) as u8);
    let (address, own) = (sixteen(), sixteen());
    let kind = if rng.below(2) == 0 { RecordKind::Datagram } else { RecordKind::Error };
    let peer = RecordPeer { is_v6: rng.below(2) == 1, port: rng.below(65_536) as u16, scope: rng.below(9), address };
    RecordHead {
        kind,
        flags: rng.below(16) as u16,
        peer,
        own,
        ifindex: rng.below(100_000),
        tos: rng.below(256) as u8,
        ttl: rng.below(256) as u8,
        errno: rng.below(134) as u16,
    }
}

#[test]
fn what_is_written_is_what_is_read() {
    let mut rng = Rng::new(7);
    for _ in 0..1000 {
        let head = any(&mut rng);
        let mut message = head.to_bytes().to_vec();
        assert_eq!(RecordHead::from_bytes(&message), Some(head));
        message.extend([1, 2, 3]);
        assert_eq!(RecordHead::from_bytes(&message), Some(head), "a payload follows");
    }
}

#[test]
fn a_message_that_is_short_or_says_what_is_unknown_has_no_head() {
    let head = any(&mut Rng::new(1)).to_bytes();
    for len in 0..HEAD_BYTES {
        assert_eq!(RecordHead::from_bytes(&head[..len]), None, "{len} bytes");
    }
    // Magic, kind, the unknown flags, family: each byte of them matters.
    for at in [0, 1, 2, 3, 4, 5, 7, 8, 9] {
        let mut bytes = head;
        bytes[at] ^= 0x80;
        assert_eq!(RecordHead::from_bytes(&bytes), None, "byte {at}");
    }
}

#[test]
fn no_bytes_are_read_as_more_than_they_can_say() {
    let mut rng = Rng::new(3);
    for _ in 0..100_000 {
        let mut bytes = any(&mut rng).to_bytes();
        for _ in 0..rng.below(8) {
            bytes[rng.below(HEAD_BYTES as u32) as usize] = rng.below(256) as u8;
        }
        let Some(head) = RecordHead::from_bytes(&bytes) else { continue };
        assert_eq!(head.flags & !(HAS_PEER | HAS_OWN | HAS_TOS | HAS_TTL), 0);
        assert_eq!(head.to_bytes(), bytes, "every byte means something");
    }
}

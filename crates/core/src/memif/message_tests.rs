use alloc::string::ToString;

use super::*;

fn samples() -> [Message; 8] {
    let name = Name::new("napier");
    [
        Message::Ack,
        Message::Hello(Hello {
            name,
            version_min: 0x0102,
            version_max: 0x0304,
            region_max: 0x0506,
            s2c_ring_max: 0x0708,
            c2s_ring_max: 0x090a,
            log2_ring_size_max: 0x0b,
        }),
        Message::Init(Init {
            version: VERSION,
            id: 0x0102_0304,
            mode: 5,
            secret: *Secret::new(b"open sesame").expect("short").bytes(),
            name,
        }),
        Message::AddRegion(AddRegion { index: 0x0102, bytes: 0x0304_0506_0708_090a }),
        Message::AddRing(AddRing {
            c2s: true,
            index: 0x0102,
            region: 0x0304,
            offset: 0x0506_0708,
            log2_ring_size: 9,
            private_header_bytes: 0x0a0b,
        }),
        Message::Connect(name),
        Message::Connected(name),
        Message::Disconnect { code: 0x0102_0304, reason: Reason::new("enough") },
    ]
}

/// Types and places of the fields, byte by byte: what no round trip can see.
#[test]
fn bytes_are_where_the_protocol_says() {
    for (kind, message) in (1..).zip(samples()) {
        assert_eq!(message.encode()[..2], [kind, 0], "{}", message.name());
    }
    let [_, hello, init, region, ring, connect, _, disconnect] = samples().map(|message| message.encode());
    assert_eq!(hello[2..9], *b"napier\0");
    assert_eq!(hello[34..45], [2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 11]);
    assert_eq!(init[2..9], [0, 2, 4, 3, 2, 1, 5]);
    assert_eq!(init[9..21], *b"open sesame\0");
    assert_eq!(init[33..40], *b"napier\0");
    assert_eq!(region[2..12], [2, 1, 10, 9, 8, 7, 6, 5, 4, 3]);
    assert_eq!(ring[2..15], [1, 0, 2, 1, 4, 3, 8, 7, 6, 5, 9, 11, 10]);
    assert_eq!(connect[2..9], *b"napier\0");
    assert_eq!(disconnect[2..13], [4, 3, 2, 1, b'e', b'n', b'o', b'u', b'g', b'h', 0]);
}

#[test]
fn what_is_encoded_is_decoded() {
    for message in samples() {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
}

#[test]
fn what_is_no_message_is_refused() {
    assert_eq!(Message::decode(&[0; 127]), Err(DecodeError::Length { bytes: 127 }));
    assert_eq!(Message::decode(&[0; 129]), Err(DecodeError::Length { bytes: 129 }));
    assert_eq!(Message::decode(&[]), Err(DecodeError::Length { bytes: 0 }));
    for kind in [0, 9, 256, 257, u16::MAX] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        assert_eq!(Message::decode(&bytes), Err(DecodeError::Type { kind }));
    }
}

#[test]
fn text_is_cut_and_printable() {
    assert_eq!(Name::new(&"x".repeat(40)).to_string(), "x".repeat(31));
    assert_eq!(Name::from_bytes(&[b'a'; 32]).to_string(), "a".repeat(31));
    assert_eq!(Name::from_bytes(b"a\x1b[2Jb\xffc\0d").to_string(), "a?[2Jb?c");
    assert!(Name::from_bytes(b"\0abc").is_empty());
}

#[test]
fn secrets_are_compared_whole() {
    let secret = Secret::new(b"open sesame").expect("short");
    assert!(secret.matches(secret.bytes()));
    for position in 0..SECRET_BYTES {
        let mut other = *secret.bytes();
        other[position] ^= 1;
        assert!(!secret.matches(&other));
    }
    assert_eq!((Secret::new(b""), Secret::new(&[b'x'; 25]), Secret::new(b"a\0b")), (None, None, None));
    assert!(Secret::new(&[b'x'; 24]).is_some());
}

#[test]
fn a_secret_is_not_matched_by_differences_that_cancel_and_is_not_shown() {
    let secret = Secret::new(b"open").unwrap();
    assert!(secret.matches(secret.bytes()));
    for places in [&[0][..], &[23], &[0, 1], &[0, 1, 2]] {
        let mut offered = *secret.bytes();
        places.iter().for_each(|place| offered[*place] ^= 0x10);
        assert!(!secret.matches(&offered), "{places:?}");
    }
    assert_eq!(alloc::format!("{secret:?}"), "Secret(..)");
}

#[test]
fn text_is_cut_before_the_last_byte_of_its_field() {
    use core::fmt::Write as _;
    let text = Text::<4>::from_bytes(b"abcd\0");
    assert_eq!((text.field(), alloc::format!("{text:?}")), (b"abc\0", "\"abc\"".to_string()));
    let mut text = Text::<4>::new("a");
    write!(text, "bcdef").unwrap();
    assert_eq!(text.field(), b"abc\0");
    assert!(!text.is_empty() && Text::<4>::new("").is_empty());
}

#[test]
fn who_asks_for_what_is_shown_without_the_secret() {
    let shown: alloc::vec::Vec<_> = samples().iter().map(|message| alloc::format!("{message:?}")).collect();
    let init = "Init(Init { version: 0x200, id: 16909060, mode: 5, name: \"napier\" })";
    assert_eq!(shown.iter().filter(|shown| *shown == init).count(), 1, "{shown:?}");
}

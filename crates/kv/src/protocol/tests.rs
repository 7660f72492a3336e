use super::*;
use crate::{DATAGRAM_BYTES_MAX, value_bytes_max};
use proptest::prelude::*;

fn framed(id: u16, body: &[u8]) -> Vec<u8> {
    let mut datagram = vec![(id >> 8) as u8, id as u8, 0, 0, 0, 1, 0, 0];
    datagram.extend_from_slice(body);
    datagram
}

fn refusal(body: &[u8]) -> Refusal {
    match parse_request(&framed(5, body)) {
        Err(RequestError::Refused { id: 5, refusal }) => refusal,
        other => panic!("{:?}: {other:?}", String::from_utf8_lossy(body)),
    }
}

#[test]
fn get_and_set_are_read() {
    let datagram = framed(0xabcd, b"get some:key\r\n");
    assert_eq!(parse_request(&datagram), Ok(Request { id: 0xabcd, command: Command::Get { key: b"some:key" } }));

    let datagram = framed(1, b"set k 4294967295 0 5\r\na\r\nb \r\n");
    let command = Command::Set { key: b"k", flags: u32::MAX, value: b"a\r\nb ", noreply: false };
    assert_eq!(parse_request(&datagram), Ok(Request { id: 1, command }));

    let datagram = framed(1, b"set  k 0 -1 0 noreply\n\r\n");
    let command = Command::Set { key: b"k", flags: 0, value: b"", noreply: true };
    assert_eq!(parse_request(&datagram), Ok(Request { id: 1, command }), "several spaces, bare newline");
}

#[test]
fn what_is_not_understood_is_refused_in_memcacheds_words() {
    let long_key = [b'k'; KEY_BYTES_MAX + 1];
    let table: &[(&[u8], Refusal)] = &[
        (b"", Refusal::Error),
        (b"\r\n", Refusal::Error),
        (b"get k", Refusal::Error),
        (b"get\r\n", Refusal::Error),
        (b"delete k\r\n", Refusal::Error),
        (b"GET k\r\n", Refusal::Error),
        (b"set k 0 0\r\nx\r\n", Refusal::Error),
        (b"get a b\r\n", Refusal::BadLine),
        (b"get a\r\nget b\r\n", Refusal::BadLine),
        (b"get a\tb\r\n", Refusal::BadLine),
        (b"set k x 0 1\r\nx\r\n", Refusal::BadLine),
        (b"set k 4294967296 0 1\r\nx\r\n", Refusal::BadLine),
        (b"set k 0 x 1\r\nx\r\n", Refusal::BadLine),
        (b"set k 0 0 -1\r\nx\r\n", Refusal::BadLine),
        (b"set k 0 0 1 later\r\nx\r\n", Refusal::BadLine),
        (b"set k 0 0 1 noreply x\r\nx\r\n", Refusal::BadLine),
        (b"set k 0 0 2\r\nx\r\n", Refusal::BadDataChunk),
        (b"set k 0 0 1\r\nxy\r\n", Refusal::BadDataChunk),
        (b"set k 0 0 1\r\nx", Refusal::BadDataChunk),
        (b"set k 0 0 1\r\nx\r\nget k\r\n", Refusal::BadDataChunk),
        (b"set k 0 0 4294967295\r\nx\r\n", Refusal::BadDataChunk),
    ];
    for (body, want) in table {
        assert_eq!(refusal(body), *want, "{:?}", String::from_utf8_lossy(body));
    }
    assert_eq!(refusal(&[b"get ", &long_key[..], b"\r\n"].concat()), Refusal::BadLine);
    assert!(parse_request(&framed(5, &[b"get ", &long_key[1..], b"\r\n"].concat())).is_ok());
}

#[test]
fn frame_header_is_checked() {
    assert_eq!(parse_request(&[1, 2, 3]), Err(RequestError::NoFrameHeader { len_bytes: 3 }));
    let mut two_datagrams = framed(5, b"get k\r\n");
    two_datagrams[5] = 2;
    assert_eq!(parse_request(&two_datagrams), Err(RequestError::Refused { id: 5, refusal: Refusal::MultiPacket }));
}

#[test]
fn replies_are_byte_for_byte_memcacheds() {
    let mut out = [0; 64];
    let len = write_value(&mut out, 0x0102, b"k", 7, b"abc").unwrap();
    assert_eq!(&out[..len], b"\x01\x02\0\0\0\x01\0\0VALUE k 7 3\r\nabc\r\nEND\r\n");
    let len = write_end(&mut out, 3).unwrap();
    assert_eq!(&out[..len], b"\0\x03\0\0\0\x01\0\0END\r\n");
    let len = write_stored(&mut out, 3).unwrap();
    assert_eq!(&out[..len], b"\0\x03\0\0\0\x01\0\0STORED\r\n");
    let len = write_refusal(&mut out, 3, Refusal::BadDataChunk).unwrap();
    assert_eq!(&out[..len], b"\0\x03\0\0\0\x01\0\0CLIENT_ERROR bad data chunk\r\n");
    assert_eq!(Refusal::TooLarge.to_string(), Refusal::TooLarge.line());
}

#[test]
fn a_short_buffer_is_an_error_that_says_how_much_is_needed() {
    assert_eq!(write_end(&mut [0; 12], 3), Err(NoRoom { needed_bytes: 13, available_bytes: 12 }));
    assert_eq!(write_end(&mut [0; 13], 3), Ok(13));
}

#[test]
fn the_longest_value_just_fits_a_datagram() {
    for key_bytes in [1, 30, KEY_BYTES_MAX] {
        let key = vec![b'k'; key_bytes];
        let value = vec![0; value_bytes_max(key_bytes)];
        let len = write_value(&mut [0; DATAGRAM_BYTES_MAX], 1, &key, u32::MAX, &value).unwrap();
        assert_eq!(len, DATAGRAM_BYTES_MAX);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1500)) {
        let _ = parse_request(&bytes);
    }

    #[test]
    fn no_near_request_makes_it_panic(
        verb in "(get|set|gets|)",
        tail in "[ 0-9a-z\r\n-]{0,60}",
        cut in 0_usize..80,
    ) {
        let datagram = framed(9, format!("{verb} {tail}\r\n").as_bytes());
        let _ = parse_request(&datagram[..cut.min(datagram.len())]);
        if let Ok(request) = parse_request(&datagram) {
            prop_assert_eq!(request.id, 9);
        }
    }

    #[test]
    fn what_a_set_carries_is_what_is_read(
        id: u16,
        key in proptest::collection::vec(0x21_u8..0x7f, 1..=KEY_BYTES_MAX),
        flags: u32,
        value in proptest::collection::vec(any::<u8>(), 0..1000),
    ) {
        let mut body = b"set ".to_vec();
        body.extend_from_slice(&key);
        body.extend_from_slice(format!(" {flags} 0 {}\r\n", value.len()).as_bytes());
        body.extend_from_slice(&value);
        body.extend_from_slice(b"\r\n");
        let datagram = framed(id, &body);
        let command = Command::Set { key: &key, flags, value: &value, noreply: false };
        prop_assert_eq!(parse_request(&datagram), Ok(Request { id, command }));
    }
}

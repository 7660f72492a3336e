use super::*;
use crate::protocol::{Command, Refusal, Request, parse_request, write_refusal, write_value};
use proptest::prelude::*;

#[test]
fn requests_are_what_the_server_reads() {
    let mut out = [0; 256];
    let len = write_get(&mut out, 0xfffe, b"key").unwrap();
    assert_eq!(parse_request(&out[..len]), Ok(Request { id: 0xfffe, command: Command::Get { key: b"key" } }));

    let len = write_set(&mut out, 7, b"key", 100).unwrap();
    let Ok(Request { id: 7, command: Command::Set { key, flags, value, noreply: false } }) = parse_request(&out[..len])
    else {
        panic!("not a set");
    };
    assert_eq!((key, value.len()), (&b"key"[..], 100));
    assert!(value::is_genuine(key, flags, value));
    assert!(write_set(&mut out, 7, b"key", 256).is_err());
}

#[test]
fn replies_are_read_and_checked() {
    let mut value = [0; 20];
    let flags = value::fill_value(b"key", &mut value);
    let mut out = [0; 128];
    let len = write_value(&mut out, 3, b"key", flags, &value).unwrap();
    let reply = parse_reply(&out[..len]).unwrap();
    assert_eq!(reply, Reply { id: 3, status: Status::Value { key: b"key", flags, value: &value } });
    assert_eq!(check_get(&reply.status, b"key"), Ok(20));
    assert_eq!(check_get(&reply.status, b"other"), Err(WrongReply::OtherKey));
    assert_eq!(check_set(&reply.status), Err(WrongReply::OtherKind));

    value[3] ^= 1;
    let bad = Status::Value { key: b"key", flags, value: &value };
    assert_eq!(check_get(&bad, b"key"), Err(WrongReply::NotGenuine { value_bytes: 20 }));
    assert_eq!(check_get(&Status::End, b"key"), Err(WrongReply::Missing));
    assert_eq!(check_get(&Status::Stored, b"key"), Err(WrongReply::OtherKind));
    assert_eq!(check_set(&Status::Stored), Ok(()));

    let len = write_refusal(&mut out, 3, Refusal::Error).unwrap();
    let refused = parse_reply(&out[..len]).unwrap().status;
    assert_eq!(refused, Status::Refused(b"ERROR"));
    assert_eq!(check_get(&refused, b"key"), Err(WrongReply::Refused));
}

#[test]
fn what_is_no_reply_is_said_to_be_none() {
    for body in [
        &b""[..],
        b"VALUE k 0 3\r\nab\r\nEND\r\n",
        b"VALUE k 0 2\r\nab\r\n",
        b"VALUE k 0\r\n\r\nEND\r\n",
        b"HI\r\n",
        b"END",
    ] {
        let datagram = [&[0; 8][..], body].concat();
        assert_eq!(parse_reply(&datagram), Err(NoReply { len_bytes: datagram.len() }), "{body:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1500)) {
        let _ = parse_reply(&bytes);
    }

    #[test]
    fn no_near_reply_makes_it_panic(tail in "(VALUE|END|STORED) [ 0-9a-z\r\n]{0,60}") {
        let _ = parse_reply(&[&[0; 8][..], tail.as_bytes()].concat());
    }
}

use proptest::prelude::*;

use super::*;
use crate::session::{Family, Server, Session, Turn};

#[test]
fn what_a_client_writes_the_server_answers_and_the_client_reads_wherever_it_is_cut() {
    for format in [Format::Ascii, Format::Binary, Format::Meta, Format::Resp] {
        let family = if format == Format::Resp { Family::Redis } else { Family::Memcached };
        let (mut input, mut replies) = (Vec::new(), Vec::new());
        for value_bytes in [None, Some(300), None] {
            Request { key: b"key", value_bytes }.write(format, &mut input).unwrap();
        }
        let server = Server::new(0, 1, 0);
        let turn = Turn { server: &server, stats: server.worker(0), now_ms: 1 };
        Session::new(family).advance(&turn, &input, &mut replies);

        let mut genuine = vec![0; 300];
        let flags = value::fill_value(b"key", &mut genuine);
        let flags = (format != Format::Resp).then_some(flags);
        let mut rest = &replies[..];
        for expected in [Reply::Missing, Reply::Stored, Reply::Value { flags, value: &genuine }] {
            let (bytes, reply) = read_reply(format, rest).unwrap().expect("it has come whole");
            assert_eq!(reply, expected, "{format}");
            let verdict = if expected == Reply::Missing { ReplyVerdict::Missing } else { ReplyVerdict::Right };
            assert_eq!(reply.verdict(b"key", expected == Reply::Stored), verdict);
            for cut in 0..bytes {
                assert_eq!(read_reply(format, &rest[..cut]), Ok(None), "{format} cut at {cut}");
            }
            rest = &rest[bytes..];
        }
        assert!(rest.is_empty());
    }
}

#[test]
fn a_value_of_another_key_or_a_reply_of_another_kind_is_wrong() {
    let mut value = [0; 20];
    let flags = Some(value::fill_value(b"key", &mut value));
    let reply = Reply::Value { flags, value: &value };
    assert_eq!(reply.verdict(b"key", false), ReplyVerdict::Right);
    assert_eq!(reply.verdict(b"other", false), ReplyVerdict::Wrong);
    assert_eq!(reply.verdict(b"key", true), ReplyVerdict::Wrong);
    assert_eq!(Reply::Value { flags, value: &value[..19] }.verdict(b"key", false), ReplyVerdict::Wrong);
    assert_eq!(Reply::Stored.verdict(b"key", false), ReplyVerdict::Wrong);
    assert_eq!(Reply::Missing.verdict(b"key", true), ReplyVerdict::Wrong);
    assert_eq!(Reply::Refused.verdict(b"key", false), ReplyVerdict::Refused);
}

#[test]
fn a_datagram_holds_one_whole_reply() {
    let stored = b"\0\x07\0\0\0\x01\0\0STORED\r\n";
    assert_eq!(read_datagram(Format::Ascii, stored), Ok((7, Reply::Stored)));
    for bad in [&stored[..7], &stored[..stored.len() - 1], b"\0\x07\0\0\0\x02\0\0STORED\r\n", &[0; 12]] {
        assert_eq!(read_datagram(Format::Ascii, bad), Err(NoReply), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1500)) {
        for format in [Format::Ascii, Format::Binary, Format::Meta, Format::Resp] {
            let _ = read_datagram(format, &bytes);
        }
    }

    #[test]
    fn no_near_reply_makes_it_panic(tail in "(VALUE|VA|END|STORED|[$]) ?[ 0-9a-z\r\n]{0,60}") {
        for format in [Format::Ascii, Format::Meta, Format::Resp] {
            let _ = read_reply(format, tail.as_bytes());
        }
    }
}

#[test]
fn refusals_are_replies_and_nonsense_is_none() {
    for (format, refusal) in [
        (Format::Ascii, &b"SERVER_ERROR out of memory storing object\r\n"[..]),
        (Format::Meta, b"NS\r\n"),
        (Format::Resp, b"-ERR no\r\n"),
    ] {
        assert_eq!(read_reply(format, refusal), Ok(Some((refusal.len(), Reply::Refused))));
        assert_eq!(read_reply(format, b"SSH-2.0\r\n"), Err(NoReply));
        assert_eq!(read_reply(format, &[b'x'; 2000]), Err(NoReply));
    }
    assert_eq!(read_reply(Format::Binary, &[0; 24]), Err(NoReply));
}

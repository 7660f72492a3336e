use super::*;
use crate::load::codec::{Format, Reply, Request, Verdict, read_datagram};
use crate::{DATAGRAM_BYTES_MAX, value_bytes_max};
use proptest::prelude::*;

struct Pair {
    table: Table,
    reply: [u8; DATAGRAM_BYTES_MAX],
}

impl Pair {
    fn new() -> Self {
        Self { table: Table::new(16), reply: [0; DATAGRAM_BYTES_MAX] }
    }

    fn ask(&mut self, value_bytes: Option<usize>) -> Reply<'_> {
        let mut request = Vec::new();
        Request { key: b"key", value_bytes }.write_datagram(Format::Ascii, 11, &mut request).unwrap();
        let len = serve(&self.table, &request, &mut self.reply);
        let (id, reply) = read_datagram(Format::Ascii, &self.reply[..len]).unwrap();
        assert_eq!(id, 11);
        reply
    }
}

#[test]
fn a_client_gets_what_it_set() {
    let mut pair = Pair::new();
    assert_eq!(pair.ask(None), Reply::Missing);
    let length = |reply: Reply<'_>| match reply {
        Reply::Value { value, .. } if reply.verdict(b"key", false) == Verdict::Right => value.len(),
        other => panic!("{other:?}"),
    };
    for value_bytes in [0, 1, 8, 300, value_bytes_max(3)] {
        assert_eq!(pair.ask(Some(value_bytes)), Reply::Stored);
        assert_eq!(length(pair.ask(None)), value_bytes);
    }
    assert_eq!(pair.ask(Some(value_bytes_max(3) + 1)), Reply::Refused);
    assert_eq!(length(pair.ask(None)), value_bytes_max(3), "the old value stays");
}

#[test]
fn nothing_is_sent_where_nothing_is_wanted() {
    let mut pair = Pair::new();
    let request = b"\0\x0b\0\0\0\x01\0\0set key 1 0 1 noreply\r\nx\r\n";
    assert_eq!(serve(&pair.table, request, &mut pair.reply), 0);
    assert_eq!(pair.ask(None), Reply::Value { flags: Some(1), value: b"x" });
    assert_eq!(serve(&pair.table, b"short", &mut pair.reply), 0);
}

proptest! {
    #[test]
    fn any_datagram_is_answered_or_dropped(bytes in proptest::collection::vec(any::<u8>(), 0..1500)) {
        let mut pair = Pair::new();
        let len = serve(&pair.table, &bytes, &mut pair.reply);
        prop_assert!(len == 0 || read_datagram(Format::Ascii, &pair.reply[..len]).is_ok());
        prop_assert_eq!(len == 0, bytes.len() < 8);
    }
}

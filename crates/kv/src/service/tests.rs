use super::*;
use crate::client::{Status, check_get, check_set, parse_reply, write_get, write_set};
use crate::{DATAGRAM_BYTES_MAX, value_bytes_max};
use proptest::prelude::*;

struct Pair {
    table: Table,
    request: [u8; 2048],
    reply: [u8; DATAGRAM_BYTES_MAX],
}

impl Pair {
    fn new() -> Self {
        Self { table: Table::new(16), request: [0; 2048], reply: [0; DATAGRAM_BYTES_MAX] }
    }

    fn get(&mut self, key: &[u8]) -> Status<'_> {
        let len = write_get(&mut self.request, 11, key).unwrap();
        self.exchange(len)
    }

    fn set(&mut self, key: &[u8], value_bytes: usize) -> Status<'_> {
        let len = write_set(&mut self.request, 11, key, value_bytes).unwrap();
        self.exchange(len)
    }

    fn exchange(&mut self, len: usize) -> Status<'_> {
        let len = serve(&self.table, &self.request[..len], &mut self.reply);
        let reply = parse_reply(&self.reply[..len]).unwrap();
        assert_eq!(reply.id, 11);
        reply.status
    }
}

#[test]
fn a_client_gets_what_it_set() {
    let mut pair = Pair::new();
    assert_eq!(pair.get(b"key"), Status::End);
    for value_bytes in [0, 1, 8, 300, value_bytes_max(3)] {
        check_set(&pair.set(b"key", value_bytes)).unwrap();
        assert_eq!(check_get(&pair.get(b"key"), b"key"), Ok(value_bytes));
    }
    let too_long = value_bytes_max(3) + 1;
    assert_eq!(pair.set(b"key", too_long), Status::Refused(b"SERVER_ERROR object too large for cache"));
    assert_eq!(check_get(&pair.get(b"key"), b"key"), Ok(value_bytes_max(3)), "the old value stays");
}

#[test]
fn nothing_is_sent_where_nothing_is_wanted() {
    let mut pair = Pair::new();
    let request = b"\0\x0b\0\0\0\x01\0\0set k 1 0 1 noreply\r\nx\r\n";
    assert_eq!(serve(&pair.table, request, &mut pair.reply), 0);
    assert_eq!(pair.get(b"k"), Status::Value { key: b"k", flags: 1, value: b"x" });
    assert_eq!(serve(&pair.table, b"short", &mut pair.reply), 0);
}

proptest! {
    #[test]
    fn any_datagram_is_answered_or_dropped(bytes in proptest::collection::vec(any::<u8>(), 0..1500)) {
        let mut pair = Pair::new();
        let len = serve(&pair.table, &bytes, &mut pair.reply);
        prop_assert!(len == 0 || parse_reply(&pair.reply[..len]).is_ok());
        prop_assert_eq!(len == 0, bytes.len() < 8);
    }
}

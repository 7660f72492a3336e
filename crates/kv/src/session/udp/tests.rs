use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::load::codec::{Format, Reply, ReplyVerdict, Request, read_datagram};
use crate::session::Server;
use crate::{KEY_BYTES_MAX, value_bytes_max};

/// A server and the buffer of its answers.
struct Peer {
    server: Server,
    answer: Vec<u8>,
}

impl Peer {
    fn new() -> Self {
        Self { server: Server::new(0, 1, 1), answer: Vec::new() }
    }

    /// The datagrams that answer a datagram.
    fn ask(&mut self, datagram: &[u8]) -> Vec<Vec<u8>> {
        let turn = Turn { server: &self.server, stats: self.server.worker(0), now_ms: 1 };
        let mut sent = Vec::new();
        serve(&turn, datagram, &mut self.answer, |bytes| sent.push(bytes.to_vec()));
        sent
    }

    /// The bodies of the datagrams that answer a request.
    fn bodies(&mut self, request: &[u8]) -> Vec<u8> {
        let sent = self.ask(&framed(7, request));
        for (sequence, datagram) in sent.iter().enumerate() {
            assert_eq!(datagram[..8], [0, 7, 0, sequence as u8, 0, sent.len() as u8, 0, 0]);
            let is_last = sequence + 1 == sent.len();
            assert!(
                datagram.len() == DATAGRAM_BYTES_MAX || is_last && (9..DATAGRAM_BYTES_MAX).contains(&datagram.len())
            );
        }
        sent.iter().flat_map(|datagram| &datagram[8..]).copied().collect()
    }
}

fn framed(id: u16, body: &[u8]) -> Vec<u8> {
    [&frame_header(id.to_be_bytes(), 0, 1), body].concat()
}

fn set(key: &[u8], flags: u32, value: &[u8]) -> Vec<u8> {
    [b"set ", key, format!(" {flags} 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

#[test]
fn a_client_gets_what_it_set() {
    let mut peer = Peer::new();
    let mut ask = |value_bytes| {
        let mut request = Vec::new();
        Request { key: b"key", value_bytes }.write_datagram(Format::Ascii, 11, &mut request).unwrap();
        let sent = peer.ask(&request);
        let (id, reply) = read_datagram(Format::Ascii, &sent[0]).unwrap();
        assert_eq!((id, sent.len()), (11, 1));
        match reply {
            Reply::Value { value, .. } => (reply.verdict(b"key", false), value.len()),
            _ => (reply.verdict(b"key", value_bytes.is_some()), 0),
        }
    };
    assert_eq!(ask(None), (ReplyVerdict::Missing, 0));
    for value_bytes in [0, 1, 8, 300, value_bytes_max(3)] {
        assert_eq!(ask(Some(value_bytes)), (ReplyVerdict::Right, 0));
        assert_eq!(ask(None), (ReplyVerdict::Right, value_bytes));
    }
}

#[test]
fn the_longest_value_of_a_workload_just_fits_a_datagram() {
    for key_bytes in [1, 30, KEY_BYTES_MAX] {
        let (mut peer, key) = (Peer::new(), vec![b'k'; key_bytes]);
        peer.bodies(&set(&key, u32::MAX, &vec![0; value_bytes_max(key_bytes)]));
        let sent = peer.ask(&framed(1, &[b"get ", &key[..], b"\r\n"].concat()));
        assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [DATAGRAM_BYTES_MAX]);
    }
}

#[test]
fn long_answers_come_in_numbered_datagrams() {
    for value_bytes in [value_bytes_max(1), value_bytes_max(1) + 20, 5000, 100_000] {
        let mut peer = Peer::new();
        let value: Vec<u8> = (0..value_bytes).map(|at| (at % 251) as u8).collect();
        assert_eq!(peer.bodies(&set(b"k", 0, &value)), b"STORED\r\n");
        let all = [format!("VALUE k 0 {value_bytes}\r\n").as_bytes(), &value, b"\r\nEND\r\n"].concat();
        assert_eq!(peer.bodies(b"get k\r\n"), all);
    }
}

#[test]
fn what_cannot_be_served_is_refused_or_dropped() {
    let mut peer = Peer::new();
    let refusal = b"SERVER_ERROR multi-packet request not supported\r\n";
    assert_eq!(peer.ask(b"\x01\x02\0\0\0\x02\0\0get k\r\n"), [[b"\x01\x02\0\0\0\x01\0\0", &refusal[..]].concat()]);
    assert!(peer.ask(&[0; 8])[0].ends_with(refusal), "a count of 0 is not 1 either");
    assert!(peer.ask(b"\0\0\0\0\0\x01\0\0get k").is_empty(), "an unfinished line");
    assert!(peer.ask(b"\0\0\0\0\0\x01\0\0set k 0 0 2\r\nx\r\n").is_empty(), "an unfinished value");
    assert!(peer.ask(b"short").is_empty(), "no id to answer to");
    assert!(peer.bodies(b"set key 1 0 1 noreply\r\nx\r\n").is_empty());
    assert_eq!(peer.bodies(b"get key\r\n"), b"VALUE key 1 1\r\nx\r\nEND\r\n");
}

#[test]
fn half_a_long_get_in_a_datagram_is_not_answered() {
    let mut peer = Peer::new();
    peer.bodies(b"set k10000 0 0 1\r\nx\r\n");
    let keys: String = (10_000..11_000).map(|key| format!(" k{key}")).collect();
    let half = format!("get{keys}");
    assert!(peer.bodies(half.as_bytes()).is_empty());
    assert_eq!(peer.bodies(format!("{half}\r\n").as_bytes()), b"VALUE k10000 0 1\r\nx\r\nEND\r\n");
}

proptest! {
    #[test]
    fn any_datagram_is_answered_or_dropped(bytes in vec(any::<u8>(), 0..1500)) {
        let mut peer = Peer::new();
        for datagram in peer.ask(&bytes) {
            prop_assert!((9..=DATAGRAM_BYTES_MAX).contains(&datagram.len()));
            prop_assert_eq!(&datagram[..2], &bytes[..2]);
        }
    }

    #[test]
    fn a_near_request_does_no_harm(verb in "(get|set|gets|gat|)", tail in "[ 0-9a-z\r\n-]{0,60}", cut in 0_usize..80) {
        let datagram = framed(9, format!("{verb} {tail}\r\n").as_bytes());
        for bytes in [&datagram[..cut.min(datagram.len())], &datagram] {
            prop_assert!(Peer::new().ask(bytes).iter().all(|answer| answer[..2] == [0, 9]));
        }
    }

    #[test]
    fn what_a_set_carries_is_what_a_get_finds(
        key in vec(0x21_u8..0x7f, 1..=KEY_BYTES_MAX),
        flags: u32,
        value in vec(any::<u8>(), 0..3000),
    ) {
        let mut peer = Peer::new();
        prop_assert_eq!(peer.bodies(&set(&key, flags, &value)), b"STORED\r\n");
        let line = format!(" {flags} {}\r\n", value.len());
        let found = [b"VALUE ", &key[..], line.as_bytes(), &value, b"\r\nEND\r\n"].concat();
        prop_assert_eq!(peer.bodies(&[b"get ", &key[..], b"\r\n"].concat()), found);
    }
}

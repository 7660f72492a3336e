//! Streams of requests, cut anywhere.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Get(Vec<u8>),
    Store(&'static str, u8, usize),
    Delete(u8),
    Meta(u8, usize),
    Refused,
}

fn op() -> impl Strategy<Value = Op> {
    let names = prop_oneof![Just("set"), Just("add"), Just("replace"), Just("append"), Just("prepend")];
    prop_oneof![
        vec(0..6_u8, 1..4).prop_map(Op::Get),
        (names, 0..6_u8, 0..300_usize).prop_map(|(name, key, len)| Op::Store(name, key, len)),
        (0..6_u8).prop_map(Op::Delete),
        (0..6_u8, 0..300_usize).prop_map(|(key, len)| Op::Meta(key, len)),
        Just(Op::Refused),
    ]
}

/// A script of ASCII requests, and what a map says must be answered.
fn script(ops: &[Op]) -> (Vec<u8>, String) {
    let (mut input, mut expected, mut map) = (Vec::new(), String::new(), HashMap::<u8, String>::new());
    for (at, op) in ops.iter().enumerate() {
        let value = |len: usize| char::from(b'a' + (at % 26) as u8).to_string().repeat(len);
        match op {
            Op::Get(keys) => {
                input.extend_from_slice(b"get");
                for key in keys {
                    input.extend_from_slice(format!(" k{key}").as_bytes());
                    if let Some(value) = map.get(key) {
                        expected += &format!("VALUE k{key} 3 {}\r\n{value}\r\n", value.len());
                    }
                }
                input.extend_from_slice(b"\r\n");
                expected += "END\r\n";
            }
            Op::Store(name, key, len) => {
                let new = value(*len);
                input.extend_from_slice(format!("{name} k{key} 3 0 {len}\r\n{new}\r\n").as_bytes());
                let old = map.get(key).cloned();
                let result = match (*name, old) {
                    ("set", _) | ("add", None) | ("replace", Some(_)) => Some(new),
                    ("append", Some(old)) => Some(old + &new),
                    ("prepend", Some(old)) => Some(new + &old),
                    _ => None,
                };
                expected += if result.is_some() { "STORED\r\n" } else { "NOT_STORED\r\n" };
                if let Some(result) = result {
                    map.insert(*key, result);
                }
            }
            Op::Delete(key) => {
                input.extend_from_slice(format!("delete k{key}\r\n").as_bytes());
                expected += if map.remove(key).is_some() { "DELETED\r\n" } else { "NOT_FOUND\r\n" };
            }
            Op::Meta(key, len) => {
                let new = value(*len);
                input.extend_from_slice(format!("ms k{key} {len} F3 k\r\n{new}\r\nmg k{key} s v\r\n").as_bytes());
                expected += &format!("HD kk{key}\r\nVA {len} s{len}\r\n{new}\r\n");
                map.insert(*key, new);
            }
            Op::Refused => {
                input.extend_from_slice(b"nonsense 1 2\r\n");
                expected += "ERROR\r\n";
            }
        }
    }
    (input, expected)
}

/// Binary answers with 0 for the numbers of versions, which depend on a hash that is drawn anew for each store.
fn without_versions(mut answers: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while at < answers.len() {
        let body = u32::from_be_bytes(answers[at + 8..at + 12].try_into().unwrap()) as usize;
        answers[at + 16..at + 24].fill(0);
        at += 24 + body;
    }
    answers
}

/// Beginnings that lead a session deep into its protocols.
const STARTS: [&[u8]; 10] = [
    b"",
    b"\x80",
    b"*3\r\n$3\r\n",
    b"set a 0 0 ",
    b"mg a ",
    b"ms a 3 ",
    b"gat 1 ",
    b"\x80\x01\0\x01\x08\0\0\0\0\0\0\x0a",
    b"SET k v EX ",
    b"get a",
];

proptest! {
    #[test]
    fn answers_are_those_of_a_map_however_the_stream_is_cut(
        ops in vec(op(), 0..40),
        pieces in vec(1..200_usize, 1..30),
    ) {
        let (input, expected) = script(&ops);
        let (answers, closed) = talk_in(&Server::new(0, 1, NOW_MS), Family::Memcached, &input, &pieces);
        prop_assert_eq!(String::from_utf8(answers).unwrap(), expected);
        prop_assert!(!closed);
    }

    #[test]
    fn binary_and_redis_streams_may_be_cut_anywhere(
        ops in vec((0..40_u8, 0..6_u8, 0..300_usize), 0..40),
        pieces in vec(1..200_usize, 1..30),
    ) {
        let binary_input: Vec<u8> = ops.iter().flat_map(|(opcode, key, len)| {
            let extras: &[u8] = match opcode {
                1..=3 | 0x11..=0x13 => &[0; 8],
                5 | 6 | 0x15 | 0x16 => &[0; 20],
                0x1c..=0x1e | 0x23 | 0x24 => &[0; 4],
                _ => &[],
            };
            let store = matches!(opcode, 1..=3 | 0x0e | 0x0f | 0x11..=0x13 | 0x19 | 0x1a);
            // Quit ends the stream, and statistics are of the server, not of the stream.
            let opcode = if matches!(opcode, 0x07 | 0x17 | 0x10) { 0x0a } else { *opcode };
            let key = if matches!(opcode, 0x08 | 0x0a | 0x0b | 0x18) { vec![] } else { vec![b'k', *key] };
            binary(opcode, extras, &key, &vec![b'v'; if store { *len } else { 0 }], 0)
        }).collect();
        let redis_input: Vec<u8> = ops.iter().flat_map(|(kind, key, len)| match kind % 4 {
            0 => format!("*2\r\n$3\r\nGET\r\n$2\r\nk{}\r\n", key % 10).into_bytes(),
            1 => format!("*3\r\n$3\r\nSET\r\n$2\r\nk{}\r\n${len}\r\n{}\r\n", key % 10, "v".repeat(*len)).into_bytes(),
            2 => format!("DEL k{key}\r\n").into_bytes(),
            _ => b"*1\r\n$4\r\nPING\r\n".to_vec(),
        }).collect();
        for (family, input) in [(Family::Memcached, binary_input), (Family::Redis, redis_input)] {
            let whole = talk_in(&Server::new(0, 1, NOW_MS), family, &input, &[usize::MAX]);
            let cut = talk_in(&Server::new(0, 1, NOW_MS), family, &input, &pieces);
            prop_assert!(!whole.1 || input.is_empty());
            if family == Family::Memcached {
                prop_assert_eq!(without_versions(whole.0), without_versions(cut.0));
            } else {
                prop_assert_eq!(whole, cut);
            }
        }
    }

    #[test]
    fn no_bytes_make_a_session_panic_or_hang(
        redis in any::<bool>(),
        start in prop::sample::select(STARTS.to_vec()),
        bytes in vec(prop_oneof![any::<u8>(), Just(b' '), Just(b'\n'), Just(b'1'), Just(b'v')], 0..400),
        pieces in vec(1..50_usize, 1..10),
    ) {
        let family = if redis { Family::Redis } else { Family::Memcached };
        let input = [start, &bytes].concat();
        let whole = talk_in(&Server::new(0, 1, NOW_MS), family, &input, &[usize::MAX]);
        let cut = talk_in(&Server::new(0, 1, NOW_MS), family, &input, &pieces);
        prop_assert_eq!(whole, cut);
    }
}

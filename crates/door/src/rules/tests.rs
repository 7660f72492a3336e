//! The table again, by other words, and a walk through all that a program can do.

use super::Verdict::{Act, Done, HandOver, Refuse, Wait};
use super::*;

const STAGES: [Stage; 6] = [
    Stage::Fresh,
    Stage::Bound { is_any: true },
    Stage::Bound { is_any: false },
    Stage::Listening,
    Stage::Connecting,
    Stage::Connected,
];

const ASKED: [AskedOfSocket; 12] = [
    AskedOfSocket::Bind(Whose::Engine),
    AskedOfSocket::Bind(Whose::Kernel),
    AskedOfSocket::Listen,
    AskedOfSocket::Accept,
    AskedOfSocket::Connect(Whose::Engine, true),
    AskedOfSocket::Connect(Whose::Engine, false),
    AskedOfSocket::Connect(Whose::Kernel, true),
    AskedOfSocket::Connect(Whose::Kernel, false),
    AskedOfSocket::Dissolve,
    AskedOfSocket::PeerName,
    AskedOfSocket::SendTo,
    AskedOfSocket::Receive,
];

/// One row for each stage, one column for each of `ASKED`.
#[test]
fn each_call_in_each_state_has_its_answer() {
    let inval = Refuse(libc::EINVAL);
    let is_connected = Refuse(libc::EISCONN);
    let already = Refuse(libc::EALREADY);
    let unreachable = Refuse(libc::ENETUNREACH);
    let not_connected = Refuse(libc::ENOTCONN);
    let cannot = Refuse(libc::EOPNOTSUPP);
    let pipe = Refuse(libc::EPIPE);
    let table = [
        [Act, HandOver, Act, inval, Act, Act, HandOver, HandOver, Done, not_connected, pipe, not_connected],
        [inval, inval, Act, inval, Act, Act, HandOver, HandOver, Done, not_connected, pipe, not_connected],
        [inval, inval, Act, inval, Act, Act, unreachable, unreachable, Done, not_connected, pipe, not_connected],
        [
            inval,
            inval,
            Act,
            Act,
            is_connected,
            is_connected,
            is_connected,
            is_connected,
            cannot,
            not_connected,
            pipe,
            not_connected,
        ],
        [inval, inval, inval, inval, Wait, already, Wait, already, cannot, not_connected, Wait, Act],
        [inval, inval, inval, inval, is_connected, is_connected, is_connected, is_connected, cannot, Act, Act, Act],
    ];
    for (stage, row) in STAGES.into_iter().zip(table) {
        for (asked, expected) in ASKED.into_iter().zip(row) {
            assert_eq!(verdict(stage, asked), expected, "{stage:?} {asked:?}");
        }
    }
}

/// Where an act leads, or several places: the network decides.
fn after(stage: Stage, asked: AskedOfSocket) -> Vec<Stage> {
    match (asked, verdict(stage, asked)) {
        (AskedOfSocket::Bind(_), Act) => vec![Stage::Bound { is_any: true }, Stage::Bound { is_any: false }, stage],
        (AskedOfSocket::Listen, Act) => vec![Stage::Listening, stage],
        (AskedOfSocket::Connect(_, true), Act) => vec![Stage::Connected, Stage::Fresh, Stage::Connecting],
        (AskedOfSocket::Connect(_, false), Act) => vec![Stage::Connecting, Stage::Fresh],
        (AskedOfSocket::SendTo, Wait) => vec![stage],
        (_, Wait) => vec![Stage::Connected, Stage::Fresh],
        (_, HandOver) => vec![],
        (_, Act | Done | Refuse(_)) => vec![stage],
    }
}

#[test]
fn no_way_leads_from_what_has_a_port_of_the_engine_to_the_kernel_and_none_back_from_a_connection() {
    // All that is reachable, with whether a port of the engine was ever chosen by the program.
    let mut seen: Vec<(Stage, bool)> = vec![(Stage::Fresh, false)];
    let mut at = 0;
    while let Some(&(stage, has_port)) = seen.get(at) {
        at += 1;
        for asked in ASKED {
            if verdict(stage, asked) == HandOver {
                assert!(!has_port || stage == Stage::Fresh, "{stage:?} {asked:?}");
            }
            assert!(asked != AskedOfSocket::Accept || (verdict(stage, asked) == Act) == (stage == Stage::Listening));
            for next in after(stage, asked) {
                let forward = !matches!((stage, next), (Stage::Connected | Stage::Listening, other) if other != stage);
                assert!(forward, "{stage:?} {asked:?} {next:?}");
                let has_port = next == Stage::Bound { is_any: false } || (has_port && next != Stage::Fresh);
                if !seen.contains(&(next, has_port)) {
                    seen.push((next, has_port));
                }
            }
        }
    }
    assert!(STAGES.into_iter().all(|stage| seen.iter().any(|(found, _)| *found == stage)), "{seen:?}");
}

//! Calls as a program might make them, with any arguments and any memory, driven by bytes, against the rules of the door; what it may write to a pair
//! of datagrams; and what a client may say to the door. System calls are not made here.

use std::net::SocketAddr;

use napier_ring::record::{HAS_OWN, HAS_TOS, HAS_TTL, HEAD_BYTES, RecordHead, RecordKind};

use crate::address::{self, ADDRESS_BYTES_MAX, WrittenAddress};
use crate::datagrams::address_of;
use crate::rules::datagrams::{self, DatagramRule};
use crate::rules::options::{KeptOptions, OptionRule, name_of, rule};
use crate::rules::reach::{Reach, Whose};
use crate::rules::{AskedOfSocket, Stage, Verdict, verdict};
use crate::view::{DoorCounts, Tally};
use crate::wire::{DoorReply, DoorRequest};

/// Calls of one script.
const CALLS_MAX: usize = 400;
const SOCKETS: usize = 4;

/// A socket as the rules see it.
struct Modelled {
    stage: Stage,
    is_v6: bool,
    options: KeptOptions,
    /// It has a port of the engine that the program chose.
    has_port: bool,
}

impl Modelled {
    fn new(is_v6: bool) -> Self {
        Self { stage: Stage::Fresh, is_v6, options: KeptOptions::default(), has_port: false }
    }
}

/// What is left of a script.
struct Script<'s>(&'s [u8]);

impl<'s> Script<'s> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// Some bytes, as many as the next one says.
    fn bytes(&mut self) -> &'s [u8] {
        let wanted = usize::from(self.byte().unwrap_or(0)) % (ADDRESS_BYTES_MAX + 8);
        let (taken, rest) = self.0.split_at(wanted.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn int(&mut self) -> i32 {
        let mut four = [0; 4];
        let low = self.byte().unwrap_or(0);
        // Small ones are the likely ones.
        if low == u8::MAX {
            four = [0; 4].map(|_: u8| self.byte().unwrap_or(0));
        } else {
            four[0] = low;
        }
        i32::from_ne_bytes(four)
    }
}

/// Plays a script.
///
/// # Panics
/// If the door does what it must not: that is the finding.
pub fn fuzz_calls(script: &[u8]) {
    said(script);
    heads(script);
    let reach = Reach {
        addresses: vec![
            ("192.0.2.10".parse().expect("an address"), 24),
            ("2001:db8::1".parse().expect("an address"), 64),
        ],
        gateways: [script.len().is_multiple_of(2), script.len().is_multiple_of(3)],
        ports: if script.len().is_multiple_of(5) { vec![0..=80, 8000..=8099] } else { Vec::new() },
        peers: if script.len().is_multiple_of(7) {
            vec![("192.0.2.0".parse().expect("a network"), 25)]
        } else {
            Vec::new()
        },
    };
    let mut sockets: Vec<Modelled> = (0..SOCKETS).map(|at| Modelled::new(at % 2 == 1)).collect();
    let (mut script, mut counts) = (Script(script), DoorCounts::default());
    for _ in 0..CALLS_MAX {
        let Some(which) = script.byte() else { break };
        let socket = &mut sockets[usize::from(which >> 4) % SOCKETS];
        match which % 11 {
            0 => *socket = Modelled::new(socket.is_v6),
            1 => bind(socket, &mut script, &reach, &mut counts),
            2 => ask(socket, AskedOfSocket::Listen, Some(Stage::Listening)),
            3 => connect(socket, &mut script, &reach, &mut counts),
            4 | 5 => set(socket, &mut script, &mut counts),
            6 => ask(socket, AskedOfSocket::Accept, None),
            7 => ask(socket, AskedOfSocket::SendTo, None),
            8 => ask(socket, AskedOfSocket::PeerName, None),
            10 => ask(socket, AskedOfSocket::Receive, None),
            // The network: a handshake is over, or has failed.
            _ if socket.stage == Stage::Connecting => {
                socket.stage = if which & 16 == 0 { Stage::Connected } else { Stage::Fresh };
                socket.has_port &= socket.stage == Stage::Connected;
            }
            _ => {}
        }
    }
    assert!(counts.refused.iter().count() <= Tally::NAMES_MAX + 1, "names that a program makes");
    assert_eq!(counts.refused.sum(), counts.options_refused);
    assert_eq!(counts.left.sum(), counts.left_to_kernel);
}

/// What a client or a door may say is read or refused.
fn said(bytes: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<DoorRequest>(bytes) {
        let again = serde_json::to_vec(&request).expect("it is JSON");
        assert!(serde_json::from_slice::<DoorRequest>(&again).is_ok());
    }
    let _ = serde_json::from_slice::<DoorReply>(bytes);
}

/// What a program writes to the pair of a socket for datagrams is a head, each byte of which means something, or none.
fn heads(bytes: &[u8]) {
    let mut whole = RecordHead::new(RecordKind::Datagram).to_bytes();
    // Most of it is right, so that what follows is reached.
    whole.iter_mut().skip(4).zip(bytes).for_each(|(to, from)| *to = *from);
    for message in [bytes, &whole] {
        let Some(head) = RecordHead::from_bytes(message) else { continue };
        assert_eq!(head.to_bytes(), message[..HEAD_BYTES]);
        for is_v6 in [false, true] {
            let address = address_of(&head.peer, is_v6);
            assert!(address.is_none_or(|address| address.port() == head.peer.port && address.is_ipv6() == is_v6));
            assert_eq!(address.is_none(), head.peer.is_v6 && !is_v6);
        }
    }
}

/// A call after which the socket is as before, or in that stage.
fn ask(socket: &mut Modelled, asked: AskedOfSocket, then: Option<Stage>) {
    let answer = verdict(socket.stage, asked);
    if asked == AskedOfSocket::Accept {
        assert_eq!(answer == Verdict::Act, socket.stage == Stage::Listening);
    }
    assert_ne!(answer, Verdict::HandOver, "{asked:?} names no address");
    if answer == Verdict::Act {
        socket.stage = then.unwrap_or(socket.stage);
    }
}

/// An address as a program wrote it; what is read means the same when it is shown and read again.
fn address(script: &mut Script<'_>, is_v6: bool) -> Option<WrittenAddress> {
    let bytes = script.bytes();
    let len = bytes.len().min(ADDRESS_BYTES_MAX);
    let written = address::read(&bytes[..len], is_v6).ok()?;
    if let WrittenAddress::Address(address) = written {
        let (shown, len) = address::write(address, is_v6);
        let again = address::read(&shown[..len], is_v6);
        assert!(matches!(again, Ok(WrittenAddress::Address(found)) if same(found, address)), "{again:?} {address}");
        assert_eq!(address.is_ipv6(), is_v6);
    }
    Some(written)
}

/// Whether two are one but for the flow, which is not kept.
fn same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip(), one.port()) == (other.ip(), other.port())
}

fn bind(socket: &mut Modelled, script: &mut Script<'_>, reach: &Reach, counts: &mut DoorCounts) {
    let Some(WrittenAddress::Address(address)) = address(script, socket.is_v6) else { return };
    match verdict(socket.stage, AskedOfSocket::Bind(reach.of_own(address))) {
        Verdict::Act => {
            let is_any = address.ip().is_unspecified() && address.port() == 0;
            socket.stage = Stage::Bound { is_any };
            socket.has_port = !is_any;
        }
        Verdict::HandOver => hand_over(socket, reach.why_left_own(address.ip()), counts),
        Verdict::Done | Verdict::Wait => panic!("an address is taken or refused"),
        Verdict::Refuse(error) => assert!(error > 0 && socket.stage != Stage::Fresh),
    }
}

fn connect(socket: &mut Modelled, script: &mut Script<'_>, reach: &Reach, counts: &mut DoorCounts) {
    let blocks = script.byte().unwrap_or(0).is_multiple_of(2);
    let peer = match address(script, socket.is_v6) {
        Some(WrittenAddress::Address(peer)) => peer,
        Some(WrittenAddress::Unspecified) => return ask(socket, AskedOfSocket::Dissolve, None),
        None => return,
    };
    let whose = reach.of_peer(peer.ip());
    assert!(whose == Whose::Kernel || !peer.ip().is_loopback(), "loopback is the kernel's");
    match verdict(socket.stage, AskedOfSocket::Connect(whose, blocks)) {
        Verdict::Act => {
            assert_eq!(whose, Whose::Engine);
            socket.stage = Stage::Connecting;
        }
        Verdict::HandOver => {
            assert_eq!(whose, Whose::Kernel);
            hand_over(socket, reach.why_left_peer(peer.ip()), counts);
        }
        Verdict::Wait => assert!(blocks && socket.stage == Stage::Connecting),
        Verdict::Done => panic!("nothing is connected already"),
        Verdict::Refuse(error) => assert!(error > 0),
    }
}

/// The kernel has it from now on: here it is another one.
fn hand_over(socket: &mut Modelled, why: &'static str, counts: &mut DoorCounts) {
    assert!(!socket.has_port, "it has a port of the engine");
    counts.left_to_kernel(why);
    *socket = Modelled::new(socket.is_v6);
}

fn set(socket: &mut Modelled, script: &mut Script<'_>, counts: &mut DoorCounts) {
    let (level, name, value) = (script.int(), script.int(), script.bytes());
    match datagrams::rule(level, name) {
        DatagramRule::Refuse(error) => assert!(error > 0),
        DatagramRule::Told => _ = datagrams::told(level, name, socket.is_v6, &socket.options),
        DatagramRule::OfPair | DatagramRule::Engine | DatagramRule::Kept | DatagramRule::Kernel => {}
    }
    assert_eq!(socket.options.tells() & !(HAS_OWN | HAS_TOS | HAS_TTL), 0);
    match rule(level, name) {
        OptionRule::Refuse(error) => {
            assert!(error > 0);
            counts.refused(name_of(level, name));
        }
        OptionRule::Told | OptionRule::Kernel => {}
        OptionRule::OfPair | OptionRule::Engine | OptionRule::Kept => {
            let before = socket.options.all().len();
            let value = &value[..value.len().min(KeptOptions::VALUE_BYTES_MAX)];
            match socket.options.note(level, name, value) {
                Ok(()) => {
                    let kept = socket.options.all().iter().find(|set| (set.level, set.name) == (level, name));
                    assert_eq!(kept.expect("it is kept").value(), value);
                }
                Err(error) => assert!(error > 0 && socket.options.all().len() == before),
            }
        }
    }
    // Times that the connection is given.
    if let Some((idle, interval, probes)) = socket.options.keepalive() {
        assert!((1..=32_767).contains(&idle.as_secs()) && (1..=32_767).contains(&interval.as_secs()));
        assert!((1..=127).contains(&probes));
    }
    let _ = (socket.options.user_timeout(), socket.options.linger(), socket.options.resets_on_close());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
        #[test]
        fn no_calls_and_no_arguments_make_the_rules_do_what_they_must_not(script in prop::collection::vec(any::<u8>(), 0..600)) {
            fuzz_calls(&script);
        }
    }

    #[test]
    fn the_model_reaches_a_connection_and_a_socket_of_the_kernel() {
        let address = |port: u16, ip: [u8; 4]| {
            let family = (libc::AF_INET as u16).to_ne_bytes();
            [&[16_u8], &family[..], &port.to_be_bytes(), &ip, &[0; 8]].concat()
        };
        // Connected without blocking, and named; then another one to loopback.
        let script =
            [&[3, 1][..], &address(80, [192, 0, 2, 1]), &[9, 8, 0, 3, 1], &address(80, [127, 0, 0, 1])].concat();
        fuzz_calls(&script);
        let mut socket = Modelled::new(false);
        let reach = Reach {
            addresses: vec![("192.0.2.10".parse().expect("an address"), 24)],
            gateways: [false; 2],
            ..Reach::default()
        };
        let (mut counts, there) = (DoorCounts::default(), [&[1][..], &address(80, [192, 0, 2, 1])].concat());
        connect(&mut socket, &mut Script(&there), &reach, &mut counts);
        assert_eq!((socket.stage, counts.left_to_kernel), (Stage::Connecting, 0));
        let mut socket = Modelled::new(false);
        let here = [&[1][..], &address(80, [127, 0, 0, 1])].concat();
        connect(&mut socket, &mut Script(&here), &reach, &mut counts);
        assert_eq!((socket.stage, counts.left_to_kernel), (Stage::Fresh, 1));
    }
}

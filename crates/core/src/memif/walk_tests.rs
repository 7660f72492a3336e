//! Every order of messages up to a length, against both machines; and the two machines against each other.

extern crate std;

use alloc::vec;
use alloc::vec::Vec;

use super::*;

const LIMITS: ServerLimits = ServerLimits { regions: 2, bytes: 8192, log2_ring_size: 4 };

fn name() -> Name {
    Name::new("walk")
}

fn interface(rings: u16) -> Interface {
    Interface { id: 0, name: name(), secret: None, busy: false, rings }
}

/// One message of each kind, and the rings that can matter.
fn alphabet() -> Vec<Message> {
    let init = Init { version: VERSION, id: 0, mode: 0, secret: [0; SECRET_BYTES], name: name() };
    let hello = Hello {
        name: name(),
        version_min: VERSION,
        version_max: VERSION,
        region_max: 0,
        s2c_ring_max: 0,
        c2s_ring_max: 0,
        log2_ring_size_max: 4,
    };
    let ring = |c2s, index, region| {
        Message::AddRing(AddRing { c2s, index, region, offset: 0, log2_ring_size: 1, private_header_bytes: 0 })
    };
    vec![
        Message::Ack,
        Message::Hello(hello),
        Message::Init(init),
        Message::AddRegion(AddRegion { index: 0, bytes: 4096 }),
        Message::AddRegion(AddRegion { index: 1, bytes: 4096 }),
        ring(true, 0, 0),
        ring(true, 1, 1),
        ring(false, 0, 0),
        Message::Connect(name()),
        Message::Connected(name()),
        Message::Disconnect { code: 0, reason: Reason::new("") },
    ]
}

/// What the server has admitted so far, counted beside it.
#[derive(Copy, Clone, Default)]
struct Seen {
    admitted: bool,
    regions: usize,
    c2s: usize,
    s2c: usize,
}

fn walk_server(server: &ServerHandshake, seen: Seen, depth: u32, connected: &mut u64) {
    if depth == 0 {
        return;
    }
    for message in alphabet() {
        for descriptor in [false, true] {
            let (mut server, mut seen) = (server.clone(), seen);
            match server.on_message(&message, descriptor, &[interface(2)]) {
                ServerDecision::Admit { interface, .. } => {
                    assert!(!seen.admitted && interface == 0);
                    seen.admitted = true;
                }
                ServerDecision::Take { taken, .. } => {
                    assert!(seen.admitted && descriptor, "a descriptor was asked for that did not come");
                    match taken {
                        Taken::Region(_) => seen.regions += 1,
                        Taken::Ring(ring) => {
                            assert!(usize::from(ring.region) < seen.regions);
                            *(if ring.c2s { &mut seen.c2s } else { &mut seen.s2c }) += 1;
                        }
                    }
                }
                ServerDecision::Map => {
                    assert!(seen.admitted && seen.regions > 0 && seen.c2s > 0 && seen.s2c > 0);
                    let _ = server.mapped(name());
                    assert!(server.is_connected());
                    *connected += 1;
                }
                ServerDecision::Refuse(_) | ServerDecision::Ended(_) => {
                    assert!(!server.is_connected());
                    continue;
                }
            }
            assert_eq!(server.regions().len(), seen.regions);
            assert_eq!((server.rings(true).len(), server.rings(false).len()), (seen.c2s, seen.s2c));
            walk_server(&server, seen, depth - 1, connected);
        }
    }
}

#[test]
fn a_server_survives_every_order_of_messages() {
    let (server, _) = ServerHandshake::new(name(), LIMITS, &[interface(2)]);
    let mut connected = 0;
    walk_server(&server, Seen::default(), 8, &mut connected);
    assert!(connected > 10, "the walk reached no connection");
}

fn walk_client(client: &ClientHandshake, acks: u32, depth: u32, connected: &mut u64) {
    if depth == 0 {
        return;
    }
    for message in alphabet() {
        let mut client = client.clone();
        match client.on_message(&message) {
            ClientDecision::Send { .. } => walk_client(&client, acks + 1, depth - 1, connected),
            ClientDecision::Connected(_) => {
                // HELLO, then ACKs of INIT, one region, one ring each way.
                assert_eq!(acks, 5);
                *connected += 1;
                walk_client(&client, acks, depth - 1, connected);
            }
            ClientDecision::Refuse(_) | ClientDecision::Ended(_) => assert!(!client.is_connected()),
        }
    }
}

#[test]
fn a_client_survives_every_order_of_messages() {
    let layout = RegionLayout::new(1, 1, 4, 64).expect("layout");
    let client = ClientHandshake::new(ClientConfig { name: name(), id: 0, secret: None, layout });
    let mut connected = 0;
    walk_client(&client, 0, 8, &mut connected);
    assert_eq!(connected, 1, "one order alone connects");
}

/// A client and a server of any shape agree, and the server has been told the client's layout.
#[test]
fn the_two_machines_agree() {
    for (c2s, s2c, log2, rings, server_log2) in
        [(1, 1, 4, 1, 14), (3, 2, 6, 4, 14), (4, 4, 10, 2, 8), (1, 5, 2, 3, 1), (256, 256, 1, 256, 14)]
    {
        let limits = ServerLimits { regions: 1, bytes: 1 << 32, log2_ring_size: server_log2 };
        let interfaces = [interface(rings)];
        let (mut server, mut message) = ServerHandshake::new(name(), limits, &interfaces);
        let layout = RegionLayout::new(c2s, s2c, log2, 64).expect("layout");
        let mut client = ClientHandshake::new(ClientConfig { name: name(), id: 0, secret: None, layout });
        while let ClientDecision::Send { message: from_client, descriptor } = client.on_message(&message) {
            // As it would come over the wire.
            let from_client = Message::decode(&from_client.encode()).expect("a message");
            message = match server.on_message(&from_client, descriptor.is_some(), &interfaces) {
                ServerDecision::Admit { reply, .. } | ServerDecision::Take { reply, .. } => reply,
                ServerDecision::Map => server.mapped(name()),
                other => panic!("{from_client:?}: {other:?}"),
            };
        }
        assert!(client.is_connected() && server.is_connected());
        let layout = client.layout();
        assert_eq!(server.regions(), [layout.len()]);
        assert_eq!((layout.c2s_rings(), layout.s2c_rings()), (c2s.min(rings), s2c.min(rings)));
        assert_eq!(layout.log2_ring_size(), log2.min(server_log2));
        for direction in [true, false] {
            for ring in server.rings(direction) {
                assert_eq!(ring.offset, layout.ring(direction, ring.index));
            }
        }
    }
}

/// The fuzzer's corpus.
#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn the_corpus_of_hostile_messages() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/control");
    let mut played = 0;
    for entry in std::fs::read_dir(corpus).expect("fuzz/corpus/control is in the tree") {
        fuzz::fuzz_control(&std::fs::read(entry.expect("an entry").path()).expect("a script"));
        played += 1;
    }
    assert!(played > 0, "the corpus is empty");
}

//! The client's table, row by row.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;

fn client(c2s: u16, s2c: u16, log2: u8) -> ClientHandshake {
    ClientHandshake::new(ClientConfig {
        name: Name::new("client"),
        id: 7,
        secret: Secret::new(b"open sesame"),
        layout: RegionLayout::new(c2s, s2c, log2, 2048).expect("layout"),
    })
}

fn hello() -> Hello {
    Hello {
        name: Name::new("server"),
        version_min: VERSION,
        version_max: VERSION,
        region_max: 255,
        s2c_ring_max: 255,
        c2s_ring_max: 255,
        log2_ring_size_max: 14,
    }
}

fn sent(decision: ClientDecision) -> (Message, Option<Descriptor>) {
    match decision {
        ClientDecision::Send { message, descriptor } => (message, descriptor),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_announces_everything_in_order() {
    let mut client = client(2, 1, 10);
    let (init, none) = sent(client.on_message(&Message::Hello(hello())));
    let Message::Init(init) = init else { panic!("{init:?}") };
    assert_eq!((init.version, init.id, init.mode, none), (VERSION, 7, 0, None));
    assert!(Secret::new(b"open sesame").is_some_and(|secret| secret.matches(&init.secret)));
    let (region, file) = sent(client.on_message(&Message::Ack));
    assert_eq!(region, Message::AddRegion(AddRegion { index: 0, bytes: client.layout().len() }));
    assert_eq!(file, Some(Descriptor::Region));
    let rings: Vec<_> = [(true, 0), (true, 1), (false, 0)]
        .map(|(c2s, index)| {
            let (ring, eventfd) = sent(client.on_message(&Message::Ack));
            assert_eq!(eventfd, Some(Descriptor::Ring { c2s, index }));
            let Message::AddRing(ring) = ring else { panic!("{ring:?}") };
            assert_eq!((ring.c2s, ring.index, ring.region, ring.private_header_bytes), (c2s, index, 0, 0));
            (ring.offset, ring.log2_ring_size)
        })
        .into();
    assert_eq!(rings, [(0, 10), (16512, 10), (2 * 16512, 10)]);
    assert_eq!(sent(client.on_message(&Message::Ack)), (Message::Connect(Name::new("client")), None));
    assert!(!client.is_connected());
    let name = Name::new("port");
    assert_eq!(client.on_message(&Message::Connected(name)), ClientDecision::Connected(name));
    assert!(client.is_connected());
    assert_eq!(client.peer().to_string(), "server");
}

#[test]
fn the_servers_limits_cut_rings_and_sizes() {
    for (c2s_max, s2c_max, log2_max, rings) in
        [(0, 255, 14, (1, 4, 10)), (255, 1, 8, (4, 2, 8)), (u16::MAX, 3, 255, (4, 4, 10))]
    {
        let mut client = client(4, 4, 10);
        let hello = Hello { c2s_ring_max: c2s_max, s2c_ring_max: s2c_max, log2_ring_size_max: log2_max, ..hello() };
        let _ = sent(client.on_message(&Message::Hello(hello)));
        let layout = client.layout();
        assert_eq!((layout.c2s_rings(), layout.s2c_rings(), layout.log2_ring_size()), rings);
    }
}

#[test]
fn what_a_server_may_not_say_is_refused() {
    use Fault as F;
    let name = Name::new("port");
    let hello_with = |change: &dyn Fn(&mut Hello)| {
        let mut hello = hello();
        change(&mut hello);
        Message::Hello(hello)
    };
    let good = [Message::Hello(hello()), Message::Ack, Message::Ack, Message::Ack, Message::Ack];
    let cases = [
        (0, Message::Ack, F::Unexpected { got: "ACK", wanted: "HELLO" }),
        (0, Message::Connected(name), F::Unexpected { got: "CONNECTED", wanted: "HELLO" }),
        (0, hello_with(&|hello| hello.version_min = 0x0201), F::Version { min: 0x0201, max: VERSION }),
        (0, hello_with(&|hello| hello.version_max = 0x0100), F::Version { min: VERSION, max: 0x0100 }),
        (0, hello_with(&|hello| hello.log2_ring_size_max = 0), F::Limits),
        (1, Message::Hello(hello()), F::Unexpected { got: "HELLO", wanted: "ACK" }),
        (1, Message::Connected(name), F::Unexpected { got: "CONNECTED", wanted: "ACK" }),
        (2, Message::Connected(name), F::Unexpected { got: "CONNECTED", wanted: "ACK" }),
        (3, Message::Connect(name), F::Unexpected { got: "CONNECT", wanted: "ACK" }),
        (4, Message::Hello(hello()), F::Unexpected { got: "HELLO", wanted: "ACK" }),
        (5, Message::Ack, F::Unexpected { got: "ACK", wanted: "CONNECTED" }),
    ];
    for (good_messages, lie, fault) in cases {
        let mut client = client(1, 1, 10);
        for message in &good[..good_messages] {
            let _ = sent(client.on_message(message));
        }
        assert_eq!(client.on_message(&lie), ClientDecision::Refuse(fault), "{lie:?}");
    }
}

#[test]
fn a_server_may_end_it_at_any_time() {
    let good = [Message::Hello(hello()), Message::Ack, Message::Ack, Message::Ack, Message::Ack];
    for good_messages in 0..=good.len() {
        let mut client = client(1, 1, 10);
        for message in &good[..good_messages] {
            let _ = sent(client.on_message(message));
        }
        let reason = Reason::new("enough");
        assert_eq!(client.on_message(&Message::Disconnect { code: 1, reason }), ClientDecision::Ended(reason));
    }
}

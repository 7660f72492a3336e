//! The server's table, row by row, and a lie in every field.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::*;

const LIMITS: ServerLimits = ServerLimits { regions: 2, bytes: 1 << 20, log2_ring_size: 10 };

fn interfaces() -> Vec<Interface> {
    let interface = |id, secret, busy| Interface { id, name: Name::new("port"), secret, busy, rings: 2 };
    vec![
        interface(1, None, false),
        interface(2, Secret::new(b"open sesame"), false),
        interface(3, None, true),
        interface(4, Secret::new(b"open sesame"), true),
    ]
}

fn init() -> Init {
    Init { version: VERSION, id: 1, mode: 0, secret: [0; SECRET_BYTES], name: Name::new("client") }
}

fn ring(c2s: bool, index: u16) -> AddRing {
    let offset = 640 * (u32::from(c2s) * 2 + u32::from(index));
    AddRing { c2s, index, region: 0, offset, log2_ring_size: 5, private_header_bytes: 0 }
}

/// The server after these messages, each with a descriptor and each of them good.
fn after(messages: &[Message]) -> ServerHandshake {
    let interfaces = interfaces();
    let (mut server, _) = ServerHandshake::new(Name::new("server"), LIMITS, &interfaces);
    for message in messages {
        let decision = server.on_message(message, true, &interfaces);
        assert!(!matches!(decision, ServerDecision::Refuse(_) | ServerDecision::Ended(_)), "{message:?}: {decision:?}");
    }
    server
}

fn region(index: u16, bytes: u64) -> Message {
    Message::AddRegion(AddRegion { index, bytes })
}

#[test]
fn a_good_client_is_connected() {
    let mut server = after(&[
        Message::Init(init()),
        region(0, 4096),
        Message::AddRing(ring(true, 0)),
        Message::AddRing(ring(false, 0)),
        region(1, 65536),
        Message::AddRing(ring(true, 1)),
        Message::Connect(Name::new("client")),
    ]);
    assert!(!server.is_connected());
    assert_eq!(server.mapped(Name::new("port")), Message::Connected(Name::new("port")));
    assert!(server.is_connected());
    assert_eq!((server.regions(), server.rings(true).len(), server.rings(false).len()), (&[4096, 65536][..], 2, 1));
    assert_eq!(server.peer().to_string(), "client");
    let reason = Reason::new("enough");
    let decision = server.on_message(&Message::Disconnect { code: 0, reason }, false, &[]);
    assert_eq!(decision, ServerDecision::Ended(reason));
}

#[test]
fn hello_says_the_limits_as_highest_numbers() {
    let (_, hello) = ServerHandshake::new(Name::new("server"), LIMITS, &interfaces());
    let Message::Hello(hello) = hello else { panic!("{hello:?}") };
    assert_eq!((hello.version_min, hello.version_max, hello.region_max), (VERSION, VERSION, 1));
    assert_eq!((hello.c2s_ring_max, hello.s2c_ring_max, hello.log2_ring_size_max), (1, 1, 10));
}

#[test]
fn a_lie_in_any_field_is_refused() {
    use Fault as F;
    let start = [Message::Init(init())];
    let with_region = [Message::Init(init()), region(0, 4096)];
    let with_rings = [&with_region[..], &[Message::AddRing(ring(true, 0)), Message::AddRing(ring(true, 1))]].concat();
    let lie = |change: &dyn Fn(&mut AddRing)| {
        let mut ring = ring(true, 0);
        change(&mut ring);
        Message::AddRing(ring)
    };
    let cases: &[(&[Message], Message, bool, Fault)] = &[
        (&[], Message::Init(Init { version: 0x0100, ..init() }), false, F::Version { min: 0x0100, max: 0x0100 }),
        (&[], Message::Init(Init { version: 0x0201, ..init() }), false, F::Version { min: 0x0201, max: 0x0201 }),
        (&[], Message::Init(Init { mode: 1, ..init() }), false, F::Mode { mode: 1 }),
        (&[], Message::Init(Init { id: 9, ..init() }), false, F::NoSuchInterface { id: 9 }),
        (&[], Message::Init(Init { id: 2, ..init() }), false, F::SecretRequired),
        (&[], Message::Init(Init { id: 2, secret: [1; SECRET_BYTES], ..init() }), false, F::SecretWrong),
        (&[], Message::Init(Init { id: 3, ..init() }), false, F::InterfaceBusy { id: 3 }),
        (&[], Message::Init(Init { id: 4, ..init() }), false, F::SecretRequired),
        (&[], region(0, 4096), true, F::Unexpected { got: "ADD_REGION", wanted: "INIT" }),
        (&[], Message::Connect(Name::new("")), false, F::Unexpected { got: "CONNECT", wanted: "INIT" }),
        (&start, region(0, 4096), false, F::NoDescriptor { message: "ADD_REGION" }),
        (&start, region(1, 4096), true, F::RegionIndex { index: 1, wanted: 0 }),
        (&start, region(0, 0), true, F::RegionBytes { bytes: 0 }),
        (&start, region(0, (1 << 20) + 1), true, F::RegionBytes { bytes: (1 << 20) + 1 }),
        (&start, region(0, u64::MAX), true, F::RegionBytes { bytes: u64::MAX }),
        (&with_region, region(1, u64::MAX), true, F::RegionBytes { bytes: u64::MAX }),
        (&with_region, region(1, (1 << 20) - 4095), true, F::RegionBytes { bytes: (1 << 20) - 4095 }),
        (&with_region, region(0, 4096), true, F::RegionIndex { index: 0, wanted: 1 }),
        (&[&with_region[..], &[region(1, 64)]].concat(), region(2, 64), true, F::TooManyRegions { max: 2 }),
        (&start, lie(&|_| ()), true, F::RingRegion { region: 0 }),
        (&with_region, lie(&|_| ()), false, F::NoDescriptor { message: "ADD_RING" }),
        (&with_region, lie(&|ring| ring.index = 1), true, F::RingIndex { index: 1, wanted: 0 }),
        (&with_rings, lie(&|ring| ring.index = 2), true, F::TooManyRings { max: 2 }),
        (&with_region, lie(&|ring| ring.region = 1), true, F::RingRegion { region: 1 }),
        (&with_region, lie(&|ring| ring.region = u16::MAX), true, F::RingRegion { region: u16::MAX }),
        (&with_region, lie(&|ring| ring.offset = 32), true, F::RingUnaligned { offset: 32 }),
        (&with_region, lie(&|ring| ring.offset = 4096 - 576), true, F::RingOutside { offset: 4096 - 576 }),
        (&with_region, lie(&|ring| ring.offset = u32::MAX - 63), true, F::RingOutside { offset: u32::MAX - 63 }),
        (&with_region, lie(&|ring| ring.log2_ring_size = 0), true, F::RingSize { log2: 0 }),
        (&with_region, lie(&|ring| ring.log2_ring_size = 11), true, F::RingSize { log2: 11 }),
        (&with_region, lie(&|ring| ring.log2_ring_size = 255), true, F::RingSize { log2: 255 }),
        (&with_region, lie(&|ring| ring.private_header_bytes = 1), true, F::PrivateHeader { bytes: 1 }),
        (&start, Message::Connect(Name::new("")), false, F::NoRings),
        (&with_rings, Message::Connect(Name::new("")), false, F::NoRings),
        (&start, Message::Init(init()), false, F::Unexpected { got: "INIT", wanted: COLLECTING }),
        (&start, Message::Ack, false, F::Unexpected { got: "ACK", wanted: COLLECTING }),
    ];
    for (good, lie, descriptor, fault) in cases {
        let mut server = after(good);
        assert_eq!(server.on_message(lie, *descriptor, &interfaces()), ServerDecision::Refuse(*fault), "{lie:?}");
        assert!(!server.is_connected());
    }
}

const COLLECTING: &str = "ADD_REGION, ADD_RING or CONNECT";

/// A ring that fills its region to the last byte is good; the descriptor that comes with the wrong message is not asked for.
#[test]
fn limits_are_exact() {
    let mut server = after(&[Message::Init(init()), region(0, 4096)]);
    let last = AddRing { offset: 4096 - 640, ..ring(true, 0) };
    assert!(matches!(server.on_message(&Message::AddRing(last), true, &[]), ServerDecision::Take { .. }));
    let mut server = after(&[Message::Init(init())]);
    assert!(matches!(server.on_message(&region(0, 1 << 20), true, &[]), ServerDecision::Take { .. }));
    let mut server = after(&[]);
    let known = Init { id: 2, secret: *Secret::new(b"open sesame").expect("short").bytes(), ..init() };
    let decision = server.on_message(&Message::Init(known), true, &interfaces());
    assert_eq!(decision, ServerDecision::Admit { interface: 1, reply: Message::Ack });
}

#[test]
fn a_disconnect_carries_every_reason_whole() {
    use Fault as F;
    let (u16_max, u32_max) = (u16::MAX, u32::MAX);
    let longest = [
        F::Length { bytes: usize::MAX },
        F::Type { kind: u16_max },
        F::Unexpected { got: "DISCONNECT", wanted: COLLECTING },
        F::Version { min: u16_max, max: u16_max },
        F::NoSuchInterface { id: u32_max },
        F::InterfaceBusy { id: u32_max },
        F::Mode { mode: 255 },
        F::NoDescriptor { message: "ADD_REGION" },
        F::RegionIndex { index: u16_max, wanted: u16_max },
        F::RegionBytes { bytes: u64::MAX },
        F::RingIndex { index: u16_max, wanted: u16_max },
        F::RingRegion { region: u16_max },
        F::RingUnaligned { offset: u32_max },
        F::RingOutside { offset: u32_max },
        F::PrivateHeader { bytes: u16_max },
        F::Limits,
    ];
    for fault in longest {
        let Message::Disconnect { reason, .. } = fault.disconnect() else { panic!("no DISCONNECT") };
        assert_eq!(reason.to_string(), fault.to_string());
    }
}

#[test]
fn a_region_has_no_byte_that_a_descriptor_cannot_say() {
    let limits = ServerLimits { bytes: 1 << 40, ..LIMITS };
    let answer = |bytes: u64| {
        let (mut server, _) = ServerHandshake::new(Name::new("server"), limits, &interfaces());
        let admitted = server.on_message(&Message::Init(init()), true, &interfaces());
        assert!(matches!(admitted, ServerDecision::Admit { .. }));
        server.on_message(&region(0, bytes), true, &[])
    };
    assert!(matches!(answer(1 << 32), ServerDecision::Take { .. }));
    for bytes in [(1 << 32) + 1, 1 << 33] {
        assert_eq!(answer(bytes), ServerDecision::Refuse(Fault::RegionBytes { bytes }));
    }
}

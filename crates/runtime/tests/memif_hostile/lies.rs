//! Lies in messages and in memory, one by one.

use std::os::fd::AsFd;

use napier_core::memif::{AddRegion, AddRing, Hello, Message, Name, Reason, VERSION};
use napier_runtime::device::MemifRole;
use napier_runtime::engine::{DeviceStats, Engine};
use napier_runtime::raw::RawPort;
use rustix::fs::SealFlags;
use rustix::net::SocketFlags;

use crate::common::{PATIENCE, eventually};
use crate::raw::{Client, Raw, config, device, eventfd, init, memfd, new_socket, serves_an_honest_client, socket};

#[test]
fn a_server_refuses_lies_of_the_handshake() {
    let name = socket("handshake");
    let engine = Engine::builder().start().unwrap();
    let device = device(&engine, config(MemifRole::Server, &name));
    let after_init = || {
        let raw = Raw::connect(&name);
        assert!(matches!(raw.receive(), Some(Message::Hello(_))));
        assert_eq!(raw.reply(&Message::Init(init()), None), Some(Message::Ack));
        raw
    };
    // Sizes and types that no message has.
    for bytes in [&[1; 127][..], &[3; 129], &[3], &[0; 128], &[9; 128], &[0xff; 128]] {
        let raw = Raw::connect(&name);
        assert!(matches!(raw.receive(), Some(Message::Hello(_))));
        raw.send_bytes(bytes, &[]);
        assert!(raw.is_refused().starts_with("a message of "));
    }
    let region = |bytes| Message::AddRegion(AddRegion { index: 0, bytes });
    // Files that are not what they are said to be show when they are mapped.
    let (ring_bytes, sealed) = (8192, SealFlags::SHRINK);
    let files = [
        (
            memfd(ring_bytes, SealFlags::empty()),
            "region 0 is a file that is not sealed against shrinking (F_SEAL_SHRINK)",
        ),
        (memfd(ring_bytes - 1, sealed), "region 0 is a file of 8191 bytes for a region of 8192 bytes"),
        (memfd(ring_bytes, sealed | SealFlags::WRITE), "region 0 is a file that cannot be mapped"),
        (eventfd(), "region 0 is a file of 0 bytes for a region of 8192 bytes"),
        (memfd(ring_bytes, sealed), "no memif cookie"),
    ];
    for (file, why) in files {
        let raw = after_init();
        assert_eq!(raw.reply(&region(ring_bytes), Some(&file)), Some(Message::Ack));
        for c2s in [true, false] {
            let offset = if c2s { 0 } else { 4096 };
            let ring = AddRing { c2s, index: 0, region: 0, offset, log2_ring_size: 6, private_header_bytes: 0 };
            assert_eq!(raw.reply(&Message::AddRing(ring), Some(&eventfd())), Some(Message::Ack));
        }
        raw.send(&Message::Connect(Name::new("hostile")), None);
        let said = raw.is_refused();
        assert!(said.starts_with(why), "{said}");
    }
    // A ring's descriptor that is no eventfd, and one that is not there.
    for (descriptor, why) in
        [(Some(memfd(1, sealed)), "the descriptor of a ring is no eventfd"), (None, "ADD_RING without a")]
    {
        let raw = after_init();
        assert_eq!(raw.reply(&region(ring_bytes), Some(&memfd(ring_bytes, sealed))), Some(Message::Ack));
        let ring = AddRing { c2s: true, index: 0, region: 0, offset: 0, log2_ring_size: 6, private_header_bytes: 0 };
        raw.send(&Message::AddRing(ring), descriptor.as_ref());
        assert!(raw.is_refused().starts_with(why));
    }
    // Many descriptors at once are closed, all but one.
    let raw = after_init();
    let many: Vec<_> = (0..8).map(|_| memfd(ring_bytes, sealed)).collect();
    raw.send_bytes(&region(ring_bytes).encode(), &many.iter().map(AsFd::as_fd).collect::<Vec<_>>());
    assert_eq!(raw.receive(), Some(Message::Ack));
    drop(raw);
    // Two rings in one place.
    let raw = after_init();
    assert_eq!(raw.reply(&region(ring_bytes), Some(&memfd(ring_bytes, sealed))), Some(Message::Ack));
    for c2s in [true, false] {
        let ring = AddRing { c2s, index: 0, region: 0, offset: 64, log2_ring_size: 6, private_header_bytes: 0 };
        assert_eq!(raw.reply(&Message::AddRing(ring), Some(&eventfd())), Some(Message::Ack));
    }
    raw.send(&Message::Connect(Name::new("hostile")), None);
    assert!(!raw.is_refused().is_empty());
    assert!(!device.link_state().carrier);
    serves_an_honest_client(&device, &name);
}

#[test]
fn a_server_survives_what_a_client_writes_into_memory() {
    let name = socket("memory");
    let engine = Engine::builder().start().unwrap();
    let device = device(&engine, config(MemifRole::Server, &name));
    let lies: [(u16, u16, u32, u32); 8] = [
        (0, 0, 0, 8192),
        (0, 0, 64, 0),
        (0, 0, u32::MAX, 8192),
        (0, 0, 64, u32::MAX),
        (0, 7, 64, 8192),
        (0, u16::MAX, u32::MAX, u32::MAX),
        (0, 0, 2049, 8192),
        (1, 0, 64, 8192), // goes on in a slot that is not there
    ];
    for (position, lie) in (0_u64..).zip(lies) {
        let mut client = Client::connected(&name);
        eventually("carrier", || device.link_state().carrier);
        let (port, before) = (RawPort::bind(&device, 0).unwrap(), device.stats());
        client.descriptor(true, 0, lie);
        client.head(true, 1);
        rustix::io::write(&client.eventfds[0], &1_u64.to_ne_bytes()).unwrap();
        // A packet that is only too long has a counter of its own.
        let refused = |stats: &DeviceStats| stats.rx_bad_descriptors + stats.rx_too_long;
        eventually("the lie is counted", || refused(&device.stats()) == refused(&before) + 1);
        let too_long = u64::from(lie == (0, 0, 2049, 8192));
        assert_eq!(device.stats().rx_too_long - before.rx_too_long, too_long, "{lie:?}");
        // Buffers to send into that are none; the packet goes to the first that is one.
        client.descriptor(false, 0, lie);
        client.descriptor(false, 1, (0, 0, 2048, 64 * 2048 + 8192));
        client.head(false, 2);
        assert!(port.build(64, |_| 64).is_ok());
        port.flush();
        // The last lies are buffers all the same: a good place with a length or a flag of no meaning to a sender.
        let unusable = u64::from(position < 6);
        assert_eq!(device.stats().tx_bad_descriptors, before.tx_bad_descriptors + unusable, "{lie:?}");
        // Indices that cannot be.
        for head in [70, 0x8000] {
            client.head(true, head);
            client.head(false, head);
            rustix::io::write(&client.eventfds[0], &1_u64.to_ne_bytes()).unwrap();
            let _ = port.build(64, |_| 64);
            port.flush();
        }
        // The sender may be the first to see one: the link goes down at once then, and nobody looks at the other ring.
        let errors = |stats: &DeviceStats| stats.rx_index_errors + stats.tx_index_errors;
        eventually("the index is counted", || errors(&device.stats()) > errors(&before));
        assert!(!port.recv() || lie.2 == 64, "nothing was received");
        drop(port);
        drop(client);
        eventually("the liar is gone", || !device.link_state().carrier);
        assert_eq!(device.frames_out(), 0);
    }
    serves_an_honest_client(&device, &name);
}

/// Servers that say what they should not to our client, which tries again until one is honest.
#[test]
fn a_client_survives_every_server() {
    let _free = napier_testkit::closing_frees();
    let name = socket("server");
    let (listener, address) = new_socket();
    rustix::net::bind(&listener, &address(&name)).unwrap();
    rustix::net::listen(&listener, 4).unwrap();
    let engine = Engine::builder().start().unwrap();
    let client = device(&engine, config(MemifRole::Client, &name));
    let hello = Hello {
        name: Name::new("hostile"),
        version_min: VERSION,
        version_max: VERSION,
        region_max: 255,
        s2c_ring_max: 255,
        c2s_ring_max: 255,
        log2_ring_size_max: 14,
    };
    let good = Message::Hello(hello);
    let reason = Reason::new("\u{1b}[31mgo away");
    let lies: [(&[Message], &str); 7] = [
        (&[Message::Ack], "refused the peer: ACK where HELLO belongs"),
        (
            &[Message::Hello(Hello { version_max: 0x0100, ..hello })],
            "refused the peer: versions 0x0200 to 0x0100 offered",
        ),
        (&[Message::Hello(Hello { log2_ring_size_max: 0, ..hello })], "refused the peer: the server allows no ring"),
        (&[good, Message::Connected(Name::new("x"))], "refused the peer: CONNECTED where ACK belongs"),
        (&[good, Message::Ack, Message::Ack, good], "refused the peer: HELLO where ACK belongs"),
        (&[good, Message::Disconnect { code: 0, reason }], "the peer disconnected: ?[31mgo away"),
        (&[good], "the peer is gone"),
    ];
    for (messages, why) in lies {
        let server = Raw(rustix::net::accept_with(&listener, SocketFlags::CLOEXEC).unwrap());
        messages.iter().for_each(|message| server.send(message, None));
        rustix::net::shutdown(&server.0, rustix::net::Shutdown::Write).unwrap();
        eventually(why, || client.link_state().reason.is_some_and(|reason| reason.starts_with(why)));
        assert!(!client.link_state().carrier);
    }
    drop(listener);
    let honest_engine = Engine::builder().start().unwrap();
    let honest = device(&honest_engine, config(MemifRole::Server, &name));
    assert!(honest.wait_link(PATIENCE) && client.wait_link(PATIENCE));
}

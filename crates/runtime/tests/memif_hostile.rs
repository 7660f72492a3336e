//! Peers that lie: clients and servers that speak raw bytes, and a device of ours that has to survive each of them.

mod common;

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use common::{PATIENCE, PEER_MAC, TESTED_MAC, eventually};
use napier_core::memif::{
    AddRegion, AddRing, Hello, Init, MESSAGE_BYTES, Message, Name, Reason, RegionLayout, SECRET_BYTES, VERSION,
};
use napier_runtime::{DeviceHandle, EndConfig, Engine, MemifConfig, MemifRole, RawPort};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType,
};

fn socket(test: &str) -> String {
    format!("@napier-hostile-{}-{test}", std::process::id())
}

fn device(engine: &Engine, config: MemifConfig) -> DeviceHandle {
    let netns = engine.namespace();
    let mac = if config.role == MemifRole::Server { TESTED_MAC } else { PEER_MAC };
    let end = EndConfig { name: "memif0".into(), netns, mac, addresses: vec![], irq_cpus: vec![] };
    engine.add_memif(config, end).unwrap()
}

fn config(role: MemifRole, socket: &str) -> MemifConfig {
    MemifConfig { ring_size: 64, queues: 2, retry: Duration::from_millis(5), ..MemifConfig::new(role, socket) }
}

fn new_socket() -> (OwnedFd, impl Fn(&str) -> SocketAddrUnix) {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
    (socket, |name: &str| SocketAddrUnix::new_abstract_name(&name.as_bytes()[1..]).unwrap())
}

/// One raw connection.
struct Raw(OwnedFd);

impl Raw {
    fn connect(name: &str) -> Self {
        let (socket, address) = new_socket();
        rustix::net::connect(&socket, &address(name)).unwrap();
        Self(socket)
    }

    fn send_bytes(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors)));
        // The other side may have had enough already.
        let _ = rustix::net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    }

    fn send(&self, message: &Message, descriptor: Option<&OwnedFd>) {
        let descriptors: Vec<_> = descriptor.iter().map(|fd| fd.as_fd()).collect();
        self.send_bytes(&message.encode(), &descriptors);
    }

    /// The next message; none if the other side has closed.
    fn receive(&self) -> Option<Message> {
        let mut bytes = [0; MESSAGE_BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received =
            rustix::net::recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty());
        let length = match received {
            Ok(received) => received.bytes,
            Err(rustix::io::Errno::CONNRESET) => 0,
            Err(error) => panic!("no answer: {error}"),
        };
        (length > 0).then(|| Message::decode(&bytes[..length]).expect("ours are messages"))
    }

    fn reply(&self, message: &Message, descriptor: Option<&OwnedFd>) -> Option<Message> {
        self.send(message, descriptor);
        self.receive()
    }

    /// What the other side gives as its reason to end it.
    fn is_refused(&self) -> String {
        match self.receive() {
            Some(Message::Disconnect { reason, .. }) => {
                assert_eq!(self.receive(), None, "closed after DISCONNECT");
                reason.to_string()
            }
            other => panic!("{other:?} where DISCONNECT belongs"),
        }
    }
}

fn memfd(bytes: u64, seals: SealFlags) -> OwnedFd {
    let file = rustix::fs::memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file
}

fn eventfd() -> OwnedFd {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap()
}

/// Memory as a good client lays it out, and how to write into it.
struct Client {
    raw: Raw,
    layout: RegionLayout,
    file: OwnedFd,
    eventfds: Vec<OwnedFd>,
}

impl Client {
    /// A client that has announced everything and only has to connect.
    fn announced(name: &str) -> Self {
        let layout = RegionLayout::new(1, 1, 6, 2048).unwrap();
        let (raw, file) = (Raw::connect(name), memfd(layout.len(), SealFlags::SHRINK));
        let mut client = Self { raw, layout, file, eventfds: vec![eventfd(), eventfd()] };
        for c2s in [true, false] {
            client.poke(c2s, 0, &0x03E3_1F20_u32.to_le_bytes());
        }
        assert!(matches!(client.raw.receive(), Some(Message::Hello(_))));
        assert_eq!(client.raw.reply(&Message::Init(init()), None), Some(Message::Ack));
        let region = Message::AddRegion(AddRegion { index: 0, bytes: client.layout.len() });
        assert_eq!(client.raw.reply(&region, Some(&client.file)), Some(Message::Ack));
        for (c2s, eventfd) in [true, false].into_iter().zip(&client.eventfds) {
            let ring = Message::AddRing(client.ring(c2s));
            assert_eq!(client.raw.reply(&ring, Some(eventfd)), Some(Message::Ack));
        }
        client
    }

    fn connected(name: &str) -> Self {
        let client = Self::announced(name);
        let answer = client.raw.reply(&Message::Connect(Name::new("hostile")), None);
        assert!(matches!(answer, Some(Message::Connected(_))), "{answer:?}");
        client
    }

    fn ring(&self, c2s: bool) -> AddRing {
        let (offset, log2_ring_size) = (self.layout.ring(c2s, 0), self.layout.log2_ring_size());
        AddRing { c2s, index: 0, region: 0, offset, log2_ring_size, private_header_bytes: 0 }
    }

    /// Writes into a ring, as bytes from its start.
    fn poke(&mut self, c2s: bool, at: u64, bytes: &[u8]) {
        let offset = u64::from(self.layout.ring(c2s, 0)) + at;
        assert_eq!(rustix::io::pwrite(&self.file, bytes, offset).unwrap(), bytes.len());
    }

    fn head(&mut self, c2s: bool, head: u16) {
        self.poke(c2s, 6, &head.to_le_bytes());
    }

    fn descriptor(&mut self, c2s: bool, slot: u64, (flags, region, length, offset): (u16, u16, u32, u32)) {
        let low = u64::from(flags) | u64::from(region) << 16 | u64::from(length) << 32;
        self.poke(c2s, 128 + 16 * slot, &low.to_le_bytes());
        self.poke(c2s, 128 + 16 * slot + 8, &offset.to_le_bytes());
    }
}

fn init() -> Init {
    Init { version: VERSION, id: 0, mode: 0, secret: [0; SECRET_BYTES], name: Name::new("hostile") }
}

/// After every lie the device serves an honest client.
fn serves_an_honest_client(device: &DeviceHandle, name: &str) {
    let engine = Engine::builder().start().unwrap();
    let honest = self::device(&engine, config(MemifRole::Client, name));
    assert!(honest.wait_link(PATIENCE), "{:?}", honest.link_state());
    let (from, to) = (RawPort::bind(&honest, 0).unwrap(), RawPort::bind(device, 0).unwrap());
    from.build(64, |_| 64).unwrap();
    from.flush();
    assert!(to.wait(Some(PATIENCE)));
    assert_eq!(to.next().expect("one frame").data().len(), 64);
    drop((from, to));
    eventually("every frame is back", || honest.frames_out() == 0 && device.frames_out() == 0);
    drop((honest, engine));
    eventually("the honest client is gone", || !device.link_state().carrier);
}

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
        eventually("the lie is counted", || device.stats().rx_bad_descriptors == before.rx_bad_descriptors + 1);
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
        eventually("the index is counted", || device.stats().rx_index_errors > before.rx_index_errors);
        assert!(!port.recv() || lie.2 == 64, "nothing was received");
        drop(port);
        drop(client);
        eventually("the liar is gone", || !device.link_state().carrier);
        assert_eq!(device.frames_out(), 0);
    }
    serves_an_honest_client(&device, &name);
}

/// The peer rings without end, fills the eventfd that we ring and makes it a blocking one.
#[test]
fn eventfds_of_a_hostile_client_stop_nobody() {
    let name = socket("eventfd");
    let engine = Engine::builder().start().unwrap();
    let device = device(&engine, config(MemifRole::Server, &name));
    let mut client = Client::connected(&name);
    eventually("carrier", || device.link_state().carrier);
    let port = RawPort::bind(&device, 0).unwrap();
    for slot in 0..64_u32 {
        client.descriptor(false, slot.into(), (0, 0, 2048, 8192 + (64 + slot) * 2048));
    }
    client.head(false, 64);
    for fd in &client.eventfds {
        rustix::io::ioctl_fionbio(fd, false).unwrap();
    }
    rustix::io::write(&client.eventfds[1], &(u64::MAX - 1).to_ne_bytes()).unwrap();
    for _ in 0..20 {
        port.build(64, |_| 64).unwrap();
        // Waits in the kernel until the control thread sees it.
        port.flush();
    }
    for _ in 0..10_000 {
        rustix::io::write(&client.eventfds[0], &1_u64.to_ne_bytes()).unwrap();
    }
    drop((port, client));
    eventually("the liar is gone", || !device.link_state().carrier);
    serves_an_honest_client(&device, &name);
}

/// A client that says nothing holds no interface, and one that has it and falls silent loses it.
#[test]
fn silence_is_ended() {
    let name = socket("silence");
    let engine = Engine::builder().start().unwrap();
    let device = device(&engine, config(MemifRole::Server, &name));
    let silent: Vec<Raw> = (0..10).map(|_| Raw::connect(&name)).collect();
    serves_an_honest_client(&device, &name);
    let begun = Instant::now();
    let holder = Raw::connect(&name);
    assert!(matches!(holder.receive(), Some(Message::Hello(_))));
    assert_eq!(holder.reply(&Message::Init(init()), None), Some(Message::Ack));
    assert_eq!(holder.is_refused(), "the peer did not answer for 5 s");
    assert!(begun.elapsed() >= Duration::from_secs(5));
    drop(silent);
    serves_an_honest_client(&device, &name);
}

/// Servers that say what they should not to our client, which tries again until one is honest.
#[test]
fn a_client_survives_every_server() {
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

//! Peers that speak raw bytes, and a device of ours that meets them.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use napier_core::memif::{AddRegion, AddRing, Init, MESSAGE_BYTES, Message, Name, RegionLayout, SECRET_BYTES, VERSION};
use napier_runtime::device::{DeviceHandle, MemifConfig, MemifRole};
use napier_runtime::engine::Engine;
use napier_runtime::raw::RawPort;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType,
};

use crate::common::{PATIENCE, PEER_MAC, TESTED_MAC, end, eventually};

pub(crate) fn socket(test: &str) -> String {
    format!("@napier-hostile-{}-{test}", std::process::id())
}

pub(crate) fn device(engine: &Engine, config: MemifConfig) -> DeviceHandle {
    named(engine, config, "memif0")
}

pub(crate) fn named(engine: &Engine, config: MemifConfig, name: &str) -> DeviceHandle {
    let mac = if config.role == MemifRole::Server { TESTED_MAC } else { PEER_MAC };
    engine.add_memif(config, end(name, &engine.namespace(), mac, &[])).unwrap()
}

pub(crate) fn config(role: MemifRole, socket: &str) -> MemifConfig {
    MemifConfig { ring_size: 64, queues: 2, retry: Duration::from_millis(5), ..MemifConfig::new(role, socket) }
}

pub(crate) fn new_socket() -> (OwnedFd, impl Fn(&str) -> SocketAddrUnix) {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
    (socket, |name: &str| SocketAddrUnix::new_abstract_name(&name.as_bytes()[1..]).unwrap())
}

/// One raw connection.
pub(crate) struct Raw(pub(crate) OwnedFd);

impl Raw {
    pub(crate) fn connect(name: &str) -> Self {
        Self::try_connect(name).expect("somebody listens")
    }

    /// None if nobody listens.
    pub(crate) fn try_connect(name: &str) -> Option<Self> {
        let (socket, address) = new_socket();
        rustix::net::connect(&socket, &address(name)).is_ok().then_some(Self(socket))
    }

    pub(crate) fn send_bytes(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors)));
        // The other side may have had enough already.
        let _ = rustix::net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    }

    pub(crate) fn send(&self, message: &Message, descriptor: Option<&OwnedFd>) {
        let descriptors: Vec<_> = descriptor.iter().map(|fd| fd.as_fd()).collect();
        self.send_bytes(&message.encode(), &descriptors);
    }

    /// The next message; none if the other side has closed.
    pub(crate) fn receive(&self) -> Option<Message> {
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

    pub(crate) fn reply(&self, message: &Message, descriptor: Option<&OwnedFd>) -> Option<Message> {
        self.send(message, descriptor);
        self.receive()
    }

    /// What the other side gives as its reason to end it.
    pub(crate) fn is_refused(&self) -> String {
        match self.receive() {
            Some(Message::Disconnect { reason, .. }) => {
                assert_eq!(self.receive(), None, "closed after DISCONNECT");
                reason.to_string()
            }
            other => panic!("{other:?} where DISCONNECT belongs"),
        }
    }
}

pub(crate) fn memfd(bytes: u64, seals: SealFlags) -> OwnedFd {
    let file = rustix::fs::memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file
}

pub(crate) fn eventfd() -> OwnedFd {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap()
}

/// Memory as a good client lays it out, and how to write into it.
pub(crate) struct Client {
    pub(crate) raw: Raw,
    pub(crate) layout: RegionLayout,
    pub(crate) file: OwnedFd,
    pub(crate) eventfds: Vec<OwnedFd>,
}

impl Client {
    /// A client that has announced everything and only has to connect.
    pub(crate) fn announced(name: &str) -> Self {
        Self::try_announced(name, 0, false).expect("nobody is in the way")
    }

    /// As [`announced`](Self::announced), with so many bytes more in the region, all of which have memory or none has; none
    /// if somebody else is connected.
    pub(crate) fn try_announced(name: &str, more_bytes: u64, filled: bool) -> Option<Self> {
        let layout = RegionLayout::new(1, 1, 6, 2048).unwrap();
        let bytes = layout.len() + more_bytes;
        let (raw, file) = (Raw::try_connect(name)?, memfd(bytes, SealFlags::SHRINK));
        if filled {
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes).unwrap();
        }
        let mut client = Self { raw, layout, file, eventfds: vec![eventfd(), eventfd()] };
        for c2s in [true, false] {
            client.poke(c2s, 0, &0x03E3_1F20_u32.to_le_bytes());
        }
        let acked = |answer| (answer == Some(Message::Ack)).then_some(());
        matches!(client.raw.receive()?, Message::Hello(_)).then_some(())?;
        acked(client.raw.reply(&Message::Init(init()), None))?;
        let region = Message::AddRegion(AddRegion { index: 0, bytes });
        acked(client.raw.reply(&region, Some(&client.file)))?;
        for (c2s, eventfd) in [true, false].into_iter().zip(&client.eventfds) {
            let ring = Message::AddRing(client.ring(c2s));
            acked(client.raw.reply(&ring, Some(eventfd)))?;
        }
        Some(client)
    }

    pub(crate) fn connected(name: &str) -> Self {
        let client = Self::announced(name);
        let answer = client.raw.reply(&Message::Connect(Name::new("hostile")), None);
        assert!(matches!(answer, Some(Message::Connected(_))), "{answer:?}");
        client
    }

    pub(crate) fn ring(&self, c2s: bool) -> AddRing {
        let (offset, log2_ring_size) = (self.layout.ring(c2s, 0), self.layout.log2_ring_size());
        AddRing { c2s, index: 0, region: 0, offset, log2_ring_size, private_header_bytes: 0 }
    }

    /// Writes into a ring, as bytes from its start.
    pub(crate) fn poke(&mut self, c2s: bool, at: u64, bytes: &[u8]) {
        let offset = u64::from(self.layout.ring(c2s, 0)) + at;
        assert_eq!(rustix::io::pwrite(&self.file, bytes, offset).unwrap(), bytes.len());
    }

    pub(crate) fn head(&mut self, c2s: bool, head: u16) {
        self.poke(c2s, 6, &head.to_le_bytes());
    }

    pub(crate) fn descriptor(&mut self, c2s: bool, slot: u64, (flags, region, length, offset): (u16, u16, u32, u32)) {
        let low = u64::from(flags) | u64::from(region) << 16 | u64::from(length) << 32;
        self.poke(c2s, 128 + 16 * slot, &low.to_le_bytes());
        self.poke(c2s, 128 + 16 * slot + 8, &offset.to_le_bytes());
    }
}

pub(crate) fn init() -> Init {
    Init { version: VERSION, id: 0, mode: 0, secret: [0; SECRET_BYTES], name: Name::new("hostile") }
}

/// After every lie the device serves an honest client.
pub(crate) fn serves_an_honest_client(device: &DeviceHandle, name: &str) {
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

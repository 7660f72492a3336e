//! A fake engine and a fake device, and packets made by smoltcp.

mod gate;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use napier_core::busy::BusyParams;
use napier_ring::{ArenaConfig, FramePool, FrameTable, Mapping};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpAddress,
    IpProtocol, IpRepr, Ipv4Address, UdpPacket, UdpRepr,
};

use crate::device::{Egress, IfAddr, OnRoom, PacketClass, TxError};
use crate::event::EventContext;
use crate::host::{Busy, Host, HostSettings, IrqHandOver, Lifetime, Wait};
use crate::ns::NetNs;
use gate::{Gate, OpensAtEnd};

pub(super) const OUR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(super) const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub(super) const IFINDEX: u32 = 3;
/// The smallest valid NAPI id of the fake engine.
pub(crate) const FIRST_ID: u32 = 100;
pub(crate) const NAPI: u32 = 101;
pub(super) const STRIDE: usize = 2048 + 64;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Busy(u32, BusyParams),
    Suspend(u32),
    Resume(u32),
}

type Action = Box<dyn FnOnce() + Send>;

/// An engine that writes down what it is asked, and whose busy loop runs one scripted action per call.
#[derive(Default)]
pub(crate) struct FakeEngine {
    pub(crate) frames: Arc<FrameTable>,
    calls: Mutex<Vec<Call>>,
    in_busy_loop: Mutex<Vec<Action>>,
    in_resume: Mutex<Vec<Action>>,
    before_sleep: Mutex<Vec<Action>>,
    pub(crate) busy_read: AtomicU32,
    pub(crate) busy_poll: AtomicU32,
    pub(crate) unprivileged: AtomicBool,
    /// Where the thread of TCP's timers waits before it begins.
    pub(crate) timers: Arc<Gate>,
}

impl FakeEngine {
    pub(crate) fn context(self: &Arc<Self>) -> EventContext {
        EventContext::with_members_max(self.clone() as Arc<dyn Host>, 16)
    }

    /// What was asked since the last call of this.
    pub(crate) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    /// The next busy loop does this, once.
    pub(crate) fn during_busy_loop(&self, action: impl FnOnce() + Send + 'static) {
        self.in_busy_loop.lock().unwrap().push(Box::new(action));
    }

    /// The next resume does this, once.
    pub(crate) fn during_resume(&self, action: impl FnOnce() + Send + 'static) {
        self.in_resume.lock().unwrap().push(Box::new(action));
    }

    /// The next sleep does this first, once.
    pub(crate) fn before_sleep(&self, action: impl FnOnce() + Send + 'static) {
        self.before_sleep.lock().unwrap().push(Box::new(action));
    }

    fn note(&self, call: Call, script: &Mutex<Vec<Action>>) {
        self.calls.lock().unwrap().push(call);
        let action = script.lock().unwrap().pop();
        if let Some(action) = action {
            action();
        }
    }
}

impl HostSettings for FakeEngine {
    fn sysctl_busy_read(&self) -> u32 {
        self.busy_read.load(Ordering::Relaxed)
    }
    fn sysctl_busy_poll(&self) -> u32 {
        self.busy_poll.load(Ordering::Relaxed)
    }
    fn first_napi_id(&self) -> u32 {
        FIRST_ID
    }
    fn cap_net_admin(&self) -> bool {
        !self.unprivileged.load(Ordering::Relaxed)
    }
}

impl Wait for FakeEngine {
    fn prepare_to_wait(&self, _ready: &dyn Fn() -> bool) -> Option<Arc<dyn IrqHandOver>> {
        let action = self.before_sleep.lock().unwrap().pop();
        if let Some(action) = action {
            action();
        }
        None
    }
}

impl Lifetime for FakeEngine {
    fn thread_begins(&self, name: &str) {
        if name == "tcp timer" {
            self.timers.pass();
        }
    }
}

impl Busy for FakeEngine {
    fn busy_loop(&self, napi_id: u32, params: BusyParams, ready: &mut dyn FnMut() -> bool) {
        self.note(Call::Busy(napi_id, params), &self.in_busy_loop);
        ready();
    }
    fn suspend_irqs(&self, napi_id: u32) {
        self.note(Call::Suspend(napi_id), &Mutex::default());
    }
    fn resume_irqs(&self, napi_id: u32) {
        self.note(Call::Resume(napi_id), &self.in_resume);
    }
}

#[derive(Default)]
pub(super) struct TestDevice {
    pub(super) ifindex: u32,
    pub(super) addresses: Vec<IfAddr>,
    pub(super) sent: Mutex<Vec<Vec<u8>>>,
    pub(super) hashes: Mutex<Vec<u32>>,
    pub(super) full: AtomicBool,
    /// It is full with as many packets; 0: never.
    pub(super) full_after: AtomicU32,
    pub(super) down: AtomicBool,
    /// Its discipline takes nothing now.
    pub(super) busy: AtomicBool,
    /// Who is to be told when it does.
    pub(super) waiters: Mutex<Vec<Arc<dyn OnRoom>>>,
    /// Nobody is between it and its peer.
    pub(super) in_process: AtomicBool,
    /// Its discipline drops everything.
    pub(super) dropping: AtomicBool,
    /// Bytes of the longest packet; 0: 1500.
    pub(super) mtu: AtomicU32,
    /// What the last packet was sent with.
    pub(super) class: Mutex<Option<PacketClass>>,
}

impl Egress for TestDevice {
    fn ifindex(&self) -> u32 {
        self.ifindex
    }
    fn mac(&self) -> [u8; 6] {
        OUR_MAC
    }
    fn mtu(&self) -> u32 {
        match self.mtu.load(Ordering::Relaxed) {
            0 => 1500,
            mtu => mtu,
        }
    }
    fn addresses(&self) -> Vec<IfAddr> {
        self.addresses.clone()
    }
    fn is_in_process(&self) -> bool {
        self.in_process.load(Ordering::Relaxed)
    }
    fn rss_hash(&self, src: &SocketAddr, dst: &SocketAddr) -> u32 {
        u32::from(src.port()) << 16 | u32::from(dst.port())
    }
    fn transmit(
        &self,
        class: &PacketClass,
        len_max: usize,
        build: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> Result<(), TxError> {
        if self.down.load(Ordering::Relaxed) {
            return Err(TxError::Down);
        }
        let full_after = self.full_after.load(Ordering::Relaxed) as usize;
        if self.full.load(Ordering::Relaxed) || full_after > 0 && self.sent.lock().unwrap().len() >= full_after {
            return Err(TxError::Full);
        }
        if self.busy.load(Ordering::Relaxed) {
            return Err(TxError::Busy);
        }
        if self.dropping.load(Ordering::Relaxed) {
            build(&mut vec![0; len_max]);
            return Err(TxError::Dropped);
        }
        let mut slot = vec![0xa5; len_max + 7];
        let len = build(&mut slot);
        assert!(len <= len_max);
        slot.truncate(len);
        self.sent.lock().unwrap().push(slot);
        self.hashes.lock().unwrap().push(class.flow_hash);
        *self.class.lock().unwrap() = Some(*class);
        Ok(())
    }
    fn await_room(&self, _class: &PacketClass, waiter: Arc<dyn OnRoom>) -> bool {
        let busy = self.busy.load(Ordering::Relaxed) || self.full.load(Ordering::Relaxed);
        if busy {
            self.waiters.lock().unwrap().push(waiter);
        }
        busy
    }
}

/// A name space with one device: 10.0.0.1/24, fd00::1/64 and fe80::1/64 on interface 3.
pub(super) struct Rig {
    pub(super) ns: NetNs,
    pub(super) host: Arc<FakeEngine>,
    pub(super) device: Arc<TestDevice>,
    pub(super) pool: FramePool,
    _timers: OpensAtEnd,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with_frames(256)
    }

    pub(super) fn with_frames(count: u32) -> Self {
        let frames = Arc::new(FrameTable::new());
        let mapping = Arc::new(Mapping::anonymous(STRIDE * count as usize));
        let arena = ArenaConfig { mapping, offset: 0, stride: STRIDE, frames_per_home: count, homes: 1 };
        let (_, mut pools) = frames.add_arena(arena).expect("an arena");
        let host = Arc::new(FakeEngine { frames, unprivileged: AtomicBool::new(true), ..FakeEngine::default() });
        let device = device(IFINDEX, &[("10.0.0.1", 24), ("fd00::1", 64), ("fe80::1", 64)]);
        let ns = NetNs::with_host(host.clone(), host.frames.clone(), 42);
        ns.device_add(device.clone()).expect("the first device");
        Self { _timers: OpensAtEnd(host.timers.clone()), ns, host, device, pool: pools.remove(0) }
    }

    /// One poll of one frame.
    pub(super) fn inject(&mut self, frame: &[u8]) {
        self.inject_from(NAPI, &[frame]);
    }

    /// One poll of instance `napi_id`.
    pub(super) fn inject_from(&mut self, napi_id: u32, frames: &[&[u8]]) {
        let view = self.ns.view();
        let mut pass = view.pass(napi_id, IFINDEX).expect("the device is there");
        for bytes in frames {
            let mut frame = self.pool.alloc().expect("a free frame");
            self.host.frames.data_mut(&mut frame)[..bytes.len()].copy_from_slice(bytes);
            pass.receive(frame, u32::try_from(bytes.len()).unwrap());
        }
        pass.end();
    }

    pub(super) fn know_peers(&self) {
        for addr in ["10.0.0.2", "10.0.0.3", "fd00::2", "fe80::2"] {
            self.ns.neighbour_add(IFINDEX, addr.parse().unwrap(), PEER_MAC).expect("a neighbour");
        }
    }

    pub(super) fn sent(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.device.sent.lock().unwrap())
    }

    /// Whether every frame is back, with `queued` of them still in sockets.
    pub(super) fn assert_home(&mut self, queued: usize) {
        assert_eq!(self.pool.available() + queued, self.pool.total() as usize);
    }
}

pub(super) fn device(ifindex: u32, addresses: &[(&str, u8)]) -> Arc<TestDevice> {
    let addresses = addresses
        .iter()
        .map(|(addr, prefix_len)| IfAddr { addr: addr.parse().unwrap(), prefix_len: *prefix_len })
        .collect();
    Arc::new(TestDevice { ifindex, addresses, ..TestDevice::default() })
}

pub(super) fn at(text: &str) -> SocketAddr {
    text.parse().expect("a socket address")
}

/// A datagram from the peer's Ethernet address to ours.
pub(super) fn udp(src: &str, dst: &str, payload: &[u8]) -> Vec<u8> {
    udp_frame(at(src), at(dst), PEER_MAC, OUR_MAC, payload)
}

pub(super) fn udp_frame(
    src: SocketAddr,
    dst: SocketAddr,
    src_mac: [u8; 6],
    dst_mac: [u8; 6],
    payload: &[u8],
) -> Vec<u8> {
    let caps = ChecksumCapabilities::default();
    let udp = UdpRepr { src_port: src.port(), dst_port: dst.port() };
    let (from, to): (IpAddress, IpAddress) = (src.ip().into(), dst.ip().into());
    let ip = IpRepr::new(from, to, IpProtocol::Udp, 8 + payload.len(), 64);
    let mut frame = vec![0; 14 + ip.buffer_len()];
    ethernet(&mut frame, src_mac, dst_mac, src.ip());
    ip.emit(&mut frame[14..], &caps);
    let body = &mut frame[14 + ip.header_len()..];
    let fill = |body: &mut [u8]| body.copy_from_slice(payload);
    udp.emit(&mut UdpPacket::new_unchecked(body), &from, &to, payload.len(), fill, &caps);
    frame
}

pub(super) fn ethernet(frame: &mut [u8], src: [u8; 6], dst: [u8; 6], family: IpAddr) {
    let ethertype = if family.is_ipv4() { EthernetProtocol::Ipv4 } else { EthernetProtocol::Ipv6 };
    let header = EthernetRepr { src_addr: EthernetAddress(src), dst_addr: EthernetAddress(dst), ethertype };
    header.emit(&mut EthernetFrame::new_unchecked(frame));
}

/// An ARP message to us, from a neighbour that asks about `to` or answers.
pub(super) fn arp(operation: ArpOperation, from: Ipv4Address, mac: [u8; 6], to: Ipv4Address) -> Vec<u8> {
    let repr = ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: EthernetAddress(mac),
        source_protocol_addr: from,
        target_hardware_addr: EthernetAddress(OUR_MAC),
        target_protocol_addr: to,
    };
    let mut frame = vec![0; 14 + repr.buffer_len()];
    frame[..6].copy_from_slice(&OUR_MAC);
    frame[6..12].copy_from_slice(&mac);
    frame[12..14].copy_from_slice(&[8, 6]);
    repr.emit(&mut ArpPacket::new_unchecked(&mut frame[14..]));
    frame
}

/// An ICMP error of a router about a frame that we sent: type, code and the four bytes that depend on them, as the family of
/// the frame has them.
pub(super) fn icmp_error([kind, code]: [u8; 2], rest: [u8; 4], about: &[u8]) -> Vec<u8> {
    let quote = &about[14..about.len().min(14 + 68)];
    let mut body = vec![kind, code, 0, 0];
    body.extend(rest);
    body.extend(quote);
    let sum = |bytes: &[u8]| {
        let folded = bytes
            .chunks(2)
            .fold(0_u64, |sum, two| sum + u64::from(two[0]) * 256 + u64::from(*two.get(1).unwrap_or(&0)));
        let folded = (folded >> 16) + (folded & 0xffff);
        (!((folded >> 16) + folded) as u16).to_be_bytes()
    };
    let mut frame = vec![0; 14];
    if about[12..14] == [8, 0] {
        let checksum = sum(&body);
        body[2..4].copy_from_slice(&checksum);
        ethernet(&mut frame, PEER_MAC, OUR_MAC, Ipv4Address::new(10, 0, 0, 254).into());
        let [high, low] = (20 + body.len() as u16).to_be_bytes();
        let mut ip = vec![0x45, 0, high, low, 0, 0, 0, 0, 60, 1, 0, 0, 10, 0, 0, 254];
        ip.extend(&about[26..30]);
        let checksum = sum(&ip);
        ip[10..12].copy_from_slice(&checksum);
        frame.extend(ip);
    } else {
        let router = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe];
        let [high, low] = (body.len() as u16).to_be_bytes();
        let pseudo = [&router[..], &about[22..38], &[0, 0, high, low, 0, 0, 0, 58], &body].concat();
        let checksum = sum(&pseudo);
        body[2..4].copy_from_slice(&checksum);
        ethernet(&mut frame, PEER_MAC, OUR_MAC, std::net::Ipv6Addr::from(router).into());
        frame.extend([0x60, 0, 0, 0, high, low, 58, 60]);
        frame.extend(router);
        frame.extend(&about[22..38]);
    }
    frame.extend(body);
    frame
}

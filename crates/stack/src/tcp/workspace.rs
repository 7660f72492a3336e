//! smoltcp at work: one packet in, a few packets out, for one socket.
//!
//! smoltcp's sockets only move when an `Interface` polls them. With medium IP and without addresses of its own ("any IP")
//! an interface keeps nothing from one poll to the next but its random numbers, which serve for initial sequence numbers.
//! So there is one interface per thread and MTU, which needs no lock, and a fresh one with a keyed seed for the packet
//! that begins a connection: no station can tell one connection's sequence numbers from another's (RFC 6528).
//!
//! # Time
//! smoltcp rounds a retransmission time up to a second and cannot be told otherwise. Its clock is ours to set, so it runs
//! [`PACE`] times as fast: a second becomes 200 ms, the kernel's `TCP_RTO_MIN`. Every time that is handed in or comes out
//! is converted here.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use napier_core::time::{Deadline, Instant, Span};
use smoltcp::iface::{Config, Interface, PollResult, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time;
use smoltcp::wire::HardwareAddress;

/// smoltcp's clock against the real one: its least retransmission time of 1 s is 200 ms (`include/net/tcp.h TCP_RTO_MIN`).
const PACE: u64 = 5;
const NS_PER_TICK: u64 = 1000 / PACE;

/// smoltcp met a case that it does not know; its socket is not to be used any more.
pub(super) struct Fault;

/// A way out for whole IP packets.
pub(super) trait PacketSink {
    /// Whether a packet can be taken now.
    fn is_open(&self) -> bool;
    /// Sends a packet of `len` bytes; `fill` is called once and writes all of them.
    fn send(&mut self, len: usize, fill: &mut dyn FnMut(&mut [u8]));
    /// Whether the last packet said that there is more to send.
    fn wants_more(&self) -> bool;
}

pub(super) fn smol_time(now: Instant) -> time::Instant {
    time::Instant::from_micros((now.ns / NS_PER_TICK).cast_signed())
}

pub(super) fn smol_span(span: Span) -> time::Duration {
    time::Duration::from_micros(span.ns / NS_PER_TICK)
}

fn real_time(at: time::Instant) -> Instant {
    Instant { ns: at.total_micros().max(0).cast_unsigned().saturating_mul(NS_PER_TICK) }
}

/// Most packets that one call sends for a socket: what a send buffer of the largest size holds in packets of the least
/// MTU would be more, and waits for the next acknowledgement.
const BURST_MAX: usize = 512;

thread_local! {
    /// By MTU; a handful.
    static INTERFACES: RefCell<Vec<(usize, Interface)>> = const { RefCell::new(Vec::new()) };
}

/// A poll of one socket at one moment.
pub(super) struct Poll<'a> {
    pub(super) now: Instant,
    pub(super) mtu: usize,
    pub(super) sockets: &'a mut SocketSet<'static>,
    pub(super) sink: &'a mut dyn PacketSink,
}

impl Poll<'_> {
    /// Hands one IP packet, as long as it may be, to the socket; then sends what there is to send. Gives what
    /// [`next`](Self::next) would, as all of these do.
    pub(super) fn receive(&mut self, packet: &[u8]) -> Result<Deadline, Fault> {
        self.guarded(|poll, interface| {
            poll.ingress(interface, packet);
            poll.egress(interface);
        })
    }

    /// Hands one IP packet to the socket, and sends no more than an answer to it.
    pub(super) fn hear(&mut self, packet: &[u8]) -> Result<Deadline, Fault> {
        self.guarded(|poll, interface| poll.ingress(interface, packet))
    }

    /// Sends what there is to send.
    pub(super) fn send(&mut self) -> Result<Deadline, Fault> {
        self.guarded(|poll, interface| poll.egress(interface))
    }

    /// As `receive` for the SYN that begins a connection, with sequence numbers from `seed`.
    pub(super) fn open(&mut self, packet: &[u8], seed: u64) -> Result<Deadline, Fault> {
        catch_unwind(AssertUnwindSafe(|| {
            let interface = &mut interface(self.mtu, seed);
            self.ingress(interface, packet);
            self.egress(interface);
            self.next_of(interface)
        }))
        .map_err(|_| Fault)
    }

    /// When the socket wants to be polled again. A time that has come means that it could not send.
    pub(super) fn next(&mut self) -> Deadline {
        with_interface(self.mtu, |interface| self.next_of(interface))
    }

    #[inline]
    fn next_of(&self, interface: &mut Interface) -> Deadline {
        match interface.poll_at(smol_time(self.now), self.sockets) {
            None => Deadline::NEVER,
            Some(at) => Deadline::at(real_time(at)),
        }
    }

    /// What comes from outside must not end a thread of the engine, whatever a foreign protocol machine makes of it.
    #[inline]
    fn guarded(&mut self, work: impl FnOnce(&mut Self, &mut Interface)) -> Result<Deadline, Fault> {
        let mtu = self.mtu;
        let work = |interface: &mut Interface| {
            work(self, interface);
            self.next_of(interface)
        };
        catch_unwind(AssertUnwindSafe(|| with_interface(mtu, work))).map_err(|_| Fault)
    }

    fn ingress(&mut self, interface: &mut Interface, packet: &[u8]) {
        let mut device = OnePacket { packet: Some(packet), mtu: self.mtu, sink: self.sink };
        let _ = interface.poll_ingress_single(smol_time(self.now), &mut device, self.sockets);
    }

    fn egress(&mut self, interface: &mut Interface) {
        let now = smol_time(self.now);
        for _ in 0..BURST_MAX {
            let mut device = OnePacket { packet: None, mtu: self.mtu, sink: self.sink };
            let sent = interface.poll_egress(now, &mut device, self.sockets);
            if sent == PollResult::None || !self.sink.wants_more() {
                break;
            }
        }
    }
}

#[inline]
fn with_interface<R>(mtu: usize, work: impl FnOnce(&mut Interface) -> R) -> R {
    let mut work = Some(work);
    let done = INTERFACES.try_with(|all| {
        let mut all = all.borrow_mut();
        let at = all.iter().position(|(of, _)| *of == mtu).unwrap_or_else(|| {
            all.push((mtu, interface(mtu, 0)));
            all.len() - 1
        });
        work.take().map(|work| work(&mut all[at].1))
    });
    match (done, work) {
        (Ok(Some(done)), _) => done,
        // The thread ends, and a socket among its last belongings is closed.
        (_, Some(work)) => work(&mut interface(mtu, 0)),
        (_, None) => unreachable!("done, or still to be done"),
    }
}

/// `connect` with sequence numbers from `seed`.
pub(super) fn with_fresh<R>(mtu: usize, seed: u64, work: impl FnOnce(&mut Interface) -> R) -> R {
    work(&mut interface(mtu, seed))
}

fn interface(mtu: usize, seed: u64) -> Interface {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut device = OnePacket { packet: None, mtu, sink: &mut Closed };
    let mut interface = Interface::new(config, &mut device, time::Instant::ZERO);
    // Which addresses are ours is decided before a packet comes here.
    interface.set_any_ip(true);
    interface
}

/// Takes nothing.
struct Closed;

impl PacketSink for Closed {
    fn is_open(&self) -> bool {
        false
    }
    fn send(&mut self, _: usize, _: &mut dyn FnMut(&mut [u8])) {
        unreachable!("a closed sink is never sent to");
    }
    fn wants_more(&self) -> bool {
        false
    }
}

/// smoltcp's device: at most one received packet, and the sink.
struct OnePacket<'a, 's> {
    packet: Option<&'a [u8]>,
    mtu: usize,
    sink: &'a mut (dyn PacketSink + 's),
}

struct Received<'a>(&'a [u8]);

struct Sending<'a, 's>(&'a mut (dyn PacketSink + 's));

impl<'s> Device for OnePacket<'_, 's> {
    type RxToken<'a>
        = Received<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Sending<'a, 's>
    where
        Self: 'a;

    fn receive(&mut self, _: time::Instant) -> Option<(Received<'_>, Sending<'_, 's>)> {
        // An answer to a received packet is sent at once: if the sink is not open, it keeps the packet.
        let packet = self.packet.take()?;
        Some((Received(packet), Sending(self.sink)))
    }

    fn transmit(&mut self, _: time::Instant) -> Option<Sending<'_, 's>> {
        self.sink.is_open().then_some(Sending(self.sink))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        caps.medium = Medium::Ip;
        caps.max_transmission_unit = self.mtu;
        // Verified before a packet comes here, computed after it leaves.
        caps.checksum = ChecksumCapabilities::ignored();
        caps
    }
}

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl TxToken for Sending<'_, '_> {
    #[inline]
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut fill = Some(f);
        let mut result = None;
        self.0.send(len, &mut |packet| {
            let fill = fill.take().expect("a sink fills a packet once");
            result = Some(fill(packet));
        });
        result.expect("a sink fills each packet")
    }
}

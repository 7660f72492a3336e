//! The same experiment on the kernel: AF_XDP sockets of our own on the two ends of a veth pair.
//!
//! A driver that tells no NAPI instance of its queues, as veth's, gives an AF_XDP socket nothing to poll: busy polling set
//! on it does nothing (`xsk_bind` takes the id from `rxq->napi`). What polls instead is a receive on a *pilot*: a UDP socket
//! that has received one packet through the instance and so knows it. Each receive that does not wait is one poll, and puts
//! packets for the AF_XDP socket into its ring.

use std::collections::VecDeque;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use napier_core::control::plan::apply;
use napier_core::frames::{HEADER_BYTES, Template, udp_payload};
use napier_linux::socket::{self, BusyOption};
use napier_linux::{KernelSink, Veth, VethEnd};
use napier_runtime::device::{BareReceiver, BareSender, BareXdp, XdpConfig, XdpFilter, XdpMode};
use napier_sys::sched::pin_current_thread;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::programs::{BUSY_READ_US, ClientEnd, EndOutcome, RigShared, STOP_LOOK, client_loop, send_all};
use super::{RawRr, RawRrConfig, RawRrMode, RigPlaces};
use crate::bench::kernel_pair::{put_in_force, veth};
use crate::bench::rounds::{Stopped, nanos};
use crate::modes::busy_socket;
use crate::pair::{PEER_IP, PEER_MAC, TESTED_IP, TESTED_MAC};

/// Ports of the experiment's datagrams, which are for the AF_XDP sockets; all else is the kernel's.
const CLIENT_PORT: u16 = 54_320;
const SERVER_PORT: u16 = 54_321;
/// Port of the pilots.
const PILOT_PORT: u16 = 54_319;
/// Payload of a datagram: 64 bytes on the wire, as of the engine's.
const PAYLOAD_BYTES: usize = 22;
/// How long a pilot waits for its first packet, and how often it is sent one.
const PILOT_MAX: Duration = Duration::from_secs(2);

/// Both ends.
struct KernelRig {
    client: BareXdp,
    server: BareXdp,
    /// Of the client and of the server, in the modes that need them.
    pilots: Option<(UdpSocket, UdpSocket)>,
    _pair: Veth,
}

/// Whether this kernel has a mode.
pub(super) fn has(mode: RawRrMode) -> Result<(), Stopped> {
    put_in_force(veth(1)?.left(), &mode.plan(), |_| None)
}

/// Runs one experiment.
pub(super) fn run(config: &RawRrConfig, places: &RigPlaces) -> Result<RawRr, Stopped> {
    let pair = veth(1)?;
    let open = |end: &VethEnd, port| match BareXdp::open(&xdp(end, port)?) {
        Ok(bare) => Ok(bare),
        Err(error) if error.is_privilege() => Err(Stopped::Refused(format!("no AF_XDP socket: {error}"))),
        Err(error) => Err(Stopped::Failed(anyhow::Error::new(error).context("an AF_XDP socket"))),
    };
    let (client, server) = (open(pair.right(), CLIENT_PORT)?, open(pair.left(), SERVER_PORT)?);
    let ends = [(pair.right(), places.pollers.map(|p| p.0)), (pair.left(), places.pollers.map(|p| p.1))];
    for (end, poller) in ends {
        put_in_force(end, &config.mode.plan(), |_| poller)?;
    }
    let needs_pilot = matches!(config.mode, RawRrMode::BusyRead | RawRrMode::BusyReadSeparate);
    let pilots = needs_pilot.then(|| pilots(&pair)).transpose()?;
    let (outcome, sent) = KernelRig { client, server, pilots, _pair: pair }.run(config, places)?;
    Ok(RawRr { polled_by: Some(polled_by(config.mode)), ..config.measured(places, outcome, sent) })
}

fn polled_by(mode: RawRrMode) -> &'static str {
    match mode {
        RawRrMode::Interrupts => "softirq on the CPU that sends, as veth does it",
        RawRrMode::BusyRead => "the program, by a pilot UDP socket: veth tells an AF_XDP socket no NAPI instance",
        RawRrMode::BusyReadSeparate => "a thread, by a pilot UDP socket: veth tells an AF_XDP socket no NAPI instance",
        RawRrMode::ThreadedBusyPoll => "the kernel's thread of the instance",
    }
}

/// In the driver, for only there packets of an AF_XDP socket pass a NAPI instance of a veth.
fn xdp(end: &VethEnd, port: u16) -> anyhow::Result<XdpConfig> {
    Ok(XdpConfig {
        netns: Some(end.netns().as_fd().try_clone_to_owned()?.into()),
        mode: XdpMode::Native,
        filter: XdpFilter::Ports { addresses: Vec::new(), udp: vec![port..=port], tcp: Vec::new() },
        ..XdpConfig::on(end.name())
    })
}

/// A UDP socket at each end that knows its instance, for one packet has come through it.
fn pilots(pair: &Veth) -> anyhow::Result<(UdpSocket, UdpSocket)> {
    let (client, server) = (SocketAddrV4::new(PEER_IP, PILOT_PORT), SocketAddrV4::new(TESTED_IP, PILOT_PORT));
    let client_socket = pair.right().netns().run(|| UdpSocket::bind(client))??;
    let server_socket = pair.left().netns().run(|| UdpSocket::bind(server))??;
    for (from, to, socket) in [(&client_socket, server, &server_socket), (&server_socket, client, &client_socket)] {
        let begun = Instant::now();
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        loop {
            ensure!(begun.elapsed() < PILOT_MAX, "no packet reached the pilot at {to}: its instance stays unknown");
            from.send_to(&[0], to)?;
            if socket.recv(&mut [0; 8]).is_ok() {
                break;
            }
        }
        let id = socket::get(socket, BusyOption::IncomingNapiId)?;
        ensure!(id != 0, "the packet of the pilot at {to} came through no NAPI instance");
        socket.set_nonblocking(true)?;
        let plan = busy_socket(i32::try_from(BUSY_READ_US)?).into_iter().collect();
        apply(&mut KernelSink::Socket(socket.as_fd()), &plan)?;
    }
    Ok((client_socket, server_socket))
}

/// One poll of the instance that the pilot knows.
fn poll_by(pilot: &UdpSocket) {
    // Nobody sends to it any more, so it never has anything.
    let _ = pilot.recv(&mut [0; 8]);
}

impl KernelRig {
    fn run(mut self, config: &RawRrConfig, places: &RigPlaces) -> anyhow::Result<(EndOutcome, u64)> {
        let (stop, mode) = (AtomicBool::new(false), config.mode);
        let shared = RigShared { stop: &stop, sent: AtomicU64::new(0) };
        let (client_pilot, server_pilot) = self.pilots.as_ref().map(|(a, b)| (a, b)).unzip();
        let separate = mode == RawRrMode::BusyReadSeparate;
        let begun = Instant::now();
        let (server, client) = (&mut self.server, &mut self.client);
        let outcome = std::thread::scope(|scope| {
            if let (Some((client_cpu, server_cpu)), true) = (places.pollers, separate) {
                for (cpu, pilot) in [(client_cpu, client_pilot), (server_cpu, server_pilot)] {
                    let (pilot, stop) = (pilot.expect("the mode has them"), &stop);
                    scope.spawn(move || {
                        pin_current_thread(cpu);
                        while !stop.load(Ordering::Acquire) {
                            poll_by(pilot);
                        }
                    });
                }
            }
            let inline = |pilot| if separate { None } else { pilot };
            let (server_pilot, client_pilot) = (inline(server_pilot), inline(client_pilot));
            let (cpu, shared) = (places.server, &shared);
            scope.spawn(move || {
                pin_current_thread(cpu);
                serve(server, mode, server_pilot, shared);
            });
            let client = scope.spawn(move || {
                pin_current_thread(places.client);
                ask(client, config, places, (client_pilot, begun), shared)
            });
            let outcome = client.join();
            stop.store(true, Ordering::Release);
            outcome.expect("the client does not panic")
        });
        Ok((outcome, shared.sent.load(Ordering::Relaxed)))
    }
}

/// Looks once, or waits as the mode's program does.
fn wait(receiver: &BareReceiver, mode: RawRrMode, pilot: Option<&UdpSocket>, at_most: Duration) {
    match (mode, pilot) {
        (RawRrMode::Interrupts, _) => {
            let timeout = Timespec::try_from(at_most).expect("waits are short");
            // Whatever it says, the ring is looked at next.
            let _ = poll(&mut [PollFd::from_borrowed_fd(receiver.as_fd(), PollFlags::IN)], Some(&timeout));
        }
        (_, Some(pilot)) => poll_by(pilot),
        _ => std::hint::spin_loop(),
    }
}

fn serve(end: &mut BareXdp, mode: RawRrMode, pilot: Option<&UdpSocket>, shared: &RigShared<'_>) {
    while !shared.stop.load(Ordering::Acquire) {
        if end.echo(turn_round) == 0 {
            wait(end.parts().0, mode, pilot, STOP_LOOK);
        }
    }
}

/// What a datagram was sent from becomes where it goes. Its checksum stays right, for it is a sum.
fn turn_round(frame: &mut [u8]) -> bool {
    if udp_payload(frame).is_none() {
        return false;
    }
    for (at, bytes) in [(0, 6), (26, 4), (34, 2)] {
        let (first, second) = frame[at..at + 2 * bytes].split_at_mut(bytes);
        first.swap_with_slice(second);
    }
    true
}

struct Asker<'a> {
    receiver: &'a mut BareReceiver,
    /// Without a thread that sends.
    sender: Option<&'a mut BareSender>,
    template: &'a Template,
    mode: RawRrMode,
    pilot: Option<&'a UdpSocket>,
    stamps: VecDeque<u64>,
    begun: Instant,
}

fn ask(
    end: &mut BareXdp,
    config: &RawRrConfig,
    places: &RigPlaces,
    (pilot, begun): (Option<&UdpSocket>, Instant),
    shared: &RigShared<'_>,
) -> EndOutcome {
    let (from, to) = (SocketAddrV4::new(PEER_IP, CLIENT_PORT), SocketAddrV4::new(TESTED_IP, SERVER_PORT));
    let template = &Template::new(PEER_MAC, TESTED_MAC, from, to);
    let (receiver, sender) = end.parts();
    let mut asker =
        Asker { receiver, sender: None, template, mode: config.mode, pilot, stamps: VecDeque::new(), begun };
    let Some(cpu) = places.sender else {
        asker.sender = Some(sender);
        return client_loop(&mut asker, config, shared, true);
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin_current_thread(cpu);
            send_all(config, shared, &|| since(begun), |intended_ns| send(sender, template, intended_ns));
        });
        client_loop(&mut asker, config, shared, false)
    })
}

/// Sends a request. If the ring is full it is lost: counted as sent and never answered.
fn send(sender: &mut BareSender, template: &Template, intended_ns: u64) {
    sender.send(1, |frame| {
        frame[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(&intended_ns.to_le_bytes());
        frame[HEADER_BYTES + 8..HEADER_BYTES + PAYLOAD_BYTES].fill(0);
        template.complete(frame, PAYLOAD_BYTES)
    });
}

fn since(begun: Instant) -> u64 {
    nanos(begun.elapsed())
}

impl ClientEnd for Asker<'_> {
    fn now_ns(&self) -> u64 {
        since(self.begun)
    }

    fn ask(&mut self, intended_ns: u64) {
        if let Some(sender) = &mut self.sender {
            send(sender, self.template, intended_ns);
        }
    }

    fn receive(&mut self, at_most: Duration) -> bool {
        let Self { receiver, stamps, .. } = self;
        let look = |receiver: &mut BareReceiver, stamps: &mut VecDeque<u64>| {
            receiver.receive(|frame| {
                let stamp = udp_payload(frame).and_then(|(_, payload)| payload.get(..8)?.try_into().ok());
                stamps.extend(stamp.map(u64::from_le_bytes));
            });
            !stamps.is_empty()
        };
        if look(receiver, stamps) {
            return true;
        }
        wait(receiver, self.mode, self.pilot, at_most);
        look(receiver, stamps)
    }

    fn next(&mut self) -> Option<u64> {
        self.stamps.pop_front()
    }
}

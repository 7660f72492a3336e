//! An experiment: how fast TCP is over a path that loses one packet in a hundred and delays by 10 ms, beside the kernel's
//! TCP over the same path to the same receiver. It prints figures and asserts none.
//!
//! ```sh
//! cargo test --release -p napier-runtime --test xdp -- --ignored --nocapture lossy
//! ```
//!
//! The path is a thread between two veth pairs (and, for the engine's sender, a link) that carries frames by AF_XDP.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use napier_runtime::device::{DeviceHandle, EndConfig, LinkConfig, XdpConfig, XdpFilter};
use napier_runtime::engine::Engine;
use napier_runtime::raw::RawPort;
use napier_runtime::socket::{CongestionControl, NetNs, TcpStream};
use napier_testkit::Dice;
use napier_testnet::{self as net, EndConfig as VethEndConfig, Veth, VethConfig, ip};

use crate::rig::{Xdp, end_in};

const DELAY: Duration = Duration::from_millis(10);
const LOST_PER_MILLE: u64 = 10;
/// Frames that the path holds at most: far more than are ever under way.
const HELD_MAX: usize = 10_000;
const LASTS: Duration = Duration::from_secs(6);
const ROUNDS: u64 = 2;

const SENDER: [u8; 6] = [2, 0, 0, 0x60, 0, 1];
const RECEIVER: [u8; 6] = [2, 0, 0, 0x60, 0, 2];
const ENGINE: [u8; 6] = [2, 0, 0, 0x60, 0, 3];
const PORT: u16 = 7000;

/// Who sends.
#[derive(Copy, Clone, Debug)]
enum Sender {
    Kernel(&'static str),
    Engine(CongestionControl),
}

struct Rig {
    near: Veth,
    far: Veth,
    near_box: Xdp,
    far_box: Xdp,
    ns: NetNs,
    link_box: DeviceHandle,
}

fn veth(name: &str, mac: [u8; 6], addr: &str) -> Option<Veth> {
    let kernel = VethEndConfig::new(&format!("{name}k"), mac).address(ip(addr), 24);
    let carrier = VethEndConfig::new(&format!("{name}b"), [2, 0, 0, 0x61, 0, mac[5]]);
    let config = VethConfig { queues: 1, tx_checksum: false, tso: false, ..VethConfig::new(kernel, carrier) };
    net::pair("rates_over_a_lossy_path", &config)
}

impl Rig {
    fn new() -> Option<Self> {
        let (near, far) = (veth("near", SENDER, "10.60.0.1")?, veth("far", RECEIVER, "10.60.0.2")?);
        near.left().add_neighbour(ip("10.60.0.2"), RECEIVER).unwrap();
        for (addr, mac) in [("10.60.0.1", SENDER), ("10.60.0.3", ENGINE)] {
            far.left().add_neighbour(ip(addr), mac).unwrap();
        }
        let engine = Engine::builder().start().unwrap();
        let config = || XdpConfig { ring_size: 2048, filter: XdpFilter::Everything, ..XdpConfig::on("") };
        let near_box = Xdp::in_engine(&engine, near.right(), config(), &[]).unwrap();
        let far_box = Xdp::in_engine(&engine, far.right(), config(), &[]).unwrap();
        let (ns, box_ns) = (engine.namespace(), engine.namespace());
        let own = EndConfig { mac: ENGINE, ..end_in(&ns, "sender", &["10.60.0.3"]) };
        let other = EndConfig { mac: [2, 0, 0, 0x61, 0, 3], ..end_in(&box_ns, "box", &[]) };
        let (sender, link_box) = engine.add_link(&LinkConfig::default(), own, other).unwrap();
        ns.neighbour_add(sender.ifindex(), ip("10.60.0.2"), RECEIVER).unwrap();
        Some(Self { near, far, near_box, far_box, ns, link_box })
    }

    /// Bytes per second that arrive.
    fn run(&self, sender: Sender, seed: u64) -> (f64, u64, u64) {
        let server: SocketAddr = format!("10.60.0.2:{PORT}").parse().unwrap();
        let listener = self.far.left().netns().run(|| std::net::TcpListener::bind(server)).unwrap().unwrap();
        let near = match sender {
            Sender::Kernel(_) => &self.near_box.device,
            Sender::Engine(_) => &self.link_box,
        };
        let path = Path::between(near, &self.far_box.device, seed);
        let before = self.ns.counters().tcp_retrans_segs;
        let mut rate = 0.0;
        std::thread::scope(|scope| {
            let receiver = scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let (begun, mut bytes, mut room) = (Instant::now(), 0, vec![0; 1 << 16]);
                loop {
                    match stream.read(&mut room) {
                        Ok(0) | Err(_) => return bytes as f64 / begun.elapsed().min(LASTS).as_secs_f64(),
                        Ok(count) if begun.elapsed() < LASTS => bytes += count,
                        Ok(_) => {}
                    }
                }
            });
            let until = Instant::now() + LASTS + Duration::from_millis(200);
            let data = vec![0x5a; 1 << 16];
            match sender {
                Sender::Kernel(control) => {
                    let connect = || std::net::TcpStream::connect(server);
                    let mut stream = self.near.left().netns().run(connect).unwrap().unwrap();
                    rustix::net::sockopt::set_tcp_congestion(&stream, control).unwrap();
                    while Instant::now() < until {
                        stream.write_all(&data).unwrap();
                    }
                }
                Sender::Engine(control) => {
                    let builder = TcpStream::builder().sndbuf(4 << 20).congestion(control);
                    let stream = builder.connect(&self.ns, server).unwrap();
                    while Instant::now() < until {
                        (&stream).write_all(&data).unwrap();
                    }
                    stream.set_linger(Some(Duration::ZERO)).unwrap();
                }
            }
            rate = receiver.join().unwrap();
        });
        (rate, path.lost.load(Ordering::Relaxed), self.ns.counters().tcp_retrans_segs - before)
    }
}

/// The thread that carries frames.
struct Path {
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Path {
    fn between(near: &DeviceHandle, far: &DeviceHandle, seed: u64) -> Self {
        let ports = [near, far].map(|device| RawPort::bind(device, 0).unwrap());
        let (stop, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (stop.clone(), lost.clone());
        let thread = std::thread::spawn(move || {
            let (mut dice, mut held) = (Dice(seed), VecDeque::new());
            while !stopped.load(Ordering::Relaxed) {
                let now = Instant::now();
                ports[0].recv();
                ports[0].drain(usize::MAX, |frame| {
                    if dice.roll(1000) < LOST_PER_MILLE || held.len() >= HELD_MAX {
                        count.fetch_add(1, Ordering::Relaxed);
                    } else {
                        held.push_back((now + DELAY, frame.to_vec()));
                    }
                });
                let mut back = Vec::new();
                ports[1].recv();
                ports[1].drain(usize::MAX, |frame| back.push(frame.to_vec()));
                let idle = back.is_empty();
                back.iter().for_each(|frame| put(&ports[0], frame));
                ports[0].flush();
                while let Some((at, frame)) = held.front()
                    && *at <= now
                {
                    put(&ports[1], frame);
                    held.pop_front();
                }
                ports[1].flush();
                if idle {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        });
        Self { stop, lost, thread: Some(thread) }
    }
}

/// A ring that is full loses the frame, as on any path.
fn put(port: &RawPort, frame: &[u8]) {
    let _ = port.build(frame.len(), |slot| {
        slot[..frame.len()].copy_from_slice(frame);
        frame.len()
    });
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().expect("ended once").join();
    }
}

#[test]
#[ignore = "an experiment that takes two minutes"]
fn rates_over_a_lossy_path() {
    let Some(rig) = Rig::new() else { return };
    let senders = [
        Sender::Kernel("cubic"),
        Sender::Kernel("reno"),
        Sender::Engine(CongestionControl::Reno),
        Sender::Engine(CongestionControl::Cubic),
        Sender::Engine(CongestionControl::None),
    ];
    for round in 0..ROUNDS {
        for sender in senders {
            let (rate, lost, again) = rig.run(sender, round);
            let _ = writeln!(
                std::io::stderr(),
                "round {round} {sender:?}: {:.2} MB/s, {lost} frames lost, {again} segments of the engine sent again",
                rate / 1e6
            );
        }
    }
}

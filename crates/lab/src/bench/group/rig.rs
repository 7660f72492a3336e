//! Links whose tested ends are polled by a group, by threads or by interrupt, and one thread that sends and looks for what it sent:
//! what it measures is the poller alone, from the send until the socket has the datagram.

use std::io::ErrorKind;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use hdrhistogram::Histogram;
use napier_core::frames::{HEADER_BYTES, Template};
use napier_rng::{Xoshiro256PlusPlus, below, open_unit, stream};
use napier_runtime::device::{DeviceHandle, EndConfig, LinkConfig};
use napier_runtime::engine::{Engine, GroupSettings};
use napier_runtime::raw::RawPort;
use napier_runtime::socket::UdpSocket;

use super::super::rtt::histogram;
use crate::apply;
use crate::modes::Mode;
use crate::pair::{PEER_IP, Side, TESTED_IP, engine_on, start_engine};

const PORT: u16 = 9;
/// A datagram that has not come after this time is lost.
const PATIENCE: Duration = Duration::from_secs(5);
const GROUP: &str = "bench";

/// Who polls the tested ends.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum RigPoller {
    /// The softirq CPU, by interrupt.
    Base,
    /// A thread for each end, for ever.
    Threads,
    /// A group.
    Group(GroupSettings),
}

/// One link: both sockets.
pub(super) struct RigWire {
    pub(super) tested: DeviceHandle,
    peer: DeviceHandle,
    /// Receives.
    pub(super) receiver: UdpSocket,
    /// Sends.
    pub(super) sender: UdpSocket,
}

/// All of it.
pub(super) struct Rig {
    pub(super) engine: Engine,
    pub(super) wires: Vec<RigWire>,
    dice: Xoshiro256PlusPlus,
}

impl Rig {
    /// So many links; all pollers are on `cpus`, softirqs of the tested ends on the first of them.
    pub(super) fn new(links: usize, poller: RigPoller, cpus: &[usize], own_cpu: usize) -> anyhow::Result<Self> {
        Self::on(start_engine(&cpus[..1], &[own_cpu])?, links, poller, cpus, own_cpu)
    }

    /// One link that a group polls on a CPU, with dry runs or without.
    pub(super) fn with_dry_runs(dry_runs: bool, cpu: usize, own_cpu: usize) -> anyhow::Result<Self> {
        let engine = engine_on(&[cpu], &[own_cpu]).cache_warming(dry_runs).start()?;
        Self::on(engine, 1, RigPoller::Group(GroupSettings::default()), &[cpu], own_cpu)
    }

    fn on(engine: Engine, links: usize, poller: RigPoller, cpus: &[usize], own_cpu: usize) -> anyhow::Result<Self> {
        if let RigPoller::Group(settings) = poller {
            engine.group_new(GROUP, cpus, settings)?;
        }
        let wires =
            (0..links).map(|number| wire(&engine, number, cpus[0], own_cpu)).collect::<anyhow::Result<Vec<_>>>()?;
        for wire in &wires {
            match poller {
                RigPoller::Base => {}
                RigPoller::Threads => {
                    apply::on_device(&engine, &wire.tested, &Mode::ThreadedBusyPoll.plan(), |_| Some(cpus[0]))?;
                }
                RigPoller::Group(_) => engine.group_attach(GROUP, wire.tested.napi_id(0))?,
            }
        }
        Ok(Self { engine, wires, dice: stream(1, "bench-group") })
    }

    /// From the send until the datagram can be read, `samples` times on links by chance, each after a pause of about `gap` that the
    /// sender spends spinning, or asleep if it is `idle`.
    pub(super) fn deliver(&mut self, samples: u32, gap: Duration, idle: bool) -> anyhow::Result<Histogram<u64>> {
        let mut latency = histogram();
        let warm_up = samples / 10;
        for sample in 0..samples + warm_up {
            let wire = below(&mut self.dice, u32::try_from(self.wires.len())?) as usize;
            let gap = gap.mul_f64(0.5 + open_unit(&mut self.dice));
            if idle {
                std::thread::sleep(gap);
            } else {
                let until = Instant::now() + gap;
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
            }
            let took = self.wires[wire].deliver_one(sample)?;
            if sample >= warm_up {
                latency.saturating_record(u64::try_from(took.as_nanos())?);
            }
        }
        Ok(latency)
    }

    /// One link more, which its softirq CPU alone polls.
    pub(super) fn another(&self, tested_cpu: usize, own_cpu: usize) -> anyhow::Result<RigWire> {
        wire(&self.engine, self.wires.len(), tested_cpu, own_cpu)
    }

    /// One CPU more for the group.
    pub(super) fn join(&self, cpu: usize) -> anyhow::Result<()> {
        Ok(self.engine.group_attach_cpu(GROUP, cpu)?)
    }

    /// CPUs of the group that poll at this moment.
    pub(super) fn awake(&self) -> Vec<usize> {
        let groups = self.engine.groups();
        let polls = |cpu: &&napier_runtime::engine::PollerInfo| cpu.doing == napier_runtime::engine::Doing::Active;
        groups.iter().flat_map(|group| &group.cpus).filter(polls).map(|cpu| cpu.cpu.into()).collect()
    }

    /// Polls of all tested ends so far.
    pub(super) fn polls(&self) -> u64 {
        let of = |wire: &RigWire| wire.tested.napi_stats(0).polls.total();
        self.wires.iter().map(of).sum()
    }

    /// CPU time of all threads of the engine so far.
    pub(super) fn cpu_time(&self) -> Duration {
        self.engine.thread_times().iter().map(|thread| thread.cpu).sum()
    }
}

/// Sends frames faster than a CPU delivers them.
pub(super) struct Flood {
    port: RawPort,
    template: Template,
}

impl Flood {
    /// So many datagrams to the wire's receiver, as far as the ring has room.
    pub(super) fn send(&self, frames: usize) {
        for _ in 0..frames {
            // A ring that is full is load enough.
            let _ = self.port.build(HEADER_BYTES + 4, |frame| self.template.complete(frame, 4));
        }
        self.port.flush();
    }
}

impl RigWire {
    /// From here on the peer is a generator's.
    pub(super) fn flood(&self) -> anyhow::Result<Flood> {
        let (from, to) = (SocketAddrV4::new(PEER_IP, PORT), SocketAddrV4::new(TESTED_IP, PORT));
        let template = Template::new(self.peer.mac(), self.tested.mac(), from, to);
        Ok(Flood { port: RawPort::bind(&self.peer, 0)?, template })
    }

    /// Sends one datagram and waits for it.
    pub(super) fn deliver_one(&self, number: u32) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.sender.send(&number.to_ne_bytes()).context("sending")?;
        let mut bytes = [0; 4];
        loop {
            match self.receiver.recv(&mut bytes) {
                Ok(_) => {
                    let took = began.elapsed();
                    ensure!(bytes == number.to_ne_bytes(), "another datagram came than the one that was sent");
                    return Ok(took);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("receiving"),
            }
            if began.elapsed() > PATIENCE {
                bail!("a datagram did not come within {PATIENCE:?}");
            }
        }
    }
}

fn wire(engine: &Engine, number: usize, tested_cpu: usize, own_cpu: usize) -> anyhow::Result<RigWire> {
    let (tested_ns, peer_ns) = (engine.namespace(), engine.namespace());
    let named = |end: EndConfig| EndConfig { name: format!("{}{number}", end.name), ..end };
    let tested = named(Side::Tested.config(&tested_ns, &[tested_cpu]));
    let peer = named(Side::Peer.config(&peer_ns, &[own_cpu]));
    let (tested, peer) = engine.add_link(&LinkConfig::default(), tested, peer)?;
    Side::Tested.introduce_peer(&tested_ns, &tested)?;
    Side::Peer.introduce_peer(&peer_ns, &peer)?;
    let receiver = UdpSocket::bind(&tested_ns, SocketAddr::from((TESTED_IP, PORT)))?;
    receiver.set_nonblocking(true)?;
    let sender = UdpSocket::bind(&peer_ns, SocketAddr::from((PEER_IP, PORT)))?;
    sender.connect(SocketAddr::from((TESTED_IP, PORT)))?;
    Ok(RigWire { tested, peer, receiver, sender })
}

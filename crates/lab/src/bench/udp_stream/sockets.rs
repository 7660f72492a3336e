//! The engine's own path: UDP sockets, with or without a queueing discipline.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use napier_runtime::raw::RawPort;
use napier_runtime::socket::UdpSocket;
use napier_runtime::tx::TxVariant;
use rustix::io::Errno;

use super::paths::{PathCounts, SendOutcome, Sender, StreamFlow, StreamPath};
use super::setup::StreamSetup;
use crate::pair::Pair;
use crate::report::{LockWaits, PowerHistogram};

/// How long a ring may stay full: only a stall takes that long.
const ROOM_WITHIN: Duration = Duration::from_secs(20);

/// Sockets of the engine; who hands over to whom is the engine's matter.
pub(super) struct SocketPath {
    queues: u16,
    variant: Option<TxVariant>,
    xmit: bool,
}

struct SocketSender(UdpSocket);

impl StreamPath for SocketPath {
    fn open(pair: &Pair, _ports: Vec<RawPort>, setup: StreamSetup<'_>) -> anyhow::Result<Self> {
        let Some(variant) = setup.tx_variant else {
            return Ok(Self { queues: setup.queues, variant: None, xmit: false });
        };
        for queue in 0..setup.queues {
            let owner_cpu = setup.pin.then(|| setup.cpus[usize::from(queue) % setup.cpus.len()]);
            pair.tested.set_qdisc(queue, setup.qdisc)?;
            pair.tested.set_tx_variant_on(queue, variant, owner_cpu)?;
        }
        pair.tested.measure_xmit(setup.xmit);
        Ok(Self { queues: setup.queues, variant: Some(variant), xmit: setup.xmit })
    }

    fn sender(&self, pair: &Pair, flow: StreamFlow) -> anyhow::Result<impl Sender + '_> {
        let socket = UdpSocket::bind(&pair.tested_ns, SocketAddr::V4(flow.from)).context("a sender's socket")?;
        socket.connect(SocketAddr::V4(flow.to))?;
        // What has no room comes back at once: such a call is not timed, as with the other paths.
        socket.set_nonblocking(true)?;
        Ok(SocketSender(socket))
    }

    fn counts(&self, pair: &Pair) -> anyhow::Result<PathCounts> {
        let mut all = PathCounts::default();
        let Some(variant) = self.variant else { return Ok(all) };
        for queue in 0..self.queues {
            let stats = pair.tested.tx_stats(queue)?;
            all.merge(&PathCounts {
                lock_waits: LockWaits {
                    contended: stats.lock_waits,
                    total_ns: stats.lock_wait_ns as u64,
                    max_ns: None,
                },
                batch: PowerHistogram(stats.batches),
                dropped: stats.burst_drops + stats.drops.iter().map(|(_, packets)| packets).sum::<u64>(),
                ..PathCounts::default()
            });
        }
        if self.xmit {
            let times = pair.tested.xmit_times();
            let calls = all.xmit_ns.insert(PowerHistogram::default());
            for bucket in &times.buckets {
                calls.add_many(f64::midpoint(bucket.from_ns, bucket.below_ns) as u64, bucket.calls);
            }
            all.stay_max_ns = (variant == TxVariant::Llist).then_some(times.stay_max_ns);
        }
        Ok(all)
    }
}

impl Sender for SocketSender {
    #[inline]
    fn send(&mut self, payload: &[u8]) -> anyhow::Result<SendOutcome> {
        match self.0.send(payload) {
            Ok(_) => Ok(SendOutcome::Sent),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.0.set_nonblocking(false)?;
                self.send_late(payload)?;
                self.0.set_nonblocking(true)?;
                Ok(SendOutcome::SentLate)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn finish(self) -> PathCounts {
        PathCounts::default()
    }
}

impl SocketSender {
    /// Waits for room. A sender without a discipline gives up (ENOBUFS) after it has yielded some times, which on a busy machine is before the
    /// other end had a processor: it tries again for as long as that may take.
    #[cold]
    fn send_late(&self, payload: &[u8]) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            match self.0.send(payload) {
                Ok(_) => return Ok(()),
                Err(error)
                    if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) && begun.elapsed() < ROOM_WITHIN =>
                {
                    std::thread::yield_now();
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

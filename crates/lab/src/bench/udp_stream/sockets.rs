//! The engine's own path: UDP sockets, with or without a queueing discipline.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use napier_runtime::{RawPort, TxVariant, UdpSocket};

use super::paths::{Flow, Outcome, Path, PathCounts, Sender};
use super::run::Setup;
use crate::pair::Pair;
use crate::report::{LockWaits, PowerHistogram};

/// Sockets of the engine; who hands over to whom is the engine's matter.
pub(super) struct SocketPath {
    queues: u16,
    variant: Option<TxVariant>,
}

struct SocketSender(UdpSocket);

impl Path for SocketPath {
    fn open(pair: &Pair, _ports: Vec<RawPort>, setup: Setup<'_>) -> anyhow::Result<Self> {
        let Some(variant) = setup.tx_variant else { return Ok(Self { queues: setup.queues, variant: None }) };
        for queue in 0..setup.queues {
            let owner_cpu = setup.pin.then(|| setup.cpus[usize::from(queue) % setup.cpus.len()]);
            pair.tested.set_qdisc(queue, setup.qdisc)?;
            pair.tested.set_tx_variant_on(queue, variant, owner_cpu)?;
        }
        Ok(Self { queues: setup.queues, variant: Some(variant) })
    }

    fn sender(&self, pair: &Pair, flow: Flow) -> anyhow::Result<impl Sender + '_> {
        let socket = UdpSocket::bind(&pair.tested_ns, SocketAddr::V4(flow.from)).context("a sender's socket")?;
        socket.connect(SocketAddr::V4(flow.to))?;
        // What has no room comes back at once and counts as no call, as with the other paths.
        socket.set_nonblocking(true)?;
        Ok(SocketSender(socket))
    }

    fn counts(&self, pair: &Pair) -> anyhow::Result<PathCounts> {
        let mut all = PathCounts::default();
        if self.variant.is_none() {
            return Ok(all);
        }
        for queue in 0..self.queues {
            let stats = pair.tested.tx_stats(queue)?;
            let mut batch = PowerHistogram::default();
            for (power, batches) in (0..).zip(stats.batches) {
                batch.add_power(power, batches);
            }
            all.merge(&PathCounts {
                lock_waits: LockWaits {
                    contended: stats.lock_waits,
                    total_ns: stats.lock_wait_ns as u64,
                    max_ns: None,
                },
                batch,
                dropped: stats.burst_drops + stats.drops.iter().map(|(_, packets)| packets).sum::<u64>(),
                stay_max_ns: (self.variant == Some(TxVariant::Llist)).then_some(stats.stay_max_ns),
            });
        }
        Ok(all)
    }
}

impl Sender for SocketSender {
    #[inline]
    fn send(&mut self, payload: &[u8]) -> anyhow::Result<Outcome> {
        match self.0.send(payload) {
            Ok(_) => Ok(Outcome::Sent),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Outcome::Full),
            Err(error) => Err(error.into()),
        }
    }

    fn finish(self) -> PathCounts {
        PathCounts::default()
    }
}

/// CPU time so far of the engine's threads that transmit: owners of queues, and softirq, which takes over what others
/// leave.
pub(super) fn engine_time(pair: &Pair) -> Duration {
    pair.engine.thread_times().iter().map(|thread| thread.cpu).sum()
}

/// Waits until `there` or for a while.
pub(super) fn wait_until(longest: Duration, mut there: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !there()? && begun.elapsed() < longest {
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

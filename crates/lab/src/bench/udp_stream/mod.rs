//! `bench udp-stream`: many threads send datagrams as fast as they can over a link with few transmit queues.
//!
//! After the test that the lock-free list of the transmit path was proposed with ("net: dev_queue_xmit() llist
//! adoption"): each sender has a flow of its own, and what they share is the transmit queue.

mod paths;
mod run;
mod setup;
mod sockets;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use napier_runtime::tx::{QdiscConfig, TxVariant};
use napier_verdict::Metric;
use serde::Serialize;

use self::paths::{AlonePath, MutexPath, PathCounts, QueuePath};
use self::run::{StreamRun, run};
use self::setup::StreamSetup;
use self::sockets::SocketPath;
use super::rounds::{BenchDecided, Blocks, Compared, RowSlice, compared};
use super::stat::Spread;
use super::ticks::TickClock;
use crate::report::{CpuUse, LockWaits, PowerHistogram};
use crate::wrap::counted;

/// Most senders of an experiment: ports are counted up from 10000.
pub const UDP_STREAM_SENDERS_MAX: u32 = 4096;

/// Most bytes of a datagram: what fits an Ethernet frame with IPv4 and UDP headers.
pub const UDP_STREAM_BYTES_MAX: usize = 1472;

/// How a datagram gets from a sender into the transmit ring.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UdpStreamVariant {
    /// A socket, and a discipline behind a lock that every sender takes: Linux up to 6.18.
    Locked,
    /// A socket, and a lock-free list; the sender that finds it empty does the work for all: Linux since 6.19.
    Llist,
    /// A socket, and a lock-free list that a thread of the queue polls.
    Owner,
    /// A socket, and no discipline: the sender takes the transmit lock.
    Noqueue,
    /// No socket: the standard library's mutex round the ring: lock, build, send.
    Mutex,
    /// No socket: a bounded lock-free queue (crossbeam's `ArrayQueue`) to a thread that transmits.
    Ring,
    /// Nothing is shared: a sender per queue, as many as there are CPUs beside the receiver's, in batches of 64. What
    /// the link can do, beside which the others stand.
    Alone,
}

impl UdpStreamVariant {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Locked, Self::Llist, Self::Owner, Self::Noqueue, Self::Mutex, Self::Ring, Self::Alone];

    /// The name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::Llist => "llist",
            Self::Owner => "owner",
            Self::Noqueue => "noqueue",
            Self::Mutex => "mutex",
            Self::Ring => "ring",
            Self::Alone => "alone",
        }
    }

    /// The variant of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }

    /// How its sockets hand over to their queue's discipline; `None` if it has none.
    #[must_use]
    pub const fn tx_variant(self) -> Option<TxVariant> {
        match self {
            Self::Locked => Some(TxVariant::Locked),
            Self::Llist => Some(TxVariant::Llist),
            Self::Owner => Some(TxVariant::Owner),
            Self::Noqueue | Self::Mutex | Self::Ring | Self::Alone => None,
        }
    }

    /// What of `setup` this variant cannot use is cut down.
    fn fitted(self, setup: StreamSetup<'_>) -> StreamSetup<'_> {
        match self {
            Self::Locked | Self::Llist | Self::Owner | Self::Noqueue | Self::Mutex | Self::Ring => {
                StreamSetup { tx_variant: self.tx_variant(), ..setup }
            }
            Self::Alone => {
                let beside_receiver = u16::try_from(setup.cpus.len().saturating_sub(1)).unwrap_or(u16::MAX);
                let queues = setup.queues.min(beside_receiver.max(1));
                StreamSetup { queues, senders: u32::from(queues), ..setup }
            }
        }
    }

    fn run(self, setup: StreamSetup<'_>) -> anyhow::Result<StreamRun> {
        let setup = self.fitted(setup);
        match self {
            Self::Locked | Self::Llist | Self::Owner | Self::Noqueue => run::<SocketPath>(setup),
            Self::Mutex => run::<MutexPath>(setup),
            Self::Ring => run::<QueuePath>(setup),
            Self::Alone => run::<AlonePath>(setup),
        }
        .context(self.name())
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct UdpStreamConfig {
    /// Numbers of senders, each an experiment of its own.
    pub threads: Vec<u32>,
    /// Variants, interleaved.
    pub variants: Vec<UdpStreamVariant>,
    /// Discipline of the variants that have one.
    pub qdisc: QdiscConfig,
    /// Transmit queues of the link, 1 to 64.
    pub queues: u16,
    /// Bytes of each datagram.
    pub size_bytes: usize,
    /// Runs per variant.
    pub runs: u32,
    /// Length of each run.
    pub length: Duration,
    /// Keep each thread on one processor.
    pub pin: bool,
    /// Measure each transmit call inside the engine as well, which takes about 20 ns of each.
    pub xmit: bool,
}

/// One variant at one number of senders.
#[derive(Clone, Debug, Serialize)]
pub struct UdpStream {
    /// The variant.
    pub variant: UdpStreamVariant,
    /// Senders that ran; of `alone` fewer than were asked for.
    pub threads: u32,
    /// Transmit queues that were used.
    pub queues: u16,
    /// Bytes of a datagram.
    pub size_bytes: usize,
    /// Whether each thread was kept on one processor.
    pub pinned: bool,
    /// Runs behind the figures.
    pub runs: u32,
    /// Packets per second at the other end.
    pub packets_per_s: Spread,
    /// Packets per second by those of the first variant, and the 95 % interval of that. Absent if that had no packet.
    pub ratio_to_first: Option<Spread>,
    /// Packets that the discipline or its list dropped, as they may, or the other end for want of a frame; all runs.
    pub dropped: u64,
    /// Packets that were sent, not dropped, and did not come; all runs.
    pub lost: u64,
    /// Calls that found no room and were repeated, per packet that came; all runs.
    pub full_per_packet: f64,
    /// Time in the call that sends: median of each run, in ns.
    pub p50_ns: Spread,
    /// 99th percentile of each run, in ns.
    pub p99_ns: Spread,
    /// 99.9th percentile of each run, in ns.
    pub p999_ns: Spread,
    /// Longest of each run, in ns.
    pub max_ns: Spread,
    /// Reference cycles of sending per packet that came: CPU time of senders and transmitters. Absent if none came.
    pub cycles_per_packet: Option<Spread>,
    /// Who used the processors. Median of each share.
    pub cpu: CpuUse,
    /// What reading the clock adds to each time in the call, in ns.
    pub clock_ns: u64,
    /// Times in the call that sends, in ns; all runs.
    pub send_calls: PowerHistogram,
    /// Waits for the variant's lock; all runs.
    pub lock_waits: LockWaits,
    /// Packets that one thread handled at once, where a thread has several; all runs.
    pub batch_packets: PowerHistogram,
    /// Times inside the engine from a packet that is built to the return code, in ns, all runs: what `__dev_queue_xmit`
    /// takes in the kernel. Absent where there is no discipline or it was not asked for.
    pub xmit_calls: Option<PowerHistogram>,
    /// The longest of them that flushed, for others as well, of each run, in ns. Only where senders do that.
    pub flusher_stay_max_ns: Option<Spread>,
}

/// Runs every variant in turn, round by round, for each number of senders.
///
/// # Errors
/// A setting that is none, or the engine did not start.
pub fn udp_stream(
    config: &UdpStreamConfig,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Compared<UdpStream>> {
    let legal = |threads: &u32| (1..=UDP_STREAM_SENDERS_MAX).contains(threads);
    anyhow::ensure!(config.threads.iter().all(legal), "senders are 1 to {UDP_STREAM_SENDERS_MAX}");
    anyhow::ensure!(config.size_bytes <= UDP_STREAM_BYTES_MAX, "a datagram has at most {UDP_STREAM_BYTES_MAX} bytes");
    let none = config.qdisc == QdiscConfig::Noqueue;
    let needs_one = config.variants.iter().find(|variant| none && variant.tx_variant().is_some());
    if let Some(variant) = needs_one {
        anyhow::bail!(
            "variant {} hands packets to a queueing discipline: give one, or the variant noqueue",
            variant.name()
        );
    }
    anyhow::ensure!(config.runs > 0 && !config.variants.is_empty(), "give at least one run and one variant");
    let (clock, cpus) = (TickClock::calibrate(), napier_runtime::available_cpus());
    let setups: Vec<StreamSetup<'_>> = config
        .threads
        .iter()
        .map(|senders| StreamSetup {
            qdisc: &config.qdisc,
            tx_variant: None,
            xmit: config.xmit,
            senders: *senders,
            queues: config.queues,
            payload_bytes: config.size_bytes,
            length: config.length,
            cpus: &cpus,
            pin: config.pin,
            clock,
        })
        .collect();
    let names: Vec<String> = config.variants.iter().map(|variant| variant.name().to_owned()).collect();
    let blocks = Blocks::of_engine(vec![names; setups.len()], &[Metric::Throughput], config.runs, &cpus);
    let found = blocks.run(interrupted, progress, |block, at| {
        let run = config.variants[at].run(setups[block])?;
        let (answered, window) = (run.packets, run.wall);
        Ok(RowSlice { latency: Default::default(), answered, window, cpu: Duration::ZERO, run })
    })?;
    let mut all = compared(found, |block, at, runs| row(config.variants[at], setups[block], &runs.runs));
    for (block, decided) in all.decided.iter_mut().enumerate() {
        let rows = &mut all.rows[block * config.variants.len()..][..config.variants.len()];
        for (at, row) in rows.iter_mut().enumerate() {
            row.ratio_to_first = ratio_to_first(decided, at);
        }
        if setups.len() > 1 {
            decided.block = counted(config.threads[block], "sender");
        }
    }
    Ok(all)
}

/// Packets per second over those of the first variant, with its interval.
fn ratio_to_first(decided: &BenchDecided, at: usize) -> Option<Spread> {
    if at == 0 {
        return Some(Spread { median: 1.0, min: 1.0, max: 1.0 });
    }
    let ratio = decided.pairs.iter().find(|pair| (pair.a, pair.b) == (0, at))?.ratio?;
    let or_it = |bound: Option<f64>| bound.unwrap_or(ratio.value);
    Some(Spread { median: ratio.value, min: or_it(ratio.low), max: or_it(ratio.high) })
}

fn row(variant: UdpStreamVariant, setup: StreamSetup<'_>, runs: &[StreamRun]) -> UdpStream {
    let setup = variant.fitted(setup);
    let percentile = |quantile: f64| Spread::over(runs, |run| run.call_ns.percentile(quantile) as f64);
    let ticks_per_us = setup.clock.ticks(1_000_000) as f64 / 1e3;
    let cycles: Vec<f64> = runs.iter().filter_map(|run| run.cpu.cycles_per_packet(run.packets, ticks_per_us)).collect();
    let mut counts = PathCounts::default();
    runs.iter().for_each(|run| counts.merge(&run.counts));
    let stays: Vec<f64> = runs.iter().filter_map(|run| run.counts.stay_max_ns).collect();
    let sum = |of: fn(&StreamRun) -> u64| runs.iter().map(of).sum::<u64>();
    let mut send_calls = PowerHistogram::default();
    runs.iter().for_each(|run| send_calls.merge(&run.call_ns));
    UdpStream {
        variant,
        threads: setup.senders,
        queues: setup.queues,
        size_bytes: setup.payload_bytes,
        pinned: setup.pin,
        runs: runs.len() as u32,
        packets_per_s: Spread::over(runs, |run| run.packets as f64 / run.wall.as_secs_f64()),
        ratio_to_first: None,
        dropped: counts.dropped,
        lost: sum(|run| run.lost),
        full_per_packet: sum(|run| run.full) as f64 / sum(|run| run.packets).max(1) as f64,
        p50_ns: percentile(0.5),
        p99_ns: percentile(0.99),
        p999_ns: percentile(0.999),
        max_ns: Spread::over(runs, |run| run.call_ns.max() as f64),
        cycles_per_packet: (cycles.len() == runs.len()).then(|| Spread::of(&cycles)),
        cpu: CpuUse::median(&runs.iter().map(|run| run.cpu.shares(run.wall, setup.cpus.len())).collect::<Vec<_>>()),
        clock_ns: setup.clock.cost_ns(),
        send_calls,
        lock_waits: counts.lock_waits,
        batch_packets: counts.batch,
        xmit_calls: counts.xmit_ns,
        flusher_stay_max_ns: (!stays.is_empty()).then(|| Spread::of(&stays)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> UdpStreamConfig {
        UdpStreamConfig {
            threads: vec![3],
            variants: UdpStreamVariant::ALL.to_vec(),
            qdisc: QdiscConfig::pfifo(),
            queues: 2,
            size_bytes: 120,
            runs: 1,
            length: Duration::from_millis(30),
            pin: false,
            xmit: true,
        }
    }

    #[test]
    fn names_are_read_back() {
        for variant in UdpStreamVariant::ALL {
            assert_eq!(UdpStreamVariant::parse(variant.name()), Some(variant));
        }
        assert_eq!(UdpStreamVariant::parse("tcp"), None);
    }

    /// Whether all that has to be seen was: in a short time a busy machine may have let a thread do nothing.
    fn all_have_sent(rows: &[UdpStream]) -> bool {
        let sends = |row: &UdpStream| row.packets_per_s.median > 0.0 && row.send_calls.count() > 0;
        let is_timed = |row: &UdpStream| row.cycles_per_packet.is_some_and(|cycles| cycles.median > 0.0);
        let [locked, llist, owner, _noqueue, _mutex, ring, alone] = rows else { panic!("seven rows") };
        let are_batched =
            [owner, ring].iter().all(|row| row.batch_packets.count() > 0) && alone.batch_packets.max() > 1;
        let is_flushed = llist.flusher_stay_max_ns.is_some_and(|stay| stay.max > 0.0);
        let has_xmit = |row: &&UdpStream| row.xmit_calls.as_ref().is_some_and(|calls| calls.count() > 0);
        let is_xmit_timed = [locked, llist, owner].iter().all(has_xmit) && locked.batch_packets.max() > 0;
        rows.iter().all(|row| sends(row) && is_timed(row)) && are_batched && is_flushed && is_xmit_timed
    }

    #[test]
    fn every_variant_sends_and_loses_nothing() {
        let rows = napier_testkit::in_time_enough("all send", Duration::from_millis(30), |length| {
            let config = UdpStreamConfig { length, ..config() };
            let rows = udp_stream(&config, &AtomicBool::new(false), &mut |_| {}).expect("the engine starts").rows;
            rows.iter().for_each(|row| assert_eq!(row.lost, 0, "{:?}", row.variant));
            all_have_sent(&rows).then_some(rows)
        });
        let seen: Vec<_> = rows.iter().map(|row| row.variant).collect();
        assert_eq!(seen, UdpStreamVariant::ALL);
        assert_eq!(rows[0].ratio_to_first.map(|ratio| ratio.median), Some(1.0));
        assert_eq!((rows[0].threads, rows[0].queues), (3, 2));
        // One thread on its own queue batches; a lock that each sender takes for itself does not.
        let [locked, llist, owner, noqueue, mutex, ring, alone] = &rows[..] else { panic!("seven rows") };
        assert_eq!(mutex.batch_packets.count(), 0);
        assert!(ring.batch_packets.max() <= 64 && alone.batch_packets.max() <= 64);
        assert_eq!((locked.batch_packets.max(), noqueue.batch_packets.count()), (1, 0));
        assert!(llist.flusher_stay_max_ns.is_some() && owner.flusher_stay_max_ns.is_none());
        let measured = |row: &UdpStream| row.xmit_calls.as_ref().is_some_and(|calls| calls.count() > 0);
        assert_eq!(rows.iter().map(measured).collect::<Vec<_>>(), [true, true, true, false, false, false, false]);
        assert_eq!(alone.threads, u32::from(alone.queues));
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let run = |config: UdpStreamConfig| udp_stream(&config, &AtomicBool::new(false), &mut |_| {});
        assert!(run(UdpStreamConfig { threads: vec![0], ..config() }).is_err());
        assert!(run(UdpStreamConfig { size_bytes: 1473, ..config() }).is_err());
        assert!(run(UdpStreamConfig { queues: 0, ..config() }).is_err());
        assert!(run(UdpStreamConfig { runs: 0, ..config() }).is_err());
        // Nobody can hand over to a discipline that is not there.
        assert!(run(UdpStreamConfig { qdisc: QdiscConfig::Noqueue, ..config() }).is_err());
    }
}

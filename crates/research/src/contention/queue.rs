//! One transmit queue: discipline, defer list, ring, completions.

use std::collections::VecDeque;

use napier_core::time::Instant;
use napier_core::tx::bql::{self, Bql, BqlSent};
use napier_core::tx::qdisc::{Fq, FqConfig, Qdisc};
use napier_core::tx::queue::QueueBits;
use napier_core::tx::root::Root;
use napier_core::tx::run::TxQueueView;
use napier_core::tx::state::QdiscState;

use super::line::CacheLine;
use super::packet::SentPacket;
use super::plan::Settings;
use super::spin::SpinLock;
use super::topology::Cpu;

/// Packets that the inner flow of fq holds at most. Source: `net/sched/sch_fq.c fq_fastpath_check`.
const FAST_PKTS_MAX: u32 = 8;

/// Head and count of the defer list; they share a line.
#[derive(Debug)]
pub(super) struct DeferList {
    pub(super) line: CacheLine,
    /// In the order of their swaps.
    pub(super) packets: Vec<SentPacket>,
    pub(super) count: u64,
    /// Changes with each swap, as the head does.
    pub(super) version: u64,
}

/// A packet that the device has.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) packet: SentPacket,
    pub(super) done_ns: u64,
}

/// Where the lines of fq are, and which packets lie where in it.
#[derive(Debug)]
pub(super) struct FqLines {
    /// Who last wrote the line of the discipline itself.
    pub(super) qdisc_at: Cpu,
    /// Who last wrote its lists and counters.
    pub(super) lines_at: Cpu,
    /// Who last wrote the inner flow.
    pub(super) fast_at: Cpu,
    fast_pkts: u32,
    flow_pkts: u32,
}

impl FqLines {
    /// A packet comes; `true`: into the inner flow. Source: `net/sched/sch_fq.c fq_fastpath_check`.
    pub(super) const fn on_enqueue(&mut self) -> bool {
        let fast = self.flow_pkts == 0 && self.fast_pkts < FAST_PKTS_MAX;
        if fast {
            self.fast_pkts += 1;
        } else {
            self.flow_pkts += 1;
        }
        fast
    }

    /// A packet goes.
    pub(super) const fn on_dequeue(&mut self, fast: bool) {
        if fast {
            self.fast_pkts -= 1;
        } else {
            self.flow_pkts -= 1;
        }
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) busy: SpinLock,
    pub(super) root_lock: SpinLock,
    pub(super) root: Root<SentPacket>,
    pub(super) state: QdiscState,
    /// Where the discipline's lines are.
    pub(super) fq: FqLines,
    /// Who transmitted last.
    pub(super) driver_at: Cpu,
    /// Completions have written to the driver's line since.
    pub(super) driver_news: bool,
    pub(super) list: DeferList,
    pub(super) bits: QueueBits,
    pub(super) sent: BqlSent,
    pub(super) limit: Bql,
    pub(super) ring: VecDeque<InFlight>,
    ring_pkts: usize,
    /// The interrupt is unmasked and none is on its way.
    pub(super) armed: bool,
    pub(super) last_interrupt_ns: u64,
    /// Bytes completed in this poll, and packets.
    pub(super) polled_bytes: u32,
    pub(super) polled_pkts: u32,
}

impl Queue {
    pub(super) fn new(at: Cpu, settings: &Settings) -> Self {
        let fq = FqConfig { flow_limit_pkts: settings.flow_limit_pkts, ..FqConfig::default() };
        Self {
            busy: SpinLock::new(at),
            root_lock: SpinLock::new(at),
            root: Root::new(Qdisc::Fq(Fq::new(fq)), true),
            state: QdiscState::EMPTY,
            fq: FqLines { qdisc_at: at, lines_at: at, fast_at: at, fast_pkts: 0, flow_pkts: 0 },
            driver_at: at,
            driver_news: false,
            list: DeferList { line: CacheLine::new(at), packets: Vec::new(), count: 0, version: 0 },
            bits: QueueBits::EMPTY,
            sent: BqlSent::default(),
            limit: Bql::new(Instant::ZERO),
            ring: VecDeque::new(),
            ring_pkts: settings.ring_pkts,
            armed: true,
            last_interrupt_ns: 0,
            polled_bytes: 0,
            polled_pkts: 0,
        }
    }

    /// What a run must know.
    pub(super) const fn view(&self) -> TxQueueView {
        TxQueueView { bits: self.bits, bulk_bytes: bql::available(self.sent, self.limit.adjusted_limit()) }
    }

    /// The driver has taken a packet of so many bytes, the last of `unsent_pkts` for which it has not rung yet.
    pub(super) fn on_given(&mut self, bytes: u32, unsent_pkts: usize) {
        self.sent = self.sent.queued(bytes);
        if bql::available(self.sent, self.limit.adjusted_limit()) < 0 {
            self.bits = self.bits.stop_stack();
        }
        if self.ring.len() + unsent_pkts >= self.ring_pkts {
            self.bits = self.bits.stop_driver();
        }
    }

    /// A poll is over. `true`: the queue was stopped and goes on: schedule its discipline.
    pub(super) fn on_polled(&mut self, now_ns: u64) -> bool {
        let bytes = std::mem::take(&mut self.polled_bytes);
        self.polled_pkts = 0;
        if bytes == 0 {
            return false;
        }
        self.limit.completed(Instant::from_ns(now_ns), self.sent, bytes);
        let mut wake = false;
        if bql::available(self.sent, self.limit.adjusted_limit()) >= 0 {
            (self.bits, wake) = self.bits.wake_stack();
        }
        if self.ring.len() < self.ring_pkts {
            let (bits, woken) = self.bits.wake_driver();
            (self.bits, wake) = (bits, wake | (woken && !bits.stopped()));
        }
        wake
    }
}

//! The transmit side of the machine: disciplines, transmit queues, drivers' rings, and where every packet is.
//!
//! | file | holds |
//! |---|---|
//! | `push` | a discipline's defer list, as senders see it |
//! | `run` | what a flush and a run do, the word of a discipline, its timer |
//! | `ring` | ring, wire, completion, byte limits |
//! | `check` | what must hold, what a scenario looks at, counters |
//!
//! The code that does it, step by step, is in `kernel/tx`.

pub(crate) mod check;
pub(crate) mod push;
pub(crate) mod ring;
pub(crate) mod run;
pub(crate) mod setup;

use std::collections::{BTreeMap, VecDeque};

use napier_core::time::{Deadline, Instant, Span};
use napier_core::tx::bql::{Bql, BqlSent, available};
use napier_core::tx::qdisc::RATE_UNLIMITED;
use napier_core::tx::queue::QueueBits;
use napier_core::tx::root::Root;
use napier_core::tx::run::TxQueueView;
use napier_core::tx::state::QdiscState;
use napier_core::tx::{DropReason, TxDrops, TxPacket};

use crate::machine::net::Network;
use crate::machine::sim::event::{CtxId, Ev};
use napier_scenario::{CpuIx, Event, QdiscIx, TxEvent, TxqIx};

/// The way of a packet from a program to a device.
pub(crate) struct Outbound {
    below: Network,
    pub(crate) tx: Tx,
}

stands_on!(Outbound, Network);

pub(crate) fn cpu_ix(cpu: usize) -> CpuIx {
    CpuIx(cpu as u16)
}

/// Packets of which the order must be kept: sender, queue, flow, priority.
pub(crate) type TxStream = (CtxId, usize, u32, u32);

/// A packet on its way out.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TxPkt {
    /// Place in the list of all packets.
    pub(crate) id: u32,
    pub(crate) sender: CtxId,
    /// Number within its stream.
    pub(crate) number: u64,
    pub(crate) flow: u32,
    pub(crate) bytes: u32,
    pub(crate) priority: u32,
    pub(crate) txtime: Option<Instant>,
    pub(crate) rate: Option<u64>,
    /// Outbound queue of the device.
    pub(crate) queue: u16,
}

impl TxPacket for TxPkt {
    fn len_bytes(&self) -> u32 {
        self.bytes
    }

    fn flow_hash(&self) -> u32 {
        self.flow
    }

    fn priority(&self) -> u32 {
        self.priority
    }

    fn earliest_departure(&self) -> Option<Instant> {
        self.txtime
    }

    fn pacing_rate(&self) -> u64 {
        self.rate.unwrap_or(RATE_UNLIMITED)
    }

    fn tx_queue(&self) -> u16 {
        self.queue
    }
}

/// Where a packet is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum At {
    Free,
    /// With its sender or a runner, on a defer list, in a discipline or on a requeue list.
    Path,
    /// In a driver's ring.
    Ring,
}

/// How a discipline is entered.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum TxWay {
    Locked,
    Nolock,
    Noqueue,
}

/// The timer of packets that may not leave yet.
#[derive(Copy, Clone, Default, Debug)]
pub(crate) struct Watchdog {
    pub(crate) armed: bool,
    pub(crate) at: Instant,
    pub(crate) cpu: usize,
    pub(crate) generation: u32,
}

/// One discipline, and who is busy with it.
pub(crate) struct Qd {
    pub(crate) index: QdiscIx,
    pub(crate) way: TxWay,
    pub(crate) first_txq: usize,
    pub(crate) txqs: usize,
    pub(crate) root: Root<TxPkt>,
    /// Who holds the root lock.
    pub(crate) locked: Option<CtxId>,
    pub(crate) state: QdiscState,
    /// The last is the head.
    pub(crate) defer: Vec<TxPkt>,
    pub(crate) defer_count: u64,
    pub(crate) watchdog: Watchdog,
    /// Senders find it; otherwise what drops everything.
    pub(crate) installed: bool,
    /// Its deactivation is over: no sender may know it.
    pub(crate) down: bool,
    // Bookkeeping of the machine's own, to compare with.
    pub(crate) flushers: u32,
    pub(crate) runners: u32,
    /// Contexts that will look at it, or schedule it.
    pub(crate) coming: u32,
    /// Senders that may know it.
    pub(crate) senders: u32,
    /// Softirqs that have taken it off their list and not begun.
    pub(crate) taken: u32,
    /// Packets counted against the limit since the list was last taken.
    pub(crate) counted: u64,
    /// The list has been taken, and the count not been set to 0.
    pub(crate) resetting: bool,
}

/// One transmit queue with its ring.
pub(crate) struct Txq {
    pub(crate) index: TxqIx,
    pub(crate) dev: usize,
    pub(crate) queue: u16,
    pub(crate) qd: usize,
    pub(crate) bits: QueueBits,
    /// The CPU that holds the transmit lock.
    pub(crate) locked: Option<usize>,
    /// Packets that the driver has; the first `done` have left.
    pub(crate) ring: VecDeque<TxPkt>,
    pub(crate) done: usize,
    pub(crate) slots: usize,
    pub(crate) wire: Span,
    /// A packet is on the wire, as of this generation.
    pub(crate) wire_busy: bool,
    pub(crate) wire_generation: u32,
    pub(crate) stalled_until: Instant,
    /// Packets that the driver will not take, with room or without.
    pub(crate) busy_pkts: u32,
    pub(crate) sent: BqlSent,
    pub(crate) bql: Option<Bql>,
    pub(crate) lower: Option<usize>,
}

impl Txq {
    fn view(&self) -> TxQueueView {
        let bulk_bytes = self.bql.as_ref().map_or(0, |bql| available(self.sent, bql.adjusted_limit()));
        TxQueueView { bits: self.bits, bulk_bytes }
    }

    pub(crate) fn full(&self) -> bool {
        self.ring.len() >= self.slots
    }
}

/// The transmit side of a device.
pub(crate) struct DevTx {
    pub(crate) first_txq: usize,
    pub(crate) txqs: usize,
    pub(crate) first_qd: usize,
    pub(crate) qds: usize,
    /// One discipline serves all of its queues.
    pub(crate) shared: bool,
    pub(crate) packets: u64,
    pub(crate) dropped: u64,
}

/// The transmit side of a machine; empty if no device has one.
#[derive(Default)]
pub(crate) struct Tx {
    pub(crate) devs: Vec<Option<DevTx>>,
    pub(crate) qds: Vec<Qd>,
    pub(crate) txqs: Vec<Txq>,
    /// Transmissions without discipline that are inside each other, per CPU.
    pub(crate) nesting: Vec<u32>,
    pub(crate) drops: TxDrops,
    pub(crate) sndbuf_errors: u64,
    pub(crate) dirty: Vec<usize>,
    pub(crate) at: Vec<At>,
    pub(crate) free: Vec<u32>,
    pub(crate) entered: u64,
    pub(crate) done: u64,
    /// Per stream: the next number to be given, and the least that may be sent.
    pub(crate) streams: BTreeMap<TxStream, (u64, u64)>,
}

impl Outbound {
    pub(crate) fn new(below: Network) -> Self {
        Self { below, tx: Tx::default() }
    }

    /// A discipline, to be checked after this step.
    pub(crate) fn qd(&mut self, qd: usize) -> &mut Qd {
        if !self.tx.dirty.contains(&qd) {
            self.tx.dirty.push(qd);
        }
        &mut self.tx.qds[qd]
    }

    /// A transmit queue; its discipline is to be checked after this step.
    pub(crate) fn txq(&mut self, txq: usize) -> &mut Txq {
        let qd = self.tx.txqs[txq].qd;
        self.qd(qd);
        &mut self.tx.txqs[txq]
    }

    pub(crate) fn note_tx(&mut self, event: TxEvent) {
        self.note(Event::Tx(event));
    }

    /// True if the device has a discipline.
    pub(crate) fn transmits(&self, dev: usize) -> bool {
        self.tx.devs.get(dev).is_some_and(Option::is_some)
    }

    /// The position of a device's transmit queue.
    pub(crate) fn txq_of(&self, qd: usize, queue: u16) -> usize {
        let dev = self.tx.txqs[self.tx.qds[qd].first_txq].dev;
        self.tx.devs[dev].as_ref().expect("a discipline is that of a device").first_txq + usize::from(queue)
    }

    /// A packet that is not anywhere yet.
    fn new_packet(&mut self) -> u32 {
        self.tx.entered += 1;
        let id = self.tx.free.pop().unwrap_or_else(|| {
            self.tx.at.push(At::Free);
            self.tx.at.len() as u32 - 1
        });
        self.move_packet(id, At::Free, At::Path);
        id
    }

    fn move_packet(&mut self, id: u32, from: At, to: At) {
        let at = &mut self.tx.at[id as usize];
        if *at != from {
            let is = *at;
            self.fail(format!("packet {id} is in {is:?}, where it should leave {from:?} for {to:?}"));
            return;
        }
        *at = to;
        if to == At::Free {
            self.tx.free.push(id);
        }
    }

    /// Packets are dropped, and counted. `why` is the same for all.
    pub(crate) fn drop_packets(&mut self, qd: usize, why: DropReason, packets: &[TxPkt], from: At) {
        if packets.is_empty() {
            return;
        }
        for packet in packets {
            self.move_packet(packet.id, from, At::Free);
            self.tx.drops.count(why);
        }
        let index = self.tx.qds[qd].index;
        self.note_tx(TxEvent::Drop { qdisc: index, why, packets: packets.len() as u32 });
    }

    /// Counts drops that the device counts, not its discipline.
    pub(crate) fn count_device_drops(&mut self, qd: usize, pkts: u64) {
        let dev = self.tx.txqs[self.tx.qds[qd].first_txq].dev;
        let dev = self.tx.devs[dev].as_mut().expect("a discipline is that of a device");
        dev.dropped += pkts;
    }

    /// Arms the timer of a discipline on `cpu`, unless it is armed for that time already.
    pub(crate) fn arm_watchdog(&mut self, qd: usize, at: Instant, cpu: usize) {
        let now = self.now;
        let watchdog = &mut self.qd(qd).watchdog;
        if watchdog.armed && watchdog.at == at {
            return;
        }
        *watchdog = Watchdog { armed: true, at, cpu, generation: watchdog.generation + 1 };
        let generation = watchdog.generation;
        let index = self.tx.qds[qd].index;
        self.note_tx(TxEvent::WatchdogStart { qdisc: index, after: at - now });
        self.push(Deadline::at(at), Ev::Watchdog { qd, generation });
    }
}

//! The transmit side of the machine: disciplines, transmit queues, drivers, and where every packet is.
//!
//! | file | holds |
//! |---|---|
//! | `send` | a sender: which way its packet goes, the push to the defer list, what it is told |
//! | `run` | flush and run behind the root lock |
//! | `nolock`, `noqueue` | the two ways without it |
//! | `softirq` | scheduling, the transmit softirq, the timer of packets that may not leave yet, wakes |
//! | `driver` | ring, wire, completion, byte limits |
//! | `lifecycle` | activation and deactivation |
//! | `check` | what must hold, what a scenario looks at, counters |

mod check;
mod driver;
mod lifecycle;
mod nolock;
mod noqueue;
mod run;
mod send;
mod setup;
mod softirq;

use std::collections::{BTreeMap, VecDeque};

use napier_core::time::{Deadline, Instant, Span};
use napier_core::tx::bql::{Bql, BqlSent, available};
use napier_core::tx::qdisc::RATE_UNLIMITED;
use napier_core::tx::queue::QueueBits;
use napier_core::tx::root::Root;
use napier_core::tx::run::TxQueueView;
use napier_core::tx::state::QdiscState;
use napier_core::tx::{DropReason, TxDrops, TxPacket};

use super::event::Ev;
use super::vm::CtxId;
use super::world::World;
use napier_scenario::{CpuIx, Event, QdiscIx, TxEvent, TxqIx};

pub(super) use setup::add_transmit;

/// Packets of which the order must be kept: sender, queue, flow, priority.
type Stream = (CtxId, usize, u32, u32);

/// A packet on its way out.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct TxPkt {
    /// Place in the list of all packets.
    id: u32,
    sender: CtxId,
    /// Number within its stream.
    number: u64,
    flow: u32,
    bytes: u32,
    priority: u32,
    txtime: Option<Instant>,
    rate: Option<u64>,
    /// Transmit queue of the device.
    queue: u16,
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
enum At {
    Free,
    /// In somebody's hand, on a defer list, in a discipline or on a requeue list.
    Path,
    /// In a driver's ring.
    Ring,
}

/// How a discipline is entered.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Way {
    Locked,
    Nolock,
    Noqueue,
}

/// The timer of packets that may not leave yet.
#[derive(Copy, Clone, Default, Debug)]
struct Watchdog {
    armed: bool,
    at: Instant,
    cpu: usize,
    generation: u32,
}

/// One discipline, and who is busy with it.
struct Qd {
    index: QdiscIx,
    way: Way,
    first_txq: usize,
    txqs: usize,
    root: Root<TxPkt>,
    /// Who holds the root lock.
    locked: Option<CtxId>,
    state: QdiscState,
    /// The last is the head.
    defer: Vec<TxPkt>,
    defer_count: u64,
    watchdog: Watchdog,
    /// Senders find it; otherwise what drops everything.
    installed: bool,
    /// Its deactivation is over: nobody may know it.
    down: bool,
    // Bookkeeping of the machine's own, to compare with.
    flushers: u32,
    runners: u32,
    /// Contexts that will look at it, or schedule it.
    coming: u32,
    /// Senders that may know it.
    senders: u32,
    /// Softirqs that have taken it off their list and not begun.
    taken: u32,
    /// Packets counted against the limit since the list was last taken.
    counted: u64,
    /// The list has been taken, and the count not been set to 0.
    resetting: bool,
}

/// One transmit queue with its ring.
struct Txq {
    index: TxqIx,
    dev: usize,
    queue: u16,
    qd: usize,
    bits: QueueBits,
    /// The CPU that holds the transmit lock.
    locked: Option<usize>,
    /// Packets that the driver has; the first `done` have left.
    ring: VecDeque<TxPkt>,
    done: usize,
    slots: usize,
    wire: Span,
    /// A packet is on the wire, as of this generation.
    wire_busy: bool,
    wire_generation: u32,
    stalled_until: Instant,
    /// Packets that the driver will not take, with room or without.
    busy_pkts: u32,
    sent: BqlSent,
    bql: Option<Bql>,
    lower: Option<usize>,
}

impl Txq {
    fn view(&self) -> TxQueueView {
        let bulk_bytes = self.bql.as_ref().map_or(0, |bql| available(self.sent, bql.adjusted_limit()));
        TxQueueView { bits: self.bits, bulk_bytes }
    }

    fn full(&self) -> bool {
        self.ring.len() >= self.slots
    }
}

/// The transmit side of a device.
struct DevTx {
    first_txq: usize,
    txqs: usize,
    first_qd: usize,
    qds: usize,
    /// One discipline serves all of its queues.
    shared: bool,
    packets: u64,
    dropped: u64,
}

/// The transmit side of a machine; empty if no device has one.
#[derive(Default)]
pub(super) struct Tx {
    devs: Vec<Option<DevTx>>,
    qds: Vec<Qd>,
    txqs: Vec<Txq>,
    /// Transmissions without discipline that are inside each other, per CPU.
    nesting: Vec<u32>,
    drops: TxDrops,
    sndbuf_errors: u64,
    dirty: Vec<usize>,
    at: Vec<At>,
    free: Vec<u32>,
    entered: u64,
    done: u64,
    /// Per stream: the next number to be given, and the least that may be sent.
    streams: BTreeMap<Stream, (u64, u64)>,
}

impl World {
    /// A discipline, to be checked after this step.
    fn qd(&mut self, qd: usize) -> &mut Qd {
        if !self.tx.dirty.contains(&qd) {
            self.tx.dirty.push(qd);
        }
        &mut self.tx.qds[qd]
    }

    /// A transmit queue; its discipline is to be checked after this step.
    fn txq(&mut self, txq: usize) -> &mut Txq {
        let qd = self.tx.txqs[txq].qd;
        self.qd(qd);
        &mut self.tx.txqs[txq]
    }

    fn note_tx(&mut self, event: TxEvent) {
        self.note(Event::Tx(event));
    }

    fn cpu_ix(cpu: usize) -> CpuIx {
        CpuIx(cpu as u16)
    }

    /// True if the device has a discipline.
    pub(super) fn transmits(&self, dev: usize) -> bool {
        self.tx.devs.get(dev).is_some_and(Option::is_some)
    }

    /// The position of a device's transmit queue.
    fn txq_of(&self, qd: usize, queue: u16) -> usize {
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
    fn drop_packets(&mut self, qd: usize, why: DropReason, packets: &[TxPkt], from: At) {
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
    fn count_device_drops(&mut self, qd: usize, pkts: u64) {
        let dev = self.tx.txqs[self.tx.qds[qd].first_txq].dev;
        let dev = self.tx.devs[dev].as_mut().expect("a discipline is that of a device");
        dev.dropped += pkts;
    }

    /// Arms the timer of a discipline on `cpu`, unless it is armed for that time already.
    fn arm_watchdog(&mut self, qd: usize, at: Instant, cpu: usize) {
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

#[cfg(test)]
mod tests;

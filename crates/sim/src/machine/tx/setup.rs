//! From a scenario to transmit queues and disciplines; they are given to their devices when those come up.

use std::collections::VecDeque;

use napier_core::time::Instant;
use napier_core::tx::bql::{Bql, BqlSent};
use napier_core::tx::qdisc::{Fifo, Fq, Prio, Qdisc};
use napier_core::tx::queue::QueueBits;
use napier_core::tx::root::Root;
use napier_core::tx::state::QdiscState;

use crate::machine::tx::TxWay;
use crate::machine::tx::{DevTx, Outbound, Qd, TxPkt, Txq, Watchdog};
use napier_scenario::{Machine, QdiscIx, QdiscSpec, Transmit, TxqIx};

/// Adds the transmit side of every device that has one.
pub(crate) fn add_transmit(w: &mut Outbound, machine: &Machine) {
    w.tx.nesting = vec![0; w.cpus.len()];
    for (dev, device) in machine.devices.iter().enumerate() {
        let added = device.transmit.as_ref().map(|transmit| add_device(w, dev, transmit));
        w.tx.devs.push(added);
    }
}

fn add_device(w: &mut Outbound, dev: usize, transmit: &Transmit) -> DevTx {
    let queues = usize::from(transmit.queues);
    let (first_txq, first_qd) = (w.tx.txqs.len(), w.tx.qds.len());
    let qds = if transmit.one_each { queues } else { 1 };
    for qd in 0..qds {
        let (first, txqs) = if transmit.one_each { (qd, 1) } else { (0, queues) };
        let index = QdiscIx((first_qd + qd) as u16);
        w.tx.qds.push(new_qdisc(index, transmit, first_txq + first, txqs));
    }
    for queue in 0..queues {
        let qd = first_qd + if transmit.one_each { queue } else { 0 };
        let bql = transmit.bql.map(|limits| {
            let mut bql = Bql::new(Instant::ZERO);
            bql.configure(limits.min_bytes, limits.max_bytes, limits.hold);
            bql
        });
        w.tx.txqs.push(Txq {
            index: TxqIx((first_txq + queue) as u16),
            dev,
            queue: queue as u16,
            qd,
            bits: QueueBits::EMPTY,
            locked: None,
            ring: VecDeque::new(),
            done: 0,
            slots: transmit.ring as usize,
            wire: transmit.wire,
            wire_busy: false,
            wire_generation: 0,
            stalled_until: Instant::ZERO,
            busy_pkts: 0,
            sent: BqlSent::default(),
            bql,
            lower: transmit.lower.map(TxqIx::at),
        });
    }
    DevTx { first_txq, txqs: queues, first_qd, qds, shared: !transmit.one_each, packets: 0, dropped: 0 }
}

fn new_qdisc(index: QdiscIx, transmit: &Transmit, first_txq: usize, txqs: usize) -> Qd {
    let (way, qdisc): (TxWay, Qdisc<TxPkt>) = match &transmit.qdisc {
        QdiscSpec::Noqueue => (TxWay::Noqueue, Qdisc::Noqueue),
        QdiscSpec::Pfifo { limit } => (TxWay::Locked, Qdisc::Fifo(Fifo::new(*limit as usize))),
        QdiscSpec::Prio { limit } => (TxWay::Locked, Qdisc::Prio(Prio::new(*limit as usize))),
        QdiscSpec::PfifoFast { limit } => (TxWay::Nolock, Qdisc::Prio(Prio::new(*limit as usize))),
        QdiscSpec::Fq(config) => (TxWay::Locked, Qdisc::Fq(Fq::new(config.clone()))),
    };
    Qd {
        index,
        way,
        first_txq,
        txqs,
        root: Root::new(qdisc, txqs == 1),
        locked: None,
        state: QdiscState::EMPTY.deactivate(),
        defer: Vec::new(),
        defer_count: 0,
        watchdog: Watchdog::default(),
        installed: false,
        down: true,
        flushers: 0,
        runners: 0,
        coming: 0,
        senders: 0,
        taken: 0,
        counted: 0,
        resetting: false,
    }
}

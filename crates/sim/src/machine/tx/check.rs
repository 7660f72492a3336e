//! What must hold on the transmit side, what a scenario looks at, and counters.

use napier_core::tx::state::QdiscState;

use crate::machine::tx::At;
use crate::machine::tx::{Outbound, Qd};
use napier_core::tx::DropReason;
use napier_core::tx::queue::QueueBits;
use napier_scenario::TxCheck;

impl Qd {
    /// It serves all transmit queues of its device, under the device's name.
    fn root_serves_all(&self, w: &Outbound) -> bool {
        let dev = w.tx.txqs[self.first_txq].dev;
        let of = w.tx.devs[dev].as_ref().expect("a discipline is that of a device");
        of.shared
    }
}

impl Outbound {
    pub(crate) fn qdisc_name(&self, qd: usize) -> String {
        let of = &self.tx.qds[qd];
        let dev = &self.devs[self.tx.txqs[of.first_txq].dev].name;
        if of.root_serves_all(self) {
            format!("{dev}/tx")
        } else {
            format!("{dev}/tx-{}", self.tx.txqs[of.first_txq].queue)
        }
    }

    /// Checks the disciplines that the last step touched.
    #[inline]
    pub(crate) fn check_tx_dirty(&mut self) {
        while let Some(qd) = self.tx.dirty.pop() {
            if let Err(why) = self.check_qdisc(qd) {
                let (name, state) = (self.qdisc_name(qd), self.tx.qds[qd].state);
                self.fail(format!("{name}: {why} ({state:?})"));
            }
        }
    }

    fn check_qdisc(&self, qd: usize) -> Result<(), &'static str> {
        let of = &self.tx.qds[qd];
        if of.flushers > 1 {
            return Err("two flushers");
        }
        if of.defer.is_empty() != (of.flushers == 0) {
            return Err("a defer list without a flusher, or a flusher without a list");
        }
        if of.runners != u32::from(of.root.is_running()) {
            return Err("not exactly one runner");
        }
        let listed: usize = self.cpus.iter().map(|cpu| cpu.output.iter().filter(|on| **on == qd).count()).sum();
        if listed + of.taken as usize != usize::from(of.state.intersects(QdiscState::SCHED)) {
            return Err("SCHED and the output queues of the CPUs differ");
        }
        if of.down && (of.root.qlen() > 0 || of.root.is_running() || listed > 0) {
            return Err("taken away from its device, and not at rest");
        }
        for txq in &self.tx.txqs[of.first_txq..of.first_txq + of.txqs] {
            if txq.ring.len() > txq.slots {
                return Err("more packets are in a ring than it holds");
            }
            let Some(bql) = &txq.bql else { continue };
            if bql.in_flight_bytes(txq.sent) != txq.ring.iter().map(|packet| packet.bytes).sum() {
                return Err("the byte limit and the ring differ in what is under way");
            }
        }
        if of.root.qlen() > 0 && !self.comes_back_for(of) {
            return Err("packets wait, and nothing will take them");
        }
        Ok(())
    }

    /// A runner is there, will come, or is kept from coming by a stop whose end lets it come.
    fn comes_back_for(&self, of: &Qd) -> bool {
        let busy = of.locked.is_some() || of.root.is_running() || of.flushers > 0 || of.coming > 0;
        let queues = &self.tx.txqs[of.first_txq..of.first_txq + of.txqs];
        busy || of.state.intersects(QdiscState::SCHED)
            || of.state.intersects(QdiscState::DEACTIVATED)
            || of.watchdog.armed
            || queues.iter().any(|txq| txq.bits.frozen_or_stopped())
    }

    /// Packets wait, are in a ring, have left or are dropped with a reason: together all that were ever sent.
    pub(crate) fn check_tx_conserved(&mut self) {
        if self.tx.entered == 0 {
            return;
        }
        let (mut path, mut rings) = (0, 0);
        for at in &self.tx.at {
            match at {
                At::Free => {}
                At::Path => path += 1,
                At::Ring => rings += 1,
            }
        }
        let (entered, done, dropped) = (self.tx.entered, self.tx.done, self.tx.drops.total());
        if entered != path + rings + done + dropped {
            self.fail(format!(
                "sent packets are not conserved: {entered} were sent, {path} wait, {rings} are in rings, {done} have \
                 left, {dropped} were dropped"
            ));
        }
        let held: usize = self.tx.txqs.iter().map(|txq| txq.ring.len()).sum();
        if rings != held as u64 {
            self.fail(format!("{rings} sent packets should be in rings, and {held} are"));
        }
        let inside = self.tx.qds.iter().any(|of| of.senders > 0 || of.runners > 0 || of.root.is_running());
        let waiting: usize = self.tx.qds.iter().map(|of| of.defer.len() + of.root.qlen()).sum();
        if waiting as u64 > path || (!inside && path != waiting as u64) {
            self.fail(format!("{path} sent packets should wait, and {waiting} do"));
        }
    }

    /// Nothing waits for a runner that will not come.
    pub(crate) fn check_tx_drained(&mut self) {
        for qd in 0..self.tx.qds.len() {
            let of = &self.tx.qds[qd];
            let queues = of.first_txq..of.first_txq + of.txqs;
            let why = if !of.defer.is_empty() || of.root.qlen() > 0 {
                "packets wait to be sent"
            } else if self.tx.txqs[queues].iter().any(|txq| !txq.ring.is_empty()) {
                "packets are in the driver's ring"
            } else {
                continue;
            };
            let (name, state) = (self.qdisc_name(qd), of.state);
            self.fail(format!("{name}: at the end {why} ({state:?})"));
        }
    }

    /// Compares what is with what should be.
    pub(crate) fn check_tx(&self, check: &TxCheck, compare: &mut impl FnMut(&str, String, String)) {
        let mut number = |name: &str, want: Option<u32>, have: u64| {
            if let Some(want) = want {
                compare(name, want.to_string(), have.to_string());
            }
        };
        if let Some(qdisc) = check.qdisc {
            let of = &self.tx.qds[qdisc.at()];
            number("qlen", check.qlen, of.root.qlen() as u64);
            number("backlog", check.backlog_bytes, of.root.backlog_bytes());
            number("deferred", check.deferred, of.defer.len() as u64);
            number("defer-count", check.defer_count, of.defer_count);
            number("requeued", check.requeued, of.root.iter_requeued().count() as u64);
        }
        if let Some(txq) = check.txq {
            let of = &self.tx.txqs[txq.at()];
            number("in-ring", check.in_ring, of.ring.len() as u64);
            number("limit", check.limit_bytes, of.bql.as_ref().map_or(0, |bql| bql.limit_bytes().into()));
            let bits = of.bits.bits();
            if bits & check.queue_set.bits() != check.queue_set.bits() || bits & check.queue_clear.bits() != 0 {
                let want = (bits | check.queue_set.bits()) & !check.queue_clear.bits();
                let want = QueueBits::from_bits(want);
                compare("set", format!("{want:?}"), format!("{:?}", of.bits));
            }
        }
        let Some(qdisc) = check.qdisc else { return };
        let of = &self.tx.qds[qdisc.at()];
        if let Some(want) = check.running {
            compare("running", want.to_string(), of.root.is_running().to_string());
        }
        let bits = of.state.bits();
        if bits & check.set.bits() != check.set.bits() || bits & check.clear.bits() != 0 {
            let want = QdiscState::from_bits((bits | check.set.bits()) & !check.clear.bits());
            compare("set", format!("{want:?}"), format!("{:?}", of.state));
        }
    }

    /// Counters of the transmit side; none if no device has one.
    pub(crate) fn tx_counters(&self, add: &mut impl FnMut(String, u64)) {
        if self.tx.qds.is_empty() {
            return;
        }
        for (cpu, c) in self.cpus.iter().enumerate() {
            add(format!("cpu{cpu}.tx_runs"), c.tx_runs);
        }
        for (qd, of) in self.tx.qds.iter().enumerate() {
            let name = self.qdisc_name(qd);
            let stats = of.root.stats();
            add(format!("{name}.packets"), stats.packets);
            add(format!("{name}.bytes"), stats.bytes);
            add(format!("{name}.requeues"), stats.requeues);
            add(format!("{name}.dropped"), stats.drops.total());
        }
        for (dev, of) in self.tx.devs.iter().enumerate() {
            let Some(of) = of else { continue };
            let name = &self.devs[dev].name;
            add(format!("{name}.tx_packets"), of.packets);
            add(format!("{name}.tx_dropped"), of.dropped);
        }
        for reason in DropReason::ALL {
            add(format!("tx_drops.{}", reason.name()), self.tx.drops.get(reason));
        }
        add("UdpSndbufErrors".to_owned(), self.tx.sndbuf_errors);
    }
}

//! A driver's rings: wire, completion, byte limits.

use napier_core::time::Deadline;
use napier_core::tx::bql::{BqlSent, available};
use napier_core::tx::queue::QueueBits;
use napier_core::tx::{DropReason, TxPacket};

use crate::machine::sim::coverage::Decision;
use crate::machine::sim::event::{Ev, HardIrq};
use crate::machine::tx::At;
use crate::machine::tx::cpu_ix;
use crate::machine::tx::{Outbound, TxPkt};
use napier_scenario::{StopBy, TxDeed, TxEvent};

impl Outbound {
    /// The driver takes the packet, if it can.
    pub(crate) fn put_in_ring(&mut self, txq: usize, packet: TxPkt, more: bool, cpu: usize) -> bool {
        let of = self.txq(txq);
        if of.busy_pkts > 0 {
            of.busy_pkts -= 1;
            return false;
        }
        if of.full() {
            return false;
        }
        if of.bql.is_some() {
            of.sent = of.sent.queued(packet.len_bytes());
        }
        of.ring.push_back(packet);
        self.move_packet(packet.id, At::Path, At::Ring);
        self.in_order(txq, &packet);
        self.start_wire(txq);
        let txq = self.tx.txqs[txq].index;
        self.note_tx(TxEvent::Transmit { txq, flow: packet.flow, more, cpu: cpu_ix(cpu) });
        true
    }

    /// A device on top of another hands the packet on.
    pub(crate) fn forward(&mut self, txq: usize, lower: usize, packet: TxPkt, more: bool, cpu: usize) -> TxPkt {
        self.in_order(txq, &packet);
        let of = self.txq(txq);
        let (index, dev) = (of.index, of.dev);
        self.tx.devs[dev].as_mut().expect("the queue is that of a device").packets += 1;
        self.note_tx(TxEvent::Transmit { txq: index, flow: packet.flow, more, cpu: cpu_ix(cpu) });
        let next = &mut self.tx.streams.entry((packet.sender, lower, packet.flow, packet.priority)).or_default().0;
        *next += 1;
        TxPkt { number: *next, queue: self.tx.txqs[lower].queue, ..packet }
    }

    /// What one sender sends in one flow leaves in that order, unless it asks for times.
    fn in_order(&mut self, txq: usize, packet: &TxPkt) {
        if packet.txtime.is_some() {
            return;
        }
        let least = &mut self.tx.streams.entry((packet.sender, txq, packet.flow, packet.priority)).or_default().1;
        if packet.number < *least {
            let (flow, number) = (packet.flow, packet.number);
            self.fail(format!("transmit queue {txq}: out of order, packet {number} of flow {flow}"));
            return;
        }
        *least = packet.number + 1;
    }

    pub(crate) fn stop(&mut self, txq: usize, by: StopBy) {
        let of = self.txq(txq);
        let bits = match by {
            StopBy::Driver => of.bits.stop_driver(),
            StopBy::Stack => of.bits.stop_stack(),
            StopBy::Frozen => of.bits.freeze(),
        };
        let was = std::mem::replace(&mut of.bits, bits);
        let txq = of.index;
        if was != bits {
            self.hit(match by {
                StopBy::Driver => Decision::TxStopDriver,
                StopBy::Stack => Decision::TxStopStack,
                StopBy::Frozen => Decision::TxFrozen,
            });
            self.note_tx(TxEvent::Stop { txq, by });
        }
    }

    pub(crate) fn over_limit(&self, txq: usize) -> bool {
        let of = &self.tx.txqs[txq];
        of.bql.as_ref().is_some_and(|bql| available(of.sent, bql.adjusted_limit()) < 0)
    }

    /// The next packet goes out.
    fn start_wire(&mut self, txq: usize) {
        let (now, of) = (self.now, &mut self.tx.txqs[txq]);
        if of.wire_busy || of.done == of.ring.len() {
            return;
        }
        of.wire_busy = true;
        let (at, generation) = (Deadline::after(now, of.wire), of.wire_generation);
        self.push(at, Ev::TxDone { txq, generation });
    }

    /// A packet has left; the device interrupts for it, if it may.
    pub(crate) fn packet_left(&mut self, txq: usize, generation: u32) {
        let now = self.now;
        let of = self.txq(txq);
        if of.wire_generation != generation {
            return;
        }
        if now < of.stalled_until {
            let at = of.stalled_until;
            self.push(Deadline::at(at), Ev::TxDone { txq, generation });
            return;
        }
        of.done += 1;
        of.wire_busy = false;
        let dev = of.dev;
        self.tx.devs[dev].as_mut().expect("the queue is that of a device").packets += 1;
        self.start_wire(txq);
        self.interrupt_for(txq);
    }

    /// Completions wait: the device interrupts, unless it is masked.
    fn interrupt_for(&mut self, txq: usize) {
        let napi = self.napi_of(txq);
        let n = &self.napis[napi];
        if n.present && !n.masked {
            self.raise_irq(napi);
        }
    }

    /// Queues in use have changed: what has left is freed by another instance.
    pub(crate) fn tx_requeued(&mut self, dev: usize) {
        let Some(Some(of)) = self.tx.devs.get(dev) else { return };
        for txq in of.first_txq..of.first_txq + of.txqs {
            if self.tx.txqs[txq].done > 0 {
                self.interrupt_for(txq);
            }
        }
    }

    /// The instance in whose poll a transmit queue completes.
    fn napi_of(&self, txq: usize) -> usize {
        let of = &self.tx.txqs[txq];
        let dev = &self.devs[of.dev];
        dev.first_napi + usize::from(of.queue % dev.queues)
    }

    pub(crate) fn txqs_of(&self, napi: usize) -> impl Iterator<Item = usize> {
        let dev = self.tx.devs.get(self.napis[napi].dev).and_then(Option::as_ref);
        let queues = dev.map_or(0..0, |dev| dev.first_txq..dev.first_txq + dev.txqs);
        queues.filter(move |txq| self.napi_of(*txq) == napi)
    }

    /// Completions wait for the instance's poll.
    #[inline]
    pub(crate) fn tx_done(&self, napi: usize) -> bool {
        !self.tx.txqs.is_empty() && self.txqs_of(napi).any(|txq| self.tx.txqs[txq].done > 0)
    }

    /// Frees what has left the ring; false if nothing has.
    pub(crate) fn free_done(&mut self, txq: usize) -> bool {
        let now = self.now;
        let of = self.txq(txq);
        let freed: Vec<TxPkt> = of.ring.drain(..of.done).collect();
        of.done = 0;
        if freed.is_empty() {
            return false;
        }
        let bytes = freed.iter().map(|packet| packet.bytes).sum();
        let sent = of.sent;
        if let Some(bql) = &mut of.bql {
            bql.completed(now, sent, bytes);
        }
        let txq = of.index;
        for packet in &freed {
            self.move_packet(packet.id, At::Ring, At::Free);
            self.tx.done += 1;
        }
        self.note_tx(TxEvent::Complete { txq, packets: freed.len() as u32, bytes });
        true
    }

    /// A step of the timeline.
    pub(crate) fn do_tx(&mut self, txq: usize, deed: TxDeed) {
        let cpu = self.napis[self.napi_of(txq)].irq_cpu;
        let now = Deadline::at(self.now);
        match deed {
            TxDeed::Stop => self.stop(txq, StopBy::Driver),
            TxDeed::Freeze => self.stop(txq, StopBy::Frozen),
            TxDeed::Wake => self.push(now, Ev::Irq { cpu, irq: HardIrq::TxWake { txq, by: StopBy::Driver } }),
            TxDeed::Thaw => self.push(now, Ev::Irq { cpu, irq: HardIrq::TxWake { txq, by: StopBy::Frozen } }),
            TxDeed::Stall(span) => {
                let until = Deadline::after(self.now, span).instant();
                let of = self.txq(txq);
                of.stalled_until = until.unwrap_or(of.stalled_until).max(of.stalled_until);
            }
            TxDeed::Busy(packets) => self.txq(txq).busy_pkts = packets,
        }
    }

    /// The device is down: its rings are emptied, and nothing that was learnt is kept.
    pub(crate) fn empty_rings(&mut self, dev: usize) {
        let Some(Some(of)) = self.tx.devs.get(dev) else { return };
        let queues = of.first_txq..of.first_txq + of.txqs;
        for txq in queues {
            let now = self.now;
            let of = self.txq(txq);
            let lost: Vec<TxPkt> = of.ring.drain(..).collect();
            (of.done, of.wire_busy, of.bits) = (0, false, QueueBits::EMPTY);
            of.wire_generation += 1;
            of.sent = BqlSent::default();
            if let Some(bql) = &mut of.bql {
                bql.reset(now);
            }
            let qd = of.qd;
            self.drop_packets(qd, DropReason::DeviceDown, &lost, At::Ring);
            self.count_device_drops(qd, lost.len() as u64);
        }
    }
}

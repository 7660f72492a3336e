//! What a sender does to a discipline's defer list, and what its call returns.

use napier_core::control::Errno;
use napier_core::time::Instant;
use napier_core::tx::XmitCode;
use napier_core::tx::push::{Push, PushStep, Pushed, exceeds_burst};

use crate::machine::sim::coverage::Decision;
use crate::machine::tx::Outbound;
use crate::machine::tx::TxPkt;
use napier_scenario::{Sending, TxEvent};

impl Outbound {
    pub(crate) fn count_push(&mut self, qd: usize, push: &mut Push) {
        let max_burst = self.sysctl.qdisc_max_burst;
        let of = self.qd(qd);
        of.defer_count += 1;
        of.counted += 1;
        push.on_counted(of.defer_count, max_burst);
        let (counted, resetting) = (of.counted, of.resetting);
        if push.next() == PushStep::Done(Pushed::BurstDrop) && !resetting && !exceeds_burst(counted, max_burst) {
            let name = self.qdisc_name(qd);
            self.fail(format!("{name}: a burst drop, and only {counted} packets have come since the last flush"));
        }
    }

    pub(crate) fn link(&mut self, qd: usize, packet: TxPkt, push: &mut Push, seen: &mut Option<u32>) {
        let of = self.qd(qd);
        let head = of.defer.last().map(|head| head.id);
        if head != *seen {
            *seen = head;
            push.on_moved(head.is_none());
            self.hit(Decision::TxPushMoved);
            return;
        }
        of.defer.push(packet);
        push.on_linked();
        let flusher = push.next() == PushStep::Done(Pushed::Flush);
        of.flushers += u32::from(flusher);
        let qdisc = of.index;
        self.hit(if flusher { Decision::TxPushFlush } else { Decision::TxPushHanded });
        self.note_tx(TxEvent::Push { qdisc, flusher });
    }

    /// The next packet of a call.
    pub(crate) fn packet_of(&mut self, sender: usize, sending: &Sending, nth: u32) -> TxPkt {
        let txq = sending.to.at();
        let flow = if sending.own_flow { sending.flow.wrapping_add(nth) } else { sending.flow };
        let next = &mut self.tx.streams.entry((sender, txq, flow, sending.priority)).or_default().0;
        *next += 1;
        let number = *next;
        TxPkt {
            id: self.new_packet(),
            sender,
            number,
            flow,
            bytes: sending.bytes,
            priority: sending.priority,
            txtime: sending.txtime.map(|at| Instant::from_ns(self.epoch.ns + at.ns)),
            rate: sending.rate,
            queue: self.tx.txqs[txq].queue,
        }
    }

    /// What a datagram socket reports. Source: `net/ipv4/udp.c udp_send_skb`, `udp_sendmsg`: what the path has dropped
    /// is counted, and reported only to a socket that has asked for errors.
    pub(crate) fn udp_answer(&mut self, socket: usize, code: XmitCode) -> Option<Errno> {
        let errno = code.errno()?;
        if errno != Errno::ENOBUFS {
            return Some(errno);
        }
        self.tx.sndbuf_errors += 1;
        self.socks[socket].recverr.then_some(errno)
    }
}

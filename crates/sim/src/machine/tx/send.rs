//! A sender: `__dev_queue_xmit`, the push of `__dev_xmit_skb`, and what UDP makes of the answer.

use napier_core::control::Errno;
use napier_core::time::Instant;
use napier_core::tx::push::{Push, PushStep, Pushed, exceeds_burst};
use napier_core::tx::{DropReason, XmitCode};

use super::{At, TxPkt, Way};
use crate::machine::coverage::Decision;
use crate::machine::vm::K;
use crate::machine::world::World;
use napier_scenario::{Answer, Sending, ThreadIx, TxEvent};

impl K {
    /// Sends packets one by one, as `sendmmsg` does: an error ends it.
    pub(in crate::machine) async fn send(&self, sending: &Sending, thread: ThreadIx) -> Answer {
        let mut taken = 0;
        for nth in 0..sending.packets {
            self.bh_off();
            self.op().await;
            let packet = self.w().packet_of(self.me, sending, nth);
            let code = self.dev_queue_xmit(sending.to.at(), packet).await;
            self.w().note_tx(TxEvent::Xmit { thread, to: sending.to, code });
            self.bh_on().await;
            let Some(socket) = sending.socket else {
                taken += i64::from(code.errno().is_none());
                continue;
            };
            match self.w().udp_answer(socket.at(), code) {
                Some(errno) if taken == 0 => return Answer::Error(errno),
                Some(_) => break,
                None => taken += 1,
            }
        }
        Answer::Number(taken)
    }

    /// `__dev_queue_xmit`, with bottom halves off.
    pub(super) async fn dev_queue_xmit(&self, txq: usize, packet: TxPkt) -> XmitCode {
        let (qd, way, installed) = {
            let mut w = self.w();
            let qd = w.tx.txqs[txq].qd;
            let found = w.qd(qd);
            found.senders += 1;
            (qd, found.way, found.installed)
        };
        let code = match way {
            Way::Noqueue => self.noqueue_xmit(txq, packet).await,
            // What stands in its place drops everything. Source: `net/sched/sch_generic.c noop_enqueue`.
            Way::Locked | Way::Nolock if !installed => {
                let mut w = self.w();
                w.hit(Decision::TxNotInstalled);
                w.drop_packets(qd, DropReason::Deactivated, &[packet], At::Path);
                w.count_device_drops(qd, 1);
                XmitCode::Congested
            }
            Way::Locked => self.push_and_flush(qd, packet).await,
            Way::Nolock => self.nolock_xmit(qd, packet).await,
        };
        self.w().qd(qd).senders -= 1;
        code
    }

    /// The push to the defer list.
    async fn push_and_flush(&self, qd: usize, packet: TxPkt) -> XmitCode {
        let (mut push, mut seen) = {
            let w = self.w();
            let defer = &w.tx.qds[qd].defer;
            (Push::new(defer.is_empty()), defer.last().map(|head| head.id))
        };
        loop {
            self.op().await;
            match push.next() {
                PushStep::Count => self.w().count_push(qd, &mut push),
                PushStep::Link => self.w().link(qd, packet, &mut push, &mut seen),
                PushStep::Done(Pushed::Flush) => return self.flush(qd).await,
                PushStep::Done(pushed @ Pushed::Handed) => return pushed.code().expect("it is decided"),
                PushStep::Done(pushed @ Pushed::BurstDrop) => {
                    let mut w = self.w();
                    w.hit(Decision::TxBurstDrop);
                    w.drop_packets(qd, DropReason::Burst, &[packet], At::Path);
                    return pushed.code().expect("it is decided");
                }
            }
        }
    }
}

impl World {
    fn count_push(&mut self, qd: usize, push: &mut Push) {
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

    fn link(&mut self, qd: usize, packet: TxPkt, push: &mut Push, seen: &mut Option<u32>) {
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
    fn packet_of(&mut self, sender: usize, sending: &Sending, nth: u32) -> TxPkt {
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
    fn udp_answer(&mut self, socket: usize, code: XmitCode) -> Option<Errno> {
        let errno = code.errno()?;
        if errno != Errno::ENOBUFS {
            return Some(errno);
        }
        self.tx.sndbuf_errors += 1;
        self.socks[socket].recverr.then_some(errno)
    }
}

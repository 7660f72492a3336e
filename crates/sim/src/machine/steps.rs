//! The timeline: what the scenario does to the machine.

use napier_core::time::Deadline;

use crate::machine::sim::event::{Ev, HardIrq};
use crate::machine::world::World;
use napier_scenario::{Action, Check, Event, Policy, TxCheck};

impl World {
    /// Carries a step out; the CPU that must look again, if one must. `left`: packets of a burst still to come.
    pub(crate) fn take_step(&mut self, step: usize, left: u32) -> Option<usize> {
        let line = self.timeline[step].line;
        // The step is put back: a burst comes in several parts.
        let action = std::mem::replace(&mut self.timeline[step].action, Action::FailThread { nth: 0 });
        let kick = self.act(&action, step, line, left);
        self.timeline[step].action = action;
        kick
    }

    fn act(&mut self, action: &Action, step: usize, line: u32, left: u32) -> Option<usize> {
        let now = Deadline::at(self.now);
        match action {
            Action::Packets(packets) => {
                let left = left.min(packets.count);
                self.packet_arrives(packets, packets.count - left);
                if left > 1 {
                    let at = self.after(packets.every);
                    self.push(at, Ev::Step { step, left: left - 1 });
                }
            }
            Action::Interrupt { napi } => {
                let (napi, cpu) = (napi.at(), self.napis[napi.at()].irq_cpu);
                self.push(now, Ev::Irq { cpu, irq: HardIrq::Device { napi } });
            }
            Action::Schedule { napi, cpu } => {
                self.push(now, Ev::Irq { cpu: cpu.at(), irq: HardIrq::Schedule { napi: napi.at() } });
            }
            Action::Arm { napi, after, cpu } => {
                self.push(now, Ev::Irq { cpu: cpu.at(), irq: HardIrq::Arm { napi: napi.at(), after: *after } });
            }
            Action::Stall { thread, span } => {
                let ctx = self.inboxes[thread.at()].ctx;
                return self.freeze(ctx, *span);
            }
            Action::Hog { cpu, span, policy } => {
                let hog = &mut self.hogs[cpu.at()][usize::from(*policy == Policy::Fifo)];
                hog.1 += span.ns;
                let ctx = hog.0;
                self.wake(ctx);
            }
            Action::StopCpu { cpu, span } => return self.stop_cpu(cpu.at(), *span),
            Action::FailThread { nth } => self.fail_thread_in = *nth,
            Action::Driver { napi, quirk } => self.napis[napi.at()].quirk = *quirk,
            Action::Check(check) => self.check(check, line),
            Action::CheckTx(check) => self.look_at_tx(check, line),
            Action::CheckGroup(check) => self.look_at_group(check, line),
            Action::Tx { txq, deed } => self.do_tx(txq.at(), *deed),
            Action::Call { thread, call } => {
                let inbox = &mut self.inboxes[thread.at()];
                inbox.calls.push_back(call.clone());
                let ctx = inbox.ctx;
                self.wake(ctx);
            }
        }
        None
    }

    /// Compares what is with what should be.
    fn check(&mut self, check: &Check, line: u32) {
        let mut expected = Vec::new();
        let mut seen = Vec::new();
        let mut compare = |name: &str, want: String, have: String| {
            if want != have {
                expected.push(format!("{name} = {want}"));
                seen.push(format!("{name} = {have}"));
            }
        };
        if let Some(napi) = check.napi {
            self.check_napi(check, napi.at(), &mut compare);
        }
        let id_name = |id: u32| {
            let known = self.napis.iter().position(|n| n.id == id && id != 0);
            known.map_or_else(|| if id == 0 { "none".to_owned() } else { id.to_string() }, |napi| self.napi_name(napi))
        };
        let wanted = |napi: Option<napier_scenario::NapiIx>| {
            napi.map_or_else(|| "none".to_owned(), |napi| self.napi_name(napi.at()))
        };
        if let Some(socket) = check.socket {
            let sock = &self.socks[socket.at()];
            if let Some(queued) = check.queued {
                compare("queued", queued.to_string(), sock.queue.len().to_string());
            }
            if let Some(recorded) = check.recorded {
                // What the option reads: a number that is no id reads as none.
                let valid = napier_core::ids::napi_id_valid(sock.busy.napi_id, self.ids.first());
                compare("recorded", wanted(recorded), id_name(if valid { sock.busy.napi_id } else { 0 }));
            }
        }
        if let (Some(epoll), Some(slot)) = (check.epoll, check.slot) {
            compare("slot", wanted(slot), id_name(self.epolls[epoll.at()].slot));
        }
        if !expected.is_empty() {
            self.note(Event::CheckFailed { line, expected: expected.join(", "), seen: seen.join(", ") });
        }
    }

    fn look_at_tx(&mut self, check: &TxCheck, line: u32) {
        let mut differs = Vec::new();
        self.check_tx(check, &mut |name: &str, want: String, have: String| {
            if want != have {
                differs.push((format!("{name} = {want}"), format!("{name} = {have}")));
            }
        });
        if !differs.is_empty() {
            let (expected, seen): (Vec<_>, Vec<_>) = differs.into_iter().unzip();
            self.note(Event::CheckFailed { line, expected: expected.join(", "), seen: seen.join(", ") });
        }
    }

    fn check_napi(&self, check: &Check, napi: usize, compare: &mut impl FnMut(&str, String, String)) {
        let n = &self.napis[napi];
        if !n.word.contains(check.set) || n.word.intersects(check.clear) {
            compare("set", format!("{:?}", n.word.with(check.set).without(check.clear)), format!("{:?}", n.word));
        }
        let listed = self.cpus.iter().any(|cpu| cpu.lists.iter().any(|on| usize::from(*on) == napi));
        let mut number = |name: &str, want: Option<u32>, have: usize| {
            if let Some(want) = want {
                compare(name, want.to_string(), have.to_string());
            }
        };
        number("defers-left", check.defers_left, n.defers_left as usize);
        number("pending", check.pending, n.ring.len());
        number("held", check.held, n.merge.gro.iter_held().map(|packet| packet.segments as usize).sum());
        let mut flag = |name: &str, want: Option<bool>, have: bool| {
            if let Some(want) = want {
                compare(name, want.to_string(), have.to_string());
            }
        };
        flag("masked", check.masked, n.masked);
        flag("armed", check.armed, n.timer.armed);
        flag("listed", check.listed, listed);
        flag("thread", check.thread, n.has_thread);
    }
}

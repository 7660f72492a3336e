//! Programs that wait in an event context which busy polls, while packets come for it, other threads want its CPU and its instance is
//! given to a thread and taken back. By chance alone one seed in a hundred has what only then occurs. The draws come from a stream of
//! their own, so that the rest of a scenario is the same with and without them.

use napier_core::event::EpollParams;
use napier_core::time::{Instant, Span};
use napier_rng::Xoshiro256PlusPlus;
use rand::RngExt;

use super::random::Random;
use napier_scenario::{
    Action, Call, Epoll, EpollIx, Machine, NapiIx, NapiRef, Packets, Policy, SocketIx, Step, Target, ThreadIx,
};

/// One seed in three has them.
pub(super) fn add(seed: u64, machine: &mut Machine, timeline: &mut Vec<Step>) {
    let mut draw = WaiterDraw { rng: napier_rng::stream(seed, "waiters") };
    let open: Vec<SocketIx> =
        (0..machine.sockets.len() as u16).map(SocketIx).filter(|socket| machine.sockets[socket.at()].open).collect();
    if !draw.one_in(3) || open.is_empty() {
        return;
    }
    draw.place(machine, &open);
    let last = timeline.last().map_or(Instant::ZERO, |step| step.at);
    for _ in 0..12 {
        let at = Instant::from_ns(draw.rng.random_range(0..=last.ns));
        for (after, action) in draw.wait(machine, &open) {
            // What is of the last moment makes peace, and has to come last.
            let at = at + after;
            if at < last {
                timeline.push(Step { at, line: 0, action });
            }
        }
    }
    timeline.sort_by_key(|step| step.at);
}

struct WaiterDraw {
    rng: Xoshiro256PlusPlus,
}

impl Random for WaiterDraw {
    fn rng(&mut self) -> &mut Xoshiro256PlusPlus {
        &mut self.rng
    }
}

impl WaiterDraw {
    /// The first event context busy polls for all sockets that are open, whose instances are known.
    fn place(&mut self, machine: &mut Machine, open: &[SocketIx]) {
        let params = EpollParams {
            busy_poll_usecs: self.of(&[100, 400]),
            busy_poll_budget: self.of(&[1, 8, 64]),
            prefer_busy_poll: self.one_in(2),
        };
        let context = Epoll { name: "ep0".to_owned(), params, members: open.to_vec() };
        match machine.epolls.first_mut() {
            Some(first) => *first = context,
            None => machine.epolls.push(context),
        }
        for socket in open {
            machine.sockets[socket.at()].primed = true;
        }
        let suspend = Span::from_us(self.of(&[0, 2000]));
        for device in &mut machine.devices {
            device.no_busy_poll = false;
            device.tunables.irq_suspend_timeout = suspend;
        }
    }

    /// A wait, and what comes while the program busy polls: packets, a thread that wants its CPU, a change of who polls.
    fn wait(&mut self, machine: &Machine, open: &[SocketIx]) -> Vec<(Span, Action)> {
        let thread = ThreadIx(self.below(machine.threads.len() as u32) as u16);
        let timeout = Some(self.us(3000));
        let call = Call::EpollWait { epoll: EpollIx(0), timeout, max_events: 4 };
        let mut steps = vec![(Span::ZERO, Action::Call { thread, call })];
        for _ in 0..self.of(&[0, 1, 2]) {
            steps.push((self.us(60), self.packets(open)));
        }
        if self.one_in(2) {
            let cpu = machine.threads[thread.at()].cpu;
            let policy = self.of(&[Policy::Fair, Policy::Fifo]);
            let action = Action::Hog { cpu, span: self.us(100), policy };
            steps.push((self.us(60), action));
        }
        if self.one_in(2) {
            let napi = NapiRef::Napi(self.napi(machine));
            let control = ThreadIx(machine.threads.len() as u16 - 1);
            for threaded in [1, 0] {
                let attributes = vec![("threaded".to_owned(), threaded)];
                let call = Call::NapiSet { napi, attributes };
                steps.push((self.us(60), Action::Call { thread: control, call }));
            }
        }
        if self.one_in(3) {
            let thread = ThreadIx(self.below(machine.threads.len() as u32) as u16);
            let (usecs, budget) = (Some(300), self.of(&[1, 8]));
            let call = Call::BusyLoop { napi: self.napi(machine), usecs, prefer: self.one_in(2), budget, rcu: false };
            steps.push((self.us(60), Action::Call { thread, call }));
        }
        steps
    }

    fn napi(&mut self, machine: &Machine) -> NapiIx {
        NapiIx(self.below(machine.napis().into()) as u16)
    }

    fn packets(&mut self, open: &[SocketIx]) -> Action {
        let to = Target::Socket(self.of(open));
        Action::Packets(Packets {
            to,
            count: self.of(&[1, 7, 70, 70]),
            every: Span::from_ns(self.of(&[0, 100, 1000])),
            flow: self.below(4),
            own_flow: self.one_in(3),
            hash: None,
            mergeable: !self.one_in(4),
            rss: false,
            loopback: false,
            syn: None,
        })
    }
}

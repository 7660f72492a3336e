//! A run to look at: a machine with a program that serves, what happened, and what each CPU did meanwhile.

use napier_core::time::{Instant, Span};
use napier_scenario::{Answer, CpuIx, EpollIx, Event, Machine, NapiIx, Seen, SocketIx, Step, ThreadIx};

use super::exec::Code;
use super::vm::{CtxId, K};
use super::work::WorkCosts;
use super::world::World;
use super::{Options, setup};

/// The program of a story, by the first thread of its machine: it takes packets and works for each.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Program {
    /// It waits in an event context, takes all that is there, and waits again, each time at most so long.
    EventLoop {
        /// Which context.
        epoll: EpollIx,
        /// Longest wait; `None`: until there is an event.
        wait: Option<Span>,
    },
    /// It blocks in a receive.
    Receive {
        /// On which socket.
        socket: SocketIx,
    },
}

/// Who runs on a CPU.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// The handler of an interrupt.
    Interrupt,
    /// Softirqs, at the end of an interrupt or in the thread that takes them.
    Softirq,
    /// The thread of an instance.
    NapiThread(NapiIx),
    /// The thread of a CPU of a group.
    Group,
    /// A program's thread.
    Thread(ThreadIx),
    /// Another program.
    Other,
}

/// A stretch of a CPU's time.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Where.
    pub cpu: CpuIx,
    /// Who had it.
    pub who: Who,
    /// From when, since the start.
    pub from: Instant,
    /// Until when.
    pub to: Instant,
}

/// What came of it. All times are since the start.
#[derive(Clone, Debug)]
pub struct Story {
    /// What happened, in order.
    pub events: Vec<Seen>,
    /// What the CPUs did, in order of the end.
    pub ran: Vec<Ran>,
    /// From when to when the program worked for each packet, with what cut into that.
    pub works: Vec<(Instant, Instant)>,
    /// A rule or an invariant that did not hold.
    pub broken: Option<String>,
}

/// What is kept of a story while it runs.
#[derive(Debug, Default)]
pub(super) struct Told {
    ran: Vec<(usize, CtxId, Instant, Instant)>,
    works: Vec<(Instant, Instant)>,
}

/// Runs a machine until `end`. Its first thread is the program, which takes `service` for each packet.
///
/// # Panics
/// The rules' own assertions.
#[must_use]
pub fn tell(
    machine: &Machine,
    costs: WorkCosts,
    timeline: &[Step],
    program: Program,
    service: Span,
    end: Instant,
) -> Story {
    let code = |k: K, thread: usize| -> Option<Code> {
        (thread == 0).then(|| Box::pin(k.story_main(program, service)) as Code)
    };
    let programs = setup::Programs { costs, code: &code };
    let options = Options { log: true, ..Options::default() };
    let mut exec = setup::build_for(machine, timeline, &options, Some(&programs));
    let epoch = {
        let mut w = exec.vm.w();
        w.told = Some(Box::default());
        w.epoch
    };
    exec.run_until(Instant::from_ns(epoch.ns + end.ns));
    let mut w = exec.vm.w();
    let told = w.told.take().unwrap_or_default();
    let since = |at: Instant| Instant::from_ns(at.ns - epoch.ns);
    let ran = told.ran.iter().map(|(cpu, id, from, to)| Ran {
        cpu: CpuIx(*cpu as u16),
        who: who(machine, *id),
        from: since(*from),
        to: since(*to),
    });
    Story {
        ran: ran.collect(),
        works: told.works.iter().map(|(from, to)| (since(*from), since(*to))).collect(),
        events: w.log.take().unwrap_or_default(),
        broken: w.broken.take(),
    }
}

/// Whose context it is: they are made in the order of `setup::write_code`.
fn who(machine: &Machine, id: CtxId) -> Who {
    let levels = 5 * usize::from(machine.cpus);
    let threads = levels + usize::from(machine.napis());
    match id {
        _ if id < levels => match id % 5 {
            0 => Who::Interrupt,
            1 | 2 => Who::Softirq,
            _ => Who::Other,
        },
        _ if id < threads => Who::NapiThread(NapiIx((id - levels) as u16)),
        _ if id < threads + machine.threads.len() => Who::Thread(ThreadIx((id - threads) as u16)),
        _ => Who::Group,
    }
}

impl World {
    /// A context had its CPU from then until then.
    #[inline]
    pub(super) fn ran(&mut self, cpu: usize, id: CtxId, from: Instant, to: Instant) {
        if let Some(told) = &mut self.told
            && from < to
        {
            told.ran.push((cpu, id, from, to));
        }
    }
}

impl K {
    async fn story_main(self, program: Program, service: Span) {
        loop {
            self.work(super::Work::Syscall).await;
            match program {
                Program::EventLoop { epoll, wait } => {
                    let ready = self.epoll_wait(epoll.at(), wait, EVENTS_MAX, THREAD).await;
                    self.work(super::Work::EpollReturn).await;
                    let answer = Answer::Number(ready.len() as i64);
                    self.w().note(Event::Return { thread: THREAD, call: "epoll-wait", answer, ready: ready.clone() });
                    for socket in ready {
                        while self.w().take_packet(socket.at()) {
                            self.work_for_packet(service).await;
                        }
                    }
                }
                Program::Receive { socket } => {
                    let answer = self.recv(socket.at(), false, None, THREAD).await;
                    self.w().note(Event::Return { thread: THREAD, call: "recv", answer, ready: Vec::new() });
                    self.work_for_packet(service).await;
                }
            }
        }
    }

    async fn work_for_packet(&self, service: Span) {
        let from = self.w().now;
        self.spend(service).await;
        let mut w = self.w();
        let to = w.now;
        if let Some(told) = &mut w.told {
            told.works.push((from, to));
        }
    }
}

const THREAD: ThreadIx = ThreadIx(0);
const EVENTS_MAX: usize = 64;

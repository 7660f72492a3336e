//! A run to look at: a machine with a program that serves, what happened, and what each CPU did meanwhile.

use napier_core::time::{Instant, Span};

use crate::machine::cpu::work::{Work, WorkCosts};
use crate::machine::exec::Code;
use crate::machine::kernel::epoll::epoll_wait;
use crate::machine::kernel::recv::recv;
use crate::machine::setup;
use crate::machine::sim::event::CtxId;
use crate::machine::sim::plant::Options;
use crate::machine::vm::K;
use napier_scenario::{Answer, CpuIx, EpollIx, Event, Machine, NapiIx, Seen, SocketIx, Step, ThreadIx};

/// The program of a run, by the first thread of its machine: it takes packets and works for each.
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
pub struct Trace {
    /// What happened, in order.
    pub events: Vec<Seen>,
    /// What the CPUs did, in order of the end.
    pub ran: Vec<Ran>,
    /// From when to when the program worked for each packet, with what cut into that.
    pub works: Vec<(Instant, Instant)>,
    /// A rule or an invariant that did not hold.
    pub broken: Option<String>,
}

/// Runs a machine until `end`. Its first thread is the program, which takes `service` for each packet.
///
/// # Panics
/// The rules' own assertions.
#[must_use]
pub fn run(
    machine: &Machine,
    costs: WorkCosts,
    timeline: &[Step],
    program: Program,
    service: Span,
    end: Instant,
) -> Trace {
    let code = |k: K, thread: usize| -> Option<Code> {
        (thread == 0).then(|| Box::pin(program_main(k, program, service)) as Code)
    };
    let programs = setup::Programs { costs, code: &code };
    let options = Options { log: true, ..Options::default() };
    let mut exec = setup::build_for(machine, timeline, &options, Some(&programs));
    let epoch = {
        let mut w = exec.vm.w();
        w.trace = Some(Box::default());
        w.epoch
    };
    exec.run_until(Instant::from_ns(epoch.ns + end.ns));
    let mut w = exec.vm.w();
    let trace = w.trace.take().unwrap_or_default();
    let since = |at: Instant| Instant::from_ns(at.ns - epoch.ns);
    let ran = trace.ran.iter().map(|(cpu, id, from, to)| Ran {
        cpu: CpuIx(*cpu as u16),
        who: who(machine, *id),
        from: since(*from),
        to: since(*to),
    });
    Trace {
        ran: ran.collect(),
        works: trace.works.iter().map(|(from, to)| (since(*from), since(*to))).collect(),
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

const THREAD: ThreadIx = ThreadIx(0);

const EVENTS_MAX: usize = 64;

async fn program_main(k: K, program: Program, service: Span) {
    loop {
        k.work(Work::Syscall).await;
        match program {
            Program::EventLoop { epoll, wait } => {
                let ready = epoll_wait(&k, epoll.at(), wait, EVENTS_MAX, THREAD).await;
                k.work(Work::EpollReturn).await;
                let answer = Answer::Number(ready.len() as i64);
                k.w().note(Event::Return { thread: THREAD, call: "epoll-wait", answer, ready: ready.clone() });
                for socket in ready {
                    while k.w().take_packet(socket.at()) {
                        work_for_packet(&k, service).await;
                    }
                }
            }
            Program::Receive { socket } => {
                let answer = recv(&k, socket.at(), false, None, THREAD).await;
                k.w().note(Event::Return { thread: THREAD, call: "recv", answer, ready: Vec::new() });
                work_for_packet(&k, service).await;
            }
        }
    }
}

async fn work_for_packet(k: &K, service: Span) {
    let from = k.w().now;
    k.spend(service).await;
    let mut w = k.w();
    let to = w.now;
    if let Some(trace) = &mut w.trace {
        trace.works.push((from, to));
    }
}

//! From events to requests: which packet woke which thread, which read it, and when the answer went. Pure.
//!
//! ```text
//! interrupt, timer, raise --> poll takes packets --> socket told --> thread woken --> it runs --> it has read --> answer is sent
//!        (of a CPU)              (of a CPU)           (socket)         (CPU)         (thread)     (socket)        (thread, socket)
//! ```
//!
//! What is in brackets is by what two moments are put together. A poll runs on one CPU from its first packet to its end, and a socket is
//! told there; the thread that is woken next on that CPU was woken for it. Receives and sends have the socket.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::request::{Before, Cause, PolledBy, Request, Stage};
use super::{Happened, PathEvent};

/// Sockets that are followed, of all programs: with more, new ones are left.
const SOCKETS_MAX: usize = 1 << 16;
/// From the begin of an interrupt to what it asks for.
const INTERRUPT_NS: u64 = 100_000;

/// KnownThreads whose part in a request is known.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KnownThreads {
    /// Of the program.
    pub program: BTreeSet<u32>,
    /// Of instances.
    pub napi: BTreeSet<u32>,
    /// `ksoftirqd/N`.
    pub ksoftirqd: BTreeSet<u32>,
}

/// Puts events together, in the order of their times.
#[derive(Debug, Default)]
pub struct Story {
    threads: KnownThreads,
    cpus: HashMap<u32, CpuNow>,
    sockets: HashMap<u64, SocketNow>,
    of_threads: HashMap<u32, ThreadState>,
    /// Data that the program read, and of which no poll was seen.
    unmatched: u64,
    /// Requests that were read, and on whose connection nothing was sent.
    unanswered: u64,
}

#[derive(Debug, Default)]
struct CpuNow {
    /// The interrupt or timer that began last.
    began: Option<(u64, Cause)>,
    /// What asked for the next run of the receive softirq.
    asked: Option<(u64, Cause)>,
    /// What had asked for the one that runs.
    runs: Option<(u64, Cause)>,
    poll: Option<Poll>,
    /// The socket that was told last, in this poll.
    told: Option<u64>,
}

/// A poll that has taken a packet.
#[derive(Clone, Copy, Debug)]
struct Poll {
    caused_ns: u64,
    cause: Cause,
    first_ns: u64,
    by: PolledBy,
    /// Whose time it was.
    tid: u32,
    in_softirq: bool,
    /// What it kept may still go to the protocols.
    has_ended: bool,
}

/// Data that waits in a socket.
#[derive(Clone, Copy, Debug)]
struct Data {
    poll: Poll,
    told_ns: u64,
    woken: Option<(u32, u64)>,
    ran_ns: Option<u64>,
    before: Option<Before>,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    data: Data,
    read_ns: u64,
    by: u32,
    /// What its thread had been off its CPU until then.
    off_ns: u64,
}

#[derive(Debug, Default)]
struct SocketNow {
    data: Option<Data>,
    taken: Option<Taken>,
}

#[derive(Debug, Default)]
struct ThreadState {
    /// Sockets that it was woken for, and has not run since.
    woken_for: Vec<u64>,
    /// What woke it, for a thread of an instance.
    woken: Option<(u64, Cause)>,
    /// The first packet that it gave to an interface since its last receive or send.
    queued_ns: Option<u64>,
    off_since: Option<u64>,
    off_ns: u64,
    /// When it was woken last.
    woke_ns: Option<u64>,
}

impl SocketNow {
    /// A thread that was woken for its data runs.
    fn runs(&mut self, tid: u32, at_ns: u64, before: Before) {
        if let Some(data) = self.data.as_mut().filter(|data| data.woken.is_some_and(|(woken, _)| woken == tid)) {
            (data.ran_ns, data.before) = (Some(at_ns), Some(before));
        }
    }
}

impl Poll {
    fn is_of(&self, event: &PathEvent) -> bool {
        (self.tid, self.in_softirq) == (event.tid, event.in_softirq)
    }
}

impl Story {
    /// Who is who, from now on.
    pub fn know(&mut self, threads: KnownThreads) {
        self.threads = threads;
    }

    /// Of data that was read: what no poll was seen of, and what nothing was sent for.
    #[must_use]
    pub const fn left(&self) -> (u64, u64) {
        (self.unmatched, self.unanswered)
    }

    /// Some events are missing: what is under way cannot be told any more.
    pub fn lost(&mut self) {
        self.unmatched += self.sockets.values().filter(|socket| socket.taken.is_some()).count() as u64;
        self.cpus.clear();
        self.sockets.clear();
        self.of_threads.clear();
    }

    /// Takes an event; the request that it ends.
    pub fn add(&mut self, event: &PathEvent) -> Option<Request> {
        let (at_ns, tid) = (event.at_ns, event.tid);
        match event.what {
            Happened::Interrupt => self.cpu(event).began = Some((at_ns, Cause::Interrupt)),
            Happened::Timer => self.cpu(event).began = Some((at_ns, Cause::Timer)),
            Happened::Raised => {
                let cause = self.cause(event);
                self.cpu(event).asked.get_or_insert(cause);
            }
            Happened::Softirq => {
                let cpu = self.cpu(event);
                (cpu.runs, cpu.poll, cpu.told) = (cpu.asked.take(), None, None);
            }
            Happened::Taken => {
                if self.cpu(event).poll.is_none_or(|poll| poll.has_ended) {
                    self.polls(event);
                }
            }
            Happened::Received => {
                if !self.cpu(event).poll.is_some_and(|poll| !poll.has_ended || poll.is_of(event)) {
                    self.polls(event);
                }
            }
            Happened::Polled => {
                let cpu = self.cpu(event);
                cpu.poll.iter_mut().for_each(|poll| poll.has_ended = true);
                cpu.told = None;
            }
            Happened::Ready { socket } => self.told(event, socket),
            Happened::Waking { woken } => self.woken(event, woken),
            Happened::Switch { from, ref name, to } => self.switched(at_ns, from, name, to),
            Happened::Read { socket, bytes } => self.read(event, socket, bytes),
            Happened::Queued => {
                if self.threads.program.contains(&tid) && !event.in_softirq && !event.in_irq {
                    self.of_threads.entry(tid).or_default().queued_ns.get_or_insert(at_ns);
                }
            }
            Happened::Sent { socket } => return self.sent(event, socket),
            Happened::Closed { socket } => {
                self.sockets.remove(&socket);
            }
        }
        None
    }

    fn cpu(&mut self, event: &PathEvent) -> &mut CpuNow {
        self.cpus.entry(event.cpu).or_default()
    }

    /// What something that is asked for now comes from: the interrupt that it happens in, or whatever runs there.
    fn cause(&mut self, event: &PathEvent) -> (u64, Cause) {
        let began = self.cpu(event).began.take().filter(|_| event.in_irq);
        began.filter(|(at, _)| event.at_ns - at < INTERRUPT_NS).unwrap_or((event.at_ns, Cause::Raised))
    }

    /// A poll has its first packet.
    fn polls(&mut self, event: &PathEvent) {
        let PathEvent { at_ns, tid, in_softirq, .. } = *event;
        let cpu = self.cpus.entry(event.cpu).or_default();
        let unseen = (at_ns, Cause::Unseen);
        let ((caused_ns, cause), by) = match in_softirq {
            true if self.threads.ksoftirqd.contains(&tid) => (cpu.runs.take().unwrap_or(unseen), PolledBy::Ksoftirqd),
            true => (cpu.runs.take().unwrap_or(unseen), PolledBy::Softirq),
            false if self.threads.napi.contains(&tid) => {
                let woken = self.of_threads.entry(tid).or_default().woken.take();
                (woken.unwrap_or(unseen), PolledBy::NapiThread)
            }
            false if self.threads.program.contains(&tid) => ((at_ns, Cause::Program), PolledBy::Program),
            false => (unseen, PolledBy::Other),
        };
        cpu.poll = Some(Poll { caused_ns, cause, first_ns: at_ns, by, tid, in_softirq, has_ended: false });
    }

    fn told(&mut self, event: &PathEvent, socket: u64) {
        let cpu = self.cpus.entry(event.cpu).or_default();
        cpu.told = Some(socket);
        // From a socket's backlog data comes in the time of the thread that had locked it.
        let Some(poll) = cpu.poll.filter(|poll| poll.is_of(event)) else { return };
        if self.sockets.len() >= SOCKETS_MAX && !self.sockets.contains_key(&socket) {
            return;
        }
        let data = Data { poll, told_ns: event.at_ns, woken: None, ran_ns: None, before: None };
        // What came first is what a request waits from.
        self.sockets.entry(socket).or_default().data.get_or_insert(data);
    }

    fn woken(&mut self, event: &PathEvent, woken: u32) {
        if self.threads.napi.contains(&woken) {
            let cause = self.cause(event);
            self.of_threads.entry(woken).or_default().woken = Some(cause);
            return;
        }
        if !self.threads.program.contains(&woken) {
            return;
        }
        self.of_threads.entry(woken).or_default().woke_ns = Some(event.at_ns);
        if let Some(socket) = self.cpu(event).told.take()
            && let Some(data) = self.sockets.get_mut(&socket).and_then(|socket| socket.data.as_mut())
            && data.woken.is_none()
        {
            data.woken = Some((woken, event.at_ns));
            self.of_threads.entry(woken).or_default().woken_for.push(socket);
        }
    }

    fn switched(&mut self, at_ns: u64, from: u32, name: &str, to: u32) {
        if self.threads.program.contains(&from) {
            self.runs(from, at_ns).off_since = Some(at_ns);
        }
        if !self.threads.program.contains(&to) {
            return;
        }
        self.is_back(to, at_ns, at_ns, if from == 0 { Before::idle() } else { Before::of(name) });
    }

    /// A thread does something, so it has a CPU. Some kernels do not record that an idle CPU goes to a thread: then it was away until it was
    /// woken, and ran at the latest now.
    fn runs(&mut self, tid: u32, at_ns: u64) -> &mut ThreadState {
        let thread = self.of_threads.entry(tid).or_default();
        if let Some(since) = thread.off_since {
            let back_ns = thread.woke_ns.filter(|woke_ns| *woke_ns >= since).unwrap_or(at_ns);
            self.is_back(tid, back_ns, at_ns, Before::idle());
        }
        self.of_threads.entry(tid).or_default()
    }

    /// A thread was away until `back_ns`, and runs at `ran_ns`, after what its CPU did before.
    fn is_back(&mut self, tid: u32, back_ns: u64, ran_ns: u64, before: Before) {
        let thread = self.of_threads.entry(tid).or_default();
        if let Some(since) = thread.off_since.take() {
            thread.off_ns += back_ns.saturating_sub(since);
        }
        for socket in std::mem::take(&mut thread.woken_for) {
            self.sockets.get_mut(&socket).into_iter().for_each(|socket| socket.runs(tid, ran_ns, before));
        }
    }

    fn read(&mut self, event: &PathEvent, address: u64, bytes: i64) {
        if !self.threads.program.contains(&event.tid) || bytes == 0 {
            // It is another program's, or it is over.
            self.sockets.remove(&address);
            return;
        }
        let thread = self.runs(event.tid, event.at_ns);
        thread.queued_ns = None;
        let off_ns = thread.off_ns;
        let Some(socket) = self.sockets.get_mut(&address) else {
            self.unmatched += 1;
            return;
        };
        match (socket.data.take(), &socket.taken) {
            (Some(data), None) => {
                let (read_ns, by) = (event.at_ns, event.tid);
                socket.taken = Some(Taken { data, read_ns, by, off_ns });
            }
            // The rest of a request, or the next one before the answer to this one: they are one.
            (_, Some(_)) => {}
            (None, None) => self.unmatched += 1,
        }
    }

    fn sent(&mut self, event: &PathEvent, address: u64) -> Option<Request> {
        if !self.threads.program.contains(&event.tid) {
            return None;
        }
        let queued_ns = self.runs(event.tid, event.at_ns).queued_ns.take();
        let taken = self.sockets.get_mut(&address)?.taken.take()?;
        // Where another CPU sends it, or the socket waits for room, it is on its way with the end of the call.
        let sent_ns = queued_ns.filter(|at| *at >= taken.read_ns).unwrap_or(event.at_ns);
        let off_cpu_ns = if taken.by == event.tid { self.of_threads[&event.tid].off_ns - taken.off_ns } else { 0 };
        Some(request(&taken, sent_ns, off_cpu_ns))
    }

    /// No more events come: what is under way has no answer.
    pub fn end(&mut self) {
        self.unanswered += self.sockets.values().filter(|socket| socket.taken.is_some()).count() as u64;
        self.sockets.clear();
    }
}

/// The stages of a request: each begins where the one before ends, so together they are the whole.
fn request(taken: &Taken, sent_ns: u64, off_cpu_ns: u64) -> Request {
    let Data { poll, told_ns, woken, ran_ns, before } = taken.data;
    let mut request = Request::new(poll.cause, poll.by, before, off_cpu_ns);
    let mut last_ns = poll.caused_ns;
    let mut until = |stage: Stage, end_ns: u64| {
        request.set(stage, end_ns.saturating_sub(last_ns));
        last_ns = last_ns.max(end_ns);
    };
    until(Stage::Poll, poll.first_ns);
    until(Stage::Socket, told_ns);
    match woken {
        // One that is still on its way to sleep does not leave its CPU.
        Some((_, woken_ns)) => {
            until(Stage::Wake, woken_ns);
            if let Some(ran_ns) = ran_ns {
                until(Stage::Run, ran_ns);
            }
            until(Stage::Read, taken.read_ns);
        }
        None => until(Stage::Awake, taken.read_ns),
    }
    until(Stage::Answer, sent_ns);
    request
}

#[cfg(test)]
#[path = "story_tests.rs"]
mod tests;

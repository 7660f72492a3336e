//! Whether a mode acts on the program that it was applied to: what is seen of it while it runs.
//!
//! ```text
//! wait until packets come --> a window of a second --> say what was seen --> a short window now and then --> say the last
//!          ^------ none came in it -----|
//! ```
//!
//! Polls are traced in windows alone, and only where packets come: a busy polling program makes some hundred thousand polls a second, and each
//! costs a little more while it is traced. A thread of its own looks, so nothing that the program waits for waits for this.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use napier_core::control::plan::Plan;
use napier_linux::change::DeviceRef;
use napier_linux::facts::{self, Program};
use napier_linux::observe::{
    Acts, Evidence, Needs, Observation, Observer, Received, Waits, WhoPolls, WindowCounts, elsewhere, judge, received,
    threads_of,
};
use napier_linux::process::Roots;
use serde_json::{Value, json};

/// The first window.
const FIRST: Duration = Duration::from_secs(1);
/// Those after it.
const LATER: Duration = Duration::from_millis(200);
/// Between two of them.
const BETWEEN: Duration = Duration::from_secs(10);
/// Between two looks whether packets come.
const LOOK: Duration = Duration::from_millis(100);
/// Looks at what a program waits in that has nothing to do: it may be so for days.
const LOOKS_MAX: u32 = 50;
/// How long no packets come before it is looked where the program's connections are.
const IDLE: Duration = Duration::from_secs(3);
/// Packets that make a window worth it.
const PACKETS_MIN: u64 = 20;
/// A look takes at most this part of the time from one to the next: a program may have very many threads.
const REST: u32 = 20;
/// Processes of a program that are looked at.
const PROCESSES_MAX: usize = 64;

/// What is looked at.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) mode: String,
    pub(crate) plan: Plan,
    pub(crate) device: DeviceRef,
    pub(crate) roots: Roots,
    /// Takes epoll instances that the mode harms, by process and descriptor.
    pub(crate) harmed: Sender<(u32, i32)>,
    /// Nothing is said meanwhile.
    pub(crate) is_quiet: bool,
}

/// A look that goes on.
pub(crate) struct Watching {
    stop: Sender<()>,
    thread: Option<JoinHandle<RunOutcome>>,
}

/// What was seen.
#[derive(Default)]
pub(crate) struct RunOutcome {
    first: Option<Observation>,
    last: Option<Observation>,
    packets: Option<u64>,
    /// Where the program's connections come in, if not by the interface.
    elsewhere: Option<String>,
    /// Its name, where it was looked at.
    program: String,
}

impl Watching {
    /// Begins to look. Without a thread for it nothing is seen.
    pub(crate) fn begin(subject: Subject) -> Self {
        let (stop, stopped) = channel();
        let looks = move || watch(&subject, &stopped, &mut None, &mut |_| {});
        let thread = std::thread::Builder::new().name("seen".to_owned()).spawn(looks);
        Self { stop, thread: thread.ok() }
    }

    /// What was seen until now.
    pub(crate) fn end(self) -> RunOutcome {
        let Self { stop, thread } = self;
        // Each of its waits hears that, however many there are until it looks whether it is to end.
        drop(stop);
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl RunOutcome {
    /// Whether the mode was seen to act; the last window counts.
    pub(crate) fn acts(&self) -> Acts {
        self.verdict().map_or(Acts::Unknown, |verdict| verdict.acts)
    }

    /// What is to be said at the end: what was not said before.
    pub(crate) fn lines(&self) -> Vec<String> {
        match (&self.first, &self.last) {
            (first, Some(last)) => {
                let known = |line: &String| first.as_ref().is_some_and(|first| first.lines.contains(line));
                last.lines.iter().filter(|line| !known(line)).map(|line| format!("last: {line}")).collect()
            }
            (_, None) => Vec::new(),
        }
    }

    /// The answer, for the end: whether the mode acted. Where too little came to tell, a person on a terminal is told so, and a script nothing.
    pub(crate) fn answer(&self, mode: &str, device: &str, is_watched: bool) -> Option<String> {
        let packets = self.packets.map_or_else(String::new, |packets| format!(": {packets} packets came to {device}"));
        match (self.acts(), self.verdict().is_some()) {
            (Acts::Yes, _) => Some(format!("{mode} acted{packets}{}", self.who())),
            (Acts::No, _) => Some(format!("{mode} DID NOT ACT{packets}{}, as is said above", self.who())),
            (Acts::Unknown, true) => {
                Some(format!("it was not seen whether {mode} acted{packets}, and what polls is not shown"))
            }
            (Acts::Unknown, false) => is_watched.then(|| format!("it was not seen whether {mode} acted{packets}")),
        }
    }

    /// Who polled, in the last window.
    fn who(&self) -> String {
        let polls = self.verdict().and_then(|verdict| verdict.polls.as_ref()).filter(|polls| polls.total() > 0);
        polls.map_or_else(String::new, |polls| format!("; polls of the last window: {}", polls.text(&self.program)))
    }

    /// For `--must-act`: why it does not count as acting.
    pub(crate) fn why(&self) -> String {
        match (self.acts(), self.packets) {
            (Acts::Unknown, Some(packets)) if packets < PACKETS_MIN => {
                format!("the mode was not seen to act: {packets} packets came")
            }
            (Acts::Unknown, _) => "the mode was not seen to act: what polls is not shown".to_owned(),
            (Acts::Yes | Acts::No, _) => "the mode was seen not to act".to_owned(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        self.verdict().map_or_else(
            || json!({ "acts": Acts::Unknown, "packets": self.packets, "elsewhere": self.elsewhere }),
            |verdict| json!(verdict),
        )
    }

    fn verdict(&self) -> Option<&Observation> {
        self.last.as_ref().or(self.first.as_ref())
    }
}

/// One look, whether or not packets come.
pub(crate) fn look_once(subject: &Subject, span: Duration) -> Option<Observation> {
    let (_stop, stopped) = channel();
    Watch::new(subject, &stopped, &mut None).window(span)
}

/// Looks at who polls, once packets come, and at nothing of the program: `None` if it was to end before.
pub(super) fn watch_polls(
    subject: &Subject,
    stopped: &Receiver<()>,
    observer: &mut Option<Observer>,
) -> Option<Observation> {
    let mut watcher = Watch { is_of_polls: true, ..Watch::new(subject, stopped, observer) };
    watcher.wait_for_packets().then(|| watcher.polls(LATER)).flatten()
}

/// Looks until it is to end. What each window shows is told.
pub(super) fn watch(
    subject: &Subject,
    stopped: &Receiver<()>,
    observer: &mut Option<Observer>,
    told: &mut dyn FnMut(&Observation),
) -> RunOutcome {
    let mut watcher = Watch::new(subject, stopped, observer);
    let at_first = received(&subject.device);
    let mut outcome = RunOutcome::default();
    while outcome.first.is_none() {
        let Some(verdict) = watcher.wait_for_packets().then(|| watcher.window(FIRST)).flatten() else { break };
        if verdict.packets.is_some_and(|packets| packets >= PACKETS_MIN) {
            subject.say(&verdict.lines);
            subject.tell_harmed(&verdict);
            told(&verdict);
            outcome.first = Some(verdict);
        }
    }
    while outcome.first.is_some() && watcher.pause(BETWEEN) {
        let Some(verdict) = watcher.window(LATER) else { break };
        if verdict.packets.is_some_and(|packets| packets >= PACKETS_MIN) {
            subject.tell_harmed(&verdict);
            told(&verdict);
            outcome.last = Some(verdict);
        }
    }
    outcome.elsewhere = watcher.elsewhere;
    outcome.program = watcher.program.unwrap_or_else(|| "the program".to_owned());
    outcome.packets = received(&subject.device).zip(at_first).map(|(now, first)| now.since(first).packets);
    outcome
}

struct Watch<'a> {
    subject: &'a Subject,
    stopped: &'a Receiver<()>,
    /// Made with the first window.
    observer: &'a mut Option<Observer>,
    /// Nothing of the program is looked at.
    is_of_polls: bool,
    waits: BTreeMap<u32, Waits>,
    /// It was said that connections come in elsewhere.
    elsewhere: Option<String>,
    /// The program's name.
    program: Option<String>,
}

impl<'a> Watch<'a> {
    fn new(subject: &'a Subject, stopped: &'a Receiver<()>, observer: &'a mut Option<Observer>) -> Self {
        Self { subject, stopped, observer, is_of_polls: false, waits: BTreeMap::new(), elsewhere: None, program: None }
    }

    /// Whether it is to go on after a while.
    fn pause(&self, span: Duration) -> bool {
        matches!(self.stopped.recv_timeout(span), Err(RecvTimeoutError::Timeout))
    }

    /// Whether packets come; `false` if it is to end.
    fn wait_for_packets(&mut self) -> bool {
        let device = self.subject.device.clone();
        let now = || received(&device);
        let (mut before, mut idle, mut looks) = (now(), Instant::now(), 0);
        loop {
            if !self.pause(LOOK) {
                return false;
            }
            // A program that has nothing to do sleeps in its wait; one that has much to do may never be seen there.
            if looks < LOOKS_MAX && !self.is_of_polls {
                self.look_at_waits(&self.subject.pids());
                looks += 1;
            }
            if idle.elapsed() >= IDLE && self.elsewhere.is_none() && !self.is_of_polls {
                self.look_elsewhere();
                idle = Instant::now();
            }
            // An interface that went down and up may have begun to count anew.
            match now().zip(before) {
                Some((now, before)) if now.since(before).packets >= PACKETS_MIN => return true,
                Some((Received { packets, .. }, known)) if packets < known.packets => before = now(),
                None => before = now(),
                Some(_) => {}
            }
        }
    }

    fn look_at_waits(&mut self, pids: &[u32]) {
        self.waits.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            self.waits.entry(*pid).or_default().look(*pid);
        }
    }

    fn look_elsewhere(&mut self) {
        let programs = self.programs(&self.subject.pids());
        self.elsewhere = elsewhere(&self.subject.device.name, &self.subject.mode, &programs);
        self.subject.say(self.elsewhere.as_slice());
    }

    /// Looks for so long; what was seen, also if it is to end earlier and a part of it went by.
    fn window(&mut self, span: Duration) -> Option<Observation> {
        let device = self.subject.device.clone();
        let ifindex = device.ifindex;
        let observer = self.observer.get_or_insert_with(|| Observer::new(device));
        // Those at the end may be others, or none: an interface goes down and up.
        let mut instances = InstancesSeen::default();
        instances.add(ifindex);
        observer.open();
        let begun = Instant::now();
        let (mut programs, mut tids) = (Vec::new(), BTreeSet::new());
        loop {
            let look = Instant::now();
            let pids = self.subject.pids();
            self.look_at_waits(&pids);
            tids.extend(threads_of(pids.iter().copied()));
            if let Some(observer) = self.observer.as_mut() {
                observer.look();
            }
            let pause = napier_linux::observe::LOOK.max(look.elapsed() * REST).min(span);
            let is_over = begun.elapsed() >= span || !self.pause(pause);
            // Of one that has ended meanwhile what it had before is what counts.
            if is_over || (programs.is_empty() && begun.elapsed() >= span / 2) {
                let found = self.programs(&pids);
                programs = if found.is_empty() { programs } else { found };
            }
            if is_over {
                break;
            }
        }
        self.program = programs.first().map(|program| program.name.clone()).or(self.program.take());
        let window = self.observer.as_mut()?.close();
        instances.add(ifindex);
        Some(self.judged(&window, &instances, &programs, &tids))
    }

    /// One window, of which polls alone are looked at, once.
    fn polls(&mut self, span: Duration) -> Option<Observation> {
        let device = self.subject.device.clone();
        let ifindex = device.ifindex;
        let mut instances = InstancesSeen::default();
        instances.add(ifindex);
        self.observer.get_or_insert_with(|| Observer::new(device)).open();
        let goes_on = self.pause(span);
        let window = self.observer.as_mut()?.close();
        instances.add(ifindex);
        let tids = threads_of(self.subject.pids());
        goes_on.then(|| self.judged(&window, &instances, &[], &tids))
    }

    fn judged(
        &self,
        window: &WindowCounts,
        instances: &InstancesSeen,
        programs: &[Program],
        tids: &BTreeSet<u32>,
    ) -> Observation {
        judge(&Evidence {
            mode: &self.subject.mode,
            device: &self.subject.device.name,
            instances: instances.ids.len(),
            napi_threads: &instances.threads,
            poller: WhoPolls::of(&self.subject.plan),
            needs: Needs::of(&self.subject.plan),
            window,
            programs,
            tids,
        })
    }

    fn programs(&self, pids: &[u32]) -> Vec<Program> {
        let read = |pid: &u32| {
            let (program, _) = facts::program(*pid).ok()?;
            let waits = self.waits.get(pid).cloned().unwrap_or_default();
            Some(Program { waits: waits.still_of(*pid), ..program })
        };
        let mut programs: Vec<Program> = pids.iter().filter_map(read).collect();
        // The first one names it: of a pod that is not the process that keeps its namespaces.
        programs.sort_by_key(|program| std::cmp::Reverse(program.internet.len()));
        programs
    }
}

/// Instances that an interface has or had, and their threads.
#[derive(Default)]
struct InstancesSeen {
    ids: BTreeSet<u32>,
    threads: BTreeSet<u32>,
}

impl InstancesSeen {
    fn add(&mut self, ifindex: u32) {
        for info in napier_linux::netdev::napi_dump(Some(ifindex)).unwrap_or_default() {
            self.ids.insert(info.id);
            self.threads.extend(info.pid);
        }
    }
}

impl Subject {
    fn say(&self, lines: &[String]) {
        if !self.is_quiet {
            crate::say::say(lines);
        }
    }

    fn tell_harmed(&self, verdict: &Observation) {
        for one in verdict.harmed(Needs::of(&self.plan)) {
            // The run has ended if nobody takes it.
            let _ = self.harmed.send(one);
        }
    }

    fn pids(&self) -> Vec<u32> {
        self.roots.pids().into_iter().take(PROCESSES_MAX).collect()
    }
}

#[cfg(test)]
#[path = "seen_tests.rs"]
mod tests;

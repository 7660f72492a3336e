//! A request: what it came by, and how long each stage of it took.

use serde::Serialize;

/// A part of a request's way, from the end of the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// From the interrupt, timer or call that asked for a poll to the first packet of that poll.
    Poll,
    /// From there until its socket was told.
    Socket,
    /// Until a thread was woken.
    Wake,
    /// Until that had a CPU.
    Run,
    /// Until it had read.
    Read,
    /// From the socket until it was read, by a thread that was awake.
    Awake,
    /// Until the answer was given to the interface.
    Answer,
}

impl Stage {
    /// All, in the order of time; a request has [`Awake`](Self::Awake) or the three before it.
    pub const ALL: [Self; 7] = [Self::Poll, Self::Socket, Self::Wake, Self::Run, Self::Read, Self::Awake, Self::Answer];

    /// What lies at its two ends, in words.
    #[must_use]
    pub const fn ends(self) -> (&'static str, &'static str) {
        match self {
            Self::Poll => ("interrupt or timer", "poll"),
            Self::Socket => ("poll", "socket"),
            Self::Wake => ("socket", "wake-up"),
            Self::Run => ("wake-up", "running"),
            Self::Read => ("running", "read"),
            Self::Awake => ("socket", "read, awake"),
            Self::Answer => ("read", "answer"),
        }
    }

    /// The same as one text.
    #[must_use]
    pub fn name(self) -> String {
        let (from, to) = self.ends();
        format!("{from} to {to}")
    }
}

/// What made an instance be polled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A device's interrupt.
    Interrupt,
    /// The timer of a deferred instance.
    Timer,
    /// A softirq or thread that something else asked for: with veth the sender.
    Raised,
    /// The program's own busy polling.
    Program,
    /// Nothing that is seen: the instance was being polled when the packet came.
    Unseen,
}

/// Who polled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolledBy {
    /// A thread of the program.
    Program,
    /// A thread of the instance.
    NapiThread,
    /// A softirq, in the time of whatever it interrupted.
    Softirq,
    /// A thread that softirqs were left to.
    Ksoftirqd,
    /// Another thread.
    Other,
}

/// What a CPU did before it ran a thread that was woken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Before([u8; 16]);

impl Before {
    pub(super) const fn idle() -> Self {
        Self([0; 16])
    }

    pub(super) fn of(name: &str) -> Self {
        let mut bytes = [0; 16];
        let length = name.len().min(bytes.len());
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        Self(bytes)
    }

    /// The name of the thread that had it; `None` if it was idle.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        (end > 0).then(|| String::from_utf8_lossy(&self.0[..end]).into_owned())
    }
}

/// A request that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What made the instance be polled.
    pub cause: Cause,
    /// Who polled.
    pub polled_by: PolledBy,
    /// What the CPU did before the thread that was woken ran there.
    pub before: Option<Before>,
    /// In the last stage: how long the thread had no CPU.
    pub off_cpu_ns: u64,
    stages: [Option<u64>; Stage::ALL.len()],
}

impl Request {
    pub(super) const fn new(cause: Cause, polled_by: PolledBy, before: Option<Before>, off_cpu_ns: u64) -> Self {
        Self { cause, polled_by, before, off_cpu_ns, stages: [None; Stage::ALL.len()] }
    }

    pub(super) const fn set(&mut self, stage: Stage, ns: u64) {
        self.stages[stage as usize] = Some(ns);
    }

    /// How long a stage took; `None` if it did not have it.
    #[must_use]
    pub const fn stage_ns(&self, stage: Stage) -> Option<u64> {
        self.stages[stage as usize]
    }

    /// The whole.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.stages.iter().flatten().sum()
    }
}

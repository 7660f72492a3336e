//! What a virtual CPU does with its time: kinds of work, what each costs, and where it went.
//!
//! Code on a CPU names the kind of what it does; one table says how long that takes. A scenario's seven round numbers fill the
//! table for conformance; the parameters of a machine fill it for figures. Nothing else differs between the two.

use napier_core::time::{Instant, Span};

use crate::machine::cpu::ctx::Level;
use napier_scenario::Costs;

macro_rules! kinds {
    ($($name:ident $word:literal, $what:literal;)*) => {
        /// A kind of work.
        #[derive(Copy, Clone, PartialEq, Eq, Debug)]
        pub enum Work { $(#[doc = $what] $name),* }

        impl Work {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name in machine files, without the unit.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// What it is.
            #[must_use]
            pub const fn what(self) -> &'static str {
                match self { $(Self::$name => $what),* }
            }
        }
    };
}

kinds! {
    Op "op", "one atomic step of a rule: a change of the state word, arming a timer, masking";
    HardIrq "hard-irq", "entering and leaving the handler of a device's interrupt";
    TimerIrq "timer-irq", "entering and leaving the handler of a timer";
    SoftirqEntry "softirq-entry", "one run of the receive softirq, beside its polls";
    PollEmpty "poll-empty", "a poll of a driver that finds nothing";
    Poll "poll", "a poll of a driver that finds packets, beside the packets";
    PacketUp "packet-up", "a packet with data, from the ring to its socket's queue";
    AckUp "ack-up", "a packet without data, from the ring to the connection";
    SegmentUp "segment-up", "each further frame of a message that GRO merges";
    AckDown "ack-down", "an acknowledgement that is sent by itself, from the connection to the wire";
    PacketDown "packet-down", "a packet that a driver is given";
    Syscall "syscall", "entering and leaving a system call";
    EpollReturn "epoll-return", "an epoll_wait that returns, beside its events, and the program's way round to the next";
    EpollEvent "epoll-event", "each event of it";
    SpinPause "spin-pause", "what a busy loop does between two polls";
    Wake "wake", "from waking a thread until it can run, on a CPU that is awake";
    Switch "switch", "switching between threads";
    IdleExit "idle-exit", "what an interrupt or a wake-up of an idle CPU takes more";
    DeepIdleExit "deep-idle-exit", "what it takes more than that, if the CPU was idle for long";
    QueueWork "queue-work", "queueing a poll for a pool of workers, beside waking one";
    GroupLook "group-look", "what the policy of a group takes to look at one member or CPU of it";
    CopyKib "copy", "copying a KiB between a program and the kernel";
    Recycle "recycle", "what a program does with a frame when it has used the packet";
    Request "request", "what a program itself does for one request";
    Answer "answer", "the system calls of a program for one request: the read, the write, the way down of the answer";
}

/// Kinds of work.
pub(crate) const KINDS: usize = Work::ALL.len();

/// How long each kind occupies a CPU.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct WorkCosts([Span; KINDS]);

impl WorkCosts {
    /// Nothing costs anything.
    pub const NONE: Self = Self([Span::ZERO; KINDS]);

    /// What these kinds cost in ns; the others cost nothing.
    #[must_use]
    pub fn of_ns<const N: usize>(costs: [(Work, u64); N]) -> Self {
        let mut all = Self::NONE;
        for (work, ns) in costs {
            all.set(work, Span::from_ns(ns));
        }
        all
    }

    /// What a kind costs.
    #[must_use]
    pub const fn get(&self, work: Work) -> Span {
        self.0[work as usize]
    }

    /// Sets what a kind costs.
    pub const fn set(&mut self, work: Work, span: Span) {
        self.0[work as usize] = span;
    }
}

/// How long each kind of work took at the CPU's full speed, in all; of waking how long it took until threads could run.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkTimes([u64; KINDS]);

impl WorkTimes {
    /// What a kind took.
    #[must_use]
    pub const fn get(&self, work: Work) -> Span {
        Span::from_ns(self.0[work as usize])
    }

    #[inline]
    pub(crate) fn add(&mut self, work: Work, ns: u64) {
        self.0[work as usize] += ns;
    }

    /// Both together.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|work| self.0[work] + other.0[work]))
    }

    /// What came after `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|work| self.0[work] - before.0[work]))
    }
}

impl From<&Costs> for WorkCosts {
    fn from(costs: &Costs) -> Self {
        let mut all = Self::NONE;
        for (work, span) in [
            (Work::Op, costs.op),
            (Work::HardIrq, costs.irq),
            (Work::TimerIrq, costs.irq),
            (Work::PollEmpty, costs.poll),
            (Work::Poll, costs.poll),
            (Work::PacketUp, costs.packet),
            (Work::AckUp, costs.packet),
            (Work::PacketDown, costs.packet),
            (Work::Syscall, costs.syscall),
            (Work::SpinPause, costs.op.max(Span::from_ns(1))),
            (Work::Wake, costs.wake),
            (Work::Switch, costs.switch),
        ] {
            all.set(work, span);
        }
        all
    }
}

/// Work is slower for a while after a CPU was interrupted or switched: its caches and predictors serve something else. Source: the
/// instructions per cycle of the measurements of interrupt suspension, 0.81 to 1.24 for the same instructions per query.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Disturbance {
    /// How much work is slower after a device's interrupt that came into a program.
    pub after_hard_irq: Span,
    /// After a timer, likewise.
    pub after_timer_irq: Span,
    /// After a switch of threads.
    pub after_switch: Span,
    /// By how much, in percent.
    pub slower_pct: u32,
    /// What an interrupt that finds a CPU idle takes, once it is awake, and counts as idleness: a tick that comes due meanwhile finds the idle
    /// task. Source: `kernel/sched/cputime.c account_process_tick`. It takes cycles all the same.
    pub unseen: Span,
}

/// Who a CPU worked for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Class {
    /// Programs.
    User,
    /// The kernel for programs, threads of the kernel.
    System,
    /// Interrupt handlers.
    Irq,
    /// Softirqs.
    Softirq,
    /// Polls for programs that found nothing. Part of the system's time in `/proc/stat`.
    Spin,
    /// Interrupts of an idle CPU, as far as they count as idleness. No part of any time in `/proc/stat`.
    Unseen,
}

const CLASSES: usize = Class::Unseen as usize + 1;

/// Where the time of a CPU went.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    ns: [u64; CLASSES],
    undisturbed_ns: [u64; CLASSES],
}

impl Account {
    /// Time of a class.
    #[must_use]
    pub const fn of(&self, class: Class) -> Span {
        Span::from_ns(self.ns[class as usize])
    }

    /// How long the work of a class takes at the CPU's full speed: what instructions go by.
    #[must_use]
    pub const fn undisturbed(&self, class: Class) -> Span {
        Span::from_ns(self.undisturbed_ns[class as usize])
    }

    /// Time in which the CPU was not idle, as `/proc/stat` has it.
    #[must_use]
    pub fn busy(&self) -> Span {
        Span::from_ns(self.ns[..Class::Unseen as usize].iter().sum())
    }

    /// Time in which it had cycles.
    #[must_use]
    pub fn awake(&self) -> Span {
        Span::from_ns(self.ns.iter().sum())
    }

    /// What came after `before`. Work that is not done yet is taken off the class that its level was charged for last, which a CPU that
    /// is just waking has not worked for: such a class has nothing.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |now: &[u64; CLASSES], before: &[u64; CLASSES]| {
            std::array::from_fn(|class| now[class].saturating_sub(before[class]))
        };
        Self { ns: less(&self.ns, &before.ns), undisturbed_ns: less(&self.undisturbed_ns, &before.undisturbed_ns) }
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            ns: std::array::from_fn(|class| self.ns[class] + other.ns[class]),
            undisturbed_ns: std::array::from_fn(|class| self.undisturbed_ns[class] + other.undisturbed_ns[class]),
        }
    }

    /// The same without `ns` of what was charged last, which are not spent yet. What counts as idleness is spent first.
    pub(crate) fn less(mut self, last: Charged, ns: u64) -> Self {
        let unseen_ns = ns.saturating_sub(last.seen_ns).min(last.unseen_ns);
        for (class, ns) in [(last.class, ns - unseen_ns), (Class::Unseen, unseen_ns)] {
            let of = &mut self.ns[class as usize];
            *of = of.saturating_sub(ns);
        }
        self
    }

    /// Time that went to a class, and what the work takes at full speed.
    pub(crate) fn add(&mut self, class: Class, ns: u64, undisturbed_ns: u64) {
        self.ns[class as usize] += ns;
        self.undisturbed_ns[class as usize] += undisturbed_ns;
    }
}

/// What was charged at once.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Charged {
    class: Class,
    /// Without what counts as idleness.
    seen_ns: u64,
    unseen_ns: u64,
}

/// What a CPU's speed depends on, and what it has done.
#[derive(Debug, Default)]
pub(crate) struct Speed {
    /// Work that is still slower.
    disturbed_ns: u64,
    /// Work of an interrupt that still counts as idleness.
    unseen_ns: u64,
    /// Since when the CPU has had nothing to do.
    idle_since: Option<Instant>,
    mean_idle_ns: u64,
    pub(crate) account: Account,
    pub(crate) works: WorkTimes,
    /// What was charged last, by interrupts, softirqs and threads.
    last: [Option<Charged>; 3],
}

impl Speed {
    /// The CPU has nothing to do.
    pub(crate) fn idle(&mut self, now: Instant) {
        self.idle_since.get_or_insert(now);
    }

    /// The CPU has something to do; since when it had nothing.
    pub(crate) fn wakes(&mut self, now: Instant) -> Option<Instant> {
        let since = self.idle_since.take()?;
        // As `update_avg`: an eighth of each pause, which counts as a millisecond at most.
        let pause_ns = (now.ns - since.ns).min(1_000_000);
        self.mean_idle_ns = self.mean_idle_ns - self.mean_idle_ns / 8 + pause_ns / 8;
        Some(since)
    }

    /// How long its pauses are, in the mean of the last.
    pub(crate) fn mean_idle_ns(&self) -> u64 {
        self.mean_idle_ns
    }

    /// From here on work is slower.
    pub(crate) fn disturb(&mut self, for_work: Span) {
        self.disturbed_ns = self.disturbed_ns.max(for_work.ns);
    }

    /// An interrupt has found the CPU idle: so much of its work counts as idleness.
    pub(crate) fn unseen(&mut self, for_work: Span) {
        self.unseen_ns = for_work.ns;
    }

    /// How long work takes that takes `ns` undisturbed, accounted for.
    /// `shared_pct`: by how much the other hyper-thread of the core slows it down.
    #[inline]
    pub(crate) fn charge(&mut self, level: Level, work: Work, ns: u64, slower: Disturbance, shared_pct: u64) -> u64 {
        let slow = ns.min(self.disturbed_ns);
        self.disturbed_ns -= slow;
        let undisturbed_ns = ns;
        self.works.add(work, ns);
        let ns = ns + (slow * u64::from(slower.slower_pct) + ns * shared_pct) / 100;
        let class = match (level, work) {
            (_, Work::IdleExit | Work::DeepIdleExit) => {
                // The CPU counts as idle until it is awake.
                if let Some(last) = &mut self.last[level as usize] {
                    last.unseen_ns = 0;
                }
                return ns;
            }
            (Level::Hard, _) => Class::Irq,
            (Level::Soft, _) => Class::Softirq,
            (Level::Task, Work::Request) => Class::User,
            (Level::Task, Work::PollEmpty | Work::SpinPause) => Class::Spin,
            (Level::Task, _) => Class::System,
        };
        let (unseen_ns, left_ns) = if level == Level::Task { (0, 0) } else { (ns.min(self.unseen_ns), self.unseen_ns) };
        self.unseen_ns = left_ns - unseen_ns;
        let undisturbed_unseen_ns = if unseen_ns == 0 { 0 } else { undisturbed_ns * unseen_ns / ns };
        self.account.add(Class::Unseen, unseen_ns, undisturbed_unseen_ns);
        self.account.add(class, ns - unseen_ns, undisturbed_ns - undisturbed_unseen_ns);
        self.last[level as usize] = Some(Charged { class, seen_ns: ns - unseen_ns, unseen_ns });
        ns
    }

    /// A program works for a time that nothing slows down.
    pub(crate) fn serve(&mut self, ns: u64) {
        self.account.add(Class::User, ns, ns);
        self.last[Level::Task as usize] = Some(Charged { class: Class::User, seen_ns: ns, unseen_ns: 0 });
    }

    /// What was charged to a level last.
    pub(crate) fn last_of(&self, level: Level) -> Charged {
        self.last[level as usize].unwrap_or(Charged { class: Class::System, seen_ns: 0, unseen_ns: 0 })
    }
}

//! Tables: what happened between two snapshots, per second. Pure.

use CellFrom::{Number, Percent, Rate, Share, Text, Words};

use super::snapshot::{Context, Count, Cpu, GroupCpu, Instance, ProgramRow, Queue, Snapshot, Thread};

/// A page of the view.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Tab {
    Instances,
    Threads,
    Cpus,
    Queues,
    Contexts,
    Groups,
    Programs,
}

impl Tab {
    pub(super) const ALL: [Self; 7] =
        [Self::Instances, Self::Threads, Self::Cpus, Self::Queues, Self::Contexts, Self::Groups, Self::Programs];

    /// Its word, in the view and in JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::Threads => "threads",
            Self::Cpus => "cpus",
            Self::Queues => "queues",
            Self::Contexts => "contexts",
            Self::Groups => "groups",
            Self::Programs => "programs",
        }
    }
}

/// What stands in a column.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum FigureKind {
    /// Words, on the left.
    Text,
    /// A number per second, of anything.
    Rate,
    /// A number as it is now.
    Number,
    /// Percent.
    Percent,
}

/// A column of a table.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Column {
    /// What stands above it.
    pub(super) head: &'static str,
    /// Its key in JSON, with its unit.
    pub(super) key: &'static str,
    pub(super) kind: FigureKind,
    /// Columns with a larger number go first where there is no room.
    pub(super) rank: u8,
}

/// A cell.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Cell {
    Text(String),
    /// `None`: not known.
    Number(Option<f64>),
}

/// A table; each row has as many cells as there are columns.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct TopTable {
    pub(super) tab: Tab,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Cell>>,
}

/// A column of rows of a kind, and where its cells are from.
struct Of<T> {
    column: Column,
    source: CellFrom<T>,
}

/// What a cell is made of: a row as it is now, and as it was before.
enum CellFrom<T> {
    Text(fn(&T) -> &str),
    Words(fn(&T, &T) -> String),
    /// Counted; per second.
    Rate(fn(&T) -> Count),
    /// Nanoseconds; in percent of the time.
    Percent(fn(&T) -> Count),
    Number(fn(&T, &T) -> Option<f64>),
    Share(fn(&Between, &T, &T) -> Option<f64>),
}

const fn of<T>(head: &'static str, key: &'static str, source: CellFrom<T>) -> Of<T> {
    let kind = match source {
        Text(_) | Words(_) => FigureKind::Text,
        Rate(_) => FigureKind::Rate,
        Percent(_) | Share(_) => FigureKind::Percent,
        Number(_) => FigureKind::Number,
    };
    Of { column: Column { head, key, kind, rank: 0 }, source }
}

const fn rank<T>(rank: u8, of: Of<T>) -> Of<T> {
    Of { column: Column { rank, ..of.column }, source: of.source }
}

impl<T> Of<T> {
    fn cell(&self, between: &Between, now: &T, then: &T) -> Cell {
        match self.source {
            Text(of) => Cell::Text(of(now).to_owned()),
            Words(of) => Cell::Text(of(now, then)),
            Rate(of) => Cell::Number(more(of(now), of(then)).map(|more| more / between.seconds)),
            Percent(of) => Cell::Number(between.percent(of(now), of(then))),
            Number(of) => Cell::Number(of(now, then)),
            Share(of) => Cell::Number(of(between, now, then)),
        }
    }
}

const INSTANCES: &[Of<Instance>] = &[
    of("DEVICE", "device", Text(|one| &one.device)),
    of("Q", "queue", Text(|one| &one.queue)),
    of("ID", "napi_id", Text(|one| &one.id)),
    of("MODE", "mode", Text(|one| &one.mode)),
    of("POLLER", "poller", Words(poller)),
    of("PKT/S", "packets_per_s", Rate(|one| one.packets)),
    of("POLL/S", "polls_per_s", Rate(|one| one.polls_all)),
    of("WORK", "work_per_poll", Number(|now, then| ratio(now, then, |one| one.packets, |one| one.polls_all))),
    of("IRQ/S", "interrupts_per_s", Rate(|one| one.interrupts)),
    of("DEFER/S", "deferrals_per_s", Rate(|one| one.deferrals)),
    of("SUSP/S", "suspensions_per_s", Rate(|one| one.suspensions)),
    rank(2, of("EMPTY%", "empty_polls_pct", Share(|_, now, then| empty_pct(now, then)))),
    rank(1, of("SPIN%", "spinning_pct", Percent(|one| one.spinning_ns))),
    rank(3, of("TIMER/S", "timers_per_s", Rate(|one| one.timers))),
    rank(4, of("OWNER", "owner", Text(|one| &one.owner))),
];

const THREADS: &[Of<Thread>] = &[
    of("ROLE", "role", Text(|thread| &thread.role)),
    of("NAME", "name", Text(|thread| &thread.name)),
    of("CPU", "cpu", Text(|thread| &thread.cpu)),
    of("ALIVE", "alive", Number(|now, _| figure(now.alive))),
    of("USEFUL%", "useful_pct", Share(|between, now, then| between.shares(now.times(), then.times())[0])),
    of("SPIN%", "spinning_pct", Share(|between, now, then| between.shares(now.times(), then.times())[1])),
    of("ASLEEP%", "asleep_pct", Share(|between, now, then| between.shares(now.times(), then.times())[2])),
];

const CPUS: &[Of<Cpu>] = &[
    of("CPU", "cpu", Text(|cpu| &cpu.cpu)),
    of("USER%", "user_pct", Percent(|cpu| cpu.user_ns)),
    of("SYS%", "system_pct", Percent(|cpu| cpu.system_ns)),
    of("IRQ%", "irq_pct", Percent(|cpu| cpu.irq_ns)),
    of("SOFTIRQ%", "softirq_pct", Percent(|cpu| cpu.softirq_ns)),
    of("IDLE%", "idle_pct", Percent(|cpu| cpu.idle_ns)),
    of("RUN/S", "receive_runs_per_s", Rate(|cpu| cpu.runs)),
    of("PKT/S", "packets_per_s", Rate(|cpu| cpu.packets)),
    of("SQUEEZE/S", "squeezes_per_s", Rate(|cpu| cpu.squeezed)),
    of("DROP/S", "drops_per_s", Rate(|cpu| cpu.dropped)),
    of("WAKE/S", "wakeups_per_s", Rate(|cpu| cpu.wakeups)),
    of("TIMER/S", "timers_per_s", Rate(|cpu| cpu.timers)),
    of("DELAY%", "run_delay_pct", Percent(|cpu| cpu.run_delay_ns)),
];

const QUEUES: &[Of<Queue>] = &[
    of("DEVICE", "device", Text(|queue| &queue.device)),
    of("Q", "queue", Text(|queue| &queue.queue)),
    of("QDISC", "qdisc", Text(|queue| &queue.qdisc)),
    of("VARIANT", "variant", Text(|queue| &queue.variant)),
    of("PKT/S", "packets_per_s", Rate(|queue| queue.packets)),
    of("BYTE/S", "bytes_per_s", Rate(|queue| queue.bytes)),
    of("DROP/S", "drops_per_s", Rate(|queue| queue.drops)),
    rank(1, of("REQ/S", "requeues_per_s", Rate(|queue| queue.requeues))),
    rank(1, of("FLUSH/S", "flushes_per_s", Rate(|queue| queue.flushes))),
    of("STOP/S", "stops_per_s", Rate(|queue| queue.stops)),
    of("WAIT", "waiting_pkts", Number(|now, _| now.waiting.and_then(figure))),
];

const CONTEXTS: &[Of<Context>] = &[
    of("CONTEXT", "event_context", Text(|context| &context.number)),
    of("POLLS", "busy_poll_napi_id", Text(|context| &context.napi_id)),
    of("WAIT/S", "waits_per_s", Rate(|context| context.waits)),
    of("EVENT/S", "events_per_s", Rate(|context| context.events)),
    of("PER WAIT", "events_per_wait", Number(|now, then| ratio(now, then, |one| one.events, |one| one.waits))),
    of("LOOP/S", "busy_loops_per_s", Rate(|context| context.busy_loops)),
    of("SLEEP/S", "sleeps_per_s", Rate(|context| context.sleeps)),
    of("WAKE/S", "wakes_per_s", Rate(|context| context.wakes)),
];

const GROUPS: &[Of<GroupCpu>] = &[
    of("GROUP", "group", Text(|cpu| &cpu.group)),
    of("CPU", "cpu", Text(|cpu| &cpu.cpu)),
    of("NOW", "doing", Text(|cpu| if cpu.asleep { "asleep" } else { "awake" })),
    of("QUEUES", "queues", Number(|now, _| figure(now.queues))),
    of("USEFUL%", "useful_pct", Share(|between, now, then| between.shares(now.times(), then.times())[0])),
    of("SPIN%", "spinning_pct", Share(|between, now, then| between.shares(now.times(), then.times())[1])),
    of("ASLEEP%", "asleep_pct", Share(|between, now, then| between.shares(now.times(), then.times())[2])),
    of("PARK/S", "parks_per_s", Rate(|cpu| cpu.parks)),
    of("VAIN/S", "vain_parks_per_s", Rate(|cpu| cpu.vain_parks)),
];

const PROGRAMS: &[Of<ProgramRow>] = &[
    of("PROGRAM", "program", Text(|row| &row.program)),
    rank(3, of("RUN", "programs", Number(|now, _| figure(now.programs)))),
    of("DOOR", "door", Text(|row| &row.door)),
    of("MODE", "mode", Text(|row| &row.mode)),
    of("Q", "queues", Text(|row| &row.queues)),
    of("LISTEN", "listening", Number(|now, _| figure(now.listening))),
    of("CONN", "connected", Number(|now, _| figure(now.connected))),
    of("WAIT", "waiting", Number(|now, _| figure(now.waiting))),
    of("UDP", "udp_sockets", Number(|now, _| figure(now.udp))),
    of("ACCEPT/S", "accepted_per_s", Rate(|row| row.accepted)),
    of("OPEN/S", "opened_per_s", Rate(|row| row.opened)),
    rank(2, of("DGRAM/S", "datagrams_per_s", Rate(|row| row.datagrams))),
    of("HELD/S", "held_calls_per_s", Rate(|row| row.held)),
    rank(2, of("KERNEL/S", "left_to_kernel_per_s", Rate(|row| row.left_to_kernel))),
    rank(1, of("REFUSED/S", "refused_per_s", Rate(|row| row.refused))),
];

impl Thread {
    const fn times(&self) -> [Count; 3] {
        [self.cpu_ns, self.spinning_ns, self.lived_ns]
    }
}

impl GroupCpu {
    const fn times(&self) -> [Count; 3] {
        [self.cpu_ns, self.spinning_ns, self.lived_ns]
    }
}

#[expect(clippy::cast_precision_loss, clippy::unnecessary_wraps, reason = "a figure for a view")]
fn figure(count: u64) -> Option<f64> {
    Some(count as f64)
}

/// What was counted meanwhile; `None` if it was not counted, or began anew.
fn more(now: Count, then: Count) -> Option<f64> {
    now?.checked_sub(then?).and_then(figure)
}

/// How many of the one came to one of the other meanwhile.
fn ratio<T>(now: &T, then: &T, of: fn(&T) -> Count, to: fn(&T) -> Count) -> Option<f64> {
    let to = more(to(now), to(then)).filter(|to| *to > 0.0)?;
    Some(more(of(now), of(then))? / to)
}

/// What lies between two snapshots.
struct Between {
    seconds: f64,
}

impl Between {
    /// Nanoseconds in percent of the time.
    fn percent(&self, now: Count, then: Count) -> Option<f64> {
        Some(more(now, then)? / self.seconds / 1e7)
    }

    /// Useful, spinning and asleep, in percent of one CPU.
    fn shares(&self, now: [Count; 3], then: [Count; 3]) -> [Option<f64>; 3] {
        let [cpu, spinning, lived] = [0, 1, 2].map(|nth| self.percent(now[nth], then[nth]));
        let useful = cpu.map(|cpu| (cpu - spinning.unwrap_or(0.0)).max(0.0));
        // Of ticks that were counted while it had no processor there may be more than CPU time.
        let spinning = spinning.zip(cpu).map(|(spinning, cpu)| spinning.min(cpu));
        let asleep = lived.zip(cpu).map(|(lived, cpu)| (lived - cpu).max(0.0));
        [useful, spinning, asleep]
    }

    /// A row for each that is there in both; one that is new has no rates yet.
    fn table<T: Default>(
        &self,
        tab: Tab,
        columns: &'static [Of<T>],
        (now, then): (&[T], &[T]),
        same: impl Fn(&T, &T) -> bool,
    ) -> TopTable {
        let unknown = T::default();
        // Mostly at the same place.
        let before = |nth: usize, one: &T| match then.get(nth).filter(|known| same(known, one)) {
            Some(known) => Some(known),
            None => then.iter().find(|known| same(known, one)),
        };
        let row = |(nth, one): (usize, &T)| {
            let then = before(nth, one).unwrap_or(&unknown);
            columns.iter().map(|column| column.cell(self, one, then)).collect()
        };
        TopTable {
            tab,
            columns: columns.iter().map(|of| of.column).collect(),
            rows: now.iter().enumerate().map(row).collect(),
        }
    }
}

fn empty_pct(now: &Instance, then: &Instance) -> Option<f64> {
    Some(100.0 * ratio(now, then, |one| one.empty_polls, |one| one.polls_all)?)
}

/// Who made most of the polls; `-` if there were none, and empty if that is not counted.
fn poller(now: &Instance, then: &Instance) -> String {
    if now.polls.is_empty() {
        return String::new();
    }
    let more = now.polls.iter().map(|(context, polls)| {
        let before = then.polls.iter().find(|(known, _)| known == context).map_or(0, |(_, polls)| *polls);
        (context, polls.saturating_sub(before))
    });
    // The first of equals.
    let most = more.filter(|(_, polls)| *polls > 0).min_by_key(|(_, polls)| u64::MAX - polls);
    most.map_or_else(|| "-".to_owned(), |(context, _)| context.clone())
}

/// The tables of what happened between two snapshots, in the order of [`Tab::ALL`].
pub(super) fn tables(then: &Snapshot, now: &Snapshot) -> Vec<TopTable> {
    #[expect(clippy::cast_precision_loss, reason = "figures for a view")]
    let seconds = now.at_ns.saturating_sub(then.at_ns).max(1) as f64 / 1e9;
    let between = Between { seconds };
    vec![
        between.table(Tab::Instances, INSTANCES, (&now.instances, &then.instances), |a, b| {
            (&a.device, &a.queue, &a.id) == (&b.device, &b.queue, &b.id)
        }),
        between.table(Tab::Threads, THREADS, (&now.threads, &then.threads), |a, b| {
            (&a.role, &a.name, &a.cpu) == (&b.role, &b.name, &b.cpu)
        }),
        between.table(Tab::Cpus, CPUS, (&now.cpus, &then.cpus), |a, b| a.cpu == b.cpu),
        // Another discipline counts from 0.
        between.table(Tab::Queues, QUEUES, (&now.queues, &then.queues), |a, b| {
            (&a.device, &a.queue, &a.qdisc) == (&b.device, &b.queue, &b.qdisc)
        }),
        between.table(Tab::Contexts, CONTEXTS, (&now.contexts, &then.contexts), |a, b| a.number == b.number),
        between
            .table(Tab::Groups, GROUPS, (&now.groups, &then.groups), |a, b| (&a.group, &a.cpu) == (&b.group, &b.cpu)),
        between.table(Tab::Programs, PROGRAMS, (&now.programs, &then.programs), |a, b| a.whole == b.whole),
    ]
}

impl TopTable {
    /// Whether something is known in a column: the kernel does not count all that an engine does, and the other way round.
    pub(super) fn known(&self, column: usize) -> bool {
        let says = |cell: &Cell| match cell {
            Cell::Text(text) => !text.is_empty(),
            Cell::Number(number) => number.is_some(),
        };
        self.rows.is_empty() || self.rows.iter().any(|row| says(&row[column]))
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
pub(super) mod tests;

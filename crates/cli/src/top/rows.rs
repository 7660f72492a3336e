//! Tables: what happened between two snapshots, per second. Pure.

use FigureKind::{Number, Percent, Rate, Text};

use super::snapshot::{Context, Count, Cpu, GroupCpu, Instance, Queue, Snapshot, Thread};

/// A page of the view.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Tab {
    Instances,
    Threads,
    Cpus,
    Queues,
    Contexts,
    Groups,
}

impl Tab {
    pub(super) const ALL: [Self; 6] =
        [Self::Instances, Self::Threads, Self::Cpus, Self::Queues, Self::Contexts, Self::Groups];

    /// Its word, in the view and in JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::Threads => "threads",
            Self::Cpus => "cpus",
            Self::Queues => "queues",
            Self::Contexts => "contexts",
            Self::Groups => "groups",
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
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Vec<Cell>>,
}

const fn column(head: &'static str, key: &'static str, kind: FigureKind) -> Column {
    Column { head, key, kind, rank: 0 }
}

impl Column {
    const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

const INSTANCES: &[Column] = &[
    column("DEVICE", "device", Text),
    column("Q", "queue", Text),
    column("ID", "napi_id", Text),
    column("MODE", "mode", Text),
    column("POLLER", "poller", Text),
    column("PKT/S", "packets_per_s", Rate),
    column("POLL/S", "polls_per_s", Rate),
    column("WORK", "work_per_poll", Number),
    column("IRQ/S", "interrupts_per_s", Rate),
    column("DEFER/S", "deferrals_per_s", Rate),
    column("SUSP/S", "suspensions_per_s", Rate),
    column("EMPTY%", "empty_polls_pct", Percent).rank(2),
    column("SPIN%", "spinning_pct", Percent).rank(1),
    column("TIMER/S", "timers_per_s", Rate).rank(3),
    column("OWNER", "owner", Text).rank(4),
];

const THREADS: &[Column] = &[
    column("ROLE", "role", Text),
    column("NAME", "name", Text),
    column("CPU", "cpu", Text),
    column("ALIVE", "alive", Number),
    column("USEFUL%", "useful_pct", Percent),
    column("SPIN%", "spinning_pct", Percent),
    column("ASLEEP%", "asleep_pct", Percent),
];

const CPUS: &[Column] = &[
    column("CPU", "cpu", Text),
    column("USER%", "user_pct", Percent),
    column("SYS%", "system_pct", Percent),
    column("IRQ%", "irq_pct", Percent),
    column("SOFTIRQ%", "softirq_pct", Percent),
    column("IDLE%", "idle_pct", Percent),
    column("RUN/S", "receive_runs_per_s", Rate),
    column("PKT/S", "packets_per_s", Rate),
    column("SQUEEZE/S", "squeezes_per_s", Rate),
    column("DROP/S", "drops_per_s", Rate),
    column("WAKE/S", "wakeups_per_s", Rate),
    column("TIMER/S", "timers_per_s", Rate),
    column("DELAY%", "run_delay_pct", Percent),
];

const QUEUES: &[Column] = &[
    column("DEVICE", "device", Text),
    column("Q", "queue", Text),
    column("QDISC", "qdisc", Text),
    column("VARIANT", "variant", Text),
    column("PKT/S", "packets_per_s", Rate),
    column("BYTE/S", "bytes_per_s", Rate),
    column("DROP/S", "drops_per_s", Rate),
    column("REQ/S", "requeues_per_s", Rate).rank(1),
    column("FLUSH/S", "flushes_per_s", Rate).rank(1),
    column("STOP/S", "stops_per_s", Rate),
    column("WAIT", "waiting_pkts", Number),
];

const CONTEXTS: &[Column] = &[
    column("CONTEXT", "event_context", Text),
    column("POLLS", "busy_poll_napi_id", Text),
    column("WAIT/S", "waits_per_s", Rate),
    column("EVENT/S", "events_per_s", Rate),
    column("PER WAIT", "events_per_wait", Number),
    column("LOOP/S", "busy_loops_per_s", Rate),
    column("SLEEP/S", "sleeps_per_s", Rate),
    column("WAKE/S", "wakes_per_s", Rate),
];

const GROUPS: &[Column] = &[
    column("GROUP", "group", Text),
    column("CPU", "cpu", Text),
    column("NOW", "doing", Text),
    column("QUEUES", "queues", Number),
    column("USEFUL%", "useful_pct", Percent),
    column("SPIN%", "spinning_pct", Percent),
    column("ASLEEP%", "asleep_pct", Percent),
    column("PARK/S", "parks_per_s", Rate),
    column("VAIN/S", "vain_parks_per_s", Rate),
];

/// What lies between two snapshots.
struct Between {
    seconds: f64,
}

#[expect(clippy::cast_precision_loss, reason = "figures for a view")]
impl Between {
    /// What was counted meanwhile; `None` if it was not counted, or began anew.
    fn more(now: Count, then: Count) -> Option<f64> {
        Some(now?.checked_sub(then?)? as f64)
    }

    fn rate(&self, now: Count, then: Count) -> Cell {
        Cell::Number(Self::more(now, then).map(|more| more / self.seconds))
    }

    /// Nanoseconds in percent of the time.
    fn percent(&self, now: Count, then: Count) -> Option<f64> {
        Some(Self::more(now, then)? / self.seconds / 1e7)
    }

    fn ratio(of: Option<f64>, to: Option<f64>) -> Option<f64> {
        let to = to.filter(|to| *to > 0.0)?;
        Some(of? / to)
    }

    /// Useful, spinning and asleep, in percent of one CPU.
    fn shares(&self, now: [Count; 3], then: [Count; 3]) -> [Cell; 3] {
        let [cpu, spinning, lived] = [0, 1, 2].map(|nth| self.percent(now[nth], then[nth]));
        let useful = cpu.map(|cpu| (cpu - spinning.unwrap_or(0.0)).max(0.0));
        // Of ticks that were counted while it had no processor there may be more than CPU time.
        let spinning = spinning.zip(cpu).map(|(spinning, cpu)| spinning.min(cpu));
        let asleep = lived.zip(cpu).map(|(lived, cpu)| (lived - cpu).max(0.0));
        [useful, spinning, asleep].map(Cell::Number)
    }

    fn instance(&self, now: &Instance, then: &Instance) -> Vec<Cell> {
        let packets = Self::more(now.packets, then.packets);
        let polls = Self::more(now.polls_all, then.polls_all);
        let empty = Self::more(now.empty_polls, then.empty_polls);
        vec![
            text(&now.device),
            text(&now.queue),
            text(&now.id),
            text(&now.mode),
            text(&poller(now, then)),
            self.rate(now.packets, then.packets),
            self.rate(now.polls_all, then.polls_all),
            Cell::Number(Self::ratio(packets, polls)),
            self.rate(now.interrupts, then.interrupts),
            self.rate(now.deferrals, then.deferrals),
            self.rate(now.suspensions, then.suspensions),
            Cell::Number(Self::ratio(empty, polls).map(|share| share * 100.0)),
            Cell::Number(self.percent(now.spinning_ns, then.spinning_ns)),
            self.rate(now.timers, then.timers),
            text(&now.owner),
        ]
    }

    fn thread(&self, now: &Thread, then: &Thread) -> Vec<Cell> {
        let counted = |thread: &Thread| [thread.cpu_ns, thread.spinning_ns, thread.lived_ns];
        let mut cells = vec![text(&now.role), text(&now.name), text(&now.cpu), Cell::Number(Some(now.alive as f64))];
        cells.extend(self.shares(counted(now), counted(then)));
        cells
    }

    fn cpu(&self, now: &Cpu, then: &Cpu) -> Vec<Cell> {
        let percent = |of: fn(&Cpu) -> Count| Cell::Number(self.percent(of(now), of(then)));
        let rate = |of: fn(&Cpu) -> Count| self.rate(of(now), of(then));
        vec![
            text(&now.cpu),
            percent(|cpu| cpu.user_ns),
            percent(|cpu| cpu.system_ns),
            percent(|cpu| cpu.irq_ns),
            percent(|cpu| cpu.softirq_ns),
            percent(|cpu| cpu.idle_ns),
            rate(|cpu| cpu.runs),
            rate(|cpu| cpu.packets),
            rate(|cpu| cpu.squeezed),
            rate(|cpu| cpu.dropped),
            rate(|cpu| cpu.wakeups),
            rate(|cpu| cpu.timers),
            percent(|cpu| cpu.run_delay_ns),
        ]
    }

    fn queue(&self, now: &Queue, then: &Queue) -> Vec<Cell> {
        let rate = |of: fn(&Queue) -> Count| self.rate(of(now), of(then));
        vec![
            text(&now.device),
            text(&now.queue),
            text(&now.qdisc),
            text(&now.variant),
            rate(|queue| queue.packets),
            rate(|queue| queue.bytes),
            rate(|queue| queue.drops),
            rate(|queue| queue.requeues),
            rate(|queue| queue.flushes),
            rate(|queue| queue.stops),
            Cell::Number(now.waiting.map(|packets| packets as f64)),
        ]
    }

    fn context(&self, now: &Context, then: &Context) -> Vec<Cell> {
        let rate = |of: fn(&Context) -> Count| self.rate(of(now), of(then));
        let per_wait = Self::ratio(Self::more(now.events, then.events), Self::more(now.waits, then.waits));
        vec![
            text(&now.number),
            text(&now.napi_id),
            rate(|context| context.waits),
            rate(|context| context.events),
            Cell::Number(per_wait),
            rate(|context| context.busy_loops),
            rate(|context| context.sleeps),
            rate(|context| context.wakes),
        ]
    }

    fn group(&self, now: &GroupCpu, then: &GroupCpu) -> Vec<Cell> {
        let counted = |cpu: &GroupCpu| [cpu.cpu_ns, cpu.spinning_ns, cpu.lived_ns];
        let doing = if now.asleep { "asleep" } else { "awake" };
        let mut cells = vec![text(&now.group), text(&now.cpu), text(doing), Cell::Number(Some(now.queues as f64))];
        cells.extend(self.shares(counted(now), counted(then)));
        cells.extend([self.rate(now.parks, then.parks), self.rate(now.vain_parks, then.vain_parks)]);
        cells
    }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
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

/// A row for each that is there in both; one that is new has no rates yet.
fn rows<T: Clone + Default>(
    (now, then): (&[T], &[T]),
    same: impl Fn(&T, &T) -> bool,
    row: impl Fn(&T, &T) -> Vec<Cell>,
) -> Vec<Vec<Cell>> {
    let unknown = T::default();
    // Mostly at the same place.
    let before = |nth: usize, one: &T| match then.get(nth).filter(|known| same(known, one)) {
        Some(known) => Some(known),
        None => then.iter().find(|known| same(known, one)),
    };
    let all = now.iter().enumerate();
    all.map(|(nth, one)| row(one, before(nth, one).unwrap_or(&unknown))).collect()
}

/// The tables of what happened between two snapshots, in the order of [`Tab::ALL`].
pub(super) fn tables(then: &Snapshot, now: &Snapshot) -> Vec<TopTable> {
    #[expect(clippy::cast_precision_loss, reason = "figures for a view")]
    let seconds = now.at_ns.saturating_sub(then.at_ns).max(1) as f64 / 1e9;
    let between = Between { seconds };
    let instances = rows(
        (&now.instances, &then.instances),
        |a, b| (&a.device, &a.queue, &a.id) == (&b.device, &b.queue, &b.id),
        |a, b| between.instance(a, b),
    );
    let threads = rows(
        (&now.threads, &then.threads),
        |a, b| (&a.role, &a.name, &a.cpu) == (&b.role, &b.name, &b.cpu),
        |a, b| between.thread(a, b),
    );
    let cpus = rows((&now.cpus, &then.cpus), |a, b| a.cpu == b.cpu, |a, b| between.cpu(a, b));
    let queues = rows(
        (&now.queues, &then.queues),
        // Another discipline counts from 0.
        |a, b| (&a.device, &a.queue, &a.qdisc) == (&b.device, &b.queue, &b.qdisc),
        |a, b| between.queue(a, b),
    );
    let contexts = rows((&now.contexts, &then.contexts), |a, b| a.number == b.number, |a, b| between.context(a, b));
    let same_cpu = |a: &GroupCpu, b: &GroupCpu| (&a.group, &a.cpu) == (&b.group, &b.cpu);
    let groups = rows((&now.groups, &then.groups), same_cpu, |a, b| between.group(a, b));
    let table = |tab, columns, rows| TopTable { tab, columns, rows };
    vec![
        table(Tab::Instances, INSTANCES, instances),
        table(Tab::Threads, THREADS, threads),
        table(Tab::Cpus, CPUS, cpus),
        table(Tab::Queues, QUEUES, queues),
        table(Tab::Contexts, CONTEXTS, contexts),
        table(Tab::Groups, GROUPS, groups),
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

//! Machine files: what work costs on a machine that is simulated, and where each figure comes from. `docs/plans.md` describes them.

mod core;
mod error_rows;
mod files;
mod known;
mod spread;
mod storage;

use napier_core::time::Span;
use napier_scenario::ParseError;
use napier_scenario::read::{Node, Table, read_file};
use napier_sim::machine::rpc::Quiet;
use napier_sim::machine::{Disturbance, Work, WorkCosts};

pub use self::core::{clients_of, core_of, instance_settings};
pub use error_rows::ErrorRows;
pub use files::{MachineError, machine, server_named};
pub use known::{Distrust, ERROR_MAX_PCT, KnownError, Off, percent, root_mean_square, table as error_table};
pub use spread::{fullest_queue, queue_connections};
pub use storage::{Quantiles, Storage, points_ns};

/// Where a figure comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Measured on the machine.
    Measured,
    /// Said by a document.
    Document,
    /// Estimated from what is known of such machines.
    Estimated,
    /// Chosen so that rows of a plan come out: those are no test of it.
    Fitted,
}

impl Origin {
    const WORDS: [&str; 4] = ["measured", "document", "estimated", "fitted"];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    fn named(word: &str) -> Option<Self> {
        let all = [Self::Measured, Self::Document, Self::Estimated, Self::Fitted];
        // `reckoned` is what files up to version 0.2 say.
        all.into_iter().find(|origin| origin.name() == word).or((word == "reckoned").then_some(Self::Estimated))
    }
}

/// One figure of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// `table.key`.
    pub name: String,
    /// In its unit.
    pub value: u64,
    /// `ns`, `pct`, `per-100k`, `count` or `mbit-s`.
    pub unit: &'static str,
    /// Where it comes from.
    pub origin: Origin,
    /// What it was fitted to: rows such as `base@200K`, or `base` for all rows of a mode.
    pub rows: Vec<String>,
    /// Half or twice of it is as near to what was published, so that its value says nothing of the machine.
    pub hardly_determined: bool,
    /// Source or reason.
    pub why: String,
}

/// A machine with its clients.
#[derive(Clone, PartialEq, Debug)]
pub struct MachineFile {
    /// What stands in its file.
    pub text: String,
    /// What it is.
    pub title: String,
    /// What is known of its kernel, such as what is switched off in it.
    pub kernel: Option<String>,
    /// Cycles in a microsecond.
    pub clock_mhz: u32,
    /// A busy poll of its kernel that ends polls once more before its timer is armed: Linux before 7.3. Of a server and its clients.
    pub polls_at_stop: bool,
    /// Jiffies per second.
    pub hz: u32,
    /// What work costs.
    pub costs: WorkCosts,
    /// What interrupts and switches cost beside.
    pub disturbance: Disturbance,
    /// By how much work is slower after them in a closed loop, in percent; `None`: as anywhere.
    pub slower_closed_pct: Option<u32>,
    /// Requests of one wait whose data stays in the cache; the others are disturbed as after a switch.
    pub warm_max: usize,
    /// How long the card takes to change its moderation; zero: it moderates nothing, and each packet interrupts.
    pub apply: Span,
    /// A CPU that was idle for so long sleeps deeply; 0: never.
    pub deep_after: Span,
    /// Instructions per 100 cycles of work that nothing slows down, and of polls that find nothing; 0: not known.
    pub per_100_cycles: (u64, u64),
    /// By how much work is slower while the core's other hyper-thread works, in percent.
    pub sibling_pct: u32,
    /// A thread that ran so shortly ago is not taken over by another CPU.
    pub migration_cost: Span,
    /// What sending takes more from a queue that no program busy polls.
    pub quiet: Quiet,
    /// What a packet takes more where a driver has a busy poll of its own.
    pub own_busy_poll: Span,
    /// The clients and the way to them.
    pub client: Client,
    /// Between two hosts of this kind; `None`: the file describes a server and its clients.
    pub wire: Option<Wire>,
    /// What stands behind a server of storage.
    pub storage: Storage,
    /// How far predictions on it were off.
    pub known: KnownError,
    /// All of the above, in the order of the file.
    pub parameters: Vec<Parameter>,
}

/// What a client's machine and the wire take. Shares are per 100,000 answers; what is per 100k grows with the requests per second of a
/// queue, until a rate, for each queue is taken to have clients of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(missing_docs, reason = "docs/plans.md describes them under the same names")]
pub struct Client {
    pub to_server_ns: u64,
    pub to_client_ns: u64,
    pub to_client_noise_ns: u64,
    pub step_share: u64,
    pub step_share_per_100k: u64,
    pub step_least_ns: u64,
    pub step_most_ns: u64,
    pub step_most_per_100k_ns: u64,
    pub step_grows_until_rps: u64,
}

/// A wire between two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "docs/plans.md describes them under the same names")]
pub struct Wire {
    pub one_way_ns: u64,
    pub noise_ns: u64,
    pub mbit_s: u64,
}

const KEYS: &[&str] = &[
    "title",
    "kernel",
    "polls-at-stop",
    "clock-mhz",
    "hz",
    "cost",
    "speed",
    "nic",
    "client",
    "wire",
    "storage",
    "error",
];
const SPEED: &[&str] = &[
    "after-hard-irq",
    "after-timer-irq",
    "after-switch",
    "slower",
    "slower-closed",
    "unseen",
    "warm-requests",
    "deep-idle-after",
    "sibling",
    "migration",
    "instructions-per-100-cycles",
    "instructions-per-100-cycles-spinning",
];
const NIC: &[&str] = &["apply-moderation", "quiet-after", "wake-armed", "wake-deferred", "own-busy-poll"];
const WIRE: &[&str] = &["one-way", "noise", "rate"];
const STORAGE: [[&str; 6]; 2] = [
    ["small-least", "small-p50", "small-p95", "small-p99", "small-p999", "small-most"],
    ["large-least", "large-p50", "large-p95", "large-p99", "large-p999", "large-most"],
];
const CLIENT: &[&str] = &[
    "to-server",
    "to-client",
    "to-client-noise",
    "step-share",
    "step-share-per-100k",
    "step-least",
    "step-most",
    "step-most-per-100k",
    "step-grows-until",
];
const UNITS: [&str; 5] = ["ns", "pct", "per-100k", "count", "mbit-s"];
/// The largest cost of one piece of work: a second.
const VALUE_MAX: i128 = 1_000_000_000;

impl MachineFile {
    /// What a request takes a program itself on it.
    #[must_use]
    pub fn request(&self) -> Span {
        self.costs.get(Work::Request)
    }

    /// Whether a figure was fitted to this row of a plan.
    #[must_use]
    pub fn is_fitted_to(&self, mode: &str, load: &str) -> bool {
        let is_it = |row: &String| match row.split_once('@') {
            Some((of, at)) => of == mode && at == load,
            None => row == mode,
        };
        self.parameters.iter().any(|parameter| parameter.rows.iter().any(is_it))
    }

    /// Reads a machine file; `file` is its name in errors.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(text: &str, file: &str) -> Result<Self, ParseError> {
        let machine = read_file(text, file, Self::read)?;
        Ok(Self { text: text.to_owned(), ..machine })
    }

    fn read(whole: Table<'_>) -> Result<Self, ParseError> {
        let whole = whole.only(KEYS)?;
        let is_pair = whole.has("wire");
        if is_pair && whole.has("client") {
            return Err(whole.need("wire")?.error("a machine has clients, or it is two hosts on a wire"));
        }
        let mut read = Reader::default();
        let mut costs = WorkCosts::NONE;
        for (name, value) in
            read.table(&whole, "cost", &Work::ALL.iter().map(|work| work.name()).collect::<Vec<_>>())?
        {
            let work = Work::ALL.iter().find(|work| work.name() == name).expect("the reader knows the names");
            costs.set(*work, Span::from_ns(value));
        }
        if costs.get(Work::PollEmpty).is_zero() || costs.get(Work::SpinPause).is_zero() {
            return Err(whole
                .need("cost")?
                .error("poll-empty and spin-pause are at least 1 ns: else a busy loop takes no time"));
        }
        let speed = read.table(&whole, "speed", SPEED)?;
        let span = |name: &str| Span::from_ns(of(&speed, name));
        let disturbance = Disturbance {
            after_hard_irq: span("after-hard-irq"),
            after_timer_irq: span("after-timer-irq"),
            after_switch: span("after-switch"),
            slower_pct: u32::try_from(of(&speed, "slower")).unwrap_or(u32::MAX),
            unseen: span("unseen"),
        };
        let nic = read.table(&whole, "nic", NIC)?;
        let nic = |name: &str| Span::from_ns(of(&nic, name));
        let client = if is_pair { Client::default() } else { client(&read.table(&whole, "client", CLIENT)?) };
        let wire = if is_pair { Some(wire(&read.table(&whole, "wire", WIRE)?)) } else { None };
        let storage = if whole.has("storage") { storage(&whole, &mut read)? } else { Storage::default() };
        Ok(Self {
            text: String::new(),
            title: whole.need("title")?.text("what the machine is")?.to_owned(),
            kernel: whole.map("kernel", |node| node.text("what its kernel is").map(str::to_owned))?,
            clock_mhz: whole.need("clock-mhz")?.number(1..=100_000)?,
            polls_at_stop: whole.map("polls-at-stop", Node::flag)?.unwrap_or(false),
            hz: whole.number("hz", 1..=10_000, 1000)?,
            costs,
            disturbance,
            slower_closed_pct: given(&speed, "slower-closed").map(|pct| u32::try_from(pct).unwrap_or(u32::MAX)),
            warm_max: usize::try_from(of(&speed, "warm-requests")).unwrap_or(usize::MAX),
            apply: nic("apply-moderation"),
            deep_after: span("deep-idle-after"),
            per_100_cycles: (
                of(&speed, "instructions-per-100-cycles"),
                of(&speed, "instructions-per-100-cycles-spinning"),
            ),
            sibling_pct: u32::try_from(of(&speed, "sibling")).unwrap_or(u32::MAX),
            migration_cost: span("migration"),
            quiet: Quiet { after: nic("quiet-after"), armed: nic("wake-armed"), deferred: nic("wake-deferred") },
            own_busy_poll: nic("own-busy-poll"),
            client,
            wire,
            storage,
            known: whole.map("error", KnownError::read)?.unwrap_or_default(),
            parameters: read.parameters,
        })
    }
}

fn client(read: &[(String, u64)]) -> Client {
    Client {
        to_server_ns: of(read, "to-server"),
        to_client_ns: of(read, "to-client"),
        to_client_noise_ns: of(read, "to-client-noise"),
        step_share: of(read, "step-share"),
        step_share_per_100k: of(read, "step-share-per-100k"),
        step_least_ns: of(read, "step-least"),
        step_most_ns: of(read, "step-most"),
        step_most_per_100k_ns: of(read, "step-most-per-100k"),
        step_grows_until_rps: of(read, "step-grows-until"),
    }
}

fn wire(read: &[(String, u64)]) -> Wire {
    Wire { one_way_ns: of(read, "one-way"), noise_ns: of(read, "noise"), mbit_s: of(read, "rate") }
}

fn storage(whole: &Table<'_>, read: &mut Reader) -> Result<Storage, ParseError> {
    let known: Vec<&'static str> = STORAGE.as_flattened().iter().copied().chain(["program"]).collect();
    let values = read.table(whole, "storage", &known)?;
    let times = STORAGE.map(|names| names.map(|name| of(&values, name)));
    if let Some(falls) = times.iter().find(|times| !times.is_sorted()) {
        return Err(whole.need("storage")?.error(format!("times grow from the least to the most, found {falls:?}")));
    }
    Ok(Storage { times, program_ns: of(&values, "program") })
}

fn given(values: &[(String, u64)], name: &str) -> Option<u64> {
    values.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
}

fn of(values: &[(String, u64)], name: &str) -> u64 {
    given(values, name).unwrap_or(0)
}

#[derive(Default)]
struct Reader {
    parameters: Vec<Parameter>,
}

impl Reader {
    /// The figures of a table, all of which have names that are known.
    fn table(
        &mut self,
        whole: &Table<'_>,
        key: &'static str,
        known: &[&'static str],
    ) -> Result<Vec<(String, u64)>, ParseError> {
        let table = whole.need(key)?.table("a table of figures")?;
        let mut values = Vec::new();
        for (name, node) in table.in_order() {
            if !known.contains(&name) {
                return Err(node.error(format!("unknown figure; expected one of {}", known.join(", "))));
            }
            let parameter = figure(format!("{key}.{name}"), &node)?;
            values.push((name.to_owned(), parameter.value));
            self.parameters.push(parameter);
        }
        Ok(values)
    }
}

fn figure(name: String, node: &Node<'_>) -> Result<Parameter, ParseError> {
    let table = node.table("a figure such as { ns = 100, origin = \"estimated\", why = \"...\" }")?;
    let table =
        table.only(&["ns", "pct", "per-100k", "count", "mbit-s", "origin", "rows", "hardly-determined", "why"])?;
    let units: Vec<&'static str> = UNITS.into_iter().filter(|unit| table.has(unit)).collect();
    let [unit] = units[..] else { return Err(node.error("a figure has one unit: ns, pct, per-100k, count or mbit-s")) };
    let origin = table.need("origin")?.word(Origin::named, &Origin::WORDS)?;
    let rows = table.map("rows", |node| node.texts("an array of modes"))?.unwrap_or_default();
    if (origin == Origin::Fitted) == rows.is_empty() {
        return Err(node.error("what is fitted names the rows that it was fitted to, and nothing else does"));
    }
    let hardly_determined = table.flag("hardly-determined", false)?;
    if hardly_determined && origin != Origin::Fitted {
        return Err(node.error("only what was fitted may be hardly determined by it"));
    }
    Ok(Parameter {
        hardly_determined,
        name,
        value: table.need(unit)?.number(0..=VALUE_MAX)?,
        unit,
        origin,
        rows,
        why: table.need("why")?.text("a source or a reason")?.to_owned(),
    })
}

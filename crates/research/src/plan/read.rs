//! Plan files, of whatever kind.

use napier_core::group::{DELAY_TARGET_MAX, DELAY_TARGET_MIN, Settings};
use napier_core::moderation::Coalesce;
use napier_kv::service::{Service, ServiceError};
use napier_lab::loads::Load;
use napier_lab::machines::{self, MachineFile};
use napier_lab::modes::Mode;
use napier_scenario::ParseError;
use napier_scenario::read::{Node, Table, read_file};
use napier_sim::machine::smp::Many;

use super::arrivals::PlanArrivals;
use super::kind::With;
use super::load::{as_recorded, loads};
use super::published::Published;
use super::set::OwnSettings;
use super::{Plan, PlanKind, PlanMode, Scale};
use crate::transmit::published::{QUEUES, SENDERS};

/// Most CPUs that are simulated.
const CPUS_MAX: i128 = 1024;

impl Plan {
    /// Reads a plan; `file` is its name in errors.
    ///
    /// # Errors
    /// The first thing that is wrong, with its file and line.
    pub fn parse(text: &str, file: &str) -> Result<Self, ParseError> {
        Self::parse_on(text, file, machines::machine)
    }

    /// The same, on the machine of this text, whatever the plan calls it.
    ///
    /// # Errors
    /// Likewise.
    pub fn with_machine(text: &str, file: &str, machine_text: &str) -> Result<Self, ParseError> {
        Self::parse_on(text, file, |node| MachineFile::parse(machine_text, node.text("a machine")?))
    }

    fn parse_on(
        text: &str,
        file: &str,
        machine: impl FnOnce(&Node<'_>) -> Result<MachineFile, ParseError>,
    ) -> Result<Self, ParseError> {
        let plan = read_file(text, file, |whole| Self::read(whole, machine))?;
        Ok(Self { text: text.to_owned(), ..plan })
    }

    fn read(
        whole: Table<'_>,
        machine: impl FnOnce(&Node<'_>) -> Result<MachineFile, ParseError>,
    ) -> Result<Self, ParseError> {
        let found = whole.in_order().into_iter().find(|(key, _)| *key == "kind");
        let kind = found.map_or(Ok(PlanKind::EventLoop), |(_, node)| node.word(PlanKind::named, &PlanKind::WORDS))?;
        let whole = whole.only(kind.keys())?;
        let arrivals = match kind {
            PlanKind::EventLoop => arrivals(&whole)?,
            _ => None,
        };
        let scale = scale(&whole, kind, arrivals.as_ref())?;
        let modes = modes(&whole, kind)?;
        let loads = match &arrivals {
            Some(arrivals) if !whole.has("loads") => vec![as_recorded(&whole, arrivals.rate_rps())?],
            _ => loads(&whole, kind)?,
        };
        let is_closed = loads.iter().any(|load| load.load == Load::Max);
        if arrivals.is_some() && is_closed {
            return Err(whole
                .need(when(&whole))?
                .error("requests of a log or with gaps come at rates, and not as fast as they are answered"));
        }
        let datagrams = kind == PlanKind::EventLoop && whole.flag("datagrams", false)?;
        if datagrams && (is_closed || arrivals.is_some()) {
            let error = "no one waits for them: loads are rates by chance, and neither \"max\", a log nor gaps";
            return Err(whole.need("datagrams")?.error(error));
        }
        let machine =
            if kind == PlanKind::UdpStream { None } else { Some(Box::new(machine_of(&whole, kind, machine)?)) };
        let mut published = whole.map("published", Published::read)?.unwrap_or_default();
        if scale.is_senders() && scale != (Scale::Senders { senders: SENDERS, queues: QUEUES }) {
            // The document has one number of each.
            published = Published::default();
        }
        Ok(Self {
            text: String::new(),
            kind,
            title: whole.need("title")?.text("what it reproduces")?.to_owned(),
            modes,
            loads,
            machine,
            scale,
            datagrams,
            service: service(&whole, kind, arrivals.as_ref())?,
            arrivals,
            seeds: match kind {
                PlanKind::UdpStream => 1,
                _ => whole.number("seeds", 1..=1000, if kind == PlanKind::EventLoop { 3 } else { 1 })?,
            },
            seed: if kind == PlanKind::UdpStream { whole.number("seed", 0..=i128::from(u64::MAX), 1)? } else { 1 },
            published,
        })
    }
}

/// Requests that were recorded, if there are.
fn arrivals(whole: &Table<'_>) -> Result<Option<PlanArrivals>, ParseError> {
    let port = whole.map("port", |node| node.number(1..=i128::from(u16::MAX)))?;
    if port.is_some() && !whole.has("arrivals") {
        return Err(whole.need("port")?.error("the port is that of a file of packets in `arrivals`"));
    }
    let Some(gaps) = whole.get("gaps") else {
        return whole.map("arrivals", |node| PlanArrivals::read(node, port));
    };
    if whole.has("arrivals") {
        return Err(gaps.error("a log in `arrivals` has its own times: give them there or here"));
    }
    PlanArrivals::with_gaps(&gaps, connections(whole)?).map(Some)
}

/// The key that says when requests come.
fn when(whole: &Table<'_>) -> &'static str {
    if whole.has("gaps") { "gaps" } else { "arrivals" }
}

/// Connections over all queues, as they are given.
fn connections(whole: &Table<'_>) -> Result<u16, ParseError> {
    whole.need("connections")?.number(1..=60_000)
}

/// What requests take the program beside.
fn service(whole: &Table<'_>, kind: PlanKind, arrivals: Option<&PlanArrivals>) -> Result<Option<Service>, ParseError> {
    let logged = arrivals.and_then(|arrivals| arrivals.service.clone());
    if kind != PlanKind::EventLoop || !whole.has("service") {
        return Ok(logged);
    }
    let node = whole.need("service")?;
    if logged.is_some() {
        return Err(node.error("the log in `arrivals` has times of service: give them there or here"));
    }
    let text = node.text("a time such as \"6us\", \"exp:6us\" or \"hist:FILE\"")?;
    text.parse().map(Some).map_err(|error: ServiceError| node.error(error))
}

fn scale(whole: &Table<'_>, kind: PlanKind, arrivals: Option<&PlanArrivals>) -> Result<Scale, ParseError> {
    Ok(match kind {
        PlanKind::EventLoop => {
            let queues = whole.need("queues")?.number(1..=1024)?;
            if let Some(arrivals) = arrivals {
                let is_log = whole.has("arrivals");
                if (is_log && whole.has("connections")) || arrivals.connections() < queues {
                    let error = if is_log { "are those of the log, at least" } else { "are at least" };
                    return Err(whole.need(when(whole))?.error(format!("connections {error} one for each queue")));
                }
                return Ok(Scale::Queues { queues, connections: arrivals.connections() });
            }
            let connections = connections(whole)?;
            if !connections.is_multiple_of(queues) {
                let error = format!("the connections of {queues} queues are equally many each");
                return Err(whole.need("connections")?.error(error));
            }
            Scale::Queues { queues, connections }
        }
        PlanKind::XskRr | PlanKind::BusyRead => Scale::Pair,
        PlanKind::UdpStream => Scale::Senders {
            senders: whole.need("senders")?.number(1..=1000)?,
            queues: whole.need("queues")?.number(1..=1000)?,
        },
        PlanKind::TcpRr | PlanKind::RemoteSsd => {
            let cpus: u16 = whole.need("cpus")?.number(2..=CPUS_MAX)?;
            if !cpus.is_multiple_of(2) {
                return Err(whole.need("cpus")?.error("each core has two hyper-threads: their number is even"));
            }
            Scale::Hosts {
                cpus,
                queues: whole.need("queues")?.number(1..=i128::from(cpus))?,
                threads: whole.need("threads")?.number(1..=4096)?,
                flows: whole.need("flows")?.number(1..=20_000)?,
            }
        }
        PlanKind::Groups => Scale::Server {
            connections: whole.need("connections")?.number(1..=64)?,
            full_rps: whole.need("full")?.number(1..=10_000_000)?,
            group: whole.map("group", settings)?.unwrap_or_default(),
        },
    })
}

fn machine_of(
    whole: &Table<'_>,
    kind: PlanKind,
    machine: impl FnOnce(&Node<'_>) -> Result<MachineFile, ParseError>,
) -> Result<MachineFile, ParseError> {
    let node = whole.need("machine")?;
    let machine = machine(&node)?;
    match kind {
        PlanKind::EventLoop | PlanKind::Groups if machine.wire.is_some() => {
            Err(node.error("two hosts on a wire are no server with clients; expected a machine with [client]"))
        }
        PlanKind::EventLoop | PlanKind::Groups => Ok(machine),
        _ if machine.wire.is_none() => {
            Err(node.error("this machine is a server with clients; expected two hosts, with [wire]"))
        }
        PlanKind::RemoteSsd if machine.storage.times.iter().any(|times| times[5] == 0) => {
            Err(node.error("this machine has no storage; expected one with [storage]"))
        }
        _ => Ok(machine),
    }
}

pub(super) fn server_size(node: &Node<'_>) -> Result<(u16, u16), ParseError> {
    let table = node.table("a size such as { cpus = 56, nodes = 2 }")?.only(&["cpus", "nodes"])?;
    let (cpus, nodes) = (table.need("cpus")?.number(1..=CPUS_MAX)?, table.number("nodes", 1..=CPUS_MAX, 1)?);
    if !Many::fits(cpus, nodes) {
        return Err(
            node.error("each node has an even number of cores of two CPUs: cpus is a multiple of 4 times nodes")
        );
    }
    Ok((cpus, nodes))
}

fn settings(node: &Node<'_>) -> Result<Settings, ParseError> {
    let keys = &["delay-target", "min-active", "shrink-after"];
    let table = node.table("settings such as { delay-target = \"10us\", min-active = 1 }")?.only(keys)?;
    let default = Settings::default();
    let settings = Settings {
        delay_target: table.short_span("delay-target", default.delay_target)?,
        min_active: table.number("min-active", 0..=CPUS_MAX, default.min_active)?,
        shrink_after: table.short_span("shrink-after", default.shrink_after)?,
        ..default
    };
    if settings.delay_target < DELAY_TARGET_MIN || settings.delay_target > DELAY_TARGET_MAX {
        return Err(node.error("delay-target is from 1us to 1s"));
    }
    if settings.shrink_after.is_zero() {
        return Err(node.error("shrink-after is more than no time"));
    }
    Ok(settings)
}

fn modes(whole: &Table<'_>, kind: PlanKind) -> Result<Vec<PlanMode>, ParseError> {
    let node = whole.need("modes")?;
    let mut modes: Vec<PlanMode> = Vec::new();
    for item in node.list("an array of modes")? {
        let mode = mode(&item, kind)?;
        if modes.iter().any(|other| other.name == mode.name) {
            return Err(item.error(format!("{} is there already", mode.name)));
        }
        modes.push(mode);
    }
    if modes.is_empty() { Err(node.error("a plan has a mode at least")) } else { Ok(modes) }
}

/// A mode by the name that a document or `compare` has for it, or with what is set beside it, under a name of its own.
fn mode(node: &Node<'_>, kind: PlanKind) -> Result<PlanMode, ParseError> {
    const BESIDE: &[&str] = &["name", "mode", "rx-usecs", "rx-frames", "busy-poll", "separate"];
    if node.text("").is_ok() {
        return named_mode(node, kind).map(|(name, mode, with)| PlanMode { name, mode, with });
    }
    let is_server = kind == PlanKind::EventLoop;
    let table = node.table("a mode, or { name = \"...\", mode = \"base\", rx-usecs = 16, ... }")?;
    let table = table.only(if is_server { OwnSettings::KEYS } else { BESIDE })?;
    let (_, mode, with) = named_mode(&table.need("mode")?, kind)?;
    let name = table.need("name")?.text("what the document calls it")?.to_owned();
    let with = if is_server {
        With { own: OwnSettings::read(&table)?, ..with }
    } else {
        With {
            rx_usecs: table.number("rx-usecs", 0..=1_000_000, with.rx_usecs)?,
            rx_frames: table.number("rx-frames", 0..=1_000_000, with.rx_frames)?,
            busy_usecs: table.number("busy-poll", 0..=1_000_000, with.busy_usecs)?,
            separate: table.flag("separate", with.separate)?,
            ..with
        }
    };
    let (usecs, frames) = with.own.coalescing().unwrap_or((with.rx_usecs, with.rx_frames));
    if Coalesce::new(usecs, frames).is_err() {
        return Err(node.error("rx-frames alone lets the last frames wait for ever: give rx-usecs too"));
    }
    Ok(PlanMode { name, mode, with })
}

fn named_mode(node: &Node<'_>, kind: PlanKind) -> Result<(String, Mode, With), ParseError> {
    if kind != PlanKind::EventLoop {
        let names: Vec<&str> = kind.modes().iter().map(|(name, ..)| *name).collect();
        let find = |word: &str| kind.modes().iter().find(|(name, ..)| *name == word);
        return node.word(find, &names).map(|(name, mode, with)| ((*name).to_owned(), *mode, *with));
    }
    let mode = napier_lab::modes::parse(node.text("a mode")?).map_err(|error| node.error(error))?;
    if !mode.is_simulated() {
        return Err(node.error(format!("{mode} is no mode of a server that waits in an event context")));
    }
    Ok((mode.to_string(), mode, With::NOTHING))
}

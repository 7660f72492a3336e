//! `napier napi-get | napi-set | queue-get | dev-get | qstats-get`: the kernel's vocabulary, on this machine's kernel or on a running
//! engine, spelled and printed as `ynl --family netdev` does.

mod kernel;
mod output;
mod places;
mod python;

use anyhow::Context as _;
use napier_control::Client;
use napier_control::words::{Call, How, Operation, call};
use napier_core::control::{NapiSetError, QueryError};
use napier_linux::Netns;
use serde_json::{Map, Value};

use crate::Usage;
use output::Form;

/// Options of every operation.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Ask about one object [default: if an attribute names one]
    #[arg(long = "do", conflicts_with = "dump")]
    one: bool,

    /// Ask about all objects [default: if no attribute names one]
    #[arg(long)]
    dump: bool,

    /// With TEXT: the request's attributes, as ynl takes them, such as '{"ifindex": 5}'. Without TEXT: print JSON, as
    /// --output-json does
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "")]
    json: Vec<String>,

    /// Print JSON in place of what ynl prints (Python)
    #[arg(long)]
    output_json: bool,

    /// In this network namespace: a name of ip netns, the number of a process, or a path
    #[arg(long, value_name = "NETNS", conflicts_with = "engine")]
    netns: Option<String>,

    /// Ask the engine of this process (or at this socket), not the kernel
    #[arg(long, value_name = "PID|PATH")]
    engine: Option<String>,
}

/// Which interface.
#[derive(clap::Args)]
pub(crate) struct DeviceChoice {
    /// Number of the interface
    #[arg(long, value_name = "N")]
    ifindex: Option<u64>,

    /// Name of the interface
    #[arg(long, value_name = "IF", conflicts_with = "ifindex")]
    dev: Option<String>,
}

/// Options of `napier napi-get`.
#[derive(clap::Args)]
pub(crate) struct NapiGetArgs {
    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    device: DeviceChoice,

    /// Id of the instance
    #[arg(long, value_name = "N")]
    id: Option<u64>,

    /// Show all places where the settings of --dev live: beside netlink the files of the interface, sysctls, and the CPUs and
    /// the scheduling of interrupts and NAPI threads
    #[arg(long, requires = "dev", conflicts_with_all = ["one", "dump", "id", "engine"])]
    everywhere: bool,
}

/// Options of `napier napi-set`.
#[derive(clap::Args)]
pub(crate) struct NapiSetArgs {
    #[command(flatten)]
    common: Common,

    /// All instances of this interface
    #[arg(long, value_name = "IF", conflicts_with = "id")]
    dev: Option<String>,

    /// Id of the instance
    #[arg(long, value_name = "N")]
    id: Option<u64>,

    /// Empty polls after which interrupts are unmasked
    #[arg(long, value_name = "N")]
    defer_hard_irqs: Option<u64>,

    /// Time from an empty poll to the next one while interrupts are deferred, in ns or with a unit such as 20us
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    gro_flush_timeout: Option<u64>,

    /// Time for which a busy program may keep interrupts suspended, in ns or with a unit such as 20ms
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    irq_suspend_timeout: Option<u64>,

    /// Who polls: disabled (softirq), enabled (a thread), busy-poll (a thread that never sleeps; since Linux 6.19), or on an
    /// engine workqueue
    #[arg(long, value_name = "WORD")]
    threaded: Option<String>,
}

/// Options of `napier queue-get`.
#[derive(clap::Args)]
pub(crate) struct QueueGetArgs {
    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    device: DeviceChoice,

    /// Number of the queue among those of its type
    #[arg(long, value_name = "N")]
    id: Option<u64>,

    /// rx or tx
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
}

/// Options of `napier dev-get`.
#[derive(clap::Args)]
pub(crate) struct DevGetArgs {
    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    device: DeviceChoice,
}

/// Options of `napier qstats-get`.
#[derive(clap::Args)]
pub(crate) struct QstatsGetArgs {
    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    device: DeviceChoice,

    /// queue: counters of each queue by itself [default: of each device as a whole]
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
}

/// A request before it is judged.
struct RequestArgs<'a> {
    operation: Operation,
    common: &'a Common,
    dev: Option<&'a str>,
    attributes: Map<String, Value>,
}

pub(crate) fn napi_get(args: &NapiGetArgs) -> anyhow::Result<()> {
    if let Some(dev) = args.device.dev.as_deref().filter(|_| args.everywhere) {
        anyhow::ensure!(
            args.common.requests().next().is_none(),
            Usage(anyhow::anyhow!("--everywhere takes --dev, not attributes: give --json without a text"))
        );
        return places::show(dev, netns(&args.common)?.as_ref(), args.common.form());
    }
    asked(Operation::NapiGet, &args.common, Some(&args.device), &[("id", number(args.id))])?.run()
}

pub(crate) fn napi_set(args: &NapiSetArgs) -> anyhow::Result<()> {
    let set = |id: Option<u64>| {
        let flags = [
            ("id", number(id)),
            ("defer-hard-irqs", number(args.defer_hard_irqs)),
            ("gro-flush-timeout", number(args.gro_flush_timeout)),
            ("irq-suspend-timeout", number(args.irq_suspend_timeout)),
            ("threaded", word(args.threaded.as_deref())),
        ];
        asked(Operation::NapiSet, &args.common, None, &flags)
    };
    let Some(dev) = &args.dev else { return set(args.id)?.run() };
    let mut reply = None;
    for id in instances_of(dev, &args.common)? {
        reply = Some(set(Some(id))?.reply().with_context(|| format!("NAPI instance {id} of {dev}"))?);
    }
    let none = || Usage(anyhow::anyhow!("{dev} has no NAPI instance: napier doctor --dev {dev} says why"));
    output::print(&reply.ok_or_else(none)?, args.common.form())
}

/// Ids of the instances that an interface has.
fn instances_of(dev: &str, common: &Common) -> anyhow::Result<Vec<u64>> {
    let mut request = RequestArgs { operation: Operation::NapiGet, common, dev: Some(dev), attributes: Map::new() };
    let found = request.reply_to(How::Dump)?;
    let ids = found.as_array().into_iter().flatten().filter_map(|instance| instance["id"].as_u64());
    Ok(ids.collect())
}

pub(crate) fn queue_get(args: &QueueGetArgs) -> anyhow::Result<()> {
    let flags = [("id", number(args.id)), ("type", word(args.kind.as_deref()))];
    asked(Operation::QueueGet, &args.common, Some(&args.device), &flags)?.run()
}

pub(crate) fn dev_get(args: &DevGetArgs) -> anyhow::Result<()> {
    asked(Operation::DevGet, &args.common, Some(&args.device), &[])?.run()
}

pub(crate) fn qstats_get(args: &QstatsGetArgs) -> anyhow::Result<()> {
    let flags = [("scope", word(args.scope.as_deref()))];
    asked(Operation::QstatsGet, &args.common, Some(&args.device), &flags)?.run()
}

fn number(value: Option<u64>) -> Option<Value> {
    value.map(Value::from)
}

fn word(value: Option<&str>) -> Option<Value> {
    value.map(Value::from)
}

fn netns(common: &Common) -> anyhow::Result<Option<Netns>> {
    let open = |name: &str| Netns::open(name).map_err(|error| Usage(error.into()));
    Ok(common.netns.as_deref().map(open).transpose()?)
}

impl Common {
    /// The texts of `--json` that have one.
    fn requests(&self) -> impl Iterator<Item = &str> {
        self.json.iter().map(String::as_str).filter(|text| !text.is_empty())
    }

    fn form(&self) -> Form {
        let json = self.output_json || self.json.iter().any(String::is_empty);
        if json { Form::Json } else { Form::Python }
    }
}

/// What the kernel judges it judges itself, so a bare number is handed on as it is.
fn nanoseconds(text: &str) -> Result<u64, String> {
    text.parse().or_else(|_| crate::units::whole_within(text, crate::units::Bare::Nanoseconds, 0..=1 << 53))
}

/// The attributes of `--json` and of the other options together.
fn asked<'a>(
    operation: Operation,
    common: &'a Common,
    device: Option<&'a DeviceChoice>,
    flags: &[(&str, Option<Value>)],
) -> anyhow::Result<RequestArgs<'a>> {
    let mut attributes = Map::new();
    let ifindex = device.and_then(|device| number(device.ifindex));
    let flags = flags.iter().cloned().chain([("ifindex", ifindex)]);
    for (name, value) in flags {
        attributes.extend(value.map(|value| (name.to_owned(), value)));
    }
    for text in common.requests() {
        let given: Map<String, Value> = serde_json::from_str(text)
            .with_context(|| {
                format!("--json takes an object of attributes, such as '{{\"ifindex\": 5}}', not `{text}`")
            })
            .map_err(Usage)?;
        for (name, value) in given {
            if attributes.insert(name.clone(), value).is_some() {
                return Err(Usage(anyhow::anyhow!("{name} is given twice: give it once")).into());
            }
        }
    }
    let dev = device.and_then(|device| device.dev.as_deref());
    if dev.is_some() && attributes.contains_key("ifindex") {
        return Err(Usage(anyhow::anyhow!("ifindex and --dev are both given: give one")).into());
    }
    Ok(RequestArgs { operation, common, dev, attributes })
}

impl RequestArgs<'_> {
    fn run(self) -> anyhow::Result<()> {
        let form = self.common.form();
        output::print(&self.reply()?, form)
    }

    fn reply(mut self) -> anyhow::Result<Value> {
        let how = self.how();
        self.check(how).map_err(Usage)?;
        self.reply_to(how)
    }

    fn reply_to(&mut self, how: How) -> anyhow::Result<Value> {
        Ok(match &self.common.engine {
            Some(engine) => Client::connect(engine)?.ask(self.operation, how, &self.attributes, self.dev)?,
            None => match netns(self.common)? {
                Some(netns) => netns.run(|| self.on_kernel(how))??,
                None => self.on_kernel(how)?,
            },
        })
    }

    fn on_kernel(&mut self, how: How) -> anyhow::Result<Value> {
        if let Some(dev) = self.dev {
            let ifindex = napier_linux::netdev::ifindex(dev);
            let ifindex = ifindex.map_err(|_| kernel::no_interface(dev))?;
            self.attributes.insert("ifindex".to_owned(), ifindex.into());
        }
        kernel::ask(call(self.operation, how, &self.attributes)?)
    }

    /// As it was asked for, or about one object if it is named.
    fn how(&self) -> How {
        let has = |name: &str| self.attributes.contains_key(name) || (name == "ifindex" && self.dev.is_some());
        let named = match self.operation {
            Operation::NapiGet | Operation::QueueGet => has("id"),
            Operation::NapiSet => true,
            Operation::DevGet => has("ifindex"),
            Operation::QstatsGet => false,
        };
        if self.common.one || (named && !self.common.dump) { How::Do } else { How::Dump }
    }

    /// What can be judged without the executor.
    fn check(&self, how: How) -> anyhow::Result<()> {
        let mut attributes = self.attributes.clone();
        if self.dev.is_some() {
            // Any number: what it is, is asked later.
            attributes.insert("ifindex".to_owned(), 1.into());
        }
        let missing = match call(self.operation, how, &attributes)? {
            Call::NapiSet(request) if request.id.is_none() => return Err(NapiSetError::MissingId.into()),
            Call::NapiGet(request) => request.id.is_none().then_some("id"),
            Call::DevGet { ifindex: None } => Some("ifindex"),
            Call::QueueGet(request) => {
                let parts = [("id", request.id), ("type", request.kind), ("ifindex", request.ifindex)];
                parts.into_iter().find(|(_, value)| value.is_none()).map(|(name, _)| name)
            }
            _ => None,
        };
        missing.map_or(Ok(()), |name| Err(QueryError::Missing(name).into()))
    }
}

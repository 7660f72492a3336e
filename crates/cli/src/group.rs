//! `napier group`: CPUs that poll queues of a running engine (docs/groups.md).

use std::io::Write as _;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use napier_control::Client;
use napier_core::group::Policy;
use napier_core::time::Span;
use napier_linux::change::cpu_list;
use serde_json::{Map, Value, json};

use crate::Usage;
use crate::units::{self, Bare};

/// What is done with groups of an engine.
#[derive(Subcommand)]
pub(crate) enum GroupCommand {
    /// Make a group of CPUs
    New(NewArgs),
    /// Take a group away: its queues are polled as if it had never been there
    Del(NameArgs),
    /// Give a CPU or a queue to a group
    Attach(WhatArgs),
    /// Take a CPU or a queue out of a group
    Detach(WhatArgs),
    /// Change how a group decides
    Set(SetArgs),
    /// Show groups, their CPUs and their queues
    Show(ShowArgs),
}

/// Whose groups.
#[derive(Args)]
struct Whose {
    /// The engine of this process, or at this socket
    #[arg(long, value_name = "PID|PATH")]
    engine: String,
}

#[derive(Args)]
pub(crate) struct NameArgs {
    /// Name of the group
    name: String,

    #[command(flatten)]
    whose: Whose,
}

#[derive(Args)]
pub(crate) struct NewArgs {
    /// Name of the group; with several NUMA nodes and neither --cpus nor --numa a group NAME-N for each node
    name: String,

    /// Its CPUs, such as 2,4-7
    #[arg(long, value_name = "LIST", conflicts_with = "numa")]
    cpus: Option<String>,

    /// The CPUs of this NUMA node
    #[arg(long, value_name = "N")]
    numa: Option<u32>,

    #[command(flatten)]
    settings: GroupSettingsArgs,

    #[command(flatten)]
    whose: Whose,
}

#[derive(Args)]
pub(crate) struct SetArgs {
    /// Name of the group
    name: String,

    #[command(flatten)]
    settings: GroupSettingsArgs,

    #[command(flatten)]
    whose: Whose,
}

/// How a group decides.
#[derive(Args)]
struct GroupSettingsArgs {
    /// delay: by how long packets wait; static: all CPUs poll for ever; compact: as few CPUs as fit [default of new: delay]
    #[arg(long, value_name = "WORD", value_parser = policy)]
    policy: Option<Policy>,

    /// How long a packet may wait before another CPU is woken, in us or with a unit such as 10us [default of new: 10us]
    #[arg(long, value_name = "TIME", value_parser = time)]
    delay_target: Option<Span>,

    /// CPUs that poll however little there is to do; 0: all may sleep [default of new: 1]
    #[arg(long, value_name = "N")]
    min_active: Option<u16>,

    /// Scheduling class of its threads. auto: SCHED_FIFO on isolated CPUs if that is granted; other; fifo: everywhere, aside for 50 us
    /// after each ms where other threads run [default of new: auto]
    #[arg(long, value_name = "WORD", value_parser = ["auto", "other", "fifo"])]
    class: Option<String>,
}

#[derive(Args)]
#[group(id = "what", required = true, multiple = false, args = ["cpu", "queue", "id"])]
pub(crate) struct WhatArgs {
    /// Name of the group
    name: String,

    /// This CPU
    #[arg(long, value_name = "N")]
    cpu: Option<u16>,

    /// This queue of a device
    #[arg(long, value_name = "DEVICE/QUEUE")]
    queue: Option<String>,

    /// The queue of the NAPI instance with this id
    #[arg(long, value_name = "N")]
    id: Option<u32>,

    #[command(flatten)]
    whose: Whose,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// Only this group
    name: Option<String>,

    /// Print one JSON array (docs/groups.md)
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    whose: Whose,
}

fn policy(word: &str) -> Result<Policy, String> {
    let words = Policy::ALL.map(Policy::name).join(", ");
    Policy::from_name(word).ok_or_else(|| format!("`{word}` is none of {words}"))
}

/// A time, of which a bare number is in us.
fn time(text: &str) -> Result<Span, String> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds")]
    let ns = |us: f64| (us * 1e3).round() as u64;
    units::time_within(text, Bare::Microseconds, 0.0..=3600e6).map(|us| Span::from_ns(ns(us)))
}

/// Carries out a command of `napier group`.
pub(crate) fn run(group: &GroupCommand) -> anyhow::Result<()> {
    match group {
        GroupCommand::New(args) => new(args),
        GroupCommand::Del(args) => ask(&args.whose, "group-del", named(&args.name)).map(drop),
        GroupCommand::Attach(args) => ask(&args.whose, "group-attach", args.attributes()).map(drop),
        GroupCommand::Detach(args) => ask(&args.whose, "group-detach", args.attributes()).map(drop),
        GroupCommand::Set(args) => {
            let attributes = args.settings.add_to(named(&args.name));
            if attributes.len() == 1 {
                return Err(
                    Usage(anyhow!("nothing to set: give --policy, --delay-target, --min-active or --class")).into()
                );
            }
            ask(&args.whose, "group-set", attributes).map(drop)
        }
        GroupCommand::Show(args) => show(args),
    }
}

fn ask(whose: &Whose, operation: &str, attributes: Map<String, Value>) -> anyhow::Result<Value> {
    Ok(Client::connect(&whose.engine)?.ask_group(operation, &attributes)?)
}

fn named(name: &str) -> Map<String, Value> {
    Map::from_iter([("name".to_owned(), name.into())])
}

impl GroupSettingsArgs {
    fn add_to(&self, mut attributes: Map<String, Value>) -> Map<String, Value> {
        let given = [
            ("policy", self.policy.map(|policy| policy.name().into())),
            ("delay-target", self.delay_target.map(|span| span.ns.into())),
            ("min-active", self.min_active.map(Value::from)),
            ("class", self.class.clone().map(Value::from)),
        ];
        attributes.extend(given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        attributes
    }
}

impl WhatArgs {
    fn attributes(&self) -> Map<String, Value> {
        let mut attributes = named(&self.name);
        let given = [
            ("cpu", self.cpu.map(Value::from)),
            ("queue", self.queue.clone().map(Value::from)),
            ("id", self.id.map(Value::from)),
        ];
        attributes.extend(given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        attributes
    }
}

fn new(args: &NewArgs) -> anyhow::Result<()> {
    let groups = match (&args.cpus, args.numa) {
        (Some(list), _) => {
            let cpus = cpu_list(list).filter(|cpus| !cpus.is_empty());
            let cpus = cpus.ok_or_else(|| Usage(anyhow!("`{list}` is no list of CPUs such as 2,4-7")))?;
            vec![(args.name.clone(), cpus)]
        }
        (None, Some(node)) => vec![(args.name.clone(), cpus_of(node)?)],
        (None, None) => match &nodes()[..] {
            [] | [_] => vec![(args.name.clone(), read_list("/sys/devices/system/cpu/online")?)],
            several => {
                let of = |node: &u32| Ok((format!("{}-{node}", args.name), cpus_of(*node)?));
                several.iter().map(of).collect::<anyhow::Result<_>>()?
            }
        },
    };
    let mut out = std::io::stdout().lock();
    for (name, cpus) in groups {
        let mut attributes = args.settings.add_to(named(&name));
        attributes.insert("cpus".to_owned(), json!(cpus));
        ask(&args.whose, "group-new", attributes)?;
        write!(out, "{}", about_isolation(&name, &cpus))?;
    }
    Ok(())
}

fn read_list(path: &str) -> anyhow::Result<Vec<u32>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    cpu_list(&text).with_context(|| format!("{path} is no list of CPUs"))
}

fn nodes() -> Vec<u32> {
    read_list("/sys/devices/system/node/has_cpu").unwrap_or_default()
}

fn cpus_of(node: u32) -> anyhow::Result<Vec<u32>> {
    let there = || nodes().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let cpus = read_list(&format!("/sys/devices/system/node/node{node}/cpulist"));
    cpus.map_err(|_| Usage(anyhow!("there is no NUMA node {node} with CPUs: this machine has {}", there())).into())
}

/// Whether others may run on these CPUs, and how that ends.
fn about_isolation(name: &str, cpus: &[u32]) -> String {
    let isolated = read_list("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let partition = read_list("/sys/fs/cgroup/cpuset.cpus.isolated").unwrap_or_default();
    let shared: Vec<String> = cpus
        .iter()
        .filter(|cpu| !isolated.contains(cpu) && !partition.contains(cpu))
        .map(ToString::to_string)
        .collect();
    if shared.is_empty() {
        return String::new();
    }
    let list = shared.join(",");
    format!(
        "CPU {list}: not isolated, so other threads run there too. As a partition of their own (root, cgroup v2):\n  \
         mkdir /sys/fs/cgroup/{name} && echo {list} > /sys/fs/cgroup/{name}/cpuset.cpus &&\n  \
         echo isolated > /sys/fs/cgroup/{name}/cpuset.cpus.partition\n"
    )
}

fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let reply = ask(&args.whose, "group-get", Map::new())?;
    let mut groups: Vec<Value> = serde_json::from_value(reply).context("the engine's answer")?;
    if let Some(name) = &args.name {
        groups.retain(|group| group["name"] == name.as_str());
        anyhow::ensure!(!groups.is_empty(), "there is no group {name}: make it first");
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&groups)?)?;
    } else if groups.is_empty() {
        writeln!(out, "no groups")?;
    } else {
        groups.iter().try_for_each(|group| write!(out, "{}", text(group)))?;
    }
    Ok(())
}

fn text(group: &Value) -> String {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let rows = |key: &str| group[key].as_array().cloned().unwrap_or_default();
    let target_us = group["delay-target"].as_u64().unwrap_or(0) as f64 / 1000.0;
    let mut page = format!(
        "{}: policy {}, delay-target {target_us} us, min-active {}\n",
        word(&group["name"]),
        word(&group["policy"]),
        group["min-active"]
    );
    page += &format!(
        "  {:>5} {:>8}  {:<5} {:<8} {:<15} {:>8} {:>8}\n",
        "CPU", "pid", "class", "isolated", "doing", "parks", "in vain"
    );
    for cpu in rows("cpus") {
        let (number, pid, class, doing) =
            (word(&cpu["cpu"]), word(&cpu["pid"]), word(&cpu["class"]), word(&cpu["doing"]));
        let isolated = if cpu["isolated"] == true { "yes" } else { "no" };
        let (parks, vain) = (word(&cpu["parks"]), word(&cpu["vain-parks"]));
        page += &format!("  {number:>5} {pid:>8}  {class:<5} {isolated:<8} {doing:<15} {parks:>8} {vain:>8}\n");
    }
    page += &format!("  {:<22} {:>7} {:>5} {:>7}  {}\n", "queue", "napi-id", "CPU", "moves", "interrupt");
    for member in rows("members") {
        let queue = format!("{}/{}", word(&member["device"]), member["queue"]);
        let (id, cpu, moves) = (word(&member["napi-id"]), word(&member["cpu"]), word(&member["moves"]));
        let armed = if member["armed"] == true { "armed" } else { "masked" };
        page += &format!("  {queue:<22} {id:>7} {cpu:>5} {moves:>7}  {armed}\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!((time("10us"), time("3ms")), (Ok(Span::from_us(10)), Ok(Span::from_ms(3))));
        assert_eq!((time("10"), time("1.5us")), (Ok(Span::from_us(10)), Ok(Span::from_ns(1500))));
        for wrong in ["us", "", "-1us", "soon", "99999999999999999999us", "18446744073709551615s"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_group_in_words() {
        let group = json!({
            "name": "g", "policy": "delay", "delay-target": 10_000, "min-active": 1,
            "cpus": [{"cpu": 2, "pid": 77, "class": "fifo", "isolated": true, "doing": "polling", "parks": 3, "vain-parks": 1}],
            "members": [{"napi-id": 513, "device": "a0", "queue": 0, "cpu": 2, "armed": false, "moves": 4}]
        });
        let lines: Vec<String> = text(&group).lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "g: policy delay, delay-target 10 us, min-active 1");
        assert_eq!(lines[2], "      2       77  fifo  yes      polling                3        1");
        assert_eq!(lines[4], "  a0/0                       513     2       4  masked");
    }
}

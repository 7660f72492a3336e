//! Packets that were lost on their way in, and what makes a softirq leave them.

use super::{Finding, Severity, some};
use crate::change::{EthtoolKey, Key, Line};
use crate::ethtool::Group;
use crate::facts::{DeviceFacts, Facts, Lost};

pub(super) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    found.extend(facts.devices.iter().filter_map(|device| missed(facts, device)));
    found.extend(dropped(facts));
    found.extend(squeezed(facts));
    found.extend(budget(facts));
}

/// Fewer are not worth a word: one packet of so many.
const ONE_OF: u64 = 100_000;
/// A softirq that ends early is worth one if it is one for so many packets: then it is a habit. Fewer packets than that make none.
const SQUEEZED_ONE_OF: u64 = 1000;

fn is_many(lost: &Lost, one_of: u64) -> bool {
    lost.lost > 0 && lost.lost.saturating_mul(one_of) >= lost.of
}

/// How it was lost: now, while it was watched, which is a warning, or some time since the start.
fn how(now: Option<(u64, u64)>, since: (u64, u64)) -> (Severity, String) {
    match now {
        Some((lost, ms)) if lost > 0 => (
            Severity::Warning,
            format!("{lost} in {ms} ms just now; {} of {} since the start of the machine", since.0, since.1),
        ),
        _ => (
            Severity::Note,
            format!("{} of {} since the start of the machine, none of them just now", since.0, since.1),
        ),
    }
}

fn missed(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let own = |all: &[Lost]| all.iter().find(|lost| lost.who == device.name()).cloned();
    let since = own(&facts.losses.missed)?;
    let now = facts.watched.as_ref().and_then(|watched| Some((own(&watched.losses.missed)?.lost, watched.ms)));
    if now.is_none_or(|(lost, _)| lost == 0) && !is_many(&since, ONE_OF) {
        return None;
    }
    let (severity, how) = how(now, (since.lost, since.of));
    let what = format!("{} dropped packets for want of room in a receive ring: {how}.", device.name());
    let why = "The ring is emptied too late: the CPU that should have done it had other work, or its interrupt is held back or deferred for \
               too long. A lost packet costs its sender a time-out, which is far more than any mode saves.";
    let number = |name: &str| device.rings.get(name).and_then(|value| value.parse::<u32>().ok());
    let larger = number("rx-max").zip(number("rx")).filter(|(max, rx)| max > rx).map(|(max, _)| {
        let key = EthtoolKey { device: device.device.clone(), group: Group::Rings, name: "rx".to_owned() };
        Line::new(Key::Ethtool(key), max.to_string())
    });
    let advice = "A larger ring bears longer pauses. What makes the pauses is the cause: see queues-on-one-cpu, one-cpu and \
                  timeout-too-long.";
    Some(Finding::new("packets-lost", severity, what, why).of(device).mend(larger).advice(advice))
}

/// Of CPUs: those that lose now, or many since the start.
fn cpus(facts: &Facts, of: fn(&crate::facts::Losses) -> &Vec<Lost>, one_of: u64) -> Option<(Severity, String)> {
    let total = |all: &[Lost]| all.iter().fold((0, 0), |(lost, of), one| (lost + one.lost, of + one.of));
    let is_habit = |lost: &&Lost| is_many(lost, one_of) && (one_of == ONE_OF || lost.of >= one_of);
    let since = of(&facts.losses);
    let now = facts.watched.as_ref().map(|watched| (of(&watched.losses), watched.ms));
    let mut hit: Vec<&Lost> = now.iter().flat_map(|(all, _)| all.iter().filter(|lost| is_many(lost, one_of))).collect();
    let is_now = !hit.is_empty();
    if !is_now {
        hit = since.iter().filter(is_habit).collect();
    }
    if hit.is_empty() {
        return None;
    }
    let names: Vec<String> = hit.iter().map(|lost| lost.who.clone()).collect();
    let word = if names.len() == 1 { "CPU" } else { "CPUs" };
    let (severity, how) = how(now.filter(|_| is_now).map(|(all, ms)| (total(all).0, ms)), total(since));
    Some((severity, format!("{word} {}: {how}", some(&names))))
}

fn dropped(facts: &Facts) -> Option<Finding> {
    let (severity, how) = cpus(facts, |losses| &losses.backlog, ONE_OF)?;
    let what = format!("Packets were dropped because a CPU's backlog was full, on {how}.");
    let why = "Packets that are steered to another CPU (RPS), and those of veth, loopback and tunnels, wait in a queue of that CPU. It was \
               full: the CPU is not fast enough, or is taken away for too long.";
    let advice = "Take RPS away (rps-in-the-way), give the CPU less to do, or enlarge net.core.netdev_max_backlog.";
    Some(Finding::new("packets-lost", severity, what, why).advice(advice))
}

fn squeezed(facts: &Facts) -> Option<Finding> {
    let (_, how) = cpus(facts, |losses| &losses.squeezed, SQUEEZED_ONE_OF)?;
    let what = format!("Receive softirqs ended with packets left, on {how}.");
    let why = "A softirq ends after net.core.netdev_budget packets or netdev_budget_usecs, and what is left waits for ksoftirqd, which is \
               scheduled like any program. Nothing is lost yet; tails grow.";
    let advice = "Spread the queues over more CPUs (queues-on-one-cpu); if the CPUs are not busy, enlarge net.core.netdev_budget.";
    Some(Finding::new("packets-lost", Severity::Note, what, why).advice(advice))
}

/// What one poll may take. Source: `include/linux/netdevice.h NAPI_POLL_WEIGHT`.
const WEIGHT: u64 = 64;
/// The kernel's own values. Source: `net/core/hotdata.c`.
const BUDGET: u64 = 300;
const BUDGET_US: u64 = 8000;
/// A softirq shorter than that ends after a poll or two.
const BUDGET_US_MIN: u64 = 500;

fn budget(facts: &Facts) -> Option<Finding> {
    let sysctl = |name: &str, value: u64| Line::new(Key::sysctl(format!("net.core.{name}")), value.to_string());
    let mut what = Vec::new();
    let mut lines = Vec::new();
    if let Some(budget) = facts.sysctls.netdev_budget.filter(|budget| *budget < WEIGHT) {
        what.push(format!("net.core.netdev_budget is {budget}"));
        lines.push(sysctl("netdev_budget", BUDGET));
    }
    if let Some(us) = facts.sysctls.netdev_budget_usecs.filter(|us| *us < BUDGET_US_MIN) {
        what.push(format!("net.core.netdev_budget_usecs is {us}"));
        lines.push(sysctl("netdev_budget_usecs", BUDGET_US));
    }
    if what.is_empty() {
        return None;
    }
    let what = format!("{}.", what.join(", and "));
    let why = "A receive softirq ends after so many packets, or so long, whatever is left: below one poll's weight (64), or at once, it never \
               empties a queue. The rest waits for ksoftirqd, which programs keep from its CPU.";
    Some(Finding::new("softirq-budget", Severity::Warning, what, why).mend(lines))
}

//! What a window shows, in words: whether a mode acts. Pure.

use std::collections::{BTreeMap, BTreeSet};

use napier_core::control::plan::Plan;
use napier_core::control::{NapiChange, ThreadedSetting};
use serde::Serialize;

use super::{Needs, Polls, Unreached, WindowCounts, unreached};
use crate::observe::parts::{Program, Through};

/// With fewer packets nothing is said.
const PACKETS_MIN: u64 = 20;
/// Of a hundred polls, or for a hundred packets, those that the one that shall poll makes at least.
const SHARE_MIN_PCT: u64 = 5;

/// Whether what was set acts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Acts {
    /// It was seen to.
    Yes,
    /// It was seen not to.
    No,
    /// Too few packets came, or what happened is not shown.
    Unknown,
}

/// Who polls in a mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhoPolls {
    /// As without any: the mode is about instances alone.
    Any,
    /// A thread of each instance.
    Thread,
    /// The program.
    Program,
}

impl WhoPolls {
    /// As a mode's plan has it.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let needs = Needs::of(plan);
        let is_threaded =
            |change| matches!(change, NapiChange::Threaded(setting) if setting != ThreadedSetting::Disabled);
        match needs.epolls || needs.sockets {
            true => Self::Program,
            false if plan.changes().any(is_threaded) => Self::Thread,
            false => Self::Any,
        }
    }
}

/// What was seen, and of what.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    /// The mode.
    pub mode: &'a str,
    /// The interface.
    pub device: &'a str,
    /// Instances that it has.
    pub instances: usize,
    /// Their threads.
    pub napi_threads: &'a BTreeSet<u32>,
    /// Who shall poll.
    pub poller: WhoPolls,
    /// What the mode needs of the program.
    pub needs: Needs,
    /// What happened at the interface.
    pub window: &'a WindowCounts,
    /// The program's processes, with what their threads waited in.
    pub programs: &'a [Program],
    /// Its threads.
    pub tids: &'a BTreeSet<u32>,
}

/// Polls by who made them.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Shares {
    /// The program.
    pub program: u64,
    /// Softirqs.
    pub softirq: u64,
    /// Of these, the threads that softirqs are left to (`ksoftirqd/N`).
    pub ksoftirqd: u64,
    /// Of these, the others, by the name of the thread that was interrupted.
    pub interrupted: BTreeMap<String, u64>,
    /// Threads of instances.
    pub napi_threads: u64,
    /// Other threads.
    pub others: u64,
}

/// A wait of the program that the mode does not reach.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Miss {
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(flatten)]
    pub what: Unreached,
}

/// What a window shows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Observation {
    /// Whether the mode acts.
    pub acts: Acts,
    /// Length of the window.
    pub seconds: f64,
    /// Packets that came.
    pub packets: Option<u64>,
    /// Of these, packets that instances took.
    pub taken: Option<u64>,
    /// Who polled.
    pub polls: Option<Shares>,
    /// Why that is not known.
    pub polls_unknown: Option<String>,
    /// The program's connections by the interface.
    pub connections: Through,
    /// What the mode does not reach.
    pub unreached: Vec<Miss>,
    /// The same in words.
    pub lines: Vec<String>,
}

impl Observation {
    /// Epoll instances whose preference for busy polling makes the program slower, by process and descriptor: with suspension, those that it
    /// sleeps before in another call.
    pub fn harmed(&self, needs: Needs) -> impl Iterator<Item = (u32, i32)> {
        let misses = self.unreached.iter().filter(move |_| needs.suspends);
        misses.filter_map(|miss| Some((miss.pid, miss.what.epoll_behind()?)))
    }
}

/// What is to be said where no packets come to an interface, of a program with connections over others.
#[must_use]
pub fn elsewhere(device: &str, mode: &str, programs: &[Program]) -> Option<String> {
    let mut others: BTreeMap<&str, u32> = BTreeMap::new();
    for (name, through) in programs.iter().flat_map(|program| &program.connections) {
        *others.entry(name).or_default() += through.count;
    }
    let count: u32 = others.values().sum();
    if count == 0 || others.contains_key(device) {
        return None;
    }
    let names: Vec<&str> = others.keys().map(|name| if *name == "lo" { "loopback" } else { *name }).collect();
    let name = programs.first().map_or("the program", |program| program.name.as_str());
    let connections =
        if count == 1 { "its connection uses".to_owned() } else { format!("its {count} connections use") };
    Some(format!("{name}: {connections} {}, and none uses {device}: {mode} does not act on them", names.join(", ")))
}

/// Judges a window.
#[must_use]
pub fn judge(seen: &Evidence<'_>) -> Observation {
    let packets = seen.window.received.map(|received| received.packets);
    let (own, polls_unknown) = polls_of(seen).map_or_else(|why| (None, why), |polls| (Some(polls), None));
    let polls = own.as_ref().map(|own| shares(seen, own));
    // Of some instances alone it is not known what the others took.
    let of_name = seen.window.polls.as_ref().map_or(0, |polls| polls.instances);
    let taken = seen.window.received.and_then(|received| received.polled).or(own
        .filter(|own| own.instances == of_name && packets.is_some_and(|all| own.would_show(all)))
        .map(|own| own.work));
    let mut verdict = Observation {
        acts: Acts::Unknown,
        seconds: seen.window.span.as_secs_f64(),
        packets,
        taken,
        polls,
        polls_unknown,
        connections: connections(seen),
        unreached: misses(seen),
        lines: Vec::new(),
    };
    verdict.acts = acts(seen, &verdict);
    verdict.lines = lines(seen, &verdict);
    verdict
}

/// Interfaces of other namespaces may have the same name, and the tracepoint tells names alone: then those of instances count that the program's
/// threads, or the interface's own, have polled.
fn polls_of(seen: &Evidence<'_>) -> Result<Polls, Option<String>> {
    let Some(polls) = &seen.window.polls else { return Err(seen.window.no_polls.clone()) };
    if polls.instances <= seen.instances {
        return Ok(polls.clone());
    }
    let own = polls.of_instances_of(&seen.tids.union(seen.napi_threads).copied().collect());
    if (1..=seen.instances).contains(&own.instances) {
        return Ok(own);
    }
    Err(Some(format!("polls of interfaces called {} in other namespaces are not told apart", seen.device)))
}

fn shares(seen: &Evidence<'_>, polls: &Polls) -> Shares {
    let (program, napi_threads) = (polls.by(seen.tids), polls.by(seen.napi_threads));
    let others = polls.total() - polls.softirq - program - napi_threads;
    let (softirq, ksoftirqd, interrupted) = (polls.softirq, polls.ksoftirqd, polls.interrupted.clone());
    Shares { program, softirq, ksoftirqd, interrupted, napi_threads, others }
}

fn connections(seen: &Evidence<'_>) -> Through {
    let of = |program: &Program| program.connections.get(seen.device).copied().unwrap_or_default();
    seen.programs.iter().map(of).fold(Through::default(), |all, one| Through {
        count: all.count + one.count,
        with_id: all.with_id + one.with_id,
    })
}

fn misses(seen: &Evidence<'_>) -> Vec<Miss> {
    let of = |program: &Program| {
        let (pid, name) = (program.pid, program.name.clone());
        let all = unreached(program, &program.waits, seen.needs).into_iter();
        all.map(move |what| Miss { pid, name: name.clone(), what }).collect::<Vec<_>>()
    };
    seen.programs.iter().flat_map(of).collect()
}

fn acts(seen: &Evidence<'_>, verdict: &Observation) -> Acts {
    if verdict.unreached.iter().any(|miss| miss.what.does_harm()) && seen.needs.suspends {
        return Acts::No;
    }
    let Some(packets) = verdict.packets.filter(|packets| *packets >= PACKETS_MIN) else { return Acts::Unknown };
    if is_passed_by(packets, verdict.taken) {
        return Acts::No;
    }
    let Some(polls) = &verdict.polls else {
        // What is not reached cannot poll, whatever else does.
        let none = !verdict.unreached.is_empty() && verdict.connections.with_id == 0;
        return if none { Acts::No } else { Acts::Unknown };
    };
    let total = polls.total();
    let Some(wanted) = polls.of(seen.poller) else { return if total > 0 { Acts::Yes } else { Acts::Unknown } };
    match (total, is_enough(wanted, total, packets)) {
        (0, _) => Acts::Unknown,
        (_, true) => Acts::Yes,
        (_, false) => Acts::No,
    }
}

/// Whether the one that shall poll does. Where few packets come, the timers of deferral poll a hundred times for each, but the program
/// once for each as well.
#[must_use]
pub fn is_enough(wanted: u64, total: u64, packets: u64) -> bool {
    wanted * 100 >= total * SHARE_MIN_PCT || wanted * 100 >= packets * SHARE_MIN_PCT
}

/// Most packets came, and no instance took them.
fn is_passed_by(packets: u64, taken: Option<u64>) -> bool {
    taken.is_some_and(|taken| taken < packets / 2)
}

fn lines(seen: &Evidence<'_>, verdict: &Observation) -> Vec<String> {
    let mut lines = Vec::new();
    // No other driver tells packets that instances took from others.
    let is_veth = seen.window.received.is_some_and(|received| received.polled.is_some());
    let Evidence { mode, device, .. } = *seen;
    let name = seen.programs.first().map_or("the program", |program| program.name.as_str());
    if let Some(packets) = verdict.packets.filter(|packets| *packets >= PACKETS_MIN) {
        let span = format!("{packets} packets came to {device} in {:.1} s", verdict.seconds);
        match (&verdict.polls, &verdict.polls_unknown) {
            _ if is_passed_by(packets, verdict.taken) => {
                let took = verdict.taken.unwrap_or(0);
                let why = if is_veth { format!(" ({PEER})") } else { String::new() };
                lines.push(format!("{span}, and its NAPI instances took {took} of them: the others pass by, and no mode acts on them{why}"));
            }
            (Some(polls), _) => lines.push(format!("{span}; polls: {}", polls.text(name))),
            (None, Some(why)) => lines.push(format!("{span}; {why}")),
            (None, None) => lines.push(span),
        }
        let Through { count, with_id } = verdict.connections;
        if count > 0 && with_id == 0 && seen.poller == WhoPolls::Program && !is_passed_by(packets, verdict.taken) {
            let why = if is_veth { format!(": {PEER}") } else { String::new() };
            lines.push(format!("none of the {count} connections of {name} by {device} has a NAPI instance{why}"));
        }
    }
    for miss in &verdict.unreached {
        lines.push(miss.text(mode, seen.needs));
    }
    if verdict.acts == Acts::No && lines.len() < 2 {
        let promised = verdict.polls.as_ref().and_then(|polls| promised(polls, seen.poller));
        lines.push(format!("{mode} was not seen to act on {name}{}", promised.unwrap_or_default()));
    }
    lines
}

/// What a packet of a veth passes by an instance for. Source: `drivers/net/veth.c veth_skb_is_eligible_for_gro`.
const PEER: &str = "its peer sends with segmentation offload: ethtool -K PEER tso off, in the peer's namespace";

/// What a mode promises, and what of it was seen.
fn promised(polls: &Shares, poller: WhoPolls) -> Option<String> {
    let who = match poller {
        WhoPolls::Any => return None,
        WhoPolls::Thread => "a thread of each instance",
        WhoPolls::Program => "the program",
    };
    let share = pct(polls.of(poller)?, polls.total());
    Some(format!(": it lets {who} poll, which made {share} % of the polls"))
}

/// Names of interrupted threads that are told.
const NAMES: usize = 2;

impl Shares {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.program + self.softirq + self.napi_threads + self.others
    }

    /// Those of the one that shall poll; `None` where that may be any.
    #[must_use]
    pub const fn of(&self, poller: WhoPolls) -> Option<u64> {
        match poller {
            WhoPolls::Any => None,
            WhoPolls::Thread => Some(self.napi_threads),
            WhoPolls::Program => Some(self.program),
        }
    }

    /// Shares in percent, the largest first.
    #[must_use]
    pub fn text(&self, program: &str) -> String {
        let total = self.total();
        if total == 0 {
            return "none".to_owned();
        }
        let softirq = self.softirq - self.ksoftirqd.min(self.softirq);
        let mut parts = [
            (self.program, program),
            (softirq, "softirq"),
            (self.ksoftirqd, "ksoftirqd"),
            (self.napi_threads, "threads of its instances"),
            (self.others, "others"),
        ];
        parts.sort_by_key(|(polls, _)| std::cmp::Reverse(*polls));
        let part = |(polls, who): &(u64, &str)| {
            let inside = if *who == "softirq" { self.interrupted_text() } else { String::new() };
            format!("{who} {} %{inside}", pct(*polls, total))
        };
        let shown: Vec<String> = parts.iter().filter(|(polls, _)| pct(*polls, total) > 0).map(part).collect();
        format!("{total}, {}", shown.join(", "))
    }

    /// In whose time softirqs polled: the names with most, with their shares of all polls.
    fn interrupted_text(&self) -> String {
        let mut names: Vec<(&String, &u64)> = self.interrupted.iter().collect();
        names.sort_by_key(|(_, polls)| std::cmp::Reverse(**polls));
        let shown =
            names.iter().map(|(name, polls)| (name, pct(**polls, self.total()))).filter(|(_, share)| *share > 0);
        let shown: Vec<String> = shown.take(NAMES).map(|(name, share)| format!("{name} {share} %")).collect();
        if shown.is_empty() { String::new() } else { format!(" (in the time of {})", shown.join(", ")) }
    }
}

/// In percent, rounded.
fn pct(part: u64, all: u64) -> u64 {
    (part * 100 + all / 2).checked_div(all).unwrap_or(0)
}

impl Miss {
    fn text(&self, mode: &str, needs: Needs) -> String {
        let Self { pid, name, what } = self;
        let instead = match what {
            Unreached::Ring { polls: false, .. } if !needs.suspends => "threaded or threaded-busy-poll",
            what => what.instead(),
        };
        let harm = match (what.does_harm(), needs.suspends) {
            (true, true) => {
                "interrupts would be suspended when it takes events, and nothing takes that back when it sleeps, so a packet may wait \
                 for irq-suspend-timeout: the instance is left without the mode"
            }
            _ if needs.suspends && matches!(what, Unreached::Ring { .. }) => {
                "deferral alone is in force there, for only epoll suspends interrupts"
            }
            _ if needs.epolls => "nothing of it polls there, and deferral alone is in force",
            _ => "nothing of it polls there",
        };
        let weight = if what.does_harm() && needs.suspends { "WARNING: " } else { "" };
        format!("{weight}{name} ({pid}) {}; under {mode} {harm}. Take {instead}", what.text())
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;

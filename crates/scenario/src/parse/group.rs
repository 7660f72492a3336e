//! `[[group]]`, the calls about groups, and what is looked at.

use napier_core::group::{GroupCpu, Groups, Machine as Cpus, MemberId, Settings};
use napier_core::time::Instant;

use super::ParseError;
use super::common::{U32_MAX, at, policy};
use super::lookup::{Names, new_name};
use super::node::{Node, Table};
use crate::{Action, Group, GroupCall, GroupCheck, GroupDeed, GroupIx, Machine, Policy};

type Result<T> = std::result::Result<T, ParseError>;

const GROUPS_MAX: usize = 64;
const MEMBERS_MAX: usize = 1024;

/// Counters of a group.
const COUNTERS: [&str; 9] =
    ["turns", "parks", "parks_in_vain", "wakes", "moves", "moves_back", "moves_sibling", "moves_node", "moves_far"];

const SET_KEYS: &[&str] =
    &["at", "by", "call", "group", "policy", "delay-target", "min-active", "shrink-after", "stall-after"];

pub(super) fn read(whole: &Table<'_>, machine: &mut Machine) -> Result<()> {
    let mut groups = Groups::new();
    for node in whole.list("group", GROUPS_MAX, "[[group]] tables")? {
        let group = group(&node, machine, &mut groups)?;
        machine.groups.push(group);
    }
    Ok(())
}

/// One group; `groups` are those before it, as the rules have them, which know what cannot be.
fn group(node: &Node<'_>, machine: &Machine, groups: &mut Groups) -> Result<Group> {
    let table = node.table("a table [[group]]")?.only(&[
        "name",
        "cpus",
        "members",
        "policy",
        "thread-policy",
        "delay-target",
        "min-active",
        "shrink-after",
        "stall-after",
    ])?;
    let names = Names(machine);
    let taken = [names.sockets(), names.epolls(), names.groups()].concat();
    let name = new_name(&table.need("name")?, &taken)?;
    let list = table.need("cpus")?;
    let cpus: Vec<_> = list
        .list("an array of CPU numbers such as [0, 1]")?
        .iter()
        .map(|node| names.cpu(node))
        .collect::<Result<_>>()?;
    let settings = settings(&table, Settings::default())?;
    let here: Vec<_> = cpus.iter().map(|cpu| GroupCpu(cpu.0)).collect();
    let whole = Cpus { cpus: machine.cpus, offline: &[] };
    groups.create(&name, &here, settings, whole).map_err(|error| list.error(error))?;
    let mut members = Vec::new();
    for node in table.list("members", MEMBERS_MAX, "an array of instances")? {
        let napi = names.napi(&node)?;
        let called = machine.napi_name(napi);
        groups.attach(&name, MemberId(napi.0.into()), &called, true).map_err(|error| node.error(error))?;
        members.push(napi);
    }
    Ok(Group { name, cpus, members, settings, policy: table.map("thread-policy", policy)?.unwrap_or(Policy::Fair) })
}

/// Settings where a key is given, and else what is in force.
fn settings(table: &Table<'_>, mut to: Settings) -> Result<Settings> {
    use napier_core::group::Policy as How;
    let how = |node: &Node<'_>| node.word(How::from_name, &How::ALL.map(How::name));
    to.policy = table.map("policy", how)?.unwrap_or(to.policy);
    to.delay_target = table.short_span("delay-target", to.delay_target)?;
    to.min_active = table.number("min-active", 0..=i128::from(u16::MAX), to.min_active)?;
    to.shrink_after = table.short_span("shrink-after", to.shrink_after)?;
    to.stall_after = table.short_span("stall-after", to.stall_after)?;
    for key in ["shrink-after", "stall-after"] {
        let span = if key == "shrink-after" { to.shrink_after } else { to.stall_after };
        if let Some(node) = table.get(key).filter(|_| span.is_zero()) {
            return Err(node.wrong("more than no time"));
        }
    }
    Ok(to)
}

/// The keys that a call may have.
pub(super) const CALLS: [(&str, &[&str]); 6] = [
    ("group-attach", &["at", "by", "call", "group", "napi"]),
    ("group-detach", &["at", "by", "call", "group", "napi"]),
    ("group-attach-cpu", &["at", "by", "call", "group", "cpu"]),
    ("group-detach-cpu", &["at", "by", "call", "group", "cpu"]),
    ("group-set", SET_KEYS),
    ("group-del", &["at", "by", "call", "group"]),
];

/// A call by its name. What the group will refuse is no error of the file.
pub(super) fn call(name: &str, table: &Table<'_>, names: Names<'_>) -> Result<GroupCall> {
    let group = names.group(&table.need("group")?)?;
    let napi = || names.napi(&table.need("napi")?);
    let cpu = || names.cpu(&table.need("cpu")?);
    let deed = match name {
        "group-attach" => GroupDeed::Attach(napi()?),
        "group-detach" => GroupDeed::Detach(napi()?),
        "group-attach-cpu" => GroupDeed::AttachCpu(cpu()?),
        "group-detach-cpu" => GroupDeed::DetachCpu(cpu()?),
        // What a call leaves out is as the file declared it.
        "group-set" => GroupDeed::Set(settings(table, names.0.groups[group.at()].settings)?),
        _ => GroupDeed::Delete,
    };
    Ok(GroupCall { group, deed })
}

/// A step that looks at a group.
pub(super) fn check(table: Table<'_>, names: Names<'_>, group: GroupIx) -> Result<(Instant, Action)> {
    let table = table.only(&["at", "check", "active", "member", "cpu"])?;
    let active = table.map("active", |node| node.number(0..=U32_MAX))?;
    let member = match (table.get("member"), table.get("cpu")) {
        (Some(member), Some(cpu)) => Some((names.napi(&member)?, names.cpu(&cpu)?)),
        (None, None) => None,
        _ => return Err(table.error("member and cpu go together: which CPU has the member")),
    };
    if active.is_none() && member.is_none() {
        return Err(table.error("nothing to look at; say what it must be"));
    }
    Ok((at(&table)?, Action::CheckGroup(GroupCheck { group, active, member })))
}

pub(super) fn is_counter(of: &str, what: &str, names: Names<'_>) -> bool {
    names.groups().contains(&of) && COUNTERS.contains(&what)
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;

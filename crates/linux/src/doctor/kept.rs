//! What is set on instances, and gone when the driver makes them anew.

use super::deferral::{suspends, those};
use super::{Finding, Severity, file, instances_of};
use crate::change::Line;
use crate::drivers::{self, Since};
use crate::facts::{DeviceFacts, Facts, Instance};

pub(super) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    for device in &facts.devices {
        // While a mode is in force, napier run applies it to new instances.
        if !device.is_held {
            found.extend(threaded_lost(facts, device));
            found.extend(settings_not_kept(facts, device));
        }
    }
}

/// What a driver does with what is set on instances.
struct Keeping {
    /// It is lost when the interface goes down and up.
    forgets_down: bool,
    /// It is lost when the queues of the interface change.
    forgets_channels: bool,
    /// It is lost neither way; this is not known of every driver.
    keeps: bool,
    /// The same as a part of a sentence.
    words: String,
}

/// Source: `net/core/dev.c netif_napi_add_config`, and each driver's in [`drivers`].
fn keeping(facts: &Facts, device: &DeviceFacts) -> Keeping {
    let name = device.driver.as_deref().unwrap_or("of this interface");
    let version = facts.kernel.version;
    let known = drivers::of(name);
    let down = known.and_then(|known| known.keeps_down.on(version));
    let channels = known.and_then(|known| known.keeps_channels.on(version));
    let since = |fact: &drivers::Fact, when: &str| match fact.since {
        Since::Linux(major, minor) => {
            format!(
                "the driver {name} keeps what is set on instances {when} since Linux {major}.{minor} only, and this is {}.{}",
                version.0, version.1
            )
        }
        _ => format!("the driver {name} does not keep what is set on instances {when}"),
    };
    let words = match (known, down, channels) {
        (Some(known), Some(false), _) => since(&known.keeps_down, "when the interface goes down and up"),
        (Some(known), _, Some(false)) => since(&known.keeps_channels, "when its queues change (ethtool -L)"),
        (_, Some(true), Some(true)) => format!("the driver {name} keeps what is set on instances"),
        _ => format!("it is not known whether the driver {name} keeps what is set on instances"),
    };
    Keeping {
        forgets_down: down == Some(false),
        forgets_channels: channels == Some(false),
        keeps: (down, channels) == (Some(true), Some(true)),
        words,
    }
}

/// ` before Linux 6.16, and this is 6.14`, or nothing.
pub(super) fn not_before(fact: &drivers::Fact, (major, minor): (u32, u32)) -> String {
    match fact.before() {
        before if before.is_empty() => before,
        before => format!("{before}, and this is {major}.{minor}"),
    }
}

/// Source: `net/core/dev.c netif_napi_add_weight_locked`: an instance that is made anew gets its device's setting.
fn threaded_lost(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let is_on = |instance: &Instance| instance.threaded.as_deref().is_some_and(|name| name != "disabled");
    let on = those(device, is_on);
    if on.is_empty() || device.files.threaded != Some(0) {
        return None;
    }
    let Keeping { forgets_down, forgets_channels, keeps, words } = keeping(facts, device);
    // An instance of a queue that is not in use needs no thread.
    let is_used = |instance: &Instance| {
        let known = device.rx_queues.iter().any(|queue| queue.napi_id.is_some());
        !known || device.rx_queues.iter().any(|queue| queue.napi_id == Some(instance.id))
    };
    let some_lack = device.instances().iter().any(|instance| !is_on(instance) && is_used(instance));
    // A driver that keeps the settings of its instances loses nothing.
    if !forgets_down && !forgets_channels && !some_lack {
        return None;
    }
    let who = instances_of(device, &on);
    let verb = if on.len() == 1 { "is" } else { "are" };
    let what = if some_lack {
        format!("Only {who} {verb} threaded, of {}; the interface itself is not.", device.instances().len())
    } else {
        format!("{who} {verb} threaded, the interface itself is not.")
    };
    let why = if keeps {
        format!(
            "Those without a thread were not set: {words}, also when the interface goes down and up, and when its queues change."
        )
    } else {
        format!(
            "When the interface goes down and up, or its queues change, instances may be made anew, and {words}. What is not kept is the \
             interface's setting then, which is 0, and there is no thread."
        )
    };
    let polls = on.iter().any(|instance| instance.threaded.as_deref() == Some("busy-poll"));
    // Where all are threaded nothing is lost yet, and where the driver keeps it nothing was.
    let severity = if some_lack && !keeps { Severity::Warning } else { Severity::Note };
    let finding = Finding::new("threaded-lost", severity, what, why).of(device);
    Some(if polls {
        finding.advice("busy-poll can only be set on instances: set it again whenever the interface has come up.")
    } else {
        finding.mend([file(device, "threaded", 1)]).advice("The file makes all instances of the interface threaded.")
    })
}

/// Values of an instance that a new one in its place would not get from the interface's files.
fn own(device: &DeviceFacts, instance: &Instance) -> Vec<&'static str> {
    let files = &device.files;
    let differs = |own: Option<u64>, of_file: Option<u64>| own.is_some_and(|own| own > 0 && Some(own) != of_file);
    let mut names = Vec::new();
    if differs(instance.defer_hard_irqs.map(u64::from), files.napi_defer_hard_irqs) {
        names.push("defer-hard-irqs");
    }
    if differs(instance.gro_flush_timeout_ns, files.gro_flush_timeout) {
        names.push("gro-flush-timeout");
    }
    if suspends(instance) {
        names.push("irq-suspend-timeout");
    }
    names
}

fn settings_not_kept(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let hit = those(device, |instance| !own(device, instance).is_empty());
    let mut names: Vec<&str> = hit.iter().flat_map(|instance| own(device, instance)).collect();
    names.sort_unstable();
    names.dedup();
    let Keeping { forgets_down, forgets_channels, words, .. } = keeping(facts, device);
    if hit.is_empty() || !(forgets_down || forgets_channels) {
        return None;
    }
    let who = instances_of(device, &hit);
    let verb = if hit.len() == 1 { "has" } else { "have" };
    let what = format!("{who} {verb} {} that will be lost: {words}.", names.join(", "));
    let why = "Its instances are made anew then: with what the interface's files say, without suspension, and with other ids. Nothing tells of it.";
    let advice = if names.contains(&"irq-suspend-timeout") {
        "Set them again whenever the interface has come up or was changed; napier run does so while it runs. irq-suspend-timeout has no file \
         that new instances could take it from."
    } else {
        "Set them again whenever the interface has come up or was changed; napier run does so while it runs. Or write the interface's files: new \
         instances get what is there."
    };
    // A link goes down by itself; the number of queues is only changed by hand.
    let severity = if forgets_down { Severity::Warning } else { Severity::Note };
    let finding = Finding::new("settings-not-kept", severity, what, why).of(device);
    Some(finding.mend(files_as_instances(device)).advice(advice))
}

/// The interface's files, set to what all its instances have: a write to one of them changes all instances.
fn files_as_instances(device: &DeviceFacts) -> Vec<Line> {
    let [first, others @ ..] = device.instances() else { return Vec::new() };
    let is_same = |instance: &Instance| {
        (instance.defer_hard_irqs, instance.gro_flush_timeout_ns) == (first.defer_hard_irqs, first.gro_flush_timeout_ns)
    };
    if !others.iter().all(is_same) {
        return Vec::new();
    }
    let files = &device.files;
    let pairs = [
        ("napi_defer_hard_irqs", first.defer_hard_irqs.map(u64::from), files.napi_defer_hard_irqs),
        ("gro_flush_timeout", first.gro_flush_timeout_ns, files.gro_flush_timeout),
    ];
    let line = |(name, own, of_file): (&'static str, Option<u64>, Option<u64>)| {
        own.filter(|own| Some(*own) != of_file).map(|own| file(device, name, own))
    };
    pairs.into_iter().filter_map(line).collect()
}

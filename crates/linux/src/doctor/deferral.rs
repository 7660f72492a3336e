//! Deferral and suspension of instances, and what hides them.

use super::{Finding, Severity, deferral_lines, defers, file, instances_of, napi, time};
use crate::change::{EthtoolKey, Key, Line, NapiAttribute};
use crate::ethtool::Group;
use crate::facts::{DeviceFacts, Facts, Instance};

pub(super) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    for device in &facts.devices {
        // The mode suspend0, while it is in force, is meant so.
        if !device.is_held {
            found.extend(suspension_without_deferral(device));
        }
        found.extend(flush_without_defer(device));
        found.extend(defer_without_timeout(device));
        found.extend(coalescing(device));
        found.extend(hidden_files(device));
    }
}

pub(super) fn those(device: &DeviceFacts, wanted: impl Fn(&Instance) -> bool) -> Vec<&Instance> {
    device.instances().iter().filter(|instance| wanted(instance)).collect()
}

pub(super) fn suspends(instance: &Instance) -> bool {
    instance.irq_suspend_timeout_ns > Some(0)
}

/// Source: `net/core/dev.c napi_suspend_irqs`, which arms a timer and masks nothing.
fn suspension_without_deferral(device: &DeviceFacts) -> Option<Finding> {
    let hit = those(device, |instance| suspends(instance) && !defers(instance));
    let first = hit.first()?;
    let suspend = time(first.irq_suspend_timeout_ns?);
    let who = instances_of(device, &hit);
    let (verb, own) = if hit.len() == 1 { ("has", "its") } else { ("have", "their") };
    let what = format!("{who} {verb} irq-suspend-timeout {suspend}, but {own} interrupts are not deferred.");
    let why = "Suspension only keeps an interrupt masked that deferral has masked. Without defer-hard-irqs and \
               gro-flush-timeout the interrupt is live again before the program asks for events, so nothing is suspended and \
               a spurious poll is added.";
    let lines = hit.iter().flat_map(|instance| deferral_lines(device, instance));
    Some(Finding::new("suspension-without-deferral", Severity::Serious, what, why).of(device).mend(lines))
}

/// Source: `net/core/dev.c napi_complete_done`: with a count of 0 the timer is armed and the interrupt unmasked.
fn flush_without_defer(device: &DeviceFacts) -> Option<Finding> {
    let is_hit = |instance: &Instance| {
        instance.gro_flush_timeout_ns > Some(0) && instance.defer_hard_irqs == Some(0) && !suspends(instance)
    };
    let hit = those(device, is_hit);
    let files = &device.files;
    let by_file = files.gro_flush_timeout.is_some_and(|ns| ns > 0) && files.napi_defer_hard_irqs == Some(0);
    let (flush, who) = match hit.first() {
        Some(first) => (first.gro_flush_timeout_ns?, instances_of(device, &hit)),
        // A kernel that does not show the values of instances.
        None if by_file && device.instances().iter().all(|instance| instance.defer_hard_irqs.is_none()) => {
            (files.gro_flush_timeout?, device.name().to_owned())
        }
        None => return None,
    };
    let what = format!("gro-flush-timeout is {} with defer-hard-irqs 0: {who}.", time(flush));
    let why = "No interrupt is deferred by it. All that it does is to hold back packets that could be merged, for as long as \
               the time-out, although the interrupt is already live again.";
    // The file is written to all instances: only where that hits none that is set well.
    let lines: Vec<Line> = if by_file && hit.len() == device.instances().len() {
        vec![file(device, "gro_flush_timeout", 0)]
    } else {
        hit.iter().map(|instance| napi(device, instance, NapiAttribute::GroFlushTimeout, 0)).collect()
    };
    let advice = "If deferral was meant, set defer-hard-irqs too (100 in the documents on interrupt suspension).";
    Some(Finding::new("flush-without-defer", Severity::Warning, what, why).of(device).mend(lines).advice(advice))
}

fn defer_without_timeout(device: &DeviceFacts) -> Option<Finding> {
    let is_hit = |instance: &Instance| {
        instance.defer_hard_irqs > Some(0) && instance.gro_flush_timeout_ns == Some(0) && !suspends(instance)
    };
    let hit = those(device, is_hit);
    let count = hit.first()?.defer_hard_irqs?;
    let what = format!("defer-hard-irqs is {count} with gro-flush-timeout 0: {}.", instances_of(device, &hit));
    let why = "Deferral needs both. Without a time-out no timer can bring the instance back, so each poll that finds nothing \
               unmasks the interrupt at once.";
    let advice = "Set gro-flush-timeout to the longest wait for a packet that you accept (20000 ns in the documents on \
                  interrupt suspension), or defer-hard-irqs to 0.";
    Some(Finding::new("defer-without-timeout", Severity::Warning, what, why).of(device).advice(advice))
}

fn coalescing(device: &DeviceFacts) -> Option<Finding> {
    let hit = those(device, defers);
    let usecs: Option<u64> = device.coalesce.get("rx-usecs").and_then(|value| value.parse().ok());
    let adapts = device.coalesce.get("adaptive-rx").is_some_and(|value| value == "on");
    let how = match (adapts, usecs) {
        _ if hit.is_empty() => return None,
        (true, _) => "by itself as it sees fit (adaptive-rx)".to_owned(),
        (false, Some(usecs)) if usecs > 0 => format!("for {usecs} µs (rx-usecs)"),
        (false, _) => return None,
    };
    let what = format!("{} defers interrupts, and the device holds them back as well, {how}.", device.name());
    let why = "The first packet after a pause waits for the device, and only then does deferral begin: both delays add up, \
               and the one that you set is not the one that you measure.";
    let key = |name: &str| {
        Key::Ethtool(EthtoolKey { device: device.device.clone(), group: Group::Coalesce, name: name.to_owned() })
    };
    let lines = [adapts.then(|| Line::new(key("adaptive-rx"), "off")), Some(Line::new(key("rx-usecs"), "0"))];
    let finding = Finding::new("coalescing-hides-deferral", Severity::Warning, what, why);
    Some(finding.of(device).mend(lines.into_iter().flatten()))
}

/// Source: `net/core/net-sysfs.c`: reading shows the interface's value, writing changes all instances.
fn hidden_files(device: &DeviceFacts) -> Option<Finding> {
    let files = &device.files;
    let differs = |instance: &Instance| {
        let mut names = Vec::new();
        let threaded = instance.threaded.as_deref().map(|name| u64::from(name != "disabled"));
        let pairs = [
            ("defer-hard-irqs", instance.defer_hard_irqs.map(u64::from), files.napi_defer_hard_irqs),
            ("gro-flush-timeout", instance.gro_flush_timeout_ns, files.gro_flush_timeout),
            ("threaded", threaded, files.threaded),
        ];
        for (name, own, of_file) in pairs {
            if own.zip(of_file).is_some_and(|(own, of_file)| own != of_file) {
                names.push(name);
            }
        }
        names
    };
    let hit = those(device, |instance| !differs(instance).is_empty());
    let mut names: Vec<&str> = hit.iter().flat_map(|instance| differs(instance)).collect();
    names.sort_unstable();
    names.dedup();
    if hit.is_empty() {
        return None;
    }
    let who = instances_of(device, &hit);
    let verb = if hit.len() == 1 { "has" } else { "have" };
    let what = format!("{who} {verb} values of {} that sysfs does not show.", names.join(", "));
    let why = format!(
        "The files of /sys/class/net/{} show what new instances get, not what is in force, and a write to one of them changes \
         every instance.",
        device.name()
    );
    let advice = "Nothing is wrong if that is meant. Ask the instances: napier napi-get --dump.";
    Some(Finding::new("instance-hides-sysfs", Severity::Note, what, why).of(device).advice(advice))
}

//! Processors, the kernel, capabilities.

use super::{Finding, Severity, some};
use crate::change::{Key, Line};
use crate::facts::{Facts, Governor, IdleState, Irq};

pub(super) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    found.extend(governor(facts));
    found.extend(deep_idle(facts));
    found.extend(smt(facts));
    found.extend(irqbalance(facts));
    found.extend(kernel(facts));
    found.extend(capabilities(facts));
}

fn write(path: impl Into<String>, value: &str) -> Line {
    Line::new(Key::file(path), value)
}

/// The frequency does not fall: by the governor, by the preference of a driver that chooses by itself (`intel_pstate`, `amd_pstate` in
/// active mode, where the governor `powersave` is a name only), or because there is no lower one.
fn is_fast(policy: &Governor) -> bool {
    policy.governor == "performance"
        || policy.preference.as_deref() == Some("performance")
        || policy.khz.is_some_and(|(min, max)| min >= max)
}

fn governor(facts: &Facts) -> Option<Finding> {
    let policies = &facts.cpus.governors;
    let slow: Vec<_> = policies.iter().filter(|policy| !is_fast(policy)).collect();
    let mut names: Vec<String> = slow.iter().map(|policy| policy.governor.clone()).collect();
    names.sort();
    names.dedup();
    if slow.is_empty() {
        return None;
    }
    let (count, all) = (slow.len(), policies.len());
    let what = format!("{count} of {all} frequency policies use the governor {}.", names.join(", "));
    let why = "A CPU that was idle is slow for the first milliseconds of work, which is longer than most requests take: tails grow \
               at low load, and measurements depend on what ran before.";
    let lines = slow.iter().filter(|policy| policy.can_perform).map(|policy| write(&policy.path, "performance"));
    Some(Finding::new("governor", Severity::Warning, what, why).mend(lines))
}

/// A wake-up from such a state takes longer than what napier's modes save.
const EXIT_LATENCY_MAX_US: u32 = 10;

fn deep_idle(facts: &Facts) -> Option<Finding> {
    let is_allowed = |state: &IdleState| state.limit_us.is_none_or(|limit| state.exit_latency_us <= limit);
    let is_deep =
        |state: &&IdleState| !state.is_disabled && state.exit_latency_us > EXIT_LATENCY_MAX_US && is_allowed(state);
    let deep: Vec<&IdleState> = facts.cpus.idle_states.iter().filter(is_deep).collect();
    let worst = deep.iter().max_by_key(|state| state.exit_latency_us)?;
    let mut names: Vec<String> = deep.iter().map(|state| state.name.clone()).collect();
    names.sort();
    names.dedup();
    let what = format!(
        "Idle CPUs may enter {}; leaving {} takes up to {} µs.",
        some(&names),
        worst.name,
        worst.exit_latency_us
    );
    let why = "An interrupt that wakes a CPU from such a state waits that long before the first instruction runs. Modes that let \
               the CPU sleep (base, deferX, suspendX) pay it with every pause; those that poll do not.";
    let path =
        |state: &IdleState| format!("/sys/devices/system/cpu/cpu{}/cpuidle/state{}/disable", state.cpu, state.state);
    let lines = deep.iter().map(|state| write(path(state), "1"));
    let advice = "It costs power and boost. A program can do the same for its lifetime with /dev/cpu_dma_latency.";
    Some(Finding::new("deep-idle", Severity::Warning, what, why).mend(lines).advice(advice))
}

fn smt(facts: &Facts) -> Option<Finding> {
    if !facts.cpus.smt_active {
        return None;
    }
    let what = "Two hardware threads share each core (SMT is active).";
    let why = "A thread that polls takes execution units from its sibling, so a program beside it is slower by a third or more, \
               and figures depend on who sits where.";
    let can = facts.cpus.smt_control.as_deref() == Some("on");
    let lines = can.then(|| write("/sys/devices/system/cpu/smt/control", "off"));
    let advice = "Or keep the sibling of each CPU that polls idle. Switching it off halves the number of CPUs.";
    Some(Finding::new("smt-active", Severity::Note, what, why).mend(lines).advice(advice))
}

fn irqbalance(facts: &Facts) -> Option<Finding> {
    let pid = facts.cpus.irqbalance_pid?;
    let is_left = |irq: &Irq| facts.cpus.irqbalance_banned.contains(&irq.number);
    if facts.devices.iter().all(|device| device.queue_irqs().all(is_left)) {
        return None;
    }
    let what = format!("irqbalance runs (process {pid}).");
    let why = "It moves interrupts to other CPUs every few seconds, also those that were pinned by hand.";
    let advice = "systemctl stop irqbalance, or IRQBALANCE_BANNED_CPULIST with the CPUs that you pin to.";
    Some(Finding::new("irqbalance", Severity::Note, what, why).advice(advice))
}

/// What modes need, and the first kernel that has it.
const SINCE: [((u32, u32), &str); 6] = [
    ((5, 8), "deferral (deferX)"),
    ((5, 11), "SO_PREFER_BUSY_POLL (busy-read with deferral)"),
    ((5, 12), "threads of instances (threaded)"),
    ((6, 9), "busy-poll parameters of epoll (napibusy, fullbusy)"),
    ((6, 13), "settings of single instances, and suspension (suspend0, suspendX)"),
    ((6, 19), "threads that poll for ever (threaded-busy-poll)"),
];

/// From here on a kernel has all but threads that poll for ever.
const FEW_LACK: (u32, u32) = (6, 13);

fn kernel(facts: &Facts) -> Option<Finding> {
    let version = facts.kernel.version;
    // What lacks only there is told to who asks for that mode.
    if version >= FEW_LACK {
        return None;
    }
    let lacks: Vec<_> = SINCE.iter().filter(|(since, _)| version < *since).collect();
    if lacks.is_empty() || version == (0, 0) {
        return None;
    }
    let each = lacks.iter().map(|((major, minor), what)| format!("{what}, since {major}.{minor}"));
    let what = format!("Linux {} has no {}.", facts.kernel.release, each.collect::<Vec<_>>().join("; no "));
    let why = "Modes that need it are refused here, with this reason. The engine has them on every kernel.";
    Some(Finding::new("kernel-too-old", Severity::Warning, what, why))
}

fn capabilities(facts: &Facts) -> Option<Finding> {
    let missing = &facts.missing_capabilities;
    if missing.is_empty() {
        return None;
    }
    let needed = |name: &&str| match *name {
        "CAP_NET_ADMIN" => "CAP_NET_ADMIN (to set instances, interfaces and SO_PREFER_BUSY_POLL)",
        "CAP_SYS_ADMIN" => "CAP_SYS_ADMIN (sysctls, and interfaces of other namespaces)",
        "CAP_SYS_NICE" => "CAP_SYS_NICE (class and CPUs of NAPI threads)",
        "CAP_SYS_PTRACE" => "CAP_SYS_PTRACE (to see and set a program's descriptors)",
        _ => "another one",
    };
    let what = format!("This user does not have {}.", missing.iter().map(needed).collect::<Vec<_>>().join(", "));
    let why = "What needs them is neither seen in full nor can it be changed.";
    Some(
        Finding::new("capabilities-missing", Severity::Warning, what, why)
            .advice("Run it as root: sudo napier doctor."),
    )
}

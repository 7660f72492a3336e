//! The command that keeps the mode that a trial found.

use napier_lab::modes::Mode;
use napier_linux::by_name::{ProgramTarget, TargetName};
use napier_linux::change::quoted;
use napier_trial::{Decision, TrialAnswer};

use super::{TrialArgs, TrialPlan};

/// What keeps it: none where base is as good, or nothing is known.
pub(super) fn commands(args: &TrialArgs, plan: &TrialPlan, decision: &Decision, target: &ProgramTarget) -> Vec<String> {
    let TrialAnswer::Take { candidate, .. } = decision.answer else { return Vec::new() };
    vec![command(args, plan.kinds[candidate], &target.name)]
}

fn command(args: &TrialArgs, mode: Mode, name: &TargetName) -> String {
    let queues = args.queues.as_ref().map_or_else(String::new, |queues| format!(" --queues {queues}"));
    let what = format!("--dev {} --mode {mode}{queues}", quoted(&args.dev));
    let enable = |unit: &str| format!("sudo napier mode enable --unit {} {what} --now", quoted(unit));
    match name {
        TargetName::Unit(unit) => enable(unit),
        TargetName::Process(pid) => match unit_of(*pid) {
            Some(unit) => enable(&unit),
            None => format!("sudo napier mode keep {what} --attach {pid}"),
        },
        TargetName::Cgroup(path) => {
            format!("sudo napier mode keep {what} --cgroup {}", quoted(&path.to_string_lossy()))
        }
        TargetName::Container(name) => format!("sudo napier run {what} --container {}", quoted(name)),
        TargetName::Pod(name) => format!("sudo napier run {what} --pod {}", quoted(name)),
    }
}

/// The service of systemd that a process belongs to. Source: `cgroups(7)`.
fn unit_of(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    service_in(&text)
}

fn service_in(text: &str) -> Option<String> {
    let last = |line: &str| line.rsplit('/').next().filter(|name| name.ends_with(".service")).map(ToOwned::to_owned);
    text.lines().find_map(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_in_its_control_group() {
        assert_eq!(service_in("0::/system.slice/memcached.service\n").as_deref(), Some("memcached.service"));
        assert_eq!(service_in("0::/user.slice/user-0.slice/session-1.scope\n"), None);
    }
}

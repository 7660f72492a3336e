//! Who has the CPUs before anything is measured: on a machine that others use nothing is decided, and that can be said at once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::machine::Outside;
use crate::report::MachineUse;

/// How long it is watched.
const WATCH: Duration = Duration::from_millis(300);

/// Programs that are named.
const NAMED_MAX: usize = 3;

/// A program that takes less than this, in % of the CPUs, is not named.
const NAMED_PCT_MIN: f64 = 2.0;

/// Ticks of `/proc/PID/stat` in a second (`USER_HZ`, which is 100 wherever Linux runs here).
const TICKS_PER_S: f64 = 100.0;

/// CPU time of a process in ticks, and its name.
type Programs = HashMap<u32, (String, u64)>;

/// Who takes so much of these CPUs now that verdicts are withheld, in a sentence; `None` if no program does, or it cannot be seen.
pub(super) fn at_start(cpus: &[usize]) -> Option<String> {
    let (before, programs, begun) = (Outside::read(cpus, Duration::ZERO).ok()?, programs(), Instant::now());
    std::thread::sleep(WATCH);
    let elapsed = begun.elapsed();
    let since = Outside::read(cpus, Duration::ZERO).ok()?.since(&before, elapsed, cpus.len());
    // Ticks are coarse, so of a short time they may be more than there was.
    let others_pct = since.others_pct().min(100.0);
    if !MachineUse::is_crowded(others_pct) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "CPUs are few")]
    let ticks = elapsed.as_secs_f64() * TICKS_PER_S * cpus.len().max(1) as f64;
    Some(said(others_pct, &busiest(&programs, &self::programs(), std::process::id(), ticks)))
}

fn said(others_pct: f64, who: &[(String, u32, f64)]) -> String {
    let named: Vec<String> = who.iter().map(|(name, pid, pct)| format!("{name} (pid {pid}) {pct:.0} %")).collect();
    let named = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
    format!(
        "Others take {others_pct:.0} % of the CPUs now{named}. Slices in which they have the machine are \
         left out, of all modes alike; if most are, nothing is decided. napier advise needs no quiet machine."
    )
}

/// Those that took most between two readings, in % of all there was.
fn busiest(before: &Programs, after: &Programs, own: u32, ticks: f64) -> Vec<(String, u32, f64)> {
    let mut took: Vec<(String, u32, f64)> = after
        .iter()
        .filter(|(pid, _)| **pid != own)
        .filter_map(|(pid, (name, now))| {
            let earlier = before.get(pid).map_or(0, |(_, earlier)| *earlier);
            #[expect(clippy::cast_precision_loss, reason = "ticks of a moment")]
            let pct = 100.0 * now.saturating_sub(earlier) as f64 / ticks.max(1e-9);
            (before.contains_key(pid) && pct >= NAMED_PCT_MIN).then(|| (name.clone(), *pid, pct))
        })
        .collect();
    took.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.1.cmp(&b.1)));
    took.truncate(NAMED_MAX);
    took
}

fn programs() -> Programs {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Programs::new() };
    entries
        .filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            Some((pid, parsed(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
        })
        .collect()
}

/// Name, and ticks in user and kernel mode (`proc_pid_stat(5)`, fields 2, 14, 15). A name may hold anything, also brackets.
fn parsed(stat: &str) -> Option<(String, u64)> {
    let (_, rest) = stat.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((name.chars().map(|c| if c.is_control() { '?' } else { c }).collect(), user + system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_is_read() {
        let stat = "7 (a) b (c\x1b)) R 1 7 7 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 5 0 0";
        assert_eq!(parsed(stat), Some(("a) b (c?)".to_owned(), 42)));
        assert_eq!(parsed("7 (a"), None);
    }

    #[test]
    fn those_that_took_most_are_named_and_this_process_is_not() {
        let of = |all: &[(u32, u64)]| {
            all.iter().map(|(pid, ticks)| (*pid, (format!("p{pid}"), *ticks))).collect::<Programs>()
        };
        let before = of(&[(1, 100), (2, 0), (3, 0), (4, 0), (5, 0)]);
        let after = of(&[(1, 131), (2, 12), (3, 60), (4, 1), (5, 30), (6, 500)]);
        // Two CPUs for half a second.
        let who = busiest(&before, &after, 3, 100.0);
        assert_eq!(who.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(), ["p1", "p5", "p2"]);
        assert!(
            said(62.0, &who)
                .starts_with("Others take 62 % of the CPUs now: p1 (pid 1) 31 %, p5 (pid 5) 30 %, p2 (pid 2) 12 %.")
        );
        assert!(said(62.0, &[]).starts_with("Others take 62 % of the CPUs now. "));
    }

    #[test]
    fn this_process_is_among_those_that_run() {
        assert!(programs().contains_key(&std::process::id()));
    }
}

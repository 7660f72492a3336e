//! What rows of the kernel have beside the columns: work per reply, and where the CPUs' time went.

use crate::report::Row;
use crate::stats::{Figures, SideUse};
use crate::subject::Backend;

/// Work per reply of the kernel's rows; empty if there are none.
pub(super) fn per_reply(rows: &[&Row], backends: bool) -> String {
    said(rows, backends, "Per reply: ", &|figures| {
        let per_reply = |per_s: Option<f64>, what: &str| {
            Some(format!("{:.3} {what}", per_s? / figures.achieved_rps)).filter(|_| figures.achieved_rps > 0.0)
        };
        let parts = [
            per_reply(figures.softirq_polls_per_s, "softirq polls"),
            per_reply(figures.timers_per_s, "timers"),
            per_reply(figures.context_switches_per_s, "switches"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    })
}

/// Where the time of both sides' CPUs went in the kernel's rows; empty if there are none.
pub(super) fn sides(rows: &[&Row], backends: bool) -> String {
    let side = |side: &SideUse| {
        let SideUse { user_pct, system_pct, irq_pct, softirq_pct } = side;
        format!("{user_pct:.0}/{system_pct:.0}/{irq_pct:.0}/{softirq_pct:.0}")
    };
    said(rows, backends, "CPU as user/system/interrupts/softirqs, client and server: ", &|figures| {
        let cores = figures.cores?;
        let client = cores.client.as_ref().map_or_else(|| "elsewhere".to_owned(), side);
        Some(format!("{client} and {}", side(&cores.server)))
    })
}

fn said(rows: &[&Row], backends: bool, head: &str, text: &dyn Fn(&Figures) -> Option<String>) -> String {
    let of_kernel = rows.iter().filter(|row| row.subject.backend == Backend::Kernel);
    let each: Vec<String> = of_kernel
        .filter_map(|row| Some(format!("{} {}", row.subject.name(backends), text(&row.measured()?.median)?)))
        .collect();
    if each.is_empty() { String::new() } else { format!("{head}{}.", each.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{beside_the_kernel, cover_letter};

    #[test]
    fn the_kernels_rows_say_what_a_reply_costs() {
        let report = beside_the_kernel();
        let rows: Vec<&Row> = report.rows.iter().collect();
        assert_eq!(per_reply(&rows, true), "Per reply: kernel/base 0.500 softirq polls, 0.003 timers, 0.250 switches.");
        assert_eq!(
            sides(&rows, true),
            "CPU as user/system/interrupts/softirqs, client and server: kernel/base 40/20/0/25 and 40/20/0/25."
        );
        let report = cover_letter();
        let rows: Vec<&Row> = report.rows.iter().collect();
        assert_eq!((per_reply(&rows, false), sides(&rows, false)), (String::new(), String::new()));
    }
}

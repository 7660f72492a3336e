//! The settings of an instance by one name.

use napier_core::control::{NapiInfo, ThreadedSetting};

/// The name that `napier compare` has for what an instance is set to: `base`, `deferX`, `suspendX` (X is gro-flush-timeout in µs),
/// `threaded`, `threaded-busy-poll`, or `unknown` where the kernel shows no settings (before Linux 6.13).
///
/// Busy polling is a program's and not an instance's: `napibusy` and `fullbusy` are `deferX` here.
#[must_use]
pub fn name_of(info: &NapiInfo) -> String {
    match info.threaded {
        Some(ThreadedSetting::BusyPoll) => return "threaded-busy-poll".to_owned(),
        Some(ThreadedSetting::Enabled) => return "threaded".to_owned(),
        Some(ThreadedSetting::Workqueue) => return "workqueue".to_owned(),
        // Before Linux 6.17 it is not shown, but the thread is.
        None if info.pid.is_some() => return "threaded".to_owned(),
        Some(ThreadedSetting::Disabled) | None => {}
    }
    let (Some(defer), Some(flush)) = (info.defer_hard_irqs, info.gro_flush_timeout) else {
        return "unknown".to_owned();
    };
    let is_suspending = info.irq_suspend_timeout.is_some_and(|span| span.ns > 0);
    let us = match flush.ns % 1000 {
        0 => (flush.ns / 1000).to_string(),
        rest => format!("{}.{rest:03}", flush.ns / 1000).trim_end_matches('0').to_owned(),
    };
    match (defer > 0 && flush.ns > 0, is_suspending) {
        (true, true) => format!("suspend{us}"),
        (true, false) => format!("defer{us}"),
        // Suspension without deferral suspends nothing.
        (false, _) => "base".to_owned(),
    }
}

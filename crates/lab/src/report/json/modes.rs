//! What a mode sets, as the report writes it.

use napier_core::control::plan::Plan;
use napier_core::control::{NapiChange, ThreadedSetting};
use napier_core::event::EpollParams;
use napier_core::sockopt::BusyOption;
use serde::Serialize;

use crate::modes::ServerStyle;

/// A plan by names: all attributes of an instance, and how the server receives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct JsonMode {
    defer_hard_irqs: u32,
    gro_flush_timeout_ns: u64,
    irq_suspend_timeout_ns: u64,
    /// Who polls when an interrupt or a timer asks for it.
    threaded: &'static str,
    server: JsonServer,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum JsonServer {
    EventContext { params: Option<JsonParams>, wait_timeout_ns: Option<u64> },
    BlockingReceive { busy_poll_usecs: i32, prefer_busy_poll: bool },
}

impl Default for JsonServer {
    fn default() -> Self {
        Self::EventContext { params: None, wait_timeout_ns: None }
    }
}

/// `struct epoll_params`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct JsonParams {
    busy_poll_usecs: u32,
    busy_poll_budget: u16,
    prefer_busy_poll: bool,
}

impl From<EpollParams> for JsonParams {
    fn from(params: EpollParams) -> Self {
        let EpollParams { busy_poll_usecs, busy_poll_budget, prefer_busy_poll } = params;
        Self { busy_poll_usecs, busy_poll_budget, prefer_busy_poll }
    }
}

impl From<&Plan> for JsonMode {
    fn from(plan: &Plan) -> Self {
        let mut mode = Self::default();
        for change in plan.changes() {
            match change {
                NapiChange::DeferHardIrqs(count) => mode.defer_hard_irqs = count,
                NapiChange::GroFlushTimeout(span) => mode.gro_flush_timeout_ns = span.ns,
                NapiChange::IrqSuspendTimeout(span) => mode.irq_suspend_timeout_ns = span.ns,
                NapiChange::Threaded(threaded) => mode.threaded = who_polls(threaded),
            }
        }
        let option = |option| plan.option(option).unwrap_or(0);
        mode.server = match ServerStyle::of(plan) {
            ServerStyle::EventContext => JsonServer::EventContext {
                params: plan.context().map(JsonParams::from),
                wait_timeout_ns: plan.wait().map(|longest| longest.ns),
            },
            ServerStyle::BlockingReceive => JsonServer::BlockingReceive {
                busy_poll_usecs: option(BusyOption::BusyPoll),
                prefer_busy_poll: option(BusyOption::PreferBusyPoll) != 0,
            },
        };
        mode
    }
}

fn who_polls(threaded: ThreadedSetting) -> &'static str {
    match threaded {
        ThreadedSetting::Disabled => "softirq",
        ThreadedSetting::Enabled => "thread",
        ThreadedSetting::BusyPoll => "busy-poll-thread",
        ThreadedSetting::Workqueue => "workqueue",
    }
}

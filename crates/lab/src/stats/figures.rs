//! The figures of a run, in one list: what a run has, what a row of the JSON has, and how those of several runs become one.

use serde::{Deserialize, Serialize};

use super::{Cdf, CoreUse, CpuSplit, Reduce, Summary, known, rounded};

/// What a figure of a run can be.
pub trait Figure: Copy {
    /// The same in a row, which may have no figures.
    type InRow;

    fn in_row(self) -> Self::InRow;

    /// `None` if a run must have it and the row has not.
    fn of_row(in_row: Self::InRow) -> Option<Self>;

    /// One of those of several runs, of one at least.
    fn reduce(all: &[Self], by: Reduce) -> Self;
}

/// One that each run has.
macro_rules! always {
    ($($type:ty: $reduce:expr,)*) => {
        $(impl Figure for $type {
            type InRow = Option<Self>;

            fn in_row(self) -> Option<Self> {
                Some(self)
            }

            fn of_row(in_row: Option<Self>) -> Option<Self> {
                in_row
            }

            fn reduce(all: &[Self], by: Reduce) -> Self {
                $reduce(all, by)
            }
        })*
    };
}

/// One that has no meaning in some modes, or cannot be had on some machines. Given how those that are there become one.
macro_rules! where_known {
    ($($type:ty: $reduce:expr,)*) => {
        $(impl Figure for Option<$type> {
            type InRow = Self;

            fn in_row(self) -> Self {
                self
            }

            fn of_row(in_row: Self) -> Option<Self> {
                Some(in_row)
            }

            fn reduce(all: &[Self], by: Reduce) -> Self {
                $reduce(&all.iter().copied().flatten().collect::<Vec<_>>(), by)
            }
        })*
    };
}

always! {
    f64: |all: &[f64], by: Reduce| rounded(by(&mut all.to_vec())),
    Summary: Summary::reduce,
    CpuSplit: CpuSplit::reduce,
}

where_known! {
    f64: |all: &[f64], by: Reduce| known(all, |figure| Some(*figure), by),
    CoreUse: CoreUse::reduce,
    Cdf: Cdf::reduce,
}

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// The figures of one run, or one figure each of several runs. `None` where a figure has no meaning in the mode or
        /// cannot be had on the machine.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct Figures {
            $($(#[$doc])* pub $name: $type,)*
        }

        /// The figures of a row, which has none where nothing ran: all are `None` then.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct RowFigures {
            $($(#[$doc])* pub $name: <$type as Figure>::InRow,)*
        }

        impl Figures {
            pub(super) fn reduce(runs: &[Self], by: Reduce) -> Self {
                Self { $($name: Figure::reduce(&runs.iter().map(|run| run.$name).collect::<Vec<$type>>(), by),)* }
            }

            /// Each figure rounded to six decimals.
            pub(crate) fn rounded(self) -> Self {
                Self::reduce(&[self], |values| values[0])
            }
        }

        impl From<Figures> for RowFigures {
            fn from(figures: Figures) -> Self {
                Self { $($name: figures.$name.in_row(),)* }
            }
        }

        impl RowFigures {
            /// Those of a run; `None` where one is missing that each run has.
            #[must_use]
            pub fn of_run(self) -> Option<Figures> {
                Some(Figures { $($name: <$type as Figure>::of_row(self.$name)?,)* })
            }
        }
    };
}

figures! {
    /// Replies per second that came and were right.
    achieved_rps: f64,
    /// Of the requests that were due while it was measured, the share that was answered meanwhile, in percent; those that are on their
    /// way at the end of any run count as answered. `None` in a closed loop, of a prediction, and in what older versions wrote.
    in_time_pct: Option<f64>,
    /// From the intended send to the reply.
    latency_us: Summary,
    /// From the actual send to the reply (what mutilate prints).
    service_latency_us: Summary,
    /// CPU time of the server.
    cpu: CpuSplit,
    /// CPUs of client and server together; only where the kernel delivers packets between them.
    cores: Option<CoreUse>,
    /// Reference cycles of the server per reply: CPU time by the rate of the time-stamp counter.
    cycles_per_request: Option<f64>,
    /// Interrupts (doorbells that woke the softirq side) per second, all queues.
    interrupts_per_s: Option<f64>,
    /// NAPI polls per second, all queues and all pollers.
    polls_per_s: Option<f64>,
    /// Share of polls that found nothing.
    empty_polls_pct: Option<f64>,
    /// Packets per poll, empty polls included.
    work_per_poll: Option<f64>,
    /// Events per wait that returned any.
    events_per_wait: Option<f64>,
    /// Milliseconds per second that the softirq threads could have run and had no CPU, all together.
    run_delay_ms_per_s: Option<f64>,
    /// Expirations of the deferral timer per second, all queues; of the kernel those of all its instances.
    timers_per_s: Option<f64>,
    /// Receive softirqs per second on the CPUs of client and server, of all devices (`/proc/softirqs`, `NET_RX`).
    softirqs_per_s: Option<f64>,
    /// Polls of the server's instances per second that a softirq made, and neither a program nor a thread.
    softirq_polls_per_s: Option<f64>,
    /// Context switches of the server's threads per second, voluntary or not.
    context_switches_per_s: Option<f64>,
    /// From the intended send to the reply, at more percentiles; `None` in what older versions wrote.
    latency_cdf: Option<Cdf>,
}

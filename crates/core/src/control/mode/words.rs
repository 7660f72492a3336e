//! What modes are, for one who has not read about them.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use super::Mode;

impl Mode {
    /// What it is.
    #[must_use]
    pub fn in_words(self) -> String {
        match self {
            Self::Base => "an interrupt brings packets, and a softirq polls".to_owned(),
            Self::Defer { us } => {
                format!("the interrupt stays off while packets come, and a timer of {us} us polls in its place")
            }
            Self::NapiBusy => {
                "the program polls for some 64 us before it sleeps; while it does not, a timer of 200 us polls"
                    .to_owned()
            }
            Self::FullBusy => {
                "the program polls all the time and hardly sleeps, so that its CPU is never idle".to_owned()
            }
            Self::Suspend0 => {
                "a busy program polls for itself and is not interrupted; an idle one has interrupts".to_owned()
            }
            Self::Suspend { us } => format!(
                "a busy program polls for itself and is not interrupted; when it has nothing to do a timer of {us} us polls, and then the \
                 interrupt is on again"
            ),
            Self::Threaded => "a kernel thread for each queue polls, which the scheduler sees and places".to_owned(),
            Self::Workqueue => "workers of a pool poll in place of softirqs".to_owned(),
            Self::ThreadedBusyPoll => "a kernel thread for each queue polls for ever, on a CPU of its own".to_owned(),
            Self::BusyRead => "a blocking receive polls before it sleeps".to_owned(),
            Self::Group => "a few threads poll the queues of all programs".to_owned(),
        }
    }

    /// What it asks of the kernel and the program; `None`: nothing. Source: the kernel's releases in which the settings came
    /// (`napi_defer_hard_irqs` 5.8, of an instance 6.13; `threaded` 5.12; `EPIOCSPARAMS` 6.9; `irq-suspend-timeout` 6.13; `busy-poll` 6.19).
    #[must_use]
    pub const fn asks_for(self) -> Option<&'static str> {
        match self {
            Self::Base | Self::Workqueue | Self::BusyRead | Self::Group => None,
            Self::Defer { .. } => Some("Linux 5.8, for single queues 6.13, and nothing of the program"),
            Self::Threaded => Some("Linux 5.12, and nothing of the program"),
            Self::ThreadedBusyPoll => Some("Linux 6.19, and nothing of the program"),
            Self::NapiBusy | Self::FullBusy => Some("Linux 6.9, and a program that waits in epoll or io_uring"),
            Self::Suspend0 | Self::Suspend { .. } => Some("Linux 6.13, and a program that waits in epoll"),
        }
    }
}

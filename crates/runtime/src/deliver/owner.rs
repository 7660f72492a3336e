//! The interface between an instance and what polls it when it is scheduled.
//!
//! The rules answer what that is ([`Poller`]); `schedule` has one row for each of the answers. An owner that was given an instance
//! polls it ([`Deliver::poll_once`]) until it is completed, or until it is another's
//! ([`Deliver::hand_over_if_stopped`]). A program that busy polls and the control path are not asked: they take ownership
//! by a rule of their own (`busy`, `lifecycle`).

use std::io;
use std::sync::Arc;

use napier_core::control::ThreadedSetting;
use napier_core::state::Poller;

use super::Deliver;
use crate::napi::{Context, Kthread, Napi};

/// What polls scheduled instances.
pub(super) trait Owner: Sync {
    /// Starts what polls the instance, if it is not there. What is started for it alone is returned, and waits until the
    /// instance is switched to it.
    ///
    /// # Errors
    /// It could not be started; nothing is changed.
    fn start(&self, _deliver: &Arc<Deliver>, _napi: &Arc<Napi>) -> io::Result<Option<Kthread>> {
        Ok(None)
    }

    /// Takes an instance that was just scheduled.
    fn take(&self, cx: Context, deliver: &Deliver, napi: &Napi);
}

/// What polls by a setting.
pub(super) fn poller(setting: ThreadedSetting) -> Poller {
    match setting {
        ThreadedSetting::Disabled => Poller::Softirq,
        ThreadedSetting::Enabled | ThreadedSetting::BusyPoll => Poller::Thread,
        ThreadedSetting::Workqueue => Poller::Pool,
    }
}

//! Who polls an instance in threaded mode: `napi_set_threaded`, `napi_stop_kthread`.
//!
//! Threads are started and waited for without the control lock, which others need meanwhile. What keeps two changes of one
//! device apart is a lock of its own (`Device::threaded_changes`), taken before the control lock and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use napier_core::control::ThreadedSetting;
use napier_core::state::{State, Threaded};

use super::Deliver;
use super::owner::poller;
use super::schedule::owner;
use crate::journal::{Event, Rule};
use crate::napi::{Context, Kthread, Napi};

/// Pause while a thread lets go. The kernel waits 20 ms a step; nothing is gained by waiting that long here.
const WAIT_FOR_THREAD: Duration = Duration::from_millis(1);

impl Deliver {
    /// Changes who polls the instance from its next schedule on. The caller holds `Device::threaded_changes`.
    ///
    /// # Errors
    /// The thread could not be started; nothing is changed.
    pub(crate) fn napi_set_threaded(
        self: &Arc<Self>,
        napi: &Arc<Napi>,
        setting: ThreadedSetting,
    ) -> std::io::Result<()> {
        let started = self.start_runner(napi, setting)?;
        self.switch_runner(napi, setting, started);
        Ok(())
    }

    /// Starts the thread that a setting needs, if it is not there: the instance's own, which waits for
    /// [`Self::switch_runner`], or those of the pool.
    ///
    /// # Errors
    /// It could not be started; nothing is changed.
    pub(crate) fn start_runner(
        self: &Arc<Self>,
        napi: &Arc<Napi>,
        setting: ThreadedSetting,
    ) -> std::io::Result<Option<Kthread>> {
        if setting != ThreadedSetting::Disabled && self.is_closing() {
            return Err(rustix::io::Errno::SHUTDOWN.into());
        }
        owner(poller(setting)).start(self, napi)
    }

    /// Applies a setting whose threads are there; `started` is the instance's own if it has just been started.
    pub(crate) fn switch_runner(&self, napi: &Napi, setting: ThreadedSetting, started: Option<Kthread>) {
        let pool = setting == ThreadedSetting::Workqueue;
        if setting == ThreadedSetting::Disabled || pool != napi.state().contains(State::POOL) {
            self.stop_runner(napi);
        }
        if setting == ThreadedSetting::Disabled {
            return;
        }
        let control = self.control();
        if self.is_closing() {
            drop(control);
            // Its threads have been stopped, or are about to be.
            return started.into_iter().for_each(|kthread| kthread.stop(napi));
        }
        if pool != napi.state().contains(State::POOL) {
            napi.transition(Rule::RunByPool(pool), |state| (state.run_by_pool(pool), ()));
        }
        if let Some(kthread) = started {
            *napi.kthread.lock().expect("no panic while held") = Some(kthread);
            napi.journaled(|| (), |()| Event::KthreadStart);
        }
        napi.keep_threaded_setting(setting);
        // A disabled instance takes the mode from its setting when it is enabled.
        let threaded = setting.threaded();
        napi.transition(Rule::SetThreaded(threaded), |state| {
            (if state.is_disabled() { state } else { state.set_threaded(threaded) }, ())
        });
    }

    /// `napi_stop_kthread`, for the pool as well: from here on softirq polls the instance.
    ///
    /// The kernel looks at the mode and sets `SCHED_THREADED` in two steps, so it must not take the mode away while
    /// another thread owns the instance, and waits for it. Here both are one step (`State::schedule`), so the mode goes at
    /// once. What is waited for is the thread in the midst of a poll: it hands the instance over after that.
    pub(crate) fn stop_runner(&self, napi: &Napi) {
        {
            // An enable must not put the mode back that it has just read.
            let _control = self.control();
            napi.keep_threaded_setting(ThreadedSetting::Disabled);
            let off = Threaded::Disabled;
            napi.transition(Rule::SetThreaded(off), |state| {
                (if state.is_disabled() { state } else { state.set_threaded(off) }, ())
            });
        }
        while !napi.state().stop_thread_done() {
            std::thread::sleep(WAIT_FOR_THREAD);
        }
        let kthread = napi.kthread.lock().expect("no panic while held").take();
        if let Some(kthread) = kthread {
            kthread.stop(napi);
            napi.journaled(|| (), |()| Event::KthreadStop);
        }
    }

    /// The thread, or a worker, has to poll an instance again: if its mode was taken away softirq polls on, and the answer
    /// is true.
    pub(crate) fn hand_over_if_stopped(&self, cx: Context, napi: &Napi) -> bool {
        let left =
            !napi.state().contains(State::THREADED) && napi.transition_if(Rule::ThreadLeave, State::thread_leave);
        if left {
            self.schedule_owned(cx, napi);
        }
        left
    }
}

#[cfg(test)]
#[path = "threaded_tests.rs"]
mod tests;

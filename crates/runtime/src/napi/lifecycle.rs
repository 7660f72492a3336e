//! Enabling, disabling and the threaded setting: `napi_enable_locked`, `napi_disable_locked`,
//! `napi_set_threaded`. All of it under the device's control lock; all of it may sleep.

use std::sync::Arc;
use std::time::Duration;

use napier_core::completion::Flush;
use napier_core::control::ThreadedSetting;
use napier_core::state::{State, StopThread};

use super::{Napi, Runner};
use crate::engine::EngineInner;
use crate::journal::{Event, Rule};
use crate::kthread::Kthread;
use crate::port::IrqLine;
use crate::softirq::{coalesce_token, doorbell_token};

/// Pause between two looks while waiting for an owner to let go. The kernel waits 20 to 200 us.
const WAIT_FOR_RELEASE: Duration = Duration::from_micros(50);

/// Pause while a thread is stopped. The kernel waits 20 ms a step; nothing is gained by waiting that long here.
const WAIT_FOR_THREAD: Duration = Duration::from_millis(1);

impl EngineInner {
    /// Enables a disabled instance: gives it an id, lets its doorbell ring and looks at its ring.
    pub(crate) fn napi_enable(&self, napi: &Napi) -> rustix::io::Result<()> {
        assert!(napi.state().contains(State::ADDED), "only a disabled instance is enabled");
        if napi.id() == 0 {
            napi.set_id(self.next_napi_id());
        }
        self.watch_doorbell(napi)?;
        self.publish_id(napi);
        let threaded = napi.threaded_setting().threaded();
        napi.transition(Rule::Enable(threaded), |state| {
            (state.enable(threaded).expect("checked above, under the control lock"), ())
        });
        // Frames may have come while nobody listened.
        self.unmask(napi);
        Ok(())
    }

    /// Disables an enabled instance: waits until its owner lets go, stops its timer, hides its id.
    pub(crate) fn napi_disable(&self, napi: &Napi) {
        napi.transition(Rule::DisableBegin, |state| (state.disable_begin(), ()));
        while !napi.transition_if(Rule::DisableClaim, State::disable_claim) {
            std::thread::sleep(WAIT_FOR_RELEASE);
        }
        napi.flush_held(&mut napi.owned.enter(), Flush::All);
        // The id first: nobody arms the timer of an instance that cannot be found.
        self.hide_id(napi);
        napi.journaled(|| napi.timer.cancel(), |&armed| armed.then_some(Event::TimerCancel));
        napi.mask();
        self.unwatch_doorbell(napi);
        napi.transition(Rule::DisableEnd, |state| (state.disable_end(), ()));
    }

    /// Runs `f` on the owned data while the instance is disabled, and enables it again if it was.
    pub(crate) fn with_stopped<R>(&self, napi: &Napi, f: impl FnOnce(&mut super::Owned) -> R) -> R {
        let _control = self.devices.lock().expect("no panic while held");
        let was_enabled = !napi.state().is_disabled();
        if was_enabled {
            self.napi_disable(napi);
        }
        let answer = f(&mut napi.owned.enter());
        if was_enabled {
            self.napi_enable(napi).expect("its doorbell was watched a moment ago");
        }
        answer
    }

    /// Changes who polls the instance from its next schedule on.
    ///
    /// # Errors
    /// The thread could not be started. Nothing is changed then, except that an instance of the pool has left it and is
    /// polled by softirq.
    pub(crate) fn napi_set_threaded(
        self: &Arc<Self>,
        napi: &Arc<Napi>,
        setting: ThreadedSetting,
    ) -> std::io::Result<()> {
        let runner = if setting == ThreadedSetting::Workqueue { Runner::Workqueue } else { Runner::Kthread };
        if setting != ThreadedSetting::Disabled {
            self.prepare_runner(napi, runner)?;
        }
        if setting == ThreadedSetting::Disabled || runner != napi.runner() {
            self.stop_runner(napi);
            napi.keep_threaded_setting(ThreadedSetting::Disabled);
        }
        if setting == ThreadedSetting::Disabled {
            return Ok(());
        }
        napi.set_runner(runner);
        if runner == Runner::Kthread && napi.kthread.lock().expect("no panic while held").is_none() {
            // Stopped just now because the pool ran the instance before.
            self.prepare_runner(napi, runner)?;
        }
        napi.keep_threaded_setting(setting);
        // A disabled instance takes the mode from its setting when it is enabled.
        let threaded = setting.threaded();
        napi.transition(Rule::SetThreaded(threaded), |state| {
            (if state.is_disabled() { state } else { state.set_threaded(threaded) }, ())
        });
        Ok(())
    }

    fn prepare_runner(self: &Arc<Self>, napi: &Arc<Napi>, runner: Runner) -> std::io::Result<()> {
        match runner {
            Runner::Workqueue => self.workqueue.start(self),
            // While the pool runs the instance its own thread must not exist: both act on SCHED_THREADED.
            Runner::Kthread if napi.runner() == Runner::Workqueue && napi.state().contains(State::THREADED) => Ok(()),
            Runner::Kthread => {
                let mut kthread = napi.kthread.lock().expect("no panic while held");
                if kthread.is_none() {
                    *kthread = Some(Kthread::spawn(self, napi)?);
                    napi.journaled(|| (), |()| Event::KthreadStart);
                }
                Ok(())
            }
        }
    }

    /// `napi_stop_kthread`, for the pool as well: from here on softirq polls the instance.
    pub(crate) fn stop_runner(&self, napi: &Napi) {
        loop {
            let cleared = napi.transition(Rule::StopThreadClaim, |state| match state.stop_thread_claim() {
                StopThread::Cleared(next) => (next, true),
                StopThread::Busy => (state, false),
            });
            if cleared {
                break;
            }
            std::thread::sleep(WAIT_FOR_THREAD);
        }
        while !napi.state().stop_thread_done() {
            std::thread::sleep(WAIT_FOR_THREAD);
        }
        if let Some(kthread) = napi.kthread.lock().expect("no panic while held").take() {
            kthread.stop(napi);
            napi.journaled(|| (), |()| Event::KthreadStop);
        }
    }

    /// Moves the instance's interrupt to another softirq CPU (`/proc/irq/*/smp_affinity`).
    pub(crate) fn set_irq_cpu(&self, napi: &Napi, softirq_index: u32) -> rustix::io::Result<()> {
        let watched = !napi.state().is_disabled();
        if watched {
            self.unwatch_doorbell(napi);
        }
        napi.set_irq_cpu(softirq_index);
        if watched {
            self.watch_doorbell(napi)?;
            // An edge may have been lost between the two lines above: look once as an interrupt would.
            self.interrupt(napi);
        }
        Ok(())
    }

    fn watch_doorbell(&self, napi: &Napi) -> rustix::io::Result<()> {
        let cpu = &self.softirq[napi.irq_cpu() as usize];
        if let IrqLine::Xsk(line) = &napi.irq {
            return line.watch(cpu, doorbell_token(napi.index));
        }
        napi.irq.forget_rings();
        if let Some(doorbell) = napi.irq.doorbell_fd() {
            cpu.watch(doorbell, doorbell_token(napi.index))?;
        }
        match napi.irq.timer_fd() {
            Some(timer) => cpu.watch(timer, coalesce_token(napi.index)),
            None => Ok(()),
        }
    }

    fn unwatch_doorbell(&self, napi: &Napi) {
        if let IrqLine::Xsk(line) = &napi.irq {
            return line.unwatch();
        }
        let cpu = &self.softirq[napi.irq_cpu() as usize];
        // What was watched by the enable before is there still: a line changes only while its instance is disabled.
        for fd in [napi.irq.doorbell_fd(), napi.irq.timer_fd()].into_iter().flatten() {
            let _ = cpu.unwatch(fd);
        }
    }
}

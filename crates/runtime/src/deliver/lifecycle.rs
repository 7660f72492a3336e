//! Enabling and disabling: `napi_enable_locked`, `napi_disable_locked`. Under the control lock; may sleep.

use std::sync::Arc;
use std::time::Duration;

use napier_core::completion::Flush;
use napier_core::moderation::Coalesce;
use napier_core::state::State;

use crate::deliver::Deliver;
use crate::deliver::softirq::tokens;
use crate::journal::{Event, Rule};
use crate::napi::{Context, Napi};
use crate::port::IrqCpu;

/// Pause between two looks while waiting for an owner to let go. The kernel waits 20 to 200 us.
const WAIT_FOR_RELEASE: Duration = Duration::from_micros(50);

impl Deliver {
    /// Enables a disabled instance: gives it an id, lets its doorbell ring and looks at its ring.
    pub(crate) fn napi_enable(&self, napi: &Napi) -> rustix::io::Result<()> {
        let _control = self.control();
        assert!(napi.state().contains(State::ADDED), "only a disabled instance is enabled");
        if napi.id() == 0 {
            napi.set_id(self.next_napi_id());
        }
        self.watch_doorbell(napi)?;
        self.publish_id(napi);
        self.resume(napi);
        Ok(())
    }

    /// What enabling does to a disabled instance that is watched and can be found.
    fn resume(&self, napi: &Napi) {
        let threaded = napi.threaded_setting().threaded();
        napi.transition(Rule::Enable(threaded), |state| {
            (state.enable(threaded).expect("checked above, under the control lock"), ())
        });
        // Frames may have come while nobody listened. The caller has locks: somebody else polls.
        let cx = Context::current().kick_only();
        self.unmask(*cx, napi);
        if napi.state().contains(State::GROUP) {
            // A group polls without waiting for an event.
            self.interrupt(*cx, napi);
        }
    }

    /// Disables an enabled instance: waits until its owner lets go, stops its timer, hides its id.
    pub(crate) fn napi_disable(&self, napi: &Napi) {
        let _control = self.control();
        self.pause(napi);
        self.unwatch_doorbell(napi);
        napi.transition(Rule::DisableEnd, |state| (state.disable_end(), ()));
    }

    /// What disabling does before the doorbell is left alone.
    fn pause(&self, napi: &Napi) {
        napi.transition(Rule::DisableBegin, |state| (state.disable_begin(), ()));
        while !napi.transition_if(Rule::DisableClaim, State::disable_claim) {
            std::thread::sleep(WAIT_FOR_RELEASE);
        }
        napi.flush_held(&mut napi.owned.enter(), Flush::All);
        // The id first: nobody arms the timer of an instance that cannot be found.
        self.hide_id(napi);
        napi.journaled(|| napi.timer.cancel(), |&armed| armed.then_some(Event::TimerCancel));
        let _ = napi.moderation.end();
        napi.mask();
    }

    /// Runs `f` on the owned data while the instance is disabled, and enables it again if it was. Its doorbell is watched
    /// all the time, so that no system call can fail on the way back; a ring meanwhile finds a disabled instance, and
    /// enabling looks for what it was about.
    pub(crate) fn with_stopped<R>(&self, napi: &Napi, f: impl FnOnce(&mut crate::napi::Owned) -> R) -> R {
        let _control = self.control();
        let was_enabled = !napi.state().is_disabled();
        if was_enabled {
            self.pause(napi);
            napi.transition(Rule::DisableEnd, |state| (state.disable_end(), ()));
        }
        let answer = f(&mut napi.owned.enter());
        if was_enabled {
            self.publish_id(napi);
            self.resume(napi);
        }
        answer
    }

    /// Moves the instance's interrupt to another softirq CPU (`/proc/irq/*/smp_affinity`).
    ///
    /// # Errors
    /// As `epoll_ctl(2)`; the interrupt stays where it is then.
    pub(crate) fn set_irq_cpu(&self, napi: &Napi, softirq_index: u32) -> rustix::io::Result<()> {
        let _control = self.control();
        let from = napi.irq_cpu();
        if napi.state().is_disabled() || from == softirq_index {
            napi.set_irq_cpu(softirq_index);
            return Ok(());
        }
        let (from, to) = (&*self.softirq[from as usize], self.irq_cpu(softirq_index));
        // In between both are told: an interrupt more finds the instance scheduled, or nothing in its ring. AF_XDP ignores it.
        let moved = napi.irq.move_to(from, &to, tokens(napi.index));
        if moved.is_ok() {
            napi.set_irq_cpu(softirq_index);
        }
        // Whoever unmasked an AF_XDP queue meanwhile may have relied on the CPU that it did not get to.
        self.interrupt_by_thread(napi);
        moved
    }

    /// Changes coalescing, and holds nothing back by the old rule. False: the line's peer counts no frames.
    pub(crate) fn set_coalesce(&self, napi: &Napi, coalesce: Coalesce) -> bool {
        let adaptive = coalesce.use_adaptive_rx();
        let by_line = napi.irq.set_coalesce(if adaptive { Coalesce::default() } else { coalesce });
        if !by_line && coalesce.rx_frames() > 1 {
            return false;
        }
        napi.moderation.set(coalesce, adaptive || !by_line);
        if napi.moderation.end() {
            self.hold_ended(*Context::current().kick_only(), napi);
        }
        true
    }

    fn irq_cpu(&self, softirq_index: u32) -> Arc<dyn IrqCpu> {
        self.softirq[softirq_index as usize].clone()
    }

    fn watch_doorbell(&self, napi: &Napi) -> rustix::io::Result<()> {
        napi.irq.watch(&self.irq_cpu(napi.irq_cpu()), tokens(napi.index))
    }

    fn unwatch_doorbell(&self, napi: &Napi) {
        napi.irq.unwatch(&*self.softirq[napi.irq_cpu() as usize]);
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;

//! Adding, enabling, disabling and deleting instances, and who polls them: `netif_napi_add`, `napi_enable`,
//! `napi_disable`, `napi_set_threaded`. All under the device lock.

use napier_core::completion::{Flush, Tunables};
use napier_core::control::{Errno, ThreadedSetting, device_threaded_in_force};
use napier_core::state::{DISABLE_PAUSE_MIN, STOP_THREAD_PAUSE, State, StopThread};
use napier_core::time::{Deadline, Span};

use super::coverage::Decision;
use super::napi::Owner;
use super::vm::K;
use super::world::World;
use napier_scenario::Event;

impl K {
    /// Takes the device lock.
    pub(super) async fn lock(&self, dev: usize) {
        loop {
            {
                let mut w = self.w();
                if !std::mem::replace(&mut w.devs[dev].locked, true) {
                    return;
                }
                w.devs[dev].lock_waiters.push(self.me);
            }
            self.block(Deadline::NEVER).await;
        }
    }

    /// Gives it back.
    pub(super) fn unlock(&self, dev: usize) {
        let mut w = self.w();
        w.devs[dev].locked = false;
        for ctx in std::mem::take(&mut w.devs[dev].lock_waiters) {
            w.wake(ctx);
        }
    }

    /// Device up: every queue in use gets its instance, and it is enabled.
    pub(super) async fn dev_up(&self, dev: usize) -> Result<(), Errno> {
        if self.w().devs[dev].up {
            return Ok(());
        }
        self.w().devs[dev].up = true;
        let (first, queues) = self.w().queues(dev);
        for napi in first..first + queues {
            self.napi_add(napi).await;
            self.napi_enable(napi).await;
        }
        self.tx_up(dev).await;
        Ok(())
    }

    /// Device down: every instance is disabled; a driver without persistent configuration deletes it.
    pub(super) async fn dev_down(&self, dev: usize) -> Result<(), Errno> {
        if !self.w().devs[dev].up {
            return Ok(());
        }
        self.w().devs[dev].up = false;
        if self.w().transmits(dev) {
            self.tx_deactivate(dev).await;
        }
        let (first, queues) = self.w().queues(dev);
        for napi in first..first + queues {
            if !self.w().napis[napi].present {
                continue;
            }
            self.napi_disable(napi).await;
            self.w().drop_all(napi);
            if !self.w().devs[dev].persistent {
                self.napi_del(napi).await;
            }
        }
        self.tx_down(dev);
        Ok(())
    }

    /// Changes how many queues are in use.
    pub(super) async fn set_queues(&self, dev: usize, queues: u16) -> Result<(), Errno> {
        let (first, before, up, all) = {
            let w = self.w();
            let d = &w.devs[dev];
            (d.first_napi, usize::from(d.queues), d.up, d.all_queues)
        };
        if queues == 0 || queues > all {
            return Err(Errno::EINVAL);
        }
        self.w().devs[dev].queues = queues;
        let after = usize::from(queues);
        for napi in first + after..first + before.max(after) {
            if self.w().napis[napi].present {
                if up {
                    self.napi_disable(napi).await;
                }
                self.w().drop_all(napi);
                self.napi_del(napi).await;
            }
        }
        for napi in first + before..first + after.max(before) {
            if up {
                self.napi_add(napi).await;
                self.napi_enable(napi).await;
            }
        }
        self.w().tx_requeued(dev);
        Ok(())
    }

    /// `netif_napi_add`; nothing if the instance is listed already.
    async fn napi_add(&self, napi: usize) {
        if self.w().napis[napi].present {
            return;
        }
        let threaded = self.w().add_instance(napi);
        if threaded != ThreadedSetting::Disabled && self.create_thread(napi).is_err() {
            let mut w = self.w();
            let dev = w.napis[napi].dev;
            w.devs[dev].settings.threaded = device_threaded_in_force(threaded, false);
            w.napis[napi].threaded = ThreadedSetting::Disabled;
        }
        self.op().await;
    }

    /// `napi_enable`.
    async fn napi_enable(&self, napi: usize) {
        self.w().restore_config(napi);
        // Configuration may ask for a thread that add did not make.
        if self.w().napis[napi].threaded != ThreadedSetting::Disabled && self.create_thread(napi).is_err() {
            self.w().napis[napi].threaded = ThreadedSetting::Disabled;
        }
        self.op().await;
        {
            let mut w = self.w();
            w.napis[napi].id_visible = w.napis[napi].id != 0;
            let threaded = w.napis[napi].threaded.threaded();
            w.transition(napi, |word| (word.enable(threaded).expect("disabled, under the device lock"), ()));
            w.napis[napi].missed_kept = w.napis[napi].word.contains(State::MISSED);
            w.napis[napi].armed_late = false;
            w.disown(napi);
            // As a driver does: the interrupt is unmasked, and what came meanwhile is looked for.
            w.rearm_irq(napi);
        }
        self.op().await;
        if !self.w().napis[napi].ring.is_empty() {
            self.bh_off();
            self.device_interrupt(napi).await;
            self.bh_on().await;
        }
    }

    /// `napi_disable`.
    pub(super) async fn napi_disable(&self, napi: usize) {
        self.w().transition(napi, |word| (word.disable_begin(), ()));
        self.op().await;
        loop {
            {
                let mut w = self.w();
                if w.transition_if(napi, State::disable_claim) {
                    w.hit(Decision::DisableClaimed);
                    w.own(napi, Owner::Disabled);
                    break;
                }
                w.hit(Decision::DisableWaits);
            }
            self.pause(DISABLE_PAUSE_MIN).await;
        }
        self.op().await;
        {
            let mut w = self.w();
            w.napis[napi].id_visible = false;
            w.flush(napi, Flush::All);
            w.deliver(napi);
            w.cancel_timer(napi);
            w.napis[napi].masked = true;
        }
        self.op().await;
        while self.w().napis[napi].callbacks > 0 {
            self.pause(Span::from_us(1)).await;
        }
        let mut w = self.w();
        w.save_config(napi);
        w.transition(napi, |word| (word.disable_end(), ()));
    }

    /// `netif_napi_del` of a disabled instance.
    pub(super) async fn napi_del(&self, napi: usize) {
        {
            let mut w = self.w();
            w.drop_all(napi);
            let n = &mut w.napis[napi];
            n.thread_stop = true;
            let kthread = n.kthread;
            w.wake(kthread);
        }
        while self.w().napis[napi].has_thread {
            self.pause(Span::from_us(10)).await;
        }
        let mut w = self.w();
        w.hit(Decision::Deleted);
        let n = &mut w.napis[napi];
        n.present = false;
        n.word = n.word.without(State::LISTED);
        w.touch(napi);
    }

    /// Makes the instance's thread, if it has none.
    pub(super) fn create_thread(&self, napi: usize) -> Result<(), Errno> {
        let mut w = self.w();
        if w.napis[napi].has_thread {
            return Ok(());
        }
        if w.fail_thread_in > 0 {
            w.fail_thread_in -= 1;
            if w.fail_thread_in == 0 {
                w.hit(Decision::ThreadFailed);
                return Err(Errno::ENOMEM);
            }
        }
        w.napis[napi].has_thread = true;
        w.napis[napi].thread_stop = false;
        let index = w.napis[napi].index;
        w.note(Event::KthreadStart { napi: index });
        Ok(())
    }

    /// `napi_set_threaded`.
    pub(super) async fn napi_set_threaded(&self, napi: usize, setting: ThreadedSetting) -> Result<(), Errno> {
        if setting != ThreadedSetting::Disabled {
            self.create_thread(napi)?;
        }
        {
            let mut w = self.w();
            w.napis[napi].threaded = setting;
            let (dev, queue) = (w.napis[napi].dev, w.napis[napi].queue.into());
            w.devs[dev].config.set_threaded(queue, setting);
        }
        self.op().await;
        if setting == ThreadedSetting::Disabled {
            if self.w().napis[napi].has_thread {
                self.stop_thread(napi).await;
            }
            return Ok(());
        }
        let mut w = self.w();
        // A disabled instance takes the mode from its setting when it is enabled.
        if !w.napis[napi].word.is_disabled() {
            w.transition(napi, |word| (word.set_threaded(setting.threaded()), ()));
        }
        Ok(())
    }

    /// `napi_stop_kthread`.
    async fn stop_thread(&self, napi: usize) {
        loop {
            let cleared = {
                let mut w = self.w();
                let cleared = w.transition(napi, |word| match word.stop_thread_claim() {
                    StopThread::Cleared(next) => (next, true),
                    StopThread::Busy => (word, false),
                });
                w.hit(if cleared { Decision::StopThreadCleared } else { Decision::StopThreadBusy });
                cleared
            };
            self.op().await;
            if cleared {
                break;
            }
            self.pause(STOP_THREAD_PAUSE).await;
        }
        while !self.w().napis[napi].word.stop_thread_done() {
            self.pause(STOP_THREAD_PAUSE).await;
        }
        {
            let mut w = self.w();
            w.napis[napi].thread_stop = true;
            let kthread = w.napis[napi].kthread;
            w.wake(kthread);
        }
        while self.w().napis[napi].has_thread {
            self.pause(Span::from_us(10)).await;
        }
    }
}

impl World {
    /// First instance and number of instances of a device's queues in use.
    pub(super) fn queues(&self, dev: usize) -> (usize, usize) {
        (self.devs[dev].first_napi, self.devs[dev].queues.into())
    }

    /// A fresh instance, disabled; the threaded setting that it starts with.
    pub(super) fn add_instance(&mut self, napi: usize) -> ThreadedSetting {
        let dev = self.napis[napi].dev;
        let (settings, persistent) = (self.devs[dev].settings, self.devs[dev].persistent);
        let slot = self.devs[dev].config.slots()[usize::from(self.napis[napi].queue)];
        let member = self.groups.has(napi);
        let n = &mut self.napis[napi];
        n.present = true;
        n.word = if self.devs[dev].no_busy_poll { State::ADDED.with(State::NO_BUSY_POLL) } else { State::ADDED };
        if member {
            n.word = n.word.with(State::GROUP);
        }
        n.owner = Some(Owner::Disabled);
        n.defers_left = 0;
        n.defers_max = 0;
        n.missed_kept = false;
        n.armed_late = false;
        n.masked = true;
        n.tunables = Tunables {
            defer_hard_irqs: settings.defer_hard_irqs,
            gro_flush_timeout: settings.gro_flush_timeout,
            irq_suspend_timeout: Span::ZERO,
        };
        n.threaded = if persistent { slot.threaded } else { settings.threaded };
        let threaded = n.threaded;
        self.hit(Decision::Added);
        self.touch(napi);
        threaded
    }

    /// What an instance with persistent configuration was, or a new id.
    fn restore_config(&mut self, napi: usize) {
        let (dev, queue) = (self.napis[napi].dev, usize::from(self.napis[napi].queue));
        let no_id = self.devs[dev].no_busy_poll;
        let in_use: Vec<u32> = self.napis.iter().filter(|n| n.id_visible).map(|n| n.id).collect();
        let kept: Vec<u32> = self.devs.iter().flat_map(|d| d.config.slots()).filter_map(|slot| slot.napi_id).collect();
        let ids = &mut self.ids;
        let mut new_id = || ids.allocate(|id| in_use.contains(&id) || kept.contains(&id));
        if self.devs[dev].persistent {
            let slot = self.devs[dev].config.restore(queue, || if no_id { 0 } else { new_id() });
            let n = &mut self.napis[napi];
            n.tunables = slot.tunables;
            n.threaded = slot.threaded;
            n.id = slot.napi_id.unwrap_or(0);
        } else {
            self.napis[napi].id = if no_id { 0 } else { new_id() };
        }
    }

    fn save_config(&mut self, napi: usize) {
        let (dev, queue) = (self.napis[napi].dev, usize::from(self.napis[napi].queue));
        let tunables = self.napis[napi].tunables;
        self.devs[dev].config.save(queue, tunables);
    }

    /// The thread has left its loop for good.
    pub(super) fn thread_ended(&mut self, napi: usize) {
        let n = &mut self.napis[napi];
        n.thread_stop = false;
        if std::mem::take(&mut n.has_thread) {
            let index = n.index;
            self.note(Event::KthreadStop { napi: index });
        }
    }
}

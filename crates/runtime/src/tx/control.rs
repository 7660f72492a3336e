//! Discipline, variant and limits of a device's transmit queues, changed while senders come.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::histogram::Histogram;
use napier_core::tx::root::Root;
use napier_core::tx::state::{DeactivateStep, Deactivation, QdiscState};
use napier_ring::{Entered, Inside};

use super::config::{QdiscConfig, TxSetupError};
use super::owner::OwnerThread;
use super::packet::TxPkt;
use super::senders::Senders;
use super::stats::{CallTimes, Ledger};
use super::{ByteLimit, ByteLimits, Guarded, Mode, TxPath, TxQueueStats, TxShared, TxVariant, XmitTimes};
use crate::bounds::RING_SIZE_MAX;
use crate::port::lock_root;
use napier_sys::clock::Clock;
use napier_sys::give_way::GiveWay;

impl TxPath {
    /// Takes the discipline away from its senders and drops what waits. No thread knows it afterwards.
    pub(crate) fn deactivate(&self) {
        let Some(senders) = self.shared.senders.get() else { return };
        let mut steps = Deactivation::new();
        loop {
            match steps.next() {
                DeactivateStep::Mark => self.words.update_state(|state| (state.deactivate(), ())),
                DeactivateStep::WaitForSenders => senders.wait_for_all(),
                DeactivateStep::Reset => self.drop_all(),
                DeactivateStep::WaitForRunner => {
                    let mut give_way = GiveWay::default();
                    while self.running.load(Ordering::Relaxed) || self.words.state().intersects(QdiscState::SCHED) {
                        give_way.turn();
                    }
                }
                DeactivateStep::Done => return,
            }
            steps.on_done();
        }
    }

    /// Senders may come again.
    pub(crate) fn activate(&self) {
        self.words.update_state(|state| (state.activate(), ()));
        if self.shared.senders.get().is_some() {
            self.schedule_if_waiting();
        }
    }

    /// Ends the owner's thread; the engine is going away, or another variant comes. False: there was none.
    pub(crate) fn stop_owner(&self) -> bool {
        self.owner.stop()
    }

    /// A poller of a group takes the turns of an owner from now on: senders only push. `None`: there is no discipline to run,
    /// or a thread owns it.
    pub(crate) fn group_takes_run(&self) -> Option<Mode> {
        let thread = self.owner.lock();
        let before = self.mode();
        // With a mode of owners and no thread one is about to be started.
        if thread.is_some() || matches!(before, Mode::Noqueue | Mode::Owner) {
            return None;
        }
        self.set_mode(Mode::Owner);
        // Packets may wait that a softirq would have run.
        self.owner.want();
        Some(before)
    }

    /// Senders flush for themselves again, as before.
    pub(crate) fn group_gives_run(&self, before: Mode) {
        let thread = self.owner.lock();
        if thread.is_none() && self.mode() == Mode::Owner {
            self.set_mode(before);
            self.flush_rest();
            self.activate();
        }
    }

    fn drop_all(&self) {
        self.flush_rest();
        let mut rest = self.rest();
        let (mut guarded, _) = lock_root(&self.root.0);
        guarded.root.reset(&mut |dropped| rest.drop_packet(dropped));
        self.leave(guarded, rest);
    }

    /// Flushes what an owner has left; no sender that flushes for itself can come in between, for it would find the list
    /// not empty.
    pub(super) fn flush_rest(&self) {
        let (guarded, _) = lock_root(&self.root.0);
        let mut rest = self.rest();
        let (guarded, _) = self.flush_list(guarded, &mut rest);
        self.leave(guarded, rest);
    }

    /// Puts another discipline in place, with counters from zero. Memory is got and given back without the root lock.
    fn replace(&self, root: Root<TxPkt>) {
        let fresh = Guarded { root, ledger: Ledger::default() };
        let (mut guarded, _) = lock_root(&self.root.0);
        self.shown.write_former(&guarded);
        let former = std::mem::replace(&mut *guarded, fresh);
        self.shown.write_replaced(&guarded, self.defer.burst_drops());
        self.leave(guarded, self.rest());
        drop(former);
    }

    /// Gives up the root lock, perhaps of a queue that never had a discipline.
    fn release_any(&self, guarded: Inside<'_, Guarded>) {
        if self.shared.senders.get().is_some() {
            self.leave(guarded, self.rest());
        }
    }

    /// Packets that the queue's disciplines and its defer list have dropped, and of how many their senders were told.
    pub(crate) fn drops(&self) -> (u64, u64) {
        self.shown.drops(self.defer.burst_drops())
    }

    /// The counters as they were written down last, without the sizes of batches; no lock of a sender is taken.
    pub(crate) fn stats(&self, ticks_per_us: f64) -> TxQueueStats {
        let variant = match self.mode() {
            Mode::Locked => TxVariant::Locked,
            Mode::Owner => TxVariant::Owner,
            Mode::Llist | Mode::Noqueue => TxVariant::Llist,
        };
        TxQueueStats {
            stops: self.words.stops(),
            left: self.left.count(),
            left_refused: self.left.refused(),
            limit_bytes: self.limit_bytes.get(),
            ..self.shown.read(variant, self.defer.burst_drops(), ticks_per_us)
        }
    }

    pub(super) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
        if let Some(senders) = self.shared.senders.get() {
            senders.wait_for_all();
        }
    }
}

/// The transmit queues of a device, to be changed.
#[derive(Copy, Clone)]
pub(crate) struct Queues<'a> {
    /// Name of the device.
    pub(crate) device: &'a str,
    pub(crate) paths: &'a [Arc<TxPath>],
    pub(crate) shared: &'a TxShared,
}

impl<'a> Queues<'a> {
    fn path(self, queue: u16) -> Result<&'a Arc<TxPath>, TxSetupError> {
        self.paths.get(usize::from(queue)).ok_or_else(|| TxSetupError::NoSuchQueue {
            device: self.device.to_owned(),
            queue,
            queues: self.paths.len() as u16, // at most 64
        })
    }

    /// Makes the senders and tells every queue of them.
    fn open_senders(self) -> Result<(), TxSetupError> {
        let shared = self.shared;
        let _one_at_a_time = shared.opening.lock().expect("no panic while held");
        if shared.senders.get().is_some() {
            return Ok(());
        }
        let senders = Senders::new(&shared.frames, &shared.space, &shared.buffers)?;
        for path in self.paths {
            senders.with_a_pool(|pool| path.claim_wire().queue.expect_senders(pool, &senders.charges));
        }
        assert!(shared.senders.set(senders).is_ok(), "senders are made once");
        Ok(())
    }

    /// Gives a queue another discipline.
    pub(crate) fn set_qdisc(self, queue: u16, qdisc: &QdiscConfig) -> Result<(), TxSetupError> {
        let path = self.path(queue)?;
        qdisc.check()?;
        if *qdisc != QdiscConfig::Noqueue {
            self.open_senders()?;
        }
        let before = path.mode();
        if before == Mode::Noqueue && *qdisc == QdiscConfig::Noqueue {
            return Ok(());
        }
        if *qdisc == QdiscConfig::Noqueue {
            path.set_mode(Mode::Noqueue);
        }
        path.deactivate();
        let had_thread = path.stop_owner();
        path.flush_rest();
        path.replace(Root::new(qdisc.make(), true));
        path.words.reset_stops();
        let started = match (qdisc, before) {
            (_, Mode::Noqueue) => {
                self.set_byte_limits_of(path, Some(ByteLimits::default()));
                path.set_mode(Mode::Llist);
                Ok(())
            }
            (QdiscConfig::Noqueue, _) | (_, Mode::Locked | Mode::Llist) => Ok(()),
            (_, Mode::Owner) if had_thread => self.start_owner(path, queue, None),
            // A group of CPUs has the run.
            (_, Mode::Owner) => Ok(()),
        };
        path.activate();
        started
    }

    /// Chooses how senders hand over on a queue.
    pub(crate) fn set_variant(
        self,
        queue: u16,
        variant: TxVariant,
        owner_cpu: Option<usize>,
    ) -> Result<(), TxSetupError> {
        let path = self.path(queue)?;
        if path.mode() == Mode::Noqueue {
            let (device, variant) = (self.device.to_owned(), variant.name());
            return Err(TxSetupError::Noqueue { device, queue, variant });
        }
        match variant {
            TxVariant::Owner => {
                path.stop_owner();
                self.start_owner(path, queue, owner_cpu)?;
                path.set_mode(Mode::Owner);
            }
            TxVariant::Locked | TxVariant::Llist => {
                path.set_mode(if variant == TxVariant::Locked { Mode::Locked } else { Mode::Llist });
                path.stop_owner();
                // What was pushed for the owner; a later push finds the list empty and flushes.
                path.flush_rest();
                // And what it had queued.
                path.activate();
            }
        }
        Ok(())
    }

    fn start_owner(self, path: &Arc<TxPath>, queue: u16, cpu: Option<usize>) -> Result<(), TxSetupError> {
        let name = format!("tx/{}-{queue}", self.device);
        let owner = OwnerThread::start(path.clone(), self.shared.host.clone(), &name, cpu).inspect_err(|_| {
            // An owner that was there has ended: its senders flush for themselves.
            if path.mode() == Mode::Owner {
                path.set_mode(Mode::Llist);
                path.flush_rest();
            }
        })?;
        let mut owner = Some(owner);
        let mut keep = || path.owner.keep(owner.take());
        let kept = self.shared.host.upgrade().is_some_and(|host| host.unless_closing(&mut keep));
        if !kept {
            // Owners have been ended, or are about to be; this one would never be.
            drop(owner);
            return Err(TxSetupError::Thread(rustix::io::Errno::SHUTDOWN.into()));
        }
        Ok(())
    }

    /// Sets the byte limits of a queue.
    pub(crate) fn set_byte_limits(self, queue: u16, limits: Option<ByteLimits>) -> Result<(), TxSetupError> {
        let path = self.path(queue)?;
        if let Some(limits) = limits {
            limits.check()?;
        }
        self.set_byte_limits_of(path, limits);
        Ok(())
    }

    fn set_byte_limits_of(self, path: &TxPath, limits: Option<ByteLimits>) {
        let mut wire = path.claim_wire();
        wire.limit = limits.map(|limits| ByteLimit::new(limits, Clock.now(), RING_SIZE_MAX as usize));
        path.words.update_bits(|bits| (bits.start_stack(), ()));
        path.publish_allowance(&wire);
    }

    /// Counters of a queue.
    pub(crate) fn stats(self, queue: u16, ticks_per_us: f64) -> Result<TxQueueStats, TxSetupError> {
        let path = self.path(queue)?;
        let limit_bytes = path.claim_wire().limit.as_ref().map(ByteLimit::limit_bytes);
        // Got here: no sender waits for memory that the holder of the root lock asks for.
        let mut batches = Histogram::default();
        let (guarded, _) = lock_root(&path.root.0);
        batches.merge(&guarded.ledger.batches);
        path.shown.write(&guarded, true);
        path.release_any(guarded);
        let mut stats = TxQueueStats { batches, limit_bytes, ..path.stats(ticks_per_us) };
        stats.drops.retain(|(_, pkts)| *pkts > 0);
        Ok(stats)
    }
}

impl TxShared {
    pub(crate) fn measure_xmit(&self, on: bool) {
        self.for_each_sender(|sender| sender.times = on.then(Box::default));
    }

    pub(crate) fn xmit_times(&self, ticks_per_us: f64) -> XmitTimes {
        let mut sum = CallTimes::default();
        self.for_each_sender(|sender| sender.times.iter().for_each(|times| sum.merge(times)));
        sum.finish(ticks_per_us)
    }

    pub(crate) fn senders_count(&self) -> usize {
        self.senders.get().map_or(0, Senders::count)
    }

    /// Enters every sender's cell, and so keeps everybody from sending by way of a discipline.
    pub(crate) fn hold_senders(&self) -> Vec<Entered<'_, super::TxSender>> {
        self.senders.get().map_or_else(Vec::new, Senders::hold_all)
    }

    pub(crate) fn for_each_sender(&self, look: impl FnMut(&mut super::TxSender)) {
        if let Some(senders) = self.senders.get() {
            senders.for_each(look);
        }
    }
}

impl ByteLimits {
    fn check(&self) -> Result<(), TxSetupError> {
        let refuse = |parameter, value: u32, why| Err(TxSetupError::Parameter { parameter, value: value.into(), why });
        if self.max_bytes > napier_core::tx::bql::LIMIT_BYTES_MAX {
            return refuse("limit_max", self.max_bytes, "the counters could not tell so many bytes apart");
        }
        if self.min_bytes > self.max_bytes {
            return refuse("limit_min", self.min_bytes, "it is at most limit_max");
        }
        Ok(())
    }
}

//! What must hold after every step, and at the end.

use napier_core::state::State;

use crate::machine::dev::napi::{Napi, NapiOwner};
use crate::machine::world::World;
use napier_scenario::Scenario;

impl World {
    /// Checks the instances that the last step touched.
    #[inline]
    pub(crate) fn check_dirty(&mut self) {
        while let Some(napi) = self.dirty.pop() {
            if let Err(why) = self.check_instance(napi) {
                let (name, word) = (self.napi_name(napi), self.napis[napi].word);
                self.fail(format!("{name}: {why} ({word:?})"));
            }
        }
        self.check_tx_dirty();
    }

    fn check_instance(&self, napi: usize) -> Result<(), &'static str> {
        let n = &self.napis[napi];
        if !n.present {
            return Ok(());
        }
        n.word.is_legal()?;
        let owned = n.word.contains(State::SCHED);
        if owned != n.owner.is_some() {
            return Err(if owned { "SCHED is set without an owner" } else { "it has an owner without SCHED" });
        }
        if n.word.contains(State::SCHED_THREADED) != matches!(n.owner, Some(NapiOwner::Thread)) {
            return Err("SCHED_THREADED and ownership by the thread differ");
        }
        if n.word.contains(State::SCHED_THREADED) && !n.has_thread {
            return Err("given to a thread that is not there");
        }
        if n.word.contains(State::MISSED) && !owned && !n.missed_kept {
            return Err("MISSED is set without an owner");
        }
        if n.word.is_disabled() {
            if n.owner != Some(NapiOwner::Disabled) {
                return Err("disabled, with an owner");
            }
            if n.id_visible {
                return Err("disabled, and its id can be found");
            }
            if n.timer.armed && !n.armed_late {
                return Err("disabled, and its timer is armed");
            }
        }
        self.check_member(napi)?;
        let comes_back = owned || n.timer.armed || n.callbacks > 0 || n.finishing > 0;
        if n.masked && !comes_back && !n.word.contains(State::DISABLE) {
            return Err("masked, without an owner, and nothing will poll it");
        }
        if n.defers_left > n.defers_max {
            return Err("more deferrals are left than were ever loaded");
        }
        Ok(())
    }

    /// Packets are in a ring, in an instance, in a socket, taken or lost with a reason: together all that arrived.
    pub(crate) fn check_conserved(&mut self) {
        let in_ring = |n: &Napi| n.ring.iter().map(|packet| u64::from(packet.segments)).sum::<u64>();
        let inside: u64 = self.napis.iter().map(|n| in_ring(n) + n.merge.segments()).sum();
        let sockets: u64 = self.socks.iter().map(|sock| sock.delivered).sum();
        let lost: u64 = self.drops.iter().sum();
        let arrived = self.arrived;
        if arrived != inside + sockets + lost + self.acks {
            self.fail(format!(
                "packets are not conserved: {arrived} arrived, {inside} wait, {sockets} reached sockets, {lost} were lost"
            ));
        }
        let out = self.frames.out() as u64;
        let mut held: u64 = self.napis.iter().map(|n| (n.ring.len() + n.merge.packets()) as u64).sum();
        held += self.socks.iter().map(|sock| sock.queue.len() as u64).sum::<u64>();
        if out != held {
            self.fail(format!("frames are leaked: {out} are out, {held} are held"));
        }
        self.check_tx_conserved();
    }

    /// No packet waits for a poll that will not come; sockets may be left as they are.
    pub(crate) fn check_drained(&mut self) {
        for napi in 0..self.napis.len() {
            let n = &self.napis[napi];
            if !n.present || n.word.is_disabled() {
                continue;
            }
            let why = if n.merge.packets() > 0 {
                "packets wait to be merged or to go up"
            } else if !n.ring.is_empty() {
                "packets wait in the ring"
            } else {
                continue;
            };
            let (name, word) = (self.napi_name(napi), n.word);
            self.fail(format!("{name}: at the end {why} ({word:?})"));
        }
    }

    /// No thread waits for ever.
    pub(crate) fn check_calls_ended(&mut self, scenario: &Scenario) {
        let stuck = (0..self.inboxes.len()).find(|thread| self.inboxes[*thread].busy);
        if let Some(thread) = stuck {
            let name = &scenario.machine.threads[thread].name;
            self.fail(format!("at the end the thread {name} is still in a call"));
        }
    }
}

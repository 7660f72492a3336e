//! The members of a context, and the transfer of ready ones to the caller of `wait`.

use std::collections::VecDeque;

use napier_ring::ReadyQueue;

use crate::event::interest::{Event, Interest};

/// A member of a context.
pub(super) trait Slotted {
    /// Its place in the table.
    fn slot(&self) -> u32;
    /// What it is watched for; only modes while a one-shot member is silent.
    fn interest(&self) -> Interest;
    /// The conditions that hold now.
    fn ready(&self) -> Interest;
    /// The word that its events carry.
    fn data(&self) -> u64;
    /// It is one-shot, and has made its report.
    fn silence(&self);
}

/// Members by slot. Everything here happens under the context's lock.
pub(super) struct Table<M> {
    members: Vec<Option<M>>,
    free_slots: Vec<u32>,
    members_max: u32,
    /// Slots that were taken off the queue and not looked at yet, and level-triggered ones that were ready at the last
    /// look. Oldest first.
    backlog: VecDeque<u32>,
}

/// What became of a slot that was looked at.
enum Looked {
    Ready(Event),
    NotReady,
}

impl<M: Slotted> Table<M> {
    pub(super) fn new(members_max: u32) -> Self {
        Self { members: Vec::new(), free_slots: Vec::new(), members_max, backlog: VecDeque::new() }
    }

    /// How many members there can be.
    pub(super) fn members_max(&self) -> u32 {
        self.members_max
    }

    /// A slot for a new member, or `None` if all are taken. It is taken by [`insert`](Self::insert).
    pub(super) fn vacancy(&self) -> Option<u32> {
        let next = u32::try_from(self.members.len()).expect("there are at most u32::MAX slots");
        self.free_slots.last().copied().or_else(|| (next < self.members_max).then_some(next))
    }

    /// Puts a member into the slot that [`vacancy`](Self::vacancy) named.
    pub(super) fn insert(&mut self, member: M) {
        let slot = member.slot();
        assert_eq!(Some(slot), self.vacancy(), "a member takes the slot that was free");
        if self.free_slots.pop().is_none() {
            self.members.push(None);
            // A wait never allocates: each slot is in the backlog once at most.
            self.backlog.reserve(self.members.len().saturating_sub(self.backlog.len()));
        }
        self.members[slot as usize] = Some(member);
    }

    /// The member in this slot, if it is the one that is meant.
    pub(super) fn member_mut(&mut self, slot: u32, is: impl Fn(&M) -> bool) -> Option<&mut M> {
        self.members.get_mut(slot as usize)?.as_mut().filter(|member| is(member))
    }

    /// Takes a member out. Its slot may stay queued: the next transfer finds no member there, or the slot's next one, at which it
    /// looks in vain.
    pub(super) fn remove(&mut self, slot: u32, is: impl Fn(&M) -> bool) -> Option<M> {
        self.member_mut(slot, is)?;
        self.free_slots.push(slot);
        self.members[slot as usize].take()
    }

    /// Takes all members out.
    pub(super) fn clear(&mut self) -> Vec<M> {
        self.free_slots.clear();
        std::mem::take(&mut self.members).into_iter().flatten().collect()
    }

    /// Fills `events` with ready members, oldest first; the rest stays queued (`fs/eventpoll.c` `ep_send_events`).
    ///
    /// Each member is looked at once at most, so a level-triggered one, which goes to the end of the queue, is not
    /// reported twice; with more ready members than room they take turns from call to call.
    pub(super) fn transfer(&mut self, queue: &ReadyQueue, events: &mut [Event]) -> usize {
        queue.collect(|slot| self.backlog.push_back(slot));
        let mut found = 0;
        for _ in 0..self.backlog.len() {
            if found == events.len() {
                break;
            }
            let slot = self.backlog.pop_front().expect("the backlog has as many slots as it had");
            if let Looked::Ready(event) = self.look(queue, slot) {
                events[found] = event;
                found += 1;
            }
        }
        queue.settle(!self.backlog.is_empty());
        found
    }

    /// Looks at the member in a slot that was taken off the backlog. A slot that leaves the queue is released before
    /// the (last) look, so that news which comes after the look queues it again.
    fn look(&mut self, queue: &ReadyQueue, slot: u32) -> Looked {
        let Some(member) = &self.members[slot as usize] else {
            queue.release(slot);
            return Looked::NotReady;
        };
        let interest = member.interest();
        let data = member.data();
        let conditions = || member.ready() & interest.without(Interest::MODES);
        if interest.intersects(Interest::MODES) {
            queue.release(slot);
            let events = conditions();
            if events.is_empty() {
                return Looked::NotReady;
            }
            if interest.contains(Interest::ONESHOT) {
                member.silence();
            }
            return Looked::Ready(Event { events, data });
        }
        // Level-triggered and still ready, the usual case: it stays queued all the time, without a fence.
        let mut events = conditions();
        if events.is_empty() {
            queue.release(slot);
            events = conditions();
            if events.is_empty() {
                return Looked::NotReady;
            }
            if !queue.reclaim(slot) {
                // A delivery has put it on the list meanwhile, where the next transfer finds it.
                return Looked::Ready(Event { events, data });
            }
        }
        self.backlog.push_back(slot);
        Looked::Ready(Event { events, data })
    }
}

//! Learning where neighbours are, and sending what waited for them.

use std::sync::Arc;

use napier_sys::clock::Clock;

use super::counters::Counter;
use super::neighbour::{Answered, Held, Hold, Key, Neighbour, Origin, ROUNDS_MAX};
use super::netns::{Inner, Interface, Snapshot, is_station};
use super::slow;
use super::writer::{After, Note, Writing};

/// A neighbour has said where it is.
#[derive(Copy, Clone)]
pub(super) struct News {
    key: Key,
    mac: [u8; 6],
    /// It wants something from us, so it is worth remembering even if we never asked for it.
    asked_us: bool,
}

impl Inner {
    /// A neighbour has said where it is. `asked_us`: it wants something from us.
    pub(super) fn learn(&self, view: &Snapshot, key: Key, mac: [u8; 6], asked_us: bool) {
        let known = view.neighbours.get(key);
        if known.is_some_and(|n| n.is_settled(mac))
            || !is_station(mac)
            || key.addr.is_group()
            || key.addr.is_any()
            || view.is_local(key.addr)
        {
            return;
        }
        if known.is_some_and(|n| n.is_locked(Clock.now())) {
            return self.counters.count(Counter::NeighChangesIgnored);
        }
        let news = News { key, mac, asked_us };
        if let Some(mut writing) = self.lock_or_leave(|| Note::Learn(news)) {
            writing.learn(news);
        }
    }

    /// A packet whose neighbour was unknown at the last look: sends it, or keeps it and asks. False if nobody answers.
    pub(super) fn hold_for(&self, key: Key, held: Held) -> bool {
        let mut held = Some(held);
        let mut held = || held.take().expect("kept or left");
        match self.lock_or_leave(|| Note::Hold(key, held())) {
            Some(mut writing) => writing.hold(key, held()),
            None => true,
        }
    }

    /// Asks for a neighbour.
    pub(super) fn probe(&self, key: Key) {
        let interface: Option<Arc<Interface>> = self.snapshot.load().interface(key.ifindex).cloned();
        if let Some(interface) = interface {
            slow::probe(self, &interface, key.addr);
        }
    }

    /// Sends a packet whose neighbour is known now.
    pub(super) fn send_held(&self, key: Key, mac: [u8; 6], held: &Held) {
        let Held { frame, class } = held;
        let interface: Option<Arc<Interface>> = self.snapshot.load().interface(key.ifindex).cloned();
        let Some(interface) = interface else { return self.counters.count(Counter::NeighUnresolvedDiscards) };
        let sent = interface.egress.transmit(class, frame.len(), &mut |slot| {
            slot[..frame.len()].copy_from_slice(frame);
            slot[..6].copy_from_slice(&mac);
            frame.len()
        });
        if sent.is_err() {
            self.counters.count(Counter::NeighUnresolvedDiscards);
        }
    }
}

impl Writing<'_> {
    /// What a neighbour has said is worth a look at what is known now.
    pub(super) fn learn(&mut self, news: News) {
        let (ns, News { key, mac, asked_us }) = (self.ns, news);
        let now = Clock.now();
        // What another instance has learnt since.
        let known = ns.snapshot.load().neighbours.get(key);
        if known.is_some_and(|n| n.is_settled(mac) || n.is_locked(now)) {
            return;
        }
        let origin = match (self.pending.answered(key), known) {
            (Answered::Again, _) => return,
            (Answered::First, _) => Origin::Confirmed,
            (Answered::NotAsked, Some(known)) => known.origin,
            (Answered::NotAsked, None) if !asked_us => return,
            (Answered::NotAsked, None) if !self.strangers.admit(now) => {
                return ns.counters.count(Counter::NeighTableFulls);
            }
            (Answered::NotAsked, None) => Origin::Stranger,
        };
        self.settle(key, Neighbour { mac, origin, since: now }, 0);
    }

    /// Has what waits for a neighbour sent, and makes it known when nothing is left: from then on senders go by themselves.
    pub(super) fn settle(&mut self, key: Key, neighbour: Neighbour, round: u32) {
        if round < ROUNDS_MAX {
            self.hold_what_was_left(key);
            let held = self.pending.take(key);
            if !held.is_empty() {
                return self.after.push_back(After::Settle(key, neighbour, held, round + 1));
            }
        }
        let (ns, late) = (self.ns, self.pending.end(key));
        let now = ns.snapshot.load();
        let permanent = now.neighbours.get(key).is_some_and(|n| n.origin == Origin::Permanent);
        let welcome = now.interface(key.ifindex).is_some() && (!permanent || neighbour.origin == Origin::Permanent);
        drop(now);
        let mut evicted = false;
        if welcome {
            ns.edit_routes(self, |s| (s.neighbours, evicted) = s.neighbours.with(key, neighbour));
        }
        ns.counters.add(Counter::NeighForcedGcRuns, u64::from(evicted));
        ns.counters.add(Counter::NeighUnresolvedDiscards, late);
    }

    /// Who left a packet would send the next one of its flow himself as soon as the neighbour is known.
    fn hold_what_was_left(&mut self, key: Key) {
        let (ns, left) = (self.ns, self.left_for(key));
        if left.is_empty() {
            return;
        }
        let now = Clock.now();
        // It has answered, so nobody asks; the question may be new.
        let _ = self.pending.answered(key);
        for packet in left {
            let (Hold::Held { dropped, .. } | Hold::Unreachable { dropped }) = self.pending.hold(key, now, packet);
            ns.counters.add(Counter::NeighUnresolvedDiscards, dropped);
        }
        let _ = self.pending.answered(key);
    }

    /// Keeps a packet whose neighbour was unknown, or has it sent. False if nobody answers.
    pub(super) fn hold(&mut self, key: Key, held: Held) -> bool {
        let ns = self.ns;
        let learnt = ns.snapshot.load().neighbours.get(key);
        if let Some(neighbour) = learnt {
            self.after.push_back(After::Send(key, neighbour.mac, held));
            return true;
        }
        let (dropped, reachable) = match self.pending.hold(key, Clock.now(), held) {
            Hold::Held { probe, dropped } => {
                if probe {
                    self.after.push_back(After::Probe(key));
                }
                (dropped, true)
            }
            // This packet, and those that were held.
            Hold::Unreachable { dropped } => (dropped + 1, false),
        };
        ns.counters.add(Counter::NeighUnresolvedDiscards, dropped);
        reachable
    }
}

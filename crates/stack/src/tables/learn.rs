//! Learning where neighbours are and what paths take, and sending what waited for neighbours.

use std::sync::Arc;

use napier_core::neighbour::{Ended, News, Nud};
use napier_core::time::Instant;
use napier_sys::clock::Clock;

use crate::counters::Counter;
use crate::tables::neighbour::{Answered, HeldPacket, Hold, Key, Neighbour, Origin, ROUNDS_MAX, Said};
use crate::tables::path_mtu::PathMtu;
use crate::tables::writer::{After, Note, Writing};
use crate::tables::{Interface, Snapshot, Tables};
use crate::wire::addr::{Addr, is_station};

impl Tables {
    /// A neighbour has said where it is.
    pub(crate) fn heard(&self, view: &Snapshot, said: Said) {
        let Said { key, mac, .. } = said;
        if !is_station(mac) || key.addr.is_group() || key.addr.is_any() || view.is_local(key.addr) {
            return;
        }
        if let Some(known) = view.neighbours.get(key) {
            match said.news(Some(known), false, Clock.now()) {
                News::None => return,
                News::Refused => return self.counters.count(Counter::NeighChangesIgnored),
                News::Learnt(_) | News::Stranger(_) | News::Moved(_) | News::Kept(_) => {}
            }
        }
        if let Some(mut writing) = self.lock_or_leave(|| Note::Heard(said)) {
            writing.heard(said);
        }
    }

    /// A path goes by a neighbour of which it is not sure that it is still there.
    #[cold]
    pub(crate) fn used(&self, key: Key) {
        if let Some(mut writing) = self.lock_or_leave(|| Note::Used(key)) {
            writing.used(key);
        }
    }

    /// A neighbour has acknowledged what went to `mac`.
    #[cold]
    pub(crate) fn confirmed(&self, key: Key, mac: [u8; 6]) {
        // Most often another connection by the same gateway has said so.
        let known = self.snapshot.load().neighbours.get(key);
        if key.confirmed(known, mac, Clock.now()).is_some()
            && let Some(mut writing) = self.lock_or_leave(|| Note::Confirmed(key, mac))
        {
            writing.confirmed(key, mac);
        }
    }

    /// A packet whose neighbour was unknown at the last look: sends it, or keeps it and asks. False if the neighbour does not answer.
    pub(crate) fn hold_for(&self, key: Key, held: HeldPacket) -> bool {
        let mut held = Some(held);
        let mut held = || held.take().expect("kept or left");
        match self.lock_or_leave(|| Note::Hold(key, held())) {
            Some(mut writing) => writing.hold(key, held()),
            None => true,
        }
    }

    /// Sends a packet whose neighbour is known now.
    pub(crate) fn send_held(&self, key: Key, mac: [u8; 6], held: &HeldPacket) {
        let HeldPacket { frame, class } = held;
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
    pub(crate) fn heard(&mut self, said: Said) {
        let (ns, Said { key, mac, .. }) = (self.ns, said);
        let now = Clock.now();
        // What another instance has learnt since.
        let known = ns.snapshot.load().neighbours.get(key);
        let asked = known.is_none() && self.pending.is_asked(key);
        let (origin, nud) = match (said.news(known, asked, now), known) {
            (News::None, _) => return,
            (News::Refused, _) => return ns.counters.count(Counter::NeighChangesIgnored),
            (News::Kept(nud), Some(known)) => return self.believe(key, Neighbour { nud, ..known }),
            (News::Moved(_), Some(_)) if !self.moves.admit(now) => {
                return ns.counters.count(Counter::NeighChangesIgnored);
            }
            (News::Moved(nud), Some(known)) => (known.origin, nud),
            (News::Learnt(nud), _) => match self.pending.answered(key) {
                Answered::First => (Origin::Confirmed, nud),
                Answered::Again | Answered::NotAsked => return,
            },
            (News::Stranger(_), _) if !self.unsolicited.admit(now) => {
                return ns.counters.count(Counter::NeighTableFulls);
            }
            (News::Stranger(nud), _) => (Origin::Unsolicited, nud),
            (News::Kept(_) | News::Moved(_), None) => unreachable!("only what is known has an address"),
        };
        self.settle(key, Neighbour { mac, origin, since: now, nud }, 0);
    }

    /// What is believed of a neighbour's address, which stays. Who uses what is stale has to say so, so paths are worked out
    /// again.
    fn believe(&mut self, key: Key, neighbour: Neighbour) {
        let ns = self.ns;
        let change = |s: &mut Snapshot| s.neighbours = s.neighbours.with(key, neighbour).0;
        if neighbour.nud == Nud::Stale {
            ns.edit_routes(self, change)
        } else {
            ns.edit(self, change)
        }
        ns.ageing.ask(neighbour.nud.ends());
    }

    /// A path goes by a neighbour.
    pub(crate) fn used(&mut self, key: Key) {
        let known = self.ns.snapshot.load().neighbours.get(key);
        if let Some(known) = known
            && let Some(nud) = known.nud.used(Clock.now())
        {
            self.believe(key, Neighbour { nud, ..known });
        }
    }

    /// A neighbour has acknowledged what went to `mac`.
    pub(crate) fn confirmed(&mut self, key: Key, mac: [u8; 6]) {
        let known = self.ns.snapshot.load().neighbours.get(key);
        if let Some(sure) = key.confirmed(known, mac, Clock.now()) {
            self.believe(key, sure);
        }
    }

    /// What was believed long enough is not any more.
    pub(crate) fn age(&mut self, now: Instant) {
        let ns = self.ns;
        let (again, unheard) = self.pending.age(now);
        self.after.extend(again.into_iter().map(|key| After::Probe(key, None)));
        ns.counters.add(Counter::NeighUnresolvedDiscards, unheard);
        ns.ageing.questions_end(self.pending.ends());
        if ns.snapshot.load().neighbours.ends().is_due(now) {
            self.age_known(now);
        }
    }

    fn age_known(&mut self, now: Instant) {
        let ns = self.ns;
        let view = ns.snapshot.load_full();
        let due = |neighbour: &Neighbour| neighbour.nud.ends().is_due(now);
        let (mut paths_change, mut forgotten) = (false, 0);
        for (key, neighbour) in view.neighbours.iter().filter(|(_, neighbour)| due(neighbour)) {
            match neighbour.nud.ended(now) {
                Ended::Becomes(_) => paths_change = true,
                Ended::Asks(_) => self.after.push_back(After::Probe(*key, Some(neighbour.mac))),
                Ended::Forgotten => {
                    forgotten += 1;
                    paths_change = true;
                }
            }
        }
        let change = |neighbour: &Neighbour| match neighbour.nud.ended(now) {
            _ if !due(neighbour) => Some(*neighbour),
            Ended::Becomes(nud) | Ended::Asks(nud) => Some(Neighbour { nud, ..*neighbour }),
            Ended::Forgotten => None,
        };
        let change = |s: &mut Snapshot| s.neighbours = s.neighbours.changed(change);
        if paths_change {
            ns.edit_routes(self, change)
        } else {
            ns.edit(self, change)
        }
        ns.counters.add(Counter::NeighResFailed, forgotten);
    }

    /// Has what waits for a neighbour sent, and makes it known when nothing is left: from then on senders go by themselves.
    pub(crate) fn settle(&mut self, key: Key, neighbour: Neighbour, round: u32) {
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
            ns.ageing.ask(neighbour.nud.ends());
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

    /// Keeps a packet whose neighbour was unknown, or has it sent. False if the neighbour does not answer.
    pub(crate) fn hold(&mut self, key: Key, held: HeldPacket) -> bool {
        let ns = self.ns;
        let learnt = ns.snapshot.load().neighbours.get(key);
        if let Some(neighbour) = learnt {
            self.after.push_back(After::Send(key, neighbour.mac, held));
            return true;
        }
        let (dropped, reachable) = match self.pending.hold(key, Clock.now(), held) {
            Hold::Held { probe, dropped } => {
                if probe {
                    self.after.push_back(After::Probe(key, None));
                    ns.ageing.questions_end(self.pending.ends());
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

impl Tables {
    /// A router on the way to `dst` takes no longer packets than this.
    pub(crate) fn lower_path(&self, dst: Addr, path: PathMtu) {
        self.counters.count(Counter::PathMtuLowered);
        if let Some(mut writing) = self.lock_or_leave(|| Note::Lower(dst, path)) {
            writing.lower(dst, path);
        }
    }
}

impl Writing<'_> {
    pub(crate) fn lower(&mut self, dst: Addr, path: PathMtu) {
        let (ns, now) = (self.ns, Clock.now());
        if !self.paths.admit(now) {
            // Whoever heard it uses it; the next that sends too long a packet hears it again.
            return;
        }
        ns.edit_routes(self, |s| s.path_mtus = s.path_mtus.with(dst, path, now));
    }
}

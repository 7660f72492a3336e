//! Walks every interleaving of a world: breadth first, so that the story of a failure is as short as can be.

use std::hash::{Hash, Hasher};

use napier_core::control::ThreadedSetting;

use crate::model::{Config, Ctl, Kind, World, check_step};

/// A fast hash without randomness: the same walk every time.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}

pub(crate) struct Walk {
    worlds: Vec<World>,
    /// The world from which each was first reached, and by what.
    from: Vec<(u32, &'static str)>,
    /// Steps of the machinery, as (from, to).
    system: Vec<(u32, u32)>,
}

/// Finds worlds by their hash: open addressing over indices, so that each world is kept once.
struct Index {
    slots: Vec<u32>,
}

const FREE: u32 = u32::MAX;

impl Index {
    /// The index of `world`, or the place where a new one goes.
    fn find(&self, worlds: &[World], world: &World) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut place = hash(world) as usize & mask;
        loop {
            match self.slots[place] {
                FREE => return Err(place),
                at if worlds[at as usize] == *world => return Ok(at),
                _ => place = (place + 1) & mask,
            }
        }
    }

    fn grow(&mut self, worlds: &[World]) {
        self.slots = vec![FREE; self.slots.len() * 2];
        for (at, world) in worlds.iter().enumerate() {
            if let Err(place) = self.find(worlds, world) {
                self.slots[place] = at as u32;
            }
        }
    }
}

fn hash(world: &World) -> u64 {
    let mut mix = Mix::default();
    world.hash(&mut mix);
    mix.finish()
}

/// Walks everything and checks every world; panics with the story of the first that is wrong. `worlds_max` bounds the
/// walk, and reaching it is a failure: the walk is to be complete.
pub(crate) fn walk(config: &Config, worlds_max: usize) -> Walk {
    let mut index = Index { slots: vec![FREE; 1 << 10] };
    let mut walk = Walk { worlds: vec![World::new(config)], from: vec![(0, "start")], system: Vec::new() };
    if let Err(place) = index.find(&[], &walk.worlds[0]) {
        index.slots[place] = 0;
    }
    let mut steps = Vec::new();
    let mut at = 0;
    while at < walk.worlds.len() {
        walk.worlds[at].steps(config, &mut steps);
        let before = walk.worlds[at].word;
        for step in steps.drain(..) {
            if let Err(rule) = check_step(before, step.world.word) {
                panic!("{rule}: {}\n{}", step.label, walk.story(at as u32));
            }
            let to = match index.find(&walk.worlds, &step.world) {
                Ok(to) => to,
                Err(place) => {
                    let to = walk.worlds.len() as u32;
                    index.slots[place] = to;
                    walk.from.push((at as u32, step.label));
                    walk.worlds.push(step.world);
                    if let Err(rule) = walk.worlds[to as usize].check(config) {
                        panic!("{rule}\n{}", walk.story(to));
                    }
                    if walk.worlds.len() * 2 > index.slots.len() {
                        index.grow(&walk.worlds);
                    }
                    to
                }
            };
            if step.kind == Kind::System {
                walk.system.push((at as u32, to));
            }
        }
        assert!(walk.worlds.len() <= worlds_max, "more than {worlds_max} worlds");
        at += 1;
    }
    walk
}

impl Walk {
    pub(crate) fn len(&self) -> usize {
        self.worlds.len()
    }

    /// From every world the machinery alone, without help from outside, can
    /// - get the packets out (or the instance is down, and they wait for enable),
    /// - bring whatever the controller does to its end,
    /// - take interrupts again (unless a thread polls for ever).
    pub(crate) fn check_liveness(&self) {
        self.can_reach("the packets cannot be drained", |world| world.is_down() || world.is_drained());
        self.can_reach("the controller hangs", |world| matches!(world.ctl, Ctl::Up | Ctl::Down));
        self.can_reach("interrupts never come back", |world| {
            world.is_down() || !world.masked || world.mode == ThreadedSetting::BusyPoll
        });
    }

    fn can_reach(&self, complaint: &str, goal: impl Fn(&World) -> bool) {
        let mut reaches: Vec<bool> = self.worlds.iter().map(goal).collect();
        // Predecessors by counting sort: one flat array.
        let mut first = vec![0u32; self.worlds.len() + 1];
        for (_, to) in &self.system {
            first[*to as usize + 1] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let mut place = first.clone();
        let mut before = vec![0u32; self.system.len()];
        for (from, to) in &self.system {
            let at = &mut place[*to as usize];
            before[*at as usize] = *from;
            *at += 1;
        }
        let mut todo: Vec<u32> = (0..self.worlds.len() as u32).filter(|at| reaches[*at as usize]).collect();
        while let Some(at) = todo.pop() {
            let at = at as usize;
            for from in &before[first[at] as usize..first[at + 1] as usize] {
                if !std::mem::replace(&mut reaches[*from as usize], true) {
                    todo.push(*from);
                }
            }
        }
        if let Some(stuck) = reaches.iter().position(|reaches| !reaches) {
            panic!("{complaint}\n{}", self.story(stuck as u32));
        }
    }

    /// How a world comes about.
    fn story(&self, mut at: u32) -> String {
        let end = format!("{:#?}", self.worlds[at as usize]);
        let mut labels = Vec::new();
        while at != 0 {
            let (from, label) = self.from[at as usize];
            labels.push(format!("{label} -> {:?}", self.worlds[at as usize].word));
            at = from;
        }
        labels.reverse();
        format!("{}\n{end}", labels.join("\n"))
    }
}

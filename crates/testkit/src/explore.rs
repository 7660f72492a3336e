//! Walks every interleaving of a small world: breadth first, so that the story of a failure is as short as can be.

use std::borrow::Cow;
use std::fmt::{Debug, Display};
use std::hash::{Hash, Hasher};

/// What a step is called.
pub type Label = Cow<'static, str>;

/// A step that can be taken.
pub struct Step<W: World> {
    /// What it is called in a story.
    pub label: Label,
    /// The machinery takes it by itself; the environment, which takes the others, may stop for good.
    pub by_itself: bool,
    /// The world after it, or the rule that it breaks.
    pub outcome: Result<W, W::Rule>,
}

/// All that is there, as plain data.
pub trait World: Clone + Eq + Hash + Debug {
    /// What stays as it is during a walk.
    type Config;

    /// Says which rule is broken.
    type Rule: Display;

    /// Appends every step that can be taken.
    fn steps(&self, config: &Self::Config, steps: &mut Vec<Step<Self>>);

    /// Holds in every world.
    ///
    /// # Errors
    /// The rule that does not.
    fn check(&self, config: &Self::Config) -> Result<(), Self::Rule>;

    /// Holds between a world and the one after it.
    ///
    /// # Errors
    /// The rule that does not.
    fn check_step(&self, _next: &Self) -> Result<(), Self::Rule> {
        Ok(())
    }

    /// Holds when nothing more happens.
    ///
    /// # Errors
    /// The rule that does not.
    fn check_end(&self) -> Result<(), Self::Rule> {
        Ok(())
    }

    /// Of a world, what a story shows behind the step that led to it.
    fn note(&self) -> String {
        String::new()
    }

    /// Appends a step of the machinery, unless it has to wait: then `take` is false.
    fn step(
        &self,
        steps: &mut Vec<Step<Self>>,
        label: impl Into<Label>,
        take: impl FnOnce(&mut Self) -> Result<bool, Self::Rule>,
    ) {
        let mut world = self.clone();
        let outcome = match take(&mut world) {
            Ok(true) => Ok(world),
            Ok(false) => return,
            Err(rule) => Err(rule),
        };
        steps.push(Step { label: label.into(), by_itself: true, outcome });
    }
}

/// All worlds that can be reached from one.
pub struct Walk<W> {
    worlds: Vec<W>,
    /// The world from which each was first reached, and by what.
    from: Vec<(u32, Label)>,
    /// Steps of the machinery, as (from, to).
    by_itself: Vec<(u32, u32)>,
}

/// The walk is to be complete; more worlds than this are a failure.
const WORLDS_MAX: usize = 2_000_000;

/// Walks everything and checks every world.
///
/// # Panics
/// With the story of the first world that is wrong, and if there are more than can be walked.
pub fn walk<W: World>(name: &str, config: &W::Config, start: W) -> Walk<W> {
    let mut index = Index { slots: vec![FREE; 1 << 10] };
    let mut walk = Walk { worlds: vec![start], from: vec![(0, Label::Borrowed("start"))], by_itself: Vec::new() };
    if let Err(place) = index.find(&[], &walk.worlds[0]) {
        index.slots[place] = 0;
    }
    let mut steps = Vec::new();
    let mut at = 0;
    while at < walk.worlds.len() {
        walk.worlds[at].steps(config, &mut steps);
        if steps.is_empty()
            && let Err(rule) = walk.worlds[at].check_end()
        {
            panic!("{rule}\n{}", walk.story(at as u32));
        }
        for Step { label, by_itself, outcome } in steps.drain(..) {
            let world = match outcome.and_then(|world| walk.worlds[at].check_step(&world).map(|()| world)) {
                Ok(world) => world,
                Err(rule) => panic!("{rule}: {label}\n{}", walk.story(at as u32)),
            };
            let to = match index.find(&walk.worlds, &world) {
                Ok(to) => to,
                Err(place) => {
                    let to = walk.worlds.len() as u32;
                    index.slots[place] = to;
                    walk.from.push((at as u32, label));
                    walk.worlds.push(world);
                    if let Err(rule) = walk.worlds[to as usize].check(config) {
                        panic!("{rule}\n{}", walk.story(to));
                    }
                    if walk.worlds.len() * 2 > index.slots.len() {
                        index.grow(&walk.worlds);
                    }
                    to
                }
            };
            if by_itself {
                walk.by_itself.push((at as u32, to));
            }
        }
        assert!(walk.worlds.len() <= WORLDS_MAX, "more than {WORLDS_MAX} worlds");
        at += 1;
    }
    println!("{name}: {} worlds", walk.worlds.len());
    walk
}

impl<W: World> Walk<W> {
    /// From every world the machinery alone, without help from outside, can reach one in which `goal` holds.
    ///
    /// # Panics
    /// With the complaint and the story of the first world from which it cannot.
    pub fn can_reach(&self, complaint: &str, goal: impl Fn(&W) -> bool) {
        let mut reaches: Vec<bool> = self.worlds.iter().map(goal).collect();
        // Predecessors by counting sort: one flat array.
        let mut first = vec![0u32; self.worlds.len() + 1];
        for (_, to) in &self.by_itself {
            first[*to as usize + 1] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let mut place = first.clone();
        let mut before = vec![0u32; self.by_itself.len()];
        for (from, to) in &self.by_itself {
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
            let (from, label) = &self.from[at as usize];
            labels.push(format!("{label} {}", self.worlds[at as usize].note()));
            at = *from;
        }
        labels.reverse();
        format!("{}\n{end}", labels.join("\n"))
    }
}

/// Finds worlds by their hash: open addressing over indices, so that each world is kept once.
struct Index {
    slots: Vec<u32>,
}

const FREE: u32 = u32::MAX;

impl Index {
    /// The index of `world`, or the place where a new one goes.
    fn find<W: Hash + Eq>(&self, worlds: &[W], world: &W) -> Result<u32, usize> {
        let mask = self.slots.len() - 1;
        let mut mix = Mix::default();
        world.hash(&mut mix);
        let mut place = mix.finish() as usize & mask;
        loop {
            match self.slots[place] {
                FREE => return Err(place),
                at if worlds[at as usize] == *world => return Ok(at),
                _ => place = (place + 1) & mask,
            }
        }
    }

    fn grow<W: Hash + Eq>(&mut self, worlds: &[W]) {
        self.slots = vec![FREE; self.slots.len() * 2];
        for (at, world) in worlds.iter().enumerate() {
            if let Err(place) = self.find(worlds, world) {
                self.slots[place] = at as u32;
            }
        }
    }
}

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

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts to a bound; what is behind `stuck` has no way on.
    #[derive(Clone, PartialEq, Eq, Hash, Debug)]
    struct Count(u8);

    struct Limits {
        end: u8,
        wrong: u8,
    }

    impl World for Count {
        type Config = Limits;
        type Rule = &'static str;

        fn steps(&self, limits: &Limits, steps: &mut Vec<Step<Self>>) {
            self.step(steps, "one more", |world| {
                world.0 += 1;
                Ok(world.0 <= limits.end)
            });
        }

        fn check(&self, limits: &Limits) -> Result<(), &'static str> {
            if self.0 == limits.wrong { Err("wrong") } else { Ok(()) }
        }

        fn check_end(&self) -> Result<(), &'static str> {
            if self.0 > 9 { Err("too far") } else { Ok(()) }
        }
    }

    #[test]
    fn every_world_is_found_and_leads_to_the_end() {
        let walk = walk("count", &Limits { end: 9, wrong: 99 }, Count(0));
        assert_eq!(walk.worlds.len(), 10);
        walk.can_reach("no way", |world| world.0 == 9);
    }

    #[test]
    #[should_panic(expected = "wrong\none more \none more \nCount(\n    2,\n)")]
    fn a_wrong_world_is_told_with_its_story() {
        walk("count", &Limits { end: 9, wrong: 2 }, Count(0));
    }

    #[test]
    #[should_panic(expected = "too far")]
    fn a_wrong_end_is_told() {
        walk("count", &Limits { end: 10, wrong: 99 }, Count(0));
    }

    #[test]
    #[should_panic(expected = "no way\none more")]
    fn a_goal_that_is_out_of_reach_is_told() {
        walk("count", &Limits { end: 3, wrong: 99 }, Count(0)).can_reach("no way", |world| world.0 == 0);
    }
}

//! Walks every interleaving of a world: breadth first, so that the story of a failure is as short as can be.
extern crate std;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::hash::Hash;

use self::std::collections::HashMap;
use self::std::println;

/// Or the rule that is broken.
pub(super) type Outcome<T> = Result<T, &'static str>;

/// The walk is to be complete; more worlds than this are a failure.
const WORLDS_MAX: usize = 2_000_000;

pub(super) trait World: Clone + Eq + Hash + Debug {
    type Config;

    /// Every step that somebody can take, with the world after it.
    fn steps(&self, config: &Self::Config) -> Vec<(String, Outcome<Self>)>;

    /// Holds in every world.
    fn check(&self) -> Outcome<()>;

    /// Holds when nothing more happens.
    fn check_end(&self) -> Outcome<()>;

    /// The step of one who takes the world with it, if that one need not wait.
    fn step(&self, steps: &mut Vec<(String, Outcome<Self>)>, label: String, take: impl Fn(&mut Self) -> Outcome<bool>) {
        let mut world = self.clone();
        match take(&mut world) {
            Ok(true) => steps.push((label, Ok(world))),
            Ok(false) => {}
            Err(rule) => steps.push((label, Err(rule))),
        }
    }
}

/// Walks everything; panics with the story of the first world that is wrong.
pub(super) fn walk<W: World>(name: &str, config: &W::Config, start: W) {
    let start = Rc::new(start);
    let mut index = HashMap::from([(start.clone(), 0)]);
    let mut worlds = Vec::from([start]);
    let mut from: Vec<(usize, String)> = Vec::from([(0, String::new())]);
    let mut at = 0;
    while at < worlds.len() {
        let world = worlds[at].clone();
        let steps = world.steps(config);
        if steps.is_empty()
            && let Err(rule) = world.check_end()
        {
            panic!("{rule}\n{}", story(&from, at, "nothing more happens", &*world));
        }
        for (label, next) in steps {
            let next = match next.and_then(|next| next.check().map(|()| next)) {
                Ok(next) => Rc::new(next),
                Err(rule) => panic!("{rule}\n{}", story(&from, at, &label, &*world)),
            };
            let new = worlds.len();
            if *index.entry(next.clone()).or_insert(new) == new {
                worlds.push(next);
                from.push((at, label));
            }
        }
        assert!(worlds.len() <= WORLDS_MAX, "more than {WORLDS_MAX} worlds");
        at += 1;
    }
    println!("{name}: {} worlds", worlds.len());
}

fn story<W: Debug>(from: &[(usize, String)], mut at: usize, last: &str, world: &W) -> String {
    let mut labels = Vec::from([last]);
    while at != 0 {
        labels.push(&from[at].1);
        at = from[at].0;
    }
    labels.reverse();
    format!("{}\n{world:#?}", labels.join("\n"))
}

//! What is shown of the sockets of programs (`napier engine ss`).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// A socket of a program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SocketView {
    /// The program that it was started with.
    pub program: String,
    /// The process that made it or was seen with it last; 0 if it is not to be seen from the engine.
    pub pid: u32,
    /// `tcp` or `udp`.
    #[serde(default = "tcp")]
    pub protocol: String,
    /// By which door its bytes go: `slow`, through the pair; `fast`, from the program through a ring where the engine is awake; datagrams, by the library in it.
    pub door: String,
    /// How the thread that carries its bytes polls, by the names of `compare`, if that was chosen.
    pub mode: Option<String>,
    /// Receive queue of the engine's device that its last packet came through, if one did.
    pub queue: Option<u32>,
    /// NAPI instance of that queue; 0 if no packet has come.
    pub napi_id: u32,
    /// `fresh`, `bound`, `listening`, `connecting`, `connected`; of UDP `fresh`, `bound`, `connected`.
    pub state: String,
    /// Its own address, if it has one.
    pub local: Option<SocketAddr>,
    /// The other end's, if there is one.
    pub peer: Option<SocketAddr>,
    /// Connections that wait to be accepted, of one that listens.
    pub waiting: usize,
}

/// What an engine shows that does not say: it has no others.
fn tcp() -> String {
    "tcp".to_owned()
}

/// How often something was, by name; names of options are made of what programs say, so they are bounded ([`Tally::NAMES_MAX`]).
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tally(BTreeMap<Cow<'static, str>, u64>);

impl Tally {
    /// Names that are kept apart; what comes under another one is counted as `others`.
    pub const NAMES_MAX: usize = 32;

    /// By name, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (name.as_ref(), *count))
    }

    /// All together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.values().sum()
    }

    fn add(&mut self, name: impl Into<Cow<'static, str>>, count: u64) {
        let name = name.into();
        let is_kept = self.0.contains_key(&name) || self.0.len() < Self::NAMES_MAX;
        *self.0.entry(if is_kept { name } else { Cow::Borrowed("others") }).or_default() += count;
    }

    pub(crate) fn one(&mut self, name: impl Into<Cow<'static, str>>) {
        self.add(name, 1);
    }
}

/// What calls came to, by programs and all together.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DoorCounts {
    /// Calls that were held.
    pub held: u64,
    /// The same by their names.
    pub calls: Tally,
    /// Sockets that were left to the kernel, or given back to it.
    pub left_to_kernel: u64,
    /// The same by reasons.
    pub left: Tally,
    /// Epoll instances that watched such a socket before, and watch the kernel's now.
    pub watches_moved: u64,
    /// Sockets that began to listen.
    pub listened: u64,
    /// Connections that were accepted, and that were opened.
    pub accepted: u64,
    /// See `accepted`.
    pub connected: u64,
    /// Of them, those that got a ring: the fast door.
    pub fast: u64,
    /// Of these, those whose library left the ring for good.
    pub demoted: u64,
    /// The same by reasons.
    pub demotions: Tally,
    /// Bytes that these wrote past their sockets, and through them.
    pub fast_bytes: u64,
    /// See `fast_bytes`.
    pub pair_bytes: u64,
    /// Sockets for datagrams that were made, by the fast door.
    #[serde(default)]
    pub datagram_sockets: u64,
    /// Datagrams that left by them, and that programs got.
    #[serde(default)]
    pub datagrams_out: u64,
    /// See `datagrams_out`.
    #[serde(default)]
    pub datagrams_in: u64,
    /// Datagrams that programs sent and that were lost in the door, by reasons.
    #[serde(default)]
    pub datagrams_lost: Tally,
    /// Options that were refused.
    pub options_refused: u64,
    /// The same by names, or by level and number.
    pub refused: Tally,
    /// Answers that a signal, or the end of the thread, kept from the program.
    pub unheard: u64,
    /// Calls that were refused because of a limit of this crate, or of the descriptors of the engine.
    pub over_limit: u64,
    /// The same by limits.
    pub over: Tally,
}

/// What the calls of a program came to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProgramView {
    /// Number of the program among those of this engine.
    pub number: u64,
    /// The program that it was started with.
    pub program: String,
    /// Whether it is still served.
    pub is_served: bool,
    /// What its calls came to.
    pub counts: DoorCounts,
}

/// What a program's thread shows.
#[derive(Default)]
pub(crate) struct ShownProgram {
    parts: Mutex<ShownParts>,
    /// Bytes past sockets of the fast door, and through them: apart, for they are counted with each piece.
    came: [AtomicU64; 2],
    /// Datagrams out and in.
    datagrams: [AtomicU64; 2],
}

#[derive(Default)]
struct ShownParts {
    sockets: HashMap<u64, SocketView>,
    counts: DoorCounts,
}

/// Relaxed: figures.
fn count(sums: &[AtomicU64; 2], more: [u64; 2]) {
    for (sum, more) in sums.iter().zip(more).filter(|(_, more)| *more > 0) {
        sum.fetch_add(more, Ordering::Relaxed);
    }
}

impl ShownProgram {
    fn parts(&self) -> MutexGuard<'_, ShownParts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, token: u64, view: SocketView) {
        self.parts().sockets.insert(token, view);
    }

    pub(crate) fn remove(&self, token: u64) {
        self.parts().sockets.remove(&token);
    }

    /// Counts something, before the program can know of it.
    pub(crate) fn note(&self, change: impl FnOnce(&mut DoorCounts)) {
        change(&mut self.parts().counts);
    }

    /// Counts bytes of connections with rings: through these, and by their pairs.
    pub(crate) fn came(&self, bytes: [u64; 2]) {
        count(&self.came, bytes);
    }

    /// Counts datagrams out and in.
    pub(crate) fn datagrams(&self, moved: [u64; 2]) {
        count(&self.datagrams, moved);
    }

    pub(crate) fn counts(&self) -> DoorCounts {
        let [datagrams_out, datagrams_in] = [0, 1].map(|at| self.datagrams[at].load(Ordering::Relaxed));
        let [fast_bytes, pair_bytes] = [0, 1].map(|at| self.came[at].load(Ordering::Relaxed));
        DoorCounts { fast_bytes, pair_bytes, datagrams_out, datagrams_in, ..self.parts().counts.clone() }
    }

    pub(crate) fn all(self: &Arc<Self>) -> (Vec<SocketView>, DoorCounts) {
        let counts = self.counts();
        (self.parts().sockets.values().cloned().collect(), counts)
    }
}

impl DoorCounts {
    /// Adds those of another program.
    pub(crate) fn add(&mut self, other: &Self) {
        self.held += other.held;
        self.left_to_kernel += other.left_to_kernel;
        self.watches_moved += other.watches_moved;
        self.listened += other.listened;
        self.accepted += other.accepted;
        self.connected += other.connected;
        self.fast += other.fast;
        self.demoted += other.demoted;
        self.fast_bytes += other.fast_bytes;
        self.pair_bytes += other.pair_bytes;
        self.datagram_sockets += other.datagram_sockets;
        self.datagrams_out += other.datagrams_out;
        self.datagrams_in += other.datagrams_in;
        self.options_refused += other.options_refused;
        self.unheard += other.unheard;
        self.over_limit += other.over_limit;
        let tallies = [
            (&mut self.calls, &other.calls),
            (&mut self.left, &other.left),
            (&mut self.refused, &other.refused),
            (&mut self.demotions, &other.demotions),
            (&mut self.over, &other.over),
            (&mut self.datagrams_lost, &other.datagrams_lost),
        ];
        for (own, others) in tallies {
            others.0.iter().for_each(|(name, count)| own.add(name.clone(), *count));
        }
    }

    pub(crate) fn left_to_kernel(&mut self, why: &'static str) {
        self.left_to_kernel += 1;
        self.left.one(why);
    }

    pub(crate) fn lost(&mut self, why: &'static str) {
        self.datagrams_lost.one(why);
    }

    pub(crate) fn demoted(&mut self, why: &'static str) {
        self.demoted += 1;
        self.demotions.one(why);
    }

    pub(crate) fn refused(&mut self, option: Cow<'static, str>) {
        self.options_refused += 1;
        self.refused.one(option);
    }

    pub(crate) fn over_limit(&mut self, limit: &'static str) {
        self.over_limit += 1;
        self.over.one(limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_cannot_have_more_names_counted_than_the_bound() {
        let mut tally = Tally::default();
        for number in 0..100 {
            tally.one(format!("level 6 option {number:03}"));
        }
        tally.one("level 6 option 003");
        assert_eq!(tally.iter().count(), Tally::NAMES_MAX + 1);
        assert_eq!(tally.iter().find(|(name, _)| *name == "others"), Some(("others", 100 - Tally::NAMES_MAX as u64)));
        assert_eq!(tally.iter().find(|(name, _)| name.ends_with("003")), Some(("level 6 option 003", 2)));
        assert_eq!(tally.sum(), 101);
    }

    #[test]
    fn counts_of_programs_are_added_and_go_through_json() {
        let mut one = DoorCounts { held: 2, ..DoorCounts::default() };
        one.left_to_kernel("UDP");
        one.over_limit("sockets");
        one.refused("TCP_ULP".into());
        let mut all = one.clone();
        all.add(&one);
        assert_eq!((all.held, all.left_to_kernel, all.options_refused, all.over_limit), (4, 2, 2, 2));
        assert_eq!((all.left.sum(), all.refused.sum(), all.over.sum()), (2, 2, 2));
        let text = serde_json::to_string(&all).expect("JSON");
        assert!(text.contains(r#""left":{"UDP":2}"#), "{text}");
        assert_eq!(serde_json::from_str::<DoorCounts>(&text).expect("counts"), all);
    }
}

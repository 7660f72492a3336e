//! A hash table that readers walk without a lock: immutable lists, each copied by the thread that changes it. Writers have none
//! either: one that was overtaken copies the newer list and tries again.

use crate::published::Published;
use crate::sync::{AtomicU32, Ordering, Point, full_fence};

/// Entries that lie in the list itself, beside its length.
const NEAR: usize = 2;

/// Entries by their hash. Meant for tables with about as many entries as lists, so that a list has one or two, which lie in
/// one cache line with it.
///
/// What an entry is equal to is for the caller to say; entries with equal hashes lie in one list.
pub struct FlowTable<E> {
    lists: Box<[Published<List<E>>]>,
    /// 1: nothing comes in any more.
    closed: AtomicU32,
}

struct List<E> {
    near: [Option<(u32, E)>; NEAR],
    far: Vec<(u32, E)>,
}

impl<E> List<E> {
    fn of(entries: Vec<(u32, E)>) -> Option<Self> {
        let mut entries = entries.into_iter();
        let near = [entries.next(), entries.next()];
        near[0].is_some().then(|| Self { near, far: entries.collect() })
    }

    #[inline]
    fn entries(&self) -> impl Iterator<Item = &(u32, E)> {
        self.near.iter().flatten().chain(&self.far)
    }

    #[inline]
    fn with_hash(&self, hash: u32) -> impl Iterator<Item = &E> {
        self.entries().filter(move |(other, _)| *other == hash).map(|(_, entry)| entry)
    }
}

impl<E: Clone> FlowTable<E> {
    /// An empty table of so many lists, a power of two.
    #[must_use]
    pub fn new(lists: usize) -> Self {
        assert!(lists.is_power_of_two(), "the hash is cut to its lower bits");
        Self { lists: (0..lists).map(|_| Published::default()).collect(), closed: AtomicU32::new(0) }
    }

    /// Calls `found` with the first entry of this hash that `is` the one, if there is one. It stays while `found` runs, also
    /// if that or another thread removes it from the table.
    #[inline]
    pub fn find<R>(&self, hash: u32, is: impl Fn(&E) -> bool, found: impl FnOnce(&E) -> R) -> Option<R> {
        let list = self.list(hash).read()?;
        let same = |(other, entry): &&(u32, E)| *other == hash && is(entry);
        // Most often it is near.
        let (_, entry) = match list.near.iter().flatten().find(same) {
            Some(near) => near,
            None => list.far.iter().find(same)?,
        };
        Some(found(entry))
    }

    /// Calls `act` with every entry of this hash.
    #[inline]
    pub fn each(&self, hash: u32, act: impl FnMut(&E)) {
        if let Some(list) = self.list(hash).read() {
            list.with_hash(hash).for_each(act);
        }
    }

    /// Calls `act` with every entry; those that come or go meanwhile may be among them or not.
    pub fn for_all(&self, mut act: impl FnMut(&E)) {
        for list in self.lists.iter().filter_map(Published::read) {
            list.entries().for_each(|(_, entry)| act(entry));
        }
    }

    /// Adds an entry. False if one of this hash `is` there already, or the table is closed, and nothing changes.
    pub fn insert(&self, hash: u32, entry: E, is: impl Fn(&E) -> bool) -> bool {
        let alone = self.change(hash, |entries| {
            let alone = !entries.iter().any(|(other, entry)| *other == hash && is(entry));
            if alone {
                entries.push((hash, entry.clone()));
            }
            alone
        });
        // Pairs with the fence in `close`: either its caller finds the entry, or we see that the table is closed.
        full_fence(Point::TableInsert);
        if alone && self.closed.load(Ordering::Relaxed) != 0 {
            self.remove(hash, |other| is(other));
            return false;
        }
        alone
    }

    /// Lets nothing in any more: what [`for_all`](Self::for_all) finds from here on is all that stays.
    pub fn close(&self) {
        self.closed.store(1, Ordering::Relaxed);
        // Pairs with the fence in `insert`.
        full_fence(Point::TableClose);
    }

    /// Removes the entries of this hash that are `this`. False if there is none.
    pub fn remove(&self, hash: u32, this: impl Fn(&E) -> bool) -> bool {
        self.change(hash, |entries| {
            let before = entries.len();
            entries.retain(|(other, entry)| *other != hash || !this(entry));
            entries.len() < before
        })
    }

    /// Address of the place of this hash's list, to ask for its memory.
    #[inline]
    #[must_use]
    pub fn place_at(&self, hash: u32) -> usize {
        core::ptr::from_ref(self.list(hash)).addr()
    }

    /// Address and bytes of the list itself, if there is one; its place is read.
    #[inline]
    #[must_use]
    pub fn list_at(&self, hash: u32) -> Option<(usize, usize)> {
        self.list(hash).place_of_value()
    }

    /// Replaces a list by a copy, if `change` changes it.
    fn change(&self, hash: u32, mut change: impl FnMut(&mut Vec<(u32, E)>) -> bool) -> bool {
        let place = self.list(hash);
        loop {
            let seen = place.read();
            let mut entries = seen.as_ref().map_or_else(Vec::new, |list| list.entries().cloned().collect());
            if !change(&mut entries) {
                return false;
            }
            if place.replace_if(seen.as_ref(), List::of(entries)).is_ok() {
                return true;
            }
        }
    }

    #[inline]
    fn list(&self, hash: u32) -> &Published<List<E>> {
        &self.lists[hash as usize & (self.lists.len() - 1)]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::test_rng::Rng;

    #[test]
    fn it_does_what_a_plain_map_does() {
        let table = FlowTable::new(4);
        let mut plain = BTreeMap::new();
        let mut rng = Rng::new(7);
        for step in 0..if cfg!(miri) { 300 } else { 20_000 } {
            let key = rng.below(24);
            // Six lists' worth in four, and two keys to each hash.
            let hash = key / 2;
            let is = |entry: &Arc<(u32, u32)>| entry.0 == key;
            match rng.below(3) {
                0 => {
                    let alone = table.insert(hash, Arc::new((key, step)), is);
                    assert_eq!(alone, !plain.contains_key(&key));
                    plain.entry(key).or_insert(step);
                }
                1 => assert_eq!(table.remove(hash, is), plain.remove(&key).is_some()),
                _ => assert_eq!(table.find(hash, is, |entry| entry.1), plain.get(&key).copied()),
            }
            let mut there = Vec::new();
            table.each(hash, |entry| there.push(entry.0));
            there.sort_unstable();
            assert_eq!(there, plain.keys().copied().filter(|other| other / 2 == hash).collect::<Vec<_>>());
            assert_eq!(table.list_at(hash).is_some(), plain.keys().any(|other| other / 2 % 4 == hash % 4));
        }
    }

    #[test]
    fn a_closed_table_lets_nothing_in() {
        let table = FlowTable::new(2);
        assert!(table.insert(0, 1, |_| false) && table.insert(1, 2, |_| false));
        table.close();
        assert!(!table.insert(0, 3, |other| *other == 3));
        let mut left = Vec::new();
        table.for_all(|entry| left.push(*entry));
        assert_eq!(left, [1, 2]);
        assert!(table.remove(1, |_| true));
    }

    #[test]
    fn an_entry_stays_while_it_is_looked_at() {
        let table = FlowTable::new(1);
        let entry = Arc::new(5);
        assert!(table.insert(9, entry.clone(), |_| false));
        let seen = table.find(
            9,
            |_| true,
            |found| {
                assert!(table.remove(9, |other| Arc::ptr_eq(other, found)));
                assert!(table.find(9, |_| true, |_| ()).is_none());
                **found
            },
        );
        assert_eq!((seen, Arc::strong_count(&entry)), (Some(5), 1));
    }
}

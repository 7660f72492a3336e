//! Values that are replaced while they are read, and the table made of them.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::{model, model_preempted, without};
use crate::sync::Point;
use crate::{FlowTable, Published};

/// A value that is written before it is published, read in between, and written again when it is dropped.
struct Value {
    data: UnsafeCell<u32>,
    dropped: Arc<AtomicU32>,
}

// SAFETY: the model checks that no thread reads it while it is written; loom reports it if not.
unsafe impl Sync for Value {}
// SAFETY: as above.
unsafe impl Send for Value {}

impl Value {
    fn new(value: u32, dropped: &Arc<AtomicU32>) -> Self {
        let this = Self { data: UnsafeCell::new(0), dropped: dropped.clone() };
        // SAFETY: no other thread has it yet.
        this.data.with_mut(|data| unsafe { *data = value });
        this
    }

    fn get(&self) -> u32 {
        // SAFETY: that no thread writes meanwhile is what the model is about.
        self.data.with(|data| unsafe { *data })
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: that no thread reads any more is what the model is about.
        self.data.with_mut(|data| unsafe { *data = 0 });
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// One reader, and a writer that replaces the value and takes it away.
fn a_reader_meets_a_writer() {
    model(|| {
        let dropped = Arc::new(AtomicU32::new(0));
        let place = Arc::new(Published::default());
        place.replace(Some(Value::new(1, &dropped)));
        let (readers_place, readers_dropped) = (place.clone(), dropped.clone());
        let reader = thread::spawn(move || {
            if let Some(value) = readers_place.read() {
                let seen = value.get();
                assert!(seen == 1 || seen == 2, "a value that was dropped: {seen}");
            }
            drop(readers_dropped);
        });
        place.replace(Some(Value::new(2, &dropped)));
        place.replace(None);
        reader.join().unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 2, "each value is dropped once");
    });
}

/// Two readers of one value, which a third thread takes away: one of the three drops it, after all have read it.
fn the_last_of_all_drops_it() {
    model_preempted(2, || {
        let dropped = Arc::new(AtomicU32::new(0));
        let place = Arc::new(Published::default());
        place.replace(Some(Value::new(1, &dropped)));
        let readers = [0, 1].map(|_| {
            let place = place.clone();
            thread::spawn(move || place.read().is_none_or(|value| value.get() == 1))
        });
        place.replace(None);
        assert!(readers.map(|reader| reader.join().unwrap()).iter().all(|intact| *intact));
        assert_eq!(dropped.load(Ordering::Relaxed), 1, "it is dropped once");
    });
}

#[test]
fn published() {
    a_reader_meets_a_writer();
    the_last_of_all_drops_it();
}

#[test]
#[should_panic(expected = "Causality violation")]
fn published_needs_the_ordering_of_the_reader() {
    without(Point::PublishedRead, a_reader_meets_a_writer);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn published_needs_the_ordering_of_the_writer() {
    without(Point::PublishedReplace, a_reader_meets_a_writer);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn published_needs_the_ordering_of_a_reader_that_ends_first() {
    without(Point::PublishedEnd, a_reader_meets_a_writer);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn published_needs_the_ordering_of_the_debt() {
    without(Point::PublishedDebt, the_last_of_all_drops_it);
}

/// Two connections come into one list at once, one of them leaves again, and a reader looks for the one that was there
/// before all the time.
#[test]
fn table() {
    model_preempted(2, || {
        let table = Arc::new(FlowTable::new(1));
        let add = |table: &FlowTable<u32>, id: u32| table.insert(id, id, |other| *other == id);
        assert!(add(&table, 7));
        let (others, readers) = (table.clone(), table.clone());
        let other = thread::spawn(move || add(&others, 2) && others.remove(2, |id| *id == 2));
        let reader = thread::spawn(move || readers.find(7, |id| *id == 7, |id| *id));
        let (first, second) = (add(&table, 3), add(&table, 3));
        assert_eq!((first, second, other.join().unwrap(), reader.join().unwrap()), (true, false, true, Some(7)));
        let there = [2, 3, 7].map(|id| table.find(id, |other| *other == id, |_| ()).is_some());
        assert_eq!(there, [false, true, true], "a change was lost");
    });
}

/// A table closes while a connection comes: it is refused, or found.
fn a_closing_table_misses_nobody() {
    model_preempted(3, || {
        let table = Arc::new(FlowTable::new(1));
        let other = table.clone();
        let thread = thread::spawn(move || other.insert(1, 1, |entry| *entry == 1));
        table.close();
        let mut found = 0;
        table.for_all(|_: &u32| found += 1);
        let inserted = thread.join().unwrap();
        assert!(!inserted || found == 1, "nobody ends it");
    });
}

#[test]
fn closing() {
    a_closing_table_misses_nobody();
}

#[test]
#[should_panic(expected = "nobody ends it")]
fn closing_needs_the_fence_of_the_insert() {
    without(Point::TableInsert, a_closing_table_misses_nobody);
}

#[test]
#[should_panic(expected = "nobody ends it")]
fn closing_needs_the_fence_of_the_close() {
    without(Point::TableClose, a_closing_table_misses_nobody);
}

//! Independent pieces of work on some threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Does `work` for each item on `jobs` threads; the results are in the order of the items, `None` for those that were not begun when
/// `stop` was set. `progress` is called with items that are done and items in all.
pub fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
    work: impl Fn(&T) -> R + Sync,
) -> Vec<Option<R>> {
    let results: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index).filter(|_| !stop.load(Ordering::Relaxed)) else { return };
                    let result = work(item);
                    results.lock().expect("no panic while held")[index] = Some(result);
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, items.len());
                }
            });
        }
    });
    results.into_inner().expect("no panic while held")
}

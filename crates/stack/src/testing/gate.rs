//! Where a thread of the stack waits until a test lets it begin.

use std::sync::{Arc, Condvar, Mutex};

/// Open at first.
#[derive(Default)]
pub(crate) struct Gate {
    closed: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    /// A thread that comes from now on waits.
    pub(crate) fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }

    /// No thread waits any more.
    pub(crate) fn open(&self) {
        *self.closed.lock().unwrap() = false;
        self.changed.notify_all();
    }

    /// Waits for as long as it is closed.
    pub(super) fn pass(&self) {
        let closed = self.closed.lock().unwrap();
        drop(self.changed.wait_while(closed, |closed| *closed).unwrap());
    }
}

/// Opens it when it goes, so that no thread stays behind.
pub(super) struct OpensAtEnd(pub(super) Arc<Gate>);

impl Drop for OpensAtEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}

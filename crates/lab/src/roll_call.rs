//! Who starts several workers waits until each can be reached, or one of them has failed.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Of a number of workers.
pub struct RollCall {
    ready: SyncSender<()>,
    is_ready: Receiver<()>,
    workers: usize,
}

/// A worker's voice. Dropped without a word it says that the worker failed.
pub struct Ready(Cell<Option<SyncSender<()>>>);

impl RollCall {
    /// Of so many.
    pub fn new(workers: usize) -> Self {
        let (ready, is_ready) = sync_channel(workers);
        Self { ready, is_ready, workers }
    }

    /// For one of the workers.
    pub fn voice(&self) -> Ready {
        Ready(Cell::new(Some(self.ready.clone())))
    }

    /// Waits for all of them. False as soon as it is clear that one has failed; joining it says why.
    pub fn all_ready(self) -> bool {
        let Self { ready, is_ready, workers } = self;
        drop(ready);
        (0..workers).all(|_| is_ready.recv().is_ok())
    }
}

impl Ready {
    /// The worker can be reached.
    pub fn say(&self) {
        // Its end goes with it: when another worker fails, nobody waits for what this one has said long ago. It fails only
        // if the starter has given up.
        let _ = self.0.take().map(|ready| ready.send(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_speak_are_ready() {
        let call = RollCall::new(3);
        for _ in 0..3 {
            let voice = call.voice();
            voice.say();
            voice.say();
        }
        assert!(call.all_ready());
    }

    /// As a worker that serves, and keeps all that it was given.
    #[test]
    fn one_that_fails_is_not_waited_for_because_another_goes_on() {
        let call = RollCall::new(2);
        let (serving, failed) = (call.voice(), call.voice());
        serving.say();
        drop(failed);
        assert!(!call.all_ready());
        drop(serving);
    }
}

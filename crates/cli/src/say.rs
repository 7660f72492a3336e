//! What is said beside the output of a command.

use std::io::Write as _;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use napier_linux::change::shown;

/// What may wait for a terminal.
type Saying = Box<dyn FnOnce() + Send>;

/// Takes what is said, while there is a [`SayBeside`].
static BESIDE: Mutex<Option<SyncSender<Saying>>> = Mutex::new(None);
/// More that waits for a terminal is not said.
const WAITING_MAX: usize = 1024;

/// Lines on standard error, for standard output may be a program's.
pub(crate) fn say(lines: &[String]) {
    if !lines.is_empty() {
        let lines = lines.to_vec();
        later(move || write(&lines));
    }
}

fn write(lines: &[String]) {
    for line in lines {
        // Nobody may read it.
        let _ = writeln!(std::io::stderr(), "napier: {}", shown(line));
    }
}

/// Does what may wait for a terminal: at once, or in the thread of a [`SayBeside`].
pub(crate) fn later(act: impl FnOnce() + Send + 'static) {
    let beside = BESIDE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match beside {
        None => act(),
        Some(beside) => drop(beside.try_send(Box::new(act))),
    }
}

/// While this lives a thread of its own says what is said: where the terminal is stopped, or nothing reads a pipe, only that thread waits. Its end waits until
/// all is said.
pub(crate) struct SayBeside(Option<JoinHandle<()>>);

impl SayBeside {
    /// Begins. Without a thread all is said at once, as ever.
    pub(crate) fn begin() -> Self {
        let (beside, said) = sync_channel::<Saying>(WAITING_MAX);
        let says = move || said.into_iter().for_each(|act| act());
        let thread = std::thread::Builder::new().name("say".to_owned()).spawn(says).ok();
        *BESIDE.lock().unwrap_or_else(PoisonError::into_inner) = thread.as_ref().map(|_| beside);
        Self(thread)
    }
}

impl Drop for SayBeside {
    fn drop(&mut self) {
        *BESIDE.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.0.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn who_says_something_does_not_wait_for_the_terminal() {
        let (goes_on, stopped) = channel::<()>();
        let (told, heard) = channel();
        let beside = SayBeside::begin();
        later(move || {
            let _ = stopped.recv();
        });
        later(move || told.send(7).expect("it is heard"));
        // The first one waits still.
        assert!(heard.try_recv().is_err());
        drop(goes_on);
        drop(beside);
        assert_eq!(heard.try_recv(), Ok(7), "all is said at its end");
        let (told, heard) = channel();
        later(move || told.send(8).expect("it is heard"));
        assert_eq!(heard.try_recv(), Ok(8), "at once, as before");
    }
}

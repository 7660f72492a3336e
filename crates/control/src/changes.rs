//! The thread that carries changes out: who looks does not wait for them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use napier_runtime::engine::WeakEngine;
use napier_sys::cpuclock::ThreadClock;
use rustix::event::{EventfdFlags, eventfd};

use crate::answer::answer;
use crate::session::Said;

/// Changes that were asked for and are not done, at most one of each client.
pub(crate) struct Changes {
    asked: Option<Sender<(u64, Vec<u8>)>>,
    done: Receiver<(u64, Said)>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Changes {
    /// Starts the thread `napier-change`.
    ///
    /// # Errors
    /// The system has no descriptor or no thread for it.
    pub(crate) fn start(engine: WeakEngine) -> io::Result<Self> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (asked, asks) = channel::<(u64, Vec<u8>)>();
        let (tell, done) = channel();
        let rings = bell.clone();
        let thread = std::thread::Builder::new().name("napier-change".to_owned()).spawn(move || {
            let clock = ThreadClock::current();
            let used = || clock.and_then(ThreadClock::read).unwrap_or_default();
            // Ends when the server does.
            while let Ok((number, line)) = asks.recv() {
                let before = used();
                let line = answer(engine.upgrade().as_ref(), &line);
                if tell.send((number, Said { line, spent: used().saturating_sub(before) })).is_err() {
                    return;
                }
                // It can fail only if it is rung already.
                let _ = rustix::io::write(&*rings, &1_u64.to_ne_bytes());
            }
        })?;
        Ok(Self { asked: Some(asked), done, bell, thread: Some(thread) })
    }

    /// Asks for a change for the session of this number.
    pub(crate) fn ask(&self, number: u64, line: &[u8]) {
        let asked = self.asked.as_ref().expect("it is taken at the end only");
        // The thread takes them until this is dropped; if it had panicked the client would wait until it gives up.
        let _ = asked.send((number, line.to_vec()));
    }

    /// What is done: of which session, and its answer.
    pub(crate) fn done(&self) -> impl Iterator<Item = (u64, Said)> {
        let _ = rustix::io::read(&*self.bell, &mut [0_u8; 8]);
        self.done.try_iter()
    }
}

/// Readable when something is done.
impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        drop(self.asked.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

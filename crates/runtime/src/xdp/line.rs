//! The interrupt of a queue: the socket is readable.
//!
//! A softirq CPU waits for it once per unmask (`EPOLLONESHOT`), so masking costs nothing: at most one interrupt comes
//! that is not wanted any more. Unmasking waits again, unless nothing has come since the last time, and that is where the
//! kernel looks at the ring once more. So a program that polls makes no system call here until packets come.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use napier_ring::xsk::XskLook;
use rustix::event::epoll::EventFlags;

use crate::port::Counter;
use crate::softirq::SoftirqCpu;
use crate::sys::xsk::XskSocket;

/// Readable, once.
const ONCE: EventFlags = EventFlags::IN.union(EventFlags::ONESHOT);

/// The interrupt line from the kernel to the CPU that serves a queue.
pub(crate) struct XskLine {
    /// Both go with the receive end: the kernel keeps a queue busy as long as anything of its socket is mapped.
    socket: Weak<XskSocket>,
    look: Weak<XskLook>,
    /// The next packet interrupts.
    armed: AtomicBool,
    watcher: ArcSwapOption<Watcher>,
    interrupts: Counter,
}

/// Who waits for the interrupt, and what it calls it.
struct Watcher {
    cpu: Arc<SoftirqCpu>,
    token: u64,
}

impl XskLine {
    pub(super) fn new(socket: &Arc<XskSocket>, look: &Arc<XskLook>) -> Self {
        let (socket, look) = (Arc::downgrade(socket), Arc::downgrade(look));
        let (armed, watcher) = (AtomicBool::new(false), ArcSwapOption::empty());
        Self { socket, look, armed, watcher, interrupts: Counter::default() }
    }

    /// One interrupt for what comes from now on. `true` = packets are there already.
    pub(crate) fn unmask(&self) -> bool {
        let Some(look) = self.look.upgrade() else { return false };
        if look.packets_wait() {
            return true;
        }
        // Acquire: pairs with the Release in `heard`. If that comes later, whoever took the interrupt takes the instance
        // or leaves its mark on it, and unmasks or polls again after us.
        if !self.armed.load(Ordering::Acquire)
            && let Some(watcher) = &*self.watcher.load()
            && let Some(socket) = self.socket.upgrade()
        {
            self.armed.store(true, Ordering::Relaxed);
            // Refused only if the watch has just ended: the instance is being disabled. Looks at the ring once more.
            let _ = watcher.cpu.rewatch(&*socket, watcher.token, ONCE);
        }
        false
    }

    /// The interrupt has come.
    pub(crate) fn heard(&self) {
        // Release: pairs with the Acquire in `unmask`.
        self.armed.store(false, Ordering::Release);
        self.interrupts.add_shared(1);
    }

    /// A CPU waits for interrupts from now on.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`.
    pub(crate) fn watch(&self, cpu: &Arc<SoftirqCpu>, token: u64) -> rustix::io::Result<()> {
        let Some(socket) = self.socket.upgrade() else { return Ok(()) };
        self.armed.store(true, Ordering::Relaxed);
        cpu.watch_for(&*socket, token, ONCE)?;
        self.watcher.store(Some(Arc::new(Watcher { cpu: cpu.clone(), token })));
        Ok(())
    }

    /// It does not any more.
    pub(crate) fn unwatch(&self, cpu: &SoftirqCpu) {
        self.watcher.store(None);
        if let Some(socket) = self.socket.upgrade() {
            let _ = cpu.unwatch(&*socket);
        }
        self.armed.store(false, Ordering::Relaxed);
    }

    /// Interrupts so far.
    pub(crate) fn interrupts(&self) -> u64 {
        self.interrupts.get()
    }
}

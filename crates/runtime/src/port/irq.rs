//! The interrupt of a receive queue, whatever raises it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use napier_core::moderation::Coalesce;
use rustix::event::epoll::EventFlags;

use crate::port::link::LinkLine;
use crate::port::memif::RemoteLine;
use crate::port::xsk::XskLine;

/// The interrupt of one receive queue. Clones are the same line.
///
/// A softirq CPU watches its descriptors while the instance is enabled; the owner masks it when it begins to poll and
/// whoever completes unmasks it.
#[derive(Clone)]
pub(crate) enum IrqLine {
    /// From a producer in this process.
    Link(Arc<LinkLine>),
    /// From a memif peer in another process.
    Remote(Arc<RemoteLine>),
    /// From the kernel, by an AF_XDP socket.
    Xsk(Arc<XskLine>),
}

/// Whoever takes interrupts: it waits for descriptors.
pub(crate) trait IrqCpu: Send + Sync {
    /// Waits for what `events` say; `token` comes back with each of them.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`, here and below.
    fn watch_for(&self, fd: BorrowedFd<'_>, token: u64, events: EventFlags) -> rustix::io::Result<()>;

    /// Changes what a watch waits for, or begins it again where it ended with its first event.
    fn rewatch(&self, fd: BorrowedFd<'_>, token: u64, events: EventFlags) -> rustix::io::Result<()>;

    /// Ends it.
    fn unwatch(&self, fd: BorrowedFd<'_>) -> rustix::io::Result<()>;
}

/// What a CPU calls the descriptors of a line.
#[derive(Copy, Clone)]
pub(crate) struct Tokens {
    pub(crate) doorbell: u64,
    pub(crate) timer: u64,
}

/// Edge triggered: each write is an event of its own and nobody needs to read.
pub(crate) const EDGES: EventFlags = EventFlags::IN.union(EventFlags::ET);

impl IrqLine {
    /// Lets a CPU wait for interrupts.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`; the CPU waits for nothing then.
    pub(crate) fn watch(&self, cpu: &Arc<dyn IrqCpu>, tokens: Tokens) -> rustix::io::Result<()> {
        if let Self::Xsk(line) = self {
            return line.watch(cpu, tokens.doorbell);
        }
        self.forget_rings();
        self.watch_edges(&**cpu, tokens)
    }

    /// It does not any more.
    pub(crate) fn unwatch(&self, cpu: &dyn IrqCpu) {
        if let Self::Xsk(line) = self {
            return line.unwatch();
        }
        // What was watched by the enable before is there still: a line changes only while its instance is disabled.
        for fd in [self.doorbell_fd(), self.timer_fd()].into_iter().flatten() {
            let _ = cpu.unwatch(fd);
        }
    }

    /// Another CPU waits instead. In between both may be told.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`; the one before still waits then.
    pub(crate) fn move_to(&self, from: &dyn IrqCpu, to: &Arc<dyn IrqCpu>, tokens: Tokens) -> rustix::io::Result<()> {
        if let Self::Xsk(line) = self {
            return line.move_to(to, tokens.doorbell);
        }
        self.watch_edges(&**to, tokens)?;
        self.unwatch(from);
        Ok(())
    }

    fn watch_edges(&self, cpu: &dyn IrqCpu, tokens: Tokens) -> rustix::io::Result<()> {
        if let Some(doorbell) = self.doorbell_fd() {
            cpu.watch_for(doorbell, tokens.doorbell, EDGES)?;
        }
        let Some(timer) = self.timer_fd() else { return Ok(()) };
        cpu.watch_for(timer, tokens.timer, EDGES).inspect_err(|_| {
            if let Some(doorbell) = self.doorbell_fd() {
                let _ = cpu.unwatch(doorbell);
            }
        })
    }

    /// The owner of the receive queue has taken all packets before `index` of its ring.
    #[inline]
    pub(super) fn note_consumed(&self, index: u16) {
        match self {
            Self::Link(line) => line.note_consumed(index),
            Self::Remote(line) => line.note_consumed(index),
            // Told by the end itself: its indices are wider.
            Self::Xsk(_) => {}
        }
    }

    /// No interrupt from now on; one may be on its way. From any thread.
    #[inline]
    pub(crate) fn mask(&self) {
        match self {
            Self::Link(line) => line.mask(),
            Self::Remote(line) => line.mask(),
            // It interrupts once per unmask anyhow.
            Self::Xsk(_) => {}
        }
    }

    /// One interrupt for what comes from now on. `true` = packets were there already, and there may be no interrupt
    /// for them: poll again. By whoever finished the last poll, after giving the queue up.
    #[must_use = "true means that packets wait and nobody may be told"]
    pub(crate) fn unmask(&self) -> bool {
        match self {
            Self::Link(line) => line.unmask(),
            Self::Remote(line) => line.unmask(),
            Self::Xsk(line) => line.unmask(),
        }
    }

    /// Ready (edge) = interrupt. `None` while there is nobody who could raise one.
    pub(crate) fn doorbell_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Link(line) => Some(line.doorbell_fd()),
            Self::Remote(line) => Some(line.doorbell_fd()),
            // Not by edges: see `watch`.
            Self::Xsk(_) => None,
        }
    }

    /// Ready (edge) = ask [`timer_fired`](Self::timer_fired). `None` if the peer alone decides when it interrupts.
    pub(crate) fn timer_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Link(line) => Some(line.timer_fd()),
            Self::Remote(_) | Self::Xsk(_) => None,
        }
    }

    /// What rang before is no interrupt any more. For whoever is about to watch the doorbell, and looks at the ring
    /// afterwards: nobody reads a doorbell that was heard, and a new watch would hear it again.
    pub(crate) fn forget_rings(&self) {
        match self {
            Self::Link(line) => line.forget_rings(),
            Self::Remote(line) => line.forget_rings(),
            Self::Xsk(_) => {}
        }
    }

    /// To be called when the timer's descriptor is ready. `true` = this is an interrupt; `false` = a timer that was
    /// overtaken by an interrupt or a mask.
    pub(crate) fn timer_fired(&self) -> bool {
        match self {
            Self::Link(line) => line.timer_fired(),
            Self::Remote(_) => false,
            Self::Xsk(_) => false,
        }
    }

    /// Changes coalescing, at any time, from any thread; false if the peer alone decides when it interrupts.
    pub(crate) fn set_coalesce(&self, coalesce: Coalesce) -> bool {
        match self {
            Self::Link(line) => {
                line.set_coalesce(coalesce);
                true
            }
            Self::Remote(_) | Self::Xsk(_) => false,
        }
    }

    /// The doorbell was ready. Counted for a line whose producer keeps no count. False: nobody is to be scheduled for it.
    pub(crate) fn heard(&self) -> bool {
        match self {
            Self::Link(_) => true,
            Self::Remote(line) => {
                line.heard();
                true
            }
            Self::Xsk(line) => line.heard(),
        }
    }

    /// Interrupts raised so far.
    pub(crate) fn interrupts(&self) -> u64 {
        match self {
            Self::Link(line) => line.interrupts(),
            Self::Remote(line) => line.interrupts(),
            Self::Xsk(line) => line.interrupts(),
        }
    }

    /// Publications that raised no interrupt: masked, latched or coalesced. 0 where the peer does not tell.
    pub(crate) fn suppressed(&self) -> u64 {
        match self {
            Self::Link(line) => line.suppressed(),
            Self::Remote(_) => 0,
            Self::Xsk(_) => 0,
        }
    }
}

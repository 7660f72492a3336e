//! The interrupt of a receive queue, whatever raises it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use napier_core::moderation::Coalesce;
use rustix::event::epoll::EventFlags;

use super::IrqLine;

/// A CPU that takes interrupts: it waits for descriptors.
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

/// Edge triggered: each write is an event of its own and none has to be read.
pub(crate) const EDGES: EventFlags = EventFlags::IN.union(EventFlags::ET);

/// The interrupt line of one kind of device.
pub(crate) trait InterruptLine: Send + Sync {
    /// The owner of the receive queue has taken all packets before `index` of its ring.
    fn note_consumed(&self, _index: u16) {}

    /// No interrupt from now on; one may be on its way. From any thread.
    fn mask(&self) {}

    /// One interrupt for what comes from now on. `true` = packets were there already, and there may be no interrupt
    /// for them: poll again. By the thread that finished the last poll, after giving the queue up.
    #[must_use = "true means that packets wait and no interrupt may come"]
    fn unmask(&self) -> bool;

    /// Ready (edge) = interrupt. `None` where a line is not watched by edges.
    fn doorbell_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Ready (edge) = ask [`timer_fired`](Self::timer_fired). `None` if the peer alone decides when it interrupts.
    fn timer_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// What rang before is no interrupt any more. For the thread that is about to watch the doorbell, and looks at the ring
    /// afterwards: no thread reads a doorbell that was heard, and a new watch would hear it again.
    fn forget_rings(&self) {}

    /// To be called when the timer's descriptor is ready. `true` = this is an interrupt; `false` = a timer that was
    /// overtaken by an interrupt or a mask.
    fn timer_fired(&self) -> bool {
        false
    }

    /// Changes coalescing, at any time, from any thread; false if the peer alone decides when it interrupts.
    fn set_coalesce(&self, _coalesce: Coalesce) -> bool {
        false
    }

    /// The coalescing that the line carries out.
    fn coalesce(&self) -> Coalesce {
        Coalesce::default()
    }

    /// The doorbell was ready. Counted for a line whose producer keeps no count. False: nothing is to be scheduled for it.
    fn heard(&self) -> bool {
        true
    }

    /// Whether packets wait that no owner has taken. True where a look costs more than a poll.
    fn packets_wait(&self) -> bool {
        true
    }

    /// While [`packets_wait`](Self::packets_wait) says no, a poll would find nothing either, nor do anything that brings packets.
    fn look_suffices(&self) -> bool {
        false
    }

    /// Interrupts raised so far.
    fn interrupts(&self) -> u64;

    /// Publications that raised no interrupt: masked, latched or coalesced. 0 where the peer does not tell.
    fn suppressed(&self) -> u64 {
        0
    }

    /// Lets a CPU wait for interrupts.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`; the CPU waits for nothing then.
    fn watch(&self, cpu: &Arc<dyn IrqCpu>, tokens: Tokens) -> rustix::io::Result<()> {
        self.forget_rings();
        self.watch_edges(&**cpu, tokens)
    }

    /// It does not any more.
    fn unwatch(&self, cpu: &dyn IrqCpu) {
        // What was watched by the enable before is there still: a line changes only while its instance is disabled.
        for fd in [self.doorbell_fd(), self.timer_fd()].into_iter().flatten() {
            let _ = cpu.unwatch(fd);
        }
    }

    /// Another CPU waits instead. In between both may be told.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`; the one before still waits then. It may have missed an interrupt that came meanwhile.
    fn move_to(&self, from: &dyn IrqCpu, to: &Arc<dyn IrqCpu>, tokens: Tokens) -> rustix::io::Result<()> {
        self.watch_edges(&**to, tokens)?;
        self.unwatch(from);
        Ok(())
    }

    /// Waits for the descriptors of a line that has some; for none of them if it cannot.
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
}

/// See [`InterruptLine`].
impl IrqLine {
    #[inline]
    pub(crate) fn note_consumed(&self, index: u16) {
        on_line!(self, line => line.note_consumed(index));
    }

    #[inline]
    pub(crate) fn mask(&self) {
        on_line!(self, line => line.mask());
    }

    #[inline]
    #[must_use = "true means that packets wait and no interrupt may come"]
    pub(crate) fn unmask(&self) -> bool {
        on_line!(self, line => line.unmask())
    }

    #[cfg(test)]
    pub(crate) fn doorbell_fd(&self) -> Option<BorrowedFd<'_>> {
        on_line!(self, line => line.doorbell_fd())
    }

    pub(crate) fn timer_fired(&self) -> bool {
        on_line!(self, line => line.timer_fired())
    }

    pub(crate) fn set_coalesce(&self, coalesce: Coalesce) -> bool {
        on_line!(self, line => line.set_coalesce(coalesce))
    }

    pub(crate) fn coalesce(&self) -> Coalesce {
        on_line!(self, line => line.coalesce())
    }

    pub(crate) fn heard(&self) -> bool {
        on_line!(self, line => line.heard())
    }

    /// See [`InterruptLine::look_suffices`].
    pub(crate) fn look_suffices(&self) -> bool {
        on_line!(self, line => line.look_suffices())
    }

    /// See [`InterruptLine::packets_wait`].
    #[inline]
    pub(crate) fn packets_wait(&self) -> bool {
        on_line!(self, line => line.packets_wait())
    }

    pub(crate) fn interrupts(&self) -> u64 {
        on_line!(self, line => line.interrupts())
    }

    pub(crate) fn suppressed(&self) -> u64 {
        on_line!(self, line => line.suppressed())
    }

    pub(crate) fn watch(&self, cpu: &Arc<dyn IrqCpu>, tokens: Tokens) -> rustix::io::Result<()> {
        on_line!(self, line => line.watch(cpu, tokens))
    }

    pub(crate) fn unwatch(&self, cpu: &dyn IrqCpu) {
        on_line!(self, line => line.unwatch(cpu));
    }

    pub(crate) fn move_to(&self, from: &dyn IrqCpu, to: &Arc<dyn IrqCpu>, tokens: Tokens) -> rustix::io::Result<()> {
        on_line!(self, line => line.move_to(from, to, tokens))
    }
}

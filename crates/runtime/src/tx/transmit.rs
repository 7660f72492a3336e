//! One packet of a sender: a frame of its own, filled, and handed over as the variant says.

use napier_core::tx::XmitCode;
use napier_core::tx::push::Pushed;
use napier_ring::Frame;

#[cfg(test)]
use super::hold;
use super::packet::describe;
use super::senders::TxSender;
use super::{Mode, Transmitted, TxPath, wire};
use crate::port::ToTell;
use napier_stack::device::PacketClass;
use napier_sys::nowait;
use napier_sys::tsc::ticks;

impl TxPath {
    /// One transmit: `build` fills a frame of at least `len_max` bytes and returns the packet's length; 0 gives it up.
    #[inline]
    pub(crate) fn transmit(
        &self,
        class: &PacketClass,
        len_max: usize,
        build: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> Transmitted {
        let senders = self.shared.senders();
        let Some(mut sender) = senders.enter() else { return Transmitted::Exhausted };
        // Inside the section: no thread waits for us before this is read.
        let mode = self.mode();
        if mode == Mode::Noqueue {
            return Transmitted::Direct;
        }
        let comes_again = mode == Mode::Owner || mode == Mode::Llist && class.comes_again;
        if comes_again && self.is_behind() {
            return Transmitted::Exhausted;
        }
        let Some(mut frame) = sender.pool.alloc().or_else(|| self.alloc_after_a_look(&mut sender)) else {
            return Transmitted::Exhausted;
        };
        let len = build(&mut senders.table.data_mut(&mut frame)[..len_max]);
        assert!(len <= len_max, "built a packet beyond its bound");
        if len == 0 {
            sender.pool.free(frame);
            return Transmitted::Code(XmitCode::Success);
        }
        describe(&senders.table, &senders.paced, &mut frame, len, class);
        senders.charges.charge(&frame, class.charged_to);
        let code = if sender.times.is_none() {
            self.xmit(mode, &mut sender, frame, class.comes_again)
        } else {
            self.xmit_timed(mode, &mut sender, frame, class.comes_again)
        };
        if code != XmitCode::Success {
            self.shown.note_told();
        }
        Transmitted::Code(code)
    }

    /// All frames of the sender are on the way, as far as was known: the peer may have read some since, of this queue or of
    /// another that the sender has used before.
    #[cold]
    fn alloc_after_a_look(&self, sender: &mut TxSender) -> Option<Frame> {
        if let Some(frame) = self.look_and_alloc(sender) {
            return Some(frame);
        }
        let host = self.shared.host.upgrade()?;
        let others = host.device_queues(self.napi_index()).iter().filter(|path| !std::ptr::eq(&***path, self));
        others.into_iter().find_map(|path| path.look_and_alloc(sender))
    }

    /// Who has the transmit lock mostly takes back frames, which is over soon. One who has lost its processor makes this
    /// fail, or some in turn.
    fn look_and_alloc(&self, sender: &mut TxSender) -> Option<Frame> {
        for _ in 0..wire::LOOKS {
            let looked = !self.wire.0.is_owned() && self.complete_and_wake();
            let frame = sender.pool.alloc();
            if looked || frame.is_some() {
                return frame;
            }
            #[cfg(test)]
            hold::at(hold::Point::BetweenLooks);
            std::hint::spin_loop();
        }
        None
    }

    #[cold]
    fn xmit_timed(&self, mode: Mode, sender: &mut TxSender, frame: Frame, comes_again: bool) -> XmitCode {
        let (begin, flushes) = (ticks(), sender.flushes);
        let code = self.xmit(mode, sender, frame, comes_again);
        let took = ticks().wrapping_sub(begin);
        let flushed = sender.flushes != flushes;
        sender.times.iter_mut().for_each(|times| times.add(took, flushed));
        code
    }

    /// `__dev_xmit_skb`.
    #[inline]
    fn xmit(&self, mode: Mode, sender: &mut TxSender, frame: Frame, comes_again: bool) -> XmitCode {
        #[cfg(test)]
        hold::at(hold::Point::BeforePush);
        match mode {
            Mode::Noqueue => unreachable!("packets without discipline go another way"),
            Mode::Locked if nowait::may_wait() => self.xmit_locked(frame),
            Mode::Locked => self.xmit_without_waiting(sender, frame),
            Mode::Llist => {
                // No thread there: a push that is taken at once by its own sender would come to the same.
                if self.is_idle()
                    && let Some(guarded) = self.root.0.try_enter()
                {
                    sender.flushes += 1;
                    return self.enqueue_one(guarded, frame, None, self.rest_of_flusher());
                }
                match self.push(sender, frame, comes_again) {
                    Ok(pushed) => pushed.code().unwrap_or_else(|| {
                        sender.flushes += 1;
                        self.flush()
                    }),
                    Err(frame) => self.enqueue_when_free(sender, frame),
                }
            }
            // The owner's next look finds it, whether the list was empty or not.
            Mode::Owner => match self.push(sender, frame, comes_again) {
                Ok(pushed) => pushed.code().unwrap_or(XmitCode::Success),
                Err(frame) => self.enqueue_when_free(sender, frame),
            },
        }
    }

    /// The thread that takes the defer list has so much to take that it will soon refuse. It comes for sure, so senders wait
    /// as for frames of their own.
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        self.defer.is_behind(self.shared.max_burst())
    }

    /// No packet was pushed and no thread is at the discipline, as it looks.
    #[inline]
    fn is_idle(&self) -> bool {
        #[cfg(test)]
        if hold::is_armed() {
            return false;
        }
        self.defer.is_empty() && !self.root.0.is_entered()
    }

    /// # Errors
    /// The list is full, and the sender is one that may wait.
    #[inline]
    pub(super) fn push(&self, sender: &mut TxSender, frame: Frame, comes_again: bool) -> Result<Pushed, Frame> {
        let table = &*self.shared.senders().table;
        match self.defer.push(table, frame, || self.shared.max_burst()) {
            Ok(true) => Ok(Pushed::Flush),
            Ok(false) => Ok(Pushed::Handed),
            Err(frame) if comes_again && nowait::may_wait() => Err(frame),
            Err(frame) => {
                self.defer.note_burst_drop();
                let (charges, mut news) = (&self.shared.senders().charges, ToTell::default());
                charges.credit(&frame, &mut news);
                sender.pool.free(frame);
                charges.tell(news);
                Ok(Pushed::BurstDrop)
            }
        }
    }
}

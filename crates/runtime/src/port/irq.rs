//! The interrupt of a receive queue, whatever raises it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use napier_core::moderation::Coalesce;

use crate::link::LinkLine;
use crate::memif::RemoteLine;
use crate::xdp::XskLine;

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

impl IrqLine {
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
    #[must_use = "true means that packets wait and no interrupt may come"]
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

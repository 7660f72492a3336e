//! A sender and a receiver on sockets of their own, with nothing above: the limit of a machine, for benchmarks.

use super::{AddXdpError, XdpConfig};
use napier_xsk::{Xsk, XskQueue};
#[doc(hidden)]
pub use napier_xsk::{XskReceiver as BareReceiver, XskSender as BareSender};

/// The first queue of an interface, without a device. `XdpFilter::OwnAddresses` stands for none.
#[doc(hidden)]
pub struct BareXdp {
    queue: XskQueue,
    _xsk: Xsk,
}

impl BareXdp {
    /// Opens the queue.
    ///
    /// # Errors
    /// As [`Engine::add_xdp`](crate::engine::Engine::add_xdp).
    pub fn open(config: &XdpConfig) -> Result<Self, AddXdpError> {
        let (xsk, queues) = Xsk::open(&config.sockets())?;
        let Some(queue) = queues.into_iter().next() else { panic!("an interface has one queue or more") };
        Ok(Self { queue, _xsk: xsk })
    }

    /// Both parts, for a thread each.
    pub fn parts(&mut self) -> (&mut BareReceiver, &mut BareSender) {
        self.queue.parts()
    }

    /// As [`XskQueue::reflect`].
    #[inline]
    pub fn echo(&mut self, turn: impl FnMut(&mut [u8]) -> bool) -> u32 {
        self.queue.reflect(turn)
    }
}

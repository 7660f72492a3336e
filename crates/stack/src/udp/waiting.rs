//! A receive that waits (`net/ipv4/udp.c __skb_recv_udp`): look, busy poll, look again, sleep.

use std::io;
use std::sync::atomic::Ordering;

use napier_core::time::{Deadline, Span};
use napier_sys::clock::Clock;
use napier_sys::give_way::GiveWay;

use crate::errno::{errno, stopped};
use crate::udp::queue::Attempt;
use crate::udp::socket::UdpSocket;

/// Times that a call that must not block yields to another reader of the same socket before it says EAGAIN.
const CONTENDED_YIELDS_MAX: u32 = 64;

impl UdpSocket {
    /// Reads with `attempt` until it gives something.
    #[inline]
    pub(super) fn wait_for<R>(&self, mut attempt: impl FnMut() -> Attempt<R>) -> io::Result<R> {
        // Before what can be read, as `net/core/datagram.c __skb_try_recv_datagram`.
        self.inner.check_told()?;
        match attempt() {
            Attempt::Read(result) => Ok(result),
            Attempt::Empty | Attempt::Contended => self.wait_slow(&mut attempt),
        }
    }

    fn wait_slow<R>(&self, attempt: &mut dyn FnMut() -> Attempt<R>) -> io::Result<R> {
        // Relaxed: this call looks once.
        let nonblocking = self.inner.nonblocking.now();
        let mut until = None;
        let (mut yields, mut give_way) = (0, GiveWay::default());
        loop {
            match attempt() {
                Attempt::Read(result) => return Ok(result),
                Attempt::Contended if nonblocking && yields == CONTENDED_YIELDS_MAX => return Err(errno(libc::EAGAIN)),
                Attempt::Contended => {
                    // The other reader copies one datagram and is gone.
                    yields += 1;
                    if nonblocking {
                        std::thread::yield_now();
                    } else {
                        give_way.turn();
                    }
                    continue;
                }
                Attempt::Empty if self.inner.is_stopped() => return Err(stopped()),
                Attempt::Empty => self.inner.check_told()?,
            }
            self.busy_poll(nonblocking);
            if self.inner.has_data() || self.inner.is_told() {
                continue;
            }
            let deadline = *until.get_or_insert_with(|| self.sleep_deadline());
            let slept = !nonblocking && self.sleep(deadline);
            if !slept {
                return Err(errno(libc::EAGAIN));
            }
        }
    }

    fn sleep_deadline(&self) -> Deadline {
        match self.inner.read_timeout_ns.load(Ordering::Relaxed) {
            0 => Deadline::NEVER,
            ns => Deadline::at(Clock.now() + Span { ns }),
        }
    }

    /// True if there is something to read, or never will be; false if the time is up.
    fn sleep(&self, deadline: Deadline) -> bool {
        let has_news = || self.inner.has_data() || self.inner.is_told() || self.inner.is_stopped();
        self.inner.parker.wait_in(&*self.udp.tables.host, has_news, deadline, &Clock)
    }

    fn busy_poll(&self, nonblocking: bool) {
        let host = &*self.udp.tables.host;
        let busy = self.inner.busy();
        if busy.busy_poll_usecs == 0 {
            return host.poll_deferred();
        }
        if let Some(params) = busy.busy_params(nonblocking, host.first_napi_id()) {
            host.busy_loop(busy.napi_id, params, &mut || self.inner.has_data() || self.inner.is_told());
        }
    }
}

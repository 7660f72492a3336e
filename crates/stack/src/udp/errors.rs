//! The queue of errors that a socket with `IP_RECVERR` has: each with what was said, by whom, and of which datagram
//! (`net/ipv4/ip_sockglue.c ip_icmp_error`, `ip_local_error`, `ip_recv_error`).
//!
//! A poll leaves an error and goes on ([`Inbox`]); programs that read wait for each other alone.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use napier_ring::Inbox;

use crate::errno::errno;

/// Errors that wait to be read; more are lost, as where the kernel's receive buffer is full.
const ERRORS_MAX: usize = 64;

/// What became of a datagram that was sent, as [`UdpSocket::recv_error`](crate::UdpSocket::recv_error) tells it (`struct
/// sock_extended_err`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentError {
    /// The error's number (`ee_errno`).
    pub errno: i32,
    /// Who says so: a host or router that sent an ICMP message (`SO_EE_OFFENDER`); `None`: this machine.
    pub by: Option<IpAddr>,
    /// Type and code of the message (`ee_type`, `ee_code`); 0 if there was none.
    pub icmp: (u8, u8),
    /// For `EMSGSIZE` the bytes of the longest packet that the path takes (`ee_info`), else 0.
    pub mtu: u32,
    /// Where the datagram was sent to.
    pub to: SocketAddr,
}

impl SentError {
    /// As an error.
    #[must_use]
    pub fn error(&self) -> io::Error {
        errno(self.errno)
    }
}

/// The queue.
pub(crate) struct SentErrors {
    new: Inbox<SentError>,
    taken: Mutex<VecDeque<SentError>>,
    count: AtomicUsize,
}

impl Default for SentErrors {
    fn default() -> Self {
        Self { new: Inbox::new(), taken: Mutex::default(), count: AtomicUsize::new(0) }
    }
}

impl SentErrors {
    /// Leaves one, if there is room.
    pub(super) fn leave(&self, error: SentError) {
        // Counted before it can be taken: the count is never below what is there. Relaxed: who is told looks after the push.
        if self.count.fetch_add(1, Ordering::Relaxed) < ERRORS_MAX {
            self.new.push(error);
        } else {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The oldest, and the number of the one behind it.
    fn take(&self) -> Option<(SentError, Option<SentError>)> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.extend(self.new.take_any());
        let first = taken.pop_front()?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some((first, taken.front().copied()))
    }

    /// The oldest. What the next call would have been `told` is the next of the queue then, if that came by ICMP
    /// (`net/core/skbuff.c sock_dequeue_err_skb`).
    ///
    /// # Errors
    /// EAGAIN if there is none.
    pub(super) fn recv(&self, told: &AtomicI32) -> io::Result<SentError> {
        let (error, next) = self.take().ok_or_else(|| errno(libc::EAGAIN))?;
        if error.by.is_some() {
            let pending = next.filter(|next| next.by.is_some()).map_or(0, |next| next.errno);
            // Relaxed: of two calls one has it.
            told.store(pending, Ordering::Relaxed);
        }
        Ok(error)
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        while self.take().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_never_below_what_is_there() {
        let errors = SentErrors::default();
        let to = SocketAddr::from(([10, 0, 0, 2], 7));
        let error = SentError { errno: libc::ECONNREFUSED, by: None, icmp: (0, 0), mtu: 0, to };
        std::thread::scope(|scope| {
            let leaves = [(); 2].map(|()| scope.spawn(|| (0..10_000).for_each(|_| errors.leave(error))));
            while leaves.iter().any(|thread| !thread.is_finished()) {
                errors.clear();
                assert!(errors.count.load(Ordering::Relaxed) <= ERRORS_MAX + 2);
            }
        });
        errors.clear();
        assert!(errors.is_empty());
        (0..70).for_each(|_| errors.leave(error));
        assert_eq!(std::iter::from_fn(|| errors.take()).count(), ERRORS_MAX);
        assert!(errors.is_empty());
    }
}

//! What a UDP socket is told besides datagrams, and what an event context sees of it.
//!
//! An error that hosts and routers have reported (`sk_err` in `net/ipv4/udp.c`): the next call has it, and a waiting one ends
//! with it. That there is room to send again: those that wait for it are woken. The end of the engine: all waits end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::icmp::{Told, is_for_datagrams};

use super::sndbuf::BufferOwner;
use crate::device::OnRoom;
use crate::errno::{errno, of_icmp};
use crate::event::{Interest, STOPPED, Source, Watchable, Watched};
use crate::host::Host;
use crate::udp::errors::SentError;
use crate::udp::queue::UdpInner;
use crate::udp::socket::UdpSocket;
use crate::wait::park::{Sleeper, Whom};
use crate::wire::quote::Quoted;

impl UdpInner {
    /// A datagram of ours did not get where it was to go, by a message that quotes it; `mtu`: what it says of the path.
    pub(crate) fn told(&self, told: Told, quoted: &Quoted, mtu: u32) {
        let connected = self.ends.load().tuple.peer.is_some();
        let wants_all = self.egress.recverr.load(Ordering::Relaxed);
        if !is_for_datagrams(told, connected, wants_all) {
            return;
        }
        let errno = of_icmp(told.error);
        if wants_all {
            let (by, icmp) = quoted.said.map_or((None, (0, 0)), |(by, kind, code)| (Some(by.ip()), (kind, code)));
            self.errors.leave(SentError { errno, by, icmp, mtu, to: quoted.to.shown(self.family, 0) });
        }
        // Release: pairs with the Acquire in `is_told`; the sleepers below look again.
        self.told.store(errno, Ordering::Release);
        self.source.notify(self.napi_id.load(Ordering::Relaxed), Interest::ERR);
        self.parker.wake_all();
        self.send_parker.wake_all();
    }

    #[inline]
    pub(crate) fn is_told(&self) -> bool {
        self.told.load(Ordering::Acquire) != 0
    }

    /// # Errors
    /// What was told, once.
    #[inline]
    pub(crate) fn check_told(&self) -> io::Result<()> {
        if self.is_told() { self.take_told().map_or(Ok(()), Err) } else { Ok(()) }
    }

    /// What was told, if anything was: it is pending no more.
    #[cold]
    pub(crate) fn take_told(&self) -> Option<io::Error> {
        // Relaxed: of two calls one has it.
        Some(self.told.swap(0, Ordering::Relaxed)).filter(|code| *code != 0).map(errno)
    }

    pub(super) fn engine_stopped(&self) {
        // Release: pairs with the Acquire in `is_stopped`.
        self.stopped.store(true, Ordering::Release);
        self.source.notify(self.napi_id.load(Ordering::Relaxed), STOPPED);
        self.parker.wake_all();
        self.send_parker.wake_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        // Acquire: pairs with the Release in `engine_stopped`.
        self.stopped.load(Ordering::Acquire)
    }

    /// Tells threads and contexts that wait to send.
    pub(crate) fn tell_writable(&self) {
        self.send_parker.wake();
        self.source.notify(self.napi_id.load(Ordering::Relaxed), Interest::OUT);
    }
}

impl OnRoom for UdpInner {
    fn on_room(self: Arc<Self>) -> bool {
        let served = self.send_buffer.is_served();
        if served {
            self.tell_writable();
        }
        served
    }
}

impl BufferOwner for UdpInner {
    fn credited(&self) {
        self.send_buffer.is_credited();
        self.tell_writable();
    }
}

impl Sleeper for UdpInner {
    fn call(&self, whom: Whom) {
        match whom {
            Whom::Reader => self.parker.call_owed(),
            Whom::Writer => self.send_parker.call_owed(),
        }
    }
}

impl Watchable for UdpSocket {
    fn watched(&self) -> Arc<dyn Watched> {
        self.inner().clone()
    }

    fn host(&self) -> Option<Arc<dyn Host>> {
        Some(self.udp.tables.host.clone())
    }
}

impl Watched for UdpInner {
    fn source(&self) -> &Source {
        &self.source
    }

    fn ready(&self) -> Interest {
        let ready = if self.has_data() { Interest::IN } else { Interest::NONE };
        let ready = if self.send_buffer.is_writable() { ready | Interest::OUT } else { ready };
        let ready = if self.is_told() || !self.errors.is_empty() { ready | Interest::ERR } else { ready };
        if self.is_stopped() { ready | STOPPED } else { ready }
    }

    fn napi_id(&self) -> u32 {
        // Relaxed: the id is a hint that orders nothing.
        self.napi_id.load(Ordering::Relaxed)
    }
}

//! UDP sockets.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use napier_core::family::SocketFamily;
use napier_core::time::Instant;

use super::Udp;
use crate::errno::errno;
use crate::tables::bind::check_reach;
use crate::tables::demux::Tuple;
use crate::tables::path::{Destination, route};
use crate::udp::builder::UdpSocketBuilder;
use crate::udp::errors::SentError;
use crate::udp::queue::{Ends, UdpInner};
use crate::udp::settings::SendMeta;
use crate::wire::PROTO_UDP;
use crate::wire::addr::{self, Addr, End};

/// A UDP socket of a [`NetNs`](crate::NetNs). May be used by several threads at once; dropping it closes it.
///
/// Calls behave as their namesakes of the kernel, and so do the error numbers ([`io::Error::raw_os_error`]). Frames stay
/// where the device put them: a datagram is copied once, when it is read, or not at all ([`recv_batch`]).
///
/// [`recv_batch`]: Self::recv_batch
///
/// ```no_run
/// use napier_runtime::socket::{NetNs, ReusePort, UdpSocket};
///
/// /// One of several workers, each with an instance of its own.
/// fn worker(ns: &NetNs) -> std::io::Result<()> {
///     let socket = UdpSocket::builder().reuse_port(ReusePort::ByNapi).bind(ns, "0.0.0.0:11211")?;
///     loop {
///         socket.recv_batch(32, &mut |payload, from| {
///             // Nothing can be done about one answer that does not fit into the ring: the client asks again.
///             let _ = socket.send_to(payload, from);
///         })?;
///     }
/// }
/// ```
pub struct UdpSocket {
    pub(super) inner: Arc<UdpInner>,
    pub(super) udp: Arc<Udp>,
}

impl UdpSocket {
    /// For settings that must be known before binding.
    #[must_use]
    pub fn builder() -> UdpSocketBuilder {
        UdpSocketBuilder::default()
    }

    /// See [`connect`](Self::connect).
    pub(crate) fn connect_to(&self, peer: SocketAddr) -> io::Result<()> {
        let target = Destination::new(&peer);
        let tables = &self.udp.tables;
        let writer = &mut tables.lock();
        tables.check_running()?;
        let old = self.inner.ends.load().tuple;
        check_reach(self.inner.family, old.local.addr, addr::to(&peer))?;
        let own = route(&tables.snapshot.load(), self.inner.wishes.by_its_interface(target))?.own;
        let addr = if old.local.addr.is_any() { own } else { old.local.addr };
        let new = Tuple { local: End { addr, ..old.local }, peer: Some(target.dst) };
        writer.ports(PROTO_UDP).relocate(old.local, new.local, self.inner.reuse);
        self.inner.set_connected();
        self.udp.published.edit(writer, |sockets| {
            sockets.remove(old, &self.inner);
            sockets.insert(new, &self.inner, self.inner.reuse);
        });
        self.inner.ends.store(Arc::new(Ends { tuple: new, peer_scope: target.scope }));
        // Release: pairs with the Acquire load in `send` — who sees this number sees the ends above.
        self.inner.ends_epoch.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The address that the socket is bound to.
    ///
    /// # Errors
    /// None today.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.inner.own_addr())
    }

    /// The address that the socket is connected to.
    ///
    /// # Errors
    /// `ENOTCONN` if it is not.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let ends = self.inner.ends.load();
        let peer = ends.tuple.peer.ok_or_else(|| errno(libc::ENOTCONN))?;
        Ok(peer.shown(self.inner.family, ends.peer_scope))
    }

    /// Whether calls that find nothing to read, or no room to send, return `EAGAIN` instead of waiting.
    ///
    /// # Errors
    /// None today.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.inner.nonblocking.set(nonblocking);
        Ok(())
    }

    /// How long a blocking read sleeps before it returns `EAGAIN`, to the nanosecond; `None`: for ever. As in the kernel,
    /// time spent busy polling before the sleep is not counted.
    ///
    /// # Errors
    /// `EINVAL` for zero, as in `std`.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) {
            return Err(errno(libc::EINVAL));
        }
        let ns = timeout.map_or(0, |t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX));
        // Relaxed: each call looks once.
        self.inner.read_timeout_ns.store(ns, Ordering::Relaxed);
        Ok(())
    }

    /// Sends one datagram to `to`. Success means that it is in the device's ring or in its queueing discipline, or that it
    /// waits for an unknown neighbour to answer, in the order of sending; what does not fit there is dropped oldest first and
    /// counted, as in the kernel (`unres_qlen_bytes`). One that the discipline dropped is counted as
    /// SndbufErrors and is an error only with [`set_recverr`](Self::set_recverr).
    ///
    /// # Errors
    /// `EMSGSIZE` for more than 65507 bytes, and where [`set_mtu_discovery`](Self::set_mtu_discovery) forbids to cut what does not fit
    /// into one packet of the device, or of the way as a router has said;
    /// what was told of one that was sent before, as for [`take_error`](Self::take_error); `ENETUNREACH`, `EACCES`,
    /// `EINVAL`, `EAFNOSUPPORT` as for [`connect`](Self::connect); `EHOSTUNREACH` if the neighbour did not answer three
    /// questions; `EAGAIN` (non-blocking) if the send buffer or the discipline has no room, else the call waits until there
    /// is; without a discipline `EAGAIN` or, after yielding, `ENOBUFS` if the ring is full; `ENOBUFS` (non-blocking) too if there was
    /// room for some fragments of a long datagram only, which is lost; `ENETDOWN`; `ESHUTDOWN` if the
    /// engine has stopped.
    #[inline]
    pub fn send_to(&self, payload: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.send_with(Some(to), payload.len(), |slot| copy(slot, payload))
    }

    /// Sends one datagram to the peer.
    ///
    /// # Errors
    /// `EDESTADDRREQ` if the socket is not connected; else as [`send_to`](Self::send_to).
    #[inline]
    pub fn send(&self, payload: &[u8]) -> io::Result<usize> {
        self.send_with(None, payload.len(), |slot| copy(slot, payload))
    }

    /// Sends one datagram whose payload `build` writes into the frame itself: it gets `len_max` bytes (with whatever was
    /// in the frame before) and returns how many of them it used. It is called at most once, with the transmit ring
    /// claimed, and must not send by the same device.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to), with `len_max` for the length.
    ///
    /// # Panics
    /// If `build` returns more than `len_max`.
    #[inline]
    pub fn send_with(
        &self,
        to: Option<SocketAddr>,
        len_max: usize,
        build: impl FnOnce(&mut [u8]) -> usize,
    ) -> io::Result<usize> {
        self.send_departing(to, len_max, None, build)
    }

    /// Sends one datagram to `to`, or to the peer, that leaves at `departs_ns` at the earliest (`Engine::now_ns`) if the
    /// transmit queue has the discipline `fq`, as `SCM_TXTIME` says; others send it at once.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to).
    pub fn send_at(&self, payload: &[u8], to: Option<SocketAddr>, departs_ns: u64) -> io::Result<usize> {
        let departs = Instant { ns: departs_ns };
        self.send_departing(to, payload.len(), Some(departs), |slot| copy(slot, payload))
    }

    /// Sends one datagram as `meta` says: where to, from which own address, with which class.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to); `EINVAL` for a source that is not an own address of the family, for a time to live of 0 and for more than
    /// 128 segments; `EMSGSIZE` for segments that are longer than a packet of the path.
    pub fn send_msg(&self, payload: &[u8], meta: &SendMeta) -> io::Result<usize> {
        let SendMeta { to, src_ip, ifindex, tos, ttl, segment_bytes, departs_ns } = *meta;
        if src_ip.is_none() && ifindex == 0 && tos.is_none() && ttl.is_none() && segment_bytes.is_none() {
            let departs = departs_ns.map(|ns| Instant { ns });
            return self.send_departing(to, payload.len(), departs, |slot| copy(slot, payload));
        }
        if ttl == Some(0) {
            return Err(errno(libc::EINVAL));
        }
        let target = to.map(|to| self.target(&to)).transpose()?;
        let src = src_ip.filter(|ip| !ip.is_unspecified()).map(Addr::from_ip);
        let wish = self.inner.wishes.get().with(tos, ttl, src, ifindex).in_segments(segment_bytes);
        let (tables, when) = (&self.udp.tables, departs_ns.map(|ns| Instant { ns }));
        self.inner.send_wished(tables, target, (payload, when), &wish)
    }

    /// The pending error (`SO_ERROR`), which is pending no more: what a host or a router has said of a datagram that was sent, such
    /// as `ECONNREFUSED`, `EHOSTUNREACH`, `ENETUNREACH`, `EMSGSIZE`. As in the kernel, only a socket that is connected gets
    /// errors, and only those that are no passing trouble; with [`set_recverr`](Self::set_recverr) each does, and all.
    ///
    /// # Errors
    /// None today.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.inner.take_told())
    }

    /// Whether the socket hears of everything that becomes of its datagrams (`IP_RECVERR`, default no): one that a queueing
    /// discipline dropped is an error of its send, `ENOBUFS`, which is counted as SndbufErrors in any case; and see
    /// [`take_error`](Self::take_error).
    pub fn set_recverr(&self, on: bool) {
        self.inner.egress.recverr.store(on, Ordering::Relaxed);
        if !on {
            self.inner.errors.clear();
        }
    }

    /// The oldest of the errors that wait, with who said so and of which datagram (`MSG_ERRQUEUE`): for sockets with
    /// [`set_recverr`](Self::set_recverr), which keep 64. Never waits.
    ///
    /// # Errors
    /// `EAGAIN` if there is none.
    pub fn recv_error(&self) -> io::Result<SentError> {
        self.inner.errors.recv(&self.inner.told)
    }

    /// # Errors
    /// EAFNOSUPPORT for an IPv6 address, mapped or not, and a socket of IPv4.
    #[inline]
    fn target(&self, to: &SocketAddr) -> io::Result<Destination> {
        if to.is_ipv6() && self.inner.family == SocketFamily::V4 {
            return Err(errno(libc::EAFNOSUPPORT));
        }
        Ok(Destination::new(to))
    }

    #[inline]
    fn send_departing(
        &self,
        to: Option<SocketAddr>,
        len_max: usize,
        departs: Option<Instant>,
        build: impl FnOnce(&mut [u8]) -> usize,
    ) -> io::Result<usize> {
        let target = match to {
            Some(to) => Some(self.target(&to)?),
            None => None,
        };
        let mut build = Some(build);
        self.inner.send(&self.udp.tables, target, len_max, departs, &mut |slot| {
            let build = build.take().expect("a slot is built once");
            build(slot)
        })
    }

    /// A socket that is in the tables already.
    pub(crate) fn from_parts(inner: Arc<UdpInner>, udp: Arc<Udp>) -> Self {
        Self { inner, udp }
    }

    /// The half that outlives the handle.
    pub(crate) fn inner(&self) -> &Arc<UdpInner> {
        &self.inner
    }
}

/// As much as fits.
#[inline]
pub(super) fn copy(to: &mut [u8], from: &[u8]) -> usize {
    let len = to.len().min(from.len());
    to[..len].copy_from_slice(&from[..len]);
    len
}

impl Drop for UdpSocket {
    /// Unread datagrams are lost, which `UdpCloseDiscards` counts, and their frames go home.
    fn drop(&mut self) {
        self.inner.source.close();
        let writer = &mut self.udp.tables.lock();
        let tuple = self.inner.ends.load().tuple;
        writer.ports(PROTO_UDP).release(tuple.local, self.inner.reuse);
        self.udp.send_buffers.close(&self.inner.send_buffer);
        self.udp.published.edit(writer, |sockets| sockets.remove(tuple, &self.inner));
    }
}

impl std::fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tuple = self.inner.ends.load().tuple;
        f.debug_struct("UdpSocket").field("local", &tuple.local).field("peer", &tuple.peer).finish_non_exhaustive()
    }
}

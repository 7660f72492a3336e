//! What programs set on a bound socket, and ask of it.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, Ordering};

use napier_core::fragments::MtuDiscovery;

use crate::errno::errno;
use crate::options::{OptionError, SocketOption};
use crate::tables::path::{Destination, route};
use crate::udp::socket::UdpSocket;
use crate::udp::wishes::Needs;

impl UdpSocket {
    /// Sets an option.
    ///
    /// # Errors
    /// See the table at [`SocketOption`].
    pub fn setsockopt(&self, option: SocketOption, value: i32) -> Result<(), OptionError> {
        self.inner.set_option(&*self.udp.tables.host, option, value)
    }

    /// Reads an option.
    ///
    /// # Errors
    /// See the table at [`SocketOption`].
    pub fn getsockopt(&self, option: SocketOption) -> Result<i32, OptionError> {
        self.inner.option(&*self.udp.tables.host, option)
    }

    /// The byte of service, DSCP and ECN, of packets over IPv4 (`IP_TOS`, default 0). [`SendMeta::tos`](crate::SendMeta::tos) is for
    /// one datagram.
    ///
    /// # Errors
    /// None today.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        self.wish(&self.inner.wishes.tos[0], tos)
    }

    /// See [`set_tos`](Self::set_tos).
    ///
    /// # Errors
    /// None today.
    pub fn tos(&self) -> io::Result<u8> {
        Ok(self.inner.wishes.tos[0].load(Ordering::Relaxed))
    }

    /// The traffic class of packets over IPv6 (`IPV6_TCLASS`, default 0).
    ///
    /// # Errors
    /// None today.
    pub fn set_tclass_v6(&self, class: u8) -> io::Result<()> {
        self.wish(&self.inner.wishes.tos[1], class)
    }

    /// See [`set_tclass_v6`](Self::set_tclass_v6).
    ///
    /// # Errors
    /// None today.
    pub fn tclass_v6(&self) -> io::Result<u8> {
        Ok(self.inner.wishes.tos[1].load(Ordering::Relaxed))
    }

    /// How many hops packets over IPv4 have (`IP_TTL`, default 64).
    ///
    /// # Errors
    /// `EINVAL` outside of 1 to 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.wish(&self.inner.wishes.hops[0], hops(ttl)?)
    }

    /// See [`set_ttl`](Self::set_ttl).
    ///
    /// # Errors
    /// None today.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(self.inner.wishes.hops[0].load(Ordering::Relaxed).into())
    }

    /// How many hops packets over IPv6 have (`IPV6_UNICAST_HOPS`, default 64).
    ///
    /// # Errors
    /// `EINVAL` outside of 1 to 255.
    pub fn set_unicast_hops_v6(&self, hops_max: u32) -> io::Result<()> {
        self.wish(&self.inner.wishes.hops[1], hops(hops_max)?)
    }

    /// See [`set_unicast_hops_v6`](Self::set_unicast_hops_v6).
    ///
    /// # Errors
    /// None today.
    pub fn unicast_hops_v6(&self) -> io::Result<u32> {
        Ok(self.inner.wishes.hops[1].load(Ordering::Relaxed).into())
    }

    /// What becomes of datagrams that are longer than the path takes (`IP_MTU_DISCOVER`, `IPV6_MTU_DISCOVER`; default
    /// [`Want`](MtuDiscovery::Want): they are cut).
    ///
    /// # Errors
    /// None today.
    pub fn set_mtu_discovery(&self, discovery: MtuDiscovery) -> io::Result<()> {
        self.inner.wishes.set_discovery(discovery);
        self.wishes_changed();
        Ok(())
    }

    /// See [`set_mtu_discovery`](Self::set_mtu_discovery).
    ///
    /// # Errors
    /// None today.
    pub fn mtu_discovery(&self) -> io::Result<MtuDiscovery> {
        Ok(self.inner.wishes.discovery())
    }

    /// Bytes of the longest packet that the path to the peer takes, as far as is known (`IP_MTU`, `IPV6_MTU`). A datagram has 28
    /// bytes less over IPv4, 48 over IPv6.
    ///
    /// # Errors
    /// `ENOTCONN` if the socket is not connected; `ENETUNREACH` if nothing leads to the peer any more.
    pub fn mtu(&self) -> io::Result<usize> {
        let ends = self.inner.ends.load();
        let dst = ends.tuple.peer.ok_or_else(|| errno(libc::ENOTCONN))?;
        let target = self.inner.wishes.by_its_interface(Destination { dst, scope: ends.peer_scope });
        let snapshot = self.udp.tables.snapshot.load();
        let interface = route(&snapshot, target)?.interface;
        Ok(snapshot.path_mtu(dst.addr, interface.mtu).0)
    }

    /// Whether [`recv_msg`](Self::recv_msg) tells when datagrams came that come from now on (`SO_TIMESTAMPNS`, default no): when a poll
    /// took them from the ring.
    ///
    /// # Errors
    /// None today.
    pub fn set_timestamps(&self, on: bool) -> io::Result<()> {
        self.inner.set_needs(Needs::STAMPED, on);
        Ok(())
    }

    /// Sends by one interface only, and takes nothing that comes in by others (`SO_BINDTOIFINDEX`); 0: any. Two sockets with one place do not
    /// share it by being bound to different interfaces.
    ///
    /// # Errors
    /// `ENODEV` if there is no such interface.
    pub fn bind_interface(&self, ifindex: u32) -> io::Result<()> {
        if ifindex != 0 && self.udp.tables.snapshot.load().interface(ifindex).is_none() {
            return Err(errno(libc::ENODEV));
        }
        self.inner.wishes.set_ifindex(ifindex);
        self.inner.set_needs(Needs::BOUND, ifindex != 0);
        self.wishes_changed();
        Ok(())
    }

    /// Whether the socket takes IPv6 alone (`IPV6_V6ONLY`), as its builder had it.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for a socket of IPv4.
    pub fn only_v6(&self) -> io::Result<bool> {
        use napier_core::family::SocketFamily;
        match self.inner.family {
            SocketFamily::V4 => Err(errno(libc::EOPNOTSUPP)),
            SocketFamily::V6 => Ok(false),
            SocketFamily::V6Only => Ok(true),
        }
    }

    fn wish(&self, of: &AtomicU8, value: u8) -> io::Result<()> {
        of.store(value, Ordering::Relaxed);
        self.wishes_changed();
        Ok(())
    }

    /// What the socket remembers of ways is worked out again.
    fn wishes_changed(&self) {
        // Release: pairs with the Acquire load in `send` — who sees this number sees the wishes.
        self.inner.ends_epoch.fetch_add(1, Ordering::Release);
    }
}

fn hops(value: u32) -> io::Result<u8> {
    u8::try_from(value).ok().filter(|hops| *hops != 0).ok_or_else(|| errno(libc::EINVAL))
}

/// What [`UdpSocket::send_msg`] wants of one datagram, where the kernel has control messages. Nothing is set at first: the
/// datagram goes to the peer, as the socket's settings have it.
///
/// An IPv6 socket that is not [`only_v6`](crate::UdpSocketBuilder::only_v6) sends to IPv4 addresses too, mapped
/// (`::ffff:10.0.0.2`) or plain, if it is bound to `::` or to a mapped address. Others get `ENETUNREACH`, an IPv4 socket
/// `EAFNOSUPPORT` for any IPv6 address.
#[derive(Copy, Clone, Debug, Default)]
pub struct SendMeta {
    pub(super) to: Option<std::net::SocketAddr>,
    pub(super) src_ip: Option<IpAddr>,
    pub(super) ifindex: u32,
    pub(super) tos: Option<u8>,
    pub(super) ttl: Option<u8>,
    pub(super) segment_bytes: Option<u16>,
    pub(super) departs_ns: Option<u64>,
}

impl SendMeta {
    /// To this address.
    #[must_use]
    pub fn to(addr: std::net::SocketAddr) -> Self {
        Self { to: Some(addr), ..Self::default() }
    }

    /// From this own address (`IP_PKTINFO`, `IPV6_PKTINFO`).
    #[must_use]
    pub fn src_ip(mut self, addr: IpAddr) -> Self {
        self.src_ip = Some(addr);
        self
    }

    /// By this interface (`IP_PKTINFO`, `IPV6_PKTINFO`); 0: any.
    #[must_use]
    pub fn ifindex(mut self, ifindex: u32) -> Self {
        self.ifindex = ifindex;
        self
    }

    /// With this byte of service or traffic class (`IP_TOS`, `IPV6_TCLASS`); its two low bits are ECN.
    #[must_use]
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = Some(tos);
        self
    }

    /// With so many hops (`IP_TTL`, `IPV6_HOPLIMIT`), not 0.
    #[must_use]
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Cut into datagrams of so many bytes, of which the last may be shorter (`UDP_SEGMENT`); 0: not cut. At most 128, none longer than a packet of
    /// the path. A non-blocking call that finds room for some only gives how many bytes these have; the rest is for another call.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u16) -> Self {
        self.segment_bytes = Some(bytes);
        self
    }

    /// At this time of the engine's clock at the earliest, as [`UdpSocket::send_at`] (`SCM_TXTIME`).
    #[must_use]
    pub fn departs_ns(mut self, ns: u64) -> Self {
        self.departs_ns = Some(ns);
        self
    }
}

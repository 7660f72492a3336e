//! Receiving: calls that wait for a datagram, and what they tell of it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use napier_core::family::SocketFamily;
use napier_sys::clock::Clock;

use crate::udp::queue::{Attempt, UdpInner};
use crate::udp::socket::{UdpSocket, copy};
use crate::udp::taken::Taken;
use crate::udp::wishes::Needs;
use crate::wire::Meta;
use crate::wire::addr::{Addr, End};

/// What [`UdpSocket::recv_msg`] tells of a datagram beside its bytes: what the kernel has control messages for, each of which
/// a program has to ask for there. Here nothing has to be set but for [`received`](Self::received).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecvMeta {
    /// The sender.
    pub from: SocketAddr,
    /// Bytes written to the buffer.
    pub len: usize,
    /// Bytes that the datagram has (`MSG_TRUNC`); more than `len` if the buffer was too small.
    pub whole_len: usize,
    /// The own address that it was sent to (`IP_PKTINFO`, `IPV6_RECVPKTINFO`).
    pub dst_ip: IpAddr,
    /// The number of the interface that it came in by (`IP_PKTINFO`, `IPV6_RECVPKTINFO`); 0 for numbers above 32767.
    pub ifindex: u32,
    /// The byte of service or traffic class: DSCP and ECN (`IP_RECVTOS`, `IPV6_RECVTCLASS`).
    pub tos: u8,
    /// How many hops it had left (`IP_RECVTTL`, `IPV6_RECVHOPLIMIT`).
    pub ttl: u8,
    /// Bytes of each datagram that was merged but the last, which may be shorter (`UDP_GRO`).
    pub segment_len: usize,
    /// Datagrams that were merged; 1: none was.
    pub segments: u32,
    /// When a poll took it, with [`set_timestamps`](UdpSocket::set_timestamps) (`SO_TIMESTAMPNS`).
    pub received: Option<SystemTime>,
}

impl RecvMeta {
    /// Whether the buffer was too small for all of it.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.len < self.whole_len
    }

    /// The two bits of explicit congestion notification (RFC 3168).
    #[must_use]
    pub const fn ecn(&self) -> u8 {
        self.tos & 3
    }

    /// What a frame says of the datagram in it, or of the first of several that are merged.
    fn of(family: SocketFamily, meta: Meta, frame: &[u8]) -> Self {
        let (from, ifindex) = meta.source(frame);
        let control = meta.control(frame);
        let whole_len = meta.payload().len();
        Self {
            from: from.shown(family, ifindex),
            len: 0,
            whole_len,
            dst_ip: shown_ip(control.dst, family),
            ifindex,
            tos: control.tos,
            ttl: control.ttl,
            segment_len: whole_len,
            segments: 1,
            received: meta.stamp(frame).map(|at| Clock.system_time(at)),
        }
    }
}

fn shown_ip(addr: Addr, family: SocketFamily) -> IpAddr {
    End { addr, port: 0 }.shown(family, 0).ip()
}

/// What [`UdpSocket::recv_merged`] received.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct MergedDatagram {
    /// Bytes written to the buffer.
    pub bytes: usize,
    /// Payload of each datagram that was merged but the last, which may be shorter.
    pub segment_bytes: usize,
    /// Datagrams that were merged; 1: none was.
    pub segments: u32,
    /// The sender.
    pub from: SocketAddr,
}

impl UdpSocket {
    /// Receives one datagram into `buffer`; what does not fit is lost. Gives the number of bytes written and the sender.
    ///
    /// # Errors
    /// `EAGAIN` if nothing came, in non-blocking mode or within the read timeout; what was told of a datagram that was sent, as
    /// for [`take_error`](Self::take_error); `ESHUTDOWN` if the engine has stopped.
    #[inline]
    pub fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        if self.inner.needs(Needs::MERGED | Needs::MAPPED) {
            return self.recv_shown(buffer);
        }
        self.wait_for(|| {
            self.inner.read_one(|meta, frame| {
                let (from, ifindex) = meta.source(frame);
                (copy(buffer, &frame[meta.payload()]), from.socket_addr(ifindex))
            })
        })
    }

    fn recv_shown(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        if self.inner.needs(Needs::MERGED) {
            return self.recv_msg(buffer).map(|meta| (meta.len, meta.from));
        }
        self.wait_for(|| {
            self.inner.read_one(|meta, frame| {
                let (from, ifindex) = meta.source(frame);
                (copy(buffer, &frame[meta.payload()]), from.shown(self.inner.family, ifindex))
            })
        })
    }

    /// As [`recv_from`](Self::recv_from), without the sender.
    ///
    /// # Errors
    /// As [`recv_from`](Self::recv_from).
    #[inline]
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.inner.needs(Needs::MERGED) {
            return self.recv_msg(buffer).map(|meta| meta.len);
        }
        self.wait_for(|| self.inner.read_one(|meta, frame| copy(buffer, &frame[meta.payload()])))
    }

    /// As [`recv_from`](Self::recv_from), and tells all that there is to tell of the datagram: whether it was cut, where it
    /// was sent to, its class, when it came. With [`SocketOption::UdpGro`](crate::SocketOption::UdpGro) it receives all of
    /// a merged one, one behind the other.
    ///
    /// ```no_run
    /// # fn answer(socket: &napier_runtime::socket::UdpSocket) -> std::io::Result<()> {
    /// use napier_runtime::socket::SendMeta;
    /// let mut buffer = [0; 2048];
    /// let meta = socket.recv_msg(&mut buffer)?;
    /// // From the address that was asked, though the socket has several.
    /// socket.send_msg(&buffer[..meta.len], &SendMeta::to(meta.from).src_ip(meta.dst_ip))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`recv_from`](Self::recv_from).
    pub fn recv_msg(&self, buffer: &mut [u8]) -> io::Result<RecvMeta> {
        self.wait_for(|| read_msg(&self.inner, buffer, false))
    }

    /// As [`recv_msg`](Self::recv_msg), but the datagram stays where it is (`MSG_PEEK`).
    ///
    /// # Errors
    /// As [`recv_from`](Self::recv_from).
    pub fn peek_msg(&self, buffer: &mut [u8]) -> io::Result<RecvMeta> {
        self.wait_for(|| read_msg(&self.inner, buffer, true))
    }

    /// As [`recv_from`](Self::recv_from), but the datagram stays where it is.
    ///
    /// # Errors
    /// As [`recv_from`](Self::recv_from).
    pub fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.peek_msg(buffer).map(|meta| (meta.len, meta.from))
    }

    /// As [`recv`](Self::recv), but the datagram stays where it is.
    ///
    /// # Errors
    /// As [`recv_from`](Self::recv_from).
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.peek_msg(buffer).map(|meta| meta.len)
    }

    /// Receives one datagram, or with [`SocketOption::UdpGro`](crate::SocketOption::UdpGro) all of a merged one, one behind the
    /// other: what the kernel tells by `UDP_GRO` in a control message is [`MergedDatagram::segment_bytes`]. What does not fit
    /// is lost; 65535 bytes are always enough.
    ///
    /// # Errors
    /// As [`recv_from`](Self::recv_from).
    pub fn recv_merged(&self, buffer: &mut [u8]) -> io::Result<MergedDatagram> {
        let RecvMeta { len: bytes, segment_len: segment_bytes, segments, from, .. } = self.recv_msg(buffer)?;
        Ok(MergedDatagram { bytes, segment_bytes, segments, from })
    }

    /// Hands up to `max` datagrams (at most 32) to `each`, in place: nothing is copied. Of a merged one it hands over what
    /// was merged, one by one. Waits for the first as
    /// [`recv_from`](Self::recv_from) does, then takes what is there. Gives how many there were; 0 only for `max` 0.
    ///
    /// The frames go back to the device when the call returns, so `each` should not take long. It may use this socket.
    ///
    /// # Errors
    /// As [`recv_from`](Self::recv_from).
    pub fn recv_batch(&self, max: usize, each: &mut dyn FnMut(&[u8], SocketAddr)) -> io::Result<usize> {
        if max == 0 {
            return Ok(0);
        }
        let mut taken = Taken::new(&self.inner);
        let count = self.wait_for(|| self.inner.take_many(&mut taken, max))?;
        if self.inner.needs(Needs::MAPPED) {
            taken.for_each(|meta, frame| {
                let (from, ifindex) = meta.source(frame);
                each(&frame[meta.payload()], from.shown(self.inner.family, ifindex));
            });
            return Ok(count);
        }
        taken.for_each(|meta, frame| {
            let (from, ifindex) = meta.source(frame);
            each(&frame[meta.payload()], from.socket_addr(ifindex));
        });
        Ok(count)
    }

    /// As [`recv_batch`](Self::recv_batch), with all that there is to tell of each datagram.
    ///
    /// # Errors
    /// As [`recv_from`](Self::recv_from).
    pub fn recv_batch_msg(&self, max: usize, each: &mut dyn FnMut(&[u8], &RecvMeta)) -> io::Result<usize> {
        if max == 0 {
            return Ok(0);
        }
        let mut taken = Taken::new(&self.inner);
        let count = self.wait_for(|| self.inner.take_many(&mut taken, max))?;
        taken.for_each(|meta, frame| {
            let payload = &frame[meta.payload()];
            each(payload, &RecvMeta { len: payload.len(), ..RecvMeta::of(self.inner.family, meta, frame) });
        });
        Ok(count)
    }
}

/// Reads one datagram, or all of a merged one. `keep`: it stays the next.
fn read_msg(socket: &UdpInner, buffer: &mut [u8], keep: bool) -> Attempt<RecvMeta> {
    let mut first: Option<RecvMeta> = None;
    let read = socket.read_merged(keep, |meta, frame| {
        let payload = &frame[meta.payload()];
        if let Some(told) = &mut first {
            told.whole_len += payload.len();
            told.segments += 1;
        }
        let told = first.get_or_insert_with(|| RecvMeta::of(socket.family, meta, frame));
        told.len += copy(&mut buffer[told.len..], payload);
    });
    match (read, first) {
        (Attempt::Read(()), Some(told)) => Attempt::Read(told),
        (Attempt::Contended, _) => Attempt::Contended,
        (Attempt::Read(()) | Attempt::Empty, _) => Attempt::Empty,
    }
}

//! A socket for an endpoint of quinn.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ::quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use ::quinn::{AsyncUdpSocket, UdpPoller};
use napier_runtime::socket::{self, MtuDiscovery, SendMeta, SocketOption};

use crate::udp::UdpSocket;

/// One task that waits until datagrams can be sent.
#[derive(Debug)]
struct Room {
    socket: Arc<UdpSocket>,
}

impl UdpPoller for Room {
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_send_ready(cx)
    }
}

/// Datagrams of one `Transmit`, and that the engine merges into one, at most.
const SEGMENTS_MAX: usize = 64;

impl UdpSocket {
    /// For `quinn::Endpoint::new_with_abstract_socket`: the datagrams that come are merged (`UDP_GRO`), those that leave are never cut
    /// into fragments, and quinn finds the path's MTU itself (`IP_PMTUDISC_PROBE`).
    ///
    /// # Errors
    /// As [`socket::UdpSocket::set_mtu_discovery`].
    pub fn into_quinn(self) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let socket = self.get_ref();
        socket.setsockopt(SocketOption::UdpGro, 1)?;
        socket.set_mtu_discovery(MtuDiscovery::Probe)?;
        Ok(Arc::new(self))
    }
}

impl AsyncUdpSocket for UdpSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Room { socket: self })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut meta = SendMeta::to(transmit.destination);
        if let Some(ip) = transmit.src_ip {
            meta = meta.src_ip(ip);
        }
        if let Some(ecn) = transmit.ecn {
            meta = meta.tos(ecn as u8);
        }
        if let Some(bytes) = transmit.segment_size {
            // No datagram is as long as 16 bits could not say.
            meta = meta.segment_bytes(u16::try_from(bytes).unwrap_or(u16::MAX));
        }
        match self.get_ref().send_msg(transmit.contents, &meta) {
            // What there was no room for is lost, as anywhere on the path: QUIC finds out.
            Ok(_) => Ok(()),
            Err(error) if self.has_ended() || error.kind() == io::ErrorKind::WouldBlock => Err(error),
            // So are probes of the MTU that are too long for the interface.
            Err(_) => Ok(()),
        }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut places = buffers.iter_mut().zip(metas.iter_mut());
        let Some((buffer, meta)) = places.next() else { return Poll::Ready(Ok(0)) };
        *meta = ready!(self.poll_read(cx, |socket| receive(socket, buffer)))?;
        let mut count = 1;
        for (buffer, meta) in places {
            match receive(self.get_ref(), buffer) {
                Ok(received) => *meta = received,
                // The rest is for the next call, an error too.
                Err(_) => break,
            }
            count += 1;
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Self::local_addr(self)
    }

    fn max_transmit_segments(&self) -> usize {
        SEGMENTS_MAX
    }

    fn max_receive_segments(&self) -> usize {
        SEGMENTS_MAX
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

/// What came from one sender.
fn receive(socket: &socket::UdpSocket, buffer: &mut [u8]) -> io::Result<RecvMeta> {
    let received = socket.recv_msg(buffer)?;
    let mut meta = RecvMeta::default();
    meta.addr = received.from;
    meta.len = received.len;
    meta.stride = received.segment_len.min(received.len);
    meta.ecn = EcnCodepoint::from_bits(received.ecn());
    meta.dst_ip = Some(received.dst_ip);
    Ok(meta)
}

//! What has to be known before a UDP socket is bound.

use crate::tables::bind::{Binding, binding};

/// Makes a [`UdpSocket`](crate::UdpSocket) with what has to be known before it is bound.
///
/// ```
/// # use napier_runtime::doc_link;
/// use napier_runtime::socket::UdpSocket;
///
/// let (_engine, device, _) = doc_link()?;
/// let socket = UdpSocket::builder().rcvbuf(1 << 20).bind(device.netns(), "10.77.0.1:7")?;
/// assert_eq!(socket.local_addr()?.port(), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Copy, Clone, Debug, Default)]
pub struct UdpSocketBuilder {
    pub(super) binding: Binding,
    pub(super) rcvbuf_bytes: Option<i32>,
}

impl UdpSocketBuilder {
    binding!(binding, UdpSocket);

    /// As setting [`SocketOption::RcvBuf`](crate::SocketOption::RcvBuf), in bytes.
    #[must_use]
    pub fn rcvbuf(mut self, bytes: i32) -> Self {
        self.rcvbuf_bytes = Some(bytes);
        self
    }
}

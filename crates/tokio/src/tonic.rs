//! Streams of connections for servers of tonic.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::tonic::transport::server::{Connected, TcpConnectInfo};
use tokio_stream::Stream;

use crate::tcp::{TcpListener, TcpStream};

/// The connections that a listener takes, for `serve_with_incoming`. It ends with the first error after the engine has stopped.
#[derive(Debug)]
pub struct TcpListenerStream {
    listener: TcpListener,
}

impl TcpListenerStream {
    /// Of this listener.
    #[must_use]
    pub const fn new(listener: TcpListener) -> Self {
        Self { listener }
    }

    /// The listener.
    #[must_use]
    pub const fn get_ref(&self) -> &TcpListener {
        &self.listener
    }
}

impl Stream for TcpListenerStream {
    type Item = io::Result<TcpStream>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.listener.has_ended() {
            return Poll::Ready(None);
        }
        self.listener.poll_accept(cx).map(|taken| Some(taken.map(|(stream, _)| stream)))
    }
}

/// A service finds both ends in the extensions of a request.
impl Connected for TcpStream {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        TcpConnectInfo { local_addr: self.local_addr().ok(), remote_addr: self.peer_addr().ok() }
    }
}

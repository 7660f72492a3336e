//! The listener for `axum::serve`.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use ::axum::serve::Listener;

use crate::tcp::{TcpListener, TcpStream};

/// Between two tries where a connection could not be taken for want of something, as the program's own listeners do it.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Connections that are gone before they are taken are passed over. Once the engine has stopped none comes any more: end the server by
/// `with_graceful_shutdown`.
impl Listener for TcpListener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match Self::accept(self).await {
                Ok(taken) => return taken,
                Err(_) if self.has_ended() => std::future::pending().await,
                Err(error) if is_of_the_connection(&error) => {}
                Err(_) => tokio::time::sleep(TRY_AGAIN_AFTER).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Self::local_addr(self)
    }
}

fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

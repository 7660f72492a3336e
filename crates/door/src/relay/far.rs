//! What a program's bytes are for.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use napier_runtime::socket::{TcpListener, TcpStream};

use crate::near::NearEnd;

/// The far end of a relay. It does not block.
pub(crate) enum Far {
    /// A connection of the engine.
    Wire(TcpStream),
    /// Another program on the same engine; and what the socket was bound by before it was connected.
    Near(NearEnd, #[expect(dead_code, reason = "it keeps the port")] Option<TcpListener>),
}

impl Far {
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Wire(stream) => stream.send(bytes),
            Self::Near(end, _) => end.send(bytes),
        }
    }

    pub(super) fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Wire(stream) => stream.recv(into),
            Self::Near(end, _) => end.recv(into),
        }
    }

    pub(super) fn end_sending(&self) {
        match self {
            // The peer may have ended the connection before, which the other direction hears of.
            Self::Wire(stream) => drop(stream.shutdown(Shutdown::Write)),
            Self::Near(end, _) => end.end_sending(),
        }
    }

    /// Closing it resets it from now on.
    pub(crate) fn reset_on_close(&self) {
        match self {
            // Zero is a time that it takes.
            Self::Wire(stream) => drop(stream.set_linger(Some(Duration::ZERO))),
            Self::Near(end, _) => end.set_reset(true),
        }
    }

    pub(crate) fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Wire(stream) => stream.local_addr().ok(),
            Self::Near(end, _) => Some(end.local()),
        }
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Wire(stream) => stream.peer_addr().ok(),
            Self::Near(end, _) => Some(end.peer()),
        }
    }

    pub(crate) const fn stream(&self) -> Option<&TcpStream> {
        match self {
            Self::Wire(stream) => Some(stream),
            Self::Near(..) => None,
        }
    }

    pub(crate) const fn near(&self) -> Option<&NearEnd> {
        match self {
            Self::Wire(_) => None,
            Self::Near(end, _) => Some(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::sync::Arc;

    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

    use super::super::{CHUNK_BYTES, Flow, Relay, Room};
    use super::*;
    use crate::near::{Near, NearBell};

    #[test]
    fn what_came_before_a_connection_failed_is_the_programs() {
        let (near, bell) = (Arc::<Near>::default(), Arc::new(NearBell::new().expect("a descriptor")));
        let at = ([192, 0, 2, 10], 80).into();
        let listener = near.listen(at, false, 1, &bell);
        let end = near.connect(None, at).expect("connected");
        let other = listener.accept().expect("it waits");
        other.send(b"last").expect("sent");
        drop(other);
        let made = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None);
        let (program, own) = made.expect("a pair");
        send(&program, b"more", SendFlags::empty()).expect("sent");
        let mut relay = Relay::new(Far::Near(end, None));
        let flow = relay.pump(own.as_fd(), &mut [0; CHUNK_BYTES], &mut Room::default());
        assert_eq!(flow, Flow::Failed(libc::ECONNRESET));
        let mut got = [0; 8];
        assert_eq!(recv(&program, &mut got, RecvFlags::empty()).expect("read").0, 4);
        // The end is told by the error.
        assert_eq!(recv(&program, &mut got, RecvFlags::empty()).expect_err("nothing"), rustix::io::Errno::AGAIN);
    }
}

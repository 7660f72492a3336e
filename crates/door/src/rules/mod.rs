//! Which call on a socket in which state gives which answer. No system call is made here, and nothing of the program is read.
//!
//! ```text
//! Fresh --bind--> Bound --listen--> Listening
//!   |  \--listen---------------------^
//!   |--connect--> Connecting --handshake--> Connected --close--> (gone)
//!   |                 \--refused, blocking--> Fresh
//!   \--bind or connect to what is not the engine's--> the kernel's socket in its place (gone from here)
//! ```

pub(crate) mod datagrams;
#[cfg(test)]
mod kernel_tests;
pub(crate) mod options;
pub(crate) mod reach;
pub(crate) mod rights;
#[cfg(test)]
mod tests;

use reach::Whose;

/// State of a program's socket.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Made, and no more.
    Fresh,
    /// It has an address.
    Bound {
        /// A wildcard, and a port that the program did not choose: as good as no address at all.
        is_any: bool,
    },
    /// It takes connections.
    Listening,
    /// The handshake is under way.
    Connecting,
    /// The handshake is over; halves of it may have ended.
    Connected,
}

/// What is asked of a socket.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum AskedOfSocket {
    Bind(Whose),
    Listen,
    Accept,
    /// Whose the destination is, and whether the call waits for the handshake.
    Connect(Whose, bool),
    /// `connect` with `AF_UNSPEC`.
    Dissolve,
    PeerName,
    /// `recvfrom`.
    Receive,
    /// `sendto` with an address, which TCP ignores once there is a connection.
    SendTo,
}

/// What is to be done.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Verdict {
    /// The engine does it, and its answer is the call's.
    Act,
    /// It has what it asks for.
    Done,
    /// The call is answered when the handshake is over.
    Wait,
    /// A socket of the kernel takes the place of this one, and the call goes on with that.
    HandOver,
    /// The call fails.
    Refuse(i32),
}

/// The table. Source: `net/ipv4/af_inet.c` `__inet_bind`, `inet_listen`, `__inet_stream_connect`, `inet_getname`;
/// `net/ipv4/inet_connection_sock.c` `inet_csk_accept`; `net/ipv4/tcp.c` `tcp_sendmsg_locked`, `tcp_recvmsg_locked`, `net/core/stream.c` `sk_stream_wait_connect`.
pub(crate) const fn verdict(stage: Stage, asked: AskedOfSocket) -> Verdict {
    use Verdict::{Act, Done, HandOver, Refuse, Wait};
    match (stage, asked) {
        (Stage::Fresh, AskedOfSocket::Bind(Whose::Engine)) => Act,
        (Stage::Fresh, AskedOfSocket::Bind(Whose::Kernel)) => HandOver,
        (Stage::Bound { .. } | Stage::Listening | Stage::Connecting | Stage::Connected, AskedOfSocket::Bind(_)) => {
            Refuse(libc::EINVAL)
        }

        (Stage::Fresh | Stage::Bound { .. }, AskedOfSocket::Listen) => Act,
        // Another backlog at best.
        (Stage::Listening, AskedOfSocket::Listen) => Act,
        (Stage::Connecting | Stage::Connected, AskedOfSocket::Listen) => Refuse(libc::EINVAL),

        (Stage::Listening, AskedOfSocket::Accept) => Act,
        (Stage::Fresh | Stage::Bound { .. } | Stage::Connecting | Stage::Connected, AskedOfSocket::Accept) => {
            Refuse(libc::EINVAL)
        }

        (Stage::Fresh | Stage::Bound { .. }, AskedOfSocket::Connect(Whose::Engine, _)) => Act,
        (Stage::Fresh | Stage::Bound { is_any: true }, AskedOfSocket::Connect(Whose::Kernel, _)) => HandOver,
        // It has a port of the engine, which the kernel cannot send from.
        (Stage::Bound { is_any: false }, AskedOfSocket::Connect(Whose::Kernel, _)) => Refuse(libc::ENETUNREACH),
        (Stage::Connecting, AskedOfSocket::Connect(_, true)) => Wait,
        (Stage::Connecting, AskedOfSocket::Connect(_, false)) => Refuse(libc::EALREADY),
        (Stage::Listening | Stage::Connected, AskedOfSocket::Connect(..)) => Refuse(libc::EISCONN),

        (Stage::Fresh | Stage::Bound { .. }, AskedOfSocket::Dissolve) => Done,
        // The kernel would: what is known of the peer is the pair's, and that cannot be begun anew.
        (Stage::Listening | Stage::Connecting | Stage::Connected, AskedOfSocket::Dissolve) => Refuse(libc::EOPNOTSUPP),

        (Stage::Connected, AskedOfSocket::PeerName) => Act,
        (Stage::Fresh | Stage::Bound { .. } | Stage::Listening | Stage::Connecting, AskedOfSocket::PeerName) => {
            Refuse(libc::ENOTCONN)
        }

        // What the pair says.
        (Stage::Connecting | Stage::Connected, AskedOfSocket::Receive) => Act,
        (Stage::Fresh | Stage::Bound { .. } | Stage::Listening, AskedOfSocket::Receive) => Refuse(libc::ENOTCONN),

        (Stage::Connected, AskedOfSocket::SendTo) => Act,
        (Stage::Connecting, AskedOfSocket::SendTo) => Wait,
        (Stage::Fresh | Stage::Bound { .. } | Stage::Listening, AskedOfSocket::SendTo) => Refuse(libc::EPIPE),
    }
}

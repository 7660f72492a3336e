//! What a worker needs of a network: streams, datagrams, and a place to wait for them. The kernel's sockets and the
//! engine's both have it, so the same server runs on either.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use napier_runtime::control::plan::Plan;

/// The token that a wait reports when the worker shall stop.
pub const TOKEN_STOP: u64 = u64::MAX;

/// What a stream is watched for besides having something to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Something to read.
    Read,
    /// Room to write; what comes in waits.
    Write,
}

/// One worker's network. Sockets never block, except [`bind_blocking`](Self::bind_blocking)'s.
pub trait Net {
    /// A socket that takes connections.
    type Listener;
    /// One connection.
    type Stream;
    /// A socket of datagrams.
    type Datagrams;

    /// Listens at an address that other workers may listen at as well, and watches it under `token`.
    ///
    /// # Errors
    /// The address is taken or not there, or the network has no streams.
    fn listen(&self, at: SocketAddr, token: u64) -> io::Result<Self::Listener>;

    /// Binds a socket of datagrams to an address that other workers may use as well, and watches it under `token`.
    ///
    /// # Errors
    /// The address is taken or not there.
    fn bind(&self, at: SocketAddr, token: u64) -> io::Result<Self::Datagrams>;

    /// Binds a socket whose receives block, for at most [`BLOCKED_MAX`] at a time, and busy poll before they do as `plan`
    /// has it.
    ///
    /// # Errors
    /// As [`bind`](Self::bind), or an option is refused.
    fn bind_blocking(&self, at: SocketAddr, plan: &Plan) -> io::Result<Self::Datagrams>;

    /// The next connection; `None` if there is none. It is of use once it was let [`join`](Self::join).
    ///
    /// # Errors
    /// There is a connection and no descriptor or memory for it: it waits, and the thread that watches is told of it again. A
    /// connection that broke off meanwhile is none.
    fn accept(&self, listener: &Self::Listener) -> io::Result<Option<Self::Stream>>;

    /// Watches a connection that was accepted for something to read, under `token`. From now on it never blocks; a peer
    /// that is silent is probed, and the connection ends if it is gone.
    ///
    /// # Errors
    /// The place to wait has no room or memory for it.
    fn join(&self, stream: &Self::Stream, token: u64) -> io::Result<()>;

    /// Whether `listener` is watched for connections; it is from its start.
    ///
    /// # Errors
    /// None that a listener of this network has.
    fn watch_listener(&self, listener: &Self::Listener, token: u64, is_watched: bool) -> io::Result<()>;

    /// Memory of this process that the network may use for each stream, in bytes.
    fn stream_bytes(&self) -> usize;

    /// Changes what a stream is watched for.
    ///
    /// # Errors
    /// None that a stream of this network has.
    fn watch(&self, stream: &Self::Stream, token: u64, watch: Watch) -> io::Result<()>;

    /// Ends a connection for which there is no place, with a word on why. Nothing of this process is held for it after
    /// that, whatever its peer does.
    fn turn_away(&self, stream: Self::Stream, words: &[u8]) {
        // Room for it is there from the start; if the client is gone nobody reads it.
        let _ = self.write(&stream, words);
    }

    /// Reads what is there; 0 once the peer has closed.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if nothing is there; else the connection is broken.
    fn read(&self, stream: &Self::Stream, room: &mut [u8]) -> io::Result<usize>;

    /// Writes what there is room for.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none; else the connection is broken.
    fn write(&self, stream: &Self::Stream, bytes: &[u8]) -> io::Result<usize>;

    /// The next datagram; what does not fit `room` is cut off.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none.
    fn receive(&self, socket: &Self::Datagrams, room: &mut [u8]) -> io::Result<(usize, SocketAddr)>;

    /// Sends a datagram.
    ///
    /// # Errors
    /// Whatever the network says; a datagram may always be lost.
    fn send(&self, socket: &Self::Datagrams, bytes: &[u8], to: SocketAddr) -> io::Result<()>;

    /// Waits for watched sockets and hands out the tokens of those that are ready; an error of a socket counts as
    /// being ready. `None` waits until one is; after `timeout` there may be none.
    ///
    /// # Errors
    /// The place to wait is broken.
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<u64>) -> io::Result<()>;
}

/// How long a blocking receive goes without looking whether the worker should stop.
pub const BLOCKED_MAX: Duration = Duration::from_millis(100);

/// Probes of a silent peer: after how long, how often, how many. A peer that vanished is given up after 105 seconds; redis'
/// `tcp-keepalive` of 300 seconds would keep its memory for ten minutes.
pub const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(15), 3);

/// Events that one wait returns at most, as libevent's first allocation.
pub const EVENTS_MAX: usize = 64;

/// Datagrams taken from one socket before the next event is looked at, as memcached's `-R`.
pub const REQUESTS_PER_EVENT: usize = 20;

/// A listener's queue of connections that wait to be taken. Source: memcached's default of `-b`.
pub const BACKLOG: i32 = 1024;

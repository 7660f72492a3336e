//! The engine's sockets under an event context.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use napier_runtime::control::plan::{Plan, apply};
use napier_runtime::engine::{Engine, EngineSink};
use napier_runtime::event::{Event, EventContext, Interest, Timeout, UserEvent};
use napier_runtime::socket::{NetNs, ReusePort, TcpListener, TcpStream, UdpSocket};

use super::net::{BACKLOG, BLOCKED_MAX, EVENTS_MAX, KEEPALIVE, Net, TOKEN_STOP, Watch};

/// Each of the two buffers of a connection, in bytes, unless it is said. The engine's do not grow by themselves.
const STREAM_BUFFER_BYTES: usize = 128 << 10;

/// What a worker watches beside connections: its end, listeners and sockets of datagrams of all protocols.
const MEMBERS_BESIDE: usize = 8;

/// What else the engine keeps for a connection, in bytes, rounded up: state, lock, sources of events, an entry in a table
/// and one on the wheel of deadlines.
const STREAM_STATE_BYTES: usize = 4 << 10;

/// One worker's sockets in a name space of the engine, and the event context that watches them.
pub struct EngineNet {
    netns: NetNs,
    context: EventContext,
    buffer_bytes: usize,
    events: [Event; EVENTS_MAX],
}

impl EngineNet {
    /// A network without sockets that watches `stop`, for at most `connections_max` connections at a time; its
    /// waits busy poll as `plan` has it.
    ///
    /// # Errors
    /// The parameters are refused.
    pub fn new(
        engine: &Engine,
        netns: &NetNs,
        stop: &UserEvent,
        plan: &Plan,
        connections_max: usize,
    ) -> anyhow::Result<Self> {
        let members_max = u32::try_from(connections_max.saturating_add(MEMBERS_BESIDE)).unwrap_or(u32::MAX);
        let context = EventContext::with_members_max(engine, members_max);
        // Before any socket is added: see the notes at EventContext.
        apply(&mut EngineSink::Context(&context), plan)?;
        context.add(stop, Interest::IN, TOKEN_STOP)?;
        let buffer_bytes = STREAM_BUFFER_BYTES;
        Ok(Self { netns: netns.clone(), context, buffer_bytes, events: [Event::default(); EVENTS_MAX] })
    }

    /// Connections of listeners that are made from now on have two buffers of so many bytes each.
    #[must_use]
    pub fn with_buffers(self, buffer_bytes: usize) -> Self {
        Self { buffer_bytes, ..self }
    }
}

impl Net for EngineNet {
    type Listener = TcpListener;
    type Stream = TcpStream;
    type Datagrams = UdpSocket;

    fn listen(&self, at: SocketAddr, token: u64) -> io::Result<TcpListener> {
        let backlog = usize::try_from(BACKLOG).expect("it is positive");
        let listener = TcpListener::builder()
            .backlog(backlog)
            .reuse_port(ReusePort::ByNapi)
            .nonblocking(true)
            .rcvbuf(self.buffer_bytes)
            .sndbuf(self.buffer_bytes)
            .bind(&self.netns, at)?;
        self.context.add(&listener, Interest::IN, token).map_err(io::Error::other)?;
        Ok(listener)
    }

    fn bind(&self, at: SocketAddr, token: u64) -> io::Result<UdpSocket> {
        let socket = UdpSocket::builder().reuse_port(ReusePort::ByNapi).nonblocking(true).bind(&self.netns, at)?;
        self.context.add(&socket, Interest::IN, token).map_err(io::Error::other)?;
        Ok(socket)
    }

    fn bind_blocking(&self, at: SocketAddr, plan: &Plan) -> io::Result<UdpSocket> {
        let socket = UdpSocket::builder().reuse_port(ReusePort::ByNapi).bind(&self.netns, at)?;
        apply(&mut EngineSink::Socket(&socket), plan).map_err(io::Error::other)?;
        socket.set_read_timeout(Some(BLOCKED_MAX))?;
        Ok(socket)
    }

    fn accept(&self, listener: &TcpListener) -> io::Result<Option<TcpStream>> {
        match listener.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted => Ok(None),
                _ => Err(error),
            },
        }
    }

    fn join(&self, stream: &TcpStream, token: u64) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        stream.set_keepalive(Some(KEEPALIVE))?;
        self.context.add(stream, Interest::IN, token).map_err(io::Error::other)
    }

    fn watch_listener(&self, listener: &TcpListener, token: u64, is_watched: bool) -> io::Result<()> {
        let interest = if is_watched { Interest::IN } else { Interest::NONE };
        self.context.modify(listener, interest, token).map_err(io::Error::other)
    }

    /// All of the buffers: what was in them once stays in memory until the connection ends, for they are rings.
    fn stream_bytes(&self) -> usize {
        2 * self.buffer_bytes + STREAM_STATE_BYTES
    }

    /// The engine keeps a connection that was closed for as long as its peer does not close its half: it is reset, which
    /// leaves the peer what came before.
    fn turn_away(&self, stream: TcpStream, words: &[u8]) {
        let _ = stream.send(words);
        stream.set_linger(Some(Duration::ZERO)).expect("no time is a time that it takes");
    }

    fn watch(&self, stream: &TcpStream, token: u64, watch: Watch) -> io::Result<()> {
        let interest = match watch {
            Watch::Read => Interest::IN,
            Watch::Write => Interest::OUT,
        };
        self.context.modify(stream, interest, token).map_err(io::Error::other)
    }

    fn read(&self, stream: &TcpStream, room: &mut [u8]) -> io::Result<usize> {
        stream.recv(room)
    }

    fn write(&self, stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        stream.send(bytes)
    }

    fn receive(&self, socket: &UdpSocket, room: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        socket.recv_from(room)
    }

    fn send(&self, socket: &UdpSocket, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
        socket.send_to(bytes, to).map(|_| ())
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<u64>) -> io::Result<()> {
        let timeout = timeout.map_or(Timeout::Never, Timeout::After);
        let count = self.context.wait(&mut self.events, timeout).map_err(io::Error::other)?;
        ready.extend(self.events[..count].iter().map(|event| event.data));
        Ok(())
    }
}

//! The engine's sockets under an event context.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use napier_runtime::{
    Engine, EpollParamsRequest, Event, EventContext, Interest, NetNs, ReusePort, SocketOption, TcpListener, TcpStream,
    Timeout, UdpSocket, UserEvent,
};

use super::net::{BACKLOG, BLOCKED_MAX, EVENTS_MAX, Net, TOKEN_STOP, Watch};
use crate::modes::EventParams;

/// Each buffer of a connection, in bytes. The engine's do not grow by themselves.
const STREAM_BUFFER_BYTES: usize = 128 << 10;

/// One worker's sockets in a name space of the engine, and the event context that watches them.
pub struct EngineNet {
    netns: NetNs,
    context: EventContext,
    events: [Event; EVENTS_MAX],
}

impl EngineNet {
    /// A network without sockets that watches `stop`; `params` are the busy-polling parameters of its waits.
    ///
    /// # Errors
    /// The parameters are refused.
    pub fn new(engine: &Engine, netns: &NetNs, stop: &UserEvent, params: Option<EventParams>) -> anyhow::Result<Self> {
        let context = EventContext::new(engine);
        if let Some(EventParams { busy_poll_usecs, busy_poll_budget, prefer_busy_poll }) = params {
            // Before any socket is added: see the notes at EventContext.
            context.set_params(EpollParamsRequest {
                busy_poll_usecs,
                busy_poll_budget,
                prefer_busy_poll: u8::from(prefer_busy_poll),
                pad: 0,
            })?;
        }
        context.add(stop, Interest::IN, TOKEN_STOP)?;
        Ok(Self { netns: netns.clone(), context, events: [Event::default(); EVENTS_MAX] })
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
            .rcvbuf(STREAM_BUFFER_BYTES)
            .sndbuf(STREAM_BUFFER_BYTES)
            .bind(&self.netns, at)?;
        self.context.add(&listener, Interest::IN, token).map_err(io::Error::other)?;
        Ok(listener)
    }

    fn bind(&self, at: SocketAddr, token: u64) -> io::Result<UdpSocket> {
        let socket = UdpSocket::builder().reuse_port(ReusePort::ByNapi).nonblocking(true).bind(&self.netns, at)?;
        self.context.add(&socket, Interest::IN, token).map_err(io::Error::other)?;
        Ok(socket)
    }

    fn bind_blocking(&self, at: SocketAddr, busy_poll_usecs: u32, prefer: bool) -> io::Result<UdpSocket> {
        let socket = UdpSocket::builder().reuse_port(ReusePort::ByNapi).bind(&self.netns, at)?;
        let usecs = i32::try_from(busy_poll_usecs).map_err(|_| io::ErrorKind::InvalidInput)?;
        socket.setsockopt(SocketOption::BusyPoll, usecs).map_err(io::Error::other)?;
        socket.setsockopt(SocketOption::PreferBusyPoll, i32::from(prefer)).map_err(io::Error::other)?;
        socket.set_read_timeout(Some(BLOCKED_MAX))?;
        Ok(socket)
    }

    fn accept(&self, listener: &TcpListener, token: u64) -> io::Result<Option<TcpStream>> {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        self.context.add(&stream, Interest::IN, token).map_err(io::Error::other)?;
        Ok(Some(stream))
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

//! The engine's sockets under an event context.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use napier_runtime::{
    Engine, EpollParamsRequest, Event, EventContext, Interest, NetNs, ReusePort, SocketOption, Timeout, UdpSocket,
    UserEvent,
};

use super::net::{BLOCKED_MAX, EVENTS_MAX, Net, TOKEN_STOP, Watch};
use crate::modes::EventParams;

/// One worker's sockets in a name space of the engine, and the event context that watches them.
pub struct EngineNet {
    netns: NetNs,
    context: EventContext,
    events: [Event; EVENTS_MAX],
}

/// The engine has no streams yet; nobody can make one of these.
#[derive(Debug)]
pub enum NoStream {}

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
    type Listener = NoStream;
    type Stream = NoStream;
    type Datagrams = UdpSocket;

    fn listen(&self, _at: SocketAddr, _token: u64) -> io::Result<NoStream> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "the engine has no streams"))
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

    fn accept(&self, listener: &NoStream, _token: u64) -> io::Result<Option<NoStream>> {
        match *listener {}
    }

    fn watch(&self, stream: &NoStream, _token: u64, _watch: Watch) -> io::Result<()> {
        match *stream {}
    }

    fn read(&self, stream: &NoStream, _room: &mut [u8]) -> io::Result<usize> {
        match *stream {}
    }

    fn write(&self, stream: &NoStream, _bytes: &[u8]) -> io::Result<usize> {
        match *stream {}
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

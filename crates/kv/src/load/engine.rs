//! The engine's sockets for the load generator.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use napier_runtime::{Engine, Event, EventContext, Interest, NetNs, TcpStream, Timeout, UdpSocket};

use super::net::{CONNECT_MAX, ClientNet, Proto};

/// Events that one wait returns at most.
const EVENTS_MAX: usize = 64;

/// The engine's sockets, delivered to by interrupts as the kernel's are to
/// [`KernelClient`](super::net::KernelClient). A context that busy polls would be quicker, but it drops its instance
/// after each loop that found nothing, so it cannot do without interrupts either.
pub struct EngineClient {
    netns: NetNs,
    context: EventContext,
    events: [Event; EVENTS_MAX],
}

/// A socket of the engine.
pub enum EngineSocket {
    /// A connection.
    Stream(TcpStream),
    /// A connected socket of datagrams.
    Datagrams(UdpSocket),
}

impl EngineClient {
    /// Without connections, for at most so many of them.
    pub fn new(engine: &Engine, netns: &NetNs, connections_max: usize) -> Self {
        let members_max = u32::try_from(connections_max).unwrap_or(u32::MAX);
        let context = EventContext::with_members_max(engine, members_max);
        Self { netns: netns.clone(), context, events: [Event::default(); EVENTS_MAX] }
    }
}

impl ClientNet for EngineClient {
    type Socket = EngineSocket;

    fn connect(&mut self, proto: Proto, to: SocketAddr, token: u64) -> io::Result<EngineSocket> {
        let added = |result: Result<(), napier_runtime::AddError>| result.map_err(io::Error::other);
        Ok(match proto {
            Proto::Tcp => {
                let stream =
                    TcpStream::builder().nodelay(true).connect_timeout(CONNECT_MAX).connect(&self.netns, to)?;
                stream.set_nonblocking(true)?;
                added(self.context.add(&stream, Interest::IN, token))?;
                EngineSocket::Stream(stream)
            }
            Proto::Udp => {
                let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
                let socket = UdpSocket::builder().nonblocking(true).bind(&self.netns, any)?;
                socket.connect(to)?;
                added(self.context.add(&socket, Interest::IN, token))?;
                EngineSocket::Datagrams(socket)
            }
        })
    }

    fn read(&self, socket: &EngineSocket, room: &mut [u8]) -> io::Result<usize> {
        match socket {
            EngineSocket::Stream(stream) => stream.recv(room),
            EngineSocket::Datagrams(socket) => socket.recv(room),
        }
    }

    fn write(&self, socket: &EngineSocket, bytes: &[u8]) -> io::Result<usize> {
        match socket {
            EngineSocket::Stream(stream) => stream.send(bytes),
            EngineSocket::Datagrams(socket) => socket.send(bytes),
        }
    }

    fn wait(&mut self, timeout: Duration, ready: &mut Vec<u64>) -> io::Result<()> {
        let count = self.context.wait(&mut self.events, Timeout::After(timeout)).map_err(io::Error::other)?;
        ready.extend(self.events[..count].iter().map(|event| event.data));
        Ok(())
    }
}

//! The engine's sockets for the load generator.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use napier_runtime::engine::Engine;
use napier_runtime::event::{Event, EventContext, Interest, Timeout};
use napier_runtime::socket::{NetNs, SocketOption, TcpStream, UdpSocket};

use super::net::{CONNECT_MAX, ClientNet, Proto};

/// Events that one wait returns at most.
const EVENTS_MAX: usize = 64;

/// Each buffer of a polled connection, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Packets per poll.
const BUDGET: i32 = 64;

/// The engine's sockets, delivered to by interrupts as the kernel's are to
/// [`KernelClient`](super::net::KernelClient), or polled. A context that busy polls would be quicker than interrupts, but
/// it drops its instance after each loop that found nothing, so it cannot do without them either.
pub struct EngineClient {
    netns: NetNs,
    context: EventContext,
    events: [Event; EVENTS_MAX],
    polls: bool,
    /// A connection of each NAPI instance: a receive on it polls for all others of the instance.
    pilots: Vec<u64>,
    instances: Vec<i32>,
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
        let (pilots, instances) = (Vec::new(), Vec::new());
        Self { netns: netns.clone(), context, events: [Event::default(); EVENTS_MAX], polls: false, pilots, instances }
    }

    /// Connections that are made from now on are polled with each wait, which never sleeps; their device is to take its
    /// own interrupts until all are connected. Closing them resets: the server has nothing to wait for.
    #[must_use]
    pub fn polling(self) -> Self {
        Self { polls: true, ..self }
    }

    fn poll(&mut self, stream: &TcpStream, token: u64) -> io::Result<()> {
        stream.set_linger(Some(Duration::ZERO))?;
        for (option, value) in
            [(SocketOption::BusyPoll, 1), (SocketOption::PreferBusyPoll, 1), (SocketOption::BusyPollBudget, BUDGET)]
        {
            stream.setsockopt(option, value).map_err(io::Error::other)?;
        }
        let instance = stream.getsockopt(SocketOption::IncomingNapiId).map_err(io::Error::other)?;
        if !self.instances.contains(&instance) {
            self.instances.push(instance);
            self.pilots.push(token);
        }
        Ok(())
    }
}

impl ClientNet for EngineClient {
    type Socket = EngineSocket;

    fn connect(&mut self, proto: Proto, to: SocketAddr, token: u64) -> io::Result<EngineSocket> {
        let added = |result: Result<(), napier_runtime::event::AddError>| result.map_err(io::Error::other);
        Ok(match proto {
            Proto::Tcp => {
                let mut builder = TcpStream::builder().nodelay(true).connect_timeout(CONNECT_MAX);
                if self.polls {
                    builder = builder.rcvbuf(BUFFER_BYTES).sndbuf(BUFFER_BYTES);
                }
                let stream = builder.connect(&self.netns, to)?;
                stream.set_nonblocking(true)?;
                if self.polls {
                    self.poll(&stream, token)?;
                }
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
        let timeout = if self.polls { Timeout::Now } else { Timeout::After(timeout) };
        let count = self.context.wait(&mut self.events, timeout).map_err(io::Error::other)?;
        ready.extend(self.events[..count].iter().map(|event| event.data));
        Ok(())
    }

    #[inline]
    fn pilots(&self) -> &[u64] {
        &self.pilots
    }
}

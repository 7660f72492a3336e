//! The thread that listens, connects, shakes hands and notices that a peer has gone. Packets never pass through it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use napier_core::memif::{Interface, Name, RegionLayout};
use napier_core::rss::IndirectionTable;
use napier_ring::memif::remote::{Receiver, Sender};
use rustix::event::epoll;

use super::client::{ClientSide, ClientStep};
use super::down::{Down, HANDSHAKE_MAX};
use super::line::{Kick, RemoteLine, new_eventfd};
use super::server::{ServerSide, ServerStep};
use super::socket::{Listening, Received, SocketPath, receive, send};
use super::{AddMemifError, MemifConfig, MemifRole, Parts};
use crate::device::Device;
use crate::engine::{Carrier, EndConfig, EngineInner, MTU, NewDevice, ThreadRole, new_rss};
use crate::port::{RxEnd, TxEnd};

/// What this side calls itself.
pub(super) const PROGRAM: &str = "napier";
/// How often rings of connected peers are looked at, in case an interrupt was lost or a thread is made to wait for one.
const LOOK: Duration = Duration::from_millis(10);
/// Most clients that have not finished the handshake.
const SHAKING_MAX: usize = 64;
/// Most messages of one connection before others have their turn.
const MESSAGES_PER_TURN: usize = 16;
const TOKEN_WAKE: u64 = 0;

/// The rings of one queue.
pub(super) struct RingPair {
    /// To receive, and the eventfd that the peer rings.
    pub(super) rx: Option<(Receiver, OwnedFd)>,
    /// To send, and how to ring.
    pub(super) tx: Option<(Sender, Kick)>,
}

/// What a finished handshake gives a device.
pub(super) struct Attachment {
    pub(super) pairs: Vec<RingPair>,
    /// Rings to send on, of the pairs' first.
    pub(super) tx_rings: u16,
    pub(super) peer: String,
}

/// A device and what it waits for.
struct Port {
    config: MemifConfig,
    layout: RegionLayout,
    device: Arc<Device>,
    lines: Vec<Arc<RemoteLine>>,
    /// At the server: where it listens.
    listener: Option<u64>,
    /// The connection that has the interface, from INIT on.
    connection: Option<u64>,
    /// The peer's interrupts, while packets may flow.
    kicks: Vec<Arc<Kick>>,
    /// At the client, while there is no connection: when to try.
    try_at: Option<Instant>,
}

enum Side {
    Server { side: Box<ServerSide>, listener: u64 },
    Client(Box<ClientSide>),
}

struct Connection {
    socket: OwnedFd,
    side: Side,
    /// Position of the device, once it is known.
    port: Option<usize>,
    /// When the peer has been silent for too long; none once packets flow.
    deadline: Option<Instant>,
}

/// What the thread waits on.
struct Poll {
    epoll: OwnedFd,
    wake: OwnedFd,
}

#[derive(Default)]
struct State {
    poll: Option<Arc<Poll>>,
    ports: Vec<Port>,
    listeners: BTreeMap<u64, Listening>,
    connections: BTreeMap<u64, Connection>,
    last_token: u64,
    stopping: bool,
}

/// The control channel of an engine's memif devices.
#[derive(Default)]
pub(crate) struct Control {
    state: Mutex<State>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Poll {
    fn new() -> io::Result<Self> {
        let poll = Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, wake: new_eventfd()? };
        poll.watch(&poll.wake, TOKEN_WAKE)?;
        Ok(poll)
    }

    fn watch(&self, fd: impl std::os::fd::AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
    }

    fn wake(&self) {
        // Fails only if nobody has heard 2^64 - 2 wakes.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl Control {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }

    /// Adds a device and lets it look for its peer.
    ///
    /// # Errors
    ///
    /// See [`AddMemifError`]; nothing is added then.
    pub(super) fn add(
        &self,
        engine: &Arc<EngineInner>,
        config: MemifConfig,
        end: EndConfig,
    ) -> Result<Arc<Device>, AddMemifError> {
        let mut state = self.lock();
        let poll = self.started(engine, &mut state)?;
        let path = SocketPath(config.socket.clone());
        let known = state.listeners.iter().find(|(_, listening)| *listening.path() == path).map(|(token, _)| *token);
        let id_taken = |port: &Port| port.listener.is_some() && port.listener == known && port.config.id == config.id;
        let is_server = config.role == MemifRole::Server;
        if is_server && state.ports.iter().any(id_taken) {
            return Err(AddMemifError::IdTaken { id: config.id, socket: config.socket });
        }
        let fresh = if is_server && known.is_none() { Some(path.listen()?) } else { None };
        let device = new_device(engine, &config, end)?;
        let listener = match fresh {
            Some(listening) => {
                let token = state.next_token();
                poll.watch(&listening, token)?;
                state.listeners.insert(token, listening);
                Some(token)
            }
            None => known.filter(|_| is_server),
        };
        let (device, lines) = device;
        let layout = config.layout()?;
        let try_at = (!is_server).then(Instant::now);
        let (connection, kicks) = (None, Vec::new());
        let added = device.clone();
        state.ports.push(Port { config, layout, device, lines, listener, connection, kicks, try_at });
        drop(state);
        poll.wake();
        Ok(added)
    }

    fn started(&self, engine: &Arc<EngineInner>, state: &mut State) -> Result<Arc<Poll>, AddMemifError> {
        if let Some(poll) = &state.poll {
            return Ok(poll.clone());
        }
        let poll = Arc::new(Poll::new()?);
        let thread = std::thread::Builder::new().name("memif".to_owned()).spawn({
            let (engine, poll) = (engine.clone(), poll.clone());
            move || {
                engine.unpin_thread();
                engine.threads.register(ThreadRole::MemifControl);
                run(&engine, &poll);
                engine.threads.unregister();
            }
        })?;
        *self.thread.lock().expect("no panic while held") = Some(thread);
        state.poll = Some(poll.clone());
        Ok(poll)
    }

    /// Tells every peer and stops; the engine is going away.
    pub(crate) fn stop(&self) {
        let poll = {
            let mut state = self.lock();
            state.stopping = true;
            state.poll.clone()
        };
        if let Some(poll) = poll {
            poll.wake();
        }
        if let Some(thread) = self.thread.lock().expect("no panic while held").take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

fn new_device(
    engine: &Arc<EngineInner>,
    config: &MemifConfig,
    end: EndConfig,
) -> Result<(Arc<Device>, Vec<Arc<RemoteLine>>), AddMemifError> {
    let mut devices = engine.devices.lock().expect("no panic while held");
    // Before the frames are made: what the frame table has given it does not take back.
    engine.check_device(&devices, &end, config.queues)?;
    let Parts { ports, lines } = Parts::new(config, &engine.frames)?;
    let (rss, peer_rss) = (new_rss(config.queues), new_rss(config.queues));
    let carrier = Carrier::waiting("no peer has connected yet".to_owned());
    let device = engine.add_device(&mut devices, NewDevice { config: end, ports, rss, peer_rss, carrier, mtu: MTU })?;
    Ok((device, lines))
}

fn run(engine: &EngineInner, poll: &Poll) {
    let mut events = Vec::with_capacity(64);
    loop {
        let timeout = engine.memif.lock().timeout(Instant::now());
        events.clear();
        match epoll::wait(&poll.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("waiting on own descriptors failed: {error}"),
        }
        let mut state = engine.memif.lock();
        if state.stopping {
            return state.close_all(engine);
        }
        // Those that have connections first: a peer that is gone makes room for one that comes.
        for event in &events {
            state.on_readable(engine, event.data.u64());
        }
        for event in &events {
            match event.data.u64() {
                TOKEN_WAKE => drop(rustix::io::read(&poll.wake, &mut [0; 8])),
                token => state.accept(poll, token),
            }
        }
        state.on_time(engine, poll, Instant::now());
    }
}

impl State {
    fn next_token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    fn timeout(&self, now: Instant) -> Option<rustix::time::Timespec> {
        let looks = self.ports.iter().any(|port| !port.kicks.is_empty()).then(|| now + LOOK);
        let deadlines = self.connections.values().filter_map(|connection| connection.deadline);
        let tries = self.ports.iter().filter_map(|port| port.try_at);
        let next = deadlines.chain(tries).chain(looks).min()?;
        // Rounded up: no turn before the time has come.
        let wait = next.saturating_duration_since(now) + Duration::from_micros(1);
        Some(rustix::time::Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() })
    }

    /// The interfaces of a listener, and the devices that they are.
    fn interfaces(&self, listener: u64) -> (Vec<Interface>, Vec<usize>) {
        let ports = self.ports.iter().enumerate().filter(|(_, port)| port.listener == Some(listener));
        let interface = |port: &Port| Interface {
            id: port.config.id,
            name: Name::new(&port.device.name),
            secret: port.config.secret,
            busy: port.connection.is_some(),
            rings: port.config.queues,
        };
        ports.map(|(position, port)| (interface(port), position)).unzip()
    }

    fn accept(&mut self, poll: &Poll, listener: u64) {
        let Some(listening) = self.listeners.get(&listener) else { return };
        let socket = match listening.accept() {
            Ok(Some(socket)) => socket,
            Ok(None) => return,
            Err(_) => {
                // Mostly that there is no descriptor to spare; the client is still there then.
                std::thread::sleep(LOOK);
                return;
            }
        };
        let shaking = self.connections.values().filter(|connection| connection.deadline.is_some()).count();
        if shaking >= SHAKING_MAX {
            return;
        }
        let (interfaces, ports) = self.interfaces(listener);
        let log2 = ports.iter().map(|port| self.ports[*port].config.log2_ring_size()).max();
        let token = self.next_token();
        // A client that is gone already is not missed.
        if let Ok(side) = ServerSide::greet(&socket, log2.expect("a listener has a device"), &interfaces)
            && poll.watch(&socket, token).is_ok()
        {
            let side = Side::Server { side: Box::new(side), listener };
            let deadline = Some(Instant::now() + HANDSHAKE_MAX);
            self.connections.insert(token, Connection { socket, side, port: None, deadline });
        }
    }

    fn on_readable(&mut self, engine: &EngineInner, token: u64) {
        let Some(mut connection) = self.connections.remove(&token) else { return };
        match self.serve(engine, token, &mut connection) {
            Ok(()) => drop(self.connections.insert(token, connection)),
            Err(down) => self.close(engine, connection, &down),
        }
    }

    fn serve(&mut self, engine: &EngineInner, token: u64, connection: &mut Connection) -> Result<(), Down> {
        for _ in 0..MESSAGES_PER_TURN {
            let (message, descriptor) = match receive(&connection.socket)? {
                Received::Nothing => return Ok(()),
                Received::Closed => return Err(Down::Gone),
                Received::Packet(message, descriptor) => (message, descriptor),
            };
            let attachment = match &mut connection.side {
                Side::Client(side) => {
                    let message = message.map_err(|error| side.refuse(error.into()))?;
                    match side.on_message(&connection.socket, &message)? {
                        ClientStep::Wait => None,
                        ClientStep::Attach(attachment) => Some(attachment),
                    }
                }
                Side::Server { side, listener } => {
                    let message = message.map_err(|error| side.refuse(error.into()))?;
                    self.reap(engine, *listener);
                    let (interfaces, ports) = self.interfaces(*listener);
                    match side.on_message(&connection.socket, &message, descriptor, &interfaces)? {
                        ServerStep::Wait => None,
                        ServerStep::Admitted(interface) => {
                            connection.port = Some(ports[interface]);
                            self.ports[ports[interface]].connection = Some(token);
                            None
                        }
                        ServerStep::Attach(attachment) => Some(attachment),
                    }
                }
            };
            if let Some(attachment) = attachment {
                let port = connection.port.expect("known before the end of the handshake");
                self.attach(engine, port, attachment)?;
                connection.deadline = None;
                if let Side::Server { side, .. } = &mut connection.side {
                    side.attached(&connection.socket, &self.ports[port].device.name)?;
                }
            } else if connection.deadline.is_some() {
                connection.deadline = Some(Instant::now() + HANDSHAKE_MAX);
            }
        }
        Ok(())
    }

    /// Connected peers of a listener that are gone give their interfaces free, before a new client is told that they are
    /// not.
    fn reap(&mut self, engine: &EngineInner, listener: u64) {
        let of_listener = |port: &&Port| port.listener == Some(listener);
        let tokens: Vec<u64> = self.ports.iter().filter(of_listener).filter_map(|port| port.connection).collect();
        for token in tokens {
            let gone = self.connections.get(&token).is_some_and(|connection| has_hung_up(&connection.socket));
            if gone && let Some(connection) = self.connections.remove(&token) {
                self.close(engine, connection, &Down::Gone);
            }
        }
    }

    fn attach(&mut self, engine: &EngineInner, position: usize, attachment: Attachment) -> Result<(), Down> {
        let port = &mut self.ports[position];
        let frame_bytes = port.config.frame_bytes as usize;
        let mut ends = Vec::new();
        for (pair, line) in attachment.pairs.into_iter().zip(&port.lines) {
            let rx = match pair.rx {
                Some((ring, eventfd)) => {
                    line.connect(&eventfd, ring.interrupt_switch())?;
                    RxEnd::Remote { ring, frame_bytes }
                }
                None => RxEnd::Detached,
            };
            let tx = match pair.tx {
                Some((ring, kick)) => {
                    let kick = Arc::new(kick);
                    port.kicks.push(kick.clone());
                    TxEnd::Remote { ring, scratch: vec![0; frame_bytes].into(), kick }
                }
                None => TxEnd::Detached,
            };
            ends.push((rx, tx));
        }
        port.device.peer_rss.indirection.store(Arc::new(IndirectionTable::equal(attachment.tx_rings)));
        Ok(engine.carrier_on(&port.device, Some(attachment.peer), ends)?)
    }

    /// A connection is over: the peer is told, the device loses carrier, and a client tries again.
    fn close(&mut self, engine: &EngineInner, connection: Connection, down: &Down) {
        if let Some(message) = down.message() {
            // A peer that cannot hear it sees the socket close.
            let _ = send(&connection.socket, &message, None);
        }
        if let Some(position) = connection.port {
            self.detach(engine, position, down);
        }
    }

    fn detach(&mut self, engine: &EngineInner, position: usize, down: &Down) {
        let port = &mut self.ports[position];
        // The ends hold no frames.
        drop(engine.carrier_off(&port.device, down.to_string()));
        port.lines.iter().for_each(|line| line.disconnect());
        port.kicks.clear();
        port.connection = None;
        if port.config.role == MemifRole::Client {
            port.try_at = Some(Instant::now() + port.config.retry);
        }
    }

    fn on_time(&mut self, engine: &EngineInner, poll: &Poll, now: Instant) {
        let silent = |(token, connection): (&u64, &Connection)| {
            connection.deadline.is_some_and(|deadline| deadline <= now).then_some(*token)
        };
        let silent: Vec<u64> = self.connections.iter().filter_map(silent).collect();
        for token in silent {
            if let Some(connection) = self.connections.remove(&token) {
                self.close(engine, connection, &Down::Silent);
            }
        }
        for position in 0..self.ports.len() {
            if self.ports[position].try_at.is_some_and(|at| at <= now)
                && let Err(down) = self.try_to_connect(poll, position)
            {
                self.detach(engine, position, &down);
            }
        }
        for port in &self.ports {
            port.kicks.iter().for_each(|kick| kick.rescue());
            if port.kicks.is_empty() {
                continue;
            }
            for (queue, line) in port.lines.iter().enumerate() {
                if line.overlooked() {
                    engine.interrupt(engine.napi_at(port.device.tx[queue].napi_index()));
                }
            }
        }
    }

    fn try_to_connect(&mut self, poll: &Poll, position: usize) -> Result<(), Down> {
        let token = self.next_token();
        let port = &mut self.ports[position];
        port.try_at = None;
        let socket = SocketPath(port.config.socket.clone());
        let socket = socket.connect().map_err(|source| Down::NotThere { socket: socket.0, source })?;
        poll.watch(&socket, token)?;
        let side = Side::Client(Box::new(ClientSide::new(&port.config, port.layout)));
        port.connection = Some(token);
        let deadline = Some(Instant::now() + HANDSHAKE_MAX);
        self.connections.insert(token, Connection { socket, side, port: Some(position), deadline });
        Ok(())
    }

    fn close_all(&mut self, engine: &EngineInner) {
        for connection in std::mem::take(&mut self.connections).into_values() {
            self.close(engine, connection, &Down::Closing);
        }
        self.listeners.clear();
        self.ports.clear();
    }
}

/// Whether the peer has closed its socket; what it said before may still wait.
fn has_hung_up(socket: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

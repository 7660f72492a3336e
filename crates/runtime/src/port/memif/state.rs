//! What the control thread works on: devices that wait for a peer or have one, and connections.
//!
//! | a connection is | until | bound |
//! |---|---|---|
//! | shaking hands | the handshake is over | [`HANDSHAKE_MAX`] from its start, however much is said |
//! | attached | one side closes, or the peer breaks the protocol | none |
//!
//! What a peer does in memory is found out by those who use the rings; they count it, and it is looked at here each
//! [`LOOK_EVERY`]: an index that cannot be, or a ringer who was made to wait, ends the connection.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use napier_core::memif::times::{HANDSHAKE_MAX, LOOK_EVERY, Tries};
use napier_core::memif::{Interface, Message, Name};
use napier_core::time::Deadline;
use rustix::process::{getegid, geteuid};

use super::access::first_to_go;
use super::attachment::Attachment;
use super::client::{ClientSide, ClientStep};
use super::down::Down;
use super::guard::Guard;
use super::line::Kick;
use super::poll::Poll;
use super::port::{Attached, Listener, Port};
use super::server::{ServerSide, ServerStep};
use super::socket::{Received, SocketPath, receive, send};
use super::{MemifConfig, MemifRx, MemifTx};
use crate::port::{RxEnd, TxEnd};
use napier_sys::clock::Clock;
use napier_sys::peer::{PeerCred, peer_cred};

/// Most clients that have not finished the handshake; one more, and one of them has to go.
const SHAKING_MAX: usize = 64;
/// Most clients that are accepted before others have their turn.
const ACCEPTS_PER_TURN: usize = 16;
/// Most messages of one connection before others have their turn.
const MESSAGES_PER_TURN: usize = 16;

enum Handshaking {
    Server { side: Box<ServerSide>, listener: u64 },
    Client(Box<ClientSide>),
}

struct PeerConnection {
    socket: OwnedFd,
    side: Handshaking,
    /// Position of the device, once it is known.
    port: Option<usize>,
    /// When the handshake has taken too long; never once packets flow.
    deadline: Deadline,
    /// Who it is, of a client.
    who: Option<PeerCred>,
}

/// Owned by the control thread: no thread waits for it.
pub(super) struct Peers {
    poll: Arc<Poll>,
    guard: Arc<Guard>,
    ports: Vec<Port>,
    connections: BTreeMap<u64, PeerConnection>,
}

impl Peers {
    pub(super) fn new(poll: Arc<Poll>, guard: Arc<Guard>) -> Self {
        Self { poll, guard, ports: Vec::new(), connections: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, port: Port) {
        self.ports.push(port);
    }

    /// How long nothing is to be done unless something comes.
    pub(super) fn timeout(&self) -> Option<rustix::time::Timespec> {
        let now = Clock.now();
        let is_attached = self.ports.iter().any(|port| port.attached.is_some());
        let looks = is_attached.then(|| Deadline::after(now, LOOK_EVERY));
        let deadlines = self.connections.values().map(|connection| connection.deadline);
        let tries = self.ports.iter().filter_map(|port| port.tries).map(|tries| tries.due());
        let next = deadlines.chain(tries).chain(looks).fold(Deadline::NEVER, Deadline::earliest).instant()?;
        // Rounded up: no turn before the time has come.
        let wait = Duration::from_nanos((next - now).ns) + Duration::from_micros(1);
        Some(rustix::time::Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() })
    }

    /// The interfaces of a listener, and the devices that they are.
    fn interfaces(&self, listener: u64) -> (Vec<Interface>, Vec<usize>) {
        let ports = self.ports.iter().enumerate().filter(|(_, port)| port.listens_at(listener));
        let interface = |port: &Port| Interface {
            id: port.config.id,
            name: Name::new(port.device.name()),
            secret: port.config.secret,
            busy: port.connection.is_some(),
            rings: port.config.queues,
        };
        ports.map(|(position, port)| (interface(port), position)).unzip()
    }

    /// A client may have connected to a listener. Some at a time: others are served in between.
    pub(super) fn accept(&mut self, listener: u64) {
        for _ in 0..ACCEPTS_PER_TURN {
            let own = self.ports.iter().filter_map(|port| port.listener.as_ref());
            let Some(Listener { socket, .. }) = own.into_iter().find(|own| own.token == listener) else { return };
            match socket.accept() {
                Ok(Some(socket)) => self.welcome(listener, socket),
                Ok(None) => return,
                // Mostly that there is no descriptor to spare; the client is still there then.
                Err(_) => return std::thread::sleep(Duration::from_nanos(LOOK_EVERY.ns)),
            }
        }
    }

    fn welcome(&mut self, listener: u64, socket: OwnedFd) {
        let (interfaces, ports) = self.interfaces(listener);
        let configs = || ports.iter().map(|port| &self.ports[*port].config);
        // A client that is gone already is not missed.
        let Ok(who) = peer_cred(&socket) else { return };
        let (own_uid, own_gid) = (geteuid().as_raw(), getegid().as_raw());
        if !configs().any(|config| config.access.allows(who, own_uid, own_gid)) {
            let _ = Down::NotAllowed.message().map(|message| send(&socket, &message, None));
            return;
        }
        let log2 = configs().map(MemifConfig::log2_ring_size).max().expect("a listener has a device");
        let shaking = self.connections.iter().filter(|(_, connection)| !connection.deadline.is_never());
        let clients = shaking.filter_map(|(token, connection)| Some((*token, connection.who?)));
        if clients.clone().count() >= SHAKING_MAX
            && let Some(token) = first_to_go(clients)
        {
            self.end(token, &Down::Crowded);
        }
        let token = self.poll.next_token();
        if let Ok(side) = ServerSide::greet(&socket, log2, &interfaces)
            && self.poll.watch(&socket, token).is_ok()
        {
            let side = Handshaking::Server { side: Box::new(side), listener };
            let deadline = Deadline::after(Clock.now(), HANDSHAKE_MAX);
            self.connections.insert(token, PeerConnection { socket, side, port: None, deadline, who: Some(who) });
        }
    }

    /// Something came on a connection, or its peer has gone.
    pub(super) fn on_readable(&mut self, token: u64) {
        let Some(mut connection) = self.connections.remove(&token) else { return };
        match self.serve(token, &mut connection) {
            Ok(()) => drop(self.connections.insert(token, connection)),
            Err(down) => self.close(connection, &down),
        }
    }

    fn serve(&mut self, token: u64, connection: &mut PeerConnection) -> Result<(), Down> {
        for _ in 0..MESSAGES_PER_TURN {
            let (message, descriptor) = match receive(&connection.socket)? {
                Received::Nothing => return Ok(()),
                Received::Closed => return Err(Down::Gone),
                Received::Packet(message, descriptor) => (message, descriptor),
            };
            let attachment = match &mut connection.side {
                Handshaking::Client(side) => {
                    let message = message.map_err(|error| side.refuse(error.into()))?;
                    match side.on_message(&connection.socket, &message)? {
                        ClientStep::Wait => None,
                        ClientStep::Attach(attachment) => Some(attachment),
                    }
                }
                Handshaking::Server { side, listener } => {
                    let message = message.map_err(|error| side.refuse(error.into()))?;
                    self.reap(*listener);
                    let (interfaces, ports) = self.interfaces(*listener);
                    let step = side.on_message(&connection.socket, &message, descriptor, &interfaces);
                    if let (Err(down), Message::Init(init)) = (&step, &message) {
                        self.note_refusal(*listener, init.id, down);
                    }
                    match step? {
                        ServerStep::Wait => None,
                        ServerStep::Admitted(interface) => {
                            let port = &mut self.ports[ports[interface]];
                            port.connection = Some(token);
                            side.admitted(port.config.frame_bytes);
                            connection.port = Some(ports[interface]);
                            None
                        }
                        ServerStep::Attach(attachment) => Some(attachment),
                    }
                }
            };
            if let Some(attachment) = attachment {
                let port = connection.port.expect("known before the end of the handshake");
                self.attach(port, attachment)?;
                connection.deadline = Deadline::NEVER;
                if let Handshaking::Server { side, .. } = &mut connection.side {
                    side.attached(&connection.socket, self.ports[port].device.name())?;
                }
            }
        }
        Ok(())
    }

    /// A client was not let in: a program that waits for a peer on this interface is told why.
    fn note_refusal(&mut self, listener: u64, id: u32, down: &Down) {
        let mut ports = self.ports.iter_mut().filter(|port| port.listens_at(listener));
        let Some(port) = ports.find(|port| port.config.id == id && port.connection.is_none()) else { return };
        let why = down.to_string();
        // Once: a client that tries again and again makes no other wait.
        if port.refused.as_ref() != Some(&why) {
            drop(port.device.carrier_off(why.clone()));
            port.refused = Some(why);
        }
    }

    /// Connected peers of a listener that are gone give their interfaces free, before a new client is told that they are
    /// not.
    fn reap(&mut self, listener: u64) {
        let of_listener = |port: &&Port| port.listens_at(listener);
        let tokens: Vec<u64> = self.ports.iter().filter(of_listener).filter_map(|port| port.connection).collect();
        for token in tokens {
            let gone = self.connections.get(&token).is_some_and(|connection| has_hung_up(&connection.socket));
            if gone {
                self.end(token, &Down::Gone);
            }
        }
    }

    fn attach(&mut self, position: usize, attachment: Attachment) -> Result<(), Down> {
        let port = &mut self.ports[position];
        let frame_bytes = port.config.frame_bytes as usize;
        let (mut ends, mut kicks) = (Vec::new(), Vec::new());
        for (pair, line) in attachment.pairs.into_iter().zip(&port.parts.lines) {
            let rx = match pair.rx {
                Some((ring, eventfd)) => {
                    line.connect(&eventfd, ring.interrupt_switch())?;
                    RxEnd::Memif(MemifRx { ring, frame_bytes })
                }
                None => RxEnd::Detached,
            };
            let tx = match pair.tx {
                Some((ring, eventfd)) => {
                    let kick = Arc::new(Kick::new(eventfd, self.guard.bell().clone()));
                    kicks.push(kick.clone());
                    TxEnd::Memif(MemifTx::new(ring, frame_bytes, kick))
                }
                None => TxEnd::Detached,
            };
            ends.push((rx, tx));
        }
        // Not before all ends are there: a peer that gets no further leaves nothing to be watched over.
        kicks.iter().for_each(|kick| self.guard.watch(kick));
        port.attached = Some(Attached { kicks, index_errors: port.index_errors() });
        Ok(port.device.carrier_on(attachment.peer, ends, attachment.tx_rings)?)
    }

    /// A connection is over: the peer is told, the device loses carrier, and a client tries again.
    fn close(&mut self, connection: PeerConnection, down: &Down) {
        if let Some(message) = down.message() {
            // A peer that cannot hear it sees the socket close.
            let _ = send(&connection.socket, &message, None);
        }
        if let Some(position) = connection.port {
            self.detach(position, down);
        }
    }

    fn detach(&mut self, position: usize, down: &Down) {
        let port = &mut self.ports[position];
        // First, so that a thread that rings now comes back, whatever the peer does: the next step waits for them.
        port.refused = None;
        let kicks = port.attached.take().map(|attached| attached.kicks).unwrap_or_default();
        kicks.iter().for_each(|kick| kick.retire());
        self.guard.look_now();
        // The ends hold no frames.
        let had_peer = !port.device.carrier_off(down.to_string()).is_empty();
        if had_peer && !port.config.keep_connections {
            port.device.drop_connections();
        }
        self.guard.forget(&kicks);
        port.parts.lines.iter().for_each(|line| line.disconnect());
        port.connection = None;
        if let Some(tries) = &mut port.tries {
            tries.ended(Clock.now(), matches!(down, Down::Queue { .. }));
        }
    }

    /// What is due now, and a look at the rings of those that have a peer.
    pub(super) fn on_time(&mut self) {
        let now = Clock.now();
        let late = |(token, connection): (&u64, &PeerConnection)| connection.deadline.is_due(now).then_some(*token);
        for token in self.connections.iter().filter_map(late).collect::<Vec<_>>() {
            self.end(token, &Down::Silent);
        }
        for position in 0..self.ports.len() {
            let port = &self.ports[position];
            if let (Some(token), Some(down)) = (port.connection, port.broken()) {
                self.end(token, &down);
            } else if port.tries.is_some_and(|tries| tries.due().is_due(now))
                && let Err(down) = self.try_to_connect(position)
            {
                self.detach(position, &down);
            }
        }
        for port in self.ports.iter().filter(|port| port.attached.is_some()) {
            for (queue, line) in port.parts.lines.iter().enumerate() {
                if line.overlooked() {
                    port.device.interrupt(queue);
                }
            }
        }
    }

    fn end(&mut self, token: u64, down: &Down) {
        if let Some(connection) = self.connections.remove(&token) {
            self.close(connection, down);
        }
    }

    fn try_to_connect(&mut self, position: usize) -> Result<(), Down> {
        let token = self.poll.next_token();
        let port = &mut self.ports[position];
        port.tries.iter_mut().for_each(Tries::begin);
        let socket = SocketPath(port.config.socket.clone());
        let socket = socket.connect().map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => Down::Queue { socket: socket.0 },
            _ => Down::NotThere { socket: socket.0, source },
        })?;
        self.poll.watch(&socket, token)?;
        let side = Handshaking::Client(Box::new(ClientSide::new(&port.config, port.layout)));
        port.connection = Some(token);
        let deadline = Deadline::after(Clock.now(), HANDSHAKE_MAX);
        self.connections.insert(token, PeerConnection { socket, side, port: Some(position), deadline, who: None });
        Ok(())
    }

    /// The engine is going away: every peer is told.
    pub(super) fn close_all(&mut self) {
        for connection in std::mem::take(&mut self.connections).into_values() {
            self.close(connection, &Down::Closing);
        }
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

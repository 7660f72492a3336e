//! What the thread that drives a channel works on: interfaces that wait for a peer or have one, and connections.
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
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use napier_core::memif::times::{HANDSHAKE_MAX, LOOK_EVERY, Tries};
use napier_core::memif::{Interface, Message, Name};
use napier_core::time::Deadline;
use rustix::process::{getegid, geteuid};

use crate::access::first_to_go;
use crate::attachment::{Attachment, RingPair};
use crate::channel::Channel;
use crate::client::{ClientSide, ClientStep};
use crate::config::InterfaceConfig;
use crate::disconnect::Disconnect;
use crate::handler::{Connection, QueueEnds};
use crate::kick::Kick;
use crate::poll::{TOKEN_ALARM, TOKEN_WAKE};
use crate::port::{Attached, Listener, Port};
use crate::server::{ServerSide, ServerStep};
use crate::socket::{Received, SocketPath, receive, send};
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
    /// Position of the interface, once it is known.
    port: Option<usize>,
    /// When the handshake has taken too long; never once packets flow.
    deadline: Deadline,
    /// Who it is, of a client.
    who: Option<PeerCred>,
}

/// The interfaces of a channel and their peers. Owned by the thread that drives the channel: no thread waits for it.
///
/// When this is dropped every peer is told, and every [handler](crate::drive::PeerHandler).
pub struct Peers {
    channel: Arc<Channel>,
    ports: Vec<Port>,
    connections: BTreeMap<u64, PeerConnection>,
    /// When rings are looked at again; never while no interface has a peer.
    look: Deadline,
    /// When the alarm rings.
    alarm: Deadline,
}

impl Peers {
    /// Drives the channel from now on. One per channel.
    #[must_use]
    pub fn new(channel: Arc<Channel>) -> Self {
        Self { channel, ports: Vec::new(), connections: BTreeMap::new(), look: Deadline::NEVER, alarm: Deadline::NEVER }
    }

    /// Waits until something is to be done, at most for so long (`None`: for ever), and does it. False: the channel is to end.
    ///
    /// # Panics
    ///
    /// If waiting on own descriptors fails.
    pub fn turn(&mut self, timeout: Option<&rustix::time::Timespec>) -> bool {
        let channel = self.channel.clone();
        let mut buffer = [const { MaybeUninit::uninit() }; 64];
        let Some(events) = channel.poll.wait(&mut buffer, timeout) else { return false };
        self.take_in();
        // Those that have connections first: a peer that is gone makes room for one that comes.
        for event in events {
            self.on_readable(event.data.u64());
        }
        for event in events {
            match event.data.u64() {
                TOKEN_WAKE => {}
                TOKEN_ALARM => self.alarm = Deadline::NEVER,
                token => self.accept(token),
            }
        }
        self.on_time();
        let next = self.next_deadline();
        if next != self.alarm {
            channel.poll.set_alarm(next);
            self.alarm = next;
        }
        true
    }

    /// Interfaces that were added, and those that are to go.
    pub(crate) fn take_in(&mut self) {
        // First, so that the interface of each is among those that were added.
        let removals: Vec<_> = self.channel.removed.take_any().collect();
        self.ports.extend(self.channel.added.take_any());
        for removal in removals {
            let Some(position) = self.ports.iter().position(|port| port.number == removal.number) else { continue };
            if let Some(token) = self.ports[position].connection {
                self.end(token, Disconnect::Closing);
            }
            self.ports.remove(position);
            let behind = self.connections.values_mut().filter_map(|connection| connection.port.as_mut());
            behind.filter(|port| **port > position).for_each(|port| *port -= 1);
        }
    }

    /// Until when nothing is to be done unless something comes.
    fn next_deadline(&self) -> Deadline {
        let deadlines = self.connections.values().map(|connection| connection.deadline);
        let tries = self.ports.iter().filter_map(|port| port.tries).map(|tries| tries.due());
        deadlines.chain(tries).fold(self.look, Deadline::earliest)
    }

    /// The interfaces of a listener, and their positions.
    fn interfaces(&self, listener: u64) -> (Vec<Interface>, Vec<usize>) {
        let ports = self.ports.iter().enumerate().filter(|(_, port)| port.listens_at(listener));
        let interface = |port: &Port| Interface {
            id: port.config.id,
            name: Name::new(&port.name),
            secret: port.config.secret,
            busy: port.connection.is_some(),
            rings: port.config.queues,
        };
        ports.map(|(position, port)| (interface(port), position)).unzip()
    }

    /// A client may have connected to a listener. Some at a time: others are served in between.
    fn accept(&mut self, listener: u64) {
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
            let _ = Disconnect::NotAllowed.message().map(|message| send(&socket, &message, None));
            return;
        }
        let log2 = configs().map(InterfaceConfig::log2_ring_size).max().expect("a listener has an interface");
        let shaking = self.connections.iter().filter(|(_, connection)| !connection.deadline.is_never());
        let clients = shaking.filter_map(|(token, connection)| Some((*token, connection.who?)));
        if clients.clone().count() >= SHAKING_MAX
            && let Some(token) = first_to_go(clients)
        {
            self.end(token, Disconnect::Crowded);
        }
        let token = self.channel.poll.next_token();
        if let Ok(side) = ServerSide::greet(&socket, log2, &interfaces)
            && self.channel.poll.watch(&socket, token).is_ok()
        {
            let side = Handshaking::Server { side: Box::new(side), listener };
            let deadline = Deadline::after(Clock.now(), HANDSHAKE_MAX);
            self.connections.insert(token, PeerConnection { socket, side, port: None, deadline, who: Some(who) });
        }
    }

    /// Something came on a connection, or its peer has gone.
    fn on_readable(&mut self, token: u64) {
        let Some(mut connection) = self.connections.remove(&token) else { return };
        match self.serve(token, &mut connection) {
            Ok(()) => drop(self.connections.insert(token, connection)),
            Err(down) => self.close(connection, down),
        }
    }

    fn serve(&mut self, token: u64, connection: &mut PeerConnection) -> Result<(), Disconnect> {
        for _ in 0..MESSAGES_PER_TURN {
            let (message, descriptor) = match receive(&connection.socket)? {
                Received::Nothing => return Ok(()),
                Received::Closed => return Err(Disconnect::Gone),
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
                    side.attached(&connection.socket, &self.ports[port].name)?;
                }
            }
        }
        Ok(())
    }

    /// A client was not let in: a program that waits for a peer on this interface is told why.
    fn note_refusal(&mut self, listener: u64, id: u32, down: &Disconnect) {
        let mut ports = self.ports.iter_mut().filter(|port| port.listens_at(listener));
        let Some(port) = ports.find(|port| port.config.id == id && port.connection.is_none()) else { return };
        let why = down.to_string();
        // Once: a client that tries again and again makes no other wait.
        if port.refused.as_ref() != Some(&why) {
            port.handler.refused(&why);
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
                self.end(token, Disconnect::Gone);
            }
        }
    }

    fn attach(&mut self, position: usize, attachment: Attachment) -> Result<(), Disconnect> {
        let port = &mut self.ports[position];
        let (mut queues, mut kicks) = (Vec::new(), Vec::new());
        for RingPair { rx, tx } in attachment.pairs.into_iter().take(port.config.queues.into()) {
            let tx = tx.map(|(ring, eventfd)| {
                let kick = Arc::new(Kick::new(eventfd, self.channel.guard.bell().clone()));
                kicks.push(kick.clone());
                (ring, kick)
            });
            queues.push(QueueEnds { rx, tx });
        }
        // Before any thread rings.
        kicks.iter().for_each(|kick| self.channel.guard.watch(kick));
        port.attached = Some(Attached { kicks, index_errors: port.handler.index_errors() });
        let connection = Connection { peer: attachment.peer, queues, tx_queues: attachment.tx_rings };
        Ok(port.handler.connected(connection)?)
    }

    /// A connection is over: the peer is told, and the interface; a client tries again.
    fn close(&mut self, connection: PeerConnection, down: Disconnect) {
        if let Some(message) = down.message() {
            // A peer that cannot hear it sees the socket close.
            let _ = send(&connection.socket, &message, None);
        }
        if let Some(position) = connection.port {
            self.detach(position, down);
        }
    }

    fn detach(&mut self, position: usize, down: Disconnect) {
        let port = &mut self.ports[position];
        // First, so that a thread that rings now comes back, whatever the peer does: the handler may wait for it.
        port.refused = None;
        let kicks = port.attached.take().map(|attached| attached.kicks).unwrap_or_default();
        kicks.iter().for_each(|kick| kick.retire());
        self.channel.guard.look_now();
        let queue_full = matches!(down, Disconnect::Queue { .. });
        port.handler.disconnected(down);
        self.channel.guard.forget_retired();
        port.connection = None;
        if let Some(tries) = &mut port.tries {
            tries.ended(Clock.now(), queue_full);
        }
    }

    /// What is due now, and a look at the rings of those that have a peer.
    fn on_time(&mut self) {
        let now = Clock.now();
        let late = |(token, connection): (&u64, &PeerConnection)| connection.deadline.is_due(now).then_some(*token);
        for token in self.connections.iter().filter_map(late).collect::<Vec<_>>() {
            self.end(token, Disconnect::Silent);
        }
        for position in 0..self.ports.len() {
            let port = &self.ports[position];
            if let (Some(token), Some(down)) = (port.connection, port.broken()) {
                self.end(token, down);
            } else if port.tries.is_some_and(|tries| tries.due().is_due(now))
                && let Err(down) = self.try_to_connect(position)
            {
                self.detach(position, down);
            }
        }
        let mut attached = self.ports.iter().filter(|port| port.attached.is_some()).peekable();
        let some = attached.peek().is_some();
        if self.look.is_due(now) {
            attached.for_each(|port| port.handler.look());
        }
        if !some {
            self.look = Deadline::NEVER;
        } else if self.look.is_never() || self.look.is_due(now) {
            self.look = Deadline::after(now, LOOK_EVERY);
        }
    }

    fn end(&mut self, token: u64, down: Disconnect) {
        if let Some(connection) = self.connections.remove(&token) {
            self.close(connection, down);
        }
    }

    fn try_to_connect(&mut self, position: usize) -> Result<(), Disconnect> {
        let token = self.channel.poll.next_token();
        let port = &mut self.ports[position];
        port.tries.iter_mut().for_each(Tries::begin);
        let socket = SocketPath(port.config.socket.clone());
        let socket = socket.connect().map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => Disconnect::Queue { socket: socket.0 },
            _ => Disconnect::NotThere { socket: socket.0, source },
        })?;
        self.channel.poll.watch(&socket, token)?;
        let side = Handshaking::Client(Box::new(ClientSide::new(&port.config, port.layout)));
        port.connection = Some(token);
        let deadline = Deadline::after(Clock.now(), HANDSHAKE_MAX);
        self.connections.insert(token, PeerConnection { socket, side, port: Some(position), deadline, who: None });
        Ok(())
    }

    /// Every peer is told.
    fn close_all(&mut self) {
        for connection in std::mem::take(&mut self.connections).into_values() {
            self.close(connection, Disconnect::Closing);
        }
        self.ports.clear();
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // No thread waits for what is asked of it from here on.
        self.channel.stop();
        // What is half done after a panic is not to be finished.
        if !std::thread::panicking() {
            self.close_all();
        }
    }
}

/// Whether the peer has closed its socket; what it said before may still wait.
fn has_hung_up(socket: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

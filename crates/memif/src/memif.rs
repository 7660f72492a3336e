//! Interfaces with their peers, as one descriptor to wait for and a call to make when it is readable.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use napier_core::counters::Counter;
use napier_core::time::{Deadline, Span};
use napier_ring::memif::InterruptSwitch;
use napier_sys::clock::{Clock, timespec};

use crate::channel::{AddedInterface, Channel};
use crate::config::{AddInterfaceError, InterfaceConfig};
use crate::disconnect::Disconnect;
use crate::handler::{Connection, PeerHandler};
use crate::queue::{ConnectionState, MemifReceiver, MemifSender};
use crate::state::Peers;

/// An interface of a [`Memif`].
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InterfaceId(usize);

/// What became of the peer of an interface.
pub enum MemifEvent {
    /// There is a peer, and these are the ends of the queues that lead to it.
    Connected {
        /// Of this interface.
        interface: InterfaceId,
        /// What it calls itself.
        peer: String,
        /// By queue; as many as the peer gave.
        receivers: Vec<MemifReceiver>,
        /// By queue; as many as the peer gave.
        senders: Vec<MemifSender>,
    },
    /// There is no peer any more, or none could be reached. A client tries again by itself; the same reason is told once.
    Disconnected {
        /// Of this interface.
        interface: InterfaceId,
        /// Why.
        why: Disconnect,
    },
    /// A client was not let in, and the interface waits on.
    Refused {
        /// This interface.
        interface: InterfaceId,
        /// What the client was told.
        why: String,
    },
    /// Packets wait at an armed receiver for which no interrupt was seen yet: it may never come.
    PacketsWait {
        /// Of this interface.
        interface: InterfaceId,
        /// The number of the receiver.
        queue: usize,
    },
}

/// memif interfaces and the control channel that they share.
///
/// It does nothing by itself: [`poll`](Self::poll) does, and its descriptor is readable when that has something to do. One thread
/// is started, which sleeps unless a peer makes a sender wait. Packets never pass through here. When this is dropped every peer is
/// told.
///
/// ```
/// use std::time::Duration;
/// use napier_memif::{InterfaceConfig, Memif, MemifEvent};
///
/// let socket = format!("@napier-memif-doc-both-{}", std::process::id());
/// // Both sides in one process, driven by turns.
/// let (mut server, mut client) = (Memif::new()?, Memif::new()?);
/// let served = server.add("server", InterfaceConfig::server(&socket))?;
/// client.add("client", InterfaceConfig::client(&socket))?;
/// loop {
///     client.poll(Some(Duration::ZERO));
///     if let Some(MemifEvent::Connected { interface, peer, receivers, .. }) = server.poll(Some(Duration::from_millis(1))) {
///         assert_eq!((interface, receivers.len()), (served, 1));
///         println!("{peer} has connected");
///         break;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Memif {
    channel: Arc<Channel>,
    /// Dropped before the guard ends: peers that are told may make a thread wait.
    peers: Option<Peers>,
    guard: Option<JoinHandle<()>>,
    events: Events,
    /// By their numbers; those that were removed leave nothing.
    interfaces: Vec<Option<AddedInterface>>,
}

type Events = Arc<Mutex<VecDeque<MemifEvent>>>;

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("no panic while held")
}

impl Memif {
    /// No interface yet.
    ///
    /// # Errors
    ///
    /// The system refused a descriptor or a thread.
    pub fn new() -> io::Result<Self> {
        let channel = Channel::new()?;
        let guarded = channel.clone();
        let guard = std::thread::Builder::new().name("memif-guard".to_owned()).spawn(move || guarded.guard())?;
        let peers = Some(Peers::new(channel.clone()));
        Ok(Self { channel, peers, guard: Some(guard), events: Events::default(), interfaces: Vec::new() })
    }

    /// Adds an interface, called `name` (at most 31 bytes are told). A server listens from now on, a client connects at the next
    /// [`poll`](Self::poll); it stays until it is [removed](Self::remove) or this is dropped.
    ///
    /// # Errors
    ///
    /// See [`AddInterfaceError`]; nothing is added then.
    pub fn add(&mut self, name: &str, config: InterfaceConfig) -> Result<InterfaceId, AddInterfaceError> {
        let reservation = self.channel.reserve(config)?;
        let id = InterfaceId(self.interfaces.len());
        let (index_errors, state) = (Arc::default(), Mutex::default());
        let owner = Owner { id, events: self.events.clone(), index_errors, state };
        self.interfaces.push(Some(reservation.add(name, Arc::new(owner))));
        Ok(id)
    }

    /// Removes an interface: its peer is told, and its number on the socket is free. If there was a peer, its last event says so
    /// ([`Disconnect::Closing`]); what the peer has sent can still be received. False: it was removed before.
    ///
    /// ```
    /// use napier_memif::{InterfaceConfig, Memif};
    ///
    /// let socket = format!("@napier-memif-doc-remove-{}", std::process::id());
    /// let mut memif = Memif::new()?;
    /// let first = memif.add("first", InterfaceConfig::server(&socket))?;
    /// assert!(memif.add("second", InterfaceConfig::server(&socket)).is_err()); // the same number
    /// assert!(memif.remove(first) && !memif.remove(first));
    /// memif.add("second", InterfaceConfig::server(&socket))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(&mut self, interface: InterfaceId) -> bool {
        let Some(interface) = self.interfaces.get_mut(interface.0).and_then(Option::take) else { return false };
        let is_done = interface.ask();
        self.peers.as_mut().expect("there until the drop").take_in();
        debug_assert!(is_done.recv().is_err(), "it is gone");
        interface.forget();
        true
    }

    /// Does what is due, and returns what became of a peer. Waits until there is something to tell, at most for so long (`None`:
    /// for ever).
    ///
    /// # Panics
    ///
    /// If waiting on own descriptors fails.
    pub fn poll(&mut self, timeout: Option<Duration>) -> Option<MemifEvent> {
        let span = |timeout: Duration| Span::from_ns(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let until = timeout.map_or(Deadline::NEVER, |timeout| Deadline::after(Clock.now(), span(timeout)));
        loop {
            let told = self.next_event();
            if told.is_some() {
                return told;
            }
            let now = Clock.now();
            let left = until.instant().map(|until| timespec(until.ns.saturating_sub(now.ns)));
            self.peers.as_mut().expect("there until the drop").turn(left.as_ref());
            if until.is_due(now) {
                return self.next_event();
            }
        }
    }

    /// While more is left to tell, the descriptor stays readable.
    fn next_event(&self) -> Option<MemifEvent> {
        let mut events = lock(&self.events);
        let told = events.pop_front();
        if !events.is_empty() {
            self.channel.poll.wake();
        }
        told
    }
}

impl AsFd for Memif {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.poll.as_fd()
    }
}

impl Drop for Memif {
    fn drop(&mut self) {
        drop(self.peers.take());
        self.channel.stopped();
        // It ends at once: no thread begins to ring any more, and those that do are freed.
        if let Some(Err(panic)) = self.guard.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

/// The owner of an interface: tells the program by events.
struct Owner {
    id: InterfaceId,
    events: Events,
    index_errors: Arc<Counter>,
    state: Mutex<OwnerState>,
}

#[derive(Default)]
struct OwnerState {
    /// While there is a peer: the interrupts of the receivers, by queue.
    switches: Vec<Arc<InterruptSwitch>>,
    connection: Option<Arc<ConnectionState>>,
    /// Why there was none, as it was told last.
    told: Option<String>,
}

impl Owner {
    fn tell(&self, event: MemifEvent) {
        lock(&self.events).push_back(event);
    }
}

impl PeerHandler for Owner {
    fn connected(&self, Connection { peer, queues, .. }: Connection) -> io::Result<()> {
        let shared = Arc::new(ConnectionState::new(self.index_errors.clone()));
        let (mut receivers, mut senders) = (Vec::new(), Vec::new());
        for ends in queues {
            receivers.extend(ends.rx.map(|(ring, eventfd)| MemifReceiver::new(ring, eventfd, shared.clone())));
            senders.extend(ends.tx.map(|(ring, kick)| MemifSender::new(ring, kick, shared.clone())));
        }
        let switches = receivers.iter().map(|receiver| receiver.switch().clone()).collect();
        *lock(&self.state) = OwnerState { switches, connection: Some(shared), told: None };
        self.tell(MemifEvent::Connected { interface: self.id, peer, receivers, senders });
        Ok(())
    }

    fn disconnected(&self, why: Disconnect) {
        let (mut state, text) = (lock(&self.state), Some(why.to_string()));
        state.switches.clear();
        let connection = state.connection.take();
        connection.iter().for_each(|connection| connection.end());
        // A client that tries again and again says so once.
        if connection.is_some() || state.told != text {
            state.told = text;
            self.tell(MemifEvent::Disconnected { interface: self.id, why });
        }
    }

    fn refused(&self, why: &str) {
        self.tell(MemifEvent::Refused { interface: self.id, why: why.to_owned() });
    }

    fn index_errors(&self) -> u64 {
        self.index_errors.get()
    }

    fn look(&self) {
        let state = lock(&self.state);
        for (queue, switch) in state.switches.iter().enumerate() {
            if switch.is_overlooked() {
                self.tell(MemifEvent::PacketsWait { interface: self.id, queue });
            }
        }
    }
}

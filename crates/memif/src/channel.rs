//! The control channel as any thread reaches it: what is to be added, and on which sockets.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use napier_core::memif::RegionLayout;
use napier_ring::Inbox;

use crate::access::MemifAccess;
use crate::config::{AddInterfaceError, InterfaceConfig, MemifRole};
use crate::guard::Guard;
use crate::handler::PeerHandler;
use crate::poll::Poll;
use crate::port::{Listener, Port};
use crate::socket::SocketPath;

/// How often a thread that waits for a removal looks whether the channel ends.
const LOOK: Duration = Duration::from_millis(10);

/// A server's interface, from before it is added until the channel ends.
struct Served {
    path: SocketPath,
    id: u32,
    access: MemifAccess,
    listener: Listener,
}

/// A control channel. One thread drives it ([`Peers`](crate::drive::Peers)), one [guards](Self::guard) those that ring.
pub struct Channel {
    pub(crate) poll: Poll,
    pub(crate) guard: Guard,
    /// Locked for moments only.
    served: Mutex<Vec<Served>>,
    /// For the thread that drives the channel to take, which waits for no thread that has the lock.
    pub(crate) added: Inbox<Port>,
    /// The same, of those that are to go.
    pub(crate) removed: Inbox<Removal>,
}

/// An interface is to go.
pub(crate) struct Removal {
    /// Its [number](Port::number).
    pub(crate) number: u64,
    /// Dropped when it is gone.
    _done: SyncSender<()>,
}

impl Channel {
    /// A channel without interfaces.
    ///
    /// # Errors
    ///
    /// The system refused a descriptor.
    pub fn new() -> io::Result<Arc<Self>> {
        let (poll, guard) = (Poll::new()?, Guard::new());
        Ok(Arc::new(Self { poll, guard, served: Mutex::default(), added: Inbox::default(), removed: Inbox::default() }))
    }

    /// Begins to add an interface: its number is taken.
    ///
    /// # Errors
    ///
    /// See [`AddInterfaceError`]; nothing is taken then.
    pub fn reserve(self: &Arc<Self>, config: InterfaceConfig) -> Result<Reservation, AddInterfaceError> {
        config.check()?;
        let layout = config.layout()?;
        let listener = match config.role {
            MemifRole::Server => Some(self.listen(&config)?),
            MemifRole::Client => None,
        };
        Ok(Reservation { channel: self.clone(), config, layout, listener })
    }

    /// Frees threads that a peer makes wait, until [`stop`](Self::stop); for a thread that waits for no other.
    pub fn guard(&self) {
        self.guard.run(|| self.poll.wake());
    }

    /// The thread that drives the channel is to end; it tells every peer.
    pub fn stop(&self) {
        self.poll.stop();
    }

    /// No thread drives the channel any more: the guard ends as soon as no thread waits for a peer, and sockets that no interface
    /// knows are removed.
    pub fn stopped(&self) {
        self.guard.stop();
        self.lock().clear();
    }

    /// Gives the number of an interface at a listener back.
    fn forget(&self, listener: u64, id: u32) {
        self.lock().retain(|served| (served.listener.token, served.id) != (listener, id));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Served>> {
        self.served.lock().expect("no panic while held")
    }

    /// Takes the number of an interface on its socket, and listens there if this channel does not yet.
    fn listen(&self, config: &InterfaceConfig) -> Result<Listener, AddInterfaceError> {
        let path = SocketPath(config.socket.clone());
        let mut served = self.lock();
        let of_path = |served: &&Served| served.path == path;
        if served.iter().filter(of_path).any(|served| served.id == config.id) {
            return Err(AddInterfaceError::IdTaken { id: config.id, socket: path.0 });
        }
        let listener = match served.iter().find(of_path) {
            Some(served) if served.access != config.access => {
                return Err(AddInterfaceError::OtherAccess { socket: path.0 });
            }
            Some(served) => served.listener.clone(),
            None => {
                let token = self.poll.next_token();
                let listener = Listener { token, socket: Arc::new(path.listen(config.access)?) };
                self.poll.watch(&*listener.socket, listener.token)?;
                listener
            }
        };
        served.push(Served { path, id: config.id, access: config.access, listener: listener.clone() });
        Ok(listener)
    }
}

/// An interface that is about to be added. Its number is given back unless it is.
pub struct Reservation {
    channel: Arc<Channel>,
    config: InterfaceConfig,
    layout: RegionLayout,
    listener: Option<Listener>,
}

impl Reservation {
    /// Lets it look for its peer, to whom it is called `name`. It stays until it is [removed](AddedInterface::remove), or the channel ends.
    pub fn add(mut self, name: &str, handler: Arc<dyn PeerHandler>) -> AddedInterface {
        let number = self.channel.poll.next_token();
        let listener = self.listener.take();
        let served = listener.as_ref().map(|listener| (listener.token, self.config.id));
        let port = Port::new(name, number, self.config.clone(), self.layout, handler, listener);
        self.channel.added.push(port);
        self.channel.poll.wake();
        AddedInterface { channel: self.channel.clone(), number, served }
    }
}

/// An interface of a channel. Dropping this leaves it there.
pub struct AddedInterface {
    channel: Arc<Channel>,
    number: u64,
    /// At the server: its listener, and its number on the socket.
    served: Option<(u64, u32)>,
}

impl AddedInterface {
    /// Removes the interface: its peer is told, its [handler](PeerHandler) too, for the last time, and its number on the socket is free.
    ///
    /// Waits until the thread that drives the channel has done that, and must not be called by it, nor with a lock that the handler takes.
    /// Returns at once if the channel ends, which does the same.
    pub fn remove(self) {
        if !self.channel.poll.is_stopping() {
            let is_done = self.ask();
            while is_done.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) && !self.channel.poll.is_stopping() {}
        }
        self.forget();
    }

    /// Asks the thread that drives the channel to remove it, which lets go of what this returns when that is done.
    pub(crate) fn ask(&self) -> Receiver<()> {
        let (done, is_done) = sync_channel(1);
        self.channel.removed.push(Removal { number: self.number, _done: done });
        self.channel.poll.wake();
        is_done
    }

    /// Gives its number on the socket back, when it is gone.
    pub(crate) fn forget(&self) {
        if let Some((listener, id)) = self.served {
            self.channel.forget(listener, id);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            self.channel.forget(listener.token, self.config.id);
        }
    }
}

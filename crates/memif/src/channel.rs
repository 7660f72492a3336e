//! The control channel as any thread reaches it: what is to be added, and on which sockets.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use napier_core::memif::RegionLayout;
use napier_ring::Inbox;

use crate::access::MemifAccess;
use crate::config::{AddInterfaceError, InterfaceConfig, MemifRole};
use crate::guard::Guard;
use crate::handler::PeerHandler;
use crate::poll::Poll;
use crate::port::{Listener, Port};
use crate::socket::SocketPath;

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
}

impl Channel {
    /// A channel without interfaces.
    ///
    /// # Errors
    ///
    /// The system refused a descriptor.
    pub fn new() -> io::Result<Arc<Self>> {
        let (poll, guard) = (Poll::new()?, Guard::new());
        Ok(Arc::new(Self { poll, guard, served: Mutex::default(), added: Inbox::default() }))
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
    /// Lets it look for its peer, to whom it is called `name`.
    pub fn add(mut self, name: &str, handler: Arc<dyn PeerHandler>) {
        let port = Port::new(name, self.config.clone(), self.layout, handler, self.listener.take());
        self.channel.added.push(port);
        self.channel.poll.wake();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            let other = |served: &Served| (served.listener.token, served.id) != (listener.token, self.config.id);
            self.channel.lock().retain(other);
        }
    }
}

//! The control channel of an engine's memif devices: what programs ask of it, and its two threads.
//!
//! One thread listens, connects, shakes hands and notices that a peer has gone ([`Peers`](super::state)); it alone has
//! what it works on, so no thread waits for it. The other is the [guard](super::guard). Packets pass through neither, and
//! neither runs a softirq.

use std::any::Any;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use napier_core::memif::RegionLayout;
use napier_ring::{FrameTable, Inbox};

use super::guard::Guard;
use super::poll::{Poll, TOKEN_WAKE};
use super::port::{Listener, Port, PortParts};
use super::socket::SocketPath;
use super::state::Peers;
use super::{AddMemifError, MemifAccess, MemifConfig, MemifRole, Parts};
use crate::bounds::mtu_of;
use crate::port::{AddedDevice, EndConfig, Made, PortKind, Service, ServiceHost};
use crate::threads::{ThreadRole, pass_on};
use napier_sys::sched;

/// Above the softirq threads (50), which may be who waits for the guard. It runs for some microseconds at a time.
const GUARD_PRIORITY: i32 = 51;

/// A server's interface, from before its device is made until the engine ends.
struct Served {
    path: SocketPath,
    id: u32,
    access: MemifAccess,
    listener: Listener,
}

/// What programs reach; locked for moments only.
#[derive(Default)]
struct Reached {
    running: Option<Running>,
    served: Vec<Served>,
}

struct Running {
    poll: Arc<Poll>,
    guard: Arc<Guard>,
    threads: Vec<JoinHandle<()>>,
}

/// The control channel of an engine's memif devices.
#[derive(Default)]
pub(crate) struct Control {
    shared: Mutex<Reached>,
    /// For the control thread to take, which waits for no thread that has the lock.
    added: Arc<Inbox<Port>>,
}

impl Control {
    fn lock(&self) -> MutexGuard<'_, Reached> {
        self.shared.lock().expect("no panic while held")
    }

    /// Begins to add a device: its number is taken.
    ///
    /// # Errors
    ///
    /// See [`AddMemifError`]; nothing is taken then.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        host: &dyn ServiceHost,
        config: MemifConfig,
    ) -> Result<NewMemif, AddMemifError> {
        config.check()?;
        let layout = config.layout()?;
        let poll = self.started(host)?;
        let listener = match config.role {
            MemifRole::Server => Some(self.listen(&poll, &config)?),
            MemifRole::Client => None,
        };
        let reserved = Reserved { control: self.clone(), id: config.id, listener };
        Ok(NewMemif { config, layout, poll, reserved, parts: None })
    }

    /// Takes the number of an interface on its socket, and listens there if this engine does not yet.
    fn listen(&self, poll: &Poll, config: &MemifConfig) -> Result<Listener, AddMemifError> {
        let path = SocketPath(config.socket.clone());
        let mut shared = self.lock();
        let of_path = |served: &&Served| served.path == path;
        if shared.served.iter().filter(of_path).any(|served| served.id == config.id) {
            return Err(AddMemifError::IdTaken { id: config.id, socket: path.0 });
        }
        let listener = match shared.served.iter().find(of_path) {
            Some(served) if served.access != config.access => {
                return Err(AddMemifError::OtherAccess { socket: path.0 });
            }
            Some(served) => served.listener.clone(),
            None => {
                let listener = Listener { token: poll.next_token(), socket: Arc::new(path.listen(config.access)?) };
                poll.watch(&*listener.socket, listener.token)?;
                listener
            }
        };
        shared.served.push(Served { path, id: config.id, access: config.access, listener: listener.clone() });
        Ok(listener)
    }

    fn started(&self, host: &dyn ServiceHost) -> Result<Arc<Poll>, AddMemifError> {
        let mut shared = self.lock();
        if let Some(running) = &shared.running {
            return Ok(running.poll.clone());
        }
        let (poll, guard) = (Arc::new(Poll::new()?), Arc::new(Guard::new()));
        let spawn = |name, work| host.spawn(name, ThreadRole::MemifControl, work);
        let (shared_poll, shared_guard, fifo) = (poll.clone(), guard.clone(), host.has_fifo());
        let on_guard = move || {
            if fifo {
                // As well as it goes.
                let _ = sched::set_fifo(GUARD_PRIORITY);
            }
            shared_guard.run(|| shared_poll.wake());
        };
        let on_guard = spawn("memif-guard", Box::new(on_guard))?;
        let (shared_poll, shared_guard, added) = (poll.clone(), guard.clone(), self.added.clone());
        let control = spawn("memif", Box::new(move || run(&shared_poll, shared_guard, &added)));
        let control = control.inspect_err(|_| guard.stop())?;
        let threads = vec![control, on_guard];
        shared.running = Some(Running { poll: poll.clone(), guard, threads });
        Ok(poll)
    }
}

impl Service for Control {
    /// Tells every peer and stops; the engine is going away.
    fn stop(&self) {
        let Some(Running { poll, guard, threads }) = self.lock().running.take() else { return };
        poll.stop();
        let mut panicked = None;
        for thread in threads {
            panicked = thread.join().err().or(panicked);
            // After the control thread: its last peers may make a thread wait.
            guard.stop();
        }
        // The last who knows a socket removes its file.
        self.lock().served.clear();
        if let Some(panic) = panicked {
            pass_on(panic);
        }
    }
}

/// The number of a server's interface, given back unless the device is added.
struct Reserved {
    control: Arc<Control>,
    id: u32,
    listener: Option<Listener>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            let other = |served: &Served| (served.listener.token, served.id) != (listener.token, self.id);
            self.control.lock().served.retain(other);
        }
    }
}

/// A device that is about to be added.
pub(crate) struct NewMemif {
    config: MemifConfig,
    layout: RegionLayout,
    poll: Arc<Poll>,
    reserved: Reserved,
    parts: Option<PortParts>,
}

impl PortKind for NewMemif {
    type Error = AddMemifError;

    fn shape(&self) -> (u16, u32) {
        (self.config.queues, mtu_of(self.config.frame_bytes))
    }

    fn make(&mut self, _end: &mut EndConfig, frames: &Arc<FrameTable>) -> Result<Made, AddMemifError> {
        let Parts { ports, lines } = Parts::new(&self.config, frames)?;
        let counters =
            ports.queues.iter().map(|queue| (queue.rx.counters().clone(), queue.tx.counters().clone())).collect();
        self.parts = Some(PortParts { lines, counters });
        Ok(Made { ports, mtu: self.shape().1, unusable: Some("no peer has connected yet".to_owned()) })
    }

    /// Lets it look for its peer.
    fn added(self, device: Arc<dyn AddedDevice>) -> Option<Box<dyn Any + Send>> {
        let Self { config, layout, poll, mut reserved, parts } = self;
        let port = Port::new(config, layout, device, parts?, reserved.listener.take());
        reserved.control.added.push(port);
        poll.wake();
        None
    }
}

fn run(poll: &Arc<Poll>, guard: Arc<Guard>, added: &Inbox<Port>) {
    napier_sys::nowait::this_thread();
    let mut state = Peers::new(poll.clone(), guard);
    loop {
        let mut buffer = [const { MaybeUninit::uninit() }; 64];
        let Some(events) = poll.wait(&mut buffer, state.timeout().as_ref()) else { return state.close_all() };
        for port in added.take_any() {
            state.add(port);
        }
        // Those that have connections first: a peer that is gone makes room for one that comes.
        for event in events {
            state.on_readable(event.data.u64());
        }
        for event in events {
            match event.data.u64() {
                TOKEN_WAKE => {}
                token => state.accept(token),
            }
        }
        state.on_time();
    }
}

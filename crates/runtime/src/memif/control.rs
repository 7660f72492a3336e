//! The control channel of an engine's memif devices: what programs ask of it, and its two threads.
//!
//! One thread listens, connects, shakes hands and notices that a peer has gone ([`State`](super::state)); it alone has
//! what it works on, so nobody waits for it. The other is the [guard](super::guard). Packets pass through neither, and
//! neither runs a softirq.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use napier_ring::Inbox;
use rustix::event::epoll;

use super::guard::Guard;
use super::line::new_eventfd;
use super::port::{Listener, Port, PortParts};
use super::socket::SocketPath;
use super::state::State;
use super::{AddMemifError, MemifAccess, MemifConfig, MemifRole, Parts};
use crate::engine::{Carrier, EndConfig, EngineInner, NewDevice, ThreadRole, mtu_of, new_rss};
use crate::netdev::Device;
use crate::softirq;
use crate::sys::sched;

/// Above the softirq threads (50), which may be who waits for the guard. It runs for some microseconds at a time.
const GUARD_PRIORITY: i32 = 51;
const TOKEN_WAKE: u64 = 0;

/// What the control thread waits on.
pub(super) struct Poll {
    epoll: OwnedFd,
    wake: OwnedFd,
    last_token: AtomicU64,
    stopping: AtomicBool,
}

/// A server's interface, from before its device is made until the engine ends.
struct Served {
    path: SocketPath,
    id: u32,
    access: MemifAccess,
    listener: Listener,
}

/// What programs reach; locked for moments only.
#[derive(Default)]
struct Shared {
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
    shared: Mutex<Shared>,
    /// For the control thread to take, which waits for nobody who has the lock.
    added: Inbox<Port>,
}

impl Poll {
    fn new() -> io::Result<Self> {
        let (epoll, wake) = (epoll::create(epoll::CreateFlags::CLOEXEC)?, new_eventfd()?);
        let poll = Self { epoll, wake, last_token: AtomicU64::new(TOKEN_WAKE), stopping: AtomicBool::new(false) };
        poll.watch(&poll.wake, TOKEN_WAKE)?;
        Ok(poll)
    }

    /// Readable (level) = the token comes back.
    ///
    /// # Errors
    ///
    /// As `epoll_ctl(2)`.
    pub(super) fn watch(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
    }

    /// A token that nothing else has.
    pub(super) fn next_token(&self) -> u64 {
        self.last_token.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn wake(&self) {
        // Fails only if nobody has heard 2^64 - 2 wakes.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl Control {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no panic while held")
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
        let layout = config.layout()?;
        let poll = self.started(engine)?;
        let listener = match config.role {
            MemifRole::Server => Some(self.reserve(&poll, &config)?),
            MemifRole::Client => None,
        };
        // Without the lock: the devices' own may be held for long.
        let made = new_device(engine, &config, end);
        match made {
            Ok((device, parts)) => {
                self.added.push(Port::new(config, layout, device.clone(), parts, listener));
                poll.wake();
                Ok(device)
            }
            Err(error) => {
                if let Some(listener) = listener {
                    self.lock()
                        .served
                        .retain(|served| (served.listener.token, served.id) != (listener.token, config.id));
                }
                Err(error)
            }
        }
    }

    /// Takes the number of an interface on its socket, and listens there if nobody of this engine does.
    fn reserve(&self, poll: &Poll, config: &MemifConfig) -> Result<Listener, AddMemifError> {
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

    fn started(&self, engine: &Arc<EngineInner>) -> Result<Arc<Poll>, AddMemifError> {
        let mut shared = self.lock();
        if let Some(running) = &shared.running {
            return Ok(running.poll.clone());
        }
        let (poll, guard) = (Arc::new(Poll::new()?), Arc::new(Guard::new()));
        let spawn = |name: &str, work: Box<dyn FnOnce(&EngineInner) + Send>| {
            let engine = engine.clone();
            std::thread::Builder::new().name(name.to_owned()).spawn(move || {
                engine.unpin_thread();
                engine.threads.register(ThreadRole::MemifControl);
                work(&engine);
                engine.threads.unregister();
            })
        };
        let (shared_poll, shared_guard) = (poll.clone(), guard.clone());
        let on_guard = spawn(
            "memif-guard",
            Box::new(move |engine| {
                if engine.softirq.iter().any(|cpu| cpu.stats().fifo) {
                    // As well as it goes.
                    let _ = sched::set_fifo(GUARD_PRIORITY);
                }
                shared_guard.run(|| shared_poll.wake());
            }),
        )?;
        let (shared_poll, shared_guard) = (poll.clone(), guard.clone());
        let control = spawn("memif", Box::new(move |engine| run(engine, &shared_poll, shared_guard)));
        let control = control.inspect_err(|_| guard.stop())?;
        let threads = vec![control, on_guard];
        shared.running = Some(Running { poll: poll.clone(), guard, threads });
        Ok(poll)
    }

    /// Tells every peer and stops; the engine is going away.
    pub(crate) fn stop(&self) {
        let Some(Running { poll, guard, threads }) = self.lock().running.take() else { return };
        poll.stopping.store(true, Ordering::Release); // Acquire in `run`
        poll.wake();
        let mut panicked = None;
        for thread in threads {
            panicked = thread.join().err().or(panicked);
            // After the control thread: its last peers may make somebody wait.
            guard.stop();
        }
        // The last who knows a socket removes its file.
        self.lock().served.clear();
        if let Some(panic) = panicked {
            crate::engine::pass_on(panic);
        }
    }
}

fn new_device(
    engine: &Arc<EngineInner>,
    config: &MemifConfig,
    end: EndConfig,
) -> Result<(Arc<Device>, PortParts), AddMemifError> {
    let mut devices = engine.devices.lock().expect("no panic while held");
    // Before the frames are made: what the frame table has given it does not take back.
    let mtu = mtu_of(config.frame_bytes);
    engine.check_device(&devices, &end, (config.queues, mtu))?;
    let Parts { ports, lines } = Parts::new(config, &engine.frames)?;
    let counters =
        ports.queues.iter().map(|queue| (queue.rx.counters().clone(), queue.tx.counters().clone())).collect();
    let (rss, peer_rss) = (new_rss(config.queues), new_rss(config.queues));
    let carrier = Carrier::waiting("no peer has connected yet".to_owned());
    let new = NewDevice { config: end, ports, rss, peer_rss, carrier, mtu, in_process: false };
    let device = engine.add_device(&mut devices, new)?;
    Ok((device, PortParts { lines, counters }))
}

fn run(engine: &EngineInner, poll: &Arc<Poll>, guard: Arc<Guard>) {
    softirq::never_run_inline();
    crate::nowait::this_thread();
    let mut state = State::new(poll.clone(), guard);
    let mut events = Vec::with_capacity(64);
    loop {
        events.clear();
        match epoll::wait(&poll.epoll, rustix::buffer::spare_capacity(&mut events), state.timeout().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("waiting on own descriptors failed: {error}"),
        }
        // First, so that a call that comes after the looks below is heard by the next wait.
        if events.iter().any(|event| event.data.u64() == TOKEN_WAKE) {
            let _ = rustix::io::read(&poll.wake, &mut [0; 8]);
        }
        if poll.stopping.load(Ordering::Acquire) {
            return state.close_all(engine); // Release in `stop`
        }
        for port in engine.memif.added.take_any() {
            state.add(port);
        }
        // Those that have connections first: a peer that is gone makes room for one that comes.
        for event in &events {
            state.on_readable(engine, event.data.u64());
        }
        for event in &events {
            match event.data.u64() {
                TOKEN_WAKE => {}
                token => state.accept(engine, token),
            }
        }
        state.on_time(engine);
    }
}

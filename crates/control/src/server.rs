//! The engine's end of a control socket: one thread for all clients, and one that carries out what they change (`changes`).
//!
//! A client cannot do more than ask: what it sends is bounded in bytes and in rate, what its answers take of a CPU as well; what it
//! does not read is not kept for it for long; and there are at most [`CLIENTS_MAX`] of them. When another comes one goes: one that
//! has asked for nothing if there is one, and of those the one that was silent for longest. No lock of the packet path is taken
//! for it, and with no client nothing runs.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use napier_runtime::engine::{Engine, WeakEngine};
use napier_sys::clock::{Clock, timespec};
use napier_sys::cpuclock::ThreadClock;
use napier_sys::sched;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::answer::{answer, is_change};
use crate::changes::Changes;
use crate::connect;
use crate::place::{self, PlaceError};
use crate::session::{Answer, Said, Session, Waits};
pub use crate::session::{BURST_MAX, REQUEST_BYTES_MAX, REQUESTS_PER_S_MAX};

/// Clients at a time.
pub const CLIENTS_MAX: usize = 16;
/// Engines of one process that have a socket.
const SOCKETS_MAX: u32 = 64;
/// Entries of a folder that are looked at for sockets that were left.
const SWEEP_MAX: usize = 1000;
/// How long the thread stays where it is before it looks again which CPUs groups have, ns.
const SETTLED_NS: u64 = 5_000_000_000;
/// How long the listener is left alone when no descriptor is left, ns.
const PAUSE_NS: u64 = 1_000_000_000;

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no folder for it.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// More engines than names.
    #[error("{} has {SOCKETS_MAX} sockets of this process already", folder.display())]
    TooMany {
        /// The folder.
        folder: PathBuf,
    },
    /// The system refused.
    #[error("opening the control socket {}: {source}", path.display())]
    System {
        /// Its path.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// A socket at which an engine answers while this lives. It does not keep the engine running.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Opens it in the folder of the user that this process acts as ([`place::folders`]).
    ///
    /// # Errors
    /// [`OpenError`]; the engine runs on without.
    pub fn open(engine: &Engine) -> Result<Self, OpenError> {
        let uid = place::own_uid();
        let folder = place::prepare(&place::folders(uid, place::runtime_folder()), uid)?;
        Self::open_in(&folder, engine)
    }

    /// Opens it in a folder, which should be this user's alone.
    ///
    /// # Errors
    /// As [`ControlSocket::open`].
    pub fn open_in(folder: &Path, engine: &Engine) -> Result<Self, OpenError> {
        let (listener, path) = listen(folder)?;
        let system = |source| OpenError::System { path: path.clone(), source };
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let stop = Arc::new(stop.map_err(|errno| system(errno.into()))?);
        let changes = Changes::start(engine.downgrade()).map_err(system)?;
        let server = Server {
            listener,
            engine: engine.downgrade(),
            changes,
            taken: 0,
            uid: place::own_uid(),
            stop: stop.clone(),
            sessions: Vec::new(),
            listens_at_ns: 0,
            kept_off: Vec::new(),
            settles_at_ns: 0,
        };
        let thread = std::thread::Builder::new().name("napier-control".to_owned()).spawn(move || server.run());
        let thread = thread.map_err(|error| {
            let _ = fs::remove_file(&path);
            system(error)
        })?;
        Ok(Self { path, stop, thread: Some(thread) })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `--engine` takes for it: the number of this process, and of the socket if it is not the first.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // First, so that no one finds a socket that does not answer.
        let _ = fs::remove_file(&self.path);
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // The last handle to an engine may go there.
            let _ = thread.join();
        }
    }
}

fn listen(folder: &Path) -> Result<(UnixListener, PathBuf), OpenError> {
    sweep(folder);
    let pid = std::process::id();
    for nth in 1..=SOCKETS_MAX {
        let name = if nth == 1 { format!("{pid}.sock") } else { format!("{pid}-{nth}.sock") };
        let path = folder.join(name);
        let system = |source| OpenError::System { path: path.clone(), source };
        let bound = match UnixListener::bind(&path) {
            // Of a process that had this number and ended without taking it away.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left(&path) => {
                fs::remove_file(&path).and_then(|()| UnixListener::bind(&path))
            }
            bound => bound,
        };
        match bound {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(system(error)),
            Ok(listener) => {
                let ready = fs::set_permissions(&path, fs::Permissions::from_mode(0o600));
                ready.and_then(|()| listener.set_nonblocking(true)).map_err(|error| {
                    let _ = fs::remove_file(&path);
                    system(error)
                })?;
                return Ok((listener, path));
            }
        }
    }
    Err(OpenError::TooMany { folder: folder.to_owned() })
}

/// Removes sockets of processes that ended without taking them away. What answers, or has a process of that number, stays.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()).take(SWEEP_MAX) {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let pid = stem.split_once('-').map_or(stem, |(pid, _)| pid).parse::<u32>();
        let ended = pid.is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if ended && path.extension().is_some_and(|end| end == "sock") && is_left(&path) {
            let _ = fs::remove_file(&path);
        }
    }
}

fn is_left(path: &Path) -> bool {
    connect::to(path, Duration::ZERO).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

struct Server {
    listener: UnixListener,
    engine: WeakEngine,
    changes: Changes,
    /// Sessions so far.
    taken: u64,
    uid: u32,
    stop: Arc<OwnedFd>,
    sessions: Vec<Session>,
    listens_at_ns: u64,
    /// CPUs of groups: threads poll there.
    kept_off: Vec<usize>,
    /// When it is looked again which those are.
    settles_at_ns: u64,
}

impl Server {
    fn run(mut self) {
        let clock = ThreadClock::current();
        let used = || clock.and_then(ThreadClock::read).unwrap_or_default();
        while let Some(ready) = self.wait() {
            let now_ns = Clock.now().ns;
            if now_ns >= self.settles_at_ns {
                self.settle();
                self.settles_at_ns = now_ns.saturating_add(SETTLED_NS);
            }
            let mut ready = ready.into_iter();
            let (listener, changed) = (ready.next().unwrap_or(false), ready.next().unwrap_or(false));
            if changed {
                self.tell_what_is_done(now_ns);
            }
            let (engine, changes) = (&self.engine, &self.changes);
            let mut reply = |number, line: &[u8]| {
                if is_change(line) {
                    changes.ask(number, line);
                    return Answer::Later;
                }
                let before = used();
                let line = answer(engine.upgrade().as_ref(), line);
                Answer::Now(Said { line, spent: used().saturating_sub(before) })
            };
            self.sessions.retain_mut(|session| !ready.next().unwrap_or(false) || session.turn(now_ns, &mut reply));
            if listener {
                self.accept(now_ns);
            }
        }
    }

    /// Gives answers to those that asked for changes and are still there.
    fn tell_what_is_done(&mut self, now_ns: u64) {
        for (number, said) in self.changes.done() {
            if let Some(session) = self.sessions.iter_mut().find(|session| session.number == number) {
                session.answered(said, now_ns);
            }
        }
    }

    /// Leaves the CPUs that groups have, unless they have all.
    fn settle(&mut self) {
        let cpus = self.engine.upgrade().map(|engine| engine.group_cpus()).unwrap_or_default();
        if cpus != self.kept_off {
            if sched::keep_off(&cpus).is_none() {
                let _ = sched::keep_off(&[]);
            }
            self.kept_off = cpus;
        }
    }

    /// Whether the listener, the changes and each session have something to do; `None` when this is to end.
    fn wait(&self) -> Option<Vec<bool>> {
        let now_ns = Clock.now().ns;
        let mut wake_ns = u64::MAX;
        let mut fds = vec![PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN)];
        // Places among `fds`; none for what waits for time alone, or the system would report its end again and again.
        let mut places = Vec::with_capacity(1 + self.sessions.len());
        let mut watch = |fd, flags: Option<PollFlags>, at_ns: u64| {
            wake_ns = wake_ns.min(at_ns);
            places.push((flags.map(|_| fds.len()), at_ns));
            fds.extend(flags.map(|flags| PollFd::from_borrowed_fd(fd, flags)));
        };
        match self.listens_at_ns > now_ns {
            true => watch(self.listener.as_fd(), None, self.listens_at_ns),
            false => watch(self.listener.as_fd(), Some(PollFlags::IN), u64::MAX),
        }
        watch(self.changes.as_fd(), Some(PollFlags::IN), u64::MAX);
        for session in &self.sessions {
            let fd = session.stream.as_fd();
            match session.waits() {
                Waits::Input => watch(fd, Some(PollFlags::IN), u64::MAX),
                Waits::Output { until_ns } => watch(fd, Some(PollFlags::OUT), until_ns),
                Waits::Answer => watch(fd, None, u64::MAX),
                Waits::Turn { at_ns } => watch(fd, None, at_ns),
            }
        }
        let timeout = (wake_ns != u64::MAX).then(|| timespec(wake_ns.saturating_sub(now_ns)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // No memory for it: try again, not at once.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
        let now_ns = Clock.now().ns;
        let is_ready = |place: Option<usize>| place.is_some_and(|place| !fds[place].revents().is_empty());
        (!is_ready(Some(0))).then(|| places.iter().map(|(place, at_ns)| is_ready(*place) || *at_ns <= now_ns).collect())
    }

    fn accept(&mut self, now_ns: u64) {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return,
            Err(_) => {
                self.listens_at_ns = now_ns.saturating_add(PAUSE_NS);
                return;
            }
        };
        // The folder lets no other user in; this is for where it was opened elsewhere, or its mode was changed.
        let peer = rustix::net::sockopt::socket_peercred(&stream).map(|peer| peer.uid.as_raw());
        if !peer.is_ok_and(|uid| uid == self.uid || uid == 0) {
            return;
        }
        if self.sessions.len() >= CLIENTS_MAX {
            let worth = |index: &usize| (self.sessions[*index].has_asked, self.sessions[*index].moved_ns);
            let silent = (0..self.sessions.len()).min_by_key(worth);
            silent.into_iter().for_each(|index| drop(self.sessions.remove(index)));
        }
        self.taken += 1;
        self.sessions.extend(Session::new(self.taken, stream, now_ns));
    }
}

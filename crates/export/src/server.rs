//! The thread that answers. It never runs on a CPU that polls, if there is any other; what a client can make it do is bounded:
//! [`CONNECTIONS_MAX`] at a time, of which the oldest goes when another comes, each for a few seconds; and figures are gathered
//! at most once in [`FRESH_NS`], however many ask.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use napier_core::metric::Sink;
use napier_sys::clock::Clock;
use napier_sys::sched;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::connection::Connection;
use crate::exposition::Exposition;
use crate::request::Format;

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 64;
/// Connections that are taken in before those that are there have their turn.
const ACCEPTS_MAX: usize = 16;
/// How long a page is given to others who ask, ns: no scraper asks so often, and who does costs a tenth of the walks.
const FRESH_NS: u64 = 100_000_000;
/// How long the listener is left alone when no descriptor is left, ns.
const PAUSE_NS: u64 = 1_000_000_000;

/// Why nothing can be asked for.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The port is another program's.
    #[error("another program has {addr}: give another port, or end that program (ss -ltnp shows it)")]
    InUse {
        /// As asked.
        addr: SocketAddr,
    },
    /// The address is not of this machine.
    #[error("{} is no address of this machine: ip address shows those that it has; 127.0.0.1 is always there", addr.ip())]
    NotLocal {
        /// As asked.
        addr: SocketAddr,
    },
    /// A port for the system's own programs.
    #[error("port {} needs CAP_NET_BIND_SERVICE: give a port of 1024 or more", addr.port())]
    Reserved {
        /// As asked.
        addr: SocketAddr,
    },
    /// The system refused.
    #[error("listening on {addr}: {source}")]
    System {
        /// As asked.
        addr: SocketAddr,
        /// What it said.
        source: io::Error,
    },
}

/// Where threads poll that are not to be disturbed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Polling {
    /// On these CPUs, or on none.
    On(Vec<usize>),
    /// On any: they are not pinned.
    Anywhere,
}

/// Where the thread runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// On these CPUs, none of which polls, at the lowest niceness.
    Apart(Vec<usize>),
    /// On any CPU, while nothing else wants it (`SCHED_IDLE`): each may poll. It takes the CPU from no thread, and where all are
    /// busy it answers late.
    Idle,
}

/// Answers `/metrics` while it lives.
#[derive(Debug)]
pub struct Exporter {
    addr: SocketAddr,
    place: Place,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Listens, and starts the thread, where it disturbs nobody of `polling`. Port 0 takes any that is free.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn start(
        addr: SocketAddr,
        polling: Polling,
        walk: impl Fn(&mut dyn Sink) + Send + Sync + 'static,
    ) -> Result<Self, ListenError> {
        let listener = TcpListener::bind(addr).map_err(|error| refused(addr, error))?;
        let system = |source| ListenError::System { addr, source };
        listener.set_nonblocking(true).map_err(system)?;
        let bound = listener.local_addr().map_err(system)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let stop = Arc::new(stop.map_err(|errno| system(errno.into()))?);
        let exposition = Exposition::new(walk);
        let (tell, told) = mpsc::sync_channel(1);
        let server = Server {
            listener,
            stop: stop.clone(),
            connections: Vec::new(),
            listens_at_ns: 0,
            pages: Pages { exposition, last: [None, None] },
        };
        let thread = std::thread::Builder::new().name("napier-export".to_owned()).spawn(move || {
            let _ = tell.send(settle(&polling));
            server.run();
        });
        let thread = Some(thread.map_err(system)?);
        let place = told.recv().unwrap_or(Place::Idle);
        Ok(Self { addr: bound, place, stop, thread })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where its thread runs.
    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.place
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn refused(addr: SocketAddr, source: io::Error) -> ListenError {
    match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse { addr },
        io::ErrorKind::AddrNotAvailable => ListenError::NotLocal { addr },
        io::ErrorKind::PermissionDenied => ListenError::Reserved { addr },
        _ => ListenError::System { addr, source },
    }
}

fn settle(polling: &Polling) -> Place {
    // Inherited from a thread that may be in a real-time class, and may be pinned.
    let _ = sched::set_other();
    if let Polling::On(cpus) = polling
        && let Some(cpus) = sched::keep_off(cpus)
    {
        sched::least_urgent();
        return Place::Apart(cpus);
    }
    sched::set_idle();
    Place::Idle
}

/// The last text of each format, and when it was written.
struct Pages {
    exposition: Exposition,
    last: [Option<(u64, String)>; 2],
}

impl Pages {
    fn get(&mut self, format: Format, now_ns: u64) -> String {
        let last = &mut self.last[usize::from(format == Format::Plain)];
        if let Some((at_ns, page)) = last
            && now_ns < *at_ns + FRESH_NS
        {
            return page.clone();
        }
        let page = self.exposition.text(format);
        // When it was done: gathering may take longer than it stays fresh.
        *last = Some((Clock.now().ns, page.clone()));
        page
    }
}

struct Server {
    listener: TcpListener,
    stop: Arc<OwnedFd>,
    connections: Vec<Connection>,
    listens_at_ns: u64,
    pages: Pages,
}

impl Server {
    fn run(mut self) {
        while let Some(ready) = self.wait() {
            let now_ns = Clock.now().ns;
            let mut ready = ready.into_iter();
            let is_listener_ready = ready.next().unwrap_or(false);
            let pages = &mut self.pages;
            let mut page = |format| pages.get(format, now_ns);
            self.connections.retain_mut(|one| !ready.next().unwrap_or(false) || one.turn(now_ns, &mut page));
            if is_listener_ready {
                self.accept(now_ns);
            }
        }
    }

    /// Whether the listener and each connection have something to do; `None` when this is to end.
    fn wait(&self) -> Option<Vec<bool>> {
        let now_ns = Clock.now().ns;
        let is_listening = self.listens_at_ns <= now_ns;
        let mut wake_ns = if is_listening { u64::MAX } else { self.listens_at_ns };
        let mut fds = vec![PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN)];
        let flags = if is_listening { PollFlags::IN } else { PollFlags::empty() };
        fds.push(PollFd::from_borrowed_fd(self.listener.as_fd(), flags));
        for one in &self.connections {
            wake_ns = wake_ns.min(one.until_ns);
            let flags = if one.is_writing() { PollFlags::OUT } else { PollFlags::IN };
            fds.push(PollFd::from_borrowed_fd(one.stream.as_fd(), flags));
        }
        let timeout = (wake_ns != u64::MAX).then(|| timespec(wake_ns.saturating_sub(now_ns)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // No memory for it: try again, not at once.
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(100)),
        }
        let now_ns = Clock.now().ns;
        let is_ready = |place: usize| !fds[place].revents().is_empty();
        if is_ready(0) {
            return None;
        }
        let listener = std::iter::once(is_listening && is_ready(1));
        let one = |(at, one): (usize, &Connection)| is_ready(at + 2) || one.until_ns <= now_ns;
        Some(listener.chain(self.connections.iter().enumerate().map(one)).collect())
    }

    fn accept(&mut self, now_ns: u64) {
        for _ in 0..ACCEPTS_MAX {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.listens_at_ns = now_ns.saturating_add(PAUSE_NS);
                    return;
                }
            };
            if self.connections.len() >= CONNECTIONS_MAX {
                // The oldest: whoever asks at once has its answer long before it is that.
                drop(self.connections.remove(0));
            }
            if let Ok(mut one) = Connection::new(stream, now_ns) {
                // A request is mostly there already.
                let pages = &mut self.pages;
                if one.turn(now_ns, &mut |format| pages.get(format, now_ns)) {
                    self.connections.push(one);
                }
            }
        }
    }
}

fn timespec(ns: u64) -> Timespec {
    // Nothing waits longer than a few seconds.
    let ns = ns.min(60_000_000_000).cast_signed();
    Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 }
}

//! The thread that answers. It keeps off the CPUs that poll, if there is any other, and asks again which those are; what a client
//! can make it do is bounded: [`CONNECTIONS_MAX`] at a time, of which the oldest goes when another comes, each for a few seconds;
//! figures are gathered at most once in [`FRESH_NS`], however many ask; and a page is there once for all who take it.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use napier_core::metric::Sink;
use napier_sys::clock::{Clock, timespec};
use napier_sys::sched;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use crate::connection::Connection;
use crate::exposition::Exposition;
use crate::request::Format;

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 64;
/// How long a page is given to others who ask, ns: no scraper asks so often, and who does costs a tenth of the walks.
const FRESH_NS: u64 = 100_000_000;
/// How long the thread stays where it is before it asks again which CPUs poll, ns.
const SETTLED_NS: u64 = 5_000_000_000;
/// Clients at a time that take an older page than the last one; of more the oldest goes.
const SLOW_MAX: usize = 16;
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

/// Where the thread runs, at [`PATIENT_NICENESS`](sched::PATIENT_NICENESS): not at the lowest, for a busy machine is to be seen as well, and while it gathers it may
/// hold a lock that others wait for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// On these CPUs, none of which polls.
    Apart(Vec<usize>),
    /// On any CPU: each may poll.
    Anywhere,
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
    /// Listens, and starts the thread, where it disturbs none of `polling`, which is asked again before a walk if some seconds
    /// have passed. Port 0 takes any that is free.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn start(
        addr: SocketAddr,
        polling: impl Fn() -> Polling + Send + 'static,
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
        let mut server = Server {
            listener,
            stop: stop.clone(),
            connections: Vec::new(),
            listens_at_ns: 0,
            pages: LastPages { exposition, last: [None, None], polling: Box::new(polling), settled_ns: 0 },
        };
        let thread = std::thread::Builder::new().name("napier-export".to_owned()).spawn(move || {
            let _ = tell.send(server.pages.settle());
            server.run();
        });
        let thread = Some(thread.map_err(system)?);
        let place = told.recv().unwrap_or(Place::Anywhere);
        Ok(Self { addr: bound, place, stop, thread })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where its thread ran at first.
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
    sched::less_urgent();
    if let Polling::On(cpus) = polling
        && let Some(cpus) = sched::keep_off(cpus)
    {
        return Place::Apart(cpus);
    }
    let _ = sched::keep_off(&[]);
    Place::Anywhere
}

/// The last text of each format, and when it was written.
struct LastPages {
    exposition: Exposition,
    last: [Option<(u64, Arc<String>)>; 2],
    polling: Box<dyn Fn() -> Polling + Send>,
    /// When it was asked.
    settled_ns: u64,
}

impl LastPages {
    fn settle(&mut self) -> Place {
        self.settled_ns = Clock.now().ns;
        settle(&(self.polling)())
    }

    fn get(&mut self, format: Format, now_ns: u64) -> Arc<String> {
        let at = usize::from(format == Format::Plain);
        if let Some((at_ns, page)) = &self.last[at]
            && now_ns < *at_ns + FRESH_NS
        {
            return page.clone();
        }
        if now_ns >= self.settled_ns.saturating_add(SETTLED_NS) {
            self.settle();
        }
        // The memory of the last one, unless a client still takes it.
        let mut page = self.last[at].take().map(|(_, page)| page).unwrap_or_default();
        if Arc::get_mut(&mut page).is_none() {
            page = Arc::new(String::with_capacity(page.len()));
        }
        self.exposition.write(format, Arc::get_mut(&mut page).expect("no other has it"));
        // When it was done: gathering may take longer than it stays fresh.
        self.last[at] = Some((Clock.now().ns, page.clone()));
        page
    }

    fn is_last(&self, page: &Arc<String>) -> bool {
        self.last.iter().flatten().any(|(_, last)| Arc::ptr_eq(last, page))
    }
}

struct Server {
    listener: TcpListener,
    stop: Arc<OwnedFd>,
    connections: Vec<Connection>,
    listens_at_ns: u64,
    pages: LastPages,
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
                self.accept();
            }
            self.leave_slow();
        }
    }

    /// Pages that only slow clients have are memory that grows with each of them.
    fn leave_slow(&mut self) {
        let pages = &self.pages;
        let is_slow = |one: &Connection| one.page().is_some_and(|page| !pages.is_last(page));
        let mut more = self.connections.iter().filter(|one| is_slow(one)).count().saturating_sub(SLOW_MAX);
        self.connections.retain(|one| {
            let leaves = more > 0 && is_slow(one);
            more -= usize::from(leaves);
            !leaves
        });
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
            Ok(_) | Err(Errno::INTR) => {}
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

    /// Takes one in; `poll` tells of more, and those that are there have their turn before.
    fn accept(&mut self) {
        // Pages may have been made for others.
        let now_ns = Clock.now().ns;
        let stream = match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(stream) => TcpStream::from(stream),
            Err(Errno::INTR | Errno::CONNABORTED | Errno::AGAIN) => return,
            Err(_) => {
                self.listens_at_ns = now_ns.saturating_add(PAUSE_NS);
                return;
            }
        };
        if self.connections.len() >= CONNECTIONS_MAX {
            // The oldest: a client that asks at once has its answer long before it is that.
            drop(self.connections.remove(0));
        }
        // A request is mostly there already.
        let mut one = Connection::new(stream, now_ns);
        let pages = &mut self.pages;
        if one.turn(now_ns, &mut |format| pages.get(format, now_ns)) {
            self.connections.push(one);
        }
    }
}

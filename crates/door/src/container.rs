//! Programs in containers: a runtime (crun, runc) connects to a socket and hands over the descriptor of a container's held calls, as the container's
//! seccomp profile says (`listenerPath`).
//!
//! ```text
//! runtime --filter--> the container's process
//!         --its state and the descriptor--> ContainerSocket --> a thread for it, in the container's network namespace
//! ```
//!
//! The runtime hears no answer, and its container begins in any case. One that cannot be served goes on with the kernel's sockets, and a line says why.
//!
//! Source: runtime-spec 1.0.2, `config-linux.md`, "Seccomp" and "The Container Process State".

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use napier_linux::Netns;
use napier_linux::process::{HeldPage, Notifier, peer_of, wait_for_one};
use serde::Deserialize;

use crate::limits::PROGRAMS_MAX;
use crate::program::Goodbye;
use crate::server::{Door, NotServed, OpenDoorError, Within};
use crate::wire::part;
use crate::{NAME_BYTES_MAX, wire};

/// Longest state of a container, in bytes: its annotations are in it.
const STATE_BYTES_MAX: usize = 1 << 20;
/// A runtime that says nothing for so long is closed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Containers that are not served and whose calls go on by threads of this process; those of more fail with ENOSYS.
const LEFT_MAX: usize = 64;
/// What the descriptor is called among those that come along. Source: `specs-go/state.go SeccompFdName`.
const HELD_NAME: &str = "seccompFd";

/// Starts the process that lets the held calls (first) of a container go on when this one has ended, by the page (second) where it is noted which they
/// are: `napier_linux::process::keep_for_parent`, by a process that has nothing of this one mapped.
pub type StartKeeper = Box<dyn Fn(BorrowedFd<'_>, BorrowedFd<'_>) -> io::Result<()> + Send>;

/// Where runtimes bring containers.
pub struct ContainersConfig {
    /// The socket: what profiles have as `listenerPath`.
    pub path: PathBuf,
    /// For each container.
    pub keep: StartKeeper,
    /// Takes a line about a container that is not served.
    pub tell: Box<dyn Fn(&str) + Send>,
}

/// The state of a container, as far as it matters here.
#[derive(Deserialize)]
struct ContainerState {
    /// Names of the descriptors that come along, in their order.
    #[serde(default)]
    fds: Vec<String>,
    /// The process that has the filter, as the runtime sees it.
    pid: u32,
    /// What the profile has as `listenerMetadata`.
    #[serde(default)]
    metadata: String,
    state: ContainerId,
}

#[derive(Deserialize)]
struct ContainerId {
    id: String,
}

impl ContainerState {
    /// What the container is called here.
    fn name(&self) -> String {
        let name = if self.metadata.is_empty() { &self.state.id } else { &self.metadata };
        let plain = name.chars().filter(|letter| !letter.is_control() && letter.len_utf8() == 1);
        plain.take(NAME_BYTES_MAX).collect()
    }
}

impl Door {
    /// Takes programs from runtimes of containers too, which connect to a socket.
    ///
    /// # Errors
    /// [`OpenDoorError`].
    pub fn take_containers(&mut self, config: ContainersConfig) -> Result<(), OpenDoorError> {
        let socket = ContainerSocket::open(config, self.inside.clone())?;
        let ends = self.stop.clone();
        let thread = std::thread::Builder::new().name("napier-door".to_owned());
        self.threads.push(thread.spawn(move || socket.take(&ends))?);
        Ok(())
    }
}

/// The socket, listening. Its file is removed with it.
struct ContainerSocket {
    listener: UnixListener,
    config: ContainersConfig,
    inside: Arc<Within>,
    /// Containers that are not served.
    left: Arc<AtomicUsize>,
}

impl ContainerSocket {
    fn open(config: ContainersConfig, inside: Arc<Within>) -> Result<Self, OpenDoorError> {
        let listener = listener_at(&config.path)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, config, inside, left: Arc::default() })
    }

    /// Until `stop` can be read. One runtime after the other: only root and this user are heard.
    fn take(&self, stop: &Arc<OwnedFd>) {
        loop {
            match wait_for_one(&[stop.as_fd(), self.listener.as_fd()], Duration::from_secs(3600)) {
                Ok(Some(0)) | Err(_) => return,
                Ok(Some(_)) => {}
                Ok(None) => continue,
            }
            match self.listener.accept() {
                Ok((runtime, _)) => self.one(&runtime, stop),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Too many files are open: not again at once.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn one(&self, runtime: &UnixStream, stop: &Arc<OwnedFd>) {
        let own = rustix::process::geteuid().as_raw();
        if !peer_of(runtime).is_ok_and(|(_, user)| user == 0 || user == own) {
            return;
        }
        let (state, held) = match state_of(runtime) {
            Ok(told) => told,
            Err(error) => {
                return (self.config.tell)(&format!("a runtime of containers says what is no state of one: {error}"));
            }
        };
        let name = state.name();
        if let Err(why) = self.begin(&name, state.pid, held, stop) {
            (self.config.tell)(&format!("the container {name} has the kernel's sockets: {why}"));
        }
    }

    /// Serves a container, or leaves it to the kernel; why.
    fn begin(&self, name: &str, pid: u32, held: OwnedFd, stop: &Arc<OwnedFd>) -> Result<(), String> {
        let page = HeldPage::make().map_err(|error| format!("noting its calls: {error}"))?;
        let kept = (self.config.keep)(held.as_fd(), page.as_fd());
        let notifier = Notifier::new(held, page).map_err(|error| format!("its held calls: {error}"))?;
        if let Err(error) = kept {
            return Err(self.leave(notifier, format!("starting what keeps its calls: {error}")));
        }
        let place = match Netns::open(&pid.to_string()) {
            Ok(place) => Some(place).filter(|place| !is_here(place)),
            // It may have ended already.
            Err(error) => return Err(self.leave(notifier, error.to_string())),
        };
        match self.inside.start(name.to_owned(), notifier, place, stop) {
            Ok(_) => Ok(()),
            Err(NotServed::Full(notifier)) => {
                Err(self.leave(notifier, format!("the engine serves {PROGRAMS_MAX} programs already")))
            }
            Err(NotServed::NoThread(error)) => Err(format!("starting a thread: {error}")),
        }
    }

    /// Lets the calls of a container go on that is not served, as long as it and this process live; why it is not.
    fn leave(&self, notifier: Notifier, why: String) -> String {
        // Relaxed: it counts, and orders nothing.
        if self.left.fetch_add(1, Ordering::Relaxed) >= LEFT_MAX {
            self.left.fetch_sub(1, Ordering::Relaxed);
            return format!("{why}; and its calls fail, for {LEFT_MAX} containers have that already");
        }
        let left = self.left.clone();
        let thread = std::thread::Builder::new().name("napier-left".to_owned()).spawn(move || {
            Goodbye::of(notifier).let_all_go_on();
            left.fetch_sub(1, Ordering::Relaxed);
        });
        if thread.is_err() {
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
        why
    }
}

impl Drop for ContainerSocket {
    fn drop(&mut self) {
        // It may have been removed.
        let _ = std::fs::remove_file(&self.config.path);
    }
}

/// Whether a network namespace is that of this thread, which needs no privilege to stay there.
fn is_here(place: &Netns) -> bool {
    let own = Netns::current().ok().and_then(|own| own.inode().ok());
    own.is_some() && place.inode().ok() == own
}

/// A listener, also where a process that was killed has left its file.
fn listener_at(path: &Path) -> Result<UnixListener, OpenDoorError> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
        bound => return Ok(bound?),
    }
    let is_socket = std::fs::symlink_metadata(path)?.file_type().is_socket();
    let is_left = UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if !(is_socket && is_left) {
        return Err(OpenDoorError::PathInUse(path.display().to_string()));
    }
    std::fs::remove_file(path)?;
    Ok(UnixListener::bind(path)?)
}

/// What a runtime says, and the descriptor that is to be served.
fn state_of(runtime: &UnixStream) -> io::Result<(ContainerState, OwnedFd)> {
    runtime.set_read_timeout(Some(PATIENCE))?;
    let (mut text, mut piece, mut fds) = (Vec::new(), vec![0; 32 << 10], Vec::new());
    // Each turn takes a byte at least.
    let state = loop {
        let (count, more) = part(runtime, &mut piece)?;
        fds.extend(more.into_iter().take(wire::FDS_MAX - fds.len()));
        text.extend_from_slice(&piece[..count]);
        match serde_json::from_slice::<ContainerState>(&text) {
            Ok(state) => break state,
            Err(error) if error.is_eof() && count > 0 && text.len() <= STATE_BYTES_MAX => {}
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    };
    let at = state.fds.iter().position(|name| name == HELD_NAME).filter(|at| *at < fds.len());
    let at = at.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no seccompFd comes along"))?;
    Ok((state, fds.swap_remove(at)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    /// As a runtime says it, in pieces, with so many descriptors.
    fn told(text: &str, pieces: usize, fds: usize) -> io::Result<(ContainerState, OwnedFd)> {
        let (here, mut there) = UnixStream::pair().expect("a pair");
        let text = text.as_bytes().to_vec();
        let saying = std::thread::spawn(move || {
            let (first, rest) = text.split_at(text.len() / pieces);
            let file = std::fs::File::open("/dev/null").expect("it is there");
            let borrowed = vec![file.as_fd(); fds];
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(fds == 0 || control.push(SendAncillaryMessage::ScmRights(&borrowed)));
            sendmsg(&there, &[io::IoSlice::new(first)], &mut control, SendFlags::NOSIGNAL).expect("said");
            // The other side may have heard enough.
            let _ = there.write_all(rest);
        });
        let answer = state_of(&here);
        drop(here);
        saying.join().expect("it says it");
        answer
    }

    #[test]
    fn the_state_of_a_container_is_read_in_pieces_and_with_what_it_may_have_beside() {
        let text = r#"{"ociVersion":"1.0.2","fds":["other","seccompFd"],"pid":4711,"pidFd":3,"metadata":"",
            "state":{"ociVersion":"1.0.2","id":"web\u0007-1","status":"creating","pid":4711,"bundle":"/b","annotations":{"a":"b"}}}"#;
        for pieces in [1, 2, 7] {
            let (state, _held) = told(text, pieces, 2).expect("a state");
            assert_eq!((state.pid, state.name().as_str()), (4711, "web-1"));
        }
        let named = text.replace(r#""metadata":"""#, r#""metadata":"memcached""#);
        assert_eq!(told(&named, 1, 2).expect("a state").0.name(), "memcached");
    }

    #[test]
    fn what_is_no_state_is_refused_and_bounded() {
        let state = |fds: &str| format!(r#"{{"fds":[{fds}],"pid":1,"state":{{"id":"a"}}}}"#);
        let long = format!(r#"{{"pid":1,"x":"{}"#, "y".repeat(STATE_BYTES_MAX));
        let table = [
            (state(""), 1, "no descriptor is named"),
            (state("\"seccompFd\""), 0, "none comes along"),
            (state("\"a\",\"seccompFd\""), 1, "the other came"),
            ("{}".to_owned(), 1, "no process"),
            ("[1, 2".to_owned(), 1, "no object"),
            (long, 1, "too long"),
        ];
        for (text, fds, why) in table {
            assert_eq!(told(&text, 2, fds).err().expect(why).kind(), io::ErrorKind::InvalidData, "{why}");
        }
        let (state, _) = told(&state("\"seccompFd\""), 1, 8).expect("more descriptors than are taken");
        assert_eq!(state.name(), "a");
    }

    #[test]
    fn a_socket_that_was_left_is_taken_and_one_that_is_used_is_not() {
        let folder = napier_testkit::Folder::new("containers");
        let path = folder.join("socket");
        let first = listener_at(&path).expect("free");
        assert!(matches!(listener_at(&path), Err(OpenDoorError::PathInUse(_))));
        drop(first);
        listener_at(&path).expect("left");
        let file = folder.join("file");
        std::fs::write(&file, "mine").expect("written");
        assert!(listener_at(&file).is_err());
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "mine");
    }
}

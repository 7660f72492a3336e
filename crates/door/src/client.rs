//! Programs' and people's side of a door.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use napier_linux::process::peer_of;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::view::{DoorCounts, ProgramView, SocketView};
use crate::wire::{self, ANSWER_BYTES_MAX, DoorReply, DoorRequest};
use crate::{NAME_BYTES_MAX, NAME_PREFIX, is_name};

/// How long an engine may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Parts of an answer: as many sockets as there can be.
const PARTS_MAX: usize = 1 << 16;
/// Engines that are asked whose they are.
const ENGINES_MAX: usize = 64;
/// Connections over which a program is handed over, one after the other, until one is answered.
const ASKED_MAX: usize = 3;

/// Why an engine cannot be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorError {
    /// There is none.
    #[error("no engine serves programs in this network namespace: start one first")]
    None,
    /// There is none of that name.
    #[error("no engine named {0} serves programs in this network namespace: there is {1}")]
    NotFound(String, String),
    /// There are several.
    #[error("several engines serve programs here: give one of them by its name: {0}")]
    Several(String),
    /// It is a stranger's.
    #[error("the engine {0} is another user's (uid {1}), who would have this program's connections in hand")]
    Stranger(String, u32),
    /// It refused.
    #[error("the engine refused: {0}")]
    Refused(String),
    /// It has closed the connection without an answer.
    #[error("the engine {0} is busy with others, or has ended: try again")]
    Gone(String),
    /// The system refused.
    #[error("asking the engine: {0}")]
    System(#[from] io::Error),
}

impl DoorError {
    /// Whether the other side has closed the connection, and so has not done what it was asked for.
    fn is_gone(&self) -> bool {
        match self {
            Self::Gone(_) => true,
            Self::System(error) => matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset),
            Self::None | Self::NotFound(..) | Self::Several(_) | Self::Stranger(..) | Self::Refused(_) => false,
        }
    }
}

/// An engine with a door, asked once.
#[derive(Debug)]
pub struct EngineAt {
    socket: OwnedFd,
    name: String,
    pid: u32,
}

/// A program that an engine serves.
#[derive(Debug)]
pub struct ServedAt {
    engine: (String, u32),
    number: u64,
}

impl ServedAt {
    /// What its calls came to, also when it has ended.
    ///
    /// # Errors
    /// [`DoorError::Refused`] if the engine has ended, or many programs have since; what the system says.
    pub fn explain(&self) -> Result<ProgramView, DoorError> {
        let (name, pid) = &self.engine;
        let engine = EngineAt::find(Some(name))?;
        if engine.pid != *pid {
            return Err(DoorError::Refused("it is another than the one that served the program".to_owned()));
        }
        engine.ask(&DoorRequest::Explain { number: self.number }, &[])?;
        match engine.answer()?.0 {
            DoorReply::Program(view) => Ok(view),
            DoorReply::Refused(why) => Err(DoorError::Refused(why)),
            DoorReply::Begun | DoorReply::Served { .. } | DoorReply::Sockets(_) | DoorReply::Counts(_) => {
                Err(confused())
            }
        }
    }
}

/// What an engine has to show.
#[derive(Clone, Debug)]
pub struct ShownEngine {
    /// The sockets of all programs.
    pub sockets: Vec<SocketView>,
    /// The programs that are served now.
    pub programs: Vec<ProgramView>,
    /// What the calls of these came to, all together.
    pub counts: DoorCounts,
}

/// An answer to another question.
fn confused() -> DoorError {
    io::Error::from(io::ErrorKind::InvalidData).into()
}

impl EngineAt {
    /// The engine of that name in this network namespace, or the only one.
    ///
    /// # Errors
    /// [`DoorError`].
    pub fn find(name: Option<&str>) -> Result<Self, DoorError> {
        let there = names()?;
        let name = match (name, there.as_slice()) {
            (_, []) => return Err(DoorError::None),
            (Some(name), names) if names.iter().any(|there| there == name) => name.to_owned(),
            (Some(name), names) => return Err(DoorError::NotFound(name.to_owned(), names.join(", "))),
            (None, [one]) => one.clone(),
            (None, names) => return Err(DoorError::Several(names.join(", "))),
        };
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let socket = socket.map_err(io::Error::from)?;
        let address = SocketAddrUnix::new_abstract_name(format!("{NAME_PREFIX}{name}").as_bytes());
        connect(&socket, &address.map_err(io::Error::from)?).map_err(io::Error::from)?;
        for which in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&socket, which, Some(PATIENCE)).map_err(io::Error::from)?;
        }
        let (pid, user) = peer_of(&socket)?;
        if user != 0 && user != rustix::process::geteuid().as_raw() {
            return Err(DoorError::Stranger(name, user));
        }
        Ok(Self { socket, name, pid })
    }

    /// The engine of a process, if it serves programs in this network namespace and may be asked.
    ///
    /// # Errors
    /// What the system says.
    pub fn of_process(pid: u32) -> Result<Option<Self>, DoorError> {
        // One that has ended meanwhile, or is a stranger's, is not the one.
        let mut found = names()?.into_iter().take(ENGINES_MAX).filter_map(|name| Self::find(Some(&name)).ok());
        Ok(found.find(|engine| engine.pid == pid))
    }

    /// The engine's process; 0 if it is not to be seen from this pid namespace, where no program can be started on it.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// By which it was found.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tells the engine that a program is about to be started. The page is for
    /// [`Program::start_held`](napier_linux::process::Program::start_held).
    ///
    /// # Errors
    /// [`DoorError::Refused`], with why; what the system says.
    pub fn begin(&self) -> Result<OwnedFd, DoorError> {
        self.ask(&DoorRequest::Begin, &[])?;
        match self.answer()? {
            (DoorReply::Begun, mut fds) if fds.len() == 1 => Ok(fds.remove(0)),
            (DoorReply::Refused(why), _) => Err(DoorError::Refused(why)),
            _ => Err(confused()),
        }
    }

    /// Hands a program over that was started with its calls held, by their descriptor. The engine may have closed the connection meanwhile, for it
    /// waits a minute only: then it is asked by another one. The program's keeper has the page of the first: should that engine be killed, a call that
    /// it has not answered waits until a signal ends it.
    ///
    /// # Errors
    /// [`DoorError::Refused`], with why; what the system says.
    pub fn serve(mut self, program: &str, held: &OwnedFd) -> Result<ServedAt, DoorError> {
        // A long path has its name at its end.
        let name =
            if program.len() > NAME_BYTES_MAX { program.rsplit('/').next().unwrap_or_default() } else { program };
        let program: String = name.chars().take(NAME_BYTES_MAX).filter(|letter| !letter.is_control()).collect();
        for _ in 1..ASKED_MAX {
            match self.serve_once(&program, held) {
                Err(error) if error.is_gone() => self = self.again()?,
                answer => return answer,
            }
        }
        self.serve_once(&program, held)
    }

    /// Another connection to the same process: another engine of that name is not the one for whose end the program's keeper waits.
    fn again(&self) -> Result<Self, DoorError> {
        let found = Self::find(Some(&self.name))?;
        if found.pid != self.pid {
            return Err(DoorError::Refused("it is another than the one for which the program was started".to_owned()));
        }
        found.begin()?;
        Ok(found)
    }

    fn serve_once(&self, program: &str, held: &OwnedFd) -> Result<ServedAt, DoorError> {
        self.ask(&DoorRequest::Serve { program: program.to_owned() }, &[held.as_fd()])?;
        match self.answer()?.0 {
            DoorReply::Served { number } => Ok(ServedAt { engine: (self.name.clone(), self.pid), number }),
            DoorReply::Refused(why) => Err(DoorError::Refused(why)),
            DoorReply::Begun | DoorReply::Program(_) | DoorReply::Sockets(_) | DoorReply::Counts(_) => Err(confused()),
        }
    }

    /// The sockets of all programs, and what their calls came to.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub fn show(self) -> Result<ShownEngine, DoorError> {
        self.ask(&DoorRequest::Show, &[])?;
        let (mut sockets, mut programs) = (Vec::new(), Vec::new());
        for _ in 0..PARTS_MAX {
            match self.answer()?.0 {
                DoorReply::Sockets(part) => sockets.extend(part),
                DoorReply::Program(view) => programs.push(view),
                DoorReply::Counts(counts) => return Ok(ShownEngine { sockets, programs, counts }),
                DoorReply::Refused(why) => return Err(DoorError::Refused(why)),
                DoorReply::Begun | DoorReply::Served { .. } => break,
            }
        }
        Err(confused())
    }

    fn ask(&self, request: &DoorRequest, fds: &[BorrowedFd<'_>]) -> Result<(), DoorError> {
        Ok(wire::say(&self.socket, request, fds)?)
    }

    fn answer(&self) -> Result<(DoorReply, Vec<OwnedFd>), DoorError> {
        wire::heard(&self.socket, ANSWER_BYTES_MAX).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => DoorError::Gone(self.name.clone()),
            _ => error.into(),
        })
    }
}

/// The engines of this network namespace, by the kernel's list of names (`proc_net(5)`).
fn names() -> io::Result<Vec<String>> {
    let list = std::fs::read_to_string("/proc/thread-self/net/unix")?;
    let mut names: Vec<String> = list.lines().filter_map(named).map(str::to_owned).collect();
    names.sort();
    // Connections of clients have the name as well.
    names.dedup();
    Ok(names)
}

fn named(line: &str) -> Option<&str> {
    let name = line.split_whitespace().nth(7)?.strip_prefix('@')?.strip_prefix(NAME_PREFIX)?;
    is_name(name).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_the_kernels_list() {
        let line = |name: &str| format!("0000000000000000: 00000002 00000000 00010000 0005 01 24581 {name}");
        assert_eq!(named(&line("@napier-engine-eth1")), Some("eth1"));
        assert_eq!(named(&line("/run/x")), None);
        assert_eq!(named(&line("@napier-engine-")), None);
        assert_eq!(named("Num       RefCount Protocol Flags    Type St Inode Path"), None);
    }
}

//! The other end: asking a running engine.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::connect;
use crate::metrics::{self, Family};
use crate::place;
use crate::words::{How, Operation};

/// Bytes of an answer: an engine has at most 4096 instances.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// Entries of a folder that are looked at.
const ENGINES_MAX: usize = 1000;
/// How long an answer may take: an engine that changes threads waits for them.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why an engine did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No engine has a socket by that name.
    #[error(
        "no engine answers as {name}: give the number of a running napier serve (without --no-control), or the path of \
         its socket; looked for {looked}"
    )]
    NotThere {
        /// As given.
        name: String,
        /// Where it was looked for.
        looked: String,
    },
    /// It is another user's.
    #[error("the control socket {} is of another user: run this as that user, or as root", path.display())]
    NotYours {
        /// Its path.
        path: PathBuf,
    },
    /// The engine refused.
    #[error("{message}")]
    Refused {
        /// The kernel's error number for it, by name.
        errno: Option<String>,
        /// Its words.
        message: String,
    },
    /// The socket fell silent, or what came is no answer.
    #[error("asking the engine at {}: {source}", path.display())]
    System {
        /// Its path.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// A connection to a running engine.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReplyLine {
    Reply(Value),
    Error { errno: Option<String>, message: String },
}

impl Client {
    /// Connects to the engine of a process (`PID`, or `PID-N` for its further engines), or at a path.
    ///
    /// # Errors
    /// [`AskError`]: there is none, or it is another user's.
    pub fn connect(name: &str) -> Result<Self, AskError> {
        let paths = paths(name);
        for path in &paths {
            match connect::to(path, PATIENCE) {
                Ok(stream) => return Self::over(stream, path.clone()),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(AskError::NotYours { path: path.clone() });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let words = "it takes no connection: its process is stopped, or many others ask";
                    let source = io::Error::new(io::ErrorKind::TimedOut, words);
                    return Err(AskError::System { path: path.clone(), source });
                }
                Err(_) => {}
            }
        }
        let looked = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        let looked = if looked.is_empty() { "no such process".to_owned() } else { looked.join(", ") };
        Err(AskError::NotThere { name: name.to_owned(), looked })
    }

    fn over(stream: UnixStream, path: PathBuf) -> Result<Self, AskError> {
        let ready = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        ready.map_err(|source| AskError::System { path: path.clone(), source })?;
        Ok(Self { path, stream: BufReader::new(stream) })
    }

    /// Asks, and waits for the answer. `dev` is the name of a device of the engine, as the request's `ifindex`.
    ///
    /// # Errors
    /// [`AskError::Refused`], as the rules have it; [`AskError::System`].
    pub fn ask(
        &mut self,
        operation: Operation,
        how: How,
        attributes: &Map<String, Value>,
        dev: Option<&str>,
    ) -> Result<Value, AskError> {
        let mut request = json!({"op": operation.name(), "how": how.name(), "attributes": attributes});
        if let Some(dev) = dev {
            request["dev"] = dev.into();
        }
        self.asked(&request)
    }

    /// Asks for one of [`crate::groups::OPERATIONS`].
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn ask_group(&mut self, operation: &str, attributes: &Map<String, Value>) -> Result<Value, AskError> {
        self.asked(&json!({"op": operation, "how": "do", "attributes": attributes}))
    }

    /// Asks for the figures whose names begin with one of these; with none, for all.
    ///
    /// # Errors
    /// [`AskError::Refused`]: there are too many at once, or the engine has stopped; [`AskError::System`].
    pub fn metrics(&mut self, prefixes: &[&str]) -> Result<Vec<Family>, AskError> {
        let attributes = if prefixes.is_empty() { json!({}) } else { json!({"prefix": prefixes}) };
        let request = json!({"op": metrics::OPERATION, "how": "dump", "attributes": attributes});
        let families: Vec<Family> = serde_json::from_value(self.asked(&request)?)
            .map_err(|error| AskError::System { path: self.path.clone(), source: error.into() })?;
        Ok(families.into_iter().map(Family::cleaned).collect())
    }

    fn asked(&mut self, request: &Value) -> Result<Value, AskError> {
        match self.exchange(&request.to_string()) {
            Ok(ReplyLine::Reply(reply)) => Ok(reply),
            Ok(ReplyLine::Error { errno, message }) => {
                // Whose socket it is at a path is not known: its words are for a terminal.
                let message = message.chars().filter(|letter| !letter.is_control()).collect();
                Err(AskError::Refused { errno, message })
            }
            Err(source) => Err(AskError::System { path: self.path.clone(), source }),
        }
    }

    fn exchange(&mut self, request: &str) -> io::Result<ReplyLine> {
        self.stream.get_mut().write_all(format!("{request}\n").as_bytes())?;
        let mut line = Vec::new();
        (&mut self.stream).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&line)?)
    }
}

/// The engines of the calling user that have a socket which answers, by their names in order.
#[must_use]
pub fn engines() -> Vec<String> {
    let uid = place::own_uid();
    let folders = place::folders(uid, place::runtime_folder());
    let folders = folders.iter().filter(|folder| place::is_alone(folder, uid));
    let entries =
        folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().take(ENGINES_MAX).flatten());
    let sockets = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "sock"));
    let mut names: Vec<String> = sockets
        .filter(|path| connect::is_there(path))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    names.dedup();
    names
}

/// Where an engine by that name may be.
fn paths(name: &str) -> Vec<PathBuf> {
    if name.contains('/') {
        return vec![name.into()];
    }
    let pid = name.split_once('-').map_or(name, |(pid, _)| pid);
    let Some(uid) = pid.parse::<u32>().ok().and_then(owner) else { return Vec::new() };
    let folders = place::folders(uid, place::runtime_folder());
    // What another user has put there is no engine of that process.
    let folders = folders.iter().filter(|folder| place::is_alone(folder, uid) || !readable(folder));
    folders.map(|folder| folder.join(format!("{name}.sock"))).collect()
}

/// The user that a process acts as.
fn owner(pid: u32) -> Option<u32> {
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|found| found.uid())
}

fn readable(folder: &Path) -> bool {
    std::fs::symlink_metadata(folder).is_ok()
}

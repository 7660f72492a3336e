//! What goes between an agent and the comparison that drives it: messages of bounded size and time, each with a sum that only
//! who has the secret can make.
//!
//! ```text
//! agent -> driver   MAGIC, nonce A
//! driver -> agent   nonce D, HMAC(secret, "driver", A, D)
//! agent -> driver   HMAC(secret, "agent", A, D)             or it closes
//! then both         length, HMAC(key, side, number, text), text       key = HMAC(secret, "key", A, D)
//! ```
//!
//! Both prove that they have the secret, and neither sends it. A message that was changed, repeated or left out on the way ends the
//! connection. Nothing is hidden: what is in a message is no secret.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Serialize, de::DeserializeOwned};
use sha2::Sha256;

/// What an agent says first; another version of the words has another one.
const MAGIC: &[u8; 16] = b"napier agent 1\r\n";

/// Bytes of a nonce, of a sum, of a key.
const SUM_BYTES: usize = 32;
type Sum = [u8; SUM_BYTES];

/// Fewest bytes of a secret, and most.
const SECRET_BYTES: (usize, usize) = (16, 4096);

/// How long both sides may take to know each other, and a message that has begun to be there.
pub(super) const MESSAGE_MAX: Duration = Duration::from_secs(5);

/// How often a side that waits looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(20);

/// Longest message to an agent, and to a driver: two histograms in figures.
pub(super) const TO_AGENT_BYTES_MAX: usize = 16 << 10;
pub(super) const TO_DRIVER_BYTES_MAX: usize = 8 << 20;

/// What agent and driver both have.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Why a file is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// It cannot be read.
    #[error(
        "{path}: {error}; make one: (umask 077; head -c 32 /dev/urandom | base64 > {path}), and copy it to the other side"
    )]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// Others may read it.
    #[error("{path} may be read by others: chmod 600 {path}")]
    Open {
        /// The file.
        path: String,
    },
    /// It is too short to be one, or too long.
    #[error("{path} has {bytes} bytes, and a secret has {} to {}: head -c 32 /dev/urandom | base64 > {path}", SECRET_BYTES.0, SECRET_BYTES.1)]
    Length {
        /// The file.
        path: String,
        /// How many it has, without blanks at its ends.
        bytes: u64,
    },
}

impl Secret {
    /// Reads a file; blanks and line ends around are not part of it.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let name = || path.display().to_string();
        let unreadable = |error| SecretError::Unreadable { path: name(), error };
        let about = std::fs::metadata(path).map_err(unreadable)?;
        if about.mode() & 0o077 != 0 {
            return Err(SecretError::Open { path: name() });
        }
        if about.len() > SECRET_BYTES.1 as u64 {
            return Err(SecretError::Length { path: name(), bytes: about.len() });
        }
        let bytes = napier_linux::given::read(path, SECRET_BYTES.1 as u64).map_err(unreadable)?.trim_ascii().to_vec();
        match bytes.len() < SECRET_BYTES.0 {
            true => Err(SecretError::Length { path: name(), bytes: bytes.len() as u64 }),
            false => Ok(Self(bytes)),
        }
    }

    #[cfg(test)]
    pub(super) fn of(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }

    fn sum(&self, what: &[u8], nonces: &[Sum; 2]) -> Hmac<Sha256> {
        keyed(&self.0, &[what, &nonces[0], &nonces[1]])
    }
}

fn keyed(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut sum = Hmac::new_from_slice(key).expect("a key has any length");
    parts.iter().for_each(|part| sum.update(part));
    sum
}

fn made(sum: Hmac<Sha256>) -> Sum {
    sum.finalize().into_bytes().into()
}

/// Why nothing more goes over a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    #[error("the other side has closed the connection")]
    Closed,
    #[error("the other side says nothing")]
    Late,
    #[error("interrupted")]
    Interrupted,
    #[error("what answers is no napier agent of this version")]
    Stranger,
    #[error("it does not have the same secret: give both sides a copy of one --secret-file")]
    Secret,
    #[error("a message of {bytes} bytes, where {bytes_max} are the most")]
    TooLong { bytes: usize, bytes_max: usize },
    #[error("a message that was changed on its way")]
    Forged,
    #[error("a message that cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Which side a process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChannelSide {
    Agent,
    Driver,
}

impl ChannelSide {
    const fn word(self) -> &'static [u8] {
        match self {
            Self::Agent => b"agent",
            Self::Driver => b"driver",
        }
    }
}

/// The way out.
#[derive(Debug)]
pub(crate) struct Outgoing {
    stream: TcpStream,
    key: Sum,
    from: ChannelSide,
    number: u64,
}

/// The way in.
#[derive(Debug)]
pub(crate) struct Incoming {
    stream: TcpStream,
    key: Sum,
    from: ChannelSide,
    number: u64,
    bytes_max: usize,
}

/// Proves to the other side that this one has the secret, and that it has.
pub(crate) fn open(
    stream: TcpStream,
    own: ChannelSide,
    secret: &Secret,
    interrupted: &AtomicBool,
) -> Result<(Outgoing, Incoming), ChannelError> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(MESSAGE_MAX))?;
    let until = Some(Instant::now() + MESSAGE_MAX);
    let (mut head, mut proof) = ([0; MAGIC.len() + SUM_BYTES], [0; 2 * SUM_BYTES]);
    let fresh = nonce()?;
    let nonces = match own {
        ChannelSide::Agent => {
            (&stream).write_all(&[&MAGIC[..], &fresh].concat())?;
            fill(&stream, &mut proof, until, interrupted)?;
            let (theirs, sum) = proof.split_at(SUM_BYTES);
            let nonces = [fresh, theirs.try_into().expect("so many bytes")];
            secret.sum(ChannelSide::Driver.word(), &nonces).verify_slice(sum).map_err(|_| ChannelError::Secret)?;
            (&stream).write_all(&made(secret.sum(ChannelSide::Agent.word(), &nonces)))?;
            nonces
        }
        ChannelSide::Driver => {
            fill(&stream, &mut head, until, interrupted)?;
            let theirs = head.strip_prefix(&MAGIC[..]).ok_or(ChannelError::Stranger)?;
            let nonces = [theirs.try_into().expect("so many bytes"), fresh];
            (&stream).write_all(&[fresh, made(secret.sum(ChannelSide::Driver.word(), &nonces))].concat())?;
            let sum = &mut proof[..SUM_BYTES];
            // An agent that gets a wrong proof closes.
            fill(&stream, sum, until, interrupted).map_err(|error| match error {
                ChannelError::Closed => ChannelError::Secret,
                ChannelError::Io(error) if error.kind() == io::ErrorKind::ConnectionReset => ChannelError::Secret,
                other => other,
            })?;
            secret.sum(ChannelSide::Agent.word(), &nonces).verify_slice(sum).map_err(|_| ChannelError::Secret)?;
            nonces
        }
    };
    let key = made(secret.sum(b"key", &nonces));
    let (from, bytes_max) = match own {
        ChannelSide::Agent => (ChannelSide::Driver, TO_AGENT_BYTES_MAX),
        ChannelSide::Driver => (ChannelSide::Agent, TO_DRIVER_BYTES_MAX),
    };
    let out = Outgoing { stream: stream.try_clone()?, key, from: own, number: 0 };
    Ok((out, Incoming { stream, key, from, number: 0, bytes_max }))
}

impl Outgoing {
    pub(crate) fn send(&mut self, message: &impl Serialize) -> Result<(), ChannelError> {
        let text = serde_json::to_vec(message)?;
        let sum = made(keyed(&self.key, &[self.from.word(), &self.number.to_be_bytes(), &text]));
        let length = u32::try_from(text.len()).expect("messages are short").to_be_bytes();
        self.number += 1;
        Ok(self.stream.write_all(&[&length, &sum[..], &text].concat())?)
    }

    /// Ends the connection, for the other end of this process too.
    pub(crate) fn close(&self) {
        // It may be closed already.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Incoming {
    /// The next message, which has to begin until then.
    pub(crate) fn next<T: DeserializeOwned>(
        &mut self,
        until: Option<Instant>,
        interrupted: &AtomicBool,
    ) -> Result<T, ChannelError> {
        let (mut length, mut sum) = ([0; 4], [0; SUM_BYTES]);
        fill(&self.stream, &mut length[..1], until, interrupted)?;
        let rest = Some(Instant::now() + MESSAGE_MAX);
        fill(&self.stream, &mut length[1..], rest, interrupted)?;
        let (bytes, bytes_max) = (u32::from_be_bytes(length) as usize, self.bytes_max);
        if bytes > bytes_max {
            return Err(ChannelError::TooLong { bytes, bytes_max });
        }
        fill(&self.stream, &mut sum, rest, interrupted)?;
        let mut text = vec![0; bytes];
        fill(&self.stream, &mut text, rest, interrupted)?;
        let number = self.number.to_be_bytes();
        let is_theirs = keyed(&self.key, &[self.from.word(), &number, &text]).verify_slice(&sum);
        is_theirs.map_err(|_| ChannelError::Forged)?;
        self.number += 1;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// Reads all of it until then.
fn fill(
    mut stream: &TcpStream,
    room: &mut [u8],
    until: Option<Instant>,
    interrupted: &AtomicBool,
) -> Result<(), ChannelError> {
    let mut at = 0;
    while at < room.len() {
        if interrupted.load(Ordering::Relaxed) {
            return Err(ChannelError::Interrupted);
        }
        if until.is_some_and(|until| Instant::now() > until) {
            return Err(ChannelError::Late);
        }
        match stream.read(&mut room[at..]) {
            Ok(0) => return Err(ChannelError::Closed),
            Ok(bytes) => at += bytes,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted => {}
                _ => return Err(error.into()),
            },
        }
    }
    Ok(())
}

fn nonce() -> io::Result<Sum> {
    let mut bytes = [0; SUM_BYTES];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

//! The server's side of the protocol: requests from bytes, replies into bytes. No allocation, no panic on any input.
//!
//! One request per datagram and one key per get; that is all the workload sends. Whatever else arrives is refused with
//! the words memcached uses.

pub use super::writer::NoRoom;
use super::writer::Writer;
use super::{FRAME_HEADER_BYTES, KEY_BYTES_MAX};

/// One request, borrowed from its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Request id of the frame header; the reply carries it back.
    pub id: u16,
    /// What is asked for.
    pub command: Command<'a>,
}

/// A command of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `get <key>`
    Get {
        /// 1 to 250 bytes without space or control character.
        key: &'a [u8],
    },
    /// `set <key> <flags> <exptime> <bytes> [noreply]`; the expiry time is checked and not used.
    Set {
        /// 1 to 250 bytes without space or control character.
        key: &'a [u8],
        /// The client's own word, given back by a get.
        flags: u32,
        /// The bytes to keep.
        value: &'a [u8],
        /// The client wants no answer.
        noreply: bool,
    },
}

/// Why a datagram is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Shorter than a frame header: there is no id to answer to, so it is counted and dropped.
    #[error("datagram of {len_bytes} bytes has no frame header; a client must put 8 bytes before the command")]
    NoFrameHeader {
        /// Length of the datagram in bytes.
        len_bytes: usize,
    },
    /// To be answered with [`write_refusal`].
    #[error("request {id} refused: {refusal}")]
    Refused {
        /// Request id of the frame header.
        id: u16,
        /// What to answer.
        refusal: Refusal,
    },
}

/// The error lines of memcached that this server gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No command of that name, or an unfinished line.
    #[error("ERROR")]
    Error,
    /// Wrong number of words, a key that is too long, or a number that is none.
    #[error("CLIENT_ERROR bad command line format")]
    BadLine,
    /// The value is not as long as announced, or its end of line is missing.
    #[error("CLIENT_ERROR bad data chunk")]
    BadDataChunk,
    /// The frame header announces more than one datagram.
    #[error("SERVER_ERROR multi-packet request not supported")]
    MultiPacket,
    /// The value is longer than a reply can carry.
    #[error("SERVER_ERROR object too large for cache")]
    TooLarge,
    /// The table is full.
    #[error("SERVER_ERROR out of memory storing object")]
    OutOfMemory,
}

impl Refusal {
    /// The line that is sent, without its end.
    pub fn line(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::BadLine => "CLIENT_ERROR bad command line format",
            Self::BadDataChunk => "CLIENT_ERROR bad data chunk",
            Self::MultiPacket => "SERVER_ERROR multi-packet request not supported",
            Self::TooLarge => "SERVER_ERROR object too large for cache",
            Self::OutOfMemory => "SERVER_ERROR out of memory storing object",
        }
    }
}

/// Reads one request from one datagram.
///
/// # Errors
/// [`RequestError`]; see there for what to answer. No input makes it panic.
pub fn parse_request(datagram: &[u8]) -> Result<Request<'_>, RequestError> {
    let Some((header, body)) = datagram.split_first_chunk::<FRAME_HEADER_BYTES>() else {
        return Err(RequestError::NoFrameHeader { len_bytes: datagram.len() });
    };
    let id = u16::from_be_bytes([header[0], header[1]]);
    let refused = |refusal| RequestError::Refused { id, refusal };
    if u16::from_be_bytes([header[4], header[5]]) != 1 {
        return Err(refused(Refusal::MultiPacket));
    }
    let (line, rest) = split_line(body).ok_or(refused(Refusal::Error))?;
    let command = parse_command(line, rest).map_err(refused)?;
    Ok(Request { id, command })
}

/// Writes the reply to a get that found its key; returns its length in bytes.
///
/// # Errors
/// [`NoRoom`] if `out` is too short.
pub fn write_value(out: &mut [u8], id: u16, key: &[u8], flags: u32, value: &[u8]) -> Result<usize, NoRoom> {
    Writer::datagram(out, id)
        .put(b"VALUE ")
        .put(key)
        .put(b" ")
        .decimal(flags)
        .put(b" ")
        .decimal(value.len() as u32)
        .put(b"\r\n")
        .put(value)
        .put(b"\r\nEND\r\n")
        .finish()
}

/// Writes the reply to a get that found nothing; returns its length in bytes.
///
/// # Errors
/// [`NoRoom`] if `out` is too short.
pub fn write_end(out: &mut [u8], id: u16) -> Result<usize, NoRoom> {
    Writer::datagram(out, id).put(b"END\r\n").finish()
}

/// Writes the reply to a set that was kept; returns its length in bytes.
///
/// # Errors
/// [`NoRoom`] if `out` is too short.
pub fn write_stored(out: &mut [u8], id: u16) -> Result<usize, NoRoom> {
    Writer::datagram(out, id).put(b"STORED\r\n").finish()
}

/// Writes the reply to a request that cannot be served; returns its length in bytes.
///
/// # Errors
/// [`NoRoom`] if `out` is too short.
pub fn write_refusal(out: &mut [u8], id: u16, refusal: Refusal) -> Result<usize, NoRoom> {
    Writer::datagram(out, id).put(refusal.line().as_bytes()).put(b"\r\n").finish()
}

/// The line up to its `\n`, without a `\r` before it, and what follows. As in memcached, `\n` alone also ends a line.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), &bytes[end + 1..]))
}

/// The words of a line; several spaces count as one, as in memcached's tokenizer.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b' ').filter(|word| !word.is_empty())
}

fn decimal(word: &[u8]) -> Option<u32> {
    if word.is_empty() || word.len() > 10 {
        return None;
    }
    word.iter().try_fold(0_u32, |number, &byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u32::from(digit))
    })
}

fn parse_command<'a>(line: &'a [u8], rest: &'a [u8]) -> Result<Command<'a>, Refusal> {
    let mut words = words(line);
    match words.next() {
        Some(b"get") => parse_get(words, rest),
        Some(b"set") => parse_set(words, rest),
        _ => Err(Refusal::Error),
    }
}

fn parse_get<'a>(mut words: impl Iterator<Item = &'a [u8]>, rest: &[u8]) -> Result<Command<'a>, Refusal> {
    // memcached too answers ERROR to a get without a key.
    let key = checked_key(words.next().ok_or(Refusal::Error)?)?;
    if words.next().is_some() || !rest.is_empty() {
        return Err(Refusal::BadLine);
    }
    Ok(Command::Get { key })
}

fn parse_set<'a>(mut words: impl Iterator<Item = &'a [u8]>, rest: &'a [u8]) -> Result<Command<'a>, Refusal> {
    let mut word = || words.next().ok_or(Refusal::Error);
    let (key, flags, exptime, bytes) = (word()?, word()?, word()?, word()?);
    let key = checked_key(key)?;
    let flags = decimal(flags).ok_or(Refusal::BadLine)?;
    // A negative expiry time is legal: it means "already expired".
    decimal(exptime.strip_prefix(b"-").unwrap_or(exptime)).ok_or(Refusal::BadLine)?;
    let value_bytes = decimal(bytes).ok_or(Refusal::BadLine)? as usize;
    let noreply = match (words.next(), words.next()) {
        (None, None) => false,
        (Some(b"noreply"), None) => true,
        _ => return Err(Refusal::BadLine),
    };
    let (value, end) = rest.split_at_checked(value_bytes).ok_or(Refusal::BadDataChunk)?;
    if end != b"\r\n" {
        return Err(Refusal::BadDataChunk);
    }
    Ok(Command::Set { key, flags, value, noreply })
}

fn checked_key(key: &[u8]) -> Result<&[u8], Refusal> {
    let legal = key.len() <= KEY_BYTES_MAX && key.iter().all(|byte| !byte.is_ascii_control());
    if legal { Ok(key) } else { Err(Refusal::BadLine) }
}

#[cfg(test)]
mod tests;

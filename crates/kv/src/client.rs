//! The client's side of the protocol: requests into bytes, replies from bytes, and the check of every reply.

pub use super::writer::NoRoom;
use super::writer::Writer;
use super::{FRAME_HEADER_BYTES, protocol, value};

/// Writes `get <key>` as one datagram; returns its length in bytes.
///
/// # Errors
/// [`NoRoom`] if `out` is too short.
pub fn write_get(out: &mut [u8], id: u16, key: &[u8]) -> Result<usize, NoRoom> {
    Writer::datagram(out, id).put(b"get ").put(key).put(b"\r\n").finish()
}

/// Writes `set <key>` with the self-describing value of `value_bytes` as one datagram; returns its length in bytes.
///
/// # Errors
/// [`NoRoom`] if `out` is too short.
pub fn write_set(out: &mut [u8], id: u16, key: &[u8], value_bytes: usize) -> Result<usize, NoRoom> {
    Writer::datagram(out, id)
        .put(b"set ")
        .put(key)
        .put(b" ")
        .decimal(value::value_flags(key, value_bytes))
        .put(b" 0 ")
        .decimal(value_bytes as u32)
        .put(b"\r\n")
        .fill(value_bytes, |room| {
            value::fill_value(key, room);
        })
        .put(b"\r\n")
        .finish()
}

/// One reply, borrowed from its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Request id that it answers.
    pub id: u16,
    /// What it says.
    pub status: Status<'a>,
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status<'a> {
    /// A get found its key.
    Value {
        /// The key, repeated by the server.
        key: &'a [u8],
        /// The word that was stored with it.
        flags: u32,
        /// The bytes that were stored.
        value: &'a [u8],
    },
    /// A get found nothing.
    End,
    /// A set was kept.
    Stored,
    /// The server refused; its line without the end.
    Refused(&'a [u8]),
}

/// The datagram is no reply of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("datagram of {len_bytes} bytes is no memcached reply; is something else bound to the server's port?")]
pub struct NoReply {
    /// Length of the datagram in bytes.
    pub len_bytes: usize,
}

/// A reply that does not answer its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongReply {
    /// A get was answered for another key.
    #[error("the reply carries another key than was asked for")]
    OtherKey,
    /// The value or its flags are not what was stored under the key: cut, mixed or corrupted.
    #[error("the value of {value_bytes} bytes is not one that was ever stored under its key")]
    NotGenuine {
        /// Length of the value in bytes.
        value_bytes: usize,
    },
    /// A get found nothing, though the table was filled with every key before the run.
    #[error("the key is missing from the table; was the table filled before the run?")]
    Missing,
    /// A set was answered as a get, or a get as a set.
    #[error("the reply belongs to another kind of request")]
    OtherKind,
    /// The server refused the request.
    #[error("the server refused the request")]
    Refused,
}

/// Reads one reply from one datagram. Hostile input gives an error, never a panic.
///
/// # Errors
/// [`NoReply`] if the datagram is none.
pub fn parse_reply(datagram: &[u8]) -> Result<Reply<'_>, NoReply> {
    let no_reply = NoReply { len_bytes: datagram.len() };
    let (header, body) = datagram.split_first_chunk::<FRAME_HEADER_BYTES>().ok_or(no_reply)?;
    let id = u16::from_be_bytes([header[0], header[1]]);
    let (line, rest) = protocol::split_line(body).ok_or(no_reply)?;
    let mut words = protocol::words(line);
    let status = match words.next() {
        Some(b"VALUE") => parse_value(words, rest).ok_or(no_reply)?,
        Some(b"END") => Status::End,
        Some(b"STORED") => Status::Stored,
        Some(b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR") => Status::Refused(line),
        _ => return Err(no_reply),
    };
    Ok(Reply { id, status })
}

/// Checks the reply to a get of `key`; returns the length of the value in bytes.
///
/// # Errors
/// [`WrongReply`] says what is wrong with it.
pub fn check_get(status: &Status<'_>, key: &[u8]) -> Result<usize, WrongReply> {
    match *status {
        Status::Value { key: other, .. } if other != key => Err(WrongReply::OtherKey),
        Status::Value { flags, value, .. } if !value::is_genuine(key, flags, value) => {
            Err(WrongReply::NotGenuine { value_bytes: value.len() })
        }
        Status::Value { value, .. } => Ok(value.len()),
        Status::End => Err(WrongReply::Missing),
        Status::Stored => Err(WrongReply::OtherKind),
        Status::Refused(_) => Err(WrongReply::Refused),
    }
}

/// Checks the reply to a set.
///
/// # Errors
/// [`WrongReply`] says what is wrong with it.
pub fn check_set(status: &Status<'_>) -> Result<(), WrongReply> {
    match status {
        Status::Stored => Ok(()),
        Status::Value { .. } | Status::End => Err(WrongReply::OtherKind),
        Status::Refused(_) => Err(WrongReply::Refused),
    }
}

fn parse_value<'a>(mut words: impl Iterator<Item = &'a [u8]>, rest: &'a [u8]) -> Option<Status<'a>> {
    let key = words.next()?;
    let flags = protocol::decimal(words.next()?)?;
    let value_bytes = protocol::decimal(words.next()?)? as usize;
    let (value, end) = rest.split_at_checked(value_bytes)?;
    (words.next().is_none() && end == b"\r\nEND\r\n").then_some(Status::Value { key, flags, value })
}

#[cfg(test)]
mod tests;

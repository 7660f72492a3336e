//! Requests and replies as a client writes and reads them, in each format that `serve kv` and the servers of others
//! understand.

use std::fmt;
use std::io::{self, Write};

use crate::{DATAGRAM_BYTES_MAX, FRAME_HEADER_BYTES, decimal, value};

/// How requests are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// memcached's `get` and `set`.
    Ascii,
    /// memcached's binary protocol.
    Binary,
    /// memcached's `mg` and `ms`.
    Meta,
    /// Redis' RESP2.
    Resp,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ascii => "ascii",
            Self::Binary => "binary",
            Self::Meta => "meta",
            Self::Resp => "resp",
        })
    }
}

impl std::str::FromStr for Format {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "ascii" => Ok(Self::Ascii),
            "binary" => Ok(Self::Binary),
            "meta" => Ok(Self::Meta),
            "resp" => Ok(Self::Resp),
            _ => Err("no such format; give ascii, binary, meta or resp"),
        }
    }
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A get found its key.
    Value {
        /// The word that was stored with it, where the format has one.
        flags: Option<u32>,
        /// The bytes that were stored.
        value: &'a [u8],
    },
    /// A get found nothing.
    Missing,
    /// A set was kept.
    Stored,
    /// The server refused.
    Refused,
}

/// What came is no reply of this format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what came is no reply of this format; does the server speak it on this port?")]
pub struct NoReply;

/// What is asked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The key that it is about.
    pub key: &'a [u8],
    /// A set of the self-describing value of so many bytes; `None`: a get.
    pub value_bytes: Option<usize>,
}

impl<'a> Request<'a> {
    /// A get.
    pub fn get(key: &'a [u8]) -> Self {
        Self { key, value_bytes: None }
    }

    /// Writes the request.
    ///
    /// # Errors
    /// `out` takes no more.
    #[inline]
    pub fn write(&self, format: Format, out: &mut impl Write) -> io::Result<()> {
        let Self { key, value_bytes } = *self;
        let Some(value_bytes) = value_bytes else {
            return match format {
                Format::Ascii => put(out, &[b"get ", key, b"\r\n"]),
                Format::Meta => put(out, &[b"mg ", key, b" v f\r\n"]),
                Format::Resp => {
                    put(out, &[b"*2\r\n$3\r\nGET\r\n"])?;
                    put_bulk(out, key)
                }
                Format::Binary => put(out, &[&header(0x00, 0, key.len(), 0), key]),
            };
        };
        let flags = value::value_flags(key, value_bytes);
        match format {
            Format::Ascii => {
                put(out, &[b"set ", key])?;
                write!(out, " {flags} 0 {value_bytes}\r\n")?;
            }
            Format::Meta => {
                put(out, &[b"ms ", key])?;
                write!(out, " {value_bytes} F{flags}\r\n")?;
            }
            Format::Resp => {
                put(out, &[b"*3\r\n$3\r\nSET\r\n"])?;
                put_bulk(out, key)?;
                write!(out, "${value_bytes}\r\n")?;
            }
            Format::Binary => {
                let header = header(0x01, 8, key.len(), value_bytes);
                put(out, &[&header, &flags.to_be_bytes(), &[0; 4], key])?;
                return value::write_value(key, value_bytes, out);
            }
        }
        value::write_value(key, value_bytes, out)?;
        put(out, &[b"\r\n"])
    }

    /// Writes the request as a datagram with this number.
    ///
    /// # Errors
    /// `out` takes no more.
    #[inline]
    pub fn write_datagram(&self, format: Format, id: u16, out: &mut impl Write) -> io::Result<()> {
        // The first and only datagram of its request.
        put(out, &[&id.to_be_bytes(), &[0, 0, 0, 1, 0, 0]])?;
        self.write(format, out)
    }
}

#[inline]
fn put(out: &mut impl Write, parts: &[&[u8]]) -> io::Result<()> {
    parts.iter().try_for_each(|part| out.write_all(part))
}

fn put_bulk(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    write!(out, "${}\r\n", bytes.len())?;
    put(out, &[bytes, b"\r\n"])
}

fn header(opcode: u8, extras: u8, key_bytes: usize, value_bytes: usize) -> [u8; 24] {
    let body_bytes = usize::from(extras) + key_bytes + value_bytes;
    let mut header = [0; 24];
    header[..2].copy_from_slice(&[0x80, opcode]);
    header[2..4].copy_from_slice(&(key_bytes as u16).to_be_bytes());
    header[4] = extras;
    header[8..12].copy_from_slice(&(body_bytes as u32).to_be_bytes());
    header
}

/// Longest value with which request and reply travel in one datagram each, with keys of `key_bytes`.
pub fn datagram_value_bytes_max(format: Format, key_bytes: usize) -> usize {
    let overhead = match format {
        // `set <key> <flags> 0 <bytes>`, or `VALUE <key> <flags> <bytes>` and `END`, with their ends of line.
        Format::Ascii | Format::Meta | Format::Resp => 48,
        Format::Binary => 24 + 8,
    };
    DATAGRAM_BYTES_MAX - FRAME_HEADER_BYTES - overhead - key_bytes
}

/// Whether a reply is what its request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyVerdict {
    /// A value that was stored under the key, or a set that was kept.
    Right,
    /// A get found nothing.
    Missing,
    /// The server refused.
    Refused,
    /// A value that was never stored under the key, or a reply of another kind than the request's.
    Wrong,
}

/// Its name up to version 0.2.
#[deprecated(since = "0.3.0", note = "it is `ReplyVerdict`")]
pub type Verdict = ReplyVerdict;

impl Reply<'_> {
    /// Judges the reply to a get of `key` or a set.
    #[inline]
    pub fn verdict(&self, key: &[u8], is_set: bool) -> ReplyVerdict {
        match (is_set, *self) {
            (true, Self::Stored) => ReplyVerdict::Right,
            (false, Self::Missing) => ReplyVerdict::Missing,
            (_, Self::Refused) => ReplyVerdict::Refused,
            (false, Self::Value { flags, value }) => {
                let flags = flags.unwrap_or_else(|| value::value_flags(key, value.len()));
                if value::is_genuine(key, flags, value) { ReplyVerdict::Right } else { ReplyVerdict::Wrong }
            }
            _ => ReplyVerdict::Wrong,
        }
    }
}

/// Reads the reply in a datagram, and the number of the request that it answers.
///
/// # Errors
/// [`NoReply`]: it has none, or not the whole of one.
#[inline]
pub fn read_datagram(format: Format, datagram: &[u8]) -> Result<(u16, Reply<'_>), NoReply> {
    let (header, body) = datagram.split_first_chunk::<FRAME_HEADER_BYTES>().ok_or(NoReply)?;
    match read_reply(format, body)? {
        Some((_, reply)) if header[4..6] == [0, 1] => Ok((u16::from_be_bytes([header[0], header[1]]), reply)),
        _ => Err(NoReply),
    }
}

/// Reads the reply at the start of `input`: how many bytes it has and what it says; `None` if it has not come whole.
///
/// # Errors
/// [`NoReply`]: nothing that follows can be understood either.
pub fn read_reply(format: Format, input: &[u8]) -> Result<Option<(usize, Reply<'_>)>, NoReply> {
    match format {
        Format::Ascii => read_ascii(input),
        Format::Meta => read_meta(input),
        Format::Resp => read_resp(input),
        Format::Binary => read_binary(input),
    }
}

/// Longest line of a reply, in bytes: a key, two numbers, a word or two.
const LINE_BYTES_MAX: usize = 1024;

/// The first line without its end, and where the next begins.
fn line(input: &[u8]) -> Result<Option<(&[u8], usize)>, NoReply> {
    match input.iter().take(LINE_BYTES_MAX).position(|&byte| byte == b'\n') {
        Some(end) => Ok(Some((input[..end].strip_suffix(b"\r").ok_or(NoReply)?, end + 1))),
        None if input.len() >= LINE_BYTES_MAX => Err(NoReply),
        None => Ok(None),
    }
}

fn number(text: &[u8]) -> Result<u32, NoReply> {
    decimal::parse(text).and_then(|number| u32::try_from(number).ok()).ok_or(NoReply)
}

/// The value behind a line, which ends with `end`.
fn value_at<'a>(
    input: &'a [u8],
    at: usize,
    value_bytes: u32,
    end: &[u8],
    flags: Option<u32>,
) -> Result<Option<(usize, Reply<'a>)>, NoReply> {
    let value_end = at + value_bytes as usize;
    let all = value_end + end.len();
    if input.len() < all {
        return Ok(None);
    }
    if &input[value_end..all] != end {
        return Err(NoReply);
    }
    Ok(Some((all, Reply::Value { flags, value: &input[at..value_end] })))
}

fn is_refusal(line: &[u8]) -> bool {
    [&b"ERROR"[..], b"CLIENT_ERROR", b"SERVER_ERROR"].iter().any(|start| line.starts_with(start))
}

fn read_ascii(input: &[u8]) -> Result<Option<(usize, Reply<'_>)>, NoReply> {
    let Some((line, next)) = line(input)? else { return Ok(None) };
    let mut words = line.split(|&byte| byte == b' ');
    let reply = match words.next().unwrap_or_default() {
        b"VALUE" => {
            let _key = words.next().ok_or(NoReply)?;
            let flags = number(words.next().ok_or(NoReply)?)?;
            let value_bytes = number(words.next().ok_or(NoReply)?)?;
            return value_at(input, next, value_bytes, b"\r\nEND\r\n", Some(flags));
        }
        b"END" => Reply::Missing,
        b"STORED" => Reply::Stored,
        _ if is_refusal(line) => Reply::Refused,
        _ => return Err(NoReply),
    };
    Ok(Some((next, reply)))
}

fn read_meta(input: &[u8]) -> Result<Option<(usize, Reply<'_>)>, NoReply> {
    let Some((line, next)) = line(input)? else { return Ok(None) };
    let mut words = line.split(|&byte| byte == b' ');
    let reply = match words.next().unwrap_or_default() {
        b"VA" => {
            let value_bytes = number(words.next().ok_or(NoReply)?)?;
            let flags = words.find_map(|word| word.strip_prefix(b"f")).map(number).transpose()?;
            return value_at(input, next, value_bytes, b"\r\n", flags);
        }
        b"EN" => Reply::Missing,
        b"HD" => Reply::Stored,
        b"NS" => Reply::Refused,
        _ if is_refusal(line) => Reply::Refused,
        _ => return Err(NoReply),
    };
    Ok(Some((next, reply)))
}

fn read_resp(input: &[u8]) -> Result<Option<(usize, Reply<'_>)>, NoReply> {
    let Some((line, next)) = line(input)? else { return Ok(None) };
    let reply = match line {
        b"$-1" => Reply::Missing,
        [b'$', length @ ..] => return value_at(input, next, number(length)?, b"\r\n", None),
        [b'+', ..] => Reply::Stored,
        [b'-', ..] => Reply::Refused,
        _ => return Err(NoReply),
    };
    Ok(Some((next, reply)))
}

fn read_binary(input: &[u8]) -> Result<Option<(usize, Reply<'_>)>, NoReply> {
    let Some((header, rest)) = input.split_first_chunk::<24>() else { return Ok(None) };
    if header[0] != 0x81 {
        return Err(NoReply);
    }
    let body_bytes = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
    let before_value = usize::from(header[4]) + usize::from(u16::from_be_bytes([header[2], header[3]]));
    if before_value > body_bytes {
        return Err(NoReply);
    }
    let Some(body) = rest.get(..body_bytes) else { return Ok(None) };
    let reply = match (header[1], u16::from_be_bytes([header[6], header[7]])) {
        (0x00, 0) => Reply::Value {
            flags: body.first_chunk().filter(|_| header[4] == 4).map(|flags| u32::from_be_bytes(*flags)),
            value: &body[before_value..],
        },
        (0x00, 1) => Reply::Missing,
        (0x01, 0) => Reply::Stored,
        _ => Reply::Refused,
    };
    Ok(Some((24 + body_bytes, reply)))
}

#[cfg(test)]
mod tests;

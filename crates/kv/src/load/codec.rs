//! Requests and replies as a client writes and reads them, in each format that `serve kv` and the servers of others
//! understand.

use std::fmt;

use crate::value;

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

/// Appends a get.
pub fn write_get(format: Format, out: &mut Vec<u8>, key: &[u8]) {
    match format {
        Format::Ascii => put(out, &[b"get ", key, b"\r\n"]),
        Format::Meta => put(out, &[b"mg ", key, b" v f\r\n"]),
        Format::Resp => {
            out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
            put_bulk(out, key);
        }
        Format::Binary => put_header(out, 0x00, 0, key.len(), 0, &[key]),
    }
}

/// Appends a set of the self-describing value of `value_bytes`.
pub fn write_set(format: Format, out: &mut Vec<u8>, key: &[u8], value_bytes: usize) {
    let flags = value::value_flags(key, value_bytes);
    match format {
        Format::Ascii => {
            put(out, &[b"set ", key, format!(" {flags} 0 {value_bytes}\r\n").as_bytes()]);
            put_value(out, key, value_bytes);
            out.extend_from_slice(b"\r\n");
        }
        Format::Meta => {
            put(out, &[b"ms ", key, format!(" {value_bytes} F{flags}\r\n").as_bytes()]);
            put_value(out, key, value_bytes);
            out.extend_from_slice(b"\r\n");
        }
        Format::Resp => {
            out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
            put_bulk(out, key);
            put(out, &[format!("${value_bytes}\r\n").as_bytes()]);
            put_value(out, key, value_bytes);
            out.extend_from_slice(b"\r\n");
        }
        Format::Binary => {
            put_header(out, 0x01, 8, key.len(), value_bytes, &[&flags.to_be_bytes(), &[0; 4], key]);
            put_value(out, key, value_bytes);
        }
    }
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn put_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, &[format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"]);
}

fn put_value(out: &mut Vec<u8>, key: &[u8], value_bytes: usize) {
    let start = out.len();
    out.resize(start + value_bytes, 0);
    value::fill_value(key, &mut out[start..]);
}

fn put_header(out: &mut Vec<u8>, opcode: u8, extras: u8, key_bytes: usize, value_bytes: usize, parts: &[&[u8]]) {
    let body_bytes = usize::from(extras) + key_bytes + value_bytes;
    out.extend_from_slice(&[0x80, opcode]);
    out.extend_from_slice(&(key_bytes as u16).to_be_bytes());
    out.extend_from_slice(&[extras, 0, 0, 0]);
    out.extend_from_slice(&(body_bytes as u32).to_be_bytes());
    out.extend_from_slice(&[0; 12]);
    put(out, parts);
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
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(NoReply)
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
mod tests {
    use super::*;
    use crate::session::{Family, Server, Session, Turn};

    #[test]
    fn what_a_client_writes_the_server_answers_and_the_client_reads_wherever_it_is_cut() {
        for format in [Format::Ascii, Format::Binary, Format::Meta, Format::Resp] {
            let family = if format == Format::Resp { Family::Redis } else { Family::Memcached };
            let (mut input, mut replies) = (Vec::new(), Vec::new());
            write_get(format, &mut input, b"key");
            write_set(format, &mut input, b"key", 300);
            write_get(format, &mut input, b"key");
            let server = Server::new(0, 1, 0);
            let turn = Turn { server: &server, stats: server.worker(0), now_ms: 1 };
            Session::new(family).advance(&turn, &input, &mut replies);

            let mut genuine = vec![0; 300];
            let flags = value::fill_value(b"key", &mut genuine);
            let flags = (format != Format::Resp).then_some(flags);
            let mut rest = &replies[..];
            for expected in [Reply::Missing, Reply::Stored, Reply::Value { flags, value: &genuine }] {
                let (bytes, reply) = read_reply(format, rest).unwrap().expect("it has come whole");
                assert_eq!(reply, expected, "{format}");
                for cut in 0..bytes {
                    assert_eq!(read_reply(format, &rest[..cut]), Ok(None), "{format} cut at {cut}");
                }
                rest = &rest[bytes..];
            }
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn refusals_are_replies_and_nonsense_is_none() {
        for (format, refusal) in [
            (Format::Ascii, &b"SERVER_ERROR out of memory storing object\r\n"[..]),
            (Format::Meta, b"NS\r\n"),
            (Format::Resp, b"-ERR no\r\n"),
        ] {
            assert_eq!(read_reply(format, refusal), Ok(Some((refusal.len(), Reply::Refused))));
            assert_eq!(read_reply(format, b"SSH-2.0\r\n"), Err(NoReply));
            assert_eq!(read_reply(format, &[b'x'; 2000]), Err(NoReply));
        }
        assert_eq!(read_reply(Format::Binary, &[0; 24]), Err(NoReply));
    }
}

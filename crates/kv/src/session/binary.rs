//! The binary protocol: a header of 24 bytes, extras, key and value.
//!
//! Source: memcached `protocol_binary.h` and `proto_bin.c`.

use super::text::expires_ms;
use super::{SessionCall, SessionStep, stats};
use crate::KEY_BYTES_MAX;
use crate::store::{ChangeError, Delta, How, Item, Put, PutError, VALUE_BYTES_MAX};

pub(super) const REQUEST_MAGIC: u8 = 0x80;
const RESPONSE_MAGIC: u8 = 0x81;
const HEADER_BYTES: usize = 24;

/// An expiry time of a counter that says: do not make one.
const DO_NOT_CREATE: u32 = u32::MAX;

/// Status words. Source: `protocol_binary_response_status`.
#[derive(Clone, Copy)]
#[repr(u16)]
enum Status {
    Success = 0x00,
    NotFound = 0x01,
    Exists = 0x02,
    TooLarge = 0x03,
    Invalid = 0x04,
    NotStored = 0x05,
    NonNumeric = 0x06,
    Unknown = 0x81,
    NoMemory = 0x82,
}

impl Status {
    fn words(self) -> &'static [u8] {
        match self {
            Self::Success => b"",
            Self::NotFound => b"Not found",
            Self::Exists => b"Data exists for key.",
            Self::TooLarge => b"Too large.",
            Self::Invalid => b"Invalid arguments",
            Self::NotStored => b"Not stored.",
            Self::NonNumeric => b"Non-numeric server-side value for incr or decr",
            Self::Unknown => b"Unknown command",
            Self::NoMemory => b"Out of memory",
        }
    }
}

/// What is done; the quiet form of each is the same command with `quiet`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Get { with_key: bool, touches: bool },
    Store(How),
    Delete,
    Arithmetic { down: bool },
    Quit,
    Flush,
    Noop,
    Version,
    Stat,
    Touch,
}

impl Command {
    /// The command of an opcode, and whether it is the quiet form.
    fn of(opcode: u8) -> Option<(Self, bool)> {
        let get = |with_key, touches| Self::Get { with_key, touches };
        Some(match opcode {
            0x00 => (get(false, false), false),
            0x01 => (Self::Store(How::Set), false),
            0x02 => (Self::Store(How::Add), false),
            0x03 => (Self::Store(How::Replace), false),
            0x04 => (Self::Delete, false),
            0x05 => (Self::Arithmetic { down: false }, false),
            0x06 => (Self::Arithmetic { down: true }, false),
            0x07 => (Self::Quit, false),
            0x08 => (Self::Flush, false),
            0x09 => (get(false, false), true),
            0x0a => (Self::Noop, false),
            0x0b => (Self::Version, false),
            0x0c => (get(true, false), false),
            0x0d => (get(true, false), true),
            0x0e => (Self::Store(How::Append), false),
            0x0f => (Self::Store(How::Prepend), false),
            0x10 => (Self::Stat, false),
            0x11 => (Self::Store(How::Set), true),
            0x12 => (Self::Store(How::Add), true),
            0x13 => (Self::Store(How::Replace), true),
            0x14 => (Self::Delete, true),
            0x15 => (Self::Arithmetic { down: false }, true),
            0x16 => (Self::Arithmetic { down: true }, true),
            0x17 => (Self::Quit, true),
            0x18 => (Self::Flush, true),
            0x19 => (Self::Store(How::Append), true),
            0x1a => (Self::Store(How::Prepend), true),
            0x1c => (Self::Touch, false),
            0x1d => (get(false, true), false),
            0x1e => (get(false, true), true),
            0x23 => (get(true, true), false),
            0x24 => (get(true, true), true),
            _ => return None,
        })
    }

    /// Whether lengths of extras, key and value are what the command has.
    fn accepts(self, extras: usize, key: usize, value: usize) -> bool {
        match self {
            Self::Get { touches, .. } => extras == if touches { 4 } else { 0 } && key > 0 && value == 0,
            Self::Store(How::Append | How::Prepend) => extras == 0 && key > 0,
            Self::Store(_) => extras == 8 && key > 0,
            Self::Delete => extras == 0 && key > 0 && value == 0,
            Self::Arithmetic { .. } => extras == 20 && key > 0 && value == 0,
            Self::Quit | Self::Noop | Self::Version => extras == 0 && key == 0 && value == 0,
            Self::Flush => (extras == 0 || extras == 4) && key == 0 && value == 0,
            Self::Stat => extras == 0 && value == 0,
            Self::Touch => extras == 4 && key > 0 && value == 0,
        }
    }
}

/// A request whose body has come.
struct BinaryRequest<'a> {
    opcode: u8,
    opaque: [u8; 4],
    cas: u64,
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
    quiet: bool,
}

pub(super) fn step(call: &mut SessionCall<'_, '_>, input: &[u8]) -> SessionStep {
    let Some(header) = input.first_chunk::<HEADER_BYTES>() else {
        // Without a header nobody knows what to answer to.
        return if call.is_starved { SessionStep::Close } else { SessionStep::More(HEADER_BYTES) };
    };
    if header[0] != REQUEST_MAGIC {
        return SessionStep::Close;
    }
    let key_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let extras_bytes = usize::from(header[4]);
    let body_bytes = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
    let mut request = BinaryRequest {
        opcode: header[1],
        opaque: [header[12], header[13], header[14], header[15]],
        cas: u64::from_be_bytes(header[16..24].try_into().expect("eight bytes")),
        extras: &[],
        key: &[],
        value: &[],
        quiet: false,
    };
    let command = Command::of(request.opcode);
    let Some(value_bytes) = body_bytes.checked_sub(key_bytes + extras_bytes) else {
        return refuse_and_close(call, &request);
    };
    let Some((command, quiet)) = command else {
        count(call, true);
        request.answer(call.out, Status::Unknown, 0, &[], &[], Status::Unknown.words());
        return SessionStep::Skip(HEADER_BYTES, body_bytes);
    };
    if !command.accepts(extras_bytes, key_bytes, value_bytes) || key_bytes > KEY_BYTES_MAX {
        return refuse_and_close(call, &request);
    }
    if value_bytes > VALUE_BYTES_MAX {
        count(call, true);
        request.answer(call.out, Status::TooLarge, 0, &[], &[], Status::TooLarge.words());
        return SessionStep::Skip(HEADER_BYTES, body_bytes);
    }
    let Some(body) = input.get(HEADER_BYTES..HEADER_BYTES + body_bytes) else {
        if call.is_starved {
            request.error(call.out, Status::NoMemory);
            return SessionStep::Skip(HEADER_BYTES, body_bytes);
        }
        return SessionStep::More(HEADER_BYTES + body_bytes);
    };
    (request.extras, request.quiet) = (&body[..extras_bytes], quiet);
    (request.key, request.value) = body[extras_bytes..].split_at(key_bytes);
    count(call, false);
    if execute(call, &request, command) { SessionStep::Close } else { SessionStep::Done(HEADER_BYTES + body_bytes) }
}

fn count(call: &SessionCall<'_, '_>, refused: bool) {
    call.turn.stats.add(|c| &c.requests, 1);
    call.turn.stats.add(|c| &c.refused, u64::from(refused));
}

/// Lengths that contradict each other: where the next request would begin is not known.
fn refuse_and_close(call: &mut SessionCall<'_, '_>, request: &BinaryRequest<'_>) -> SessionStep {
    count(call, true);
    request.answer(call.out, Status::Invalid, 0, &[], &[], Status::Invalid.words());
    SessionStep::Close
}

impl BinaryRequest<'_> {
    fn answer(&self, out: &mut Vec<u8>, status: Status, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) {
        let body_bytes = (extras.len() + key.len() + value.len()) as u32;
        out.extend_from_slice(&[RESPONSE_MAGIC, self.opcode]);
        out.extend_from_slice(&(key.len() as u16).to_be_bytes());
        out.extend_from_slice(&[extras.len() as u8, 0]);
        out.extend_from_slice(&(status as u16).to_be_bytes());
        out.extend_from_slice(&body_bytes.to_be_bytes());
        out.extend_from_slice(&self.opaque);
        out.extend_from_slice(&cas.to_be_bytes());
        for part in [extras, key, value] {
            out.extend_from_slice(part);
        }
    }

    fn error(&self, out: &mut Vec<u8>, status: Status) {
        self.answer(out, status, 0, &[], &[], status.words());
    }

    /// A success that a quiet request does not want to hear of.
    fn done(&self, out: &mut Vec<u8>, cas: u64) {
        if !self.quiet {
            self.answer(out, Status::Success, cas, &[], &[], &[]);
        }
    }

    fn word(&self, at: usize) -> u32 {
        self.extras[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    fn long(&self, at: usize) -> u64 {
        self.extras[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    /// The expiry time at `at` of the extras. It is read as a signed number, as memcached does.
    fn expires_ms(&self, at: usize, now_ms: u64) -> u64 {
        expires_ms(i64::from(self.word(at) as i32), now_ms)
    }
}

/// Carries a request out; true if the connection is to be closed.
fn execute(call: &mut SessionCall<'_, '_>, request: &BinaryRequest<'_>, command: Command) -> bool {
    let (turn, store) = (call.turn, &call.turn.server.store);
    match command {
        Command::Get { with_key, touches } => get(call, request, with_key, touches),
        Command::Store(how) => put(call, request, how),
        Command::Arithmetic { down } => arithmetic(call, request, down),
        Command::Delete => {
            turn.stats.add(|c| &c.deletes, 1);
            match store.delete(turn.now_ms, request.key, request.cas) {
                Ok(()) => request.done(call.out, 0),
                Err(ChangeError::Exists) => request.error(call.out, Status::Exists),
                Err(_) => request.error(call.out, Status::NotFound),
            }
        }
        Command::Quit => {
            request.done(call.out, 0);
            return true;
        }
        Command::Flush => {
            turn.stats.add(|c| &c.flushes, 1);
            let delay = if request.extras.is_empty() { 0 } else { request.word(0) };
            let at_ms = if delay == 0 { turn.now_ms } else { expires_ms(i64::from(delay), turn.now_ms) };
            store.flush(turn.now_ms, at_ms);
            request.done(call.out, 0);
        }
        Command::Noop => request.done(call.out, 0),
        Command::Version => {
            request.answer(call.out, Status::Success, 0, &[], &[], stats::VERSION.as_bytes());
        }
        Command::Stat => {
            if request.key.is_empty() {
                for (name, value) in stats::general(call) {
                    request.answer(call.out, Status::Success, 0, &[], name.as_bytes(), value.as_bytes());
                }
            } else if !matches!(request.key, b"reset" | b"settings" | b"items" | b"slabs" | b"sizes") {
                request.error(call.out, Status::NotFound);
                return false;
            }
            request.answer(call.out, Status::Success, 0, &[], &[], &[]);
        }
        Command::Touch => {
            turn.stats.add(|c| &c.touches, 1);
            let expires_ms = request.expires_ms(0, turn.now_ms);
            match store.get_and_touch(turn.now_ms, request.key, expires_ms, |item| item.cas) {
                Some(cas) => request.done(call.out, cas),
                None => request.error(call.out, Status::NotFound),
            }
        }
    }
    false
}

fn get(call: &mut SessionCall<'_, '_>, request: &BinaryRequest<'_>, with_key: bool, touches: bool) {
    let (turn, out) = (call.turn, &mut *call.out);
    let key: &[u8] = if with_key { request.key } else { &[] };
    let write = |item: &Item<'_>| {
        request.answer(out, Status::Success, item.cas, &item.flags.to_be_bytes(), key, item.value);
    };
    let store = &turn.server.store;
    let found = if touches {
        turn.stats.add(|c| &c.touches, 1);
        store.get_and_touch(turn.now_ms, request.key, request.expires_ms(0, turn.now_ms), write)
    } else {
        store.get(turn.now_ms, request.key, write)
    };
    super::line::count_get(call, found.is_some());
    if found.is_none() && !request.quiet {
        // With a key the answer holds the key in place of words.
        let words = if with_key { &[] } else { Status::NotFound.words() };
        request.answer(call.out, Status::NotFound, 0, &[], key, words);
    }
}

fn put(call: &mut SessionCall<'_, '_>, request: &BinaryRequest<'_>, how: How) {
    let turn = call.turn;
    let (flags, expires_ms) =
        if request.extras.is_empty() { (0, 0) } else { (request.word(0), request.expires_ms(4, turn.now_ms)) };
    turn.stats.add(|c| &c.sets, 1);
    // With a number, adding and replacing are setting: the record has to be there with that number.
    let set_with_cas = request.cas != 0 && matches!(how, How::Add | How::Replace);
    let put = Put {
        how: if set_with_cas { How::Set } else { how },
        cas: request.cas,
        flags,
        expires_ms,
        value: request.value,
    };
    match turn.server.store.put(turn.now_ms, request.key, &put) {
        Ok(cas) => request.done(call.out, cas),
        Err(PutError::NotStored) => {
            let status = match how {
                How::Add => Status::Exists,
                How::Replace => Status::NotFound,
                How::Set | How::Append | How::Prepend => Status::NotStored,
            };
            request.error(call.out, status);
        }
        Err(PutError::Exists) => request.error(call.out, Status::Exists),
        Err(PutError::NotFound) => request.error(call.out, Status::NotFound),
        Err(PutError::TooLarge { .. }) => request.error(call.out, Status::TooLarge),
    }
}

fn arithmetic(call: &mut SessionCall<'_, '_>, request: &BinaryRequest<'_>, down: bool) {
    let turn = call.turn;
    let creates = request.word(16) != DO_NOT_CREATE;
    let delta = Delta {
        by: request.long(0),
        down,
        cas: request.cas,
        initial: creates.then(|| (request.long(8), request.expires_ms(16, turn.now_ms))),
        expires_ms: None,
    };
    turn.stats.add(|c| &c.sets, 1);
    match turn.server.store.arithmetic(turn.now_ms, request.key, &delta) {
        Ok(_) if request.quiet => {}
        Ok((number, cas)) => {
            request.answer(call.out, Status::Success, cas, &[], &[], &number.to_be_bytes());
        }
        Err(ChangeError::NotFound) => request.error(call.out, Status::NotFound),
        Err(ChangeError::Exists) => request.error(call.out, Status::Exists),
        Err(ChangeError::NonNumeric) => request.error(call.out, Status::NonNumeric),
    }
}

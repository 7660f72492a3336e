//! ASCII commands that carry a value: a line, and as many bytes as it announces, with an end of line.

use super::line::{BAD_CHUNK, BAD_LINE, Command, CommandLine, ERROR, NO_MEMORY_TO_STORE, TOO_LARGE, refuse};
use super::text::{Words, expires_ms, flags, signed, unsigned};
use super::{SessionCall, SessionStep};
use crate::KEY_BYTES_MAX;
use crate::store::{How, Put, PutError, VALUE_BYTES_MAX};

/// The longest value that can be announced. Source: memcached `process_update_command`.
pub(super) const ANNOUNCED_BYTES_MAX: u64 = i32::MAX as u64 - 2;

/// A version that no record has: versions are counted up from 1.
pub(super) const CAS_OF_NONE: u64 = u64::MAX;

/// What the line says.
struct ValueHeader<'a> {
    key: &'a [u8],
    flags: u32,
    exptime_s: i64,
    value_bytes: usize,
    cas: u64,
}

/// Words of the longest command, `cas`, behind its name.
const WORDS_MAX: usize = 6;

pub(super) fn step(
    call: &mut SessionCall<'_, '_>,
    line: CommandLine<'_>,
    (name, behind): Command<'_>,
    input: &[u8],
) -> SessionStep {
    let words = Words::<WORDS_MAX>::of(behind);
    let with_cas = name == b"cas";
    let least = if with_cas { 5 } else { 4 };
    if !(least..=least + 1).contains(&words.count()) {
        return refuse(call, line, ERROR);
    }
    let quiet = words.last() == b"noreply";
    let Some(header) = header(words.kept(), with_cas) else {
        return refuse(call, line, if quiet { b"" } else { BAD_LINE });
    };
    if header.value_bytes > VALUE_BYTES_MAX {
        // As memcached: the old value goes as well, for it is not what the client believes to be there.
        let _ = call.turn.server.store.delete(call.turn.now_ms, header.key, 0);
        refuse(call, line, if quiet { b"" } else { TOO_LARGE });
        return SessionStep::Skip(line.bytes, header.value_bytes + 2);
    }
    let request_bytes = line.bytes + header.value_bytes + 2;
    let Some(body) = input.get(line.bytes..request_bytes) else {
        if call.is_starved {
            let _ = call.turn.server.store.delete(call.turn.now_ms, header.key, 0);
            call.out.extend_from_slice(if quiet { b"" } else { NO_MEMORY_TO_STORE });
            return SessionStep::Skip(line.bytes, header.value_bytes + 2);
        }
        return SessionStep::More(request_bytes);
    };
    call.turn.stats.add(|c| &c.requests, 1);
    let answer = match body.strip_suffix(b"\r\n") {
        Some(value) => store(call, name, &header, value),
        None => BAD_CHUNK,
    };
    if !quiet {
        call.out.extend_from_slice(answer);
    }
    SessionStep::Done(request_bytes)
}

fn header<'a>(words: &[&'a [u8]], with_cas: bool) -> Option<ValueHeader<'a>> {
    let header = ValueHeader {
        key: words[0],
        flags: flags(words[1])?,
        exptime_s: signed(words[2])?,
        value_bytes: usize::try_from(unsigned(words[3]).filter(|bytes| *bytes <= ANNOUNCED_BYTES_MAX)?).ok()?,
        // No record has version 0, which asks the store for any.
        cas: if with_cas { Some(unsigned(words[4])?).filter(|cas| *cas != 0).unwrap_or(CAS_OF_NONE) } else { 0 },
    };
    (header.key.len() <= KEY_BYTES_MAX).then_some(header)
}

fn store(call: &SessionCall<'_, '_>, name: &[u8], header: &ValueHeader<'_>, value: &[u8]) -> &'static [u8] {
    let how = match name {
        b"add" => How::Add,
        b"replace" => How::Replace,
        b"append" => How::Append,
        b"prepend" => How::Prepend,
        _ => How::Set,
    };
    let turn = &call.turn;
    let put =
        Put { how, cas: header.cas, flags: header.flags, expires_ms: expires_ms(header.exptime_s, turn.now_ms), value };
    turn.stats.add(|c| &c.sets, 1);
    match turn.server.store.put(turn.now_ms, header.key, &put) {
        Ok(_) => b"STORED\r\n",
        Err(PutError::NotStored) => b"NOT_STORED\r\n",
        Err(PutError::Exists) => b"EXISTS\r\n",
        Err(PutError::NotFound) => b"NOT_FOUND\r\n",
        Err(PutError::TooLarge { .. }) => TOO_LARGE,
    }
}

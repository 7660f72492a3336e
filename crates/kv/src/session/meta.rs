//! Meta commands: two letters, a key, flags of one letter, some with a token behind it. Supported are those flags that
//! clients use; not the ones for binary keys (`b`) and for stale records (`I`, `R`, `N` of a get).

use super::line::{
    BAD_CHUNK, BAD_LINE, CommandLine, ERROR, NO_MEMORY_TO_STORE, NON_NUMERIC, TOO_LARGE, WORDS_MAX, count_get, refuse,
};
use super::storage::{ANNOUNCED_BYTES_MAX, CAS_OF_NONE};
use super::text::{Words, expires_ms, flags, signed, ttl_s, unsigned};
use super::{SessionCall, SessionStep};
use crate::store::{ChangeError, Delta, How, Item, NEVER_MS, Put, PutError, VALUE_BYTES_MAX};
use crate::{KEY_BYTES_MAX, decimal};

const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";
const INVALID_FLAG: &[u8] = b"CLIENT_ERROR invalid flag\r\n";
const DUPLICATE_FLAG: &[u8] = b"CLIENT_ERROR duplicate flag\r\n";
const INVALID_OR_DUPLICATE: &[u8] = b"CLIENT_ERROR invalid or duplicate flag\r\n";
const BAD_MODE_LENGTH: &[u8] = b"CLIENT_ERROR incorrect length for M token\r\n";
const OPAQUE_TOO_LONG: &[u8] = b"CLIENT_ERROR opaque token too long\r\n";
const BAD_SET_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ms M token\r\n";
const BAD_ARITHMETIC_MODE: &[u8] = b"CLIENT_ERROR invalid mode for ma M token\r\n";

/// Source: memcached `MAX_OPAQUE` of proto_text.c.
const OPAQUE_BYTES_MAX: usize = 31;

/// Flags of a command with what they say.
struct Flags<'a> {
    /// Each with its letter, in the order in which they came.
    words: &'a [&'a [u8]],
    quiet: bool,
    value: bool,
    cas: u64,
    client_flags: u32,
    expires_ms: Option<u64>,
    initial: u64,
    delta: u64,
    create_expires_ms: Option<u64>,
    mode: u8,
}

/// What may stand in a command's line.
struct Allowed {
    letters: &'static [u8],
    invalid: &'static [u8],
    duplicate: &'static [u8],
    /// A token that is no number.
    token: &'static [u8],
    /// Flags to a client that are no number.
    flags: &'static [u8],
    /// A mode that is not one letter.
    mode: &'static [u8],
}

impl Allowed {
    /// A command that says what is wrong with a flag.
    const fn with_reasons(letters: &'static [u8]) -> Self {
        Self {
            letters,
            invalid: INVALID_FLAG,
            duplicate: DUPLICATE_FLAG,
            token: BAD_TOKEN,
            flags: BAD_LINE,
            mode: BAD_MODE_LENGTH,
        }
    }

    /// A command that has one answer to whatever is wrong with a flag.
    const fn without_reasons(letters: &'static [u8]) -> Self {
        Self {
            letters,
            invalid: INVALID_OR_DUPLICATE,
            duplicate: INVALID_OR_DUPLICATE,
            token: INVALID_OR_DUPLICATE,
            flags: INVALID_OR_DUPLICATE,
            mode: INVALID_OR_DUPLICATE,
        }
    }
}

const GET: Allowed = Allowed::with_reasons(b"cfhklOqstTv");
const SET: Allowed = Allowed::with_reasons(b"CcFkMOqsTtv");
const DELETE: Allowed = Allowed::without_reasons(b"CkOqv");
const ARITHMETIC: Allowed = Allowed::without_reasons(b"CcDJkMNOqTtv");

pub(super) fn step(call: &mut SessionCall<'_, '_>, line: CommandLine<'_>, input: &[u8]) -> SessionStep {
    let words = Words::<WORDS_MAX>::of(line.text);
    let kept = words.kept();
    let name = kept[0];
    if name == b"mn" {
        call.turn.stats.add(|c| &c.requests, 1);
        call.out.extend_from_slice(b"MN\r\n");
        return SessionStep::Done(line.bytes);
    }
    let Some(&key) = kept.get(1) else { return refuse(call, line, if name == b"me" { BAD_LINE } else { ERROR }) };
    if key.len() > KEY_BYTES_MAX || words.count() > kept.len() {
        return refuse(call, line, BAD_LINE);
    }
    if name == b"ms" {
        return set(call, line, kept, input);
    }
    call.turn.stats.add(|c| &c.requests, 1);
    let now_ms = call.turn.now_ms;
    let done = match name {
        b"mg" => Flags::parse(&kept[2..], &GET, now_ms).map(|flags| get(call, key, &flags)),
        b"md" => Flags::parse(&kept[2..], &DELETE, now_ms).map(|flags| delete(call, key, &flags)),
        b"ma" => Flags::parse(&kept[2..], &ARITHMETIC, now_ms).and_then(|flags| arithmetic(call, key, &flags)),
        _ => {
            explain(call, key);
            Ok(())
        }
    };
    if let Err(words) = done {
        call.turn.stats.add(|c| &c.refused, 1);
        call.out.extend_from_slice(words);
    }
    SessionStep::Done(line.bytes)
}

impl<'a> Flags<'a> {
    fn parse(words: &'a [&'a [u8]], allowed: &Allowed, now_ms: u64) -> Result<Self, &'static [u8]> {
        let mut parsed = Flags {
            words,
            quiet: false,
            value: false,
            cas: 0,
            client_flags: 0,
            expires_ms: None,
            initial: 0,
            delta: 1,
            create_expires_ms: None,
            mode: 0,
        };
        let mut seen = [false; 256];
        for word in words {
            // Words are never empty.
            let (letter, token) = (word[0], &word[1..]);
            if !allowed.letters.contains(&letter) {
                return Err(allowed.invalid);
            }
            if std::mem::replace(&mut seen[usize::from(letter)], true) {
                return Err(allowed.duplicate);
            }
            let expiry = || signed(token).map(|exptime| expires_ms(exptime, now_ms)).ok_or(allowed.token);
            let number = || unsigned(token).ok_or(allowed.token);
            match letter {
                b'q' => parsed.quiet = true,
                b'v' => parsed.value = true,
                b'O' if token.len() > OPAQUE_BYTES_MAX => return Err(OPAQUE_TOO_LONG),
                b'T' => parsed.expires_ms = Some(expiry()?),
                b'N' => parsed.create_expires_ms = Some(expiry()?),
                b'C' => parsed.cas = number()?,
                b'D' => parsed.delta = number()?,
                b'J' => parsed.initial = number()?,
                b'F' => parsed.client_flags = flags(token).ok_or(allowed.flags)?,
                b'M' => match *token {
                    [mode] => parsed.mode = mode,
                    _ => return Err(allowed.mode),
                },
                _ => {}
            }
        }
        Ok(parsed)
    }

    /// The version that a store asks for; memcached looks at none for an add.
    fn put_cas(&self, how: How) -> u64 {
        match how {
            How::Add => 0,
            How::Set | How::Replace => self.exact_cas(),
            How::Append | How::Prepend => self.cas,
        }
    }

    /// The version that is asked for, where asking for version 0, which no record has, is asking for none.
    fn exact_cas(&self) -> u64 {
        let is_asked = self.words.iter().any(|word| word[0] == b'C');
        if is_asked && self.cas == 0 { CAS_OF_NONE } else { self.cas }
    }

    /// Appends the flags that are answered with something, in the order in which they were asked, and ends the line.
    fn answer(&self, out: &mut Vec<u8>, key: &[u8], item: Option<&Item<'_>>, now_ms: u64) {
        for word in self.words {
            match (word[0], item) {
                (b'k', _) => {
                    out.extend_from_slice(b" k");
                    out.extend_from_slice(key);
                }
                (b'O', _) => {
                    out.push(b' ');
                    out.extend_from_slice(word);
                }
                (b'c', Some(item)) => put_flag(out, b'c', item.cas),
                (b'f', Some(item)) => put_flag(out, b'f', u64::from(item.flags)),
                (b'h', Some(item)) => put_flag(out, b'h', u64::from(item.fetched)),
                (b'l', Some(item)) => put_flag(out, b'l', now_ms.saturating_sub(item.accessed_ms) / 1000),
                (b's', Some(item)) => put_flag(out, b's', item.value.len() as u64),
                (b't', Some(item)) => match u64::try_from(ttl_s(item.expires_ms, now_ms)) {
                    Ok(seconds) => put_flag(out, b't', seconds),
                    Err(_) => out.extend_from_slice(b" t-1"),
                },
                _ => {}
            }
        }
        out.extend_from_slice(b"\r\n");
    }
}

fn put_flag(out: &mut Vec<u8>, letter: u8, number: u64) {
    out.extend_from_slice(&[b' ', letter]);
    decimal::put(out, number);
}

fn get(call: &mut SessionCall<'_, '_>, key: &[u8], flags: &Flags<'_>) {
    let (turn, out) = (call.turn, &mut *call.out);
    let write = |item: &Item<'_>| {
        if flags.value {
            out.extend_from_slice(b"VA ");
            decimal::put(out, item.value.len() as u64);
        } else {
            out.extend_from_slice(b"HD");
        }
        flags.answer(out, key, Some(item), turn.now_ms);
        if flags.value {
            out.extend_from_slice(item.value);
            out.extend_from_slice(b"\r\n");
        }
    };
    let found = match flags.expires_ms {
        None => turn.server.store.get(turn.now_ms, key, write),
        Some(expires_ms) => turn.server.store.get_and_touch(turn.now_ms, key, expires_ms, write),
    };
    count_get(call, found.is_some());
    if found.is_none() && !flags.quiet {
        call.out.extend_from_slice(b"EN");
        flags.answer(call.out, key, None, turn.now_ms);
    }
}

fn set(call: &mut SessionCall<'_, '_>, line: CommandLine<'_>, kept: &[&[u8]], input: &[u8]) -> SessionStep {
    let announced = kept.get(2).and_then(|word| unsigned(word)).filter(|bytes| *bytes <= ANNOUNCED_BYTES_MAX);
    let Some(value_bytes) = announced.and_then(|bytes| usize::try_from(bytes).ok()) else {
        return refuse(call, line, BAD_LINE);
    };
    let (key, now_ms) = (kept[1], call.turn.now_ms);
    let flags = Flags::parse(&kept[3..], &SET, now_ms).and_then(|flags| Ok((set_how(flags.mode)?, flags)));
    let (how, flags) = match flags {
        Ok(_) if value_bytes > VALUE_BYTES_MAX => {
            let _ = call.turn.server.store.delete(now_ms, key, 0);
            refuse(call, line, TOO_LARGE);
            return SessionStep::Skip(line.bytes, value_bytes + 2);
        }
        Ok(flags) => flags,
        Err(words) => {
            refuse(call, line, words);
            return SessionStep::Skip(line.bytes, value_bytes + 2);
        }
    };
    let request_bytes = line.bytes + value_bytes + 2;
    let Some(body) = input.get(line.bytes..request_bytes) else {
        if call.is_starved {
            let _ = call.turn.server.store.delete(now_ms, key, 0);
            call.out.extend_from_slice(NO_MEMORY_TO_STORE);
            return SessionStep::Skip(line.bytes, value_bytes + 2);
        }
        return SessionStep::More(request_bytes);
    };
    call.turn.stats.add(|c| &c.requests, 1);
    let Some(value) = body.strip_suffix(b"\r\n") else {
        call.out.extend_from_slice(BAD_CHUNK);
        return SessionStep::Done(request_bytes);
    };
    call.turn.stats.add(|c| &c.sets, 1);
    let expires_ms = flags.expires_ms.unwrap_or(NEVER_MS);
    let put = Put { how, cas: flags.put_cas(how), flags: flags.client_flags, expires_ms, value };
    let (word, cas): (&[u8], u64) = match call.turn.server.store.put(now_ms, key, &put) {
        Ok(_) if flags.quiet => return SessionStep::Done(request_bytes),
        Ok(cas) => (b"HD", cas),
        Err(PutError::NotFound) if matches!(how, How::Append | How::Prepend) => (b"NS", 0),
        Err(PutError::NotStored) => (b"NS", 0),
        Err(PutError::Exists) => (b"EX", 0),
        Err(PutError::NotFound) => (b"NF", 0),
        Err(PutError::TooLarge { .. }) => {
            call.out.extend_from_slice(TOO_LARGE);
            return SessionStep::Done(request_bytes);
        }
    };
    call.out.extend_from_slice(word);
    for word in flags.words {
        match word[0] {
            b'k' => {
                call.out.extend_from_slice(b" k");
                call.out.extend_from_slice(key);
            }
            b'O' => {
                call.out.push(b' ');
                call.out.extend_from_slice(word);
            }
            b'c' if cas != 0 => put_flag(call.out, b'c', cas),
            _ => {}
        }
    }
    call.out.extend_from_slice(b"\r\n");
    SessionStep::Done(request_bytes)
}

fn set_how(mode: u8) -> Result<How, &'static [u8]> {
    Ok(match mode {
        0 | b'S' | b's' => How::Set,
        b'E' | b'e' => How::Add,
        b'R' | b'r' => How::Replace,
        b'A' | b'a' => How::Append,
        b'P' | b'p' => How::Prepend,
        _ => return Err(BAD_SET_MODE),
    })
}

fn delete(call: &mut SessionCall<'_, '_>, key: &[u8], flags: &Flags<'_>) {
    call.turn.stats.add(|c| &c.deletes, 1);
    let word: &[u8] = match call.turn.server.store.delete(call.turn.now_ms, key, flags.exact_cas()) {
        Ok(()) if flags.quiet => return,
        Ok(()) => b"HD",
        Err(ChangeError::Exists) => b"EX",
        Err(ChangeError::NotFound | ChangeError::NonNumeric) => b"NF",
    };
    call.out.extend_from_slice(word);
    flags.answer(call.out, key, None, call.turn.now_ms);
}

fn arithmetic(call: &mut SessionCall<'_, '_>, key: &[u8], flags: &Flags<'_>) -> Result<(), &'static [u8]> {
    let down = match flags.mode {
        0 | b'I' | b'i' | b'+' => false,
        b'D' | b'd' | b'-' => true,
        _ => return Err(BAD_ARITHMETIC_MODE),
    };
    let now_ms = call.turn.now_ms;
    let delta = Delta {
        by: flags.delta,
        down,
        cas: flags.cas,
        initial: flags.create_expires_ms.map(|expires_ms| (flags.initial, expires_ms)),
        expires_ms: flags.expires_ms,
    };
    call.turn.stats.add(|c| &c.sets, 1);
    // A number that is made is told of even if quiet is asked for.
    let is_silent =
        flags.quiet && (delta.initial.is_none() || call.turn.server.store.get(now_ms, key, |_| ()).is_some());
    match call.turn.server.store.arithmetic(now_ms, key, &delta) {
        Ok((number, cas)) => {
            if is_silent {
                return Ok(());
            }
            let mut digits = Vec::with_capacity(20);
            decimal::put(&mut digits, number);
            if flags.value {
                call.out.extend_from_slice(b"VA ");
                decimal::put(call.out, digits.len() as u64);
            } else {
                call.out.extend_from_slice(b"HD");
            }
            let expires_ms = call.turn.server.store.get(now_ms, key, |item| item.expires_ms).unwrap_or(NEVER_MS);
            let item = Item { flags: 0, cas, expires_ms, accessed_ms: now_ms, fetched: true, value: &digits };
            flags.answer(call.out, key, Some(&item), now_ms);
            if flags.value {
                call.out.extend_from_slice(&digits);
                call.out.extend_from_slice(b"\r\n");
            }
        }
        Err(ChangeError::NonNumeric) => return Err(NON_NUMERIC),
        Err(error) => {
            call.out.extend_from_slice(if error == ChangeError::Exists { b"EX" } else { b"NF" });
            flags.answer(call.out, key, None, now_ms);
        }
    }
    Ok(())
}

/// `me`: what is known of a record.
fn explain(call: &mut SessionCall<'_, '_>, key: &[u8]) {
    let (turn, out) = (call.turn, &mut *call.out);
    let found = turn.server.store.get(turn.now_ms, key, |item| {
        out.extend_from_slice(b"ME ");
        out.extend_from_slice(key);
        let text = format!(
            " exp={} la={} cas={} fetch={} cls=1 size={}\r\n",
            ttl_s(item.expires_ms, turn.now_ms),
            turn.now_ms.saturating_sub(item.accessed_ms) / 1000,
            item.cas,
            if item.fetched { "yes" } else { "no" },
            key.len() + item.value.len(),
        );
        out.extend_from_slice(text.as_bytes());
    });
    if found.is_none() {
        out.extend_from_slice(b"EN\r\n");
    }
}

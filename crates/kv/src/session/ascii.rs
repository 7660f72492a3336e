//! The ASCII protocol: lines, gets and everything without a value of its own. Commands that carry a value are in
//! `storage`, meta commands in `meta`.

use super::line::{
    BAD_EXPTIME, BAD_LINE, Command, CommandLine, ERROR, NO_MEMORY_TO_READ, NON_NUMERIC, WORDS_MAX, count_get, refuse,
};
use super::text::{Words, expires_ms, find, find_either, signed, split_word, unsigned};
use super::{SessionCall, SessionStep, meta, stats, storage};
use crate::store::{ChangeError, Delta, Item};
use crate::{KEY_BYTES_MAX, decimal};

const BAD_DELETE: &[u8] = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument\r\n";
const LINE_TOO_LONG: &[u8] = b"CLIENT_ERROR line too long\r\n";
/// Longest line that is looked at as a whole, in bytes. Of a longer get the keys are answered as they come, as none is
/// longer than this; no other command is so long. Source: memcached `try_read_command_ascii`.
pub(super) const LINE_BYTES_MAX: usize = 2048;

/// What an ASCII connection remembers between two steps.
#[derive(Debug, Default)]
pub(super) struct Ascii {
    /// A get whose keys are being answered one by one, so that no answer of many values is held in memory.
    keys: Option<Keys>,
    /// Bytes of the unfinished line that were looked through for its end.
    scanned: usize,
}

#[derive(Clone, Copy, Debug)]
struct Keys {
    with_cas: bool,
    /// New expiry of each record (`gat`).
    expires_ms: Option<u64>,
}

impl Ascii {
    /// Whether a part of a get was answered, and more of it is to come.
    pub(super) fn is_amid_get(&self) -> bool {
        self.keys.is_some()
    }

    pub(super) fn step(&mut self, call: &mut SessionCall<'_, '_>, input: &[u8]) -> SessionStep {
        if let Some(keys) = self.keys {
            return self.next_key(call, input, 0, keys);
        }
        let looked_at = &input[..input.len().min(LINE_BYTES_MAX + 1)];
        let Some(end) = find(&looked_at[self.scanned..], b'\n') else {
            self.scanned = 0;
            if input.len() > LINE_BYTES_MAX {
                return self.long_line(call, input);
            }
            if call.is_starved {
                // Nobody knows whether a value follows the line, and a value must not be taken for commands.
                call.out.extend_from_slice(NO_MEMORY_TO_READ);
                return SessionStep::Close;
            }
            self.scanned = input.len();
            return SessionStep::More(input.len() + 1);
        };
        let end = self.scanned + end;
        self.scanned = 0;
        let text = &input[..end];
        let line = CommandLine { text: text.strip_suffix(b"\r").unwrap_or(text), bytes: end + 1 };
        self.command(call, line, input)
    }

    /// A line of which more has come than is looked at as a whole.
    #[cold]
    fn long_line(&mut self, call: &mut SessionCall<'_, '_>, input: &[u8]) -> SessionStep {
        let start = &input[..LINE_BYTES_MAX];
        // The last word may go on.
        let whole = start.iter().rposition(|&byte| byte == b' ').map_or(&[][..], |end| &start[..end]);
        let line = CommandLine { text: whole, bytes: 0 };
        let command @ (name, behind) = split_word(whole);
        match name {
            b"get" | b"gets" | b"gat" | b"gats" => {
                if Words::<0>::of(behind).count() < if name.starts_with(b"ga") { 2 } else { 1 } {
                    // The word that was cut is longer than a key.
                    refuse(call, line, BAD_LINE);
                    return SessionStep::SkipLine;
                }
                match self.begin_get(call, line, command, input) {
                    // Refused; the whole line is meant.
                    SessionStep::Done(0) => SessionStep::SkipLine,
                    step => step,
                }
            }
            _ => {
                refuse(call, line, LINE_TOO_LONG);
                // As above.
                SessionStep::Close
            }
        }
    }

    fn command(&mut self, call: &mut SessionCall<'_, '_>, line: CommandLine<'_>, input: &[u8]) -> SessionStep {
        let command @ (name, _) = split_word(line.text);
        match name {
            b"get" | b"gets" | b"gat" | b"gats" => return self.begin_get(call, line, command, input),
            b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => {
                return storage::step(call, line, command, input);
            }
            b"mg" | b"ms" | b"md" | b"ma" | b"mn" | b"me" => return meta::step(call, line, input),
            b"quit" => return SessionStep::Close,
            b"" => return refuse(call, line, ERROR),
            _ => {}
        }
        let words = Words::<WORDS_MAX>::of(line.text);
        call.turn.stats.add(|c| &c.requests, 1);
        let start = call.out.len();
        let known = simple(call, name, &words);
        if !known {
            call.out.extend_from_slice(ERROR);
        }
        // What is answered to a command with this word is thrown away, refusals as well.
        if known && may_be_quiet(name) && words.last() == b"noreply" {
            call.out.truncate(start);
        }
        SessionStep::Done(line.bytes)
    }

    /// Checks the line of a get and answers its first key; the others are answered one by one in the steps after this.
    fn begin_get(
        &mut self,
        call: &mut SessionCall<'_, '_>,
        line: CommandLine<'_>,
        (name, behind): Command<'_>,
        input: &[u8],
    ) -> SessionStep {
        let touches = name.starts_with(b"ga");
        let (exptime, names) = if touches { split_word(behind) } else { (&[][..], behind) };
        if names.iter().all(|&byte| byte == b' ') {
            // memcached answers END to a gat without keys.
            return refuse(call, line, if exptime.is_empty() { ERROR } else { b"END\r\n" });
        }
        let expires_ms = match touches.then(|| signed(exptime)) {
            None => None,
            Some(Some(exptime)) => Some(expires_ms(exptime, call.turn.now_ms)),
            Some(None) => return refuse(call, line, BAD_EXPTIME),
        };
        let may_be_too_long = line.text.len() > KEY_BYTES_MAX;
        if may_be_too_long && line.text.split(|&byte| byte == b' ').any(|key| key.len() > KEY_BYTES_MAX) {
            return refuse(call, line, BAD_LINE);
        }
        call.turn.stats.add(|c| &c.requests, 1);
        let keys = Keys { with_cas: name.ends_with(b"s"), expires_ms };
        self.keys = Some(keys);
        self.next_key(call, input, line.text.len() - names.len(), keys)
    }

    /// Answers the first key behind the first `at` bytes of the input, which are used up in any case.
    fn next_key(&mut self, call: &mut SessionCall<'_, '_>, input: &[u8], at: usize, keys: Keys) -> SessionStep {
        let spaces = at + input[at..].iter().take_while(|&&byte| byte == b' ').count();
        let rest = &input[spaces..];
        // A key, and the carriage return of the line's end.
        const LOOK_BYTES: usize = KEY_BYTES_MAX + 2;
        let Some(end) = find_either(&rest[..rest.len().min(LOOK_BYTES)], b' ', b'\n') else {
            return self.cut_key(call, spaces, input.len(), rest.len() >= LOOK_BYTES);
        };
        let is_last = rest[end] == b'\n';
        let key = if is_last { rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]) } else { &rest[..end] };
        if key.len() > KEY_BYTES_MAX {
            return self.cut_key(call, spaces, input.len(), true);
        }
        if !key.is_empty() {
            answer_get(call, key, keys);
        }
        if is_last {
            self.keys = None;
            call.out.extend_from_slice(b"END\r\n");
            return SessionStep::Done(spaces + end + 1);
        }
        SessionStep::Done(spaces + end)
    }

    /// A key of a long line that has not come whole, or is too long.
    #[cold]
    fn cut_key(
        &mut self,
        call: &mut SessionCall<'_, '_>,
        spaces: usize,
        there: usize,
        is_too_long: bool,
    ) -> SessionStep {
        if is_too_long || call.is_starved {
            self.keys = None;
            call.out.extend_from_slice(if is_too_long { BAD_LINE } else { NO_MEMORY_TO_READ });
            call.turn.stats.add(|c| &c.refused, u64::from(!call.is_starved));
            return SessionStep::SkipLine;
        }
        if spaces > 0 { SessionStep::Done(spaces) } else { SessionStep::More(there + 1) }
    }
}

fn answer_get(call: &mut SessionCall<'_, '_>, key: &[u8], keys: Keys) {
    let (turn, out) = (call.turn, &mut *call.out);
    let write = |item: &Item<'_>| {
        out.extend_from_slice(b"VALUE ");
        out.extend_from_slice(key);
        out.push(b' ');
        decimal::put(out, u64::from(item.flags));
        out.push(b' ');
        decimal::put(out, item.value.len() as u64);
        if keys.with_cas {
            out.push(b' ');
            decimal::put(out, item.cas);
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(item.value);
        out.extend_from_slice(b"\r\n");
    };
    let found = match keys.expires_ms {
        None => turn.server.store.get(turn.now_ms, key, write),
        Some(expires_ms) => {
            turn.stats.add(|c| &c.touches, 1);
            turn.server.store.get_and_touch(turn.now_ms, key, expires_ms, write)
        }
    };
    count_get(call, found.is_some());
}

fn may_be_quiet(name: &[u8]) -> bool {
    matches!(name, b"delete" | b"incr" | b"decr" | b"touch" | b"flush_all" | b"verbosity")
}

/// Commands of one line; false if there is none of that name with so many words.
fn simple(call: &mut SessionCall<'_, '_>, name: &[u8], words: &Words<'_, WORDS_MAX>) -> bool {
    let answer: &[u8] = match (name, words.count()) {
        (b"delete", 2..=4) => delete(call, words.kept()),
        (b"incr" | b"decr", 3..=4) => return arithmetic(call, words.kept(), name == b"decr"),
        (b"touch", 3..=4) => touch(call, words.kept()),
        (b"flush_all", 1..=3) => flush(call, words.kept()),
        (b"verbosity", 2..=3) => {
            if unsigned(words.kept()[1]).is_some() {
                b"OK\r\n"
            } else {
                BAD_LINE
            }
        }
        (b"version", _) => {
            call.out.extend_from_slice(b"VERSION ");
            call.out.extend_from_slice(stats::VERSION.as_bytes());
            b"\r\n"
        }
        (b"stats", _) => stats::ascii(call, words.kept()),
        (b"shutdown", _) => b"ERROR: shutdown not enabled\r\n",
        _ => return false,
    };
    call.out.extend_from_slice(answer);
    true
}

fn delete(call: &mut SessionCall<'_, '_>, words: &[&[u8]]) -> &'static [u8] {
    let allowed = match words[2..] {
        [] => true,
        [one] => matches!(one, b"0" | b"noreply"),
        [zero, noreply] => zero == b"0" && noreply == b"noreply",
        _ => false,
    };
    if !allowed {
        return BAD_DELETE;
    }
    if words[1].len() > KEY_BYTES_MAX {
        return BAD_LINE;
    }
    call.turn.stats.add(|c| &c.deletes, 1);
    match call.turn.server.store.delete(call.turn.now_ms, words[1], 0) {
        Ok(()) => b"DELETED\r\n",
        Err(_) => b"NOT_FOUND\r\n",
    }
}

fn arithmetic(call: &mut SessionCall<'_, '_>, words: &[&[u8]], down: bool) -> bool {
    let answer = 'answer: {
        if words[1].len() > KEY_BYTES_MAX {
            break 'answer BAD_LINE;
        }
        let Some(by) = unsigned(words[2]) else { break 'answer BAD_DELTA };
        let delta = Delta { by, down, cas: 0, initial: None, expires_ms: None };
        call.turn.stats.add(|c| &c.sets, 1);
        match call.turn.server.store.arithmetic(call.turn.now_ms, words[1], &delta) {
            Ok((number, _)) => {
                decimal::put(call.out, number);
                b"\r\n"
            }
            Err(ChangeError::NotFound | ChangeError::Exists) => b"NOT_FOUND\r\n",
            Err(ChangeError::NonNumeric) => NON_NUMERIC,
        }
    };
    call.out.extend_from_slice(answer);
    true
}

fn touch(call: &mut SessionCall<'_, '_>, words: &[&[u8]]) -> &'static [u8] {
    if words[1].len() > KEY_BYTES_MAX {
        return BAD_LINE;
    }
    let Some(exptime) = signed(words[2]) else { return BAD_EXPTIME };
    call.turn.stats.add(|c| &c.touches, 1);
    let expires = expires_ms(exptime, call.turn.now_ms);
    match call.turn.server.store.get_and_touch(call.turn.now_ms, words[1], expires, |_| ()) {
        Some(()) => b"TOUCHED\r\n",
        None => b"NOT_FOUND\r\n",
    }
}

fn flush(call: &mut SessionCall<'_, '_>, words: &[&[u8]]) -> &'static [u8] {
    let delay = match words.get(1) {
        None | Some(&b"noreply") => Some(0),
        Some(word) => signed(word),
    };
    let Some(delay_s) = delay else { return BAD_EXPTIME };
    call.turn.stats.add(|c| &c.flushes, 1);
    let now_ms = call.turn.now_ms;
    let at_ms = if delay_s <= 0 { now_ms } else { expires_ms(delay_s, now_ms) };
    call.turn.server.store.flush(now_ms, at_ms);
    b"OK\r\n"
}

//! RESP2 and RESP3: arrays of bulk strings, or words on a line; and the few commands that a cache and its tools need. What a client
//! says before its first command is in `hello`.

mod hello;

use super::text::{Words, signed, unsigned};
use super::{LINE_BYTES_MAX, SessionCall, SessionStep, stats};
use crate::decimal;
use crate::store::{How, Item, NEVER_MS, Put, PutError, VALUE_BYTES_MAX};

/// Most words of a request; redis takes a million.
const WORDS_MAX: usize = 64;

/// A length is short: what has no end after so many bytes is none.
const LENGTH_BYTES_MAX: usize = 32;

const SYNTAX_ERROR: &str = "ERR syntax error";
const NO_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// What a RESP connection remembers between two steps.
#[derive(Debug, Default)]
pub(super) struct Resp {
    /// Bytes of the unfinished line that were looked through for its end.
    scanned: usize,
    /// Words of a request that was refused, still to come.
    unwanted: usize,
    speaks: Version,
}

/// Which version of the protocol a connection's answers have.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    #[default]
    Two,
    Three,
}

impl Resp {
    pub(super) fn step(&mut self, call: &mut SessionCall<'_, '_>, input: &[u8]) -> SessionStep {
        if self.unwanted > 0 {
            return self.throw_away(call, input);
        }
        if input[0] == b'*' { self.array(call, input) } else { self.inline(call, input) }
    }

    fn array(&mut self, call: &mut SessionCall<'_, '_>, input: &[u8]) -> SessionStep {
        let (count, mut at) = match length_at(input, 0) {
            LineAt::Whole(line, next) => (signed(&line[1..]), next),
            LineAt::Unfinished if call.is_starved => return no_memory(call, SessionStep::Close),
            LineAt::Unfinished => return SessionStep::More(input.len() + 1),
            LineAt::TooLong => return protocol_error(call, "invalid multibulk length"),
        };
        let count = match count {
            Some(..=0) => return SessionStep::Done(at),
            Some(count) if count <= WORDS_MAX as i64 => count as usize,
            _ => return protocol_error(call, "invalid multibulk length"),
        };
        let mut words: [&[u8]; WORDS_MAX] = [&[]; WORDS_MAX];
        let mut all_bytes = 0;
        for (index, word) in words.iter_mut().enumerate().take(count) {
            let (line, next) = match length_at(input, at) {
                LineAt::Whole(line, next) => (line, next),
                LineAt::Unfinished if call.is_starved => {
                    self.unwanted = count - index;
                    return no_memory(call, SessionStep::Done(at));
                }
                LineAt::Unfinished => return SessionStep::More(input.len() + 1),
                LineAt::TooLong => return protocol_error(call, "invalid bulk length"),
            };
            let length = match length(line) {
                Ok(length) => length,
                Err(what) => return protocol_error(call, &what),
            };
            all_bytes += length;
            if all_bytes > VALUE_BYTES_MAX + LINE_BYTES_MAX {
                return protocol_error(call, "invalid bulk length");
            }
            let end = next + length;
            if input.len() < end + 2 {
                if call.is_starved {
                    self.unwanted = count - index - 1;
                    return no_memory(call, SessionStep::Skip(next, length + 2));
                }
                return SessionStep::More(end + 2);
            }
            // As redis: the end of line is taken and not looked at.
            *word = &input[next..end];
            at = end + 2;
        }
        execute(call, &mut self.speaks, &words[..count], at)
    }

    fn inline(&mut self, call: &mut SessionCall<'_, '_>, input: &[u8]) -> SessionStep {
        let scanned = std::mem::take(&mut self.scanned);
        match line_at(input, 0, scanned, LINE_BYTES_MAX) {
            LineAt::Whole(line, next) => {
                let words = Words::<WORDS_MAX>::of(line);
                if words.count() == 0 {
                    SessionStep::Done(next)
                } else {
                    execute(call, &mut self.speaks, words.kept(), next)
                }
            }
            LineAt::Unfinished if call.is_starved => no_memory(call, SessionStep::SkipLine),
            LineAt::Unfinished => {
                self.scanned = input.len();
                SessionStep::More(input.len() + 1)
            }
            LineAt::TooLong => protocol_error(call, "too big inline request"),
        }
    }

    /// One word of a request that was refused.
    #[cold]
    fn throw_away(&mut self, call: &mut SessionCall<'_, '_>, input: &[u8]) -> SessionStep {
        match length_at(input, 0) {
            LineAt::Whole(line, next) => match length(line) {
                Ok(length) => {
                    self.unwanted -= 1;
                    SessionStep::Skip(next, length + 2)
                }
                Err(what) => protocol_error(call, &what),
            },
            // The error was told already.
            LineAt::Unfinished if call.is_starved => SessionStep::Close,
            LineAt::Unfinished => SessionStep::More(input.len() + 1),
            LineAt::TooLong => protocol_error(call, "invalid bulk length"),
        }
    }
}

#[cold]
fn no_memory(call: &mut SessionCall<'_, '_>, step: SessionStep) -> SessionStep {
    put_error(call.out, NO_MEMORY);
    step
}

/// The line that begins at `at`, without its end, and where the next begins.
enum LineAt<'a> {
    Whole(&'a [u8], usize),
    Unfinished,
    TooLong,
}

fn length_at(input: &[u8], at: usize) -> LineAt<'_> {
    line_at(&input[at..], at, 0, LENGTH_BYTES_MAX)
}

/// The line of `rest`, which begins at `at` of the input and has no end in its first `scanned` bytes.
fn line_at(rest: &[u8], at: usize, scanned: usize, bytes_max: usize) -> LineAt<'_> {
    let looked_at = &rest[..rest.len().min(bytes_max)];
    match looked_at[scanned..].iter().position(|&byte| byte == b'\n').map(|end| scanned + end) {
        Some(end) => LineAt::Whole(rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]), at + end + 1),
        None if rest.len() >= bytes_max => LineAt::TooLong,
        None => LineAt::Unfinished,
    }
}

fn protocol_error(call: &mut SessionCall<'_, '_>, what: &str) -> SessionStep {
    call.turn.stats.add(|c| &c.refused, 1);
    put_error(call.out, &format!("ERR Protocol error: {what}"));
    SessionStep::Close
}

/// The length of a word, from its line.
fn length(line: &[u8]) -> Result<usize, String> {
    let Some(length) = line.strip_prefix(b"$") else {
        let got = char::from(line.first().copied().filter(u8::is_ascii_graphic).unwrap_or(b'?'));
        return Err(format!("expected '$', got '{got}'"));
    };
    let length = unsigned(length).and_then(|length| usize::try_from(length).ok());
    length.filter(|length| *length <= VALUE_BYTES_MAX).ok_or_else(|| "invalid bulk length".to_owned())
}

fn execute(call: &mut SessionCall<'_, '_>, speaks: &mut Version, words: &[&[u8]], bytes: usize) -> SessionStep {
    call.turn.stats.add(|c| &c.requests, 1);
    let mut name = [0; 16];
    let upper = match name.get_mut(..words[0].len()) {
        Some(room) => {
            room.copy_from_slice(words[0]);
            room.make_ascii_uppercase();
            &*room
        }
        None => &[],
    };
    let arguments = &words[1..];
    match (upper, arguments.len()) {
        (b"GET", 1) => get(call, *speaks, words[1]),
        (b"SET", 2..) => set(call, *speaks, arguments),
        (b"DEL" | b"UNLINK", 1..) => delete(call, arguments),
        (b"EXISTS", 1..) => {
            let there = arguments.iter().filter(|key| read(call, key, |_, _| ())).count();
            put_integer(call.out, there as i64);
        }
        (b"TTL", 1) => time_to_live(call, words[1], 1000),
        (b"PTTL", 1) => time_to_live(call, words[1], 1),
        (b"PING", 0) => call.out.extend_from_slice(b"+PONG\r\n"),
        (b"PING" | b"ECHO", 1) => put_bulk(call.out, words[1]),
        (b"SELECT", 1) if words[1] == b"0" => put_ok(call.out),
        (b"SELECT", 1) => put_error(call.out, "ERR DB index is out of range"),
        (b"DBSIZE", 0) => put_integer(call.out, call.turn.server.store_stats().records as i64),
        (b"FLUSHALL" | b"FLUSHDB", _) => {
            call.turn.stats.add(|c| &c.flushes, 1);
            call.turn.server.store.flush(call.turn.now_ms, call.turn.now_ms);
            put_ok(call.out);
        }
        (b"COMMAND", _) => call.out.extend_from_slice(b"*0\r\n"),
        (b"CONFIG", 2) if words[1].eq_ignore_ascii_case(b"get") => config_get(call, *speaks, words[2]),
        (b"HELLO", _) => hello::hello(call, speaks, arguments),
        (b"AUTH", 1..=2) => hello::auth(call, arguments),
        (b"CLIENT", 1..) => hello::client(call, *speaks, arguments),
        (b"INFO", _) => info(call),
        (b"QUIT", _) => {
            put_ok(call.out);
            return SessionStep::Close;
        }
        (
            b"GET" | b"SET" | b"DEL" | b"UNLINK" | b"EXISTS" | b"TTL" | b"PTTL" | b"PING" | b"ECHO" | b"SELECT"
            | b"DBSIZE" | b"AUTH" | b"CLIENT",
            _,
        ) => {
            let name = String::from_utf8_lossy(words[0]).to_lowercase();
            put_error(call.out, &format!("ERR wrong number of arguments for '{name}' command"));
        }
        _ => unknown(call, words),
    }
    SessionStep::Done(bytes)
}

fn get(call: &mut SessionCall<'_, '_>, speaks: Version, key: &[u8]) {
    if !read(call, key, |out, item| put_bulk(out, item.value)) {
        put_null(call.out, speaks);
    }
}

fn read(call: &mut SessionCall<'_, '_>, key: &[u8], found: impl FnOnce(&mut Vec<u8>, &Item<'_>)) -> bool {
    let (turn, out) = (call.turn, &mut *call.out);
    let hit = turn.server.store.get(turn.now_ms, key, |item| found(out, item)).is_some();
    super::line::count_get(call, hit);
    hit
}

fn set(call: &mut SessionCall<'_, '_>, speaks: Version, arguments: &[&[u8]]) {
    let turn = call.turn;
    let (key, value) = (arguments[0], arguments[1]);
    let (how, expires_ms) = match set_options(&arguments[2..], turn.now_ms) {
        Ok(options) => options,
        Err(error) => return put_error(call.out, error),
    };
    turn.stats.add(|c| &c.sets, 1);
    match turn.server.store.put(turn.now_ms, key, &Put { how, cas: 0, flags: 0, expires_ms, value }) {
        Ok(_) => put_ok(call.out),
        Err(PutError::NotStored | PutError::Exists | PutError::NotFound) => put_null(call.out, speaks),
        Err(PutError::TooLarge { .. }) => {
            put_error(call.out, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
        }
    }
}

/// Condition and expiry of a SET. `GET` and `KEEPTTL` are refused.
fn set_options(options: &[&[u8]], now_ms: u64) -> Result<(How, u64), &'static str> {
    let (mut how, mut expires_ms) = (How::Set, None);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" if how == How::Set => how = How::Add,
            b"XX" if how == How::Set => how = How::Replace,
            name @ (b"EX" | b"PX" | b"EXAT" | b"PXAT") if expires_ms.is_none() => {
                let number = signed(options.next().ok_or(SYNTAX_ERROR)?);
                let number = number.ok_or("ERR value is not an integer or out of range")?;
                let number = u64::try_from(number).ok().filter(|number| *number > 0);
                let number = number.ok_or("ERR invalid expire time in 'set' command")?;
                let ms = if name[0] == b'E' { number.saturating_mul(1000) } else { number };
                let from = if name.ends_with(b"AT") { 0 } else { now_ms };
                expires_ms = Some(ms.saturating_add(from).min(NEVER_MS - 1));
            }
            _ => return Err(SYNTAX_ERROR),
        }
    }
    Ok((how, expires_ms.unwrap_or(NEVER_MS)))
}

fn delete(call: &mut SessionCall<'_, '_>, keys: &[&[u8]]) {
    let turn = call.turn;
    turn.stats.add(|c| &c.deletes, keys.len() as u64);
    let gone = keys.iter().filter(|key| turn.server.store.delete(turn.now_ms, key, 0).is_ok()).count();
    put_integer(call.out, gone as i64);
}

fn time_to_live(call: &mut SessionCall<'_, '_>, key: &[u8], unit_ms: u64) {
    let turn = call.turn;
    let expires_ms = turn.server.store.get(turn.now_ms, key, |item| item.expires_ms);
    let left = match expires_ms {
        None => -2,
        Some(NEVER_MS) => -1,
        Some(at_ms) => i64::try_from((at_ms - turn.now_ms).div_ceil(unit_ms)).unwrap_or(i64::MAX),
    };
    put_integer(call.out, left);
}

/// The two parameters that redis-benchmark asks for.
fn config_get(call: &mut SessionCall<'_, '_>, speaks: Version, name: &[u8]) {
    let value: &[u8] = match name.to_ascii_lowercase().as_slice() {
        b"save" => b"",
        b"appendonly" => b"no",
        _ => return put_map(call.out, speaks, 0),
    };
    put_map(call.out, speaks, 1);
    put_bulk(call.out, name);
    put_bulk(call.out, value);
}

fn info(call: &mut SessionCall<'_, '_>) {
    let mut text = format!(
        "# Server\r\nserver_name:napier\r\nredis_version:{}\r\nversion:{}\r\n",
        stats::REDIS_VERSION,
        stats::VERSION
    );
    text.push_str("# Stats\r\n");
    for (name, value) in stats::general(call) {
        text.push_str(&format!("{name}:{value}\r\n"));
    }
    put_bulk(call.out, text.as_bytes());
}

fn unknown(call: &mut SessionCall<'_, '_>, words: &[&[u8]]) {
    call.turn.stats.add(|c| &c.refused, 1);
    let shown = |word: &[u8]| String::from_utf8_lossy(&word[..word.len().min(64)]).into_owned();
    let mut text = format!("ERR unknown command '{}', with args beginning with: ", shown(words[0]));
    for word in words[1..].iter().take(8) {
        text.push_str(&format!("'{}' ", shown(word)));
    }
    put_error(call.out, &text);
}

/// No value.
fn put_null(out: &mut Vec<u8>, speaks: Version) {
    out.extend_from_slice(match speaks {
        Version::Two => b"$-1\r\n",
        Version::Three => b"_\r\n",
    });
}

/// The head of a map of so many pairs: in RESP2 an array of names and values.
fn put_map(out: &mut Vec<u8>, speaks: Version, pairs: u64) {
    let (head, length) = match speaks {
        Version::Two => (b'*', 2 * pairs),
        Version::Three => (b'%', pairs),
    };
    out.push(head);
    decimal::put(out, length);
    out.extend_from_slice(b"\r\n");
}

fn put_ok(out: &mut Vec<u8>) {
    out.extend_from_slice(b"+OK\r\n");
}

fn put_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    decimal::put(out, bytes.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn put_integer(out: &mut Vec<u8>, number: i64) {
    out.push(b':');
    if number < 0 {
        out.push(b'-');
    }
    decimal::put(out, number.unsigned_abs());
    out.extend_from_slice(b"\r\n");
}

/// Appends an error; ends of line in it would end the answer early.
fn put_error(out: &mut Vec<u8>, text: &str) {
    out.push(b'-');
    out.extend(text.bytes().map(|byte| if byte == b'\r' || byte == b'\n' { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

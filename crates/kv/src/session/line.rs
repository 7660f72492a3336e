//! What the parts of the ASCII protocol share: a line, and what is answered to one.

use super::{SessionCall, SessionStep};

pub(super) const ERROR: &[u8] = b"ERROR\r\n";
pub(super) const BAD_LINE: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
pub(super) const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
pub(super) const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
pub(super) const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
pub(super) const NO_MEMORY_TO_READ: &[u8] = b"SERVER_ERROR out of memory reading request\r\n";
pub(super) const NO_MEMORY_TO_STORE: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
pub(super) const NON_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

/// More words than any command has, meta commands with all their flags included.
pub(super) const WORDS_MAX: usize = 24;

/// A line that has come whole.
#[derive(Clone, Copy)]
pub(super) struct CommandLine<'a> {
    /// Without its end.
    pub(super) text: &'a [u8],
    /// Bytes with its end.
    pub(super) bytes: usize,
}

/// The first word of a line, and what is behind it.
pub(super) type Command<'a> = (&'a [u8], &'a [u8]);

/// Counts a get, and whether it found its record.
pub(super) fn count_get(call: &SessionCall<'_, '_>, hit: bool) {
    call.turn.stats.add(|c| &c.gets, 1);
    call.turn.stats.add(|c| &c.get_hits, u64::from(hit));
}

/// Answers with these words to a line that is refused.
pub(super) fn refuse(call: &mut SessionCall<'_, '_>, line: CommandLine<'_>, words: &[u8]) -> SessionStep {
    call.turn.stats.add(|c| &c.requests, 1);
    call.turn.stats.add(|c| &c.refused, 1);
    call.out.extend_from_slice(words);
    SessionStep::Done(line.bytes)
}

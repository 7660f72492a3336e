//! Pages of the ring buffer as the kernel has them: events with times in ns, which text rounds to us. Pure.
//!
//! Source: `kernel/trace/ring_buffer.c`, `include/linux/ring_buffer.h enum ring_buffer_type`, and `events/header_page` of tracefs.

/// Bytes before the first event: a time, and how many bytes follow.
const HEAD: usize = 16;
/// Of the length of a page, those bits that are a length.
const LENGTH: u64 = (1 << 27) - 1;
/// Events are missing before this page, and at its end stands how many.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// What `type_len` of an event says instead of a length.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of the time since the event before.
const DELTA_BITS: u32 = 27;
/// Of a whole time, those bits that an event cannot hold are the page's.
const STAMP_BITS: u32 = 59;

/// How many events were lost before this page.
pub(super) fn lost(page: &[u8]) -> u64 {
    let Some(commit) = word64(page, 8) else { return 0 };
    match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
        (false, _) => 0,
        (true, true) => word64(page, HEAD + length(commit)).unwrap_or(1).max(1),
        (true, false) => 1,
    }
}

/// When a page begins.
pub(super) fn begins(page: &[u8]) -> u64 {
    word64(page, 0).unwrap_or(0)
}

/// Hands all events of a page to `each`, with their times.
pub(super) fn events(page: &[u8], mut each: impl FnMut(u64, &[u8])) {
    let (Some(mut at_ns), Some(commit)) = (word64(page, 0), word64(page, 8)) else { return };
    let mut rest = page.get(HEAD..page.len().min(HEAD + length(commit))).unwrap_or_default();
    while let Some(head) = word32(rest, 0) {
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        let Some(first) = word32(rest, 4) else { break };
        let (from, size) = match kind {
            PADDING if delta == 0 => break,
            PADDING => (4, first as usize),
            TIME_EXTEND => {
                at_ns += delta + (u64::from(first) << DELTA_BITS);
                (8, 0)
            }
            TIME_STAMP => {
                let stamp = delta + (u64::from(first) << DELTA_BITS);
                at_ns = (at_ns >> STAMP_BITS << STAMP_BITS) | (stamp & ((1 << STAMP_BITS) - 1));
                (8, 0)
            }
            // The length stands in front, and counts itself.
            0 => (8, (first as usize).saturating_sub(4)),
            words => (4, words as usize * 4),
        };
        let end = from + size.next_multiple_of(4);
        let Some(payload) = rest.get(from..from + size) else { break };
        if kind <= PADDING {
            at_ns += delta;
        }
        if kind < PADDING {
            each(at_ns, payload);
        }
        rest = rest.get(end..).unwrap_or_default();
    }
}

fn length(commit: u64) -> usize {
    (commit & LENGTH) as usize
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;

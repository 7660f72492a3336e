//! Pages that a kernel wrote, against the text that the same kernel made of the same events.

use super::*;
use crate::tracefs::{EventFormat, Recorded};

const PAGES: &[u8] = include_bytes!("recorded/cpu1.pages");
const TEXT: &str = include_str!("recorded/cpu1.text");
const FORMATS: &str = include_str!("recorded/formats");

fn formats() -> Vec<(String, EventFormat)> {
    let of = |text: &str| (text.lines().next().expect("a name").trim().to_owned(), EventFormat::parse(text));
    FORMATS.split("name: ").filter(|text| text.contains("ID:")).map(of).collect()
}

#[test]
fn pages_say_what_the_text_says_in_nanoseconds() {
    let formats = formats();
    let mut found = Vec::new();
    for page in PAGES.chunks(4096) {
        assert_eq!(lost(page), 0);
        let before = found.len();
        events(page, |at_ns, event| {
            let id = u16::from_ne_bytes([event[0], event[1]]);
            let (name, format) = formats.iter().find(|(_, format)| format.id == id).expect("a format");
            let number = |name| format.field(name).and_then(|field| field.number(event));
            let tid = number("common_pid").expect("a thread");
            found.push((
                at_ns,
                name.clone(),
                tid,
                number("common_flags").expect("flags"),
                number("pid"),
                number("len"),
            ));
        });
        assert!(found.len() > before + 40 && found[before].0 == begins(page), "{}", found.len());
    }
    let told = Recorded::of(TEXT).events;
    assert_eq!(found.len(), told.len());
    for ((at_ns, name, tid, flags, pid, len), event) in found.iter().zip(&told) {
        let text = |name: &str| event.field(name).and_then(|value| value.parse::<i64>().ok());
        assert_eq!((at_ns + 500) / 1000 - event.at_us, 0, "{event:?}");
        assert_eq!((name, *tid, flags & 0x10 != 0), (&event.name, i64::from(event.tid), event.in_softirq), "{event:?}");
        assert_eq!((*pid, *len), (text("pid"), text("len")), "{event:?}");
    }
}

#[test]
fn what_was_lost_is_told_and_what_is_cut_off_is_left() {
    let page = &PAGES[..4096];
    let mut count = 0;
    for end in 0..page.len() {
        let mut seen = 0;
        events(&page[..end], |_, _| seen += 1);
        assert!(seen >= count, "{end}");
        count = seen;
    }
    let mut marked = page.to_vec();
    let commit = u64::from_ne_bytes(page[8..16].try_into().expect("eight"));
    marked[8..16].copy_from_slice(&(commit | MISSED).to_ne_bytes());
    assert_eq!((lost(page), lost(&marked)), (0, 1));
    marked[8..16].copy_from_slice(&(100 | MISSED | MISSED_STORED).to_ne_bytes());
    marked[116..124].copy_from_slice(&77_u64.to_ne_bytes());
    assert_eq!(lost(&marked), 77);
}

/// An event by hand: its kind, the time since the one before, and what follows.
fn event(kind: u32, delta: u32, words: &[u32]) -> Vec<u8> {
    let head = (kind | (delta << 5)).to_ne_bytes();
    head.into_iter().chain(words.iter().flat_map(|word| word.to_ne_bytes())).collect()
}

#[test]
fn long_pauses_whole_times_and_large_events_are_read() {
    let data = [
        event(1, 5, &[0xaa]),
        event(TIME_EXTEND, 3, &[2]),
        event(1, 7, &[0xbb]),
        event(PADDING, 1, &[8, 0]),
        event(0, 2, &[12, 0xcc, 0xcd]),
        event(TIME_STAMP, 9, &[1]),
        event(1, 1, &[0xdd]),
        event(PADDING, 0, &[0]),
        event(1, 1, &[0xee]),
    ]
    .concat();
    let stamp = (3_u64 << STAMP_BITS) + 1000;
    let page = [&stamp.to_ne_bytes()[..], &(data.len() as u64).to_ne_bytes()[..], &data[..]].concat();
    let mut found = Vec::new();
    events(&page, |at, payload| found.push((at, payload[0], payload.len())));
    let extended = stamp + 5 + 3 + (2 << DELTA_BITS) + 7;
    let whole = (3_u64 << STAMP_BITS) + 9 + (1 << DELTA_BITS) + 1;
    assert_eq!(found, [(stamp + 5, 0xaa, 4), (extended, 0xbb, 4), (extended + 3, 0xcc, 8), (whole, 0xdd, 4)]);
}

use alloc::vec;
use alloc::vec::Vec;

use super::*;

fn block(start: u32, end: u32) -> SackBlock {
    SackBlock { start: Seq(start), end: Seq(end) }
}

#[test]
fn what_is_written_is_read() {
    let syn = SynOptions { segment_bytes: Some(1460), scale: Some(7), selective: true };
    let stamps = Stamps { value: 0x0102_0304, echo: u32::MAX };
    let mut written = Written::default();
    written.syn(&syn);
    written.stamps(stamps);
    assert_eq!(written.len() % 4, 0);
    let read = Options::read(written.bytes(), true);
    assert_eq!((read.syn, read.stamps, read.count), (syn, Some(stamps), 0));

    for count in 0..6 {
        for stamped in [false, true] {
            let blocks: Vec<SackBlock> = (0..count).map(|at| block(at * 10, at * 10 + 5)).collect();
            let mut written = Written::default();
            if stamped {
                written.stamps(stamps);
            }
            written.blocks(blocks.iter().copied());
            assert!(written.len().is_multiple_of(4) && written.len() <= OPTIONS_MAX);
            let read = Options::read(written.bytes(), false);
            let room = if stamped { 3 } else { 4 };
            assert_eq!(read.blocks(), &blocks[..blocks.len().min(room)], "stamped: {stamped}");
            assert_eq!(read.stamps, stamped.then_some(stamps));
        }
    }
}

#[test]
fn the_usual_form_is_read_as_any_other() {
    let bytes = [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(Options::read(&bytes, false), Options::read_any(&bytes, false));
    assert_eq!(Options::read(&[], false), Options::read_any(&[], false));
}

#[test]
fn what_is_wrong_is_skipped_and_nothing_is_read_beyond_the_end() {
    let none = Options::default();
    for bytes in [
        vec![2],
        vec![2, 4],
        vec![2, 4, 5],
        vec![2, 0, 1, 1],
        vec![2, 1],
        vec![5, 9, 0, 0, 0, 0, 0, 0, 0],
        vec![0, 2, 4, 5, 0xb4],
    ] {
        assert_eq!(Options::read(&bytes, true), none, "{bytes:?}");
        assert_eq!(Options::read(&bytes, false), none, "{bytes:?}");
    }
    // An option that is not known, then one that is.
    assert_eq!(Options::read(&[254, 5, 9, 9, 9, 2, 4, 1, 0], true).syn.segment_bytes, Some(256));
    // What belongs to a SYN means nothing elsewhere, and the other way round.
    assert_eq!(Options::read(&[2, 4, 5, 0xb4, 3, 3, 7, 4, 2], false), none);
    let mut written = Written::default();
    written.blocks([block(1, 2)].into_iter());
    assert_eq!(Options::read(written.bytes(), true), none);
    // A scale is bounded.
    assert_eq!(Options::read(&[3, 3, 255, 0], true).syn.scale, Some(SCALE_MAX));
}

#[test]
fn any_bytes_can_be_read() {
    for kind in 0..=9 {
        for len in 0..=40_u8 {
            for size in 0..=OPTIONS_MAX {
                let mut bytes = vec![0xa5; size];
                for (place, byte) in bytes.iter_mut().zip([kind, len, kind, len]) {
                    *place = byte;
                }
                for syn in [false, true] {
                    assert!(usize::from(Options::read(&bytes, syn).count) <= BLOCKS_MAX);
                }
            }
        }
    }
}

#[test]
fn a_header_that_is_full_takes_no_blocks() {
    let mut written = Written::default();
    assert!(written.is_empty());
    written.stamps(Stamps { value: 1, echo: 2 });
    assert!(!written.is_empty());
    written.blocks([block(1, 2), block(3, 4), block(5, 6), block(7, 8)].into_iter());
    assert_eq!(written.len(), 40);
    written.blocks(core::iter::empty());
    assert_eq!(written.len(), 40);
}

#[test]
fn a_timestamp_is_believed_for_24_days() {
    // RFC 7323 section 5.5.
    assert_eq!(STAMP_FOR, Span::from_secs(2_073_600));
}

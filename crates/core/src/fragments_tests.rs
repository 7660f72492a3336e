use alloc::vec;
use alloc::vec::Vec;

use super::*;

fn piece(at: u32, len: u32, more: bool) -> Piece {
    Piece { at, len, more }
}

fn taken(v4: bool, pieces: &[(u32, u32, bool)]) -> Vec<Brought> {
    let mut assembly = Assembly::default();
    pieces.iter().map(|(at, len, more)| assembly.take(v4, piece(*at, *len, *more), 0)).collect()
}

#[test]
fn cuts_are_multiples_of_eight_and_leave_nothing_out() {
    assert_eq!(cuts(1481, 1480).collect::<Vec<_>>(), [piece(0, 1480, true), piece(1480, 1, false)]);
    assert_eq!(cuts(1480, 1480).collect::<Vec<_>>(), [piece(0, 1480, false)]);
    assert_eq!(cuts(8, 1480).count(), 1);
    for (bytes, room) in [(65_515, 1480), (4000, 1228), (17, 8), (5000, 1459), (1, 9)] {
        let mut at = 0;
        for cut in cuts(bytes, room) {
            assert_eq!((cut.at, cut.more), (at, at + cut.len < bytes));
            assert!(cut.len > 0 && cut.len <= room && (!cut.more || cut.len % 8 == 0));
            at += cut.len;
        }
        assert_eq!(at, bytes);
    }
}

#[test]
fn any_order_makes_a_packet_whole() {
    use Brought::{Again, Kept, Whole};
    let parts = [(0, 16, true), (16, 8, true), (24, 3, false)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert_eq!(taken(true, &order.map(|at| parts[at])), [Kept, Kept, Whole], "{order:?}");
        assert_eq!(taken(false, &order.map(|at| parts[at])), [Kept, Kept, Whole], "{order:?}");
    }
    assert_eq!(taken(true, &[(0, 16, true), (0, 16, true), (8, 8, true), (16, 1, false)]), [Kept, Again, Again, Whole]);
}

#[test]
fn what_overlaps_or_contradicts_is_given_up() {
    use Brought::{Kept, Spoilt};
    for v4 in [true, false] {
        for bad in [
            [(0, 16, true), (8, 16, true)],
            [(8, 16, true), (0, 16, true)],
            [(8, 8, true), (0, 24, true)],
            // A second end, and what lies behind the first.
            [(16, 8, false), (16, 16, false)],
            [(16, 8, false), (24, 8, true)],
            [(16, 8, true), (8, 8, false)],
            [(0, 8, true), (8, 0, true)],
            [(0, 8, true), (65_528, 16, true)],
            [(0, 8, true), (65_528, 8, false)],
        ] {
            assert_eq!(taken(v4, &bad), [Kept, Spoilt], "{bad:?}");
        }
        assert_eq!(taken(v4, &[(0, 0, false)]), [Spoilt]);
    }
    assert_eq!(taken(false, &[(0, 9, true)]), [Spoilt]);
    assert_eq!(taken(true, &[(0, 9, true), (8, 1, false)]), [Kept, Brought::Whole]);
    assert_eq!(taken(true, &[(0, 7, true)]), [Spoilt]);
}

#[test]
fn gaps_have_a_bound() {
    let with_gaps: Vec<_> = (0..=RUNS_MAX as u32).map(|number| (number * 16, 8, true)).collect();
    let answers = taken(true, &with_gaps);
    assert!(answers[..RUNS_MAX].iter().all(|answer| *answer == Brought::Kept));
    assert_eq!(answers[RUNS_MAX], Brought::Spoilt);
}

/// Against a plain map of bytes: random pieces in random order.
#[test]
fn behaves_as_a_map_of_bytes() {
    let mut state = 1_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..2000 {
        let bytes = 8 + draw(200) as u32;
        let mut pieces: Vec<Piece> = cuts(bytes, 8 + draw(60) as u32).collect();
        for _ in 0..draw(3) {
            let again = pieces[draw(pieces.len() as u64) as usize];
            pieces.push(again);
        }
        for at in (1..pieces.len()).rev() {
            pieces.swap(at, draw(at as u64 + 1) as usize);
        }
        let (mut assembly, mut there) = (Assembly::default(), vec![false; bytes as usize]);
        for piece in pieces {
            let new =
                there[piece.at as usize..][..piece.len as usize].iter_mut().any(|byte| !core::mem::replace(byte, true));
            there[piece.at as usize..][..piece.len as usize].fill(true);
            let whole = there.iter().all(|byte| *byte);
            let expected = match (new, whole) {
                (false, _) => Brought::Again,
                (true, true) => Brought::Whole,
                (true, false) => Brought::Kept,
            };
            assert_eq!(assembly.take(true, piece, 0), expected);
            if whole {
                assert_eq!(assembly.bytes(), bytes);
                break;
            }
        }
    }
}

#[test]
fn congestion_that_one_fragment_met_is_that_of_the_packet() {
    let ecn = |bits: &[u8]| {
        let mut assembly = Assembly::default();
        for (at, ecn) in bits.iter().enumerate() {
            let _ = assembly.take(true, piece(at as u32 * 8, 8, true), *ecn);
        }
        assembly.ecn(bits[0])
    };
    assert_eq!(
        [ecn(&[0, 0]), ecn(&[2, 2]), ecn(&[1, 2]), ecn(&[2, 3]), ecn(&[3, 3])],
        [Some(0), Some(2), Some(1), Some(3), Some(3)]
    );
    assert_eq!([ecn(&[0, 3]), ecn(&[0, 2]), ecn(&[1, 0])], [None; 3]);
}

#[test]
fn who_cuts() {
    use MtuDiscovery as M;
    let sending = |discovery: M| {
        let PathUse { mtu, dont_fragment, cut } = discovery.sending(1280, 1500);
        (mtu, dont_fragment, cut)
    };
    assert_eq!([M::Dont, M::Want].map(sending), [(1280, false, true), (1280, true, true)]);
    assert_eq!([M::Do, M::Probe].map(sending), [(1280, true, false), (1500, true, false)]);
    assert_eq!([M::Dont, M::Want, M::Do, M::Probe].map(M::hears_too_big), [false, true, true, true]);
}

#[test]
fn what_is_there_may_come_again_as_a_part_and_no_packet_is_too_long_by_its_last_byte() {
    use Brought::{Again, Kept, Spoilt};
    assert_eq!(taken(true, &[(16, 8, false), (16, 8, true)]), [Kept, Again]);
    let last = BYTES_MAX - BYTES_MAX % 8;
    assert_eq!(taken(true, &[(last, BYTES_MAX - last, false)]), [Kept]);
    assert_eq!(taken(true, &[(last, BYTES_MAX - last + 1, false)]), [Spoilt]);
}

#[test]
fn what_is_held_is_four_megabytes() {
    // net.ipv4.ipfrag_high_thresh.
    assert_eq!(HELD_BYTES_MAX, 4_194_304);
}

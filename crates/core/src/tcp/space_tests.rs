use super::*;

const SEGMENT: u32 = 1000;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Span::from_ms(ms)
}

#[test]
fn room_grows_with_what_a_program_takes_in_a_round_trip() {
    let rtt = Span::from_ms(20);
    let start = Seq(u32::MAX - 7);
    let mut space = Space::new(RECEIVE_FIRST, RECEIVE_MAX, start, at(0));
    assert!(!space.took(at(10), start + 60_000, rtt, SEGMENT, || true), "not a round trip yet");
    assert!(!space.took(at(20), start + 10_000, Span::ZERO, SEGMENT, || true), "no round trip is known");
    assert!(space.took(at(20), start + 60_000, rtt, SEGMENT, || true));
    assert!(space.limit() >= 2 * 60_000, "{}", space.limit());
    let before = space.limit();
    assert!(!space.took(at(40), start + 70_000, rtt, SEGMENT, || true), "it took less than before");
    assert_eq!(space.limit(), before);
    let mut taken = start + 70_000;
    for round in 3..20 {
        taken += space.limit();
        space.took(at(round * 20), taken, rtt, SEGMENT, || true);
    }
    assert_eq!(space.limit(), RECEIVE_MAX);
}

#[test]
fn what_a_program_has_said_stays() {
    let mut space = Space::new(RECEIVE_FIRST, RECEIVE_MAX, Seq(0), at(0));
    space.fix(9000);
    assert!(!space.took(at(100), Seq(100_000), Span::from_ms(1), SEGMENT, || true));
    assert_eq!(space.limit(), 9000);
}

#[test]
fn the_edge_moves_by_segments_and_never_back() {
    let (next, limit) = (Seq(u32::MAX - 99), 8000);
    let edge = offer(next, next, 0, limit, SEGMENT);
    assert_eq!(edge, next + limit);
    // 5000 bytes came, and the program has taken some of them.
    for (queued, moved) in [(5000, 0), (4500, 0), (4001, 0), (4000, 1000), (0, 5000)] {
        assert_eq!(offer(next + 5000, edge, queued, limit, SEGMENT), edge + moved, "{queued}");
    }
    // Less room than was said.
    assert_eq!(offer(next + 5000, edge, 5000, 100, SEGMENT), edge);
    // Segments that are longer than half of the room.
    assert_eq!(offer(next + 8000, edge, 4000, limit, 60_000), edge + 4000);
}

#[test]
fn a_field_never_says_more_than_the_edge() {
    for scale in 0..=14_u8 {
        for window in [0, 1, 127, 128, 65_535, 65_536, 6 << 20] {
            let said = u32::from(field(Seq(5), Seq(5) + window, scale)) << scale;
            assert!(said <= window);
        }
    }
    assert_eq!(field(Seq(9), Seq(5), 0), 0);
    assert_eq!((scale_for(65_535), scale_for(65_536), scale_for(RECEIVE_MAX), scale_for(u32::MAX)), (0, 1, 7, 14));
}

#[test]
fn twice_the_window_is_kept_for_sending() {
    assert_eq!(send_limit(SEND_FIRST, 14_600), SEND_FIRST);
    assert_eq!(send_limit(SEND_FIRST, 100_000), 200_000);
    assert_eq!(send_limit(SEND_FIRST, 1 << 30), SEND_MAX);
    assert_eq!(send_limit(SEND_MAX + 5, 9), SEND_MAX + 5);
}

#[test]
fn any_number_of_bytes_may_be_taken_in_a_round_trip() {
    let mut space = Space::new(2, RECEIVE_MAX, Seq(0), at(0));
    assert!(space.took(at(100), Seq(u32::MAX), Span::from_ms(20), u32::MAX, || true));
    assert_eq!(space.limit(), RECEIVE_MAX);
}

#[test]
fn under_pressure_nothing_grows_and_later_it_does() {
    let rtt = Span::from_ms(20);
    let mut space = Space::new(RECEIVE_FIRST, RECEIVE_MAX, Seq(0), at(0));
    let mut taken = Seq(0);
    for round in 1..5 {
        taken += RECEIVE_FIRST;
        assert!(!space.took(at(round * 20), taken, rtt, SEGMENT, || false));
        assert_eq!(space.limit(), RECEIVE_FIRST);
    }
    // No more was taken than in the rounds before: these have not counted.
    taken += RECEIVE_FIRST;
    assert!(space.took(at(100), taken, rtt, SEGMENT, || true));
    assert!(space.limit() > RECEIVE_FIRST);
    // What is asked for nothing is not asked.
    let limit = space.limit();
    assert!(!space.took(at(120), taken + 10, rtt, SEGMENT, || unreachable!("nothing grows")));
    assert_eq!(space.limit(), limit);
}

#[test]
fn what_was_cut_is_as_it_was_when_memory_is_there() {
    for (rtt, fixed) in [(Span::from_ms(20), false), (Span::ZERO, false), (Span::from_ms(20), true)] {
        let mut space = Space::new(RECEIVE_FIRST, RECEIVE_MAX, Seq(0), at(0));
        if fixed {
            space.fix(RECEIVE_FIRST);
        }
        space.cut(RECEIVE_FIRST + 1);
        assert_eq!(space.limit(), RECEIVE_FIRST, "that was no cut");
        space.cut(8192);
        space.cut(0);
        space.cut(6000);
        assert_eq!(space.limit(), 4096);
        if !rtt.is_zero() {
            assert!(!space.took(at(19), Seq(10), rtt, SEGMENT, || true), "not a round trip yet");
        }
        assert!(!space.took(at(20), Seq(10), rtt, SEGMENT, || false), "memory is short");
        assert!(space.took(at(40), Seq(10), rtt, SEGMENT, || true), "{rtt:?} {fixed}");
        assert_eq!(space.limit(), RECEIVE_FIRST);
        assert!(!space.took(at(60), Seq(10), rtt, SEGMENT, || true));
    }
    let mut space = Space::new(RECEIVE_FIRST, RECEIVE_MAX, Seq(0), at(0));
    space.cut(4096);
    space.fix(9000);
    assert!(!space.took(at(100), Seq(10), Span::ZERO, SEGMENT, || true));
    assert_eq!(space.limit(), 9000, "what a program says counts anew");
}

#[test]
fn what_grew_is_twice_what_was_taken_and_twice_the_growth() {
    let took = |limit: u32, bytes: u32| {
        let mut space = Space::new(limit, RECEIVE_MAX, Seq(7), at(0));
        let more = space.took(at(20), Seq(7) + bytes, Span::from_ms(20), SEGMENT, || true);
        (more, space.limit())
    };
    // Half of the room counts as taken before: 15 000 bytes are half as much again. 16 segments of slack.
    assert_eq!(took(20_000, 15_000), (true, 30_000 + 16_000 + 2 * 23_000));
    // 12 000 bytes of 10 000 before: a fifth.
    assert_eq!(took(20_000, 12_000), (true, 24_000 + 16_000 + 2 * 8_000));
    // Just the room that there is, or less: 50 020 bytes of 50 000 before would have 116 040 and 2 * 46.
    assert_eq!(took(100_000, 50_020), (true, 116_132));
    assert_eq!(took(20_000, 10_000), (false, 20_000));
}

#[test]
fn a_cut_to_what_there_is_cuts_nothing() {
    let mut space = Space::new(RECEIVE_FIRST, RECEIVE_MAX, Seq(0), at(0));
    space.cut(RECEIVE_FIRST);
    assert!(!space.took(at(20), Seq(10), Span::from_ms(20), SEGMENT, || true));
    assert_eq!(space.limit(), RECEIVE_FIRST);
}

#[test]
fn a_field_says_all_that_it_can() {
    assert_eq!([1, 65_535, 65_536].map(|window| field(Seq(5), Seq(5) + window, 0)), [1, 65_535, 65_535]);
    assert_eq!([1, 2, 65_536].map(|window| field(Seq(5), Seq(5) + window, 1)), [0, 1, 32_768]);
}

#[test]
fn as_much_room_as_there_is_is_no_growth() {
    let rtt = Span::from_ms(20);
    let mut space = Space::new(20_000, RECEIVE_MAX, Seq(0), at(0));
    assert!(space.took(at(20), Seq(20_000), rtt, 0, || true));
    assert_eq!(space.limit(), 120_000);
    assert!(!space.took(at(40), Seq(50_000), rtt, 0, || unreachable!("nothing grows")));
}

#[test]
fn the_kernels_most_are_these() {
    // net.ipv4.tcp_rmem[2], net.ipv4.tcp_wmem[2].
    assert_eq!((RECEIVE_MAX, SEND_MAX), (6_291_456, 4_194_304));
}

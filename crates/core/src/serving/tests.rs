use super::*;

const fn by(may_run_inline: bool, polls_on: bool, looks_after: bool, is_inline: bool) -> Raise {
    raise(Raiser { may_run_inline, polls_on, looks_after, is_inline })
}

#[test]
fn who_raises_does_it_or_leaves_it() {
    let rows = [
        // A program's thread, in no softirq, wherever it is; one that came for packets polls on.
        (by(true, false, false, false), Raise::Inline { polls_max: 1 }),
        (by(true, false, true, false), Raise::Inline { polls_max: 1 }),
        (by(true, true, false, false), Raise::Inline { polls_max: 4 }),
        // The CPU's thread, or one that serves the CPU.
        (by(false, false, true, false), Raise::Queue),
        (by(false, true, true, false), Raise::Queue),
        // In the midst of what it raised itself: it looks at no list.
        (by(false, false, true, true), Raise::QueueAndKick),
        (by(false, true, false, true), Raise::QueueAndKick),
        // Any other.
        (by(false, false, false, false), Raise::QueueAndKick),
    ];
    for (nth, (answer, wanted)) in rows.into_iter().enumerate() {
        assert_eq!(answer, wanted, "row {nth}");
    }
}

#[test]
fn a_thread_is_let_go_once_for_each_move() {
    let rows = [
        (true, true, Rescue::LetGo),
        (true, false, Rescue::TakeOver),
        (false, true, Rescue::TakeOver),
        (false, false, Rescue::TakeOver),
    ];
    for (pinned, moved, wanted) in rows {
        assert_eq!(rescue(pinned, moved), wanted, "pinned {pinned}, moved {moved}");
    }
}

#[test]
fn a_thread_that_was_let_go_comes_home() {
    let (short, long) = (Span { ns: AWAY_FOR.ns - 1 }, AWAY_FOR);
    let (home, let_go) = (Serving::START, Serving::START.let_go());
    let (away, place) = let_go.comes_round(short);
    assert_eq!(place, ThreadPlace::Anywhere);
    assert_ne!(away, let_go);
    let rows = [
        (home, long, home, ThreadPlace::Stay),
        (let_go, Span::ZERO, away, ThreadPlace::Anywhere),
        (let_go, long, home, ThreadPlace::Home),
        (away, short, away, ThreadPlace::Stay),
        (away, long, home, ThreadPlace::Home),
        (away.let_go(), short, away, ThreadPlace::Anywhere),
    ];
    for (nth, (was, for_ns, is, place)) in rows.into_iter().enumerate() {
        assert_eq!(was.comes_round(for_ns), (is, place), "row {nth}");
        assert_eq!(is.is_home(), is == home, "row {nth}");
    }
}

#[test]
fn one_program_has_the_cpu() {
    let lent = Serving::START.lend().expect("it is free");
    assert!(lent.is_lent() && lent.lend().is_none());
    let back = lent.give_back();
    assert!(!back.is_lent() && back.lend().is_some());
}

#[test]
fn a_bell_is_rung_again_until_the_round_is_over() {
    assert_eq!(Serving::START.heard(), Bell::Nothing);
    let lent = Serving::START.lend().expect("it is free");
    let Bell::Ring { round } = lent.heard() else { panic!("a program has the CPU") };
    assert!(!lent.is_over(round));
    assert!(lent.wakes().is_over(round) && lent.give_back().is_over(round));
    let again = lent.give_back().lend().expect("it is free");
    assert!(again.is_over(round), "another one has it now");
    let Bell::Ring { round } = again.heard() else { panic!("a program has the CPU") };
    assert!(!again.is_over(round));
}

/// The two halves of the word do not touch each other, also where the number of the round wraps.
#[test]
fn places_and_rounds_are_apart() {
    let last = Serving(u32::MAX << ROUND | LENT).let_go();
    let next = last.wakes();
    assert_eq!((next.round(), next.is_lent(), next.is_home()), (0, true, false));
    let (next, place) = next.comes_round(AWAY_FOR);
    assert_eq!((place, next.is_lent(), next.is_home()), (ThreadPlace::Home, true, true));
    assert!(!next.let_go().give_back().is_home());
}

#[test]
#[should_panic(expected = "lend comes first")]
fn what_was_not_lent_is_not_given_back() {
    let _ = Serving::START.give_back();
}

#[test]
#[should_panic(expected = "lend comes first")]
fn who_has_nothing_does_not_wake() {
    let _ = Serving::START.wakes();
}

#[test]
#[should_panic(expected = "no such place")]
fn a_place_that_is_none_is_refused() {
    let _ = Serving::from_bits(PLACE).comes_round(Span::ZERO);
}

#[test]
fn words_are_shown() {
    use alloc::format;
    assert_eq!(format!("{:?}", Serving::START), "Serving(free, home, round 0)");
    let lent = Serving::START.lend().expect("it is free").wakes().let_go();
    assert_eq!(format!("{lent:?}"), "Serving(lent, let go, round 1)");
    assert_eq!(format!("{:?}", lent.comes_round(Span::ZERO).0), "Serving(lent, away, round 1)");
    assert_eq!(Serving::from_bits(lent.bits()), lent);
}

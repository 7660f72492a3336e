use super::*;

const NOW: Instant = Instant { ns: 1_000_000_000_000 };
const LATER: Instant = Instant { ns: NOW.ns + 1 };

fn all() -> [Nud; 5] {
    [
        Nud::Permanent,
        Nud::Reachable { until: LATER },
        Nud::Stale,
        Nud::Delay { until: LATER },
        Nud::Probe { asked: 2, next: LATER },
    ]
}

fn heard(word: Word, force: Force, known: Option<Known>, asked: bool) -> News {
    Nud::heard(word, force, known, asked, (NOW, 0))
}

/// With a draw of 0 an answer is good for half of the time.
fn sure() -> Nud {
    Nud::Reachable { until: NOW + Span::from_secs(15) }
}

#[test]
fn who_is_not_known() {
    for force in [Force::Overrides, Force::Doubts, Force::Weak] {
        assert_eq!(heard(Word::AskedUs, force, None, false), News::Stranger(Nud::Stale));
        assert_eq!(heard(Word::Answer, force, None, false), News::None, "as arp_accept = 0");
        assert_eq!(heard(Word::Announced, force, None, false), News::None);
        assert_eq!(heard(Word::AskedUs, force, None, true), News::Learnt(Nud::Stale));
        assert_eq!(heard(Word::Answer, force, None, true), News::Learnt(sure()));
        assert_eq!(heard(Word::Announced, force, None, true), News::Learnt(Nud::Stale));
    }
}

#[test]
fn who_is_known_and_says_the_same() {
    for nud in all() {
        for force in [Force::Overrides, Force::Doubts, Force::Weak] {
            let says = |word| heard(word, force, Some(Known { nud, same: true }), false);
            assert_eq!(says(Word::AskedUs), News::None, "{nud:?}");
            assert_eq!(says(Word::Announced), News::None, "{nud:?}");
            let answered = match nud {
                Nud::Permanent | Nud::Reachable { .. } => News::None,
                Nud::Stale | Nud::Delay { .. } | Nud::Probe { .. } => News::Kept(sure()),
            };
            assert_eq!(says(Word::Answer), answered, "{nud:?}");
        }
    }
}

#[test]
fn who_is_known_and_has_moved() {
    for nud in all() {
        let says = |word, force| heard(word, force, Some(Known { nud, same: false }), false);
        for (word, then) in [(Word::AskedUs, Nud::Stale), (Word::Answer, sure()), (Word::Announced, Nud::Stale)] {
            let (overrides, doubts, weak) = match nud {
                Nud::Permanent => (News::None, News::None, News::None),
                Nud::Reachable { .. } => (News::Moved(then), News::Kept(Nud::Stale), News::Refused),
                Nud::Stale | Nud::Delay { .. } | Nud::Probe { .. } => (News::Moved(then), News::Refused, News::Refused),
            };
            assert_eq!(says(word, Force::Overrides), overrides, "{nud:?} {word:?}");
            assert_eq!(says(word, Force::Doubts), doubts, "{nud:?} {word:?}");
            assert_eq!(says(word, Force::Weak), weak, "{nud:?} {word:?}");
        }
    }
}

#[test]
fn an_answer_is_good_for_15_to_45_seconds() {
    for draw in [0, 1, 29_999_999_999, 30_000_000_000, 12_345_678_901, u64::MAX] {
        let Nud::Reachable { until } = Nud::reachable(NOW, draw) else { panic!("it has answered") };
        let secs = (until - NOW).ns as f64 / 1e9;
        assert!((15.0..45.0).contains(&secs), "{secs}");
    }
}

#[test]
fn only_use_of_what_is_stale_counts() {
    for nud in all() {
        let then = nud.used(NOW);
        assert_eq!(then, (nud == Nud::Stale).then_some(Nud::Delay { until: NOW + Span::from_secs(5) }));
    }
}

#[test]
fn what_ends_and_when() {
    for nud in [Nud::Permanent, Nud::Stale] {
        assert!(nud.ends().is_never());
        assert_eq!(nud.ended(NOW), Ended::Becomes(nud));
    }
    for nud in all().into_iter().filter(|nud| !matches!(nud, Nud::Permanent | Nud::Stale)) {
        assert_eq!(nud.ends(), Deadline::at(LATER), "{nud:?}");
    }
    let probe = |asked| Nud::Probe { asked, next: NOW + Span::from_secs(1) };
    assert_eq!(Nud::Reachable { until: NOW }.ended(NOW), Ended::Becomes(Nud::Stale));
    assert_eq!(Nud::Delay { until: NOW }.ended(NOW), Ended::Asks(probe(1)));
    assert_eq!(Nud::Probe { asked: 1, next: NOW }.ended(NOW), Ended::Asks(probe(2)));
    assert_eq!(Nud::Probe { asked: 2, next: NOW }.ended(NOW), Ended::Asks(probe(3)));
    assert_eq!(Nud::Probe { asked: 3, next: NOW }.ended(NOW), Ended::Forgotten);
}

#[test]
fn what_is_acknowledged_confirms_what_is_in_doubt() {
    for nud in all() {
        let doubted = !matches!(nud, Nud::Permanent | Nud::Reachable { .. });
        assert_eq!(nud.confirmed(NOW, 0), doubted.then(sure), "{nud:?}");
    }
    // One that is used and acknowledges is never asked.
    let mut nud = sure();
    for _ in 0..10 {
        let now = nud.ends().instant().expect("a time");
        assert_eq!(nud.ended(now), Ended::Becomes(Nud::Stale));
        nud = Nud::Stale.used(now).and_then(|nud| nud.confirmed(now, 0)).expect("in doubt");
    }
}

/// A neighbour that is gone without a word, and is used, is asked for anew in bounded time.
#[test]
fn a_dead_neighbour_is_forgotten_in_bounded_time() {
    let (mut nud, mut now, mut asked) = (Nud::reachable(NOW, u64::MAX), NOW, 0);
    loop {
        nud = nud.used(now).unwrap_or(nud);
        now = nud.ends().instant().expect("what is used has an end");
        match nud.ended(now) {
            Ended::Becomes(next) => nud = next,
            Ended::Asks(next) => {
                asked += 1;
                nud = next;
            }
            Ended::Forgotten => break,
        }
    }
    assert_eq!(asked, 3);
    assert!((now - NOW) <= Span::from_secs(45 + 5 + 3), "{:?}", now - NOW);
}

#[test]
fn an_answer_is_good_for_half_to_three_halves_of_the_time() {
    let until = |draw| match Nud::reachable(NOW, draw) {
        Nud::Reachable { until } => until - NOW,
        other => panic!("{other:?}"),
    };
    let (half, most) = (Span::from_secs(15), Span::from_ns(44_999_999_999));
    assert_eq!([0, 29_999_999_999, 30_000_000_000, 59_999_999_999].map(until), [half, most, half, most]);
}

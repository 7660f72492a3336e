use super::cubic::cube_root;
use super::*;

const SEGMENT: u32 = 1000;

struct Path {
    congestion: Congestion,
    now: Instant,
    rtt: Span,
    next: Seq,
}

impl Path {
    fn new(control: Control, rtt_ms: u64) -> Self {
        let congestion = Congestion::new(control, SEGMENT);
        Self {
            congestion,
            now: Instant::ZERO + Span::from_secs(1),
            rtt: Span::from_ms(rtt_ms),
            next: Seq(u32::MAX - 9),
        }
    }

    /// A round trip in which a whole window is acknowledged, two segments at a time.
    fn round(&mut self, limited: bool) {
        let window = self.congestion.window();
        let sent = self.next + window;
        let acks = window.div_ceil(2 * SEGMENT);
        for _ in 0..acks {
            let bytes = (2 * SEGMENT).min(sent - self.next);
            self.next += bytes;
            self.now += Span { ns: self.rtt.ns / u64::from(acks) };
            let (now, rtt) = (self.now, Some(self.rtt));
            let ack = Acked { bytes, now, rtt, smoothed: self.rtt, limited, acknowledged: self.next, sent };
            self.congestion.acked(&ack);
        }
    }

    fn lose(&mut self) {
        let window = self.congestion.window();
        self.congestion.reduce(window);
        self.congestion.set_window(self.congestion.threshold());
    }

    fn segments(&self) -> u32 {
        self.congestion.window() / SEGMENT
    }
}

#[test]
fn a_connection_begins_with_ten_segments() {
    for (segment, expected) in [(536, 5360), (1460, 14_600), (4000, 14_600), (9000, 18_000)] {
        assert_eq!(Congestion::new(Control::Cubic, segment).window(), expected);
    }
    assert_eq!(Congestion::new(Control::None, 1460).window(), WINDOW_MAX);
}

#[test]
fn it_doubles_each_round_trip_until_something_is_lost() {
    for control in [Control::Reno, Control::Cubic] {
        let mut path = Path::new(control, 50);
        path.round(true);
        assert_eq!(path.segments(), 20);
        path.round(true);
        assert_eq!(path.segments(), 40);
        path.round(false);
        assert_eq!(path.segments(), 40, "a window that is not used does not grow");
        path.lose();
        assert_eq!(path.segments(), if control == Control::Reno { 20 } else { 28 });
        assert!(!path.congestion.is_slow_start());
    }
}

#[test]
fn reno_grows_by_a_segment_each_round_trip() {
    let mut path = Path::new(Control::Reno, 50);
    (0..4).for_each(|_| path.round(true));
    path.lose();
    let before = path.segments();
    (0..10).for_each(|_| path.round(true));
    assert!((before + 9..=before + 10).contains(&path.segments()), "{} of {before}", path.segments());
}

/// Section 4.2: flat at the window of the loss, which is reached after the cube root of 0.3 * window / 0.4 seconds.
#[test]
fn cubic_comes_back_in_its_time_and_goes_beyond_it() {
    let mut path = Path::new(Control::Cubic, 100);
    while path.segments() < 1000 {
        path.round(true);
    }
    let largest = path.segments();
    path.lose();
    let (began, mut back, mut half) = (path.now, None, 0);
    while path.now - began < Span::from_secs(20) {
        path.round(true);
        let elapsed = (path.now - began).ns / 1_000_000;
        if back.is_none() && path.segments() * 100 >= largest * 99 {
            back = Some(elapsed);
        }
        if elapsed < 4500 {
            half = path.segments();
        }
    }
    // (0.3 * 1280 / 0.4) ^ (1/3) = 9.9 s, where 99 % are reached a bit before.
    let expected = cube_root(u64::from(largest) * 3 / 4 * 1_000_000_000);
    let back = back.expect("it came back");
    assert!(back > expected * 6 / 10 && back <= expected + 200, "{back} ms of {expected}");
    assert!(half * 100 > largest * 85, "most of it soon: {half} of {largest}");
    assert!(path.segments() > largest * 11 / 10, "and then it looks for more: {}", path.segments());
}

#[test]
fn on_short_paths_cubic_is_no_slower_than_reno() {
    let windows = [Control::Reno, Control::Cubic].map(|control| {
        let mut path = Path::new(control, 2);
        (0..3).for_each(|_| path.round(true));
        // From the same window.
        path.congestion.set_window(80 * SEGMENT);
        path.lose();
        (0..200).for_each(|_| path.round(true));
        path.segments()
    });
    assert!(windows[1] * 10 >= windows[0] * 9, "{windows:?}");
}

#[test]
fn slow_start_ends_when_round_trips_grow() {
    let mut path = Path::new(Control::Cubic, 40);
    for _ in 0..3 {
        path.round(true);
    }
    path.rtt = Span::from_ms(60);
    for _ in 0..8 {
        path.round(true);
    }
    assert!(!path.congestion.is_slow_start(), "{:?}", path.congestion);
    // One long round trip that was none ends nothing.
    let mut path = Path::new(Control::Cubic, 40);
    for rtt in [40, 40, 60, 40, 40, 40, 40, 40, 40] {
        path.rtt = Span::from_ms(rtt);
        path.round(true);
    }
    assert!(path.congestion.is_slow_start());
}

#[test]
fn before_the_first_loss_cubic_grows_by_a_twentieth_each_round_trip() {
    let mut path = Path::new(Control::Cubic, 20);
    (0..7).for_each(|_| path.round(true));
    path.rtt = Span::from_ms(30);
    while path.congestion.is_slow_start() {
        path.round(true);
    }
    let grown_by = |path: &mut Path, rounds: u32| {
        let begun = path.congestion.window();
        (0..rounds).for_each(|_| path.round(true));
        f64::from(path.congestion.window()) / f64::from(begun)
    };
    let unknown = grown_by(&mut path, 14);
    assert!((1.9..2.1).contains(&unknown), "1.05^14 is 1.98: {unknown}");
    let unused = path.congestion.window();
    (0..14).for_each(|_| path.round(false));
    assert_eq!(path.congestion.window(), unused, "a window that is not used does not grow");
    // Where it was lost is known now: the function is flat there.
    path.lose();
    let known = grown_by(&mut path, 14);
    assert!(known < 1.43, "{known}");
}

#[test]
fn a_timeout_leaves_a_segment_and_an_undo_gives_all_back() {
    for control in [Control::Reno, Control::Cubic] {
        let mut path = Path::new(control, 50);
        (0..3).for_each(|_| path.round(true));
        let before = path.congestion;
        path.congestion.reduce(before.window());
        path.congestion.timed_out(0);
        assert_eq!(path.segments(), 1);
        path.congestion.undo(&before);
        assert_eq!((path.congestion.window(), path.congestion.threshold()), (before.window(), before.threshold()));
    }
}

#[test]
fn an_idle_connection_begins_anew_step_by_step() {
    let mut path = Path::new(Control::Cubic, 50);
    (0..4).for_each(|_| path.round(true));
    let timeout = Span::from_ms(250);
    let after = |ms: u64| {
        let mut congestion = path.congestion;
        congestion.idle(Span::from_ms(ms), timeout);
        congestion.window() / SEGMENT
    };
    assert_eq!([100, 250, 300, 600, 10_000].map(after), [160, 160, 80, 40, 10]);
}

#[test]
fn without_control_nothing_changes_the_window() {
    let mut congestion = Congestion::new(Control::None, SEGMENT);
    congestion.reduce(5000);
    congestion.timed_out(0);
    congestion.set_window(1);
    congestion.idle(Span::from_secs(100), Span::from_ms(200));
    assert_eq!(congestion.window(), WINDOW_MAX);
}

/// No story overflows, and a window is never less than a segment.
#[test]
fn any_story() {
    for segment in [1, 88, 1460, 65_000] {
        for control in [Control::Reno, Control::Cubic] {
            for code in 0..6_u32.pow(6) {
                let mut congestion = Congestion::new(control, segment);
                let mut now = Instant::ZERO;
                let mut rest = code;
                for _ in 0..6 {
                    now += Span::from_secs(u64::from(rest % 3) * 1000 + 1);
                    let window = congestion.window();
                    match rest % 6 {
                        0 => congestion.reduce(window),
                        1 => congestion.timed_out(window / 3),
                        2 => congestion.set_window(congestion.threshold()),
                        3 => congestion.idle(Span::from_secs(9), Span::from_ms(200)),
                        more => {
                            let (rtt, smoothed) = (Some(Span::from_ms(9)), Span::from_secs(9));
                            let bytes = if more == 4 { u32::from(u16::MAX) } else { 1 };
                            let (acknowledged, sent) = (Seq(rest), Seq(rest + 7));
                            congestion.acked(&Acked { bytes, now, rtt, smoothed, limited: true, acknowledged, sent });
                        }
                    }
                    assert!(congestion.window() >= segment.min(WINDOW_MAX) && congestion.window() <= WINDOW_MAX);
                    rest /= 6;
                }
            }
        }
    }
}

/// An acknowledgement of so many bytes while the window was in the way.
fn acks(congestion: &mut Congestion, bytes: u32) -> u32 {
    let (now, rtt) = (Instant::ZERO + Span::from_secs(1), Span::from_ms(20));
    let (acknowledged, sent) = (Seq(0) + bytes, Seq(100_000));
    congestion.acked(&Acked { bytes, now, rtt: Some(rtt), smoothed: rtt, limited: true, acknowledged, sent });
    congestion.window()
}

#[test]
fn another_control_goes_on_with_the_window_if_both_have_one() {
    let mut congestion = Congestion::new(Control::None, SEGMENT);
    congestion.set_control(Control::Reno);
    assert_eq!(congestion, Congestion::new(Control::Reno, SEGMENT));
    congestion.set_window(7000);
    congestion.set_control(Control::Cubic);
    assert_eq!((congestion.control(), congestion.window()), (Control::Cubic, 7000));
    congestion.set_control(Control::None);
    assert_eq!(congestion, Congestion::new(Control::None, SEGMENT));
}

#[test]
fn other_segments_begin_anew_only_where_nothing_came_back() {
    let mut congestion = Congestion::new(Control::Reno, SEGMENT);
    congestion.set_window(7000);
    let before = congestion;
    congestion.set_segment(SEGMENT, true);
    assert_eq!(congestion, before, "they are as long as before");
    congestion.set_segment(500, true);
    assert_eq!(congestion, Congestion::new(Control::Reno, 500));
    congestion.set_window(1500);
    congestion.set_segment(2000, false);
    assert_eq!(congestion.window(), 2000);
}

#[test]
fn what_is_acknowledged_beyond_the_threshold_counts_for_slow_growth() {
    let mut congestion = Congestion::new(Control::Reno, SEGMENT);
    congestion.reduce(20_000);
    congestion.set_window(4000);
    assert_eq!(congestion.threshold(), 5000);
    // 1000 bytes up to it; the other 2000 are two segments of five.
    assert_eq!(acks(&mut congestion, 3000), 5400);
    // 5000 of 5400, then 10 000: the rest of a byte is kept.
    assert_eq!((acks(&mut congestion, 5), acks(&mut congestion, 5)), (5400, 5401));
    congestion.reduce(0);
    assert_eq!(congestion.threshold(), 2 * SEGMENT);
    congestion.set_window(40_000);
    congestion.idle(Span::from_ms(300), Span::from_ms(200));
    assert_eq!((congestion.window(), congestion.threshold()), (20_000, 30_000));
}

#[test]
fn one_acknowledgement_does_not_end_slow_start() {
    let mut congestion = Congestion::new(Control::Cubic, SEGMENT);
    assert_eq!(acks(&mut congestion, 1000), 11_000);
    assert_eq!(congestion.threshold(), WINDOW_MAX);
}

#[test]
fn round_trips_must_grow_by_an_eighth_in_a_whole_round() {
    let ms = |ms| Some(Span::from_ms(ms));
    let rounds = |second: u64, samples: u32| {
        let mut start = HyStart::default();
        for at in 0..9 {
            assert!(!start.acked(ms(100), Seq(at), Seq(100)));
        }
        assert_eq!(start.step(4000, SEGMENT), 4000, "there is nothing before the first round");
        for at in 0..samples {
            assert!(!start.acked(ms(second), Seq(100 + at), Seq(200)));
        }
        start.step(4000, SEGMENT)
    };
    assert_eq!([rounds(112, 20), rounds(113, 7), rounds(113, 8)], [4000, 4000, 1000]);
}

#[test]
fn the_cubic_function_is_flat_where_the_last_loss_was() {
    // The milliseconds from seven tenths to where the loss was, segments of 1000 bytes: 3 MB are 19.574 s.
    let (now, flat) = (Instant::ZERO + Span::from_secs(1), Span::from_ms(19_574));
    let lost = |windows: &[u32]| {
        let mut cubic = Cubic::default();
        let kept = windows.iter().map(|window| cubic.lost(*window)).last();
        (cubic, kept.unwrap())
    };
    for windows in [&[10_000_000][..], &[10_000_000, 10_000_000]] {
        let (mut cubic, kept) = lost(windows);
        assert_eq!((kept, cubic.target(kept, SEGMENT, 0, now, flat)), (7_000_000, 10_000_000));
    }
    // One that did not come back leaves room: 0.85 of 8 MB, 1.2 MB from what was kept.
    let (mut cubic, kept) = lost(&[10_000_000, 8_000_000]);
    assert_eq!((kept, cubic.target(kept, SEGMENT, 0, now, Span::from_ms(14_422))), (5_600_000, 6_800_000));
    // Time in which nothing is sent does not count, and no time does before a new beginning.
    let later = now + Span::from_secs(100);
    for anew in [false, true] {
        let (mut cubic, kept) = lost(&[10_000_000]);
        cubic.target(kept, SEGMENT, 0, now, flat);
        if anew {
            cubic.restarts()
        } else {
            cubic.waits(later)
        }
        assert_eq!(cubic.target(kept, SEGMENT, 0, later, flat), 10_000_000);
    }
    let (mut cubic, kept) = lost(&[10_000_000]);
    cubic.target(kept, SEGMENT, 0, now, flat);
    assert_eq!(cubic.target(kept, SEGMENT, 0, later, flat), 10_500_000, "half as much more in a round trip");
}

#[test]
fn small_windows_grow_as_reno_would() {
    let now = Instant::ZERO + Span::from_secs(1);
    let mut cubic = Cubic::default();
    assert_eq!(cubic.lost(10_000), 7000);
    // A segment of seven, 9/17 of it: 75 bytes with these 1000, seven times that in a round trip.
    assert_eq!(cubic.target(7000, SEGMENT, 1000, now, Span::ZERO), 7525);
    // There already: the cubic function says, which is flat after 1.957 s.
    assert_eq!(cubic.target(7075, SEGMENT, 0, now, Span::from_ms(1957)), 10_000);
    // As large as before the loss: the whole segment.
    let mut cubic = Cubic::default();
    cubic.lost(10_000);
    assert_eq!(cubic.target(10_000, SEGMENT, 1000, now, Span::ZERO), 11_000);
}

#[test]
fn round_trips_that_get_longer_are_nothing_to_reno() {
    let mut path = Path::new(Control::Reno, 100);
    path.congestion.set_window(20 * SEGMENT);
    for _ in 0..9 {
        path.rtt = path.rtt + Span::from_ms(50);
        path.round(true);
    }
    assert_eq!(path.congestion.threshold(), WINDOW_MAX);
}

#[test]
fn where_reno_has_as_much_as_the_cubic_function_the_function_counts() {
    let (mut cubic, now) = (Cubic::default(), Instant::ZERO + Span::from_secs(1));
    // A fifth of a segment for each two of a window of ten, and 400 bytes of the function in a second.
    cubic.target(10_000, SEGMENT, 2000, now, Span::ZERO);
    assert_eq!(cubic.target(10_000, SEGMENT, 2000, now + Span::from_secs(1), Span::ZERO), 10_500);
}

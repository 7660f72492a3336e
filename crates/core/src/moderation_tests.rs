use alloc::format;

use super::*;

const NOW: Instant = Instant::from_ns(1_000);

fn line(rx_usecs: u32, rx_frames: u32) -> Moderation {
    Moderation::new(Coalesce::new(rx_usecs, rx_frames).unwrap())
}

#[test]
fn no_moderation_fires_once_until_unmasked() {
    for frames in [0, 1] {
        let mut line = line(0, frames);
        assert_eq!(line.on_frames(1, NOW), Moderated::Fire);
        assert_eq!(line.on_frames(5, NOW), Moderated::Wait, "told already");
        line.on_unmask();
        assert_eq!(line.on_frames(1, NOW), Moderated::Fire);
    }
}

#[test]
fn time_counts_from_the_first_frame() {
    let mut line = line(10, 0);
    assert!(line.deadline().is_never());
    assert_eq!(line.on_frames(1, NOW), Moderated::StartTimer(Span::from_us(10)));
    let until = NOW + Span::from_us(10);
    assert_eq!(line.deadline().instant(), Some(until));
    let later = NOW + Span::from_us(9);
    assert_eq!(line.on_frames(1000, later), Moderated::Wait);
    assert_eq!(line.deadline().instant(), Some(until));
    assert!(!line.on_timer(later), "too early");
    assert!(line.on_timer(until));
    assert!(!line.on_timer(until), "only once");
    assert_eq!(line.on_frames(1, until), Moderated::Wait);
    line.on_unmask();
    assert_eq!(line.on_frames(1, until), Moderated::StartTimer(Span::from_us(10)));
}

#[test]
fn enough_frames_fire_before_the_time() {
    let mut line = line(10, 4);
    assert_eq!(line.on_frames(1, NOW), Moderated::StartTimer(Span::from_us(10)));
    assert_eq!(line.on_frames(2, NOW), Moderated::Wait);
    assert_eq!(line.on_frames(1, NOW), Moderated::Fire);
    assert!(!line.on_timer(NOW + Span::from_us(10)), "announced already");
    line.on_unmask();
    assert_eq!(line.on_frames(4, NOW), Moderated::Fire, "a batch counts as its frames");
    line.on_unmask();
    assert_eq!(line.on_frames(3, NOW), Moderated::StartTimer(Span::from_us(10)), "counted from zero again");
}

/// A timer that comes late does not hold frames back: the next frames fire by themselves.
#[test]
fn frames_past_the_deadline_fire() {
    let mut line = line(10, 0);
    let _ = line.on_frames(1, NOW);
    assert_eq!(line.on_frames(1, NOW + Span::from_us(10)), Moderated::Fire);
}

#[test]
fn no_frames_change_nothing() {
    let mut line = line(0, 0);
    assert_eq!(line.on_frames(0, NOW), Moderated::Wait);
    assert_eq!(line, Moderation::new(Coalesce::default()));
}

#[test]
fn new_settings_count_from_the_next_frames() {
    let mut line = line(10, 0);
    let _ = line.on_frames(1, NOW);
    assert_eq!(line.coalesce(), Coalesce::new(10, 0).unwrap());
    let plain = Coalesce::default();
    line.set(plain);
    assert_eq!(line.coalesce(), plain);
    assert_eq!(line.deadline(), Deadline::at(NOW + Span::from_us(10)), "a running timer is not changed");
    assert_eq!(line.on_frames(1, NOW), Moderated::Fire);
}

#[test]
fn settings_that_would_strand_frames_are_refused() {
    let error = Coalesce::new(0, 2).unwrap_err();
    assert_eq!(error.errno(), Errno::EINVAL);
    assert!(format!("{error}").contains("rx-usecs above 0"));
    for (usecs, frames) in [(0, 0), (0, 1), (1, 0), (1, u32::MAX)] {
        let coalesce = Coalesce::new(usecs, frames).unwrap();
        assert_eq!((coalesce.rx_usecs(), coalesce.rx_frames()), (usecs, frames));
    }
}

#[test]
fn an_adaptive_line_holds_back_what_comes_fast() {
    let adaptive = Coalesce::adaptive();
    assert_eq!(adaptive.hold(ADAPTIVE_GAP), None);
    assert_eq!(adaptive.hold(Span::from_ns(ADAPTIVE_GAP.ns - 1)), Some(ADAPTIVE_HOLD));
    assert_eq!((adaptive.rx_usecs(), adaptive.rx_frames(), adaptive.use_adaptive_rx()), (0, 0, true));
    assert!(adaptive.due(1), "where frames are counted it interrupts at once");
    let fixed = Coalesce::new(9, 4).unwrap();
    assert_eq!((fixed.hold(Span::from_us(5_000)), fixed.use_adaptive_rx()), (Some(Span::from_us(9)), false));
    assert_eq!(Coalesce::default().hold(Span::from_ns(0)), None);
}

#[test]
fn settings_are_read_and_named() {
    for (text, coalesce, named) in [
        ("adaptive", Coalesce::adaptive(), "adaptive-rx on"),
        ("off", Coalesce::default(), "off"),
        ("0", Coalesce::default(), "off"),
        ("20", Coalesce::new(20, 0).unwrap(), "rx-usecs 20"),
        ("20,8", Coalesce::new(20, 8).unwrap(), "rx-usecs 20, rx-frames 8"),
    ] {
        assert_eq!(text.parse(), Ok(coalesce));
        assert_eq!(format!("{coalesce}"), named);
    }
    for text in ["", "on", "-1", "0,2", "1,", "1,2,3"] {
        assert_eq!(text.parse::<Coalesce>(), Err(NoCoalesce), "{text}");
    }
}

#[test]
fn what_names_no_coalescing_is_told_what_does() {
    assert_eq!(format!("{NoCoalesce}"), "coalescing is adaptive, off, RX_USECS or RX_USECS,RX_FRAMES");
}

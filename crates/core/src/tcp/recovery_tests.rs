use super::*;

const SEGMENT: u32 = 1000;

fn reno(segments: u32) -> Congestion {
    let mut congestion = Congestion::new(Control::Reno, SEGMENT);
    congestion.set_window(segments * SEGMENT);
    congestion
}

fn twice(start: u32, end: u32) -> SackBlock {
    SackBlock { start: Seq(start), end: Seq(end) }
}

fn delivery(pipe: u32, safe: bool) -> Delivery {
    Delivery { bytes: SEGMENT, pipe, safe, segment: SEGMENT }
}

/// RFC 6937 section 3, figure 1: one of twenty is lost, and the window is halved with every second acknowledgement.
#[test]
fn the_window_shrinks_as_data_is_delivered() {
    let (mut congestion, mut recovery) = (reno(20), Recovery::default());
    recovery.begins(&mut congestion, (Seq(0), Seq(20_000)), 20 * SEGMENT);
    assert_eq!((recovery.phase(), congestion.threshold()), (Phase::Repair, 10_000));
    // Three duplicates: the fourth segment has not arrived yet, the first is sent again.
    let mut pipe = 17 * SEGMENT;
    let mut sent = 0;
    for _ in 0..17 {
        recovery.delivered(&mut congestion, &delivery(pipe, false));
        while pipe + SEGMENT <= congestion.window() {
            pipe += SEGMENT;
            sent += 1;
            recovery.sent(SEGMENT);
        }
        pipe -= SEGMENT;
    }
    assert!((8..=10).contains(&sent), "{sent} segments left for seventeen that arrived");
    assert!(recovery.acknowledged(&mut congestion, Seq(20_000)));
    assert_eq!((recovery.phase(), congestion.window()), (Phase::Open, 10_000));
}

#[test]
fn the_first_segment_is_sent_again_in_any_case() {
    let (mut congestion, mut recovery) = (reno(20), Recovery::default());
    recovery.begins(&mut congestion, (Seq(0), Seq(0)), 20 * SEGMENT);
    recovery.delivered(&mut congestion, &Delivery { bytes: 1, ..delivery(19 * SEGMENT, false) });
    assert!(congestion.window() >= 20 * SEGMENT);
}

#[test]
fn a_small_window_grows_to_the_threshold_with_safe_acknowledgements() {
    let (mut congestion, mut recovery) = (reno(20), Recovery::default());
    recovery.begins(&mut congestion, (Seq(0), Seq(0)), 20 * SEGMENT);
    recovery.sent(SEGMENT);
    recovery.delivered(&mut congestion, &delivery(2 * SEGMENT, false));
    assert_eq!(congestion.window(), 3 * SEGMENT);
    recovery.sent(SEGMENT);
    recovery.delivered(&mut congestion, &delivery(2 * SEGMENT, true));
    assert_eq!(congestion.window(), 4 * SEGMENT);
    recovery.delivered(&mut congestion, &Delivery { bytes: 90_000, ..delivery(2 * SEGMENT, true) });
    assert_eq!(congestion.window(), 10 * SEGMENT, "not beyond the threshold");
}

#[test]
fn a_timeout_lowers_the_threshold_once() {
    let (mut congestion, mut recovery) = (reno(20), Recovery::default());
    recovery.timed_out(&mut congestion, (Seq(0), Seq(100)), 20 * SEGMENT, 0, false);
    assert_eq!((recovery.phase(), congestion.window(), congestion.threshold()), (Phase::Timeout, SEGMENT, 10_000));
    recovery.timed_out(&mut congestion, (Seq(0), Seq(100)), SEGMENT, 0, true);
    assert_eq!(congestion.threshold(), 10_000);
    assert!(!recovery.acknowledged(&mut congestion, Seq(99)));
    assert!(recovery.acknowledged(&mut congestion, Seq(100)));
    // In a repair it was lowered already.
    let (mut congestion, mut recovery) = (reno(20), Recovery::default());
    recovery.begins(&mut congestion, (Seq(0), Seq(100)), 20 * SEGMENT);
    recovery.timed_out(&mut congestion, (Seq(0), Seq(100)), 9 * SEGMENT, 0, false);
    assert_eq!((recovery.phase(), congestion.threshold()), (Phase::Timeout, 10_000));
}

#[test]
fn what_was_no_loss_is_taken_back() {
    for by_echo in [false, true] {
        for timeout in [false, true] {
            let (mut congestion, mut recovery) = (reno(20), Recovery::default());
            if timeout {
                recovery.timed_out(&mut congestion, (Seq(0), Seq(100)), 20 * SEGMENT, 0, false);
            } else {
                recovery.begins(&mut congestion, (Seq(0), Seq(100)), 20 * SEGMENT);
            }
            assert!(!recovery.came_twice(&mut congestion, twice(0, 9)), "nothing was sent again");
            recovery.sent_again(1000, Some(u32::MAX));
            recovery.sent_again(1000, Some(3));
            if by_echo {
                assert!(!recovery.echoed(&mut congestion, u32::MAX));
                assert!(!recovery.echoed(&mut congestion, 0));
                assert!(recovery.echoed(&mut congestion, u32::MAX - 1));
            } else {
                assert!(!recovery.came_twice(&mut congestion, twice(0, 1000)));
                assert!(recovery.came_twice(&mut congestion, twice(0, 1000)));
            }
            assert_eq!((recovery.phase(), congestion.window()), (Phase::Open, 20 * SEGMENT));
            assert!(!recovery.came_twice(&mut congestion, twice(0, 1000)) && !recovery.echoed(&mut congestion, 0));
        }
    }
}

#[test]
fn what_came_twice_before_the_loss_takes_nothing_back() {
    let (mut congestion, mut recovery) = (reno(20), Recovery::default());
    recovery.begins(&mut congestion, (Seq(u32::MAX - 499), Seq(20_000)), 20 * SEGMENT);
    recovery.sent_again(1000, None);
    let before = SackBlock { start: Seq(u32::MAX - 1499), end: Seq(u32::MAX - 499) };
    assert!(!recovery.came_twice(&mut congestion, before));
    // Half of it.
    let across = SackBlock { start: Seq(u32::MAX - 999), end: Seq(0) };
    assert!(!recovery.came_twice(&mut congestion, across));
    assert!(recovery.came_twice(&mut congestion, twice(0, 500)));
}

#[test]
fn a_shorter_path_is_no_loss() {
    let (mut congestion, mut recovery) = (reno(20), Recovery::default());
    recovery.resized(Seq(100));
    assert_eq!((recovery.phase(), congestion.window()), (Phase::Timeout, 20 * SEGMENT));
    assert!(recovery.acknowledged(&mut congestion, Seq(100)));
    assert_eq!(congestion.window(), 20 * SEGMENT);
}

#[test]
fn the_window_is_a_matter_of_repairs_while_there_is_one() {
    let delivery = Delivery { bytes: SEGMENT, pipe: SEGMENT, safe: true, segment: SEGMENT };
    let mut congestion = reno(10);
    let mut recovery = Recovery::default();
    recovery.delivered(&mut congestion, &delivery);
    assert_eq!(congestion, reno(10), "nothing is lost");
    recovery.begins(&mut congestion, (Seq(0), Seq(10_000)), 10_000);
    let before = congestion;
    recovery.delivered(&mut congestion, &Delivery { bytes: 0, ..delivery });
    assert_eq!(congestion, before, "nothing came");
    // Proportional: 4000 of 10 000 bytes came, 5000 may be under way at the end.
    recovery.delivered(&mut congestion, &Delivery { bytes: 4000, pipe: 6000, ..delivery });
    assert_eq!(congestion.window(), 8000);
}

#[test]
fn a_probe_that_repaired_a_loss_halves_the_window() {
    let mut congestion = reno(10);
    Recovery::default().probe_repaired(&mut congestion);
    assert_eq!((congestion.window(), congestion.threshold()), (5000, 5000));
}

#[test]
fn at_the_threshold_nothing_more_leaves() {
    let mut congestion = reno(10);
    let mut recovery = Recovery::default();
    recovery.begins(&mut congestion, (Seq(0), Seq(10_000)), 10_000);
    recovery.sent(SEGMENT);
    let delivery = Delivery { bytes: 4000, pipe: congestion.threshold(), safe: true, segment: SEGMENT };
    recovery.delivered(&mut congestion, &delivery);
    assert_eq!(congestion.window(), 5000);
}

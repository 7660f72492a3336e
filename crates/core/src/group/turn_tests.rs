use super::*;

#[test]
fn arming_in_every_order_of_events() {
    let mut quiet = Arming::new();
    quiet.on_looked(false);
    assert_eq!(quiet.next(), ArmStep::Arm);
    quiet.on_done();
    assert_eq!(quiet.next(), ArmStep::Release);
    let mut missed = quiet;
    missed.on_released(true);
    assert_eq!(missed.next(), ArmStep::Ready);
    quiet.on_released(false);
    assert_eq!(quiet.next(), ArmStep::Unmask);
    quiet.on_done();
    assert_eq!(quiet.next(), ArmStep::Look, "the second look");
    let mut late = quiet;
    late.on_looked(true);
    assert_eq!(late.next(), ArmStep::Event);
    quiet.on_looked(false);
    assert_eq!(quiet.next(), ArmStep::Armed);
    let mut early = Arming::default();
    early.on_looked(true);
    assert_eq!(early.next(), ArmStep::Give);
}

#[test]
#[should_panic(expected = "on_done answers Arm and Unmask")]
fn a_look_has_an_answer() {
    Arming::new().on_done();
}

#[test]
fn others_get_their_turn_within_the_bound() {
    let at = |us| Instant::ZERO + Span::from_us(us);
    let mut way = GiveWay::new(Span::from_us(100));
    assert!(!way.asks(at(0), false));
    assert!(!way.asks(at(50), true));
    assert!(!way.asks(at(149), true));
    assert!(way.asks(at(150), true));
    assert!(!way.asks(at(151), true), "it begins anew");
    assert!(!way.asks(at(200), false), "nobody waits any more");
    assert!(!way.asks(at(260), true));
}

#[test]
fn a_load_follows_the_work() {
    let at = |us| Instant::ZERO + Span::from_us(us);
    let mut load = Load::default();
    // Half of the time, for a millisecond.
    for us in (0..1000).step_by(10) {
        load.polled(at(us), Span::from_us(5));
    }
    let half = load.permille(at(1000));
    assert!((450..=550).contains(&half), "{half}");
    let mut later = load;
    assert!(later.permille(at(1100)) < half);
    assert!(load.permille(at(3000)) < 5, "a trace is left of what is long over");
    assert_eq!(load.permille(at(30_000)), 0);
}

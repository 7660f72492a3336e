use super::*;

fn active() -> CpuWord {
    CpuWord::OFF.join().unwrap()
}

#[test]
fn a_park_that_nobody_disturbs() {
    let asleep = active().announce().unwrap().sleep().unwrap();
    assert_eq!(asleep.doing(), Doing::Asleep);
    assert_eq!(asleep.wake(), (active(), Woken::Rouse));
    assert_eq!(active().join(), None, "it is there");
}

#[test]
fn a_wake_between_announcement_and_sleep_undoes_both() {
    let (word, woken) = active().announce().unwrap().wake();
    assert_eq!((word.sleep(), woken), (None, Woken::Awake));
    assert_eq!(active().announce().unwrap().cancel(), active());
    assert_eq!(active().wake(), (active(), Woken::Awake));
}

#[test]
fn who_was_told_to_leave_does_not_sleep() {
    let (going, woken) = active().announce().unwrap().sleep().unwrap().go();
    assert_eq!((going.announce(), woken, going.is_going()), (None, Woken::Rouse, true));
    let off = going.leave().unwrap();
    assert_eq!((off, off.wake(), off.go()), (CpuWord::OFF, (off, Woken::Gone), (off, Woken::Gone)));
    assert_eq!(off.stay(), going);
    assert_eq!(active().leave(), None);
}

#[test]
#[should_panic(expected = "announce comes before sleep")]
fn nobody_sleeps_twice() {
    let _ = active().announce().unwrap().sleep().unwrap().sleep();
}

#[test]
fn bits_and_names() {
    for bits in 0..8 {
        assert_eq!(CpuWord::from_bits(bits).bits(), bits);
    }
    assert_eq!(alloc::format!("{:?}", active().go().0), "CpuWord(Active going)");
}

#[test]
fn as_many_as_have_to_stay_awake() {
    let two = Awake::default().come().come();
    let one = two.park(1).unwrap();
    assert_eq!((one.count(), one.park(1), one.park(2)), (1, None, None));
    assert_eq!(one.park(0), Some(Awake::default()));
    assert_eq!(one.come().leave(), one);
}

#[test]
fn those_that_are_awake_are_counted() {
    assert_eq!([Awake(0), Awake(1), Awake(1).come()].map(Awake::count), [0, 1, 2]);
}

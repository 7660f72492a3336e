use super::*;

const A: GroupCpu = GroupCpu(2);
const B: GroupCpu = GroupCpu(513);

fn ready() -> Seat {
    Seat::FREE.reserve(A).unwrap().attached().0
}

#[test]
fn one_turn_at_a_time() {
    let turn = ready().take(A).unwrap();
    assert_eq!(turn.take(A), Err(NoTurn::Busy));
    assert_eq!(turn.take(B), Err(NoTurn::Elsewhere));
    assert_eq!(turn.give(), ready());
    assert_eq!(Seat::FREE.take(GroupCpu(0)), Err(NoTurn::Elsewhere));
}

#[test]
fn a_move_during_a_turn_lets_the_turn_end() {
    let (moved, wake) = ready().take(A).unwrap().move_to(B).unwrap();
    assert!(wake);
    assert_eq!((moved.take(B), moved.take(A)), (Err(NoTurn::Busy), Err(NoTurn::Elsewhere)));
    assert!(moved.keeps_awake(B) && !moved.keeps_awake(A));
    assert!(moved.give().take(B).is_ok());
}

#[test]
fn an_armed_member_has_no_poller_until_an_event_comes() {
    let armed = ready().take(A).unwrap().arm();
    assert_eq!((armed.take(A), armed.keeps_awake(A)), (Err(NoTurn::Armed), false));
    let (moved, wake) = armed.move_to(B).unwrap();
    assert!(!wake, "its interrupt will wake whoever has it then");
    assert_eq!(moved.ready().1, B);
}

#[test]
fn who_holds_a_member_gets_it_after_the_turn() {
    let turn = ready().take(A).unwrap().hold().unwrap();
    assert_eq!((turn.take_held(), turn.hold()), (None, None));
    let given = turn.give();
    assert_eq!(given.take(A), Err(NoTurn::Held));
    assert_eq!(given.take_held().unwrap().free(), Seat::FREE);
    assert_eq!(given.unhold(), (ready(), Some(A)));
    let armed = ready().take(A).unwrap().arm().hold().unwrap();
    assert_eq!(armed.take_armed().free(), Seat::FREE);
    assert_eq!(armed.unhold().1, None);
}

#[test]
fn a_reserved_place_is_nobody_elses() {
    let reserved = Seat::FREE.reserve(B).unwrap();
    assert_eq!((reserved.reserve(A), reserved.hold(), reserved.take(B)), (None, None, Err(NoTurn::Armed)));
    assert_eq!(reserved.attached().1, B);
    assert_eq!(reserved.cancel(), Seat::FREE);
    assert_eq!((Seat::FREE.hold(), Seat::FREE.move_to(A)), (None, None));
}

#[test]
#[should_panic(expected = "an event was given to a group that owns the instance")]
fn an_event_for_a_member_with_a_poller() {
    let _ = ready().ready();
}

#[test]
#[should_panic(expected = "a member is freed by who holds it")]
fn a_member_is_not_freed_under_a_poller() {
    let _ = ready().hold().unwrap().free();
}

#[test]
fn bits_and_names() {
    assert_eq!(Seat::from_bits(ready().bits()), ready());
    let held = ready().hold().unwrap();
    assert_eq!(alloc::format!("{:?} {held:?}", Seat::FREE), "Seat(free) Seat(Ready cpu2 held)");
}

//! What just fits, what is just late, and who is not asked at all.

use super::*;

#[test]
fn of_cpus_with_as_much_to_do_a_new_member_takes_the_one_with_fewer() {
    let members = [member(0, 0, 50), member(0, 0, 50), member(1, 0, 100)];
    assert_eq!(decider(Policy::Delay, 1).place(&members, &cpus(&[ACTIVE, ACTIVE])), Some(GroupCpu(1)));
}

#[test]
fn who_takes_over_is_awake_and_answers() {
    let members = [member(0, 500, 100), member(1, 0, 400)];
    for other in [CpuState::Parked, STOPPED, CpuState::Leaving] {
        for policy in [Policy::Delay, Policy::Compact] {
            let states = cpus(&[STOPPED, ACTIVE, other]);
            assert_eq!(first(policy, 1, &members, &states), [moves(0, 1)], "{policy:?} {other:?}");
        }
    }
}

#[test]
fn compact_counts_who_has_something_to_do_and_moves_who_may_go() {
    use CpuState::Parked;
    let grows = vec![wake(1), moves(0, 1)];
    let fixed = MemberView { fixed: true, ..queued(0, 9, 100) };
    let table = [
        // What is queued, or what it took lately: each makes a member one that is there.
        (vec![queued(0, 6, 0), queued(0, 5, 0)], vec![ACTIVE, Parked], grows.clone()),
        (vec![queued(0, 11, 100), queued(0, 0, 100)], vec![ACTIVE, Parked], grows),
        (vec![queued(0, 11, 100), queued(0, 0, 0)], vec![ACTIVE, Parked], vec![]),
        // But not at another CPU.
        (vec![queued(0, 11, 100), queued(1, 0, 100)], vec![ACTIVE, ACTIVE, Parked], vec![]),
        // The larger of the two cannot go.
        (vec![fixed, queued(0, 8, 100)], vec![ACTIVE, Parked], vec![wake(1), moves(1, 1)]),
    ];
    for (members, states, want) in table {
        assert_eq!(first(Policy::Compact, 1, &members, &cpus(&states)), want, "{members:?} {states:?}");
    }
}

#[test]
fn compact_repacks_with_what_is_to_come_and_not_what_has_a_backlog() {
    let table = [
        // The first has room for one of the two, as soon as that is decided.
        (
            vec![queued(0, 0, 600), queued(1, 0, 650), queued(2, 0, 150), queued(2, 0, 150)],
            vec![moves(2, 0), moves(3, 1), park(2)],
        ),
        // A backlog of the one that goes, and of one that stays.
        (vec![queued(0, 0, 200), queued(1, 1, 100)], vec![]),
        (vec![queued(0, 1, 200), queued(1, 0, 100)], vec![moves(1, 0), park(1)]),
    ];
    for (members, want) in table {
        let states = if members.len() > 2 { cpus(&[ACTIVE; 3]) } else { cpus(&[ACTIVE; 2]) };
        assert_eq!(first(Policy::Compact, 1, &members, &states), want, "{members:?}");
    }
}

#[test]
fn delay_counts_who_has_something_to_do() {
    use CpuState::Parked;
    let late = member(0, TARGET_US + 1, 300);
    let table = [
        // A backlog without load yet, and load without a backlog.
        (vec![late, queued(0, 1, 0)], vec![ACTIVE, Parked], vec![wake(1), moves(0, 1)]),
        (vec![late, queued(0, 0, 300)], vec![ACTIVE, Parked], vec![wake(1), moves(0, 1)]),
        // A CPU where something waits gets nothing, however little it has to do.
        (vec![late, member(0, 3, 300), member(2, 1, 0)], vec![ACTIVE, Parked, ACTIVE], vec![wake(1), moves(0, 1)]),
    ];
    for (members, states, want) in table {
        assert_eq!(first(Policy::Delay, 1, &members, &cpus(&states)), want, "{members:?} {states:?}");
    }
}

#[test]
fn half_the_target_is_a_small_delay() {
    let mut decider = decider(Policy::Delay, 1);
    let (calm, both) = ([member(0, 0, 100), member(1, TARGET_US / 2, 50)], cpus(&[ACTIVE, ACTIVE]));
    assert_eq!(decider.decide(at(1000), &calm, &both), []);
    assert_eq!(decider.decide(at(1200), &calm, &both), [moves(1, 0), park(1)]);
}

#[test]
fn a_turn_that_grows_does_not_shrink() {
    let mut decider = decider(Policy::Delay, 1);
    let three = cpus(&[ACTIVE, ACTIVE, ACTIVE]);
    assert_eq!(decider.decide(at(1000), &[member(0, 0, 300), member(0, 0, 300)], &three), []);
    let late = [member(0, TARGET_US + 1, 300), member(0, 0, 300)];
    assert_eq!(decider.decide(at(1200), &late, &three), [moves(0, 1)]);
}

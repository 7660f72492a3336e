use alloc::vec;

use super::*;

mod borders;

const TARGET_US: u64 = 10;

fn at(us: u64) -> Instant {
    Instant::ZERO + Span::from_us(us)
}

/// CPUs of two nodes: 0 and 1 share a core, 2 and 3 too; 4 and 5 are on the other node.
fn cpu(number: u16, state: CpuState) -> CpuView {
    CpuView { cpu: GroupCpu(number), state, core: number / 2, node: number / 4 }
}

const ACTIVE: CpuState = CpuState::Active { silent: Span::ZERO };
const STOPPED: CpuState = CpuState::Active { silent: Span::from_ms(2) };

fn cpus(states: &[CpuState]) -> Vec<CpuView> {
    states.iter().enumerate().map(|(number, state)| cpu(number as u16, *state)).collect()
}

/// A member of a CPU whose oldest packet has waited so many microseconds; the load in thousandths.
fn member(cpu: u16, age_us: u64, load: u16) -> MemberView {
    MemberView {
        cpu: GroupCpu(cpu),
        last: None,
        age: Span::from_us(age_us),
        backlog: u32::from(age_us > 0),
        load,
        per_packet: Span::from_us(1),
        fixed: false,
    }
}

fn queued(cpu: u16, backlog: u32, load: u16) -> MemberView {
    MemberView { backlog, ..member(cpu, 0, load) }
}

fn decider(policy: Policy, min_active: u16) -> Decider {
    Decider::new(Settings { policy, min_active, ..Settings::default() })
}

fn wake(cpu: u16) -> Decision {
    Decision::Wake(GroupCpu(cpu))
}

fn park(cpu: u16) -> Decision {
    Decision::Park(GroupCpu(cpu))
}

fn moves(member: usize, to: u16) -> Decision {
    Decision::Move { member, to: GroupCpu(to) }
}

/// The first turn of a policy in this picture.
fn first(policy: Policy, min_active: u16, members: &[MemberView], cpus: &[CpuView]) -> Vec<Decision> {
    decider(policy, min_active).decide(at(1000), members, cpus).to_vec()
}

#[test]
fn delay_grows_at_once() {
    use CpuState::Parked;
    let late = member(0, TARGET_US + 1, 300);
    let table = [
        // Waits in time: nothing.
        (vec![member(0, TARGET_US, 900), member(0, 5, 900)], vec![ACTIVE, Parked], vec![]),
        // Too long, beside another: the sibling is woken, and gets it.
        (vec![late, member(0, 5, 300)], vec![ACTIVE, Parked, Parked], vec![wake(1), moves(0, 1)]),
        // Alone on its CPU: no other CPU would poll it sooner.
        (vec![late, member(1, 0, 300)], vec![ACTIVE, ACTIVE, Parked], vec![]),
        // The one beside it has nothing to do: it is as good as alone.
        (vec![late, member(0, 0, 0)], vec![ACTIVE, Parked], vec![]),
        // A CPU that is awake and has at most two thirds as much to do is taken before one that sleeps.
        (vec![late, member(0, 3, 300), member(2, 0, 400)], vec![ACTIVE, Parked, ACTIVE], vec![moves(0, 2)]),
        // One with more is not.
        (vec![late, member(0, 3, 300), member(2, 0, 401)], vec![ACTIVE, Parked, ACTIVE], vec![wake(1), moves(0, 1)]),
        // The oldest goes first.
        (vec![late, member(0, TARGET_US + 9, 300)], vec![ACTIVE, Parked], vec![wake(1), moves(1, 1)]),
        // Of three that are late two go, each to a CPU of its own.
        (
            vec![member(0, 20, 300), member(0, 30, 300), member(0, 15, 300)],
            vec![ACTIVE, Parked, Parked, Parked],
            vec![wake(1), moves(1, 1), wake(2), moves(0, 2)],
        ),
        // All CPUs are awake and at work: nothing is better.
        (vec![late, member(0, 12, 300), member(1, 8, 600)], vec![ACTIVE, ACTIVE], vec![]),
        // Nothing goes to a CPU that leaves.
        (vec![late, member(0, 5, 300)], vec![ACTIVE, CpuState::Leaving], vec![]),
    ];
    for (members, states, want) in table {
        assert_eq!(first(Policy::Delay, 1, &members, &cpus(&states)), want, "{members:?} {states:?}");
    }
}

#[test]
fn the_cpu_that_had_it_last_comes_before_the_sibling_and_the_sibling_before_the_rest() {
    use CpuState::Parked;
    let late = member(0, TARGET_US + 1, 300);
    let beside = member(0, 5, 300);
    let all = cpus(&[ACTIVE, Parked, Parked, Parked, Parked, Parked]);
    let had = MemberView { last: Some(GroupCpu(5)), ..late };
    assert_eq!(first(Policy::Delay, 1, &[had, beside], &all), [wake(5), moves(0, 5)]);
    assert_eq!(first(Policy::Delay, 1, &[late, beside], &all), [wake(1), moves(0, 1)]);
    let no_sibling: Vec<_> = all.iter().copied().filter(|cpu| cpu.cpu != GroupCpu(1)).collect();
    assert_eq!(first(Policy::Delay, 1, &[late, beside], &no_sibling), [wake(2), moves(0, 2)]);
    let far = [all[0], all[4], all[5]];
    assert_eq!(first(Policy::Delay, 1, &[late, beside], &far), [wake(4), moves(0, 4)]);
    assert_eq!(all[0].distance(&all[0]), Distance::Same);
    assert!(Distance::Same < Distance::Sibling && Distance::Node < Distance::Other);
}

#[test]
fn what_moved_settles_before_it_moves_again() {
    let mut decider = decider(Policy::Delay, 1);
    let members = [member(0, TARGET_US + 1, 300), member(0, 5, 300)];
    let states = cpus(&[ACTIVE, CpuState::Parked, CpuState::Parked]);
    assert_eq!(decider.decide(at(1000), &members, &states), [wake(1), moves(0, 1)]);
    let moved = [member(1, TARGET_US + 5, 300), member(1, 5, 300)];
    let states = cpus(&[ACTIVE, ACTIVE, CpuState::Parked]);
    assert_eq!(decider.decide(at(1001), &moved, &states), []);
    assert_eq!(decider.decide(at(1039), &moved, &states), []);
    assert!(!decider.decide(at(1040), &moved, &states).is_empty());
}

#[test]
fn delay_shrinks_slowly() {
    let mut decider = decider(Policy::Delay, 1);
    let calm = [member(0, 0, 100), member(1, 2, 50), member(1, 0, 0)];
    let both = cpus(&[ACTIVE, ACTIVE]);
    assert_eq!(decider.decide(at(1000), &calm, &both), []);
    assert_eq!(decider.decide(at(1199), &calm, &both), []);
    // One delay that is not small, and the time begins anew.
    let uneasy = [member(0, 6, 100), member(1, 2, 50), member(1, 0, 0)];
    assert_eq!(decider.decide(at(1199), &uneasy, &both), []);
    assert_eq!(decider.decide(at(1200), &calm, &both), []);
    assert_eq!(decider.decide(at(1399), &calm, &both), []);
    assert_eq!(decider.decide(at(1400), &calm, &both), [moves(1, 0), moves(2, 0), park(1)]);
}

/// Nothing has to move for the one that has no member.
#[test]
fn of_cpus_with_as_much_to_do_the_one_with_fewer_members_parks() {
    for policy in [Policy::Delay, Policy::Compact] {
        let mut decider = decider(policy, 1);
        let (members, both) = ([member(0, 0, 0), member(0, 0, 0)], cpus(&[ACTIVE, ACTIVE]));
        let first = decider.decide(at(1000), &members, &both).to_vec();
        let then = decider.decide(at(2000), &members, &both).to_vec();
        let both = [first, then].concat();
        assert!(both.contains(&park(1)) && both.iter().all(|it| *it == park(1)), "{policy:?}: {both:?}");
    }
}

/// Of many CPUs there is always one where something waits: the others shrink all the same.
#[test]
fn a_cpu_that_is_not_calm_keeps_only_itself_awake() {
    let mut decider = decider(Policy::Delay, 1);
    let members = [member(0, 6, 400), member(1, 0, 200), member(2, 0, 100)];
    let three = cpus(&[ACTIVE, ACTIVE, ACTIVE]);
    assert_eq!(decider.decide(at(1000), &members, &three), []);
    assert_eq!(decider.decide(at(1200), &members, &three), [moves(2, 1), park(2)]);
    // And the one that was given more is looked at anew.
    let two = [members[0], members[1], member(1, 0, 100)];
    let states = cpus(&[ACTIVE, ACTIVE, CpuState::Parked]);
    assert_eq!(decider.decide(at(1300), &two, &states), []);
    assert_eq!(decider.decide(at(1600), &two, &states), [], "the first CPU is not calm");
}

#[test]
fn compact_does_not_park_what_it_woke_a_moment_ago() {
    let mut decider = decider(Policy::Compact, 1);
    let (asleep, awake) = (cpus(&[ACTIVE, CpuState::Parked]), cpus(&[ACTIVE, ACTIVE]));
    let full = [queued(0, 9, 100), queued(0, 9, 100)];
    assert_eq!(decider.decide(at(1000), &full, &asleep), [wake(1), moves(1, 1)]);
    let moved = [queued(0, 0, 200), queued(1, 0, 100)];
    let decided = decider.decide(at(1110), &moved, &awake);
    assert!(!decided.contains(&park(1)), "{decided:?}");
}

#[test]
fn two_that_would_fill_one_cpu_stay_apart() {
    let shrinks = |loads: [u16; 2]| {
        let mut decider = decider(Policy::Delay, 1);
        let members = [member(0, 0, loads[0]), member(1, 0, loads[1])];
        let both = cpus(&[ACTIVE, ACTIVE]);
        assert_eq!(decider.decide(at(0), &members, &both), []);
        !decider.decide(at(1000), &members, &both).is_empty()
    };
    assert!(shrinks([250, 250]));
    assert!(!shrinks([251, 250]));
}

#[test]
fn the_last_cpu_parks_only_where_none_has_to_be_active_and_nothing_is_to_do() {
    let parks = |min_active: u16, member: MemberView| {
        let mut decider = decider(Policy::Delay, min_active);
        let one = cpus(&[ACTIVE, CpuState::Parked]);
        assert_eq!(decider.decide(at(0), &[member], &one), []);
        decider.decide(at(1000), &[member], &one).to_vec()
    };
    assert_eq!(parks(0, member(0, 0, 0)), [park(0)]);
    assert_eq!(parks(0, member(0, 0, 1)), []);
    assert_eq!(parks(0, queued(0, 1, 0)), []);
    assert_eq!(parks(1, member(0, 0, 0)), []);
}

#[test]
fn enough_are_awake() {
    use CpuState::Parked;
    for policy in [Policy::Delay, Policy::Compact] {
        let states = cpus(&[Parked, ACTIVE, Parked, Parked]);
        assert_eq!(first(policy, 3, &[], &states), [wake(0), wake(2)]);
        assert_eq!(first(policy, 1, &[], &states), []);
        assert_eq!(first(policy, 1, &[], &cpus(&[Parked, Parked])), [wake(0)]);
        assert_eq!(first(policy, 0, &[], &cpus(&[Parked, Parked])), []);
    }
}

#[test]
fn parks_in_vain_make_it_wait_longer() {
    let mut decider = decider(Policy::Delay, 0);
    let idle = [member(0, 0, 0)];
    let (awake, asleep) = (cpus(&[ACTIVE]), cpus(&[CpuState::Parked]));
    let mut now = 0;
    // How long it takes until the CPU parks; the park ends after `sleeps`.
    let mut park_takes = |decider: &mut Decider, sleeps: u64| {
        let from = now;
        while decider.decide(at(now), &idle, &awake).is_empty() {
            now += 100;
        }
        let took = now - from;
        assert_eq!(decider.decide(at(now + 1), &idle, &asleep), []);
        now += sleeps;
        took
    };
    let took: Vec<_> = (0..4).map(|_| park_takes(&mut decider, 50)).collect();
    assert_eq!(took, [200, 400, 800, 1600]);
    assert_eq!(park_takes(&mut decider, 10_000), 3200);
    assert_eq!(decider.parks_in_vain(), 4);
    assert_eq!(park_takes(&mut decider, 10_000), 800, "a park that lasted halves the count");
    for _ in 0..12 {
        park_takes(&mut decider, 50);
    }
    assert_eq!(park_takes(&mut decider, 50), 51_200, "and there is an end to it");
}

#[test]
fn a_park_that_takes_a_moment_is_not_in_vain() {
    let mut decider = decider(Policy::Delay, 0);
    let idle = [member(0, 0, 0)];
    let (awake, asleep) = (cpus(&[ACTIVE]), cpus(&[CpuState::Parked]));
    assert_eq!(decider.decide(at(1000), &idle, &awake), []);
    assert_eq!(decider.decide(at(1200), &idle, &awake), [park(0)]);
    // It is on its way, and sleeps for long.
    for (us, seen) in [(1202, &awake), (1210, &awake), (1212, &asleep), (9000, &awake)] {
        assert_eq!(decider.decide(at(us), &idle, seen), [], "{us}");
    }
    assert_eq!(decider.parks_in_vain(), 0);
    // As does one that nobody saw asleep: it was alone.
    assert_eq!(decider.decide(at(9200), &idle, &awake), [park(0)]);
    assert_eq!(decider.decide(at(20_000), &idle, &awake), []);
    assert_eq!(decider.parks_in_vain(), 0);
    // One that never gets there is.
    assert_eq!(decider.decide(at(20_200), &idle, &awake), [park(0)]);
    for us in (20_202..20_400).step_by(2) {
        assert_eq!(decider.decide(at(us), &idle, &awake), []);
    }
    assert_eq!(decider.parks_in_vain(), 0);
    assert_eq!(decider.decide(at(20_400), &idle, &awake), []);
    assert_eq!(decider.parks_in_vain(), 1);
}

#[test]
fn others_take_over_from_a_cpu_that_stopped() {
    use CpuState::Parked;
    for policy in [Policy::Delay, Policy::Compact] {
        let members = [member(0, 500, 100), member(0, 0, 0), member(1, 0, 400)];
        // The one with the least to do takes all.
        let states = cpus(&[STOPPED, ACTIVE, ACTIVE]);
        assert_eq!(first(policy, 1, &members, &states), [moves(0, 2), moves(1, 2)]);
        // One that sleeps, if nobody else is awake.
        let alone = [member(0, 500, 100), member(0, 0, 0)];
        assert_eq!(first(policy, 1, &alone, &cpus(&[STOPPED, Parked])), [wake(1), moves(0, 1), moves(1, 1)]);
        // Not what is in the middle of a poll there.
        let within = [MemberView { fixed: true, ..alone[0] }, alone[1]];
        assert_eq!(first(policy, 1, &within, &cpus(&[STOPPED, Parked])), [wake(1), moves(1, 1)]);
        assert_eq!(first(policy, 1, &alone, &cpus(&[STOPPED])), [], "there is nobody");
        // A CPU that leaves is as good as stopped.
        let leaving = cpus(&[CpuState::Leaving, ACTIVE]);
        assert_eq!(first(policy, 1, &alone, &leaving), [moves(0, 1), moves(1, 1)]);
    }
}

#[test]
fn static_moves_nothing_and_parks_nobody() {
    let members = [member(0, 500, 900), member(0, 500, 900), member(1, 0, 0)];
    let mut decider = decider(Policy::Static, 0);
    for us in 0..10 {
        assert_eq!(decider.decide(at(us * 1000), &members, &cpus(&[ACTIVE, ACTIVE, STOPPED])), []);
    }
    assert_eq!(decider.decide(at(20_000), &members, &cpus(&[ACTIVE, CpuState::Parked])), [wake(1)]);
    let leaving = cpus(&[ACTIVE, CpuState::Leaving]);
    assert_eq!(decider.decide(at(21_000), &members, &leaving), [moves(2, 0)]);
}

#[test]
fn compact_scales_out_by_what_is_queued() {
    use CpuState::Parked;
    let table = [
        // 10 packets of 1 us are the target, and 11 are over it, whoever has them.
        (vec![queued(0, 6, 100), queued(0, 4, 100)], vec![ACTIVE, Parked], vec![]),
        (vec![queued(0, 7, 100), queued(0, 4, 100)], vec![ACTIVE, Parked], vec![wake(1), moves(0, 1)]),
        (vec![queued(0, 11, 100)], vec![ACTIVE, Parked], vec![]),
        // To a CPU that is awake and has nothing queued, if it fits.
        (
            vec![queued(0, 9, 300), queued(0, 9, 100), queued(2, 0, 500)],
            vec![ACTIVE, Parked, ACTIVE],
            vec![moves(1, 2)],
        ),
        (
            vec![queued(0, 9, 100), queued(0, 9, 400), queued(2, 0, 500)],
            vec![ACTIVE, Parked, ACTIVE],
            vec![wake(1), moves(1, 1)],
        ),
    ];
    for (members, states, want) in table {
        assert_eq!(first(Policy::Compact, 1, &members, &cpus(&states)), want, "{members:?} {states:?}");
    }
}

#[test]
fn compact_repacks_what_fits() {
    let three = cpus(&[ACTIVE, ACTIVE, ACTIVE]);
    // The least loaded gives what it has to the first that has room, each to its own.
    let members = [queued(0, 0, 700), queued(1, 0, 500), queued(2, 0, 100), queued(2, 0, 300)];
    assert_eq!(first(Policy::Compact, 1, &members, &three), [moves(2, 0), moves(3, 1), park(2)]);
    // All or none.
    let members = [queued(0, 0, 700), queued(1, 0, 600), queued(2, 0, 100), queued(2, 0, 300)];
    assert_eq!(first(Policy::Compact, 1, &members, &three), []);
    assert_eq!(first(Policy::Compact, 3, &[], &three), [], "enough have to be active");
    // It looks at the whole ten targets later again.
    let mut decider = decider(Policy::Compact, 0);
    assert_eq!(decider.decide(at(1000), &[queued(0, 0, 1)], &cpus(&[ACTIVE])), []);
    assert_eq!(decider.decide(at(1099), &[queued(0, 0, 0)], &cpus(&[ACTIVE])), []);
    assert_eq!(decider.decide(at(1100), &[queued(0, 0, 0)], &cpus(&[ACTIVE])), [park(0)]);
}

#[test]
fn a_new_member_goes_where_least_is_to_do() {
    let members = [member(0, 0, 200), member(1, 0, 100), member(1, 0, 50)];
    let awake = cpus(&[ACTIVE, ACTIVE, CpuState::Parked]);
    assert_eq!(decider(Policy::Delay, 1).place(&members, &awake), Some(GroupCpu(1)));
    assert_eq!(decider(Policy::Static, 1).place(&members, &awake), Some(GroupCpu(2)));
    assert_eq!(decider(Policy::Delay, 0).place(&[], &cpus(&[CpuState::Leaving, CpuState::Parked])), Some(GroupCpu(1)));
    assert_eq!(decider(Policy::Delay, 0).place(&[], &cpus(&[CpuState::Leaving])), None);
}

#[test]
fn a_turn_allocates_nothing_once_it_has_seen_the_group() {
    let mut decider = decider(Policy::Delay, 1);
    let members = [member(0, 500, 100); 8];
    let states = cpus(&[STOPPED, CpuState::Parked, CpuState::Parked]);
    decider.decide(at(0), &[], &states);
    decider.decide(at(0), &members, &states);
    let room = (decider.decisions.as_ptr(), decider.decisions.capacity());
    for us in 1..50 {
        decider.decide(at(us * 100), &members, &states);
    }
    assert_eq!((decider.decisions.as_ptr(), decider.decisions.capacity()), room);
}

#[test]
fn policies_have_names_and_can_be_swapped() {
    for policy in Policy::ALL {
        assert_eq!(Policy::from_name(policy.name()), Some(policy));
    }
    let needs = |policy, cpus| decider(policy, 2).settings().min_awake(cpus);
    assert_eq!((needs(Policy::Static, 4), needs(Policy::Delay, 4), needs(Policy::Compact, 1)), (4, 2, 1));
    assert_eq!((Policy::from_name("spread"), Policy::default()), (None, Policy::Delay));
    let mut decider = decider(Policy::Static, 1);
    assert_eq!(decider.decide(at(0), &[], &cpus(&[ACTIVE, CpuState::Parked])), [wake(1)]);
    decider.set(Settings::default());
    assert_eq!(decider.settings().policy, Policy::Delay);
    assert_eq!(decider.decide(at(1), &[], &cpus(&[ACTIVE, CpuState::Parked])), []);
}

//! Every interleaving of small groups: two CPUs, up to two members with a few packets, their interrupts and softirqs,
//! somebody who moves members and wakes CPUs as no policy would, and a controller that attaches, detaches, takes
//! devices down and CPUs away. A CPU parks whenever it likes. So what holds here holds under every policy.

use napier_testkit::explore;

mod control;
mod cpu;
mod handler;
mod model;
mod mover;

use model::{Config, Ctl, World, Wrong};

const BASE: Config = Config {
    cpus: 2,
    members: 1,
    packets: 1,
    attach: false,
    updown: false,
    come_and_go: false,
    moves: false,
    parks: true,
    first_turn: false,
    wrong: Wrong::Nothing,
};

const ONE_CPU: Config = Config { cpus: 1, ..BASE };

/// From every world, without help from outside: what waits is polled, and the controller ends what it does.
fn check(name: &str, config: &Config) {
    let walk = explore::walk(name, config, World::new(config));
    walk.can_reach("a packet waits for ever", World::is_drained);
    walk.can_reach("the controller hangs", |world| world.ctl == Ctl::Idle);
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn parks_and_moves() {
    check("parks, moves", &Config { packets: 2, moves: true, ..BASE });
    check("two members, parks", &Config { members: 2, ..BASE });
    check("two members, moves", &Config { members: 2, moves: true, parks: false, ..BASE });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn attach_and_detach() {
    check("attach, detach, parks", &Config { attach: true, ..ONE_CPU });
    check("attach, detach, moves", &Config { attach: true, moves: true, parks: false, ..BASE });
    check("two members, attach, detach", &Config { members: 2, attach: true, parks: false, ..ONE_CPU });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn devices_go_down_and_up() {
    check("down, up, parks", &Config { updown: true, ..BASE });
    check("down, up, attach, detach, parks", &Config { updown: true, attach: true, ..ONE_CPU });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn cpus_come_and_go() {
    check("CPUs come and go, parks", &Config { come_and_go: true, moves: true, ..BASE });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn everything_but_parks() {
    let all = Config { attach: true, updown: true, come_and_go: true, moves: true, ..BASE };
    check("everything but parks", &Config { parks: false, ..all });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn who_takes_the_interrupt_polls_first() {
    let first = Config { first_turn: true, ..BASE };
    check("first turn, parks, moves", &Config { packets: 2, moves: true, ..first });
    check("first turn, down, up, attach, detach", &Config { cpus: 1, updown: true, attach: true, ..first });
    check("first turn, CPUs come and go", &Config { come_and_go: true, ..first });
}

#[test]
#[ignore = "deep: most of a minute"]
fn deep() {
    check("first turn, two members", &Config { members: 2, first_turn: true, ..BASE });
    check("first turn, moves, CPUs come and go", &Config { first_turn: true, come_and_go: true, moves: true, ..BASE });
    check("down, up, moves, parks", &Config { updown: true, moves: true, ..BASE });
    check("two members, down, up, parks", &Config { members: 2, updown: true, ..ONE_CPU });
    check("two members, two CPUs, attach, detach", &Config { members: 2, attach: true, parks: false, ..BASE });
}

/// Groups with a mistake in them: each is found, by the rule that it breaks.
mod wrong {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "a packet waits for ever")]
    fn a_park_without_a_second_look() {
        check("wrong", &Config { wrong: Wrong::NoSecondLook, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "two pollers of a member")]
    fn a_turn_that_is_taken_beside_another() {
        check("wrong", &Config { wrong: Wrong::TwoPollers, moves: true, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "a packet waits for ever")]
    fn a_detach_that_does_not_look_again() {
        check("wrong", &Config { wrong: Wrong::DetachWithoutLook, attach: true, parks: false, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "a packet waits for ever")]
    fn a_move_that_wakes_nobody() {
        check("wrong", &Config { wrong: Wrong::MoveWithoutWake, moves: true, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "a packet waits for ever")]
    fn an_event_that_wakes_nobody() {
        check("wrong", &Config { wrong: Wrong::EventWithoutWake, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "a packet waits for ever")]
    fn a_sleep_that_does_not_see_its_wake() {
        check("wrong", &Config { wrong: Wrong::SleepAnyway, moves: true, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "a member has a poller, and its instance has no owner")]
    fn a_release_before_the_seat_is_armed() {
        check("wrong", &Config { wrong: Wrong::ReleaseBeforeArm, moves: true, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "the controller hangs")]
    fn a_poller_that_does_not_see_a_disable() {
        check("wrong", &Config { wrong: Wrong::DisableUnseen, updown: true, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "a packet waits for ever")]
    fn a_cpu_that_leaves_without_a_second_look() {
        check(
            "wrong",
            &Config { wrong: Wrong::LeaveWithoutLook, come_and_go: true, moves: true, parks: false, ..BASE },
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "reserve comes first")]
    fn an_attach_that_does_not_wait_for_the_owner() {
        check("wrong", &Config { wrong: Wrong::AttachAtOnce, attach: true, ..BASE });
    }
}

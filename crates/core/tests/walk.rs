//! All interleavings of small worlds.
mod model;

use model::{Config, Ctl, World, Wrong};
use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting::{self, BusyPoll, Disabled, Enabled, Workqueue};
use napier_core::time::Span;
use napier_testkit::explore::walk;

const ALL_MODES: &[ThreadedSetting] = &[Disabled, Enabled, BusyPoll];

const fn tunables(dhi: u32, gft: bool, ist: bool) -> Tunables {
    let gro_flush_timeout = if gft { Span::from_us(20) } else { Span::ZERO };
    let irq_suspend_timeout = if ist { Span::from_ms(20) } else { Span::ZERO };
    Tunables { defer_hard_irqs: dhi, gro_flush_timeout, irq_suspend_timeout }
}

const BASE: Config = Config {
    tunables: tunables(0, false, false),
    pending_max: 2,
    weight: 2,
    busy_budget: 1,
    gro: false,
    user: &[],
    epoll: false,
    modes: &[],
    at_once: false,
    updown: true,
    wrong: Wrong::Nothing,
};

/// One preferring busy poller, with deferral, and full polls of one packet.
const PREFER: Config = Config { tunables: tunables(1, true, false), pending_max: 1, weight: 1, user: &[true], ..BASE };

/// From every world the machinery alone, without help from outside, can
/// - get the packets out (or the instance is down, and they wait for enable),
/// - bring whatever the controller does to its end,
/// - take interrupts again (unless a thread polls for ever).
fn check(name: &str, config: &Config) {
    let walk = walk(name, config, World::new(config));
    walk.can_reach("the packets cannot be drained", |world| world.is_down() || world.is_drained());
    walk.can_reach("the controller hangs", |world| matches!(world.ctl, Ctl::Up | Ctl::Down));
    walk.can_reach("interrupts never come back", |world| {
        world.is_down() || !world.masked || world.mode == ThreadedSetting::BusyPoll
    });
}

#[test]
fn softirq_alone() {
    let all = [(0, false), (0, true), (2, false), (2, true)];
    for (dhi, gft) in if cfg!(miri) { &all[..1] } else { &all[..] } {
        let (dhi, gft) = (*dhi, *gft);
        let config = Config { tunables: tunables(dhi, gft, false), gro: true, ..BASE };
        let pending_max = if cfg!(miri) { 1 } else { 2 };
        check("softirq", &Config { pending_max, ..config });
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn busy_poller_and_softirq() {
    check("busy", &Config { user: &[false, true], ..BASE });
    check("busy, deferred, held frames", &Config { gro: true, ..PREFER });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn suspension() {
    let config = Config { tunables: tunables(1, true, true), epoll: true, ..PREFER };
    check("epoll", &Config { pending_max: 2, weight: 2, ..config });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn threads() {
    for (dhi, gft) in [(0, false), (1, true)] {
        check("threads", &Config { tunables: tunables(dhi, gft, false), modes: ALL_MODES, ..BASE });
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn threads_and_busy_poller() {
    let plain = Config { tunables: tunables(0, false, false), ..PREFER };
    check("modes", &Config { modes: ALL_MODES, updown: false, ..plain });
    check("modes, up and down", &Config { modes: &ALL_MODES[..2], ..plain });
}

/// As the engine ends modes, with the pool.
#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn threads_and_the_pool() {
    const THREAD_AND_POOL: &[ThreadedSetting] = &[Disabled, Enabled, Workqueue];
    let one = Config { pending_max: 1, weight: 1, at_once: true, ..BASE };
    check("engine's modes", &Config { modes: ALL_MODES, ..one });
    check("engine's modes, pool", &Config { modes: THREAD_AND_POOL, ..one });
    check("full polls", &Config { modes: THREAD_AND_POOL, pending_max: 2, updown: false, ..one });
}

/// Everything at once; minutes rather than seconds in a slow profile.
#[test]
#[ignore = "deep: half a minute"]
fn deep() {
    check("modes, deferred", &Config { modes: ALL_MODES, updown: false, ..PREFER });
    check("all modes, up and down", &Config { tunables: tunables(0, false, false), modes: ALL_MODES, ..PREFER });
    let pool = Config { modes: &[Disabled, Enabled, Workqueue], at_once: true, pending_max: 1, weight: 1, ..BASE };
    check("busy poller, pool", &Config { user: &[true], updown: false, ..pool });
    check("busy, deferred", &Config { user: &[false, true], pending_max: 2, weight: 2, ..PREFER });
}

/// Worlds with a mistake in them: each is found, by the rule that it breaks.
mod wrong {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "masked, without an owner, and nothing will poll it")]
    fn arming_before_the_release_stalls() {
        check("wrong", &Config { wrong: Wrong::ArmBeforeRelease, updown: false, ..PREFER });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "masked, without an owner, and nothing will poll it")]
    fn a_hand_over_that_is_forgotten_stalls() {
        let tunables = tunables(0, false, false);
        let wrong = Wrong::HandOverAndForget;
        check("wrong", &Config { tunables, wrong, updown: false, ..PREFER });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "the controller hangs")]
    fn a_disabled_instance_that_counts_as_owned_hangs_the_controller() {
        let modes = &ALL_MODES[..2];
        check("wrong", &Config { wrong: Wrong::DisabledIsOwned, modes, pending_max: 1, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "the packets cannot be drained")]
    fn frames_held_across_a_disable_are_stranded() {
        let tunables = tunables(0, true, false);
        let wrong = Wrong::HeldAcrossDisable;
        check("wrong", &Config { tunables, wrong, gro: true, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "the thread may poll only as owner")]
    fn a_runner_that_is_read_late_is_not_the_one_that_was_meant() {
        let wrong = Wrong::RunnerReadLate;
        check(
            "wrong",
            &Config { wrong, modes: &[Disabled, Enabled, Workqueue], at_once: true, pending_max: 1, ..BASE },
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "the packets cannot be drained")]
    fn unmasking_without_a_second_look_strands_packets() {
        check("wrong", &Config { wrong: Wrong::NoSecondLook, ..BASE });
    }
}

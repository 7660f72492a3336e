//! Every interleaving of small worlds: senders, a flusher, the transmit softirq, a device that stops and wakes, and a
//! controller that deactivates.

use napier_testkit::explore;

mod model;
mod outside;
mod runner;

use model::{Config, Control, World, Wrong};

fn walk(name: &str, config: &Config) {
    explore::walk(name, config, World::new(config));
}

const BASE: Config = Config {
    packets: &[2, 1],
    max_burst: 1000,
    limit: 10,
    room: 1,
    bulk_bytes: 5000,
    quota: 64,
    busys: 0,
    control: Control::None,
    wrong: Wrong::Nothing,
};

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn two_senders() {
    walk("two senders", &BASE);
    walk("two senders, no bulk, quota 1", &Config { bulk_bytes: 0, quota: 1, ..BASE });
    walk("two senders, a driver that is busy once", &Config { busys: 1, room: 2, ..BASE });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn limits() {
    walk("burst 0", &Config { max_burst: 0, busys: 1, ..BASE });
    walk("burst 1, room for one", &Config { max_burst: 1, limit: 1, packets: &[1, 1, 1], room: 3, ..BASE });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn three_senders() {
    walk("three senders", &Config { packets: &[1, 1, 1], ..BASE });
}

#[test]
#[ignore = "deep: half a minute"]
fn deep() {
    walk("three senders, a driver that is busy once", &Config { packets: &[2, 1, 1], busys: 1, quota: 2, ..BASE });
    walk("deactivation", &Config { packets: &[2, 1], busys: 1, control: Control::DownAndUp, ..BASE });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn deactivation() {
    for control in [Control::Down, Control::DownAndUp] {
        walk("deactivation", &Config { control, packets: &[1, 1], busys: 1, ..BASE });
        walk("deactivation", &Config { control, packets: &[2, 1], room: 3, ..BASE });
    }
}

/// Worlds with a mistake in them: each is found, by the rule that it breaks.
mod wrong {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "a packet is stranded")]
    fn suppression_without_a_flusher() {
        walk("wrong", &Config { wrong: Wrong::SuppressedByCount, max_burst: 0, busys: 1, packets: &[1, 1, 1], ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "a packet is stranded")]
    fn suppression_by_a_runner() {
        walk("wrong", &Config { wrong: Wrong::SuppressedByRunner, busys: 1, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "a packet is stranded")]
    fn a_look_at_the_list_before_the_wake() {
        walk("wrong", &Config { wrong: Wrong::LookBeforeWake, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "a packet is stranded")]
    fn a_wake_that_does_not_schedule() {
        walk("wrong", &Config { wrong: Wrong::SilentWake, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "a packet is stranded")]
    fn unscheduling_after_the_run() {
        walk("wrong", &Config { wrong: Wrong::UnscheduleAfterRun, ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "out of order")]
    fn requeue_at_the_tail() {
        walk("wrong", &Config { wrong: Wrong::RequeueAtTail, busys: 1, packets: &[3, 1], ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "out of order")]
    fn a_batch_that_is_not_turned_round() {
        walk("wrong", &Config { wrong: Wrong::NotReversed, packets: &[3, 1], ..BASE });
    }

    #[test]
    #[cfg_attr(miri, ignore = "too many worlds")]
    #[should_panic(expected = "a packet is stranded")]
    fn a_single_reset() {
        walk("wrong", &Config { wrong: Wrong::SingleReset, control: Control::Down, busys: 1, ..BASE });
    }
}

//! Every interleaving of one softirq CPU: its thread, two programs that sleep there, a thread that looks, and an environment that
//! interrupts, raises, calls programs, and takes their processors from them.

use napier_testkit::explore;

#[path = "walk_model_tests.rs"]
mod model;

use model::{Config, World, Wrong};

const BASE: Config =
    Config { programs: 1, thread_starves: false, programs_starve: false, watchdog: false, wrong: Wrong::Nothing };
const WATCHED: Config = Config { thread_starves: true, programs_starve: true, watchdog: true, ..BASE };

/// From every world, without help from outside: what waits is done, and a program that was called wakes up.
fn check(name: &str, config: &Config) {
    let walk = explore::walk(name, config, World::START);
    walk.can_reach("work waits for ever", |world| !world.raised && !world.interrupt);
    walk.can_reach("a program that was called sleeps on", |world| {
        (0..2).all(|at| !world.called[at] || world.starved[2] && at == 0)
    });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn with_processors_nothing_needs_a_watchdog() {
    check("one program", &BASE);
    check("two programs", &Config { programs: 2, ..BASE });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn a_program_that_stands_still_holds_up_no_work() {
    check("a program does not wake up", &Config { programs_starve: true, programs: 2, ..BASE });
    check("a program stands still", &Config { programs_starve: true, watchdog: true, ..BASE });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn a_thread_that_stands_still_holds_up_no_work() {
    check("no processors", &WATCHED);
}

#[test]
#[ignore = "deep"]
fn deep() {
    check("two programs, no processors", &Config { programs: 2, ..WATCHED });
}

/// Each mistake is found, by the rule that it breaks.
mod wrong {
    use super::*;

    fn finds(wrong: Wrong, config: Config) {
        check("wrong", &Config { wrong, ..config });
    }

    #[test]
    #[should_panic(expected = "work waits for ever")]
    fn a_raise_without_a_kick() {
        finds(Wrong::NoKick, BASE);
    }

    #[test]
    #[should_panic(expected = "work waits for ever")]
    fn a_sleep_without_a_look() {
        finds(Wrong::SleepsBlindly, BASE);
    }

    #[test]
    #[should_panic(expected = "a program that was called sleeps on")]
    fn a_bell_that_is_kept() {
        finds(Wrong::KeepsTheBell, BASE);
    }

    #[test]
    #[should_panic(expected = "a program that was called sleeps on")]
    fn a_bell_that_is_taken_over() {
        finds(Wrong::TakesOverTheBell, Config { programs: 2, ..WATCHED });
    }

    #[test]
    #[should_panic(expected = "work waits for ever")]
    fn a_thread_that_waits_for_a_program() {
        finds(Wrong::AsideForEver, Config { programs_starve: true, ..BASE });
    }

    #[test]
    #[should_panic(expected = "two threads have the CPU")]
    fn a_cpu_that_is_lent_twice() {
        finds(Wrong::LentTwice, Config { programs: 2, ..BASE });
    }

    #[test]
    #[should_panic(expected = "work waits for ever")]
    fn a_program_that_leaves_with_work() {
        finds(Wrong::LeavesWithWork, BASE);
    }

    #[test]
    #[should_panic(expected = "work waits for ever")]
    fn looks_that_begin_anew() {
        finds(Wrong::NeverOverdue, WATCHED);
    }

    #[test]
    #[should_panic(expected = "work waits for ever")]
    fn a_thread_that_is_let_go_in_vain() {
        finds(Wrong::LetGoAgain, WATCHED);
    }

    #[test]
    #[should_panic(expected = "the thread never comes home")]
    fn a_thread_that_stays_away() {
        finds(Wrong::StaysAway, WATCHED);
    }
}

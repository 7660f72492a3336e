use napier_core::context::PollContext;

use super::lanes::Doing;
use super::*;

fn drawn() -> Vec<Timeline> {
    let modes = Mode::parse_list(DRAWN).expect("names of modes");
    modes.into_iter().map(|mode| Timeline::of(mode).expect("it can be drawn")).collect()
}

fn of(name: &str) -> Timeline {
    Timeline::of(Mode::parse(name).expect("a mode")).expect("it can be drawn")
}

#[test]
fn every_packet_is_worked_for_in_every_mode() {
    for timeline in drawn() {
        let waits_ns = timeline.numbers().waits_ns;
        assert_eq!(waits_ns.len(), ARRIVALS_US.len(), "{}", timeline.mode);
        assert!(waits_ns.iter().all(|ns| *ns >= SERVICE.ns), "{}: {waits_ns:?}", timeline.mode);
    }
}

#[test]
fn a_cpu_does_one_thing_at_a_time() {
    for timeline in drawn() {
        let blocks = timeline.levels().into_iter().chain(timeline.program());
        let mut blocks: Vec<_> = blocks.map(|(stretch, _)| (stretch.from, stretch.to)).collect();
        blocks.sort_unstable();
        assert!(blocks.is_sorted_by(|a, b| a.1 <= b.0), "{}: {blocks:?}", timeline.mode);
    }
}

#[test]
fn without_deferral_each_packet_interrupts_and_with_it_the_timer_polls() {
    let (base, deferred) = (of("base").numbers(), of("defer20").numbers());
    assert_eq!((base.interrupts, base.timers, base.polls), (8, 0, 8));
    assert_eq!(deferred.interrupts, 1, "the first, then all is masked");
    assert_eq!(deferred.polls, deferred.timers + 1, "each timer polls once");
    assert!(deferred.waits_ns.iter().max() > base.waits_ns.iter().max(), "packets wait for the timer");
    let (unmasked, polls) = of("defer20").afterwards().expect("masked at the end of the picture");
    assert!(unmasked.is_some() && polls < 100, "100 deferrals since the last packet, some of them in the picture");
}

#[test]
fn a_suspended_instance_is_polled_by_its_program_alone() {
    let timeline = of("suspend20");
    let finds = timeline.finds(|context| context == PollContext::User);
    assert!(
        finds.iter().any(|(_, work)| *work > 1),
        "what came while the program worked is found by its next wait: {finds:?}"
    );
    let suspended: Vec<_> = timeline.timers().into_iter().filter(|armed| armed.after == Span::from_ms(20)).collect();
    assert!(!suspended.is_empty() && suspended.iter().all(|armed| !armed.fired), "the program was never late");
    let softirqs = timeline.levels();
    for armed in suspended {
        let (from, to) = (armed.stretch.from, armed.stretch.to);
        assert!(!softirqs.iter().any(|(stretch, _)| stretch.from > from && stretch.to < to), "{from:?} to {to:?}");
    }
}

#[test]
fn who_polls_for_ever_is_busy_all_the_time_and_is_not_interrupted() {
    for (name, cpu) in [("fullbusy", 0), ("threaded-busy-poll", 1), ("group", 1)] {
        let timeline = of(name);
        let numbers = timeline.numbers();
        assert_eq!((numbers.interrupts, numbers.busy_pct[cpu]), (0, 100), "{name}");
        let lane = if cpu == 0 { timeline.program() } else { timeline.poller() };
        assert!(lane.iter().any(|(_, doing)| *doing == Doing::Busy), "{name}");
    }
}

#[test]
fn the_same_mode_makes_the_same_picture() {
    assert_eq!(svg(&of("napibusy")), svg(&of("napibusy")));
    assert!(svg(&of("napibusy")).contains("busy_poll_usecs 64"));
}

#[test]
fn a_pool_of_workers_is_not_drawn_and_late_packets_are_said() {
    let error = Timeline::of(Mode::Workqueue).expect_err("no picture");
    assert_eq!(error, TimelineError::Workers { mode: Mode::Workqueue });
    let table = table(&[Mode::Defer { us: 1_000_000 }]).expect("a table");
    assert!(table.contains("later than the run lasts"), "{table}");
}

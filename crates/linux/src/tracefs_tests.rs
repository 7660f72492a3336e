//! What tracefs prints, read.

use super::*;

#[test]
fn lines_of_the_pipe_are_read() {
    let text = "CPU:1 [LOST 12 EVENTS]\n   my [x]-7-123     [001] ..s1.  5123.000456: napi_poll: napi poll on napi struct \
                00000000c1f4e0d5 for device vd1 work 3 budget 64\n";
    let recorded = Recorded::parse(text);
    let event = &recorded.events[0];
    assert_eq!((recorded.lost, event.cpu, event.tid, event.at_us), (12, 1, 123, 5_123_000_456));
    assert_eq!(event.thread, "my [x]-7");
    assert_eq!(
        (event.name.as_str(), event.field("work"), event.field("device"), event.in_softirq),
        ("napi_poll", Some("3"), Some("vd1"), true)
    );
    let by_program = text.replace("..s1.", "..b1.");
    assert!(!Recorded::parse(&by_program).events[0].in_softirq);
}

#[test]
fn what_was_overrun_is_counted() {
    let mut seen = EventCounts::default();
    let stats = "entries: 7\noverrun: 3\ncommit overrun: 0\nbytes: 400\ndropped events: 1\nread events: 9\n";
    seen.add(stats);
    seen.add(stats);
    assert_eq!((seen, seen.total()), (EventCounts { kept: 14, overrun: 8, taken: 18 }, 22));
    assert_eq!(seen.ever(), 40);
}

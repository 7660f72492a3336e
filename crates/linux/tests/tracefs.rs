//! The kernel's polls, recorded in an instance of tracefs.

use std::net::UdpSocket;

use napier_linux::VethConfig;
use napier_linux::tracefs::{NAPI_POLL, Recorded, TraceEvent, Tracer};
use napier_testkit::eventually;

/// Datagrams that were received, as far as their polls are recorded.
fn received(events: &[TraceEvent]) -> u64 {
    events.iter().map(|event| event.field("work").expect("work").parse::<u64>().expect("a number")).sum()
}

#[test]
fn polls_are_recorded() {
    let test = "polls_are_recorded";
    // Interfaces of other tests have other names, and their polls are not recorded.
    let name = format!("polls{}", std::process::id());
    let ends = napier_testnet::ends(("left", &["10.9.0.1/24"]), (&name, &["10.9.0.2/24"]));
    let Some(pair) = napier_testnet::pair(test, &VethConfig { gro: true, tso: false, ..ends }) else { return };
    let mut tracer = match Tracer::new() {
        Ok(tracer) => tracer,
        Err(error) if error.is_privilege() => return napier_testkit::skip!(test, "{error}"),
        Err(error) => panic!("{error}"),
    };
    let filter = format!("dev_name == \"{}\"", pair.right().name());
    tracer.record(NAPI_POLL, Some(&filter)).expect("an event");
    let socket = |end: &napier_linux::VethEnd, at: &str| {
        let at = at.to_owned();
        end.netns().run(move || UdpSocket::bind(at)).expect("entered").expect("bound")
    };
    let (from, to) = (pair.left(), pair.right());
    let [source, sink] = [(from, "10.9.0.1:0"), (to, "10.9.0.2:0")].map(|(end, at)| socket(end, at));
    for _ in 0..20 {
        source.send_to(b"one", sink.local_addr().expect("bound")).expect("sent");
        sink.recv(&mut [0; 8]).expect("received");
    }
    // A poll is recorded when it is over: a datagram may be received before. And more may come, which the kernel itself sends.
    let mut recorded = Recorded::default();
    eventually("all are recorded", || {
        let more = tracer.take().expect("events");
        recorded.events.extend(more.events);
        recorded.lost += more.lost;
        received(&recorded.events) >= 20
    });
    assert_eq!(recorded.lost, 0, "{recorded:?}");
    let is_new = |events: &[TraceEvent], before: &[TraceEvent]| events.iter().all(|event| !before.contains(event));
    assert!(is_new(&tracer.take().expect("events").events, &recorded.events), "what was taken is there no more");
    // A reader that has what it was seen to be there ends, however much there is: the rest is for the next one.
    for _ in 0..400 {
        source.send_to(b"one", sink.local_addr().expect("bound")).expect("sent");
        sink.recv(&mut [0; 8]).expect("received");
    }
    eventually("these are recorded", || tracer.seen().expect("counts").kept >= 400);
    let all = tracer.seen().expect("counts").kept;
    let first = tracer.take_of(10).expect("events").events;
    assert!((10..all).contains(&(first.len() as u64)), "{} of {all}", first.len());
    let rest = tracer.take().expect("events").events;
    assert!(
        (first.len() + rest.len()) as u64 >= all && is_new(&rest, &first),
        "{} and {} of {all}",
        first.len(),
        rest.len()
    );
    assert!(tracer.take_of(0).expect("none").events.is_empty());
    // veth polls in the softirq of the sender, and nothing is kept where nothing is to be.
    assert!(recorded.events.iter().any(|event| event.in_softirq), "{recorded:?}");
    tracer.keep(false).expect("off");
    tracer.clear().expect("cleared");
    source.send_to(b"one", sink.local_addr().expect("bound")).expect("sent");
    sink.recv(&mut [0; 8]).expect("received");
    assert_eq!(tracer.seen().expect("counts").total(), 0);
    tracer.stop().expect("stopped");
    drop(tracer);
    let left = std::fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    let own = format!("napier-{}-", std::process::id());
    assert!(!left.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with(&own)));
}

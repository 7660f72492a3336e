//! The kernel's polls, recorded in an instance of tracefs.

mod common;

use std::net::UdpSocket;

use common::{config, pair};
use napier_linux::VethConfig;
use napier_linux::tracefs::{NAPI_POLL, Tracer};

#[test]
fn polls_are_recorded() {
    let test = "polls_are_recorded";
    let Some(pair) = pair(test, &VethConfig { gro: true, tso: false, ..config() }) else { return };
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
    assert!(tracer.seen().expect("counts").total() >= 20);
    let recorded = tracer.take().expect("events");
    let seen: u64 =
        recorded.events.iter().map(|event| event.field("work").expect("work").parse::<u64>().expect("a number")).sum();
    assert!(seen >= 20 && recorded.lost == 0, "{recorded:?}");
    assert!(tracer.take().expect("events").events.is_empty());
    // A reader that has what it was seen to be there ends, however much there is: the rest is for the next one.
    for _ in 0..400 {
        source.send_to(b"one", sink.local_addr().expect("bound")).expect("sent");
        sink.recv(&mut [0; 8]).expect("received");
    }
    let all = tracer.seen().expect("counts").kept;
    let first = tracer.take_of(10).expect("events").events.len() as u64;
    assert!((10..all).contains(&first), "{first} of {all}");
    assert_eq!(first + tracer.take().expect("events").events.len() as u64, all);
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

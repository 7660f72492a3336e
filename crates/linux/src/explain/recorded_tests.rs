//! What a kernel recorded (Linux 6.18, a veth pair, one connection; timers that found nothing are cut out), put together. How many requests there
//! are was counted by another rule: data that the program read of a socket, and then a send of it.

use std::time::Duration;

use super::*;

struct Recording {
    name: &'static str,
    text: &'static str,
    /// What many of its polls come from, and who made them.
    cause: Cause,
    polled_by: PolledBy,
}

macro_rules! recording {
    ($name:literal, $cause:ident, $by:ident) => {
        Recording {
            name: $name,
            text: include_str!(concat!("recorded/", $name, ".jsonl")),
            cause: Cause::$cause,
            polled_by: PolledBy::$by,
        }
    };
}

const RECORDINGS: &[Recording] = &[
    recording!("redis-base", Raised, Softirq),
    recording!("memcached-base", Raised, Softirq),
    recording!("blocking-base", Raised, Softirq),
    recording!("asyncio-defer20", Timer, Softirq),
    recording!("redis-threaded", Raised, NapiThread),
    recording!("redis-suspend20", Program, Program),
    recording!("memcached-napibusy", Program, Program),
];

/// Requests of each.
const REQUESTS: u64 = 12;

fn told(text: &str) -> (Vec<Request>, Explained) {
    let mut lines = text.lines();
    let (mut story, mut tally) = (Story::default(), Tally::default());
    story.know(serde_json::from_str(lines.next().expect("threads")).expect("threads"));
    let mut requests = Vec::new();
    for line in lines {
        let event: PathEvent = serde_json::from_str(line).expect("an event");
        if let Some(request) = story.add(&event) {
            tally.add(&request);
            requests.push(request);
        }
    }
    story.end();
    (requests, tally.explained(Duration::from_secs(1), story.left()))
}

#[test]
fn recorded_requests_are_followed_from_end_to_end() {
    for Recording { name, text, cause, polled_by } in RECORDINGS {
        let (requests, seen) = told(text);
        assert_eq!(seen.requests + seen.unmatched, REQUESTS, "{name}: {seen:#?}");
        assert!(seen.unmatched <= 1 && seen.unanswered == 0, "{name}: the first one began before: {seen:#?}");
        let many = |count: u64| count * 3 > seen.requests;
        assert!(many(seen.causes.get(cause).copied().unwrap_or(0)), "{name}: {:?}", seen.causes);
        assert!(many(seen.polled_by.get(polled_by).copied().unwrap_or(0)), "{name}: {:?}", seen.polled_by);
        for request in &requests {
            let has = |stage: Stage| request.stage_ns(stage).is_some();
            assert!([Stage::Poll, Stage::Socket, Stage::Answer].into_iter().all(has), "{name}: {request:?}");
            assert_eq!((has(Stage::Wake), has(Stage::Read)), (!has(Stage::Awake), !has(Stage::Awake)), "{name}");
        }
        let sum: f64 = seen.stages.iter().map(|stage| stage.mean_us).sum();
        assert!((sum - seen.whole.mean_us).abs() < 1e-6, "{name}");
    }
}

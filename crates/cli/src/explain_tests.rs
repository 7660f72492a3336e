//! What `napier explain` prints.

use std::time::Duration;

use napier_linux::explain::{Happened, KnownThreads, Story, Tally};

use super::*;

/// So many requests of 10 us, of which 6 us lie between read and answer, and those that were left.
fn seen(requests: u64, left: (u64, u64)) -> Explained {
    let (mut story, mut tally) = (Story::default(), Tally::default());
    story.know(KnownThreads { program: [70].into(), ..KnownThreads::default() });
    let socket = 9;
    for nth in 0..requests {
        let events = [
            (0, Happened::Raised),
            (500, Happened::Softirq),
            (1000, Happened::Taken),
            (2000, Happened::Ready { socket }),
            (2500, Happened::Waking { woken: 70 }),
            (3000, Happened::Switch { from: 0, name: "swapper/0".to_owned(), to: 70 }),
            (4000, Happened::Read { socket, bytes: 8 }),
            (10_000, Happened::Queued),
            (11_000, Happened::Sent { socket }),
        ];
        for (at, what) in events {
            let in_softirq = at < 2600;
            let event = PathEvent {
                at_ns: nth * 20_000 + at + 1,
                cpu: 0,
                tid: if in_softirq { 0 } else { 70 },
                in_softirq,
                in_irq: false,
                what,
            };
            story.add(&event).into_iter().for_each(|request| tally.add(&request));
        }
    }
    tally.explained(Duration::from_secs(5), left)
}

#[test]
fn the_answer_is_first_and_the_table_fits() {
    let seen = seen(100, (2, 1));
    let because = seen.because(Stage::Answer, "srv");
    let answer = answer(&seen, "srv", Some(&because));
    assert_eq!(
        answer,
        "of 10.0 us that a request takes, 6.0 us (60 %) are spent between read and answer: srv itself works, and sends"
    );
    let page = text(&seen, "srv", 70, &answer);
    assert!(page.starts_with("of 10.0 us that a request takes"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    for part in
        ["wake-up to running", "60.0 %", "100.0 %", "2 receives of which no poll was seen; 1 request without an answer"]
    {
        assert!(page.replace("\n         ", " ").contains(part), "{part}: {page}");
    }
    assert!(!page.contains("LOST"), "{page}");
}

#[test]
fn stages_add_up_to_the_whole() {
    let seen = seen(1000, (0, 0));
    let sum: f64 = seen.stages.iter().map(|stage| stage.mean_us).sum();
    assert!((sum - seen.whole.mean_us).abs() < 1e-9 && (sum - 10.0).abs() < 1e-9, "{sum}");
    let shares: f64 = seen.stages.iter().map(|stage| stage.share_pct).sum();
    assert!((shares - 100.0).abs() < 1e-9, "{shares}");
    assert_eq!(seen.whole.histogram, [(16_384, 1000)]);
}

#[test]
fn without_a_request_it_says_why() {
    let none = |left| answer(&seen(0, left), "srv", None);
    assert!(none((0, 0)).contains("it received nothing"), "{}", none((0, 0)));
    assert!(none((0, 3)).contains("3 requests, and nothing was sent"), "{}", none((0, 3)));
    assert!(none((7, 0)).contains("7 receives of which no poll was seen"), "{}", none((7, 0)));
    let mut lost = Tally::default();
    lost.lost(4000);
    let page = text(&lost.explained(Duration::from_secs(1), (0, 0)), "srv", 70, "nothing");
    assert!(page.contains("LOST   4000 events came faster"), "{page}");
}

//! What a run says of what was seen.

use super::*;

#[test]
fn the_end_begins_with_whether_it_acted() {
    let observed = |acts| Observation {
        acts,
        seconds: 1.0,
        packets: Some(900),
        taken: None,
        polls: None,
        polls_unknown: None,
        connections: facts::Through::default(),
        unreached: Vec::new(),
        lines: Vec::new(),
    };
    let polls = napier_linux::observe::Shares { program: 90, softirq: 10, ..Default::default() };
    let outcome = RunOutcome {
        first: Some(Observation { polls: Some(polls), ..observed(Acts::Yes) }),
        program: "srv".to_owned(),
        ..RunOutcome::default()
    };
    let said = outcome.answer("suspend20", "eth0", false).expect("something");
    assert_eq!(said, "suspend20 acted; polls of the last window: 100, srv 90 %, softirq 10 %");
    let of = |acts: Option<Acts>, packets, is_watched| {
        let outcome = RunOutcome { first: acts.map(observed), packets, ..RunOutcome::default() };
        outcome.answer("suspend20", "eth0", is_watched)
    };
    assert_eq!(of(Some(Acts::Yes), Some(4150), false).unwrap(), "suspend20 acted: 4150 packets came to eth0");
    assert!(of(Some(Acts::No), Some(4150), false).unwrap().starts_with("suspend20 DID NOT ACT: 4150 packets"));
    assert!(of(Some(Acts::Unknown), None, false).unwrap().contains("what polls is not shown"));
    assert_eq!(of(None, Some(3), false), None, "a script is told nothing of nothing");
    assert_eq!(of(None, Some(3), true).unwrap(), "it was not seen whether suspend20 acted: 3 packets came to eth0");
}

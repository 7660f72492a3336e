use super::*;

#[test]
fn what_senders_and_protocols_are_told() {
    for (code, number, errno) in [
        (XmitCode::Success, 0, None),
        (XmitCode::Drop, 1, Some(Errno::ENOBUFS)),
        (XmitCode::Congested, 2, None),
        (XmitCode::Error(Errno::ENETDOWN), -100, Some(Errno::ENETDOWN)),
    ] {
        assert_eq!(code.number(), number);
        assert_eq!(code.errno(), errno);
    }
}

#[test]
fn drops_are_counted_by_reason_under_distinct_names() {
    let mut drops = TxDrops::default();
    for (at, reason) in DropReason::ALL.into_iter().enumerate() {
        for _ in 0..=at {
            drops.count(reason);
        }
        assert!(DropReason::ALL[..at].iter().all(|other| other.name() != reason.name()));
    }
    assert!(drops.iter().enumerate().all(|(at, (reason, pkts))| pkts == at as u64 + 1 && drops.get(reason) == pkts));
    assert_eq!(drops.total(), (1..=DropReason::ALL.len() as u64).sum());
}

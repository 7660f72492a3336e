//! What is wrong with what two snapshots show: packets that come and that nothing polls. Pure.

use super::snapshot::{Count, Instance, Snapshot};

/// With fewer packets nothing is said.
const PACKETS_MIN: u64 = 20;

/// A line for each row whose packets pass by what shall poll them.
pub(super) fn verdicts(then: &Snapshot, now: &Snapshot) -> Vec<String> {
    let before = |one: &Instance| {
        then.instances
            .iter()
            .find(|known| (&known.device, &known.queue, &known.id) == (&one.device, &one.queue, &one.id))
    };
    now.instances.iter().filter_map(|one| verdict(before(one)?, one)).collect()
}

fn verdict(then: &Instance, now: &Instance) -> Option<String> {
    let more = |now: Count, then: Count| now?.checked_sub(then?);
    let packets = more(now.packets, then.packets).filter(|packets| *packets >= PACKETS_MIN)?;
    let device = &now.device;
    match (more(now.taken, then.taken), more(now.polls_all, then.polls_all)) {
        (Some(taken), _) if taken < packets / 2 => Some(format!(
            "{device}: packets come and pass by its NAPI instances, which took {taken} of {packets}: the peer of a veth has to send without \
             segmentation offload (docs/doctor/nothing-polls.md)"
        )),
        (None, Some(0)) => {
            Some(format!("{device}: {packets} packets came, and nothing polled (docs/doctor/nothing-polls.md)"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(then: [Count; 3], now: [Count; 3]) -> Vec<String> {
        let snapshot = |[packets, polls_all, taken]: [Count; 3]| Snapshot {
            instances: vec![Instance { device: "eth0".to_owned(), packets, polls_all, taken, ..Instance::default() }],
            ..Snapshot::default()
        };
        verdicts(&snapshot(then), &snapshot(now))
    }

    #[test]
    fn packets_that_nothing_polls_are_told() {
        let zero = [Some(0); 3];
        assert!(said(zero, [Some(4000), Some(0), Some(0)])[0].contains("took 0 of 4000"));
        assert!(
            said([Some(0), Some(0), None], [Some(4000), Some(0), None])[0]
                .contains("4000 packets came, and nothing polled")
        );
        // Another interface with that name was polled, in another namespace.
        assert_eq!(said(zero, [Some(4000), Some(9000), Some(0)]).len(), 1);
        for fine in
            [[Some(4000), Some(100), Some(4000)], [Some(10), Some(0), Some(0)], [Some(4000), None, None], [None; 3]]
        {
            assert_eq!(said(zero, fine), [""; 0], "{fine:?}");
        }
        assert_eq!(said([None; 3], [Some(4000), Some(0), Some(0)]), [""; 0], "it is new");
    }
}

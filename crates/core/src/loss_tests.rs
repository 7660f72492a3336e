use super::*;

const MSS: u32 = 1000;
/// Near the end of the numbers, so that they begin anew.
const START: u32 = u32::MAX - 2500;

fn at(bytes: u32) -> u32 {
    START.wrapping_add(bytes)
}

/// An acknowledgement of the first `bytes`, when `sent` are sent.
fn ack(bytes: u32, sent: u32) -> Ack {
    Ack { number: at(bytes), window: 500, selective: false, sent_to: at(sent), longest: MSS }
}

fn selective(bytes: u32, sent: u32) -> Ack {
    Ack { selective: true, ..ack(bytes, sent) }
}

fn begun() -> Losses {
    let mut losses = Losses::new();
    assert_eq!(losses.acknowledged(&ack(0, 0)), Handing::Once);
    losses
}

/// After a loss that was repaired, with `bytes` acknowledged.
fn repaired(bytes: u32) -> Losses {
    let mut losses = begun();
    let sent = bytes - MSS;
    let handed = [(); 3].map(|()| losses.acknowledged(&ack(0, sent)));
    assert_eq!(handed, [Handing::Once, Handing::Once, Handing::Times(4)]);
    losses.sent_again(at(MSS), at(sent));
    assert_eq!(losses.acknowledged(&ack(bytes, bytes)), Handing::Once, "the end of the repair opens nothing");
    losses
}

#[test]
fn an_acknowledgement_is_worth_its_bytes() {
    let steps = |losses: &Losses, acked| losses.clone().acknowledged(&ack(acked, 100_000));
    let parts = |parts| Handing::Parts { first: at(MSS), parts };
    let slow = begun();
    let table = [(1, Handing::Once), (1000, Handing::Once), (1001, parts(1)), (2000, parts(1)), (9000, parts(1))];
    for (acked, handed) in table {
        assert_eq!(steps(&slow, acked), handed, "{acked}");
    }
    let open = repaired(10_000);
    let parts = |parts| Handing::Parts { first: at(10_000 + MSS), parts };
    let table = [(1000, Handing::Once), (2000, parts(1)), (2001, parts(2)), (9000, parts(8)), (90_000, parts(44))];
    for (acked, handed) in table {
        assert_eq!(steps(&open, 10_000 + acked), handed, "{acked}");
    }
}

#[test]
fn nothing_sent_has_no_parts() {
    let mut losses = begun();
    assert_eq!(losses.acknowledged(&Ack { longest: 0, ..ack(1, 1) }), Handing::Once);
}

#[test]
fn what_is_no_duplicate() {
    let mut losses = begun();
    for _ in 0..9 {
        assert_eq!(losses.acknowledged(&ack(0, 0)), Handing::Once, "nothing is under way");
    }
    for window in 0..9 {
        assert_eq!(losses.acknowledged(&Ack { window, ..ack(0, 9000) }), Handing::Once, "windows");
    }
    let mut losses = repaired(10_000);
    for _ in 0..9 {
        assert_eq!(losses.acknowledged(&ack(0, 19_000)), Handing::Once, "old");
        assert_eq!(losses.acknowledged(&ack(30_000, 19_000)), Handing::Once, "never sent");
    }
    for _ in 0..9 {
        assert_eq!(losses.acknowledged(&selective(10_000, 10_001)), Handing::Once, "a FIN alone");
    }
}

#[test]
fn selective_duplicates_may_change_the_window() {
    let mut losses = begun();
    let handed = [1, 2, 3].map(|window| losses.acknowledged(&Ack { window, ..selective(0, 9000) }));
    assert_eq!(handed, [Handing::Once, Handing::Once, Handing::Times(4)]);
}

#[test]
fn few_segments_need_fewer_duplicates() {
    for (sent, needed) in [(1001, 1), (2000, 1), (3000, 2), (4000, 3), (9000, 3)] {
        let mut losses = begun();
        for _ in 1..needed {
            assert_eq!(losses.acknowledged(&selective(0, sent)), Handing::Once, "{sent}");
        }
        assert_eq!(losses.acknowledged(&selective(0, sent)), Handing::Times(4), "{sent}");
    }
    let mut losses = begun();
    assert_eq!([(); 2].map(|()| losses.acknowledged(&ack(0, 2000))), [Handing::Once; 2], "may be reordered");
}

#[test]
fn each_hole_is_filled_without_more_duplicates() {
    let mut losses = begun();
    for _ in 0..3 {
        losses.acknowledged(&ack(0, 10_000));
    }
    losses.sent_again(at(MSS), at(10_000));
    assert_eq!([(); 6].map(|()| losses.acknowledged(&ack(0, 12_000))), [Handing::Once; 6]);
    assert_eq!(losses.acknowledged(&ack(4000, 12_000)), Handing::Times(4));
    losses.sent_again(at(5000), at(12_000));
    assert_eq!(losses.acknowledged(&ack(7000, 12_000)), Handing::Times(4));
    losses.sent_again(at(8000), at(12_000));
    assert_eq!(losses.acknowledged(&ack(9999, 10_000)), Handing::Once, "a FIN may be what is left");
    assert_eq!(losses.acknowledged(&ack(10_000, 12_000)), Handing::Once, "all that was sent when it began");
    assert_eq!(losses.acknowledged(&ack(12_000, 12_000)), Handing::Parts { first: at(11_000), parts: 1 });
}

/// What the machine below sends again after another window is no time-out.
#[test]
fn another_window_in_a_repair() {
    let mut losses = begun();
    for _ in 0..3 {
        losses.acknowledged(&ack(0, 10_000));
    }
    losses.sent_again(at(MSS), at(10_000));
    for _ in 0..4 {
        assert_eq!(losses.acknowledged(&Ack { window: 7, ..ack(0, 10_000) }), Handing::Once);
    }
    losses.sent_again(at(MSS), at(10_000));
    assert_eq!(losses.acknowledged(&ack(4000, 10_000)), Handing::Times(4), "still a repair");
}

#[test]
fn duplicates_after_a_time_out_are_kept_back() {
    let mut losses = repaired(10_000);
    losses.sent_again(at(11_000), at(20_000));
    for _ in 0..9 {
        assert_eq!(losses.acknowledged(&selective(10_000, 20_000)), Handing::Never);
    }
    let update = Ack { window: 7, ..ack(10_000, 20_000) };
    assert_eq!(losses.acknowledged(&update), Handing::Once, "a window is news");
    assert_eq!(losses.acknowledged(&ack(14_000, 20_000)), Handing::Once);
    assert_eq!(losses.acknowledged(&ack(20_000, 22_000)), Handing::Once);
    let handed = losses.acknowledged(&ack(29_000, 30_000));
    assert_eq!(handed, Handing::Parts { first: at(21_000), parts: 1 }, "exponentially");
}

#[test]
fn what_is_sent_again_and_is_no_time_out() {
    let mut losses = repaired(10_000);
    losses.sent_again(at(10_000), at(20_000));
    assert_eq!(losses.acknowledged(&ack(10_000, 20_000)), Handing::Once, "a keep-alive");
    let mut fresh = Losses::new();
    fresh.sent_again(at(1), at(1));
    assert_eq!(fresh, Losses::new(), "a SYN");
}

#[test]
fn data_carries_acknowledgements() {
    let mut losses = begun();
    losses.carried(at(5000), 500, at(6000));
    assert_eq!(losses.acknowledged(&ack(6000, 6000)), Handing::Once, "only one segment is new");
    losses.carried(at(4000), 500, at(6000));
    losses.carried(at(8000), 500, at(6000));
    assert_eq!(losses.acknowledged(&ack(6000, 6000)), Handing::Once, "old ones and wrong ones say nothing");
    losses.sent_again(at(7000), at(9000));
    losses.carried(at(9000), 500, at(9000));
    assert_eq!(losses.acknowledged(&ack(11_000, 11_000)), Handing::Parts { first: at(10_000), parts: 1 }, "repaired");
}

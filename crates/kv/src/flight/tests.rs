use super::*;

fn sent(record: u32) -> Sent {
    Sent { record, is_set: false, intended_ns: 10, actual_ns: u64::from(record) }
}

#[test]
fn a_reply_finds_its_request_once() {
    let mut flight = InFlight::new(4);
    let ids = [1, 2, 3].map(|record| flight.send(sent(record)).0);
    assert_eq!((ids, flight.out()), ([0, 1, 2], 3));
    assert_eq!(flight.receive(1), Some(sent(2)), "in any order");
    assert_eq!(flight.receive(1), None, "a second reply");
    assert_eq!(flight.receive(77), None, "never sent");
    assert_eq!(flight.out(), 2);
}

#[test]
fn what_stays_out_for_a_whole_window_is_lost() {
    let mut flight = InFlight::new(4);
    let (first, _) = flight.send(sent(0));
    let lost: Vec<_> = (1..=4).filter_map(|record| flight.send(sent(record)).1).collect();
    assert_eq!((flight.out(), lost), (4, vec![sent(0)]));
    assert_eq!(flight.receive(first), None, "its late reply is not taken for the newer one's");
    assert_eq!(flight.receive(4), Some(sent(4)));
    assert_eq!(flight.reset(2), 3);
    assert_eq!((flight.out(), flight.receive(3)), (0, None));
    assert_eq!(flight.send(sent(0)).0, 5, "ids go on");
}

#[test]
fn an_id_whose_place_is_taken_is_passed_over_until_all_are() {
    let mut flight = InFlight::new(4);
    let send = |flight: &mut InFlight, record| {
        flight.skip_taken();
        flight.send(sent(record))
    };
    assert_eq!([0, 1, 2, 3].map(|record| send(&mut flight, record)), [0, 1, 2, 3].map(|id| (id, None)));
    flight.receive(2);
    assert_eq!(send(&mut flight, 4), (6, None));
    assert_eq!(send(&mut flight, 5), (7, Some(sent(3))));
}

#[test]
fn the_oldest_are_given_up_in_their_order() {
    let mut flight = InFlight::new(4);
    (1..=4).for_each(|record| _ = flight.send(sent(record)));
    flight.receive(1);
    assert_eq!([flight.give_up(4), flight.give_up(4), flight.give_up(4)], [Some(sent(1)), Some(sent(3)), None]);
    assert_eq!((flight.out(), flight.give_up(9), flight.give_up(9)), (1, Some(sent(4)), None));
}

#[test]
fn ids_go_round() {
    let mut flight = InFlight::new(1);
    for turn in 0..70_000_u32 {
        let (id, lost) = flight.send(sent(turn));
        assert_eq!((id, lost), (turn as u16, None));
        assert_eq!(flight.receive(id), Some(sent(turn)));
    }
}

#[test]
#[should_panic(expected = "no power of two")]
fn refuses_a_crooked_window() {
    let _ = InFlight::new(3);
}

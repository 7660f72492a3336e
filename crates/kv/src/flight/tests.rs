use super::*;

fn sent(record: u32) -> Sent {
    Sent { record, is_set: false, intended_ns: 10, actual_ns: 12 }
}

#[test]
fn a_reply_finds_its_request_once() {
    let mut flight = InFlight::new(4);
    let ids = [flight.send(sent(1)), flight.send(sent(2)), flight.send(sent(3))];
    assert_eq!((ids, flight.out()), ([0, 1, 2], 3));
    assert_eq!(flight.receive(1), Some(sent(2)), "in any order");
    assert_eq!(flight.receive(1), None, "a second reply");
    assert_eq!(flight.receive(77), None, "never sent");
    assert_eq!((flight.out(), flight.lost()), (2, 0));
}

#[test]
fn what_stays_out_for_a_whole_window_is_lost() {
    let mut flight = InFlight::new(4);
    let first = flight.send(sent(0));
    (1..=4).for_each(|record| _ = flight.send(sent(record)));
    assert_eq!((flight.out(), flight.lost()), (4, 1));
    assert_eq!(flight.receive(first), None, "its late reply is not taken for the newer one's");
    assert_eq!(flight.receive(4), Some(sent(4)));
    assert_eq!(flight.abandon(), 3);
    assert_eq!((flight.out(), flight.lost()), (0, 4));
}

#[test]
fn ids_go_round() {
    let mut flight = InFlight::new(1);
    for turn in 0..70_000_u32 {
        let id = flight.send(sent(turn));
        assert_eq!(id, turn as u16);
        assert_eq!(flight.receive(id), Some(sent(turn)));
    }
    assert_eq!(flight.lost(), 0);
}

#[test]
#[should_panic(expected = "no power of two")]
fn refuses_a_crooked_window() {
    let _ = InFlight::new(3);
}

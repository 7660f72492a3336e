use super::*;

fn told(error: Error, hard: bool) -> Told {
    Told { error, hard }
}

#[test]
fn codes_of_unreachable() {
    use Error as E;
    let v4 = [
        told(E::NetUnreachable, false),
        told(E::HostUnreachable, false),
        told(E::NoProtocol, true),
        told(E::Refused, true),
        told(E::TooBig, false),
        told(E::NotSupported, false),
        told(E::NetUnreachable, true),
        told(E::HostDown, true),
        told(E::NoNet, true),
        told(E::NetUnreachable, true),
        told(E::HostUnreachable, true),
        told(E::NetUnreachable, false),
        told(E::HostUnreachable, false),
        told(E::HostUnreachable, true),
        told(E::HostUnreachable, true),
        told(E::HostUnreachable, true),
    ];
    for (code, expected) in (0..).zip(v4) {
        assert_eq!(Message::Unreachable(code).told_v4(), Some(expected), "code {code}");
    }
    assert_eq!(Message::Unreachable(16).told_v4(), None);
    let v6 = [
        told(E::NetUnreachable, false),
        told(E::Denied, true),
        told(E::HostUnreachable, false),
        told(E::HostUnreachable, false),
        told(E::Refused, true),
        told(E::Denied, true),
        told(E::Denied, true),
        told(E::Protocol, true),
    ];
    for (code, expected) in (0..).zip(v6) {
        assert_eq!(Message::Unreachable(code).told_v6(), expected, "code {code}");
    }
    for (message, expected) in
        [(Message::TimeExceeded, told(E::HostUnreachable, false)), (Message::Parameter, told(E::Protocol, true))]
    {
        assert_eq!((message.told_v4(), message.told_v6()), (Some(expected), expected));
    }
}

#[test]
fn who_is_told() {
    assert_eq!((OnConnection::of(true), OnConnection::of(false)), (OnConnection::Ends, OnConnection::GoesOn));
    let (hard, soft) = (told(Error::Refused, true), told(Error::HostUnreachable, false));
    // Connected or not, with IP_RECVERR or not.
    for (connected, wants_all, of_hard, of_soft) in
        [(true, false, true, false), (false, false, false, false), (true, true, true, true), (false, true, true, true)]
    {
        assert_eq!(is_for_datagrams(hard, connected, wants_all), of_hard, "{connected} {wants_all}");
        assert_eq!(is_for_datagrams(soft, connected, wants_all), of_soft, "{connected} {wants_all}");
    }
}

#[test]
fn what_a_router_says_lowers_a_path() {
    // told, packet, now, over IPv4, over IPv6
    let table = [
        (1280, 1500, 1500, Some(1280), Some(1280)),
        (1400, 1500, 1500, Some(1400), Some(1400)),
        (1499, 1500, 1500, Some(1499), Some(1499)),
        // No news, or what cannot be true.
        (1500, 1500, 1500, None, None),
        (1400, 1400, 1500, None, None),
        (1400, 1500, 1400, None, None),
        (9000, 1500, 1500, None, None),
        (u32::MAX, 1500, 1500, None, None),
        // Below the least.
        (1279, 1500, 1500, Some(1279), None),
        (552, 1500, 1500, Some(552), None),
        (551, 1500, 1500, Some(552), None),
        (68, 1500, 1500, Some(552), None),
        (68, 600, 552, None, None),
        (1, 1500, 1500, Some(552), None),
        // Old routers.
        (0, 1500, 1500, Some(1492), None),
        (0, 1492, 1492, Some(576), None),
        (0, 1300, 1500, Some(576), None),
        (0, 576, 576, None, None),
    ];
    for (told, packet, now, v4, v6) in table {
        assert_eq!(lowered(true, told, packet, now), v4, "{told} of {packet}, IPv4, now {now}");
        assert_eq!(lowered(false, told, packet, now), v6, "{told} of {packet}, IPv6, now {now}");
    }
}

#[test]
fn a_lowered_path_is_never_raised_nor_below_the_least() {
    for now in (MTU_MIN_V4..=1500).step_by(7) {
        for told in (0..=1600).step_by(3) {
            for (v4, least) in [(true, MTU_MIN_V4), (false, MTU_MIN_V6)] {
                let next = lowered(v4, told, 1500, now);
                assert!(next.is_none_or(|next| next < now && next >= least), "{told} at {now}: {next:?}");
            }
        }
    }
}

#[test]
fn silent_retransmissions_of_full_packets_are_a_black_hole() {
    let mut hole = BlackHole::default();
    let again = |hole: &mut BlackHole, v4, packet| (0..3).filter_map(|_| hole.sent_again(v4, 7, packet)).next();
    assert_eq!((0..2).filter_map(|_| hole.sent_again(true, 7, 1500)).next(), None, "not before the third");
    assert_eq!(hole.sent_again(true, 7, 1500), Some(1280));
    assert_eq!(again(&mut hole, true, 1280), Some(576));
    assert_eq!(again(&mut hole, true, 576), None, "smaller packets are lost for another reason");
    let mut hole = BlackHole::default();
    assert_eq!(again(&mut hole, false, 1500), Some(1280));
    assert_eq!(again(&mut hole, false, 1280), None, "IPv6 has no smaller ones");
    // A short packet that is lost says nothing.
    let mut hole = BlackHole::default();
    assert_eq!((0..50).filter_map(|_| hole.sent_again(true, 7, 60)).next(), None);
}

#[test]
fn what_gets_on_is_no_black_hole() {
    let mut hole = BlackHole::default();
    for seq in 0..100 {
        assert_eq!(hole.sent_again(true, seq, 1500), None);
        assert_eq!(hole.sent_again(true, seq, 1500), None, "another byte each two times");
    }
}

#[test]
fn what_we_say_has_these_types_codes_and_lengths() {
    use super::answers::{Trouble, bytes_max};
    let said = [Trouble::NoPort, Trouble::NotWhole].map(|trouble| [trouble.message(true), trouble.message(false)]);
    assert_eq!(said, [[(3, 3), (1, 4)], [(11, 1), (3, 1)]]);
    assert_eq!([bytes_max(true), bytes_max(false)], [576, 1280]);
}

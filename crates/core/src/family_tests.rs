use super::Bound::{AnyBoth, AnyV4, AnyV6, OneV4, OneV6};
use super::*;

#[test]
fn who_is_in_whose_way() {
    let all = [AnyV4, OneV4, AnyBoth, AnyV6, OneV6];
    // `s`: only if it is the same address.
    let table = ["yyy--", "ysy--", "yyyyy", "--yyy", "--yys"];
    for (a, row) in all.iter().zip(table) {
        for (b, expected) in all.iter().zip(row.chars()) {
            assert_eq!(meet(*a, *b, true), expected != '-', "{a:?} {b:?}");
            assert_eq!(meet(*a, *b, false), expected == 'y', "{a:?} {b:?}");
            assert_eq!(meet(*a, *b, false), meet(*b, *a, false));
        }
    }
}

#[test]
fn who_is_reached() {
    let (ok, family, no_way) = (Ok(()), Err(NotReached::Family), Err(NotReached::NoWay));
    for (socket, bound, expected) in [
        (SocketFamily::V4, AnyV4, [ok, family, family]),
        (SocketFamily::V4, OneV4, [ok, family, family]),
        (SocketFamily::V6, AnyBoth, [ok, ok, ok]),
        (SocketFamily::V6, OneV4, [ok, ok, family]),
        (SocketFamily::V6, AnyV4, [ok, ok, family]),
        (SocketFamily::V6, OneV6, [no_way, no_way, ok]),
        (SocketFamily::V6Only, AnyV6, [no_way, no_way, ok]),
        (SocketFamily::V6Only, OneV6, [no_way, no_way, ok]),
    ] {
        assert_eq!([To::V4, To::Mapped, To::V6].map(|to| over(socket, bound, to)), expected, "{socket:?} {bound:?}");
    }
}

//! A program gets nothing by the engine's privileges that the kernel would refuse it.

use napier_linux::process::HeldSends;

use crate::fast;
use crate::stand::{Stand, rest};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rights/rights.py");

/// What a program says of both kinds of sockets, by each door; `None`, said aloud, where it cannot be.
fn says(test: &str, who: &str) -> Option<[String; 2]> {
    let stand = Stand::with_loopback(test)?;
    let said = [None, Some(fast::library())].map(|library| {
        let (_program, mut said) = stand.program_by((HeldSends::None, library), PROGRAMS, &[who]);
        rest(&mut said)
    });
    if said[0].starts_with("no ") {
        napier_testkit::skip!(test, "{}", said[0].trim());
        return None;
    }
    Some(said)
}

/// Without a capability: streams, then datagrams.
const REFUSED: &str = "priority ok EPERM EPERM mark EPERM\nas the kernel True True True\nkept 6 6 6 6\n\
                       ports EACCES EACCES EACCES\npriority ok EPERM EPERM mark EPERM\n\
                       as the kernel True True True True True\nkept 6 6 6 6\nports EACCES EACCES EACCES\n";

#[test]
fn a_user_gets_no_more_than_the_kernel_gives_it() {
    let Some(said) = says("a_user_gets_no_more_than_the_kernel_gives_it", "user") else { return };
    assert_eq!(said, [REFUSED, REFUSED]);
}

#[test]
fn a_root_of_another_user_namespace_is_none_over_the_network() {
    let Some(said) = says("a_root_of_another_user_namespace_is_none_over_the_network", "guest") else { return };
    assert_eq!(said, [REFUSED, REFUSED]);
}

#[test]
fn a_root_may_what_it_may_at_the_kernel() {
    let Some(said) = says("a_root_may_what_it_may_at_the_kernel", "root") else { return };
    let may = "priority ok ok ok mark ok\nas the kernel True True True\nkept 7 7 7 7\nports ok ok ok\n\
               priority ok ok ok mark ok\nas the kernel True True True True True\nkept 7 7 7 7\nports ok ok ok\n";
    assert_eq!(said, [may, may]);
}

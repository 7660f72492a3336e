//! What the tests of all crates share: the notice of a test that cannot run here. For tests only; it uses no other crate.

#![forbid(unsafe_code)]

use std::fmt::{Arguments, Display};
use std::io::Write as _;

/// Says on standard error that a test cannot run on this machine, and why: `skip!(test, "needs {cpus} CPUs")`. The
/// first argument is the name of the test, as its function has it. The test then returns.
///
/// The line is seen although the test passes: the test harness keeps what the print macros write, and shows it only if
/// the test fails. `.ci/run` counts these lines.
#[macro_export]
macro_rules! skip {
    ($test:expr, $($why:tt)+) => {
        $crate::say_skipped(&$test, format_args!($($why)+))
    };
}

/// What [`skip!`] does.
#[doc(hidden)]
pub fn say_skipped(test: &dyn Display, why: Arguments<'_>) {
    // A test without standard error has nobody to tell.
    let _ = std::io::stderr().write_all(notice(test, why).as_bytes());
}

/// The notice begins its own line, whatever the harness has begun, and is one line whatever the reason.
fn notice(test: &dyn Display, why: Arguments<'_>) -> String {
    let why = why.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    format!("\nSKIPPED: {test}: {why}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_one_line_of_its_own() {
        let why = "no\n  privilege";
        assert_eq!(notice(&"a_test", format_args!("{why} here")), "\nSKIPPED: a_test: no privilege here\n");
    }
}

//! Errors in words, and what they end with.

use super::*;

#[test]
fn a_closed_pipe_is_no_failure_whatever_wrapped_it() {
    let io = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let json = serde_json::to_writer(Closed, &[1, 2]).expect_err("it is closed");
    for error in [anyhow::Error::from(io()), json.into(), anyhow::Error::from(io()).context("printing")] {
        assert!(is_broken_pipe(&error), "{error:?}");
    }
    assert!(!is_broken_pipe(&std::io::Error::other("full").into()));
}

#[test]
fn an_interface_that_stands_alone_is_told_where_it_belongs() {
    let said = "unexpected argument 'lo' found";
    assert_eq!(interface_hint(said, "Usage: napier doctor [OPTIONS]"), "; an interface is given as --dev lo");
    assert!(interface_hint(said, "Usage: napier compare [OPTIONS]").contains("--dev lo, with --client"));
    for other in [
        "unexpected argument 'nosuchif0' found",
        "unexpected argument '../lo' found",
        "unexpected argument '' found",
        "x",
    ] {
        assert_eq!(interface_hint(other, "Usage: napier doctor"), "");
    }
}

//! Who reads a clock. What measures may; all others take the time from `runtime::clock`, or are given it.

use crate::reader::code;
use crate::sources::{is_test, rust_files};
use crate::{Found, check};

const READS: [&str; 3] = ["Instant::now", "SystemTime::now", "clock_gettime"];

/// Crates whose work it is to measure and to wait for other programs.
const MAY: [&str; 6] =
    ["crates/trial/src/judge/", "crates/lab/", "crates/research/", "crates/kv/", "crates/conform/", "crates/cli/"];

fn reads_clock(text: &str) -> bool {
    let code = code(text);
    READS.iter().any(|read| code.contains(read))
}

#[test]
fn clocks_are_read_where_the_list_says() {
    let files =
        rust_files().into_iter().filter(|(path, _)| !is_test(path) && MAY.iter().all(|may| !path.starts_with(may)));
    let found: Found = files.filter(|(_, text)| reads_clock(text)).map(|(path, _)| (path, 1)).collect();
    check("clocks.txt", "Files that read a clock, but for those of crates that measure.", &found);
}

#[test]
fn a_clock_would_be_found() {
    assert!(reads_clock("fn f() {\n    let now = std::time::Instant::now();\n}\n"));
    assert!(!reads_clock("// Instant::now\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    use Instant::now;\n}\n"));
}

//! What is said beside the output of a command.

use std::io::Write as _;

use napier_linux::change::shown;

/// Lines on standard error, for standard output may be a program's.
pub(crate) fn say(lines: &[String]) {
    for line in lines {
        // Nobody may read it.
        let _ = writeln!(std::io::stderr(), "napier: {}", shown(line));
    }
}

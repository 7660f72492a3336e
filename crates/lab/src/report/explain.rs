//! What each column is, with its name in the JSON.

use super::columns::COLUMNS;
use super::table;
use crate::wrap::wrapped;

/// The glossary of a table, in lines of at most `width` columns.
#[must_use]
pub fn explain(width: usize) -> String {
    let mut text = String::from("column     in the JSON               what it is\n");
    let first = [
        ("mode", "mode, backend", "the mode, and where it was applied if there are several backends"),
        (
            "(title)",
            "load_rps",
            "requests per second that were offered, Poisson arrivals; or a closed loop, one request out per flow",
        ),
    ];
    let columns = COLUMNS.iter().map(|column| (column.head, column.key, column.says));
    for (head, key, says) in first.into_iter().chain(columns) {
        text += &wrapped(&format!("{head:<10} {key:<25} "), says, width);
    }
    text += &wrapped(&format!("{:<10} {:<25} ", "verdict", "decided, verdicts"), table::VERDICT_SAYS, width);
    text.push('\n');
    text += &wrapped(
        "",
        "By default the table has eight of them: mode, answered (qps), p50, p99, p99.9, CPU, spin, verdict; --wide has all, --columns those that it names. \
         A figure is over all slices of a mode that were kept, and ± is half of its 95 % interval. What to take is the least p99 x CPU of \
         the modes that keep up; it replaces base only where a verdict says that it is better in one of the two, and its intervals at their worst say that it \
         costs less in the other. cheaper: least CPU, with a p99 not worse than base's; faster: lowest p99. -: not applicable, or not to be \
         had here. refused: the mode cannot be applied here. More: docs/compare.md, docs/json.md.",
        width,
    );
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_column_is_there_in_80_columns() {
        let text = super::explain(80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(super::COLUMNS.iter().all(|column| text.contains(column.head) && text.contains(column.key)), "{text}");
    }
}

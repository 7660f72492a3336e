//! What each column is, with its name in the JSON.

use super::columns::COLUMNS;
use crate::wrap::wrapped;

/// The glossary of a table, in lines of at most `width` columns.
#[must_use]
pub fn explain(width: usize) -> String {
    let mut text = String::from("column     in the JSON               what it is\n");
    let first = [
        ("testcase", "mode, backend", "the mode, and where it was applied if there are several backends"),
        (
            "load",
            "load_rps",
            "requests per second that were offered, Poisson arrivals; or closed: a closed loop, one request out per flow",
        ),
    ];
    let columns = COLUMNS.iter().map(|column| (column.head, column.key, column.says));
    for (head, key, says) in first.into_iter().chain(columns) {
        text += &wrapped(&format!("{head:<10} {key:<25} "), says, width);
    }
    text.push('\n');
    text += &wrapped(
        "",
        "Figures are medians over the runs, each on its own; the line below a block has the p99 of the lowest and the highest run. Where \
         it is decided, the best of a column within a load is bold on a terminal, and has a * where there is no bold. -: not applicable, or not to be had here. refused: the \
         mode cannot be applied here. More: docs/compare.md, docs/json.md.",
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

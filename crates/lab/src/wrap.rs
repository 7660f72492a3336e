//! Words in lines, and counted.

use std::fmt::Write as _;

/// Words after `start`, broken before column `width`; further lines begin below the first word.
#[must_use]
pub fn wrapped(start: &str, words: &str, width: usize) -> String {
    let indent = if start.is_empty() || start.ends_with(' ') { start.len() } else { start.len() + 1 };
    let mut text = String::from(start);
    let mut column = start.len();
    for word in words.split_whitespace() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > width {
            write!(text, "\n{:indent$}", "").expect("a string takes everything");
            column = indent;
        } else if column >= indent && column > 0 && !text.ends_with(' ') {
            text.push(' ');
            column += 1;
        }
        text += word;
        column += length;
    }
    text.push('\n');
    text
}

/// `1 queue`, `2 queues`.
#[must_use]
pub fn counted<N: std::fmt::Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    if count == N::from(1) { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_and_others_are_several() {
        let said = |count: u32| counted(count, "queue");
        assert_eq!([said(0), said(1), said(2)], ["0 queues", "1 queue", "2 queues"]);
    }
}

//! Words in lines.

use std::fmt::Write as _;

/// Words after `start`, broken before column `width`; further lines begin below the first word.
pub(crate) fn wrapped(start: &str, words: &str, width: usize) -> String {
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

//! Words in errors: what was found, and which of those that are known is near.

/// Longest piece of a file that an error repeats.
const QUOTE_CHARS_MAX: usize = 40;

pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

pub(super) fn quote(text: &str) -> String {
    format!("{:?}", shorten(text))
}

pub(super) fn one_of(words: &[&str]) -> String {
    match words {
        [] => "none".to_owned(),
        [word] => format!("{word:?}"),
        _ => format!("one of {}", words.join(", ")),
    }
}

/// `unknown key "x"; expected a, b (did you mean b?)`.
pub(super) fn unknown(what: &str, word: &str, words: &[&str]) -> String {
    let near = words.iter().map(|known| (distance(word, known), known)).min();
    let hint = match near {
        Some((distance, known)) if distance <= 2.max(known.len() / 4) && distance < known.len() => {
            format!(" (did you mean {known}?)")
        }
        _ => String::new(),
    };
    format!(
        "unknown {what} {}; expected {}{hint}",
        quote(word),
        if words.is_empty() { "none".to_owned() } else { words.join(", ") }
    )
}

/// Edits from one word to the other, of which an exchange of neighbours counts two; long words are all far.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 {
        return a.len();
    }
    let a = a.to_ascii_lowercase();
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.chars().enumerate() {
            let change = diagonal + usize::from(!from.eq_ignore_ascii_case(&to));
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    *row.last().expect("a row has an entry more than the word has letters")
}

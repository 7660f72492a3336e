//! How long something takes is said where it is measured: each such sentence of the front pages and of help is a line of
//! `scripts/claims`, or counted in a list that only shrinks.

use std::fs;

use crate::sources::{root, tree};
use crate::{Found, check};

/// A line of `scripts/claims`.
struct Claim<'a> {
    page: &'a str,
    /// What stands before the number, and behind it.
    words: (&'a str, &'a str),
}

/// The lines of the script.
fn claims(script: &str) -> Vec<Claim<'_>> {
    let lines =
        script.split_once("claims='\n").and_then(|(_, rest)| rest.split_once("\n'")).map_or("", |(lines, _)| lines);
    lines
        .lines()
        .filter_map(|line| {
            let mut parts = line.split('|');
            let (page, words) = (parts.next()?, parts.next()?);
            Some(Claim { page, words: words.split_once('N')? })
        })
        .collect()
}

/// A page as one line of words: blocks of output, which are samples, and notes to tests left out.
fn flat(page: &str) -> String {
    let (mut kept, mut fence) = (Vec::new(), None);
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), fence) {
            (Some(language), None) => fence = Some(language == "sh"),
            (Some(_), Some(_)) => fence = None,
            // Examples of help.
            (None, Some(false)) if line.starts_with("# ") => kept.extend(line.split_whitespace()),
            (None, Some(false)) => {}
            (None, _) if line.trim_start().starts_with("<!--") => {}
            (None, _) => kept.extend(line.split_whitespace()),
        }
    }
    kept.join(" ")
}

/// The text without the sentence of a claim, or nothing if the page does not say it.
fn without(text: &str, (before, after): (&str, &str)) -> Option<String> {
    let at = text.find(before)?;
    let rest = &text[at + before.len()..];
    let end = rest.find(after)?;
    let is_number = end > 0 && !rest[..end].contains(' ');
    is_number.then(|| format!("{} {}", &text[..at], &rest[end + after.len()..]))
}

/// How often a text says how long something takes: words of long times, and a number of seconds behind a word such as *under*.
fn durations(text: &str) -> usize {
    const LONG: [&str; 4] = ["minute", "minutes", "hour", "hours"];
    const BEFORE: [&str; 8] = ["most", "about", "under", "takes", "some", "within", "in", "below"];
    const SECONDS: [&str; 3] = ["s", "second", "seconds"];
    let plain = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let words: Vec<String> = text.split(' ').map(plain).collect();
    let counts = |at: usize| {
        let is_seconds = at >= 2 && SECONDS.contains(&words[at].as_str());
        let number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
        LONG.contains(&words[at].as_str())
            || is_seconds && number(&words[at - 1]) && BEFORE.contains(&words[at - 2].as_str())
    };
    (0..words.len()).filter(|at| counts(*at)).count()
}

/// The pages that a new user reads, and the one that is made of help.
fn is_front(path: &str) -> bool {
    let pages = ["README.md", "tutorial.md", "install.md", "limits.md", "engine.md", "commands.md"];
    path == "README.md"
        || path.strip_prefix("docs/").is_some_and(|page| pages.contains(&page) || page.starts_with("howto/"))
}

#[test]
fn how_long_something_takes_is_said_where_it_is_measured() {
    let script = fs::read_to_string(root().join("scripts/claims")).expect("the script");
    let claims = claims(&script);
    assert!(claims.len() > 2, "the script has claims");
    let (mut found, mut wrong) = (Found::new(), Vec::new());
    for path in tree().into_iter().filter(|path| is_front(path)) {
        let mut text = flat(&fs::read_to_string(root().join(&path)).expect("a page"));
        for claim in claims.iter().filter(|claim| claim.page == path) {
            match without(&text, claim.words) {
                Some(rest) => text = rest,
                None => wrong.push(format!("{path} does not say: {} N {}", claim.words.0, claim.words.1)),
            }
        }
        found.insert(path, durations(&text));
    }
    assert_eq!(wrong, Vec::<String>::new());
    found.retain(|_, count| *count > 0);
    check(
        "claims.txt",
        "Times that pages name and scripts/claims does not measure: what an option or a mode means.",
        &found,
    );
}

#[test]
fn a_time_that_is_not_measured_would_be_found() {
    let script = "x\nreadonly claims='\na.md|It takes at most N minutes|60|build\n'\n";
    let claims = claims(script);
    assert_eq!((claims.len(), claims[0].page), (1, "a.md"));
    let page = "It takes at\nmost four minutes. In about 3 s, or\nhalf an hour: 2 s each.\n```text\n5 minutes\n# a minute\n```\n<!-- minutes -->\n\
                ```sh\nx # under a minute\n```\n100 requests per second\n";
    let text = flat(page);
    assert_eq!(durations(&text), 5);
    let rest = without(&text, claims[0].words).expect("it is said");
    assert_eq!(durations(&rest), 4);
    assert_eq!(
        without("It takes at most some minutes more", ("at most ", " minutes more")).as_deref(),
        Some("It takes  ")
    );
    assert_eq!(without("at most the four minutes", ("at most ", " minutes")), None);
}

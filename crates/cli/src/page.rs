//! Text for a terminal of 80 columns.

pub(crate) use napier_lab::wrap::counted as plural;
use napier_lab::wrap::wrapped;
use napier_linux::change::{Each, Line, shown};

const COLUMNS: usize = 80;

/// Lines, wrapped.
#[derive(Default)]
pub(crate) struct Page(String);

impl Page {
    /// A heading, by itself.
    pub(crate) fn title(&mut self, text: &str) {
        self.0 += text.trim_end();
        self.0.push('\n');
    }

    /// Words from the first column on.
    pub(crate) fn paragraph(&mut self, text: &str) {
        self.wrap("", text);
    }

    /// Words in from the edge, behind a label.
    pub(crate) fn words(&mut self, label: &str, text: &str) {
        self.wrap(&format!("  {label}"), text);
    }

    /// A command, which is never broken.
    pub(crate) fn command(&mut self, command: &str) {
        self.labelled_command("", command);
    }

    /// A command behind a label.
    pub(crate) fn labelled_command(&mut self, label: &str, command: &str) {
        self.0 += &format!("  {label}{}\n", shown(command));
    }

    /// An empty line, but never two.
    pub(crate) fn blank(&mut self) {
        if !self.0.is_empty() && !self.0.ends_with("\n\n") {
            self.0.push('\n');
        }
    }

    /// The text.
    pub(crate) fn finish(self) -> String {
        self.0
    }

    fn wrap(&mut self, front: &str, text: &str) {
        let words: Vec<String> = text.split_whitespace().map(shown).collect();
        wrapped(front, &words.join(" "), COLUMNS).lines().for_each(|line| self.title(line));
    }
}

/// What became of lines: in force, in force before, refused.
pub(crate) fn applied(page: &mut Page, each: &Each) {
    let words = |line: &Line| line.command().unwrap_or_else(|| line.to_string());
    if !each.done.is_empty() {
        page.title("Changed");
        each.done.iter().for_each(|line| page.command(&words(line)));
    }
    if !each.already.is_empty() {
        page.title("In force before");
        each.already.iter().for_each(|line| page.command(&words(line)));
    }
    if !each.refused.is_empty() {
        page.title("Refused");
        for (line, why) in &each.refused {
            page.words("", &format!("{line}: {why}"));
        }
    }
    page.blank();
    if each.done.is_empty() && !each.refused.is_empty() {
        let (refused, all) = (each.refused.len(), each.refused.len() + each.already.len());
        page.paragraph(&format!("Nothing was changed: {refused} of {all} were refused."));
        page.blank();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_at_80_columns_and_stay_in_from_the_edge() {
        let mut page = Page::default();
        page.words("why   ", &"µs word ".repeat(30));
        let text = page.finish();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() > 2 && lines[0].starts_with("  why   µs") && lines[1].starts_with("        "), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS && !line.ends_with(' ')), "{text}");
        assert!(lines[..lines.len() - 1].iter().all(|line| line.chars().count() > COLUMNS - 6), "{text}");
    }
}

//! Lines of text of a bounded width.

/// Text that is made line by line.
pub(super) struct Page {
    text: String,
    /// Widest line, in columns.
    width: usize,
}

impl Page {
    pub(super) fn new(width: usize) -> Self {
        Self { text: String::new(), width }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Writes a line as it is.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Writes words, indented by two columns.
    pub(super) fn words(&mut self, words: &str) {
        self.words_after("", words);
    }

    /// Writes words after `start`, broken so that no line is too wide; further lines are indented alike, if that leaves
    /// room for words.
    pub(super) fn words_after(&mut self, start: &str, words: &str) {
        let mut current = start.to_owned();
        let mut width = start.chars().count();
        let mut indent = width;
        for word in printable(words).split_whitespace() {
            let word_width = word.chars().count();
            if width > indent && width + 2 + word_width > self.width {
                self.line(&current);
                indent = indent.min(self.width / 3);
                current = " ".repeat(indent);
                width = indent;
            }
            let gap = if width == indent { "  " } else { " " };
            current += gap;
            current += word;
            width += gap.len() + word_width;
        }
        if width > indent {
            self.line(&current);
        }
    }
}

/// Text from outside (a CPU's name, an error of the system) without control characters, which a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

//! How far a comparison is, on a terminal; nothing at all when the output is piped.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::loads::Cell;
use crate::subject::Subject;

/// A bar on standard error, one step per cell. Hidden if standard error is no terminal; gone at its end, so that the
/// report stands alone.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for this many cells.
    pub fn new(cells: usize) -> Self {
        // indicatif draws on standard error, and only if that is a terminal.
        let bar = ProgressBar::new(cells as u64);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  {elapsed} gone, {eta} to go");
        bar.set_style(style.expect("the template is legal"));
        Self { bar }
    }

    /// Says which cell runs now.
    pub fn running(&self, cell: Cell) {
        self.bar.set_message(format!("{} at {}, run {}", cell.subject, cell.load, cell.run + 1));
        self.bar.enable_steady_tick(Duration::from_secs(1));
    }

    /// Says of which subject the most that it sustains is searched now.
    pub fn searching(&self, subject: Subject) {
        self.bar.set_message(format!("what {subject} sustains"));
        self.bar.enable_steady_tick(Duration::from_secs(1));
    }

    /// Does something without the bar on the screen, such as to write to standard output.
    pub fn suspend<R>(&self, action: impl FnOnce() -> R) -> R {
        self.bar.suspend(action)
    }

    /// Says that a cell is done, refused or not.
    pub fn done(&self) {
        self.bar.inc(1);
    }

    /// Says at once that a run failed, terminal or not: it may be minutes to the report.
    pub fn failed(&self, line: &str) {
        self.bar.suspend(|| eprintln!("napier: {line}"));
    }

    /// Writes a line above the bar, on standard error; without a terminal it is not written.
    pub fn note(&self, line: &str) {
        self.bar.println(line);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{loads::Load, modes::Mode};

    #[test]
    fn counts_cells_and_is_gone_at_its_end() {
        let progress = Progress::new(2);
        progress.running(Cell { subject: Subject::engine(Mode::Base), load: Load::Max, run: 0 });
        progress.done();
        assert_eq!((progress.bar.position(), progress.bar.length()), (1, Some(2)));
        let bar = progress.bar.clone();
        drop(progress);
        assert!(bar.is_finished());
    }
}

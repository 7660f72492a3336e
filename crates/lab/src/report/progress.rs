//! How far a comparison is, on a terminal; nothing at all when the output is piped.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error, one step per slice. Hidden if standard error is no terminal; gone at its end, so that the
/// report stands alone.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for this many steps.
    pub fn new(steps: usize) -> Self {
        // indicatif draws on standard error, and only if that is a terminal.
        let bar = ProgressBar::new(steps as u64);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  {elapsed} gone, {eta} to go");
        bar.set_style(style.expect("the template is legal"));
        Self { bar }
    }

    /// So many more steps are to come.
    pub fn expect(&self, steps: u64) {
        self.bar.inc_length(steps);
    }

    /// Says what is measured now.
    pub fn message(&self, what: String) {
        self.bar.set_message(what);
        self.bar.enable_steady_tick(Duration::from_secs(1));
    }

    /// Does something without the bar on the screen, such as to write to standard output.
    pub fn suspend<R>(&self, action: impl FnOnce() -> R) -> R {
        self.bar.suspend(action)
    }

    /// Says that a step is done, refused or not.
    pub fn done(&self) {
        self.bar.inc(1);
    }

    /// Says at once that a slice failed, terminal or not: it may be minutes to the report.
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

    #[test]
    fn counts_steps_and_is_gone_at_its_end() {
        let progress = Progress::new(1);
        progress.expect(1);
        progress.message("base at 20K, round 1".to_owned());
        progress.done();
        assert_eq!((progress.bar.position(), progress.bar.length()), (1, Some(2)));
        let bar = progress.bar.clone();
        drop(progress);
        assert!(bar.is_finished());
    }
}

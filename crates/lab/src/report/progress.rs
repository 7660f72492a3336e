//! How far a comparison is, on a terminal; nothing at all when the output is piped.

use std::cell::RefCell;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{Report, answer};

/// A bar on standard error, one step per slice. Hidden if standard error is no terminal; gone at its end, so that the
/// report stands alone.
pub struct Progress {
    bars: MultiProgress,
    bar: ProgressBar,
    /// A line each.
    answer: RefCell<Vec<ProgressBar>>,
}

/// Most lines of the answer so far; the terminal is also for what scrolled by before.
const LINES_MAX: usize = 8;

impl Progress {
    /// A bar for this many steps.
    pub fn new(steps: usize) -> Self {
        // indicatif draws on standard error, and only if that is a terminal.
        let bars = MultiProgress::new();
        let bar = bars.add(ProgressBar::new(steps as u64));
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  {elapsed} gone, {eta} to go");
        bar.set_style(style.expect("the template is legal"));
        Self { bars, bar, answer: RefCell::default() }
    }

    /// Draws the answer so far below the bar, in place of what was there.
    pub fn so_far(&self, report: &Report) {
        let said = answer::said(report);
        let mut shown = self.answer.borrow_mut();
        for (i, line) in said.iter().take(LINES_MAX).enumerate() {
            if shown.len() <= i {
                let bar = self.bars.add(ProgressBar::new(0));
                bar.set_style(ProgressStyle::with_template("{wide_msg}").expect("the template is legal"));
                shown.push(bar);
            }
            shown[i].set_message(line.clone());
            shown[i].tick();
        }
        for gone in shown.drain(said.len().min(LINES_MAX)..) {
            gone.finish_and_clear();
        }
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

    /// Says that a step is done, refused or not.
    pub fn done(&self) {
        self.bar.inc(1);
    }

    /// Says at once that a slice failed, terminal or not: it may be minutes to the report.
    pub fn failed(&self, line: &str) {
        self.bars.suspend(|| eprintln!("napier: {line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.answer.get_mut().iter().chain([&self.bar]).for_each(ProgressBar::finish_and_clear);
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

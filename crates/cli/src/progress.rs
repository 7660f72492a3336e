//! How far a command is, for one that lasts longer than a moment: on standard error, and only if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::page::plural;

/// What is drawn while something is measured costs that CPU time, so it is drawn seldom.
const EVERY: Duration = Duration::from_secs(1);

/// A bar of steps that are counted, such as runs, with how long it will take.
pub(crate) fn steps(what: &str) -> ProgressBar {
    let style = styled(&format!("{{bar:30}} {{pos}}/{{len}} {what}  {{elapsed}} gone, {{eta}} to go"));
    let bar = ProgressBar::no_length().with_style(style);
    bar.enable_steady_tick(EVERY);
    bar
}

/// Shows how many steps are done, of how many in all.
pub(crate) fn shown_in(bar: &ProgressBar) -> impl Fn(usize, usize) + Sync {
    |done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    }
}

/// What runs now, for a time that is not known.
pub(crate) fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_style(styled("{spinner} {msg}  {elapsed} gone"));
    bar.enable_steady_tick(EVERY);
    bar
}

/// What runs while this lives; gone at its end.
pub(crate) struct Doing(ProgressBar);

impl Doing {
    /// Says what runs, and about how long it will, where that is known.
    pub(crate) fn new(what: &str, about: Option<Duration>) -> Self {
        let bar = spinner();
        let length = about.map_or_else(String::new, |about| format!(", about {}", in_words(about)));
        bar.set_message(format!("{what}{length}"));
        Self(bar)
    }

    /// Runs of a length, of each row of a table.
    pub(crate) fn of_rows(runs: u32, seconds: f64) -> Self {
        Self::new(&format!("{} of {seconds} s of each row", plural(runs, "run")), None)
    }

    /// Says what runs now.
    pub(crate) fn now(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn in_words(length: Duration) -> String {
    match length.as_secs() {
        0..=99 => format!("{:.0} s", length.as_secs_f64().ceil()),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

fn styled(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is legal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_said_as_one_would() {
        let said = |millis| in_words(Duration::from_millis(millis));
        assert_eq!(
            [said(1), said(2500), said(99_000), said(100_000), said(121_000)],
            ["1 s", "3 s", "99 s", "2 min", "3 min"]
        );
    }

    #[test]
    fn it_is_gone_at_its_end() {
        let doing = Doing::new("rows", None);
        let bar = doing.0.clone();
        assert!(!bar.is_finished() && bar.message() == "rows");
        drop(doing);
        assert!(bar.is_finished());
    }
}

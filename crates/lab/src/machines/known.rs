//! How far predictions on a machine were off where something was measured to hold them against: the `[error]` of a machine file.

use std::fmt::Write as _;

use napier_scenario::ParseError;
use napier_scenario::read::{Node, Table};

use crate::modes::Mode;

/// From this error on predictions say nothing, in percent.
pub const ERROR_MAX_PCT: f64 = 30.0;
/// A core that works for so much of the time is near its limit, where errors are others, in percent.
const FULL_PCT: f64 = 80.0;
/// Largest error of a file, in percent.
const PCT_MAX: i128 = 1_000_000;

/// What a measured row may be, as a part of what was predicted: from the least to the most. 1 is always between them.
pub(super) type Range = (f64, f64);

/// How far a row may be off, by how far rows were.
#[derive(Copy, Clone, PartialEq, Debug, Default)]
pub struct Off {
    /// How many.
    pub rows: u32,
    /// Of the 99th percentile; `None`: nothing says so.
    pub p99: Option<Range>,
    /// Of CPU.
    pub cpu: Option<Range>,
}

/// How far predictions were off.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct KnownError {
    /// Root mean square over rows that figures were fitted to, in percent.
    pub fit_pct: Option<f64>,
    /// The same over rows that had no part in it.
    pub held_back_pct: Option<f64>,
    /// By kinds of modes, whose errors are alike.
    pub(super) offs: Vec<(&'static str, Off)>,
}

/// Why predictions on a machine are not to be believed.
#[derive(Copy, Clone, PartialEq, Debug, thiserror::Error)]
pub enum Distrust {
    /// It is too far off.
    #[error(
        "its predictions were {off_pct:.0} % off where they were held against measurements; above {ERROR_MAX_PCT} % they do not tell modes apart"
    )]
    Far {
        /// The larger of both errors.
        off_pct: f64,
    },
    /// No p99 was a mode's.
    #[error(
        "at every load that was compared other work took the machine away, so that nothing says what p99 a mode has"
    )]
    NoTail,
}

/// Kinds of modes by who brings packets to the program, below the limit of a core and near it; the last is any of them.
const KINDS: [&str; 7] = ["interrupts", "interrupts-full", "deferred", "deferred-full", "polled", "polled-full", "all"];

pub(super) fn kind(mode: Mode, working_pct: f64) -> Option<&'static str> {
    let at = match mode {
        Mode::Base | Mode::Suspend0 => 0,
        Mode::Defer { .. } => 2,
        Mode::NapiBusy | Mode::FullBusy | Mode::Suspend { .. } => 4,
        Mode::Threaded | Mode::Workqueue | Mode::ThreadedBusyPoll | Mode::BusyRead | Mode::Group => return None,
    };
    Some(KINDS[at + usize::from(working_pct > FULL_PCT)])
}

impl Off {
    fn line(&self) -> String {
        let span = |name: &str, span: Option<Range>| {
            span.map_or_else(String::new, |(least, most)| {
                format!(", {name} = [{:.0}, {:.0}]", least * 100.0, most * 100.0)
            })
        };
        format!("{{ rows = {}{}{} }}", self.rows, span("p99", self.p99), span("cpu", self.cpu))
    }

    fn read(node: &Node<'_>) -> Result<Self, ParseError> {
        const KEYS: &[&str] = &["rows", "p99", "cpu"];
        let table = node.table("a table such as { rows = 4, p99 = [90, 120], cpu = [95, 105] }")?.only(KEYS)?;
        let span = |key| {
            table.map(key, |node: &Node<'_>| {
                let [least, most] = &node.list("the least and the most, in percent of what was predicted")?[..] else {
                    return Err(node.error("the least and the most are two numbers"));
                };
                let (least, most): (u32, u32) = (least.number(0..=100)?, most.number(100..=PCT_MAX)?);
                Ok((f64::from(least) / 100.0, f64::from(most) / 100.0))
            })
        };
        Ok(Self { rows: table.need("rows")?.number(1..=1_000_000)?, p99: span("p99")?, cpu: span("cpu")? })
    }
}

impl KnownError {
    /// How far predictions of a mode were off on a core that works for so much of the time; `None`: nothing says so. Where no row of the
    /// kind was on the same side of the limit of a core, those of the other side say more than nothing.
    #[must_use]
    pub fn off(&self, mode: Mode, working_pct: f64) -> Option<Off> {
        let of = |name: &str| self.offs.iter().find(|(known, _)| *known == name).map(|(_, off)| *off);
        let other_side = if working_pct > FULL_PCT { 0.0 } else { 100.0 };
        [working_pct, other_side].into_iter().find_map(|at| of(kind(mode, at)?)).or_else(|| of("all"))
    }

    /// Why predictions are not to be believed, if they are not.
    #[must_use]
    pub fn distrust(&self) -> Option<Distrust> {
        let off_pct = [self.fit_pct, self.held_back_pct].into_iter().flatten().fold(0.0, f64::max);
        if off_pct > ERROR_MAX_PCT {
            return Some(Distrust::Far { off_pct });
        }
        let says_nothing = self.fit_pct.is_some() && self.offs.iter().all(|(_, off)| off.p99.is_none());
        says_nothing.then_some(Distrust::NoTail)
    }

    /// The same in a few words.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        match (self.fit_pct, self.held_back_pct) {
            (Some(fit), Some(held)) => {
                Some(format!("predictions were {fit:.0} % off where it was fitted, {held:.0} % elsewhere"))
            }
            (Some(fit), None) => {
                Some(format!("predictions were {fit:.0} % off where it was fitted; nothing was held back"))
            }
            (None, Some(held)) => Some(format!("predictions were {held:.0} % off")),
            (None, None) => None,
        }
    }

    /// Lines of a machine file, below `[error]`; none: nothing is known.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let error = |name: &str, pct: Option<f64>| pct.map(|pct| format!("{name} = {pct:.0}"));
        let mut lines: Vec<String> =
            [error("fit", self.fit_pct), error("held-back", self.held_back_pct)].into_iter().flatten().collect();
        let of = |kind: &&str| self.offs.iter().find(|(known, _)| known == kind);
        lines.extend(KINDS.iter().filter_map(of).map(|(kind, off)| format!("{kind} = {}", off.line())));
        lines
    }

    /// Reads them.
    pub(super) fn read(node: &Node<'_>) -> Result<Self, ParseError> {
        const KEYS: &[&str] = &[
            "fit",
            "held-back",
            "interrupts",
            "interrupts-full",
            "deferred",
            "deferred-full",
            "polled",
            "polled-full",
            "all",
        ];
        let table: Table<'_> = node.table("a table of errors")?.only(KEYS)?;
        let pct = |key| table.map(key, |node: &Node<'_>| node.number::<u32>(0..=PCT_MAX).map(f64::from));
        let mut offs = Vec::new();
        for kind in KINDS {
            if let Some(off) = table.map(kind, Off::read)? {
                offs.push((kind, off));
            }
        }
        Ok(Self { fit_pct: pct("fit")?, held_back_pct: pct("held-back")?, offs })
    }
}

/// Root of the weighted mean square of `ln(predicted / measured)`; `None` of nothing.
pub fn root_mean_square(errors: &[(f64, f64)]) -> Option<f64> {
    let weight: f64 = errors.iter().map(|(_, weight)| weight).sum();
    let sum = errors.iter().map(|(ln, weight)| ln * ln * weight).sum::<f64>();
    (weight > 0.0).then(|| (sum / weight).sqrt())
}

/// In percent: an error of ln 1.1 is 10 %.
pub fn percent(error: f64) -> f64 {
    (error.exp() - 1.0) * 100.0
}

/// A table `[error]` of a file.
pub fn table(known: &KnownError) -> String {
    let lines = known.lines();
    if lines.is_empty() {
        return String::new();
    }
    let mut text = "\n# Of what was measured: errors in percent, and from what to what a row of a further load may be, in percent of what was predicted.\n[error]\n".to_owned();
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use napier_scenario::read::read_file;

    use super::*;

    fn read(text: &str) -> Result<KnownError, ParseError> {
        read_file(text, "machine.toml", |whole| KnownError::read(&whole.only(&["error"])?.need("error")?))
    }

    fn known() -> KnownError {
        let interrupts = Off { rows: 2, p99: Some((1.0, 2.54)), cpu: Some((0.85, 1.0)) };
        let polled = Off { rows: 1, p99: Some((0.93, 1.0)), cpu: Some((1.0, 1.01)) };
        let offs = vec![("interrupts", interrupts), ("polled", polled)];
        KnownError { fit_pct: Some(24.0), held_back_pct: Some(29.0), offs }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let again = read(&table(&known())).unwrap();
        assert_eq!(again, known());
        assert_eq!(table(&again), table(&known()));
        assert_eq!(table(&KnownError::default()), "");
    }

    #[test]
    fn a_mode_has_the_errors_of_its_kind_at_its_load() {
        let known = known();
        let base = known.off(Mode::Base, 79.0).unwrap();
        assert_eq!((base.rows, base.p99, base.cpu), (2, Some((1.0, 2.54)), Some((0.85, 1.0))));
        assert_eq!(known.off(Mode::Base, 81.0), Some(base), "nothing else is known");
        assert_eq!(known.off(Mode::Defer { us: 20 }, 10.0), None);
        assert_eq!(known.off(Mode::Threaded, 10.0), None);
        let mut all = known;
        all.offs.push(("all", Off { rows: 1, p99: None, cpu: Some((1.0, 2.0)) }));
        let off = all.off(Mode::Threaded, 10.0).unwrap();
        assert_eq!((off.p99, off.cpu), (None, Some((1.0, 2.0))));
    }

    #[test]
    fn what_is_far_off_or_has_no_tail_is_not_believed() {
        assert_eq!(known().distrust(), None);
        assert_eq!(KnownError::default().distrust(), None);
        let far = KnownError { held_back_pct: Some(51.0), ..known() };
        assert_eq!(far.distrust(), Some(Distrust::Far { off_pct: 51.0 }));
        let mut no_tail = KnownError { fit_pct: Some(4.0), ..KnownError::default() };
        no_tail.offs.push(("all", Off { rows: 1, p99: None, cpu: Some((1.0, 1.0)) }));
        assert_eq!(no_tail.distrust(), Some(Distrust::NoTail));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        for (text, said) in [
            ("[error]\nfit = -1\n", "fit"),
            ("[error]\nfitted = 1\n", "unknown key"),
            ("[error]\nall = { rows = 1, p99 = [1] }\n", "two numbers"),
            ("[error]\nall = { rows = 1, p99 = [101, 110] }\n", "p99"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}

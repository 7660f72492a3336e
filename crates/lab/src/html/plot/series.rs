//! How modes and backends look: a colour for each family of modes, a dash for each mode of a family, a mark.

use maud::{Markup, html};

use super::px;
use crate::modes::Mode;
use crate::subject::{Backend, Receive, Subject};

/// The shape of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::html) enum Mark {
    Circle,
    Square,
    Triangle,
    Diamond,
    Down,
    Cross,
}

const MARKS: [Mark; 6] = [Mark::Circle, Mark::Square, Mark::Triangle, Mark::Diamond, Mark::Down, Mark::Cross];

/// Dashes of curves that have one colour; the first is none.
const DASHES: [&str; 4] = ["", "7 4", "2 4", "10 3 2 3"];

/// Colour, dash and mark of what is plotted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::html) struct SeriesStyle {
    /// 0 to 5: a class of the style sheet.
    pub(in crate::html) colour: usize,
    pub(in crate::html) dash: &'static str,
    pub(in crate::html) mark: Mark,
}

impl SeriesStyle {
    /// The n-th of a few that are told apart by nothing else.
    pub(in crate::html) fn nth(n: usize) -> Self {
        Self { colour: [1, 2, 3, 4, 5, 0][n % 6], dash: DASHES[n % 4], mark: MARKS[n % 6] }
    }

    /// Of a backend, where one mode has several.
    pub(in crate::html) fn of_backend(backend: Backend) -> Self {
        Self::nth(match backend {
            Backend::Engine => 0,
            Backend::Kernel => 1,
            Backend::Sim => 2,
        })
    }

    /// Of each mode; where there are several backends the mark says which.
    pub(in crate::html) fn of_modes(subjects: &[Subject], among_backends: bool) -> Vec<Self> {
        let mut seen: Vec<(usize, (Mode, Receive, u8))> = Vec::new();
        let look = |subject: &Subject| {
            let family = family(subject.mode);
            let one = (subject.mode, subject.receive, subject.copy);
            if !seen.contains(&(family, one)) {
                seen.push((family, one));
            }
            let nth = seen.iter().filter(|(other, _)| *other == family).position(|(_, other)| *other == one);
            let mark = if among_backends { Self::of_backend(subject.backend).mark } else { MARKS[family] };
            Self { colour: family, dash: DASHES[nth.unwrap_or(0) % DASHES.len()], mark }
        };
        subjects.iter().map(look).collect()
    }

    /// Classes of what has this colour.
    pub(in crate::html) fn class(self, others: &str) -> String {
        format!("k{} {others}", self.colour)
    }

    /// A mark with its text; open ones are not filled.
    pub(in crate::html) fn draw(self, (x, y): (f64, f64), is_open: bool, title: &str) -> Markup {
        let at = |dx: f64, dy: f64| format!("{} {}", px(x + dx), px(y + dy));
        let class = self.class(if is_open { "mark open" } else { "mark" });
        let shape = |points: &[(f64, f64)]| {
            let corners: Vec<String> = points.iter().map(|(dx, dy)| at(*dx, *dy)).collect();
            format!("M{}Z", corners.join("L"))
        };
        let d = match self.mark {
            Mark::Circle => {
                return html! { circle class=(class) cx=(px(x)) cy=(px(y)) r="4.4" { (titled(title)) } };
            }
            Mark::Square => shape(&[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)]),
            Mark::Triangle => shape(&[(0.0, -5.2), (5.0, 3.8), (-5.0, 3.8)]),
            Mark::Down => shape(&[(0.0, 5.2), (5.0, -3.8), (-5.0, -3.8)]),
            Mark::Diamond => shape(&[(0.0, -5.6), (5.2, 0.0), (0.0, 5.6), (-5.2, 0.0)]),
            Mark::Cross => {
                let arms = [(-1.6, -5.0), (1.6, -5.0), (1.6, -1.6), (5.0, -1.6), (5.0, 1.6), (1.6, 1.6), (1.6, 5.0)];
                let others = [(-1.6, 5.0), (-1.6, 1.6), (-5.0, 1.6), (-5.0, -1.6), (-1.6, -1.6)];
                shape(&[&arms[..], &others[..]].concat())
            }
        };
        html! { path class=(class) d=(d) { (titled(title)) } }
    }

    /// A piece of curve with its mark, for a key.
    pub(in crate::html) fn sample(self) -> Markup {
        html! {
            svg viewBox="0 0 26 14" aria-hidden="true" {
                path class=(self.class("curve")) stroke-dasharray=[self.dash()] d="M0 7H26" {}
                (self.draw((13.0, 7.0), false, ""))
            }
        }
    }

    pub(in crate::html) fn dash(self) -> Option<&'static str> {
        Some(self.dash).filter(|dash| !dash.is_empty())
    }
}

fn titled(title: &str) -> Markup {
    html! { @if !title.is_empty() { title { (title) } } }
}

/// Modes that are alike.
fn family(mode: Mode) -> usize {
    match mode {
        Mode::Base => 0,
        Mode::Defer { .. } => 1,
        Mode::NapiBusy | Mode::FullBusy | Mode::BusyRead => 2,
        Mode::Suspend0 | Mode::Suspend { .. } => 3,
        Mode::Threaded | Mode::Workqueue => 4,
        Mode::ThreadedBusyPoll | Mode::Group => 5,
    }
}

/// What the looks of a figure mean.
pub(in crate::html) fn key(entries: &[(SeriesStyle, String)]) -> Markup {
    html! {
        ul.key {
            @for (look, name) in entries {
                li { (look.sample()) (name) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_modes_look_alike_even_without_colour() {
        let modes = Mode::parse_list(crate::modes::DEFAULT_MODES).unwrap();
        let subjects: Vec<Subject> = modes.iter().map(|mode| Subject::engine(*mode)).collect();
        let looks = SeriesStyle::of_modes(&subjects, false);
        for (i, look) in looks.iter().enumerate() {
            assert!(looks[i + 1..].iter().all(|other| (other.mark, other.dash) != (look.mark, look.dash)), "{look:?}");
        }
        let backends = [Backend::Engine, Backend::Kernel, Backend::Sim].map(SeriesStyle::of_backend);
        assert!(backends[0].mark != backends[1].mark && backends[1].dash != backends[2].dash);
    }
}

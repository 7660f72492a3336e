//! CPU time as bars, split into what was of use and what was spent looking in vain.

use maud::{Markup, html};

use super::{Said, Size, px, svg, text_width};

/// Height of a bar and the room around it, in pixels.
const ROW: f64 = 22.0;

/// The CPU time of a mode, in percent.
pub(in crate::html) struct Bar {
    pub(in crate::html) name: String,
    pub(in crate::html) total: f64,
    /// Of use and in vain; `None` where they are not told apart.
    pub(in crate::html) parts: Option<(f64, f64)>,
}

/// Draws bars from 0 to at least 100 %; the height follows from their number.
pub(in crate::html) fn bars(width: f64, said: &Said<'_>, bars: &[Bar]) -> Markup {
    let left = bars.iter().map(|bar| text_width(&bar.name)).fold(0.0, f64::max) + 8.0;
    let (right, top) = (112.0, 6.0);
    let most = bars.iter().map(|bar| bar.total).fold(100.0, f64::max);
    let x = |pct: f64| left + (width - left - right) * (pct / most).clamp(0.0, 1.0);
    let bottom = top + ROW * bars.len() as f64;
    let content = html! {
        g aria-hidden="true" {
            @for pct in [0.0, 50.0, 100.0] {
                line.rule x1=(px(x(pct))) x2=(px(x(pct))) y1=(px(top)) y2=(px(bottom + 4.0)) {}
                text.tick x=(px(x(pct))) y=(px(bottom + 18.0)) text-anchor="middle" { (pct) " %" }
            }
        }
        @for (i, bar) in bars.iter().enumerate() {
            @let y = top + ROW * i as f64;
            text x=(px(left - 7.0)) y=(px(y + 15.0)) text-anchor="end" { (bar.name) }
            @match bar.parts {
                Some((useful, spin)) => {
                    rect.useful x=(px(x(0.0))) y=(px(y + 4.0)) width=(px(x(useful) - x(0.0))) height=(px(ROW - 8.0)) {}
                    rect.spin x=(px(x(useful))) y=(px(y + 4.0)) width=(px(x(useful + spin) - x(useful))) height=(px(ROW - 8.0)) {}
                }
                None => rect.whole x=(px(x(0.0))) y=(px(y + 4.0)) width=(px(x(bar.total) - x(0.0))) height=(px(ROW - 8.0)) {},
            }
            text.tick x=(px(x(bar.total) + 7.0)) y=(px(y + 15.0)) { (words(bar)) }
        }
    };
    svg(Size { width, height: bottom + 24.0 }, said, &content)
}

/// The figures of a bar.
fn words(bar: &Bar) -> String {
    match bar.parts {
        Some((_, spin)) if spin >= 0.5 => format!("{:.0} %, {spin:.0} spin", bar.total),
        Some(_) => format!("{:.0} %", bar.total),
        None => format!("{:.0} %, not split", bar.total),
    }
}

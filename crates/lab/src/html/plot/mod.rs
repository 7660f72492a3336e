//! Figures as SVG. A figure is drawn for a size in pixels and scaled by the page; all colours come from its style sheet.
//!
//! What differs by colour differs by mark or dash as well, each curve has its name beside it, and each mark its figures as
//! a title.

pub(super) mod bars;
pub(super) mod frontier;
mod labels;
pub(super) mod lines;
pub(super) mod ranges;
mod scale;
pub(super) mod scatter;
pub(super) mod series;

use maud::{Markup, html};

pub(super) use scale::Scale;
pub(super) use series::SeriesStyle;

/// Width and height of a figure, in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A figure of half a page, and the same for a telephone.
pub(super) const HALF: [Size; 2] = [Size { width: 560.0, height: 360.0 }, Size { width: 360.0, height: 340.0 }];

/// The first figure of a page.
pub(super) const WIDE: [Size; 2] = [Size { width: 860.0, height: 400.0 }, Size { width: 360.0, height: 340.0 }];

/// One of many.
pub(super) const PANEL: Size = Size { width: 300.0, height: 230.0 };

/// What a figure is called, and what it shows in words, for those who do not see it.
pub(super) struct Said<'a> {
    pub(super) title: &'a str,
    pub(super) text: &'a str,
}

/// Room around a plot for what stands beside its axes, in pixels.
#[derive(Clone, Copy)]
pub(super) struct Margins {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// An axis and what it measures.
pub(super) struct Axis {
    pub(super) scale: Scale,
    /// Quantity and unit.
    pub(super) name: String,
}

/// Two axes in a figure.
pub(super) struct Frame {
    size: Size,
    margins: Margins,
    x: Axis,
    y: Axis,
}

impl Frame {
    pub(super) fn new(size: Size, margins: Margins, x: Axis, y: Axis) -> Self {
        Self { size, margins, x, y }
    }

    /// Where a value is, from the left.
    pub(super) fn x(&self, value: f64) -> f64 {
        let room = self.size.width - self.margins.left - self.margins.right;
        self.margins.left + room * self.x.scale.share(value)
    }

    /// Where a value is, from above.
    pub(super) fn y(&self, value: f64) -> f64 {
        let room = self.size.height - self.margins.top - self.margins.bottom;
        self.size.height - self.margins.bottom - room * self.y.scale.share(value)
    }

    fn left(&self) -> f64 {
        self.margins.left
    }

    fn right(&self) -> f64 {
        self.size.width - self.margins.right
    }

    fn bottom(&self) -> f64 {
        self.size.height - self.margins.bottom
    }

    fn top(&self) -> f64 {
        self.margins.top
    }

    /// The figure with its axes, and `content` in front of them.
    pub(super) fn draw(&self, said: &Said<'_>, content: &Markup) -> Markup {
        svg(self.size, said, &html! { (self.axes()) (content) })
    }

    fn axes(&self) -> Markup {
        let (left, right, top, bottom) = (self.left(), self.right(), self.top(), self.bottom());
        let xs = self.x.scale.ticks(right - left, |text| text_width(text) + 4.0);
        let ys = self.y.scale.ticks(bottom - top, |_| 17.0);
        html! {
            g aria-hidden="true" {
                @for (value, _) in &ys {
                    line.rule x1=(px(left)) x2=(px(right)) y1=(px(self.y(*value))) y2=(px(self.y(*value))) {}
                }
                @for (value, _) in &xs {
                    line.rule x1=(px(self.x(*value))) x2=(px(self.x(*value))) y1=(px(top)) y2=(px(bottom)) {}
                }
                path.axis d={ "M" (px(left)) " " (px(top)) "V" (px(bottom)) "H" (px(right)) } {}
                @for (value, text) in &ys {
                    text.tick x=(px(left - 6.0)) y=(px(self.y(*value) + 4.0)) text-anchor="end" { (text) }
                }
                @for (value, text) in &xs {
                    text.tick x=(px(self.x(*value))) y=(px(bottom + 16.0)) text-anchor="middle" { (text) }
                }
                text.unit x=(px(f64::midpoint(left, right))) y=(px(bottom + 34.0)) text-anchor="middle" { (self.x.name) }
                text.unit x="0" y=(px(top - 10.0)) { (self.y.name) }
            }
        }
    }
}

/// A figure with what it says in words.
fn svg(size: Size, said: &Said<'_>, content: &Markup) -> Markup {
    html! {
        svg viewBox={ "0 0 " (size.width) " " (size.height) } role="img" aria-label=(said.title) {
            desc { (said.text) }
            (content)
        }
    }
}

/// Pixels, to a tenth.
fn px(pixels: f64) -> String {
    let text = format!("{pixels:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// How wide a text will be, in pixels; rather too wide.
fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.2
}

/// A path through points.
fn path(points: &[(f64, f64)]) -> String {
    let mut d = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        d += &format!("{}{} {}", if i == 0 { "M" } else { "L" }, px(*x), px(*y));
    }
    d
}

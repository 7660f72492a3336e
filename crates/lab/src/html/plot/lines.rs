//! Curves, each with its name at its end.

use maud::{Markup, html};

use super::labels::apart;
use super::{Axis, Frame, Margins, Said, SeriesStyle, Size, path, px, text_width};

/// A curve.
pub(in crate::html) struct Curve {
    pub(in crate::html) name: String,
    pub(in crate::html) look: SeriesStyle,
    /// From left to right.
    pub(in crate::html) points: Vec<Point>,
    /// Marks stand on the points.
    pub(in crate::html) has_marks: bool,
}

impl Curve {
    /// The same, without how far its runs lie apart.
    pub(in crate::html) fn without_ranges(&self) -> Self {
        let points = self.points.iter().map(|point| Point { range: None, ..point.clone() }).collect();
        Self { name: self.name.clone(), points, ..*self }
    }
}

/// A point of a curve.
#[derive(Clone)]
pub(in crate::html) struct Point {
    pub(in crate::html) x: f64,
    pub(in crate::html) y: f64,
    /// Lowest and highest over the runs.
    pub(in crate::html) range: Option<(f64, f64)>,
    /// Off the scale: a cross at the upper edge instead, and no curve to it.
    pub(in crate::html) is_off: bool,
    /// What it says.
    pub(in crate::html) title: String,
}

/// Draws curves.
pub(in crate::html) fn lines(size: Size, said: &Said<'_>, x: Axis, y: Axis, curves: &[Curve]) -> Markup {
    let names = curves.iter().map(|curve| text_width(&curve.name)).fold(0.0, f64::max);
    let right = (names + 16.0).min(size.width * 0.45);
    let frame = Frame::new(size, Margins { left: 56.0, right, top: 26.0, bottom: 44.0 }, x, y);
    let on = |curve: &Curve| {
        curve.points.iter().filter(|point| !point.is_off).map(|p| (frame.x(p.x), frame.y(p.y))).collect()
    };
    let paths: Vec<Vec<(f64, f64)>> = curves.iter().map(on).collect();
    // Those that are nowhere on the scale have no end at which a name could stand.
    let ends: Vec<(usize, (f64, f64))> =
        paths.iter().enumerate().filter_map(|(i, path)| Some((i, *path.last()?))).collect();
    let wanted: Vec<f64> = ends.iter().map(|(_, (_, y))| *y).collect();
    let places = apart(&wanted, frame.top() + 2.0, frame.bottom() - 2.0);
    let content = html! {
        @for curve in curves { (band(&frame, curve)) }
        @for (curve, points) in curves.iter().zip(&paths) {
            path class=(curve.look.class("curve")) stroke-dasharray=[curve.look.dash()] d=(path(points)) {
                title { (curve.name) }
            }
            @for point in &curve.points {
                @if point.is_off {
                    (off(frame.x(point.x), frame.top(), curve.look, &point.title))
                } @else if curve.has_marks {
                    (curve.look.draw((frame.x(point.x), frame.y(point.y)), false, &point.title))
                }
            }
        }
        @for ((i, (x, y)), place) in ends.iter().zip(&places) {
            @let look = curves[*i].look;
            path.lead d={ "M" (px(x + 5.0)) " " (px(*y)) "L" (px(frame.right() + 8.0)) " " (px(*place)) } {}
            text class=(look.class("named halo")) x=(px(frame.right() + 10.0)) y=(px(place + 4.0)) { (curves[*i].name) }
        }
    };
    frame.draw(said, &content)
}

/// From the lowest to the highest run, where they lie apart.
fn band(frame: &Frame, curve: &Curve) -> Markup {
    let ranges: Vec<(f64, f64, f64)> =
        curve.points.iter().filter(|p| !p.is_off).filter_map(|p| p.range.map(|(low, high)| (p.x, low, high))).collect();
    if ranges.len() < 2 {
        return html! {};
    }
    let below = ranges.iter().map(|(x, low, _)| (frame.x(*x), frame.y(*low)));
    let above = ranges.iter().rev().map(|(x, _, high)| (frame.x(*x), frame.y(*high)));
    let around: Vec<(f64, f64)> = below.chain(above).collect();
    html! { path class=(curve.look.class("band")) d={ (path(&around)) "Z" } {} }
}

/// A small cross.
fn off(x: f64, y: f64, look: SeriesStyle, title: &str) -> Markup {
    let d = format!("M{} {}l8 8m0 -8l-8 8", px(x - 4.0), px(y - 4.0));
    html! { path class=(look.class("mark")) d=(d) { title { (title) } } }
}

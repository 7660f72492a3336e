//! What each mode costs and gives: CPU time to the right, latency upwards, and the line below which nothing was.

use maud::{Markup, html};

use super::labels::{Bounds, TakenAreas, beside};
use super::{Axis, Frame, Margins, Said, SeriesStyle, Size, path, px};

/// A mode.
pub(in crate::html) struct Dot {
    pub(in crate::html) name: String,
    pub(in crate::html) look: SeriesStyle,
    pub(in crate::html) x: f64,
    pub(in crate::html) y: f64,
    /// Lowest and highest over the runs.
    pub(in crate::html) x_range: (f64, f64),
    pub(in crate::html) y_range: (f64, f64),
    /// No other beats it in both.
    pub(in crate::html) is_front: bool,
    /// What it says.
    pub(in crate::html) title: String,
}

/// Draws modes and their frontiers, which are lists of dots by their numbers, from the cheapest.
pub(in crate::html) fn frontier(
    size: Size,
    said: &Said<'_>,
    x: Axis,
    y: Axis,
    dots: &[Dot],
    fronts: &[Vec<usize>],
) -> Markup {
    let frame = Frame::new(size, Margins { left: 56.0, right: 14.0, top: 26.0, bottom: 44.0 }, x, y);
    let at = |dot: &Dot| (frame.x(dot.x), frame.y(dot.y));
    let names: Vec<(f64, f64, &str)> = dots.iter().map(|dot| (at(dot).0, at(dot).1, dot.name.as_str())).collect();
    let corners: Vec<Vec<(f64, f64)>> =
        fronts.iter().map(|front| stairs(&front.iter().map(|i| at(&dots[*i])).collect::<Vec<_>>())).collect();
    let lines = corners.iter().flat_map(|corners| corners.windows(2).map(|pair| TakenAreas::line(pair[0], pair[1])));
    let ranges = dots
        .iter()
        .map(|dot| TakenAreas::line((at(dot).0, frame.y(dot.y_range.0)), (at(dot).0, frame.y(dot.y_range.1))));
    let bounds =
        Bounds { left: frame.left() + 2.0, right: size.width, top: frame.top() - 8.0, bottom: frame.bottom() - 2.0 };
    let places = beside(&names, &lines.chain(ranges).collect::<Vec<_>>(), bounds);
    let content = html! {
        @for corners in corners.iter().filter(|corners| corners.len() > 1) { path.front d=(path(corners)) {} }
        @for dot in dots {
            @let (x, y) = at(dot);
            path class=(dot.look.class("range")) d={
                "M" (px(x)) " " (px(frame.y(dot.y_range.0))) "V" (px(frame.y(dot.y_range.1)))
                "M" (px(frame.x(dot.x_range.0))) " " (px(y)) "H" (px(frame.x(dot.x_range.1)))
            } {}
        }
        @for dot in dots { (dot.look.draw(at(dot), !dot.is_front, &dot.title)) }
        @for (dot, place) in dots.iter().zip(&places) {
            text class=(dot.look.class("named halo")) x=(px(place.x)) y=(px(place.y)) text-anchor=(place.anchor) { (dot.name) }
        }
        @for (dot, place) in dots.iter().zip(&places) {
            @if let Some((x, y)) = place.lead {
                path class=(dot.look.class("lead")) d={ "M" (px(at(dot).0)) " " (px(at(dot).1)) "L" (px(x)) " " (px(y)) } {}
            }
        }
    };
    frame.draw(said, &content)
}

/// From one to the next along what both allow: level, then down.
fn stairs(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = points.first().copied().into_iter().collect();
    for pair in points.windows(2) {
        corners.extend([(pair[1].0, pair[0].1), pair[1]]);
    }
    corners
}

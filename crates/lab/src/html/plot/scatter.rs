//! What was predicted over what was published: on the line both are the same.

use maud::{Markup, html};

use super::{Axis, Frame, Margins, Said, Scale, SeriesStyle, Size, px};

/// A figure of both.
pub(in crate::html) struct Both {
    pub(in crate::html) look: SeriesStyle,
    pub(in crate::html) published: f64,
    pub(in crate::html) predicted: f64,
    /// What it says.
    pub(in crate::html) title: String,
}

/// Draws them on equal scales.
pub(in crate::html) fn scatter(
    size: Size,
    said: &Said<'_>,
    unit: &str,
    show: fn(f64) -> String,
    all: &[Both],
) -> Markup {
    let figures: Vec<f64> = all.iter().flat_map(|both| [both.published, both.predicted]).collect();
    let axis = |what: &str| Axis {
        scale: Scale::log(figures.iter().copied(), show),
        name: format!("{what}, {unit}, log scale"),
    };
    let frame = Frame::new(
        size,
        Margins { left: 62.0, right: 16.0, top: 26.0, bottom: 44.0 },
        axis("published"),
        axis("predicted"),
    );
    let content = html! {
        path.front d={ "M" (px(frame.left())) " " (px(frame.bottom())) "L" (px(frame.right())) " " (px(frame.top())) } {}
        @for both in all {
            (both.look.draw((frame.x(both.published), frame.y(both.predicted)), true, &both.title))
        }
    };
    frame.draw(said, &content)
}

//! Figures of several runs side by side: a mark for the median and a line from the lowest to the highest run.

use maud::{Markup, html};

use super::{Axis, Frame, Margins, Said, Scale, SeriesStyle, Size, px, text_width};

/// A row: what is held against each other.
pub(in crate::html) struct RangeRow {
    pub(in crate::html) name: String,
    pub(in crate::html) marks: Vec<RangeMark>,
}

/// The figure of one.
pub(in crate::html) struct RangeMark {
    pub(in crate::html) look: SeriesStyle,
    pub(in crate::html) median: f64,
    pub(in crate::html) range: (f64, f64),
    /// What it says.
    pub(in crate::html) title: String,
}

/// Draws rows; the height follows from their number.
pub(in crate::html) fn ranges(width: f64, said: &Said<'_>, x: Axis, rows: &[RangeRow]) -> Markup {
    let left = (rows.iter().map(|row| text_width(&row.name)).fold(0.0, f64::max) + 12.0).min(width * 0.5);
    let each = |row: &RangeRow| 12.0 + 11.0 * row.marks.len() as f64;
    let height = 6.0 + rows.iter().map(each).sum::<f64>() + 44.0;
    let no_axis = Axis { scale: Scale::Blank, name: String::new() };
    let frame = Frame::new(Size { width, height }, Margins { left, right: 16.0, top: 6.0, bottom: 44.0 }, x, no_axis);
    let mut y = 6.0;
    let content = html! {
        @for row in rows {
            @let middle = y + each(row) / 2.0;
            text x=(px(left - 8.0)) y=(px(middle + 4.0)) text-anchor="end" { (row.name) }
            @for (i, mark) in row.marks.iter().enumerate() {
                @let at = y + 12.0 + 11.0 * i as f64;
                path class=(mark.look.class("range")) stroke-width="2"
                    d={ "M" (px(frame.x(mark.range.0))) " " (px(at)) "H" (px(frame.x(mark.range.1))) } {}
                (mark.look.draw((frame.x(mark.median), at), false, &mark.title))
            }
            @let () = y += each(row);
        }
    };
    frame.draw(said, &content)
}

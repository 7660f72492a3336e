//! Pages: one file each, without scripts and without anything from elsewhere, so they open offline and in ten years.
//!
//! ```text
//! Report, Advice, ... --compare, advise, ...--> Page { title, answer, sections } --shell--> HTML
//!                                   plot: figures as SVG, coloured by the style sheet of the page
//! ```
//!
//! The figures are written by hand and not by a library for plots: colours that follow the reader's light or dark mode,
//! dashes and marks that differ without colour, and a text for each mark need classes and titles in the SVG.

mod advise;
mod bench;
mod compare;
mod plan;
mod plot;
mod shell;
mod trial;
mod value;
mod write;

pub use advise::advise_page;
pub use bench::bench_page;
pub use compare::{page_of_one, page_of_several};
pub use plan::plan_page;
pub use trial::{PASSED_BY, WHO_POLLED, trial_page};
pub use write::{HtmlFile, WriteError};

//! Files of plans: those that the program brings along, and those of the user.

use std::borrow::Cow;
use std::path::Path;

use napier_core::time::Span;
use napier_lab::suggest::did_you_mean;
use napier_linux::given;
use napier_scenario::ParseError;
use napier_scenario::read::Table;

/// Largest file of a plan.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Files that the program brings along: name, text.
const PLANS: &[(&str, &str)] = &[
    ("irq-suspension", include_str!("../../plans/irq-suspension.toml")),
    ("xsk-rr", include_str!("../../plans/xsk-rr.toml")),
    ("busy-read", include_str!("../../plans/busy-read.toml")),
    ("udp-stream", include_str!("../../plans/udp-stream.toml")),
    ("tcp-rr", include_str!("../../plans/tcp-rr.toml")),
    ("remote-ssd", include_str!("../../plans/remote-ssd.toml")),
    ("groups", include_str!("../../plans/groups.toml")),
];

/// A plan cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A file is wrong.
    #[error(transparent)]
    File(#[from] ParseError),
    /// A file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(String, std::io::Error),
    /// Neither a file nor a name.
    #[error("there is no plan {name}{}: give a file, or one of {}", did_you_mean(name, plan_names()), all_names())]
    Unknown {
        /// As given.
        name: String,
    },
}

/// The text of the plan of this name, or in this file.
pub(super) fn plan_text(name: &str) -> Result<Cow<'static, str>, PlanError> {
    if let Some((_, text)) = PLANS.iter().find(|(known, _)| *known == name) {
        return Ok(Cow::Borrowed(text));
    }
    if !Path::new(name).exists() {
        return Err(PlanError::Unknown { name: name.to_owned() });
    }
    let text = given::read_text(Path::new(name), FILE_BYTES_MAX);
    text.map(Cow::Owned).map_err(|error| PlanError::Unreadable(name.to_owned(), error))
}

/// The plans that the program brings along.
pub(super) fn plan_names() -> impl Iterator<Item = &'static str> {
    PLANS.iter().map(|(name, _)| *name)
}

fn all_names() -> String {
    plan_names().collect::<Vec<_>>().join(", ")
}

pub(super) fn measured(whole: &Table<'_>) -> Result<Span, ParseError> {
    let span = whole.short_span("measured", Span::from_secs(1))?;
    if span.is_zero() { Err(whole.need("measured")?.error("something has to be measured")) } else { Ok(span) }
}

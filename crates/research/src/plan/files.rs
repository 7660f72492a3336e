//! Files of plans and published tables: those that the program brings along, and those of the user.

use std::borrow::Cow;
use std::path::Path;

use napier_lab::suggest::did_you_mean;
use napier_linux::given;
use napier_scenario::ParseError;

use super::Plan;

/// Largest file of a plan.
const FILE_BYTES_MAX: u64 = 16 << 20;

// Name and text of what lies in `plans` and in `plans/published`.
include!(concat!(env!("OUT_DIR"), "/brought.rs"));

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
    #[error("there is no plan {name}{}: give a file, or one of {}", did_you_mean(name, names()), all_names())]
    Unknown {
        /// As given.
        name: String,
    },
}

/// The plan of this name, or in this file.
///
/// # Errors
/// [`PlanError`] says what was expected.
pub fn named(name: &str) -> Result<Plan, PlanError> {
    let brought = PLANS.iter().find(|(known, _)| *known == name).map(|(_, text)| Cow::Borrowed(*text));
    let text = match brought {
        Some(text) => text,
        None if !Path::new(name).exists() => return Err(PlanError::Unknown { name: name.to_owned() }),
        None => given::read_text(Path::new(name), FILE_BYTES_MAX)
            .map(Cow::Owned)
            .map_err(|error| PlanError::Unreadable(name.to_owned(), error))?,
    };
    Ok(Plan::parse(&text, name)?)
}

/// The text of the published table of this name, or in this file.
pub(super) fn table_text(name: &str) -> Option<Cow<'static, str>> {
    let brought = TABLES.iter().find(|(known, _)| *known == name).map(|(_, text)| Cow::Borrowed(*text));
    brought.or_else(|| given::read_text(Path::new(name), FILE_BYTES_MAX).map(Cow::Owned).ok())
}

/// The plans that the program brings along.
pub fn names() -> impl Iterator<Item = &'static str> {
    PLANS.iter().map(|(name, _)| *name)
}

fn all_names() -> String {
    names().collect::<Vec<_>>().join(", ")
}

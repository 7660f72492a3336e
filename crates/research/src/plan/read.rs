//! Plan files, of whatever kind.

use napier_scenario::ParseError;
use napier_scenario::read::read_file;

use super::event_loop::{EVENT_LOOP, EventLoopPlan};
use super::files::{PlanError, plan_text};
use super::grid::{Grid, GridKind};

/// A plan of whatever kind.
#[derive(Clone, Debug)]
pub enum AnyPlan {
    /// A server that waits in an event context, and its clients.
    EventLoop(Box<EventLoopPlan>),
    /// Another experiment, which is run as a whole.
    Grid(Box<Grid>),
}

/// The plan of this name, or in this file.
///
/// # Errors
/// [`PlanError`] says what was expected.
pub fn named(name: &str) -> Result<AnyPlan, PlanError> {
    Ok(AnyPlan::parse(&plan_text(name)?, name)?)
}

impl AnyPlan {
    /// Reads a plan by its `kind`; `file` is its name in errors.
    ///
    /// # Errors
    /// The first thing that is wrong, with its file and line.
    pub fn parse(text: &str, file: &str) -> Result<Self, ParseError> {
        let kind = read_file(text, file, |whole| {
            let found = whole.in_order().into_iter().find(|(key, _)| *key == "kind");
            let words: Vec<&str> = std::iter::once(EVENT_LOOP).chain(GridKind::WORDS).collect();
            let find = |word: &str| words.contains(&word).then(|| GridKind::named(word));
            found.map_or(Ok(None), |(_, node)| node.word(find, &words))
        })?;
        Ok(match kind {
            None => Self::EventLoop(Box::new(EventLoopPlan::parse(text, file)?)),
            Some(kind) => Self::Grid(Box::new(Grid::parse(kind, text, file)?)),
        })
    }
}

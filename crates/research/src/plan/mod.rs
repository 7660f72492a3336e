//! Plans: a published experiment as parameters, predicted cell by cell on a simulated machine, beside what was published.
//!
//! A plan is of a kind: `read`, `run`, `score`, `table` and `json` are of an event loop, a server that waits in an event context, [`Grid`] is of the others.
//! A plan names a machine, modes and loads; nothing that was measured is in either but the figures that a machine file says it was
//! fitted to. `docs/plans.md` describes both files.

mod event_loop;
mod files;
mod grid;
mod json;
mod load;
mod page;
mod published;
mod read;
mod result;
mod run;
mod score;
mod table;

pub use event_loop::EventLoopPlan;
pub use files::PlanError;
pub use grid::{Grid, GridCell, GridKind, JsonGrid, JsonGridCell, grid_json, grid_table, run_grid};
pub use json::{JsonCell, JsonPlan, json};
pub use load::Load;
pub use page::page;
pub use published::{Published, PublishedRow};
pub use read::{AnyPlan, named};
pub use result::{Results, ResultsError, cell_name, merge};
pub use run::{PlanCell, Predicted, run};
pub use score::{Score, score};
pub use table::table;

#[cfg(test)]
mod tests;

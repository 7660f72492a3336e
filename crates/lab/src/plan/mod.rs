//! Plans: a published experiment as parameters, predicted cell by cell on a simulated machine, beside what was published.
//!
//! A plan is of a kind: `read`, `run`, `score`, `table` and `json` are of an event loop, a server that waits in an event context, [`Grid`] is of the others.
//! A plan names a machine, modes and loads; nothing that was measured is in either but the figures that a machine file says it was
//! fitted to. `docs/plans.md` describes both files.

mod event_loop;
mod files;
mod grid;
mod json;
mod known;
mod load;
mod machine;
mod page;
mod published;
mod read;
mod result;
mod run;
mod score;
mod table;

pub use event_loop::EventLoopPlan;
pub use files::{PlanError, server_named};
pub use grid::{Grid, GridCell, GridKind, JsonGrid, JsonGridCell, grid_json, grid_table, run_grid};
pub use json::{JsonCell, JsonPlan, json};
pub use known::{Distrust, ERROR_MAX_PCT, KnownError, Off};
pub(crate) use known::{percent, root_mean_square, table as error_table};
pub use load::Load;
pub use machine::{Client, MachineFile, Origin, Parameter, Wire};
pub use page::page;
pub use published::{Published, PublishedRow};
pub use read::{AnyPlan, named};
pub use result::{Results, ResultsError, cell_name, merge};
pub use run::{PlanCell, Predicted, run};
pub(crate) use run::{clients_of, core_of, instance_settings};
pub use score::{Score, score};
pub use table::table;

/// Its name up to version 0.2.
#[deprecated(since = "0.3.0", note = "it is `PlanCell`")]
pub type Cell = PlanCell;

/// Its name up to version 0.2.
#[deprecated(since = "0.3.0", note = "it is `PublishedRow`")]
pub type Row = PublishedRow;

/// Its name up to version 0.2.
#[deprecated(since = "0.3.0", note = "it is `EventLoopPlan`")]
pub type Plan = EventLoopPlan;

/// Its name up to version 0.2.
#[deprecated(since = "0.3.0", note = "it is `GridKind`")]
pub type Kind = GridKind;

#[cfg(test)]
mod tests;

//! Which of several candidates suits a service that runs: they take turns in short blocks, the service's own figures judge, and a guard
//! goes back at once where something looks wrong.
//!
//! ```text
//! plan: blocks --> course --> stage: applies a candidate, and puts back
//!                   |   |
//!           judges --   '--> guard: what to do about what was seen
//!                   |
//!               decide: what the blocks say
//! ```
//!
//! The course is given the time and what acts ([`Stage`]), and the judges ([`Judge`]): it runs on made ones as well as on a machine.

mod course;
mod decide;
mod figure_slices;
mod guard;
pub mod judge;
mod limits;
mod plan;
mod record;
pub mod units;

pub use course::{Course, CourseOutcome, Note, Stage, Trip, Trouble};
pub use decide::{Carried, Decision, Holds, Question, Standing, TrialAnswer, Versus, Within};
pub use guard::{CANDIDATES_MAX, EndedBy, Guard, GuardEvent, GuardOrder, GuardState, Loss};
pub use judge::{Better, Judge, JudgeError, JudgedFigure, Look, Reading, Unit};
pub use limits::{Limit, LimitSide, figures_of};
pub use napier_verdict::{Estimate, Interval, Verdict};
pub use plan::{Block, BlockTimes, BlockTimesError, blocks, looks, looks_counted, rounds_needed};
pub use record::{Measured, Values, never_acted};

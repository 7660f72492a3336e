//! Which of several candidates suits a service that runs: they take turns in short blocks, the service's own figures judge, and a guard
//! goes back at once where something looks wrong.

pub mod judge;

pub use judge::{Better, Figure, Judge, JudgeError, Look, Reading, Unit};

//! Waiting: how threads sleep and are woken, and what they put off until they do.

pub mod deferred;
mod external;
pub mod park;

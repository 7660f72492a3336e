//! Waiting: how threads sleep and are woken, and what they put off until they do.

pub mod deferred;
mod external;
mod nonblocking;
pub mod park;

pub(crate) use nonblocking::Nonblocking;

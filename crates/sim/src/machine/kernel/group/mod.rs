//! CPUs that poll for a group: their threads, and calls about groups.

pub(crate) mod control;
pub(crate) mod park;
pub(crate) mod thread;

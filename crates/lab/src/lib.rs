//! The lab: one workload, every packet-delivery mode, one report.
//!
//! Read in this order: [`modes`] (what a mode name means), [`loads`] (what is offered, and in which order the cells of
//! an experiment run), [`kv`] (the workload), [`arrivals`] (when requests leave), [`stats`] (what is kept of each reply)
//! and [`report`] (what the reader gets). Nothing in these modules reads a clock or starts a thread; [`compare`] and [`mod@bench`] do, with the engine.
//! [`transmit`] carries out a published experiment in virtual time. [`serve`] and [`load`] are a server
//! and a load generator for programs of others, on the engine's sockets or the kernel's.

pub mod arrivals;
pub mod bench;
pub mod compare;
pub mod farm;
pub mod kv;
pub mod load;
pub mod loads;
pub mod modes;
mod pair;
pub mod report;
pub mod rng;
mod roll_call;
pub mod serve;
pub mod stats;
pub mod subject;
pub mod transmit;

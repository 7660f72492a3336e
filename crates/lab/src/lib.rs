//! The lab: one workload, every packet-delivery mode, one report.
//!
//! Read in this order: [`modes`] (what a mode name means), [`loads`] (what is offered, and in which order the cells of
//! an experiment run), [`stats`] (what is made of the replies) and [`report`] (what the reader gets). The workload is
//! `napier_kv`. Nothing in these modules reads a clock or starts a thread; [`compare`] and [`mod@bench`] do, with the engine.
//! [`serve`] and [`load`] run its server and its load generator for programs of others, on the sockets of the engine or the kernel.
//! [`machines`] are what predictions are made on. Published experiments are carried out by the crate `napier-research`.

pub mod advise;
pub mod agent;
pub mod applied;
mod apply;
pub mod bench;
pub mod compare;
pub mod cpus;
pub mod device;
pub mod host;
pub mod html;
pub mod limits;
pub mod load;
pub mod loads;
pub mod machines;
pub mod modes;
mod offer;
mod pair;
pub mod parallel;
pub mod report;
mod roll_call;
pub mod serve;
pub mod sheet;
pub mod shown;
pub mod stats;
pub mod subject;
pub mod suggest;
pub mod wrap;

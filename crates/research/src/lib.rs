//! What few need of Napier, and all of it in virtual time: what `napier sim` does.
//!
//! [`plan`] predicts published experiments cell by cell, beside what was published. [`contention`] has senders that want one transmit
//! queue, with cache lines and locks that cost time, and [`transmit`] compares them with a published table. [`calibrate`] fits a
//! machine file to a comparison, [`timeline`] draws modes, and [`farm`] runs campaigns of random scenarios.

pub mod calibrate;
pub mod contention;
pub mod farm;
pub mod plan;
pub mod timeline;
pub mod transmit;

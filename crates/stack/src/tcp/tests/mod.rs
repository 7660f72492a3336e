//! Tables of the rules, and segments fed to a name space by hand.

mod challenge;
mod confirmed;
mod crossing;
mod keep_alive;
mod limits;
mod linger;
mod memory;
mod owned;
mod rules;
mod segments;
mod time_wait;
mod told;

pub(super) use crate::tcp::machine::tests::STATES;

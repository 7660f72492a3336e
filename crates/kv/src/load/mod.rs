//! An open-loop client of any server that speaks one of memcached's protocols or RESP2.
//!
//! [`codec`] writes requests and reads replies; [`generator`] sends them when they are due, over a [`wire::Wire`]; [`net`]
//! is what a wire of sockets needs of a network.

pub mod codec;
pub mod engine;
pub mod generator;
pub mod net;
pub mod plan;
pub mod wire;

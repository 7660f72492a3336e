//! Verdicts of made data, whose truth is known.
//!
//! Experiments are many, so slices are short of requests where the claim allows it. All seeds are fixed: a test gives the same on
//! every machine.

mod apart;
mod histogram;
mod intervals;
mod verdicts;
mod world;

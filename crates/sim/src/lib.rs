//! The NAPI rules under virtual time: virtual CPUs, NICs and programs, and the farm of seeds.

pub mod farm;
pub mod machine;

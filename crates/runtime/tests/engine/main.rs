//! Engines with a link or two, end to end, and what they say of themselves.
//!
//! One program: what all of these tests are made of is compiled and linked once. Apart are the tests that count what their process
//! has, limit it or start it once more, and those that need the kernel's interfaces.

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod capture;
mod control;
mod gateway;
mod gro;
mod journal;
mod metrics;
mod moderation;
mod modes;
mod network;
mod plan;
mod queues;
mod refused;
mod removed;
mod rx_faults;
mod stopped;
mod suspension;
mod tcp;
mod testpmd;

//! The operating system: the few interfaces that no safe library offers, each a file of at most a screen; the clock; how
//! threads are scheduled and wait for each other.

#![allow(unsafe_code)]

pub mod bpf;
pub mod clock;
pub mod cpuclock;
pub mod current;
pub mod fd;
pub mod give_way;
pub mod heap;
pub mod mmap;
pub mod netdev;
pub mod nowait;
pub mod packet;
pub mod peer;
pub mod poll;
pub mod prefetch;
pub mod real_time;
pub mod sched;
pub mod topology;
pub mod tsc;
pub mod usage;
pub mod xsk;

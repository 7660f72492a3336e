//! The few system interfaces that no safe library offers; each file is at most a screen.
#![allow(unsafe_code)]

pub(crate) mod bpf;
pub(crate) mod cpuclock;
pub(crate) mod fd;
pub(crate) mod heap;
pub(crate) mod kernel_sockets;
pub(crate) mod mmap;
pub(crate) mod netdev;
pub(crate) mod peer;
pub(crate) mod prefetch;
pub(crate) mod sched;
pub(crate) mod tsc;
pub(crate) mod usage;
pub(crate) mod xsk;

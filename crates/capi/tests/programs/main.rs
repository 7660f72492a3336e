//! The programs of `examples`, built by a compiler of C against the library that cargo made, in processes of their own: over memif, over AF_XDP
//! on a pair of interfaces, under valgrind.
#![allow(unsafe_code)]

#[path = "../calls/c.rs"]
#[allow(dead_code, reason = "the tests of calls use all of it")]
mod c;
mod memif;
mod work;
mod xdp;

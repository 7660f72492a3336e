//! Whole frames of a hostile peer against a name space with sockets.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| napier_stack::fuzz_frames(bytes));

//! Calls of a hostile program on its sockets, and what a client says, against the door.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| napier_door::fuzz_calls(bytes));

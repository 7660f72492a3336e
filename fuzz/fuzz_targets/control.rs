//! Messages of a hostile memif peer against both handshakes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| napier_core::memif::fuzz::fuzz_control(bytes));

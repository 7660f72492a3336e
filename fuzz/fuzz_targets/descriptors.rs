//! What a hostile memif peer writes into shared memory against the four ring ends.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| napier_ring::memif::remote::fuzz::fuzz_descriptors(bytes));

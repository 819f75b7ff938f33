#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jobtracker::fuzz::state_bodies(bytes));

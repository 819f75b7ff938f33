#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shuffle::fuzz::shuffle_index(bytes));

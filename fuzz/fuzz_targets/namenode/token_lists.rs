#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| namenode::fuzz::token_lists(bytes));

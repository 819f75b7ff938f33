#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| namenode::fuzz::operators_lists(bytes));

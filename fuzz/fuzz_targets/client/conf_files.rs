#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| client::fuzz::conf_files(bytes));

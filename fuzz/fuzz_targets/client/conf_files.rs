#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mr_api::fuzz::conf_files(bytes));

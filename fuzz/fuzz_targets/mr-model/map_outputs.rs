#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mr_model::fuzz::map_outputs(bytes));

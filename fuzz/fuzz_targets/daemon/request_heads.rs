#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| daemon::fuzz::request_heads(bytes));

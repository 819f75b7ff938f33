#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| worker::fuzz::task_claims(bytes));

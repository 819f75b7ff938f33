#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| client::fuzz::packets(bytes));

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mr_formats::fuzz::codecs(bytes));

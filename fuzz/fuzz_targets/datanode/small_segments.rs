#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| datanode::fuzz::small_segments(bytes));

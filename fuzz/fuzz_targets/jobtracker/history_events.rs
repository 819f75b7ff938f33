#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jobtracker::fuzz::history_events(bytes));

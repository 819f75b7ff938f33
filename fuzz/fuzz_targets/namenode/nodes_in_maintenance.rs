#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| namenode::fuzz::nodes_in_maintenance(bytes));

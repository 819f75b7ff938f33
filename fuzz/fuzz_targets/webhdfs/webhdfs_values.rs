#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| webhdfs::fuzz::webhdfs_values(bytes));

#![no_main]

#[path = "../../../src/dfs/contents/text/avro/mod.rs"]
mod avro;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| avro::avro_files(bytes));

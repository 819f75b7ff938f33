//! Decoders that accept any bytes, for `fuzz/`: words of command lines, what scripts print.

use mr_model::runner::SideFile;
use mr_model::task::replay::RecordPlace;

use crate::run::Args;
use crate::streaming::fuzz as streaming;
pub use crate::streaming::fuzz::{key_fields, script_records, typed_bytes};

/// The name of a target, and its decoder.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] = &[
    ("typed_bytes", typed_bytes),
    ("script_records", script_records),
    ("key_fields", key_fields),
    ("job_words", job_words),
];

/// The words of a job's command line, one a line.
pub fn job_words(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<String> = text.lines().map(str::to_owned).collect();
    let _ = Args::parse(&words);
    for word in &words {
        if let Ok(file) = SideFile::parse(word) {
            assert!(!file.name.contains('/') && !matches!(&file.name[..], "" | "." | ".."));
        }
        if let Some(place) = RecordPlace::parse(word) {
            assert_eq!(RecordPlace::parse(&place.to_string()), Some(place));
        }
        let _ = RecordPlace::of_failure(word);
    }
    streaming::words(&text, &words);
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;

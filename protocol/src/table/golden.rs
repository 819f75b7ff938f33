//! Comparison of messages with the bytes that they had when they were introduced: programs of different age exchange them.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wire;

/// Bytes in the form of a line of a golden file.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every message encodes to its line of `golden`, decodes from it, and from no part of it. The lines are in the order of the tags.
pub(crate) fn check<T: Serialize + DeserializeOwned + Debug>(messages: &[T], golden: &str) {
    let encoded: Vec<String> = messages.iter().map(|message| hex(&wire::encode(message))).collect();
    assert_eq!(encoded.join("\n"), golden.trim_end());
    for (tag, message) in messages.iter().enumerate() {
        let bytes = wire::encode(message);
        assert_eq!(usize::from(bytes[0]), tag, "{message:?}");
        let again: T = wire::decode(&bytes, "message").unwrap();
        assert_eq!(format!("{again:?}"), format!("{message:?}"));
        for end in 0..bytes.len() {
            assert!(wire::decode::<T>(&bytes[..end], "message").is_err(), "{message:?} {end}");
        }
    }
}

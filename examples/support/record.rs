//! Sizes of the sort benchmark's records.

/// Bytes of a record.
pub const RECORD_BYTES: usize = 100;
/// Bytes of its key.
pub const KEY_BYTES: usize = 10;

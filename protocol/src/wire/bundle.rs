//! Several messages in one body, and their answers in another: each behind its length, a little-endian `u32`, in bytes.
//!
//! A daemon takes a bundle at [`TARGET`] of the messages that it takes at [`ALONE`]. Invariants: a bundle has at least one message and at most
//! [`MESSAGES_MAX`]; the answer has as many, in the same order.

use serde::Serialize;

use super::encode_behind;

/// Where a daemon takes bundles.
pub const TARGET: &str = "/rpc/bundle";
/// Where it takes one message.
pub const ALONE: &str = "/rpc";
/// Messages in a bundle: enough that what a request costs hardly counts, few enough that the first answer does not wait long for the last.
pub const MESSAGES_MAX: usize = 128;
/// Bytes of a message that shares a bundle: a call on two long paths. A longer one costs more than the request around it.
pub const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Bytes of a bundle of requests.
pub const BYTES_MAX: usize = MESSAGES_MAX * (MESSAGE_BYTES_MAX + LENGTH_BYTES);

const LENGTH_BYTES: usize = size_of::<u32>();

/// Bytes that are no bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// The last message, or its length, ends early.
    #[error("a bundle of messages ends in the middle of one")]
    Cut,
    /// There is no message.
    #[error("a bundle without a message")]
    Empty,
    /// There are too many messages.
    #[error("a bundle of more than {MESSAGES_MAX} messages")]
    TooMany,
}

/// Appends an encoded message.
///
/// # Panics
/// If the message has 4 GiB or more.
pub fn append(bundle: &mut Vec<u8>, message: &[u8]) {
    bundle.extend_from_slice(&length(message.len()));
    bundle.extend_from_slice(message);
}

/// Encodes a message and appends it.
///
/// # Panics
/// If the message has 4 GiB or more.
pub fn append_encoded<T: Serialize>(mut bundle: Vec<u8>, message: &T) -> Vec<u8> {
    let start = bundle.len();
    bundle.extend_from_slice(&[0; LENGTH_BYTES]);
    let mut bundle = encode_behind(bundle, message);
    let length = length(bundle.len() - start - LENGTH_BYTES);
    bundle[start..start + LENGTH_BYTES].copy_from_slice(&length);
    bundle
}

/// The messages of a bundle.
///
/// # Errors
/// [`BundleError`].
pub fn messages(mut bundle: &[u8]) -> Result<Vec<&[u8]>, BundleError> {
    let mut messages = Vec::new();
    while !bundle.is_empty() {
        if messages.len() == MESSAGES_MAX {
            return Err(BundleError::TooMany);
        }
        let (length, rest) = bundle.split_first_chunk().ok_or(BundleError::Cut)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| BundleError::Cut)?;
        let (message, rest) = rest.split_at_checked(length).ok_or(BundleError::Cut)?;
        messages.push(message);
        bundle = rest;
    }
    if messages.is_empty() { Err(BundleError::Empty) } else { Ok(messages) }
}

fn length(bytes: usize) -> [u8; LENGTH_BYTES] {
    u32::try_from(bytes).expect("a message has less than 4 GiB").to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &[u8] = &[2, 0, 0, 0, 7, 9, 0, 0, 0, 0, 1, 0, 0, 0, 5];

    #[test]
    fn the_bytes_of_a_bundle_stay_as_they_are() {
        let mut bundle = Vec::new();
        append(&mut bundle, &[7, 9]);
        append(&mut bundle, &[]);
        let bundle = append_encoded(bundle, &5u8);
        assert_eq!(bundle, GOLDEN);
        assert_eq!(messages(GOLDEN), Ok(vec![&[7, 9][..], &[], &[5]]));
    }

    #[test]
    fn a_bundle_that_is_cut_is_refused_unless_a_message_ends_there() {
        for end in 0..GOLDEN.len() {
            let expected = match end {
                0 => Err(BundleError::Empty),
                6 => Ok(vec![&[7, 9][..]]),
                10 => Ok(vec![&[7, 9][..], &[]]),
                _ => Err(BundleError::Cut),
            };
            assert_eq!(messages(&GOLDEN[..end]), expected, "{end}");
        }
    }

    #[test]
    fn lengths_and_counts_are_bounded() {
        for length in [1, 12, 1 << 20, u32::MAX] {
            let bytes = [&length.to_le_bytes()[..], &[0; 11][..]].concat();
            let found = messages(&bytes);
            assert!(found.is_err() || length == 1, "{length}: {found:?}");
        }
        let mut full = Vec::new();
        (0..MESSAGES_MAX).for_each(|_| append(&mut full, &[]));
        assert_eq!(messages(&full).map(|messages| messages.len()), Ok(MESSAGES_MAX));
        append(&mut full, &[]);
        assert_eq!(messages(&full), Err(BundleError::TooMany));
    }
}

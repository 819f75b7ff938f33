//! Encoding of messages: postcard. Decoding is total, and its cost is bounded while it runs, whatever the bytes say.
//!
//! - A message takes at most [`MEMORY_MIN_BYTES`] and [`MEMORY_PER_BYTE`] for each of its bytes: values are charged to that budget before they are made, so a
//!   small message never becomes a large one.
//! - It nests at most [`DEPTH_MAX`] deep: no message overflows a stack.
//! - A text has at most [`TEXT_BYTES_MAX`]. A list has at most as many elements as bytes are left, and at most the number that its field states with
//!   [`at_most`]. Both are checked before its first element is read. `protocol/tests/bounded.rs` makes sure that every list states one.

mod bounded;
pub mod bundle;
mod decoder;
pub mod form;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use bounded::{Bounded, at_most};
pub use decoder::{DEPTH_MAX, DecodeError, MEMORY_MIN_BYTES, MEMORY_PER_BYTE, TEXT_BYTES_MAX};

use decoder::Decoder;

/// Most elements of a list that grows only with the things it lists, for example the tasks of a job. Its memory is bounded like that of every message; the
/// things a client can ask for have limits of their own, beside the messages.
pub const ENTRIES_MAX: usize = 1 << 20;
/// A message that does not decode as the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}")]
pub struct WireError {
    what: &'static str,
    #[source]
    source: DecodeError,
}

impl WireError {
    /// The cause.
    pub fn cause(&self) -> &DecodeError {
        &self.source
    }
}

/// Encodes a message.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    encode_behind(Vec::new(), message)
}

/// Encodes a message and appends it to `head`.
pub fn encode_behind<T: Serialize>(head: Vec<u8>, message: &T) -> Vec<u8> {
    postcard::to_extend(message, head)
        .expect("messages are plain data: encoding into memory cannot fail")
}

/// How long a message is when it is encoded, bytes.
pub fn length<T: Serialize>(message: &T) -> usize {
    postcard::serialize_with_flavor(message, postcard::ser_flavors::Size::default())
        .expect("messages are plain data: counting their bytes cannot fail")
}

/// Decodes exactly one message; bytes left over are an error.
///
/// # Errors
/// [`WireError`] if `bytes` is not one whole `T`; `what` names it for people.
pub fn decode<T: DeserializeOwned>(bytes: &[u8], what: &'static str) -> Result<T, WireError> {
    whole(Decoder::new(bytes), what)
}

/// Decodes exactly one value that this program wrote to a disk itself, and that a checksum protects. Its depth and its lists are bounded like those of a
/// message; its memory and its texts are not. What was written once must be readable whenever it is needed, even in a form that is much shorter than the
/// message it arrived in.
///
/// # Errors
/// As for [`decode`].
pub fn decode_stored<T: DeserializeOwned>(
    bytes: &[u8],
    what: &'static str,
) -> Result<T, WireError> {
    whole(Decoder::of_stored(bytes), what)
}

fn whole<T: DeserializeOwned>(
    mut decoder: Decoder<'_>,
    what: &'static str,
) -> Result<T, WireError> {
    let decoded = T::deserialize(&mut decoder);
    decoded
        .and_then(|message| decoder.end().map(|()| message))
        .map_err(|source| WireError { what, source })
}

//! Encoding of messages: postcard, with decoding that is total and bounded by the input's size.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A message that does not decode as what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}: {source}")]
pub struct WireError {
    what: &'static str,
    #[source]
    source: postcard::Error,
}

/// Encodes a message.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    postcard::to_allocvec(message)
        .expect("messages are plain data: encoding into memory cannot fail")
}

/// Decodes exactly one message; bytes left over are an error.
///
/// # Errors
/// [`WireError`] if `bytes` is not one whole `T`; `what` names it for people.
pub fn decode<T: DeserializeOwned>(bytes: &[u8], what: &'static str) -> Result<T, WireError> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) => Err(WireError { what, source: postcard::Error::DeserializeBadEncoding }),
        Err(source) => Err(WireError { what, source }),
    }
}

//! Frames on a byte stream: how messages are cut out of a socket.
//!
//! ```text
//! len  u32 LE   bytes of body, at most the reader's limit
//! crc  u32 LE   CRC-32 (IEEE) of body
//! body len bytes
//! ```

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wire;

/// Bytes before the body.
pub const HEADER_BYTES: usize = 8;
/// Largest control message on a stream socket. Block lists of a whole job fit, and nothing grows without bound.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// Memory reserved for a body before it arrives.
const ROOM_BYTES: usize = 64 << 10;

/// A frame that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream failed or ended inside a frame.
    #[error("cannot read a frame")]
    Io(#[source] io::Error),
    /// The peer announced more than the reader takes.
    #[error("frame of {len} bytes is over the limit of {max}")]
    TooLong {
        /// Announced length, bytes.
        len: usize,
        /// Limit, bytes.
        max: usize,
    },
    /// The body was damaged in transit.
    #[error("frame checksum is {found:08x}, expected {expected:08x}")]
    Checksum {
        /// From the header.
        expected: u32,
        /// Of the body.
        found: u32,
    },
    /// The body is not a message of the expected kind.
    #[error(transparent)]
    Malformed(#[from] wire::WireError),
}

impl FrameError {
    /// True if the stream ended cleanly before a frame began or was cut.
    pub fn is_end(&self) -> bool {
        matches!(self, FrameError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof)
    }
}

/// Encodes `message` as one frame.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let body = wire::encode(message);
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    let len = u32::try_from(body.len()).expect("messages are far smaller than 4 GiB");
    frame.extend_from_slice(&len.to_le_bytes());
    frame.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    frame.extend_from_slice(&body);
    frame
}

/// Length and checksum of the body that follows `header`.
///
/// # Errors
/// [`FrameError::TooLong`] if the length is over `max`.
pub fn parse_header(header: [u8; HEADER_BYTES], max: usize) -> Result<(usize, u32), FrameError> {
    let [a, b, c, d, e, f, g, h] = header;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    if len > max {
        return Err(FrameError::TooLong { len, max });
    }
    Ok((len, u32::from_le_bytes([e, f, g, h])))
}

/// Checks and decodes a body.
///
/// # Errors
/// [`FrameError::Checksum`] or [`FrameError::Malformed`].
pub fn decode_body<T: DeserializeOwned>(
    body: &[u8],
    crc: u32,
    what: &'static str,
) -> Result<T, FrameError> {
    let found = crc32fast::hash(body);
    if found != crc {
        return Err(FrameError::Checksum { expected: crc, found });
    }
    Ok(wire::decode(body, what)?)
}

/// Writes one message to a blocking stream.
///
/// # Errors
/// The stream's error.
pub fn write<T: Serialize>(stream: &mut impl Write, message: &T) -> io::Result<()> {
    stream.write_all(&encode(message))
}

/// Reads one message from a blocking stream.
///
/// # Errors
/// Any [`FrameError`].
pub fn read<T: DeserializeOwned>(
    stream: &mut impl Read,
    max: usize,
    what: &'static str,
) -> Result<T, FrameError> {
    Ok(wire::decode(&read_body(stream, max)?, what)?)
}

/// Reads the body of one frame from a blocking stream and checks it. Its memory grows with the bytes received, not with the announced length.
///
/// # Errors
/// [`FrameError::Io`], [`FrameError::TooLong`] or [`FrameError::Checksum`].
pub fn read_body(stream: &mut impl Read, max: usize) -> Result<Vec<u8>, FrameError> {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).map_err(FrameError::Io)?;
    let (len, expected) = parse_header(header, max)?;
    let mut body = Vec::with_capacity(len.min(ROOM_BYTES));
    let read = stream.take(len as u64).read_to_end(&mut body).map_err(FrameError::Io)?;
    if read < len {
        return Err(FrameError::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    let found = crc32fast::hash(&body);
    if found == expected { Ok(body) } else { Err(FrameError::Checksum { expected, found }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        assert_eq!(encode(&(1u8, "ab")), [4, 0, 0, 0, 0x85, 0x36, 0x26, 0x45, 1, 2, b'a', b'b']);
    }

    #[test]
    fn truncated_flipped_and_oversized_frames_are_errors() {
        let frame = encode(&(7u64, "hello".to_owned()));
        for end in 0..frame.len() {
            assert!(
                read::<(u64, String)>(&mut &frame[..end], 1 << 10, "test").unwrap_err().is_end()
            );
        }
        for bit in 0..frame.len() * 8 {
            let mut bad = frame.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(read::<(u64, String)>(&mut &bad[..], 1 << 10, "test").is_err(), "bit {bit}");
        }
        assert!(matches!(
            read::<(u64, String)>(&mut &frame[..], 3, "test"),
            Err(FrameError::TooLong { max: 3, .. })
        ));
        assert_eq!(
            read::<(u64, String)>(&mut &frame[..], 1 << 10, "test").unwrap(),
            (7, "hello".to_owned())
        );
    }
}

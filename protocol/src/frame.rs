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

/// A frame that cannot be read, or that nobody could read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream failed or ended inside a frame.
    #[error("cannot read a frame")]
    Io(#[source] io::Error),
    /// The body is longer than the reader takes.
    #[error("frame of {len} bytes is over the limit of {max}")]
    TooLong {
        /// Its length, bytes.
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

/// Encodes `message`, whose own limits keep it short, as one frame.
///
/// REQUIRES: its body has at most [`BODY_BYTES_MAX`].
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    encode_within(message, BODY_BYTES_MAX).expect("a message with limits of its own fits a frame")
}

/// Encodes `message` as one frame for a reader that takes bodies of `max` bytes.
///
/// # Errors
/// [`FrameError::TooLong`] if the reader would refuse it.
pub fn encode_within<T: Serialize>(message: &T, max: usize) -> Result<Vec<u8>, FrameError> {
    let mut frame = wire::encode_behind(vec![0; HEADER_BYTES], message);
    let body = &frame[HEADER_BYTES..];
    let (len, crc) = (body.len(), crc32fast::hash(body));
    if len > max {
        return Err(FrameError::TooLong { len, max });
    }
    let announced = u32::try_from(len).map_err(|_| FrameError::TooLong { len, max })?;
    frame[..4].copy_from_slice(&announced.to_le_bytes());
    frame[4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    Ok(frame)
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
/// The stream's error; [`io::ErrorKind::InvalidInput`] if `message` has more than [`BODY_BYTES_MAX`], and then nothing is written.
pub fn write<T: Serialize>(stream: &mut impl Write, message: &T) -> io::Result<()> {
    let frame = encode_within(message, BODY_BYTES_MAX)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    stream.write_all(&frame)
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
    fn what_no_reader_takes_is_not_written() {
        let message = "x".repeat(BODY_BYTES_MAX);
        let mut written = Vec::new();
        let error = write(&mut written, &message).unwrap_err();
        assert_eq!((error.kind(), written.len()), (io::ErrorKind::InvalidInput, 0));
        assert!(matches!(encode_within(&"ab", 2), Err(FrameError::TooLong { len: 3, max: 2 })));
        assert!(encode_within(&"ab", 3).is_ok());
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

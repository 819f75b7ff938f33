//! Messages from a runner over its socket, without blocking.

use std::io;

use bytes::{Buf, BytesMut};
use protocol::frame::{self, FrameError, HEADER_BYTES};
use serde::de::DeserializeOwned;
use tokio::io::AsyncReadExt;
use tokio::net::unix::OwnedReadHalf;

/// Cuts messages out of a socket. Dropping a pending [`FrameReader::next`] loses nothing.
#[derive(Debug)]
pub(crate) struct FrameReader {
    half: OwnedReadHalf,
    buffer: BytesMut,
    bytes_max: usize,
}

impl FrameReader {
    /// Reads from `half`, accepting no message longer than `bytes_max`.
    pub(crate) fn new(half: OwnedReadHalf, bytes_max: usize) -> Self {
        FrameReader { half, buffer: BytesMut::new(), bytes_max }
    }

    /// The next message; `None` at the end of the stream.
    pub(crate) async fn next<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
    ) -> Result<Option<T>, FrameError> {
        loop {
            if let Some(header) = self.buffer.first_chunk::<HEADER_BYTES>() {
                let (length, crc) = frame::parse_header(*header, self.bytes_max)?;
                if self.buffer.len() >= HEADER_BYTES + length {
                    self.buffer.advance(HEADER_BYTES);
                    let body = self.buffer.split_to(length);
                    return frame::decode_body(&body, crc, what).map(Some);
                }
            }
            if self.half.read_buf(&mut self.buffer).await.map_err(FrameError::Io)? == 0 {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(FrameError::Io(io::ErrorKind::UnexpectedEof.into())),
                };
            }
        }
    }
}

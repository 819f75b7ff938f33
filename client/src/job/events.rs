//! Server-sent events: cuts `data` out of a stream of bytes, however they are chunked.
//!
//! Lines end with `\n` or `\r\n`; an empty line ends an event; its `data` lines are joined by `\n`. Other fields are skipped, and so are comments (the sign of
//! life is one).

/// Longest event that is read, bytes; a longer one is dropped. A report with all its counters is a few KiB.
const EVENT_BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Default)]
pub(super) struct EventReader {
    bytes: Vec<u8>,
    /// Where the next line begins.
    at: usize,
    data: Option<Vec<u8>>,
}

impl EventReader {
    /// Takes a chunk.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        if self.bytes.len() - self.at + chunk.len() > EVENT_BYTES_MAX {
            self.bytes.clear();
            self.at = 0;
        }
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(chunk);
    }

    /// Data of the next complete event with data.
    pub(super) fn next_event(&mut self) -> Option<Vec<u8>> {
        while let Some(length) = self.bytes[self.at..].iter().position(|byte| *byte == b'\n') {
            let line = &self.bytes[self.at..self.at + length];
            self.at += length + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                if let Some(data) = self.data.take() {
                    return Some(data);
                }
            } else if let Some(value) = line.strip_prefix(b"data:") {
                let value = value.strip_prefix(b" ").unwrap_or(value);
                match &mut self.data {
                    None => self.data = Some(value.to_vec()),
                    Some(data) if data.len() + value.len() < EVENT_BYTES_MAX => {
                        data.push(b'\n');
                        data.extend_from_slice(value);
                    }
                    Some(_) => {}
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_however_the_stream_is_cut() {
        let stream = b": hello\n\ndata: {\"a\":1}\n\nevent: x\r\ndata:two\r\ndata: lines\r\n\r\n: ping\n\ndata: cut";
        for chunk_bytes in 1..stream.len() {
            let mut reader = EventReader::default();
            let mut events = Vec::new();
            for chunk in stream.chunks(chunk_bytes) {
                reader.push(chunk);
                events.extend(std::iter::from_fn(|| reader.next_event()));
            }
            assert_eq!(events, [b"{\"a\":1}".to_vec(), b"two\nlines".to_vec()], "{chunk_bytes}");
        }
    }
}

//! Records as text, one a line, read as a stream.

use std::io::{self, Cursor, Read};

/// Records of a file, each of which is a line.
pub(super) trait Records {
    /// Appends the next record; false at the end.
    fn append(&mut self, line: &mut Vec<u8>) -> io::Result<bool>;
}

/// Records as text.
pub(super) struct Lines<R> {
    records: R,
    /// The line being handed out.
    line: Cursor<Vec<u8>>,
}

impl<R: Records> Lines<R> {
    /// Lines over these records.
    pub(super) fn of(records: R) -> Self {
        Lines { records, line: Cursor::default() }
    }

    /// Makes the next line; false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.line.set_position(0);
        let line = self.line.get_mut();
        line.clear();
        let is_there = self.records.append(line)?;
        if is_there {
            line.push(b'\n');
        }
        Ok(is_there)
    }
}

impl<R: Records> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.line.read(buffer)? {
                0 if buffer.is_empty() || !self.advance()? => return Ok(0),
                0 => {}
                count => return Ok(count),
            }
        }
    }
}

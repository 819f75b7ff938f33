//! The list of workers to drain, kept in a file by an operator.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use crate::core::workers::parse_names;

/// Longest list; a thousand times what a large cluster writes.
const BYTES_MAX: u64 = 16 << 20;

/// The names in the file; none if no file is configured.
pub(crate) fn read(path: &Path) -> io::Result<BTreeSet<String>> {
    if path.as_os_str().is_empty() {
        return Ok(BTreeSet::new());
    }
    if std::fs::metadata(path)?.len() > BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the list is too long"));
    }
    Ok(parse_names(&std::fs::read_to_string(path)?))
}

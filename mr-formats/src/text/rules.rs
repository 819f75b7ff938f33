//! The rules in a job's properties for the text it reads: what ends a record, how long a line may be, whether a byte order mark counts.

use std::fmt;
use std::sync::Arc;

use protocol::property::{Properties, PropertyError, keys};

/// Longest accepted line (1 GiB): a file without line ends is an error and does not fill the memory.
pub const LINE_BYTES_MAX: usize = 1 << 30;

/// How to cut the text of a [`Source`](crate::Source) into records. The default: at line ends, of any length, without the mark.
#[derive(Clone, Debug, Default)]
pub struct TextRules {
    /// The delimiter that ends a record, instead of a line end.
    pub delimiter: Option<Arc<[u8]>>,
    /// Lines of this length or longer, including their end, are skipped.
    pub bytes_max: Option<u64>,
    /// A byte order mark at the beginning is part of the text.
    pub keeps_mark: bool,
    /// Receives the lines that are skipped.
    pub passed_over: Option<PassedOver>,
}

/// Receives each skipped record: its position, and its length in bytes.
#[derive(Clone)]
pub struct PassedOver(pub Arc<dyn Fn(u64, u64) + Send + Sync>);

impl fmt::Debug for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PassedOver")
    }
}

/// UTF-8's byte order mark, which begins some files.
const MARK: &[u8] = b"\xef\xbb\xbf";

impl TextRules {
    /// The rules in the properties of a job.
    ///
    /// # Errors
    /// If a property has an invalid value.
    pub fn of_job(properties: &Properties) -> Result<Self, PropertyError> {
        let delimiter = keys::RECORD_DELIMITER.get(properties)?.filter(|text| !text.is_empty());
        Ok(TextRules {
            delimiter: delimiter.map(|text| text.into_bytes().into()),
            bytes_max: keys::LINE_BYTES_MAX.get(properties)?.filter(|bytes| *bytes > 0),
            ..TextRules::default()
        })
    }

    /// Unchanged lines, for sources that are not files.
    pub fn plain() -> Self {
        TextRules { keeps_mark: true, ..TextRules::default() }
    }

    /// True if files can be cut anywhere. A delimiter that can overlap itself is found reliably only from the beginning of a file.
    pub(crate) fn can_cut(&self) -> bool {
        let Some(delimiter) = &self.delimiter else { return true };
        (1..delimiter.len()).all(|length| !delimiter.ends_with(&delimiter[..length]))
    }

    /// A record without a mark before it; the record begins at `offset`.
    #[inline]
    pub(crate) fn unmarked<'r>(&self, offset: u64, record: &'r [u8]) -> &'r [u8] {
        if offset > 0 || self.keeps_mark {
            return record;
        }
        record.strip_prefix(MARK).unwrap_or(record)
    }

    /// True if a record of this length, including its end, is skipped; reports it.
    #[inline]
    pub(crate) fn passes_over(&self, offset: u64, length: u64) -> bool {
        match self.bytes_max {
            None => false,
            Some(bytes_max) => length >= bytes_max && self.pass_over(offset, length),
        }
    }

    #[cold]
    fn pass_over(&self, offset: u64, length: u64) -> bool {
        if let Some(PassedOver(report)) = &self.passed_over {
            report(offset, length);
        }
        true
    }
}

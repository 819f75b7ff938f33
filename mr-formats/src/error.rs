//! Errors in files of records, and of their formats.

/// What code of jobs and formats returns: any error, so that `?` works on all of them.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Result of such code and of everything it calls.
pub type Result<T, E = BoxError> = std::result::Result<T, E>;

/// Failures that the formats themselves report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line without end.
    #[error("the line at offset {offset} is longer than 1 GiB")]
    LineTooLong {
        /// Where it begins.
        offset: u64,
    },
    /// A record longer than any format allows.
    #[error("the record at offset {offset} is longer than 1 GiB")]
    RecordTooLong {
        /// Where it begins.
        offset: u64,
    },
    /// `FixedLength` without a length.
    #[error(
        "records of a fixed length have at least one byte: `FixedLength {{ bytes: 0 }}` has none"
    )]
    NoRecordLength,
    /// `NLines` without lines.
    #[error("a map reads at least one line: `NLines {{ count: 0 }}` gives it none")]
    NoLines,
    /// A file that ends in the middle of a record of fixed length.
    #[error("the record at offset {offset} is cut off")]
    RecordCutOff {
        /// Where it begins.
        offset: u64,
    },
    /// A pair whose classes differ from those of its SequenceFile.
    #[error("the output's SequenceFiles do not hold keys or values of {class}")]
    OutputClass {
        /// The class.
        class: String,
    },
    /// A SequenceFile with classes other than those the job reads.
    #[error("the file holds pairs of {found}, the job reads {wanted}")]
    InputClass {
        /// Of the file.
        found: String,
        /// Of the job.
        wanted: String,
    },
    /// The groups of a file, as reported by its format, are not parts of it.
    #[error("the groups of {path} do not begin one behind the other, within the file")]
    InputGroups {
        /// The file.
        path: String,
    },
}

//! What can go wrong in a file of records, or with it.

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
    /// A record that no format allows.
    #[error("the record at offset {offset} is longer than 1 GiB")]
    RecordTooLong {
        /// Where it begins.
        offset: u64,
    },
    /// A file does not end where a record of fixed length does.
    #[error("the record at offset {offset} is cut off")]
    RecordCutOff {
        /// Where it begins.
        offset: u64,
    },
    /// A pair of other classes than its SequenceFile has.
    #[error("the output's SequenceFiles do not hold keys or values of {class}")]
    OutputClass {
        /// The class.
        class: String,
    },
    /// A SequenceFile holds other classes than the job reads.
    #[error("the file holds pairs of {found}, the job reads {wanted}")]
    InputClass {
        /// Of the file.
        found: String,
        /// Of the job.
        wanted: String,
    },
    /// The groups of a file, by its format, are no parts of it.
    #[error("the groups of {path} do not begin one behind the other, within the file")]
    InputGroups {
        /// The file.
        path: String,
    },
}

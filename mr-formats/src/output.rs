//! How output files are made: an [`OutputFormat`] begins each file, and its [`RecordWriter`] makes the bytes of records.
//!
//! A format neither opens nor closes files. The task takes the ready bytes from the writer, compresses and writes them. A file stays in the
//! directory of its attempt until the job commits, so readers see exactly one attempt of each task.

use std::any::Any;
use std::fmt;

use protocol::property::Properties;

use super::codec::FileCodec;
use super::text::ToText;
use crate::error::Result;

/// How a job's records become files.
///
/// ```
/// use mr_api::formats::{NewFile, OutputFormat, RecordWriter, ToText};
/// use mr_api::job::to_files;
/// use mr_api::{Job, LocalRunner, Result, Sum, text};
///
/// /// Each record with its length before it, behind a line that says so.
/// #[derive(Debug)]
/// struct Lengths;
///
/// struct LengthsWriter(Vec<u8>);
///
/// impl OutputFormat for Lengths {
///     fn begin(&self, _: &NewFile<'_>) -> Result<Box<dyn RecordWriter>> {
///         Ok(Box::new(LengthsWriter(b"lengths 1\n".to_vec())))
///     }
/// }
///
/// impl RecordWriter for LengthsWriter {
///     fn write(&mut self, key: &dyn ToText, value: &dyn ToText) -> Result<bool> {
///         for field in [key, value] {
///             let mut text = Vec::new();
///             field.write_text(&mut text);
///             self.0.push(u8::try_from(text.len())?);
///             self.0.extend(text);
///         }
///         Ok(true)
///     }
///
///     fn ready(&mut self) -> &mut Vec<u8> {
///         &mut self.0
///     }
///
///     fn end(&mut self) -> Result<()> {
///         self.0.extend(b"end");
///         Ok(())
///     }
/// }
///
/// # let scratch = tempfile::tempdir()?;
/// # let path = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
/// std::fs::write(path("in"), "b a b\n")?;
/// let job = Job::new("count")
///     .input(text([path("in")]))
///     .map_fn::<Vec<u8>, u64, _>(|line, out| line.words().try_for_each(|word| out.emit(word, 1u64)))
///     .reduce(Sum)
///     .reducers(1)
///     .output(to_files(path("out"), Lengths));
/// LocalRunner::new().run(job)?;
/// assert_eq!(std::fs::read(path("out/part-r-00000"))?, b"lengths 1\n\x01a\x011\x01b\x012end");
/// # Ok::<(), mr_api::BoxError>(())
/// ```
pub trait OutputFormat: fmt::Debug + Send + Sync + 'static {
    /// Begins a file.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn begin(&self, file: &NewFile<'_>) -> Result<Box<dyn RecordWriter>>;

    /// True if the format itself compresses, with the codec of [`NewFile`]. Files of other formats are compressed as a whole if the job
    /// asks for it, and have the extension of the codec.
    fn compresses(&self) -> bool {
        false
    }
}

/// A new file.
#[derive(Clone, Copy, Debug)]
pub struct NewFile<'a> {
    /// Its name, without the extension of a codec. It is the same for every attempt of a task.
    pub name: &'a str,
    /// The compression that the job asks for.
    pub codec: Option<FileCodec>,
    /// The job asks to compress many records at a time (`OutputTo::block_compressed`).
    pub in_blocks: bool,
    /// The properties of the job.
    pub properties: &'a Properties,
}

/// Makes the bytes of one file. The same records must give the same bytes, whichever attempt of a task writes them.
pub trait RecordWriter: Any + Send {
    /// Adds a record from the text of a key and a value; false if there was nothing to add.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn write(&mut self, key: &dyn ToText, value: &dyn ToText) -> Result<bool>;

    /// The bytes that are ready for the file. The task takes them when there are many, and at the end.
    fn ready(&mut self) -> &mut Vec<u8>;

    /// Completes all added records and appends the bytes that follow the last one.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

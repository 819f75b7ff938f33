//! Where and how a job writes.

use std::sync::Arc;

use mr_formats::codec::FileCodec;
use mr_formats::sequence::SequenceOutput;
use mr_formats::writable::Writable;
use mr_formats::{OutputFormat, TextOutput};

use crate::engine::OutputPath;
use crate::task::{Naming, OutputOptions};

/// An output; made by [`text_out`], [`to_files`] or [`intermediate`].
#[derive(Clone, Debug)]
pub struct OutputTo {
    pub(crate) path: OutputPath,
    pub(crate) options: OutputOptions,
}

impl OutputTo {
    fn new(path: OutputPath) -> Self {
        OutputTo { path, options: OutputOptions::default() }
    }

    /// Writes keys and values unchanged; see [`raw_out`].
    pub fn raw(mut self) -> Self {
        self.options.format = Arc::new(TextOutput { raw: true });
        self
    }

    /// Creates each file with its first record: a task that writes nothing leaves no file.
    pub fn lazy(mut self) -> Self {
        self.options.lazy = true;
        self
    }

    /// Compressed files, with the codec's extension.
    pub fn compressed(mut self, codec: FileCodec) -> Self {
        self.options.codec = Some(codec);
        self
    }

    /// Sets the number of replicas of each file, instead of the cluster's default. `-D dfs.replication=N` does the same.
    pub fn replication(mut self, count: u16) -> Self {
        self.options.replication = Some(count);
        self
    }

    /// Sets how files are named.
    pub fn naming(mut self, naming: Naming) -> Self {
        self.options.naming = naming;
        self
    }

    /// SequenceFiles; see [`sequence_out`].
    pub fn sequence<K: Writable, V: Writable>(mut self) -> Self {
        self.options.format = Arc::new(SequenceOutput::of::<K, V>());
        self
    }

    /// SequenceFiles whose records are compressed many at a time, which saves the most.
    pub fn block_compressed(mut self, codec: FileCodec) -> Self {
        self.options.codec = Some(codec);
        self.options.in_blocks = true;
        self
    }

    /// No files, for jobs that only count or that write in other ways.
    pub fn discard(mut self) -> Self {
        self.options.discard = true;
        self
    }
}

/// Text files `part-r-00000` and so on in a new directory.
pub fn text_out(path: impl Into<String>) -> OutputTo {
    OutputTo::new(OutputPath::Path(path.into()))
}

/// Files of unchanged keys and values with nothing between or after them: for records of a fixed length, and for formats that the reducer
/// writes itself.
pub fn raw_out(path: impl Into<String>) -> OutputTo {
    text_out(path).raw()
}

/// Files in any [`OutputFormat`], in a new directory.
pub fn to_files(path: impl Into<String>, format: impl OutputFormat) -> OutputTo {
    let mut output = text_out(path);
    output.options.format = Arc::new(format);
    output
}

/// Output only for the next job of the plan.
pub fn intermediate() -> OutputTo {
    OutputTo::new(OutputPath::Intermediate)
}

/// SequenceFiles with keys of class `K::CLASS` and values of class `V::CLASS`, in a new directory.
///
/// [`Output::append`](crate::Output::append) writes typed pairs; [`Output::write`](crate::Output::write), folds and map-only jobs write
/// the text of keys and values, for which the classes are `Text` (`String`) or `BytesWritable` (`Vec<u8>`).
///
/// ```
/// use mr_api::job::sequence_out;
/// use mr_api::{Job, LocalRunner, reduce_fn, text};
///
/// # let scratch = tempfile::tempdir()?;
/// # let path = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
/// # std::fs::write(path("in"), "b a b\n")?;
/// let job = Job::new("count")
///     .input(text([path("in")]))
///     .map_fn::<String, u64, _>(|line, out| {
///         line.to_str_lossy().split_whitespace().try_for_each(|word| out.emit(word, 1u64))
///     })
///     .reduce(reduce_fn::<String, u64, _>(|word, values, out| {
///         let count = values.count()?;
///         out.append(word, i64::try_from(count)?)
///     }))
///     .reducers(1)
///     .output(sequence_out::<String, i64>(path("out")));
/// LocalRunner::new().run(job)?;
/// assert!(std::fs::read(path("out/part-r-00000"))?.starts_with(b"SEQ\x06"));
/// # Ok::<(), mr_api::BoxError>(())
/// ```
pub fn sequence_out<K: Writable, V: Writable>(path: impl Into<String>) -> OutputTo {
    text_out(path).sequence::<K, V>()
}

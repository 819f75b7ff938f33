//! A task's output: a file `part-r-00000` in the format of the job, and named files beside it.
//!
//! Invariants: files lie in the attempt's directory until the job commits, so an attempt that fails leaves nothing behind. No two outputs of a task
//! have one file: the second would empty the first.

use std::any::{Any, type_name};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use mr_formats::codec::{Encoder, FileCodec};
use mr_formats::sequence::SequenceStream;
use mr_formats::writable::Writable;
use mr_formats::{NewFile, OutputFormat, RecordWriter, TextOutput, TextWriter, ToText};
use protocol::property::{BaseName, Value, keys};
use shuffle::Life;

use super::context::Context;
use super::state::{OUTPUT_COUNTERS, TaskState};
use crate::error::{BoxError, Error, Result};

/// Bytes written at once: large calls are cheaper, and this still fits the second-level cache.
const BUFFER_BYTES: usize = 256 << 10;
/// Base name of the files that every task writes.
const MAIN: &str = "part";

/// A file that an [`Output`] fills.
pub trait OutputFile: Write + Send {
    /// Makes the file complete and durable.
    ///
    /// # Errors
    /// Errors of the file system.
    fn close(self: Box<Self>) -> Result<(), BoxError>;
}

impl OutputFile for File {
    fn close(self: Box<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Opens files in the directory of an attempt.
pub trait OutputFiles: Send {
    /// Creates the file of this name.
    ///
    /// # Errors
    /// Errors of the file system.
    fn create(&self, name: &str) -> Result<Box<dyn OutputFile>>;
}

/// Files in a local directory.
pub struct LocalFiles(pub PathBuf);

impl OutputFiles for LocalFiles {
    fn create(&self, name: &str) -> Result<Box<dyn OutputFile>> {
        let path = self.0.join(name);
        Ok(Box::new(File::create(&path).map_err(Error::file("create", &path))?))
    }
}

/// How output files are named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Naming {
    /// `part-m-00000`, `part-r-00000`.
    #[default]
    Kind,
    /// `part-00000`, as in streaming jobs.
    Plain,
}

/// How a job writes.
#[derive(Clone, Debug)]
pub struct OutputOptions {
    pub(crate) format: Arc<dyn OutputFormat>,
    /// Files appear with their first record.
    pub(crate) lazy: bool,
    /// Records are dropped.
    pub(crate) discard: bool,
    /// Files are compressed.
    pub(crate) codec: Option<FileCodec>,
    /// Compresses many records at a time, in formats with internal compression.
    pub(crate) in_blocks: bool,
    /// Replicas in the file system of the cluster.
    pub replication: Option<u16>,
    pub(crate) naming: Naming,
}

impl Default for OutputOptions {
    fn default() -> Self {
        let (format, naming) = (Arc::new(TextOutput::default()), Naming::default());
        let (lazy, discard, codec, in_blocks, replication) = Default::default();
        OutputOptions { format, lazy, discard, codec, in_blocks, replication, naming }
    }
}

/// Takes the output records of a task.
pub struct Output {
    main: Stream,
    named: BTreeMap<String, Stream>,
    target: Target,
    records: u64,
}

/// Where and how all files of a task are written.
struct Target {
    files: Box<dyn OutputFiles>,
    options: OutputOptions,
    context: Context,
    /// Shown with every record.
    life: Life,
    /// In the names of the files.
    number: u32,
    /// Base name of the main output.
    base: String,
    /// Names of the files that were created.
    created: RefCell<BTreeSet<String>>,
}

/// One file and the bytes not yet written to it.
struct Stream {
    name: String,
    /// `None` before the first record, for a file that appears with it.
    writer: Option<Writer>,
    file: Option<Box<dyn OutputFile>>,
    bytes: u64,
}

/// Makes the bytes of a file; text avoids a dynamic call for each record.
enum Writer {
    Text(Box<TextWriter>),
    Other(Box<dyn RecordWriter>),
}

impl Output {
    /// The output of an attempt; its files are made by `files`, and their names have the number of the task.
    ///
    /// # Errors
    /// A property that does not accept its value; errors of the file system.
    pub fn new(
        files: Box<dyn OutputFiles>,
        options: OutputOptions,
        context: Context,
    ) -> Result<Self> {
        let number = context.attempt().task.index;
        Output::numbered(files, options, context, number)
    }

    /// The same with another number in the names of the files.
    ///
    /// # Errors
    /// As of [`Output::new`].
    pub fn numbered(
        files: Box<dyn OutputFiles>,
        options: OutputOptions,
        context: Context,
        number: u32,
    ) -> Result<Self> {
        let base = TaskState::of(&context)
            .value(keys::OUTPUT_BASENAME)?
            .map_or_else(|| MAIN.to_owned(), |name| name.0);
        let codec = codec(&options, &context)?;
        let options = OutputOptions { codec, ..options };
        let (created, life) = (RefCell::default(), TaskState::of(&context).life());
        let target = Target { files, options, context, life, number, base, created };
        let mut main = Stream::new(target.name(&target.base));
        if !target.options.lazy && !target.options.discard {
            main.open(&target)?;
            main.writer(&target)?.ready().reserve_exact(BUFFER_BYTES + 4096);
        }
        Ok(Output { main, named: BTreeMap::new(), target, records: 0 })
    }

    /// Writes a record; for text, a line. An absent key or value (`()`, `None`) is left out together with the separator; nothing is written
    /// if both are absent.
    ///
    /// # Errors
    /// Errors of the format or the file system.
    #[inline]
    pub fn write(&mut self, key: impl ToText, value: impl ToText) -> Result<()> {
        if self.main.write(&self.target, key, value)? {
            self.records += 1;
        }
        Ok(())
    }

    /// Writes a pair to a SequenceFile; its classes are those of [`sequence_out`](crate::job::sequence_out).
    ///
    /// # Errors
    /// If the output has other classes or is not of SequenceFiles; errors of the file system.
    pub fn append(&mut self, key: impl Writable, value: impl Writable) -> Result<()> {
        let writer = self.main.own(&self.target)?.ok_or(Error::NoSequenceFile)?;
        SequenceStream::append(writer, key, value)?;
        self.records += 1;
        self.main.flush_much(&self.target)
    }

    /// Adds one record through the [`RecordWriter`] of a custom format, beyond text.
    ///
    /// # Errors
    /// If `W` is not the writer of the job's output; errors of `add` and the file system.
    pub fn with<W: RecordWriter>(&mut self, add: impl FnOnce(&mut W) -> Result<()>) -> Result<()> {
        let other = Error::OutputWriter { writer: type_name::<W>() };
        add(self.main.own(&self.target)?.ok_or(other)?)?;
        self.records += 1;
        self.main.flush_much(&self.target)
    }

    /// Writes a record to the file `NAME-r-00000` (in a map: `NAME-m-00000`) beside the main one. The file appears with its first record.
    ///
    /// # Errors
    /// If `name` has characters other than letters, digits, `-`, `_` and `.`, or is `part` or the base name of the main file; errors of the file system.
    pub fn write_to(&mut self, name: &str, key: impl ToText, value: impl ToText) -> Result<()> {
        if !self.named.contains_key(name) {
            if !is_output_name(name) {
                return Err(Error::OutputName { name: name.to_owned() }.into());
            }
            if name == self.target.base {
                let file = self.main.name.clone();
                return Err(Error::OutputIsMain { name: name.to_owned(), file }.into());
            }
            self.named.insert(name.to_owned(), Stream::new(self.target.name(name)));
        }
        let stream = self.named.get_mut(name).expect("inserted above");
        if stream.write(&self.target, key, value)? {
            self.target.context.counter("MultipleOutputs", name).increment();
        }
        Ok(())
    }

    /// The task's context.
    pub fn context(&self) -> &Context {
        &self.target.context
    }

    /// Completes the files; returns the number of records written to the main one.
    ///
    /// # Errors
    /// Errors of the format or the file system.
    pub fn close(self) -> Result<u64> {
        for mut stream in std::iter::once(self.main).chain(self.named.into_values()) {
            if let Some(writer) = &mut stream.writer {
                writer.end()?;
                if !writer.ready().is_empty() {
                    stream.flush(&self.target)?;
                }
            }
            if let Some(file) = stream.file {
                file.close()?;
            }
            TaskState::of(&self.target.context).add_to(
                OUTPUT_COUNTERS,
                "BYTES_WRITTEN",
                stream.bytes,
            );
        }
        Ok(self.records)
    }
}

impl Target {
    /// The name of a file, without the extension of a codec.
    fn name(&self, base: &str) -> String {
        let letter = self.context.attempt().task.kind.letter();
        match self.options.naming {
            Naming::Kind => format!("{base}-{letter}-{:05}", self.number),
            Naming::Plain => format!("{base}-{:05}", self.number),
        }
    }

    fn create(&self, name: &str) -> Result<Box<dyn OutputFile>> {
        if !self.created.borrow_mut().insert(name.to_owned()) {
            return Err(Error::OutputTwice { file: name.to_owned() }.into());
        }
        match self.options.codec.filter(|_| !self.options.format.compresses()) {
            None => self.files.create(name),
            Some(codec) => {
                let file = self.files.create(&format!("{name}.{}", codec.extension()))?;
                Ok(Box::new(Compressed(codec.encoder(file)?)))
            }
        }
    }
}

impl Stream {
    fn new(name: String) -> Self {
        Stream { name, writer: None, file: None, bytes: 0 }
    }

    /// Adds a record; false if there was nothing to add.
    #[inline]
    fn write(&mut self, target: &Target, key: impl ToText, value: impl ToText) -> Result<bool> {
        target.life.show();
        let writer = self.writer(target)?;
        let added = match writer {
            Writer::Text(text) => text.line(key, value),
            Writer::Other(writer) => writer.write(&key, &value)?,
        };
        if writer.ready().len() >= BUFFER_BYTES {
            self.flush(target)?;
        }
        Ok(added)
    }

    /// The writer, started on first use.
    #[inline]
    fn writer(&mut self, target: &Target) -> Result<&mut Writer> {
        match &mut self.writer {
            Some(writer) => Ok(writer),
            none => Ok(none.insert(Writer::begin(&self.name, target)?)),
        }
    }

    /// The writer if it is a `W`.
    fn own<W: RecordWriter>(&mut self, target: &Target) -> Result<Option<&mut W>> {
        let writer: &mut dyn Any = match self.writer(target)? {
            Writer::Text(text) => &mut **text,
            Writer::Other(writer) => &mut **writer,
        };
        Ok(writer.downcast_mut())
    }

    fn open(&mut self, target: &Target) -> Result<&mut Box<dyn OutputFile>> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => Ok(none.insert(target.create(&self.name)?)),
        }
    }

    /// Writes the buffered bytes if there are many.
    #[inline]
    fn flush_much(&mut self, target: &Target) -> Result<()> {
        target.life.show();
        if self.writer(target)?.ready().len() < BUFFER_BYTES {
            return Ok(());
        }
        self.flush(target)
    }

    fn flush(&mut self, target: &Target) -> Result<()> {
        let mut ready = std::mem::take(self.writer(target)?.ready());
        if !target.options.discard {
            self.bytes += ready.len() as u64;
            self.open(target)?.write_all(&ready)?;
        }
        ready.clear();
        *self.writer(target)?.ready() = ready;
        Ok(())
    }
}

impl Writer {
    fn begin(name: &str, Target { options, context, .. }: &Target) -> Result<Self> {
        let OutputOptions { codec, in_blocks, .. } = *options;
        let properties = TaskState::of(context).properties();
        let writer = options.format.begin(&NewFile { name, codec, in_blocks, properties })?;
        if (&*writer as &dyn Any).is::<TextWriter>() {
            let text = (writer as Box<dyn Any>).downcast().expect("it was just looked at");
            return Ok(Writer::Text(text));
        }
        Ok(Writer::Other(writer))
    }

    #[inline]
    fn ready(&mut self) -> &mut Vec<u8> {
        match self {
            Writer::Text(text) => text.ready(),
            Writer::Other(writer) => writer.ready(),
        }
    }

    fn end(&mut self) -> Result<()> {
        match self {
            Writer::Text(text) => text.end(),
            Writer::Other(writer) => writer.end(),
        }
    }
}

/// A file that compresses what it is given.
struct Compressed(Box<dyn Encoder<Box<dyn OutputFile>>>);

impl Write for Compressed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl OutputFile for Compressed {
    fn close(self: Box<Self>) -> Result<(), BoxError> {
        self.0.end()?.close()
    }
}

/// The codec that the job or its properties ask for.
fn codec(options: &OutputOptions, context: &Context) -> Result<Option<FileCodec>> {
    if options.codec.is_some() || TaskState::of(context).value(keys::OUTPUT_COMPRESS)? != Some(true)
    {
        return Ok(options.codec);
    }
    let class = TaskState::of(context).value(keys::OUTPUT_CODEC)?;
    Ok(Some(class.and_then(|class| FileCodec::of_class(class.0)).unwrap_or(FileCodec::Deflate)))
}

fn is_output_name(name: &str) -> bool {
    name != MAIN && BaseName::parse(name).is_some()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use protocol::{AttemptId, JobId, TaskId, TaskKind};

    use super::*;

    fn written(
        options: OutputOptions,
        write: impl FnOnce(&mut Output) -> Result<()>,
    ) -> BTreeMap<String, String> {
        written_as(options, BTreeMap::new(), write)
    }

    fn written_as(
        options: OutputOptions,
        properties: BTreeMap<String, String>,
        write: impl FnOnce(&mut Output) -> Result<()>,
    ) -> BTreeMap<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let task =
            TaskId { job: JobId { cluster_start: 1, number: 1 }, kind: TaskKind::Reduce, index: 7 };
        let context = Context::new(AttemptId { task, number: 0 }, properties);
        let files = Box::new(LocalFiles(directory.path().to_owned()));
        let mut output = Output::new(files, options, context).unwrap();
        write(&mut output).unwrap();
        output.close().unwrap();
        let entries = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap());
        entries
            .map(|entry| {
                let text = fs::read_to_string(entry.path()).unwrap();
                (entry.file_name().to_string_lossy().into_owned(), text)
            })
            .collect()
    }

    #[test]
    fn lines_and_named_outputs() {
        let files = written(OutputOptions::default(), |out| {
            out.write("a", 1)?;
            out.write((), "v")?;
            out.write("k", None::<u8>)?;
            out.write((), ())?;
            out.write_to("errors", "bad", "line")?;
            assert!(out.write_to("part", 1, 2).is_err() && out.write_to("../x", 1, 2).is_err());
            let other = out.with::<SequenceStream>(|_| Ok(())).unwrap_err();
            assert!(matches!(other.downcast_ref(), Some(Error::OutputWriter { .. })), "{other}");
            out.with::<TextWriter>(|lines| {
                lines.line("own", "line");
                Ok(())
            })?;
            Ok(())
        });
        assert_eq!(files["part-r-00007"], "a\t1\nv\nk\nown\tline\n");
        assert_eq!(files["errors-r-00007"], "bad\tline\n");
        assert_eq!(files.len(), 2);
    }

    /// A named output with the base name of the main one would empty its file.
    #[test]
    fn a_named_output_is_not_the_main_one() {
        for lazy in [false, true] {
            let options = OutputOptions { lazy, ..OutputOptions::default() };
            let base = BTreeMap::from([(keys::OUTPUT_BASENAME.name().into(), "bad".into())]);
            let files = written_as(options, base, |out| {
                if !lazy {
                    out.write("k", "main")?;
                }
                let error = out.write_to("bad", "k", "named").unwrap_err().to_string();
                let said = ["`bad`", "bad-r-00007", "mapreduce.output.basename"];
                assert!(said.iter().all(|part| error.contains(part)), "{error}");
                assert!(out.write_to("part", 1, 2).is_err());
                out.write("k", "main")?;
                out.write_to("good", "k", "named")
            });
            assert_eq!(files["bad-r-00007"].lines().last(), Some("k\tmain"));
            assert_eq!((files.len(), &*files["good-r-00007"]), (2, "k\tnamed\n"));
        }
    }

    #[test]
    fn no_file_is_created_twice() {
        written(OutputOptions::default(), |out| {
            let error = out.target.create("part-r-00007").err().map(|error| error.to_string());
            assert!(error.is_some_and(|error| error.contains("part-r-00007")));
            out.write("k", "v")
        });
    }

    #[test]
    fn lazy_and_discarded_outputs_leave_no_files() {
        let lazy = OutputOptions { lazy: true, ..OutputOptions::default() };
        assert!(written(lazy.clone(), |_| Ok(())).is_empty());
        assert_eq!(written(lazy, |out| out.write("x", ())).len(), 1);
        let discard = OutputOptions { discard: true, ..OutputOptions::default() };
        assert!(written(discard, |out| out.write("x", 1)).is_empty());
    }
}

//! What tasks write: SequenceFiles ([`crate::job::sequence_out`]) or text files `part-r-00000` (`key`, separator, `value`, newline) and named ones beside them.
//!
//! Invariant: files lie in the attempt's directory until the job commits, so an attempt that fails leaves nothing behind.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use protocol::property::keys;

use super::codec::{Encoder, FileCodec};
use super::sequence::{Classes, Compression, SequenceStream, compression};
use super::text::ToText;
use super::writable::Writable;
use crate::error::Result;
use crate::error::{BoxError, Error};
use crate::task::{Context, OUTPUT_COUNTERS};

/// Written at once: large calls are cheaper, and this still fits the second-level cache.
const BUFFER_BYTES: usize = 256 << 10;
/// Base name of the files that every task writes.
const MAIN: &str = "part";

/// A file that an [`Output`] fills.
pub(crate) trait OutputFile: Write + Send {
    /// Makes the file complete and durable.
    fn close(self: Box<Self>) -> Result<(), BoxError>;
}

impl OutputFile for File {
    fn close(self: Box<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Opens files in the directory of an attempt.
pub(crate) trait OutputFiles: Send {
    fn create(&self, name: &str) -> Result<Box<dyn OutputFile>>;
}

/// Files in a local directory.
pub(crate) struct LocalFiles(pub(crate) PathBuf);

impl OutputFiles for LocalFiles {
    fn create(&self, name: &str) -> Result<Box<dyn OutputFile>> {
        let path = self.0.join(name);
        Ok(Box::new(File::create(&path).map_err(Error::file("create", &path))?))
    }
}

/// How output files are called.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Naming {
    /// `part-m-00000`, `part-r-00000`.
    #[default]
    Kind,
    /// `part-00000`, as streaming jobs have it.
    Plain,
}

/// How a job writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OutputOptions {
    /// Files appear with their first record.
    pub(crate) lazy: bool,
    /// Records go nowhere.
    pub(crate) discard: bool,
    /// Files are compressed.
    pub(crate) codec: Option<FileCodec>,
    /// Replicas in the file system of the cluster.
    pub(crate) replication: Option<u16>,
    /// Nothing between and behind records.
    pub(crate) raw: bool,
    /// SequenceFiles of these classes.
    pub(crate) sequence: Option<Classes>,
    /// Their records are compressed many at a time.
    pub(crate) blocks: bool,
    pub(crate) naming: Naming,
}

/// Takes the output records of a task.
pub struct Output {
    main: Stream,
    named: BTreeMap<String, Stream>,
    files: Box<dyn OutputFiles>,
    options: OutputOptions,
    /// Between key and value.
    separator: Vec<u8>,
    /// Behind a record.
    terminator: &'static [u8],
    context: Context,
    records: u64,
    /// How SequenceFiles are compressed.
    compression: Compression,
}

/// One file and what is not yet written to it.
struct Stream {
    name: String,
    codec: Option<FileCodec>,
    buffer: Vec<u8>,
    /// Takes the place of `buffer` in SequenceFiles.
    sequence: Option<SequenceStream>,
    file: Option<Box<dyn OutputFile>>,
    bytes: u64,
}

impl Output {
    pub(crate) fn new(
        files: Box<dyn OutputFiles>,
        options: OutputOptions,
        context: Context,
    ) -> Result<Self> {
        let separator = context.value(keys::OUTPUT_SEPARATOR)?.unwrap_or_else(|| "\t".to_owned());
        let (separator, terminator) =
            if options.raw { (Vec::new(), &b""[..]) } else { (separator.into_bytes(), &b"\n"[..]) };
        let base = context.value(keys::OUTPUT_BASENAME)?.unwrap_or_else(|| MAIN.to_owned());
        if !is_base_name(&base) {
            return Err(Error::OutputName { name: base }.into());
        }
        let mut options = OutputOptions { codec: codec(options, &context)?, ..options };
        let kind = context.value(keys::OUTPUT_COMPRESS_TYPE)?;
        let compression = compression(options.codec, options.blocks, kind);
        if options.sequence.is_some() {
            options.codec = None;
        }
        let mut main = Stream::new(&base, &context, options);
        main.buffer.reserve_exact(BUFFER_BYTES + 4096);
        if !options.lazy && !options.discard {
            main.open(&*files)?;
            if let Some(classes) = options.sequence {
                main.sequence(classes, compression)?;
            }
        }
        let named = BTreeMap::new();
        Ok(Output {
            main,
            named,
            files,
            options,
            separator,
            terminator,
            context,
            records: 0,
            compression,
        })
    }

    /// Writes a line. An absent key or value (`()`, `None`) is left out together with the separator; nothing at all is written if
    /// both are absent.
    ///
    /// # Errors
    /// What the file system says.
    #[inline]
    pub fn write(&mut self, key: impl ToText, value: impl ToText) -> Result<()> {
        if let Some(classes) = self.options.sequence {
            self.main.sequence(classes, self.compression)?.write(key, value)?;
        } else if !self.main.line(key, value, &self.separator, self.terminator) {
            return Ok(());
        }
        self.records += 1;
        if self.main.ready().len() < BUFFER_BYTES {
            return Ok(());
        }
        self.main.flush(&*self.files, self.options)
    }

    /// Writes a pair to a SequenceFile; its classes are those of [`sequence_out`](crate::job::sequence_out).
    ///
    /// # Errors
    /// If the output has other classes or is none of SequenceFiles; what the file system says.
    pub fn append(&mut self, key: impl Writable, value: impl Writable) -> Result<()> {
        let classes = self.options.sequence.ok_or(Error::NoSequenceFile)?;
        self.main.sequence(classes, self.compression)?.append(key, value)?;
        self.records += 1;
        if self.main.ready().len() < BUFFER_BYTES {
            return Ok(());
        }
        self.main.flush(&*self.files, self.options)
    }

    /// Writes a line to the file `NAME-r-00000` (of a map: `NAME-m-00000`) beside the main one. It appears with its first line.
    ///
    /// # Errors
    /// If `name` is no name of letters, digits, `-`, `_` and `.` or is `part`; what the file system says.
    pub fn write_to(&mut self, name: &str, key: impl ToText, value: impl ToText) -> Result<()> {
        if !self.named.contains_key(name) {
            if !is_output_name(name) {
                return Err(Error::OutputName { name: name.to_owned() }.into());
            }
            let stream = Stream::new(name, &self.context, self.options);
            self.named.insert(name.to_owned(), stream);
        }
        let stream = self.named.get_mut(name).expect("inserted above");
        if let Some(classes) = self.options.sequence {
            stream.sequence(classes, self.compression)?.write(key, value)?;
            self.context.counter("MultipleOutputs", name).increment();
        } else if stream.line(key, value, &self.separator, self.terminator) {
            self.context.counter("MultipleOutputs", name).increment();
        }
        if stream.ready().len() < BUFFER_BYTES {
            return Ok(());
        }
        stream.flush(&*self.files, self.options)
    }

    /// The task's surroundings.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Completes the files; the number of records written to the main one.
    pub(crate) fn close(self) -> Result<u64> {
        for mut stream in std::iter::once(self.main).chain(self.named.into_values()) {
            if let Some(sequence) = &mut stream.sequence {
                sequence.complete()?;
            }
            if !stream.ready().is_empty() {
                stream.flush(&*self.files, self.options)?;
            }
            if let Some(file) = stream.file {
                file.close()?;
            }
            self.context.add_to(OUTPUT_COUNTERS, "BYTES_WRITTEN", stream.bytes);
        }
        Ok(self.records)
    }
}

impl Stream {
    fn new(base: &str, context: &Context, options: OutputOptions) -> Self {
        let (task, codec) = (context.attempt().task, options.codec);
        let mut name = match options.naming {
            Naming::Kind => format!("{base}-{}-{:05}", task.kind.letter(), task.index),
            Naming::Plain => format!("{base}-{:05}", task.index),
        };
        if let Some(codec) = codec {
            name = format!("{name}.{}", codec.extension());
        }
        Stream { name, codec, buffer: Vec::new(), sequence: None, file: None, bytes: 0 }
    }

    /// The stream as a SequenceFile, begun if it is not yet.
    #[inline]
    fn sequence(
        &mut self,
        classes: Classes,
        compression: Compression,
    ) -> Result<&mut SequenceStream> {
        match &mut self.sequence {
            Some(stream) => Ok(stream),
            none => Ok(none.insert(SequenceStream::new(&self.name, classes, compression)?)),
        }
    }

    /// Bytes that wait to be written.
    #[inline]
    fn ready(&mut self) -> &mut Vec<u8> {
        match &mut self.sequence {
            Some(stream) => stream.ready(),
            None => &mut self.buffer,
        }
    }

    fn open(&mut self, files: &dyn OutputFiles) -> Result<&mut Box<dyn OutputFile>> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => {
                let file = files.create(&self.name)?;
                Ok(none.insert(match self.codec {
                    Some(codec) => Box::new(Compressed(codec.encoder(file)?)),
                    None => file,
                }))
            }
        }
    }

    /// Appends a line; false if there was nothing to write.
    #[inline]
    fn line(
        &mut self,
        key: impl ToText,
        value: impl ToText,
        separator: &[u8],
        terminator: &[u8],
    ) -> bool {
        let (key_absent, value_absent) = (key.is_absent(), value.is_absent());
        if key_absent && value_absent {
            return false;
        }
        key.write_text(&mut self.buffer);
        if !key_absent && !value_absent {
            self.buffer.extend_from_slice(separator);
        }
        value.write_text(&mut self.buffer);
        self.buffer.extend_from_slice(terminator);
        true
    }

    fn flush(&mut self, files: &dyn OutputFiles, options: OutputOptions) -> Result<()> {
        if !options.discard {
            let ready = std::mem::take(self.ready());
            self.bytes += ready.len() as u64;
            let written = self.open(files)?.write_all(&ready);
            *self.ready() = ready;
            written?;
        }
        self.ready().clear();
        Ok(())
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
fn codec(options: OutputOptions, context: &Context) -> Result<Option<FileCodec>> {
    if options.codec.is_some() || context.value(keys::OUTPUT_COMPRESS)? != Some(true) {
        return Ok(options.codec);
    }
    let class = context.value(keys::OUTPUT_CODEC)?;
    Ok(Some(class.and_then(|class| FileCodec::of_class(class.0)).unwrap_or(FileCodec::Deflate)))
}

fn is_output_name(name: &str) -> bool {
    name != MAIN && is_base_name(name)
}

fn is_base_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && !name.starts_with(['_', '.']) && name.chars().all(allowed)
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
        let directory = tempfile::tempdir().unwrap();
        let task =
            TaskId { job: JobId { cluster_start: 1, number: 1 }, kind: TaskKind::Reduce, index: 7 };
        let context = Context::new(AttemptId { task, number: 0 }, BTreeMap::new());
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
            Ok(())
        });
        assert_eq!(files["part-r-00007"], "a\t1\nv\nk\n");
        assert_eq!(files["errors-r-00007"], "bad\tline\n");
        assert_eq!(files.len(), 2);
    }

    #[test]
    fn lazy_and_discarded_outputs_leave_no_files() {
        let lazy = OutputOptions { lazy: true, ..OutputOptions::default() };
        assert!(written(lazy, |_| Ok(())).is_empty());
        assert_eq!(written(lazy, |out| out.write("x", ())).len(), 1);
        let discard = OutputOptions { discard: true, ..OutputOptions::default() };
        assert!(written(discard, |out| out.write("x", 1)).is_empty());
    }
}

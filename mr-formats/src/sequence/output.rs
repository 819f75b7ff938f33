//! SequenceFiles as output of a task's pairs.
//!
//! Invariant: the same records of the same task give the same bytes, whichever attempt writes them. This includes the sync mark, which is
//! derived from the job's seed and the file's name: in a file that holds others, only its own marks may be taken for such.

use protocol::property::{CompressType, keys};
use sha2::{Digest, Sha256};

use super::file::{Compression, SequenceWriter};
use crate::codec::FileCodec;
use crate::error::Error;
use crate::error::Result;
use crate::output::{NewFile, OutputFormat, RecordWriter};
use crate::text::ToText;
use crate::writable::{TEXT_CLASS, Writable};

/// Job property with which sync marks begin. Whoever runs a job makes it of chance, once for all attempts.
pub const SEED_PROPERTY: &str = "hanno.sequence.seed";

/// Java classes of keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Classes {
    key: &'static str,
    value: &'static str,
}

/// SequenceFiles of these classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceOutput {
    classes: Classes,
}

impl SequenceOutput {
    /// With keys of class `K::CLASS` and values of class `V::CLASS`.
    pub fn of<K: Writable, V: Writable>() -> Self {
        SequenceOutput { classes: Classes { key: K::CLASS, value: V::CLASS } }
    }
}

impl OutputFormat for SequenceOutput {
    fn begin(&self, file: &NewFile<'_>) -> Result<Box<dyn RecordWriter>> {
        let kind = keys::OUTPUT_COMPRESS_TYPE.get(file.properties)?;
        let compression = compression(file.codec, file.in_blocks, kind);
        let seed = file.properties.get(SEED_PROPERTY).map_or("", String::as_str);
        let sync = sync_mark(seed, file.name);
        Ok(Box::new(SequenceStream::new(sync, self.classes, compression)?))
    }

    fn compresses(&self) -> bool {
        true
    }
}

/// How records are compressed, by options and property.
fn compression(
    codec: Option<FileCodec>,
    blocks: bool,
    property: Option<CompressType>,
) -> Compression {
    match (codec, property) {
        (None, _) => Compression::None,
        (Some(codec), _) if blocks => Compression::Block(codec),
        (Some(codec), None | Some(CompressType::Record)) => Compression::Record(codec),
        (Some(codec), Some(CompressType::Block)) => Compression::Block(codec),
        (Some(_), Some(CompressType::None)) => Compression::None,
    }
}

/// One file that is being written.
pub struct SequenceStream {
    writer: SequenceWriter<Vec<u8>>,
    classes: Classes,
    text: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl SequenceStream {
    /// Begins a file.
    fn new(sync: [u8; 16], classes: Classes, compression: Compression) -> Result<Self> {
        let Classes { key, value } = classes;
        let writer = SequenceWriter::new(Vec::new(), key, value, compression, sync)?;
        let (text, key, value) = Default::default();
        Ok(SequenceStream { writer, classes, text, key, value })
    }

    /// Adds a typed pair.
    ///
    /// # Errors
    /// If the file has other classes, or a compressor fails.
    pub fn append<K: Writable, V: Writable>(&mut self, key: K, value: V) -> Result<()> {
        let given = Classes { key: K::CLASS, value: V::CLASS };
        if given != self.classes {
            let wrong = if given.key == self.classes.key { given.value } else { given.key };
            return Err(Error::OutputClass { class: wrong.to_owned() }.into());
        }
        self.key.clear();
        self.value.clear();
        key.write(&mut self.key);
        value.write(&mut self.value);
        Ok(self.writer.push(&self.key, &self.value)?)
    }
}

impl RecordWriter for SequenceStream {
    /// Adds a key and a value as text.
    fn write(&mut self, key: &dyn ToText, value: &dyn ToText) -> Result<bool> {
        self.key.clear();
        self.value.clear();
        encode(self.classes.key, key, &mut self.text, &mut self.key)?;
        encode(self.classes.value, value, &mut self.text, &mut self.value)?;
        self.writer.push(&self.key, &self.value)?;
        Ok(true)
    }

    fn ready(&mut self) -> &mut Vec<u8> {
        self.writer.target()
    }

    fn end(&mut self) -> Result<()> {
        Ok(self.writer.write_block()?)
    }
}

/// The sync mark of the file of this name.
fn sync_mark(seed: &str, name: &str) -> [u8; 16] {
    // No name of a file has a zero byte.
    let digest = Sha256::new().chain_update(seed).chain_update([0]).chain_update(name).finalize();
    *digest.first_chunk().expect("a SHA-256 has 32 bytes")
}

fn encode(class: &str, value: &dyn ToText, text: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<()> {
    text.clear();
    value.write_text(text);
    match class {
        TEXT_CLASS => {
            crate::writable::put_vint(text.len() as i64, out);
            out.extend_from_slice(text);
        }
        <[u8]>::CLASS => text.as_slice().write(out),
        <()>::CLASS if value.is_absent() => {}
        _ => return Err(Error::OutputClass { class: "text".to_owned() }.into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_is_asked_for() {
        let codec = Some(FileCodec::Gzip);
        for (blocks, property, want) in [
            (false, None, Compression::Record(FileCodec::Gzip)),
            (true, None, Compression::Block(FileCodec::Gzip)),
            (false, Some(CompressType::Block), Compression::Block(FileCodec::Gzip)),
            (false, Some(CompressType::None), Compression::None),
        ] {
            assert_eq!(compression(codec, blocks, property), want);
        }
        assert_eq!(compression(None, false, Some(CompressType::Block)), Compression::None);
    }

    #[test]
    fn sync_marks_differ_by_job_and_by_file() {
        let marks = [("a", "x"), ("b", "x"), ("a", "y"), ("ax", "")];
        let marks = marks.map(|(seed, name)| sync_mark(seed, name));
        for (index, mark) in marks.iter().enumerate() {
            assert!(!marks[..index].contains(mark));
        }
        assert_eq!(marks[0], sync_mark("a", "x"), "of another attempt");
    }

    /// Bytes that Hadoop's reader is known to read.
    #[test]
    fn golden_bytes() {
        let classes = Classes { key: String::CLASS, value: i64::CLASS };
        let sync = sync_mark("seed", "part-r-00000");
        let mut stream = SequenceStream::new(sync, classes, Compression::None).unwrap();
        stream.append("a", 2i64).unwrap();
        stream.end().unwrap();
        let class = |name: &str| [&[name.len() as u8], name.as_bytes()].concat();
        let want = [
            &b"SEQ\x06"[..],
            &class("org.apache.hadoop.io.Text"),
            &class("org.apache.hadoop.io.LongWritable"),
            &[0, 0, 0, 0, 0, 0],
            &sync,
            &[0, 0, 0, 10, 0, 0, 0, 2, 1, b'a', 0, 0, 0, 0, 0, 0, 0, 2],
        ];
        assert_eq!(*stream.ready(), want.concat());
    }
}

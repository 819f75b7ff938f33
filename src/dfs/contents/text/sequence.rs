//! SequenceFiles as lines of `key<TAB>value`, each as Java's `toString` prints it.

use std::io::{self, Read};

use mr_api::sequence::SequenceReader;
use mr_api::writable::show;

/// A SequenceFile's records as text.
pub(super) struct Records<R> {
    reader: SequenceReader<R>,
    key_class: String,
    value_class: String,
}

impl<R: Read> Records<R> {
    /// Reads the header.
    pub(super) fn new(source: R) -> io::Result<Self> {
        let reader = SequenceReader::new(source)?;
        let header = reader.header();
        let (key_class, value_class) = (header.key_class.clone(), header.value_class.clone());
        Ok(Records { reader, key_class, value_class })
    }
}

impl<R: Read> super::lines::Records for Records<R> {
    fn append(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        let Some((key, value)) = self.reader.next_pair()? else { return Ok(false) };
        append(&self.key_class, key, line)?;
        line.push(b'\t');
        append(&self.value_class, value, line)?;
        Ok(true)
    }
}

fn append(class: &str, bytes: &[u8], line: &mut Vec<u8>) -> io::Result<()> {
    show(class, bytes, line).map_err(|_| {
        let text = format!("cannot print a value of class {class}");
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mr_api::codec::FileCodec;
    use mr_api::sequence::{Compression, SequenceWriter};
    use mr_api::writable::Writable;

    fn file(compression: Compression, key_class: &str) -> Vec<u8> {
        let mut writer =
            SequenceWriter::new(Vec::new(), key_class, i32::CLASS, compression, [9; 16]).unwrap();
        for (key, value) in [("a", 7), ("b", -1)] {
            let mut pair = [Vec::new(), Vec::new()];
            key.write(&mut pair[0]);
            value.write(&mut pair[1]);
            writer.push(&pair[0], &pair[1]).unwrap();
        }
        writer.end().unwrap()
    }

    fn lines(file: &[u8]) -> io::Result<String> {
        let mut out = String::new();
        super::super::lines::Lines::of(Records::new(file)?).read_to_string(&mut out)?;
        Ok(out)
    }

    #[test]
    fn records_and_blocks_become_lines() {
        for compression in [
            Compression::None,
            Compression::Record(FileCodec::Deflate),
            Compression::Block(FileCodec::Gzip),
        ] {
            let file = file(compression, str::CLASS);
            assert_eq!(lines(&file).unwrap(), "a\t7\nb\t-1\n");
            assert!(lines(&file[..file.len() - 1]).is_err());
        }
        let error = lines(&file(Compression::None, "com.example.Own")).unwrap_err();
        assert_eq!(error.to_string(), "cannot print a value of class com.example.Own");
    }
}

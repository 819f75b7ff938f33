//! `verifyMeta` and `computeMeta`: the checksums of a replica's file on the disk of a DataNode, without the DataNode.
//!
//! Exit codes are HDFS's: 1 for a mismatch or an unreadable file, 2 to 5 for missing options of `computeMeta` and files that it would overwrite.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use protocol::checksum::{self, CHUNK_BYTES, CRC_BYTES};
use protocol::meta::{self, Layout, PREAMBLE_BYTES};

use crate::output::{EXIT_FAILED, EXIT_OK, report, say};

/// Bytes of a block read at once: whole chunks.
const STEP_BYTES: usize = 1 << 20;
/// Only the DataNode's user may read a meta file.
const META_MODE: u32 = 0o600;

const EXIT_NO_BLOCK: u8 = 2;
const EXIT_BLOCK_NOT_THERE: u8 = 3;
const EXIT_NO_OUTPUT: u8 = 4;
const EXIT_OUTPUT_THERE: u8 = 5;

/// `verifyMeta -meta FILE [-block FILE]`.
pub(super) fn verify(words: &[String]) -> u8 {
    let [meta, block] = match options(words, ["-meta", "-block"]) {
        Ok(found) => found,
        Err(text) => return failed(&format!("verifyMeta: {text}")),
    };
    let Some(meta) = meta else { return failed("You must specify a meta file with -meta") };
    let (mut file, layout) = match open_meta(&meta) {
        Ok(opened) => opened,
        Err(text) => {
            let name = meta.display();
            return failed(&format!("Failed to read HDFS metadata file header for {name}: {text}"));
        }
    };
    say!("Checksum type: DataChecksum(type=CRC32, chunkSize={CHUNK_BYTES})");
    let Some(block) = block else { return EXIT_OK };
    match compare(&mut file, layout, &block) {
        Ok(()) => {
            say!("Checksum verification succeeded on block file {}", block.display());
            EXIT_OK
        }
        Err(Mismatch::Sums(text)) => {
            say!("verifyChunkedSums error: {}: {text}", block.display());
            EXIT_FAILED
        }
        Err(Mismatch::Io(error)) => {
            failed(&format!("Failed to open HDFS block file for {}: {error}", block.display()))
        }
    }
}

/// `computeMeta -block FILE -out FILE`.
pub(super) fn compute(words: &[String]) -> u8 {
    let [block, out] = match options(words, ["-block", "-out"]) {
        Ok(found) => found,
        Err(text) => return failed(&format!("computeMeta: {text}")),
    };
    let Some(block) = block else {
        report!("You must specify a block file with -block");
        return EXIT_NO_BLOCK;
    };
    if !block.is_file() {
        report!("Block file <{}> does not exist or is not a file", block.display());
        return EXIT_BLOCK_NOT_THERE;
    }
    let Some(out) = out else {
        report!("You must specify a output file with -out");
        return EXIT_NO_OUTPUT;
    };
    if out.symlink_metadata().is_ok() {
        report!("output file already exists!");
        return EXIT_OUTPUT_THERE;
    }
    let written = sys::fs::write_output_with(&out, META_MODE, |file| write_meta(&block, file));
    match written {
        Ok(()) => {
            say!(
                "Checksum calculation succeeded on block file {} saved metadata to meta file {}",
                block.display(),
                out.display()
            );
            EXIT_OK
        }
        Err(error) => failed(&format!("computeMeta: {}: {error}", out.display())),
    }
}

fn failed(text: &str) -> u8 {
    report!("{text}");
    EXIT_FAILED
}

/// The values of two options; anything else is wrong.
fn options(words: &[String], names: [&str; 2]) -> Result<[Option<PathBuf>; 2], String> {
    let mut found = [None, None];
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let place = names.iter().position(|name| name == word);
        let place = place.ok_or_else(|| format!("unknown option {word}"))?;
        let value = words.next().ok_or_else(|| format!("option {word} requires 1 argument."))?;
        found[place] = Some(PathBuf::from(value));
    }
    Ok(found)
}

fn open_meta(path: &Path) -> Result<(BufReader<File>, Layout), String> {
    let mut file = BufReader::new(sys::fs::open_input(path).map_err(|error| error.to_string())?);
    let mut header = [0; PREAMBLE_BYTES];
    file.read_exact(&mut header).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => meta::MetaError::Header.to_string(),
        _ => error.to_string(),
    })?;
    let layout = meta::check_header(&header).map_err(|error| error.to_string())?;
    Ok((file, layout))
}

/// Why a block does not match its checksums.
enum Mismatch {
    Sums(String),
    Io(io::Error),
}

impl From<io::Error> for Mismatch {
    fn from(error: io::Error) -> Self {
        Mismatch::Io(error)
    }
}

/// Compares every byte of a block; too few or too many checksums are a mismatch too.
fn compare(meta: &mut BufReader<File>, layout: Layout, block: &Path) -> Result<(), Mismatch> {
    let mut block = sys::fs::open_input(block)?;
    let (length, meta_length) = (block.metadata()?.len(), meta.get_ref().metadata()?.len());
    let expected = layout.file_bytes(length);
    if meta_length != expected {
        return Err(Mismatch::Sums(format!(
            "a block of {length} bytes has a meta file of {expected} bytes, this one has {meta_length}"
        )));
    }
    io::copy(
        &mut meta.by_ref().take((layout.header_bytes() - PREAMBLE_BYTES) as u64),
        &mut io::sink(),
    )?;
    let mut data = vec![0; STEP_BYTES];
    let mut crcs = vec![0; STEP_BYTES / CHUNK_BYTES * CRC_BYTES];
    let mut offset = 0;
    loop {
        let count = fill(&mut block, &mut data)?;
        if count == 0 {
            return Ok(());
        }
        let crcs = &mut crcs[..count.div_ceil(CHUNK_BYTES) * CRC_BYTES];
        meta.read_exact(crcs)?;
        checksum::verify(&data[..count], crcs).map_err(|error| {
            Mismatch::Sums(format!("checksum mismatch at offset {}", offset + error.offset))
        })?;
        offset += count as u64;
    }
}

fn write_meta(block: &Path, out: &mut dyn Write) -> io::Result<()> {
    let mut block = sys::fs::open_input(block)?;
    out.write_all(&meta::header())?;
    let mut data = vec![0; STEP_BYTES];
    let mut crcs = Vec::new();
    loop {
        let count = fill(&mut block, &mut data)?;
        if count == 0 {
            return Ok(());
        }
        crcs.clear();
        checksum::append_crcs(&data[..count], &mut crcs);
        out.write_all(&crcs)?;
    }
}

/// Reads until the buffer is full or the file ends, so every step but the last consists of whole chunks.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read(&mut buffer[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn what_is_computed_is_verified_and_a_flipped_bit_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        for length in [0, 1, 511, 512, 513, STEP_BYTES, STEP_BYTES + 700] {
            let (block, meta) = (path("block"), path(&format!("meta-{length}")));
            fs::write(&block, vec![7; length]).unwrap();
            assert_eq!(compute(&words(&["-block", &block, "-out", &meta])), EXIT_OK);
            let both = words(&["-meta", &meta, "-block", &block]);
            assert_eq!(verify(&both), EXIT_OK, "{length}");
            assert_eq!(verify(&words(&["-meta", &meta])), EXIT_OK);
            for other in [length + 1, length.saturating_sub(1), length + 512] {
                if other != length {
                    fs::write(&block, vec![7; other]).unwrap();
                    assert_eq!(verify(&both), EXIT_FAILED, "{length} {other}");
                }
            }
            if length > 0 {
                let mut bytes = vec![7; length];
                bytes[length - 1] ^= 1;
                fs::write(&block, bytes).unwrap();
                assert_eq!(verify(&both), EXIT_FAILED, "{length}");
            }
        }
    }

    #[test]
    fn mistakes_have_hdfss_exit_codes_and_nothing_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let block = path("block");
        fs::write(&block, "x").unwrap();
        for (line, code) in [
            (&[][..], EXIT_NO_BLOCK),
            (&["-block", &path("none")], EXIT_BLOCK_NOT_THERE),
            (&["-block", &block], EXIT_NO_OUTPUT),
            (&["-block", &block, "-out", &block], EXIT_OUTPUT_THERE),
            (&["-block", &block, "-to", "x"], EXIT_FAILED),
            (&["-block"], EXIT_FAILED),
            (&["-block", &block, "-out", &path("no/dir")], EXIT_FAILED),
        ] {
            assert_eq!(compute(&words(line)), code, "{line:?}");
        }
        assert_eq!(fs::read(&block).unwrap(), b"x");
        for line in
            [&[][..], &["-meta", &path("none")], &["-meta", &block], &["-meta", &block, "x"]]
        {
            assert_eq!(verify(&words(line)), EXIT_FAILED, "{line:?}");
        }
    }
}

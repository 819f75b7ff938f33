//! The job's executable in the file system: stored once, under its hash.
//!
//! Invariant: a file in [`BINARY_DIR`] is complete, as it gets its name when it is closed.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use protocol::jobs::BINARY_DIR;
use protocol::{BinaryHash, DfsPath, ErrorKind};
use sha2::{Digest, Sha256};

use super::JobError;
use crate::dfs::{CreateOptions, DfsClient, DfsError};

/// Replicas of an executable at most: it is read by every worker.
const REPLICATION: u16 = 3;
/// Read and written at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Everyone may run it.
const MODE: u16 = 0o755;

/// Hash of an executable.
///
/// # Errors
/// [`JobError::Executable`].
pub fn hash_file(path: &Path) -> Result<BinaryHash, JobError> {
    let mut digest = Sha256::new();
    read_chunks(path, |chunk| {
        digest.update(chunk);
        Ok(())
    })?;
    Ok(BinaryHash(digest.finalize().into()))
}

/// Where the executable of this hash is kept.
pub fn binary_path(hash: BinaryHash) -> DfsPath {
    DfsPath::parse(&format!("{BINARY_DIR}/{hash}")).expect("a constant and a hash make a path")
}

/// Stores the executable at `path` unless it is there already.
///
/// # Errors
/// [`JobError::Executable`] or [`JobError::Upload`].
pub fn upload(dfs: &DfsClient, path: &Path, hash: BinaryHash) -> Result<(), JobError> {
    let target = binary_path(hash);
    let fail = |error: DfsError| JobError::Upload { path: target.clone(), source: error.into() };
    if dfs.try_status(&target).map_err(fail)?.is_some() {
        return Ok(());
    }
    let temporary = DfsPath::parse(&format!("{BINARY_DIR}/_{hash}.{}", dfs.id()))
        .expect("a constant, a hash and an id make a path");
    let options = CreateOptions {
        overwrite: true,
        replication: Some(REPLICATION),
        mode: MODE,
        publish_as: Some(target.clone()),
        publish_overwrite: true,
        ..CreateOptions::default()
    };
    let mut writer = dfs.create(&temporary, options).map_err(fail)?;
    read_chunks(path, |chunk| {
        writer
            .write_all(chunk)
            .map_err(|error| JobError::Upload { path: target.clone(), source: error.into() })
    })?;
    match writer.close() {
        // Another driver was faster with the same bytes.
        Err(error) if error.kind() == Some(ErrorKind::AlreadyExists) => Ok(()),
        closed => closed.map(drop).map_err(fail),
    }
}

fn read_chunks(
    path: &Path,
    mut each: impl FnMut(&[u8]) -> Result<(), JobError>,
) -> Result<(), JobError> {
    let fail = |source| JobError::Executable { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(fail)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk).map_err(fail)? {
            0 => return Ok(()),
            count => each(&chunk[..count])?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_sha_256() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"abc").unwrap();
        let hash = hash_file(file.path()).unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), expected, "the published value for `abc`");
        assert_eq!(binary_path(hash).as_str(), format!("/system/hanno/bin/{expected}"));
    }
}

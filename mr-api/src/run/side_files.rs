//! Side files of a job (Hadoop's distributed cache): small files that every task can read.
//!
//! ```text
//! driver     local file ─► hash ─► file system, under the hash (once);  file of the cluster ─► hash
//! worker     fetched by the first task process of the job ─► hash checked ─► named (rename); others find it there
//! attempt    a link of the file's name in its directory
//! ```
//!
//! Invariants: a side file under its name in the job's directory is complete and has the submitted hash; tasks cannot tell whether they or
//! another process fetched it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use client::dfs::DfsClient;
use client::job::{Content, binary_path, upload};
use mr_model::runner::SideFile;
use mr_model::runner::side_file::{Origin, check_name};
use mr_model::{Error, Result};
use protocol::content::Hasher;
use protocol::{BinaryHash, DfsPath};
use serde::{Deserialize, Serialize};

use super::address;

/// Job property that lists the side files for the workers.
pub(crate) const FILES_PROPERTY: &str = "hanno.side.files";
/// Directory of side files in the directory of a job on a worker.
const DIRECTORY: &str = "side-files";
/// Bytes copied at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Side files are programs as often as data.
const MODE: u32 = 0o755;

/// The path of the side file `name` in the directory of a job.
pub(crate) fn place(job_directory: &Path, name: &str) -> PathBuf {
    job_directory.join(DIRECTORY).join(name)
}

/// A side file as workers learn of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stored {
    name: String,
    path: DfsPath,
    /// [`BinaryHash`] of its bytes, hexadecimal.
    hash: String,
}

/// Makes the files available to workers; returns the value of [`FILES_PROPERTY`].
pub(crate) fn submit(dfs: &DfsClient, files: &[SideFile]) -> Result<String> {
    let mut stored = Vec::new();
    for file in files {
        let (path, hash) = match &file.origin {
            Origin::Local(path) => {
                if !fs::metadata(path).map_err(Error::file("read", path))?.is_file() {
                    return Err(Error::usage(format!("{} is not a file", path.display())).into());
                }
                let hash = upload(dfs, &Content::of_file(path)?)?;
                (binary_path(hash), hash)
            }
            Origin::Cluster(path) => {
                let path = address::of_cluster(dfs, path)?;
                let mut reader = dfs.open(&path).map_err(Error::dfs("open", &path))?;
                let hash = copy(&mut reader, &mut io::sink())?;
                (path, hash)
            }
        };
        stored.push(Stored { name: file.name.clone(), path, hash: hash.to_string() });
    }
    Ok(serde_json::to_string(&stored)?)
}

/// Fetches the side files that `property` lists into the job's directory, unless they are there; returns their paths.
pub(crate) fn localise(
    dfs: &DfsClient,
    property: Option<&str>,
    job_directory: &Path,
) -> Result<BTreeMap<String, PathBuf>> {
    let mut places = BTreeMap::new();
    let Some(property) = property else { return Ok(places) };
    let directory = job_directory.join(DIRECTORY);
    fs::create_dir_all(&directory).map_err(Error::file("create directory", &directory))?;
    for file in serde_json::from_str::<Vec<Stored>>(property)? {
        check_name(&file.name, &file.name)?;
        let place = directory.join(&file.name);
        if !place.try_exists().map_err(Error::file("look for", &place))? {
            fetch(dfs, &file, &place)?;
        }
        places.insert(file.name, place);
    }
    Ok(places)
}

fn fetch(dfs: &DfsClient, file: &Stored, place: &Path) -> Result<()> {
    let temporary = place.with_file_name(format!(".{}.{}", file.name, std::process::id()));
    let mut reader = dfs.open(&file.path).map_err(Error::dfs("open", &file.path))?;
    let mut target = File::create(&temporary).map_err(Error::file("create", &temporary))?;
    let hash = copy(&mut reader, &mut target)?;
    if hash.to_string() != file.hash {
        // Removing the job's directory removes the file in any case.
        let _ = fs::remove_file(&temporary);
        return Err(Error::SideFileChanged { name: file.name.clone() }.into());
    }
    let mode = fs::Permissions::from_mode(MODE);
    fs::set_permissions(&temporary, mode).map_err(Error::file("set the mode of", &temporary))?;
    fs::rename(&temporary, place).map_err(Error::file("rename", &temporary))?;
    Ok(())
}

/// The side files of a local run: the files themselves.
pub(crate) fn local(files: &[SideFile]) -> Result<BTreeMap<String, PathBuf>> {
    let mut places = BTreeMap::new();
    for file in files {
        let path = match &file.origin {
            Origin::Local(path) => path.clone(),
            Origin::Cluster(path) => address::of_machine(path)?,
        };
        let place = fs::canonicalize(&path).map_err(Error::file("read", &path))?;
        places.insert(file.name.clone(), place);
    }
    Ok(places)
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> Result<BinaryHash> {
    let (mut hasher, mut chunk) = (Hasher::new(), vec![0; CHUNK_BYTES]);
    loop {
        match from.read(&mut chunk)? {
            0 => return Ok(hasher.finish()),
            count => {
                hasher.update(&chunk[..count]);
                to.write_all(&chunk[..count])?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mr_model::runner::side_file::link;

    use super::*;

    #[test]
    fn an_attempt_gets_links() {
        let directory = tempfile::tempdir().unwrap();
        let (file, attempt) = (directory.path().join("f"), directory.path().join("attempt"));
        fs::write(&file, "x").unwrap();
        fs::create_dir(&attempt).unwrap();
        let origin = Origin::Local(file);
        let files = local(&[SideFile { name: "other".into(), origin }]).unwrap();
        link(&files, &attempt).unwrap();
        link(&files, &attempt).unwrap();
        assert_eq!(fs::read(attempt.join("other")).unwrap(), b"x");
    }
}

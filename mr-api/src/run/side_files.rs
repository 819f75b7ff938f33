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
use client::job::{Content, upload};
use mr_model::runner::side_file::{Origin, check_name};
use mr_model::runner::{JobSettings, SideFile};
use mr_model::{Error, Result};
use protocol::content::Hasher;
use protocol::{BinaryHash, DfsPath};
use serde::{Deserialize, Serialize};

use super::address;
use super::local::files::check_file;
use super::local::undo;
use super::options::Options;

/// Job property that lists the side files for the workers.
pub(crate) const FILES_PROPERTY: &str = "hanno.side.files";
/// Directory of side files in the directory of a job on a worker.
const DIRECTORY: &str = "side-files";
/// Bytes copied at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Side files are programs as often as data.
const MODE: u32 = 0o755;
/// The bits of a mode that let anybody execute.
const EXECUTE: u32 = 0o111;
/// How scripts begin, and what a linker makes.
const SCRIPT: &[u8] = b"#!";
const ELF: &[u8] = b"\x7fELF";

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

/// All side files of a job. Each name is there once, because tasks find the files by it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct SideFiles(BTreeMap<String, Origin>);

impl SideFiles {
    /// Those of the job itself and those of the command line.
    ///
    /// # Errors
    /// If two different files have one name: which of them is meant?
    pub(crate) fn of_job(settings: &JobSettings, options: &Options) -> Result<Self, Error> {
        let mut all = BTreeMap::new();
        for SideFile { name, origin } in settings.side_files.iter().chain(&options.side_files) {
            match all.get(name) {
                None => drop(all.insert(name.clone(), origin.clone())),
                Some(other) if is_same(other, origin) => {}
                Some(other) => {
                    return Err(Error::usage(format!(
                        "the side files {} and {} have the same name `{name}`, and tasks find them by it: `PATH#NAME` gives one another",
                        text_of(other),
                        text_of(origin)
                    )));
                }
            }
        }
        Ok(SideFiles(all))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn is_same(one: &Origin, other: &Origin) -> bool {
    match (one, other) {
        (Origin::Local(one), Origin::Local(other)) if one != other => {
            fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(other).is_ok_and(|it| it == one))
        }
        _ => one == other,
    }
}

fn text_of(origin: &Origin) -> String {
    match origin {
        Origin::Local(path) => path.display().to_string(),
        Origin::Cluster(path) => path.clone(),
    }
}

/// Makes the files available to workers; returns the value of [`FILES_PROPERTY`].
pub(crate) fn submit(dfs: &DfsClient, SideFiles(files): &SideFiles) -> Result<String> {
    let mut stored = Vec::new();
    for (name, origin) in files {
        let (path, hash) = match origin {
            Origin::Local(path) => {
                check(path)?;
                upload(dfs, &Content::of_file(path)?)?
            }
            Origin::Cluster(path) => {
                let path = address::of_cluster(dfs, path)?;
                let mut reader = dfs.open(&path).map_err(Error::dfs("open", &path))?;
                let hash = copy(&mut reader, &mut io::sink(), |_| {})?;
                (path, hash)
            }
        };
        stored.push(Stored { name: name.clone(), path, hash: hash.to_string() });
    }
    Ok(serde_json::to_string(&stored)?)
}

/// Fetches the side files that `property` lists into the job's directory, unless they are there; returns their paths. `arrived` hears of each file how many
/// bytes are there, from 0 on.
pub(crate) fn localise(
    dfs: &DfsClient,
    property: Option<&str>,
    job_directory: &Path,
    arrived: &dyn Fn(&str, u64),
) -> Result<BTreeMap<String, PathBuf>> {
    let mut places = BTreeMap::new();
    let Some(property) = property else { return Ok(places) };
    let directory = job_directory.join(DIRECTORY);
    fs::create_dir_all(&directory).map_err(Error::file("create directory", &directory))?;
    for file in serde_json::from_str::<Vec<Stored>>(property)? {
        check_name(&file.name, &file.name)?;
        let place = directory.join(&file.name);
        if !place.try_exists().map_err(Error::file("look for", &place))? {
            arrived(&file.name, 0);
            fetch(dfs, &file, &place, |bytes| arrived(&file.name, bytes))?;
        }
        places.insert(file.name, place);
    }
    Ok(places)
}

fn fetch(dfs: &DfsClient, file: &Stored, place: &Path, arrived: impl Fn(u64)) -> Result<()> {
    let temporary = place.with_file_name(format!(".{}.{}", file.name, std::process::id()));
    let mut reader = dfs.open(&file.path).map_err(Error::dfs("open", &file.path))?;
    let mut target = File::create(&temporary).map_err(Error::file("create", &temporary))?;
    let hash = copy(&mut reader, &mut target, arrived)?;
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

/// The side files of a local run: the files themselves. Programs that nobody may execute are copied into `scratch`, where one may, as on a worker.
pub(crate) fn local(
    SideFiles(files): &SideFiles,
    scratch: &Path,
) -> Result<BTreeMap<String, PathBuf>> {
    let mut places = BTreeMap::new();
    for (name, origin) in files {
        let path = match origin {
            Origin::Local(path) => path.clone(),
            Origin::Cluster(path) => address::of_machine(path)?,
        };
        check(&path)?;
        let mut place = fs::canonicalize(&path).map_err(Error::file("read", &path))?;
        if is_kept_from_running(&place).map_err(Error::file("read", &path))? {
            place = executable_copy(&place, name, scratch)?;
        }
        places.insert(name.clone(), place);
    }
    Ok(places)
}

/// True if this is a program, a script or what a linker makes, that nobody may execute. Data is not: it can be large, and needs no copy.
fn is_kept_from_running(path: &Path) -> io::Result<bool> {
    if fs::metadata(path)?.permissions().mode() & EXECUTE != 0 {
        return Ok(false);
    }
    let mut start = Vec::new();
    File::open(path)?.take(ELF.len() as u64).read_to_end(&mut start)?;
    Ok(start.starts_with(SCRIPT) || start == ELF)
}

fn executable_copy(path: &Path, name: &str, scratch: &Path) -> Result<PathBuf> {
    let directory = scratch.join(DIRECTORY);
    [scratch, &directory].into_iter().try_for_each(undo::make)?;
    let directory = fs::canonicalize(&directory).map_err(Error::file("read", &directory))?;
    let copy = directory.join(name);
    fs::copy(path, &copy).map_err(Error::file("create", &copy))?;
    let mode = fs::Permissions::from_mode(MODE);
    fs::set_permissions(&copy, mode).map_err(Error::file("set the mode of", &copy))?;
    Ok(copy)
}

/// Refuses what would not reach the tasks as it is here.
fn check(path: &Path) -> Result<(), Error> {
    check_file(path, &fs::metadata(path).map_err(Error::file("read", path))?)
}

/// Copies all bytes; `copied` hears how many there are so far.
fn copy(from: &mut impl Read, to: &mut impl Write, copied: impl Fn(u64)) -> Result<BinaryHash> {
    let (mut hasher, mut chunk, mut all) = (Hasher::new(), vec![0; CHUNK_BYTES], 0);
    loop {
        match from.read(&mut chunk)? {
            0 => return Ok(hasher.finish()),
            count => {
                hasher.update(&chunk[..count]);
                to.write_all(&chunk[..count])?;
                all += count as u64;
                copied(all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mr_model::job::Plan;
    use mr_model::runner::Planned;
    use mr_model::runner::side_file::link;
    use mr_model::{Job, text, text_out};

    use super::*;

    #[test]
    fn a_name_stands_for_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        for name in ["s", "t"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(&format!("{name}/x")), name).unwrap();
        }
        let joined = |of_job: &[&str], of_options: &[&str]| {
            let job = of_job
                .iter()
                .fold(Job::new("j").input(text(["in"])), |job, file| job.side_file(file).unwrap());
            let job = job.map_fn::<String, (), _>(|_, _| Ok(())).output(text_out("out"));
            let side_files = of_options.iter().map(|file| SideFile::parse(file).unwrap());
            let options = Options { side_files: side_files.collect(), ..Options::default() };
            let graph = Planned::from(Plan::from(job)).graph;
            SideFiles::of_job(graph.stages[0].settings(), &options)
        };
        let (s, t) = (path("s/x"), path("t/x"));
        let (as_y, other_as_y) = (format!("{s}#y"), format!("{t}#y"));
        for (of_job, of_options) in [
            (&[&*s, &*t][..], &[][..]),
            (&[], &[&*s, &*t]),
            (&[&*s], &[&*t]),
            (&[&*as_y], &[&*other_as_y]),
            (&["hdfs:///x"], &[&*s]),
        ] {
            let error = joined(of_job, of_options).unwrap_err().to_string();
            assert!(error.contains("have the same name `"), "{error}");
            let both = of_job.iter().chain(of_options);
            both.for_each(|file| assert!(error.contains(file.trim_end_matches("#y")), "{error}"));
        }
        let roundabout = path("t/../s/x");
        let all = joined(&[&s, &other_as_y], &[&s, &roundabout, "hdfs:///z", "hdfs:///z"]).unwrap();
        assert_eq!(all.0.keys().collect::<Vec<_>>(), ["x", "y", "z"], "one file is given often");
    }

    #[test]
    fn what_is_no_file_of_its_length_is_refused() {
        for path in ["/proc/self/status", "/dev/null", "/tmp", "/missing"] {
            let files = SideFiles([("x".to_owned(), Origin::Local(path.into()))].into());
            let scratch = tempfile::tempdir().unwrap();
            let error = local(&files, scratch.path()).unwrap_err().to_string();
            assert!(error.contains(path), "{error}");
        }
    }

    #[test]
    fn an_attempt_gets_links() {
        let directory = tempfile::tempdir().unwrap();
        let (file, attempt) = (directory.path().join("f"), directory.path().join("attempt"));
        fs::write(&file, "x").unwrap();
        fs::create_dir(&attempt).unwrap();
        let origin = Origin::Local(file);
        let files = SideFiles([("other".to_owned(), origin)].into());
        let files = local(&files, &directory.path().join("scratch")).unwrap();
        link(&files, &attempt).unwrap();
        let taken = link(&files, &attempt).unwrap_err();
        assert!(matches!(&taken, Error::SideFileTaken { name } if name == "other"), "{taken}");
        assert_eq!(fs::read(attempt.join("other")).unwrap(), b"x");
    }

    /// On a worker side files are copies with a mode of their own.
    #[test]
    fn programs_run_whatever_mode_they_were_sent_with_and_data_stays_where_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = directory.path().join("scratch");
        let place = |bytes: &[u8], mode: u32| {
            let file = fs::canonicalize(directory.path()).unwrap().join("f");
            fs::write(&file, bytes).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let files = SideFiles([("as".to_owned(), Origin::Local(file.clone()))].into());
            let place = local(&files, &scratch).unwrap().remove("as").unwrap();
            let found = fs::metadata(&place).unwrap().permissions().mode() & 0o7777;
            assert_eq!(fs::read(&place).unwrap(), bytes);
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, mode);
            (place == file, found)
        };
        let script = b"#!/bin/sh\nexit\n";
        assert_eq!(place(script, 0o644), (false, 0o755));
        assert_eq!(place(b"\x7fELF and more", 0o600), (false, 0o755));
        assert_eq!(place(script, 0o744), (true, 0o744), "it runs");
        assert_eq!(place(b"#", 0o644), (true, 0o644), "data");
        assert_eq!(place(b"", 0o644), (true, 0o644));
    }
}

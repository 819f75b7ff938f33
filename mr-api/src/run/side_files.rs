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
use mr_model::runner::side_file::{Origin, check_name};
use mr_model::runner::{JobSettings, SideFile};
use mr_model::{Error, Result};
use protocol::content::Hasher;
use protocol::{BinaryHash, DfsPath};
use serde::{Deserialize, Serialize};

use super::address;
use super::local::files::check_file;
use super::options::Options;

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
        stored.push(Stored { name: name.clone(), path, hash: hash.to_string() });
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
pub(crate) fn local(SideFiles(files): &SideFiles) -> Result<BTreeMap<String, PathBuf>> {
    let mut places = BTreeMap::new();
    for (name, origin) in files {
        let path = match origin {
            Origin::Local(path) => path.clone(),
            Origin::Cluster(path) => address::of_machine(path)?,
        };
        check(&path)?;
        let place = fs::canonicalize(&path).map_err(Error::file("read", &path))?;
        places.insert(name.clone(), place);
    }
    Ok(places)
}

/// Refuses what would not reach the tasks as it is here.
fn check(path: &Path) -> Result<(), Error> {
    check_file(path, &fs::metadata(path).map_err(Error::file("read", path))?)
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
            let error = local(&files).unwrap_err().to_string();
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
        let files = local(&SideFiles([("other".to_owned(), origin)].into())).unwrap();
        link(&files, &attempt).unwrap();
        link(&files, &attempt).unwrap();
        assert_eq!(fs::read(attempt.join("other")).unwrap(), b"x");
    }
}

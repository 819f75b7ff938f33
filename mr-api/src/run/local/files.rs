//! Local input paths: directories, patterns, splits.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::{fs, io};

use mr_formats::packing::{Packing, WholeFile, pack};
use mr_formats::sources::LocalSource;
use mr_formats::splits::{Ends, FileToCut, SplitLimits};
use mr_formats::{SplitRange, TextRules, splits};
use mr_model::runner::JobInput;
use mr_model::{Error, Result};

use super::open::open;
use super::tasks::LocalSplit;
use crate::run::inputs::{self, Entry, Subdirectories, Tree};

/// A file to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LocalFile {
    pub(crate) path: PathBuf,
    pub(crate) length: u64,
}

/// The file system of this machine.
struct Machine;

impl Tree for Machine {
    fn status(&self, path: &str) -> Result<Option<Entry>> {
        let path = Path::new(path);
        match fs::metadata(path) {
            Ok(metadata) => entry(path, &metadata).map(Some),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(Error::file("read", path)(error).into()),
        }
    }

    fn list(&self, path: &str, is_wanted: &dyn Fn(&str) -> bool) -> Result<Vec<(String, Entry)>> {
        let path = Path::new(path);
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok(Vec::new()),
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(Error::file("read", path)(error).into()),
        }
        let mut entries = Vec::new();
        for path in read_dir(path)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if is_wanted(&name) {
                let metadata = fs::metadata(&path).map_err(Error::file("read", &path))?;
                entries.push((name, entry(&path, &metadata)?));
            }
        }
        Ok(entries)
    }
}

fn entry(path: &Path, metadata: &fs::Metadata) -> Result<Entry> {
    let (is_directory, length) = (metadata.is_dir(), metadata.len());
    if !is_directory {
        check_file(path, metadata)?;
    }
    Ok(Entry { is_directory, length, block_bytes: 0 })
}

/// Refuses what cannot be read as a file is: from any position, to the length that it says it has. A pipe would let its reader wait, and a file like those of
/// `/proc`, which says that it is empty, would be taken for that.
pub(crate) fn check_file(path: &Path, metadata: &fs::Metadata) -> Result<(), Error> {
    if !metadata.is_file() {
        return Err(Error::NotRegular { path: path.to_owned() });
    }
    if metadata.len() > 0 {
        return Ok(());
    }
    let mut file = open(path)?;
    match file.read(&mut [0]) {
        Ok(0) => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
            Err(Error::file("read", path)(error))
        }
        _ => Err(Error::NoLength { path: path.to_owned() }),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The files that `paths` stand for, in order: a directory stands for the files in it, a glob for its matches.
pub(crate) fn expand(paths: &[PathBuf], inner: Subdirectories) -> Result<Vec<LocalFile>> {
    let paths: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let files = inputs::expand(&Machine, &paths, inner)?;
    Ok(files
        .into_iter()
        .map(|file| LocalFile { path: file.path.into(), length: file.length })
        .collect())
}

/// The splits of all files of one input, in order.
pub(super) fn splits(
    files: &[LocalFile],
    (number, input): (u32, &JobInput),
    block_bytes: u64,
    limits: SplitLimits,
    rules: &TextRules,
) -> Result<Vec<LocalSplit>> {
    let to_cut = |file: &LocalFile| FileToCut {
        path: file.path.display().to_string(),
        length: file.length,
        block_bytes,
    };
    let to_cut: Vec<FileToCut> = files.iter().map(to_cut).collect();
    let planned = splits::plan(&to_cut, input.cut, limits, rules, |index, ends| {
        let path = &files[index].path;
        let file = open(path)?;
        match ends {
            Ends::OfLines(count) => Ok(splits::line_ends(file, count, rules.delimiter.as_deref())?),
            Ends::OfGroups => input.groups(&mut LocalSource::new(file)),
        }
    })?;
    let place = |(index, offset, length): splits::Part| {
        (files[index].path.clone(), SplitRange { start: offset, end: offset + length })
    };
    let split = |parts: Vec<splits::Part>| LocalSplit {
        input: number,
        parts: parts.into_iter().map(place).collect(),
    };
    Ok(planned.into_iter().map(split).collect())
}

/// Has small files share maps, in the order of the input. A file that was cut keeps its splits.
pub(super) fn pack_small(splits: Vec<LocalSplit>, packing: Packing) -> Vec<LocalSplit> {
    let path = |index: usize| splits.get(index).and_then(|split| split.parts.first());
    let path = |index: Option<usize>| index.and_then(path).map(|(path, _)| path);
    let is_cut = |index: usize| {
        [index.checked_sub(1), index.checked_add(1)]
            .into_iter()
            .any(|other| path(other) == path(Some(index)))
    };
    let whole: Vec<usize> = (0..splits.len()).filter(|index| !is_cut(*index)).collect();
    let bytes =
        |split: &LocalSplit| split.parts.iter().map(|(_, range)| range.end - range.start).sum();
    let files = whole.iter().map(|index| WholeFile { bytes: bytes(&splits[*index]), hosts: &[] });
    let tasks = pack(&files.collect::<Vec<_>>(), packing);
    let mut taken: Vec<Option<LocalSplit>> = splits.into_iter().map(Some).collect();
    for task in tasks {
        let [first, more @ ..] = &task[..] else { continue };
        let more: Vec<_> = more.iter().filter_map(|file| taken[whole[*file]].take()).collect();
        if let Some(first) = &mut taken[whole[*first]] {
            first.parts.extend(more.into_iter().flat_map(|split| split.parts));
        }
    }
    taken.into_iter().flatten().collect()
}

/// The entries of a directory, sorted by name.
pub(super) fn read_dir(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(path).map_err(Error::file("list", path))?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(Error::file("list", path))?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn refused(path: &Path) -> String {
        expand(&[path.to_owned()], Subdirectories::Refused).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_file_is_refused_by_name_and_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let [pipe, socket, file] = ["pipe", "socket", "x"].map(|name| directory.path().join(name));
        fs::write(&file, "").unwrap();
        assert_eq!(
            expand(&[directory.path().to_owned()], Subdirectories::Refused).unwrap().len(),
            1
        );
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(refused(directory.path()), format!("{} is not a file", socket.display()));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&pipe, directory.path()] {
            assert_eq!(refused(path), format!("{} is not a file", pipe.display()));
        }
        assert_eq!(refused(Path::new("/dev/null")), "/dev/null is not a file");
        assert!(open(&pipe).is_err());
    }

    #[test]
    fn a_file_with_more_than_it_says_is_not_taken_for_empty() {
        let error = refused(Path::new("/proc/self/status"));
        assert!(error.starts_with("/proc/self/status says that it is empty"), "{error}");
    }
}

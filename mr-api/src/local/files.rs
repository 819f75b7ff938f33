//! Local input paths: directories, patterns, splits.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::error::Error;
use crate::input::{Cut, SplitRange};
use crate::local::tasks::LocalSplit;
use crate::splits::{self, FileToCut, SplitLimits};

/// A file to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LocalFile {
    pub(crate) path: PathBuf,
    pub(crate) length: u64,
}

/// The files that `paths` stand for, in order: a directory stands for the files in it, a pattern in the last element for those that
/// match.
pub(crate) fn expand(paths: &[PathBuf]) -> Result<Vec<LocalFile>, Error> {
    let mut files = Vec::new();
    for path in paths {
        match fs::metadata(path) {
            Ok(metadata) => add(path, &metadata, &mut files)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let count = files.len();
                add_matches(path, &mut files)?;
                if files.len() == count {
                    return Err(Error::NoInput { path: path.display().to_string() });
                }
            }
            Err(error) => return Err(Error::file("read", path)(error)),
        }
    }
    Ok(files)
}

/// The splits of all files of one input, in order.
pub(super) fn splits(
    files: &[LocalFile],
    input: u32,
    cut: Cut,
    block_bytes: u64,
    limits: SplitLimits,
) -> Result<Vec<LocalSplit>> {
    let to_cut = |file: &LocalFile| FileToCut {
        path: file.path.display().to_string(),
        length: file.length,
        block_bytes,
    };
    let to_cut: Vec<FileToCut> = files.iter().map(to_cut).collect();
    let planned = splits::plan(&to_cut, cut, limits, |index, count| {
        let path = &files[index].path;
        let file = fs::File::open(path).map_err(Error::file("open", path))?;
        Ok(splits::line_ends(file, count)?)
    })?;
    let place = |(index, offset, length): splits::Part| {
        (files[index].path.clone(), SplitRange { start: offset, end: offset + length })
    };
    let split = |parts: Vec<splits::Part>| LocalSplit {
        input,
        parts: parts.into_iter().map(place).collect(),
    };
    Ok(planned.into_iter().map(split).collect())
}

/// What is in a directory, sorted by name.
pub(super) fn read_dir(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(path).map_err(Error::file("list", path))?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(Error::file("list", path))?;
    paths.sort();
    Ok(paths)
}

fn add(path: &Path, metadata: &fs::Metadata, files: &mut Vec<LocalFile>) -> Result<(), Error> {
    if !metadata.is_dir() {
        files.push(LocalFile { path: path.to_owned(), length: metadata.len() });
        return Ok(());
    }
    for path in read_dir(path)? {
        let metadata = fs::metadata(&path).map_err(Error::file("read", &path))?;
        if metadata.is_file() && !is_hidden(&path) {
            files.push(LocalFile { path, length: metadata.len() });
        }
    }
    Ok(())
}

fn add_matches(pattern: &Path, files: &mut Vec<LocalFile>) -> Result<(), Error> {
    let name = pattern.file_name().unwrap_or_default().to_string_lossy();
    let parent = pattern.parent().filter(|parent| !parent.as_os_str().is_empty());
    if !splits::is_pattern(&name) {
        return Ok(());
    }
    let Ok(paths) = read_dir(parent.unwrap_or(Path::new("."))) else { return Ok(()) };
    for path in paths {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if splits::matches(&name, &file_name) && !is_hidden(&path) {
            let metadata = fs::metadata(&path).map_err(Error::file("read", &path))?;
            add(&path, &metadata, files)?;
        }
    }
    Ok(())
}

fn is_hidden(path: &Path) -> bool {
    splits::is_hidden(&path.file_name().unwrap_or_default().to_string_lossy())
}

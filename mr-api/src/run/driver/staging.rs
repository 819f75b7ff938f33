//! Files of this machine in a job that runs on a cluster: the driver copies inputs in before the job and outputs out after it. It does not
//! matter on which machines the tasks run, nor which files they can see there.
//!
//! Invariants: nothing is copied if an input is missing or an output exists; a local output appears by rename, complete; staged files are
//! deleted when the plan is over, however it ended.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::copy;
use std::path::{Path, PathBuf};

use client::dfs::{CreateOptions, DfsClient};
use mr_model::runner::{InputPaths, OutputPath, Planned, say};
use mr_model::{Error, Result};
use protocol::DfsPath;

use super::inputs;
use super::names::Names;
use crate::run::inputs::Subdirectories;
use crate::run::local::files;
use crate::run::options::Options;
use crate::run::side_files::SideFiles;

/// Only their owner can read them.
const MODE: u16 = 0o700;

/// The paths of a plan that are on this machine, as typed.
pub(in crate::run) struct LocalPaths {
    /// With the way to treat directories in them.
    inputs: BTreeMap<String, (PathBuf, Subdirectories)>,
    outputs: BTreeMap<String, PathBuf>,
    /// The last job's output, if it is on this machine.
    last: Option<PathBuf>,
}

impl LocalPaths {
    /// Finds them with `of_machine`, which recognises the paths of this machine. Checks that all inputs exist, no output does, and side files have names of
    /// their own.
    pub(in crate::run) fn find(
        plan: &Planned,
        options: &Options,
        of_machine: impl Fn(&str) -> Result<Option<PathBuf>>,
    ) -> Result<Self> {
        let (mut inputs, mut outputs, mut last) = (BTreeMap::new(), BTreeMap::new(), None);
        for stage in &plan.graph.stages {
            SideFiles::of_job(stage.settings(), options)?;
            let inner = Subdirectories::of_job(&options.of_job(stage.settings()))?;
            for input in &stage.settings().inputs {
                let InputPaths::Paths(paths) = &input.paths else { continue };
                for typed in paths {
                    inputs.extend(of_machine(typed)?.map(|path| (typed.clone(), (path, inner))));
                }
            }
            last = None;
            if let OutputPath::Path(typed) = &stage.settings().output {
                last = of_machine(typed)?;
                outputs.extend(last.clone().map(|path| (typed.clone(), path)));
            }
        }
        for (path, inner) in inputs.values() {
            files::expand(std::slice::from_ref(path), *inner)?;
        }
        for (typed, path) in &outputs {
            if path.try_exists().map_err(Error::file("look for", path))? {
                return Err(Error::OutputExists { path: typed.clone() }.into());
            }
        }
        Ok(LocalPaths { inputs, outputs, last })
    }

    /// True if nothing is to be staged.
    pub(in crate::run) fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty()
    }

    /// Copies the inputs to a place below `directory`, with this many replicas.
    pub(in crate::run) fn put(
        &self,
        dfs: &DfsClient,
        directory: &DfsPath,
        replication: Option<u16>,
    ) -> Result<Names> {
        dfs.mkdirs(directory, MODE, true).map_err(Error::dfs("create", directory))?;
        let (mut inputs, mut outputs) = (BTreeMap::new(), BTreeMap::new());
        for (index, (typed, (path, inner))) in self.inputs.iter().enumerate() {
            let directory = directory.join(&format!("input/{index}"))?;
            dfs.mkdirs(&directory, MODE, true).map_err(Error::dfs("create", &directory))?;
            let files = files::expand(std::slice::from_ref(path), *inner)?;
            for (number, file) in files.into_iter().enumerate() {
                let target = directory.join(&staged_name(number, &file.path))?;
                let mut source = File::open(&file.path).map_err(Error::file("open", &file.path))?;
                let options = CreateOptions { replication, ..CreateOptions::default() };
                let mut writer =
                    dfs.create(&target, options).map_err(Error::dfs("create", &target))?;
                writer.write_from(&mut source)?;
                writer.close().map_err(Error::dfs("write", &target))?;
            }
            inputs.insert(typed.clone(), directory);
        }
        for (index, typed) in self.outputs.keys().enumerate() {
            outputs.insert(typed.clone(), directory.join(&format!("output/{index}"))?);
        }
        Ok(Names { site: dfs.site(), user: dfs.user().to_owned(), inputs, outputs })
    }

    /// Copies the outputs to where the plan wants them.
    pub(in crate::run) fn fetch(&self, dfs: &DfsClient, names: &Names) -> Result<()> {
        for (typed, target) in &self.outputs {
            let name = target.file_name().unwrap_or_default().to_string_lossy();
            let temporary = target.with_file_name(format!(".{name}.fetch-{}", std::process::id()));
            fs::create_dir_all(&temporary).map_err(Error::file("create directory", &temporary))?;
            let fetched = fetch_files(dfs, &names.output(typed)?, &temporary).and_then(|()| {
                Ok(fs::rename(&temporary, target).map_err(Error::file("create", target))?)
            });
            if let Err(error) = fetched {
                remove(&temporary);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The last job's output, if it is on this machine.
    pub(in crate::run) fn last_output(&self) -> Option<&Path> {
        self.last.as_deref()
    }
}

/// A name that keeps the order and the extension.
fn staged_name(number: usize, path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fits = |c: char| !c.is_control() && c != ':' && c != char::REPLACEMENT_CHARACTER;
    let name: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    let prefix = format!("{number:08}-");
    let mut start = (prefix.len() + name.len()).saturating_sub(protocol::path::ELEMENT_BYTES_MAX);
    while !name.is_char_boundary(start) {
        start += 1;
    }
    prefix + &name[start..]
}

fn fetch_files(dfs: &DfsClient, from: &DfsPath, to: &Path) -> Result<()> {
    for (path, _) in inputs::expand(dfs, std::slice::from_ref(from), Subdirectories::Ignored)? {
        let mut reader = dfs.open(&path).map_err(Error::dfs("open", &path))?;
        let target = to.join(path.name().unwrap_or_default());
        let mut file = File::create(&target).map_err(Error::file("create", &target))?;
        copy(&mut reader, &mut file)?;
    }
    let success = to.join("_SUCCESS");
    File::create(&success).map_err(Error::file("create", &success))?;
    Ok(())
}

/// Removes a directory of this machine; logs a failure.
pub(in crate::run) fn remove(directory: &Path) {
    if let Err(error) = fs::remove_dir_all(directory)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        say(format_args!("cannot remove {}: {error}\n", directory.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staged_names_keep_order_and_extension() {
        for (path, expected) in [
            ("/x/a.gz", "00000007-a.gz"),
            ("/x/a:b\n.txt", "00000007-a_b_.txt"),
            ("/x/_a", "00000007-_a"),
        ] {
            assert_eq!(staged_name(7, Path::new(path)), expected);
        }
        let long = staged_name(7, Path::new(&format!("{}.gz", "é".repeat(126))));
        assert!(long.ends_with(".gz") && DfsPath::parse(&format!("/{long}")).is_ok(), "{long}");
    }
}

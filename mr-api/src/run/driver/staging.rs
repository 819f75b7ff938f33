//! Files of this machine in a job that runs on a cluster: the driver copies inputs in before the job and outputs out after it. It does not
//! matter on which machines the tasks run, nor which files they can see there.
//!
//! Invariants: nothing is copied if an input is missing or an output exists. A file keeps its name. A local output appears by rename, complete, with all that
//! the job made. Staged files are deleted when the plan is over, however it ended. Only an output that is done and cannot be fetched stays.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use client::dfs::{CreateOptions, DfsClient, DfsError, Parents};
use mr_formats::splits::is_hidden;
use mr_model::runner::{InputPaths, OutputPath, Planned, say};
use mr_model::{BoxError, Error, Result};
use protocol::DfsPath;
use protocol::error::chain;

use super::behind::LeftBehind;
use super::names::Names;
use crate::run::inputs::Subdirectories;
use crate::run::local::files;
use crate::run::local::open::open;
use crate::run::options::Options;
use crate::run::side_files::SideFiles;

/// Only their owner can read them.
const MODE: u16 = 0o700;
/// Bytes fetched at once.
const CHUNK_BYTES: usize = 1 << 20;

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
        let input = make(dfs, make(dfs, directory.clone())?.join("input")?)?;
        let (mut inputs, mut outputs) = (BTreeMap::new(), BTreeMap::new());
        for (index, (typed, (path, inner))) in self.inputs.iter().enumerate() {
            let directory = make(dfs, input.join(&index.to_string())?)?;
            let files = files::expand(std::slice::from_ref(path), *inner)?;
            let mut staged = Vec::new();
            for group in grouped(files) {
                let directory = make(dfs, directory.join(&staged.len().to_string())?)?;
                for (name, path) in &group {
                    put_file(dfs, path, &directory.join(name)?, replication)?;
                }
                staged.push(match &group[..] {
                    // Which may have a name that directories hide.
                    [(name, _)] => directory.join(name)?,
                    _ => directory,
                });
            }
            inputs.insert(typed.clone(), staged);
        }
        for (index, typed) in self.outputs.keys().enumerate() {
            outputs.insert(typed.clone(), directory.join(&format!("output/{index}"))?);
        }
        Ok(Names { site: dfs.site(), user: dfs.user().to_owned(), inputs, outputs })
    }

    /// Copies the outputs to where the plan wants them. Those that cannot be copied are moved below `kept`, if that is given, or stay; the error says where they
    /// are.
    pub(in crate::run) fn fetch(
        &self,
        dfs: &DfsClient,
        names: &Names,
        behind: &LeftBehind,
        kept: Option<&DfsPath>,
    ) -> Result<()> {
        for (number, (typed, target)) in self.outputs.iter().enumerate() {
            if let Err(source) = fetch_output(dfs, &names.output(typed)?, target, behind) {
                let Some(kept) = kept else { return Err(source) };
                return Err(self.keep(dfs, names, kept, number, source)?.into());
            }
        }
        Ok(())
    }

    /// Moves the outputs from this one on below `kept`.
    fn keep(
        &self,
        dfs: &DfsClient,
        names: &Names,
        kept: &DfsPath,
        first: usize,
        source: BoxError,
    ) -> Result<Error> {
        let (mut commands, mut is_staged) = (Vec::new(), false);
        let is_made = logged(kept, dfs.mkdirs(kept, MODE, true));
        for (number, (typed, target)) in self.outputs.iter().enumerate().skip(first) {
            let (staged, kept) = (names.output(typed)?, kept.join(&number.to_string())?);
            let is_kept = is_made && logged(&kept, dfs.rename_to(&staged, &kept, false));
            is_staged |= !is_kept;
            commands.push(fetch_command(if is_kept { &kept } else { &staged }, target));
        }
        Ok(Error::Unfetched { commands: commands.join("` and `"), is_staged, source })
    }

    /// The commands that fetch the outputs of a job whose driver is gone.
    pub(in crate::run) fn fetch_commands(&self, names: &Names) -> Result<Vec<String>> {
        let command =
            |(typed, target): (&String, &PathBuf)| Ok(fetch_command(&names.output(typed)?, target));
        self.outputs.iter().map(command).collect()
    }

    /// The last job's output, if it is on this machine.
    pub(in crate::run) fn last_output(&self) -> Option<&Path> {
        self.last.as_deref()
    }
}

/// Files in their order, with the names that they have on the cluster: their own, by which mappers know them. Lists of a directory there are sorted by name
/// and leave out hidden ones. So a directory gets files as long as their names rise and are seen, and the next one those behind.
fn grouped(files: Vec<files::LocalFile>) -> Vec<Vec<(String, PathBuf)>> {
    let mut groups: Vec<Vec<(String, PathBuf)>> = Vec::new();
    for file in files {
        let name = staged_name(&file.path);
        let fits = |last: &String| *last < name && !is_hidden(last) && !is_hidden(&name);
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(|(last, _)| fits(last)) => {
                group.push((name, file.path));
            }
            _ => groups.push(vec![(name, file.path)]),
        }
    }
    groups
}

/// The name of a file, without what names on a cluster cannot have.
fn staged_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fits = |c: char| !c.is_control() && c != ':' && c != char::REPLACEMENT_CHARACTER;
    name.chars().map(|c| if fits(c) { c } else { '_' }).collect()
}

/// Makes a directory in one that is there. It does not make that one: after Ctrl-C it is gone, and must not come back.
fn make(dfs: &DfsClient, directory: DfsPath) -> Result<DfsPath> {
    dfs.mkdirs(&directory, MODE, false).map_err(Error::dfs("create", &directory))?;
    Ok(directory)
}

fn put_file(
    dfs: &DfsClient,
    path: &Path,
    target: &DfsPath,
    replication: Option<u16>,
) -> Result<()> {
    let mut source = open(path)?;
    // As in `make`.
    let options = CreateOptions { replication, parents: Parents::None, ..CreateOptions::default() };
    let mut writer = dfs.create(target, options).map_err(Error::dfs("create", target))?;
    writer.write_from(&mut source)?;
    writer.close().map_err(Error::dfs("write", target))?;
    Ok(())
}

/// As people type it.
fn fetch_command(staged: &DfsPath, target: &Path) -> String {
    format!("hanno dfs -get {staged} {}", quoted(&target.display().to_string()))
}

fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=,@%".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// True if an output has its place.
fn logged<T>(place: &DfsPath, made: std::result::Result<T, DfsError>) -> bool {
    if let Err(error) = &made {
        say(format_args!("cannot keep the output in {place}: {}\n", chain(error)));
    }
    made.is_ok()
}

fn fetch_output(
    dfs: &DfsClient,
    staged: &DfsPath,
    target: &Path,
    behind: &LeftBehind,
) -> Result<()> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let temporary = target.with_file_name(format!(".{name}.fetch-{}", std::process::id()));
    let temporary = behind
        .make_temporary(temporary.clone())
        .map_err(Error::file("create directory", &temporary))?;
    fetch_tree(dfs, staged, temporary.path())?;
    Ok(temporary.publish(target).map_err(Error::file("create", target))?)
}

/// Copies all that is in a directory to one of this machine, also what jobs would not read. It does not make that one: after Ctrl-C it is gone.
fn fetch_tree(dfs: &DfsClient, from: &DfsPath, to: &Path) -> Result<()> {
    let mut directories = vec![(from.clone(), to.to_owned())];
    while let Some((from, to)) = directories.pop() {
        for entry in dfs.list(&from) {
            let entry = entry.map_err(Error::dfs("list", &from))?;
            let (from, to) = (from.join(&entry.name)?, to.join(&entry.name));
            match entry.directory {
                true => {
                    fs::create_dir(&to).map_err(Error::file("create directory", &to))?;
                    directories.push((from, to));
                }
                false => fetch_file(dfs, &from, &to)?,
            }
        }
    }
    Ok(())
}

fn fetch_file(dfs: &DfsClient, from: &DfsPath, to: &Path) -> Result<()> {
    let mut reader = dfs.open(from).map_err(Error::dfs("open", from))?;
    let mut file = File::create(to).map_err(Error::file("create", to))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => file.write_all(&chunk[..count]).map_err(Error::file("write", to))?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::dfs("read", from)(error).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(paths: &[&str]) -> Vec<Vec<String>> {
        let file = |path: &&str| files::LocalFile { path: path.into(), length: 0 };
        let groups = grouped(paths.iter().map(file).collect());
        groups.into_iter().map(|group| group.into_iter().map(|(name, _)| name).collect()).collect()
    }

    #[test]
    fn staged_files_keep_names_and_order() {
        for (paths, expected) in [
            (&["/x/a.gz", "/x/b"][..], &[&["a.gz", "b"][..]][..]),
            (&["/x/a", "/y/a", "/y/b", "/z/a"], &[&["a"], &["a", "b"], &["a"]]),
            (&["/x/b", "/x/a"], &[&["b"], &["a"]]),
            (&["/x/_a"], &[&["_a"]]),
            (&["/x/.a", "/x/b", "/x/c"], &[&[".a"], &["b", "c"]]),
            (&["/x/a:b\n.txt", "/x/a_b_.txt"], &[&["a_b_.txt"], &["a_b_.txt"]]),
            (&[], &[]),
        ] {
            assert_eq!(groups(paths), expected, "{paths:?}");
        }
        let longest = format!("/x/{}.gz", "é".repeat(126));
        assert!(DfsPath::parse(&longest).is_ok() && groups(&[&longest]) == [[&longest[3..]]]);
    }

    #[test]
    fn commands_can_be_pasted() {
        let path = DfsPath::parse("/a").unwrap();
        for (target, expected) in
            [("/x/y-1.z", "/x/y-1.z"), ("/x y", "'/x y'"), ("/it's", r"'/it'\''s'")]
        {
            let command = fetch_command(&path, Path::new(target));
            assert_eq!(command, format!("hanno dfs -get /a {expected}"));
        }
    }
}

//! Input paths on the cluster: directories, patterns, splits with the machines that hold them.

use client::dfs::DfsClient;
use mr_formats::splits::{Ends, FileToCut, SplitLimits};
use mr_formats::{SplitRange, TextRules, rows, splits};
use mr_model::runner::{JobInput, MapPart};
use mr_model::{Error, Result};
use protocol::DfsPath;
use protocol::jobs::{Split, SplitPart};
use protocol::namenode::{FileStatus, LocatedBlock};

use crate::run::dfs::open_part;
use crate::run::inputs::{self, Entry, Subdirectories, Tree};
use crate::run::options::Options;

/// The file system of the cluster.
struct Cluster<'a>(&'a DfsClient);

impl Tree for Cluster<'_> {
    fn status(&self, path: &str) -> Result<Option<Entry>> {
        let path = DfsPath::parse(path)?;
        let status = self.0.try_status(&path).map_err(Error::dfs("look for", &path))?;
        Ok(status.as_ref().map(entry))
    }

    fn list(&self, path: &str, is_wanted: &dyn Fn(&str) -> bool) -> Result<Vec<(String, Entry)>> {
        let path = DfsPath::parse(path)?;
        match self.0.try_status(&path).map_err(Error::dfs("look for", &path))? {
            Some(status) if status.directory => {}
            _ => return Ok(Vec::new()),
        }
        let mut entries = Vec::new();
        for status in self.0.list(&path) {
            let status = status.map_err(Error::dfs("list", &path))?;
            if is_wanted(&status.name) {
                entries.push((status.name.clone(), entry(&status)));
            }
        }
        Ok(entries)
    }
}

fn entry(status: &FileStatus) -> Entry {
    let FileStatus { directory, length, block_size, .. } = *status;
    Entry { is_directory: directory, length, block_bytes: block_size }
}

/// The files that `paths` stand for, in order.
pub(super) fn expand(
    dfs: &DfsClient,
    paths: &[DfsPath],
    inner: Subdirectories,
) -> Result<Vec<(DfsPath, FileToCut)>> {
    let paths: Vec<String> = paths.iter().map(DfsPath::to_string).collect();
    let files = inputs::expand(&Cluster(dfs), &paths, inner)?;
    files.into_iter().map(|file| Ok((DfsPath::parse(&file.path)?, file))).collect()
}

/// Least bytes of a split that is cut only to give every slot of the cluster work; less is not worth a task of its own.
const SLOT_SPLIT_BYTES_MIN: u64 = 8 << 20;

/// How the files of a job are split.
pub(super) struct Cutting {
    pub(super) limits: SplitLimits,
    pub(super) rules: TextRules,
    pub(super) inner: Subdirectories,
}

impl Cutting {
    pub(super) fn of_job(options: &Options) -> Result<Self> {
        Ok(Cutting {
            limits: options.split_limits()?,
            rules: TextRules::of_job(&options.properties)?,
            inner: Subdirectories::of_job(options)?,
        })
    }

    /// Cuts an input of so many bytes finer than its blocks where it would leave slots without work, unless the user said how fine.
    fn for_slots(&mut self, bytes: u64, slots: impl FnOnce() -> Result<u32>) -> Result<()> {
        if self.limits.max == SplitLimits::default().max && bytes >= 2 * SLOT_SPLIT_BYTES_MIN {
            let share = bytes.div_ceil(u64::from(slots()?.max(1)));
            self.limits.max = share.max(SLOT_SPLIT_BYTES_MIN);
        }
        Ok(())
    }
}

/// One input of a job: its number, what the author said of it, and its files.
pub(super) type Found<'a> = (u32, &'a JobInput, Vec<(DfsPath, FileToCut)>);

/// The splits of all inputs of a job, for a cluster with so many slots.
pub(super) fn all_splits(
    dfs: &DfsClient,
    inputs: &[Found<'_>],
    mut cutting: Cutting,
    slots: impl FnOnce() -> Result<u32>,
) -> Result<Vec<Split>> {
    let files = inputs.iter().flat_map(|(_, _, files)| files);
    cutting.for_slots(files.map(|(_, file)| file.length).sum(), slots)?;
    let mut all = Vec::new();
    for (number, input, files) in inputs {
        all.extend(splits(dfs, files, (*number, input), &cutting)?);
    }
    Ok(all)
}

/// The splits of one input, each with the machines of the block it begins in.
fn splits(
    dfs: &DfsClient,
    files: &[(DfsPath, FileToCut)],
    (number, input): (u32, &JobInput),
    Cutting { limits, rules, .. }: &Cutting,
) -> Result<Vec<Split>> {
    let to_cut: Vec<FileToCut> = files.iter().map(|(_, file)| file.clone()).collect();
    let planned = splits::plan(&to_cut, input.cut, *limits, rules, |index, ends| {
        let (path, file) = &files[index];
        match ends {
            Ends::OfLines(count) => {
                let reader = dfs.open(path).map_err(Error::dfs("open", path))?;
                Ok(splits::line_ends(reader, count, rules.delimiter.as_deref())?)
            }
            Ends::OfGroups => {
                let range = SplitRange { start: 0, end: file.length };
                let whole = MapPart { path: path.to_string(), range };
                input.groups(&mut *open_part(dfs, &whole)?)
            }
        }
    })?;
    let (mut all, mut located) = (Vec::with_capacity(planned.len()), (usize::MAX, Vec::new()));
    for parts in planned {
        let Some((&(index, offset, length), more)) = parts.split_first() else { continue };
        let (path, file) = &files[index];
        if located.0 != index {
            let answer = dfs.locations(path, 0, file.length);
            located = (index, answer.map_err(Error::dfs("locate", path))?.blocks);
        }
        let (hosts, racks) = places(&located.1, offset);
        let part = |&(index, offset, length): &splits::Part| SplitPart {
            path: files[index].0.clone(),
            offset,
            length,
        };
        let (path, more) = (path.clone(), more.iter().map(part).collect());
        all.push(Split { path, offset, length, hosts, racks, input: number, more });
    }
    Ok(all)
}

/// The splits of an input of `rows` numbers: any machine can make them.
pub(super) fn row_splits(rows: u64, maps: u32, input: u32) -> impl Iterator<Item = Split> {
    rows::ranges(rows, maps).map(move |range| Split {
        path: DfsPath::root(),
        offset: range.start,
        length: range.end - range.start,
        hosts: Vec::new(),
        racks: Vec::new(),
        input,
        more: Vec::new(),
    })
}

fn places(blocks: &[LocatedBlock], offset: u64) -> (Vec<String>, Vec<String>) {
    let holds = |block: &&LocatedBlock| {
        block.offset <= offset && offset < block.offset.saturating_add(block.length)
    };
    let replicas = blocks.iter().find(holds).map(|block| &block.replicas[..]).unwrap_or_default();
    let unique = |mut names: Vec<String>| {
        names.sort();
        names.dedup();
        names
    };
    (
        unique(replicas.iter().map(|replica| replica.host.clone()).collect()),
        unique(replicas.iter().map(|replica| replica.rack.clone()).collect()),
    )
}

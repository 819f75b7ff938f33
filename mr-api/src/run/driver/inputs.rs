//! Input paths on the cluster: directories, patterns, splits with the machines that hold them.

use std::ops::Range;

use client::dfs::DfsClient;
use mr_formats::packing::{Packing, WholeFile, pack};
use mr_formats::splits::{Ends, FileToCut, SplitLimits};
use mr_formats::{SplitRange, TextRules, rows, splits};
use mr_model::runner::{JobInput, MapPart};
use mr_model::{Error, Result};
use protocol::DfsPath;
use protocol::jobs::{Split, SplitPart};
use protocol::namenode::{FileStatus, LocatedBlock, calls};

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

/// Files whose blocks are asked for in one call: an answer is about a kilobyte for each.
const LOCATIONS_PER_CALL: usize = 500;

/// How the files of a job are split.
pub(super) struct Cutting<'a> {
    options: &'a Options,
    limits: SplitLimits,
    rules: TextRules,
    pub(super) inner: Subdirectories,
}

impl<'a> Cutting<'a> {
    pub(super) fn of_job(options: &'a Options) -> Result<Self> {
        Ok(Cutting {
            options,
            limits: options.split_limits()?,
            rules: TextRules::of_job(&options.properties)?,
            inner: Subdirectories::of_job(options)?,
        })
    }

    /// Cuts an input of so many bytes finer than its blocks where it would leave slots without work, unless the user said how fine.
    fn for_slots(&mut self, bytes: u64, slots: u32) {
        if self.limits.max == SplitLimits::default().max && bytes >= 2 * SLOT_SPLIT_BYTES_MIN {
            let share = bytes.div_ceil(u64::from(slots.max(1)));
            self.limits.max = share.max(SLOT_SPLIT_BYTES_MIN);
        }
    }
}

/// One input of a job: its number, what the author said of it, and its files.
pub(super) type Found<'a> = (u32, &'a JobInput, Vec<(DfsPath, FileToCut)>);

/// The splits of all inputs of a job, for a cluster with so many slots.
pub(super) fn all_splits(
    dfs: &DfsClient,
    inputs: &[Found<'_>],
    mut cutting: Cutting<'_>,
    slots: impl FnOnce() -> Result<u32>,
) -> Result<Vec<Split>> {
    let files = || inputs.iter().flat_map(|(_, _, files)| files);
    let bytes = files().map(|(_, file)| file.length).sum();
    // One small file is one task, however many slots there are.
    let slots = if files().count() > 1 || bytes >= 2 * SLOT_SPLIT_BYTES_MIN { slots()? } else { 1 };
    cutting.for_slots(bytes, slots);
    let mut all = Vec::new();
    for (number, input, files) in inputs {
        let splits = splits(dfs, files, (*number, input), &cutting)?;
        if input.cut.may_be_packed() {
            let block_bytes = files.iter().map(|(_, file)| file.block_bytes).max().unwrap_or(0);
            let split_bytes = cutting.limits.split_bytes(block_bytes);
            all.extend(pack_small(splits, cutting.options.packing(slots, split_bytes)?));
        } else {
            all.extend(splits);
        }
    }
    Ok(all)
}

/// Has small files share tasks. A file that was cut keeps its splits.
fn pack_small(splits: Vec<Split>, packing: Packing) -> Vec<Split> {
    let is_alone = |index: usize| {
        let same = |other: Option<&Split>| other.is_some_and(|it| it.path == splits[index].path);
        !same(index.checked_sub(1).map(|before| &splits[before])) && !same(splits.get(index + 1))
    };
    let whole: Vec<usize> = (0..splits.len()).filter(|index| is_alone(*index)).collect();
    let files = whole
        .iter()
        .map(|index| WholeFile { bytes: splits[*index].length, hosts: &splits[*index].hosts });
    let tasks = pack(&files.collect::<Vec<_>>(), packing);
    if tasks.len() == whole.len() {
        return splits;
    }
    let mut taken: Vec<Option<Split>> = splits.into_iter().map(Some).collect();
    let mut packed = Vec::new();
    for task in tasks {
        let mut files = task.into_iter().filter_map(|file| taken[whole[file]].take());
        let Some(mut first) = files.next() else { continue };
        for Split { path, offset, length, hosts, racks, .. } in files {
            first.hosts.retain(|host| hosts.contains(host));
            first.racks.retain(|rack| racks.contains(rack));
            first.more.push(SplitPart { path, offset, length });
        }
        packed.push(first);
    }
    // What is left was cut.
    packed.extend(taken.into_iter().flatten());
    packed
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
    let mut all = Vec::with_capacity(planned.len());
    let mut locations = Locations { dfs, files, known: 0..0, blocks: Vec::new() };
    for parts in planned {
        let Some((&(index, offset, length), more)) = parts.split_first() else { continue };
        let path = &files[index].0;
        let (hosts, racks) = places(locations.of(index)?, offset);
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

/// Where the blocks of files are, asked for in their order and in batches.
struct Locations<'a> {
    dfs: &'a DfsClient,
    files: &'a [(DfsPath, FileToCut)],
    /// The files whose blocks were asked for last.
    known: Range<usize>,
    blocks: Vec<Vec<LocatedBlock>>,
}

impl Locations<'_> {
    /// The blocks of a file.
    fn of(&mut self, index: usize) -> Result<&[LocatedBlock]> {
        if !self.known.contains(&index) {
            let is_small = |(_, file): &(DfsPath, FileToCut)| file.length <= file.block_bytes;
            let rest = &self.files[index..];
            let small = rest.iter().take(LOCATIONS_PER_CALL).take_while(|file| is_small(file));
            let count = small.count().max(1);
            let calls = rest[..count].iter().map(|(path, file)| calls::Locations {
                path: path.clone(),
                offset: 0,
                length: file.length,
            });
            let answers =
                self.dfs.ask_all(calls).map_err(Error::dfs("locate", &self.files[index].0))?;
            let located = answers
                .into_iter()
                .zip(rest)
                .map(|(answer, (path, _))| Ok(answer.map_err(Error::dfs("locate", path))?.blocks));
            self.blocks = located.collect::<Result<_>>()?;
            self.known = index..index + count;
        }
        Ok(&self.blocks[index - self.known.start])
    }
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

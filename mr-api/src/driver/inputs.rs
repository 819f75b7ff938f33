//! Input paths on the cluster: directories, patterns, splits with the machines that hold them.

use client::dfs::DfsClient;
use protocol::DfsPath;
use protocol::jobs::{Split, SplitPart};
use protocol::namenode::{FileStatus, LocatedBlock};

use crate::Result;
use crate::error::Error;
use crate::input::Cut;
use crate::rows;
use crate::splits::{self, FileToCut, SplitLimits};

/// The files that `paths` stand for, in order.
pub(super) fn expand(dfs: &DfsClient, paths: &[DfsPath]) -> Result<Vec<(DfsPath, FileStatus)>> {
    let mut files = Vec::new();
    for path in paths {
        match dfs.try_status(path).map_err(Error::dfs("look for", path))? {
            Some(status) => add(dfs, path, status, &mut files)?,
            None => {
                let count = files.len();
                add_matches(dfs, path, &mut files)?;
                if files.len() == count {
                    return Err(Error::NoInput { path: path.to_string() }.into());
                }
            }
        }
    }
    Ok(files)
}

/// The splits of one input, each with the machines of the block it begins in.
pub(super) fn splits(
    dfs: &DfsClient,
    paths: &[DfsPath],
    input: u32,
    cut: Cut,
    limits: SplitLimits,
) -> Result<Vec<Split>> {
    let files = expand(dfs, paths)?;
    let to_cut = |(path, status): &(DfsPath, FileStatus)| FileToCut {
        path: path.to_string(),
        length: status.length,
        block_bytes: status.block_size,
    };
    let to_cut: Vec<FileToCut> = files.iter().map(to_cut).collect();
    let planned = splits::plan(&to_cut, cut, limits, |index, count| {
        let path = &files[index].0;
        let reader = dfs.open(path).map_err(Error::dfs("open", path))?;
        Ok(splits::line_ends(reader, count)?)
    })?;
    let (mut all, mut located) = (Vec::with_capacity(planned.len()), (usize::MAX, Vec::new()));
    for parts in planned {
        let Some((&(index, offset, length), more)) = parts.split_first() else { continue };
        let (path, status) = &files[index];
        if located.0 != index {
            let answer = dfs.locations(path, 0, status.length);
            located = (index, answer.map_err(Error::dfs("locate", path))?.blocks);
        }
        let (hosts, racks) = places(&located.1, offset);
        let part = |&(index, offset, length): &splits::Part| SplitPart {
            path: files[index].0.clone(),
            offset,
            length,
        };
        let (path, more) = (path.clone(), more.iter().map(part).collect());
        all.push(Split { path, offset, length, hosts, racks, input, more });
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

fn add(
    dfs: &DfsClient,
    path: &DfsPath,
    status: FileStatus,
    files: &mut Vec<(DfsPath, FileStatus)>,
) -> Result<()> {
    if !status.directory {
        files.push((path.clone(), status));
        return Ok(());
    }
    for entry in dfs.list(path) {
        let entry = entry.map_err(Error::dfs("list", path))?;
        if !entry.directory && !splits::is_hidden(&entry.name) {
            files.push((path.join(&entry.name)?, entry));
        }
    }
    Ok(())
}

fn add_matches(
    dfs: &DfsClient,
    pattern: &DfsPath,
    files: &mut Vec<(DfsPath, FileStatus)>,
) -> Result<()> {
    let (Some(name), Some(parent)) = (pattern.name(), pattern.parent()) else { return Ok(()) };
    let is_directory = |status: FileStatus| status.directory;
    if !splits::is_pattern(name)
        || !dfs
            .try_status(&parent)
            .map_err(Error::dfs("look for", &parent))?
            .is_some_and(is_directory)
    {
        return Ok(());
    }
    for entry in dfs.list(&parent) {
        let entry = entry.map_err(Error::dfs("list", &parent))?;
        if splits::matches(name, &entry.name) && !splits::is_hidden(&entry.name) {
            add(dfs, &parent.join(&entry.name)?, entry, files)?;
        }
    }
    Ok(())
}

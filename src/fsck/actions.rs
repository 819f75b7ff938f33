//! The actions of `-delete` and `-move` on files that have lost blocks.

use std::error::Error;
use std::io::Write;

use anyhow::{Context, Result};
use client::dfs::{CreateOptions, DfsClient};
use protocol::DfsPath;
use protocol::namenode::FsckFile;

use super::lines::complete_blocks;
use super::request::Request;
use crate::connect::describe;
use crate::output::report;

/// Destination of `-move` for the remains of a file.
const LOST_FOUND: &str = "/lost+found";
/// Bytes copied at once.
const PIECE_BYTES: usize = 1 << 20;

/// True if a block of the file has no good replica.
pub(super) fn is_damaged(file: &FsckFile) -> bool {
    complete_blocks(file).iter().any(|block| block.good_count() == 0)
}

/// Does what the command wants done with a damaged file, and tells what cannot be done: false then. What could not be saved is not deleted.
pub(super) fn repair(client: &DfsClient, request: &Request, file: &FsckFile) -> bool {
    let tell = |what: &str, error: &(dyn Error + 'static)| {
        report!("{}: cannot be {what}: {}", file.path, describe(error));
        false
    };
    if request.moves
        && let Err(error) = salvage(client, file)
    {
        return tell("saved", error.as_ref());
    }
    match request.deletes.then(|| client.delete(&file.path, false)) {
        Some(Err(error)) => tell("deleted", &error),
        Some(Ok(_)) | None => true,
    }
}

/// Copies every unbroken run of good blocks to `/lost+found/<path>/<number>`; the file itself stays.
fn salvage(client: &DfsClient, file: &FsckFile) -> Result<()> {
    let directory = DfsPath::parse(&format!("{LOST_FOUND}{}", file.path))?;
    client.mkdirs(&directory, 0o755, true).context("cannot make a directory in /lost+found")?;
    for (number, (offset, length)) in (0..).zip(good_runs(file)) {
        copy(client, file, (offset, length), &directory.join(&format!("{number}"))?)
            .with_context(|| format!("cannot copy what is left of {}", file.path))?;
    }
    Ok(())
}

/// Offset and length of each run of blocks that have good replicas.
fn good_runs(file: &FsckFile) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    let (mut offset, mut is_run) = (0, false);
    for block in complete_blocks(file) {
        let is_good = block.good_count() > 0;
        match runs.last_mut() {
            Some((_, length)) if is_good && is_run => *length += block.length,
            _ if is_good => runs.push((offset, block.length)),
            _ => {}
        }
        is_run = is_good;
        offset += block.length;
    }
    runs
}

fn copy(
    client: &DfsClient,
    file: &FsckFile,
    (offset, length): (u64, u64),
    target: &DfsPath,
) -> Result<()> {
    let mut reader = client.open(&file.path)?;
    let options = CreateOptions { overwrite: true, ..CreateOptions::default() };
    let mut writer = client.create(target, options)?;
    let (mut at, end) = (offset, offset + length);
    while at < end {
        let max = usize::try_from(end - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let piece = reader.next_slice(at, max)?;
        anyhow::ensure!(!piece.is_empty(), "the file ends at byte {at}");
        writer.write_all(&piece)?;
        at += piece.len() as u64;
    }
    Ok(writer.close()?)
}

#[cfg(test)]
mod tests {
    use super::super::tests::file;
    use super::*;

    #[test]
    fn runs_of_good_blocks_are_found() {
        for (blocks, runs, damaged) in [
            (&[(10, 1, 0), (10, 2, 0), (5, 1, 0)][..], vec![(0, 25)], false),
            (&[(10, 1, 0), (10, 0, 0), (5, 1, 0)], vec![(0, 10), (20, 5)], true),
            (&[(10, 0, 1)], vec![], true),
            (&[], vec![], false),
        ] {
            let file = file("/f", 3, blocks);
            assert_eq!((good_runs(&file), is_damaged(&file)), (runs, damaged));
        }
    }
}

//! Visits every file below a path, in the NameNode's pages, and the files of snapshots there.

use anyhow::Result;
use client::dfs::DfsClient;
use protocol::namenode::{DOT_SNAPSHOT, FsckFile, FsckPage, calls};
use protocol::{DfsPath, ErrorKind};

/// What a walk meets.
pub(super) enum Entry<'a> {
    Directory(&'a DfsPath),
    File(&'a FsckFile),
}

/// Passes every file below `path` to `each` while it returns true; with `snapshots`, also the files in snapshots of directories there. Returns the number of
/// directories, or `None` if `path` does not exist.
pub(super) fn walk(
    client: &DfsClient,
    (path, snapshots): (&DfsPath, bool),
    each: &mut dyn FnMut(Entry<'_>) -> Result<bool>,
) -> Result<Option<u64>> {
    let Some((mut directory_count, mut goes_on)) = walk_tree(client, path, each)? else {
        return Ok(None);
    };
    let tops = if snapshots { snapshots_below(client, path)? } else { Vec::new() };
    for top in tops {
        if !goes_on {
            break;
        }
        // A snapshot may be deleted meanwhile.
        if let Some((count, more)) = walk_tree(client, &top, each)? {
            directory_count += count;
            goes_on = more;
        }
    }
    Ok(Some(directory_count))
}

/// The snapshots of all directories at and below a path that have any.
fn snapshots_below(client: &DfsClient, path: &DfsPath) -> Result<Vec<DfsPath>> {
    let roots = client.ask(calls::SnapshottableDirectories)?;
    let mut tops = Vec::new();
    for root in roots.into_iter().filter(|root| root.path.starts_with(path)) {
        let all = root.path.join(DOT_SNAPSHOT)?;
        for entry in client.list(&all) {
            tops.push(all.join(&entry?.name)?);
        }
    }
    Ok(tops)
}

/// One tree: the number of its directories, and whether `each` wants more.
fn walk_tree(
    client: &DfsClient,
    path: &DfsPath,
    each: &mut dyn FnMut(Entry<'_>) -> Result<bool>,
) -> Result<Option<(u64, bool)>> {
    let mut directory_count = 0;
    let mut after = None;
    loop {
        let page = match client.fsck(path, after) {
            Ok(page) => page,
            Err(error)
                if matches!(
                    error.kind(),
                    Some(
                        ErrorKind::NotFound
                            | ErrorKind::NotDirectory
                            | ErrorKind::ParentNotDirectory
                    )
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        directory_count += page.directories.len() as u64;
        for entry in entries(&page) {
            if !each(entry)? {
                return Ok(Some((directory_count, false)));
            }
        }
        if page.next.is_none() {
            return Ok(Some((directory_count, true)));
        }
        after = page.next;
    }
}

/// The entries of a page in the order of the walk.
pub(super) fn entries(page: &FsckPage) -> impl Iterator<Item = Entry<'_>> {
    let mut directories = page.directories.iter().peekable();
    let mut files = (0..).zip(&page.files).peekable();
    std::iter::from_fn(move || {
        let place = files.peek().map_or(u32::MAX, |(place, _)| *place);
        match directories.next_if(|(_, before)| *before <= place) {
            Some((directory, _)) => Some(Entry::Directory(directory)),
            None => files.next().map(|(_, file)| Entry::File(file)),
        }
    })
}

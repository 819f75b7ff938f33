//! Reads of what snapshots hold: by paths through `.snapshot`, which there are, and what changed between two.

use std::ops::Bound;

use protocol::acl::AclStatus;
use protocol::namenode::{
    DIFF_ENTRIES_MAX, DOT_SNAPSHOT, DiffEntry, DiffPage, FileStatus, LIST_ENTRIES_MAX, ListPage,
    LocatedBlock, LocatedBlocks, SnapshotPage, SnapshotStatus, SnapshottableDirectory,
};
use protocol::permission::Action;
use protocol::{DfsPath, ErrorKind, InodeId, RemoteError};

use crate::core::inodes::{At, Inode, PRESENT, Snapshot, SnapshotId};
use crate::core::nodes::Datanodes;
use crate::core::query::Reader;
use crate::core::rights::{Caller, Needs};
use crate::core::snapshots::{
    DOT_SNAPSHOT_MODE, SNAPSHOTS_MAX, Seen, View, entries, page_of, split,
};
use crate::core::state::State;
use crate::error::refuse;

impl State {
    /// Follows a path through `.snapshot`; `None` if it has no such element. `Ok(None)` if there is nothing.
    pub(in crate::core) fn view(
        &self,
        path: &DfsPath,
        caller: Caller<'_>,
    ) -> Option<Result<Option<View<'_>>, RemoteError>> {
        let (above, rest) = split(path)?;
        Some(self.view_below(&above, &rest, caller))
    }

    fn view_below(
        &self,
        above: &DfsPath,
        rest: &[&str],
        caller: Caller<'_>,
    ) -> Result<Option<View<'_>>, RemoteError> {
        let (ns, guard) = (&self.ns, self.guard(caller));
        let Some(found) = guard.walk(above)?.found else { return Ok(None) };
        if !ns.history.roots.contains_key(&found.id) {
            return Ok(None);
        }
        let Some((name, rest)) = rest.split_first() else {
            guard.check_inode(found.id, Action::EXECUTE)?;
            return Ok(Some(View::Snapshots(found.id)));
        };
        let Some(at) = ns.snapshot_id(found.id, name) else { return Ok(None) };
        let top = above.as_str().trim_end_matches('/');
        let mut path = format!("{top}/{DOT_SNAPSHOT}/{name}");
        let Some(mut seen) = ns.seen_root(found.id, at) else { return Ok(None) };
        // What a snapshot has is open to those who could reach it then, as in HDFS; what became of the directory since changes nothing.
        guard.check_former((seen.id, seen.state), Action::EXECUTE, above.as_str())?;
        for name in rest {
            if ns.inodes.get(&seen.id).and_then(Inode::directory).is_none() {
                let text = format!("{path} (is not a directory)");
                return Err(refuse(ErrorKind::ParentNotDirectory, text));
            }
            guard.check_former((seen.id, seen.state), Action::EXECUTE, &path)?;
            let child = ns.child_at(seen.id, name, at);
            let Some(child) = child.and_then(|child| ns.seen_below(seen, child)) else {
                return Ok(None);
            };
            seen = child;
            path = format!("{path}/{name}");
        }
        Ok(Some(View::Inside(seen)))
    }

    pub(in crate::core) fn stat_view(
        &self,
        path: &DfsPath,
        view: Option<View<'_>>,
    ) -> Result<FileStatus, RemoteError> {
        match view {
            None => Err(refuse(ErrorKind::NotFound, format!("File does not exist: {path}"))),
            Some(View::Snapshots(root)) => {
                let count = self.ns.history.roots.get(&root).map_or(0, |root| root.names.len());
                let bare = self.ns.bare_status(root, "");
                Ok(FileStatus { children_count: count as u64, ..bare })
            }
            Some(View::Inside(seen)) => Ok(self.ns.status_at(seen, "")),
        }
    }

    pub(in crate::core) fn list_view(
        &self,
        path: &DfsPath,
        (after, limit): (&str, u32),
        view: Option<View<'_>>,
        caller: Caller<'_>,
    ) -> Result<ListPage, RemoteError> {
        let limit = limit.clamp(1, self.settings.list_limit.min(LIST_ENTRIES_MAX)) as usize;
        let missing = || refuse(ErrorKind::NotFound, format!("File {path} does not exist."));
        let seen = match view.ok_or_else(missing)? {
            View::Snapshots(root) => {
                return Ok(self.ns.snapshot_entries(root, after, limit));
            }
            View::Inside(seen) => seen,
        };
        if self.ns.file(seen.id).is_some() {
            let entries = vec![self.ns.status_at(seen, "")];
            return Ok(ListPage { entries, remaining: 0 });
        }
        self.guard(caller).check_former(
            (seen.id, seen.state),
            Action::READ_EXECUTE,
            path.as_str(),
        )?;
        let mut children = self.ns.children_at(seen.id, seen.at, after);
        let entry = |(name, id): (&str, InodeId)| {
            let status = self.ns.status_at(self.ns.seen_below(seen, id)?, name);
            Some((status.children_count, status))
        };
        let entries = page_of(&mut children, limit, entry);
        let remaining = children.count() as u64;
        Ok(ListPage { entries, remaining })
    }

    pub(in crate::core) fn locations_view(
        &self,
        nodes: &Datanodes,
        (path, view): (&DfsPath, Option<View<'_>>),
        (start, length): (u64, u64),
        reader: Reader<'_>,
    ) -> Result<LocatedBlocks, RemoteError> {
        let missing = || refuse(ErrorKind::NotFound, format!("File does not exist: {path}"));
        let not_file = || refuse(ErrorKind::IsDirectory, format!("Path is not a file: {path}"));
        let View::Inside(seen) = view.ok_or_else(missing)? else { return Err(not_file()) };
        let file = self.ns.file(seen.id).ok_or_else(not_file)?;
        self.guard(reader.caller).check_former(
            (seen.id, seen.state),
            Action::READ,
            path.as_str(),
        )?;
        let features = seen.state.features(&self.ns, seen.id);
        self.guard(reader.caller).check_readable(features)?;
        let (list, bytes) = self.ns.blocks_at(seen.id, seen.state);
        let end = start.saturating_add(length).min(bytes);
        let holder = self.settings.token_keys.holder(reader.caller.user);
        let (mut blocks, mut offset) = (Vec::new(), 0);
        for block in list {
            let Some(info) = self.ns.block(block) else { break };
            // Of a block that has grown since, only what the snapshot had is visible.
            let seen = bytes.saturating_sub(offset);
            let length = if info.complete { info.length.min(seen) } else { seen };
            if offset < end && offset + length > start {
                let of = (block, info, file, offset);
                let located = self.for_reader(nodes, of, (reader, holder));
                blocks.push(LocatedBlock { length, ..located });
            }
            offset += length;
        }
        let status = self.ns.status_at(seen, "");
        Ok(LocatedBlocks { status, blocks })
    }

    pub(super) fn acl_view(
        &self,
        path: &DfsPath,
        view: Option<View<'_>>,
    ) -> Result<AclStatus, RemoteError> {
        let Seen { id, state, .. } = match view {
            None => {
                return Err(refuse(ErrorKind::NotFound, format!("File does not exist: {path}")));
            }
            // As HDFS: it has no owner and no list.
            Some(View::Snapshots(_)) => {
                return Ok(AclStatus {
                    owner: String::new(),
                    group: String::new(),
                    mode: DOT_SNAPSHOT_MODE,
                    entries: Vec::new(),
                });
            }
            Some(View::Inside(seen)) => seen,
        };
        let rights = state.rights();
        Ok(AclStatus {
            owner: self.ns.names.text(rights.owner).to_owned(),
            group: self.ns.names.text(rights.group).to_owned(),
            mode: rights.mode,
            entries: state.features(&self.ns, id).map_or(Vec::new(), |f| f.acl.clone()),
        })
    }

    pub(super) fn access_view(
        &self,
        path: &DfsPath,
        (view, action): (Option<View<'_>>, Action),
        caller: Caller<'_>,
    ) -> Result<(), RemoteError> {
        match view {
            Some(View::Inside(Seen { id, state, .. })) => {
                self.guard(caller).check_former((id, state), action, path.as_str())
            }
            _ => Err(refuse(ErrorKind::NotFound, format!("Path not found: {path}"))),
        }
    }

    /// Directories that may have snapshots: the caller's, or all for the superuser.
    pub(in crate::core) fn snapshottable_directories(
        &self,
        caller: Caller<'_>,
    ) -> Vec<SnapshottableDirectory> {
        let mut found: Vec<SnapshottableDirectory> = Vec::new();
        for (id, root) in &self.ns.history.roots {
            let path = self.ns.path_of(*id).and_then(|path| DfsPath::parse(&path).ok());
            let (Some(path), Some(inode)) = (path, self.ns.inode(*id)) else { continue };
            if !self.guard(caller).owns(inode) {
                continue;
            }
            found.push(SnapshottableDirectory {
                status: self.ns.status(*id, inode, &inode.name),
                path,
                snapshot_count: u32::try_from(root.snapshots.len()).unwrap_or(u32::MAX),
                snapshot_quota: u32::try_from(SNAPSHOTS_MAX).unwrap_or(u32::MAX),
            });
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }

    /// A page of a directory's snapshots by age: those after a number. Who may list `.snapshot` may know them.
    pub(in crate::core) fn snapshots(
        &self,
        path: &DfsPath,
        after: Option<u64>,
        caller: Caller<'_>,
    ) -> Result<SnapshotPage, RemoteError> {
        let needs = Needs { target: Some(Action::EXECUTE), ..Needs::default() };
        let found =
            self.lookup(path, (caller, needs), |path| format!("File does not exist: {path}"))?;
        let Some(root) = self.ns.history.roots.get(&found.id) else {
            let text = format!("Directory is not a snapshottable directory: {path}");
            return Err(refuse(ErrorKind::Snapshot, text));
        };
        let limit = self.settings.list_limit.min(LIST_ENTRIES_MAX) as usize;
        let rest = match after {
            Some(number) => (Bound::Excluded(number), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let mut rest = root.snapshots.range(rest);
        let entry = |(number, snapshot): (&SnapshotId, &Snapshot)| {
            let status = self.ns.status_at(self.ns.seen_root(found.id, *number)?, &snapshot.name);
            Some((status.children_count, SnapshotStatus { number: *number, status }))
        };
        let entries = page_of(&mut rest, limit, entry);
        Ok(SnapshotPage { entries, remaining: rest.count() as u64 })
    }

    pub(in crate::core) fn snapshot_diff(
        &self,
        path: &DfsPath,
        (from, to): (&str, &str),
        skip: u64,
        caller: Caller<'_>,
    ) -> Result<DiffPage, RemoteError> {
        let needs = Needs { target: Some(Action::READ_EXECUTE), ..Needs::default() };
        let found =
            self.lookup(path, (caller, needs), |path| format!("Directory does not exist: {path}"))?;
        if found.inode.directory().is_none() {
            let text = format!("`{path}': Is not a directory");
            return Err(refuse(ErrorKind::NotDirectory, text));
        }
        let root = self.ns.snapshot_root_above(found.id).ok_or_else(|| {
            let text =
                format!("The path {path} is neither snapshottable nor under a snapshot root!");
            refuse(ErrorKind::Snapshot, text)
        })?;
        let moment = |name: &str| match name {
            "" => Ok(PRESENT),
            name => self.ns.snapshot_id(root, name).ok_or_else(|| {
                let root = self.ns.path_of(root).unwrap_or_default();
                let text = format!("Cannot find the snapshot of directory {root} with name {name}");
                refuse(ErrorKind::Snapshot, text)
            }),
        };
        let (from, to) = (moment(from)?, moment(to)?);
        // What lies in a directory that the caller may not list is not shown here either, whichever of the two moments it was closed in.
        let guard = self.guard(caller);
        let pass = |id: InodeId, state: At<'_>| {
            let path = self.ns.path_of(id).unwrap_or_default();
            guard.check_former((id, state), Action::READ_EXECUTE, &path)
        };
        let all = entries(&self.ns, found.id, (from, to), pass)?;
        let start = usize::try_from(skip).unwrap_or(usize::MAX).min(all.len());
        let page: Vec<DiffEntry> = all[start..].iter().take(DIFF_ENTRIES_MAX).cloned().collect();
        let remaining = (all.len() - start - page.len()) as u64;
        Ok(DiffPage { entries: page, remaining })
    }
}

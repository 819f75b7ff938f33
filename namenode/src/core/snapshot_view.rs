//! Reading what snapshots hold: paths through `.snapshot`.

use protocol::acl::AclStatus;
use protocol::namenode::{
    Answer, ContentSummary, DOT_SNAPSHOT, FileStatus, LIST_ENTRIES_MAX, LocatedBlock,
    LocatedBlocks, Reply, SnapshottableDirectory,
};
use protocol::permission::Action;
use protocol::storage::StoragePolicy;
use protocol::{DfsPath, ErrorKind, InodeId, RemoteError};

use super::command::refuse;
use super::datanodes::Datanodes;
use super::features::Features;
use super::history::{At, SnapshotId};
use super::inode::Inode;
use super::namespace::Namespace;
use super::permission::Caller;
use super::query::Reader;
use super::snapshot::{SNAPSHOTS_MAX, split};
use super::state::State;

/// Permission bits of `.snapshot` itself, as HDFS shows it.
const DOT_SNAPSHOT_MODE: u16 = 0o777;

/// What a path through `.snapshot` leads to.
#[derive(Clone, Copy, Debug)]
pub(super) enum View<'a> {
    /// The list of a directory's snapshots.
    Snapshots(InodeId),
    /// Something in a snapshot.
    Inside(Seen<'a>),
}

/// Something in a snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) id: InodeId,
    pub(super) at: SnapshotId,
    pub(super) state: At<'a>,
    /// The storage policy that counted for it.
    pub(super) policy: Option<StoragePolicy>,
}

impl Namespace {
    /// Status of something in a snapshot, under the name `name`.
    pub(super) fn status_at(&self, seen: Seen<'_>, name: &str) -> FileStatus {
        let Seen { id, at, state, policy } = seen;
        let (owner, group, mode) = match state {
            At::Live(inode) => (inode.owner, inode.group, inode.mode),
            At::Was(version) => (version.owner, version.group, version.mode),
        };
        let (mtime_ms, atime_ms) = match state {
            At::Live(inode) => (inode.mtime_ms, inode.atime_ms()),
            At::Was(version) => (version.mtime_ms, version.atime_ms),
        };
        let file = self.file(id);
        let replication = match (state, file) {
            (At::Was(version), _) => version.file.as_ref().map_or(0, |file| file.replication),
            (At::Live(_), file) => file.map_or(0, |file| file.replication),
        };
        let children_count = match file {
            Some(_) => 0,
            None => self.children_at(id, at, "").count() as u64,
        };
        FileStatus {
            length: self.length_at(seen),
            replication,
            block_size: file.map_or(0, |file| file.block_size),
            owner: self.names.text(owner).to_owned(),
            group: self.names.text(group).to_owned(),
            mode,
            mtime_ms,
            atime_ms,
            children_count,
            has_acl: state.features(self, id).is_some_and(|features| !features.acl.is_empty()),
            open: false,
            storage_policy: policy,
            ..self.bare_status(id, name)
        }
    }

    /// Status with nothing but what never changes.
    fn bare_status(&self, id: InodeId, name: &str) -> FileStatus {
        FileStatus {
            name: name.to_owned(),
            inode: id,
            directory: self.file(id).is_none(),
            length: 0,
            replication: 0,
            block_size: 0,
            owner: String::new(),
            group: String::new(),
            mode: DOT_SNAPSHOT_MODE,
            has_acl: false,
            snapshottable: false,
            mtime_ms: 0,
            atime_ms: 0,
            children_count: 0,
            open: false,
            storage_policy: None,
        }
    }

    /// An entry of something in the same snapshot.
    pub(super) fn seen_below<'a>(&'a self, above: Seen<'a>, id: InodeId) -> Option<Seen<'a>> {
        let state = self.at(id, above.at)?;
        let own = state.features(self, id).and_then(Features::policy);
        Some(Seen { id, state, policy: own.or(above.policy), ..above })
    }

    /// The top of a snapshot. What it had from above is not in it, and is as it is now.
    fn seen_root(&self, id: InodeId, at: SnapshotId) -> Option<Seen<'_>> {
        let state = self.at(id, at)?;
        let own = state.features(self, id).and_then(Features::policy);
        Some(Seen { id, at, state, policy: own.or_else(|| self.policy_above(id)) })
    }

    fn length_at(&self, seen: Seen<'_>) -> u64 {
        match (seen.state, self.file(seen.id)) {
            (_, None) => 0,
            (At::Live(_), Some(file)) => file.visible_length(),
            (At::Was(version), Some(_)) => version.file.as_ref().map_or(0, |file| file.length),
        }
    }

    /// Totals of a tree in a snapshot; walks it, and shows every directory to `pass`.
    fn summary_at(
        &self,
        seen: Seen<'_>,
        pass: impl Fn(InodeId, At<'_>) -> Result<(), RemoteError>,
    ) -> Result<ContentSummary, RemoteError> {
        let mut sum = ContentSummary::default();
        let mut stack = vec![(seen.id, seen.state)];
        while let Some((id, state)) = stack.pop() {
            let Some(file) = self.file(id) else {
                pass(id, state)?;
                sum.directory_count += 1;
                let children = self.children_at(id, seen.at, "");
                stack.extend(
                    children.filter_map(|(_, child)| Some((child, self.at(child, seen.at)?))),
                );
                continue;
            };
            let length = self.length_at(Seen { id, state, ..seen });
            let replication = match state {
                At::Live(_) => file.replication,
                At::Was(version) => version.file.as_ref().map_or(0, |file| file.replication),
            };
            sum.file_count += 1;
            sum.length += length;
            sum.space_consumed += length.saturating_mul(u64::from(replication));
        }
        Ok(sum)
    }

    /// One entry for each snapshot of a directory, after a name.
    fn snapshot_entries(&self, root: InodeId, after: &str) -> Vec<FileStatus> {
        let names = self.history.roots.get(&root).map(|root| &root.names);
        let range = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let rest = names.into_iter().flat_map(|names| names.range::<str, _>(range));
        rest.filter_map(|(name, at)| Some(self.status_at(self.seen_root(root, *at)?, name)))
            .collect()
    }
}

impl State {
    /// Follows a path through `.snapshot`; `None` if it has no such element. `Ok(None)` if there is nothing.
    pub(super) fn view(
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
        guard.check_inode(found.id, Action::EXECUTE)?;
        let Some((name, rest)) = rest.split_first() else {
            return Ok(Some(View::Snapshots(found.id)));
        };
        let Some(at) = ns.snapshot_id(found.id, name) else { return Ok(None) };
        let top = above.as_str().trim_end_matches('/');
        let mut path = format!("{top}/{DOT_SNAPSHOT}/{name}");
        let Some(mut seen) = ns.seen_root(found.id, at) else { return Ok(None) };
        for name in rest {
            if ns.inodes.get(&seen.id).and_then(Inode::directory).is_none() {
                let text = format!("{path} (is not a directory)");
                return Err(refuse(ErrorKind::NotDirectory, text));
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

    pub(super) fn stat_view(&self, path: &DfsPath, view: Option<View<'_>>) -> Answer {
        match view {
            None => Err(refuse(ErrorKind::NotFound, format!("File does not exist: {path}"))),
            Some(View::Snapshots(root)) => {
                let count = self.ns.history.roots.get(&root).map_or(0, |root| root.names.len());
                let bare = self.ns.bare_status(root, "");
                Ok(Reply::Status(FileStatus { children_count: count as u64, ..bare }))
            }
            Some(View::Inside(seen)) => Ok(Reply::Status(self.ns.status_at(seen, ""))),
        }
    }

    pub(super) fn list_view(
        &self,
        path: &DfsPath,
        (after, limit): (&str, u32),
        view: Option<View<'_>>,
        caller: Caller<'_>,
    ) -> Answer {
        let limit = limit.clamp(1, self.settings.list_limit.min(LIST_ENTRIES_MAX)) as usize;
        let missing = || refuse(ErrorKind::NotFound, format!("File {path} does not exist."));
        let seen = match view.ok_or_else(missing)? {
            View::Snapshots(root) => {
                let mut entries = self.ns.snapshot_entries(root, after);
                let remaining = entries.len().saturating_sub(limit) as u64;
                entries.truncate(limit);
                return Ok(Reply::Listing { entries, remaining });
            }
            View::Inside(seen) => seen,
        };
        if self.ns.file(seen.id).is_some() {
            let entries = vec![self.ns.status_at(seen, "")];
            return Ok(Reply::Listing { entries, remaining: 0 });
        }
        self.guard(caller).check_former(
            (seen.id, seen.state),
            Action::READ_EXECUTE,
            path.as_str(),
        )?;
        let mut children = self.ns.children_at(seen.id, seen.at, after);
        let entry = |(name, id): (&str, InodeId)| {
            Some(self.ns.status_at(self.ns.seen_below(seen, id)?, name))
        };
        let entries = children.by_ref().take(limit).filter_map(entry).collect();
        let remaining = children.count() as u64;
        Ok(Reply::Listing { entries, remaining })
    }

    pub(super) fn summary_view(
        &self,
        path: &DfsPath,
        view: Option<View<'_>>,
        caller: Caller<'_>,
    ) -> Answer {
        let pass = |id: InodeId, state: At<'_>| {
            let access = Action::READ_EXECUTE;
            self.guard(caller).check_former((id, state), access, path.as_str())
        };
        match view {
            None => Err(refuse(ErrorKind::NotFound, format!("File does not exist: {path}"))),
            Some(View::Snapshots(_)) => Ok(Reply::Summary(ContentSummary {
                directory_count: 1,
                ..ContentSummary::default()
            })),
            Some(View::Inside(seen)) => Ok(Reply::Summary(self.ns.summary_at(seen, pass)?)),
        }
    }

    pub(super) fn locations_view(
        &self,
        nodes: &Datanodes,
        (path, view): (&DfsPath, Option<View<'_>>),
        (start, length): (u64, u64),
        reader: Reader<'_>,
    ) -> Answer {
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
        let (mut blocks, mut offset) = (Vec::new(), 0);
        for block in list {
            let Some(info) = self.ns.block(block) else { break };
            // A block that has grown since shows what the snapshot had of it.
            let seen = bytes.saturating_sub(offset);
            let length = if info.complete { info.length.min(seen) } else { seen };
            if offset < end && offset + length > start {
                let located = self.for_reader(nodes, (block, info, file, offset), reader);
                blocks.push(LocatedBlock { length, ..located });
            }
            offset += length;
        }
        let status = self.ns.status_at(seen, "");
        Ok(Reply::Located(LocatedBlocks { status, blocks }))
    }

    pub(super) fn acl_view(&self, path: &DfsPath, view: Option<View<'_>>) -> Answer {
        let Seen { id, state, .. } = match view {
            None => {
                return Err(refuse(ErrorKind::NotFound, format!("File does not exist: {path}")));
            }
            // As HDFS: it has no owner and no list.
            Some(View::Snapshots(_)) => {
                return Ok(Reply::Acl(AclStatus {
                    owner: String::new(),
                    group: String::new(),
                    mode: DOT_SNAPSHOT_MODE,
                    entries: Vec::new(),
                }));
            }
            Some(View::Inside(seen)) => seen,
        };
        let rights = state.rights();
        Ok(Reply::Acl(AclStatus {
            owner: self.ns.names.text(rights.owner).to_owned(),
            group: self.ns.names.text(rights.group).to_owned(),
            mode: rights.mode,
            entries: state.features(&self.ns, id).map_or(Vec::new(), |f| f.acl.clone()),
        }))
    }

    pub(super) fn access_view(
        &self,
        path: &DfsPath,
        (view, action): (Option<View<'_>>, Action),
        caller: Caller<'_>,
    ) -> Answer {
        match view {
            Some(View::Inside(Seen { id, state, .. })) => {
                self.guard(caller).check_former((id, state), action, path.as_str())?;
                Ok(Reply::Done)
            }
            _ => Err(refuse(ErrorKind::NotFound, format!("Path not found: {path}"))),
        }
    }

    /// Directories that may have snapshots: the caller's, or all for the superuser.
    pub(super) fn snapshottable_directories(&self, caller: Caller<'_>) -> Answer {
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
        Ok(Reply::Snapshottable(found))
    }
}

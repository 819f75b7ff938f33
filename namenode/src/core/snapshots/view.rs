//! Reading what snapshots hold: paths through `.snapshot`.

use protocol::namenode::{ContentSummary, DOT_SNAPSHOT, FileStatus, ListPage};
use protocol::storage::StoragePolicy;
use protocol::{DfsPath, InodeId};

use crate::core::inodes::{At, Features, SnapshotId};
use crate::core::namespace::Namespace;

/// Most snapshots of one directory, as in HDFS.
pub const SNAPSHOTS_MAX: usize = 65_536;

/// Children counted for a page of a listing in snapshots before it ends: some ten milliseconds, in which nobody else's change is made.
const COUNTED_CHILDREN_MAX: u64 = 1 << 18;

/// Permission bits of `.snapshot` itself, as HDFS shows it.
pub(in crate::core) const DOT_SNAPSHOT_MODE: u16 = 0o777;

/// What a path through `.snapshot` leads to.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) enum View<'a> {
    /// The list of a directory's snapshots.
    Snapshots(InodeId),
    /// Something in a snapshot.
    Inside(Seen<'a>),
}

/// Something in a snapshot.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Seen<'a> {
    pub(in crate::core) id: InodeId,
    pub(in crate::core) at: SnapshotId,
    pub(in crate::core) state: At<'a>,
    /// The storage policy that counted for it.
    pub(in crate::core) policy: Option<StoragePolicy>,
}

impl Namespace {
    /// Status of something in a snapshot, under the name `name`.
    pub(in crate::core) fn status_at(&self, seen: Seen<'_>, name: &str) -> FileStatus {
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
    pub(in crate::core) fn bare_status(&self, id: InodeId, name: &str) -> FileStatus {
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
    pub(in crate::core) fn seen_below<'a>(
        &'a self,
        above: Seen<'a>,
        id: InodeId,
    ) -> Option<Seen<'a>> {
        let state = self.at(id, above.at)?;
        let own = state.features(self, id).and_then(Features::policy);
        Some(Seen { id, state, policy: own.or(above.policy), ..above })
    }

    /// The top of a snapshot. What it inherited from above is not in it, and is as it is now.
    pub(in crate::core) fn seen_root(&self, id: InodeId, at: SnapshotId) -> Option<Seen<'_>> {
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

    /// Adds an entry of a snapshot to the totals of its tree, and what is in it to `rest`.
    pub(in crate::core) fn add_former(
        &self,
        (id, state, at): (InodeId, At<'_>, SnapshotId),
        sum: &mut ContentSummary,
        rest: &mut Vec<InodeId>,
    ) {
        let Some(file) = self.file(id) else {
            sum.directory_count += 1;
            rest.extend(self.children_at(id, at, "").map(|(_, child)| child));
            return;
        };
        let (length, replication) = match state {
            At::Live(_) => (file.visible_length(), file.replication),
            At::Was(version) => {
                version.file.as_ref().map_or((0, 0), |file| (file.length, file.replication))
            }
        };
        sum.file_count += 1;
        sum.length = sum.length.saturating_add(length);
        let space = length.saturating_mul(u64::from(replication));
        sum.space_consumed = sum.space_consumed.saturating_add(space);
    }

    /// A page of the snapshots of a directory, after a name.
    pub(in crate::core) fn snapshot_entries(
        &self,
        root: InodeId,
        after: &str,
        limit: usize,
    ) -> ListPage {
        let names = self.history.roots.get(&root).map(|root| &root.names);
        let range = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        let mut rest = names.into_iter().flat_map(|names| names.range::<str, _>(range));
        let entries = page_of(&mut rest, limit, |(name, at)| {
            let status = self.status_at(self.seen_root(root, *at)?, name);
            Some((status.children_count, status))
        });
        ListPage { entries, remaining: rest.count() as u64 }
    }
}

/// The next entries of a listing: at most `limit`, and fewer where their children are many, for in snapshots these are counted one by one while others wait.
/// `make` returns an entry and how many children were counted for it.
pub(in crate::core) fn page_of<R, T>(
    rest: &mut impl Iterator<Item = R>,
    limit: usize,
    make: impl Fn(R) -> Option<(u64, T)>,
) -> Vec<T> {
    let (mut page, mut counted) = (Vec::new(), 0);
    while page.len() < limit && counted < COUNTED_CHILDREN_MAX {
        let Some(next) = rest.next() else { break };
        if let Some((children, entry)) = make(next) {
            counted += children;
            page.push(entry);
        }
    }
    page
}

/// The path before the first `.snapshot`, and the elements after it.
pub(in crate::core) fn split(path: &DfsPath) -> Option<(DfsPath, Vec<&str>)> {
    let index = path.elements().position(|element| element == DOT_SNAPSHOT)?;
    let mut above = path.clone();
    let count = path.elements().count();
    for _ in index..count {
        above = above.parent().unwrap_or_else(DfsPath::root);
    }
    Some((above, path.elements().skip(index + 1).collect()))
}

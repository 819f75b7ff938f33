//! What changed in a directory between two snapshots of it or of one above it, or between a snapshot and the present. Order and terms are
//! those of HDFS's report. What came into the directory from outside is new in it, what left it is gone.
//!
//! Only inodes with a version or a stamp between the two moments are examined. Paths are those of the earlier moment. Entries of a
//! directory that is new, or gone, are not listed separately.

use std::collections::{BTreeMap, BTreeSet};

use protocol::namenode::{DiffEntry, DiffKind};
use protocol::path::DEPTH_MAX;
use protocol::{InodeId, RemoteError};

use crate::core::inodes::{At, SnapshotId};
use crate::core::namespace::Namespace;

/// Elements of a path below the directory of snapshots, from the top.
type Way = Vec<String>;

/// What happened in and to a directory.
#[derive(Default)]
struct Changes {
    modified: bool,
    created: BTreeMap<String, InodeId>,
    /// With the new place of what was renamed.
    left: BTreeMap<String, Option<Way>>,
}

impl Namespace {
    /// The directory whose snapshots have this one: itself, or the nearest above it.
    pub(in crate::core) fn snapshot_root_above(&self, id: InodeId) -> Option<InodeId> {
        let mut id = id;
        while !self.history.roots.contains_key(&id) {
            id = self.inodes.get(&id).filter(|_| id != InodeId::ROOT)?.parent;
        }
        Some(id)
    }

    /// The way from `root` to an inode at a moment; `None` if it was not there.
    fn way_at(&self, root: InodeId, id: InodeId, at: SnapshotId) -> Option<Way> {
        let (mut way, mut id) = (Vec::new(), id);
        while id != root {
            let (parent, name) = self.place_at(id, at)?;
            way.push(name);
            // What the snapshot does not see may have been in a ring then; no path is longer than this.
            if way.len() > DEPTH_MAX {
                return None;
            }
            id = parent;
        }
        way.reverse();
        Some(way)
    }

    fn place_at(&self, id: InodeId, at: SnapshotId) -> Option<(InodeId, String)> {
        if id == InodeId::ROOT {
            return None;
        }
        let state = self.at(id, at)?;
        let (parent, name) = state.place();
        // The parent must have been there, too: an inode may outlive it.
        self.inodes.contains_key(&parent).then(|| (parent, name.to_string()))
    }

    /// Inodes with anything that begins or ends in `after + 1 ..= last`.
    fn touched(&self, after: SnapshotId, last: SnapshotId) -> BTreeSet<InodeId> {
        let within = |moment: SnapshotId| moment > after && moment <= last;
        let versions = self.history.versions.iter().filter(|(_, versions)| {
            versions.iter().any(|version| within(version.from) || within(version.until))
        });
        let stamps = self.history.stamps.iter().filter(|(_, stamp)| within(**stamp));
        versions.map(|(id, _)| *id).chain(stamps.map(|(id, _)| *id)).collect()
    }

    /// Lets `pass` judge every directory above an inode at a moment, up to `root`, once.
    fn pass_above(
        &self,
        (root, id): (InodeId, InodeId),
        at: SnapshotId,
        passed: &mut BTreeSet<(InodeId, SnapshotId)>,
        pass: &impl Fn(InodeId, At<'_>) -> Result<(), RemoteError>,
    ) -> Result<(), RemoteError> {
        let mut id = id;
        while id != root {
            let Some((parent, _)) = self.place_at(id, at) else { break };
            if !passed.insert((parent, at)) {
                break;
            }
            if let Some(state) = self.at(parent, at) {
                pass(parent, state)?;
            }
            id = parent;
        }
        Ok(())
    }

    /// The changes of a directory between two moments. `pass` judges each directory whose entries they name.
    fn changes(
        &self,
        root: InodeId,
        (earlier, later): (SnapshotId, SnapshotId),
        pass: impl Fn(InodeId, At<'_>) -> Result<(), RemoteError>,
    ) -> Result<BTreeMap<Way, Changes>, RemoteError> {
        let mut all: BTreeMap<Way, Changes> = BTreeMap::new();
        let mut passed = BTreeSet::new();
        for id in self.touched(earlier, later) {
            let (before, after) = (self.way_at(root, id, earlier), self.way_at(root, id, later));
            let places = (self.place_at(id, earlier), self.place_at(id, later));
            for (_, at) in [(&before, earlier), (&after, later)].iter().filter(|it| it.0.is_some())
            {
                self.pass_above((root, id), *at, &mut passed, &pass)?;
            }
            if let Some(way) = before.clone().filter(|_| after.is_some())
                && self.differs(id, earlier, later)
            {
                all.entry(way).or_default().modified = true;
            }
            let stays = id == root || (before.is_some() && after.is_some() && places.0 == places.1);
            if stays || (before.is_none() && after.is_none()) {
                continue;
            }
            // Reported where it left, if that directory is still there; else where it came to.
            let source = places.0.filter(|_| before.is_some());
            let from = source.filter(|(parent, _)| self.way_at(root, *parent, later).is_some());
            if let Some((parent, name)) = from.clone()
                && let Some(way) = self.way_at(root, parent, earlier)
            {
                let changes = all.entry(way).or_default();
                changes.modified = true;
                changes.left.insert(name, after.clone());
            }
            if let Some((parent, name)) = places.1.filter(|_| after.is_some())
                && let Some(way) = self.way_at(root, parent, earlier)
            {
                let changes = all.entry(way).or_default();
                changes.modified = true;
                if from.is_none() {
                    changes.created.insert(name, id);
                }
            }
        }
        Ok(all)
    }

    /// Whether what HDFS compares is different: not the times.
    fn differs(&self, id: InodeId, earlier: SnapshotId, later: SnapshotId) -> bool {
        let compared = |at| {
            let state = self.at(id, at)?;
            let rights = match state {
                At::Live(inode) => (inode.owner, inode.group, inode.mode),
                At::Was(version) => (version.owner, version.group, version.mode),
            };
            let replication = match state {
                At::Live(inode) => inode.file().map(|file| file.replication),
                At::Was(version) => version.file.as_ref().map(|file| file.replication),
            };
            Some((rights, state.features(self, id), replication, self.blocks_at(id, state)))
        };
        compared(earlier) != compared(later)
    }
}

/// The report of what changed below `root`. `pass` refuses a directory whose entries the caller may not list.
///
/// # Errors
/// What `pass` returns.
pub(in crate::core) fn entries(
    ns: &Namespace,
    root: InodeId,
    (from, to): (SnapshotId, SnapshotId),
    pass: impl Fn(InodeId, At<'_>) -> Result<(), RemoteError>,
) -> Result<Vec<DiffEntry>, RemoteError> {
    use DiffKind::{Created, Deleted, Modified, Renamed};
    let is_forward = from <= to;
    let mut all = Vec::new();
    let mut add = |kind, path: String, target| all.push(DiffEntry { kind, path, target });
    for (way, changes) in ns.changes(root, (from.min(to), from.max(to)), pass)? {
        let path = way.join("/");
        let below = |name: &str| match path.is_empty() {
            true => name.to_owned(),
            false => format!("{path}/{name}"),
        };
        let (created, deleted) = if is_forward { (Created, Deleted) } else { (Deleted, Created) };
        let names = changes.created.keys().map(|name| below(name));
        let left = changes.left.iter().map(|(name, target)| (below(name), target));
        if changes.modified {
            add(Modified, path.clone(), None);
        }
        names.for_each(|name| add(created, name, None));
        for (source, target) in left {
            match target.as_ref().map(|way| way.join("/")) {
                None => add(deleted, source, None),
                Some(target) if is_forward => add(Renamed, source, Some(target)),
                Some(target) => add(Renamed, target, Some(source)),
            }
        }
    }
    Ok(all)
}

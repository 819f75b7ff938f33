//! Totals of a tree. Those of the present are known, but the caller has to be allowed to read each of its directories; those of a snapshot are summed.
//!
//! Both look at each entry, so a large tree is walked in slices, and between two of them the state is free for others. What changes meanwhile may count or
//! not, as in HDFS.

use protocol::namenode::{Call, ContentSummary};
use protocol::permission::Action;
use protocol::{DfsPath, ErrorKind, InodeId, RemoteError};

use crate::core::inodes::{PRESENT, SnapshotId, Totals};
use crate::core::reserved::Named;
use crate::core::rights::{Caller, Needs};
use crate::core::snapshots::View;
use crate::core::state::State;
use crate::error::refuse;

/// Totals that are being made.
#[derive(Debug)]
pub struct Walk {
    path: DfsPath,
    of: Of,
    /// Inodes that are still to be looked at, with what is below them.
    rest: Vec<InodeId>,
}

#[derive(Debug)]
enum Of {
    /// The tree of this inode.
    Present(InodeId),
    /// A tree in a snapshot, and its sum so far.
    Former(SnapshotId, ContentSummary),
}

impl State {
    /// Begins the totals that a call asks for; `None` if it asks for something else.
    pub fn begin_walk(&self, call: &Call, caller: Caller<'_>) -> Option<Result<Walk, RemoteError>> {
        if !matches!(call, Call::ContentSummary(_)) {
            return None;
        }
        let begin = || {
            let named = Named::of(call)?;
            self.check_by(&named.call, caller)?;
            match &*named.call {
                Call::ContentSummary(path) => self.begin_summary(path, caller),
                _ => Err(refuse(ErrorKind::InvalidArgument, "not a path of a tree".to_owned())),
            }
        };
        Some(begin())
    }

    /// Begins the totals of a path.
    pub(in crate::core) fn begin_summary(
        &self,
        path: &DfsPath,
        caller: Caller<'_>,
    ) -> Result<Walk, RemoteError> {
        let missing = |path: &DfsPath| format!("File does not exist: {path}");
        let walk = |of, rest| Walk { path: path.clone(), of, rest };
        let Some(view) = self.view(path, caller) else {
            let found = self.lookup(path, (caller, Needs::default()), missing)?;
            let rest = if self.guard(caller).is_exempt() { Vec::new() } else { vec![found.id] };
            return Ok(walk(Of::Present(found.id), rest));
        };
        let sum = ContentSummary::default();
        match view? {
            None => Err(refuse(ErrorKind::NotFound, missing(path))),
            // The list of snapshots is a directory without entries.
            Some(View::Snapshots(_)) => {
                let sum = ContentSummary { directory_count: 1, ..sum };
                Ok(walk(Of::Former(PRESENT, sum), Vec::new()))
            }
            Some(View::Inside(seen)) => Ok(walk(Of::Former(seen.at, sum), vec![seen.id])),
        }
    }

    /// Goes on with a walk for at most `steps` entries; the totals once it is done.
    ///
    /// # Errors
    /// A directory that the caller may not read, or a tree that is gone.
    pub fn walk_on(
        &self,
        walk: &mut Walk,
        caller: Caller<'_>,
        steps: usize,
    ) -> Result<Option<ContentSummary>, RemoteError> {
        let guard = self.guard(caller);
        for _ in 0..steps {
            let Some(id) = walk.rest.pop() else { return self.walked(walk).map(Some) };
            match &mut walk.of {
                Of::Present(_) => guard.check_directory(id, &mut walk.rest)?,
                Of::Former(at, sum) => {
                    let Some(state) = self.ns.at(id, *at) else { continue };
                    if self.ns.file(id).is_none() {
                        let (access, path) = (Action::READ_EXECUTE, walk.path.as_str());
                        guard.check_former((id, state), access, path)?;
                    }
                    self.ns.add_former((id, state, *at), sum, &mut walk.rest);
                }
            }
        }
        Ok(None)
    }

    /// The totals of a walk that is done.
    fn walked(&self, walk: &Walk) -> Result<ContentSummary, RemoteError> {
        let top = match &walk.of {
            Of::Former(_, sum) => return Ok(*sum),
            Of::Present(top) => *top,
        };
        let inode = self.ns.inode(top).ok_or_else(|| {
            refuse(ErrorKind::NotFound, format!("File does not exist: {}", walk.path))
        })?;
        let kept = self.ns.retained(top);
        let Totals { length, file_count, directory_count, space_consumed } =
            inode.total().plus(kept);
        let quota = self.ns.quota_of(top);
        Ok(ContentSummary {
            length,
            file_count,
            directory_count,
            space_consumed,
            quota: quota.names,
            space_quota: quota.space,
            snapshot_length: kept.length,
            snapshot_file_count: kept.file_count,
            snapshot_directory_count: kept.directory_count,
            snapshot_space_consumed: kept.space_consumed,
        })
    }

    /// The totals of a path, at once.
    pub(in crate::core) fn summary(
        &self,
        path: &DfsPath,
        caller: Caller<'_>,
    ) -> Result<ContentSummary, RemoteError> {
        let mut walk = self.begin_summary(path, caller)?;
        loop {
            if let Some(sum) = self.walk_on(&mut walk, caller, usize::MAX)? {
                return Ok(sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::namenode::{Answer, Reply};

    use super::*;
    use crate::core::tests::harness::{Harness, dfs};

    const BOB: Caller<'static> = Caller { user: "bob", groups: &[], is_superuser: false };

    /// Totals in slices of a few steps; `between` runs after each.
    fn in_slices(
        h: &mut Harness,
        path: &str,
        mut between: impl FnMut(&mut Harness),
    ) -> (Answer, usize) {
        let mut walk = match h.state.begin_walk(&Call::ContentSummary(dfs(path)), BOB).unwrap() {
            Ok(walk) => walk,
            Err(refusal) => return (Err(refusal), 0),
        };
        let mut slices = 0;
        loop {
            slices += 1;
            match h.state.walk_on(&mut walk, BOB, 3) {
                Ok(None) => between(h),
                Ok(Some(sum)) => return (Ok(Reply::Summary(sum)), slices),
                Err(refusal) => return (Err(refusal), slices),
            }
        }
    }

    fn mkdirs(h: &mut Harness, path: &str, mode: u16) {
        let path = dfs(path);
        h.call(Call::Mkdirs { path, mode, unmasked: None, parents: true }).unwrap();
    }

    fn tree() -> Harness {
        let mut h = Harness::with_nodes(1, 3);
        for number in 0..10 {
            mkdirs(&mut h, &format!("/d/{number}/in"), 0o755);
            h.write(&format!("/d/{number}/in/f"), 10, 3);
        }
        h
    }

    #[test]
    fn totals_in_slices_are_those_at_once_of_the_present_and_of_a_snapshot() {
        let mut h = tree();
        h.call(Call::AllowSnapshot(dfs("/d"))).unwrap();
        h.call(Call::CreateSnapshot { path: dfs("/d"), name: Some("s".to_owned()) }).unwrap();
        mkdirs(&mut h, "/d/later", 0o755);
        for (path, files, directories) in [
            ("/d", 10, 22),
            ("/d/.snapshot/s", 10, 21),
            ("/d/.snapshot", 0, 1),
            ("/d/3/in/f", 1, 0),
        ] {
            let (answer, slices) = in_slices(&mut h, path, |_| ());
            assert_eq!(
                answer,
                h.state.query(&h.nodes, &Call::ContentSummary(dfs(path)), reader(&h))
            );
            let Ok(Reply::Summary(sum)) = answer else { panic!("{answer:?}") };
            assert_eq!((sum.file_count, sum.directory_count), (files, directories), "{path}");
            assert_eq!(slices > 3, directories > 20, "{path}: {slices}");
        }
        assert!(h.state.begin_walk(&Call::Status(dfs("/d")), BOB).is_none());
    }

    fn reader(h: &Harness) -> crate::core::query::Reader<'static> {
        crate::core::query::Reader { caller: BOB, host: "", now: h.now, txid: 0 }
    }

    #[test]
    fn a_closed_directory_is_found_and_a_tree_that_goes_meanwhile_is_missed() {
        let mut h = tree();
        mkdirs(&mut h, "/d/5/closed", 0o700);
        let refused = in_slices(&mut h, "/d", |_| ()).0.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::PermissionDenied);
        // Of a leaf with files alone the files are not looked at.
        let (answer, slices) = in_slices(&mut h, "/d/4/in", |_| ());
        assert!(answer.is_ok() && slices == 1, "{answer:?}");
        let mut gone = tree();
        let delete = |h: &mut Harness| {
            let _ = h.call(Call::Delete { path: dfs("/d"), recursive: true });
        };
        let missed = in_slices(&mut gone, "/d", delete).0.unwrap_err();
        assert_eq!(missed.kind, ErrorKind::NotFound);
    }
}

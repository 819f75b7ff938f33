//! Quotas of directories: how many names, and how many bytes times replicas, there may be below and with them.
//!
//! Usage is [`Namespace::whole`], so a directory counts itself, a block that is being written counts with its full size, and what only
//! snapshots keep counts where it was. Every planned call is checked here, in one place, by what its edits would add; replay and the
//! NameNode's own decisions are not checked. As in HDFS, a quota can be set below the usage, and then only growth is refused. A move is
//! checked below the first directory that holds both its ends.

use std::collections::BTreeMap;

use protocol::namenode::QuotaChange;
use protocol::{DfsPath, ErrorKind, InodeId, RemoteError};

use super::planner::{Planned, Planner};
use crate::core::edit::{Edit, Outcome};
use crate::core::inodes::{Inode, NOWHERE, QUOTA_MAX, Quota, Totals};
use crate::core::namespace::Namespace;
use crate::core::rights::Needs;
use crate::error::refuse;

impl Planner<'_> {
    pub(super) fn set_quota(
        &mut self,
        path: &DfsPath,
        names: QuotaChange,
        space: QuotaChange,
    ) -> Planned {
        for (change, least) in [(names, 1), (space, 0)] {
            if let QuotaChange::Set(value) = change
                && !(least..=QUOTA_MAX).contains(&value)
            {
                let text = format!("Invalid values for quota : {value}");
                return Err(refuse(ErrorKind::InvalidArgument, text));
            }
        }
        let id = self.directory(path, Needs::default())?;
        if path.is_root() && names == QuotaChange::Clear {
            let text = "Cannot clear namespace quota on root.";
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        let old = self.state.ns.quotas.get(&id).copied().unwrap_or_default();
        let quota = Quota { names: changed(old.names, names), space: changed(old.space, space) };
        if quota != old {
            let Quota { names, space } = quota;
            self.edits.push(Edit::SetQuota { directory: id, names, space });
        }
        Ok(Outcome::Done)
    }

    /// Refuses what would exceed a quota.
    pub(super) fn check_quotas(&self) -> Result<(), RemoteError> {
        if self.state.ns.quotas.is_empty() {
            return Ok(());
        }
        let ns = &self.state.ns;
        let mut budget = Budget { ns, made: BTreeMap::new(), spent: BTreeMap::new() };
        self.edits.iter().try_for_each(|edit| budget.take(edit))
    }
}

fn changed(old: Option<u64>, change: QuotaChange) -> Option<u64> {
    match change {
        QuotaChange::Keep => old,
        QuotaChange::Clear => None,
        QuotaChange::Set(value) => Some(value),
    }
}

/// Growth caused by the edits of a plan, directory by directory.
struct Budget<'a> {
    ns: &'a Namespace,
    /// What was made or changed so far.
    made: BTreeMap<InodeId, Made>,
    /// Names and bytes that the edits so far add to directories with quotas; may be less than nothing.
    spent: BTreeMap<InodeId, (i128, i128)>,
}

#[derive(Clone, Copy)]
struct Made {
    parent: InodeId,
    /// What snapshots keep of it included.
    total: Totals,
    block_size: u64,
    /// The most that the file or a version of it wants: all its blocks have so many replicas.
    replication: u64,
}

impl Budget<'_> {
    fn take(&mut self, edit: &Edit) -> Result<(), RemoteError> {
        match *edit {
            Edit::MakeDirectory { id, parent, .. } => {
                let total = Totals::DIRECTORY;
                self.make(id, Made { parent, total, block_size: 0, replication: 0 })
            }
            Edit::MakeFile { id, parent, replication, block_size, .. } => {
                let total = Totals { file_count: 1, ..Totals::default() };
                let replication = u64::from(replication);
                self.make(id, Made { parent, total, block_size, replication })
            }
            Edit::AddBlock { file, .. } => self.resize(file, |made| {
                let block = made.block_size.saturating_mul(made.replication);
                made.total.space_consumed = made.total.space_consumed.saturating_add(block);
            }),
            Edit::DropBlock { file, .. } => self.resize(file, |made| {
                let block = made.block_size.saturating_mul(made.replication);
                made.total.space_consumed = made.total.space_consumed.saturating_sub(block);
            }),
            Edit::CommitBlock { file, length, .. } => self.resize(file, |made| {
                let unused =
                    made.block_size.saturating_sub(length).saturating_mul(made.replication);
                made.total.space_consumed = made.total.space_consumed.saturating_sub(unused);
            }),
            Edit::Reopen { file, last: Some(_), .. } => {
                let last = self.ns.file(file).and_then(|file| file.blocks.last());
                let length = last.and_then(|block| self.ns.block(*block)).map_or(0, |b| b.length);
                self.resize(file, |made| {
                    let more = made.block_size.saturating_sub(length);
                    let more = more.saturating_mul(made.replication);
                    made.total.space_consumed = made.total.space_consumed.saturating_add(more);
                })
            }
            Edit::Truncate { file, length, cut: Some(_), .. } => self.truncate(file, length),
            Edit::Concat { target, ref sources, .. } => self.concat(target, sources),
            Edit::SetReplication { file, replication } => self.set_replication(file, replication),
            Edit::Move { inode, parent, .. } => {
                let before = self.planned(inode);
                self.made.insert(inode, Made { parent, ..before });
                let above = self.above(before.parent);
                self.spend(before.parent, &[], (before.total, Totals::default()))?;
                self.spend(parent, &above, (Totals::default(), before.total))?;
                // The directories above both ends were not checked, and their usage does not change.
                let shared: Vec<InodeId> =
                    self.above(parent).into_iter().filter(|id| above.contains(id)).collect();
                self.note(&shared, (Totals::default(), before.total));
                Ok(())
            }
            Edit::Delete { inode, .. } => {
                let before = self.planned(inode);
                self.made.insert(inode, Made { parent: NOWHERE, ..before });
                // What a snapshot keeps is not given back.
                if self.ns.is_kept(inode) {
                    let bytes = self.ns.bytes_unseen(inode, 0).saturating_mul(before.replication);
                    let given = Totals { space_consumed: bytes, ..Totals::default() };
                    return self.spend(before.parent, &[], (given, Totals::default()));
                }
                self.spend(before.parent, &[], (before.total, Totals::default()))
            }
            _ => Ok(()),
        }
    }

    /// A cut block is copied to a new one; what a snapshot sees stays beside it.
    fn truncate(&mut self, file: InodeId, length: u64) -> Result<(), RemoteError> {
        let blocks = self.ns.file(file).map(|file| &file.blocks[..]).unwrap_or_default();
        let (kept, _) = self.ns.whole_blocks(blocks, length);
        let unseen = self.ns.bytes_unseen(file, kept);
        self.resize(file, |made| {
            let less = unseen.saturating_mul(made.replication);
            let more = made.block_size.saturating_mul(made.replication);
            let kept = made.total.space_consumed.saturating_sub(less);
            made.total.space_consumed = kept.saturating_add(more);
        })
    }

    fn set_replication(&mut self, file: InodeId, replication: u16) -> Result<(), RemoteError> {
        let kept = self.ns.replication_kept(file);
        self.resize(file, |made| {
            let bytes = made.total.space_consumed / made.replication.max(1);
            made.replication = u64::from(replication.max(kept));
            made.total.space_consumed = bytes.saturating_mul(made.replication);
        })
    }

    /// The target's replication counts for the bytes of the sources from then on.
    fn concat(&mut self, target: InodeId, sources: &[InodeId]) -> Result<(), RemoteError> {
        let before = self.planned(target);
        let (mut sum, mut after) = (before.total, before.total);
        for source in sources {
            let total = self.planned(*source).total;
            sum = sum.plus(total);
            let space_consumed = total.length.saturating_mul(before.replication);
            after =
                after.plus(Totals { length: total.length, space_consumed, ..Totals::default() });
        }
        self.spend(before.parent, &[], (sum, after))
    }

    fn make(&mut self, id: InodeId, made: Made) -> Result<(), RemoteError> {
        self.made.insert(id, made);
        self.spend(made.parent, &[], (Totals::default(), made.total))
    }

    fn resize(&mut self, file: InodeId, change: impl Fn(&mut Made)) -> Result<(), RemoteError> {
        let before = self.planned(file);
        let mut after = before;
        change(&mut after);
        self.made.insert(file, after);
        self.spend(before.parent, &[], (before.total, after.total))
    }

    /// An inode as it is after the edits so far.
    fn planned(&self, id: InodeId) -> Made {
        if let Some(made) = self.made.get(&id) {
            return *made;
        }
        let inode = self.ns.inode(id);
        let file = inode.and_then(Inode::file);
        Made {
            parent: inode.map_or(NOWHERE, |inode| inode.parent),
            total: self.ns.whole(id),
            block_size: file.map_or(0, |file| file.block_size),
            replication: u64::from(self.ns.replication_in(id)),
        }
    }

    /// Directories with quotas from `id` upwards, itself included.
    fn above(&self, mut id: InodeId) -> Vec<InodeId> {
        let mut found = Vec::new();
        while id != NOWHERE {
            if self.ns.quotas.contains_key(&id) {
                found.push(id);
            }
            if id == InodeId::ROOT {
                break;
            }
            id = self.planned(id).parent;
        }
        found
    }

    /// Replaces `before` by `after` below `parent`, unless that exceeds a quota; directories in `except` are left out.
    fn spend(
        &mut self,
        parent: InodeId,
        except: &[InodeId],
        (before, after): (Totals, Totals),
    ) -> Result<(), RemoteError> {
        let mut above = self.above(parent);
        above.retain(|id| !except.contains(id));
        for &id in &above {
            self.check(id, (before, after))?;
        }
        self.note(&above, (before, after));
        Ok(())
    }

    fn note(&mut self, above: &[InodeId], (before, after): (Totals, Totals)) {
        for &id in above {
            let (names, space) = self.spent.entry(id).or_default();
            *names += i128::from(after.inode_count()) - i128::from(before.inode_count());
            *space += i128::from(after.space_consumed) - i128::from(before.space_consumed);
        }
    }

    fn check(&self, id: InodeId, (before, after): (Totals, Totals)) -> Result<(), RemoteError> {
        let quota = self.ns.quotas.get(&id).copied().unwrap_or_default();
        let used = self.ns.whole(id);
        let spent = self.spent.get(&id).copied().unwrap_or_default();
        let path = || self.ns.path_of(id).unwrap_or_default();
        let exceeds = |quota: Option<u64>, used: u64, spent: i128, before: u64, after: u64| {
            let grown = i128::from(after) - i128::from(before);
            let count = i128::from(used) + spent + grown;
            quota
                .filter(|quota| grown > 0 && count > i128::from(*quota))
                .map(|quota| (quota, count))
        };
        let names = (before.inode_count(), after.inode_count());
        if let Some((quota, count)) =
            exceeds(quota.names, used.inode_count(), spent.0, names.0, names.1)
        {
            let text = format!(
                "The NameSpace quota (directories and files) of directory {} is exceeded: quota={quota} file count={count}",
                path()
            );
            return Err(refuse(ErrorKind::NamespaceQuotaExceeded, text));
        }
        let space = (before.space_consumed, after.space_consumed);
        if let Some((quota, count)) =
            exceeds(quota.space, used.space_consumed, spent.1, space.0, space.1)
        {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            let text = format!(
                "The DiskSpace quota of {} is exceeded: quota = {quota} B = {} but diskspace consumed = {count} B = {}",
                path(),
                binary_size(quota),
                binary_size(count)
            );
            return Err(refuse(ErrorKind::SpaceQuotaExceeded, text));
        }
        Ok(())
    }
}

/// Hadoop's `TraditionalBinaryPrefix.long2String(n, "B", 2)`: `1 KB`, `1.50 MB`, `17 B`.
fn binary_size(bytes: u64) -> String {
    const SYMBOLS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    let Some(mut step) = (bytes.checked_ilog2().unwrap_or(0) / 10).checked_sub(1) else {
        return format!("{bytes} B");
    };
    let unit = |step: u32| 1_u64 << (10 * (step + 1));
    let text = match bytes % unit(step) {
        0 => (bytes / unit(step)).to_string(),
        _ => {
            let decimal = |step| format!("{:.2}", bytes as f64 / unit(step) as f64);
            if decimal(step).starts_with("1024") && step + 1 < SYMBOLS.len() as u32 {
                step += 1;
            }
            decimal(step)
        }
    };
    format!("{text} {}B", SYMBOLS[step as usize])
}

#[cfg(test)]
mod tests {
    use protocol::namenode::{Call, Create, Reply};

    use super::*;
    use crate::core::tests::harness::{Harness, create, dfs, written};

    fn set(harness: &mut Harness, path: &str, names: QuotaChange, space: QuotaChange) -> String {
        let answer = harness.call(Call::SetQuota { path: dfs(path), names, space });
        answer.map_or_else(|refusal| refusal.message, |_| "done".to_owned())
    }

    fn refusal(harness: &mut Harness, call: Call) -> String {
        let before = harness.records.len();
        let refusal = harness.call(call).expect_err("over the quota");
        assert_eq!(harness.records.len(), before, "nothing changed");
        refusal.message
    }

    fn mkdirs(path: &str) -> Call {
        Call::Mkdirs { path: dfs(path), mode: 0o755, unmasked: None, parents: true }
    }

    #[test]
    fn bad_input_is_refused_in_hdfs_words() {
        use QuotaChange::{Clear, Keep, Set};
        let mut harness = Harness::with_nodes(1, 3);
        harness.write("/f", 10, 3);
        for (path, names, space, expected) in [
            ("/", Clear, Keep, "Cannot clear namespace quota on root."),
            ("/", Set(9), Clear, "done"),
            ("/f", Set(9), Keep, "`/f': Is not a directory"),
            ("/x", Clear, Keep, "Directory does not exist: /x"),
            ("/", Set(0), Keep, "Invalid values for quota : 0"),
            ("/", Keep, Set(1 << 63), "Invalid values for quota : 9223372036854775808"),
            ("/", Keep, Set(0), "done"),
        ] {
            assert_eq!(set(&mut harness, path, names, space), expected, "{path}");
        }
    }

    #[test]
    fn names_are_counted_with_the_directory_itself() {
        let mut harness = Harness::with_nodes(1, 3);
        harness.call(mkdirs("/d")).unwrap();
        harness.call(mkdirs("/e/x/y")).unwrap();
        set(&mut harness, "/d", QuotaChange::Set(1), QuotaChange::Keep);
        let text = |count| {
            format!(
                "The NameSpace quota (directories and files) of directory /d is exceeded: quota=1 file count={count}"
            )
        };
        assert_eq!(refusal(&mut harness, mkdirs("/d/a")), text(2));
        assert_eq!(refusal(&mut harness, mkdirs("/d/a/b/c")), text(2));
        assert_eq!(refusal(&mut harness, create("/d/f", false, None, true)), text(2));
        let (from, to) = (dfs("/e/x"), dfs("/d"));
        let rename = Call::Rename { from, to, overwrite: None };
        assert_eq!(refusal(&mut harness, rename), text(3));
        set(&mut harness, "/d", QuotaChange::Clear, QuotaChange::Keep);
        assert!(harness.call(mkdirs("/d/a")).is_ok());
    }

    #[test]
    fn space_counts_whole_blocks_while_they_are_written() {
        let mut harness = Harness::with_nodes(1, 3);
        harness.call(mkdirs("/d")).unwrap();
        set(&mut harness, "/d", QuotaChange::Keep, QuotaChange::Set(1024));
        let mut big = match create("/d/f", false, Some(3), true) {
            Call::Create(big) => big,
            other => panic!("{other:?}"),
        };
        big.block_size = Some(128 << 20);
        let expected = "The DiskSpace quota of /d is exceeded: quota = 1024 B = 1 KB but diskspace consumed = 402653184 B = 384 MB";
        assert_eq!(refusal(&mut harness, Call::Create(big)), expected);
        // Two blocks of 300 bytes, one replica: the second fits only after the first is known to be small.
        let small = Create {
            path: dfs("/d/g"),
            mode: 0o644,
            unmasked: None,
            overwrite: false,
            parents: false,
            replication: Some(1),
            block_size: Some(600),
            first_block: true,
        };
        let Ok(Reply::Created(created)) = harness.call(Call::Create(small)) else { panic!() };
        let first = created.first_block.unwrap();
        assert_eq!(harness.state.ns.inode(created.file).unwrap().total().space_consumed, 600);
        let add = |previous| Call::AddBlock { file: created.file, previous, exclude: vec![] };
        let Ok(Reply::Block(second)) = harness.call(add(Some(written(&first, 300)))) else {
            panic!()
        };
        let text = refusal(&mut harness, add(Some(written(&second, 500))));
        assert!(text.ends_with("diskspace consumed = 1400 B = 1.37 KB"), "{text}");
        let last = Some(written(&second, 500));
        harness.call(Call::Complete { file: created.file, last, publish: None }).unwrap();
        let more = |replication| Call::SetReplication { path: dfs("/d/g"), replication };
        assert!(refusal(&mut harness, more(2)).ends_with("= 1600 B = 1.56 KB"));
        assert_eq!(harness.call(more(1)), Ok(Reply::Flag(true)));
    }

    #[test]
    fn what_a_snapshot_keeps_of_a_file_takes_space() {
        let mut harness = Harness::with_nodes(1, 3);
        harness.call(mkdirs("/d")).unwrap();
        harness.call(Call::AllowSnapshot(dfs("/d"))).unwrap();
        set(&mut harness, "/d", QuotaChange::Keep, QuotaChange::Set(6000));
        let space =
            |harness: &Harness| match harness.read_as_namenode(&Call::ContentSummary(dfs("/d"))) {
                Ok(Reply::Summary(sum)) => (sum.space_consumed, sum.snapshot_space_consumed),
                other => panic!("{other:?}"),
            };
        let snapshot =
            |name: &str| Call::CreateSnapshot { path: dfs("/d"), name: Some(name.to_owned()) };
        harness.write("/d/f", 900, 3);
        harness.call(snapshot("a")).unwrap();
        harness.call(Call::Truncate { path: dfs("/d/f"), length: 0 }).unwrap();
        assert_eq!(space(&harness), (2700, 2700));
        harness.write("/d/g", 900, 3);
        harness.call(snapshot("b")).unwrap();
        let replication = |count| Call::SetReplication { path: dfs("/d/g"), replication: count };
        harness.call(replication(1)).unwrap();
        assert_eq!(space(&harness), (5400, 2700 + 1800));
        // A cut block is copied, and the snapshot keeps the old one.
        let cut = Call::Truncate { path: dfs("/d/g"), length: 500 };
        for call in [create("/d/h", false, Some(1), true), cut.clone(), replication(4)] {
            let text = refusal(&mut harness, call);
            assert!(text.starts_with("The DiskSpace quota of /d is exceeded"), "{text}");
        }
        harness.call(replication(3)).unwrap();
        harness.call(replication(1)).unwrap();
        harness.call(Call::DeleteSnapshot { path: dfs("/d"), name: "b".to_owned() }).unwrap();
        while harness.state.ns.collect(1000) {}
        assert_eq!(space(&harness), (3600, 2700));
        harness.call(cut).unwrap();
        harness.recover_all();
        harness.call(Call::DeleteSnapshot { path: dfs("/d"), name: "a".to_owned() }).unwrap();
        while harness.state.ns.collect(1000) {}
        assert_eq!(space(&harness), (500, 0));
        harness.check_replay();
    }

    #[test]
    fn sizes_are_hadoops() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KB"),
            (1536, "1.50 KB"),
            ((1 << 20) - 1, "1.00 MB"),
            (402_653_184, "384 MB"),
            (1 << 40, "1 TB"),
            (i64::MAX as u64, "8.00 EB"),
        ] {
            assert_eq!(binary_size(bytes), expected);
        }
    }
}

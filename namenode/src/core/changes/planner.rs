//! Judging a changing call: what it would do, against the state as it is. Nothing changes here.

use hashbrown::HashMap;
use protocol::acl::AclEntry;
use protocol::namenode::Call;
use protocol::{BlockId, DfsPath, ErrorKind, GenerationStamp, InodeId, RemoteError};

use crate::core::asked::Asked;
use crate::core::blocks::Acknowledged;
use crate::core::edit::{Edit, Outcome};
use crate::core::namespace::Resolved;
use crate::core::nodes::{Datanodes, NodeIndex};
use crate::core::now::Now;
use crate::core::random::Generator;
use crate::core::rights::{Guard, Needs, Way};
use crate::core::state::State;
use crate::error::refuse;

/// What a call will do.
pub(in crate::core) struct Plan {
    pub(in crate::core) edits: Vec<Edit>,
    pub(in crate::core) outcome: Outcome,
    /// Blocks that it completes, and who acknowledged them.
    pub(in crate::core) written: HashMap<BlockId, Acknowledged>,
    /// DataNodes that it gives blocks to, and how large these may become.
    pub(in crate::core) chosen: Vec<(NodeIndex, u64)>,
    /// DataNodes whose blocks are complete now, and by how much these stayed smaller than they might have become.
    pub(in crate::core) released: Vec<(NodeIndex, u64)>,
    /// A file whose recovery begins as well.
    pub(in crate::core) recover: Option<InodeId>,
    /// A DataNode that holds up a pipeline.
    pub(in crate::core) slow: Option<NodeIndex>,
}

pub(in crate::core) type Planned = Result<Outcome, RemoteError>;

/// A call being judged: reads the state, collects what will change.
pub(in crate::core) struct Planner<'a> {
    pub(super) state: &'a State,
    pub(super) nodes: &'a Datanodes,
    pub(super) random: &'a mut Generator,
    pub(super) asked: Asked<'a>,
    pub(super) now: Now,
    pub(in crate::core) edits: Vec<Edit>,
    pub(in crate::core) written: HashMap<BlockId, Acknowledged>,
    pub(in crate::core) chosen: Vec<(NodeIndex, u64)>,
    pub(in crate::core) released: Vec<(NodeIndex, u64)>,
    pub(in crate::core) recover: Option<InodeId>,
    pub(in crate::core) slow: Option<NodeIndex>,
    /// The request makes or completes several files.
    pub(in crate::core) is_together: bool,
    /// The DataNodes of the block before in such a request: this one goes the same way if it can.
    pub(in crate::core) company: Vec<NodeIndex>,
    /// It came by a path below `/.reserved/raw`.
    pub(in crate::core) is_raw: bool,
    /// Default list of the directory that new entries are made in.
    pub(super) defaults: Vec<AclEntry>,
    next_inode: u64,
    next_block: u64,
    next_stamp: u64,
}

impl<'a> Planner<'a> {
    pub(in crate::core) fn new(
        state: &'a State,
        nodes: &'a Datanodes,
        random: &'a mut Generator,
        asked: Asked<'a>,
        now: Now,
    ) -> Self {
        let counters = state.ns.counters();
        Planner {
            state,
            nodes,
            random,
            asked,
            now,
            edits: Vec::new(),
            written: HashMap::new(),
            chosen: Vec::new(),
            released: Vec::new(),
            recover: None,
            slow: None,
            is_together: false,
            company: Vec::new(),
            is_raw: false,
            defaults: Vec::new(),
            next_inode: counters.next_inode,
            next_block: counters.next_block,
            next_stamp: counters.next_stamp,
        }
    }

    pub(in crate::core) fn plan(mut self, call: &Call) -> Result<Plan, RemoteError> {
        let mut checked = Ok(());
        call.each_path(|path| {
            if checked.is_ok() {
                checked = self.check_writable(path);
            }
        });
        checked?;
        self.state.check_by(call, self.asked.caller)?;
        let outcome = match call {
            Call::Mkdirs { path, mode, unmasked, parents } => {
                self.mkdirs(path, (*mode, *unmasked), *parents)
            }
            Call::Create(create) => self.create(create),
            Call::AddBlock { file, previous, exclude } => {
                self.add_block(*file, previous.as_ref(), exclude)
            }
            Call::AbandonBlock { file, block } => self.abandon_block(*file, *block),
            Call::RecoverPipeline { file, block, failed, slow } => {
                self.recover_pipeline(*file, block, (failed, *slow))
            }
            Call::Complete { file, last, publish } => {
                self.complete(*file, last.as_ref(), publish.as_ref())
            }
            Call::RecoverLease(path) => self.recover_lease(path),
            Call::AbandonFile { file, keep, unused } => self.abandon_file(*file, *keep, *unused),
            Call::Append { path, new_block } => self.append(path, *new_block),
            Call::SyncBlock { file, block, stamp, length } => {
                self.sync_block(*file, *block, (*stamp, *length))
            }
            Call::Truncate { path, length } => self.truncate(path, *length),
            Call::Concat { target, sources } => self.concat(target, sources),
            Call::Rename { from, to, overwrite: None } => self.rename(from, to),
            Call::Rename { from, to, overwrite: Some(overwrite) } => {
                self.rename_with_options(from, to, *overwrite)
            }
            Call::Delete { path, recursive } => self.delete(path, *recursive),
            Call::SetReplication { path, replication } => self.set_replication(path, *replication),
            Call::SetMode { path, mode } => self.set_mode(path, *mode),
            Call::SetOwner { path, owner, group } => self.set_owner(path, owner, group),
            Call::SetTimes { path, mtime_ms, atime_ms } => {
                self.set_times(path, *mtime_ms, *atime_ms)
            }
            Call::SetQuota { path, names, space } => self.set_quota(path, *names, *space),
            Call::AllowSnapshot(path) => self.allow_snapshot(path),
            Call::DisallowSnapshot(path) => self.disallow_snapshot(path),
            Call::CreateSnapshot { path, name } => self.create_snapshot(path, name.as_deref()),
            Call::RenameSnapshot { path, from, to } => self.rename_snapshot(path, from, to),
            Call::DeleteSnapshot { path, name } => self.delete_snapshot(path, name),
            Call::ChangeAcl { path, change } => self.change_acl(path, change),
            Call::SetXattr { path, name, value, flag } => {
                self.set_xattr(path, (name, value), *flag)
            }
            Call::RemoveXattr { path, name } => self.remove_xattr(path, name),
            Call::SetStoragePolicy { path, policy } => self.set_storage_policy(path, *policy),
            _ => Err(refuse(ErrorKind::InvalidArgument, "not a change")),
        }?;
        self.check_snapshots()?;
        self.check_limits()?;
        self.check_block_counts()?;
        self.check_quotas()?;
        let Planner { edits, written, chosen, released, recover, slow, .. } = self;
        Ok(Plan { edits, outcome, written, chosen, released, recover, slow })
    }

    pub(super) fn new_inode(&mut self) -> InodeId {
        self.next_inode += 1;
        InodeId(self.next_inode - 1)
    }

    pub(super) fn new_block(&mut self) -> BlockId {
        self.next_block += 1;
        BlockId(self.next_block - 1)
    }

    pub(super) fn new_stamp(&mut self) -> GenerationStamp {
        self.next_stamp += 1;
        GenerationStamp(self.next_stamp - 1)
    }

    /// The checks of this call.
    pub(super) fn guard(&self) -> Guard<'a> {
        self.state.guard(self.asked.caller)
    }

    /// Where a path leads, if the caller has the rights.
    pub(super) fn way(&self, path: &DfsPath, needs: Needs) -> Result<Way<'a>, RemoteError> {
        let way = self.guard().walk(path)?;
        self.guard().check(path, &way, needs)?;
        Ok(way)
    }

    /// What is at a path, if anything, and if the caller has the rights.
    pub(super) fn find(
        &self,
        path: &DfsPath,
        needs: Needs,
    ) -> Result<Option<Resolved<'a>>, RemoteError> {
        Ok(self.way(path, needs)?.found)
    }

    /// What is at a path that must exist.
    pub(super) fn expect(
        &self,
        path: &DfsPath,
        needs: Needs,
        missing: impl FnOnce() -> String,
    ) -> Result<Resolved<'a>, RemoteError> {
        self.find(path, needs)?.ok_or_else(|| refuse(ErrorKind::NotFound, missing()))
    }

    /// A directory that must exist.
    pub(super) fn directory(&self, path: &DfsPath, needs: Needs) -> Result<InodeId, RemoteError> {
        let found = self.expect(path, needs, || format!("Directory does not exist: {path}"))?;
        if found.inode.directory().is_none() {
            let text = format!("`{path}': Is not a directory");
            return Err(refuse(ErrorKind::NotDirectory, text));
        }
        Ok(found.id)
    }
}

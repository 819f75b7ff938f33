//! Changing calls: a call is judged against the state as it is, becomes edits and an outcome, and only then anything changes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hashbrown::HashMap;
use protocol::acl::AclEntry;
use protocol::datanode::Command;
use protocol::namenode::{
    Answer, BadReplica, Body, Call, DatanodeState, Reply, Request, SafeModeAction, VERSION,
};
use protocol::permission::Action;
use protocol::{BlockId, DfsPath, ErrorKind, GenerationStamp, InodeId, RemoteError};

use super::acl;
use super::blocks::Acknowledged;
use super::datanodes::{Datanodes, NodeIndex};
use super::edit::{CallKey, Edit, Outcome, Record};
use super::inode::Directory;
use super::namespace::Resolved;
use super::permission::{Blocked, Caller, Guard, Needs, Way};
use super::random::Generator;
use super::reserved::Named;
use super::safe_mode::SafeMode;
use super::state::{Now, Output, State};
use crate::error::CoreError;

/// Most replicas a file may want, as `dfs.replication.max`.
const REPLICATION_MAX: u16 = 512;

/// Longest name of a user, group or host, bytes; every record that carries one stays small.
const NAME_BYTES_MAX: usize = 255;

/// Ids and stamps skipped above the highest that a DataNode showed when metadata older than the data is put to use by force: for
/// those of DataNodes that have not told theirs. A billion: more than any lost piece of a log had handed out, and there are 2^62.
const IDS_SKIPPED: u64 = 1 << 30;

/// What a call will do.
pub(super) struct Plan {
    pub(super) edits: Vec<Edit>,
    pub(super) outcome: Outcome,
    /// Blocks that it completes, and who acknowledged them.
    pub(super) written: HashMap<BlockId, Acknowledged>,
    /// DataNodes that it gives blocks to, and how large these may become.
    pub(super) chosen: Vec<(NodeIndex, u64)>,
    /// DataNodes whose blocks are complete now, and by how much these stayed smaller than they might have become.
    pub(super) released: Vec<(NodeIndex, u64)>,
    /// A file whose recovery begins as well.
    pub(super) recover: Option<InodeId>,
    /// A DataNode that holds up a pipeline.
    pub(super) slow: Option<NodeIndex>,
}

pub(super) type Planned = Result<Outcome, RemoteError>;

/// A call being judged: reads the state, collects what will change.
pub(super) struct Planner<'a> {
    pub(super) state: &'a State,
    pub(super) nodes: &'a Datanodes,
    pub(super) random: &'a mut Generator,
    pub(super) request: &'a Request,
    pub(super) caller: Caller<'a>,
    pub(super) now: Now,
    pub(super) edits: Vec<Edit>,
    pub(super) written: HashMap<BlockId, Acknowledged>,
    pub(super) chosen: Vec<(NodeIndex, u64)>,
    pub(super) released: Vec<(NodeIndex, u64)>,
    pub(super) recover: Option<InodeId>,
    pub(super) slow: Option<NodeIndex>,
    /// It came by a path below `/.reserved/raw`.
    pub(super) is_raw: bool,
    /// Default list of the directory that new entries are made in.
    pub(super) defaults: Vec<AclEntry>,
    next_inode: u64,
    next_block: u64,
    next_stamp: u64,
}

/// A refusal.
pub(super) fn refuse(kind: ErrorKind, message: impl Into<String>) -> RemoteError {
    RemoteError::new(kind, message)
}

impl State {
    /// Carries a changing call out.
    ///
    /// # Errors
    /// The outer one is a defect: the process must stop. The answer's is a refusal.
    pub fn call(
        &mut self,
        nodes: &mut Datanodes,
        (request, caller): (&Request, Caller<'_>),
        now: Now,
        out: &mut Output,
    ) -> Result<Answer, CoreError> {
        if request.version != VERSION {
            let text = format!("version {} of the protocol is not {VERSION}", request.version);
            return Ok(Err(refuse(ErrorKind::InvalidArgument, text)));
        }
        if let Err(refusal) = check_name("user", &request.user) {
            return Ok(Err(refusal));
        }
        self.ns.leases.hear(request.call.client, &request.host, now.mono_ms);
        let calls = match &request.body {
            Body::One(call) => {
                return self.next_call(nodes, (request, caller), (call, 0), now, out);
            }
            Body::Batch(calls) => calls,
        };
        let mut answers = Vec::with_capacity(calls.len());
        for (index, call) in (0..).zip(calls) {
            answers.push(self.next_call(nodes, (request, caller), (call, index), now, out)?);
        }
        Ok(Ok(Reply::Batch(answers)))
    }

    /// One call of a request, with the paths that it means.
    fn next_call(
        &mut self,
        nodes: &mut Datanodes,
        (request, caller): (&Request, Caller<'_>),
        (call, index): (&Call, u16),
        now: Now,
        out: &mut Output,
    ) -> Result<Answer, CoreError> {
        if call.is_read() {
            let reader = super::query::Reader { caller, host: &request.host, now, txid: 0 };
            let answer = self.query(nodes, call, reader);
            self.show(call, &answer, out);
            return Ok(answer);
        }
        let (call, answer) = match self.named(call, caller) {
            Ok(named) => {
                let answer = self.change(nodes, (request, caller), (&named, index), now, out)?;
                (named.call, answer)
            }
            Err(refusal) => (Cow::Borrowed(call), Err(refusal)),
        };
        self.show(&call, &answer, out);
        Ok(answer)
    }

    fn show(&self, call: &Call, answer: &Answer, out: &mut Output) {
        if self.settings.audit {
            out.shown.push(answer.as_ref().ok().and_then(|_| self.shown(call)));
        }
    }

    fn change(
        &mut self,
        nodes: &mut Datanodes,
        (request, caller): (&Request, Caller<'_>),
        (named, index): (&Named<'_>, u16),
        now: Now,
        out: &mut Output,
    ) -> Result<Answer, CoreError> {
        let call = &*named.call;
        if let Some(answer) = self.soft_call(nodes, call, out) {
            return Ok(answer);
        }
        if let Call::SafeMode(action) = call {
            return self.order_safe_mode(nodes, *action, (caller, now), out);
        }
        if matches!(call, Call::MoveReplicas(_) | Call::SetBalancerBandwidth(_))
            && let Err(refusal) = self.guard(caller).check_superuser()
        {
            return Ok(Err(refusal));
        }
        match call {
            Call::MoveReplicas(moves) if !self.safe_mode.is_on() => {
                return Ok(self.move_replicas(nodes, moves, now, out));
            }
            Call::SetBalancerBandwidth(bytes) => {
                return Ok(self.set_balancer_bandwidth(nodes, *bytes, out));
            }
            _ => {}
        }
        let key = CallKey { call: request.call, index };
        if let Some(first) = self.retry.answer(&key) {
            return Ok(self.answer(nodes, first, now));
        }
        if let Some(refusal) = self.safe_mode_refusal(nodes, call, now) {
            return Ok(Err(refusal));
        }
        let mut random = self.random.clone();
        let planned = Planner {
            is_raw: named.is_raw,
            ..Planner::new(self, nodes, &mut random, (request, caller), now)
        }
        .plan(call);
        self.random = random;
        match planned {
            Err(refusal) => {
                // What depends on the DataNodes of the moment is judged anew.
                if !refusal.kind.is_transient() && refusal.kind != ErrorKind::NoDatanodes {
                    self.remember(key, Outcome::Refused(refusal.clone()), now);
                }
                Ok(Err(refusal))
            }
            Ok(plan) => self.carry_out(nodes, key, plan, now, out),
        }
    }

    fn carry_out(
        &mut self,
        nodes: &mut Datanodes,
        key: CallKey,
        plan: Plan,
        now: Now,
        out: &mut Output,
    ) -> Result<Answer, CoreError> {
        let Plan { edits, mut outcome, written, chosen, released, recover, slow } = plan;
        if let Some(node) = slow {
            nodes.note_slow(node, now.mono_ms);
            out.slow.push(nodes.node(node).info.id);
        }
        for (node, bytes) in chosen {
            nodes.note_chosen(node, bytes);
        }
        for (node, bytes) in released {
            nodes.note_released(node, bytes);
        }
        if let Some(file) = recover {
            let closed = self.recover(nodes, file, now, out)?;
            if let Outcome::Flag(flag) = &mut outcome {
                *flag = closed;
                return Ok(Ok(Reply::Flag(closed)));
            }
        }
        if edits.is_empty() {
            if !matches!(&outcome, Outcome::Refused(error) if error.kind.is_transient()) {
                self.remember(key, outcome.clone(), now);
            }
            return Ok(self.answer(nodes, &outcome, now));
        }
        // "Try again" is no answer to remember: the next try is judged by what came of these edits.
        let again = matches!(&outcome, Outcome::Refused(error) if error.kind.is_transient());
        let call = (!again).then_some(key);
        let record = Record { call, at_ms: now.wall_ms, edits, outcome };
        self.commit(nodes, &record, &written, out)?;
        Ok(self.answer(nodes, &record.outcome, now))
    }

    /// Calls that change nothing durable: repeated, they do the same again.
    fn soft_call(
        &mut self,
        nodes: &mut Datanodes,
        call: &Call,
        out: &mut Output,
    ) -> Option<Answer> {
        match call {
            Call::RenewLease => Some(Ok(Reply::Done)),
            Call::ReportBadReplicas(replicas) => {
                self.order_verification(nodes, replicas, out);
                Some(Ok(Reply::Done))
            }
            _ => None,
        }
    }

    /// A client's word counts for nothing by itself: the DataNodes look, and tell if it is true.
    fn order_verification(&self, nodes: &Datanodes, replicas: &[BadReplica], out: &mut Output) {
        let mut by_node: BTreeMap<NodeIndex, Vec<(BlockId, GenerationStamp)>> = BTreeMap::new();
        for bad in replicas {
            let is_current = self.ns.block(bad.block).is_some_and(|info| info.stamp == bad.stamp);
            let holder = nodes.index(bad.datanode).filter(|node| {
                nodes.node(*node).state == DatanodeState::Live
                    && self.blocks.holders(bad.block).contains(node)
            });
            if let (true, Some(node)) = (is_current, holder) {
                by_node.entry(node).or_default().push((bad.block, bad.stamp));
            }
        }
        let orders = by_node.into_iter().map(|(node, bad)| (node, Command::Verify(bad)));
        out.commands.extend(orders);
    }

    /// Turns safe mode on or off by hand; repeated, it does the same again.
    fn order_safe_mode(
        &mut self,
        nodes: &mut Datanodes,
        action: SafeModeAction,
        (caller, now): (Caller<'_>, Now),
        out: &mut Output,
    ) -> Result<Answer, CoreError> {
        if action != SafeModeAction::Get
            && let Err(refusal) = self.guard(caller).check_superuser()
        {
            return Ok(Err(refusal));
        }
        let leaves = matches!(action, SafeModeAction::Leave | SafeModeAction::ForceLeave);
        if leaves && self.safe_mode == SafeMode::LowResources {
            let reason = self.safe_mode_reason(nodes, now).unwrap_or_default();
            return Ok(Err(refuse(ErrorKind::SafeMode, format!("Safe mode stays ON. {reason}"))));
        }
        match action {
            SafeModeAction::Get => {}
            SafeModeAction::Enter => self.safe_mode = self.safe_mode.entered_by_hand(),
            SafeModeAction::Leave => self.safe_mode = self.safe_mode.left_by_hand(),
            SafeModeAction::ForceLeave => {
                self.skip_ahead(nodes, now, out)?;
                self.safe_mode = SafeMode::Off;
            }
        }
        self.safe_mode.note_resources(self.resources_low);
        self.safe_mode.note_ahead(self.blocks.reports.ahead_count());
        Ok(Ok(Reply::Flag(self.safe_mode.is_on())))
    }

    /// Gives up the replicas that are ahead of the metadata: no new block may ever be taken for one of them.
    fn skip_ahead(
        &mut self,
        nodes: &mut Datanodes,
        now: Now,
        out: &mut Output,
    ) -> Result<(), CoreError> {
        let Some((block, stamp)) = self.blocks.reports.give_up_ahead() else { return Ok(()) };
        let edit = Edit::SkipIds {
            block: BlockId(block.0 + IDS_SKIPPED),
            stamp: GenerationStamp(stamp.0 + IDS_SKIPPED),
        };
        let (at_ms, outcome) = (now.wall_ms, Outcome::Done);
        let record = Record { call: None, at_ms, edits: vec![edit], outcome };
        self.commit(nodes, &record, &HashMap::new(), out)
    }

    fn safe_mode_refusal(&self, nodes: &Datanodes, call: &Call, now: Now) -> Option<RemoteError> {
        let reason = self.safe_mode_reason(nodes, now)?;
        if self.safe_mode.lets_pass(call) {
            return None;
        }
        let of = |file: &InodeId| {
            self.ns.path_of(*file).unwrap_or_else(|| format!("file with inode {file}"))
        };
        let what = match call {
            Call::Mkdirs { path, .. } => format!("create directory {path}"),
            Call::Create(create) => format!("create file{}", create.path),
            Call::AddBlock { file, .. } => format!("get additional block for {}", of(file)),
            Call::AbandonBlock { file, block } => format!("abandon block {block} of {}", of(file)),
            Call::RecoverPipeline { file, .. } => {
                format!("get a new generation stamp for {}", of(file))
            }
            Call::Complete { file, .. } => format!("complete file {}", of(file)),
            Call::RecoverLease(path) => format!("recover the lease of {path}"),
            Call::Append { path, .. } => format!("append to file{path}"),
            Call::SyncBlock { file, .. } => format!("fsync file {}", of(file)),
            Call::Truncate { path, .. } => format!("truncate for {path}"),
            Call::Concat { target, .. } => format!("concat {target}"),
            Call::Rename { from, .. } => format!("rename {from}"),
            Call::Delete { path, .. } => format!("delete {path}"),
            Call::SetReplication { path, .. } => format!("set replication for {path}"),
            Call::SetMode { path, .. } => format!("set permission for {path}"),
            Call::SetOwner { path, .. } => format!("set owner for {path}"),
            Call::SetTimes { path, .. } => format!("set times {path}"),
            Call::MoveReplicas(_) => "move replicas".to_owned(),
            Call::SetQuota { path, .. } => format!("set quota on {path}"),
            Call::AllowSnapshot(path) => format!("allow snapshot for {path}"),
            Call::DisallowSnapshot(path) => format!("disallow snapshot for {path}"),
            Call::CreateSnapshot { path, .. } => format!("create snapshot for {path}"),
            Call::RenameSnapshot { path, .. } => format!("rename snapshot for {path}"),
            Call::DeleteSnapshot { path, .. } => format!("delete snapshot for {path}"),
            Call::ChangeAcl { path, .. } => format!("modify ACL entries on {path}"),
            Call::SetXattr { path, .. } => format!("set XAttr on {path}"),
            Call::RemoveXattr { path, .. } => format!("remove XAttr entry on {path}"),
            Call::SetStoragePolicy { path, policy: Some(_) } => {
                format!("set storage policy for {path}")
            }
            Call::SetStoragePolicy { path, .. } => format!("unset storage policy for {path}"),
            _ => return None,
        };
        let host = &self.settings.host;
        let text =
            format!("Cannot {what}. Name node is in safe mode.\n{reason} NamenodeHostName:{host}");
        let kind = match self.safe_mode {
            // It ends by itself within seconds of a start, so clients try again for a while.
            SafeMode::Startup { .. } => ErrorKind::StartupSafeMode,
            _ => ErrorKind::SafeMode,
        };
        Some(refuse(kind, text))
    }
}

impl<'a> Planner<'a> {
    fn new(
        state: &'a State,
        nodes: &'a Datanodes,
        random: &'a mut Generator,
        (request, caller): (&'a Request, Caller<'a>),
        now: Now,
    ) -> Self {
        let counters = state.ns.counters();
        Planner {
            state,
            nodes,
            random,
            request,
            caller,
            now,
            edits: Vec::new(),
            written: HashMap::new(),
            chosen: Vec::new(),
            released: Vec::new(),
            recover: None,
            slow: None,
            is_raw: false,
            defaults: Vec::new(),
            next_inode: counters.next_inode,
            next_block: counters.next_block,
            next_stamp: counters.next_stamp,
        }
    }

    fn plan(mut self, call: &Call) -> Result<Plan, RemoteError> {
        let mut checked = Ok(());
        call.each_path(|path| {
            if checked.is_ok() {
                checked = self.check_writable(path);
            }
        });
        checked?;
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
                self.slow = slow.and_then(|id| self.nodes.index(id));
                self.recover_pipeline(*file, block, failed)
            }
            Call::Complete { file, last, publish } => {
                self.complete(*file, last.as_ref(), publish.as_ref())
            }
            Call::RecoverLease(path) => self.recover_lease(path),
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
        self.state.guard(self.caller)
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

    fn mkdirs(
        &mut self,
        path: &DfsPath,
        (mode, unmasked): (u16, Option<u16>),
        parents: bool,
    ) -> Planned {
        check_mode(mode)?;
        unmasked.map_or(Ok(()), check_mode)?;
        let way = match self.guard().walk(path) {
            Err(Blocked::FileInTheWay(file)) => {
                let below = path.as_str().get(file.len()..).unwrap_or_default();
                let name = below.split('/').find(|name| !name.is_empty()).unwrap_or_default();
                let text = format!("Parent path is not a directory: {file} {name}");
                return Err(refuse(ErrorKind::NotDirectory, text));
            }
            walked => walked?,
        };
        match &way.found {
            Some(Resolved { inode, .. }) if inode.directory().is_none() => {
                let text = format!("Path is not a directory: {path}");
                return Err(refuse(ErrorKind::AlreadyExists, text));
            }
            Some(_) if parents => return Ok(Outcome::Done),
            Some(_) => {
                let text = format!("{path} already exists as a directory");
                return Err(refuse(ErrorKind::AlreadyExists, text));
            }
            None => {
                let needs = Needs { ancestor: Some(Action::WRITE), ..Needs::default() };
                self.guard().check(path, &way, needs)?;
            }
        }
        let asked = |defaults: &[AclEntry]| acl::asked(defaults, mode, unmasked);
        let (parent, group) =
            self.make_parents((path, &way), parents, |_, defaults| asked(defaults) | 0o300)?;
        let name = path.name().unwrap_or_default().to_owned();
        let mode = asked(&self.defaults);
        self.make_directory(parent, name, &group, mode);
        Ok(Outcome::Done)
    }

    /// Makes what is missing on the way to `path`; returns the directory that will hold it, and that directory's group. `mode_of`
    /// gives a new directory's mode from its parent's and the default list that it inherits.
    pub(super) fn make_parents(
        &mut self,
        (path, way): (&DfsPath, &Way<'_>),
        make: bool,
        mode_of: impl Fn(u16, &[AclEntry]) -> u16,
    ) -> Result<(InodeId, String), RemoteError> {
        let ns = &self.state.ns;
        let Resolved { mut id, inode } = way.ancestor;
        let group = ns.names.text(inode.group).to_owned();
        self.defaults = ns.default_acl(id).to_vec();
        let depth = path.elements().count().saturating_sub(1);
        if way.ancestor_depth < depth && !make {
            let parent = path.parent().unwrap_or_else(DfsPath::root);
            let text = format!("Parent directory doesn't exist: {parent}");
            return Err(refuse(ErrorKind::NotFound, text));
        }
        let mut mode = inode.mode;
        for name in path.elements().take(depth).skip(way.ancestor_depth) {
            mode = mode_of(mode, &self.defaults);
            id = self.make_directory(id, name.to_owned(), &group, mode);
        }
        Ok((id, group))
    }

    fn make_directory(&mut self, parent: InodeId, name: String, group: &str, mode: u16) -> InodeId {
        let id = self.new_inode();
        let (mode, acl) = acl::inherited(&self.defaults, mode, true);
        self.edits.push(Edit::MakeDirectory {
            id,
            parent,
            name,
            owner: self.request.user.clone(),
            group: group.to_owned(),
            mode,
            at_ms: self.now.wall_ms,
        });
        self.push_acl(id, mode, acl);
        id
    }

    /// Gives a new inode the list that it inherits.
    pub(super) fn push_acl(&mut self, inode: InodeId, mode: u16, entries: Vec<AclEntry>) {
        if !entries.is_empty() {
            self.edits.push(Edit::SetAcl { inode, mode, entries });
        }
    }

    fn delete(&mut self, path: &DfsPath, recursive: bool) -> Planned {
        let needs =
            Needs { parent: Some(Action::WRITE), subtree: Some(Action::ALL), ..Needs::default() };
        let Some(Resolved { id, inode }) = self.find(path, needs)? else {
            return Ok(Outcome::Flag(false));
        };
        if !recursive && inode.directory().is_some_and(|d: &Directory| !d.children.is_empty()) {
            let text = format!("`{path} is non empty': Directory is not empty");
            return Err(refuse(ErrorKind::NotEmpty, text));
        }
        if path.is_root() {
            return Ok(Outcome::Flag(false));
        }
        self.edits.push(Edit::Delete { inode: id, at_ms: self.now.wall_ms });
        Ok(Outcome::Flag(true))
    }

    fn set_replication(&mut self, path: &DfsPath, replication: u16) -> Planned {
        check_replication(path, replication)?;
        let needs = Needs { target: Some(Action::WRITE), ..Needs::default() };
        match self.find(path, needs)? {
            Some(Resolved { id, inode }) if inode.file().is_some() => {
                self.edits.push(Edit::SetReplication { file: id, replication });
                Ok(Outcome::Flag(true))
            }
            _ => Ok(Outcome::Flag(false)),
        }
    }

    fn set_mode(&mut self, path: &DfsPath, mode: u16) -> Planned {
        check_mode(mode)?;
        let needs = Needs { ownership: true, ..Needs::default() };
        let found = self.expect(path, needs, || format!("File does not exist: {path}"))?;
        self.edits.push(Edit::SetMode { inode: found.id, mode });
        Ok(Outcome::Done)
    }

    fn set_owner(&mut self, path: &DfsPath, owner: &str, group: &str) -> Planned {
        check_name("owner", owner)?;
        check_name("group", group)?;
        if owner.is_empty() && group.is_empty() {
            return Err(refuse(ErrorKind::InvalidArgument, "Both owner and group are empty."));
        }
        let needs = Needs { ownership: true, ..Needs::default() };
        let found = self.expect(path, needs, || format!("File does not exist: {path}"))?;
        self.guard().check_new_owner(owner, group)?;
        let names = &self.state.ns.names;
        let or = |new: &str, old| if new.is_empty() { names.text(old) } else { new }.to_owned();
        let (owner, group) = (or(owner, found.inode.owner), or(group, found.inode.group));
        self.edits.push(Edit::SetOwner { inode: found.id, owner, group });
        Ok(Outcome::Done)
    }

    fn set_times(
        &mut self,
        path: &DfsPath,
        mtime_ms: Option<u64>,
        atime_ms: Option<u64>,
    ) -> Planned {
        let needs = Needs { target: Some(Action::WRITE), ..Needs::default() };
        let found =
            self.expect(path, needs, || format!("File/Directory {path} does not exist."))?;
        self.edits.push(Edit::SetTimes { inode: found.id, mtime_ms, atime_ms });
        Ok(Outcome::Done)
    }
}

/// Checks the name of a user, group or host.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), RemoteError> {
    if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        let text = format!(
            "the name of the {what} is longer than {NAME_BYTES_MAX} bytes or has control characters"
        );
        return Err(refuse(ErrorKind::InvalidArgument, text));
    }
    Ok(())
}

pub(super) fn check_mode(mode: u16) -> Result<(), RemoteError> {
    if mode > 0o1777 {
        let text = format!("Invalid permission bits: {mode:o}");
        return Err(refuse(ErrorKind::InvalidArgument, text));
    }
    Ok(())
}

/// Checks the wanted number of replicas of a file.
pub(super) fn check_replication(path: &DfsPath, replication: u16) -> Result<(), RemoteError> {
    let text = match replication {
        0 => format!(
            "Requested replication factor of 0 is less than the required minimum of 1 for {path}"
        ),
        1..=REPLICATION_MAX => return Ok(()),
        _ => format!(
            "Requested replication factor of {replication} exceeds maximum of {REPLICATION_MAX} for {path}"
        ),
    };
    Err(refuse(ErrorKind::InvalidArgument, text))
}

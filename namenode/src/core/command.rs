//! Changing calls: a call is judged against the state as it is, becomes edits and an outcome, and only then anything changes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hashbrown::HashMap;
use protocol::datanode::Command;
use protocol::delegation::{Order, Refusal, TokenInfo};
use protocol::namenode::{
    Answer, BadReplica, Body, Call, DatanodeState, Reply, Request, SafeModeAction, VERSION,
};
use protocol::{BlockId, ErrorKind, GenerationStamp, InodeId, RemoteError};

use super::changes::{Plan, Planner, check_name};
use super::edit::{CallKey, Edit, Outcome, Record};
use super::nodes::{Datanodes, NodeIndex};
use super::now::Now;
use super::query::Reader;
use super::reserved::Named;
use super::rights::Caller;
use super::safe_mode::SafeMode;
use super::standing::{StandingEdit, Token};
use super::state::{Output, State};
use crate::error::{CoreError, refuse};

/// Ids and stamps skipped above the highest that a DataNode reported, when an operator forces metadata older than the data into use. They
/// leave room for DataNodes that have not reported yet. A billion: more than any lost piece of a log had handed out, and there are 2^62.
const IDS_SKIPPED: u64 = 1 << 30;

impl State {
    /// Executes a changing call.
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

    /// One call of a request, with the paths that it refers to.
    fn next_call(
        &mut self,
        nodes: &mut Datanodes,
        (request, caller): (&Request, Caller<'_>),
        (call, index): (&Call, u16),
        now: Now,
        out: &mut Output,
    ) -> Result<Answer, CoreError> {
        if call.is_read() {
            let reader = Reader { caller, host: &request.host, now, txid: 0 };
            let answer = self.query(nodes, call, reader);
            self.note_permissions(call, &answer, out);
            return Ok(answer);
        }
        let (call, answer) = match self.named(call, caller) {
            Ok(named) => {
                let answer = self.change(nodes, (request, caller), (&named, index), now, out)?;
                (named.call, answer)
            }
            Err(refusal) => (Cow::Borrowed(call), Err(refusal)),
        };
        self.note_permissions(&call, &answer, out);
        Ok(answer)
    }

    fn note_permissions(&self, call: &Call, answer: &Answer, out: &mut Output) {
        if self.settings.audit {
            out.permissions.push(answer.as_ref().ok().and_then(|_| self.permissions_after(call)));
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
        let mut planner = Planner::new(self, nodes, &mut random, (request, caller), now);
        planner.is_raw = named.is_raw;
        let planned = planner.plan(call);
        self.random = random;
        match planned {
            Err(refusal) => {
                // What depends on the current DataNodes is judged again.
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
        // "Try again" is not an answer to remember: the next attempt is judged by the result of these edits.
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

    /// A client's claim alone changes nothing: the DataNodes check it and report whether it is true.
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
            SafeModeAction::Enter => {
                self.note_safe_by_hand(nodes, true, now, out)?;
                self.safe_mode = self.safe_mode.entered_by_hand();
            }
            SafeModeAction::Leave => {
                self.note_safe_by_hand(nodes, false, now, out)?;
                self.safe_mode = self.safe_mode.left_by_hand();
            }
            SafeModeAction::ForceLeave => {
                self.note_safe_by_hand(nodes, false, now, out)?;
                self.skip_ahead(nodes, now, out)?;
                self.safe_mode = SafeMode::Off;
            }
        }
        self.safe_mode.note_resources(self.resources_low);
        self.safe_mode.note_ahead(self.blocks.reports.ahead_count());
        Ok(Ok(Reply::Flag(self.safe_mode.is_on())))
    }

    /// Journals whether an operator wants safe mode on.
    ///
    /// # Errors
    /// [`CoreError`]: a defect.
    pub fn note_safe_by_hand(
        &mut self,
        nodes: &mut Datanodes,
        on: bool,
        now: Now,
        out: &mut Output,
    ) -> Result<(), CoreError> {
        match self.standing.is_safe_by_hand() == on {
            true => Ok(()),
            false => self.commit_standing(nodes, vec![StandingEdit::SafeMode { on }], now, out),
        }
    }

    /// Issues, extends or ends a delegation token.
    ///
    /// # Errors
    /// The outer one is a defect.
    pub fn order_token(
        &mut self,
        nodes: &mut Datanodes,
        order: &Order,
        now: Now,
        out: &mut Output,
    ) -> Result<Result<TokenInfo, Refusal>, CoreError> {
        let (number, edit) = match self.standing.tokens.judge(order, now.wall_ms, &mut self.random)
        {
            Ok(judged) => judged,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let before = self.standing.tokens.get(number);
        self.commit_standing(nodes, vec![edit], now, out)?;
        // One that was cancelled is only known from before.
        Ok(self.standing.tokens.get(number).or(before).ok_or(Refusal::Missing))
    }

    /// Logs a delegation token that an earlier version kept in a file, unless the log has it.
    ///
    /// # Errors
    /// [`CoreError`]: a defect.
    pub fn adopt_token(
        &mut self,
        nodes: &mut Datanodes,
        (number, token): (u32, Token),
        now: Now,
        out: &mut Output,
    ) -> Result<(), CoreError> {
        match self.standing.tokens.get(number) {
            Some(_) => Ok(()),
            None => {
                let edits = vec![StandingEdit::IssueToken { number, token }];
                self.commit_standing(nodes, edits, now, out)
            }
        }
    }

    /// Gives up the replicas that are ahead of the metadata: no new block can ever be mistaken for one of them.
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

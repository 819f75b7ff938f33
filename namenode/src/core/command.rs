//! Changing calls: a call is judged against the state as it is, becomes edits and an outcome, and only then anything changes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hashbrown::HashMap;
use protocol::datanode::Command;
use protocol::delegation::{Order, Refusal, TokenInfo};
use protocol::namenode::{
    Answer, BadReplica, Body, Call, DatanodeState, Kind, Refused, Reply, SafeModeAction, Target,
    TypedCall, calls,
};
use protocol::{BlockId, ErrorKind, GenerationStamp, InodeId, RemoteError};

use super::asked::Asked;
use super::budget::Budget;
use super::changes::{Plan, Planner, check_name};
use super::edit::{CallKey, Edit, Outcome, Record};
use super::namespace::Counters;
use super::nodes::{Datanodes, NodeIndex};
use super::now::Now;
use super::query::Reader;
use super::reserved::Named;
use super::rights::Caller;
use super::safe_mode::{LOW_RESOURCES, SafeMode};
use super::standing::{StandingEdit, Token};
use super::state::{Output, State};
use crate::error::{CoreError, refuse};

/// Ids and stamps skipped above the highest that a DataNode reported, when an operator forces metadata older than the data into use. They
/// leave room for DataNodes that have not reported yet. A billion: more than any lost piece of a log had handed out, and there are 2^62.
const IDS_SKIPPED: u64 = 1 << 30;
/// Most ids that a start leaves out: two starts would have to draw places closer to each other than the blocks that they make, of a million million.
const LEAP_MAX: u64 = 1 << 40;
/// No start leaves ids out from here on: half of all are used up after four million starts.
const LEAP_END: u64 = 1 << 61;

/// The answer to a batch. One of which everything is refused for now is refused as a whole: no answer is remembered, and it can be sent again under its own id,
/// as each call in it could.
pub(crate) fn batched(answers: Vec<Answer>) -> Answer {
    let is_for_now = |kind: ErrorKind| kind.is_transient() || kind == ErrorKind::SafeMode;
    let is_refused = |answer: &Answer| matches!(answer, Err(no) if is_for_now(no.kind));
    match answers.first() {
        Some(Err(first)) if answers.iter().all(is_refused) => Err(first.clone()),
        _ => Ok(Reply::Batch(answers)),
    }
}

/// The refusal of a change whose answer could not be kept for as long as the call may be repeated.
fn too_busy(user: &str) -> RemoteError {
    let text = format!(
        "{user} has made too many changes in the last minutes to remember the answers of more: try again later"
    );
    refuse(ErrorKind::Unavailable, text)
}

impl State {
    /// Executes a request that does not only read.
    ///
    /// # Errors
    /// The outer one is a defect: the process must stop. The answer's is a refusal.
    pub fn call(
        &mut self,
        nodes: &mut Datanodes,
        (asked, body): (Asked<'_>, &Body),
        now: Now,
        out: &mut Output,
    ) -> Result<Answer, CoreError> {
        // Both are kept: the host with the caller's lease, for as long as that lasts.
        let named =
            check_name("user", asked.caller.user).and_then(|()| check_name("host", asked.host));
        if let Err(refusal) = named {
            return Ok(Err(refusal));
        }
        self.ns.leases.renew(asked.id().client, asked.host, now.mono_ms);
        let calls = match body {
            Body::One(call) => return self.next_call(nodes, asked, (call, 0), now, out),
            Body::Batch(calls) => calls,
        };
        let of_files = |call: &&Call| matches!(call, Call::Create(_) | Call::Complete { .. });
        self.company = (calls.iter().filter(of_files).count() > 1).then(Vec::new);
        let mut answers = Vec::with_capacity(calls.len());
        let mut budget = Budget::default();
        for (index, call) in (0..).zip(calls) {
            let answer = match budget.refusal() {
                Some(refusal) => Err(refusal),
                None => self.next_call(nodes, asked, (call, index), now, out)?,
            };
            budget.note(&answer);
            answers.push(answer);
        }
        self.company = None;
        Ok(batched(answers))
    }

    /// One call of a request, with the paths that it refers to.
    fn next_call(
        &mut self,
        nodes: &mut Datanodes,
        asked: Asked<'_>,
        (call, index): (&Call, u16),
        now: Now,
        out: &mut Output,
    ) -> Result<Answer, CoreError> {
        let Asked { caller, host, .. } = asked;
        if call.kind() == Kind::Read {
            let answer = self.query(nodes, call, Reader { caller, host, now, txid: 0 });
            self.note_permissions(call, &answer, out);
            return Ok(answer);
        }
        let (call, answer) = match self.named_to_change(call, caller) {
            Ok(named) => {
                let answer = self.change(nodes, asked, (&named, index), now, out)?;
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
        asked: Asked<'_>,
        (named, index): (&Named<'_>, u16),
        now: Now,
        out: &mut Output,
    ) -> Result<Answer, CoreError> {
        let call = &*named.call;
        if let Some(answer) = self.soft_call(nodes, call, (asked.caller, now), out)? {
            return Ok(answer);
        }
        let key = CallKey { call: asked.id(), index };
        let user = asked.caller.user;
        if let Some(first) = self.retry.answer(&key) {
            return Ok(self.answer(nodes, &first, (user, now)));
        }
        if let Some(refusal) = self.safe_mode_refusal(nodes, call, now) {
            return Ok(Err(refusal));
        }
        if !self.retry.admits(user, now) {
            return Ok(Err(too_busy(user)));
        }
        self.leap(nodes, now, out)?;
        let mut random = self.random.clone();
        let mut planner = Planner::new(self, nodes, &mut random, asked, now);
        planner.is_raw = named.is_raw;
        if let Some(company) = &self.company {
            (planner.is_together, planner.company) = (true, company.clone());
        }
        let planned = planner.plan(call);
        self.random = random;
        match planned {
            Err(refusal) => {
                // What depends on the current DataNodes is judged again.
                if !refusal.kind.is_transient() && refusal.kind != ErrorKind::NoDatanodes {
                    let outcome = Outcome::Refused(refusal.clone());
                    self.retry.insert_unchanged(key, user, now, outcome);
                }
                Ok(Err(refusal))
            }
            Ok(plan) => self.carry_out(nodes, (key, user), plan, now, out),
        }
    }

    fn carry_out(
        &mut self,
        nodes: &mut Datanodes,
        (key, user): (CallKey, &str),
        plan: Plan,
        now: Now,
        out: &mut Output,
    ) -> Result<Answer, CoreError> {
        let Plan { edits, mut outcome, written, chosen, released, recover, slow } = plan;
        if let Some(company) = self.company.as_mut().filter(|_| !chosen.is_empty()) {
            *company = chosen.iter().map(|(node, _)| *node).collect();
        }
        if let Some(node) = slow {
            nodes.note_slow(node, now);
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
                self.retry.insert_unchanged(key, user, now, outcome.clone());
            }
            return Ok(self.answer(nodes, &outcome, (user, now)));
        }
        // "Try again" is not an answer to remember: the next attempt is judged by the result of these edits.
        let again = matches!(&outcome, Outcome::Refused(error) if error.kind.is_transient());
        let call = (!again).then_some(key);
        let record = Record { call, at_ms: self.retry.time(now), edits, outcome };
        self.commit(nodes, &record, &written, out)?;
        let answer = self.answer(nodes, &record.outcome, (user, now));
        if let Some(key) = record.call {
            self.retry.insert(key, user, record.at_ms, &record.outcome);
        }
        Ok(answer)
    }

    /// Answers calls that need no retry cache: repeated, they do the same again.
    fn soft_call(
        &mut self,
        nodes: &mut Datanodes,
        call: &Call,
        (caller, now): (Caller<'_>, Now),
        out: &mut Output,
    ) -> Result<Option<Answer>, CoreError> {
        let is_soft = matches!(call, Call::MoveReplicas(_)) || call.refused().is_none();
        if is_soft && let Err(refusal) = self.check_by(call, caller) {
            return Ok(Some(Err(refusal)));
        }
        Ok(match call {
            Call::RenewLease => Some(calls::RenewLease::answer(Ok(()))),
            Call::ReportBadReplicas(replicas) => {
                self.order_verification(nodes, replicas, out);
                Some(calls::ReportBadReplicas::answer(Ok(())))
            }
            Call::SafeMode(action) => {
                let is_on = self.order_safe_mode(nodes, *action, now, out)?;
                Some(calls::SafeMode::answer(is_on))
            }
            Call::MoveReplicas(moves) if !self.safe_mode.stops_orders() => {
                Some(calls::MoveReplicas::answer(self.move_replicas(nodes, moves, now, out)))
            }
            Call::SetBalancerBandwidth(bytes) => {
                let set = self.set_balancer_bandwidth(nodes, *bytes, out);
                Some(calls::SetBalancerBandwidth::answer(set))
            }
            _ => None,
        })
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

    /// Turns safe mode on or off by hand, until the process ends; repeated, it does the same again.
    fn order_safe_mode(
        &mut self,
        nodes: &mut Datanodes,
        action: SafeModeAction,
        now: Now,
        out: &mut Output,
    ) -> Result<Result<bool, RemoteError>, CoreError> {
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
        Ok(Ok(self.safe_mode.is_on()))
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
        if let Some(refusal) = self.low_resources_refusal(order) {
            return Ok(Err(refusal));
        }
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

    /// Any user may issue tokens, and renew one again and again: neither fills a disk that is nearly full. One that leaked can still be cancelled, once.
    fn low_resources_refusal(&self, order: &Order) -> Option<Refusal> {
        let what = match order {
            Order::Issue { .. } => "issue delegation token",
            Order::Renew { .. } => "renew delegation token",
            Order::Cancel { .. } => return None,
        };
        self.resources_low.then(|| Refusal::SafeMode(self.safe_mode_text(what, LOW_RESOURCES)))
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

    /// Before the first change of this start: goes on with ids that no other start from the same metadata goes on with.
    pub(super) fn leap(
        &mut self,
        nodes: &mut Datanodes,
        now: Now,
        out: &mut Output,
    ) -> Result<(), CoreError> {
        let Counters { next_block, next_stamp, .. } = self.ns.counters();
        if std::mem::replace(&mut self.has_leapt, true) || next_block.max(next_stamp) > LEAP_END {
            return Ok(());
        }
        let mut beyond = |next: u64| next + 1 + self.random.next_number() % LEAP_MAX;
        let (block, stamp) = (BlockId(beyond(next_block)), GenerationStamp(beyond(next_stamp)));
        self.commit_own(nodes, vec![Edit::Leap { block, stamp }], now, out)
    }

    fn safe_mode_refusal(&self, nodes: &Datanodes, call: &Call, now: Now) -> Option<RemoteError> {
        let reason = self.safe_mode_reason(nodes, now)?;
        if self.safe_mode.lets_pass(call) {
            return None;
        }
        let Refused { verb, target, .. } = call.refused()?;
        let of = |file: InodeId| {
            self.ns.path_of(file).unwrap_or_else(|| format!("file with inode {file}"))
        };
        let target = match target {
            Target::Nothing => String::new(),
            Target::Path(path) => path.to_string(),
            Target::File(file) => of(file),
            Target::Block(block, file) => format!("{block} of {}", of(file)),
        };
        let text = self.safe_mode_text(&format!("{verb}{target}"), &reason);
        let kind = match self.safe_mode {
            // It ends by itself within seconds of a start, so clients try again for a while.
            SafeMode::Startup { .. } => ErrorKind::StartupSafeMode,
            _ => ErrorKind::SafeMode,
        };
        Some(refuse(kind, text))
    }

    /// HDFS's words.
    fn safe_mode_text(&self, what: &str, reason: &str) -> String {
        let host = &self.settings.host;
        format!("Cannot {what}. Name node is in safe mode.\n{reason} NamenodeHostName:{host}")
    }
}

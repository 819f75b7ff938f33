//! The NameNode as the [`host`]'s machine: calls of clients, messages of DataNodes, and the order in which they are taken.
//!
//! Full reports are taken in slices, one per turn, so that calls and reads go on in between. A DataNode sends its next report when the one
//! before is answered; one out of order ends its registration. At most one part of each waits.
//!
//! Order of locks: state, then nodes, then the host's gate.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use daemon::shares::room::Room;
use daemon::supervisor;
use host::{Batch, End, Handle, Machine, Release, Turn};
use journal::{Change, Txid};
use parking_lot::{RwLock, RwLockReadGuard};
use protocol::datanode::{
    self, Changes, FullReport, Reply as NodeReply, Report, Request as NodeRequest, Sender,
};
use protocol::delegation::{Order, Refusal, TokenInfo};
use protocol::namenode::{AdminState, Answer, Body, Call, Reply, Request, TypedCall, calls};
use protocol::{BlockId, ClusterId, DatanodeId, Epoch, ErrorKind, GenerationStamp, RemoteError};
use tokio::sync::oneshot;

use crate::core::asked::Asked;
use crate::core::blocks::{Kept, ReportError, Taken};
use crate::core::budget::Budget;
use crate::core::command::batched;
use crate::core::namespace::Loss;
use crate::core::nodes::{Datanodes, HostLists, NodeIndex};
use crate::core::now::Now;
use crate::core::query::Reader;
use crate::core::rights::Caller;
use crate::core::state::{Output, State};
use crate::error::CoreError;
use crate::groups::{Groups, Membership};
use crate::migration::Stored;
use crate::nodes::{NodeTable, fenced, registered};
use crate::startup::Startup;

/// Entries that a walk over a tree looks at before others have the state: half a millisecond.
const WALK_STEPS: usize = 1 << 12;
/// Walks over large trees at once; those beyond wait, and no user has all.
pub(crate) const WALKS_MAX: usize = 4;

/// Events that the machine takes.
pub(crate) enum Event {
    /// A client wants a change.
    Call(Box<Request>, Membership, oneshot::Sender<Answered>),
    /// A DataNode sends something other than a heartbeat.
    Datanode(Box<NodeRequest>, oneshot::Sender<datanode::Answer>),
    /// The list of delegation tokens shall change.
    Token(Order, oneshot::Sender<Result<TokenInfo, Refusal>>),
    /// The lists of DataNodes were read; who asked for it is answered.
    Hosts(HostLists, oneshot::Sender<Answered>),
    /// The disks of the metadata were checked: bytes free, and whether these are too few.
    Resources {
        /// Bytes free.
        available: u64,
        /// Which directory: of the disks of the metadata the one with the least.
        directory: PathBuf,
        /// Below `free_space_min`.
        low: bool,
        /// Directories of `log_dirs` that are left out, each with the reason.
        left_out: Vec<String>,
    },
}

/// An answer, and what the audit log says with it.
pub(crate) struct Answered {
    pub(crate) answer: Answer,
    /// [`crate::core::state::Output::permissions`].
    pub(crate) permissions: Vec<Option<String>>,
}

impl From<Answer> for Answered {
    fn from(answer: Answer) -> Self {
        Answered { answer, permissions: Vec::new() }
    }
}

/// What waits for its edits. A receiver that is gone has lost its connection: nobody waits for the answer.
pub(crate) enum Waiter {
    /// An answer to a client.
    Client(oneshot::Sender<Answered>, Answered),
    /// An answer about a delegation token.
    Token(oneshot::Sender<Result<TokenInfo, Refusal>>, Result<TokenInfo, Refusal>),
    /// An answer to a DataNode.
    Datanode(oneshot::Sender<datanode::Answer>, datanode::Answer),
    /// Commands.
    Commands(Arc<NodeTable>, Vec<(NodeIndex, datanode::Command)>),
}

impl Release for Waiter {
    type Due = Infallible;

    fn release(self) -> Option<Infallible> {
        match self {
            Waiter::Client(sender, answer) => drop(sender.send(answer)),
            Waiter::Token(sender, answer) => drop(sender.send(answer)),
            Waiter::Datanode(sender, answer) => drop(sender.send(answer)),
            Waiter::Commands(nodes, commands) => nodes.push_commands(commands),
        }
        None
    }
}

/// What the handlers share.
pub(crate) struct Shared {
    pub(crate) host: Handle<NameNode>,
    pub(crate) nodes: Arc<NodeTable>,
    pub(crate) epoch: Epoch,
    pub(crate) heartbeat_ms: u64,
    pub(crate) groups: Arc<Groups>,
    pub(crate) startup: Arc<Startup>,
    /// Walks over large trees, by their users.
    pub(crate) walks: Arc<Room<String>>,
}

impl Shared {
    /// Answers a read once what it saw is durable. Between the calls of a batch the state is free for others.
    pub(crate) async fn read(&self, request: &Request, membership: &Membership) -> Answer {
        let caller = membership.caller(&request.user);
        let now = self.now();
        let answer = |call: &Call, state: &State, txid: Txid| {
            let reader = Reader { caller, host: &request.host, now, txid: txid.0 };
            state.query_with(|| self.nodes.nodes(), call, reader)
        };
        match &request.body {
            Body::One(call) => {
                if let Some(summary) = self.summary(call, caller).await? {
                    return summary;
                }
                let view = self.host.view(|state, txid| answer(call, state, txid));
                view.await.map_err(ended)?
            }
            Body::Batch(calls) => {
                let mut summaries = Vec::new();
                for call in calls {
                    summaries.push(self.summary(call, caller).await?);
                }
                let mut budget = Budget::default();
                let in_budget = |(call, summary): (&Call, Option<Answer>), state: &State, txid| {
                    within(&mut budget, || summary.unwrap_or_else(|| answer(call, state, txid)))
                };
                let all = calls.iter().zip(summaries);
                let answers = self.host.view_each(all, in_budget).await.map_err(ended)?;
                batched(answers)
            }
        }
    }

    /// The totals of a tree, if a call asks for them. The state is free for others after each slice.
    async fn summary(
        &self,
        call: &Call,
        caller: Caller<'_>,
    ) -> Result<Option<Answer>, RemoteError> {
        if !matches!(call, Call::ContentSummary(_)) {
            return Ok(None);
        }
        let begun = self.host.view(|state, _| state.begin_walk(call, caller));
        let mut walk = match begun.await.map_err(ended)? {
            None => return Ok(None),
            Some(Err(refusal)) => return Ok(Some(Err(refusal))),
            Some(Ok(walk)) => walk,
        };
        let mut place = None;
        loop {
            let step = self.host.view(|state, _| state.walk_on(&mut walk, caller, WALK_STEPS));
            match step.await.map_err(ended)? {
                Err(refusal) => return Ok(Some(Err(refusal))),
                Ok(Some(sum)) => return Ok(Some(calls::ContentSummary::answer(Ok(sum)))),
                Ok(None) => {}
            }
            if place.is_none() {
                place = Some(self.walks.wait(caller.user.to_owned(), 1, ()).await);
            }
            tokio::task::yield_now().await;
        }
    }

    /// The state as it is, durable or not.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.host.state()
    }

    pub(crate) fn now(&self) -> Now {
        moment(self.host.now())
    }
}

/// The answer to a read of several, if there is something left for it.
fn within(budget: &mut Budget, answer: impl FnOnce() -> Answer) -> Answer {
    let answer = budget.refusal().map_or_else(answer, Err);
    budget.note(&answer);
    answer
}

/// Answers a read from the state as it is.
#[cfg(feature = "sim")]
pub(crate) fn read(state: &State, nodes: &NodeTable, body: &Body, reader: Reader<'_>) -> Answer {
    match body {
        Body::One(call) => state.query_with(|| nodes.nodes(), call, reader),
        Body::Batch(calls) => {
            let (nodes, mut budget) = (nodes.nodes(), Budget::default());
            let answer = |call| within(&mut budget, || state.query(&nodes, call, reader));
            batched(calls.iter().map(answer).collect())
        }
    }
}

/// The time as the core counts it.
pub(crate) fn moment(now: host::Now) -> Now {
    let mono_ms = u64::try_from(now.at.as_millis()).unwrap_or(u64::MAX);
    Now { mono_ms, wall_ms: now.wall_ms }
}

/// The answer while the NameNode ends.
pub(crate) fn stopping() -> RemoteError {
    RemoteError::new(ErrorKind::Unavailable, "the NameNode is stopping")
}

/// The answer once the host has ended.
pub(crate) fn ended(_: End) -> RemoteError {
    stopping()
}

/// What a new namespace begins with.
pub(crate) struct Founder {
    pub(crate) cluster: ClusterId,
    /// Owner of the root.
    pub(crate) owner: String,
    /// Its group.
    pub(crate) group: String,
}

/// What belongs to the host's thread.
pub(crate) struct NameNode {
    pub(crate) nodes: Arc<NodeTable>,
    pub(crate) startup: Arc<Startup>,
    pub(crate) epoch: Epoch,
    pub(crate) heartbeat_ms: u64,
    /// Of a new namespace.
    pub(crate) founder: Founder,
    pub(crate) reports: VecDeque<Queued>,
    /// What an earlier version kept in files; the first turn logs it.
    pub(crate) stored: Stored,
    /// What the last turn has to log.
    pub(crate) notes: Notes,
    /// Whether the service manager was told that safe mode is on.
    pub(crate) told_safe: Option<bool>,
}

/// A part of a full report that is not done.
pub(crate) struct Queued {
    /// Who reports, and the number of the report.
    of: (Sender, u64),
    part: FullReport,
    reply: oneshot::Sender<datanode::Answer>,
    /// Where the part continues.
    from: usize,
}

/// What is logged of a turn: parts of [`Output`].
#[derive(Default)]
pub(crate) struct Notes {
    changed_service: Vec<(DatanodeId, AdminState)>,
    slow: Vec<DatanodeId>,
    lost: Vec<Loss>,
    is_safe: bool,
}

/// One turn under way.
struct Step<'a> {
    now: Now,
    out: Output,
    turn: &'a mut Turn<Waiter>,
}

impl Machine for NameNode {
    type State = State;
    type Event = Event;
    type Release = Waiter;
    type Defect = CoreError;

    fn begin(
        &mut self,
        state: &mut State,
        now: host::Now,
        turn: &mut Turn<Waiter>,
    ) -> Result<(), CoreError> {
        if state.ns.counters().cluster.is_none() {
            let Founder { cluster, owner, group } = &self.founder;
            turn.edit(state.format(*cluster, (owner, group), moment(now))?);
            tracing::info!(%cluster, "new namespace");
        }
        let (table, now) = (Arc::clone(&self.nodes), moment(now));
        let nodes = &mut table.lock().nodes;
        let mut out = Output::default();
        let Stored { tokens, nodes: away, .. } = std::mem::take(&mut self.stored);
        for token in tokens {
            state.adopt_token(nodes, token, now, &mut out)?;
        }
        for node in away {
            state.adopt_node(nodes, node, now, &mut out)?;
        }
        turn.edits(out.records);
        for (datanode, count) in state.restore_maintenance(nodes, now) {
            tracing::info!(%datanode, count, "datanode in maintenance is remembered with its replicas");
        }
        Ok(())
    }

    fn judge(
        &mut self,
        state: &mut State,
        batch: Batch<'_, Event>,
        now: host::Now,
        turn: &mut Turn<Waiter>,
    ) -> Result<bool, CoreError> {
        let table = Arc::clone(&self.nodes);
        let mut table = table.lock();
        let nodes = &mut table.nodes;
        let mut step = Step { now: moment(now), out: Output::default(), turn };
        state.set_now(step.now);
        for event in batch.events {
            self.apply(state, nodes, event, &mut step)?;
        }
        if batch.is_tick {
            for dead in state.tick(nodes, step.now, &mut step.out)? {
                tracing::warn!(datanode = %dead, "datanode is dead, its blocks are copied elsewhere");
            }
        }
        self.report_slice(state, nodes, &mut step);
        let was_safe = state.is_safe_mode_on();
        let more = state.work(nodes, step.now, &mut step.out);
        let is_safe = state.is_safe_mode_on();
        if !is_safe {
            self.startup.note_ready();
            if was_safe {
                tracing::info!("safe mode is off");
            }
        }
        let Output { records, commands, changed_service, slow, lost, .. } = step.out;
        self.notes = Notes { changed_service, slow, lost, is_safe };
        turn.edits(records);
        if !commands.is_empty() {
            turn.release(Waiter::Commands(Arc::clone(&self.nodes), commands));
        }
        Ok(more || !self.reports.is_empty())
    }

    fn is_heavy(event: &Event) -> bool {
        match event {
            Event::Datanode(request, _) => {
                !matches!(**request, NodeRequest::Report { report: Report::Changes(_), .. })
            }
            Event::Call(request, ..) => matches!(request.body, Body::Batch(_)),
            Event::Token(..) => false,
            Event::Hosts(..) | Event::Resources { .. } => true,
        }
    }

    fn deliver(&mut self, _: &mut State, never: Infallible) {
        match never {}
    }

    fn after(&mut self, _: &RwLock<State>) {
        let notes = std::mem::take(&mut self.notes);
        if self.told_safe.replace(notes.is_safe) != Some(notes.is_safe) {
            supervisor::status(match notes.is_safe {
                true => "serves reads: safe mode is on",
                false => "serves",
            });
        }
        notes.log();
        supervisor::alive();
    }

    fn dirty_count(state: &State) -> usize {
        state.dirty_count()
    }

    fn rows(state: &mut State, now: host::Now) -> Vec<Change> {
        let rows = state.take_rows(moment(now)).into_iter();
        rows.map(|(key, value)| Change { key, value }).collect()
    }
}

impl Notes {
    fn log(self) {
        for Loss { path, block, length, lost } in self.lost {
            tracing::error!(
                path, %block, length, lost,
                "bytes that a writer had synced are on no datanode: the file is closed without them"
            );
        }
        for datanode in self.slow {
            tracing::warn!(%datanode, "datanode holds up a pipeline: it gets no new blocks for a while where others can take them");
        }
        for (datanode, admin) in self.changed_service {
            match admin {
                AdminState::Decommissioned => {
                    tracing::info!(%datanode, "datanode is decommissioned: every block has enough replicas elsewhere");
                }
                AdminState::InMaintenance => {
                    tracing::info!(%datanode, "datanode is in maintenance: it may be switched off for a while");
                }
                _ => tracing::info!(%datanode, "maintenance of the datanode is over"),
            }
        }
    }
}

impl NameNode {
    /// Takes one slice of the part at the front of the queue.
    fn report_slice(&mut self, state: &mut State, nodes: &mut Datanodes, step: &mut Step<'_>) {
        let Some(mut queued) = self.reports.pop_front() else { return };
        let taken = self.take_slice(state, nodes, &queued, step.now);
        let answer = match taken {
            Ok(Some(next)) => {
                queued.from = next;
                return self.reports.push_front(queued);
            }
            Ok(None) => Ok(NodeReply::Done),
            Err(refusal) => Err(refusal),
        };
        step.turn.release(Waiter::Datanode(queued.reply, answer));
    }

    /// Takes a slice of a part; returns where it continues.
    fn take_slice(
        &self,
        state: &mut State,
        nodes: &mut Datanodes,
        Queued { of, part, from, .. }: &Queued,
        now: Now,
    ) -> Result<Option<usize>, RemoteError> {
        let Some(node) = self.next_of(nodes, *of, now)? else { return Ok(None) };
        match state.blocks.take_report(&state.ns, nodes, node, (part, *from)) {
            Ok(Taken::Slice { next }) => Ok(Some(next)),
            Ok(Taken::Part { kept }) => {
                nodes.note_report(node);
                log_kept(kept, of.0.datanode);
                Ok(None)
            }
            Err(error) => {
                let text = match error {
                    ReportError::Part => "a part of the report is missing or repeated: begin again",
                    ReportError::Order => "the replicas of a report must ascend by block id",
                };
                Err(RemoteError::new(ErrorKind::InvalidArgument, text))
            }
        }
    }

    fn apply(
        &mut self,
        state: &mut State,
        nodes: &mut Datanodes,
        event: Event,
        Step { now, out, turn }: &mut Step<'_>,
    ) -> Result<(), CoreError> {
        let now = *now;
        match event {
            Event::Call(request, membership, sender) => {
                let caller = membership.caller(&request.user);
                let asked = Asked::new(request.call, caller, &request.host);
                let answer = state.call(nodes, (asked, &request.body), now, out)?;
                let permissions = std::mem::take(&mut out.permissions);
                turn.release(Waiter::Client(sender, Answered { answer, permissions }));
            }
            Event::Datanode(request, reply) => {
                let answer = match *request {
                    NodeRequest::Register(register) => {
                        self.take_registration(state, nodes, register, now)
                    }
                    NodeRequest::Report { sender, number, report: Report::Full(part) } => {
                        let of = (sender, number);
                        // It is a sign of life, however long the queue is.
                        match self.next_of(nodes, of, now) {
                            Ok(Some(_)) => {
                                self.queue(Queued { of, part, reply, from: 0 });
                                return Ok(());
                            }
                            Ok(None) => Ok(NodeReply::Done),
                            Err(refusal) => Err(refusal),
                        }
                    }
                    NodeRequest::Report { sender, number, report: Report::Changes(changes) } => {
                        self.take_changes(state, nodes, (sender, number), &changes, now)
                    }
                    NodeRequest::CommitRecovery(sender, commit) => {
                        match self.sender(nodes, sender, now) {
                            Ok(_) => state
                                .commit_recovery(nodes, &commit, now, out)?
                                .map(|()| NodeReply::Done),
                            Err(refusal) => Err(refusal),
                        }
                    }
                    // The table of DataNodes answers these.
                    NodeRequest::Heartbeat(..) => Ok(NodeReply::Done),
                };
                turn.release(Waiter::Datanode(reply, answer));
            }
            Event::Token(order, sender) => {
                let answer = state.order_token(nodes, &order, now, out)?;
                turn.release(Waiter::Token(sender, answer));
            }
            Event::Hosts(lists, sender) => {
                let (include, exclude) = (lists.include.len(), lists.exclude.len());
                let maintenance = lists.maintenance.len();
                tracing::info!(include, exclude, maintenance, "the lists of datanodes were read");
                for node in state.refresh_nodes(nodes, lists, now) {
                    let datanode = nodes.node(node).info.id;
                    tracing::warn!(%datanode, "datanode is not in the list of those that may be here: given up");
                }
                turn.release(Waiter::Client(sender, Ok(Reply::Done).into()));
            }
            Event::Resources { available, directory, low, left_out } => {
                state.note_left_out(left_out);
                if state.note_resources(low) {
                    tracing::error!(
                        available,
                        directory = %directory.display(),
                        "a disk of the metadata is nearly full: safe mode is on"
                    );
                }
            }
        }
        Ok(())
    }

    /// Lets a part of a full report wait for its turn. One that is repeated meanwhile keeps its place, and any other of the DataNode is over.
    fn queue(&mut self, queued: Queued) {
        if let Some(same) = self.reports.iter_mut().find(|same| same.of == queued.of) {
            same.reply = queued.reply;
            return;
        }
        let (Sender { datanode, .. }, _) = queued.of;
        self.reports.retain(|other| other.of.0.datanode != datanode);
        self.reports.push_back(queued);
    }

    /// Who sends, which is a sign of life.
    fn sender(
        &self,
        nodes: &mut Datanodes,
        sender: Sender,
        now: Now,
    ) -> Result<NodeIndex, RemoteError> {
        let node = registered(nodes, sender, self.epoch)?;
        nodes.touch(node, now.mono_ms);
        Ok(node)
    }

    /// Who sends a report, if it is the next one; `None` if it was taken before, so that a late copy changes nothing.
    fn next_of(
        &self,
        nodes: &mut Datanodes,
        (sender, number): (Sender, u64),
        now: Now,
    ) -> Result<Option<NodeIndex>, RemoteError> {
        let node = self.sender(nodes, sender, now)?;
        let is_next = nodes.is_next_report(node, number).map_err(fenced)?;
        Ok(is_next.then_some(node))
    }

    fn take_changes(
        &self,
        state: &mut State,
        nodes: &mut Datanodes,
        of: (Sender, u64),
        changes: &Changes,
        now: Now,
    ) -> datanode::Answer {
        if let Some(node) = self.next_of(nodes, of, now)? {
            let needless = state.take_changes(nodes, node, changes);
            log_needless(&needless, nodes.node(node).info.id);
            let bad = changes.bad.iter().map(|replica| replica.block);
            nodes.node_mut(node).failures.note_bad(bad, now.wall_ms);
            nodes.note_report(node);
        }
        Ok(NodeReply::Done)
    }

    fn take_registration(
        &self,
        state: &mut State,
        nodes: &mut Datanodes,
        register: datanode::Register,
        now: Now,
    ) -> datanode::Answer {
        let info = &register.info;
        let (datanode, host, address) = (info.id, &info.host, &info.transfer_address);
        if let Err(refusal) = check_registration(state, &register) {
            tracing::warn!(%datanode, host, address, %refusal, "datanode refused");
            return Err(refusal);
        }
        if let Some(other) = nodes.successor_of(datanode, register.process) {
            let (here, there) = (address, &other.transfer_address);
            tracing::error!(
                %datanode, here, there,
                "two DataNodes have the same data, one a copy of the other; the one that registered first is refused: remove one of the directories"
            );
            return Err(RemoteError::new(
                ErrorKind::InvalidArgument,
                format!(
                    "another DataNode serves under the id {datanode}, at {there}: its data directory is a copy of this one, or this one of it; remove one of them"
                ),
            ));
        }
        tracing::info!(%datanode, address, "datanode registered");
        let level = state.standing.level();
        let cluster = state.cluster();
        let node = nodes.register(register.info, now.mono_ms);
        nodes.node_mut(node).program = register.program;
        nodes.note_process(node, register.process);
        state.note_registered(nodes, node);
        let (epoch, heartbeat_ms) = (self.epoch, self.heartbeat_ms);
        let registration = nodes.registration(node);
        let next_stamp = GenerationStamp(state.ns.counters().next_stamp);
        Ok(NodeReply::Registered { cluster, epoch, registration, heartbeat_ms, level, next_stamp })
    }
}

/// Whether a DataNode can be one of this cluster.
fn check_registration(state: &State, register: &datanode::Register) -> Result<(), RemoteError> {
    let refuse = |text: String| Err(RemoteError::new(ErrorKind::InvalidArgument, text));
    RemoteError::check_version(register.version, datanode::VERSION)?;
    if let Err(unsupported) = register.levels.check(state.standing.level()) {
        return refuse(unsupported.to_string());
    }
    let cluster = state.cluster();
    if let Some(other) = register.cluster.filter(|other| *other != cluster) {
        return refuse(format!("this DataNode's data belongs to cluster {other}, not {cluster}"));
    }
    if !state.allows(&register.info) {
        let (host, address) = (&register.info.host, &register.info.transfer_address);
        return refuse(format!(
            "Datanode denied communication with namenode because the host is not in the include-list: {address} ({host})"
        ));
    }
    Ok(())
}

/// Logs that replicas which nobody has asked for are to be deleted: somebody may have written them with a token that was left.
fn log_needless(blocks: &[BlockId], datanode: DatanodeId) {
    if let Some(block) = blocks.first() {
        let count = blocks.len();
        tracing::warn!(%datanode, %block, count, "datanode has a new replica that nobody asked for of a block that has enough; it is to delete it");
    }
}

/// Logs that unknown replicas are kept, and what to do.
fn log_kept(kept: Option<Kept>, datanode: DatanodeId) {
    match kept {
        None => {}
        Some(Kept::UntilNextReport(count)) => tracing::error!(
            %datanode, count,
            "datanode holds many replicas that this namenode does not know; they are kept until its next full report. If files were deleted while it was \
             away, `hdfs dfsadmin -triggerBlockReport` frees their room now; else find out whether this metadata is older than the data"
        ),
        Some(Kept::Ahead(count)) => tracing::error!(
            %datanode, count,
            "datanode holds replicas that this namenode does not know, and ids that were never handed out; they are kept: this metadata is older than the \
             data, and `hdfs dfsadmin -report` tells what to do"
        ),
    }
}

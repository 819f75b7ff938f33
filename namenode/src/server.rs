//! The loop: one thread, the only one that changes the state.
//!
//! It waits for events, applies a batch of them under the write lock, hands the records to the journal as one batch, and leaves
//! answers and commands with [`Waiters`] until the records are durable. Reads do not pass through here: they take the read lock
//! and wait, if need be, for the last transaction they have seen.
//!
//! Block reports are taken in slices, one per turn, so that calls and reads go on in between. What a DataNode sends after a part of
//! a report waits behind that part: it may contradict it.
//!
//! Order of locks: state, then nodes, then waiters.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use journal::{Change, Journal, Txid};
use parking_lot::{RwLock, RwLockWriteGuard};
use protocol::datanode::{self, FullReport, Reply as NodeReply, Request as NodeRequest};
use protocol::namenode::{self, AdminState, Answer, Body, Reply, Request};
use protocol::{DatanodeId, Epoch, ErrorKind, RemoteError};
use tokio::sync::{mpsc, oneshot};

use crate::core::blocks::{ReportError, Taken};
use crate::core::namespace::Loss;
use crate::core::nodes::{Datanodes, HostLists, NodeIndex};
use crate::core::now::Now;
use crate::core::query::Reader;
use crate::core::state::{Output, State};
use crate::error::CoreError;
use crate::groups::{Groups, Membership};
use crate::kept::MaintenanceFiles;
use crate::nodes::NodeTable;
use crate::startup::Startup;
use crate::waiters::{Answered, Waiter, Waiters};

/// Events that wait for the loop; beyond that callers wait.
pub(crate) const QUEUE_MAX: usize = 4096;
/// Events in one batch: bounds how long the lock is held.
const BATCH_MAX: usize = 512;
/// Bytes of checkpoint rows that may wait for the disk; beyond that rows stay dirty and merge.
const CHECKPOINT_BACKLOG_BYTES_MAX: u64 = 64 << 20;

/// What the loop is told.
pub(crate) enum Event {
    /// A client wants a change.
    Call(Box<Request>, Membership, oneshot::Sender<Answered>),
    /// A DataNode says something else than a heartbeat.
    Datanode(Box<NodeRequest>, oneshot::Sender<datanode::Answer>),
    /// An image is wanted: everything that changed must be handed to the journal first.
    Checkpoint(oneshot::Sender<()>),
    /// Time has passed.
    Tick,
    /// The lists of DataNodes were read; who asked for it is answered.
    Hosts(HostLists, oneshot::Sender<Answered>),
    /// The disks of the metadata were looked at: bytes free, and whether these are too few.
    Resources {
        /// Bytes free.
        available: u64,
        /// Where: of the disks of the metadata the one with least.
        directory: PathBuf,
        /// Below `free_space_min`.
        low: bool,
        /// Directories of `log_dirs` that are left out, each with the reason.
        left_out: Vec<String>,
    },
    /// The end.
    Stop,
}

/// What the loop and the handlers share.
pub(crate) struct Shared {
    pub(crate) state: RwLock<State>,
    pub(crate) nodes: Arc<NodeTable>,
    pub(crate) waiters: Arc<Waiters>,
    /// Last transaction of `state`; changes only under its write lock.
    pub(crate) txid: AtomicU64,
    pub(crate) clock: Clock,
    pub(crate) epoch: Epoch,
    pub(crate) heartbeat_ms: u64,
    pub(crate) groups: Arc<Groups>,
    pub(crate) startup: Startup,
}

/// The rim's clock.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Clock { started: Instant::now() }
    }

    pub(crate) fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ms =
            |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Now { mono_ms: ms(self.started.elapsed()), wall_ms: ms(wall) }
    }
}

impl Shared {
    /// Answers a read once what it saw is durable.
    pub(crate) async fn read(&self, request: &Request, membership: &Membership) -> Answer {
        let caller = membership.caller(&request.user);
        let now = self.clock.now();
        let (answer, txid) = {
            let state = self.state.read();
            let txid = self.txid.load(Ordering::Acquire);
            let reader = Reader { caller, host: &request.host, now, txid };
            let answer = match &request.body {
                Body::One(call) => match state.query_namespace(call, caller) {
                    Some(answer) => answer,
                    None => state.query(&self.nodes.lock().nodes, call, reader),
                },
                Body::Batch(calls) => {
                    let nodes = self.nodes.lock();
                    let answer = |call| state.query(&nodes.nodes, call, reader);
                    Ok(Reply::Batch(calls.iter().map(answer).collect()))
                }
            };
            (answer, txid)
        };
        if !self.waiters.is_durable(txid) {
            let (sender, receiver) = oneshot::channel();
            self.waiters.push(txid, vec![Waiter::Reader(sender)], &self.nodes);
            receiver.await.map_err(|_| stopping())?;
        }
        answer
    }
}

/// The answer while the NameNode ends.
pub(crate) fn stopping() -> RemoteError {
    RemoteError::new(ErrorKind::Unavailable, "the NameNode is stopping")
}

/// The loop's own side.
pub(crate) struct Loop {
    pub(crate) shared: Arc<Shared>,
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) journal: Journal,
    pub(crate) checkpoint_rows: usize,
    pub(crate) checkpoint_ms: u64,
    pub(crate) checkpointed_ms: u64,
    pub(crate) reports: VecDeque<Queued>,
    /// The nodes in maintenance, written down.
    pub(crate) book: MaintenanceFiles,
}

/// A part of a report that is not done, or a message behind one.
pub(crate) struct Queued {
    request: Box<NodeRequest>,
    sender: oneshot::Sender<datanode::Answer>,
    /// Where the part goes on.
    from: usize,
}

/// What one batch leaves behind.
#[derive(Default)]
struct Turn {
    out: Output,
    waiters: Vec<Waiter>,
}

impl Loop {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// [`CoreError`]: a defect; memory and journal may differ, so the process must end.
    pub(crate) fn run(mut self) -> Result<(), CoreError> {
        let mut more = false;
        loop {
            let first = match more || !self.reports.is_empty() {
                true => self.events.try_recv().ok(),
                false => match self.events.blocking_recv() {
                    Some(event) => Some(event),
                    None => return Ok(()),
                },
            };
            let mut batch: Vec<Event> = first.into_iter().collect();
            while batch.len() < BATCH_MAX
                && !batch.last().is_some_and(is_heavy)
                && let Ok(event) = self.events.try_recv()
            {
                batch.push(event);
            }
            let stop = batch.iter().any(|event| matches!(event, Event::Stop));
            let ticks = batch.iter().any(|event| matches!(event, Event::Tick | Event::Hosts(..)));
            let mut wanted = Vec::new();
            batch = batch
                .into_iter()
                .filter_map(|event| match event {
                    Event::Checkpoint(sender) => {
                        wanted.push(sender);
                        None
                    }
                    event => Some(event),
                })
                .collect();
            more = self.turn(batch)?;
            if ticks {
                self.write_down();
            }
            self.checkpoint(stop || !wanted.is_empty());
            for sender in wanted {
                // Whoever asked may have gone.
                let _ = sender.send(());
            }
            if stop {
                return Ok(());
            }
        }
    }

    /// Applies a batch. True if there is more to do at once.
    fn turn(&mut self, batch: Vec<Event>) -> Result<bool, CoreError> {
        let shared = Arc::clone(&self.shared);
        let now = shared.clock.now();
        let mut turn = Turn::default();
        let (more, last) = {
            let mut guard = shared.state.write();
            let state = &mut *guard;
            let mut table = shared.nodes.lock();
            let nodes = &mut table.nodes;
            state.set_now(now);
            for event in batch {
                if let Some(event) = self.queue_report(event) {
                    apply(state, nodes, event, (&shared, now), &mut turn)?;
                }
            }
            self.report_slice(state, nodes, now, &mut turn)?;
            let was_safe = state.is_safe_mode_on();
            let more = state.work(nodes, now, &mut turn.out);
            if !state.is_safe_mode_on() {
                shared.startup.note_ready();
                if was_safe {
                    tracing::info!("safe mode is off");
                }
            }
            let last = shared.txid.load(Ordering::Relaxed) + turn.out.records.len() as u64;
            shared.txid.store(last, Ordering::Release);
            drop(table);
            // Readers that wait come before the next turn.
            RwLockWriteGuard::unlock_fair(guard);
            (more, last)
        };
        let Turn {
            out: Output { records, commands, changed_service, slow, lost, .. },
            mut waiters,
        } = turn;
        for Loss { path, block, length, lost } in lost {
            tracing::error!(
                path, %block, length, lost,
                "bytes that a writer had synced are on no datanode: the file is closed without them"
            );
        }
        for datanode in slow {
            tracing::warn!(%datanode, "datanode holds up a pipeline: it gets no new blocks for a while where others can take them");
        }
        for (datanode, admin) in changed_service {
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
        if !records.is_empty() {
            let appended = self.journal.append(records);
            if appended != Txid(last) {
                // The journal stopped, or somebody else writes: either way nothing of this may be answered.
                return Err(CoreError::JournalOrder { expected: last, found: appended.0 });
            }
        }
        if !commands.is_empty() {
            waiters.push(Waiter::Commands(commands));
        }
        shared.waiters.push(last, waiters, &shared.nodes);
        Ok(more)
    }

    /// Sets a part of a report aside, or a change behind one; gives back everything else. A DataNode that registers again begins
    /// anew.
    fn queue_report(&mut self, event: Event) -> Option<Event> {
        let Event::Datanode(request, sender) = event else { return Some(event) };
        let (id, _) = sender_of(&request);
        let waits = match &*request {
            NodeRequest::FullReport(_) => true,
            NodeRequest::Changes(_) => {
                self.reports.iter().any(|queued| sender_of(&queued.request).0 == id)
            }
            NodeRequest::Register(_) => {
                self.reports.retain(|queued| sender_of(&queued.request).0 != id);
                false
            }
            _ => false,
        };
        if !waits {
            return Some(Event::Datanode(request, sender));
        }
        self.reports.push_back(Queued { request, sender, from: 0 });
        None
    }

    /// Takes one slice of the first report that waits, or what waits behind it.
    fn report_slice(
        &mut self,
        state: &mut State,
        nodes: &mut Datanodes,
        now: Now,
        turn: &mut Turn,
    ) -> Result<(), CoreError> {
        let Some(Queued { request, sender, from }) = self.reports.pop_front() else {
            return Ok(());
        };
        let NodeRequest::FullReport(report) = &*request else {
            let event = Event::Datanode(request, sender);
            return apply(state, nodes, event, (&self.shared, now), turn);
        };
        let answer = match full_report(state, nodes, (report, from), (&self.shared, now)) {
            Ok(Some(next)) => {
                self.reports.push_front(Queued { request, sender, from: next });
                return Ok(());
            }
            Ok(None) => Ok(NodeReply::Done),
            Err(refusal) => Err(refusal),
        };
        turn.waiters.push(Waiter::Datanode(sender, answer));
        Ok(())
    }

    /// Brings the book of nodes in maintenance up to date. There are few, and they change when an operator wants it.
    fn write_down(&mut self) {
        let shared = Arc::clone(&self.shared);
        let (all, new) = {
            let state = shared.state.read();
            let table = shared.nodes.lock();
            let kept = state.nodes_in_maintenance(&table.nodes);
            if kept.is_empty() && self.book.is_empty() {
                return;
            }
            let id = |node: &NodeIndex| table.nodes.node(*node).info.id;
            let all: BTreeSet<DatanodeId> = kept.iter().map(id).collect();
            let new = kept.iter().filter(|node| !self.book.has(id(node)));
            let new: Vec<_> =
                new.map(|node| state.node_in_maintenance(&table.nodes, *node)).collect();
            (all, new)
        };
        self.book.retain(&all);
        new.iter().for_each(|kept| self.book.save(kept));
    }

    /// Hands changed rows to the journal when there are enough, or it is time.
    fn checkpoint(&mut self, stop: bool) {
        let shared = Arc::clone(&self.shared);
        let now = shared.clock.now();
        let due = now.mono_ms.saturating_sub(self.checkpointed_ms) >= self.checkpoint_ms;
        let dirty_count = match due || stop {
            true => shared.state.read().dirty_count(),
            false => match shared.state.try_read() {
                Some(state) => state.dirty_count(),
                None => return,
            },
        };
        let enough = dirty_count >= self.checkpoint_rows;
        let backlog = self.journal.checkpoint_pending() > CHECKPOINT_BACKLOG_BYTES_MAX;
        if dirty_count == 0 || !(enough || due || stop) || (backlog && !stop) {
            return;
        }
        let (rows, at) = {
            let mut state = shared.state.write();
            (state.take_rows(now), Txid(shared.txid.load(Ordering::Relaxed)))
        };
        let changes = rows.into_iter().map(|(key, value)| Change { key, value }).collect();
        self.journal.checkpoint(at, changes);
        self.checkpointed_ms = now.mono_ms;
    }
}

/// Events after which a batch ends.
fn is_heavy(event: &Event) -> bool {
    match event {
        Event::Datanode(request, _) => !matches!(**request, NodeRequest::Changes(_)),
        Event::Call(request, ..) => {
            matches!(request.body, Body::Batch(_))
        }
        Event::Tick
        | Event::Hosts(..)
        | Event::Resources { .. }
        | Event::Checkpoint(_)
        | Event::Stop => true,
    }
}

fn apply(
    state: &mut State,
    nodes: &mut Datanodes,
    event: Event,
    (shared, now): (&Shared, Now),
    turn: &mut Turn,
) -> Result<(), CoreError> {
    match event {
        Event::Call(request, membership, sender) => {
            let caller = membership.caller(&request.user);
            let answer = state.call(nodes, (&request, caller), now, &mut turn.out)?;
            let permissions = std::mem::take(&mut turn.out.permissions);
            turn.waiters.push(Waiter::Client(sender, Answered { answer, permissions }));
        }
        Event::Datanode(request, sender) => {
            let answer = datanode_request(state, nodes, *request, (shared, now), &mut turn.out)?;
            turn.waiters.push(Waiter::Datanode(sender, answer));
        }
        Event::Tick => {
            for dead in state.tick(nodes, now, &mut turn.out)? {
                tracing::warn!(datanode = %dead, "datanode is dead, its blocks are copied elsewhere");
            }
        }
        Event::Hosts(lists, sender) => {
            let (include, exclude) = (lists.include.len(), lists.exclude.len());
            let maintenance = lists.maintenance.len();
            tracing::info!(include, exclude, maintenance, "the lists of datanodes were read");
            for node in state.refresh_nodes(nodes, lists, now) {
                let datanode = nodes.node(node).info.id;
                tracing::warn!(%datanode, "datanode is not in the list of those that may be here: given up");
            }
            let answered = Answered { answer: Ok(Reply::Done), permissions: Vec::new() };
            turn.waiters.push(Waiter::Client(sender, answered));
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
        Event::Checkpoint(_) | Event::Stop => {}
    }
    Ok(())
}

fn fenced(what: &str) -> RemoteError {
    RemoteError::new(ErrorKind::Fenced, format!("{what}: register again"))
}

fn datanode_request(
    state: &mut State,
    nodes: &mut Datanodes,
    request: NodeRequest,
    (shared, now): (&Shared, Now),
    out: &mut Output,
) -> Result<datanode::Answer, CoreError> {
    if let NodeRequest::Register(register) = request {
        return Ok(take_registration(state, nodes, register, (shared, now)));
    }
    let (id, epoch) = sender_of(&request);
    let node = match sender_index(nodes, (id, epoch), shared.epoch) {
        Ok(node) => node,
        Err(refusal) => return Ok(Err(refusal)),
    };
    nodes.touch(node, now.mono_ms);
    match request {
        NodeRequest::Changes(changes) => {
            state.blocks.take_changes(&state.ns, nodes, node, &changes);
        }
        NodeRequest::CommitRecovery(commit) => {
            if let Err(refusal) = state.commit_recovery(nodes, &commit, now, out)? {
                return Ok(Err(refusal));
            }
        }
        // Reports are taken by `Loop::report_slice`, heartbeats by the table of DataNodes.
        NodeRequest::Register(_) | NodeRequest::Heartbeat(_) | NodeRequest::FullReport(_) => {}
    }
    Ok(Ok(NodeReply::Done))
}

/// Takes a slice of a part of a report; says where it goes on.
fn full_report(
    state: &mut State,
    nodes: &mut Datanodes,
    (report, from): (&FullReport, usize),
    (shared, now): (&Shared, Now),
) -> Result<Option<usize>, RemoteError> {
    let id = report.datanode;
    let node = sender_index(nodes, (id, report.epoch), shared.epoch)?;
    nodes.touch(node, now.mono_ms);
    match state.blocks.take_report(&state.ns, nodes, node, (report, from)) {
        Ok(Taken::Slice { next }) => Ok(Some(next)),
        Ok(Taken::Part { kept_unknown }) => {
            if kept_unknown > 0 {
                tracing::error!(
                    datanode = %id, count = kept_unknown,
                    "datanode holds replicas that this namenode does not know; they are kept: is this metadata older than the data?"
                );
            }
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

fn sender_of(request: &NodeRequest) -> (DatanodeId, Epoch) {
    match request {
        NodeRequest::Register(register) => (register.info.id, Epoch::default()),
        NodeRequest::Heartbeat(beat) => (beat.datanode, beat.epoch),
        NodeRequest::FullReport(report) => (report.datanode, report.epoch),
        NodeRequest::Changes(changes) => (changes.datanode, changes.epoch),
        NodeRequest::CommitRecovery(commit) => (commit.datanode, commit.epoch),
    }
}

fn sender_index(
    nodes: &Datanodes,
    (id, epoch): (DatanodeId, Epoch),
    own_epoch: Epoch,
) -> Result<NodeIndex, RemoteError> {
    if epoch != own_epoch {
        return Err(fenced(&format!("epoch {epoch} is not {own_epoch}")));
    }
    let node = nodes.index(id).ok_or_else(|| fenced("this DataNode is not registered"))?;
    match nodes.node(node).state {
        namenode::DatanodeState::Dead => Err(fenced("this DataNode was given up")),
        _ => Ok(node),
    }
}

fn take_registration(
    state: &mut State,
    nodes: &mut Datanodes,
    register: datanode::Register,
    (shared, now): (&Shared, Now),
) -> datanode::Answer {
    let refuse = |text: String| Err(RemoteError::new(ErrorKind::InvalidArgument, text));
    if register.version != datanode::VERSION {
        let version = register.version;
        return refuse(format!("version {version} of the protocol is not {}", datanode::VERSION));
    }
    let cluster = state.cluster();
    if let Some(other) = register.cluster.filter(|other| *other != cluster) {
        let id = register.info.id;
        tracing::warn!(datanode = %id, cluster = %other, "datanode of another cluster refused");
        return refuse(format!("this DataNode's data belongs to cluster {other}, not {cluster}"));
    }
    if !state.allows(&register.info) {
        let (host, address) = (&register.info.host, &register.info.transfer_address);
        tracing::warn!(host, address, "datanode that is not in the include list refused");
        return refuse(format!(
            "Datanode denied communication with namenode because the host is not in the include-list: {address} ({host})"
        ));
    }
    tracing::info!(
        datanode = %register.info.id, address = %register.info.transfer_address, "datanode registered"
    );
    let node = nodes.register(register.info, now.mono_ms);
    state.note_registered(nodes, node);
    Ok(NodeReply::Registered { cluster, epoch: shared.epoch, heartbeat_ms: shared.heartbeat_ms })
}

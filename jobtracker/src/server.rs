//! The loop: the only place where the JobTracker's state changes.
//!
//! One event is applied to the core; its edits go to the journal; what else came out (answers, effects, news for watchers) waits until those
//! edits, and all before them, are on disk.
//!
//! Invariants: nothing that was decided is told before it is durable; a worker's poll is answered the moment there is an order for it.
//! An order may reach a worker together with later ones whose edits are still on their way to the disk: orders are harmless without
//! their edits, because a task is decided by its edit alone.

pub(crate) mod query;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::groups::Membership;
use daemon::page::live::Board;
use journal::{Journal, Txid};
use protocol::jobs::{Answer, Call, JobReport, Reply, Request};
use protocol::{ErrorKind, JobId, RemoteError, WorkerId, tracker};
use tokio::sync::{mpsc, oneshot, watch};

use self::query::{JobQuery, ListedJobs, Overview, Viewer};
use crate::config::Config;
use crate::core::edit::Edit;
use crate::core::rights::{Caller, Operation};
use crate::core::submit::Submission;
use crate::core::views::WorkerPicture;
use crate::core::{Core, EffectDone, EffectOrder, Now, Output};
use crate::effects::Effects;
use crate::exclude;
use crate::history::{Due, History};
use crate::resources::Room;
use crate::store::Rows;

/// Events that wait for the loop; beyond it senders wait, and with them their clients.
pub(crate) const EVENTS_MAX: usize = 4096;
/// How often liveness and postponed news are looked at. Nothing on a job's path waits for it.
const TICK: Duration = Duration::from_millis(250);
/// Least time between two pictures of a running job for its watchers: ten a second are plenty for the eye.
const NEWS_PAUSE: Duration = Duration::from_millis(100);
/// Least time between two looks at what pages of the whole cluster show, while one is open.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// A copy of the overview is kept for so long, for the other pages that were told of the same change.
const OVERVIEW_KEPT_MAX: Duration = Duration::from_secs(1);

/// Something for the loop.
pub(crate) enum Event {
    /// A client calls; with what is known of its user.
    Client(Request, Membership, oneshot::Sender<Answer>),
    /// A worker calls.
    Worker(tracker::Request, oneshot::Sender<tracker::Answer>),
    /// An effect came to its end.
    EffectDone(JobId, Option<EffectDone>),
    /// The history of a job is written, or could not be.
    HistoryWritten(JobId, io::Result<()>),
    /// Somebody asks about a job.
    Query(Viewer, JobQuery),
    /// The start page and `/healthz`: as of now, or at least as new as a change that watchers were told of.
    Overview(Option<u64>, oneshot::Sender<Arc<Overview>>),
    /// The page of the worker at an address; `None` if there is none.
    WorkerAt(Viewer, String, oneshot::Sender<Option<Box<WorkerPicture>>>),
}

/// What waits for durability.
enum Delivery {
    Client(oneshot::Sender<Answer>, Answer),
    Worker(oneshot::Sender<tracker::Answer>, tracker::Answer),
    Effect(EffectOrder),
    Wake(WorkerId),
    Submitted(JobId, Result<(), RemoteError>),
    News(JobId),
    History(JobId),
}

struct Poll {
    received: u64,
    deadline: Instant,
    reply: oneshot::Sender<tracker::Answer>,
}

struct Watched {
    sender: watch::Sender<Arc<JobReport>>,
    last: Instant,
    postponed: bool,
}

/// What the loop works on besides its state.
pub(crate) struct Outside {
    pub(crate) effects: Effects,
    pub(crate) room: Room,
    /// Names workers to be emptied; empty if there is no such list.
    pub(crate) exclude_file: PathBuf,
    /// Where the rules of queues are read again.
    pub(crate) config_file: Option<PathBuf>,
    pub(crate) history: History,
    /// Where open pages hear that the overview looks different.
    pub(crate) board: Board,
}

/// State of the loop around the core.
pub(crate) struct Server {
    core: Core,
    rows: Rows,
    journal: Journal,
    effects: Effects,
    room: Room,
    exclude_file: PathBuf,
    config_file: Option<PathBuf>,
    history: History,
    histories_due: Due,
    events: mpsc::Sender<Event>,
    poll_max: Duration,
    begin: Instant,
    started_ms: u64,
    appended: Txid,
    durable: Txid,
    deliveries: VecDeque<(Txid, Delivery)>,
    polls: BTreeMap<WorkerId, Poll>,
    submitters: HashMap<JobId, Vec<oneshot::Sender<Answer>>>,
    watched: HashMap<JobId, Watched>,
    board: Board,
    looked: Instant,
    /// The last copy of the overview, and when it was made.
    overview: Option<(Instant, Arc<Overview>)>,
    /// Effects of one job are done one after the other; the first of each queue is under way.
    effect_queues: HashMap<JobId, VecDeque<EffectOrder>>,
}

impl Server {
    /// A loop around what was recovered.
    pub(crate) fn new(
        (core, rows): (Core, Rows),
        journal: Journal,
        last: Txid,
        Outside { effects, room, exclude_file, config_file, history, board }: Outside,
        events: mpsc::Sender<Event>,
        poll_max: Duration,
    ) -> Self {
        Server {
            core,
            rows,
            journal,
            effects,
            room,
            exclude_file,
            config_file,
            history,
            histories_due: Due::default(),
            events,
            poll_max,
            begin: Instant::now(),
            started_ms: client::rpc::now_ms(),
            appended: last,
            durable: last,
            deliveries: VecDeque::new(),
            polls: BTreeMap::new(),
            submitters: HashMap::new(),
            watched: HashMap::new(),
            board,
            looked: Instant::now(),
            overview: None,
            effect_queues: HashMap::new(),
        }
    }

    /// Begins work after recovery.
    pub(crate) fn start(&mut self, epoch: protocol::Epoch, cluster_start: u64) {
        let out = self.core.recovered(epoch, cluster_start, self.now());
        self.take(out);
        match self.refresh_nodes() {
            Ok(out) => self.take(out),
            Err(error) => tracing::error!(%error, "no worker is emptied"),
        }
        let is_missing = |job: &JobId| {
            let report = self.core.job_report(*job);
            report.is_ok_and(|report| self.history.wants(*job, report.finished_ms))
        };
        let missing: Vec<JobId> = self.core.final_jobs().filter(is_missing).collect();
        missing.into_iter().for_each(|job| self.histories_due.push(job));
        self.write_history();
    }

    /// Handles events until `shutdown`, then writes the checkpoint.
    pub(crate) async fn run(
        mut self,
        mut events: mpsc::Receiver<Event>,
        mut durable: watch::Receiver<u64>,
        shutdown: daemon::Shutdown,
    ) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.wait() => break,
                changed = durable.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.durable = Txid(*durable.borrow_and_update());
                }
                event = events.recv() => match event {
                    Some(event) => self.handle(event),
                    None => break,
                },
                _ = ticks.tick() => self.tick(),
            }
            self.deliver();
        }
        for (_, poll) in std::mem::take(&mut self.polls) {
            let _ = poll.reply.send(Err(stopping()));
        }
        if let Some(changes) = self.rows.take_changes(true) {
            self.journal.checkpoint(self.appended, changes);
        }
        let journal = self.journal.clone();
        let _ = tokio::task::spawn_blocking(move || journal.close()).await;
    }

    fn now(&self) -> Now {
        Now { at: self.begin.elapsed(), wall_ms: client::rpc::now_ms() }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Client(request, known, reply) => self.client(request, &known, reply),
            Event::Worker(request, reply) => self.worker(request, reply),
            Event::EffectDone(job, done) => self.effect_done(job, done),
            Event::HistoryWritten(job, outcome) => {
                if let Err(error) = &outcome {
                    tracing::warn!(%job, %error, "cannot write the history of a job, it is tried again");
                }
                self.histories_due.written(job, outcome.is_ok(), Instant::now());
                self.write_history();
            }
            Event::Query(viewer, query) => self.answer_query(&viewer, query),
            Event::Overview(wanted, reply) => drop(reply.send(self.overview(wanted))),
            Event::WorkerAt(viewer, address, reply) => {
                let caller = viewer.caller();
                let picture = self.core.worker_picture(&caller, &address, self.now());
                drop(reply.send(picture.map(Box::new)));
            }
        }
    }

    /// Answers a query, if it is allowed.
    fn answer_query(&mut self, viewer: &Viewer, query: JobQuery) {
        let caller = viewer.caller();
        let checked = match &query {
            JobQuery::Permission(job, whose, _) => self.core.check_kept(&caller, whose, *job),
            query => self.core.check(&caller, Operation::View, query.job()),
        };
        // Whoever asked for a page and left needs no answer.
        match query {
            JobQuery::Watch(job, reply) => {
                let watching = checked.and_then(|()| self.watch(job));
                drop(reply.send(watching));
            }
            JobQuery::Picture(job, is_kept, reply) => {
                let picture = checked.and_then(|()| match is_kept && self.core.is_over(job) {
                    true => Ok(None),
                    false => self.core.picture(job).map(|picture| Some(Box::new(picture))),
                });
                drop(reply.send(picture));
            }
            JobQuery::OtherRuns(job, count_max, reply) => {
                let runs = checked.and_then(|()| self.core.other_runs(&caller, job, count_max));
                drop(reply.send(runs));
            }
            JobQuery::Attempt(id, reply) => {
                drop(reply.send(checked.and_then(|()| self.core.attempt_picture(id))));
            }
            JobQuery::Counters(job, reply) => {
                drop(reply.send(checked.and_then(|()| self.core.counters_by_kind(job))));
            }
            JobQuery::TaskCounters(id, reply) => {
                drop(reply.send(checked.and_then(|()| self.core.task_counters(id))));
            }
            JobQuery::Permission(_, _, reply) => drop(reply.send(checked)),
        }
    }

    /// What the start page shows; a copy that is kept will do if it is as new as `wanted`.
    fn overview(&mut self, wanted: Option<u64>) -> Arc<Overview> {
        if let Some((_, kept)) = &self.overview
            && wanted.is_some_and(|wanted| kept.change >= wanted)
        {
            return Arc::clone(kept);
        }
        let overview = Arc::new(Overview {
            change: self.board.number(),
            epoch: self.core.epoch().0,
            started_ms: self.started_ms,
            status: self.core.status(),
            jobs: ListedJobs::new(self.core.jobs_with_viewers()),
            workers: self.core.worker_reports(self.now()),
            queues: self.core.queue_reports(),
            log_dirs_left_out: self.journal.left_out().iter().map(ToString::to_string).collect(),
        });
        if wanted.is_some() {
            self.overview = Some((Instant::now(), Arc::clone(&overview)));
        }
        overview
    }

    /// Tells open pages if the overview looks different.
    fn look(&mut self) {
        if self.overview.as_ref().is_some_and(|(made, _)| made.elapsed() > OVERVIEW_KEPT_MAX) {
            self.overview = None;
        }
        if self.board.is_watched() && self.looked.elapsed() >= LOOK_PAUSE {
            self.looked = Instant::now();
            self.board.show(self.core.fingerprint());
        }
    }

    fn client(&mut self, request: Request, known: &Membership, reply: oneshot::Sender<Answer>) {
        let Request { version, call, user, body } = request;
        if version != protocol::jobs::VERSION {
            let text = format!(
                "The client speaks version {version} of the protocol, the JobTracker {}",
                protocol::jobs::VERSION
            );
            let _ = reply.send(Err(RemoteError::new(ErrorKind::InvalidArgument, text)));
            return;
        }
        let caller =
            Caller { user: &user, groups: &known.groups, is_superuser: known.is_superuser };
        if let Err(refusal) = self.check_rights(&caller, &body) {
            return self
                .deliveries
                .push_back((self.appended, Delivery::Client(reply, Err(refusal))));
        }
        let now = self.now();
        let answer = match body {
            Call::Submit(spec) => {
                match self.room.check().and_then(|()| self.core.submit(call, &user, *spec, now)) {
                    Ok(Submission::Waiting(job, out)) => {
                        self.submitters.entry(job).or_default().push(reply);
                        return self.take(out);
                    }
                    Ok(Submission::Known(job)) => Ok(Reply::Submitted(job)),
                    Err(error) => Err(error),
                }
            }
            Call::List => Ok(Reply::Jobs(self.core.job_reports(&caller))),
            Call::Status(job) => {
                self.core.job_report(job).map(|report| Reply::Job(Box::new(report)))
            }
            Call::Tasks(job) => self.core.task_reports(job).map(Reply::Tasks),
            Call::TrackerStatus => Ok(Reply::Tracker(self.core.status())),
            Call::Queues => Ok(Reply::Queues(self.core.queue_reports())),
            Call::AdministeredQueues => Ok(Reply::Names(self.core.administered_queues(&caller))),
            Call::Workers => Ok(Reply::Workers(self.core.worker_reports(now))),
            Call::Kill(job) => self.core.kill(job, &user, now).map(|out| self.done(out)),
            Call::SetPriority(job, priority) => {
                self.core.set_priority(job, priority, now).map(|out| self.done(out))
            }
            Call::RefreshNodes => self.refresh_nodes().map(|out| self.done(out)),
            Call::RefreshQueues => self.refresh_queues().map(|out| self.done(out)),
            // Who keeps them forgets when this is answered.
            Call::RefreshGroups => Ok(Reply::Done),
            Call::Replay(attempt) => {
                self.core.replay(attempt).map(|replay| Reply::Replay(Box::new(replay)))
            }
            Call::StopAttempt { attempt, fail } => {
                self.core.stop_by_user(attempt, fail, now).map(|out| self.done(out))
            }
        };
        self.deliveries.push_back((self.appended, Delivery::Client(reply, answer)));
    }

    /// Refuses who may not do what is asked.
    fn check_rights(&self, caller: &Caller<'_>, body: &Call) -> Result<(), RemoteError> {
        match body {
            Call::Kill(job) | Call::SetPriority(job, _) => {
                self.core.check(caller, Operation::Modify, *job)
            }
            Call::StopAttempt { attempt, .. } => {
                self.core.check(caller, Operation::Modify, attempt.task.job)
            }
            Call::Status(job) | Call::Tasks(job) => self.core.check(caller, Operation::View, *job),
            Call::Replay(attempt) => self.core.check(caller, Operation::View, attempt.task.job),
            Call::RefreshNodes => self.core.check_administrator(caller, "refreshNodes"),
            Call::RefreshQueues => self.core.check_administrator(caller, "refreshQueues"),
            Call::RefreshGroups => {
                self.core.check_administrator(caller, "refreshUserToGroupsMappings")
            }
            Call::Submit(_)
            | Call::List
            | Call::TrackerStatus
            | Call::Queues
            | Call::AdministeredQueues
            | Call::Workers => Ok(()),
        }
    }

    /// Reads the list of workers to be emptied; one that cannot be read changes nothing.
    fn refresh_nodes(&mut self) -> Result<Output, RemoteError> {
        let names = exclude::read(&self.exclude_file).map_err(|error| {
            let text = format!("Cannot read {}: {error}", self.exclude_file.display());
            RemoteError::new(ErrorKind::Unavailable, text)
        })?;
        Ok(self.core.set_excluded(names, self.now()))
    }

    /// Reads the rules of queues; what is wrong with them is told, and nothing changes.
    fn refresh_queues(&mut self) -> Result<Output, RemoteError> {
        let refuse = |text| RemoteError::new(ErrorKind::InvalidArgument, text);
        let Some(path) = &self.config_file else {
            return Err(refuse("This JobTracker has no configuration file".to_owned()));
        };
        let told = |text: String| {
            refuse(format!("The queues stay as they are: {}", text.replace('\n', " ")))
        };
        let config = Config::load(path).map_err(|error| told(client::error::chain(&error)))?;
        config.check().map_err(|error| told(client::error::chain(&error)))?;
        let rights = config.rights();
        let out = self.core.set_queues(config.queues, rights, self.now()).map_err(refuse)?;
        tracing::info!(file = %path.display(), "the rules of queues were read again");
        Ok(out)
    }

    fn done(&mut self, out: Output) -> Reply {
        self.take(out);
        Reply::Done
    }

    fn worker(&mut self, request: tracker::Request, reply: oneshot::Sender<tracker::Answer>) {
        let now = self.now();
        let answer = match request {
            tracker::Request::Register(register) => {
                tracing::info!(worker = %register.worker, host = register.host, slots = register.slot_count, "worker registers");
                self.core.register(&register, now).map(|out| {
                    self.take(out);
                    let poll_ms = u64::try_from(self.poll_max.as_millis()).unwrap_or(u64::MAX);
                    tracker::Reply::Registered { epoch: self.core.epoch(), poll_ms }
                })
            }
            tracker::Request::Report { worker, epoch, updates, fetch_failures } => {
                self.core.report(worker, epoch, updates, fetch_failures, now).map(|out| {
                    self.take(out);
                    tracker::Reply::Done
                })
            }
            tracker::Request::Poll { worker, epoch, received } => {
                match self.core.contact(worker, epoch, now) {
                    Ok(was_suspect) => {
                        let deadline = Instant::now() + self.poll_max;
                        let poll = Poll { received, deadline, reply };
                        if let Some(old) = self.polls.insert(worker, poll) {
                            answer_poll(old, None);
                        }
                        if was_suspect {
                            let out = self.core.tick(now);
                            self.take(out);
                        }
                        return self.deliveries.push_back((self.appended, Delivery::Wake(worker)));
                    }
                    Err(error) => Err(error),
                }
            }
        };
        self.deliveries.push_back((self.appended, Delivery::Worker(reply, answer)));
    }

    fn effect_done(&mut self, job: JobId, done: Option<EffectDone>) {
        if let Some(queue) = self.effect_queues.get_mut(&job) {
            queue.pop_front();
            match queue.front().cloned() {
                Some(next) => self.spawn(next),
                None => {
                    self.effect_queues.remove(&job);
                }
            }
        }
        if let Some(done) = done {
            let out = self.core.effect_done(job, done, self.now());
            self.take(out);
        }
    }

    fn tick(&mut self) {
        let out = self.core.tick(self.now());
        self.take(out);
        let now = Instant::now();
        let late = |poll: &Poll| poll.deadline <= now || poll.reply.is_closed();
        let expired: Vec<WorkerId> =
            self.polls.iter().filter(|(_, poll)| late(poll)).map(|(id, _)| *id).collect();
        for worker in expired {
            if let Some(poll) = self.polls.remove(&worker) {
                answer_poll(poll, None);
            }
        }
        let postponed: Vec<JobId> = self
            .watched
            .iter()
            .filter(|(_, watched)| watched.postponed)
            .map(|(job, _)| *job)
            .collect();
        postponed.into_iter().for_each(|job| self.tell_watchers(job));
        self.watched.retain(|_, watched| watched.sender.receiver_count() > 0);
        self.look();
        self.write_history();
    }

    /// Persists the edits of an output and queues the rest behind them.
    fn take(&mut self, out: Output) {
        let Output { edits, effects, changed, wake, submitted } = out;
        let over: Vec<JobId> = edits.iter().filter_map(ended_job).collect();
        if !edits.is_empty() {
            let bodies: Vec<Vec<u8>> = edits.iter().map(Edit::encode).collect();
            let mut txid = self.appended;
            self.appended = self.journal.append(bodies.clone());
            for (edit, body) in edits.iter().zip(&bodies) {
                txid = txid.next();
                self.rows.note(txid, edit, body, &self.core);
            }
            if let Some(changes) = self.rows.take_changes(false) {
                self.journal.checkpoint(self.appended, changes);
            }
        }
        let effects = effects.into_iter().map(Delivery::Effect);
        let wake = wake.into_iter().map(Delivery::Wake);
        let submitted = submitted.into_iter().map(|(job, result)| Delivery::Submitted(job, result));
        let changed = changed.into_iter().map(Delivery::News);
        let over = over.into_iter().map(Delivery::History);
        let at = self.appended;
        let all = effects.chain(wake).chain(submitted).chain(changed).chain(over);
        self.deliveries.extend(all.map(|what| (at, what)));
    }

    /// Lets out everything whose edits are on disk.
    fn deliver(&mut self) {
        while self.deliveries.front().is_some_and(|(at, _)| *at <= self.durable) {
            let Some((_, delivery)) = self.deliveries.pop_front() else { break };
            match delivery {
                // A receiver that is gone has hung up: nothing is lost.
                Delivery::Client(reply, answer) => drop(reply.send(answer)),
                Delivery::Worker(reply, answer) => drop(reply.send(answer)),
                Delivery::Effect(order) => self.begin_effect(order),
                Delivery::Wake(worker) => self.wake(worker),
                Delivery::Submitted(job, result) => {
                    for reply in self.submitters.remove(&job).unwrap_or_default() {
                        let _ = reply.send(result.clone().map(|()| Reply::Submitted(job)));
                    }
                }
                Delivery::News(job) => self.tell_watchers(job),
                Delivery::History(job) => {
                    self.histories_due.push(job);
                    self.write_history();
                }
            }
        }
    }

    /// Has the next history that is due written, away from the loop.
    fn write_history(&mut self) {
        while let Some(job) = self.histories_due.next(Instant::now()) {
            let Ok(picture) = self.core.picture(job) else {
                tracing::warn!(%job, "a job left the list before its history could be written");
                self.histories_due.written(job, true, Instant::now());
                continue;
            };
            let (history, events) = (self.history.clone(), self.events.clone());
            tokio::spawn(async move {
                let written = tokio::task::spawn_blocking(move || history.write(&picture)).await;
                let outcome = written.unwrap_or_else(|error| Err(error.into()));
                // The loop has ended at shutdown: a history that is missing is written at the next start.
                let _ = events.send(Event::HistoryWritten(job, outcome)).await;
            });
        }
    }

    fn wake(&mut self, worker: WorkerId) {
        let Some(poll) = self.polls.get(&worker) else { return };
        if poll.reply.is_closed() {
            self.polls.remove(&worker);
            return;
        }
        let Some(actions) = self.core.take_actions(worker, poll.received) else { return };
        if let Some(poll) = self.polls.remove(&worker) {
            answer_poll(poll, Some(actions));
        }
    }

    fn begin_effect(&mut self, order: EffectOrder) {
        let queue = self.effect_queues.entry(order.job).or_default();
        queue.push_back(order.clone());
        if queue.len() == 1 {
            self.spawn(order);
        }
    }

    fn spawn(&self, order: EffectOrder) {
        let (effects, events) = (self.effects.clone(), self.events.clone());
        tokio::spawn(async move {
            let done = effects.run(&order).await;
            // The loop has ended at shutdown: the effect is resumed at the next start.
            let _ = events.send(Event::EffectDone(order.job, done)).await;
        });
    }

    fn watch(&mut self, job: JobId) -> Result<watch::Receiver<Arc<JobReport>>, RemoteError> {
        let report = Arc::new(self.core.job_report(job)?);
        let fresh = || Watched {
            sender: watch::Sender::new(Arc::clone(&report)),
            last: Instant::now(),
            postponed: false,
        };
        let watched = self.watched.entry(job).or_insert_with(fresh);
        let mut receiver = watched.sender.subscribe();
        receiver.mark_changed();
        Ok(receiver)
    }

    fn tell_watchers(&mut self, job: JobId) {
        let Some(watched) = self.watched.get_mut(&job) else { return };
        let Ok(report) = self.core.job_report(job) else { return };
        let is_final = report.state.is_final();
        if !is_final && watched.last.elapsed() < NEWS_PAUSE {
            watched.postponed = true;
            return;
        }
        watched.last = Instant::now();
        watched.postponed = false;
        watched.sender.send_replace(Arc::new(report));
    }
}

/// The job that an edit ends.
fn ended_job(edit: &Edit) -> Option<JobId> {
    match edit {
        Edit::Ended { job, .. } => Some(*job),
        _ => None,
    }
}

fn answer_poll(poll: Poll, actions: Option<(u64, Vec<tracker::Action>)>) {
    let (number, actions) = actions.unwrap_or((poll.received, Vec::new()));
    let _ = poll.reply.send(Ok(tracker::Reply::Actions { number, actions }));
}

/// The answer of a JobTracker that is about to end.
pub(crate) fn stopping() -> RemoteError {
    RemoteError::new(ErrorKind::Unavailable, "The JobTracker is stopping")
}

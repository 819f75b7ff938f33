//! The JobTracker as the [`host`]'s machine: calls of clients and workers, and their pending answers.
//!
//! An event is applied to the core; its edits go to the log. The other results (answers, effects, news for watchers) wait until those
//! edits, and all before them, are committed. The machine answers no queries: those see the state by [`query::JobHost::view`].
//!
//! Invariants: no decision leaves before it is committed; a worker's poll is answered the moment there is an order for it. An order may
//! reach a worker together with later ones whose edits are not committed yet. Orders are harmless without their edits, because only its
//! edit decides a task.

pub(crate) mod query;
mod watchers;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, Instant};

use daemon::groups::Membership;
use daemon::page::live::Board;
use daemon::supervisor;
use host::{Batch, Machine, Release, Turn};
use journal::Change;
use parking_lot::RwLock;
use protocol::jobs::{Answer, Call, Request, TypedCall, calls};
use protocol::{Epoch, ErrorKind, JobId, RemoteError, WorkerId, tracker};
use tokio::sync::oneshot;

pub(crate) use self::watchers::Reports;
use self::watchers::{News, Watchers, Watching};
use crate::config::Config;
use crate::core::edit::Edit;
use crate::core::rights::Caller;
use crate::core::submit::Submission;
use crate::core::{EffectDone, EffectOrder, Now, Output};
use crate::effects::Effects;
use crate::exclude;
use crate::history::{Due as HistoriesDue, History};
use crate::resources::Room;
use crate::store::State;

/// Interval of checks for liveness and postponed news. Nothing on a job's path waits for it.
pub(crate) const TICK: Duration = Duration::from_millis(250);
/// Least time between two checks of the data on pages of the whole cluster, while one is open.
const OVERVIEW_PAUSE: Duration = Duration::from_millis(500);

/// The machine's input.
pub(crate) enum Event {
    /// A client wants a change; with the known groups of its user.
    Client(Request, Membership, oneshot::Sender<Answer>),
    /// A worker calls.
    Worker(tracker::Request, oneshot::Sender<tracker::Answer>),
    /// An effect has ended.
    EffectDone(JobId, Option<EffectDone>),
    /// The history of a job is written, or the write failed.
    HistoryWritten(JobId, io::Result<()>),
    /// Somebody who may view a job wants its reports from now on.
    Watch(JobId, oneshot::Sender<Watching>),
}

/// Results that wait for their edits.
pub(crate) enum Delivery {
    Client(oneshot::Sender<Answer>, Answer),
    Worker(oneshot::Sender<tracker::Answer>, tracker::Answer),
    Watching(oneshot::Sender<Watching>, Watching),
    News(News),
    /// The fingerprint of the overview as of now.
    Overview(Board, u64),
    Due(Due),
}

/// What the machine does once its edits are committed.
pub(crate) enum Due {
    Effect(EffectOrder),
    Wake(WorkerId),
    Submitted(JobId, Result<(), RemoteError>),
    History(JobId),
}

impl Release for Delivery {
    type Due = Due;

    fn release(self) -> Option<Due> {
        match self {
            // A closed receiver means the caller has hung up: nothing is lost.
            Delivery::Client(reply, answer) => drop(reply.send(answer)),
            Delivery::Worker(reply, answer) => drop(reply.send(answer)),
            Delivery::Watching(reply, watching) => drop(reply.send(watching)),
            Delivery::News(news) => news.send(),
            Delivery::Overview(board, fingerprint) => board.publish(fingerprint),
            Delivery::Due(due) => return Some(due),
        }
        None
    }
}

struct Poll {
    received: u64,
    /// On the host's clock.
    deadline: Duration,
    reply: oneshot::Sender<tracker::Answer>,
}

/// Work that takes time; its outcome comes back as an event.
pub(crate) type Work = Pin<Box<dyn Future<Output = Event> + Send>>;

/// What the machine works with besides its state.
pub(crate) struct Outside {
    pub(crate) effects: Effects,
    pub(crate) room: Room,
    /// Names workers to drain; empty if there is no such list.
    pub(crate) exclude_file: PathBuf,
    /// The file from which the rules of queues are reloaded.
    pub(crate) config_file: Option<PathBuf>,
    pub(crate) history: History,
    /// Where open pages learn that the overview has changed.
    pub(crate) board: Board,
    /// Has work done away from the host's thread.
    pub(crate) spawn: Box<dyn Fn(Work) + Send>,
    pub(crate) poll_max: Duration,
    /// This start.
    pub(crate) epoch: Epoch,
    /// Names the cluster if this is its first start.
    pub(crate) cluster_start: u64,
}

/// State that belongs to the host's thread.
pub(crate) struct JobTracker {
    outside: Outside,
    histories_due: HistoriesDue,
    polls: BTreeMap<WorkerId, Poll>,
    submitters: HashMap<JobId, Vec<oneshot::Sender<Answer>>>,
    watchers: Watchers,
    overview_checked: Instant,
    /// Effects of one job run one after the other; the first of each queue is under way.
    effect_queues: HashMap<JobId, VecDeque<EffectOrder>>,
}

/// One turn under way.
struct Step<'a> {
    state: &'a mut State,
    now: Now,
    turn: &'a mut Turn<Delivery>,
    /// Jobs whose pages are out of date after the turn.
    changed: BTreeSet<JobId>,
}

impl Step<'_> {
    /// Adds the edits of an output to the turn, and queues the rest after them.
    fn take(&mut self, out: Output) {
        let Output { edits, effects, changed, wake, submitted } = out;
        for edit in &edits {
            let body = edit.encode();
            let State { core, rows } = self.state;
            rows.note(self.turn.next_txid(), edit, &body, core);
            self.turn.edit(body);
        }
        let effects = effects.into_iter().map(Due::Effect);
        let wake = wake.into_iter().map(Due::Wake);
        let submitted = submitted.into_iter().map(|(job, result)| Due::Submitted(job, result));
        self.changed.extend(changed);
        let over = edits.iter().filter_map(ended_job).map(Due::History);
        let all = effects.chain(wake).chain(submitted).chain(over);
        all.for_each(|due| self.turn.release(Delivery::Due(due)));
    }
}

impl Machine for JobTracker {
    type State = State;
    type Event = Event;
    type Release = Delivery;
    type Defect = Infallible;

    fn begin(
        &mut self,
        state: &mut State,
        now: Now,
        turn: &mut Turn<Delivery>,
    ) -> Result<(), Infallible> {
        let step = &mut Step { state, now, turn, changed: BTreeSet::new() };
        let out = step.state.core.recovered(self.outside.epoch, self.outside.cluster_start, now);
        step.take(out);
        match self.refresh_nodes(step) {
            Ok(out) => step.take(out),
            Err(error) => tracing::error!(%error, "no worker is emptied"),
        }
        step.state.core.final_jobs().for_each(|job| self.history_due(step.state, job));
        self.write_history(step.state);
        Ok(())
    }

    fn judge(
        &mut self,
        state: &mut State,
        batch: Batch<'_, Event>,
        now: Now,
        turn: &mut Turn<Delivery>,
    ) -> Result<bool, Infallible> {
        let step = &mut Step { state, now, turn, changed: BTreeSet::new() };
        batch.events.for_each(|event| self.handle(event, step));
        if batch.is_tick {
            self.tick(step);
        }
        for job in std::mem::take(&mut step.changed) {
            if let Some(news) = self.watchers.news(&step.state.core, job, now) {
                step.turn.release(Delivery::News(news));
            }
        }
        Ok(false)
    }

    fn deliver(&mut self, state: &mut State, due: Due) {
        match due {
            Due::Effect(order) => self.begin_effect(order),
            Due::Wake(worker) => self.wake(state, worker),
            Due::Submitted(job, result) => {
                for reply in self.submitters.remove(&job).unwrap_or_default() {
                    let _ = reply.send(calls::Submit::answer(result.clone().map(|()| job)));
                }
            }
            Due::History(job) => {
                self.history_due(state, job);
                self.write_history(state);
            }
        }
    }

    fn after(&mut self, _: &RwLock<State>) {
        supervisor::alive();
    }

    fn dirty_count(state: &State) -> usize {
        state.rows.dirty_count()
    }

    fn rows(state: &mut State, _: Now) -> Vec<Change> {
        state.rows.take_changes()
    }

    fn stop(&mut self) {
        for (_, poll) in std::mem::take(&mut self.polls) {
            let _ = poll.reply.send(Err(stopping()));
        }
    }
}

impl JobTracker {
    /// Makes a machine with its surroundings.
    pub(crate) fn new(outside: Outside) -> Self {
        JobTracker {
            outside,
            histories_due: HistoriesDue::default(),
            polls: BTreeMap::new(),
            submitters: HashMap::new(),
            watchers: Watchers::default(),
            overview_checked: Instant::now(),
            effect_queues: HashMap::new(),
        }
    }

    fn handle(&mut self, event: Event, step: &mut Step<'_>) {
        match event {
            Event::Client(request, known, reply) => self.client(request, &known, reply, step),
            Event::Worker(request, reply) => self.worker(request, reply, step),
            Event::EffectDone(job, done) => self.effect_done(job, done, step),
            Event::HistoryWritten(job, outcome) => {
                if let Err(error) = &outcome {
                    tracing::warn!(%job, %error, "cannot write the history of a job, it is tried again");
                }
                self.histories_due.written(job, outcome.is_ok(), Instant::now());
                self.write_history(step.state);
            }
            Event::Watch(job, reply) => {
                let watching = self.watchers.add(&step.state.core, job, step.now);
                step.turn.release(Delivery::Watching(reply, watching));
            }
        }
    }

    /// Notifies open pages if the overview has changed.
    fn publish_overview(&mut self, step: &mut Step<'_>) {
        if self.outside.board.is_watched() && self.overview_checked.elapsed() >= OVERVIEW_PAUSE {
            self.overview_checked = Instant::now();
            let fingerprint = step.state.core.fingerprint();
            step.turn.release(Delivery::Overview(self.outside.board.clone(), fingerprint));
        }
    }

    fn client(
        &mut self,
        request: Request,
        known: &Membership,
        reply: oneshot::Sender<Answer>,
        step: &mut Step<'_>,
    ) {
        let Request { call, user, body, .. } = request;
        let caller =
            Caller { user: &user, groups: &known.groups, is_superuser: known.is_superuser };
        if let Err(refusal) = step.state.core.check_call(&caller, &body) {
            return step.turn.release(Delivery::Client(reply, Err(refusal)));
        }
        let now = step.now;
        let core = &mut step.state.core;
        let answer = match body {
            Call::Submit(spec) => {
                match self.outside.room.check().and_then(|()| core.submit(call, &user, *spec, now))
                {
                    Ok(Submission::Waiting(job, out)) => {
                        self.submitters.entry(job).or_default().push(reply);
                        return step.take(out);
                    }
                    Ok(Submission::Known(job)) => calls::Submit::answer(Ok(job)),
                    Err(error) => Err(error),
                }
            }
            Call::Kill(job) => {
                calls::Kill::answer(core.kill(job, &user, now).map(|out| step.take(out)))
            }
            Call::SetPriority { job, priority } => {
                let out = core.set_priority(job, priority, now);
                calls::SetPriority::answer(out.map(|out| step.take(out)))
            }
            Call::StopAttempt { attempt, fail } => {
                let out = core.stop_by_user(attempt, fail, now);
                calls::StopAttempt::answer(out.map(|out| step.take(out)))
            }
            Call::RefreshNodes => {
                calls::RefreshNodes::answer(self.refresh_nodes(step).map(|out| step.take(out)))
            }
            Call::RefreshQueues => {
                calls::RefreshQueues::answer(self.refresh_queues(step).map(|out| step.take(out)))
            }
            other => core.read(&caller, &other, now),
        };
        step.turn.release(Delivery::Client(reply, answer));
    }

    /// Reads the list of workers to drain; if it cannot be read, nothing changes.
    fn refresh_nodes(&self, step: &mut Step<'_>) -> Result<Output, RemoteError> {
        let names = exclude::read(&self.outside.exclude_file).map_err(|error| {
            let text = format!("Cannot read {}: {error}", self.outside.exclude_file.display());
            RemoteError::new(ErrorKind::InvalidArgument, text)
        })?;
        Ok(step.state.core.set_excluded(names, step.now))
    }

    /// Reads the rules of queues; if they are wrong, it returns the reason and changes nothing.
    fn refresh_queues(&self, step: &mut Step<'_>) -> Result<Output, RemoteError> {
        let refuse = |text| RemoteError::new(ErrorKind::InvalidArgument, text);
        let Some(path) = &self.outside.config_file else {
            return Err(refuse("This JobTracker has no configuration file".to_owned()));
        };
        let invalid = |text: String| {
            refuse(format!("The queues stay as they are: {}", text.replace('\n', " ")))
        };
        let config = Config::load(path).map_err(|error| invalid(protocol::error::chain(&error)))?;
        config.check().map_err(|error| invalid(protocol::error::chain(&error)))?;
        let rights = config.rights();
        let out = step.state.core.set_queues(config.queues, rights, step.now).map_err(refuse)?;
        tracing::info!(file = %path.display(), "the rules of queues were read again");
        Ok(out)
    }

    fn worker(
        &mut self,
        request: tracker::Request,
        reply: oneshot::Sender<tracker::Answer>,
        step: &mut Step<'_>,
    ) {
        let now = step.now;
        let answer = match request {
            tracker::Request::Register(register) => {
                let registered = step.state.core.register(&register, now);
                let (worker, host) = (register.worker, register.host);
                match &registered {
                    Ok(_) => {
                        tracing::info!(%worker, host, slots = register.slot_count, "worker registered");
                    }
                    Err(refusal) => tracing::warn!(%worker, host, %refusal, "worker refused"),
                }
                registered.map(|out| {
                    step.take(out);
                    let poll_ms =
                        u64::try_from(self.outside.poll_max.as_millis()).unwrap_or(u64::MAX);
                    let core = &step.state.core;
                    let (epoch, level) = (core.epoch(), core.level());
                    tracker::Reply::Registered { epoch, poll_ms, level }
                })
            }
            tracker::Request::Report { worker, epoch, updates, fetch_failures } => {
                step.state.core.report(worker, epoch, updates, fetch_failures, now).map(|out| {
                    step.take(out);
                    tracker::Reply::Done
                })
            }
            tracker::Request::Poll { worker, epoch, received } => {
                match step.state.core.contact(worker, epoch, now) {
                    Ok(was_suspect) => {
                        let deadline = now.at + self.outside.poll_max;
                        let poll = Poll { received, deadline, reply };
                        if let Some(old) = self.polls.insert(worker, poll) {
                            answer_poll(old, None);
                        }
                        if was_suspect {
                            let out = step.state.core.tick(now);
                            step.take(out);
                        }
                        return step.turn.release(Delivery::Due(Due::Wake(worker)));
                    }
                    Err(error) => Err(error),
                }
            }
        };
        step.turn.release(Delivery::Worker(reply, answer));
    }

    fn effect_done(&mut self, job: JobId, done: Option<EffectDone>, step: &mut Step<'_>) {
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
            let out = step.state.core.effect_done(job, done, step.now);
            step.take(out);
        }
    }

    fn tick(&mut self, step: &mut Step<'_>) {
        let out = step.state.core.tick(step.now);
        step.take(out);
        let now = step.now.at;
        let late = |poll: &Poll| poll.deadline <= now || poll.reply.is_closed();
        let expired: Vec<WorkerId> =
            self.polls.iter().filter(|(_, poll)| late(poll)).map(|(id, _)| *id).collect();
        for worker in expired {
            if let Some(poll) = self.polls.remove(&worker) {
                answer_poll(poll, None);
            }
        }
        step.changed.extend(self.watchers.postponed());
        self.publish_overview(step);
        self.write_history(step.state);
    }

    /// A job is over: its history is due, unless there is one or it would not stay.
    fn history_due(&mut self, state: &State, job: JobId) {
        let report = state.core.job_report(job);
        if report.map_or(true, |report| self.outside.history.wants(job, report.finished_ms)) {
            self.histories_due.push(job);
        }
    }

    /// Starts writing the next due history, away from the host's thread.
    fn write_history(&mut self, state: &State) {
        while let Some(job) = self.histories_due.next(Instant::now()) {
            let Ok(picture) = state.core.picture(job) else {
                tracing::warn!(%job, "a job left the list before its history could be written");
                self.histories_due.written(job, true, Instant::now());
                continue;
            };
            let history = self.outside.history.clone();
            (self.outside.spawn)(Box::pin(async move {
                let written = tokio::task::spawn_blocking(move || history.write(&picture)).await;
                let outcome = written.unwrap_or_else(|error| Err(error.into()));
                Event::HistoryWritten(job, outcome)
            }));
        }
    }

    fn wake(&mut self, state: &mut State, worker: WorkerId) {
        let Some(poll) = self.polls.get(&worker) else { return };
        if poll.reply.is_closed() {
            self.polls.remove(&worker);
            return;
        }
        let Some(actions) = state.core.take_actions(worker, poll.received) else { return };
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
        let effects = self.outside.effects.clone();
        (self.outside.spawn)(Box::pin(async move {
            let done = effects.run(&order).await;
            Event::EffectDone(order.job, done)
        }));
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

/// The answer of a JobTracker that is about to stop.
fn stopping() -> RemoteError {
    RemoteError::new(ErrorKind::Unavailable, "The JobTracker is stopping")
}

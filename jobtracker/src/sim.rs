//! The JobTracker as a simulation drives it: the machine that a daemon runs, on a log, a clock, messages and a NameNode that the simulation owns.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use daemon::groups::Membership;
use daemon::page::live::Board;
use futures_util::future::BoxFuture;
use host::{Logged, Now, Stepped, Taken};
use journal::{Change, RecoverError, Txid};
use parking_lot::Mutex;
use protocol::jobs::{self, JobState, Kind};
use protocol::namenode::{Answer, Request};
use protocol::{AttemptId, ClientId, Epoch, ErrorKind, JobId, RemoteError, WorkerId, tracker};
use tokio::sync::oneshot;

use crate::config::Config;
use crate::core::edit::Edit;
use crate::core::rights::Caller;
use crate::effects::{Calls, Effects, is_passing};
use crate::history::History;
use crate::resources::Room;
use crate::server::{Event, JobTracker, Outside, TICK, Work};
use crate::store::Replay;

/// What a sender gets back.
#[derive(Clone, Debug)]
pub enum Said {
    /// To a client.
    Client(jobs::Answer),
    /// To a worker.
    Worker(tracker::Answer),
}

/// What an edit decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The attempt is the one of its task.
    Won(AttemptId, WorkerId),
    /// The output of this map is gone.
    Lost(AttemptId),
    /// The attempt counts against its task's limit.
    Failed(AttemptId),
    /// The job is over.
    Ended(JobId, JobState),
}

/// Somebody who waits for an answer.
enum Waits {
    Client(oneshot::Receiver<jobs::Answer>),
    Worker(oneshot::Receiver<tracker::Answer>),
    /// A reader, who has the answer once this is committed.
    View(Txid, jobs::Answer),
}

/// Calls to the NameNode.
#[derive(Default)]
struct Asked {
    count: u64,
    fresh: Vec<(u64, Request)>,
    waiting: BTreeMap<u64, oneshot::Sender<Answer>>,
}

struct Line(Arc<Mutex<Asked>>);

impl Calls for Line {
    fn call(&self, request: Request) -> BoxFuture<'_, Answer> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut asked = self.0.lock();
            asked.count += 1;
            let number = asked.count;
            asked.fresh.push((number, request));
            asked.waiting.insert(number, sender);
        }
        let away = || Err(RemoteError::new(ErrorKind::Unavailable, "the NameNode is away"));
        Box::pin(async move { receiver.await.unwrap_or_else(|_| away()) })
    }
}

/// A JobTracker.
pub struct Master {
    host: Stepped<JobTracker>,
    events: Vec<Event>,
    waiting: Vec<(u64, Waits)>,
    committed: Txid,
    asked: Arc<Mutex<Asked>>,
    /// Work that the machine has begun and `working` does not have yet.
    begun: Arc<Mutex<Vec<Work>>>,
    working: Vec<Work>,
}

impl Master {
    /// Starts a JobTracker from what the log holds; all of it is committed. Returns it with the edits of its first turn.
    ///
    /// # Errors
    /// [`RecoverError`] if the log does not load.
    pub fn start(
        config: &Config,
        logged: &Logged,
        (epoch, seed, now): (u64, u64, Now),
    ) -> Result<(Self, Taken), RecoverError> {
        let mut replay = Replay::new(config.rules());
        let last = logged.restore(&mut replay)?;
        let asked = Arc::<Mutex<Asked>>::default();
        let begun = Arc::<Mutex<Vec<Work>>>::default();
        let mut client = [0; 16];
        client[..8].copy_from_slice(&seed.to_le_bytes());
        let works = Arc::clone(&begun);
        let machine = JobTracker::new(Outside {
            effects: Effects::new(Box::new(Line(Arc::clone(&asked))), ClientId(client)),
            room: Room::new(Vec::new(), 0),
            exclude_file: PathBuf::new(),
            config_file: None,
            history: History::none(),
            board: Board::default(),
            spawn: Box::new(move |work| works.lock().push(work)),
            poll_max: Duration::from_millis(config.poll_ms),
            epoch: Epoch(epoch),
            cluster_start: 1,
        });
        let (host, taken) = Stepped::begin(machine, replay.finish(), last, now)
            .unwrap_or_else(|never| match never {});
        let (events, waiting, working) = (Vec::new(), Vec::new(), Vec::new());
        let committed = last;
        Ok((Master { host, events, waiting, committed, asked, begun, working }, taken))
    }

    /// A client's request, of a user who may do everything; [`Master::answers`] has the answer under this number.
    pub fn client(&mut self, number: u64, request: jobs::Request, now: Now) {
        if request.body.kind() == Kind::Read {
            let caller = Caller { user: &request.user, groups: &[], is_superuser: true };
            let answer = self.host.state().core.read(&caller, &request.body, now);
            self.waiting.push((number, Waits::View(self.host.last(), answer)));
            return;
        }
        let (sender, receiver) = oneshot::channel();
        let known = Membership { groups: [].into(), is_superuser: true };
        self.events.push(Event::Client(request, known, sender));
        self.waiting.push((number, Waits::Client(receiver)));
    }

    /// A worker's message.
    pub fn worker(&mut self, number: u64, request: tracker::Request) {
        let (sender, receiver) = oneshot::channel();
        self.events.push(Event::Worker(request, sender));
        self.waiting.push((number, Waits::Worker(receiver)));
    }

    /// Takes a turn.
    pub fn turn(&mut self, is_tick: bool, now: Now) -> Taken {
        self.host.turn(&mut self.events, is_tick, now).unwrap_or_else(|never| match never {})
    }

    /// True if a turn has something to do before the next tick.
    pub fn is_due(&self) -> bool {
        !self.events.is_empty()
    }

    /// The log has committed everything up to `txid`.
    pub fn committed(&mut self, txid: u64) {
        self.committed = Txid(txid);
        self.host.committed(self.committed);
        self.work();
    }

    /// Answers that may leave now, each under its number.
    pub fn answers(&mut self) -> Vec<(u64, Said)> {
        let mut said = Vec::new();
        let committed = self.committed;
        self.waiting.retain_mut(|(number, waits)| {
            let answer = match waits {
                Waits::Client(receiver) => receiver.try_recv().map(Said::Client),
                Waits::Worker(receiver) => receiver.try_recv().map(Said::Worker),
                Waits::View(txid, answer) if *txid <= committed => Ok(Said::Client(answer.clone())),
                Waits::View(..) => Err(oneshot::error::TryRecvError::Empty),
            };
            let waits_on = matches!(answer, Err(oneshot::error::TryRecvError::Empty));
            said.extend(answer.map(|answer| (*number, answer)));
            waits_on
        });
        said
    }

    /// Requests to the NameNode since the last call; each is to be sent until it is answered.
    pub fn calls(&mut self) -> Vec<(u64, Request)> {
        std::mem::take(&mut self.asked.lock().fresh)
    }

    /// The NameNode's answer to one of them. False if it must be asked again, because it will answer differently after a while.
    pub fn answered(&mut self, number: u64, answer: Answer) -> bool {
        if answer.as_ref().is_err_and(|refusal| is_passing(refusal.kind)) {
            return false;
        }
        if let Some(sender) = self.asked.lock().waiting.remove(&number) {
            // The receiver is part of the work that waits in this very struct.
            let _ = sender.send(answer);
        }
        self.work();
        true
    }

    /// Goes on with the machine's work as far as it does not wait for the NameNode.
    fn work(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let mut is_moving = true;
        while is_moving {
            self.working.append(&mut self.begun.lock());
            let before = self.working.len();
            let events = &mut self.events;
            self.working.retain_mut(|work| match work.as_mut().poll(&mut context) {
                Poll::Ready(event) => {
                    events.push(event);
                    false
                }
                Poll::Pending => true,
            });
            // What has ended may have held up the rest.
            is_moving = self.working.len() < before;
        }
    }

    /// True if the machine has no work under way.
    pub fn is_idle(&self) -> bool {
        self.working.is_empty() && self.begun.lock().is_empty() && self.events.is_empty()
    }

    /// The last transaction in the state, committed or not.
    pub fn last(&self) -> u64 {
        self.host.last().0
    }

    /// Rows that changed since the last call, as of [`Master::last`].
    pub fn rows(&mut self, now: Now) -> Vec<Change> {
        self.host.rows(now)
    }

    /// How often the daemon sends its machine a tick.
    pub fn tick_interval() -> Duration {
        TICK
    }
}

/// What an edit of the log decides, if it is about tasks or the end of a job.
pub fn decision(edit: &[u8]) -> Option<Decision> {
    match Edit::decode(edit).ok()? {
        Edit::AttemptSucceeded { attempt, ran, .. } => Some(Decision::Won(attempt, ran.worker)),
        Edit::OutputLost { attempt, .. } => Some(Decision::Lost(attempt)),
        Edit::AttemptFailed { attempt, .. } => Some(Decision::Failed(attempt)),
        Edit::Ended { job, state, .. } => Some(Decision::Ended(job, state)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use protocol::CallId;
    use protocol::jobs::{Call, Priority, calls};

    use super::*;
    use crate::core::spec;

    const JOB: JobId = JobId { cluster_start: 1, number: 1 };

    fn at(seconds: u64) -> Now {
        Now { at: Duration::from_secs(seconds), wall_ms: seconds * 1000 }
    }

    fn request(number: u64, call: impl Into<Call>) -> jobs::Request {
        jobs::Request::new(CallId { client: ClientId([1; 16]), number }, "ann", call)
    }

    #[test]
    fn watchers_learn_only_what_is_committed() {
        let started = Master::start(&Config::default(), &Logged::default(), (1, 1, at(0)));
        let (mut master, _) = started.unwrap();
        master.client(1, request(1, calls::Submit { spec: Box::new(spec(1, &[], 0)) }), at(1));
        master.turn(false, at(1));
        let (reply, mut reports) = oneshot::channel();
        master.events.push(Event::Watch(JOB, reply));
        master.turn(false, at(1));
        master.committed(0);
        assert!(reports.try_recv().is_err(), "the job may not exist yet");
        master.committed(master.last());
        let mut reports = reports.try_recv().unwrap().unwrap();
        assert_eq!(reports.borrow_and_update().priority, Priority::Normal);

        let mut prioritized = |number: u64, priority| {
            let call = calls::SetPriority { job: JOB, priority };
            master.client(number, request(number, call), at(number));
            master.turn(false, at(number));
            master.last()
        };
        let (first, second) = (prioritized(2, Priority::High), prioritized(3, Priority::Low));
        assert!(first < second);
        master.turn(true, at(4));
        assert!(!reports.has_changed().unwrap());
        master.committed(first);
        assert_eq!(reports.borrow_and_update().priority, Priority::High);
        master.committed(second);
        assert_eq!(reports.borrow_and_update().priority, Priority::Low);
    }
}

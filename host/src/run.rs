//! A host from its opening to its end: the thread that takes turns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use journal::Txid;
use parking_lot::{RwLock, RwLockWriteGuard};
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

use crate::QUEUE_MAX;
use crate::clock::{Clock, Now};
use crate::error::{End, Failure};
use crate::gate::Gate;
use crate::handle::{Handle, Mailbox, Message, Shared};
use crate::log::{Follower, Log};
use crate::machine::{Batch, Machine, Turn};

/// Events in one turn, and a group more: bounds how long the lock is held.
pub const BATCH_MAX: usize = 512;
/// Bytes of checkpoint rows that may wait for the disk: 64 MiB. Beyond that rows stay dirty and merge.
pub const CHECKPOINT_BACKLOG_BYTES_MAX: u64 = 64 << 20;

/// When rows are handed over for the checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Number of changed rows that are handed over at once.
    pub rows: usize,
    /// Time since the last hand-over after which any changed rows are handed over.
    pub interval: Duration,
}

/// A host that has no log and no state yet.
pub struct Opening<M: Machine> {
    gate: Arc<Gate<M::Release>>,
    mailbox: Mailbox<M::Event>,
    inbox: mpsc::Receiver<Message<M::Event>>,
    clock: Clock,
}

/// What a host starts with.
pub struct Start<M: Machine> {
    /// Name of its thread.
    pub name: &'static str,
    /// The machine to run.
    pub machine: M,
    /// As the log restored it.
    pub state: M::State,
    /// Where edits go. Its follower is the host's.
    pub log: Box<dyn Log>,
    /// The last transaction in `state`; committed.
    pub last: Txid,
    /// When rows go to the checkpoint.
    pub policy: Policy,
    /// How often the machine gets a tick.
    pub tick: Duration,
}

impl<M: Machine> Opening<M> {
    /// `on_end` is called when the host ends, or will never commit anything again.
    pub fn new(on_end: impl Fn() + Send + Sync + 'static) -> Self {
        let (sender, inbox) = mpsc::channel(QUEUE_MAX);
        let end = Arc::new(OnceLock::new());
        let wake = {
            let sender = sender.clone();
            // A full queue wakes the host as well.
            move || drop(sender.try_send(Message::Due))
        };
        let gate = Gate::new(Arc::clone(&end), Box::new(wake), Box::new(on_end));
        let mailbox = Mailbox { sender, end };
        Opening { gate: Arc::new(gate), mailbox, inbox, clock: Clock::start() }
    }

    /// The follower that the log must be opened with.
    pub fn follower(&self) -> Arc<dyn Follower> {
        Arc::clone(&self.gate) as Arc<dyn Follower>
    }

    /// Where events for the machine are sent; it may keep one for what it begins itself.
    pub fn mailbox(&self) -> Mailbox<M::Event> {
        self.mailbox.clone()
    }

    /// The clock that the machine will get its time from.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Takes the first turn, then starts the thread. Must be called on a runtime; the machine may use it.
    ///
    /// # Errors
    /// [`Failure::Machine`] if the first turn fails, [`Failure::Thread`] if the thread cannot be started.
    pub fn start(self, start: Start<M>) -> Result<Running<M>, Failure<M::Defect>> {
        let Opening { gate, mailbox, inbox, clock } = self;
        let Start { name, machine, state, log, last, policy, tick } = start;
        gate.committed(last);
        let txid = AtomicU64::new(last.0);
        let shared = Arc::new(Shared { state: RwLock::new(state), txid, gate, clock });
        let mut host = Host {
            machine,
            inbox,
            policy,
            checkpointed: Duration::ZERO,
            batch: Vec::new(),
            dirty_count: 0,
            ending: Ending { shared: Arc::clone(&shared), log },
        };
        let began = host.turn(clock.now(), |machine, state, _, now, turn| {
            machine.begin(state, now, turn).map(|()| false)
        });
        began.map_err(Failure::Machine)?;
        let runtime = runtime::Handle::current();
        let ticker = runtime.spawn(send_ticks(mailbox.clone(), tick)).abort_handle();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _entered = runtime.enter();
            host.run()
        });
        let thread = Some(thread.map_err(Failure::Thread)?);
        Ok(Running { handle: Handle::new(mailbox, shared), thread, ticker })
    }
}

/// A host's thread.
pub struct Running<M: Machine> {
    handle: Handle<M>,
    thread: Option<JoinHandle<Result<(), M::Defect>>>,
    ticker: AbortHandle,
}

impl<M: Machine> Running<M> {
    /// The ways to the host.
    pub fn handle(&self) -> Handle<M> {
        self.handle.clone()
    }

    /// Has the host take what was sent before, write the checkpoint and end; or reports how it has ended.
    ///
    /// # Errors
    /// [`Failure`], unless the host ended because of this.
    pub async fn stop(mut self) -> Result<(), Failure<M::Defect>> {
        self.ticker.abort();
        // The host may have ended already.
        let _ = self.handle.message(Message::Stop).await;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        match self.handle.end.get() {
            Some(end) if *end != End::Stopping => Err(Failure::Log(end.clone())),
            _ => match joined {
                Ok(Ok(ended)) => ended.map_err(Failure::Machine),
                _ => Err(Failure::Panicked),
            },
        }
    }
}

impl<M: Machine> Drop for Running<M> {
    fn drop(&mut self) {
        self.ticker.abort();
        let _ = self.handle.sender.try_send(Message::Stop);
    }
}

/// What the thread works on.
struct Host<M: Machine> {
    machine: M,
    inbox: mpsc::Receiver<Message<M::Event>>,
    policy: Policy,
    checkpointed: Duration,
    /// Events of this turn; empty between turns.
    batch: Vec<M::Event>,
    /// Rows that changed, as of the last turn.
    dirty_count: usize,
    /// Last, so that the machine has gone when it comes to its end.
    ending: Ending<M>,
}

/// The end of a host, however it comes.
struct Ending<M: Machine> {
    shared: Arc<Shared<M>>,
    log: Box<dyn Log>,
}

impl<M: Machine> Drop for Ending<M> {
    fn drop(&mut self) {
        self.log.close();
        self.shared.gate.close(End::Stopping);
    }
}

/// Orders that came with a batch.
#[derive(Default)]
struct Orders {
    is_tick: bool,
    checkpoints: Vec<oneshot::Sender<()>>,
    stops: bool,
}

impl<M: Machine> Host<M> {
    /// Takes turns until it is stopped.
    fn run(mut self) -> Result<(), M::Defect> {
        let mut more = false;
        loop {
            let first = match more {
                true => self.inbox.try_recv().ok(),
                false => Some(self.inbox.blocking_recv().unwrap_or(Message::Stop)),
            };
            let Orders { is_tick, checkpoints, stops } = self.gather(first);
            let now = self.ending.shared.clock.now();
            more = self.turn(now, |machine, state, events, now, turn| {
                machine.judge(state, Batch { events: events.drain(..), is_tick }, now, turn)
            })?;
            self.machine.after(&self.ending.shared.state);
            self.checkpoint(now, stops || !checkpoints.is_empty());
            for sender in checkpoints {
                // Whoever asked may have gone.
                let _ = sender.send(());
            }
            if stops {
                self.machine.stop();
                return Ok(());
            }
        }
    }

    /// Fills the batch with the messages that wait.
    fn gather(&mut self, first: Option<Message<M::Event>>) -> Orders {
        let mut orders = Orders::default();
        let mut next = first;
        while let Some(message) = next {
            let ends = match message {
                Message::Event(event) => {
                    let is_heavy = M::is_heavy(&event);
                    self.batch.push(event);
                    is_heavy || self.batch.len() >= BATCH_MAX
                }
                Message::Events(events) => {
                    let is_heavy = events.iter().any(M::is_heavy);
                    self.batch.extend(events);
                    is_heavy || self.batch.len() >= BATCH_MAX
                }
                Message::Due => false,
                Message::Tick => {
                    orders.is_tick = true;
                    true
                }
                Message::Checkpoint(sender) => {
                    orders.checkpoints.push(sender);
                    true
                }
                Message::Stop => {
                    orders.stops = true;
                    true
                }
            };
            if ends {
                break;
            }
            next = self.inbox.try_recv().ok();
        }
        orders
    }

    /// Changes the state under its lock, appends the edits, and holds back the rest. True if there is more to do at once.
    fn turn(
        &mut self,
        now: Now,
        judge: impl FnOnce(
            &mut M,
            &mut M::State,
            &mut Vec<M::Event>,
            Now,
            &mut Turn<M::Release>,
        ) -> Result<bool, M::Defect>,
    ) -> Result<bool, M::Defect> {
        let Ending { shared, log } = &self.ending;
        let (turn, more) = {
            let mut state = shared.state.write();
            let mut turn = Turn::after(Txid(shared.txid.load(Ordering::Relaxed)));
            let more = judge(&mut self.machine, &mut state, &mut self.batch, now, &mut turn)?;
            self.dirty_count = M::dirty_count(&state);
            shared.txid.store(turn.last.0, Ordering::Release);
            // Readers that wait come before the next turn.
            RwLockWriteGuard::unlock_fair(state);
            (turn, more)
        };
        if !turn.edits.is_empty() {
            let appended = log.append(turn.edits);
            assert_eq!(appended, turn.last, "the host is the log's only writer");
        }
        let due = shared.gate.push(turn.last, turn.releases);
        if !due.is_empty() {
            let mut state = shared.state.write();
            due.into_iter().for_each(|due| self.machine.deliver(&mut state, due));
        }
        Ok(more)
    }

    /// Hands changed rows to the log when there are enough, or it is time.
    fn checkpoint(&mut self, now: Now, is_wanted: bool) {
        let Policy { rows, interval } = self.policy;
        let is_due = self.dirty_count >= rows || now.at - self.checkpointed >= interval;
        if self.dirty_count == 0 || !(is_due || is_wanted) {
            return;
        }
        let Ending { shared, log } = &self.ending;
        if log.backlog() > CHECKPOINT_BACKLOG_BYTES_MAX && !is_wanted {
            return;
        }
        let rows = M::rows(&mut shared.state.write(), now);
        log.checkpoint(Txid(shared.txid.load(Ordering::Relaxed)), rows);
        self.checkpointed = now.at;
        self.dirty_count = 0;
    }
}

/// Sends ticks to a host.
async fn send_ticks<E>(mailbox: Mailbox<E>, tick: Duration) {
    let mut interval = tokio::time::interval(tick);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if mailbox.message(Message::Tick).await.is_err() {
            return;
        }
    }
}

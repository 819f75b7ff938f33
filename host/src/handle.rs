//! The ways to a host from other threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use journal::Txid;
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::{mpsc, oneshot};

use crate::clock::{Clock, Now};
use crate::error::End;
use crate::gate::Gate;
use crate::machine::Machine;

/// Longest time, but for the one read that exceeds it, for which several reads keep the state from others: a millisecond is a few hundred small reads, and what
/// a change takes anyway.
const VIEWS_MAX: Duration = Duration::from_millis(1);

/// Messages to a host's thread.
pub(crate) enum Message<E> {
    Event(E),
    /// Several that belong into one turn.
    Events(Vec<E>),
    /// Time has passed.
    Tick,
    /// Something is due for the machine.
    Due,
    /// All rows that changed must be handed to the log.
    Checkpoint(oneshot::Sender<()>),
    Stop,
}

/// Sends events to a host.
#[derive(Debug)]
pub struct Mailbox<E> {
    pub(crate) sender: mpsc::Sender<Message<E>>,
    pub(crate) end: Arc<OnceLock<End>>,
}

impl<E> Clone for Mailbox<E> {
    fn clone(&self) -> Self {
        Mailbox { sender: self.sender.clone(), end: Arc::clone(&self.end) }
    }
}

impl<E> Mailbox<E> {
    /// Sends an event; waits while the host has too much to do.
    ///
    /// # Errors
    /// Why the host has ended.
    pub async fn send(&self, event: E) -> Result<(), End> {
        self.message(Message::Event(event)).await
    }

    /// Sends an event and waits for its answer.
    ///
    /// # Errors
    /// Why the host has ended, maybe after it took the event.
    pub async fn ask<T>(&self, event: impl FnOnce(oneshot::Sender<T>) -> E) -> Result<T, End> {
        let (sender, answer) = oneshot::channel();
        self.send(event(sender)).await?;
        answer.await.map_err(|_| self.end())
    }

    /// Sends events that are taken in one turn, and waits for their answers: so one sync of the log is enough for all.
    ///
    /// # Errors
    /// As [`Mailbox::ask`]; each has its own outcome.
    pub async fn ask_all<T, F: FnOnce(oneshot::Sender<T>) -> E>(
        &self,
        events: Vec<F>,
    ) -> Vec<Result<T, End>> {
        let with_sender = |event: F| {
            let (sender, answer) = oneshot::channel();
            (event(sender), answer)
        };
        let (events, answers): (Vec<E>, Vec<_>) = events.into_iter().map(with_sender).unzip();
        // If it cannot be sent, the senders of all answers are gone.
        let _ = self.message(Message::Events(events)).await;
        let mut outcomes = Vec::with_capacity(answers.len());
        for answer in answers {
            outcomes.push(answer.await.map_err(|_| self.end()));
        }
        outcomes
    }

    /// Has the host act on the current time. If it has too much to do, the next tick does so.
    pub fn tick(&self) {
        let _ = self.sender.try_send(Message::Tick);
    }

    /// Hands all rows that changed over to the log.
    ///
    /// # Errors
    /// Why the host has ended.
    pub async fn checkpoint(&self) -> Result<(), End> {
        let (sender, done) = oneshot::channel();
        self.message(Message::Checkpoint(sender)).await?;
        done.await.map_err(|_| self.end())
    }

    /// Messages that wait for the host.
    pub fn waiting_count(&self) -> usize {
        self.sender.max_capacity() - self.sender.capacity()
    }

    pub(crate) async fn message(&self, message: Message<E>) -> Result<(), End> {
        self.sender.send(message).await.map_err(|_| self.end())
    }

    fn end(&self) -> End {
        self.end.get().cloned().unwrap_or(End::Stopping)
    }
}

/// All ways to a host: its mailbox, and its state.
pub struct Handle<M: Machine> {
    mailbox: Mailbox<M::Event>,
    pub(crate) shared: Arc<Shared<M>>,
}

impl<M: Machine> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Handle { mailbox: self.mailbox.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<M: Machine> std::ops::Deref for Handle<M> {
    type Target = Mailbox<M::Event>;

    fn deref(&self) -> &Self::Target {
        &self.mailbox
    }
}

/// What a host's thread shares with handles.
pub(crate) struct Shared<M: Machine> {
    pub(crate) state: RwLock<M::State>,
    /// The last transaction in `state`; changes only under its write lock.
    pub(crate) txid: AtomicU64,
    pub(crate) gate: Arc<Gate<M::Release>>,
    pub(crate) clock: Clock,
}

impl<M: Machine> Handle<M> {
    pub(crate) fn new(mailbox: Mailbox<M::Event>, shared: Arc<Shared<M>>) -> Self {
        Handle { mailbox, shared }
    }

    /// Reads the state, and returns the result once what was read is committed. `read` gets the last transaction in the state.
    ///
    /// # Errors
    /// Why the host has ended.
    pub async fn view<T>(&self, read: impl FnOnce(&M::State, Txid) -> T) -> Result<T, End> {
        let (seen, txid) = {
            let state = self.shared.state.read();
            let txid = Txid(self.shared.txid.load(Ordering::Acquire));
            (read(&state, txid), txid)
        };
        self.shared.gate.passed(txid).await?;
        Ok(seen)
    }

    /// As [`Handle::view`] for several reads, one for each item. After a millisecond the state and the thread are free for others, so they may see different
    /// states.
    ///
    /// # Errors
    /// Why the host has ended.
    pub async fn view_each<I, T>(
        &self,
        items: impl IntoIterator<Item = I, IntoIter: Send>,
        mut read: impl FnMut(I, &M::State, Txid) -> T,
    ) -> Result<Vec<T>, End> {
        let mut items = items.into_iter().peekable();
        let (mut seen, mut newest) = (Vec::new(), None);
        while items.peek().is_some() {
            {
                let state = self.shared.state.read();
                let txid = Txid(self.shared.txid.load(Ordering::Acquire));
                let end = Instant::now() + VIEWS_MAX;
                for item in items.by_ref() {
                    seen.push(read(item, &state, txid));
                    if Instant::now() >= end {
                        break;
                    }
                }
                newest = Some(txid);
            }
            tokio::task::yield_now().await;
        }
        if let Some(txid) = newest {
            self.shared.gate.passed(txid).await?;
        }
        Ok(seen)
    }

    /// The state as it is, committed or not: for figures and checks, never for an answer to a client.
    pub fn state(&self) -> RwLockReadGuard<'_, M::State> {
        self.shared.state.read()
    }

    /// The last committed transaction.
    pub fn committed(&self) -> Txid {
        self.shared.gate.txid()
    }

    /// The time by the host's clock.
    pub fn now(&self) -> Now {
        self.shared.clock.now()
    }
}

//! The NameNode as a simulation drives it: the machine that a daemon runs, on a log, a clock and messages that the simulation owns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use host::{Logged, Now, Stepped, Taken};
use journal::{Change, RecoverError, Txid};
use protocol::auth::Key;
use protocol::datanode::{self, Reply as NodeReply, Request as NodeRequest};
use protocol::namenode::{Answer, Kind, Request};
use protocol::token::TokenKeys;
use protocol::{ClusterId, Epoch};
use tokio::sync::oneshot;

use crate::config::Config;
use crate::core::query::Reader;
use crate::core::random::Generator;
use crate::core::state::State;
use crate::error::CoreError;
use crate::groups::Membership;
use crate::migration::Stored;
use crate::nodes::NodeTable;
use crate::recover::Recovering;
use crate::server::{Answered, Event, Founder, NameNode, Notes, moment, read};
use crate::service::check_bounds;
use crate::settings_of;
use crate::startup::{Startup, Work};

/// What a sender gets back.
#[derive(Clone, Debug)]
pub enum Said {
    /// To a client.
    Client(Answer),
    /// To a DataNode.
    Datanode(datanode::Answer),
}

/// Somebody who waits for an answer.
enum Waits {
    Client(oneshot::Receiver<Answered>),
    Datanode(oneshot::Receiver<datanode::Answer>),
    /// A reader, who has the answer once this is committed.
    View(Txid, Answer),
}

/// A NameNode.
pub struct Master {
    host: Stepped<NameNode>,
    nodes: Arc<NodeTable>,
    epoch: Epoch,
    events: Vec<Event>,
    waiting: VecDeque<(u64, Waits)>,
    committed: Txid,
    wants_tick: bool,
}

impl Master {
    /// Starts a NameNode from what the log holds; all of it is committed. Returns it with the edits of its first turn.
    ///
    /// # Errors
    /// [`RecoverError`] if the log does not load.
    ///
    /// # Panics
    /// If the first turn fails.
    pub fn start(
        config: &Config,
        secret: &Key,
        logged: &Logged,
        (epoch, seed, now): (u64, u64, Now),
    ) -> Result<(Self, Taken), RecoverError> {
        let mut recovering = Recovering::default();
        let last = logged.restore(&mut recovering)?;
        let epoch = Epoch(epoch);
        let settings = settings_of(config, epoch, TokenKeys::new(secret));
        let state = State::new(recovering.loaded, settings, Generator::new(seed), moment(now));
        let nodes = Arc::new(NodeTable::new(config.stale_ms, config.dead_ms, config.tick_ms()));
        let machine = NameNode {
            nodes: Arc::clone(&nodes),
            startup: Arc::new(Startup::loaded(Work::default(), Work::default())),
            epoch,
            heartbeat_ms: config.heartbeat_ms,
            founder: Founder {
                cluster: ClusterId([5; 16]),
                owner: config.superuser(),
                group: config.supergroup.clone(),
            },
            reports: VecDeque::new(),
            stored: Stored::default(),
            notes: Notes::default(),
            told_safe: None,
        };
        let (host, taken) =
            Stepped::begin(machine, state, last, now).expect("the first turn of a NameNode");
        let (events, waiting) = (Vec::new(), VecDeque::new());
        let (committed, wants_tick) = (last, false);
        Ok((Master { host, nodes, epoch, events, waiting, committed, wants_tick }, taken))
    }

    /// A client's request, as the superuser; [`Master::answers`] has the answer under this number.
    pub fn client(&mut self, number: u64, request: Request, now: Now) {
        let membership = Membership::of_simulation();
        if request.body.kind() != Kind::Read {
            let (sender, receiver) = oneshot::channel();
            self.events.push(Event::Call(Box::new(request), membership, sender));
            self.waiting.push_back((number, Waits::Client(receiver)));
            return;
        }
        let caller = membership.caller(&request.user);
        let txid = self.host.last();
        let reader = Reader { caller, host: &request.host, now: moment(now), txid: txid.0 };
        let answer = read(&self.host.state(), &self.nodes, &request.body, reader);
        self.waiting.push_back((number, Waits::View(txid, answer)));
    }

    /// A DataNode's message.
    pub fn datanode(&mut self, number: u64, request: NodeRequest, now: Now) {
        let (sender, receiver) = oneshot::channel();
        self.waiting.push_back((number, Waits::Datanode(receiver)));
        let answer = match (check_bounds(&request), request) {
            (Err(refusal), _) => Err(refusal),
            (Ok(()), NodeRequest::Heartbeat(sender, beat)) => {
                let taken = self.nodes.heartbeat((sender, &beat), self.epoch, moment(now).mono_ms);
                taken.map(|taken| {
                    self.wants_tick |= taken.first;
                    NodeReply::Commands { epoch: self.epoch, commands: taken.commands }
                })
            }
            (Ok(()), request) => {
                self.events.push(Event::Datanode(Box::new(request), sender));
                return;
            }
        };
        // The receiver waits in this very struct.
        let _ = sender.send(answer);
    }

    /// Takes a turn.
    ///
    /// # Errors
    /// A defect: the daemon would end.
    pub fn turn(&mut self, is_tick: bool, now: Now) -> Result<Taken, CoreError> {
        let is_tick = is_tick | std::mem::take(&mut self.wants_tick);
        self.host.turn(&mut self.events, is_tick, now)
    }

    /// True if a turn has something to do before the next tick.
    pub fn is_due(&self) -> bool {
        self.wants_tick || !self.events.is_empty()
    }

    /// The log has committed everything up to `txid`.
    pub fn committed(&mut self, txid: u64) {
        self.committed = Txid(txid);
        self.host.committed(Txid(txid));
    }

    /// Answers that may leave now, each under its number.
    pub fn answers(&mut self) -> Vec<(u64, Said)> {
        let mut said = Vec::new();
        let committed = self.committed;
        self.waiting.retain_mut(|(number, waits)| {
            let answer = match waits {
                Waits::Client(receiver) => {
                    receiver.try_recv().ok().map(|answered| Said::Client(answered.answer))
                }
                Waits::Datanode(receiver) => receiver.try_recv().ok().map(Said::Datanode),
                Waits::View(txid, answer) if *txid <= committed => {
                    Some(Said::Client(answer.clone()))
                }
                Waits::View(..) => None,
            };
            let is_there = answer.is_some();
            said.extend(answer.map(|answer| (*number, answer)));
            !is_there
        });
        said
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
    pub fn tick_interval(config: &Config) -> Duration {
        Duration::from_millis(config.tick_ms())
    }

    /// Whether safe mode is on.
    pub fn is_safe(&self) -> bool {
        self.host.state().is_safe_mode_on()
    }
}

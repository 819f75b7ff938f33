//! The DataNodes: who is registered, alive, how full and how busy, and the commands that wait for them.
//!
//! This table has its own lock in the rim: heartbeats touch nothing else. Only monotonic time passed in decides who is alive.
//!
//! Invariants: a [`NodeIndex`] is given once per DataNode id and stays; a dead node has no commands; `outgoing` is the number of
//! copies in `Pending` with this source. Only messages of a node's last registration count, and each of its reports is taken once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::take;

use hashbrown::HashMap;
use protocol::datanode::{Command, Heartbeat, Sender};
use protocol::namenode::{AdminState, DatanodeInfo, DatanodeState, Volume};
use protocol::{BlockId, DatanodeId, GenerationStamp};

use super::failures::Failures;
use crate::core::now::Now;

/// A tick this late means that this process was stopped, not the DataNodes: everybody gets a new term. The same holds for a tick that is
/// late by the time after which a DataNode is stale: a late tick by itself must never end one.
const TICK_GAP_FACTOR: u64 = 10;
/// Gaps below this are ordinary scheduling delays, milliseconds.
const TICK_GAP_MIN_MS: u64 = 3000;

/// How long a node that held up a pipeline is spared. 5 minutes: files that are written meanwhile go elsewhere, and a disk that was
/// only busy with something else is used again soon.
const SLOW_MS: u64 = 300_000;
/// Replicas that a node is asked to verify between two heartbeats, at most: a second or two of its reading.
pub(super) const VERIFICATIONS_MAX: usize = 10_000;

/// A DataNode's place in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeIndex(pub u32);

/// Why a message of a DataNode does not count: it has to register again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotRegistered {
    /// Nothing is known of it since the NameNode started.
    #[error("this DataNode is not registered: register again")]
    Unknown,
    /// The message is of a process or a session that is over.
    #[error("this DataNode has registered again since: register again")]
    Earlier,
    /// It was silent for too long.
    #[error("this DataNode was given up: register again")]
    GivenUp,
    /// A report before this one is missing.
    #[error("a report of this DataNode is missing: register again")]
    Missing,
}

/// Processes of a node that are remembered as displaced: more copies of one directory than anybody starts at once.
const DISPLACED_MAX: usize = 16;

/// One DataNode.
#[derive(Clone, Debug)]
pub struct Node {
    /// How to reach it.
    pub info: DatanodeInfo,
    /// Liveness.
    pub state: DatanodeState,
    /// Monotonic time of the last heartbeat, milliseconds.
    pub last_contact_ms: u64,
    /// Bytes on its volumes.
    pub capacity: u64,
    /// Bytes that blocks use.
    pub used: u64,
    /// Bytes free for blocks.
    pub remaining: u64,
    /// Transfers it reports as running.
    pub transfer_count: u32,
    /// Blocks it was chosen for since the last heartbeat.
    pub chosen_count: u32,
    /// The bytes of these blocks.
    pub chosen_bytes: u64,
    /// Copies it was ordered to send and that have not arrived.
    pub outgoing: u32,
    /// True once its first full report after registration is complete.
    pub reported: bool,
    /// True once a full report of it was taken in this run of the NameNode.
    pub ever_reported: bool,
    /// The next stamp when it registered for the first time in this run of the NameNode. Pipelines with older stamps may have been given to writers without it.
    pub known_from: Option<GenerationStamp>,
    /// Monotonic time of its last full report, milliseconds.
    pub reported_ms: Option<u64>,
    /// True once a heartbeat reported how much room it has.
    pub beaten: bool,
    /// Whether it is in service.
    pub admin: AdminState,
    /// Bytes on its volumes that something else uses.
    pub non_dfs_used: u64,
    /// Version of its program.
    pub program: String,
    /// Its process, and those that it took the place of, the newest last.
    pub process: u64,
    displaced: VecDeque<u64>,
    /// Its data directories.
    pub volumes: Vec<Volume>,
    /// What went wrong on it in this run of the NameNode.
    pub failures: Failures,
    /// Bytes per second that it sends for the balancer at most.
    pub balancer_bandwidth: u64,
    commands: VecDeque<Command>,
    /// Which of its registrations holds.
    registration: u64,
    /// Reports of this registration that were taken.
    reports_taken: u64,
}

impl Node {
    /// Bytes that may still be promised.
    pub fn free(&self) -> u64 {
        self.remaining.saturating_sub(self.chosen_bytes)
    }

    /// True if it has said that it has no room for so many bytes. One that has just registered has not said anything yet.
    pub fn is_full(&self, bytes: u64) -> bool {
        self.beaten && self.free() < bytes
    }

    /// True if its replicas count: it is alive and in service. Those of a dead one may still be in the map, on their way out.
    pub fn is_serving(&self) -> bool {
        self.admin == AdminState::Normal && self.state != DatanodeState::Dead
    }

    /// Its data directories that are out of service.
    pub fn failed_volumes(&self) -> impl Iterator<Item = &Volume> {
        self.volumes.iter().filter(|volume| volume.failure.is_some())
    }

    /// How busy it is.
    pub fn load(&self) -> u32 {
        self.transfer_count.saturating_add(self.chosen_count).saturating_add(self.outgoing)
    }
}

/// The table.
#[derive(Debug)]
pub struct Datanodes {
    nodes: Vec<Node>,
    indexes: HashMap<DatanodeId, NodeIndex>,
    stale_ms: u64,
    dead_ms: u64,
    ticked_ms: Option<u64>,
    tick_ms: u64,
    /// Nodes that are dead or out of service.
    away_count: usize,
    /// Racks with a node in service that is not dead.
    rack_count: usize,
    /// Nodes that are not dead and in service.
    registered_count: usize,
    /// All nodes by machine and by rack, dead ones included.
    hosts: HashMap<String, Vec<NodeIndex>>,
    racks: BTreeMap<String, Vec<NodeIndex>>,
    /// Nodes that are given new blocks only where there are not enough others, and until when, monotonic milliseconds.
    slow: Vec<(NodeIndex, u64)>,
}

impl Datanodes {
    /// An empty table. A node is stale after `stale_ms` without a heartbeat, dead after `dead_ms`; `tick_ms` is how often
    /// [`Datanodes::tick`] is called.
    pub fn new(stale_ms: u64, dead_ms: u64, tick_ms: u64) -> Self {
        Datanodes {
            nodes: Vec::new(),
            indexes: HashMap::new(),
            stale_ms,
            dead_ms,
            ticked_ms: None,
            tick_ms,
            away_count: 0,
            rack_count: 0,
            registered_count: 0,
            hosts: HashMap::new(),
            racks: BTreeMap::new(),
            slow: Vec::new(),
        }
    }

    /// Where a DataNode is in the table.
    pub fn index(&self, id: DatanodeId) -> Option<NodeIndex> {
        self.indexes.get(&id).copied()
    }

    /// A DataNode.
    pub fn node(&self, index: NodeIndex) -> &Node {
        &self.nodes[index.0 as usize]
    }

    /// A DataNode to change.
    pub fn node_mut(&mut self, index: NodeIndex) -> &mut Node {
        &mut self.nodes[index.0 as usize]
    }

    /// All, in order of first registration.
    pub fn iter(&self) -> impl Iterator<Item = (NodeIndex, &Node)> {
        (0..).map(NodeIndex).zip(self.nodes.iter())
    }

    /// How many are in a state.
    pub fn count(&self, state: DatanodeState) -> usize {
        self.nodes.iter().filter(|node| node.state == state).count()
    }

    /// How many are alive and have reported how much room they have: a new block can be on them.
    pub fn live_count(&self) -> usize {
        let live = |node: &&Node| node.state == DatanodeState::Live && node.beaten;
        self.nodes.iter().filter(live).count()
    }

    /// How many are not dead and in service.
    pub fn registered_count(&self) -> usize {
        self.registered_count
    }

    /// How many ever registered.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True if none ever registered.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node at a place of [`Datanodes::iter`], below [`Datanodes::len`].
    pub fn nth(&self, place: usize) -> NodeIndex {
        NodeIndex(u32::try_from(place).expect("fewer than 2^32 DataNodes"))
    }

    /// The nodes of a machine.
    pub fn on_host(&self, host: &str) -> &[NodeIndex] {
        self.hosts.get(host).map_or(&[], Vec::as_slice)
    }

    /// The nodes of a rack.
    pub fn on_rack(&self, rack: &str) -> &[NodeIndex] {
        self.racks.get(rack).map_or(&[], Vec::as_slice)
    }

    /// All racks and their nodes, in order of names.
    pub fn racks(&self) -> impl Iterator<Item = (&str, &[NodeIndex])> {
        self.racks.iter().map(|(name, list)| (name.as_str(), list.as_slice()))
    }

    /// True if the replicas of some node do not count.
    pub fn is_any_away(&self) -> bool {
        self.away_count > 0
    }

    /// Racks with a node in service that is not dead.
    pub fn rack_count(&self) -> usize {
        self.rack_count
    }

    /// Takes a node out of service or back.
    pub fn set_admin(&mut self, index: NodeIndex, admin: AdminState) {
        self.node_mut(index).admin = admin;
        self.recount();
    }

    /// Declares a node dead.
    pub fn give_up(&mut self, index: NodeIndex) {
        let node = self.node_mut(index);
        node.state = DatanodeState::Dead;
        node.commands.clear();
        self.recount();
    }

    /// Counts racks and nodes that are away; after registrations, deaths and changes of the lists, which are rare.
    fn recount(&mut self) {
        let serving = || self.nodes.iter().filter(|node| node.is_serving());
        self.registered_count = serving().count();
        self.away_count = self.nodes.len() - self.registered_count;
        let racks = serving().map(|node| node.info.rack.as_str());
        self.rack_count = racks.collect::<BTreeSet<&str>>().len();
    }

    /// How many are not dead and have reported how much room they have.
    pub fn usable_count(&self) -> usize {
        let usable = |node: &&Node| node.state != DatanodeState::Dead && node.beaten;
        self.nodes.iter().filter(usable).count()
    }

    /// True if every DataNode that is not dead has reported all its replicas.
    pub fn all_reported(&self) -> bool {
        self.nodes.iter().all(|node| node.state == DatanodeState::Dead || node.reported)
    }

    /// Takes a DataNode in, or in again.
    pub fn register(&mut self, info: DatanodeInfo, now_ms: u64) -> NodeIndex {
        let next = NodeIndex(u32::try_from(self.nodes.len()).expect("fewer than 2^32 DataNodes"));
        let index = *self.indexes.entry(info.id).or_insert(next);
        let outgoing = self.nodes.get(index.0 as usize).map_or(0, |node| node.outgoing);
        self.note_place(index, &info);
        self.slow.retain(|(slow, _)| *slow != index);
        let node = Node {
            info,
            state: DatanodeState::Live,
            last_contact_ms: now_ms,
            capacity: 0,
            used: 0,
            remaining: 0,
            transfer_count: 0,
            chosen_count: 0,
            chosen_bytes: 0,
            outgoing,
            reported: false,
            ever_reported: false,
            known_from: None,
            reported_ms: None,
            beaten: false,
            admin: AdminState::Normal,
            non_dfs_used: 0,
            program: String::new(),
            process: 0,
            displaced: VecDeque::new(),
            volumes: Vec::new(),
            failures: Failures::default(),
            balancer_bandwidth: 0,
            commands: VecDeque::new(),
            registration: 0,
            reports_taken: 0,
        };
        match self.nodes.get_mut(index.0 as usize) {
            Some(slot) => {
                let (capacity, used, remaining) = (slot.capacity, slot.used, slot.remaining);
                let (ever_reported, admin) = (slot.ever_reported, slot.admin);
                let known_from = slot.known_from;
                let registration = slot.registration + 1;
                let (volumes, failures) = (take(&mut slot.volumes), take(&mut slot.failures));
                let (process, displaced) = (slot.process, take(&mut slot.displaced));
                let room = Node { capacity, used, remaining, volumes, failures, ..node };
                let kept = Node { process, displaced, ..room };
                *slot = Node { ever_reported, known_from, admin, registration, ..kept };
            }
            None => self.nodes.push(node),
        }
        self.recount();
        index
    }

    /// Where the process runs that took the place of `process`, if one has: both have the same data, and a start never comes back after another.
    pub fn successor_of(&self, id: DatanodeId, process: u64) -> Option<&DatanodeInfo> {
        let node = self.node(self.index(id)?);
        node.displaced.contains(&process).then_some(&node.info)
    }

    /// A process of the node has registered.
    pub fn note_process(&mut self, index: NodeIndex, process: u64) {
        let node = self.node_mut(index);
        if node.process == process {
            return;
        }
        if node.process != 0 {
            if node.displaced.len() == DISPLACED_MAX {
                node.displaced.pop_front();
            }
            node.displaced.push_back(node.process);
        }
        node.process = process;
    }

    /// Keeps the lists of machines and racks in line with where a node is from now on.
    fn note_place(&mut self, index: NodeIndex, info: &DatanodeInfo) {
        if let Some(old) = self.nodes.get(index.0 as usize).map(|node| &node.info) {
            if (&old.host, &old.rack) == (&info.host, &info.rack) {
                return;
            }
            if let Some(list) = self.hosts.get_mut(&old.host) {
                list.retain(|other| *other != index);
            }
            if let Some(list) = self.racks.get_mut(&old.rack) {
                list.retain(|other| *other != index);
            }
        }
        self.hosts.entry(info.host.clone()).or_default().push(index);
        self.racks.entry(info.rack.clone()).or_default().push(index);
    }

    /// Number of the registration of a node.
    pub fn registration(&self, index: NodeIndex) -> u64 {
        self.node(index).registration
    }

    /// Who sends, if its registration holds. That it is with this start of the NameNode is checked before.
    ///
    /// # Errors
    /// [`NotRegistered`].
    pub fn sender(&self, sender: Sender) -> Result<NodeIndex, NotRegistered> {
        let index = self.index(sender.datanode).ok_or(NotRegistered::Unknown)?;
        let node = self.node(index);
        if node.state == DatanodeState::Dead {
            return Err(NotRegistered::GivenUp);
        }
        match node.registration == sender.registration {
            true => Ok(index),
            false => Err(NotRegistered::Earlier),
        }
    }

    /// True if the report with this number is the next of a node, false if it was taken before.
    ///
    /// # Errors
    /// [`NotRegistered::Missing`] if one before it was not taken.
    pub fn is_next_report(&self, index: NodeIndex, number: u64) -> Result<bool, NotRegistered> {
        let taken = self.node(index).reports_taken;
        match number > taken {
            true => Err(NotRegistered::Missing),
            false => Ok(number == taken),
        }
    }

    /// Notes that the next report of a node is taken.
    pub fn note_report(&mut self, index: NodeIndex) {
        self.node_mut(index).reports_taken += 1;
    }

    /// Takes the heartbeat of a node that is not dead.
    pub fn heartbeat(&mut self, index: NodeIndex, beat: &Heartbeat, now_ms: u64) {
        let node = self.node_mut(index);
        node.state = DatanodeState::Live;
        node.last_contact_ms = now_ms;
        node.capacity = beat.capacity;
        node.used = beat.used;
        node.remaining = beat.remaining;
        node.transfer_count = beat.transfer_count;
        node.non_dfs_used = beat.non_dfs_used;
        node.volumes.clone_from(&beat.volumes);
        node.balancer_bandwidth = beat.balancer_bandwidth;
        node.chosen_count = 0;
        node.chosen_bytes = 0;
        node.beaten = true;
    }

    /// Notes that a node is alive although it sent something other than a heartbeat.
    pub fn touch(&mut self, index: NodeIndex, now_ms: u64) {
        let node = self.node_mut(index);
        node.last_contact_ms = now_ms;
        if node.state == DatanodeState::Stale {
            node.state = DatanodeState::Live;
        }
    }

    /// Updates who is stale or dead; returns the nodes that died now.
    pub fn tick(&mut self, now_ms: u64) -> Vec<NodeIndex> {
        let gap_ms = self.ticked_ms.map_or(0, |ticked| now_ms.saturating_sub(ticked));
        self.ticked_ms = Some(now_ms);
        let (stale_ms, dead_ms) = (self.stale_ms, self.dead_ms);
        let ordinary_ms = (self.tick_ms * TICK_GAP_FACTOR).max(TICK_GAP_MIN_MS);
        let gap = gap_ms > ordinary_ms.min(stale_ms);
        let mut dead = Vec::new();
        for (index, node) in (0..).map(NodeIndex).zip(self.nodes.iter_mut()) {
            if node.state == DatanodeState::Dead {
                continue;
            }
            if gap {
                node.last_contact_ms = now_ms;
            }
            let silent_ms = now_ms.saturating_sub(node.last_contact_ms);
            if silent_ms >= dead_ms {
                node.state = DatanodeState::Dead;
                node.commands.clear();
                dead.push(index);
            } else if silent_ms >= stale_ms {
                node.state = DatanodeState::Stale;
            }
        }
        if !dead.is_empty() {
            self.recount();
        }
        dead
    }

    /// Queues a command; a dead node gets none. Verifications beyond `VERIFICATIONS_MAX` replicas are left to the node's scanner: anybody
    /// can ask for them while a node does not fetch its commands.
    pub fn push_command(&mut self, index: NodeIndex, command: Command) {
        let node = self.node_mut(index);
        if node.state == DatanodeState::Dead {
            return;
        }
        if let Command::Verify(more) = &command {
            let queued = node.commands.iter_mut().find_map(|queued| match queued {
                Command::Verify(replicas) => Some(replicas),
                _ => None,
            });
            if let Some(queued) = queued {
                let room = VERIFICATIONS_MAX.saturating_sub(queued.len());
                return queued.extend(more.iter().take(room));
            }
        }
        node.commands.push_back(command);
    }

    /// Takes what is queued.
    pub fn take_commands(&mut self, index: NodeIndex) -> Vec<Command> {
        self.node_mut(index).commands.drain(..).collect()
    }

    /// Takes the order for a recovery or a cut of a block back that a node has not fetched. False if it may have it.
    pub fn take_back(&mut self, index: NodeIndex, block: BlockId, stamp: GenerationStamp) -> bool {
        let commands = &mut self.node_mut(index).commands;
        let before = commands.len();
        commands.retain(|command| match command {
            Command::Recover { block: it, stamp: its, .. }
            | Command::Cut { block: it, stamp: its, .. } => (*it, *its) != (block, stamp),
            _ => true,
        });
        commands.len() < before
    }

    /// Notes that a writer found a node to hold up its pipeline.
    pub fn note_slow(&mut self, index: NodeIndex, now: Now) {
        self.slow.retain(|(slow, until_ms)| *slow != index && *until_ms > now.mono_ms);
        self.slow.push((index, now.mono_ms.saturating_add(SLOW_MS)));
        self.node_mut(index).failures.note_slow(now.wall_ms);
    }

    /// How long a node is spared from now on, milliseconds.
    pub fn spared_ms(&self, index: NodeIndex, now_ms: u64) -> Option<u64> {
        let until = self.slow.iter().find(|(slow, until_ms)| *slow == index && *until_ms > now_ms);
        until.map(|(_, until_ms)| until_ms - now_ms)
    }

    /// What went wrong on all nodes so far.
    pub fn failure_count(&self) -> u64 {
        self.nodes.iter().map(|node| node.failures.count()).fold(0, u64::saturating_add)
    }

    /// Nodes to spare because they held up a pipeline.
    pub fn slow(&self, now_ms: u64) -> impl Iterator<Item = NodeIndex> {
        self.slow.iter().filter(move |(_, until_ms)| *until_ms > now_ms).map(|(index, _)| *index)
    }

    /// Notes that a node was chosen for a block of up to `bytes`.
    pub fn note_chosen(&mut self, index: NodeIndex, bytes: u64) {
        let node = self.node_mut(index);
        node.chosen_count = node.chosen_count.saturating_add(1);
        node.chosen_bytes = node.chosen_bytes.saturating_add(bytes);
    }

    /// Notes that a block on this node is complete and stayed `bytes` below what [`Datanodes::note_chosen`] set aside.
    pub fn note_released(&mut self, index: NodeIndex, bytes: u64) {
        let node = self.node_mut(index);
        node.chosen_bytes = node.chosen_bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use protocol::{Epoch, GenerationStamp};

    use super::*;

    #[test]
    fn a_process_that_another_took_the_place_of_does_not_come_back() {
        let mut nodes = Datanodes::new(1000, 2000, 100);
        let register = |nodes: &mut Datanodes, host: &str, process| {
            let place = info(1, host, "/r");
            if let Some(other) = nodes.successor_of(place.id, process) {
                return Err(other.host.clone());
            }
            let node = nodes.register(place, 0);
            nodes.note_process(node, process);
            Ok(())
        };
        assert_eq!(register(&mut nodes, "a", 7), Ok(()));
        assert_eq!(register(&mut nodes, "a", 7), Ok(()), "it was away");
        assert_eq!(register(&mut nodes, "b", 8), Ok(()), "a start elsewhere");
        assert_eq!(register(&mut nodes, "a", 7), Err("b".to_owned()));
        assert_eq!(register(&mut nodes, "b", 8), Ok(()));
        for process in 100..200 {
            assert_eq!(register(&mut nodes, "c", process), Ok(()));
        }
        assert_eq!(register(&mut nodes, "b", 198), Err("c".to_owned()));
        assert!(nodes.node(NodeIndex(0)).displaced.len() <= DISPLACED_MAX);
    }

    pub(crate) fn info(number: u8, host: &str, rack: &str) -> DatanodeInfo {
        DatanodeInfo {
            id: DatanodeId([number; 16]),
            host: host.to_owned(),
            transfer_address: format!("127.0.0.1:{}", 9000 + u16::from(number)),
            http_address: format!("127.0.0.1:{}", 8000 + u16::from(number)),
            rack: rack.to_owned(),
            boot_id: String::new(),
            local_socket: String::new(),
        }
    }

    pub(crate) fn beat(remaining: u64) -> Heartbeat {
        Heartbeat { capacity: remaining, remaining, ..Heartbeat::default() }
    }

    #[test]
    fn verifications_of_a_node_that_does_not_come_for_them_do_not_pile_up() {
        let mut nodes = Datanodes::new(200, 2000, 100);
        let index = nodes.register(info(1, "a", "/r"), 0);
        for round in 0..30 {
            let replicas =
                (0..1000).map(|block| (BlockId(round * 1000 + block), GenerationStamp(1)));
            nodes.push_command(index, Command::Verify(replicas.collect()));
            nodes.push_command(index, Command::Delete(vec![(BlockId(round), GenerationStamp(1))]));
        }
        let commands = nodes.take_commands(index);
        let asked = commands.iter().map(|command| match command {
            Command::Verify(replicas) => replicas.len(),
            _ => 0,
        });
        assert_eq!(asked.sum::<usize>(), VERIFICATIONS_MAX);
        assert_eq!(commands.len(), 31, "others are all there");
    }

    /// The sender of a message under a registration of node `number`.
    fn of(number: u8, registration: u64) -> Sender {
        Sender { datanode: DatanodeId([number; 16]), epoch: Epoch(1), registration }
    }

    #[test]
    fn only_the_last_registration_counts_and_each_report_once() {
        let mut nodes = Datanodes::new(200, 2000, 100);
        assert_eq!(nodes.sender(of(1, 0)), Err(NotRegistered::Unknown));
        let index = nodes.register(info(1, "a", "/r"), 0);
        assert_eq!(nodes.sender(of(1, 0)), Ok(index));
        assert_eq!(nodes.is_next_report(index, 0), Ok(true));
        assert_eq!(nodes.is_next_report(index, 1), Err(NotRegistered::Missing));
        nodes.note_report(index);
        assert_eq!(nodes.is_next_report(index, 0), Ok(false), "it is repeated");
        assert_eq!(nodes.is_next_report(index, 1), Ok(true));
        assert_eq!(nodes.register(info(1, "a", "/r"), 0), index);
        assert_eq!(nodes.sender(of(1, 0)), Err(NotRegistered::Earlier));
        assert_eq!(nodes.sender(of(1, nodes.registration(index))), Ok(index));
        assert_eq!(nodes.is_next_report(index, 0), Ok(true), "counted from the start again");
    }

    #[test]
    fn nodes_age_die_and_come_back() {
        let mut nodes = Datanodes::new(200, 2000, 100);
        let index = nodes.register(info(1, "a", "/r"), 0);
        let state = |nodes: &Datanodes| nodes.node(index).state;
        assert!(nodes.tick(100).is_empty());
        assert_eq!(
            (state(&nodes), nodes.live_count()),
            (DatanodeState::Live, 0),
            "no room told yet"
        );
        assert!(nodes.tick(200).is_empty());
        assert_eq!(state(&nodes), DatanodeState::Stale);
        (300..=1900).step_by(100).for_each(|now| assert!(nodes.tick(now).is_empty()));
        nodes.heartbeat(index, &beat(10), 1900);
        assert_eq!((state(&nodes), nodes.live_count()), (DatanodeState::Live, 1));
        for now in (2000..3900).step_by(100) {
            assert!(nodes.tick(now).is_empty(), "{now}");
        }
        assert_eq!(nodes.tick(3900), [index]);
        assert_eq!(nodes.sender(of(1, 0)), Err(NotRegistered::GivenUp));
        assert!(nodes.tick(4000).is_empty(), "a node dies once");
        assert_eq!(nodes.register(info(1, "a", "/r"), 4000), index);
        assert_eq!(state(&nodes), DatanodeState::Live);
    }

    #[test]
    fn a_gap_in_our_own_time_kills_nobody() {
        let mut nodes = Datanodes::new(200, 2000, 100);
        nodes.register(info(1, "a", "/r"), 0);
        nodes.tick(100);
        assert!(nodes.tick(600_000).is_empty());
        assert_eq!(nodes.count(DatanodeState::Live), 1);
        for now in (600_100..602_000).step_by(100) {
            assert!(nodes.tick(now).is_empty());
        }
        assert_eq!(nodes.tick(602_000).len(), 1);
        // Shorter than any delay that counts as unusual, and long enough to be dead.
        let mut nodes = Datanodes::new(200, 2000, 100);
        nodes.register(info(1, "a", "/r"), 0);
        nodes.tick(100);
        assert!(nodes.tick(2_200).is_empty());
    }
}

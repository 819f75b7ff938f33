//! What the core's tests share: a state with DataNodes, a hand-driven clock, records and checkpoint rows kept aside.

use std::collections::BTreeMap;

use protocol::auth::Key;
use protocol::datanode::{Changes, Command, CommitRecovery, FullReport, Replica};
use protocol::namenode::{
    Answer, Body, Call, Create, DatanodeState, LocatedBlock, Reply, WrittenBlock,
};
use protocol::token::TokenKeys;
use protocol::{
    BlockId, CallId, ClientId, ClusterId, DatanodeId, DfsPath, Epoch, GenerationStamp, InodeId,
};

use crate::core::asked::Asked;
use crate::core::blocks::Taken;
use crate::core::inodes::Version;
use crate::core::namespace::{Effect, Namespace};
use crate::core::nodes::{Datanodes, NodeIndex, beat, info};
use crate::core::now::Now;
use crate::core::query::Reader;
use crate::core::random::Generator;
use crate::core::rights::Caller;
use crate::core::safe_mode::{Rule, SafeMode};
use crate::core::state::{Loaded, Output, Settings, State};

const EPOCH: Epoch = Epoch(1);
/// Room of a simulated DataNode.
pub(crate) const ROOM: u64 = 1 << 30;

/// The cluster's.
const SECRET: [u8; 32] = [1; 32];

pub(crate) fn settings() -> Settings {
    Settings {
        epoch: EPOCH,
        host: "nn".to_owned(),
        token_keys: TokenKeys::new(&Key::new(SECRET)),
        replication: 3,
        block_size: 1000,
        block_size_min: 10,
        durable_min: 2,
        lease_soft_ms: 1000,
        lease_hard_ms: 5000,
        recovery_retry_ms: 500,
        recovery_wait_max_ms: 5000,
        replication_streams: 2,
        maintenance_min: 1,
        pending_timeout_ms: 1000,
        arrival_timeout_ms: 400,
        delete_retry_ms: 500,
        unknown_grace_ms: 300,
        list_limit: 1000,
        trash_interval_ms: 0,
        safe_mode: Rule { threshold: 0.999, datanodes_min: 1, extension_ms: 0 },
        permissions: true,
        directory_items_max: 1 << 20,
        file_blocks_max: 10_000,
        audit: true,
    }
}

pub(crate) struct Harness {
    pub(crate) state: State,
    pub(crate) nodes: Datanodes,
    pub(crate) now: Now,
    pub(crate) records: Vec<Vec<u8>>,
    pub(crate) rows: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) rows_at: usize,
    pub(crate) commands: Vec<(NodeIndex, Command)>,
    pub(crate) client: ClientId,
    number: u64,
}

fn no_nodes() -> Datanodes {
    Datanodes::new(1000, 2000, 100)
}

impl Harness {
    /// A formatted namespace outside safe mode, without DataNodes.
    pub(crate) fn new(seed: u64) -> Harness {
        let now = Now { mono_ms: 1000, wall_ms: 1_000_000 };
        let mut state = State::new(Loaded::default(), settings(), Generator::new(seed), now);
        let records = vec![state.format(ClusterId([9; 16]), ("root", "supergroup"), now).unwrap()];
        state.safe_mode = SafeMode::Off;
        Harness {
            state,
            nodes: no_nodes(),
            now,
            records,
            rows: BTreeMap::new(),
            rows_at: 0,
            commands: Vec::new(),
            client: ClientId([1; 16]),
            number: 0,
        }
    }

    /// With DataNodes 1 to `count` on their own machines in two racks.
    pub(crate) fn with_nodes(seed: u64, count: u8) -> Harness {
        let mut harness = Harness::new(seed);
        (1..=count).for_each(|number| {
            harness.register(number);
            harness.report(number, vec![], vec![]);
        });
        harness
    }

    pub(crate) fn register(&mut self, number: u8) -> NodeIndex {
        let node = self.register_silently(number);
        self.beat(number);
        node
    }

    /// Without the heartbeat that tells its room.
    pub(crate) fn register_silently(&mut self, number: u8) -> NodeIndex {
        let rack = if number.is_multiple_of(2) { "/even" } else { "/odd" };
        let host = format!("host{number}");
        let node = self.nodes.register(info(number, &host, rack), self.now.mono_ms);
        self.state.set_now(self.now);
        self.state.note_registered(&mut self.nodes, node);
        node
    }

    pub(crate) fn beat(&mut self, number: u8) -> bool {
        let node = self.node(number);
        let is_alive = self.nodes.node(node).state != DatanodeState::Dead;
        if is_alive {
            self.nodes.heartbeat(node, &beat(ROOM), self.now.mono_ms);
        }
        is_alive
    }

    pub(crate) fn node(&self, number: u8) -> NodeIndex {
        self.nodes.index(DatanodeId([number; 16])).unwrap()
    }

    pub(crate) fn report(&mut self, number: u8, finalized: Vec<Replica>, unfinished: Vec<Replica>) {
        let report = FullReport { part: 0, last: true, finalized, unfinished };
        let node = self.node(number);
        let State { ns, blocks, .. } = &mut self.state;
        let mut next = 0;
        while let Taken::Slice { next: rest } =
            blocks.take_report(ns, &mut self.nodes, node, (&report, next)).unwrap()
        {
            next = rest;
        }
    }

    pub(crate) fn changes(&mut self, number: u8, changes: &Changes) {
        self.needless(number, changes);
    }

    /// The same; returns the blocks of which the DataNode is to delete what it has, for nobody has asked for it.
    pub(crate) fn needless(&mut self, number: u8, changes: &Changes) -> Vec<BlockId> {
        let node = self.node(number);
        self.state.take_changes(&mut self.nodes, node, changes)
    }

    /// A change by the harness's client, under the next call id.
    pub(crate) fn call(&mut self, body: Call) -> Answer {
        self.number += 1;
        self.call_again(self.number, body)
    }

    /// A change by the superuser `ann` under a given call id.
    pub(crate) fn call_again(&mut self, number: u64, body: impl Into<Body>) -> Answer {
        let ann = Caller { user: "ann", groups: &[], is_superuser: true };
        self.request(number, ann, body)
    }

    /// Any call by any user, under the next call id.
    pub(crate) fn call_as(&mut self, caller: Caller<'_>, body: impl Into<Body>) -> Answer {
        self.number += 1;
        self.request(self.number, caller, body)
    }

    /// Any call by any user under a given call id.
    pub(crate) fn request(
        &mut self,
        number: u64,
        caller: Caller<'_>,
        body: impl Into<Body>,
    ) -> Answer {
        let id = CallId { client: self.client, number };
        let (asked, body) = (Asked::new(id, caller, "host1"), body.into());
        self.state.set_now(self.now);
        let mut out = Output::default();
        let answer = self.state.call(&mut self.nodes, (asked, &body), self.now, &mut out).unwrap();
        self.take(out);
        answer
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    fn take(&mut self, out: Output) {
        self.records.extend(out.records);
        self.commands.extend(out.commands);
    }

    /// Housekeeping until nothing is left to do at once.
    pub(crate) fn work(&mut self) {
        loop {
            let mut out = Output::default();
            let more = self.state.work(&mut self.nodes, self.now, &mut out);
            self.take(out);
            if !more {
                break;
            }
        }
    }

    /// Time passes; `alive` send heartbeats.
    pub(crate) fn pass(&mut self, ms: u64, alive: &[u8]) {
        let end = self.now.mono_ms + ms;
        while self.now.mono_ms < end {
            let step = (end - self.now.mono_ms).min(100);
            self.now.mono_ms += step;
            self.now.wall_ms += step;
            alive.iter().for_each(|number| {
                self.beat(*number);
            });
            self.state.set_now(self.now);
            let mut out = Output::default();
            self.state.tick(&mut self.nodes, self.now, &mut out).unwrap();
            self.take(out);
            self.work();
        }
    }

    /// Time passes, and DataNodes do what they are ordered to recover or to cut.
    pub(crate) fn recover_all(&mut self) {
        self.pass(self.state.settings.recovery_retry_ms + 100, &[1, 2, 3]);
        for (_, command) in std::mem::take(&mut self.commands) {
            let (block, stamp, length) = match command {
                Command::Recover { block, stamp, length_min, .. } => (block, stamp, length_min),
                Command::Cut { block, stamp, length, .. } => (block, stamp, length),
                _ => continue,
            };
            let replicas = (1..=3).map(|number| DatanodeId([number; 16])).collect();
            let (answered, without) = (Vec::new(), Vec::new());
            let commit = CommitRecovery { block, stamp, length, replicas, answered, without };
            let (mut out, now) = (Output::default(), self.now);
            // Refused if a later one was ordered, or the block is gone.
            let _ = self.state.commit_recovery(&mut self.nodes, &commit, now, &mut out).unwrap();
            self.take(out);
        }
    }

    /// Writes the rows that changed into the checkpoint.
    pub(crate) fn checkpoint(&mut self) {
        for (key, value) in self.state.take_rows(self.now) {
            match value {
                Some(value) => {
                    assert!(value.len() < 16 << 10, "{} bytes", value.len());
                    self.rows.insert(key, value);
                }
                None => drop(self.rows.remove(&key)),
            }
        }
        self.rows_at = self.records.len();
    }

    /// What a restart would load: checkpoint, then the records after it.
    pub(crate) fn reload(&self) -> Loaded {
        let mut loaded = Loaded::default();
        for (key, value) in &self.rows {
            loaded.load_row(key, value).unwrap();
        }
        loaded.ns.finish_load().unwrap();
        for record in &self.records[self.rows_at..] {
            loaded.replay(record).unwrap();
        }
        loaded
    }

    /// Goes on with what a restart loaded; DataNodes still have what they had.
    pub(crate) fn restart(&mut self, loaded: Loaded) {
        let mut ns = loaded.ns;
        ns.leases.renew_all(self.now.mono_ms);
        // `Blocks` knows all effects, except for the trees that the load took apart and the live namespace had not yet.
        ns.effects.retain(|effect| matches!(effect, Effect::Removed { .. }));
        self.state.ns = ns;
    }

    /// Goes on with what a restart loaded; no DataNode has registered yet.
    pub(crate) fn restart_alone(&mut self) {
        self.state = State::new(self.replay(), settings(), Generator::new(1), self.now);
        self.state.safe_mode = SafeMode::Off;
        self.nodes = no_nodes();
        self.commands.clear();
    }

    /// What a restart without a checkpoint would load.
    /// A restart from the log alone, and one from a checkpoint, both give what is there.
    pub(crate) fn check_replay(&mut self) {
        let (mut replayed, mut reloaded) = (self.replay(), self.reload());
        self.work();
        let live = canonical(&mut self.state.ns);
        assert_eq!(canonical(&mut replayed.ns), live);
        assert_eq!(canonical(&mut reloaded.ns), live);
        self.checkpoint();
        assert_eq!(canonical(&mut self.reload().ns), live);
        self.state.blocks.check(&self.state.ns);
    }

    pub(crate) fn replay(&self) -> Loaded {
        let mut loaded = Loaded::default();
        self.records.iter().for_each(|record| loaded.replay(record).unwrap());
        loaded
    }

    /// Writes a file of one block and closes it.
    pub(crate) fn write(&mut self, path: &str, length: u64, replication: u16) -> LocatedBlock {
        let created = match self.call(create(path, true, Some(replication), length > 0)) {
            Ok(Reply::Created(created)) => created,
            other => panic!("{other:?}"),
        };
        let block = created.first_block.unwrap();
        let done = self.call(Call::Complete {
            file: created.file,
            last: Some(written(&block, length)),
            publish: None,
        });
        assert_eq!(done, Ok(Reply::Done));
        block
    }

    /// A read by the superuser.
    pub(crate) fn read(&self, body: &Call) -> Answer {
        let caller = Caller { user: "ann", groups: &[], is_superuser: true };
        let reader = Reader { caller, host: "", now: self.now, txid: 0 };
        self.state.query(&self.nodes, body, reader)
    }

    /// A read that is never refused for lack of rights.
    pub(crate) fn read_as_namenode(&self, call: &Call) -> Answer {
        let reader = Reader { caller: Caller::NAMENODE, host: "", now: self.now, txid: 0 };
        self.state.query(&self.nodes, call, reader)
    }

    /// Numbers of the DataNodes with a good replica.
    pub(crate) fn holders(&self, block: BlockId) -> Vec<u8> {
        let nodes = self.state.blocks.holders(block).iter();
        let mut numbers: Vec<u8> = nodes.map(|node| self.nodes.node(*node).info.id.0[0]).collect();
        numbers.sort_unstable();
        numbers
    }
}

pub(crate) fn dfs(path: &str) -> DfsPath {
    DfsPath::parse(path).unwrap()
}

pub(crate) fn create(
    path: &str,
    overwrite: bool,
    replication: Option<u16>,
    first_block: bool,
) -> Call {
    Call::Create(Create {
        path: dfs(path),
        mode: 0o644,
        unmasked: None,
        overwrite,
        parents: true,
        replication,
        block_size: None,
        first_block,
    })
}

/// A block as its writer knows it. All members of its pipeline have it on disk.
pub(crate) fn written(block: &LocatedBlock, length: u64) -> WrittenBlock {
    written_durably(block, length, block.replicas.len())
}

/// The same; the last `count` members have it on disk.
pub(crate) fn written_durably(block: &LocatedBlock, length: u64, count: usize) -> WrittenBlock {
    let replicas = block.replicas.iter().map(|info| info.id).collect();
    written_on((block.id, block.stamp), length, replicas, count)
}

pub(crate) fn written_on(
    (id, stamp): (BlockId, GenerationStamp),
    length: u64,
    replicas: Vec<DatanodeId>,
    durable_count: usize,
) -> WrittenBlock {
    let keys = TokenKeys::new(&Key::new(SECRET));
    let durable = &replicas[replicas.len().saturating_sub(durable_count)..];
    let receipts = durable.iter().map(|node| keys.receipt(*node, id, stamp, length)).collect();
    WrittenBlock { id, stamp, length, replicas, receipts }
}

pub(crate) fn replica(block: &LocatedBlock, length: u64) -> Replica {
    Replica { block: block.id, stamp: block.stamp, length }
}

/// One line per inode and block, and the counters: equal exactly if the namespaces are.
pub(crate) fn canonical(ns: &mut Namespace) -> Vec<String> {
    while ns.collect(1000) {}
    ns.check().unwrap();
    let mut lines = vec![format!("{:?}", ns.counters())];
    let mut stack: Vec<InodeId> = ns.history.homes.keys().copied().collect();
    stack.sort_unstable();
    stack.push(InodeId::ROOT);
    while let Some(id) = stack.pop() {
        let inode = ns.inode(id).unwrap();
        let status = ns.status(id, inode, &inode.name);
        let blocks: Vec<(BlockId, Option<_>)> = inode
            .file()
            .map(|file| file.blocks.iter().map(|block| (*block, ns.block(*block))).collect())
            .unwrap_or_default();
        let open = inode.file().and_then(|file| file.open.as_deref());
        lines.push(format!(
            "{:?} {status:?} {:?} {blocks:?} {open:?} {:?} {:?}",
            ns.path_of(id),
            inode.total(),
            ns.quota_of(id),
            ns.features(id)
        ));
        if let Some(directory) = inode.directory() {
            stack.extend(directory.children.iter());
        }
    }
    let history = &ns.history;
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    // Ids of names depend on the order in which they were met.
    let version_line = |(id, version): (&InodeId, &Version)| {
        let (owner, group) = (ns.names.text(version.owner), ns.names.text(version.group));
        let Version { from, until, parent, name, mode, mtime_ms, features, file, .. } = version;
        format!(
            "{id:?} {from} {until} {parent:?} {name} {owner} {group} {mode:o} {mtime_ms} {features:?} {file:?}"
        )
    };
    let versions = history.versions.iter();
    let versions = versions.flat_map(|(id, all)| all.iter().map(move |version| (id, version)));
    lines.extend(sorted(versions.map(version_line).collect()));
    lines.extend(sorted(history.stamps.iter().map(|entry| format!("{entry:?}")).collect()));
    lines.extend(sorted(history.homes.iter().map(|entry| format!("{entry:?}")).collect()));
    lines.extend(sorted(history.retained.iter().map(|entry| format!("{entry:?}")).collect()));
    lines.extend(sorted(history.beyond.iter().map(|entry| format!("beyond {entry:?}")).collect()));
    lines.push(format!("{:?} {:?} {}", history.roots, history.live, history.next));
    lines.push(format!("{} blocks {} complete", ns.block_count(), ns.complete_block_count()));
    lines
}

pub(crate) fn stamp_after(stamp: GenerationStamp) -> GenerationStamp {
    GenerationStamp(stamp.0 + 1)
}

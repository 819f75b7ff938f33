//! The end of a run: what there is, compared with what was promised.

use std::collections::BTreeSet;

use datanode::core::replica::Replica;
use namenode::sim::Said;
use needs::random::Random;
use protocol::namenode::{
    Call, FileStatus, LIST_ENTRIES_MAX, LocatedBlocks, Reply, Request, VERSION,
};
use protocol::{BlockId, CallId, ClientId, DatanodeId, DfsPath, ErrorKind};

use super::World;
use crate::content::Content;
use crate::jobs::Jobs;
use crate::net::{Message, Outbox, Place, Timer};
use crate::node::Node;
use crate::oracle;
use crate::tree::{Entries, Kept, Tree, path_of};

/// The number that the run itself asks under.
const OWN: u64 = u64::MAX;

/// The replicas that the NameNode knows of.
type Known = BTreeSet<(BlockId, DatanodeId)>;

impl World {
    /// Asks the NameNode, without a network.
    pub(super) fn ask(&mut self, call: Call) -> Result<Reply, ErrorKind> {
        let request = Request {
            version: VERSION,
            call: CallId { client: ClientId([255; 16]), number: self.sequence },
            user: "ann".to_owned(),
            host: String::new(),
            body: call.into(),
        };
        let request = Box::new(request);
        let (mut out, now) = (Outbox::default(), self.host_now());
        let message = Message::Client { from: Place::Client(usize::MAX), number: OWN, request };
        self.master.on_message(message, now, &mut out);
        let last = self.master.running().map_or(0, namenode::sim::Master::last);
        self.master.on_timer(&Timer::Committed(last), now, &mut self.random, &mut out);
        let mut answer = Err(ErrorKind::Unavailable);
        out.messages.retain(|(_, message)| match message {
            Message::Said { number: OWN, said: Said::Client(said) } => {
                answer = said.clone().map_err(|refusal| refusal.kind);
                false
            }
            _ => true,
        });
        self.send(Place::Master, out);
        answer
    }

    /// Compares what there is with what was promised.
    pub(super) fn check(&mut self) -> Result<(), String> {
        if let Some(refused) = self.nodes.iter().find_map(|node| node.refused.clone()) {
            panic!("a store does not open: {refused}");
        }
        if let Some(open) = self.clients.iter().flatten().find(|client| !client.is_done()) {
            return Err(format!("a client is not done: {open}"));
        }
        if !self.keeper.is_done() {
            return Err("the keeper is not done".to_owned());
        }
        let mut known = Known::new();
        let own = self.oracle.files.iter().filter(|(_, file)| !file.is_given_away);
        let files: Vec<u64> = own.map(|(file, _)| *file).collect();
        files.into_iter().try_for_each(|file| self.check_file(file, &mut known))?;
        self.check_keeper(&mut known)?;
        self.check_nothing_else_is_stored(&known)?;
        self.check_jobs()
    }

    fn check_jobs(&mut self) -> Result<(), String> {
        let (mut out, now) = (Outbox::default(), self.host_now());
        let mut jobs = std::mem::replace(&mut self.jobs, Jobs::new(false));
        let mut random = Random::new(self.random.bits());
        let checked = jobs.check(now, &mut random, &mut out, &mut |call| self.ask(call));
        self.jobs = jobs;
        self.send(Place::Tracker, out);
        checked
    }

    fn check_file(&mut self, file: u64, known: &mut Known) -> Result<(), String> {
        let path = self.oracle.path(file);
        let status: FileStatus = match self.ask(Call::Status(path.clone())) {
            Ok(Reply::Status(status)) => status,
            Err(ErrorKind::NotFound) if self.oracle.files[&file].may_be_missing() => return Ok(()),
            other => return Err(format!("{path}: {other:?}")),
        };
        if status.open {
            return Err(format!("{path} is open"));
        }
        self.oracle.check_length(file, status.length)?;
        self.check_blocks(&path, &Content::of(file, status.length), known)
    }

    /// All bytes of a file are in blocks, and a block has its replicas, each with what was written.
    fn check_blocks(
        &mut self,
        path: &DfsPath,
        content: &Content,
        known: &mut Known,
    ) -> Result<(), String> {
        let call = Call::Locations { path: path.clone(), offset: 0, length: u64::MAX };
        let LocatedBlocks { status, blocks } = match self.ask(call) {
            Ok(Reply::Located(located)) => located,
            other => return Err(format!("{path}: {other:?}")),
        };
        let length: u64 = blocks.iter().map(|block| block.length).sum();
        if length != content.length() {
            let lengths: Vec<_> = blocks.iter().map(|block| (block.id, block.length)).collect();
            let (file, wanted) = (status.inode, content.length());
            return Err(format!("{path}, {file:?}: blocks {lengths:?}, wanted {wanted} bytes"));
        }
        for block in &blocks {
            if block.replicas.len() != 3 {
                return Err(format!("{path}, {}: {} replicas", block.id, block.replicas.len()));
            }
            for replica in &block.replicas {
                known.insert((block.id, replica.id));
                let node = self
                    .nodes
                    .iter()
                    .find(|node| node.store().is_some_and(|store| store.datanode() == replica.id));
                let store = node.and_then(Node::store).ok_or("a DataNode is missing")?;
                let checked = oracle::check_replica(content, block, store);
                checked
                    .map_err(|why| format!("{path}, {} on {}: {why}", block.id, replica.host))?;
            }
        }
        Ok(())
    }

    /// The tree of the keeper is one of those that may be.
    fn check_keeper(&mut self, known: &mut Known) -> Result<(), String> {
        if !self.keeper.is_set_up {
            return Ok(());
        }
        let mut mismatches = Vec::new();
        for tree in self.keeper.trees.clone() {
            match self.check_tree(&tree, known) {
                Ok(()) => return Ok(()),
                Err(mismatch) => mismatches.push(mismatch),
            }
        }
        Err(mismatches.join("; or: "))
    }

    fn check_tree(&mut self, tree: &Tree, known: &mut Known) -> Result<(), String> {
        for file in &tree.outside {
            self.check_file(*file, known)?;
        }
        self.check_entries("", &tree.entries, known)?;
        let listed = self.list(&path_of("/.snapshot"))?;
        let names: Vec<&String> = listed.iter().map(|entry| &entry.name).collect();
        if !names.iter().copied().eq(tree.snapshots.keys()) {
            return Err(format!("snapshots {names:?}, wanted {:?}", tree.snapshots.keys()));
        }
        for (name, entries) in &tree.snapshots {
            self.check_entries(&format!("/.snapshot/{name}"), entries, known)?;
        }
        Ok(())
    }

    /// Below this path are these entries, and the files have their content.
    fn check_entries(
        &mut self,
        top: &str,
        wanted: &Entries,
        known: &mut Known,
    ) -> Result<(), String> {
        let (mut found, mut directories) = (Vec::new(), vec![String::new()]);
        while let Some(above) = directories.pop() {
            for entry in self.list(&path_of(&format!("{top}{above}")))? {
                let path = format!("{above}/{}", entry.name);
                if entry.directory {
                    directories.push(path.clone());
                }
                found.push((path, entry));
            }
        }
        found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let is_same =
            |((path, entry), (name, kept)): (&(String, FileStatus), (_, &Option<Kept>))| {
                path == name && entry.directory == kept.is_none()
            };
        if found.len() != wanted.len() || !found.iter().zip(wanted).all(is_same) {
            let paths: Vec<&String> = found.iter().map(|(path, _)| path).collect();
            return Err(format!("{top:?} has {paths:?}, wanted {wanted:?}"));
        }
        for ((path, entry), kept) in found.iter().zip(wanted.values()) {
            let Some(Kept { content, .. }) = kept else { continue };
            let (length, wanted) = (entry.length, content.length());
            if entry.open || length != wanted {
                let open = entry.open;
                return Err(format!(
                    "{top}{path} has {length} bytes, wanted {wanted}, open: {open}"
                ));
            }
            self.check_blocks(&path_of(&format!("{top}{path}")), content, known)?;
        }
        Ok(())
    }

    fn list(&mut self, path: &DfsPath) -> Result<Vec<FileStatus>, String> {
        let (start_after, limit) = (String::new(), LIST_ENTRIES_MAX);
        let call = Call::List { path: path.clone(), start_after, limit };
        match self.ask(call) {
            Ok(Reply::Listing { entries, remaining: 0 }) => Ok(entries),
            other => Err(format!("{path}: {other:?}")),
        }
    }

    /// No DataNode has a finalized replica of which the NameNode does not know. What a copy left that was cut off stays until a full report. A NameNode that has
    /// started again keeps replicas of unknown blocks, if a DataNode has many of them.
    fn check_nothing_else_is_stored(&self, known: &Known) -> Result<(), String> {
        for node in &self.nodes {
            let store = node.store().ok_or("a DataNode is missing")?;
            let replicas = store.replicas();
            let is_kept = |block: BlockId| {
                let next = known.range((block, DatanodeId::default())..).next();
                self.master.starts > 1 && next.is_none_or(|(next, _)| *next != block)
            };
            let is_left = |replica: &&Replica| {
                let is_known = known.contains(&(replica.block, store.datanode()));
                replica.is_finalized() && !is_known && !is_kept(replica.block)
            };
            if let Some(left) = replicas.iter().find(is_left) {
                return Err(format!("node {} still has {left:?}", node.number));
            }
        }
        Ok(())
    }
}

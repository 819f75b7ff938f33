//! The store on simulated disks: writers, recoveries, deletions and checks in random order, with a crash or a failure of a disk at any operation.
//!
//! A slow model knows what the store has promised. After each start it must be there, byte for byte; nothing else may be served as good. `HANNO_TEST_SEED` is
//! the first seed, `HANNO_TEST_SEEDS` their number.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use needs::random::Random;
use protocol::checksum::CHUNK_BYTES;
use protocol::transfer::Resume;
use sys::disk::sim::{Fault, Machine};
use transport::{PacketPool, PooledPacket};

use crate::core::recovery::Found;
use crate::core::replica::Intent;
use crate::store::*;

const SEEDS: u64 = 250;
/// Starts of the store in a run.
const LIVES: usize = 5;
const STEPS: usize = 60;
/// They lie in two folders.
const BLOCKS: [u64; 6] = [1, 2, 3, 256, 257, 258];
const DISK_BYTES: u64 = 4 << 20;
const NEVER: &dyn Fn() -> bool = &|| false;

/// What its client writes to a block: always the same.
fn bytes(block: BlockId, begin: u64, end: u64) -> Vec<u8> {
    (begin..end).map(|at| ((block.0 * 131 + at * 31 + at / 251 * 7) % 251) as u8).collect()
}

/// Bytes up to `end` as a client sends them: from the start of the chunk.
fn packet(block: BlockId, begin: u64, end: u64) -> PooledPacket {
    let begin = begin / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
    let mut packet = PacketPool::default().take();
    packet.header.offset = begin;
    let data = bytes(block, begin, end);
    packet.append(&data, data.len().max(1));
    packet.seal();
    packet
}

/// What the store has acknowledged of a block and must have after a start.
#[derive(Clone, Copy, Debug)]
struct Promise {
    stamp: GenerationStamp,
    length: u64,
    is_finalized: bool,
    /// False if only the machine's memory has it.
    survives_power: bool,
}

impl Promise {
    fn is_kept_by(&self, found: &Replica) -> bool {
        match self.is_finalized {
            true => {
                let wanted = (self.stamp, self.length, State::Finalized);
                (found.stamp, found.length, found.state) == wanted
            }
            false => found.stamp >= self.stamp && found.length >= self.length,
        }
    }
}

struct Run {
    machine: Machine,
    roots: Vec<PathBuf>,
    random: Random,
    store: Option<Arc<Store>>,
    writers: BTreeMap<BlockId, ReplicaWriter>,
    /// Whose writers, if they have one, write copies.
    copies: BTreeSet<BlockId>,
    /// Whose writers have sent their last packet: nothing follows it but the end.
    ended: BTreeSet<BlockId>,
    /// Those of them that a writer will go on with.
    prefixes: BTreeSet<BlockId>,
    /// Finalized by nobody who waits.
    behind: Vec<(BlockId, GenerationStamp)>,
    promises: BTreeMap<BlockId, Promise>,
    /// Of which a byte was acknowledged, and the first stamp under which that was.
    acknowledged: BTreeMap<BlockId, GenerationStamp>,
    /// How often a recovery found nothing, and the store vouched that nothing was acknowledged.
    vouched_count: u64,
    /// What may be there instead, until the next start that succeeds.
    instead: BTreeMap<BlockId, Promise>,
    /// Finalized without a sync, or made of such: a power cut leaves any part.
    unsynced: BTreeSet<(BlockId, GenerationStamp)>,
    last_stamp: u64,
    /// A disk may be full in this life.
    may_be_full: bool,
    promised_count: u64,
    /// Replicas of at most so many bytes share files.
    small_bytes_max: u32,
    /// What happened, to compare runs and to read.
    trace: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let machine = Machine::new(seed);
        let roots = (0..2).map(|_| machine.add_disk(DISK_BYTES)).collect();
        Run {
            machine,
            roots,
            random: Random::new(seed),
            store: None,
            writers: BTreeMap::new(),
            copies: BTreeSet::new(),
            ended: BTreeSet::new(),
            prefixes: BTreeSet::new(),
            behind: Vec::new(),
            promises: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            vouched_count: 0,
            instead: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            last_stamp: 1000,
            may_be_full: false,
            promised_count: 0,
            small_bytes_max: [0, 600, 2000][(seed % 3) as usize],
            trace: Vec::new(),
        }
    }

    fn note(&mut self, what: &str, block: BlockId, result: &dyn std::fmt::Debug) {
        self.trace.push(format!("{what} {block}: {result:?}, {}", self.machine.operations()));
    }

    fn store(&self) -> Arc<Store> {
        Arc::clone(self.store.as_ref().expect("it is open"))
    }

    fn open(&self) -> Result<Store, Error> {
        let config = |root: &PathBuf| VolumeConfig {
            path: root.join("volume"),
            reserved_bytes: Some(0),
            trash_grace: Duration::from_secs(60),
            bypass_cache: true,
            small_bytes_max: self.small_bytes_max,
        };
        let configs: Vec<VolumeConfig> = self.roots.iter().map(config).collect();
        Store::open(&configs, 2000, None)
    }

    fn next_stamp(&mut self) -> GenerationStamp {
        self.last_stamp += 1;
        GenerationStamp(self.last_stamp)
    }

    fn replica(&self, block: BlockId) -> Option<Replica> {
        self.store().replicas().into_iter().find(|replica| replica.block == block)
    }

    /// The least length that the block may be cut to.
    fn promised_length(&self, block: BlockId) -> u64 {
        self.promises.get(&block).map_or(0, |promise| promise.length)
    }

    /// The replica is about to change: its bytes stay promised.
    fn unfinalize(&mut self, block: BlockId) {
        if let Some(promise) = self.promises.get_mut(&block) {
            promise.is_finalized = false;
        }
    }

    /// The store has acknowledged this; never for a disk that is out of service.
    fn promise(&mut self, block: BlockId, promise: Promise) {
        let failed = self.store().failed_volumes();
        let name = format!("blk_{block}_{}", promise.stamp);
        for root in failed {
            let has = |folder: &str| {
                let files = self.machine.files(&Path::new(&root).join(folder));
                files.iter().any(|path| path.ends_with(&name))
            };
            assert!(!has("rbw") && !has("finalized"), "{name} counts on a disk that has failed");
        }
        if promise.survives_power && self.unsynced.contains(&(block, promise.stamp)) {
            self.promises.remove(&block);
            return;
        }
        self.promised_count += 1;
        if promise.length > 0 {
            self.acknowledged.entry(block).or_insert(promise.stamp);
        }
        self.promises.insert(block, promise);
    }

    /// Where a disk was full the store gives up what it could not sync, and reports that.
    fn note_full<T>(&mut self, block: BlockId, result: &Result<T, StoreError>) {
        if matches!(result, Err(StoreError::Full)) && self.replica(block).is_none() {
            self.promises.remove(&block);
        }
    }

    /// The machine or the disk failed while a copy took the place of what was promised: it is there, or what was promised.
    fn note_failed(&mut self, block: BlockId, copy: Promise) {
        if self.machine.is_down() || !self.store().failed_volumes().is_empty() {
            self.instead.insert(block, copy);
        }
    }

    fn begin_new(&mut self, block: BlockId) {
        self.copies.remove(&block);
        let stamp = self.next_stamp();
        if let Some(writer) = self.writers.remove(&block) {
            drop(writer);
        }
        // Whatever is there is stale.
        self.promises.remove(&block);
        self.acknowledged.remove(&block);
        let begun = self.store().write(block, stamp, Intent::Create, None);
        self.note("new", block, &begun.as_ref().map(|_| ()));
        self.begun(block, begun);
    }

    /// A copy: what is there stays promised until it is complete, unless there is no room for both.
    fn begin_copy(&mut self, block: BlockId) {
        let stamp = self.next_stamp();
        if let Some(writer) = self.writers.remove(&block) {
            drop(writer);
        }
        let is_prefix = self.random.one_in(3);
        let intent = if is_prefix { Intent::Prefix } else { Intent::Copy };
        let begun = self.store().write(block, stamp, intent, None);
        self.note("copy", block, &(is_prefix, begun.as_ref().map(|_| ())));
        self.prefixes.remove(&block);
        if is_prefix {
            self.prefixes.insert(block);
        }
        if self.replica(block).is_none() {
            self.promises.remove(&block);
        }
        if begun.is_ok() {
            self.copies.insert(block);
        }
        self.begun(block, begun);
    }

    /// A replica gets a new stamp.
    fn restamp(&mut self, block: BlockId, prior: GenerationStamp, stamp: GenerationStamp) {
        if self.unsynced.contains(&(block, prior)) {
            self.unsynced.insert((block, stamp));
        }
    }

    /// Whoever orders this knows that nobody was promised more.
    fn cut(&mut self, block: BlockId, length: u64) {
        if length == 0 {
            self.acknowledged.remove(&block);
        }
    }

    /// A writer ends. Where a sync behind it has met a full disk, the store gives up its replica and reports that.
    fn let_go(&mut self, block: BlockId) {
        let had_one = self.writers.remove(&block).is_some();
        if had_one && self.may_be_full {
            self.note_full(block, &Err::<(), _>(StoreError::Full));
        }
    }

    fn begin_resume(&mut self, block: BlockId) {
        self.let_go(block);
        self.copies.remove(&block);
        let Some(found) = self.replica(block) else { return };
        let stamp = self.next_stamp();
        let least = match found.was_finalized() {
            true => found.length,
            false => self.promised_length(block).min(found.length),
        };
        let offset = least + self.random.below((found.length - least) as usize + 1) as u64;
        self.cut(block, offset);
        self.unfinalize(block);
        self.restamp(block, found.stamp, stamp);
        let resume = Intent::Resume(Resume {
            prior: found.stamp,
            offset,
            after_break: self.random.one_in(2),
        });
        let begun = self.store().write(block, stamp, resume, None);
        self.note("resume", block, &(offset, begun.as_ref().map(ReplicaWriter::length)));
        self.note_full(block, &begun);
        self.begun(block, begun);
    }

    fn begun(&mut self, block: BlockId, begun: Result<ReplicaWriter, StoreError>) {
        self.ended.remove(&block);
        if let Ok(mut writer) = begun {
            if self.random.one_in(2) {
                writer.sync_ahead();
            }
            if self.random.one_in(2) {
                writer.bypass_cache();
            }
            self.writers.insert(block, writer);
        }
    }

    fn write(&mut self, block: BlockId) {
        let large = self.random.one_in(40);
        let is_last = self.random.one_in(2);
        let step = [1, 7, 100, 300, 512, 1100, 3000][self.random.below(7)];
        if self.ended.contains(&block) {
            return;
        }
        let Some(writer) = self.writers.get_mut(&block) else { return };
        let begin = writer.length();
        let end = if large { begin.next_multiple_of(4096) + (300 << 10) } else { begin + step };
        let mut packet = packet(block, begin, end);
        // All of a small one, as far as its writer knows.
        packet.header.last = begin == 0 && is_last;
        if packet.header.last {
            self.ended.insert(block);
        }
        let written = writer.write(packet);
        if written.is_err() || self.random.one_in(10) {
            self.writers.remove(&block);
        } else if self.random.one_in(2) {
            let _ = writer.in_flight();
            writer.note_acked(end);
            if !self.copies.contains(&block) {
                self.acknowledged.entry(block).or_insert(writer.stamp());
            }
        }
        self.note_full(block, &written);
        self.note("write", block, &(begin, end, written));
    }

    fn sync(&mut self, block: BlockId) {
        if self.ended.contains(&block) {
            return;
        }
        let Some(writer) = self.writers.get_mut(&block) else { return };
        let synced = writer.sync_entry();
        let (length, stamp) = (writer.length(), writer.stamp());
        self.note("sync", block, &(length, &synced));
        if synced.is_ok() {
            // Nobody is promised a part of a copy.
            if !self.copies.contains(&block) {
                let promise = Promise { stamp, length, is_finalized: false, survives_power: true };
                self.promise(block, promise);
            }
        } else {
            self.writers.remove(&block);
            self.note_full(block, &synced);
        }
    }

    fn finalize(&mut self, block: BlockId) {
        let Some(writer) = self.writers.remove(&block) else { return };
        let (length, stamp) = (writer.length(), writer.stamp());
        let is_copy = self.copies.contains(&block);
        if is_copy && self.prefixes.contains(&block) {
            return self.leave(block, writer);
        }
        let way = match self.random.below(6) {
            1 if is_copy => 2,
            way => way,
        };
        if !is_copy {
            self.unfinalize(block);
        }
        let result = match way {
            0 => {
                // What a sync has promised before is as good as this from now on.
                self.promises.remove(&block);
                self.unsynced.insert((block, stamp));
                writer.finalize_unsynced()
            }
            1 => {
                writer.finalize_behind();
                self.behind.push((block, stamp));
                self.note("finalize behind", block, &length);
                return;
            }
            // Alone, and as one of several.
            _ if stamp.0.is_multiple_of(2) => writer.finalize(),
            _ => ReplicaWriter::finalize_all([writer]).remove(0),
        };
        self.note("finalize", block, &(way, length, &result));
        self.note_full(block, &result);
        let survives_power = way != 0;
        let promise = Promise { stamp, length, is_finalized: true, survives_power };
        if result.is_ok() {
            if is_copy && length == 0 {
                // Nothing is in the place of what was acknowledged, as after a cut.
                self.acknowledged.remove(&block);
            }
            self.promise(block, promise);
        } else if is_copy {
            self.note_failed(block, promise);
        }
    }

    /// A prefix is complete. A power cut leaves any part of it, until whoever goes on with it syncs.
    fn leave(&mut self, block: BlockId, writer: ReplicaWriter) {
        let (length, stamp) = (writer.length(), writer.stamp());
        let result = writer.leave();
        self.note("leave", block, &(length, &result));
        if self.replica(block).is_none_or(|replica| replica.stamp == stamp) {
            self.promises.remove(&block);
        }
        self.note_full(block, &result);
        let promise = Promise { stamp, length, is_finalized: false, survives_power: false };
        if result.is_err() {
            self.note_failed(block, promise);
        } else if length > 0 {
            self.copies.remove(&block);
            self.promise(block, promise);
        } else {
            // Nothing is in the place of what was acknowledged, as after a cut.
            self.acknowledged.remove(&block);
        }
    }

    /// What was finalized behind is promised where the store reports it.
    fn note_behind(&mut self) {
        for (block, stamp) in std::mem::take(&mut self.behind) {
            let Some(found) = self.replica(block).filter(|found| found.stamp == stamp) else {
                if self.may_be_full {
                    self.note_full(block, &Err::<(), _>(StoreError::Full));
                }
                continue;
            };
            match found.state {
                State::Finalized => {
                    let (length, survives_power) = (found.length, true);
                    let is_finalized = true;
                    self.promise(block, Promise { stamp, length, is_finalized, survives_power });
                }
                State::Receiving | State::Finalizing => self.behind.push((block, stamp)),
                _ => {}
            }
        }
    }

    fn recover(&mut self, block: BlockId) {
        self.let_go(block);
        let stamp = self.next_stamp();
        let summary = self.store().begin_recovery(block, stamp);
        self.note("recover", block, &summary);
        if let Ok(Found::Nothing { since: Some(since) }) = summary {
            let lost = self.acknowledged.get(&block).filter(|stamp| **stamp >= since);
            assert_eq!(lost, None, "nothing is known of block {block} since {since}");
            self.vouched_count += 1;
        }
        let Some(summary) = summary.ok().and_then(Found::replica) else { return };
        if self.random.one_in(5) {
            return;
        }
        let least = match summary.finalized {
            true => summary.length,
            false => self.promised_length(block).min(summary.length),
        };
        let length = least + self.random.below((summary.length - least) as usize + 1) as u64;
        self.cut(block, length);
        self.unfinalize(block);
        self.restamp(block, summary.stamp, stamp);
        let updated = self.store().update(block, stamp, length);
        self.note("update", block, &(length, &updated));
        self.note_full(block, &updated);
        if updated.is_ok() {
            let survives_power = true;
            self.promise(block, Promise { stamp, length, is_finalized: true, survives_power });
        }
    }

    fn delete(&mut self, block: BlockId) {
        self.writers.remove(&block);
        self.promises.remove(&block);
        self.acknowledged.remove(&block);
        let stamp = GenerationStamp(self.last_stamp);
        self.store().delete(block, stamp);
        self.note("delete", block, &self.replica(block).is_some());
    }

    /// A file is lost behind the store's back.
    fn lose(&mut self, block: BlockId) {
        if self.copies.contains(&block) {
            self.writers.remove(&block);
        }
        let Some(found) = self.replica(block).filter(Replica::is_finalized) else { return };
        let name = format!("blk_{block}_{}", found.stamp);
        let roots = self.roots.clone();
        let files =
            roots.iter().flat_map(|root| self.machine.files(&root.join("volume/finalized")));
        for path in files.filter(|path| path.ends_with(&name)).collect::<Vec<_>>() {
            self.machine.lose(&path).unwrap();
        }
        self.promises.remove(&block);
        let differences = self.store().compare_with_disks(NEVER);
        self.note("lose", block, &differences);
    }

    /// The segments are lost behind the store's back, or the files that a writer has open. What is acknowledged from now on must be there all the same.
    fn lose_open(&mut self, block: BlockId) {
        let of_writer = self.random.one_in(2);
        let folder = if of_writer { "volume/rbw" } else { "volume/small" };
        let name = format!("blk_{block}_");
        if of_writer && !self.writers.contains_key(&block) {
            return;
        }
        let roots = self.roots.clone();
        let files = roots.iter().flat_map(|root| self.machine.files(&root.join(folder)));
        let is_meant = |path: &PathBuf| !of_writer || path.to_string_lossy().contains(&name);
        let lost: Vec<PathBuf> = files.filter(is_meant).collect();
        lost.iter().for_each(|path| self.machine.lose(path).unwrap());
        let found = roots.iter().flat_map(|root| self.machine.files(&root.join("volume")));
        let found: Vec<String> = found.map(|path| path.display().to_string()).collect();
        self.promises.retain(|block, promise| {
            let name = format!("/blk_{block}_{}", promise.stamp);
            found.iter().any(|path| path.ends_with(&name))
        });
        self.note("lose open", block, &(of_writer, lost.len()));
    }

    /// Bytes of a replica match their checksums and are the client's.
    fn read(&mut self, block: BlockId, strict: bool) {
        let store = self.store();
        let Some(found) = self.replica(block) else { return };
        let opened = match store.open_at_least(block, found.stamp) {
            Ok(opened) => opened,
            Err(error) if strict => panic!("block {block} cannot be opened: {error:?}"),
            Err(_) => return,
        };
        let length = opened.replica.length;
        let may_be_torn = self.unsynced.contains(&(block, found.stamp));
        if !opened.is_tail_open {
            let verified = verify_range(block, &opened.block, &opened.meta, 0, length, |_| ());
            match verified {
                Ok(()) => {}
                Err(StoreError::Corrupt { .. } | StoreError::Meta { .. }) if may_be_torn => return,
                Err(StoreError::Meta { .. }) if length == 0 => {}
                Err(StoreError::Io { .. }) if !strict => return,
                Err(error) => panic!("{:?} is served: {error:?}", opened.replica),
            }
        }
        let mut read = vec![0; length as usize];
        match opened.block.read_exact_at(&mut read, 0) {
            Ok(()) => {
                let is_right = read == bytes(block, 0, length);
                assert!(is_right || (opened.is_tail_open && may_be_torn), "{:?}", opened.replica);
            }
            Err(error) => assert!(!strict, "block {block}: {error:?}"),
        }
    }

    fn step(&mut self) {
        let block = BlockId(BLOCKS[self.random.below(BLOCKS.len())]);
        let store = self.store();
        let what = self.random.below(40);
        match what {
            0..=1 => self.begin_new(block),
            2 => self.begin_copy(block),
            3..=5 => self.begin_resume(block),
            6..=17 => self.write(block),
            18..=21 => self.sync(block),
            22..=25 => self.finalize(block),
            26..=27 => self.recover(block),
            28 => self.delete(block),
            29 => self.let_go(block),
            30..=32 => drop(store.run_behind()),
            33 => store.check_volumes(),
            34 => drop(store.compare_with_disks(NEVER)),
            35 => {
                self.machine.advance(Duration::from_secs(31));
                store.empty_trash(NEVER);
            }
            36 => store.save_cursor(Cursor { block: Some(block), round_ms: 1 }),
            37 if self.random.one_in(4) => self.lose(block),
            38 if self.random.one_in(3) => self.lose_open(block),
            _ => self.read(block, false),
        }
        if !self.machine.is_down() {
            self.note_behind();
        }
        let failed = store.failed_volumes().len();
        self.trace.push(format!("{what} {block}: {failed} failed, {}", self.machine.operations()));
    }

    fn plan(&mut self, within: usize) {
        for (fault, odds) in [
            (Fault::PowerCut, 2),
            (Fault::Kill, 4),
            (Fault::Io, 3),
            (Fault::Io, 6),
            (Fault::Full, 4),
            (Fault::Descriptors, 4),
        ] {
            if self.random.one_in(odds) {
                let at = 1 + self.random.below(within) as u64;
                self.machine.plan(at, fault);
                self.may_be_full |= fault == Fault::Full;
            }
        }
    }

    /// The process ends as a crash ends it, and the machine starts again.
    fn end(&mut self) {
        if !self.machine.is_down() {
            match self.random.one_in(3) {
                true => self.machine.kill(),
                false => self.machine.cut_power(),
            }
        }
        self.writers.clear();
        if let Some(store) = self.store.take() {
            store.forget_behind();
        }
        self.behind.clear();
        self.may_be_full = false;
        let is_cut = self.machine.start();
        if is_cut {
            self.promises.retain(|_, promise| promise.survives_power);
            // A power cut leaves any part of it.
            let unsynced = self.instead.values_mut().filter(|copy| !copy.survives_power);
            unsynced.for_each(|copy| copy.length = 0);
        }
        self.trace.push(format!("end {is_cut}"));
    }

    /// Opens the store; a fault may happen meanwhile.
    fn start(&mut self) {
        if self.random.one_in(3) {
            self.plan(60);
            let opened = self.open();
            self.trace.push(format!("open {:?}", opened.as_ref().map(|store| store.replicas())));
            drop(opened);
            self.end();
        }
        let store = self.open().expect("it opens after every crash");
        assert!(store.failed_volumes().is_empty());
        store.vouch_from(GenerationStamp(self.last_stamp + 1), store.loss_count());
        self.store = Some(Arc::new(store));
        self.check();
    }

    /// All promises are kept, and nothing is served that nobody wrote.
    fn check(&mut self) {
        let replicas = self.store().replicas();
        self.trace.push(format!("found {replicas:?}"));
        for root in &self.roots {
            self.trace.push(format!("files {:?}", self.machine.files(root)));
        }
        for (block, copy) in std::mem::take(&mut self.instead) {
            // It was not acknowledged: from now on nothing is promised.
            if replicas.iter().any(|replica| replica.block == block && copy.is_kept_by(replica)) {
                self.promises.remove(&block);
            }
        }
        for (block, promise) in &self.promises {
            let found = replicas.iter().find(|replica| replica.block == *block);
            let kept = found.is_some_and(|found| promise.is_kept_by(found));
            // A replica without data is as good as none.
            let kept = kept || (!promise.is_finalized && promise.length == 0);
            assert!(kept, "block {block}: {promise:?}, found {found:?}");
        }
        for replica in &replicas {
            self.read(replica.block, true);
        }
        let differences = self.store().compare_with_disks(NEVER);
        assert_eq!(differences, Differences::default());
    }

    fn run(&mut self) {
        for _ in 0..LIVES {
            self.start();
            self.plan(400);
            for _ in 0..STEPS {
                self.step();
                if self.machine.is_down() {
                    break;
                }
            }
            self.end();
        }
        self.start();
        self.end();
    }
}

#[test]
fn what_was_promised_survives_whatever_happens_to_the_disks() {
    let (mut count, mut promised, mut vouched) = (0, 0, 0);
    needs::seeds::for_each(SEEDS, |seed| {
        let mut run = Run::new(seed);
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.run()));
        if let Err(failure) = failed {
            println!("{}", run.trace.join("\n"));
            std::panic::resume_unwind(failure);
        }
        count += 1;
        promised += run.promised_count;
        vouched += run.vouched_count;
    });
    assert!(promised > 0 || count < SEEDS, "nothing was promised");
    assert!(vouched > 0 || count < SEEDS, "nobody ever vouched");
}

#[test]
fn the_same_seed_does_the_same_again() {
    let run = |seed| {
        let mut run = Run::new(seed);
        run.run();
        let root = run.roots[0].parent().unwrap().display().to_string();
        run.trace.iter().map(|line| line.replace(&root, "")).collect::<Vec<_>>()
    };
    for seed in 0..10 {
        assert_eq!(run(seed), run(seed));
    }
}

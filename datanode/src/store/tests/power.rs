//! The state that a start finds after a power cut: all synced bytes, and any subset of the pages written since.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use needs::random::Random;
use protocol::checksum::CHUNK_BYTES;
use protocol::transfer::Resume;
use protocol::{BlockId, GenerationStamp};
use transport::{PacketPool, PooledPacket};

use crate::core::replica::{Intent, State};
use crate::store::volume::{ReplicaPaths, VolumeConfig};
use crate::store::{ReplicaWriter, Store, scan, verify_range};

const BLOCK: BlockId = BlockId(7);
const STAMP: GenerationStamp = GenerationStamp(1001);
/// Bytes that reach the disk together in these tests; less than any disk's sector.
const UNIT_BYTES: usize = 8;
/// Mixes tried at one moment: all of them if there are no more, otherwise this many at random.
const MIXES_MAX: usize = 64;
const SEEDS: u64 = 8;
/// Cuts per seed.
const ROUNDS: u64 = 4;

fn open(root: &Path) -> Arc<Store> {
    let config = VolumeConfig {
        path: root.join("volume"),
        reserved_bytes: Some(0),
        trash_grace: Duration::ZERO,
        bypass_cache: false,
        small_bytes_max: 0,
    };
    Arc::new(Store::open(&[config], 1 << 20, None).unwrap())
}

fn sample(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 31 % 251) as u8).collect()
}

/// Bytes `begin..end` of `data` as a client sends them: from the start of the chunk.
fn packet(data: &[u8], begin: usize, end: usize) -> PooledPacket {
    let begin = begin / CHUNK_BYTES * CHUNK_BYTES;
    let mut packet = PacketPool::default().take();
    packet.header.offset = begin as u64;
    packet.append(&data[begin..end], (end - begin).max(1));
    packet.seal();
    packet
}

fn rbw(root: &Path) -> ReplicaPaths {
    ReplicaPaths::new(&root.join("volume/rbw"), BLOCK, STAMP)
}

/// A replica whose first `length` bytes are synced, left when its DataNode ended.
fn synced(root: &Path, data: &[u8], length: usize) {
    let store = open(root);
    let mut writer = store.write(BLOCK, STAMP, Intent::Create, None).unwrap();
    writer.write(packet(data, 0, length)).unwrap();
    writer.sync_entry().unwrap();
}

fn append(path: &Path, junk: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    bytes.extend_from_slice(junk);
    fs::write(path, bytes).unwrap();
}

/// A start finds at least `length` bytes, all of them right, and provable from the files as they then are.
fn check_start(root: &Path, data: &[u8], length: usize) {
    let opened = open(root).open_any(BLOCK).unwrap();
    let found = opened.replica;
    assert_eq!(found.state, State::Unfinished);
    assert!(found.length >= length as u64, "{} of {length} bytes", found.length);
    verify_range(BLOCK, &opened.block, &opened.meta, 0, found.length, |_| ()).unwrap();
    let mut bytes = vec![0; length];
    opened.block.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == data[..length]);
}

#[test]
fn junk_behind_synced_bytes_takes_none_of_them() {
    let data = sample(200_000);
    for length in [1, 511, 512, 513, 100_100] {
        for of_meta in [0, 3, 100] {
            let root = tempfile::tempdir().unwrap();
            synced(root.path(), &data, length);
            append(&rbw(root.path()).block, &[0xa5; 100]);
            append(&rbw(root.path()).meta, &vec![0x5a; of_meta]);
            check_start(root.path(), &data, length);
            // A second start finds the same: the first has made nothing worse.
            check_start(root.path(), &data, length);
        }
    }
}

/// What a file holds at one moment.
type Content = Vec<u8>;

/// A choice among old and new for each unit that differs: all combinations in turn, or random ones where those are too many.
struct Choices {
    random: Random,
    digits: Vec<usize>,
    radices: Vec<usize>,
    at: usize,
    exhaustive: bool,
}

impl Choices {
    fn below(&mut self, end: usize) -> usize {
        if !self.exhaustive {
            return self.random.below(end);
        }
        if self.at == self.digits.len() {
            self.digits.push(0);
            self.radices.push(end);
        }
        self.at += 1;
        self.digits[self.at - 1]
    }

    /// Moves to the next combination; false after the last. The available choices may depend on earlier ones.
    fn next(&mut self) -> bool {
        self.at = 0;
        while let (Some(digit), Some(radix)) = (self.digits.pop(), self.radices.pop()) {
            if digit + 1 < radix {
                self.digits.push(digit + 1);
                self.radices.push(radix);
                return true;
            }
        }
        false
    }
}

/// A possible state of a file that went through these versions since it was certainly on disk: its length is that of one version, and so is each unit.
fn mix(versions: &[&Content], choices: &mut Choices) -> Content {
    let mut lengths: Vec<usize> = versions.iter().map(|version| version.len()).collect();
    lengths.dedup();
    let length = lengths[choices.below(lengths.len())];
    let mut mixed = vec![0; length];
    for (index, unit) in mixed.chunks_mut(UNIT_BYTES).enumerate() {
        let mut left: Vec<[u8; UNIT_BYTES]> = Vec::new();
        for version in versions {
            let mut bytes = [0; UNIT_BYTES];
            let rest = version.get(index * UNIT_BYTES..).unwrap_or_default();
            let count = rest.len().min(UNIT_BYTES);
            bytes[..count].copy_from_slice(&rest[..count]);
            if !left.contains(&bytes) {
                left.push(bytes);
            }
        }
        let chosen = if left.len() == 1 { 0 } else { choices.below(left.len()) };
        unit.copy_from_slice(&left[chosen][..unit.len()]);
    }
    mixed
}

/// A replica being written, all states that its disk may hold, and what was promised.
struct Bench {
    root: tempfile::TempDir,
    random: Random,
    data: Vec<u8>,
    stamp: GenerationStamp,
    /// Block and meta file: the state certainly on disk, then each state since.
    states: Vec<(Content, Content)>,
    promised: usize,
    checked: u64,
}

impl Bench {
    fn new(seed: u64) -> Self {
        Bench {
            root: tempfile::tempdir().unwrap(),
            random: Random::new(seed),
            data: sample(6000),
            stamp: STAMP,
            states: vec![Default::default()],
            promised: 0,
            checked: 0,
        }
    }

    fn paths(&self) -> ReplicaPaths {
        ReplicaPaths::new(&self.root.path().join("volume/rbw"), BLOCK, self.stamp)
    }

    /// Records what the files hold now and checks every possible remainder.
    fn look(&mut self) {
        let paths = self.paths();
        self.states.push((fs::read(&paths.block).unwrap(), fs::read(&paths.meta).unwrap()));
        self.check_mixes();
    }

    /// Everything is on disk as of the last check.
    fn synced(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    fn mix(&self, choices: &mut Choices) -> (Content, Content) {
        let (blocks, metas): (Vec<&Content>, Vec<&Content>) =
            self.states.iter().map(|(block, meta)| (block, meta)).unzip();
        (mix(&blocks, choices), mix(&metas, choices))
    }

    fn check_mixes(&mut self) {
        let random = Random::new(self.random.bits());
        let (digits, radices) = (Vec::new(), Vec::new());
        let mut choices = Choices { random, digits, radices, at: 0, exhaustive: true };
        let first = self.mix(&mut choices);
        self.check(&first);
        let combinations = choices
            .radices
            .iter()
            .try_fold(1usize, |all, radix| all.checked_mul(*radix).filter(|all| *all <= MIXES_MAX));
        choices.exhaustive = combinations.is_some();
        for _ in 1..MIXES_MAX {
            if choices.exhaustive && !choices.next() {
                return;
            }
            let left = self.mix(&mut choices);
            self.check(&left);
        }
    }

    /// A start on the remains finds what was promised and nothing that was not written, and proves it.
    fn check(&mut self, (block, meta): &(Content, Content)) {
        self.checked += 1;
        // New files each time: some file systems write a truncated file to the disk when it is closed.
        let folder = self.root.path().join("left");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let paths = ReplicaPaths::new(&folder, BLOCK, self.stamp);
        fs::write(&paths.block, block).unwrap();
        fs::write(&paths.meta, meta).unwrap();
        let length = match scan::unfinished(&folder, BLOCK, self.stamp).unwrap() {
            Some(replica) => replica.length as usize,
            None => 0,
        };
        assert!(length >= self.promised, "{length} of {} bytes promised", self.promised);
        assert!(block[..length] == self.data[..length], "bytes that nobody wrote");
        let (block, meta) = paths.open_for_reading().unwrap();
        if length > 0 {
            verify_range(BLOCK, &block, &meta, 0, length as u64, |_| ()).unwrap();
        }
    }

    /// Writes up to `end`; synced, its bytes are promised.
    fn write(&mut self, writer: &mut ReplicaWriter, end: usize, sync: bool) {
        let begin = writer.length() as usize;
        writer.write(packet(&self.data, begin, end)).unwrap();
        self.look();
        if sync {
            writer.sync_entry().unwrap();
            self.synced();
            self.promised = end;
            self.check_mixes();
        }
    }

    /// Continues to random ends, most of them within the chunk of the last one.
    fn write_on(&mut self, writer: &mut ReplicaWriter, count: usize) {
        for _ in 0..count {
            let step = [1, 7, 100, 300, 512, 1100][self.random.below(6)];
            let end = (writer.length() as usize + step).min(self.data.len());
            let sync = self.random.below(2) == 0;
            self.write(writer, end, sync);
        }
    }

    /// Continues an existing replica as a writer does: it first does what makes that safe.
    fn resume(
        &mut self,
        store: &Arc<Store>,
        prior: GenerationStamp,
        offset: usize,
    ) -> ReplicaWriter {
        let resume = Intent::Resume(Resume { prior, offset: offset as u64, after_break: false });
        let mut writer = store.write(BLOCK, self.stamp, resume, None).unwrap();
        self.look();
        let before = self.states.clone();
        writer.guard_what_is_there().unwrap();
        self.look();
        if self.states.last() != before.last() {
            // It synced the existing bytes, wrote a tail, and synced that.
            self.states.drain(..before.len() - 1);
            self.check_mixes();
            self.synced();
        }
        writer
    }

    /// Closes the replica at `length`: all of it is promised.
    fn recover(&mut self, store: &Arc<Store>, length: usize) {
        self.stamp = GenerationStamp(self.stamp.0 + 1);
        store.begin_recovery(BLOCK, self.stamp).unwrap();
        store.update(BLOCK, self.stamp, length as u64).unwrap();
        self.promised = length;
        let folder = self.root.path().join("volume/finalized/00");
        let paths = ReplicaPaths::new(&folder, BLOCK, self.stamp);
        self.states = vec![(fs::read(paths.block).unwrap(), fs::read(paths.meta).unwrap())];
    }

    /// A power cut: the remainder is one of the mixes.
    fn cut(&mut self) {
        let random = Random::new(self.random.bits());
        let (digits, radices) = (Vec::new(), Vec::new());
        let mut choices = Choices { random, digits, radices, at: 0, exhaustive: false };
        let left = self.mix(&mut choices);
        let paths = self.paths();
        fs::write(&paths.block, &left.0).unwrap();
        fs::write(&paths.meta, &left.1).unwrap();
        self.states = vec![left];
    }
}

/// However much of the data written since the last sync has reached the disk, in units smaller than any disk's, of either file: a start finds what was synced.
/// Writers, cuts and starts follow one another; after a cut-off writer, either the same writer continues, or a recovery and an append follow.
#[test]
fn every_mix_of_old_and_new_units_has_what_was_synced() {
    let mut checked = 0;
    for seed in 0..SEEDS {
        let mut bench = Bench::new(seed);
        {
            let store = open(bench.root.path());
            let mut writer = store.write(BLOCK, STAMP, Intent::Create, None).unwrap();
            bench.write_on(&mut writer, 6);
        }
        for _ in 0..ROUNDS {
            bench.cut();
            let store = open(bench.root.path());
            let Ok(found) = store.open_any(BLOCK) else { break };
            let length = found.replica.length as usize;
            if length == 0 {
                break;
            }
            let offset = match seed % 2 {
                0 => {
                    bench.recover(&store, length);
                    length
                }
                _ => bench.promised + bench.random.below(length - bench.promised + 1),
            };
            let prior = bench.stamp;
            bench.stamp = GenerationStamp(prior.0 + 1);
            let mut writer = bench.resume(&store, prior, offset);
            bench.write_on(&mut writer, 5);
        }
        checked += bench.checked;
    }
    assert!(checked > SEEDS * 1000, "{checked} mixes");
}

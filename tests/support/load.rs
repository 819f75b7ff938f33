//! What goes on while daemons are killed, stopped and cut off from power, and the ledger of what was acknowledged.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use client::dfs::{CreateOptions, DfsClient, DfsError, DfsWriter};
use protocol::DfsPath;
use transport::Timeouts;
use transport::rpc::CallOptions;

use super::client::{config, connect};
use super::cluster::hanno_binary;
use super::signal::Signal;
use super::{Caller, Outcome, data, wait};

/// Writers that sync whatever they have written, half of them with the length.
const WRITERS: u64 = 6;
/// Writers that close and append.
const APPENDERS: u64 = 3;
/// Writers of small files who rename, delete, overwrite and take snapshots.
const KEEPERS: u64 = 2;
/// Bytes per block: borders are met.
const BLOCK_BYTES: u64 = 64 << 10;
/// Contents of files: too many for two to be the same by chance, few enough to count on from each.
const CONTENTS: u64 = 1 << 60;
/// Most bytes of one file.
const FILE_BYTES_MAX: usize = 4 << 20;
/// Most names in one directory: then another is begun.
const NAMES_MAX: usize = 24;
/// Most bytes between two syncs.
const STEP_BYTES_MAX: u64 = 3000;
/// Acknowledgements before a cut: at least, and at most so many more.
const WORK: (u64, u64) = (200, 2000);
/// Time for that.
const WORK_MAX: Duration = Duration::from_secs(120);
/// One step in so many closes the file of a writer, who begins another.
const STEPS_OF_A_FILE: u64 = 512;
/// Pause after an error: what cannot be reached is not asked all the time.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
/// Time for a file to be closed after a start.
const RECOVERED_MAX: Duration = Duration::from_secs(60);

fn path(text: &str) -> DfsPath {
    DfsPath::parse(text).unwrap()
}

/// The name of a file that was not published yet.
const TEMPORARY: &str = "._COPYING_";

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Flaw {
    /// What was acknowledged is missing or cannot be read.
    Lost,
    /// There is something else than what was written.
    Wrong,
    /// Something does not end.
    Stuck,
}

/// Something that is wrong, and where.
pub(crate) type Problem = (Flaw, String);

/// What was seen and found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) files: u64,
    pub(crate) acknowledged_bytes: u64,
    pub(crate) changes: u64,
    pub(crate) problems: Vec<Problem>,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.files += other.files;
        self.acknowledged_bytes += other.acknowledged_bytes;
        self.changes += other.changes;
        self.problems.extend(other.problems.iter().cloned());
    }
}

/// How long clients ask again while nobody answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// Not at all.
    None,
    /// As any client does.
    Usual,
}

/// A file that grows.
#[derive(Clone, Debug)]
struct Growing {
    path: String,
    seed: u64,
    /// A sync or an end was acknowledged: the file stays. Until then its writer takes it away when it gives up.
    promised: bool,
    /// Bytes that were acknowledged as synced or closed.
    acknowledged: usize,
    /// Bytes that were sent.
    sent: usize,
}

/// What a name in a kept directory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    /// A small file, and the seed of its content.
    File(u64),
    /// An empty directory.
    Directory,
}

/// Everything in one directory.
type Names = BTreeMap<String, Entry>;

/// A directory that one keeper changes.
#[derive(Clone, Debug, Default)]
struct KeptDirectory {
    directory: String,
    made: bool,
    /// What was acknowledged.
    names: Names,
    /// What is there if the change under way was made.
    next: Option<Names>,
    snapshots: BTreeMap<String, Names>,
    changes: u64,
}

enum Record {
    Growing(Growing),
    Directory(KeptDirectory),
}

/// Everybody who works.
pub(crate) struct Load {
    stop: Arc<Signal>,
    /// Told of each acknowledgement.
    acknowledged: Arc<Signal>,
    threads: Vec<JoinHandle<Vec<Record>>>,
    work: u64,
}

/// What was acknowledged.
pub(crate) struct Ledger(Vec<Record>);

struct Worker {
    client: DfsClient,
    stop: Arc<Signal>,
    acknowledged: Arc<Signal>,
    choices: data::Choices,
}

impl Load {
    pub(crate) fn start(namenode: &str, seed: u64, patience: Patience) -> Load {
        let (stop, acknowledged) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
        let mut choices = data::Choices::new(seed);
        let work = WORK.0 + choices.below(WORK.1);
        let mut threads = Vec::new();
        for number in 0..WRITERS + APPENDERS + KEEPERS {
            let timeouts = Timeouts {
                connect: Duration::from_secs(2),
                io: Duration::from_secs(3),
                idle: Duration::from_millis(500),
            };
            let calls = match patience {
                Patience::None => CallOptions::once(Duration::from_secs(10)),
                Patience::Usual => CallOptions::default(),
            };
            let client = DfsClient::connect_with(&config(namenode), calls, timeouts).unwrap();
            let choices = data::Choices::new(choices.below(u64::MAX));
            let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
            let mut worker = Worker { client, stop, acknowledged, choices };
            threads.push(std::thread::spawn(move || worker.work(number)));
        }
        Load { stop, acknowledged, threads, work }
    }

    /// Lets everybody work until so much was acknowledged as the seed says.
    pub(crate) fn work(&self) {
        let done = self.acknowledged.wait_for(self.work, WORK_MAX);
        assert!(done, "only {} acknowledgements within {WORK_MAX:?}", self.acknowledged.count());
    }

    /// Ends it.
    pub(crate) fn stop(self) -> Ledger {
        self.stop.tell();
        Ledger(self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect())
    }
}

impl Growing {
    fn acknowledge(&mut self, length: usize) {
        (self.promised, self.acknowledged) = (true, length);
    }

    fn new(path: String, seed: u64) -> Self {
        Growing { path, seed, promised: false, acknowledged: 0, sent: 0 }
    }
}

impl Worker {
    /// One file or directory after the other, each until the first error in it.
    fn work(&mut self, number: u64) -> Vec<Record> {
        let mut records = Vec::new();
        while !self.is_over() {
            let name = format!("{number}-{}", records.len());
            let seed = self.choices.below(CONTENTS);
            records.push(match number {
                0..WRITERS => Record::Growing(self.write(&name, seed)),
                WRITERS.. if number < WRITERS + APPENDERS => {
                    Record::Growing(self.append(&name, seed))
                }
                _ => Record::Directory(self.keep(&name, seed)),
            });
        }
        records
    }

    fn is_over(&self) -> bool {
        self.stop.count() > 0
    }

    /// What failed is not tried again at once.
    fn pause(&self) {
        self.stop.wait_for(1, ERROR_PAUSE);
    }

    fn create(&self, name: &str) -> Result<DfsWriter, DfsError> {
        let options = CreateOptions { block_size: Some(BLOCK_BYTES), ..CreateOptions::default() };
        self.client.create(&path(name), options)
    }

    /// Writes and syncs.
    fn write(&mut self, name: &str, seed: u64) -> Growing {
        let mut file = Growing::new(format!("/load/written-{name}"), seed);
        let (bytes, with_length) = (data::bytes(seed, FILE_BYTES_MAX), seed.is_multiple_of(2));
        let Ok(mut writer) = self.create(&file.path) else {
            self.pause();
            return file;
        };
        while !self.is_over() {
            let step = 1 + self.choices.below(STEP_BYTES_MAX) as usize;
            let end = (file.sent + step).min(bytes.len());
            let is_last = end == bytes.len() || self.choices.below(STEPS_OF_A_FILE) == 0;
            let begin = std::mem::replace(&mut file.sent, end);
            if writer.write_all(&bytes[begin..end]).is_err() {
                return file;
            }
            if is_last {
                if writer.close().is_ok() {
                    file.acknowledge(end);
                    self.acknowledged.tell();
                }
                return file;
            }
            let synced = match self.choices.below(4) {
                0 => writer.hflush().is_ok() && writer.hsync().is_ok(),
                _ if with_length => writer.hsync_with_length().is_ok(),
                _ => writer.hsync().is_ok(),
            };
            if !synced {
                return file;
            }
            file.acknowledge(end);
            self.acknowledged.tell();
        }
        file
    }

    /// Appends and closes.
    fn append(&mut self, name: &str, seed: u64) -> Growing {
        let mut file = Growing::new(format!("/load/appended-{name}"), seed);
        let bytes = data::bytes(seed, FILE_BYTES_MAX);
        while !self.is_over() && file.sent < bytes.len() {
            if self.append_once(&mut file, &bytes).is_err() {
                self.pause();
                break;
            }
            self.acknowledged.tell();
        }
        file
    }

    fn append_once(&mut self, file: &mut Growing, bytes: &[u8]) -> Result<(), DfsError> {
        let mut writer = match file.promised {
            true => self.client.append(&path(&file.path), false)?,
            false => self.create(&file.path)?,
        };
        for _ in 0..1 + self.choices.below(3) {
            let step = self.choices.below(STEP_BYTES_MAX) as usize;
            let end = (file.sent + step).min(bytes.len());
            let begin = std::mem::replace(&mut file.sent, end);
            writer.write_all(&bytes[begin..end]).map_err(|_| DfsError::Unexpected)?;
            if self.choices.below(3) == 0 {
                writer.hsync()?;
                file.acknowledge(end);
            }
        }
        writer.close()?;
        file.acknowledge(file.sent);
        Ok(())
    }

    /// Changes names in a directory of its own.
    fn keep(&mut self, name: &str, seed: u64) -> KeptDirectory {
        let mut kept =
            KeptDirectory { directory: format!("/load/kept-{name}"), ..KeptDirectory::default() };
        let directory = path(&kept.directory);
        if self.client.mkdirs(&directory, 0o755, true).is_err() {
            self.pause();
            return kept;
        }
        kept.made = true;
        if self.client.allow_snapshot(&directory).is_err() {
            self.pause();
            return kept;
        }
        for number in 0.. {
            if self.is_over() || kept.names.len() > NAMES_MAX {
                break;
            }
            if self.change(&mut kept, seed, number).is_err() {
                self.pause();
                break;
            }
            kept.changes += 1;
            self.acknowledged.tell();
        }
        kept
    }

    /// Makes one change; an error means that nobody knows whether it was made.
    fn change(&mut self, kept: &mut KeptDirectory, seed: u64, number: u64) -> Result<(), DfsError> {
        let some = self.choices.below(kept.names.len().max(1) as u64) as usize;
        let some = kept.names.keys().nth(some).cloned();
        let (mut next, fresh) = (kept.names.clone(), format!("n{number}"));
        let full = |name: &str| path(&format!("{}/{name}", kept.directory));
        match (self.choices.below(7), some) {
            (0, Some(old)) => {
                let entry = next.remove(&old).expect("a name that is there");
                next.insert(fresh.clone(), entry);
                kept.next = Some(next);
                self.client.rename_to(&full(&old), &full(&fresh), false)?;
            }
            (1, Some(old)) => {
                next.remove(&old);
                kept.next = Some(next);
                self.client.delete(&full(&old), false)?;
            }
            (2, _) => {
                self.client.create_snapshot(&path(&kept.directory), Some(&fresh))?;
                kept.snapshots.insert(fresh, kept.names.clone());
            }
            (3, _) => {
                next.insert(fresh.clone(), Entry::Directory);
                kept.next = Some(next);
                self.client.mkdirs(&full(&fresh), 0o755, false)?;
            }
            (choice, old) => {
                // An old file is written anew.
                let old = old.filter(|old| choice == 4 && next[old] != Entry::Directory);
                let name = old.unwrap_or(fresh);
                let content = seed + number;
                next.insert(name.clone(), Entry::File(content));
                kept.next = Some(next);
                let options = CreateOptions {
                    overwrite: true,
                    publish_as: Some(full(&name)),
                    publish_overwrite: true,
                    ..CreateOptions::default()
                };
                let mut writer =
                    self.client.create(&full(&format!("{name}{TEMPORARY}")), options)?;
                writer.write_all(&small(content)).map_err(|_| DfsError::Unexpected)?;
                writer.close()?;
            }
        }
        if let Some(next) = kept.next.take() {
            kept.names = next;
        }
        Ok(())
    }
}

/// The content of a small file.
fn small(content: u64) -> Vec<u8> {
    data::bytes(content, 1 + (content.wrapping_mul(37) % 5000) as usize)
}

fn read(client: &DfsClient, name: &DfsPath) -> Result<Vec<u8>, String> {
    let mut reader = client.open(name).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

impl Ledger {
    /// Compares what the cluster has with what was acknowledged.
    pub(crate) fn check(&self, caller: &Caller) -> Counts {
        let client = connect(&caller.namenode);
        let mut counts = Counts::default();
        for record in &self.0 {
            let problem = match record {
                Record::Growing(file) => {
                    counts.files += 1;
                    counts.acknowledged_bytes += file.acknowledged as u64;
                    check_growing(&client, file)
                }
                Record::Directory(kept) => {
                    counts.changes += kept.changes;
                    check_kept(&client, kept)
                }
            };
            counts.problems.extend(problem.err());
        }
        let report = Outcome::of(caller.command(&hanno_binary(), &["fsck", "/"]));
        if report.code != 0 {
            counts.problems.push((Flaw::Lost, format!("fsck: {}", report.stdout_text())));
        }
        counts
    }

    /// Removes all of it.
    pub(crate) fn remove(self, caller: &Caller) -> Result<(), Problem> {
        let client = connect(&caller.namenode);
        let kept = self.0.iter().filter_map(|record| match record {
            Record::Directory(kept) if kept.made => Some(path(&kept.directory)),
            _ => None,
        });
        let stuck = |error: DfsError| (Flaw::Stuck, format!("/load cannot be removed: {error}"));
        for directory in kept {
            let snapshots = path(&format!("{directory}/.snapshot"));
            for snapshot in client.list(&snapshots).flatten() {
                client.delete_snapshot(&directory, &snapshot.name).map_err(stuck)?;
            }
        }
        client.delete(&path("/load"), true).map(drop).map_err(stuck)
    }
}

fn check_growing(client: &DfsClient, file: &Growing) -> Result<(), Problem> {
    let name = path(&file.path);
    let problem = |flaw, what: String| Err((flaw, format!("{}: {what}", file.path)));
    let mut last = Ok(false);
    let is_missing = |last: &Result<bool, DfsError>| {
        last.is_err() && !file.promised && matches!(client.try_status(&name), Ok(None))
    };
    let ended = wait::until(RECOVERED_MAX, || {
        last = client.recover_lease(&name);
        matches!(last, Ok(true)) || is_missing(&last)
    });
    match last {
        Ok(true) => {}
        Err(_) if ended => return Ok(()),
        Err(error) if matches!(client.try_status(&name), Ok(None)) => {
            return problem(Flaw::Lost, error.to_string());
        }
        last => return problem(Flaw::Stuck, format!("under recovery: {last:?}")),
    }
    let expected = data::bytes(file.seed, file.sent);
    match read(client, &name) {
        Ok(found) if found.len() < file.acknowledged => {
            problem(Flaw::Lost, format!("{} of {} bytes", found.len(), file.acknowledged))
        }
        Ok(found) if found.len() > expected.len() || found != expected[..found.len()] => {
            problem(Flaw::Wrong, format!("{} bytes, not those that were written", found.len()))
        }
        Ok(_) => Ok(()),
        Err(error) => problem(Flaw::Lost, error),
    }
}

fn check_kept(client: &DfsClient, kept: &KeptDirectory) -> Result<(), Problem> {
    if !kept.made {
        return Ok(());
    }
    let found = names_in(client, &kept.directory)?;
    let now = is_same(client, &kept.directory, &kept.names, &found);
    if let Err((flaw, text)) = now {
        let next = kept.next.as_ref().ok_or((flaw, text.clone()))?;
        is_same(client, &kept.directory, next, &found)
            .map_err(|(_, other)| (flaw, format!("{text}; after the last change, {other}")))?;
    }
    for (snapshot, names) in &kept.snapshots {
        let directory = format!("{}/.snapshot/{snapshot}", kept.directory);
        is_same(client, &directory, names, &names_in(client, &directory)?)?;
    }
    Ok(())
}

fn names_in(client: &DfsClient, directory: &str) -> Result<Vec<String>, Problem> {
    let listed = client.list(&path(directory));
    let names: Result<Vec<String>, DfsError> =
        listed.map(|entry| entry.map(|entry| entry.name)).collect();
    let mut names = names.map_err(|error| (Flaw::Lost, format!("{directory}: {error}")))?;
    names.retain(|name| !name.ends_with(TEMPORARY));
    Ok(names)
}

fn is_same(
    client: &DfsClient,
    directory: &str,
    names: &Names,
    found: &[String],
) -> Result<(), Problem> {
    if !found.iter().eq(names.keys()) {
        let is_missing = names.keys().any(|name| !found.contains(name));
        let flaw = if is_missing { Flaw::Lost } else { Flaw::Wrong };
        return Err((flaw, format!("{directory}: {found:?} instead of {:?}", names.keys())));
    }
    for (name, entry) in names {
        let full = format!("{directory}/{name}");
        let is_right = match entry {
            Entry::File(content) => {
                let bytes = read(client, &path(&full));
                bytes.map_err(|error| (Flaw::Lost, format!("{full}: {error}")))? == small(*content)
            }
            Entry::Directory => names_in(client, &full)?.is_empty(),
        };
        if !is_right {
            return Err((Flaw::Wrong, format!("{full} has other content")));
        }
    }
    Ok(())
}

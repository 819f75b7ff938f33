//! What goes on while the power is cut, and the ledger of what was acknowledged.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::dfs::transfer::Timeouts;
use client::dfs::{CreateOptions, DfsClient, DfsError, DfsWriter};
use client::rpc::CallOptions;
use protocol::DfsPath;

use crate::support::client::{config, connect};
use crate::support::{Cluster, data};

/// Writers that sync whatever they have written, half of them with the length.
const WRITERS: u64 = 6;
/// Writers that close and append.
const APPENDERS: u64 = 3;
/// Writers of small files who rename, delete, overwrite and take snapshots.
const KEEPERS: u64 = 2;
/// Bytes per block: borders are met.
const BLOCK_BYTES: u64 = 64 << 10;
/// Most bytes of one file.
const FILE_BYTES_MAX: usize = 4 << 20;
/// Most bytes between two syncs.
const STEP_BYTES_MAX: u64 = 3000;
/// How long the load runs before the cut: at least, and at most so much longer.
const WORK_MS: (u64, u64) = (300, 1200);
/// Time for a file to be closed after a start.
const RECOVERED_MAX: Duration = Duration::from_secs(60);

fn path(text: &str) -> DfsPath {
    DfsPath::parse(text).unwrap()
}

/// The name of a file that was not published yet.
const TEMPORARY: &str = "._COPYING_";

/// What was seen and found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) files: u64,
    pub(crate) acknowledged_bytes: u64,
    pub(crate) changes: u64,
    pub(crate) problems: Vec<String>,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.files += other.files;
        self.acknowledged_bytes += other.acknowledged_bytes;
        self.changes += other.changes;
        self.problems.extend(other.problems.iter().cloned());
    }
}

/// A file that grows.
#[derive(Clone, Debug)]
struct Growing {
    path: String,
    seed: u64,
    /// It was acknowledged that the file is there.
    created: bool,
    /// Bytes that were acknowledged as synced or closed.
    acknowledged: usize,
    /// Bytes that were sent.
    sent: usize,
}

/// Small files of one directory: name, and the seed of the content.
type Names = BTreeMap<String, u64>;

/// A directory that one keeper changes.
#[derive(Clone, Debug, Default)]
struct Kept {
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
    Kept(Kept),
}

/// Everybody who works.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Record>>,
    work: Duration,
}

/// What was acknowledged.
pub(crate) struct Ledger(Vec<Record>);

struct Worker {
    client: DfsClient,
    stop: Arc<AtomicBool>,
    choices: data::Choices,
}

impl Load {
    pub(crate) fn start(namenode: &str, seed: u64) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let mut choices = data::Choices(seed);
        let work = Duration::from_millis(WORK_MS.0 + choices.below(WORK_MS.1));
        let mut threads = Vec::new();
        for number in 0..WRITERS + APPENDERS + KEEPERS {
            let timeouts = Timeouts {
                connect: Duration::from_secs(2),
                io: Duration::from_secs(3),
                idle: Duration::from_millis(500),
            };
            let once = CallOptions::once(Duration::from_secs(10));
            let client = DfsClient::connect_with(&config(namenode), once, timeouts).unwrap();
            let choices = data::Choices(choices.below(u64::MAX));
            let mut worker = Worker { client, stop: Arc::clone(&stop), choices };
            let seed = seed * 100 + number;
            threads.push(std::thread::spawn(move || match number {
                0..WRITERS => Record::Growing(worker.write(seed)),
                WRITERS.. if number < WRITERS + APPENDERS => Record::Growing(worker.append(seed)),
                _ => Record::Kept(worker.keep(seed)),
            }));
        }
        Load { stop, threads, work }
    }

    /// Lets everybody work for a while.
    pub(crate) fn work(&self) {
        std::thread::sleep(self.work);
    }

    /// Ends it, when all daemons are dead.
    pub(crate) fn stop(self) -> Ledger {
        self.stop.store(true, Ordering::Release);
        Ledger(self.threads.into_iter().map(|thread| thread.join().unwrap()).collect())
    }
}

impl Worker {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn create(&self, name: &str) -> Result<DfsWriter, DfsError> {
        let options = CreateOptions {
            block_size: Some(BLOCK_BYTES),
            parents: true,
            ..CreateOptions::default()
        };
        self.client.create(&path(name), options)
    }

    /// Writes and syncs until the power is cut.
    fn write(&mut self, seed: u64) -> Growing {
        let (bytes, path) = (data::bytes(seed, FILE_BYTES_MAX), format!("/load/written-{seed}"));
        let mut file = Growing { path, seed, created: false, acknowledged: 0, sent: 0 };
        let with_length = seed.is_multiple_of(2);
        let Ok(mut writer) = self.create(&file.path) else { return file };
        file.created = true;
        while !self.is_over() {
            let step = 1 + self.choices.below(STEP_BYTES_MAX) as usize;
            let end = (file.sent + step).min(bytes.len());
            if end == file.sent {
                break;
            }
            let begin = std::mem::replace(&mut file.sent, end);
            let synced = writer.write_all(&bytes[begin..end]).is_ok()
                && match self.choices.below(4) {
                    0 => writer.hflush().is_ok() && writer.hsync().is_ok(),
                    _ if with_length => writer.hsync_with_length().is_ok(),
                    _ => writer.hsync().is_ok(),
                };
            if !synced {
                break;
            }
            file.acknowledged = end;
        }
        file
    }

    /// Appends and closes until the power is cut.
    fn append(&mut self, seed: u64) -> Growing {
        let (bytes, path) = (data::bytes(seed, FILE_BYTES_MAX), format!("/load/appended-{seed}"));
        let mut file = Growing { path, seed, created: false, acknowledged: 0, sent: 0 };
        while !self.is_over()
            && file.sent < bytes.len()
            && self.append_once(&mut file, &bytes).is_ok()
        {}
        file
    }

    fn append_once(&mut self, file: &mut Growing, bytes: &[u8]) -> Result<(), DfsError> {
        let mut writer = match file.created {
            true => self.client.append(&path(&file.path), false)?,
            false => self.create(&file.path)?,
        };
        file.created = true;
        for _ in 0..1 + self.choices.below(3) {
            let step = self.choices.below(STEP_BYTES_MAX) as usize;
            let end = (file.sent + step).min(bytes.len());
            let begin = std::mem::replace(&mut file.sent, end);
            writer.write_all(&bytes[begin..end]).map_err(|_| DfsError::Unexpected)?;
            if self.choices.below(3) == 0 {
                writer.hsync()?;
                file.acknowledged = end;
            }
        }
        writer.close()?;
        file.acknowledged = file.sent;
        Ok(())
    }

    /// Changes names in a directory of its own until the power is cut.
    fn keep(&mut self, seed: u64) -> Kept {
        let mut kept = Kept { directory: format!("/load/kept-{seed}"), ..Kept::default() };
        let directory = path(&kept.directory);
        if self.client.mkdirs(&directory, 0o755, true).is_err() {
            return kept;
        }
        kept.made = true;
        let allowed = self.client.allow_snapshot(&directory).is_ok();
        for number in 0.. {
            if self.is_over() || !allowed || self.change(&mut kept, seed, number).is_err() {
                return kept;
            }
            kept.changes += 1;
        }
        kept
    }

    /// Makes one change; an error means that nobody knows whether it was made.
    fn change(&mut self, kept: &mut Kept, seed: u64, number: u64) -> Result<(), DfsError> {
        let some = self.choices.below(kept.names.len().max(1) as u64) as usize;
        let some = kept.names.keys().nth(some).cloned();
        let (mut next, fresh) = (kept.names.clone(), format!("n{number}"));
        let full = |name: &str| path(&format!("{}/{name}", kept.directory));
        match (self.choices.below(6), some) {
            (0, Some(old)) => {
                let content = next.remove(&old).unwrap_or_default();
                next.insert(fresh.clone(), content);
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
            (choice, old) => {
                // An old name is written anew.
                let name = old.filter(|_| choice == 3).unwrap_or(fresh);
                let content = seed * 10_000 + number;
                next.insert(name.clone(), content);
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
    data::bytes(content, 1 + (content * 37 % 5000) as usize)
}

fn read(client: &DfsClient, name: &DfsPath) -> Result<Vec<u8>, String> {
    let mut reader = client.open(name).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

impl Ledger {
    /// Compares what the cluster has with what was acknowledged, and removes it.
    pub(crate) fn check(self, cluster: &Cluster) -> Counts {
        let client = connect(&cluster.namenode);
        let mut counts = Counts::default();
        for record in &self.0 {
            match record {
                Record::Growing(file) => check_growing(&client, file, &mut counts),
                Record::Kept(kept) => check_kept(&client, kept, &mut counts),
            }
        }
        let report = cluster.hanno(&["fsck", "/"]);
        if report.code != 0 {
            counts.problems.push(format!("fsck: {}", report.stdout_text()));
        }
        for record in &self.0 {
            if let Record::Kept(kept) = record {
                let directory = path(&kept.directory);
                let listed = client.list(&path(&format!("{}/.snapshot", kept.directory)));
                for snapshot in listed.flatten() {
                    let _ = client.delete_snapshot(&directory, &snapshot.name);
                }
            }
        }
        // A file that is stuck was counted.
        let _ = client.delete(&path("/load"), true);
        counts
    }
}

fn check_growing(client: &DfsClient, file: &Growing, counts: &mut Counts) {
    let name = path(&file.path);
    counts.files += 1;
    counts.acknowledged_bytes += file.acknowledged as u64;
    let mut problem = |what: String| counts.problems.push(format!("{}: {what}", file.path));
    let deadline = Instant::now() + RECOVERED_MAX;
    loop {
        match client.recover_lease(&name) {
            Ok(true) => break,
            Err(_) if !file.created && matches!(client.try_status(&name), Ok(None)) => return,
            Err(error) if Instant::now() > deadline => return problem(format!("stuck: {error}")),
            Ok(false) if Instant::now() > deadline => return problem("stuck".to_owned()),
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    let expected = data::bytes(file.seed, file.sent);
    match read(client, &name) {
        Ok(found) if found.len() < file.acknowledged => {
            problem(format!("{} of {} bytes are left", found.len(), file.acknowledged));
        }
        Ok(found) if found.len() > expected.len() || found != expected[..found.len()] => {
            problem(format!("{} bytes, and not those that were written", found.len()));
        }
        Ok(_) => {}
        Err(error) => problem(error),
    }
}

fn check_kept(client: &DfsClient, kept: &Kept, counts: &mut Counts) {
    if !kept.made {
        return;
    }
    counts.changes += kept.changes;
    let found = names_in(client, &kept.directory);
    let fits = |names: &Names| is_same(client, &kept.directory, names, found.as_ref());
    let now = fits(&kept.names);
    if now.is_err() && kept.next.as_ref().is_none_or(|next| fits(next).is_err()) {
        counts.problems.push(format!("{}: {now:?}, next {:?}", kept.directory, kept.next));
    }
    for (snapshot, names) in &kept.snapshots {
        let directory = format!("{}/.snapshot/{snapshot}", kept.directory);
        let found = names_in(client, &directory);
        if let Err(error) = is_same(client, &directory, names, found.as_ref()) {
            counts.problems.push(format!("{directory}: {error}"));
        }
    }
}

fn names_in(client: &DfsClient, directory: &str) -> Result<Vec<String>, String> {
    let listed = client.list(&path(directory));
    let names: Result<Vec<String>, DfsError> =
        listed.map(|entry| entry.map(|entry| entry.name)).collect();
    let mut names = names.map_err(|error| error.to_string())?;
    names.retain(|name| !name.ends_with(TEMPORARY));
    Ok(names)
}

fn is_same(
    client: &DfsClient,
    directory: &str,
    names: &Names,
    found: Result<&Vec<String>, &String>,
) -> Result<(), String> {
    let found = found.map_err(Clone::clone)?;
    if !found.iter().eq(names.keys()) {
        return Err(format!("{found:?} instead of {:?}", names.keys()));
    }
    for (name, content) in names {
        let bytes = read(client, &path(&format!("{directory}/{name}")))?;
        if bytes != small(*content) {
            return Err(format!("{name} has {} other bytes", bytes.len()));
        }
    }
    Ok(())
}

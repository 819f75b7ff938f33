//! Files that commands put and get while daemons come and go. They stay from round to round, up to a number.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use client::dfs::DfsClient;
use protocol::DfsPath;

use crate::support::client::connect;
use crate::support::load::{Flaw, Problem};
use crate::support::signal::Signal;
use crate::support::{Caller, Outcome, data};

/// Files that stay at most: 1.5 MB each, three times on four disks.
const FILES_MAX: usize = 40;
/// Most bytes of a file.
const FILE_BYTES_MAX: u64 = 3_000_000;
/// Files that may be added in one round.
const FILES_OF_A_ROUND_MAX: usize = 60;
/// Time for a command: more than a client asks for, so that one that takes longer is stuck.
const COMMAND_MAX: Duration = Duration::from_secs(300);
/// Pause after a command that failed.
const ERROR_PAUSE: Duration = Duration::from_millis(200);
const DIRECTORY: &str = "/kept";

/// What was acknowledged.
#[derive(Debug, Default)]
struct Model {
    /// Digests by name.
    there: BTreeMap<String, [u8; 32]>,
    /// Names of which nobody knows, with the digest that the file has if there is one.
    unknown: BTreeMap<String, [u8; 32]>,
    puts: usize,
    gets: u64,
    /// Commands that failed: no harm, but no work either.
    failed: u64,
    bytes: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Files {
    model: Mutex<Model>,
}

/// Puts, gets, failed commands and bytes put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileCounts {
    pub(super) puts: usize,
    pub(super) gets: u64,
    pub(super) failed: u64,
    pub(super) bytes: u64,
}

impl Files {
    pub(super) fn counts(&self) -> FileCounts {
        let Model { puts, gets, failed, bytes, .. } = *self.model.lock().unwrap();
        FileCounts { puts, gets, failed, bytes }
    }

    /// Puts files until told to stop.
    pub(super) fn put(&self, caller: &Caller, local: &Path, over: &Signal) -> Result<(), Problem> {
        let source = local.join("put");
        for _ in 0..FILES_OF_A_ROUND_MAX {
            if over.count() > 0 {
                break;
            }
            let number = self.model.lock().unwrap().puts as u64;
            let length = 1 + data::Choices::new(number).below(FILE_BYTES_MAX);
            let content = data::bytes(number, length as usize);
            let name = format!("{number:06}");
            fs::write(&source, &content).unwrap();
            let target = format!("{DIRECTORY}/{name}");
            let words = ["-D", "dfs.blocksize=1048576", "-put", source.to_str().unwrap(), &target];
            let outcome = run(caller, &words)?;
            let digest = data::sha256(&content);
            let mut model = self.model.lock().unwrap();
            model.puts += 1;
            if outcome.code == 0 {
                model.bytes += length;
                model.there.insert(name, digest);
            } else {
                model.failed += 1;
                model.unknown.insert(name, digest);
                drop(model);
                println!("{target}: {}", outcome.stderr.trim_end());
                over.wait_for(1, ERROR_PAUSE);
            }
        }
        Ok(())
    }

    /// Gets files until told to stop.
    pub(super) fn get(
        &self,
        (caller, local, seed): (&Caller, &Path, u64),
        over: &Signal,
    ) -> Result<(), Problem> {
        let target = local.join("got");
        let mut choices = data::Choices::new(seed);
        while over.count() == 0 {
            let model = self.model.lock().unwrap();
            let some = choices.below(model.there.len().max(1) as u64) as usize;
            let some = model.there.iter().nth(some).map(|(name, digest)| (name.clone(), *digest));
            drop(model);
            let Some((name, digest)) = some else {
                over.wait_for(1, ERROR_PAUSE);
                continue;
            };
            let path = format!("{DIRECTORY}/{name}");
            let outcome = run(caller, &["-get", "-f", &path, target.to_str().unwrap()])?;
            let is_got = outcome.code == 0;
            if is_got && data::sha256(&fs::read(&target).unwrap()) != digest {
                return Err((Flaw::Wrong, format!("{path} was got with other bytes")));
            }
            let mut model = self.model.lock().unwrap();
            if is_got {
                model.gets += 1;
            } else {
                model.failed += 1;
                drop(model);
                println!("{path}: {}", outcome.stderr.trim_end());
                over.wait_for(1, ERROR_PAUSE);
            }
        }
        Ok(())
    }

    /// Reads all that was acknowledged; then the oldest go.
    pub(super) fn check(&self, caller: &Caller) -> Vec<Problem> {
        let client = connect(&caller.namenode);
        let mut model = self.model.lock().unwrap();
        let found = match names(&client) {
            Ok(found) => found,
            Err(error) => return vec![(Flaw::Lost, format!("{DIRECTORY}: {error}"))],
        };
        let mut problems = Vec::new();
        for name in &found {
            match model.there.get(name).or_else(|| model.unknown.get(name)) {
                None => problems.push((Flaw::Wrong, format!("{name} is back from the dead"))),
                Some(digest) => problems.extend(check_one(&client, name, digest).err()),
            }
        }
        let missing = model.there.keys().filter(|name| !found.contains(*name));
        problems.extend(missing.map(|name| (Flaw::Lost, format!("{DIRECTORY}/{name} is gone"))));
        let unknown = std::mem::take(&mut model.unknown);
        model.there.extend(unknown.into_iter().filter(|(name, _)| found.contains(name)));
        while model.there.len() > FILES_MAX {
            let (name, _) = model.there.pop_first().expect("there are some");
            match client.delete(&path(&name), false) {
                Ok(true) => {}
                other => problems.push((Flaw::Lost, format!("{name} is deleted: {other:?}"))),
            }
        }
        problems
    }
}

fn run(caller: &Caller, words: &[&str]) -> Result<Outcome, Problem> {
    let outcome = Outcome::within(caller.dfs(words), COMMAND_MAX);
    outcome.ok_or_else(|| (Flaw::Stuck, format!("dfs {}: no end", words.join(" "))))
}

fn path(name: &str) -> DfsPath {
    DfsPath::parse(&format!("{DIRECTORY}/{name}")).unwrap()
}

/// What is there, without what was not published yet.
fn names(client: &DfsClient) -> Result<BTreeSet<String>, client::dfs::DfsError> {
    let listed = client.list(&DfsPath::parse(DIRECTORY).unwrap());
    let names: Result<BTreeSet<String>, _> =
        listed.map(|entry| entry.map(|entry| entry.name)).collect();
    names.map(|names| names.into_iter().filter(|name| !name.ends_with("._COPYING_")).collect())
}

fn check_one(client: &DfsClient, name: &str, digest: &[u8; 32]) -> Result<(), Problem> {
    let lost = |error: String| (Flaw::Lost, format!("{DIRECTORY}/{name}: {error}"));
    let mut content = Vec::new();
    let mut reader = client.open(&path(name)).map_err(|error| lost(error.to_string()))?;
    reader.read_to_end(&mut content).map_err(|error| lost(error.to_string()))?;
    if data::sha256(&content) == *digest {
        return Ok(());
    }
    Err((Flaw::Wrong, format!("{DIRECTORY}/{name}: {} other bytes", content.len())))
}

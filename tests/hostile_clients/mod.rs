//! Attacks over sockets on real daemons (`docs/security.md`). Each table of a subject is tried on one cluster; behind every attack the
//! frame looks at all daemons: none has died, none has grown much or keeps what it grew, and a file still goes in and comes out.
//!
//! A new attack is a row: a name and a function that makes it and checks what it got.

mod connections;
mod forge;
mod messages;
mod signatures;
mod transfer;

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::auth::{Key, Role};
use protocol::namenode::DatanodeInfo;
use serde::ser::{Serialize, SerializeTuple, Serializer};
use transport::rpc::{CallOptions, RpcClient, read_secret};

use crate::support::memory::{Watch, own_kib};
use crate::support::wait;
use crate::support::{Cluster, Options};

/// An attack: what it is, and the function that makes it.
type Attack = (&'static str, fn(&Stand));

/// What a daemon may have more under an attack than before it, KiB: the largest request that is let in, and as much again for what was
/// allocated while it was read.
const GROWTH_KIB_MAX: u64 = 40 << 10;
/// What it may still have more when the attack is over, KiB: heaps of threads that served thousands of connections keep half of this, and a kept request on each
/// of two threads would be twice as much.
const KEPT_KIB_MAX: u64 = 16 << 10;
/// When it is over: hundreds of threads end one after the other, each with a stack.
const ENDED_WITHIN: Duration = Duration::from_secs(10);
/// Time for one try of a call: an attack is answered, not waited out.
const TRY: CallOptions =
    CallOptions { attempt_timeout: Duration::from_secs(20), retry_for: Duration::ZERO };

/// A cluster to attack.
struct Stand {
    cluster: Cluster,
    secret: Key,
    /// Process ids at the start.
    pids: BTreeMap<String, u32>,
}

impl Stand {
    fn start(options: Options) -> Self {
        let cluster = Cluster::start(options);
        let secret = read_secret(&cluster.directory.join("secret")).unwrap();
        let pids = pids(&cluster);
        assert!(pids.contains_key("namenode-1") && pids.contains_key("datanode-1"), "{pids:?}");
        let stand = Stand { cluster, secret, pids };
        // What the first request, file and listing take is no growth.
        stand.works("before");
        stand
    }

    /// A client of the NameNode.
    fn namenode(&self, role: Role) -> RpcClient {
        RpcClient::new(&self.cluster.namenode, role, Some(&self.secret)).unwrap()
    }

    /// A client of the JobTracker.
    fn jobtracker(&self, role: Role) -> RpcClient {
        RpcClient::new(&self.cluster.jobtracker, role, Some(&self.secret)).unwrap()
    }

    /// All DataNodes, as the NameNode tells of them.
    fn datanodes(&self) -> Vec<DatanodeInfo> {
        let client = crate::support::client::connect(&self.cluster.namenode);
        let reports = client.datanodes().unwrap();
        reports.into_iter().map(|report| report.info).collect()
    }

    /// Tries all attacks of a table.
    fn suffer(&self, attacks: &[Attack]) {
        for (name, attack) in attacks {
            println!("{name}");
            let before = self.memory();
            let watch = Watch::begin(self.watched());
            attack(self);
            let most = watch.end();
            self.lives(name);
            for (daemon, before) in &before {
                let now = most.get(daemon.as_str()).copied().unwrap_or_default();
                let bound = before + GROWTH_KIB_MAX;
                assert!(now <= bound, "{name}: {daemon} took {now} KiB, {before} KiB before");
            }
            self.works(name);
            let fat = || {
                let mut now = self.memory();
                now.retain(|daemon, kept| *kept > before[daemon] + KEPT_KIB_MAX);
                now
            };
            let is_over = wait::until(ENDED_WITHIN, || fat().is_empty());
            assert!(is_over, "{name}: {:?} KiB are kept, {before:?} before", fat());
        }
    }

    fn watched(&self) -> Vec<(u32, &'static str, &'static str)> {
        let named = |(name, pid): (&String, &u32)| (*pid, &*name.clone().leak(), "a child");
        self.pids.iter().map(named).collect()
    }

    fn memory(&self) -> BTreeMap<String, u64> {
        let own = |(name, pid): (&String, &u32)| (name.clone(), own_kib(*pid).unwrap_or_default());
        self.pids.iter().map(own).collect()
    }

    /// Every daemon is the process it was.
    fn lives(&self, name: &str) {
        assert_eq!(pids(&self.cluster), self.pids, "{name}: a daemon died");
        for (daemon, pid) in &self.pids {
            assert!(own_kib(*pid).is_some(), "{name}: {daemon} died");
        }
    }

    /// A file goes in and comes out.
    fn works(&self, name: &str) {
        let path = format!("/{}", name.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
        self.cluster.dfs(&["-put", "-f", "LICENSE", &path]).ok();
        let read = self.cluster.dfs(&["-cat", &path]).ok();
        assert_eq!(read.stdout, std::fs::read("LICENSE").unwrap(), "{name}");
    }
}

fn pids(cluster: &Cluster) -> BTreeMap<String, u32> {
    let files = std::fs::read_dir(cluster.directory.join("pids")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
    let daemons = names.filter_map(|name| name.strip_suffix(".pid").map(str::to_owned));
    daemons.filter_map(|name| cluster.pid(&name).map(|pid| (name, pid))).collect()
}

/// Where the length of the rest can stand in a message.
const LENGTH_SOUGHT_BYTES: usize = 256;

/// Bytes that are sent as they are in the place of a message.
struct Raw(Vec<u8>);

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (head, rest) = self.split();
        let mut tuple = serializer.serialize_tuple(head.len() + 1)?;
        head.iter().try_for_each(|byte| tuple.serialize_element(byte))?;
        match rest {
            Some(rest) => tuple.serialize_element(&rest)?,
            None => tuple.serialize_element(&())?,
        }
        tuple.end()
    }
}

impl Raw {
    /// What goes out byte by byte, and the rest if its own length stands before it: it goes out as one text, because a hundred of 15 MiB by single bytes
    /// take minutes.
    fn split(&self) -> (&[u8], Option<&str>) {
        for start in 1..self.0.len().min(LENGTH_SOUGHT_BYTES) {
            let (head, rest) = self.0.split_at(start);
            let length = protocol::wire::encode(&rest.len());
            if length.len() > 1
                && let Some(head) = head.strip_suffix(&length[..])
                && let Ok(rest) = std::str::from_utf8(rest)
            {
                return (head, Some(rest));
            }
        }
        (&self.0, None)
    }
}

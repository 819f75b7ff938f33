//! `hanno bench namenode`: metadata calls per second, closed loop, every client in its own directory.
//!
//! Does what Hadoop's users measure with a threaded client against their NameNode: the same phases on the same kind of tree, one call at a time per client,
//! each client with its own kept-alive connection.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;
use client::namesystem;
use protocol::auth::Role;
use protocol::namenode::{Call, Create, Reply, Request};
use protocol::{ClientId, DfsPath, ErrorKind, RemoteError};
use serde::Serialize;
use tokio::runtime::Runtime;
use transport::RpcError;
use transport::rpc::{CallOptions, RpcClient};

use crate::connect::{Overrides, first_contact, namenode_address, random_client};
use crate::output::{print_json, say};

/// Files that the phases other than `create` work on if `create` is not measured, per client.
const PREPARED_FILES: u64 = 1000;

/// What `hanno bench namenode` measures without a command of its own.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CallsArgs {
    /// Numbers of clients to measure with
    #[arg(long, value_delimiter = ',', default_value = "64", value_parser = clap::value_parser!(u32).range(1..=4096))]
    clients: Vec<u32>,
    /// Seconds of each phase
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Phases, in this order
    #[arg(long, value_delimiter = ',', default_value = "mkdirs,create,stat,list,rename,delete")]
    op: Vec<Operation>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    /// Make a directory
    Mkdirs,
    /// Make an empty file and close it (two calls)
    Create,
    /// Status of a file
    Stat,
    /// List a directory of ten files
    List,
    /// Rename a file there and back
    Rename,
    /// Delete a file
    Delete,
}

/// One phase with one number of clients.
#[derive(Debug, Serialize)]
struct Row {
    clients: u32,
    op: Operation,
    count: u64,
    ops_per_second: f64,
    p50_us: f64,
    p99_us: f64,
}

/// Measures calls of a running NameNode.
pub(super) fn run(args: &CallsArgs, overrides: &Overrides) -> Result<()> {
    namenode(&args.clients, Duration::from_secs(args.seconds), &args.op, args.json, overrides)
}

fn namenode(
    clients: &[u32],
    length: Duration,
    operations: &[Operation],
    json: bool,
    overrides: &Overrides,
) -> Result<()> {
    if json {
        crate::output::only_json();
    }
    let config = overrides.config()?;
    let rpc = RpcClient::new(
        namenode_address(&config)?,
        Role::Client,
        config.secret(client::Daemon::Namenode)?.as_ref(),
    )?;
    first_contact(&rpc, "namenode")?;
    let runtime = Runtime::new()?;
    let mut rows = Vec::new();
    for &count in clients {
        let bench = Bench { rpc: rpc.clone(), user: config.user(), count, length };
        runtime.block_on(bench.measure(operations, &mut |row| {
            if !json {
                say!("{}", row_text(&row));
            }
            rows.push(row);
        }))?;
    }
    if json {
        print_json(&rows)?;
    }
    Ok(())
}

fn row_text(row: &Row) -> String {
    let Row { clients, op, count, ops_per_second, p50_us, p99_us } = row;
    let name = format!("{op:?}").to_lowercase();
    format!(
        "clients {clients:>3} {name:<12} {ops_per_second:>8.0} ops/s  p50 {p50_us:.0} us  p99 {p99_us:.0} us  ({count} ops)"
    )
}

struct Bench {
    rpc: RpcClient,
    user: String,
    count: u32,
    length: Duration,
}

/// One client: its directory, and how many files it has there.
#[derive(Clone, Debug)]
struct Client {
    rpc: RpcClient,
    id: ClientId,
    user: String,
    number: u64,
    directory: String,
    file_count: u64,
    /// Renames done: file `n` is at its second name after an odd number of rounds.
    rename_count: u64,
}

impl Bench {
    async fn measure(&self, operations: &[Operation], each: &mut dyn FnMut(Row)) -> Result<()> {
        let base = format!("/bench-namenode-{}", random_client());
        let mut first = self.client(&base);
        first.mkdirs(&base, true).await?;
        let mut clients = Vec::new();
        for number in 0..self.count {
            let mut client = self.client(&format!("{base}/w{number}"));
            let directory = client.directory.clone();
            client.mkdirs(&directory, true).await?;
            clients.push(client);
        }
        let mut outcome = Ok(());
        for &operation in operations {
            match self.phase(operation, clients).await {
                Ok((row, after)) => {
                    each(row);
                    clients = after;
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let delete = Call::Delete { path: DfsPath::parse(&base)?, recursive: true };
        first.call(delete).await?;
        outcome
    }

    fn client(&self, directory: &str) -> Client {
        Client {
            rpc: self.rpc.clone(),
            id: random_client(),
            user: self.user.clone(),
            number: 0,
            directory: directory.to_owned(),
            file_count: 0,
            rename_count: 0,
        }
    }

    async fn phase(
        &self,
        operation: Operation,
        clients: Vec<Client>,
    ) -> Result<(Row, Vec<Client>)> {
        let clients = join(clients, |client| client.prepare(operation)).await?;
        let clients = clients.into_iter().map(|(client, _)| client).collect();
        let started = Instant::now();
        let deadline = started + self.length;
        let done = join(clients, move |client| client.repeat(operation, deadline)).await?;
        let elapsed = started.elapsed();
        let mut times = Vec::new();
        let mut clients = Vec::new();
        for (client, mut own) in done {
            times.append(&mut own);
            clients.push(client);
        }
        if times.is_empty() {
            bail!("no call was answered in time");
        }
        Ok((row(self.count, operation, times, elapsed), clients))
    }
}

fn row(clients: u32, op: Operation, mut nanos: Vec<u64>, elapsed: Duration) -> Row {
    nanos.sort_unstable();
    let at = |share: f64| {
        nanos[((nanos.len() as f64 * share) as usize).min(nanos.len() - 1)] as f64 / 1e3
    };
    let count = nanos.len() as u64;
    let ops_per_second = count as f64 / elapsed.as_secs_f64();
    Row { clients, op, count, ops_per_second, p50_us: at(0.5), p99_us: at(0.99) }
}

type Timed = Result<(Client, Vec<u64>), RpcError>;

/// Runs `work` for every client at once.
async fn join<F: Future<Output = Timed> + Send + 'static>(
    clients: Vec<Client>,
    work: impl Fn(Client) -> F,
) -> Result<Vec<(Client, Vec<u64>)>> {
    let tasks: Vec<_> = clients.into_iter().map(|client| tokio::spawn(work(client))).collect();
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await??);
    }
    Ok(done)
}

impl Client {
    /// Creates whatever `operation` needs and does not exist.
    async fn prepare(mut self, operation: Operation) -> Timed {
        let needs_files = !matches!(operation, Operation::Mkdirs | Operation::Create);
        if needs_files && self.file_count == 0 {
            for index in 0..PREPARED_FILES {
                self.create(index).await?;
            }
            self.file_count = PREPARED_FILES;
            self.rename_count = 0;
        }
        if operation == Operation::List {
            let directory = format!("{}/l", self.directory);
            self.mkdirs(&directory, true).await?;
            for index in 0..10 {
                let path = path(format!("{directory}/f{index}"))?;
                self.create_at(path).await?;
            }
        }
        Ok((self, Vec::new()))
    }

    async fn repeat(mut self, operation: Operation, deadline: Instant) -> Timed {
        let mut times = Vec::new();
        let limit = if operation == Operation::Delete { self.file_count } else { u64::MAX };
        let mut index = 0;
        let mut began = Instant::now();
        while index < limit && began < deadline {
            self.once(operation, index).await?;
            let now = Instant::now();
            times.push(u64::try_from((now - began).as_nanos()).unwrap_or(u64::MAX));
            began = now;
            index += 1;
        }
        match operation {
            Operation::Create => (self.file_count, self.rename_count) = (index, 0),
            Operation::Rename => self.rename_count = index,
            Operation::Delete => self.file_count = 0,
            _ => {}
        }
        Ok((self, times))
    }

    async fn once(&mut self, operation: Operation, index: u64) -> Result<(), RpcError> {
        match operation {
            Operation::Mkdirs => {
                let directory = format!("{}/d{index}", self.directory);
                self.mkdirs(&directory, false).await
            }
            Operation::Create => self.create(index).await,
            Operation::Stat => {
                let path = self.file(index % self.file_count)?;
                self.call(Call::Status(path)).await.map(drop)
            }
            Operation::List => {
                let path = path(format!("{}/l", self.directory))?;
                let call = Call::List { path, start_after: String::new(), limit: 1000 };
                self.call(call).await.map(drop)
            }
            Operation::Rename => {
                let (from, to) =
                    self.names_in_round(index / self.file_count, index % self.file_count)?;
                let call = Call::Rename { from, to, overwrite: Some(false) };
                self.call(call).await.map(drop)
            }
            Operation::Delete => {
                let path = self.file(index)?;
                self.call(Call::Delete { path, recursive: false }).await.map(drop)
            }
        }
    }

    /// The present path of file `index`.
    fn file(&self, index: u64) -> Result<DfsPath, RpcError> {
        let rounds = self.rename_count / self.file_count
            + u64::from(index < self.rename_count % self.file_count);
        Ok(self.names_in_round(rounds, index)?.0)
    }

    /// Name of a file before and after round `round` of renames.
    fn names_in_round(&self, round: u64, index: u64) -> Result<(DfsPath, DfsPath), RpcError> {
        let (before, after) = if round.is_multiple_of(2) { ("f", "g") } else { ("g", "f") };
        let name = |letter| path(format!("{}/{letter}{index}", self.directory));
        Ok((name(before)?, name(after)?))
    }

    async fn mkdirs(&mut self, directory: &str, parents: bool) -> Result<(), RpcError> {
        let path = path(directory.to_owned())?;
        self.call(Call::Mkdirs { path, mode: 0o755, unmasked: None, parents }).await.map(drop)
    }

    async fn create(&mut self, index: u64) -> Result<(), RpcError> {
        let path = path(format!("{}/f{index}", self.directory))?;
        self.create_at(path).await
    }

    async fn create_at(&mut self, path: DfsPath) -> Result<(), RpcError> {
        let create = Create {
            path,
            mode: 0o644,
            unmasked: None,
            overwrite: true,
            parents: false,
            replication: None,
            block_size: None,
            first_block: false,
        };
        let file = match self.call(Call::Create(create)).await? {
            Reply::Created(created) => created.file,
            _ => return Err(refused("the NameNode is of another version".to_owned())),
        };
        self.call(Call::Complete { file, last: None, publish: None }).await.map(drop)
    }

    async fn call(&mut self, body: Call) -> Result<Reply, RpcError> {
        self.number += 1;
        let request = Request::new(self.id, self.number, &self.user, "", body);
        namesystem::send(&self.rpc, &request, CallOptions::default()).await
    }
}

fn path(text: String) -> Result<DfsPath, RpcError> {
    DfsPath::parse(&text).map_err(|error| refused(error.to_string()))
}

fn refused(text: String) -> RpcError {
    RpcError::Remote(RemoteError::new(ErrorKind::InvalidArgument, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows() {
        let nanos: Vec<u64> = (1..=1000).rev().map(|n| n * 1000).collect();
        let row = row(64, Operation::Stat, nanos, Duration::from_secs(2));
        assert_eq!(
            row_text(&row),
            "clients  64 stat              500 ops/s  p50 501 us  p99 991 us  (1000 ops)"
        );
    }

    #[test]
    fn files_are_found_after_any_number_of_renames() {
        let rpc = RpcClient::new("http://127.0.0.1:1", Role::Client, None).unwrap();
        let mut client = Client {
            rpc,
            id: random_client(),
            user: String::new(),
            number: 0,
            directory: "/d".to_owned(),
            file_count: 3,
            rename_count: 0,
        };
        let mut names = ["/d/f0", "/d/f1", "/d/f2"].map(|name| path(name.to_owned()).unwrap());
        for count in 0..20u64 {
            client.rename_count = count;
            let found: Vec<_> = (0..3).map(|index| client.file(index).unwrap()).collect();
            assert_eq!(found, names, "after {count}");
            let (from, to) = client.names_in_round(count / 3, count % 3).unwrap();
            let slot = &mut names[(count % 3) as usize];
            assert_eq!(*slot, from);
            *slot = to;
        }
    }
}

//! The jobs' work on the file system: creates output directories, publishes the winners' files, removes leftovers.
//!
//! Every effect can be repeated after a crash in its middle and then has the same result:
//!
//! ```text
//! commit: list the winners' directories -> rename what still lies there, create _temporary/_SUCCESS
//!         -> publish it as _SUCCESS -> delete _temporary
//! ```
//!
//! While a NameNode is unavailable, starting or in safe mode, effects wait. One without room lets deletions pass: what has to be done before a
//! deletion is a call of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::namesystem;
use daemon::log::Repeats;
use futures_util::future::BoxFuture;
use protocol::error::chain;
use protocol::jobs::{FILES_DIR, FILES_DIR_MODE};
use protocol::namenode::{
    Answer, BATCH_CALLS_MAX, Body, Call, Create, FileStatus, LIST_ENTRIES_MAX, Publish, Reply,
    Request,
};
use protocol::property::Umask;
use protocol::{ClientId, DfsPath, ErrorKind, RemoteError};
use tokio::sync::Semaphore;
use transport::RpcError;
use transport::rpc::{CallOptions, RpcClient};

use crate::core::jobs::TEMPORARY;
use crate::core::{Effect, EffectDone, EffectOrder};

/// Everybody can pass through it and list it.
const PASSABLE: u16 = 0o055;
/// Marks a complete output.
const SUCCESS: &str = "_SUCCESS";
/// Effects of different jobs done at once; each is a few calls.
const CONCURRENT_MAX: usize = 16;
/// Directories listed in one call; each can return a page of entries.
const LISTS_PER_BATCH: usize = 64;
/// Pause before an unavailable NameNode is asked again (after the client's own retries).
const PAUSE: Duration = Duration::from_millis(500);
/// One round of the client's own retries.
const ROUND: CallOptions =
    CallOptions { attempt_timeout: Duration::from_secs(60), retry_for: Duration::from_secs(30) };

/// Performs effects.
#[derive(Clone)]
pub(crate) struct Effects {
    namenode: Arc<NameNode>,
}

/// The connection to the NameNode, shared by all effects.
struct NameNode {
    calls: Box<dyn Calls>,
    client: ClientId,
    call_count: AtomicU64,
    slots: Semaphore,
}

/// How calls reach the NameNode.
pub(crate) trait Calls: Send + Sync {
    /// Sends a request, repeatedly until the NameNode answers or patience ends.
    fn call(&self, request: Request) -> BoxFuture<'_, Answer>;
}

/// A NameNode on the network.
pub(crate) struct Remote {
    rpc: RpcClient,
    patience: Duration,
}

impl Remote {
    /// `patience` is how long the NameNode may be unavailable.
    pub(crate) fn new(rpc: RpcClient, patience: Duration) -> Self {
        Remote { rpc, patience }
    }

    async fn ask(&self, request: &Request) -> Answer {
        let begin = Instant::now();
        let mut repeats = Repeats::default();
        loop {
            let error = match namesystem::send(&self.rpc, request, ROUND).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let waits = error.is_transient() || error.kind().is_some_and(is_passing);
            if !waits || begin.elapsed() >= self.patience {
                return Err(match error {
                    RpcError::Remote(refusal) => refusal,
                    other => RemoteError::new(ErrorKind::Unavailable, chain(&other)),
                });
            }
            let error = chain(&error);
            if repeats.is_due(&error) {
                tracing::warn!(%error, "the NameNode cannot do it yet, trying again");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Calls for Remote {
    fn call(&self, request: Request) -> BoxFuture<'_, Answer> {
        Box::pin(async move { self.ask(&request).await })
    }
}

impl Effects {
    /// `client` names this process.
    pub(crate) fn new(calls: Box<dyn Calls>, client: ClientId) -> Self {
        let slots = Semaphore::new(CONCURRENT_MAX);
        let namenode = NameNode { calls, client, call_count: AtomicU64::new(0), slots };
        Effects { namenode: Arc::new(namenode) }
    }

    /// Performs one effect to its end. `None` if nobody waits for its outcome.
    pub(crate) async fn run(&self, order: &EffectOrder) -> Option<EffectDone> {
        let _slot = self.namenode.slots.acquire().await;
        let EffectOrder { user, output, umask, .. } = order;
        let files = Files { namenode: &self.namenode, user, output, umask: *umask };
        match &order.effect {
            Effect::Setup { resumed } => Some(EffectDone::Setup(files.set_up(*resumed).await)),
            Effect::Commit { winners, resumed } => {
                Some(EffectDone::Commit(files.publish(winners, *resumed).await))
            }
            Effect::Cleanup => {
                files.clean_up().await;
                Some(EffectDone::Cleanup)
            }
            Effect::DeleteAttempt(directory) => {
                if let Err(error) = files.delete(directory, true).await {
                    tracing::warn!(%directory, %error, "cannot delete the files of a losing attempt");
                }
                None
            }
        }
    }
}

impl Effects {
    /// Creates the directory where every user can have one for executables and side files, and none can remove another's. Runs at each start as the user of this
    /// process, who must be the superuser if the directory is missing.
    pub(crate) async fn make_files_directory(&self, user: &str) {
        let Ok(directory) = DfsPath::parse(FILES_DIR) else { return };
        let umask = Umask::default();
        let files = Files { namenode: &self.namenode, user, output: &directory, umask };
        if let Err(error) = files.make_shared().await {
            tracing::warn!(
                %directory, %error,
                "cannot make the directory for files of jobs: other users may be unable to submit jobs; \
                 as the superuser run `hanno dfs -mkdir -p` and `hanno dfs -chmod 1777` on it"
            );
        }
    }
}

/// The output directory of one job.
struct Files<'a> {
    namenode: &'a NameNode,
    user: &'a str,
    output: &'a DfsPath,
    umask: Umask,
}

/// A file to publish.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Move {
    from: DfsPath,
    to: DfsPath,
}

impl Files<'_> {
    /// Creates the directory and opens it to everybody, and the way to it.
    async fn make_shared(&self) -> Result<(), RemoteError> {
        let mut above = self.output.parent();
        while let Some(directory) = above.filter(|directory| *directory != DfsPath::root()) {
            if let Ok(Reply::Status(status)) = self.call(Call::Status(directory.clone())).await
                && status.mode & PASSABLE != PASSABLE
            {
                // Whoever submitted the first job after it was deleted had it for themselves.
                let mode = status.mode | PASSABLE;
                self.call(Call::SetMode { path: directory.clone(), mode }).await?;
            }
            above = directory.parent();
        }
        match self.call(Call::Status(self.output.clone())).await {
            Ok(Reply::Status(status)) if status.mode == FILES_DIR_MODE => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.call(self.mkdirs(self.output, true)).await?;
        self.call(Call::SetMode { path: self.output.clone(), mode: FILES_DIR_MODE }).await.map(drop)
    }

    async fn set_up(&self, resumed: bool) -> Result<(), RemoteError> {
        let temporary = self.below(TEMPORARY)?;
        if resumed {
            // Then it is the job's directory, whatever others have put beside: a commit replaces nothing.
            match self.call(Call::Status(temporary.clone())).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            // What is in it otherwise is somebody else's, who made it first.
            return match self.list(self.output).await {
                Ok(entries) if !entries.is_empty() => Err(self.exists()),
                Err(error) if error.kind != ErrorKind::NotFound => Err(error),
                _ => self.call(self.mkdirs(&temporary, true)).await.map(drop),
            };
        }
        let missing = self.missing_parents().await?;
        let parent = self.output.parent().unwrap_or_else(DfsPath::root);
        let made = self
            .batch(vec![
                self.mkdirs(&parent, true),
                self.mkdirs(self.output, false),
                self.mkdirs(&temporary, false),
            ])
            .await?;
        let mut made = made.into_iter();
        let (parent, output, inner) = (made.next(), made.next(), made.next());
        let (parent, output, inner) = (outcome(parent), outcome(output), outcome(inner));
        match &output {
            Err(error) if error.kind == ErrorKind::AlreadyExists => {
                if inner.is_ok() {
                    self.delete(&temporary, true).await?;
                }
                return Err(self.exists());
            }
            _ => {}
        }
        let is_made = output.is_ok();
        let Err(refusal) = parent.and(output).and(inner) else { return Ok(()) };
        // A quota, for example, has room for some of them.
        let of_job = is_made.then(|| self.output.clone());
        self.unmake(of_job.into_iter().chain(missing)).await;
        Err(refusal)
    }

    /// The directories above the output that do not exist yet, innermost first.
    ///
    /// # Errors
    /// If the output exists.
    async fn missing_parents(&self) -> Result<Vec<DfsPath>, RemoteError> {
        let parents = std::iter::successors(self.output.parent(), DfsPath::parent);
        let paths: Vec<DfsPath> = std::iter::once(self.output.clone()).chain(parents).collect();
        let asked = self.batch(paths.iter().cloned().map(Call::Status).collect()).await?;
        let mut missing = Vec::new();
        for (path, answer) in paths.into_iter().zip(asked) {
            match answer {
                Ok(_) if path == *self.output => return Err(self.exists()),
                Ok(_) => break,
                Err(error) if error.kind == ErrorKind::NotFound => missing.push(path),
                Err(error) => return Err(error),
            }
        }
        missing.retain(|path| path != self.output);
        Ok(missing)
    }

    /// Removes directories that were made for a job that is refused, up to the first in which somebody else has put something.
    async fn unmake(&self, directories: impl Iterator<Item = DfsPath>) {
        for directory in directories {
            match self.delete(&directory, false).await {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::NotEmpty => return,
                Err(error) => {
                    tracing::warn!(%directory, %error, "cannot remove what a refused job left behind");
                    return;
                }
            }
        }
    }

    async fn publish(&self, winners: &[DfsPath], resumed: bool) -> Result<(), RemoteError> {
        let temporary = self.below(TEMPORARY)?;
        let published = self.publish_from(&temporary, winners).await;
        let Err(error) = published else { return Ok(()) };
        // The last step of an earlier start may have been done before, or at any moment meanwhile.
        let is_done = resumed
            && error.kind == ErrorKind::NotFound
            && matches!(self.call(Call::Status(temporary)).await, Err(gone) if gone.kind == ErrorKind::NotFound);
        if !is_done {
            return Err(error);
        }
        self.mark_success(&self.below(SUCCESS)?, None).await
    }

    async fn publish_from(
        &self,
        temporary: &DfsPath,
        winners: &[DfsPath],
    ) -> Result<(), RemoteError> {
        self.call(Call::Status(temporary.clone())).await?;
        let plan = self.plan(winners).await?;
        let directories = plan.directories.iter().map(|directory| self.mkdirs(directory, true));
        for made in self.batch(directories.collect()).await? {
            made?;
        }
        self.rename_all(&plan.moves).await?;
        let mark = self.below(&format!("{TEMPORARY}/{SUCCESS}"))?;
        self.mark_success(&mark, Some(temporary.clone())).await
    }

    /// All entries of the winners' directories and their destinations. A winner without a directory wrote nothing.
    async fn plan(&self, winners: &[DfsPath]) -> Result<Plan, RemoteError> {
        let mut plan = Plan::default();
        let mut sources: BTreeMap<DfsPath, DfsPath> = BTreeMap::new();
        let mut queue: Vec<(DfsPath, DfsPath)> =
            winners.iter().rev().map(|winner| (winner.clone(), self.output.clone())).collect();
        while !queue.is_empty() {
            let directories = queue.split_off(queue.len().saturating_sub(LISTS_PER_BATCH));
            let listings = self.list_many(&directories).await?;
            for ((from, to), entries) in directories.iter().zip(listings) {
                for entry in entries {
                    let (source, target) = (join(from, &entry.name)?, join(to, &entry.name)?);
                    if entry.directory {
                        plan.directories.insert(target.clone());
                        queue.push((source, target));
                    } else if let Some(other) = sources.insert(target.clone(), source.clone()) {
                        let both = format!("{other} and {source} both want to become {target}");
                        return Err(RemoteError::new(ErrorKind::AlreadyExists, both));
                    } else {
                        plan.moves.push(Move { from: source, to: target });
                    }
                }
            }
        }
        Ok(plan)
    }

    /// Renames; if one rename fails, reverts those done here.
    async fn rename_all(&self, moves: &[Move]) -> Result<(), RemoteError> {
        for (position, chunk) in moves.chunks(BATCH_CALLS_MAX).enumerate() {
            let calls = chunk.iter().map(|file| Call::Rename {
                from: file.from.clone(),
                to: file.to.clone(),
                overwrite: Some(false),
            });
            let answers = self.batch(calls.collect()).await?;
            let mut failed = None;
            for (file, answer) in chunk.iter().zip(&answers) {
                match answer {
                    Ok(_) => {}
                    // An earlier attempt did it, and its answer got lost.
                    Err(error)
                        if error.kind == ErrorKind::NotFound
                            && self.call(Call::Status(file.to.clone())).await.is_ok() => {}
                    Err(error) => failed = Some(error.clone()),
                }
            }
            if let Some(error) = failed {
                let before = &moves[..position * BATCH_CALLS_MAX];
                let renamed = chunk.iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
                let done = before.iter().chain(renamed.map(|(file, _)| file));
                let calls =
                    done.map(|file| Call::Delete { path: file.to.clone(), recursive: false });
                self.batch(calls.collect()).await?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Creates the empty file at `at`, makes it appear as `_SUCCESS`, then deletes `leftovers`.
    async fn mark_success(
        &self,
        at: &DfsPath,
        leftovers: Option<DfsPath>,
    ) -> Result<(), RemoteError> {
        let success = self.below(SUCCESS)?;
        if leftovers.is_none() && self.call(Call::Status(success.clone())).await.is_ok() {
            return Ok(());
        }
        let (mode, unmasked) = self.umask.of_file();
        let create = Call::Create(Create {
            path: at.clone(),
            mode,
            unmasked,
            overwrite: true,
            parents: false,
            replication: None,
            block_size: None,
            first_block: false,
        });
        let file = match self.call(create).await? {
            Reply::Created(created) => created.file,
            _ => return Err(surprise("create")),
        };
        let Some(leftovers) = leftovers else {
            self.call(Call::Complete { file, last: None, publish: None }).await?;
            return Ok(());
        };
        let publish = Some(Publish { path: success.clone(), overwrite: true });
        match self.call(Call::Complete { file, last: None, publish }).await {
            // It was cut off from the NameNode for longer than a lease lasts. All output is in its place.
            Err(error) if error.kind == ErrorKind::LeaseExpired => {
                Box::pin(self.mark_success(&success, None)).await?;
            }
            completed => drop(completed?),
        }
        self.delete(&leftovers, true).await
    }

    /// Removes `_temporary`, and the output directory if nothing else is in it.
    async fn clean_up(&self) {
        let delete = async {
            self.delete(&self.below(TEMPORARY)?, true).await?;
            match self.delete(self.output, false).await {
                Err(error) if error.kind == ErrorKind::NotEmpty => Ok(()),
                result => result,
            }
        };
        if let Err(error) = delete.await {
            tracing::warn!(output = %self.output, %error, "cannot remove what a job left behind");
        }
    }

    async fn delete(&self, path: &DfsPath, recursive: bool) -> Result<(), RemoteError> {
        match self.call(Call::Delete { path: path.clone(), recursive }).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            result => result.map(drop),
        }
    }

    /// First page of a directory: enough to know whether it is empty.
    async fn list(&self, path: &DfsPath) -> Result<Vec<FileStatus>, RemoteError> {
        match self.call(list_call(path, "")).await? {
            Reply::Listing { entries, .. } => Ok(entries),
            _ => Err(surprise("list")),
        }
    }

    /// Whole listings of directories; one that does not exist is empty.
    async fn list_many(
        &self,
        directories: &[(DfsPath, DfsPath)],
    ) -> Result<Vec<Vec<FileStatus>>, RemoteError> {
        let mut listings = vec![Vec::new(); directories.len()];
        let mut open: Vec<(usize, String)> =
            (0..directories.len()).map(|index| (index, String::new())).collect();
        while !open.is_empty() {
            let calls = open.iter().map(|(index, after)| list_call(&directories[*index].0, after));
            let answers = self.batch(calls.collect()).await?;
            let mut next = Vec::new();
            for ((index, _), answer) in open.into_iter().zip(answers) {
                let (entries, remaining) = match answer {
                    Ok(Reply::Listing { entries, remaining }) => (entries, remaining),
                    Ok(_) => return Err(surprise("list")),
                    Err(error) if error.kind == ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                };
                if let (Some(last), true) = (entries.last(), remaining > 0) {
                    next.push((index, last.name.clone()));
                }
                listings[index].extend(entries);
            }
            open = next;
        }
        Ok(listings)
    }

    /// Sends several calls; returns their answers in order.
    async fn batch(&self, calls: Vec<Call>) -> Result<Vec<Answer>, RemoteError> {
        let mut answers = Vec::with_capacity(calls.len());
        let mut calls = calls.into_iter().peekable();
        while calls.peek().is_some() {
            let chunk: Vec<Call> = calls.by_ref().take(BATCH_CALLS_MAX).collect();
            let count = chunk.len();
            let part = match self.call(Body::Batch(chunk.clone())).await? {
                Reply::Batch(part) if part.len() == count => part,
                _ => return Err(surprise("batch")),
            };
            for (call, answer) in chunk.into_iter().zip(part) {
                answers.push(match answer {
                    Err(error) if is_passing(error.kind) => self.call(call).await,
                    decided => decided,
                });
            }
        }
        Ok(answers)
    }

    /// Sends one call.
    async fn call(&self, call: impl Into<Body>) -> Result<Reply, RemoteError> {
        let number = self.namenode.call_count.fetch_add(1, Ordering::Relaxed) + 1;
        let request = Request::new(self.namenode.client, number, self.user, "", call);
        self.namenode.calls.call(request).await
    }

    fn mkdirs(&self, path: &DfsPath, parents: bool) -> Call {
        let (mode, unmasked) = self.umask.of_directory();
        Call::Mkdirs { path: path.clone(), mode, unmasked, parents }
    }

    fn below(&self, name: &str) -> Result<DfsPath, RemoteError> {
        join(self.output, name)
    }

    fn exists(&self) -> RemoteError {
        RemoteError::new(
            ErrorKind::AlreadyExists,
            format!("Output directory {} already exists", self.output),
        )
    }
}

/// The renames of a commit.
#[derive(Default)]
struct Plan {
    directories: BTreeSet<DfsPath>,
    moves: Vec<Move>,
}

/// True if the NameNode will answer differently after a while.
pub(crate) fn is_passing(kind: ErrorKind) -> bool {
    kind.is_transient() || kind == ErrorKind::SafeMode
}

fn outcome(answer: Option<Answer>) -> Answer {
    answer.unwrap_or_else(|| Err(surprise("batch")))
}

fn list_call(path: &DfsPath, after: &str) -> Call {
    Call::List { path: path.clone(), start_after: after.to_owned(), limit: LIST_ENTRIES_MAX }
}

fn join(directory: &DfsPath, name: &str) -> Result<DfsPath, RemoteError> {
    let long = |error: protocol::PathError| {
        RemoteError::new(ErrorKind::InvalidArgument, error.to_string())
    };
    directory.join(name).map_err(long)
}

fn surprise(call: &str) -> RemoteError {
    RemoteError::new(ErrorKind::Internal, format!("the NameNode gave another answer to `{call}`"))
}

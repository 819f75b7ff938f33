//! Where plans run that do not run in this process: on the configured cluster, or on one of this program's own if none is. One session
//! serves all plans of a program.
//!
//! Invariants: an embedded cluster is started for the first plan, and ends with the session. What plans keep for each other lies in one directory of the
//! session, which is deleted at its end, also by Ctrl-C. It stays if Ctrl-C ends the driver while a job runs or before its output is fetched: the job goes on
//! and may read it. It also stays if it has an output that could be neither fetched nor moved.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use client::ClientConfig;
use client::dfs::DfsClient;
use client::job::{JobClient, JobError};
use mr_model::runner::{OutputPath, Planned, say};
use mr_model::{Error, Result};
use protocol::DfsPath;
use protocol::address::{FileSystem, home};
use protocol::error::chain;
use protocol::property::Umask;

use super::address::{self, Location};
use super::driver::behind::{self, Afterwards, LeftBehind};
use super::driver::embedded::{self, EmbeddedCluster};
use super::driver::names::Names;
use super::driver::ran::{Connected, Output, Ran};
use super::driver::staging::LocalPaths;
use super::driver::{Driver, INTERRUPTED};
use super::options::Options;
use super::printing::print_json;
use super::progress::Progress;

/// The driver's message if the program was built with debug assertions.
const DEBUG_BUILD: &str =
    "This program is a debug build and runs many times slower than one of `cargo build --release`";
/// One copy of data that exists for one job only.
const EMBEDDED_REPLICATION: u16 = 1;
/// Where staged files and what plans keep is on an embedded cluster.
const EMBEDDED_DIRECTORY: &str = "/job";
/// Where it is on a configured cluster, below the home directory; hidden from jobs that read the whole home directory.
const DIRECTORY: &str = ".staging";
/// Only its owner can read it.
const MODE: u16 = 0o700;
/// For the home directory and those above it, if they are missing: as `-mkdir` makes them.
const HOME_UMASK: Umask = Umask(0o022);
/// Longest time that Ctrl-C takes to delete the session's directory: who stops a program does not wait for a cluster that does not answer.
const CLEAN_UP_MAX: Duration = Duration::from_secs(5);
/// Begins a path of the cluster, whatever plain paths mean.
const OF_CLUSTER: &str = "hanno://";

/// Runs a plan on the configured cluster, or on an embedded one if none is.
pub(crate) fn run(plan: Planned, options: &Options, words: &[String]) -> Result<()> {
    let ran = Session::begin(options.clone())?.run(plan, words, false)?;
    if options.json {
        print_json(&ran.report)?;
    }
    Ok(())
}

/// See the module.
pub(crate) struct Session {
    options: Options,
    config: ClientConfig,
    is_embedded: bool,
    /// The embedded cluster, once a plan has needed it.
    cluster: Mutex<Option<EmbeddedCluster>>,
    shared: Arc<Shared>,
    /// Numbers staged and kept directories.
    next: AtomicU64,
}

/// What the watch for Ctrl-C needs.
#[derive(Default)]
struct Shared {
    behind: LeftBehind,
    connected: OnceLock<Connected>,
    /// The session's directory, once it was made on a cluster that outlives the session.
    root: OnceLock<DfsPath>,
    /// It has an output that is nowhere else.
    stays: AtomicBool,
}

impl Session {
    /// Finds the cluster that options, environment and files name.
    pub(crate) fn begin(options: Options) -> Result<Self> {
        if cfg!(debug_assertions) {
            Progress::new(options.quiet, options.voice).say(DEBUG_BUILD);
        }
        let mut config = ClientConfig::load()?;
        if let Some(address) = &options.namenode {
            config.set_namenode("--namenode", address)?;
        }
        if let Some(address) = &options.jobtracker {
            config.set_jobtracker("--jobtracker", address)?;
        }
        if let Some((option, text)) = options.file_system()
            && config.set_file_system(option, text)? == FileSystem::Machine
        {
            let reason =
                format!("{option} {text}: for a job on files of this machine give --local");
            return Err(Error::usage(reason).into());
        }
        let is_embedded = match (&config.namenode, &config.jobtracker) {
            (Some(_), Some(_)) => false,
            (None, None) => true,
            (Some(_), None) => return Err(JobError::NoJobtracker.into()),
            (None, Some(_)) => return Err(client::dfs::DfsError::NoNamenode.into()),
        };
        let (cluster, shared, next) = Default::default();
        let session = Session { options, config, is_embedded, cluster, shared, next };
        session.watch_ctrl_c();
        Ok(session)
    }

    /// Runs a plan whose workers start the executable with `words`. With `keeps`, the output of the last job may be an intermediate one: it
    /// stays until [`Session::forget`], or the end of the session.
    pub(crate) fn run(&self, plan: Planned, words: &[String], keeps: bool) -> Result<Ran> {
        let ended = self.run_plan(plan, words, keeps);
        if ended.is_err() {
            self.shared.behind.wait_if_ending();
        }
        ended
    }

    fn run_plan(&self, plan: Planned, words: &[String], keeps: bool) -> Result<Ran> {
        // Before a cluster is started for nothing.
        let local = LocalPaths::find(&plan, &self.options, |path| self.of_machine(path))?;
        let connected = self.connect()?;
        let last = plan.graph.stages.last().map(|stage| &stage.settings().output);
        let is_kept = keeps && last == Some(&OutputPath::Intermediate);
        let kept = is_kept.then(|| self.directory("kept")).transpose()?;
        let driver = |fetch_commands| {
            let (behind, is_embedded) = (&self.shared.behind, self.is_embedded);
            let afterwards = Afterwards { behind, is_embedded, fetch_commands };
            Driver::new(connected.clone(), &self.options, words, kept, afterwards)
        };
        if local.is_empty() {
            let (site, user) = (connected.dfs.site(), connected.dfs.user().to_owned());
            let (inputs, outputs) = Default::default();
            return driver(Vec::new()).run(plan, &Names { site, user, inputs, outputs });
        }
        let directory = self.directory("staged")?;
        let replication = self.is_embedded.then_some(EMBEDDED_REPLICATION);
        let ended = local.put(&connected.dfs, &directory, replication).and_then(|names| {
            let driver = driver(local.fetch_commands(&names)?);
            self.run_staged(plan, &driver, (&local, &names))
        });
        match ended.as_ref().err().and_then(|error| error.downcast_ref()) {
            Some(Error::Unfetched { is_staged: true, .. }) => {
                self.shared.stays.store(true, Ordering::Relaxed);
            }
            _ => self.forget(&directory),
        }
        ended
    }

    /// Runs a plan with paths of this machine, whose inputs are staged.
    fn run_staged(
        &self,
        plan: Planned,
        driver: &Driver<'_>,
        (local, names): (&LocalPaths, &Names),
    ) -> Result<Ran> {
        let Planned { graph, after } = plan;
        let (on_cluster, on_machine) = match local.last_output() {
            Some(output) => (None, after.zip(Some(output))),
            None => (after, None),
        };
        let mut ran = driver.run(Planned { graph, after: on_cluster }, names)?;
        let unfetched = (!self.is_embedded).then(|| self.unfetched()).transpose()?;
        let behind = &self.shared.behind;
        driver.fetching(|dfs| local.fetch(dfs, names, behind, unfetched.as_ref()))?;
        if let Some(output) = local.last_output() {
            ran.output = Output::Machine(output.to_owned());
        }
        if let Some((after, output)) = on_machine {
            after(&mut crate::run::local::finished(output, ran.counters.clone())?)?;
        }
        Ok(ran)
    }

    /// A place for what outlives the session, because it could not be fetched; not made yet.
    fn unfetched(&self) -> Result<DfsPath> {
        let Connected { dfs, .. } = self.connect()?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let home = home(dfs.user());
        Ok(DfsPath::parse(&format!("{home}/{DIRECTORY}/unfetched-{}-{number}", dfs.id()))?)
    }

    /// Deletes a directory of the session.
    pub(crate) fn forget(&self, directory: &DfsPath) {
        if let Some(Connected { dfs, .. }) = self.shared.connected.get() {
            delete(dfs, directory);
        }
    }

    /// How plans name a kept output: as one of the cluster, also where plain paths are of this machine.
    pub(crate) fn name_of(path: &DfsPath) -> String {
        format!("{OF_CLUSTER}{path}")
    }

    /// The file system of the cluster.
    pub(crate) fn dfs(&self) -> Result<DfsClient> {
        Ok(self.connect()?.dfs)
    }

    /// Refuses an output that exists.
    pub(crate) fn check_new(&self, output: &str) -> Result<()> {
        let exists = match self.of_machine(output)? {
            Some(path) => path.try_exists().map_err(Error::file("look for", &path))?,
            None => {
                let dfs = self.dfs()?;
                let path = address::of_cluster(&dfs, output)?;
                dfs.try_status(&path).map_err(Error::dfs("look for", &path))?.is_some()
            }
        };
        if exists {
            return Err(Error::OutputExists { path: output.to_owned() }.into());
        }
        Ok(())
    }

    /// From here on Ctrl-C ends the program, unless it was started to ignore that. It leaves nothing behind but what the session's notes tell of.
    fn watch_ctrl_c(&self) {
        if sys::signals::is_ignored(sys::signals::INTERRUPT).unwrap_or(false) {
            return;
        }
        let (shared, is_embedded) = (Arc::clone(&self.shared), self.is_embedded);
        transport::rpc::runtime().spawn(async move {
            if tokio::signal::ctrl_c().await.is_err() {
                return;
            }
            let left = shared.behind.end();
            for text in &left.texts {
                say(format_args!("\n{text}\n"));
            }
            left.temporary.iter().for_each(|directory| behind::remove(directory));
            if left.texts.is_empty() && !is_embedded {
                shared.end_in_time().await;
            }
            embedded::end_all();
            std::process::exit(INTERRUPTED);
        });
    }

    /// The file of this machine that a path of a plan names, if it names one.
    fn of_machine(&self, path: &str) -> Result<Option<PathBuf>> {
        if self.is_embedded {
            let is_kept = path.strip_prefix(OF_CLUSTER).is_some_and(is_of_embedded);
            return if is_kept { Ok(None) } else { address::of_machine(path).map(Some) };
        }
        let Connected { dfs, .. } = self.connect()?;
        match address::locate(&dfs.site(), dfs.user(), path)? {
            Location::Machine(path) => Ok(Some(path)),
            Location::Cluster(_) => Ok(None),
        }
    }

    fn connect(&self) -> Result<Connected> {
        // Held while the cluster starts: plans that run at once share it.
        let mut cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connected) = self.shared.connected.get() {
            return Ok(connected.clone());
        }
        let mut config = self.config.clone();
        if self.is_embedded {
            Progress::new(self.options.quiet, self.options.voice)
                .say("No cluster is configured: starting an embedded one");
            let started = cluster.insert(EmbeddedCluster::start()?);
            config.set_namenode("the embedded cluster", &started.namenode)?;
            config.set_jobtracker("the embedded cluster", &started.jobtracker)?;
        }
        let (dfs, jobs) = (DfsClient::connect(&config)?, JobClient::connect(&config)?);
        Ok(self.shared.connected.get_or_init(|| Connected { dfs, jobs }).clone())
    }

    /// A new place in the session's directory; not made yet.
    fn directory(&self, purpose: &str) -> Result<DfsPath> {
        let Connected { dfs, .. } = self.connect()?;
        let (above, root) = match self.is_embedded {
            true => (DfsPath::root(), EMBEDDED_DIRECTORY.to_owned()),
            false => {
                let home = home(dfs.user());
                (DfsPath::parse(&home)?, format!("{home}/{DIRECTORY}/{}", dfs.id()))
            }
        };
        let root = DfsPath::parse(&root)?;
        if self.shared.root.get().is_none() {
            // Missing directories above are for others, too.
            dfs.mkdirs_masked(&above, HOME_UMASK, true).map_err(Error::dfs("create", &above))?;
            dfs.mkdirs(&root, MODE, true).map_err(Error::dfs("create", &root))?;
            // Another plan may have made it at the same time.
            let _ = self.shared.root.set(root.clone());
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(root.join(&format!("{purpose}-{number}"))?)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.is_embedded {
            self.shared.end();
        }
    }
}

impl Shared {
    /// Deletes what is left in the session's directory.
    fn end(&self) {
        if self.stays.load(Ordering::Relaxed) {
            return;
        }
        if let Some((Connected { dfs, .. }, root)) = self.connected.get().zip(self.root.get()) {
            delete(dfs, root);
        }
    }

    /// As [`Shared::end`], for at most [`CLEAN_UP_MAX`].
    async fn end_in_time(self: Arc<Self>) {
        let shared = Arc::clone(&self);
        let (done, ended) = tokio::sync::oneshot::channel();
        // The calls wait, which a thread of the runtime must not.
        std::thread::spawn(move || {
            shared.end();
            let _ = done.send(());
        });
        if tokio::time::timeout(CLEAN_UP_MAX, ended).await.is_err()
            && let Some(root) = self.root.get()
        {
            say(format_args!("{root} is not deleted: the cluster does not answer\n"));
        }
    }
}

fn delete(dfs: &DfsClient, directory: &DfsPath) {
    if let Err(error) = dfs.delete(directory, true) {
        say(format_args!("cannot delete {directory}: {}\n", chain(&error)));
    }
}

/// True for a path in the session's directory on an embedded cluster.
fn is_of_embedded(path: &str) -> bool {
    path.strip_prefix(EMBEDDED_DIRECTORY).is_some_and(|rest| rest.starts_with('/'))
}

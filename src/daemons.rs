//! `hanno namenode|datanode|jobtracker|worker|gateway --config FILE`: one daemon in this process until SIGTERM or Ctrl-C.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use daemon::{Shutdown, supervisor};
use tokio::runtime::Runtime;

use crate::output::{EXIT_FAILED, EXIT_JOURNAL_STOPPED, EXIT_OK, report};

/// Time for work on blocking threads to finish when a daemon has ended; below the 10 s that `hanno cluster` waits.
const RUNTIME_STOP_MAX: Duration = Duration::from_secs(5);

/// Which daemon.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Kind {
    /// Metadata of the file system.
    Namenode,
    /// Blocks.
    Datanode,
    /// Jobs.
    Jobtracker,
    /// Tasks.
    Worker,
    /// WebHDFS on one address.
    Gateway,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Kind; 5] =
        [Kind::Namenode, Kind::Datanode, Kind::Jobtracker, Kind::Worker, Kind::Gateway];

    /// Its name in commands, files and logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Namenode => "namenode",
            Kind::Datanode => "datanode",
            Kind::Jobtracker => "jobtracker",
            Kind::Worker => "worker",
            Kind::Gateway => "gateway",
        }
    }
}

/// Runs a daemon to its end and returns the exit code. With `parent`, it ends with that process.
pub(crate) fn run(kind: Kind, config: &Path, parent: Option<u32>) -> u8 {
    if let Some(parent) = parent
        && !bind_to_parent(parent)
    {
        return EXIT_FAILED;
    }
    daemon::log::start("info");
    supervisor::attach();
    sys::host::raise_open_files_limit();
    sys::allocator::return_large_blocks();
    match start(kind, config) {
        Ok(()) => EXIT_OK,
        Err(error) => {
            report!("hanno {}: {}", kind.name(), one_line(&*error));
            exit_code(&*error)
        }
    }
}

/// Distinguishes a stopped journal from all other ends: a restart recovers from it, and a supervisor may rely on that.
fn exit_code(error: &(dyn Error + 'static)) -> u8 {
    let namenode = error.downcast_ref::<namenode::Error>();
    let jobtracker = error.downcast_ref::<jobtracker::Error>();
    if matches!(namenode, Some(namenode::Error::JournalStopped { .. }))
        || matches!(jobtracker, Some(jobtracker::Error::JournalStopped { .. }))
    {
        EXIT_JOURNAL_STOPPED
    } else {
        EXIT_FAILED
    }
}

/// The error and its causes; a cause of several lines becomes one line, since logs are read by line.
fn one_line(error: &(dyn Error + 'static)) -> String {
    let text = protocol::error::chain(error);
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// False if the parent is gone already.
fn bind_to_parent(parent: u32) -> bool {
    if let Err(error) = sys::process::die_with_parent() {
        report!("hanno: cannot ask to end with the parent: {error}");
        return false;
    }
    std::os::unix::process::parent_id() == parent
}

fn start(kind: Kind, path: &Path) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let ended = runtime.block_on(serve(kind, path));
    supervisor::stopping();
    // Work on blocking threads that hangs (a disk, a name server) must not keep the process alive.
    runtime.shutdown_timeout(RUNTIME_STOP_MAX);
    ended
}

async fn serve(kind: Kind, path: &Path) -> Result<(), Box<dyn Error>> {
    let shutdown = Shutdown::on_signals()?;
    match kind {
        Kind::Namenode => {
            let config = namenode::Config::load(path)?;
            namenode::run(config, shutdown).await?;
        }
        Kind::Datanode => {
            let optional = datanode::Config::OPTIONAL;
            let config = daemon::config::load(path, kind.name(), &optional)?;
            datanode::run(config, shutdown).await?;
        }
        Kind::Jobtracker => {
            jobtracker::run_from(path, shutdown).await?;
        }
        Kind::Worker => {
            let config = daemon::config::load(path, kind.name(), &worker::Config::OPTIONAL)?;
            worker::run(config, shutdown).await?;
        }
        Kind::Gateway => {
            let optional = webhdfs::gateway::GatewayConfig::OPTIONAL;
            let config = daemon::config::load(path, kind.name(), &optional)?;
            webhdfs::gateway::run(config, shutdown).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn only_a_stopped_journal_asks_for_a_restart() {
        let reason = || "no space left".to_owned();
        let system = |action| jobtracker::Error::System { action, source: io::Error::other("x") };
        let cases: [(Box<dyn Error>, u8); 6] = [
            (Box::new(namenode::Error::JournalStopped { reason: reason() }), 75),
            (Box::new(jobtracker::Error::JournalStopped { reason: reason() }), 75),
            (Box::new(namenode::Error::LoopPanicked), 1),
            (Box::new(namenode::Error::Config { key: "bind", problem: "is empty" }), 1),
            (Box::new(system("start a thread")), 1),
            (Box::new(io::Error::other("x")), 1),
        ];
        for (error, code) in cases {
            assert_eq!(exit_code(&*error), code, "{error}");
        }
    }

    #[test]
    fn an_error_is_one_line() {
        let source = io::Error::other("parse error\n  at line 3\n\n");
        let error = jobtracker::Error::System { action: "open it", source };
        assert_eq!(one_line(&error), "cannot open it: parse error; at line 3");
    }
}

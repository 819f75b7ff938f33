//! `hanno namenode|datanode|jobtracker|worker --config FILE`: one daemon in this process until SIGTERM or Ctrl-C.

use std::error::Error;
use std::path::Path;

use daemon::Shutdown;
use tokio::runtime::Runtime;

use crate::output::{EXIT_FAILED, EXIT_OK};

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
}

impl Kind {
    /// Its name in commands, files and logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Namenode => "namenode",
            Kind::Datanode => "datanode",
            Kind::Jobtracker => "jobtracker",
            Kind::Worker => "worker",
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
    sys::host::raise_open_files_limit();
    match start(kind, config) {
        Ok(()) => EXIT_OK,
        Err(error) => {
            eprintln!("hanno {}: {}", kind.name(), client::error::chain(&*error));
            EXIT_FAILED
        }
    }
}

/// False if the parent is gone already.
fn bind_to_parent(parent: u32) -> bool {
    if let Err(error) = sys::process::die_with_parent() {
        eprintln!("hanno: cannot ask to end with the parent: {error}");
        return false;
    }
    std::os::unix::process::parent_id() == parent
}

fn start(kind: Kind, path: &Path) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    runtime.block_on(async {
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
                let config = daemon::config::load(path, kind.name(), &[])?;
                jobtracker::run(config, shutdown).await?;
            }
            Kind::Worker => {
                let config = daemon::config::load(path, kind.name(), &[])?;
                worker::run(config, shutdown).await?;
            }
        }
        Ok(())
    })
}

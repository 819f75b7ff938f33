//! `hanno cluster`: every daemon of a cluster as a child process of one foreground command.
//!
//! The directory holds the following, all kept for the next start: `conf/` with one TOML file per daemon and the ports, `hanno.toml` for clients, `logs/`,
//! `pids/` (while the cluster runs), `secret`, `lock`, and one data directory per daemon.
//!
//! ```text
//! lock -> ports, conf/*.toml -> start all -> wait until ready -> `ready …` on stdout -> wait for a signal -> stop in order
//! ```

mod child;
mod kept;
mod layout;
mod ready;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use daemon::{Shutdown, supervisor};
use tokio::runtime::Builder;
use tokio::task::{JoinHandle, LocalSet};
use webhdfs::Auth;

use self::child::{Child, Progress};
use self::kept::{Given, Kept};
use self::layout::{Layout, Plan, url};
use crate::daemons::Kind;
use crate::output::{EXIT_FAILED, EXIT_OK, report};

/// Most DataNodes or workers of one machine: each is a process.
const DAEMONS_MAX: u16 = 500;

/// Arguments of `hanno cluster`.
#[derive(Args)]
#[command(after_help = "Examples:\n  hanno cluster --data ~/hanno\n  \
    hanno cluster --data /tmp/c --datanodes 1 --workers 1 --port-base 7000\n\n\
    Prints one line `ready namenode=http://… jobtracker=http://… config=DIR/hanno.toml` when the cluster takes work.\n\
    `export HANNO_CONFIG=DIR/hanno.toml` leads all commands and jobs to it. SIGTERM or Ctrl-C stops it.\n\
    The directory is kept: the next start with the same --data goes on with its files.")]
pub(crate) struct ClusterArgs {
    /// Directory that holds everything; made if missing
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// DataNodes [default: those that DIR has, or 3]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(DAEMONS_MAX)))]
    datanodes: Option<u16>,
    /// Data directories of each DataNode, as if on as many disks [default: those that DIR has, or 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=100))]
    disks: Option<u16>,
    /// Workers [default: as many as at the last start, or 2]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(DAEMONS_MAX)))]
    workers: Option<u16>,
    /// Tasks that each worker runs at once [default: the cores of this machine, shared among the workers]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: Option<u32>,
    /// Listen on this port and the following ones [default: 9870 and 8088 if free, else free ones]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port_base: Option<u16>,
    /// How callers over HTTP prove who they are: by a token (`hanno admin token`) or a session (`hanno admin open`), or not at all
    #[arg(long, value_enum, default_value_t = AuthMode::Token)]
    auth: AuthMode,
    /// End when this process, the parent, ends
    #[arg(long, hide = true, value_name = "PID")]
    parent: Option<u32>,
}

/// How callers over HTTP prove who they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum AuthMode {
    /// By a delegation token, or a session at the pages
    Token,
    /// Not at all: every user of this machine may say to be anybody
    Simple,
}

/// Runs a cluster until it is told to stop and returns the exit code.
pub(crate) fn run(args: &ClusterArgs) -> u8 {
    match try_run(args) {
        Ok(()) => EXIT_OK,
        Err(error) => {
            report!("hanno cluster: {}", crate::connect::describe(error.as_ref()));
            EXIT_FAILED
        }
    }
}

fn try_run(args: &ClusterArgs) -> Result<()> {
    if let Some(parent) = args.parent {
        sys::process::die_with_parent().context("cannot ask to end with the parent")?;
        if std::os::unix::process::parent_id() != parent {
            bail!("the parent is gone");
        }
    }
    supervisor::attach();
    let given = Given { datanodes: args.datanodes, disks: args.disks, workers: args.workers };
    let counts = Kept::read(&args.data)?.counts(given, &args.data)?;
    let plan = Plan {
        datanode_count: counts.datanodes,
        disk_count: counts.disks,
        worker_slots: worker_slots(counts.workers, args.slots),
        port_base: args.port_base,
        auth: match args.auth {
            AuthMode::Token => Auth::Token,
            AuthMode::Simple => Auth::Simple,
        },
    };
    layout::check_port_base(&plan, &args.data)?;
    let layout = Layout::open(&args.data)?;
    if plan.auth == Auth::Simple {
        crate::output::report!("hanno cluster: warning: {}", webhdfs::config::SIMPLE_WARNING);
    }
    let ports = layout.choose_ports(&plan)?;
    let specs = layout.write_configs(&plan, &ports)?;
    let client_config = layout.write_client_config(&ports)?;
    // One thread, because a child ends with the thread that started it.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(LocalSet::new().run_until(async {
        let stop = Shutdown::on_signals()?;
        let progress = Rc::new(Progress::default());
        let mut children = Vec::new();
        for spec in specs {
            let (kind, child_stop) = (spec.kind, Shutdown::new());
            let child = Child::new(spec, Rc::clone(&progress), child_stop.clone());
            children.push((kind, child_stop, tokio::task::spawn_local(child.keep_running())));
        }
        let outcome = tokio::select! {
            outcome = ready::wait(&plan, &ports, &progress) => outcome,
            () = stop.wait() => Ok(()),
        };
        let outcome = match outcome {
            Ok(()) if !stop.has_begun() => {
                announce(&ports, plan.auth, &client_config)
                    .context("cannot print the addresses")?;
                supervisor::ready();
                stop.wait().await;
                Ok(())
            }
            other => other,
        };
        supervisor::stopping();
        stop_in_order(children).await;
        outcome
    }))
}

fn announce(ports: &layout::Ports, auth: Auth, client_config: &Path) -> io::Result<()> {
    let mut out = crate::output::out();
    let warning = match auth {
        Auth::Token => "",
        Auth::Simple => " auth=simple (names are believed)",
    };
    writeln!(
        out,
        "ready namenode={} jobtracker={}{warning} config={}",
        url(ports.namenode),
        url(ports.jobtracker),
        client_config.display()
    )?;
    out.flush()
}

/// Stops JobTracker, workers, DataNodes, NameNode, in this order: no daemon loses one that it still needs.
async fn stop_in_order(children: Vec<(Kind, Shutdown, JoinHandle<()>)>) {
    let mut children = children;
    for kind in [Kind::Jobtracker, Kind::Worker, Kind::Datanode, Kind::Namenode] {
        let (now, later): (Vec<_>, Vec<_>) =
            children.into_iter().partition(|(child_kind, ..)| *child_kind == kind);
        children = later;
        for (_, stop, _) in &now {
            stop.begin();
        }
        for (_, _, task) in now {
            if let Err(error) = task.await {
                report!("hanno cluster: the keeper of a {} failed: {error}", kind.name());
            }
        }
    }
}

/// Slots of each worker: as given, or the machine's cores shared out, at least one each.
fn worker_slots(workers: u16, slots: Option<u32>) -> Vec<u32> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    share(u32::try_from(cores).unwrap_or(u32::MAX), workers, slots)
}

fn share(cores: u32, workers: u16, slots: Option<u32>) -> Vec<u32> {
    let count = u32::from(workers);
    let share = |index| (cores / count + u32::from(index < cores % count)).max(1);
    (0..count).map(|index| slots.unwrap_or_else(|| share(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_among_workers() {
        assert_eq!(share(2, 2, None), [1, 1]);
        assert_eq!(share(5, 2, None), [3, 2]);
        assert_eq!(share(1, 3, None), [1, 1, 1]);
        assert_eq!(share(8, 2, Some(5)), [5, 5]);
    }
}

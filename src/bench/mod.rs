//! `hanno bench`: repeatable figures of this cluster, or of one made for the purpose.

mod calls;
mod figures;
mod fleet;
mod process;
mod scale;
mod tracker;

use clap::Subcommand;

use self::calls::CallsArgs;
use self::scale::ScaleArgs;
use self::tracker::TrackerArgs;
use crate::connect::{Overrides, describe};
use crate::output::{EXIT_FAILED, EXIT_OK, report};

/// Commands of `hanno bench`.
#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// The NameNode: metadata calls per second of a running one, or the limits of one made for the purpose
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Examples:\n  hanno bench namenode --clients 1,16,64 --seconds 5 --op stat,create\n  hanno bench namenode scale --files 10000000 --data /tmp/scale"
    )]
    Namenode {
        #[command(subcommand)]
        limits: Option<NamenodeCommand>,
        #[command(flatten)]
        calls: CallsArgs,
    },
    /// The JobTracker: tasks, reports and memory of one made for the purpose, under simulated workers
    #[command(
        long_about = "Starts a NameNode and a JobTracker, registers simulated workers over real sockets, submits one job of many maps that do nothing, and measures: registrations, tasks and reports per second, processor time and messages per task, how many maps ran where their input lies, memory.",
        after_help = "Examples:\n  hanno bench jobtracker --data /tmp/tracker\n  hanno bench jobtracker --workers 4000 --tasks 100000 --data /tmp/tracker --json\n  hanno bench jobtracker --workers 100 --tasks 5000 --task-ms 20 --data /tmp/tracker"
    )]
    Jobtracker(TrackerArgs),
}

/// Commands of `hanno bench namenode`.
#[derive(Subcommand)]
pub(crate) enum NamenodeCommand {
    /// Millions of files on a NameNode of its own, with simulated DataNodes over real sockets
    #[command(
        long_about = "Starts a NameNode with an empty namespace, registers simulated DataNodes that hold no data, makes files of one block with three replicas, and measures: files made per second, memory, listing of a large directory, stat alone and during full block reports, restart until all is loaded and until the blocks are reported, and the cost of heartbeats.",
        after_help = "Examples:\n  hanno bench namenode scale --data /tmp/scale\n  hanno bench namenode scale --files 10000000 --data /tmp/scale --json\n  hanno bench namenode scale --files 100000 --heartbeats 1000 --seconds 3 --data /tmp/scale"
    )]
    Scale(ScaleArgs),
}

/// Runs a command of `hanno bench` and returns the exit code.
pub(crate) fn run(command: &BenchCommand, overrides: &Overrides) -> u8 {
    let done = match command {
        BenchCommand::Namenode { limits: Some(NamenodeCommand::Scale(args)), .. } => {
            scale::run(args)
        }
        BenchCommand::Namenode { limits: None, calls } => calls::run(calls, overrides),
        BenchCommand::Jobtracker(args) => tracker::run(args),
    };
    match done {
        Ok(()) => EXIT_OK,
        Err(error) => {
            report!("bench: {}", describe(error.as_ref()));
            EXIT_FAILED
        }
    }
}

//! Finds the command: by the name this program was started under (`hanno`, `hdfs`, `hadoop`, `mapred`, `yarn`), then by its arguments.
//!
//! The commands in [`hadoop::COMMANDS`] take Hadoop's single-dash options, so their own parsers get their arguments unchanged; clap parses everything else.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::connect::Overrides;
use crate::output::{EXIT_OK, end_by_clap, say};
use crate::{admin, bench, cluster, daemons, debug, dfs, dfsadmin, fsck, hadoop, job, reference};

/// The page of `hanno --help`.
const HELP: &str = include_str!("help.txt");

#[derive(Parser)]
#[command(name = "hanno", version, override_help = HELP, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    overrides: Overrides,
    #[command(subcommand)]
    command: Command,
}

/// Text after the options of a daemon: how to start it, and another way to set a key.
macro_rules! daemon_help {
    ($name:literal, $variable:literal) => {
        concat!(
            "Example:\n  hanno ",
            $name,
            " --config /etc/hanno/",
            $name,
            ".toml\n\nEvery key can also be given as a variable, e.g. ",
            $variable,
            ".\nHANNO_LOG=debug says more on standard error."
        )
    };
}

#[derive(Subcommand)]
enum Command {
    /// Run a whole cluster on this machine, in the foreground
    Cluster(cluster::ClusterArgs),
    /// Run one NameNode
    #[command(after_help = daemon_help!("namenode", "HANNO_NAMENODE_REPLICATION=2"))]
    Namenode(DaemonArgs),
    /// Run one DataNode
    #[command(after_help = daemon_help!("datanode", "HANNO_DATANODE_RACK=/r1"))]
    Datanode(DaemonArgs),
    /// Run one JobTracker
    #[command(after_help = daemon_help!("jobtracker", "HANNO_JOBTRACKER_BIND=127.0.0.1:8088"))]
    Jobtracker(DaemonArgs),
    /// Run one worker
    #[command(after_help = daemon_help!("worker", "HANNO_WORKER_RACK=/r1"))]
    Worker(DaemonArgs),
    /// Run one WebHDFS gateway: reads and writes on one address, for clients that cannot reach DataNodes
    #[command(after_help = daemon_help!("gateway", "HANNO_GATEWAY_BIND=127.0.0.1:14000"))]
    Gateway(DaemonArgs),
    /// Work with files in the cluster (`hanno dfs -help`)
    Dfs(Passed),
    /// Look at, stop and debug jobs (`hanno job -help`)
    Job(Passed),
    /// Check the health of files (`hanno fsck -help`)
    Fsck(Passed),
    /// Free what is stuck (`hanno debug -help`)
    Debug(Passed),
    /// Operate the file system (`hanno dfsadmin -help`)
    Dfsadmin(Passed),
    /// Make links, so that this program starts as `hdfs`, `hadoop`, `mapred` and `yarn`
    #[command(after_help = "Example:\n  hanno install-links ~/bin")]
    InstallLinks {
        /// Where, a directory of your PATH
        dir: PathBuf,
        /// Replace links that lead elsewhere
        #[arg(long)]
        force: bool,
    },
    /// Print what makes a shell complete the commands
    #[command(after_help = reference::COMPLETIONS_EXAMPLES)]
    Completions(reference::CompletionsArgs),
    /// Write the manual pages
    #[command(after_help = reference::MAN_EXAMPLES)]
    Man(reference::ManArgs),
    /// Administer the cluster
    #[command(subcommand)]
    Admin(admin::AdminCommand),
    /// Measure the cluster
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Print the version
    Version,
}

/// Arguments of one daemon.
#[derive(Args)]
struct DaemonArgs {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// End when this process, the parent, ends
    #[arg(long, hide = true, value_name = "PID")]
    parent: Option<u32>,
}

/// Arguments that another parser reads.
#[derive(Args)]
#[command(disable_help_flag = true)]
struct Passed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// What clap parses.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// Runs the command in `args` (with the program's name first) and returns the exit code.
pub(crate) fn run(args: Vec<OsString>) -> u8 {
    let name = args.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    match name.to_str() {
        Some(program) if hadoop::PROGRAMS.contains(&program) => {
            hadoop::run(program, args.get(1..).unwrap_or_default())
        }
        _ => hanno(args),
    }
}

fn hanno(args: Vec<OsString>) -> u8 {
    if let Some((command, rest, overrides)) = passed_through(args.get(1..).unwrap_or_default()) {
        return command.start(rest, &overrides);
    }
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return end_by_clap(&error),
    };
    let overrides = cli.overrides;
    match cli.command {
        Command::Cluster(args) => cluster::run(&args),
        Command::Namenode(args) => daemons::run(daemons::Kind::Namenode, &args.config, args.parent),
        Command::Datanode(args) => daemons::run(daemons::Kind::Datanode, &args.config, args.parent),
        Command::Jobtracker(args) => {
            daemons::run(daemons::Kind::Jobtracker, &args.config, args.parent)
        }
        Command::Worker(args) => daemons::run(daemons::Kind::Worker, &args.config, args.parent),
        Command::Gateway(args) => daemons::run(daemons::Kind::Gateway, &args.config, args.parent),
        Command::Dfs(passed) => dfs::run(&passed.args, &overrides),
        Command::Job(passed) => job::run(&passed.args, &overrides),
        Command::Fsck(passed) => fsck::run(&passed.args, &overrides),
        Command::Debug(passed) => debug::run(&passed.args, &overrides),
        Command::Dfsadmin(passed) => dfsadmin::run(&passed.args, &overrides),
        Command::InstallLinks { dir, force } => hadoop::install_links(&dir, force),
        Command::Completions(args) => reference::complete(&args, definition()),
        Command::Man(args) => reference::write_pages(&args, definition()),
        Command::Admin(command) => admin::run(&command, &overrides),
        Command::Bench(command) => bench::run(&command, &overrides),
        Command::Version => version(),
    }
}

fn version() -> u8 {
    say!("hanno {}", env!("CARGO_PKG_VERSION"));
    EXIT_OK
}

/// The Hadoop command whose arguments clap must not see, the words after its name, and the flags before it.
fn passed_through(args: &[OsString]) -> Option<(&'static hadoop::Command, &[OsString], Overrides)> {
    let mut overrides = Overrides::default();
    let mut rest = args;
    loop {
        let (first, tail) = rest.split_first()?;
        let word = first.to_str()?;
        let known = hadoop::COMMANDS.iter().find(|command| command.name == word);
        match known.filter(|command| command.name != "version") {
            Some(command) => return Some((command, tail, overrides)),
            None => rest = leading_flag(word, tail, &mut overrides)?,
        }
    }
}

fn leading_flag<'a>(
    flag: &str,
    tail: &'a [OsString],
    overrides: &mut Overrides,
) -> Option<&'a [OsString]> {
    let (name, value, tail) = match flag.split_once('=') {
        Some((name, value)) => (name, value.to_owned(), tail),
        None => {
            let (value, tail) = tail.split_first()?;
            (flag, OsStr::to_str(value)?.to_owned(), tail)
        }
    };
    match name {
        "--namenode" => overrides.namenode = Some(value),
        "--jobtracker" => overrides.jobtracker = Some(value),
        _ => return None,
    }
    Some(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_accepts_the_definition() {
        definition().debug_assert();
    }

    #[test]
    fn hadoop_families_keep_their_arguments() {
        let args = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let all = args(&[
            "--namenode",
            "http://a:1",
            "--jobtracker=http://b:2",
            "dfs",
            "-cat",
            "--",
            "-x",
        ]);
        let (_, rest, overrides) = passed_through(&all).unwrap();
        assert_eq!(rest, &args(&["-cat", "--", "-x"])[..]);
        assert_eq!(overrides.namenode.as_deref(), Some("http://a:1"));
        assert_eq!(overrides.jobtracker.as_deref(), Some("http://b:2"));
        for words in [&["cluster", "--data", "dfs"][..], &["--help"], &["--namenode"], &[]] {
            assert!(passed_through(&args(words)).is_none(), "{words:?}");
        }
    }
}

//! `hanno admin`: inspection of metadata on disk, and short names for the most used commands of `hanno dfsadmin`.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};
use journal::RecoverError;
use journal::admin::{Entry, GivenUp, Repair};

use crate::connect::{self, Overrides, describe};
use crate::dfs::Failure;
use crate::dfsadmin::{Session, report, safe_mode};
use crate::output::{Buffered, EXIT_FAILED, EXIT_OK, report, say, unless_reader_left};
use crate::{diagnose, doctor, token, top};

/// Bytes of a key, value or record that `metadata dump` prints.
const DUMP_BYTES_MAX: usize = 256;
/// Readable records that `metadata repair` lists before it discards them.
const GIVEN_UP_LISTED_MAX: u64 = 20;

/// Commands of `hanno admin`.
#[derive(Subcommand)]
pub(crate) enum AdminCommand {
    /// Capacity, blocks and DataNodes of the cluster
    #[command(after_help = "Example:\n  hanno admin report\n  hanno admin report --json")]
    Report {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Look at safe mode, turn it on or off
    #[command(after_help = "Example:\n  hanno admin safemode get")]
    Safemode {
        /// What to do
        action: SafeMode,
    },
    /// Delegation tokens, by which foreign clients of WebHDFS prove who they are
    #[command(after_help = token::EXAMPLES)]
    Token(token::TokenArgs),
    /// Print links that sign a browser in at the pages of the NameNode and the JobTracker
    #[command(
        after_help = "Example:\n  hanno admin open\n\nEach link is good once, and for five minutes."
    )]
    Open {
        /// Whom the browser acts as; default: you
        #[arg(long)]
        user: Option<String>,
    },
    /// Watch the cluster in the terminal: DataNodes, blocks, workers, jobs
    #[command(after_help = "Example:\n  hanno admin top\n  hanno admin top --once")]
    Top(top::TopArgs),
    /// Look at what this machine offers to daemons and tasks: kernel, walls, limits, clock, disks
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArgs),
    /// Pack what helps to find what is wrong with a cluster into one archive
    #[command(after_help = diagnose::EXAMPLES)]
    Diagnose(diagnose::DiagnoseArgs),
    /// Tell or set the log level of a running daemon, until it ends
    #[command(
        after_help = "Examples:\n  hanno admin log-level http://127.0.0.1:9870 namenode\n  hanno admin log-level http://127.0.0.1:9864 datanode::scanner debug"
    )]
    LogLevel {
        /// `http://host:port` of the daemon
        daemon: String,
        /// Which part of it: a module, e.g. `namenode::server`
        logger: String,
        /// off, error, warn, info, debug or trace; without it the present one is told
        level: Option<String>,
    },
    /// Look at a NameNode's or JobTracker's metadata on disk; the daemon must be stopped
    #[command(subcommand)]
    Metadata(MetadataCommand),
}

/// Commands of `hanno admin metadata`.
#[derive(Subcommand)]
pub(crate) enum MetadataCommand {
    /// Check every byte
    #[command(after_help = "Example:\n  hanno admin metadata verify --dir ~/hanno/namenode-1")]
    Verify {
        /// The daemon's data directory
        #[arg(long)]
        dir: PathBuf,
    },
    /// Make a journal start again that refuses to: tells what would be given up, and asks
    #[command(
        after_help = "Example:\n  hanno admin metadata repair --dir ~/hanno/namenode-1\n\nNothing is deleted: what is given up is kept beside the log as *.bad-1."
    )]
    Repair {
        /// The daemon's data directory
        #[arg(long)]
        dir: PathBuf,
        /// Give up what cannot be restored without asking
        #[arg(long)]
        yes: bool,
    },
    /// Print every row and record
    #[command(after_help = "Example:\n  hanno admin metadata dump --dir ~/hanno/namenode-1")]
    Dump {
        /// The daemon's data directory
        #[arg(long)]
        dir: PathBuf,
    },
}

/// What to do about safe mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SafeMode {
    /// Only ask
    Get,
    /// Refuse changes
    Enter,
    /// Allow changes
    Leave,
    /// Return when changes are allowed
    Wait,
}

/// Runs a command of `hanno admin` and returns the exit code.
pub(crate) fn run(command: &AdminCommand, overrides: &Overrides) -> u8 {
    let outcome = match command {
        AdminCommand::Report { json: true } => {
            crate::output::only_json();
            operator(overrides, report::report_as_json)
        }
        AdminCommand::Report { json: false } => {
            operator(overrides, |session| report::report(session, &[]))
        }
        AdminCommand::Safemode { action } => {
            let word = action.to_possible_value().map(|value| value.get_name().to_owned());
            operator(overrides, |session| safe_mode(session, &[word.unwrap_or_default()]))
        }
        AdminCommand::Token(args) => token::run(args, overrides),
        AdminCommand::Open { user } => open(overrides, user.as_deref()),
        AdminCommand::Top(args) => top::cluster(args, overrides),
        AdminCommand::Doctor(args) => doctor::run(args),
        AdminCommand::Diagnose(args) => diagnose::run(args, overrides),
        AdminCommand::LogLevel { daemon, logger, level } => {
            log_level(overrides, daemon, logger, level.as_deref())
        }
        AdminCommand::Metadata(MetadataCommand::Verify { dir }) => verify(dir),
        AdminCommand::Metadata(MetadataCommand::Repair { dir, yes }) => repair(dir, *yes),
        AdminCommand::Metadata(MetadataCommand::Dump { dir }) => dump(dir),
    };
    outcome.unwrap_or_else(|error| {
        report!("admin: {}", describe(error.as_ref()));
        EXIT_FAILED
    })
}

/// A command of `hanno dfsadmin` under its short name.
fn operator(
    overrides: &Overrides,
    run: impl FnOnce(&Session) -> Result<(), Failure>,
) -> Result<u8> {
    match Session::open(overrides).and_then(|session| run(&session)) {
        Ok(()) | Err(Failure::ReaderLeft) => Ok(EXIT_OK),
        Err(failure) => bail!("{failure}"),
    }
}

/// Prints a login link for each daemon with pages in the configuration.
fn open(overrides: &Overrides, user: Option<&str>) -> Result<u8> {
    let config = overrides.config()?;
    let own = config.user();
    let user = user.unwrap_or(&own);
    if user.is_empty() {
        bail!("`` is no name of a user: --user takes the one whom the links sign in");
    }
    let namenode = connect::namenode(&config)?;
    let link = transport::rpc::runtime().block_on(namenode.login_link("namenode", user))?;
    say!("{:<11} {link}", "NameNode");
    if config.jobtracker.is_some() {
        let jobtracker = connect::jobtracker(&config)?;
        let link = transport::rpc::runtime().block_on(jobtracker.login_link("jobtracker", user))?;
        say!("{:<11} {link}", "JobTracker");
    }
    Ok(EXIT_OK)
}

/// Calls Hadoop's address for levels, signed; its answer has one line per fact.
fn log_level(overrides: &Overrides, daemon: &str, logger: &str, level: Option<&str>) -> Result<u8> {
    let config = overrides.config()?;
    let rpc = connect::daemon(&config, daemon)?;
    let mut target = format!("/logLevel?log={}", webhdfs::path::encode_value(logger));
    if let Some(level) = level {
        target.push_str(&format!("&level={}", webhdfs::path::encode_value(level)));
    }
    let page = transport::rpc::runtime()
        .block_on(async { anyhow::Ok(rpc.get_as(&config.user(), &target).await?.text().await?) })?;
    let effective = page.lines().find_map(|line| line.split_once("Effective Level: <b>"));
    let Some((level, _)) = effective.and_then(|(_, rest)| rest.split_once('<')) else {
        bail!("{daemon} did not tell the level of {logger}");
    };
    say!("{}", level.to_lowercase());
    Ok(EXIT_OK)
}

/// The journal of a daemon lies in its data directory, or in `journal` below.
fn journal_dir(dir: &Path) -> Result<PathBuf> {
    if !dir.is_dir() {
        bail!("{} is not a directory", dir.display());
    }
    let below = dir.join("journal");
    Ok(if below.is_dir() { below } else { dir.to_owned() })
}

fn verify(dir: &Path) -> Result<u8> {
    let report = journal::admin::verify(&journal_dir(dir)?)?;
    say!("log: records {} to {}, epoch {}", report.log_first, report.log_last, report.epoch);
    match report.store_applied {
        Some(applied) => say!("checkpoint: as of {applied}, {} rows", report.store_rows),
        None => say!("checkpoint: none that is usable"),
    }
    for (applied, rows) in &report.images {
        say!("image: as of {applied}, {rows} rows");
    }
    match report.start_from {
        Some(base) => say!("the next start begins from {base}"),
        None => say!("the next start would refuse"),
    }
    for problem in &report.problems {
        say!("problem: {problem}");
    }
    let is_sound = report.problems.is_empty() && report.start_from.is_some();
    say!("{}", if is_sound { "everything is whole" } else { "NOT everything is whole" });
    Ok(if is_sound { EXIT_OK } else { EXIT_FAILED })
}

/// Makes a journal start again, after reporting the price.
fn repair(dir: &Path, yes: bool) -> Result<u8> {
    let repair = Repair::plan(&journal::Options::new(journal_dir(dir)?))?;
    for problem in repair.problems() {
        say!("problem: {problem}");
    }
    let (base, kept) = (repair.base(), repair.kept());
    say!("can be restored: record {kept}, from the checkpoint as of {base} and the log behind it");
    if repair.given_up().is_empty() {
        say!("nothing is given up");
    } else {
        print_price(&repair)?;
        if !yes && !asked("Give this up?")? {
            bail!("nothing was changed; with --yes it is given up without asking");
        }
    }
    for line in repair.apply()? {
        say!("{line}");
    }
    say!("the next start begins from record {kept}");
    Ok(EXIT_OK)
}

fn print_price(repair: &Repair) -> Result<()> {
    for GivenUp { from, to, is_readable } in repair.given_up() {
        let state =
            if *is_readable { "can be read, but build on what is lost" } else { "are lost" };
        match to {
            Some(to) => {
                say!(
                    "GIVES UP records {from} to {to} ({} changes): they {state}",
                    to.0 - from.0 + 1
                );
            }
            None => say!(
                "GIVES UP whatever came from record {from} on: nobody knows how many changes, or whether any"
            ),
        }
    }
    let mut readable_count = 0u64;
    repair.readable(&mut |txid, epoch, body| {
        readable_count += 1;
        if readable_count <= GIVEN_UP_LISTED_MAX {
            say!("  record {txid} epoch {epoch} {}", escaped(body));
        }
        Ok(())
    })?;
    if readable_count > GIVEN_UP_LISTED_MAX {
        say!("  … and {} more that can be read", readable_count - GIVEN_UP_LISTED_MAX);
    }
    Ok(())
}

/// Asks on the terminal; without a terminal the answer is no.
fn asked(question: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    crate::output::report_text!("{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn dump(dir: &Path) -> Result<u8> {
    let mut out = Buffered::new()?;
    let mut broken = None;
    let read = journal::admin::dump(&journal_dir(dir)?, &mut |entry| {
        // Whoever reads has enough, or the disk has: the rest is not read for nobody.
        out.write_all(entry_text(entry).as_bytes()).map_err(|error| {
            let text = error.to_string();
            broken = Some(error);
            RecoverError::new(text)
        })
    });
    let written = match broken {
        Some(error) => Err(error),
        None => {
            read?;
            out.flush()
        }
    };
    unless_reader_left(written)?;
    Ok(EXIT_OK)
}

fn entry_text(entry: Entry<'_>) -> String {
    match entry {
        Entry::Row { key, value } => format!("row {} = {}\n", escaped(key), escaped(value)),
        Entry::Record { txid, epoch, body } => {
            format!("record {txid} epoch {epoch} {}\n", escaped(body))
        }
    }
}

/// Text as text, other bytes as `\x..`, truncated if long.
fn escaped(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(DUMP_BYTES_MAX)];
    let rest = bytes.len() - cut.len();
    let tail = if rest > 0 { format!(" (and {rest} bytes)") } else { String::new() };
    format!("{}{tail}", cut.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_are_text() {
        assert_eq!(escaped(b"a\x00\"\xff"), r#"a\x00\"\xff"#);
        assert!(escaped(&[b'x'; 300]).ends_with("x (and 44 bytes)"));
    }
}

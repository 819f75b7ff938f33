//! `hanno admin diagnose`: one archive for whoever helps with a cluster. It has versions, findings about this machine, the cluster's report, figures and
//! settings of every daemon that answers, and the logs that this machine has.
//!
//! Invariants: it has no bytes of files, no output of tasks, no audit log, no list of jobs; every text passes [`scrub`] on its way in. It tells what it lacks
//! and why, and a daemon that does not answer hinders nothing.

mod archive;
mod bundle;
mod local;
mod remote;
mod scrub;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use client::{ClientConfig, Daemon};
use jiff::Timestamp;

use self::archive::Archive;
use self::bundle::Bundle;
use self::scrub::{Kind, Scrub};
use crate::connect::{self, Overrides};
use crate::doctor;
use crate::output::{EXIT_OK, report, say};

/// Behind the name of an archive until it is whole.
const PART_SUFFIX: &str = ".part";

/// After the help.
pub(crate) const EXAMPLES: &str = "Examples:
  hanno admin diagnose
  hanno admin diagnose -o cluster.tar.gz --logs /var/log/hanno --dir /data/1

It packs no secret, no bytes of files, no output of tasks, no audit log and no list of jobs. In logs, names of users and paths
outside of the cluster's directories are left out. Look at the archive before you hand it on.";

/// Arguments of `hanno admin diagnose`.
#[derive(Args)]
pub(crate) struct DiagnoseArgs {
    /// The archive to make; it must not be there yet [default: hanno-diagnose-TIME.tar.gz]
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// A directory with logs of daemons besides that of `hanno cluster`; may be repeated
    #[arg(long)]
    logs: Vec<PathBuf>,
    /// A data directory that `hanno admin doctor` looks at; may be repeated
    #[arg(long = "dir", default_value = ".")]
    directories: Vec<PathBuf>,
}

/// Makes the archive and says where it is and what it lacks.
pub(crate) fn run(args: &DiagnoseArgs, overrides: &Overrides) -> Result<u8> {
    let config = overrides.config()?;
    let now = Timestamp::now();
    let path = args.output.clone().unwrap_or_else(|| {
        PathBuf::from(format!("hanno-diagnose-{}.tar.gz", now.strftime("%Y%m%dT%H%M%SZ")))
    });
    let cannot = || format!("cannot make {}; name another file with -o", path.display());
    if path.symlink_metadata().is_ok() {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists)).with_context(cannot);
    }
    // The archive gets its name when it is whole: a part of one helps nobody.
    let mut part = path.clone().into_os_string();
    part.push(format!(".{}{PART_SUFFIX}", std::process::id()));
    let part = PathBuf::from(part);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part);
    let file = file.with_context(cannot)?;
    let packed = pack(args, overrides, (&config, now), file).and_then(|packed| {
        sys::fs::rename_new(&part, &path).with_context(cannot)?;
        Ok(packed)
    });
    if packed.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    let (count, missing) = packed?;
    missing.iter().for_each(|line| report!("not packed: {line}"));
    say!("{} has {count} files; look at it before you hand it on", path.display());
    Ok(EXIT_OK)
}

/// Packs everything into `file`; returns the number of files, and what is missing.
fn pack(
    args: &DiagnoseArgs,
    overrides: &Overrides,
    (config, now): (&ClientConfig, Timestamp),
    file: File,
) -> Result<(usize, Vec<String>)> {
    let cluster = cluster_directory(config);
    let folders = local::Folders::of(cluster.as_deref(), &args.logs);
    let archive = Archive::new(file, u64::try_from(now.as_second()).unwrap_or(0));
    let scrub = Scrub::new(secrets(config, cluster.as_deref()), folders.own());
    let mut bundle = Bundle::new(archive, scrub);
    bundle.add("about.txt", Kind::Facts, Ok(about(&now)))?;
    let findings = doctor::findings(&args.directories, None);
    let findings = findings.and_then(|findings| Ok(serde_json::to_string_pretty(&findings)?));
    bundle.add("doctor.json", Kind::Facts, findings)?;
    remote::pack(&mut bundle, config, overrides)?;
    local::pack(&mut bundle, &folders)?;
    let (file, count, missing) = bundle.finish()?;
    file.sync_all().context("cannot write the archive")?;
    Ok((count, missing))
}

fn about(now: &Timestamp) -> String {
    format!(
        "hanno {}\nkernel Linux {}\nmachine {}\ntime {now}\n",
        env!("CARGO_PKG_VERSION"),
        sys::host::kernel_release(),
        sys::host::host_name(),
    )
}

/// The directory of `hanno cluster`, if this machine has it: its secret is there, beside its logs.
fn cluster_directory(config: &ClientConfig) -> Option<PathBuf> {
    let directory = connect::secret_file(config)?.parent()?.canonicalize().ok()?;
    directory.join("logs").is_dir().then_some(directory)
}

/// The cluster's secret as far as this user has it, to be recognised wherever it stands.
fn secrets(config: &ClientConfig, cluster: Option<&Path>) -> Vec<String> {
    let configured = config.secret(Daemon::Namenode).ok().flatten();
    let beside =
        cluster.and_then(|cluster| transport::rpc::read_secret(&cluster.join("secret")).ok());
    [configured, beside].into_iter().flatten().map(|key| key.to_hex()).collect()
}

//! How commands find and call the daemons.
//!
//! The first contact of a command gives up soon, so a wrong address is reported at once; later calls wait for a daemon that restarts.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use protocol::address::{FileSystem, authority_of};
use transport::rpc::{Health, RpcClient, read_secret, runtime};

use crate::output::report;
use anyhow::{Result, bail};
use client::config::{JOBTRACKER_VARIABLE, NAMENODE_VARIABLE, SECRET_FILE_VARIABLE};
use client::dfs::DfsClient;
use client::job::JobClient;
use client::{ClientConfig, Daemon};
use protocol::ClientId;
use protocol::auth::{Key, Role};
use transport::RpcError;

/// How long the first contact is tried: long enough for a daemon that is just restarting.
const FIRST_CONTACT_MAX: Duration = Duration::from_secs(2);
/// Pause between tries of the first contact.
const FIRST_CONTACT_PAUSE: Duration = Duration::from_millis(20);

/// Where the cluster is, given as flags.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Overrides {
    /// Address of the NameNode, e.g. http://127.0.0.1:9870
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) namenode: Option<String>,
    /// Address of the JobTracker, e.g. http://127.0.0.1:8088
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) jobtracker: Option<String>,
    /// What one of Hadoop's options names as the file system, and that option.
    #[arg(skip)]
    pub(crate) file_system: Option<(&'static str, String)>,
    /// The JobTracker that Hadoop's `-jt` names.
    #[arg(skip)]
    pub(crate) jobtracker_by_jt: Option<String>,
    /// Properties of the directory that `--config` or `HADOOP_CONF_DIR` names; options win over them.
    #[arg(skip)]
    pub(crate) site: Vec<(String, String)>,
}

impl Overrides {
    /// File, environment and flags together, for commands that work only on a cluster.
    pub(crate) fn config(&self) -> Result<ClientConfig> {
        match (self.resolved()?, &self.file_system) {
            ((_, FileSystem::Machine), Some((option, text))) => {
                bail!("{option} {text}: this command works on a cluster, not on this machine")
            }
            ((config, _), _) => Ok(config),
        }
    }

    /// File, environment and flags together, and the file system that plain paths belong to.
    pub(crate) fn resolved(&self) -> Result<(ClientConfig, FileSystem)> {
        let mut config = ClientConfig::load()?;
        if let Some(address) = &self.namenode {
            config.set_namenode("--namenode", address)?;
        }
        if let Some(address) = &self.jobtracker {
            config.set_jobtracker("--jobtracker", address)?;
        }
        if let Some(address) = &self.jobtracker_by_jt {
            config.set_jobtracker("-jt", address)?;
        }
        let file_system = match &self.file_system {
            Some((option, text)) => config.set_file_system(option, text)?,
            None => FileSystem::Configured,
        };
        Ok((config, file_system))
    }
}

/// The NameNode's address.
pub(crate) fn namenode_address(config: &ClientConfig) -> Result<&str> {
    known(config.namenode.as_deref(), "NameNode", NAMENODE_VARIABLE, "--namenode")
}

/// The JobTracker's address.
pub(crate) fn jobtracker_address(config: &ClientConfig) -> Result<&str> {
    known(config.jobtracker.as_deref(), "JobTracker", JOBTRACKER_VARIABLE, "--jobtracker")
}

fn known<'a>(
    address: Option<&'a str>,
    daemon: &str,
    variable: &str,
    flag: &str,
) -> Result<&'a str> {
    match address {
        Some(address) => Ok(address),
        None => bail!(
            "no {daemon} is known: set {variable}=http://host:port or give {flag}, or start a cluster with `hanno cluster --data DIR`"
        ),
    }
}

/// Asks which service listens, for at most [`FIRST_CONTACT_MAX`].
pub(crate) fn first_contact(rpc: &RpcClient, service: &'static str) -> Result<Health, RpcError> {
    let deadline = Instant::now() + FIRST_CONTACT_MAX;
    let health = runtime().block_on(async {
        loop {
            match rpc.health().await {
                Err(error @ RpcError::Unreachable { .. }) if Instant::now() >= deadline => {
                    return Err(error);
                }
                Err(RpcError::Unreachable { .. }) => {
                    tokio::time::sleep(FIRST_CONTACT_PAUSE).await;
                }
                other => return other,
            }
        }
    })?;
    health.expect(rpc.base(), service)
}

/// An error and its causes in one line; an unreachable daemon in the words that scripts look for.
pub(crate) fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(RpcError::Unreachable { address, source }) = current.downcast_ref() {
            return unreachable_text(address, source);
        }
        if let Some(RpcError::Status { is_about_secret: true, .. }) = current.downcast_ref()
            && let Some(file) = ClientConfig::load().ok().and_then(|config| config.secret_file)
        {
            let text = protocol::error::chain(error);
            return format!("{text}, and the one in {} is another", file.display());
        }
        cause = current.source();
    }
    protocol::error::chain(error)
}

fn unreachable_text(address: &str, source: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = source;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    let reason = crate::output::without_number(&innermost.to_string());
    format!(
        "Call From {} to {} failed on connection exception: {reason}; is the cluster running?",
        sys::host::host_name(),
        authority_of(address),
    )
}

/// Warns of an argument that this command has no use for.
pub(crate) fn warn_unused(what: &str) {
    report!("hanno: {what} is not used by this command");
}

/// An id that no other process has.
pub(crate) fn random_client() -> ClientId {
    ClientId(rand::random())
}

/// Signed calls to the NameNode, after first contact.
pub(crate) fn namenode(config: &ClientConfig) -> Result<RpcClient> {
    let address = namenode_address(config)?;
    let secret = secret_of(config, Daemon::Namenode, address, "namenode")?;
    Ok(RpcClient::new(address, Role::Client, secret.as_ref())?)
}

/// Signed calls to the JobTracker, after first contact.
pub(crate) fn jobtracker(config: &ClientConfig) -> Result<RpcClient> {
    let address = jobtracker_address(config)?;
    let secret = secret_of(config, Daemon::Jobtracker, address, "jobtracker")?;
    Ok(RpcClient::new(address, Role::Client, secret.as_ref())?)
}

/// Signed calls to the daemon at `address`, whatever its kind, after first contact.
pub(crate) fn daemon(config: &ClientConfig, address: &str) -> Result<RpcClient> {
    let health = runtime().block_on(RpcClient::new(address, Role::Client, None)?.health())?;
    let secret = given_or_found(config.secret(Daemon::Named)?, health)?;
    Ok(RpcClient::new(address, Role::Client, secret.as_ref())?)
}

/// The file of this machine that holds the cluster's secret: the configured one, or the one that the NameNode names. Anybody may name a file, so that one counts only if
/// the NameNode has its secret.
pub(crate) fn secret_file(config: &ClientConfig) -> Option<PathBuf> {
    if config.secret_file.is_some() {
        return config.secret_file.clone();
    }
    let rpc = RpcClient::new(config.namenode.as_deref()?, Role::Client, None).ok()?;
    let path = runtime().block_on(rpc.health()).ok()?.secret_file?;
    let secret = Some(read_secret(&path).ok()?);
    let client = DfsClient::connect(&ClientConfig { secret, ..config.clone() }).ok()?;
    client.cluster_status().ok().map(|_| path)
}

/// What anybody may read of the daemon at `address`, about `bytes_max` bytes of it at most.
pub(crate) fn open_to_all(address: &str, target: &str, bytes_max: u64) -> Result<String> {
    let rpc = RpcClient::new(address, Role::Client, None)?;
    let bytes = runtime().block_on(rpc.get_open(target, bytes_max))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A client of the file system that has made first contact.
pub(crate) fn file_system(config: &ClientConfig) -> Result<DfsClient> {
    Ok(DfsClient::connect(&file_system_config(config)?)?)
}

/// The configuration of such a client, with the secret.
pub(crate) fn file_system_config(config: &ClientConfig) -> Result<ClientConfig> {
    let secret = secret_of(config, Daemon::Namenode, namenode_address(config)?, "namenode")?;
    Ok(ClientConfig { secret, ..config.clone() })
}

/// A client of the JobTracker that has made first contact.
pub(crate) fn job_client(config: &ClientConfig) -> Result<JobClient> {
    let address = jobtracker_address(config)?;
    let secret = secret_of(config, Daemon::Jobtracker, address, "jobtracker")?;
    Ok(JobClient::connect(&ClientConfig { secret, ..config.clone() })?)
}

/// The secret for the daemon at `address`, after first contact: the configured one, otherwise the one in the file that the daemon names.
fn secret_of(
    config: &ClientConfig,
    daemon: Daemon,
    address: &str,
    service: &'static str,
) -> Result<Option<Key>> {
    let given = config.secret(daemon)?;
    let rpc = RpcClient::new(address, Role::Client, None)?;
    given_or_found(given, first_contact(&rpc, service)?)
}

fn given_or_found(given: Option<Key>, health: Health) -> Result<Option<Key>> {
    match (given, health.secret_file) {
        (None, Some(path)) if is_of_another(&path) => bail!(
            "the cluster's secret {} belongs to the user who runs the cluster: ask them for a token (`hanno admin token --user {}`) \
             and use WebHDFS with it, or for a copy of the secret in a file of your own that {SECRET_FILE_VARIABLE} names (whoever has it may act as \
             anybody)",
            path.display(),
            sys::host::user_name(),
        ),
        (None, Some(path)) => Ok(Some(read_secret(&path)?)),
        (secret, _) => Ok(secret),
    }
}

/// True for a file that exists and that this user may not read.
fn is_of_another(path: &Path) -> bool {
    sys::fs::open_input(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_cluster_is_explained() {
        let config = ClientConfig::default();
        let text = namenode_address(&config).unwrap_err().to_string();
        assert!(
            text.contains("HANNO_NAMENODE=") && text.contains("hanno cluster --data"),
            "{text}"
        );
    }

    #[test]
    fn nobody_listening_says_so_and_names_the_address() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let rpc = RpcClient::new(&format!("http://{free}"), Role::Client, None).unwrap();
        let error = runtime().block_on(rpc.health()).unwrap_err();
        let text = describe(&error);
        assert!(text.contains("Connection refused") && text.contains(&free.to_string()), "{text}");
        assert!(!text.contains("os error"), "{text}");
    }
}

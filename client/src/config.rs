//! Where a client finds its cluster: flags, then environment, then `hanno.toml`.
//!
//! Invariants: a file of the working directory is trusted only if nobody but the user (or root) can have written it. An address from there gets no secret but
//! the one that the same file names: whoever leaves a file there must not obtain signatures made with the user's secret.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs, io};

use protocol::address::{self, AddressError, FileSystem, Site};
use protocol::auth::Key;
use serde::Deserialize;
use sys::broker::Broker;

use transport::Local;
use transport::RpcError;
use transport::rpc::PassHolder;
use transport::rpc::read_secret;

/// Environment variable: address of the NameNode.
pub const NAMENODE_VARIABLE: &str = "HANNO_NAMENODE";
/// Environment variable: address of the JobTracker.
pub const JOBTRACKER_VARIABLE: &str = "HANNO_JOBTRACKER";
/// Environment variable: path of the file that holds the cluster secret (never the secret itself).
pub const SECRET_FILE_VARIABLE: &str = "HANNO_SECRET_FILE";
/// Environment variable: other names of the cluster in `hdfs://` addresses, separated by commas.
pub const ALIASES_VARIABLE: &str = "HANNO_ALIASES";
/// Environment variable: path of the configuration file.
pub const CONFIG_VARIABLE: &str = "HANNO_CONFIG";
/// Configuration file, searched in the working directory and then in `~/.config/hanno/`.
pub const CONFIG_FILE: &str = "hanno.toml";

/// What a client needs to know. Every field may be absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientConfig {
    /// `http://host:port` of the NameNode.
    pub namenode: Option<String>,
    /// `http://host:port` of the JobTracker.
    pub jobtracker: Option<String>,
    /// Names of the NameNode in `hdfs://` addresses besides its HTTP address: `hdfs://nn:8020`, `hdfs://service`. Default: none.
    pub aliases: Vec<String>,
    /// File that holds the cluster secret. Absent: the file that the NameNode names, if this user can read it.
    pub secret_file: Option<PathBuf>,
    /// Acting user. Absent: the user of this process.
    pub user: Option<String>,
    /// Name of this machine, for placing and reading replicas nearby. Absent: the network name.
    pub host: Option<String>,
    /// Whether Unix sockets, over which DataNodes on this machine hand out whole replicas, are used. Absent: yes. Otherwise everything goes over TCP, as from
    /// another machine.
    pub short_circuit: Option<bool>,
    /// A secret from the process that started this one; never in a file or variable.
    #[serde(skip)]
    pub secret: Option<Key>,
    /// For a task: the pass it signs with instead of a secret.
    #[serde(skip)]
    pub pass: Option<PassHolder>,
    /// For a task: connects to the Unix sockets of DataNodes on its behalf.
    #[serde(skip)]
    pub broker: Option<Arc<Broker>>,
    /// The sources of the addresses.
    #[serde(skip)]
    pub bindings: Bindings,
}

/// Which addresses come from a file of the working directory, and whether their secret does.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    namenode_file: Option<PathBuf>,
    jobtracker_file: Option<PathBuf>,
    /// The file that also names the secret.
    secret_file: Option<PathBuf>,
}

/// A daemon whose address clients need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Daemon {
    /// The daemon of the file system.
    Namenode,
    /// The daemon of jobs.
    Jobtracker,
    /// One that the user named for this call.
    Named,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The file has a mistake.
    #[error("{}: {reason}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line and mistake.
        reason: String,
    },
    /// Somebody else may have written the file of the working directory.
    #[error(
        "{} is not read, because {reason}: mend that, work in another directory, or name the file by {CONFIG_VARIABLE} if you trust it",
        path.display()
    )]
    Distrusted {
        /// The file.
        path: PathBuf,
        /// Who could write it.
        reason: String,
    },
    /// The value of a variable or flag is not an address.
    #[error(transparent)]
    Address(#[from] AddressError),
}

impl ClientConfig {
    /// Reads file and environment.
    ///
    /// # Errors
    /// [`ConfigError`] if a file exists but cannot be used, or `HANNO_CONFIG` names one that does not exist.
    pub fn load() -> Result<Self, ConfigError> {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let mut config = match variable(CONFIG_VARIABLE) {
            Some(path) => Self::read(Path::new(&path))?.unwrap_or_default(),
            None => Self::found()?,
        };
        if let Some(address) = variable(NAMENODE_VARIABLE) {
            config.set_namenode(NAMENODE_VARIABLE, &address)?;
        }
        if let Some(address) = variable(JOBTRACKER_VARIABLE) {
            config.set_jobtracker(JOBTRACKER_VARIABLE, &address)?;
        }
        if let Some(names) = variable(ALIASES_VARIABLE) {
            config.aliases = names.split(',').map(|name| name.trim().to_owned()).collect();
        }
        if let Some(path) = variable(SECRET_FILE_VARIABLE) {
            config.secret_file = Some(path.into());
            config.bindings.secret_file = None;
        }
        Ok(config)
    }

    /// Takes the NameNode's address from the user: `option` is the option that named it.
    ///
    /// # Errors
    /// [`AddressError`] if the text is not an address.
    pub fn set_namenode(&mut self, option: &'static str, text: &str) -> Result<(), AddressError> {
        self.namenode = Some(address::namenode_address(option, text)?);
        self.bindings.namenode_file = None;
        Ok(())
    }

    /// Takes the JobTracker's address from the user: `option` is the option that named it.
    ///
    /// # Errors
    /// [`AddressError`] if the text is not an address.
    pub fn set_jobtracker(&mut self, option: &'static str, text: &str) -> Result<(), AddressError> {
        self.jobtracker = Some(address::jobtracker_address(option, text)?);
        self.bindings.jobtracker_file = None;
        Ok(())
    }

    /// Takes the file system from `-fs`, `fs.defaultFS` or another `option`.
    ///
    /// # Errors
    /// [`AddressError`] if it cannot be reached.
    pub fn set_file_system(
        &mut self,
        option: &'static str,
        text: &str,
    ) -> Result<FileSystem, AddressError> {
        let file_system = FileSystem::parse(option, text, &self.site())?;
        if let FileSystem::Namenode(address) = &file_system {
            self.namenode = Some(address.clone());
            self.bindings.namenode_file = None;
        }
        Ok(file_system)
    }

    /// Where paths lead.
    pub fn site(&self) -> Site {
        Site::new(self.namenode.as_deref().unwrap_or_default(), &self.aliases)
    }

    /// The cluster secret for calls to `daemon`, if the configuration has it or names its file.
    ///
    /// # Errors
    /// [`RpcError::Secret`] if the file cannot be used, [`RpcError::Unbound`] if a file of the working directory names the daemon but no secret for it.
    pub fn secret(&self, daemon: Daemon) -> Result<Option<Key>, RpcError> {
        let Bindings { namenode_file, jobtracker_file, secret_file } = &self.bindings;
        let (file, address) = match daemon {
            Daemon::Namenode => (namenode_file, &self.namenode),
            Daemon::Jobtracker => (jobtracker_file, &self.jobtracker),
            Daemon::Named => (&None, &None),
        };
        if let Some(file) = file
            && secret_file.as_ref() != Some(file)
        {
            let address = address.clone().unwrap_or_default();
            return Err(RpcError::Unbound { address, file: file.clone() });
        }
        match (&self.secret, &self.secret_file) {
            (Some(secret), _) => Ok(Some(secret.clone())),
            (None, Some(path)) => read_secret(path).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Acting user.
    pub fn user(&self) -> String {
        self.user.clone().unwrap_or_else(sys::host::user_name)
    }

    /// Name of this machine.
    pub fn host(&self) -> String {
        self.host.clone().unwrap_or_else(sys::host::host_name)
    }

    /// Whether DataNodes on this machine are reached over their Unix sockets.
    pub fn short_circuit(&self) -> bool {
        self.short_circuit.unwrap_or(true)
    }

    /// How DataNodes on this machine are reached.
    pub(crate) fn local(&self) -> Local {
        let boot_id = if self.short_circuit() { sys::host::boot_id() } else { String::new() };
        Local { boot_id, broker: self.broker.clone() }
    }

    /// The file of the working directory, else that of the user.
    fn found() -> Result<Self, ConfigError> {
        if let Some(mut config) = Self::read_trusted(Path::new(CONFIG_FILE))? {
            let file = || Some(PathBuf::from(CONFIG_FILE));
            config.bindings = Bindings {
                namenode_file: config.namenode.as_ref().and_then(|_| file()),
                jobtracker_file: config.jobtracker.as_ref().and_then(|_| file()),
                secret_file: config.secret_file.as_ref().and_then(|_| file()),
            };
            return Ok(config);
        }
        let Some(home) = env::home_dir() else { return Ok(ClientConfig::default()) };
        let path = home.join(".config/hanno").join(CONFIG_FILE);
        match Self::read(&path) {
            Err(ConfigError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(ClientConfig::default())
            }
            read => Ok(read?.unwrap_or_default()),
        }
    }

    /// Reads a file of the working directory, if it is there and only the user or root can have written it.
    fn read_trusted(path: &Path) -> Result<Option<Self>, ConfigError> {
        let fail = |source| ConfigError::Read { path: path.to_owned(), source };
        let link = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            link => link.map_err(fail)?,
        };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let around = fs::metadata(directory).map_err(fail)?;
        // Checked before it is opened: a stranger's file can keep its reader waiting.
        let target = fs::metadata(path).map_err(fail)?;
        let file = || {
            let file = File::open(path).map_err(fail)?;
            file.metadata().map(|metadata| (file, metadata)).map_err(fail)
        };
        let me = sys::host::user_id();
        let distrust = |reason| Err(ConfigError::Distrusted { path: path.to_owned(), reason });
        for (what, metadata) in [("its directory", &around), ("it", &link), ("it", &target)] {
            if let Some(reason) = writer(what, metadata, me) {
                return distrust(reason);
            }
        }
        if !target.is_file() {
            return distrust("it is not a file".to_owned());
        }
        let (mut file, opened) = file()?;
        if let Some(reason) = writer("it", &opened, me) {
            return distrust(reason);
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(fail)?;
        Self::parse(path, &text).map(Some)
    }

    /// Reads a file that the user named or that lies in the home directory.
    fn read(path: &Path) -> Result<Option<Self>, ConfigError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text).map(Some)
    }

    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let fail = |reason: String| ConfigError::Parse {
            path: path.to_owned(),
            reason: reason.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        let mut config: Self = toml::from_str(text).map_err(|error| fail(error.to_string()))?;
        for (key, address, read) in [
            ("namenode", &mut config.namenode, address::namenode_address as fn(_, &str) -> _),
            ("jobtracker", &mut config.jobtracker, address::jobtracker_address),
        ] {
            if let Some(text) = address {
                let read = read(key, text).map_err(|error| fail(error.to_string()))?;
                *text = read;
            }
        }
        Ok(config)
    }
}

/// Who besides the user and root can change a file or the entries of a directory, as a clause; `None` if nobody.
fn writer(what: &str, metadata: &fs::Metadata, me: u32) -> Option<String> {
    let owner = metadata.uid();
    if owner != me && owner != 0 {
        return Some(format!("{what} belongs to the user with id {owner}, not to you"));
    }
    // In a sticky directory nobody renames or deletes files of others. Links have no modes.
    let is_sticky = metadata.is_dir() && metadata.mode() & 0o1000 != 0;
    let is_open = metadata.mode() & 0o022 != 0 && !metadata.is_symlink() && !is_sticky;
    is_open.then(|| format!("others can change {what} (chmod go-w)"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_that_others_can_write_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(CONFIG_FILE);
        assert!(ClientConfig::read_trusted(&path).unwrap().is_none());
        fs::write(&path, "namenode = \"h:1\"\n").unwrap();
        for (file, around, trusted) in [
            (0o644, 0o755, true),
            (0o600, 0o1777, true),
            (0o664, 0o755, false),
            (0o646, 0o755, false),
            (0o644, 0o775, false),
            (0o644, 0o777, false),
        ] {
            chmod(&path, file);
            chmod(directory.path(), around);
            match ClientConfig::read_trusted(&path) {
                Ok(config) => {
                    assert!(trusted, "{file:o} {around:o}");
                    assert_eq!(config.unwrap().namenode.as_deref(), Some("http://h:1"));
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(!trusted && text.contains("hanno.toml is not read"), "{text}");
                    assert!(text.contains("chmod go-w") && text.contains("HANNO_CONFIG"), "{text}");
                }
            }
        }
        chmod(directory.path(), 0o755);
        chmod(&path, 0o644);
        let (link, pipe) = (directory.path().join("link"), directory.path().join("directory"));
        symlink(&path, &link).unwrap();
        fs::create_dir(&pipe).unwrap();
        assert!(ClientConfig::read_trusted(&link).unwrap().is_some());
        assert!(matches!(ClientConfig::read_trusted(&pipe), Err(ConfigError::Distrusted { .. })));
    }

    #[test]
    fn owners_other_than_the_user_and_root_are_strangers() {
        let directory = tempfile::tempdir().unwrap();
        let metadata = fs::metadata(directory.path()).unwrap();
        let me = metadata.uid();
        assert_eq!(writer("it", &metadata, me), None);
        assert_eq!(writer("it", &metadata, me + 1).is_some(), me != 0);
    }

    #[test]
    fn a_secret_goes_to_no_address_that_another_source_names() {
        let file = || Some(PathBuf::from(CONFIG_FILE));
        let key = Key::from_hex(&"ab".repeat(32)).unwrap();
        let stranger = |secret_file| ClientConfig {
            namenode: Some("http://stranger:1".to_owned()),
            secret: Some(key.clone()),
            bindings: Bindings { namenode_file: file(), jobtracker_file: None, secret_file },
            ..ClientConfig::default()
        };
        let refused = stranger(None).secret(Daemon::Namenode).unwrap_err().to_string();
        assert!(
            refused.contains("http://stranger:1") && refused.contains("secret_file"),
            "{refused}"
        );
        assert!(stranger(None).secret(Daemon::Jobtracker).unwrap().is_some());
        assert!(stranger(file()).secret(Daemon::Namenode).unwrap().is_some());
        type Change = fn(&mut ClientConfig) -> Result<(), AddressError>;
        let changes: [Change; 2] = [
            |config| config.set_namenode("--namenode", "mine:1"),
            |config| config.set_file_system("-fs", "mine:1").map(drop),
        ];
        for change in changes {
            let mut config = stranger(None);
            change(&mut config).unwrap();
            assert_eq!(config.namenode.as_deref(), Some("http://mine:1"));
            assert!(config.secret(Daemon::Namenode).unwrap().is_some());
        }
        let mut config = stranger(None);
        assert_eq!(config.set_file_system("-fs", "hdfs:///").unwrap(), FileSystem::Configured);
        assert!(config.set_file_system("-fs", "hdfs://other").is_err());
        assert!(config.secret(Daemon::Namenode).is_err());
    }

    #[test]
    fn mistakes_in_a_file_are_named() {
        for (text, expected) in [
            ("namenode = \"hdfs://h:1\"", "hdfs://h:1"),
            ("jobtracker = \"h\"", "jobtracker: `h' has no port; give it like http://host:8088"),
            ("namenode = \"http://h:1/x\"", "namenode: `http://h:1/x' has a path"),
            ("namenod = \"h:1\"", "namenod"),
        ] {
            let error = ClientConfig::parse(Path::new("hanno.toml"), text).unwrap_err().to_string();
            assert!(error.starts_with("hanno.toml: ") && error.contains(expected), "{error}");
        }
    }
}

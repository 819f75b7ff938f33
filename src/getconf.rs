//! `getconf` and `groups`: queries that scripts make before anything else.
//!
//! Keys are Hadoop's; values come from the NameNode and from this client's own configuration.

use std::ffi::OsString;

use protocol::namenode::{ClusterStatus, calls};
use transport::rpc::runtime;

use crate::absent;
use crate::connect::{self, Overrides};
use crate::dfs::Failure;
use crate::dfsadmin::{Session, unexpected};
use crate::generic::{Given, generic, generic_with, names_file_system};
use crate::output::{EXIT_OK, EXIT_USAGE, report, report_text, say};
use crate::reference::Outline;

const USAGE: &str = "\
hdfs getconf is utility for getting configuration information from the config file.

hdfs getconf
	[-namenodes]			gets list of namenodes in the cluster.
	[-includeFile]			gets the include file path that defines the datanodes that can join the cluster.
	[-excludeFile]			gets the exclude file path that defines the datanodes that need to decommissioned.
	[-nnRpcAddresses]			gets the namenode rpc addresses
	[-confKey [key]]			gets a specific key from the configuration
";
/// The usage of `groups`.
pub(crate) const GROUPS_USAGE: &str = "Usage: hdfs groups [username ...]";
/// Hadoop's keys behind two of the options.
const INCLUDE_KEY: &str = "dfs.hosts";
const EXCLUDE_KEY: &str = "dfs.hosts.exclude";
/// Milliseconds of a minute, the unit of `fs.trash.interval`.
const MINUTE_MS: u64 = 60_000;

/// The options of `getconf` for completions and the manual page.
pub(crate) fn outline() -> Outline {
    Outline::with_options(USAGE)
}

/// `hdfs getconf`.
pub(crate) fn getconf(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let asked = arguments.windows(2).find(|pair| pair[0] == "-confKey");
    // An address of a file system is checked, and honoured or refused, as for every command.
    let asked = asked.and_then(|pair| pair[1].to_str()).filter(|key| !names_file_system(key));
    let asked: Vec<&str> = asked.into_iter().collect();
    let Given { words, overrides, properties } = match generic_with(arguments, overrides, &asked) {
        Ok(found) => found,
        Err(text) => return failed(&text),
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // The files of a directory speak for the client, the NameNode for the cluster; `-D` and `-conf` are for this command.
    let given = properties.iter().rev().find(|property| !overrides.site.contains(property));
    let answer = match words[..] {
        ["-help" | "-h" | "--help"] => Ok(USAGE.trim_end().to_owned()),
        ["-confKey", key] => match given {
            Some((_, value)) => Ok(value.clone()),
            None => of_key(key, &overrides),
        },
        ["-includeFile"] => of_key(INCLUDE_KEY, &overrides),
        ["-excludeFile"] => of_key(EXCLUDE_KEY, &overrides),
        ["-namenodes"] => Session::open(&overrides).map(|session| {
            let authority = session.authority();
            authority.rsplit_once(':').map_or(authority, |(host, _)| host).to_owned()
        }),
        ["-nnRpcAddresses"] => {
            Session::open(&overrides).map(|session| session.authority().to_owned())
        }
        [] | ["-confKey"] => {
            report_text!("{USAGE}");
            return EXIT_USAGE;
        }
        [
            "-confKey" | "-namenodes" | "-nnRpcAddresses" | "-includeFile" | "-excludeFile",
            ..,
            last,
        ] => {
            report_text!("getconf: {last}: one argument too many\n{USAGE}");
            return EXIT_USAGE;
        }
        [option, ..] if absent::refuse("getconf", option, absent::GETCONF) => return EXIT_USAGE,
        [option, ..] => {
            report_text!("getconf: unknown option {option}\n{USAGE}");
            return EXIT_USAGE;
        }
    };
    match answer {
        Ok(text) => {
            say!("{text}");
            EXIT_OK
        }
        Err(failure) => failed(&failure.to_string()),
    }
}

fn failed(text: &str) -> u8 {
    report!("{text}");
    EXIT_USAGE
}

/// The value of a key: from public information if possible, otherwise from the NameNode's settings, which users may read.
fn of_key(key: &str, overrides: &Overrides) -> Result<String, Failure> {
    let session = Session::open(overrides)?;
    let status = session.client.cluster_status();
    let status = status.map_err(|error| crate::dfsadmin::refused(&error))?;
    if let Some(value) = value(key, session.authority(), &status) {
        return Ok(value);
    }
    let missing = || Failure::Text(format!("Configuration {key} is missing."));
    let setting = SETTINGS.iter().find(|setting| setting.key == key);
    let text = |error: &(dyn std::error::Error + 'static)| Failure::Text(connect::describe(error));
    let config = overrides.config().map_err(|error| text(error.as_ref()))?;
    let rpc = connect::namenode(&config).map_err(|error| text(error.as_ref()))?;
    let asked = runtime().block_on(async {
        let response = rpc.get_as(session.client.user(), "/conf?format=json").await?;
        Ok::<_, transport::RpcError>(response.json::<serde_json::Value>().await.ok())
    });
    let all = asked.map_err(|error| text(&error))?.ok_or_else(unexpected)?;
    match setting {
        Some(setting) => setting.read(&all).ok_or_else(missing),
        None => property(&all, key).map(str::to_owned).ok_or_else(missing),
    }
}

/// The NameNode's property with this name.
fn property<'a>(all: &'a serde_json::Value, name: &str) -> Option<&'a str> {
    let properties = all["properties"].as_array()?;
    properties.iter().find(|property| property["key"] == *name)?["value"].as_str()
}

/// One of Hadoop's keys, and the equivalent one of ours.
struct Setting {
    key: &'static str,
    /// In the NameNode's file.
    ours: &'static str,
    /// How many of our units are one of Hadoop's; 0 for a value that is not a number.
    units: u64,
}

impl Setting {
    /// Its value in the NameNode's settings; `None` if it is not set.
    fn read(&self, all: &serde_json::Value) -> Option<String> {
        let name = format!("hanno.namenode.{}", self.ours);
        let value = property(all, &name)?;
        match self.units {
            0 => Some(value.to_owned()),
            units => Some((value.parse::<u64>().ok()? / units).to_string()),
        }
    }
}

const fn setting(key: &'static str, ours: &'static str, units: u64) -> Setting {
    Setting { key, ours, units }
}

const SECOND_MS: u64 = 1000;

/// Keys whose values are in the NameNode's settings.
static SETTINGS: &[Setting] = &[
    setting(INCLUDE_KEY, "hosts_file", 0),
    setting(EXCLUDE_KEY, "hosts_exclude_file", 0),
    setting("dfs.heartbeat.interval", "heartbeat_ms", SECOND_MS),
    setting("dfs.name.dir", "data_dir", 0),
    setting("dfs.namenode.fs-limits.max-blocks-per-file", "file_blocks_max", 1),
    setting("dfs.namenode.fs-limits.max-directory-items", "directory_items_max", 1),
    setting("dfs.namenode.fs-limits.min-block-size", "block_size_min", 1),
    setting("dfs.namenode.maintenance.replication.min", "maintenance_replication_min", 1),
    setting("dfs.namenode.name.dir", "data_dir", 0),
    setting("dfs.namenode.resource.du.reserved", "free_space_min", 1),
    setting("dfs.namenode.safemode.extension", "safe_mode_extension_ms", 1),
    setting("dfs.namenode.safemode.min.datanodes", "safe_mode_datanodes", 1),
    setting("dfs.namenode.safemode.threshold-pct", "safe_mode_threshold", 0),
    setting("dfs.namenode.stale.datanode.interval", "stale_ms", 1),
    setting("dfs.permissions", "permissions", 0),
    setting("dfs.permissions.enabled", "permissions", 0),
    setting("dfs.permissions.superusergroup", "supergroup", 0),
    setting("fs.trash.checkpoint.interval", "trash_checkpoint_ms", MINUTE_MS),
    setting("hadoop.security.groups.cache.secs", "groups_ttl_ms", SECOND_MS),
    setting("net.topology.script.file.name", "topology_script", 0),
    setting("net.topology.table.file.name", "topology_table", 0),
];

/// The value of one of Hadoop's keys.
fn value(key: &str, authority: &str, status: &ClusterStatus) -> Option<String> {
    let text = match key {
        "fs.defaultFS" | "fs.default.name" => format!("webhdfs://{authority}"),
        "dfs.namenode.http-address" | "dfs.http.address" | "dfs.namenode.rpc-address" => {
            authority.to_owned()
        }
        "dfs.replication" => status.replication.to_string(),
        "dfs.blocksize" | "dfs.block.size" => status.block_size.to_string(),
        "dfs.bytes-per-checksum" => protocol::checksum::CHUNK_BYTES.to_string(),
        "dfs.checksum.type" => "CRC32C".to_owned(),
        "dfs.webhdfs.enabled" | "dfs.namenode.acls.enabled" | "dfs.namenode.xattrs.enabled" => {
            "true".to_owned()
        }
        // Between machines, whatever the settings.
        "dfs.encrypt.data.transfer" => "true".to_owned(),
        "dfs.ha.automatic-failover.enabled" | "hadoop.security.authorization" => "false".to_owned(),
        // Nobody needs a ticket of Kerberos.
        "hadoop.security.authentication" => "simple".to_owned(),
        "dfs.namenode.replication.min" => "1".to_owned(),
        "dfs.replication.max" => protocol::namenode::REPLICATION_MAX.to_string(),
        "dfs.namenode.fs-limits.max-xattrs-per-inode" => protocol::xattr::XATTRS_MAX.to_string(),
        "dfs.namenode.fs-limits.max-xattr-size" => protocol::xattr::XATTR_BYTES_MAX.to_string(),
        "dfs.namenode.fs-limits.max-component-length" => {
            protocol::path::ELEMENT_BYTES_MAX.to_string()
        }
        "fs.permissions.umask-mode" => "022".to_owned(),
        "fs.trash.interval" => (status.trash_interval_ms / MINUTE_MS).to_string(),
        _ => return None,
    };
    Some(text)
}

/// `hdfs groups [user …]`: according to the NameNode.
pub(crate) fn groups(arguments: &[OsString], overrides: &Overrides) -> u8 {
    if let [only] = arguments
        && ["-help", "-h", "--help"].iter().any(|help| only == help)
    {
        say!("{GROUPS_USAGE}");
        return EXIT_OK;
    }
    let printed = generic(arguments, overrides)
        .map_err(Failure::Text)
        .and_then(|(users, overrides)| print_groups(&users, &overrides));
    match printed {
        Ok(()) => EXIT_OK,
        Err(failure) => failed(&format!("groups: {failure}")),
    }
}

fn print_groups(users: &[String], overrides: &Overrides) -> Result<(), Failure> {
    let session = Session::open(overrides)?;
    let me = [session.client.user().to_owned()];
    for user in if users.is_empty() { &me[..] } else { users } {
        let groups = session.ask(calls::GroupsOf { user: user.clone() })?;
        say!("{}", format!("{user} : {}", groups.join(" ")).trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dfsadmin::report::tests::status;

    #[test]
    fn every_setting_is_one_of_the_namenode() {
        let config = namenode::Config {
            hosts_file: Some("/i".into()),
            hosts_exclude_file: Some("/x".into()),
            topology_script: Some("/s".into()),
            topology_table: Some("/t".into()),
            heartbeat_ms: 3_000,
            ..namenode::Config::default()
        };
        let all = daemon::inspect::settings("namenode", &config);
        let property =
            |set: daemon::inspect::Setting| json!({ "key": set.key, "value": set.value });
        let all = json!({ "properties": all.into_iter().map(property).collect::<Vec<_>>() });
        for setting in SETTINGS {
            assert!(setting.read(&all).is_some(), "{} {}", setting.key, setting.ours);
        }
        let read = |key| SETTINGS.iter().find(|setting| setting.key == key).unwrap().read(&all);
        assert_eq!(read("dfs.heartbeat.interval").as_deref(), Some("3"));
        assert_eq!(read(EXCLUDE_KEY).as_deref(), Some("/x"));
    }

    #[test]
    fn keys_that_scripts_ask_for() {
        let status = ClusterStatus { trash_interval_ms: 86_400_000, ..status() };
        for (key, expected) in [
            ("fs.defaultFS", Some("webhdfs://h:9870")),
            ("dfs.namenode.http-address", Some("h:9870")),
            ("dfs.replication", Some("3")),
            ("dfs.blocksize", Some("134217728")),
            ("fs.trash.interval", Some("1440")),
            ("dfs.replication.max", Some("512")),
            ("dfs.encrypt.data.transfer", Some("true")),
            ("hadoop.security.authorization", Some("false")),
            ("hadoop.security.authentication", Some("simple")),
            ("dfs.nothing", None),
        ] {
            assert_eq!(value(key, "h:9870", &status).as_deref(), expected, "{key}");
        }
    }
}

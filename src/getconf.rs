//! `getconf` and `groups`: what scripts ask before they do anything.
//!
//! Keys are Hadoop's; values come from the NameNode and from where this client finds it.

use std::ffi::OsString;

use protocol::namenode::{Call, ClusterStatus, Reply};

use crate::connect::Overrides;
use crate::dfs::Failure;
use crate::dfsadmin::{Session, unexpected};
use crate::output::{EXIT_OK, EXIT_USAGE, say, tell, tell_text};

const USAGE: &str = "\
hdfs getconf is utility for getting configuration information from the config file.

hdfs getconf
	[-namenodes]			gets list of namenodes in the cluster.
	[-nnRpcAddresses]			gets the namenode rpc addresses
	[-confKey [key]]			gets a specific key from the configuration
";
/// Milliseconds of a minute, the unit of `fs.trash.interval`.
const MINUTE_MS: u64 = 60_000;

/// `hdfs getconf`.
pub(crate) fn getconf(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let (words, overrides) = match crate::hadoop::generic(arguments, overrides) {
        Ok(found) => found,
        Err(text) => return failed(&text),
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let answer = match words[..] {
        ["-confKey", key] => Session::open(&overrides).and_then(|session| {
            let status = session.client.cluster_status();
            let status = status.map_err(|error| crate::dfsadmin::refused(&error))?;
            value(key, session.authority(), &status)
                .ok_or_else(|| Failure::Text(format!("Configuration {key} is missing.")))
        }),
        ["-namenodes"] => Session::open(&overrides).map(|session| {
            let authority = session.authority();
            authority.rsplit_once(':').map_or(authority, |(host, _)| host).to_owned()
        }),
        ["-nnRpcAddresses"] => {
            Session::open(&overrides).map(|session| session.authority().to_owned())
        }
        [] | ["-confKey"] => {
            tell_text!("{USAGE}");
            return EXIT_USAGE;
        }
        ["-confKey" | "-namenodes" | "-nnRpcAddresses", .., last] => {
            tell_text!("getconf: {last}: one argument too many\n{USAGE}");
            return EXIT_USAGE;
        }
        [option, ..] => {
            tell_text!("getconf: unknown option {option}\n{USAGE}");
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
    tell!("{text}");
    EXIT_USAGE
}

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
        "dfs.webhdfs.enabled" => "true".to_owned(),
        "fs.permissions.umask-mode" => "022".to_owned(),
        "fs.trash.interval" => (status.trash_interval_ms / MINUTE_MS).to_string(),
        _ => return None,
    };
    Some(text)
}

/// `hdfs groups [user …]`: as the NameNode sees them.
pub(crate) fn groups(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let told = crate::hadoop::generic(arguments, overrides)
        .map_err(Failure::Text)
        .and_then(|(users, overrides)| tell_groups(&users, &overrides));
    match told {
        Ok(()) => EXIT_OK,
        Err(failure) => failed(&format!("groups: {failure}")),
    }
}

fn tell_groups(users: &[String], overrides: &Overrides) -> Result<(), Failure> {
    let session = Session::open(overrides)?;
    let me = [session.client.user().to_owned()];
    for user in if users.is_empty() { &me[..] } else { users } {
        let Reply::Names(groups) = session.call(Call::GroupsOf(user.clone()))? else {
            return Err(unexpected());
        };
        say!("{}", format!("{user} : {}", groups.join(" ")).trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dfsadmin::report::tests::status;

    #[test]
    fn keys_that_scripts_ask_for() {
        let status = ClusterStatus { trash_interval_ms: 86_400_000, ..status() };
        for (key, expected) in [
            ("fs.defaultFS", Some("webhdfs://h:9870")),
            ("dfs.namenode.http-address", Some("h:9870")),
            ("dfs.replication", Some("3")),
            ("dfs.blocksize", Some("134217728")),
            ("fs.trash.interval", Some("1440")),
            ("dfs.nothing", None),
        ] {
            assert_eq!(value(key, "h:9870", &status).as_deref(), expected, "{key}");
        }
    }
}

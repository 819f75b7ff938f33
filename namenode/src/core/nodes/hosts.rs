//! The lists of DataNodes that an operator keeps: who may register, who must be drained, who is in maintenance. As HDFS's:
//! - `dfs.hosts` and `dfs.hosts.exclude`: one entry per line or word, a name or address with or without a port; `#` begins a
//!   comment;
//! - the one JSON file that `CombinedHostFileManager` reads: an object for each DataNode with `hostName`, and, where they are not usual,
//!   `port`, `adminState` and `maintenanceExpireTimeInMS`. The objects are in an array or simply follow one another.

use std::collections::{BTreeMap, BTreeSet};

use protocol::namenode::DatanodeInfo;
use serde::Deserialize;

/// The lists.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostLists {
    /// Who may register; everybody if empty.
    pub include: BTreeSet<String>,
    /// Who must be drained.
    pub exclude: BTreeSet<String>,
    /// Who is in maintenance, and until when: milliseconds since the epoch, `u64::MAX` for no end.
    pub maintenance: BTreeMap<String, u64>,
}

/// An entry of the JSON list: one DataNode.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    host_name: String,
    #[serde(default)]
    port: u16,
    #[serde(default)]
    admin_state: ListedState,
    #[serde(default, rename = "maintenanceExpireTimeInMS")]
    maintenance_until_ms: Until,
}

/// Values of `adminState`.
#[derive(Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum ListedState {
    #[default]
    Normal,
    Decommissioned,
    InMaintenance,
}

/// A time that HDFS takes as a number and as text.
#[derive(Deserialize, Default)]
#[serde(untagged)]
enum Until {
    #[default]
    Open,
    Number(u64),
    Text(String),
}

impl HostLists {
    /// The entries of a list of words.
    pub fn parse(text: &str) -> BTreeSet<String> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
    }

    /// Parses a file of either kind.
    ///
    /// # Errors
    /// What is wrong with a JSON file.
    pub fn parse_hosts(text: &str) -> Result<Self, String> {
        let entries: Vec<Entry> = match text.trim_start().chars().next() {
            Some('[') => serde_json::from_str(text).map_err(|error| error.to_string())?,
            Some('{') => {
                let entries = serde_json::Deserializer::from_str(text).into_iter();
                entries.collect::<Result<_, _>>().map_err(|error| error.to_string())?
            }
            _ => return Ok(HostLists { include: HostLists::parse(text), ..HostLists::default() }),
        };
        let mut lists = HostLists::default();
        // As in HDFS, only an entry in service means that nobody else may register.
        let is_closed = entries.iter().any(|entry| entry.admin_state == ListedState::Normal);
        for Entry { host_name, port, admin_state, maintenance_until_ms } in entries {
            let name = if port == 0 { host_name } else { format!("{host_name}:{port}") };
            if is_closed {
                lists.include.insert(name.clone());
            }
            match admin_state {
                ListedState::Normal => {}
                ListedState::Decommissioned => {
                    lists.exclude.insert(name);
                }
                ListedState::InMaintenance => {
                    let until_ms = match maintenance_until_ms {
                        Until::Open => u64::MAX,
                        Until::Number(at_ms) => at_ms,
                        Until::Text(text) => text.parse().map_err(|_| {
                            format!("maintenanceExpireTimeInMS of {name} is `{text}'")
                        })?,
                    };
                    lists.maintenance.insert(name, until_ms);
                }
            }
        }
        Ok(lists)
    }

    /// True if a DataNode may register.
    pub fn allows(&self, info: &DatanodeInfo) -> bool {
        self.include.is_empty() || names(info).iter().any(|name| self.include.contains(name))
    }

    /// True if a DataNode must be drained.
    pub fn drains(&self, info: &DatanodeInfo) -> bool {
        !self.exclude.is_empty() && names(info).iter().any(|name| self.exclude.contains(name))
    }

    /// Until when a DataNode is in maintenance, milliseconds since the epoch.
    pub fn maintenance_until_ms(&self, info: &DatanodeInfo) -> Option<u64> {
        if self.maintenance.is_empty() {
            return None;
        }
        names(info).iter().filter_map(|name| self.maintenance.get(name).copied()).max()
    }
}

/// What a DataNode may be called in a list.
fn names(info: &DatanodeInfo) -> Vec<String> {
    let address = info.transfer_address.as_str();
    let (ip, port) = address.rsplit_once(':').unwrap_or((address, ""));
    vec![info.host.clone(), format!("{}:{port}", info.host), ip.to_owned(), address.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::super::datanodes::tests::info;
    use super::*;

    #[test]
    fn entries_name_hosts_and_addresses_with_or_without_port() {
        let node = info(1, "host1", "/r");
        for (entry, matches) in [
            ("host1", true),
            ("host1:9001", true),
            ("127.0.0.1", true),
            ("127.0.0.1:9001", true),
            ("host1:9002", false),
            ("host", false),
            ("127.0.0.1:90", false),
        ] {
            let text = format!("# drained\n  other {entry} # and why\n");
            let lists = HostLists { exclude: HostLists::parse(&text), ..HostLists::default() };
            assert_eq!(lists.drains(&node), matches, "{entry}");
            assert!(lists.allows(&node), "no include list allows everybody");
            let lists = HostLists::parse_hosts(&text).unwrap();
            assert_eq!(lists.allows(&node), matches, "{entry}");
            assert!(!lists.drains(&node));
            let maintenance = [(entry.to_owned(), 7)].into();
            let lists = HostLists { maintenance, ..HostLists::default() };
            assert_eq!(lists.maintenance_until_ms(&node), matches.then_some(7), "{entry}");
        }
    }

    #[test]
    fn the_list_of_json_is_hdfss() {
        let array = r#"[
            {"hostName": "host1"},
            {"hostName": "host2", "port": 9866, "upgradeDomain": "d1"},
            {"hostName": "host3", "adminState": "DECOMMISSIONED"},
            {"hostName": "host4", "adminState": "IN_MAINTENANCE", "maintenanceExpireTimeInMS": "1000"},
            {"hostName": "host5", "port": 9, "adminState": "IN_MAINTENANCE", "maintenanceExpireTimeInMS": 2000},
            {"hostName": "host6", "adminState": "IN_MAINTENANCE"}
        ]"#;
        let lists = HostLists::parse_hosts(array).unwrap();
        let include = ["host1", "host2:9866", "host3", "host4", "host5:9", "host6"];
        assert_eq!(lists.include, include.map(str::to_owned).into());
        assert_eq!(lists.exclude, ["host3".to_owned()].into());
        let maintenance = [("host4", 1000), ("host5:9", 2000), ("host6", u64::MAX)];
        assert_eq!(lists.maintenance, maintenance.map(|(name, at)| (name.to_owned(), at)).into());
        // Objects in a row are the older form. Without one in service everybody may register.
        let row = r#"{"hostName":"a","adminState":"DECOMMISSIONED"} {"hostName":"b","adminState":"IN_MAINTENANCE"}"#;
        let lists = HostLists::parse_hosts(row).unwrap();
        assert!(lists.include.is_empty() && lists.exclude.contains("a"));
        for bad in [
            r#"[{"hostName": 1}]"#,
            r#"[{"port": 1}]"#,
            r#"[{"hostName": "a", "adminState": "GONE"}]"#,
            r#"[{"hostName": "a", "adminState": "IN_MAINTENANCE", "maintenanceExpireTimeInMS": "soon"}]"#,
            r#"[{"hostName": "a"}"#,
            r#"{"hostName": "a"} x"#,
        ] {
            assert!(HostLists::parse_hosts(bad).is_err(), "{bad}");
        }
        assert_eq!(HostLists::parse_hosts("  \n").unwrap(), HostLists::default());
    }
}

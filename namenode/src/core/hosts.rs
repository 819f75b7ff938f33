//! The lists of DataNodes that an operator keeps: who may register, and who is to be drained. As HDFS's `dfs.hosts` and
//! `dfs.hosts.exclude`: one entry per line or word, a name or address with or without a port; `#` begins a comment.

use std::collections::BTreeSet;

use protocol::namenode::DatanodeInfo;

/// Both lists.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostLists {
    /// Who may register; everybody if empty.
    pub include: BTreeSet<String>,
    /// Who is to be drained.
    pub exclude: BTreeSet<String>,
}

impl HostLists {
    /// The entries of a list.
    pub fn parse(text: &str) -> BTreeSet<String> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
    }

    /// True if a DataNode may register.
    pub fn allows(&self, info: &DatanodeInfo) -> bool {
        self.include.is_empty() || names(info).iter().any(|name| self.include.contains(name))
    }

    /// True if a DataNode is to be drained.
    pub fn drains(&self, info: &DatanodeInfo) -> bool {
        !self.exclude.is_empty() && names(info).iter().any(|name| self.exclude.contains(name))
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
            let lists = HostLists { include: HostLists::parse(&text), ..HostLists::default() };
            assert_eq!(lists.allows(&node), matches, "{entry}");
            assert!(!lists.drains(&node));
        }
    }
}

//! The second step: which DataNode gets the request, and the URL that says so.

use std::net::IpAddr;

use daemon::hosts::Host;
use protocol::DfsPath;
use protocol::namenode::{DatanodeInfo, DatanodeReport};

use crate::error::{Exception, WebError};
use crate::json::locations::{is_live, split_address};
use crate::op::Op;
use crate::path;
use crate::query::Query;

/// The identity of the caller of a second step, as a parameter of the URL.
pub type Credentials = (&'static str, String);

/// The URL at `base` (`scheme://host:port`) that does `op`.
///
/// Only parameters that the client gave are taken along: the Java client caches the URL of an OPEN and puts its own `offset`
/// in, so an invented one, or a `length`, would spoil later reads.
pub fn location(
    base: &str,
    path: &DfsPath,
    op: Op,
    credentials: &Credentials,
    namenode: &str,
    query: &Query,
) -> String {
    let path = path::encode(path);
    let mut url = format!("{base}{}{path}?op={}", path::PREFIX, op.name());
    let mut push = |name: &str, value: &str| {
        url.push('&');
        url.push_str(name);
        url.push('=');
        url.push_str(&path::encode_value(value));
    };
    push(credentials.0, &credentials.1);
    push("namenoderpcaddress", namenode);
    for name in op.forwarded() {
        if let Some(value) = query.text(name) {
            push(name, value);
        }
    }
    url
}

/// DataNodes that a client does not want: `host:port` of either service, or a bare host.
#[derive(Clone, Debug, Default)]
pub struct Excluded<'a>(Vec<&'a str>);

impl<'a> Excluded<'a> {
    /// Reads `excludedatanodes`.
    pub fn of(query: &'a Query) -> Self {
        let list = query.text("excludedatanodes").unwrap_or_default();
        Excluded(list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect())
    }

    fn text(&self) -> String {
        self.0.join(",")
    }

    /// True if an entry names `node`.
    pub fn contains(&self, node: &DatanodeInfo) -> bool {
        self.0.iter().any(|entry| {
            [&node.http_address, &node.transfer_address].into_iter().any(|address| {
                let (host, port) = split_address(address);
                let names = [host, node.host.as_str()];
                names.iter().any(|name| {
                    entry.eq_ignore_ascii_case(name) || split_address(entry) == (*name, port)
                })
            })
        })
    }
}

/// A DataNode to write a new file through: one on the client's machine, else any live one with room. `salt` spreads clients.
///
/// # Errors
/// If there is none.
pub fn choose_for_write<'a>(
    nodes: &'a [DatanodeReport],
    excluded: &Excluded<'_>,
    client: Option<IpAddr>,
    salt: usize,
) -> Result<&'a DatanodeInfo, WebError> {
    let usable: Vec<&DatanodeInfo> = nodes
        .iter()
        .filter(|node| is_live(node) && node.remaining > 0 && !excluded.contains(&node.info))
        .map(|node| &node.info)
        .collect();
    let near: Vec<&DatanodeInfo> =
        usable.iter().copied().filter(|node| is_at(node, client)).collect();
    let from = if near.is_empty() { &usable } else { &near };
    pick(from, salt).ok_or_else(|| {
        let excluded = excluded.text();
        WebError::new(
            Exception::Io,
            format!(
                "Failed to find datanode, suggest to check cluster health. excludeDatanodes={excluded}"
            ),
        )
    })
}

/// A DataNode to read through: the nearest holder that is live and not excluded. `holders` are nearest first.
///
/// # Errors
/// If there is none.
pub fn choose_for_read<'a>(
    holders: &'a [DatanodeInfo],
    nodes: &[DatanodeReport],
    excluded: &Excluded<'_>,
    block: protocol::BlockId,
) -> Result<&'a DatanodeInfo, WebError> {
    let live = |holder: &DatanodeInfo| {
        nodes.iter().find(|node| node.info.id == holder.id).is_none_or(is_live)
    };
    let wanted = || holders.iter().filter(|holder| !excluded.contains(holder));
    wanted().find(|holder| live(holder)).or_else(|| wanted().next()).ok_or_else(|| {
        let text = format!("No active nodes contain this block blk_{block}");
        WebError::new(Exception::Io, text)
    })
}

/// Any live DataNode, for what every one can do.
///
/// # Errors
/// If there is none.
pub fn choose_any<'a>(
    nodes: &'a [DatanodeReport],
    excluded: &Excluded<'_>,
    salt: usize,
) -> Result<&'a DatanodeInfo, WebError> {
    choose_for_write(nodes, excluded, None, salt)
}

/// Name of the machine at `client`, as DataNodes on it call it; empty if there is none.
pub fn host_of(nodes: &[DatanodeReport], client: Option<IpAddr>) -> String {
    let node = nodes.iter().find(|node| is_at(&node.info, client));
    node.map(|node| node.info.host.clone()).unwrap_or_default()
}

fn is_at(node: &DatanodeInfo, client: Option<IpAddr>) -> bool {
    let Some(client) = client else { return false };
    [&node.http_address, &node.transfer_address].into_iter().any(|address| {
        split_address(address)
            .0
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.to_canonical() == client.to_canonical())
    })
}

fn pick<'a>(nodes: &[&'a DatanodeInfo], salt: usize) -> Option<&'a DatanodeInfo> {
    match nodes.len() {
        0 => None,
        count => nodes.get(salt % count).copied(),
    }
}

/// The address to send a client to: the DataNode's own. If it listens on all addresses, a name takes their place: `host`, by which the
/// client reached this machine, if the DataNode is on it; else the name of the DataNode's machine.
pub fn address_for(node: &DatanodeInfo, own_host: &str, host: Option<Host<'_>>) -> String {
    let (address, port) = split_address(&node.http_address);
    let unspecified = address.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
    match host {
        Some(host) if unspecified && node.host == own_host => host.at(port).to_string(),
        _ if unspecified => format!("{}:{port}", node.host),
        _ => node.http_address.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::locations::tests::node;
    use protocol::namenode::DatanodeState;

    fn report(number: u8, state: DatanodeState) -> DatanodeReport {
        DatanodeReport {
            info: node(number, 9864),
            state,
            capacity: 10,
            remaining: 10,
            ..DatanodeReport::default()
        }
    }

    #[test]
    fn a_location_says_what_the_client_said() {
        let query = Query::parse(
            "op=CREATE&overwrite=True&Permission=644&blockSize=1048576&noredirect=true&offset=3&junk=1&user.name=x",
        )
        .unwrap();
        let path = DfsPath::parse("/a b/100%+&?#;=ü").unwrap();
        let credentials = ("user.name", "bob$".to_owned());
        assert_eq!(
            location("http://h:9864", &path, Op::Create, &credentials, "nn:9870", &query),
            "http://h:9864/webhdfs/v1/a%20b/100%25%2B%26%3F%23%3B%3D%C3%BC?op=CREATE&user.name=bob%24&namenoderpcaddress=nn%3A9870&blocksize=1048576&overwrite=True&permission=644"
        );
        let open = location(
            "http://h:9864",
            &path,
            Op::Open,
            &credentials,
            "nn:9870",
            &Query::parse("op=OPEN").unwrap(),
        );
        assert!(!open.contains("offset") && !open.contains("length"), "{open}");
    }

    #[test]
    fn excluded_nodes_are_known_by_any_of_their_names() {
        for (list, excluded) in [
            ("10.0.0.1:9864", true),
            ("10.0.0.1:9866", true),
            ("host1:9864", true),
            ("x, HOST1", true),
            ("10.0.0.1", true),
            ("10.0.0.1:1", false),
            ("10.0.0.2:9864,,", false),
            ("", false),
        ] {
            let query = Query::parse(&format!("excludedatanodes={list}")).unwrap();
            assert_eq!(Excluded::of(&query).contains(&node(1, 9864)), excluded, "{list}");
        }
    }

    #[test]
    fn writers_go_to_their_own_machine_or_anywhere_live() {
        let nodes = [
            report(1, DatanodeState::Live),
            report(2, DatanodeState::Stale),
            report(3, DatanodeState::Live),
        ];
        let at = |ip: &str| Some(ip.parse().unwrap());
        let none = Excluded::default();
        for salt in 0..4 {
            let near = choose_for_write(&nodes, &none, at("::ffff:10.0.0.3"), salt).unwrap();
            assert_eq!(near.host, "host3");
            let any = choose_for_write(&nodes, &none, at("10.0.0.2"), salt).unwrap();
            assert_ne!(any.host, "host2");
        }
        assert_eq!(host_of(&nodes, at("10.0.0.2")), "host2");
        let query = Query::parse("excludedatanodes=host1,host3").unwrap();
        let error = choose_any(&nodes, &Excluded::of(&query), 0).unwrap_err();
        assert_eq!(
            error.message,
            "Failed to find datanode, suggest to check cluster health. excludeDatanodes=host1,host3"
        );
    }

    #[test]
    fn readers_go_to_the_nearest_live_holder() {
        let nodes = [report(1, DatanodeState::Stale), report(2, DatanodeState::Live)];
        let holders = [node(1, 9864), node(2, 9864)];
        let block = protocol::BlockId(7);
        let choose = |list: &str| {
            let query = Query::parse(&format!("excludedatanodes={list}")).unwrap();
            choose_for_read(&holders, &nodes, &Excluded::of(&query), block)
                .map(|node| node.host.clone())
        };
        assert_eq!(choose("").unwrap(), "host2");
        assert_eq!(choose("host2").unwrap(), "host1");
        assert!(
            choose("host1,host2")
                .unwrap_err()
                .message
                .starts_with("No active nodes contain this block")
        );
    }

    #[test]
    fn a_node_on_all_addresses_is_named_as_the_client_named_this_machine() {
        let all = DatanodeInfo { http_address: "0.0.0.0:9864".to_owned(), ..node(1, 1) };
        let public = Host::parse("public:9870");
        assert_eq!(address_for(&all, "host1", public), "public:9864");
        assert_eq!(address_for(&all, "host2", public), "host1:9864");
        assert_eq!(address_for(&node(1, 9864), "host1", public), "10.0.0.1:9864");
        assert_eq!(address_for(&all, "host1", Host::parse("[::1]:9870")), "[::1]:9864");
    }
}

//! Commands about DataNodes: racks, addresses.

use std::collections::BTreeMap;

use protocol::address::url_of;
use protocol::auth::Role;
use protocol::namenode::{AdminState, DatanodeReport, Volume, calls};
use transport::rpc::{RpcClient, runtime};

use super::session::{Command, Session, refused};
use crate::connect;
use crate::dfs::{Failure, size};
use crate::output::{report, report_size, say};

/// See the module.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "printTopology", arguments: "", about: "Print a tree of the racks and their nodes as reported by the NameNode.", words: (0, 0), run: print_topology },
    Command { name: "refreshNodes", arguments: "", about: "Updates the namenode with the set of datanodes allowed to connect to it, and of those to decommission.", words: (0, 0), run: refresh_nodes },
    Command { name: "setBalancerBandwidth", arguments: "<bandwidth in bytes per second>", about: "Changes the network bandwidth used by each datanode during balancing. It can be given with a suffix: 10m, 1g.", words: (1, 1), run: set_balancer_bandwidth },
    Command { name: "getBalancerBandwidth", arguments: "<datanode_host:port>", about: "Get the network bandwidth that a datanode uses during balancing.", words: (1, 1), run: balancer_bandwidth },
    Command { name: "shutdownDatanode", arguments: "<datanode_host:port> [upgrade]", about: "Submit a shutdown request for the given datanode. With upgrade it is the same: clients go on with other DataNodes\nat once either way.", words: (1, 2), run: shut_down },
    Command { name: "getDatanodeInfo", arguments: "<datanode_host:port>", about: "Ask a DataNode since when it runs, seconds, and which version it is; -report tells what the NameNode knows of it.", words: (1, 1), run: datanode_info },
    Command { name: "getVolumeReport", arguments: "<datanode_host:port>", about: "Get the report of the data directories of a datanode, as its last heartbeat told them; those out of service with the reason.", words: (1, 1), run: volume_report },
];

fn print_topology(session: &Session, _: &[String]) -> Result<(), Failure> {
    session.check_superuser()?;
    let datanodes = session.client.datanodes().map_err(|error| refused(&error))?;
    let text = topology(&datanodes);
    say!("{}", if text.is_empty() { "No DataNodes" } else { text.trim_end_matches('\n') });
    say!("");
    Ok(())
}

fn refresh_nodes(session: &Session, _: &[String]) -> Result<(), Failure> {
    session.ask(calls::RefreshNodes)?;
    say!("Refresh nodes successful");
    Ok(())
}

fn set_balancer_bandwidth(session: &Session, words: &[String]) -> Result<(), Failure> {
    let bytes = size(&words[0]).ok_or_else(|| {
        report!("NumberFormatException: For input string: \"{}\"", words[0]);
        Failure::Usage(String::new())
    })?;
    session.ask(calls::SetBalancerBandwidth { bytes })?;
    say!("Balancer bandwidth is set to {bytes}");
    Ok(())
}

fn balancer_bandwidth(session: &Session, words: &[String]) -> Result<(), Failure> {
    let node = find(session, &words[0])?;
    say!("Balancer bandwidth is {} bytes per second.", node.balancer_bandwidth);
    Ok(())
}

fn shut_down(session: &Session, words: &[String]) -> Result<(), Failure> {
    if words.get(1).is_some_and(|word| !word.eq_ignore_ascii_case("upgrade")) {
        return Err(Failure::Usage(String::new()));
    }
    let node = find(session, &words[0])?;
    session.ask(calls::ShutDownDatanode { datanode: node.info.id })?;
    say!("Submitted a shutdown request to datanode {}", words[0]);
    Ok(())
}

/// Racks in order, each with its nodes.
fn topology(datanodes: &[DatanodeReport]) -> String {
    let mut racks: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in datanodes {
        let state = admin_state(node.admin);
        let line = format!("   {} ({}) {state}\n", node.info.transfer_address, node.info.host);
        racks.entry(node.info.rack.as_str()).or_default().push(line);
    }
    let mut text = String::new();
    for (rack, mut lines) in racks {
        lines.sort();
        text.push_str(&format!("Rack: {rack}\n{}\n", lines.concat()));
    }
    text
}

/// HDFS's name for the state that an administrator put a node in; the report has others.
fn admin_state(state: AdminState) -> &'static str {
    match state {
        AdminState::Normal => "In Service",
        AdminState::DecommissionInProgress => "Decommission In Progress",
        AdminState::Decommissioned => "Decommissioned",
        AdminState::EnteringMaintenance => "Entering Maintenance",
        AdminState::InMaintenance => "In Maintenance",
    }
}

/// The DataNode that an operator names by `host:port` of its transfer or HTTP service, or by its host alone.
pub(super) fn find(session: &Session, text: &str) -> Result<DatanodeReport, Failure> {
    let datanodes = session.client.datanodes().map_err(|error| refused(&error))?;
    one_of(datanodes, text).map_err(Failure::Text)
}

/// The one of these that is named so.
fn one_of(datanodes: Vec<DatanodeReport>, text: &str) -> Result<DatanodeReport, String> {
    let meant = |node: &DatanodeReport| {
        let info = &node.info;
        let port = |address: &str| address.rsplit(':').next().unwrap_or_default().to_owned();
        let by_host = |address: &str| format!("{}:{}", info.host, port(address)) == text;
        info.transfer_address == text
            || info.http_address == text
            || info.host == text
            || by_host(&info.transfer_address)
            || by_host(&info.http_address)
    };
    let mut found: Vec<_> = datanodes.into_iter().filter(meant).collect();
    match found.len() {
        0 => Err(format!("Datanode error: no DataNode {text} is known")),
        1 => Ok(found.remove(0)),
        count => {
            let addresses = found.iter().map(|node| &*node.info.transfer_address);
            let addresses = addresses.collect::<Vec<_>>().join(", ");
            Err(format!(
                "Datanode error: {text} has {count} DataNodes, {addresses}: name one by host:port"
            ))
        }
    }
}

fn volume_report(session: &Session, words: &[String]) -> Result<(), Failure> {
    session.check_superuser()?;
    let node = find(session, &words[0])?;
    let detail = session.ask(calls::Datanode { datanode: node.info.id })?;
    say!("{}", volumes_text(&detail.volumes));
    Ok(())
}

/// The directories in service as Hadoop prints them, then the others.
fn volumes_text(volumes: &[Volume]) -> String {
    // As HDFS prints it, without a blank.
    let both = |bytes: u64| format!("{bytes}({})", report_size(bytes));
    let (failed, active): (Vec<_>, Vec<_>) =
        volumes.iter().partition(|volume| volume.failure.is_some());
    let mut text = format!("Active Volumes : {}", active.len());
    for Volume { path, used, remaining, reserved, .. } in active {
        text.push_str(&format!(
            "\n\nDirectory: {path}\nStorageType: DISK\nCapacity Used: {}\nCapacity Left: {}\nCapacity Reserved: {}",
            both(*used),
            both(*remaining),
            both(*reserved)
        ));
    }
    if !failed.is_empty() {
        text.push_str(&format!("\n\nFailed Volumes : {}", failed.len()));
    }
    for Volume { path, failure, .. } in failed {
        let reason = failure.as_ref().map_or("", |failure| &*failure.reason);
        text.push_str(&format!("\n\nDirectory: {path}\nFailure: {reason}"));
    }
    text
}

fn datanode_info(session: &Session, words: &[String]) -> Result<(), Failure> {
    let node = find(session, &words[0])?;
    let asked = RpcClient::new(&url_of(&node.info.http_address), Role::Client, None)
        .and_then(|rpc| runtime().block_on(rpc.health()));
    let health = asked.map_err(|error| {
        Failure::Text(format!("Datanode unreachable. {}", connect::describe(&error)))
    })?;
    let figure = |name: &str| health.more.get(name).cloned().unwrap_or_default();
    let (uptime, version) = (figure("uptime_s"), figure("version"));
    let (Some(uptime), Some(version)) = (uptime.as_u64(), version.as_str()) else {
        return Err(Failure::Text(format!("{}: it is of another version", words[0])));
    };
    // The version of the program determines what a configuration file may contain.
    say!("Uptime: {uptime}, Software version: {version}, Config version: {version}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use protocol::namenode::{DatanodeState, VolumeFailure};

    use super::super::report::tests::node;
    use super::*;

    #[test]
    fn racks_and_their_nodes_are_sorted() {
        let at = |rack: &str, address: &str| {
            let mut node = node(DatanodeState::Live);
            node.info.rack = rack.to_owned();
            node.info.transfer_address = address.to_owned();
            node
        };
        let nodes = [at("/r2", "10.0.0.2:1"), at("/r1", "10.0.0.9:1"), at("/r2", "10.0.0.1:1")];
        assert_eq!(
            topology(&nodes),
            "Rack: /r1\n   10.0.0.9:1 (host1) In Service\n\nRack: /r2\n   10.0.0.1:1 (host1) In Service\n   10.0.0.2:1 (host1) In Service\n\n"
        );
    }

    #[test]
    fn a_host_with_several_nodes_names_none_of_them() {
        let at = |port: u16| {
            let mut node = node(DatanodeState::Live);
            node.info.host = "a".to_owned();
            node.info.transfer_address = format!("10.0.0.1:{port}");
            node.info.http_address = format!("10.0.0.1:{}", port + 1);
            node
        };
        let named = |text: &str, ports: &[u16]| {
            let found = one_of(ports.iter().copied().map(at).collect(), text);
            found.map(|node| node.info.transfer_address)
        };
        assert!(named("a", &[1, 3]).unwrap_err().contains("10.0.0.1:1, 10.0.0.1:3"));
        assert!(named("b", &[1]).is_err() && named("a:2", &[]).is_err());
        for (text, ports) in [("a", &[3][..]), ("a:3", &[1, 3]), ("10.0.0.1:4", &[1, 3])] {
            assert_eq!(named(text, ports).as_deref(), Ok("10.0.0.1:3"), "{text}");
        }
    }

    #[test]
    fn directories_out_of_service_come_last_with_the_reason() {
        let failure = VolumeFailure { reason: "cannot be written".to_owned(), age_ms: 5 };
        let volumes = [
            Volume { path: "/bad".to_owned(), failure: Some(failure), ..Volume::default() },
            Volume {
                path: "/good".to_owned(),
                used: 1536,
                remaining: 10,
                reserved: 2048,
                ..Volume::default()
            },
        ];
        let expected = "Active Volumes : 1\n\nDirectory: /good\nStorageType: DISK\nCapacity Used: 1536(1.50 KB)\n\
            Capacity Left: 10(10 B)\nCapacity Reserved: 2048(2 KB)\n\n\
            Failed Volumes : 1\n\nDirectory: /bad\nFailure: cannot be written";
        assert_eq!(volumes_text(&volumes), expected);
        assert_eq!(volumes_text(&[]), "Active Volumes : 0");
    }
}

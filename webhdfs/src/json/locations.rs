//! Where blocks are: `LocatedBlocks` for Hadoop's own client, `BlockLocations` as the public form.

use protocol::ClusterId;
use protocol::namenode::{
    AdminState, DatanodeInfo, DatanodeReport, DatanodeState, LocatedBlock, LocatedBlocks,
};
use serde_json::{Value, json};

/// An empty Hadoop token.
const EMPTY_TOKEN: &str = "AAAAAA";
/// Port that a DataNode without HTTPS or Hadoop RPC names.
const NO_PORT: u16 = 0;

/// The pool that all blocks of a cluster belong to.
pub fn block_pool(cluster: ClusterId) -> String {
    format!("BP-{cluster}")
}

/// `host` and `port` of an address.
pub fn split_address(address: &str) -> (&str, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
    (host.trim_start_matches('[').trim_end_matches(']'), port.parse().unwrap_or(0))
}

/// `LocatedBlocks`. `last` is the file's last block, which may lie outside of the range; `reports` add details of DataNodes.
pub fn located_blocks(
    located: &LocatedBlocks,
    last: Option<&LocatedBlock>,
    pool: &str,
    reports: &[DatanodeReport],
) -> Value {
    let blocks: Vec<Value> =
        located.blocks.iter().map(|block| located_block(block, pool, reports)).collect();
    json!({ "LocatedBlocks": {
        "fileLength": located.status.length,
        "isLastBlockComplete": !located.status.open,
        "isUnderConstruction": located.status.open,
        "lastLocatedBlock": last.map(|block| located_block(block, pool, reports)),
        "locatedBlocks": blocks,
    }})
}

fn located_block(block: &LocatedBlock, pool: &str, reports: &[DatanodeReport]) -> Value {
    let nodes: Vec<Value> =
        block.replicas.iter().map(|node| datanode_info(node, reports)).collect();
    json!({
        "block": {
            "blockId": block.id.0,
            "blockPoolId": pool,
            "generationStamp": block.stamp.0,
            "numBytes": block.length,
        },
        "blockToken": { "urlString": EMPTY_TOKEN },
        "cachedLocations": [],
        "isCorrupt": block.corrupt,
        "locations": nodes,
        "startOffset": block.offset,
        "storageTypes": vec!["DISK"; block.replicas.len()],
    })
}

fn datanode_info(info: &DatanodeInfo, reports: &[DatanodeReport]) -> Value {
    let (address, transfer_port) = split_address(&info.transfer_address);
    let (_, http_port) = split_address(&info.http_address);
    let report = reports.iter().find(|report| report.info.id == info.id);
    let admin = match report.map(|report| report.admin).unwrap_or_default() {
        AdminState::Normal => "NORMAL",
        AdminState::DecommissionInProgress => "DECOMMISSION_INPROGRESS",
        AdminState::Decommissioned => "DECOMMISSIONED",
        AdminState::EnteringMaintenance => "ENTERING_MAINTENANCE",
        AdminState::InMaintenance => "IN_MAINTENANCE",
    };
    let of = |field: fn(&DatanodeReport) -> u64| report.map_or(0, field);
    json!({
        "adminState": admin,
        "blockPoolUsed": of(|report| report.used),
        "cacheCapacity": 0,
        "cacheUsed": 0,
        "capacity": of(|report| report.capacity),
        "dfsUsed": of(|report| report.used),
        "hostName": info.host,
        "infoPort": http_port,
        "infoSecurePort": NO_PORT,
        "ipAddr": address,
        "ipcPort": NO_PORT,
        "lastBlockReportMonotonic": 0,
        "lastBlockReportTime": 0,
        "lastUpdate": 0,
        "lastUpdateMonotonic": 0,
        "name": format!("{address}:{transfer_port}"),
        "networkLocation": info.rack,
        "remaining": of(|report| report.remaining),
        "storageID": info.id.to_string(),
        "xceiverCount": of(|report| u64::from(report.transfer_count)),
        "xferPort": transfer_port,
    })
}

/// `BlockLocations`, of live DataNodes.
pub fn block_locations(located: &LocatedBlocks) -> Value {
    let blocks: Vec<Value> = located.blocks.iter().map(block_location).collect();
    json!({ "BlockLocations": { "BlockLocation": blocks } })
}

fn block_location(block: &LocatedBlock) -> Value {
    let name = |info: &DatanodeInfo| {
        let (address, port) = split_address(&info.transfer_address);
        format!("{address}:{port}")
    };
    let names: Vec<String> = block.replicas.iter().map(name).collect();
    let hosts: Vec<&str> = block.replicas.iter().map(|info| info.host.as_str()).collect();
    let topology: Vec<String> =
        block.replicas.iter().map(|info| format!("{}/{}", info.rack, name(info))).collect();
    json!({
        "cachedHosts": [],
        "corrupt": block.corrupt,
        "hosts": hosts,
        "length": block.length,
        "names": names,
        "offset": block.offset,
        "storageTypes": vec!["DISK"; block.replicas.len()],
        "topologyPaths": topology,
    })
}

/// True for a DataNode to which clients can be sent.
pub fn is_live(report: &DatanodeReport) -> bool {
    report.state == DatanodeState::Live && report.admin == AdminState::Normal
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use protocol::auth::Key;
    use protocol::token::{AccessMode, TokenKeys};
    use protocol::{BlockId, DatanodeId, GenerationStamp};

    pub(crate) fn node(number: u8, http_port: u16) -> DatanodeInfo {
        DatanodeInfo {
            id: DatanodeId([number; 16]),
            host: format!("host{number}"),
            transfer_address: format!("10.0.0.{number}:9866"),
            http_address: format!("10.0.0.{number}:{http_port}"),
            rack: "/default-rack".to_owned(),
            boot_id: String::new(),
            local_socket: String::new(),
        }
    }

    pub(crate) fn block(replicas: Vec<DatanodeInfo>) -> LocatedBlock {
        let (id, stamp) = (BlockId(1_073_741_825), GenerationStamp(1001));
        let keys = TokenKeys::new(&Key::new([1; 32]));
        LocatedBlock {
            id,
            stamp,
            offset: 0,
            length: 15,
            replicas,
            damaged: Vec::new(),
            durable_min: 0,
            corrupt: false,
            open: false,
            token: keys.issue(id, stamp, AccessMode::Read, 1),
        }
    }

    #[test]
    fn blocks_have_what_the_java_client_needs() {
        let status = crate::json::status::tests::file();
        let located = LocatedBlocks { status, blocks: vec![block(vec![node(1, 9864)])] };
        let value = located_blocks(&located, located.blocks.last(), "BP-1", &[]);
        let blocks = &value["LocatedBlocks"];
        assert_eq!(blocks["locatedBlocks"][0], blocks["lastLocatedBlock"]);
        assert_eq!(
            blocks["lastLocatedBlock"]["block"].to_string(),
            r#"{"blockId":1073741825,"blockPoolId":"BP-1","generationStamp":1001,"numBytes":15}"#
        );
        let location = &blocks["lastLocatedBlock"]["locations"][0];
        for (field, expected) in [
            ("ipAddr", json!("10.0.0.1")),
            ("hostName", json!("host1")),
            ("storageID", json!(DatanodeId([1; 16]).to_string())),
            ("xferPort", json!(9866)),
            ("infoPort", json!(9864)),
            ("ipcPort", json!(0)),
            ("name", json!("10.0.0.1:9866")),
        ] {
            assert_eq!(location[field], expected, "{field}");
        }
        assert_eq!(
            block_locations(&located).to_string(),
            r#"{"BlockLocations":{"BlockLocation":[{"cachedHosts":[],"corrupt":false,"hosts":["host1"],"length":15,"names":["10.0.0.1:9866"],"offset":0,"storageTypes":["DISK"],"topologyPaths":["/default-rack/10.0.0.1:9866"]}]}}"#
        );
    }

    #[test]
    fn addresses_are_split() {
        for (address, parts) in
            [("a:1", ("a", 1)), ("[::1]:9864", ("::1", 9864)), ("h", ("h", 0)), ("h:x", ("h", 0))]
        {
            assert_eq!(split_address(address), parts);
        }
    }
}

//! Where blocks are: `LocatedBlocks` for Hadoop's own client, `BlockLocations` as the public form.

use std::collections::HashMap;
use std::sync::Arc;

use protocol::namenode::{
    AdminState, DatanodeInfo, DatanodeReport, DatanodeState, FileStatus, LocatedBlock,
};
use protocol::{ClusterId, DatanodeId};
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

/// The DataNodes of a cluster, of which blocks tell details.
pub struct Nodes {
    reports: Arc<Vec<DatanodeReport>>,
    by_id: HashMap<DatanodeId, usize>,
}

impl Nodes {
    /// Of these reports.
    pub fn new(reports: Arc<Vec<DatanodeReport>>) -> Self {
        let ids = reports.iter().map(|report| report.info.id);
        let by_id = ids.zip(0..).collect();
        Nodes { reports, by_id }
    }

    fn report(&self, id: DatanodeId) -> Option<&DatanodeReport> {
        self.reports.get(*self.by_id.get(&id)?)
    }
}

/// How the blocks of a file are told: head, blocks, tail. A file may have many, so nobody needs all of them at once.
pub enum Shape {
    /// `LocatedBlocks`.
    Located {
        /// The pool of the blocks.
        pool: String,
        /// Their DataNodes.
        nodes: Nodes,
    },
    /// `BlockLocations`, of live DataNodes.
    Public,
}

impl Shape {
    /// What stands before the blocks. `last` is the file's last block, which may lie outside of the range.
    pub fn head(&self, status: &FileStatus, last: Option<&LocatedBlock>) -> Vec<u8> {
        let head = match self {
            Shape::Public => r#"{"BlockLocations":{"BlockLocation":["#.to_owned(),
            Shape::Located { .. } => {
                let fields = json!({
                    "fileLength": status.length,
                    "isLastBlockComplete": !status.open,
                    "isUnderConstruction": status.open,
                    "lastLocatedBlock": last.map(|block| self.block(block)),
                });
                let fields = fields.to_string();
                let open = fields.strip_suffix('}').unwrap_or(&fields);
                format!(r#"{{"LocatedBlocks":{open},"locatedBlocks":["#)
            }
        };
        head.into_bytes()
    }

    /// One of the blocks.
    pub fn block(&self, block: &LocatedBlock) -> Value {
        match self {
            Shape::Public => block_location(block),
            Shape::Located { pool, nodes } => located_block(block, pool, nodes),
        }
    }

    /// What stands behind the blocks.
    pub const TAIL: &[u8] = b"]}}";
}

fn located_block(block: &LocatedBlock, pool: &str, nodes: &Nodes) -> Value {
    let locations: Vec<Value> =
        block.replicas.iter().map(|node| datanode_info(node, nodes.report(node.id))).collect();
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
        "locations": locations,
        "startOffset": block.offset,
        "storageTypes": vec!["DISK"; block.replicas.len()],
    })
}

fn datanode_info(info: &DatanodeInfo, report: Option<&DatanodeReport>) -> Value {
    let (address, transfer_port) = split_address(&info.transfer_address);
    let (_, http_port) = split_address(&info.http_address);
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
    use protocol::{BlockId, GenerationStamp};

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
            has_unseen_members: false,
            token: keys.issue(id, stamp, AccessMode::Read, 1),
        }
    }

    #[test]
    fn blocks_have_what_the_java_client_needs() {
        let status = crate::json::status::tests::file();
        let block = block(vec![node(1, 9864)]);
        let whole = |shape: &Shape| {
            let head = shape.head(&status, Some(&block));
            let one = shape.block(&block).to_string();
            String::from_utf8([&head, one.as_bytes(), Shape::TAIL].concat()).unwrap()
        };
        let nodes = Nodes::new(Arc::default());
        let text = whole(&Shape::Located { pool: "BP-1".to_owned(), nodes });
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["LocatedBlocks"]["fileLength"], json!(status.length));
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
            whole(&Shape::Public),
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

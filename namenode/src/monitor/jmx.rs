//! `/jmx`: the beans that dashboards made for Hadoop's NameNode ask for, with Hadoop's names and meanings. What has no counterpart
//! here (garbage collection, erasure coding) is absent or 0, as in a cluster of Hadoop that does not use it.

use protocol::namenode::{AdminState, DatanodeReport, DatanodeState};
use serde_json::{Map, Value, json};

use super::Picture;

/// `{"beans": […]}` with the beans whose name is `wanted`; a star at its end stands for any rest.
pub(super) fn beans(picture: &Picture, wanted: Option<&str>) -> Value {
    let all = [
        ("Hadoop:service=NameNode,name=NameNodeInfo", info(picture)),
        ("Hadoop:service=NameNode,name=NameNodeStatus", status(picture)),
        ("Hadoop:service=NameNode,name=FSNamesystem", namesystem(picture)),
        ("Hadoop:service=NameNode,name=FSNamesystemState", namesystem_state(picture)),
        ("Hadoop:service=NameNode,name=ReplicatedBlocksState", replicated_blocks(picture)),
        ("Hadoop:service=NameNode,name=ECBlockGroupsState", erasure_coded_blocks()),
        ("Hadoop:service=NameNode,name=StartupProgress", startup(picture)),
        ("java.lang:type=Memory", memory()),
        ("java.lang:type=Runtime", runtime(picture)),
    ];
    let is_wanted = |name: &str| match wanted {
        None | Some("") => true,
        Some(pattern) => match pattern.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => name == pattern,
        },
    };
    let named = all.into_iter().filter(|(name, _)| is_wanted(name)).map(|(name, bean)| {
        let mut named = Map::new();
        named.insert("name".to_owned(), json!(name));
        if let Value::Object(fields) = bean {
            named.extend(fields);
        }
        Value::Object(named)
    });
    json!({ "beans": named.collect::<Vec<_>>() })
}

fn per_cent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Hadoop's NameNodeInfo has its tables of nodes as JSON in a string.
fn info(picture: &Picture) -> Value {
    let (capacity, used) = (picture.sum(|node| node.capacity), picture.sum(|node| node.used));
    let remaining = picture.sum(|node| node.remaining);
    let table = |of: &dyn Fn(&DatanodeReport) -> bool, row: fn(&DatanodeReport) -> Value| {
        let rows = picture.nodes.iter().filter(|node| of(node));
        let rows = rows.map(|node| (node.info.transfer_address.clone(), row(node)));
        Value::Object(rows.collect()).to_string()
    };
    let leaving = |state| table(&|node| node.admin == state, leaving_row);
    json!({
        "Version": env!("CARGO_PKG_VERSION"),
        "SoftwareVersion": env!("CARGO_PKG_VERSION"),
        "ClusterId": picture.status.cluster.to_string(),
        "Total": capacity,
        "Used": used,
        "Free": remaining,
        "NonDfsUsedSpace": picture.sum(|node| node.non_dfs_used),
        "PercentUsed": per_cent(used, capacity),
        "PercentRemaining": per_cent(remaining, capacity),
        "Safemode": picture.status.safe_mode.clone().unwrap_or_default(),
        "UpgradeFinalized": true,
        "Threads": sys::process::own_usage().map_or(0, |usage| usage.threads),
        "TotalFiles": picture.status.inode_count,
        "TotalBlocks": picture.status.block_count,
        "NumberOfMissingBlocks": picture.status.missing_count,
        "NumberOfMissingBlocksWithReplicationFactorOne": picture.status.missing_single_count,
        "LiveNodes": table(&|node| node.state != DatanodeState::Dead, row),
        "DeadNodes": table(&|node| node.state == DatanodeState::Dead, row),
        "DecomNodes": leaving(AdminState::DecommissionInProgress),
        "EnteringMaintenanceNodes": leaving(AdminState::EnteringMaintenance),
    })
}

fn row(node: &DatanodeReport) -> Value {
    json!({
        "infoAddr": node.info.http_address,
        "xferaddr": node.info.transfer_address,
        "location": node.info.rack,
        "lastContact": node.last_contact_ms / 1000,
        "usedSpace": node.used,
        "nonDfsUsedSpace": node.non_dfs_used,
        "capacity": node.capacity,
        "remaining": node.remaining,
        "numBlocks": node.block_count,
        "adminState": node.admin.title(),
        "decommissioned": node.admin == AdminState::Decommissioned,
        "volfails": node.failed_volumes.len(),
    })
}

/// A DataNode on its way out of service, with what holds it up.
fn leaving_row(node: &DatanodeReport) -> Value {
    json!({
        "xferaddr": node.info.transfer_address,
        "location": node.info.rack,
        "uuid": node.info.id.to_string(),
        "underReplicatedBlocks": node.drain.low_redundancy_count,
        "underReplicateInOpenFiles": node.drain.open_file_count,
        "decommissionOnlyReplicas": node.drain.only_here_count,
        "maintenanceOnlyReplicas": node.drain.only_here_count,
    })
}

fn status(picture: &Picture) -> Value {
    json!({
        "NNRole": "NameNode",
        "HostAndPort": picture.address,
        "SecurityEnabled": false,
        "State": "active",
        "LastHATransitionTime": 0,
    })
}

fn namesystem(picture: &Picture) -> Value {
    let status = &picture.status;
    json!({
        "CapacityTotal": picture.sum(|node| node.capacity),
        "CapacityUsed": picture.sum(|node| node.used),
        "CapacityRemaining": picture.sum(|node| node.remaining),
        "CapacityUsedNonDFS": picture.sum(|node| node.non_dfs_used),
        "TotalLoad": picture.sum(|node| u64::from(node.transfer_count)),
        "BlocksTotal": status.block_count,
        "FilesTotal": status.inode_count,
        "PendingReplicationBlocks": status.pending_replication_count,
        "PendingReconstructionBlocks": status.pending_replication_count,
        "UnderReplicatedBlocks": status.low_redundancy_count,
        "LowRedundancyBlocks": status.low_redundancy_count,
        "CorruptBlocks": status.corrupt_count,
        "PendingDeletionBlocks": status.pending_deletion_count,
        "MissingBlocks": status.missing_count,
        "MissingReplOneBlocks": status.missing_single_count,
        "HighestPriorityLowRedundancyReplicatedBlocks": status.urgent_count,
        "StaleDataNodes": picture.count(|node| node.state == DatanodeState::Stale),
        "LastWrittenTransactionId": status.txid,
        "tag.HAState": "active",
    })
}

fn namesystem_state(picture: &Picture) -> Value {
    let status = &picture.status;
    let admin = |state, live: bool| {
        picture.count(|node| node.admin == state && (node.state != DatanodeState::Dead) == live)
    };
    json!({
        "CapacityTotal": picture.sum(|node| node.capacity),
        "CapacityUsed": picture.sum(|node| node.used),
        "CapacityRemaining": picture.sum(|node| node.remaining),
        "TotalLoad": picture.sum(|node| u64::from(node.transfer_count)),
        "BlocksTotal": status.block_count,
        "FilesTotal": status.inode_count,
        "PendingReplicationBlocks": status.pending_replication_count,
        "UnderReplicatedBlocks": status.low_redundancy_count,
        "PendingDeletionBlocks": status.pending_deletion_count,
        "FSState": if status.safe_mode.is_some() { "safeMode" } else { "Operational" },
        "NumLiveDataNodes": picture.count(|node| node.state != DatanodeState::Dead),
        "NumDeadDataNodes": picture.count(|node| node.state == DatanodeState::Dead),
        "NumStaleDataNodes": picture.count(|node| node.state == DatanodeState::Stale),
        "NumDecomLiveDataNodes": admin(AdminState::Decommissioned, true),
        "NumDecomDeadDataNodes": admin(AdminState::Decommissioned, false),
        "NumDecommissioningDataNodes":
            picture.count(|node| node.admin == AdminState::DecommissionInProgress),
        "NumInMaintenanceLiveDataNodes": admin(AdminState::InMaintenance, true),
        "NumInMaintenanceDeadDataNodes": admin(AdminState::InMaintenance, false),
        "NumEnteringMaintenanceDataNodes":
            picture.count(|node| node.admin == AdminState::EnteringMaintenance),
        "VolumeFailuresTotal": picture.total(|node| node.failed_volumes.len() as u64),
    })
}

fn replicated_blocks(picture: &Picture) -> Value {
    let status = &picture.status;
    json!({
        "LowRedundancyReplicatedBlocks": status.low_redundancy_count,
        "CorruptReplicatedBlocks": status.corrupt_count,
        "MissingReplicatedBlocks": status.missing_count,
        "MissingReplicationOneBlocks": status.missing_single_count,
        "HighestPriorityLowRedundancyReplicatedBlocks": status.urgent_count,
        "PendingDeletionReplicatedBlocks": status.pending_deletion_count,
        "TotalReplicatedBlocks": status.block_count,
    })
}

fn erasure_coded_blocks() -> Value {
    json!({
        "LowRedundancyECBlockGroups": 0,
        "CorruptECBlockGroups": 0,
        "MissingECBlockGroups": 0,
        "PendingDeletionECBlocks": 0,
        "TotalECBlockGroups": 0,
    })
}

fn startup(picture: &Picture) -> Value {
    let complete = if picture.status.safe_mode.is_none() { 1.0 } else { 0.0 };
    json!({ "PercentComplete": complete, "SafeModePercentComplete": complete })
}

/// The process has no heap of a fixed size: what is resident stands for it.
fn memory() -> Value {
    let usage = sys::process::own_usage().ok();
    let (used, most) =
        usage.map_or((0, 0), |usage| (usage.resident_bytes, usage.resident_bytes_max));
    json!({
        "HeapMemoryUsage": { "init": 0, "used": used, "committed": used, "max": most },
        "NonHeapMemoryUsage": { "init": 0, "used": 0, "committed": 0, "max": -1 },
    })
}

fn runtime(picture: &Picture) -> Value {
    json!({ "Uptime": u64::try_from(picture.up.as_millis()).unwrap_or(u64::MAX) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::tests::picture;

    #[test]
    fn beans_are_chosen_by_name() {
        let picture = picture();
        let names = |wanted| -> Vec<String> {
            let all = beans(&picture, wanted);
            let beans = all["beans"].as_array().unwrap();
            beans.iter().map(|bean| bean["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(None).len(), 9);
        let state = "Hadoop:service=NameNode,name=FSNamesystemState";
        assert_eq!(names(Some(state)), [state]);
        assert_eq!(names(Some("java.lang:*")), ["java.lang:type=Memory", "java.lang:type=Runtime"]);
        assert!(names(Some("Hadoop:service=DataNode,name=None")).is_empty());
    }

    #[test]
    fn figures_are_hadoops() {
        let picture = picture();
        let bean = |name: &str| beans(&picture, Some(name))["beans"][0].clone();
        let state = bean("Hadoop:service=NameNode,name=FSNamesystemState");
        assert_eq!(state["NumLiveDataNodes"], 1);
        assert_eq!(state["NumDeadDataNodes"], 1);
        assert_eq!(state["FSState"], "Operational");
        assert_eq!(state["UnderReplicatedBlocks"], 2);
        let info = bean("Hadoop:service=NameNode,name=NameNodeInfo");
        assert_eq!(info["PercentUsed"], 30.0);
        let live: Value = serde_json::from_str(info["LiveNodes"].as_str().unwrap()).unwrap();
        assert_eq!(live["a:9866"]["lastContact"], 1);
        assert_eq!(live["a:9866"]["adminState"], "In Service");
        assert!(live.get("b:9866").is_none());
    }
}

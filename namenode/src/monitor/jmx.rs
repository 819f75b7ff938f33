//! `/jmx`: the beans that dashboards made for Hadoop's NameNode ask for, with Hadoop's names and meanings. What has no counterpart
//! here (garbage collection, erasure coding) is absent or 0, as in a cluster of Hadoop that does not use it.

use std::time::Duration;

use protocol::namenode::{AdminState, DatanodeReport, DatanodeState, Room};
use serde_json::{Value, json};

use super::picture::Picture;
use crate::startup::{Progress, Work};

/// All beans, by name.
pub(super) fn beans(picture: &Picture) -> impl Iterator<Item = (String, Value)> {
    let own = [
        ("NameNodeInfo", info(picture)),
        ("NameNodeStatus", status(picture)),
        ("FSNamesystem", namesystem(picture)),
        ("FSNamesystemState", namesystem_state(picture)),
        ("ReplicatedBlocksState", replicated_blocks(picture)),
        ("ECBlockGroupsState", erasure_coded_blocks()),
        ("BlockStats", block_stats(picture)),
        ("SnapshotInfo", snapshots()),
        ("StartupProgress", startup(picture)),
    ];
    let named = own.map(|(name, bean)| (format!("Hadoop:service=NameNode,name={name}"), bean));
    named.into_iter().chain(daemon::beans::process(picture.up))
}

fn per_cent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Hadoop's NameNodeInfo has its tables of nodes as JSON in a string.
fn info(picture: &Picture) -> Value {
    let Room { capacity, used, non_dfs_used, remaining } = picture.room;
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
        "NonDfsUsedSpace": non_dfs_used,
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
        "CapacityTotal": picture.room.capacity,
        "CapacityUsed": picture.room.used,
        "CapacityRemaining": picture.room.remaining,
        "CapacityUsedNonDFS": picture.room.non_dfs_used,
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
        "CapacityTotal": picture.room.capacity,
        "CapacityUsed": picture.room.used,
        "CapacityRemaining": picture.room.remaining,
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

/// How much of a start that is not over yet is done: three of four phases.
const STARTED_SHARE: f64 = 0.75;

fn startup(picture: &Picture) -> Value {
    let Progress { load, replay, wait, is_over } = picture.startup;
    json!({
        "ElapsedTime": ms(picture.startup.total()),
        "PercentComplete": if is_over { 1.0 } else { STARTED_SHARE },
        "LoadingFsImageCount": load.count,
        "LoadingFsImageTotal": load.count,
        "LoadingFsImageElapsedTime": ms(load.time),
        "LoadingFsImagePercentComplete": 1.0,
        "LoadingEditsCount": replay.count,
        "LoadingEditsTotal": replay.count,
        "LoadingEditsElapsedTime": ms(replay.time),
        "LoadingEditsPercentComplete": 1.0,
        "SavingCheckpointCount": 0,
        "SavingCheckpointTotal": 0,
        "SavingCheckpointElapsedTime": 0,
        "SavingCheckpointPercentComplete": 1.0,
        "SafeModeElapsedTime": ms(wait),
        "SafeModePercentComplete": if is_over { 1.0 } else { 0.0 },
    })
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Per kind of storage; there is one kind.
fn block_stats(picture: &Picture) -> Value {
    let in_service = picture.count(|node| node.state != DatanodeState::Dead);
    json!({ "StorageTypeStats": [{ "key": "DISK", "value": {
        "capacityTotal": picture.room.capacity,
        "capacityUsed": picture.room.used,
        "capacityRemaining": picture.room.remaining,
        "capacityNonDfsUsed": picture.room.non_dfs_used,
        "blockPoolUsed": picture.room.used,
        "nodesInService": in_service,
    }}]})
}

/// Directories are named to their readers only, in GETSNAPSHOTTABLEDIRECTORYLIST.
fn snapshots() -> Value {
    json!({ "SnapshottableDirectories": [], "Snapshots": [] })
}

/// `/startupProgress` in Hadoop's form. A NameNode that answers has loaded what it had; what is left is safe mode. Checkpoints are
/// written while it runs, so their phase takes no time.
pub(super) fn startup_progress(picture: &Picture) -> Value {
    let Progress { load, replay, wait, is_over } = picture.startup;
    let phase = |(name, desc): (&str, &str), time: Duration, is_over: bool, steps: Value| {
        let (status, complete) = if is_over { ("COMPLETE", 1.0) } else { ("RUNNING", 0.0) };
        json!({
            "name": name,
            "desc": desc,
            "status": status,
            "percentComplete": complete,
            "elapsedTime": ms(time),
            "steps": steps,
        })
    };
    let steps = |name: &str, desc: &str, work: Work| {
        json!([{
            "name": name,
            "desc": desc,
            "count": work.count,
            "total": work.count,
            "percentComplete": 1.0,
            "elapsedTime": ms(work.time),
        }])
    };
    json!({
        "elapsedTime": ms(picture.startup.total()),
        "percentComplete": if is_over { 1.0 } else { STARTED_SHARE },
        "phases": [
            phase(("LoadingFsImage", "Loading fsimage"), load.time, true, steps("Inodes", "inodes", load)),
            phase(("LoadingEdits", "Loading edits"), replay.time, true, steps("Edits", "edits", replay)),
            phase(("SavingCheckpoint", "Saving checkpoint"), Duration::ZERO, true, json!([])),
            phase(("SafeMode", "Safe mode"), wait, is_over, json!([])),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::picture::tests::picture;

    #[test]
    fn beans_are_chosen_by_name() {
        let picture = picture();
        let names = |wanted| -> Vec<String> {
            let all = daemon::beans::chosen(beans(&picture), wanted);
            let beans = all["beans"].as_array().unwrap();
            beans.iter().map(|bean| bean["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names("").len(), 11);
        let state = "Hadoop:service=NameNode,name=FSNamesystemState";
        assert_eq!(names(state), [state]);
        assert_eq!(names("java.lang:*"), ["java.lang:type=Memory", "java.lang:type=Runtime"]);
        assert!(names("Hadoop:service=DataNode,name=None").is_empty());
    }

    #[test]
    fn figures_are_hadoops() {
        let picture = picture();
        let bean = |name: &str| daemon::beans::chosen(beans(&picture), name)["beans"][0].clone();
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
        let disks = bean("Hadoop:service=NameNode,name=BlockStats");
        assert_eq!(
            disks["StorageTypeStats"][0]["value"]["capacityTotal"], 1000,
            "of those that live"
        );
        let startup = startup_progress(&picture);
        assert_eq!(startup["percentComplete"], 1.0);
        assert_eq!(startup["phases"][3]["status"], "COMPLETE");
        // The start has ended long ago: its times do not grow.
        assert_eq!(startup["elapsedTime"], 4320);
        let times: Vec<_> = startup["phases"].as_array().unwrap().iter().collect();
        let times: Vec<_> = times.iter().map(|phase| phase["elapsedTime"].as_u64()).collect();
        assert_eq!(times, [Some(300), Some(20), Some(0), Some(4000)]);
        assert_eq!(startup["phases"][1]["steps"][0]["count"], 3);
        let bean = bean("Hadoop:service=NameNode,name=StartupProgress");
        assert_eq!((&bean["ElapsedTime"], &bean["LoadingEditsCount"]), (&json!(4320), &json!(3)));
        let waiting = Progress { is_over: false, ..picture.startup };
        let startup = startup_progress(&Picture { startup: waiting, ..picture });
        assert_eq!(startup["percentComplete"], 0.75);
        assert_eq!(startup["phases"][3]["status"], "RUNNING");
    }
}

//! The figures of `/metrics`, all with the prefix `namenode_`.

use std::time::Duration;

use daemon::metrics::{LogFigures, counters, gauges};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use protocol::namenode::{AdminState, DatanodeState};

use super::picture::Picture;

/// Everything as a registry.
pub(super) fn registry(picture: &Picture) -> Registry {
    let mut registry = daemon::metrics::registry();
    let namenode = registry.sub_registry_with_prefix("namenode");
    blocks(namenode, picture);
    datanodes(namenode, picture);
    journal(namenode, picture);
    let load = &picture.load;
    let seconds = |registry: &mut Registry, name, help, classes| {
        registry.register_with_unit(name, help, Unit::Seconds, classes);
    };
    seconds(namenode, "reads", "Calls that read, by the time to their answer", load.reads.clone());
    seconds(
        namenode,
        "changes",
        "Calls that change something, by the time until they were durable",
        load.changes.clone(),
    );
    namenode.register("refused_calls", "Calls that were refused", load.refused.clone());
    registry
}

fn blocks(registry: &mut Registry, picture: &Picture) {
    let status = &picture.status;
    gauges(
        registry,
        &[
            ("safe_mode", "1 in safe mode", u64::from(status.safe_mode.is_some())),
            ("inodes", "Files and directories", status.inode_count),
            ("blocks", "Blocks", status.block_count),
            ("low_redundancy_blocks", "Blocks with too few replicas", status.low_redundancy_count),
            (
                "urgent_blocks",
                "Blocks that are copied first: one replica is left, or none in service",
                status.urgent_count,
            ),
            ("corrupt_blocks", "Blocks with a corrupt replica", status.corrupt_count),
            ("missing_blocks", "Blocks without any good replica", status.missing_count),
            (
                "pending_replication_blocks",
                "Replicas being copied",
                status.pending_replication_count,
            ),
            ("pending_deletion_blocks", "Replicas to delete", status.pending_deletion_count),
        ],
    );
}

fn datanodes(registry: &mut Registry, picture: &Picture) {
    let of = |state| picture.count(|node| node.state == state);
    gauges(
        registry,
        &[
            ("datanodes_live", "DataNodes with heartbeats", of(DatanodeState::Live)),
            ("datanodes_stale", "DataNodes whose heartbeat is late", of(DatanodeState::Stale)),
            ("datanodes_dead", "DataNodes that are silent", of(DatanodeState::Dead)),
            (
                "datanodes_decommissioning",
                "DataNodes that are being drained",
                picture.count(|node| node.admin == AdminState::DecommissionInProgress),
            ),
            (
                "datanodes_entering_maintenance",
                "DataNodes that go into maintenance",
                picture.count(|node| node.admin == AdminState::EnteringMaintenance),
            ),
            (
                "datanodes_in_maintenance",
                "DataNodes that may be switched off for a while",
                picture.count(|node| node.admin == AdminState::InMaintenance),
            ),
            (
                "datanodes_with_failed_volumes",
                "DataNodes with data directories out of service",
                picture.count(|node| !node.failed_volumes.is_empty()),
            ),
            (
                "capacity_bytes",
                "Bytes on the volumes of DataNodes in service",
                picture.room.capacity,
            ),
            ("used_bytes", "Bytes that replicas use", picture.room.used),
            ("remaining_bytes", "Bytes free for replicas", picture.room.remaining),
        ],
    );
    registry.register_with_unit(
        "heartbeat_age_max",
        "Time since the last heartbeat of the DataNode that is silent longest and not dead",
        Unit::Seconds,
        ConstGauge::new(oldest_heartbeat(picture).as_secs_f64()),
    );
}

fn oldest_heartbeat(picture: &Picture) -> Duration {
    let alive = picture.nodes.iter().filter(|node| node.state != DatanodeState::Dead);
    Duration::from_millis(alive.map(|node| node.last_contact_ms).max().unwrap_or(0))
}

fn journal(registry: &mut Registry, picture: &Picture) {
    let stats = &picture.journal;
    counters(
        registry,
        &[
            ("journal_records", "Transactions written", stats.records),
            ("journal_bytes", "Bytes written to the log", stats.bytes),
            ("journal_checkpoints", "Checkpoints", stats.checkpoints),
            ("journal_images", "Images", stats.images),
        ],
    );
    let journal::Stats { commits, commit_time, image_failures, left_out, .. } = *stats;
    LogFigures { commits, commit_time, image_failures, left_out }.register(registry);
    gauges(
        registry,
        &[
            ("journal_queue_bytes", "Bytes that wait for a sync", stats.queue_bytes),
            ("last_txid", "Last durable transaction", picture.status.txid),
        ],
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::picture::tests::picture;

    #[test]
    fn golden_lines() {
        let text = daemon::metrics::text(&registry(&picture()));
        for line in [
            "# TYPE namenode_blocks gauge",
            "namenode_blocks 5",
            "namenode_low_redundancy_blocks 2",
            "namenode_urgent_blocks 1",
            "namenode_datanodes_live 1",
            "namenode_heartbeat_age_max_seconds 1.5",
            "namenode_datanodes_dead 1",
            "namenode_capacity_bytes 1000",
            "namenode_reads_seconds_bucket{le=\"0.0003\"} 1",
            "namenode_changes_seconds_count 0",
            "namenode_refused_calls_total 1",
            "namenode_journal_commit_seconds_total 0.0",
            "namenode_journal_directories_left_out 0",
            "namenode_last_txid 77",
            "# EOF",
        ] {
            assert!(text.lines().any(|other| other == line), "`{line}` is not in:\n{text}");
        }
    }
}

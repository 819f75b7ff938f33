//! The figures of `/metrics`, all with the prefix `datanode_`.

use daemon::metrics::{counters, gauges};
use prometheus_client::registry::Registry;

use crate::transfer::Service;

/// Everything as a registry.
pub(crate) fn registry(service: &Service) -> Registry {
    let mut registry = daemon::metrics::registry();
    let datanode = registry.sub_registry_with_prefix("datanode");
    volumes(datanode, service);
    work(datanode, service);
    registry
}

fn volumes(registry: &mut Registry, service: &Service) {
    let usage = service.store.usage_lately();
    gauges(
        registry,
        &[
            (
                "replicas",
                "Replicas, unfinished ones included",
                service.store.replica_count() as u64,
            ),
            ("capacity_bytes", "Bytes on the volumes in service", usage.capacity),
            ("used_bytes", "Bytes that replicas use", usage.used),
            ("remaining_bytes", "Bytes free for replicas", usage.remaining),
            ("other_bytes", "Bytes on the volumes that something else uses", usage.non_dfs_used),
            (
                "failed_volumes",
                "Data directories out of service",
                service.store.failed_volumes().len() as u64,
            ),
            ("transfers", "Transfers running", service.transfer_count() as u64),
            (
                "balancer_bandwidth_bytes",
                "Bytes per second sent for the balancer at most",
                service.balancing().rate(),
            ),
        ],
    );
}

fn work(registry: &mut Registry, service: &Service) {
    let (scans, heartbeats) = (service.store.scans(), service.heartbeats());
    let traffic = service.traffic();
    counters(
        registry,
        &[
            ("heartbeats", "Heartbeats that the NameNode answered", heartbeats.answered()),
            (
                "heartbeat_failures",
                "Registrations and heartbeats that failed or were refused",
                heartbeats.failed(),
            ),
            ("received_bytes", "Bytes of replicas that were sent here", traffic.received()),
            ("sent_bytes", "Bytes of replicas sent to readers and as copies", traffic.sent()),
            ("scanned_blocks", "Replicas that the scanner read", scans.blocks()),
            ("scanned_bytes", "Bytes that the scanner read", scans.bytes()),
            ("scan_errors", "Bad replicas that the scanner found", scans.errors()),
        ],
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use protocol::auth::{KEY_BYTES, Key};
    use protocol::token::TokenKeys;
    use transport::{ConnectionPool, Timeouts};

    use super::*;
    use crate::store::{Store, VolumeConfig};
    use crate::transfer::Limits;

    fn service(root: &std::path::Path) -> Arc<Service> {
        let volume = VolumeConfig {
            path: root.join("volume"),
            reserved_bytes: Some(0),
            trash_grace: Duration::ZERO,
            bypass_cache: true,
            small_bytes_max: 0,
        };
        let second = Duration::from_secs(1);
        let timeouts = Timeouts { connect: second, io: second, idle: second };
        let limits = Limits {
            transfers_max: 4,
            connections_max: 4,
            io_timeout: second,
            writer_idle_max: second,
        };
        let store = Store::open(&[volume], 1 << 20, None).unwrap();
        let keys = TokenKeys::new(&Key::new([7; KEY_BYTES]));
        Service::new(Arc::new(store), ConnectionPool::new(timeouts, true), keys, limits, 77)
    }

    #[test]
    fn golden_lines() {
        let root = tempfile::tempdir().unwrap();
        let service = service(root.path());
        for is_answered in [true, true, false] {
            service.heartbeats().note(is_answered);
        }
        service.traffic().note_received(70_000);
        service.traffic().note_sent(5);
        service.store.scans().note(4096);
        service.store.scans().note_bad();
        let text = daemon::metrics::text(&registry(&service));
        for line in [
            "datanode_replicas 0",
            "datanode_failed_volumes 0",
            "datanode_transfers 0",
            "datanode_balancer_bandwidth_bytes 77",
            "datanode_heartbeats_total 2",
            "datanode_heartbeat_failures_total 1",
            "datanode_received_bytes_total 70000",
            "datanode_sent_bytes_total 5",
            "datanode_scanned_blocks_total 1",
            "datanode_scanned_bytes_total 4096",
            "datanode_scan_errors_total 1",
            "# EOF",
        ] {
            assert!(text.lines().any(|other| other == line), "`{line}` is not in:\n{text}");
        }
    }
}

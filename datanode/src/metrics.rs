//! The figures of `/metrics`, all with the prefix `datanode_`.

use daemon::metrics::gauges;
use prometheus_client::registry::Registry;

use crate::transfer::Service;

/// Everything as a registry.
pub(crate) fn registry(service: &Service) -> Registry {
    let mut registry = daemon::metrics::registry();
    let usage = service.store.usage_lately();
    gauges(
        registry.sub_registry_with_prefix("datanode"),
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
    registry
}

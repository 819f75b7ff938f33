//! What an administrator sees of a cluster, and what its daemons left behind.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::{Cluster, http};

/// What `admin report --json` says of each DataNode.
pub(crate) fn datanodes(cluster: &Cluster) -> Vec<Value> {
    let text = cluster.hanno(&["admin", "report", "--json"]).stdout_text();
    let report: Value = serde_json::from_str(&text).unwrap_or_default();
    report["datanodes"].as_array().cloned().unwrap_or_default()
}

/// Replicas on all DataNodes, as each counts its own; `None` unless all are live.
pub(crate) fn replica_count(cluster: &Cluster) -> Option<u64> {
    let count = |node: &Value| {
        let address = node["info"]["http_address"].as_str().filter(|_| node["state"] == "Live")?;
        let bean = "/jmx?qry=Hadoop:service=DataNode,name=FSDatasetState";
        let answer = http::request("GET", &format!("http://{address}{bean}"), b"").is(200);
        answer.json()["beans"][0]["NumBlocks"].as_u64()
    };
    datanodes(cluster).iter().map(count).sum()
}

/// DataNodes that are live and have told how much room they have.
pub(crate) fn live_count(cluster: &Cluster) -> usize {
    let is_live = |node: &&Value| node["state"] == "Live" && node["capacity"] != 0;
    datanodes(cluster).iter().filter(is_live).count()
}

pub(crate) fn wait_live(cluster: &Cluster, count: usize) {
    cluster.wait_until("so many DataNodes are live", 60, |cluster| live_count(cluster) == count);
}

/// The address of the DataNode whose data is in `datanode-<number>`.
pub(crate) fn address(cluster: &Cluster, number: u32) -> String {
    let config = cluster.directory.join(format!("conf/datanode-{number}.toml"));
    let text = fs::read_to_string(config).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("bind = ")).unwrap();
    line.trim_matches('"').to_owned()
}

pub(crate) fn admin_state(cluster: &Cluster, address: &str) -> String {
    datanodes(cluster)
        .iter()
        .find(|node| node["info"]["transfer_address"] == address)
        .map(|node| node["admin"].as_str().unwrap_or_default().to_owned())
        .unwrap_or_default()
}

/// No daemon has panicked.
#[track_caller]
pub(crate) fn assert_no_panics(cluster: &Cluster) {
    for entry in fs::read_dir(cluster.directory.join("logs")).unwrap() {
        let path = entry.unwrap().path();
        let log = fs::read_to_string(&path).unwrap_or_default();
        assert!(!log.contains("panicked at"), "{} has a panic", path.display());
    }
}

pub(crate) fn flip_a_bit(file: &Path, offset: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

/// Ends the load when dropped, also by a panic: the threads of a scope are waited for.
pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

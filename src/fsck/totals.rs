//! Totals over the checked files, and HDFS's summary of them.

use std::collections::{BTreeMap, BTreeSet};

use client::dfs::{DfsClient, DfsError};
use protocol::namenode::{DatanodeState, FsckBlock, FsckFile, ReplicaState};
use protocol::storage::StoragePolicy;
use serde::Serialize;

use super::lines::{complete_blocks, counted, is_corrupt};
use crate::output::{EXIT_FAILED, EXIT_OK};

/// The totals.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Totals {
    pub(super) datanode_count: usize,
    pub(super) rack_count: usize,
    pub(super) directory_count: u64,
    pub(super) file_count: u64,
    pub(super) open_file_count: u64,
    pub(super) open_length: u64,
    pub(super) open_block_count: u64,
    pub(super) length: u64,
    pub(super) block_count: u64,
    pub(super) block_length: u64,
    pub(super) minimally_replicated_count: u64,
    pub(super) over_replicated_count: u64,
    pub(super) under_replicated_count: u64,
    pub(super) misplaced_count: u64,
    pub(super) decommissioned_replica_count: u64,
    pub(super) decommissioning_replica_count: u64,
    pub(super) entering_maintenance_replica_count: u64,
    pub(super) in_maintenance_replica_count: u64,
    pub(super) replica_count: u64,
    pub(super) wanted_replica_count: u64,
    pub(super) missing_block_count: u64,
    pub(super) missing_length: u64,
    pub(super) corrupt_block_count: u64,
    pub(super) corrupt_length: u64,
    pub(super) corrupt_file_count: u64,
    /// Files that were closed without bytes that a writer had synced, and these bytes.
    pub(super) lost_file_count: u64,
    pub(super) lost_length: u64,
    /// Files whose recovery waits for dead DataNodes.
    pub(super) waiting_file_count: u64,
    pub(super) missing_replica_count: u64,
    pub(super) pending_replication_count: u64,
    pub(super) default_replication: u16,
    /// Blocks of files with a storage policy, by policy and number of replicas.
    #[serde(skip)]
    pub(super) blocks_by_policy: BTreeMap<(StoragePolicy, usize), u64>,
    /// Name of the cluster's only pool of blocks.
    pub(super) pool: String,
}

impl Totals {
    pub(super) fn new(client: &DfsClient) -> Result<Self, DfsError> {
        let datanodes = client.datanodes()?;
        let status = client.cluster_status()?;
        let live = || datanodes.iter().filter(|node| node.state != DatanodeState::Dead);
        let racks: BTreeSet<&str> = live().map(|node| node.info.rack.as_str()).collect();
        Ok(Totals {
            datanode_count: live().count(),
            rack_count: racks.len(),
            pending_replication_count: status.pending_replication_count,
            default_replication: status.replication,
            pool: format!("BP-{}", status.cluster),
            ..Totals::default()
        })
    }

    /// Counts a file. A file being written is only counted as that, unless `open_too`.
    pub(super) fn add(&mut self, file: &FsckFile, (open_too, maintenance): (bool, bool)) {
        self.waiting_file_count += u64::from(!file.awaited.is_empty());
        if file.status.open {
            self.open_file_count += 1;
            if !open_too {
                self.open_length += file.status.length;
                self.open_block_count += file.blocks.len() as u64;
                return;
            }
        }
        self.file_count += 1;
        self.length += file.status.length;
        let wanted = u64::from(file.status.replication);
        let mut is_damaged = file.lost_bytes > 0;
        self.lost_file_count += u64::from(is_damaged);
        self.lost_length += file.lost_bytes;
        for block in complete_blocks(file) {
            is_damaged |= block.good_count() == 0;
            let policy = file.status.storage_policy.unwrap_or(StoragePolicy::Hot);
            *self.blocks_by_policy.entry((policy, block.replicas.len())).or_default() += 1;
            self.add_block(block, wanted, maintenance);
        }
        self.corrupt_file_count += u64::from(is_damaged);
    }

    fn add_block(&mut self, block: &FsckBlock, wanted: u64, maintenance: bool) {
        let (live, there) = (block.live_count() as u64, counted(block, maintenance) as u64);
        let is_there = block.good_count() > 0;
        let of = |wanted| block.count(|state| state == wanted) as u64;
        self.decommissioned_replica_count += of(ReplicaState::Decommissioned);
        self.decommissioning_replica_count += of(ReplicaState::Decommissioning);
        self.entering_maintenance_replica_count += of(ReplicaState::EnteringMaintenance);
        self.in_maintenance_replica_count += of(ReplicaState::InMaintenance);
        self.block_count += 1;
        self.block_length += block.length;
        self.replica_count += there;
        self.wanted_replica_count += wanted;
        self.minimally_replicated_count += u64::from(is_there);
        self.over_replicated_count += u64::from(live > wanted);
        self.misplaced_count += u64::from(block.misplaced);
        if is_there {
            self.under_replicated_count += u64::from(there < wanted);
            self.missing_replica_count += wanted.saturating_sub(there);
        } else if is_corrupt(block) {
            self.corrupt_block_count += 1;
            self.corrupt_length += block.length;
        } else {
            self.missing_block_count += 1;
            self.missing_length += block.length;
        }
    }

    pub(super) fn is_healthy(&self) -> bool {
        self.missing_block_count + self.corrupt_block_count + self.lost_file_count == 0
    }

    pub(super) fn exit_code(&self) -> u8 {
        if self.is_healthy() { EXIT_OK } else { EXIT_FAILED }
    }

    pub(super) fn text(&self) -> String {
        let state = if self.is_healthy() { "HEALTHY" } else { "CORRUPT" };
        let blocks = self.block_count;
        let average = self.length.checked_div(blocks).unwrap_or(0);
        format!(
            "\nStatus: {state}\n \
             Number of data-nodes:\t{}\n \
             Number of racks:\t\t{}\n \
             Total dirs:\t\t\t{}\n \
             Total symlinks:\t\t0\n\n\
             Replicated Blocks:\n \
             Total size:\t{} B{}\n \
             Total files:\t{}{}\n{} \
             Total blocks (validated):\t{blocks}{}{}\n{}{}{ERASURE_CODED}",
            self.datanode_count,
            self.rack_count,
            self.directory_count,
            self.length,
            self.open_part(self.open_length, "Total open files size: ", " B"),
            self.file_count,
            self.open_part(self.open_file_count, "Files currently being written: ", ""),
            self.waiting_text(),
            if blocks == 0 { String::new() } else { format!(" (avg. block size {average} B)") },
            self.open_part(self.open_block_count, "Total open file blocks (not validated): ", ""),
            self.starred(),
            self.replication_text(),
        )
    }

    /// The output that `-storagepolicies` adds. All replicas are on disks, as one of the policies demands.
    pub(super) fn storage_policies_text(&self) -> String {
        let mut satisfied = "\nBlocks satisfying the specified storage policy:\n\
            Storage Policy                  # of blocks       % of blocks\n"
            .to_owned();
        let mut others = String::new();
        let mut rows: Vec<_> =
            self.blocks_by_policy.iter().filter(|((_, count), _)| *count > 0).collect();
        rows.sort_by(|left, right| right.1.cmp(left.1));
        for ((policy, replicas), blocks) in rows {
            let share = format!("{:.4}%", *blocks as f64 * 100.0 / self.block_count as f64);
            let there = format!("DISK:{replicas}(HOT)");
            match policy {
                StoragePolicy::Hot => {
                    satisfied.push_str(&format!("{there:<25} {blocks:>10}  {share:>20}\n"));
                }
                policy => others.push_str(&format!(
                    "{there:<35} {:<20} {blocks:>10}  {share:>20}\n",
                    policy.definition().name
                )),
            }
        }
        match others.is_empty() {
            true => satisfied + "\nAll blocks satisfy specified storage policy.\n",
            false => format!(
                "{satisfied}\nBlocks NOT satisfying the specified storage policy:\n\
                 Storage Policy                  Specified Storage Policy      # of blocks       % of blocks\n{others}"
            ),
        }
    }

    fn replication_text(&self) -> String {
        let blocks = self.block_count;
        let mean = if blocks == 0 { 0.0 } else { self.replica_count as f32 / blocks as f32 };
        let share = |count: u64, of: u64| match of {
            0 => count.to_string(),
            of => format!("{count} ({:?} %)", count as f32 * 100.0 / of as f32),
        };
        let of_blocks = |count| share(count, blocks);
        let leaving = [
            ("DecommissionedReplicas", self.decommissioned_replica_count),
            ("DecommissioningReplicas", self.decommissioning_replica_count),
            ("EnteringMaintenanceReplicas", self.entering_maintenance_replica_count),
            ("InMaintenanceReplicas", self.in_maintenance_replica_count),
        ];
        let leaving = leaving.into_iter().filter(|(_, count)| *count > 0);
        let leaving: String = leaving.map(|(name, count)| format!(" {name}:\t{count}\n")).collect();
        format!(
            " Minimally replicated blocks:\t{}\n \
             Over-replicated blocks:\t{}\n \
             Under-replicated blocks:\t{}\n \
             Mis-replicated blocks:\t\t{}\n \
             Default replication factor:\t{}\n \
             Average block replication:\t{mean:?}\n \
             Missing blocks:\t\t{}\n \
             Corrupt blocks:\t\t{}\n \
             Missing replicas:\t\t{}\n\
             {leaving} \
             Blocks queued for replication:\t{}\n\n",
            of_blocks(self.minimally_replicated_count),
            of_blocks(self.over_replicated_count),
            of_blocks(self.under_replicated_count),
            of_blocks(self.misplaced_count),
            self.default_replication,
            self.missing_block_count,
            self.corrupt_block_count,
            share(self.missing_replica_count, self.wanted_replica_count),
            self.pending_replication_count,
        )
    }

    /// The part about files being written, if there are any.
    fn open_part(&self, number: u64, before: &str, after: &str) -> String {
        match self.open_file_count {
            0 => String::new(),
            _ => format!(" ({before}{number}{after})"),
        }
    }

    fn waiting_text(&self) -> String {
        match self.waiting_file_count {
            0 => String::new(),
            count => format!(" Files that wait for dead data-nodes:\t{count}\n"),
        }
    }

    /// The starred part that damage adds.
    fn starred(&self) -> String {
        if self.is_healthy() {
            return String::new();
        }
        let stars = "  ********************************\n";
        let mut text = stars.to_owned();
        let damaged = self.missing_block_count + self.corrupt_block_count;
        let percent = damaged as f32 * 100.0 / self.block_count.max(1) as f32;
        text.push_str(&format!(
            "  UNDER MIN REPL'D BLOCKS:\t{damaged} ({percent:?} %)\n  \
             MINIMAL BLOCK REPLICATION:\t1\n  CORRUPT FILES:\t{}\n",
            self.corrupt_file_count
        ));
        if self.missing_block_count > 0 {
            let (count, length) = (self.missing_block_count, self.missing_length);
            text.push_str(&format!("  MISSING BLOCKS:\t{count}\n  MISSING SIZE:\t\t{length} B\n"));
        }
        if self.corrupt_block_count > 0 {
            let (count, length) = (self.corrupt_block_count, self.corrupt_length);
            text.push_str(&format!("  CORRUPT BLOCKS: \t{count}\n  CORRUPT SIZE:\t\t{length} B\n"));
        }
        if self.lost_file_count > 0 {
            let (count, length) = (self.lost_file_count, self.lost_length);
            text.push_str(&format!("  CUT OFF FILES:\t{count}\n  CUT OFF SIZE:\t\t{length} B\n"));
        }
        text + stars
    }
}

/// There are none, but tools search for the heading.
const ERASURE_CODED: &str = "\
Erasure Coded Block Groups:
 Total size:\t0 B
 Total files:\t0
 Total block groups (validated):\t0
 Minimally erasure-coded block groups:\t0
 Over-erasure-coded block groups:\t0
 Under-erasure-coded block groups:\t0
 Unsatisfactory placement block groups:\t0
 Average block group size:\t0.0
 Missing block groups:\t\t0
 Corrupt block groups:\t\t0
 Missing internal blocks:\t0
 Blocks queued for replication:\t0
";

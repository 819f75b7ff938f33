//! Simulated DataNodes: they register, send heartbeats and block reports over real connections as a DataNode does, but hold no data.
//!
//! Each is one task. A restarted NameNode refuses the old epoch; they then register and report again, all at once, as after a real restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use parking_lot::Mutex;
use protocol::datanode::{
    Changes, Command, FullReport, Heartbeat, REPORT_REPLICAS_MAX, Register, Replica, Reply, Report,
    Request, Sender, VERSION,
};
use protocol::level::Supported;
use protocol::namenode::DatanodeInfo;
use protocol::{BlockId, DatanodeId, ErrorKind, GenerationStamp};
use tokio::task::JoinHandle;
use transport::RpcError;
use transport::rpc::{CallOptions, RpcClient};

/// Time for one message; far above the 3 s for which the NameNode holds a heartbeat.
const MESSAGE_MAX: Duration = Duration::from_secs(120);
/// Pause before a message is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Simulated racks.
const RACKS: u32 = 40;
/// Room that each claims, bytes.
const CAPACITY: u64 = 1 << 50;
/// Bytes of each block.
pub(super) const BLOCK_LENGTH: u64 = 1000;

/// A replica: distances from the first block id and the first stamp, the only parts that differ.
pub(super) type Held = (u32, u32);

/// First stamp that a NameNode assigns.
const STAMP_FIRST: u64 = 1001;

/// The block and the stamp of a replica as `Held`; `None` if the cluster is not a new one.
pub(super) fn held(block: BlockId, stamp: GenerationStamp) -> Option<Held> {
    let block = block.0.checked_sub(BlockId::FIRST.0)?;
    let stamp = stamp.0.checked_sub(STAMP_FIRST)?;
    Some((u32::try_from(block).ok()?, u32::try_from(stamp).ok()?))
}

/// Several DataNodes.
pub(super) struct Fleet {
    pub(super) nodes: Vec<Arc<Node>>,
    tasks: Vec<JoinHandle<()>>,
    /// Heartbeats answered.
    pub(super) beats: Arc<AtomicU64>,
}

/// One of them.
pub(super) struct Node {
    rpc: RpcClient,
    number: u32,
    /// Its replicas.
    pub(super) replicas: Mutex<Vec<Held>>,
    /// Its registration and the number of its next report; `None` if it has to register.
    session: Mutex<Option<(Sender, u64)>>,
    /// Held while a report is under way: one at a time. Heartbeats go on meanwhile.
    reporting: tokio::sync::Mutex<()>,
}

/// The id of DataNode `number`.
fn id_of(number: u32) -> DatanodeId {
    let mut id = [0xbe; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    DatanodeId(id)
}

/// The number in an id made by [`id_of`].
pub(super) fn number_of(id: DatanodeId) -> u32 {
    u32::from_be_bytes([id.0[0], id.0[1], id.0[2], id.0[3]])
}

impl Fleet {
    /// Registers DataNodes with numbers from `first` and starts their heartbeats.
    pub(super) async fn start(rpc: &RpcClient, first: u32, count: u32) -> Result<Fleet> {
        let mut fleet = Fleet { nodes: Vec::new(), tasks: Vec::new(), beats: Arc::default() };
        for number in first..first + count {
            let node = Arc::new(Node {
                rpc: rpc.clone(),
                number,
                replicas: Mutex::default(),
                session: Mutex::default(),
                reporting: tokio::sync::Mutex::default(),
            });
            node.join().await?;
            let (beating, beats) = (Arc::clone(&node), Arc::clone(&fleet.beats));
            fleet.tasks.push(tokio::spawn(async move { beating.live(&beats).await }));
            fleet.nodes.push(node);
        }
        Ok(fleet)
    }

    /// Number of replicas of all DataNodes.
    pub(super) fn replica_count(&self) -> usize {
        self.nodes.iter().map(|node| node.replicas.lock().len()).sum()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Node {
    async fn send(&self, request: &Request) -> Result<Reply, RpcError> {
        self.rpc.call("/rpc/datanode", request, CallOptions::once(MESSAGE_MAX)).await
    }

    /// Registers and sends a full report.
    async fn join(&self) -> Result<()> {
        let number = self.number;
        let info = DatanodeInfo {
            id: id_of(number),
            host: format!("simulated-{number}"),
            transfer_address: format!("10.0.0.1:{}", number % 60_000 + 1),
            http_address: String::new(),
            rack: format!("/rack-{}", number % RACKS),
            boot_id: String::new(),
            local_socket: String::new(),
        };
        let (version, levels) = (VERSION, Supported::OWN);
        let register = Request::Register(Register {
            version,
            levels,
            cluster: None,
            info,
            program: String::new(),
            process: u64::from(number),
        });
        let Reply::Registered { epoch, registration, .. } = self.send(&register).await? else {
            bail!("the namenode is of another version");
        };
        let sender = Sender { datanode: id_of(number), epoch, registration };
        *self.session.lock() = Some((sender, 0));
        self.report().await?;
        Ok(())
    }

    /// Sends the next report. One that may not have arrived ends the session.
    async fn send_report(&self, report: Report) -> Result<(), RpcError> {
        let _one_at_a_time = self.reporting.lock().await;
        let Some((sender, number)) = *self.session.lock() else { return Ok(()) };
        let sent = self.send(&Request::Report { sender, number, report }).await;
        let next = sent.as_ref().ok().map(|_| (sender, number + 1));
        let mut session = self.session.lock();
        if session.is_some_and(|(current, _)| current == sender) {
            *session = next;
        }
        sent.map(|_| ())
    }

    /// Sends a full report; returns the number of replicas in it.
    pub(super) async fn report(&self) -> Result<usize, RpcError> {
        let replicas = {
            let mut held = self.replicas.lock();
            held.sort_unstable();
            held.clone()
        };
        let part_count = replicas.len().div_ceil(REPORT_REPLICAS_MAX).max(1);
        for part in 0..part_count {
            let from = part * REPORT_REPLICAS_MAX;
            let to = replicas.len().min(from + REPORT_REPLICAS_MAX);
            let finalized = replicas[from..to].iter().map(|(block, stamp)| Replica {
                block: BlockId(BlockId::FIRST.0 + u64::from(*block)),
                stamp: GenerationStamp(STAMP_FIRST + u64::from(*stamp)),
                length: BLOCK_LENGTH,
            });
            let report = FullReport {
                part: u32::try_from(part).unwrap_or(u32::MAX),
                last: part + 1 == part_count,
                finalized: finalized.collect(),
                unfinished: Vec::new(),
            };
            self.send_report(Report::Full(report)).await?;
        }
        Ok(replicas.len())
    }

    /// Sends heartbeats until the task is ended.
    async fn live(&self, beats: &AtomicU64) {
        loop {
            let session = *self.session.lock();
            let Some((sender, _)) = session else {
                if self.join().await.is_err() {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                continue;
            };
            let beat =
                Heartbeat { capacity: CAPACITY, remaining: CAPACITY, ..Heartbeat::default() };
            match self.send(&Request::Heartbeat(sender, beat)).await {
                Ok(Reply::Commands { commands, .. }) => {
                    beats.fetch_add(1, Ordering::Relaxed);
                    self.obey(commands).await;
                }
                Err(error) if error.kind() == Some(ErrorKind::Fenced) => {
                    *self.session.lock() = None;
                }
                _ => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// Deletes blocks as ordered; makes no copies, because there are no data.
    async fn obey(&self, commands: Vec<Command>) {
        let mut deleted: Vec<BlockId> = Vec::new();
        for command in commands {
            if let Command::Delete(blocks) = command {
                deleted.extend(blocks.into_iter().map(|(block, _)| block));
            }
        }
        if deleted.is_empty() {
            return;
        }
        deleted.sort_unstable();
        self.replicas.lock().retain(|(block, _)| {
            deleted.binary_search(&BlockId(BlockId::FIRST.0 + u64::from(*block))).is_err()
        });
        for deleted in deleted.chunks(REPORT_REPLICAS_MAX) {
            let deleted = deleted.to_vec();
            let changes = Changes { deleted, ..Changes::default() };
            // The next order to delete repeats what could not be reported.
            let _ = self.send_report(Report::Changes(changes)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_distances_come_back() {
        for number in [0, 1, 9_999, u32::MAX] {
            assert_eq!(number_of(id_of(number)), number);
        }
        let block = BlockId(BlockId::FIRST.0 + 7);
        assert_eq!(held(block, GenerationStamp(STAMP_FIRST + 9)), Some((7, 9)));
        assert_eq!(held(BlockId(1), GenerationStamp(STAMP_FIRST)), None);
    }
}

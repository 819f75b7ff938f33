//! [`DfsReader`]: reads a file from the nearest replicas that work.
//!
//! When a replica fails (node gone, timeout, bad checksum, too short), reading continues with the next one at the same byte. When all have failed, the reader
//! fetches locations again after growing pauses: a NameNode that was just restarted learns of replicas bit by bit. If all are damaged, the block is assembled
//! from the good chunks of each. Bytes that match no checksum anywhere are an error, never data.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use protocol::checksum::CHUNK_BYTES;
use protocol::namenode::{BadReplica, FileStatus, LocatedBlock, LocatedBlocks};
use protocol::{DatanodeId, DfsPath};
use tokio::task::JoinHandle;

use super::error::DfsError;
use super::link::Link;
use super::source::{self, BlockSlice, Source};
use super::visible::visible_length;
use transport::{PooledPacket, TransferFailure};

/// Most data handed out at once by [`Read`].
const READ_BYTES_MAX: usize = 1 << 20;
/// Pauses before locations are fetched again, milliseconds, each shortened by jitter. They last about 15 s in all; a replica that is still not reported then is
/// not expected any more.
const FETCH_PAUSES_MS: [u64; 10] = [0, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000];
/// Pauses before asking again for the length of a block being written, milliseconds: a pipeline that is being rebuilt answers within them.
const LENGTH_PAUSES_MS: [u64; 6] = [10, 50, 100, 200, 400, 800];
/// How long a reader that ends waits for its reports of bad replicas to arrive.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// An open file for reading.
#[derive(Debug)]
pub struct DfsReader {
    link: Arc<Link>,
    path: DfsPath,
    status: FileStatus,
    length: u64,
    blocks: Vec<Block>,
    position: u64,
    source: Option<(usize, DatanodeId, Source)>,
    reports: Vec<JoinHandle<()>>,
    /// True if bytes that match no checksum anywhere are handed out as they are.
    ignores_checksums: bool,
}

#[derive(Debug)]
struct Block {
    located: LocatedBlock,
    /// Replicas to skip: they failed since locations were fetched, or are damaged.
    failed: Vec<DatanodeId>,
    /// Replicas that did not match their checksums.
    damaged: Vec<DatanodeId>,
    /// All replicas failed and some are damaged: read chunk by chunk from whichever has a good one.
    salvage: bool,
}

impl DfsReader {
    pub(super) fn open(link: &Arc<Link>, path: DfsPath) -> Result<Self, DfsError> {
        let located = locate(link, &path)?;
        if located.status.directory {
            return Err(DfsError::IsDirectory { path });
        }
        let blocks: Vec<Block> = located.blocks.into_iter().map(Block::new).collect();
        let length = blocks.last().map_or(0, |block| block.located.offset + block.located.length);
        Ok(DfsReader {
            link: Arc::clone(link),
            path,
            status: located.status,
            length,
            blocks,
            position: 0,
            source: None,
            reports: Vec::new(),
            ignores_checksums: false,
        })
    }

    /// Another reader of the file as this one saw it on opening: several threads can read one file.
    pub fn another(&self) -> Self {
        let blocks = self.blocks.iter().map(|block| Block::new(block.located.clone())).collect();
        DfsReader {
            link: Arc::clone(&self.link),
            path: self.path.clone(),
            status: self.status.clone(),
            length: self.length,
            blocks,
            position: 0,
            source: None,
            reports: Vec::new(),
            ignores_checksums: self.ignores_checksums,
        }
    }

    /// From now on, bytes that match their checksum on no replica are returned as the first replica has them, instead of an error.
    pub fn ignore_checksums(&mut self) {
        self.ignores_checksums = true;
    }

    /// The file's status when it was opened.
    pub fn status(&self) -> &FileStatus {
        &self.status
    }

    /// Its length, bytes.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Its blocks.
    pub fn blocks(&self) -> impl Iterator<Item = &LocatedBlock> {
        self.blocks.iter().map(|block| &block.located)
    }

    /// Verified bytes from `offset`: at least one and at most `max`, empty at the end of the file. Never crosses a block boundary. No copy if the replica is on
    /// this machine. Meant for sequential reading from there; the position of [`Read`] does not change.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn next_slice(&mut self, offset: u64, max: usize) -> Result<BlockSlice, DfsError> {
        self.slice(offset, max, u64::MAX)
    }

    /// As [`DfsReader::next_slice`], for a caller that reads no more than `wanted` bytes from `offset`: no more are fetched.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn next_slice_of(
        &mut self,
        offset: u64,
        max: usize,
        wanted: u64,
    ) -> Result<BlockSlice, DfsError> {
        self.slice(offset, max, wanted)
    }

    /// Fills `buffer` from `offset`; less only at the end of the file.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize, DfsError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let rest = buffer.len() - filled;
            let slice = self.slice(offset + filled as u64, rest, rest as u64)?;
            if slice.is_empty() {
                break;
            }
            buffer[filled..filled + slice.len()].copy_from_slice(&slice);
            filled += slice.len();
        }
        Ok(filled)
    }

    fn slice(&mut self, offset: u64, max: usize, wanted: u64) -> Result<BlockSlice, DfsError> {
        if offset >= self.length || max == 0 {
            return Ok(BlockSlice::default());
        }
        let index =
            self.blocks.partition_point(|block| block.located.offset <= offset).saturating_sub(1);
        let mut pauses = FETCH_PAUSES_MS.iter();
        let mut reason = "it has no replica".to_owned();
        loop {
            let block = &self.blocks[index];
            let located = &block.located;
            let at = offset - located.offset;
            // A file that grew since it was opened still ends where it did then, even if the length of its last block has changed meanwhile.
            let rest = located.length.saturating_sub(at).min(self.length - offset);
            if rest == 0 {
                return Err(DfsError::Short { path: self.path.clone(), offset });
            }
            let max = max.min(usize::try_from(rest).unwrap_or(usize::MAX));
            if block.salvage {
                return self.salvage(index, at, max);
            }
            if self.select(index) {
                let Some((_, datanode, source)) = &mut self.source else { continue };
                match source.slice(at, max, wanted.min(rest)) {
                    Ok(slice) => return Ok(slice),
                    Err(failure) => {
                        let datanode = *datanode;
                        reason = crate::error::chain(&failure);
                        self.replica_failed(index, datanode, &failure);
                    }
                }
            } else if self.blocks[index].is_damaged_everywhere() {
                self.blocks[index].salvage = true;
            } else if let Some(pause_ms) = pauses.next() {
                let pause = Duration::from_millis(*pause_ms);
                std::thread::sleep(pause.mul_f64(rand::random_range(0.5..1.0)));
                self.fetch_again(index)?;
            } else if !self.blocks[index].damaged.is_empty() {
                self.blocks[index].salvage = true;
            } else {
                let block = self.blocks[index].located.id;
                // The next call may try all of them again.
                self.blocks[index].failed.clear();
                let path = self.path.clone();
                return Err(DfsError::Unreachable { path, block, offset, reason });
            }
        }
    }

    /// Makes sure that a replica of the block is open; false if none is left.
    fn select(&mut self, index: usize) -> bool {
        if self.source.as_ref().is_some_and(|(current, ..)| *current == index) {
            return true;
        }
        let block = &self.blocks[index];
        let mut replicas = block.located.replicas.iter();
        let Some(datanode) = replicas.find(|datanode| !block.failed.contains(&datanode.id)) else {
            return false;
        };
        let source = Source::open(&self.link, &block.located, datanode);
        self.source = Some((index, datanode.id, source));
        true
    }

    fn replica_failed(&mut self, index: usize, datanode: DatanodeId, failure: &TransferFailure) {
        self.source = None;
        let block = &mut self.blocks[index];
        let id = block.located.id;
        let cause = crate::error::chain(failure);
        tracing::warn!(block = %id, %datanode, %cause, "cannot read a replica, trying the next");
        block.failed.push(datanode);
        if matches!(failure, TransferFailure::Checksum(_)) && !block.damaged.contains(&datanode) {
            block.damaged.push(datanode);
            let bad = BadReplica { block: id, stamp: block.located.stamp, datanode };
            self.reports.push(self.link.report_bad(vec![bad]));
        }
    }

    /// Asks where the replicas of a block are now. Those known to be damaged are skipped.
    fn fetch_again(&mut self, index: usize) -> Result<(), DfsError> {
        let old = &self.blocks[index].located;
        let (id, offset) = (old.id, old.offset);
        let located = self.link.locations(&self.path, offset, 1)?;
        let Some(found) = located.blocks.into_iter().find(|block| block.id == id) else {
            return Err(DfsError::Short { path: self.path.clone(), offset });
        };
        let block = &mut self.blocks[index];
        block.failed = block.damaged.clone();
        let seen = block.located.length;
        block.located = found;
        if block.located.open {
            block.located.length = block.located.length.max(seen);
        }
        Ok(())
    }

    /// Assembles bytes from the good chunks of all replicas; a chunk that is good nowhere comes from any replica if checksums are ignored.
    fn salvage(&mut self, index: usize, at: u64, max: usize) -> Result<BlockSlice, DfsError> {
        let located = &self.blocks[index].located;
        let replicas: Vec<PooledPacket> = located
            .replicas
            .iter()
            .chain(&located.damaged)
            .filter_map(|datanode| source::read_unverified(&self.link, located, datanode, at).ok())
            .collect();
        let begin = at / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
        let mut packet = self.link.packets.take();
        let skip = (at - begin) as usize;
        let wanted = skip.saturating_add(max).min(READ_BYTES_MAX);
        while packet.data().len() < wanted {
            let chunk = packet.data().len() / CHUNK_BYTES;
            let good = replicas.iter().find_map(|replica| replica.good_chunk(chunk));
            let any = || replicas.iter().find_map(|replica| replica.chunk(chunk));
            let found = good.or_else(|| self.ignores_checksums.then(any).flatten());
            let Some(found) = found else { break };
            packet.append(found, READ_BYTES_MAX);
        }
        if packet.data().len() <= skip {
            return Err(DfsError::Corrupt {
                path: self.path.clone(),
                block: located.id,
                offset: located.offset + begin,
            });
        }
        let end = packet.data().len().min(skip + max);
        Ok(BlockSlice::of_packet(packet, skip..end))
    }
}

/// Where the blocks are, and how much of the last one can be read. While no DataNode can report that length, locations are fetched again; in the end the
/// NameNode's length has to do.
fn locate(link: &Link, path: &DfsPath) -> Result<LocatedBlocks, DfsError> {
    let mut pauses = LENGTH_PAUSES_MS.iter();
    loop {
        let mut located = link.locations(path, 0, u64::MAX)?;
        // A block being written does not grow in a snapshot.
        let grows = located.status.open;
        let Some(last) = located.blocks.last_mut().filter(|block| grows && block.open) else {
            return Ok(located);
        };
        if let Some(length) = visible_length(link, last) {
            last.length = length;
            return Ok(located);
        }
        let Some(pause_ms) = pauses.next() else { return Ok(located) };
        std::thread::sleep(Duration::from_millis(*pause_ms).mul_f64(rand::random_range(0.5..1.0)));
    }
}

impl Block {
    fn new(located: LocatedBlock) -> Self {
        Block { located, failed: Vec::new(), damaged: Vec::new(), salvage: false }
    }

    fn is_damaged_everywhere(&self) -> bool {
        let mut replicas = self.located.replicas.iter().peekable();
        replicas.peek().is_some() && replicas.all(|replica| self.damaged.contains(&replica.id))
    }
}

impl Read for DfsReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let max = buffer.len().min(READ_BYTES_MAX);
        let slice = self.slice(self.position, max, u64::MAX)?;
        buffer[..slice.len()].copy_from_slice(&slice);
        self.position += slice.len() as u64;
        Ok(slice.len())
    }
}

impl Seek for DfsReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(delta) => self.length.checked_add_signed(delta),
            SeekFrom::Current(delta) => self.position.checked_add_signed(delta),
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

impl Drop for DfsReader {
    fn drop(&mut self) {
        let reports = std::mem::take(&mut self.reports);
        if reports.is_empty() {
            return;
        }
        crate::rpc::runtime().block_on(async {
            let all = async {
                for report in reports {
                    // A report that panicked or was cancelled is lost; the next reader makes another.
                    let _ = report.await;
                }
            };
            let _ = tokio::time::timeout(REPORT_TIMEOUT, all).await;
        });
    }
}

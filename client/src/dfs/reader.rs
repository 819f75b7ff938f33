//! [`DfsReader`]: reads a file from the nearest replicas that work.
//!
//! [`flow::reader`] decides which replica is read and what follows a failure. Bytes that match no checksum anywhere are an error, never data.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use flow::error::ReadError;
use flow::reader::{Failed, Reader, Step};
use protocol::DfsPath;
use protocol::checksum::CHUNK_BYTES;
use protocol::namenode::{FileStatus, LocatedBlock, LocatedBlocks};
use tokio::task::JoinHandle;
use transport::{PooledPacket, TransferFailure};

use super::error::DfsError;
use super::link::Link;
use super::source::{self, BlockSlice, Source};
use super::visible::visible_length;

/// Most data handed out at once by [`Read`].
const READ_BYTES_MAX: usize = 1 << 20;
/// How long a reader that ends waits for its reports of bad replicas to arrive.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// An open file for reading.
#[derive(Debug)]
pub struct DfsReader {
    link: Arc<Link>,
    path: DfsPath,
    status: FileStatus,
    flow: Reader,
    position: u64,
    /// The replica that is open.
    source: Option<Source>,
    reports: Vec<JoinHandle<()>>,
    /// True if bytes that match no checksum anywhere are handed out as they are.
    ignores_checksums: bool,
}

impl DfsReader {
    pub(super) fn open(link: &Arc<Link>, path: DfsPath) -> Result<Self, DfsError> {
        let located = locate(link, &path)?;
        if located.status.directory {
            return Err(DfsError::IsDirectory { path });
        }
        let flow = Reader::new(located.status.inode, located.blocks);
        Ok(DfsReader {
            link: Arc::clone(link),
            path,
            status: located.status,
            flow,
            position: 0,
            source: None,
            reports: Vec::new(),
            ignores_checksums: false,
        })
    }

    /// Another reader of the file as this one saw it on opening: several threads can read one file.
    pub fn another(&self) -> Self {
        DfsReader {
            link: Arc::clone(&self.link),
            path: self.path.clone(),
            status: self.status.clone(),
            flow: self.flow.another(),
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
        self.flow.len()
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.flow.is_empty()
    }

    /// Its blocks.
    pub fn blocks(&self) -> impl Iterator<Item = &LocatedBlock> {
        self.flow.blocks()
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
        let Some(mut attempt) = self.flow.begin(offset).filter(|_| max > 0) else {
            return Ok(BlockSlice::default());
        };
        let at_most = |rest: u64| max.min(usize::try_from(rest).unwrap_or(usize::MAX));
        let mut last = None;
        loop {
            match self.flow.next_step(&attempt) {
                Step::Open { block, datanode } => {
                    self.source = Some(Source::open(&self.link, block, datanode));
                    self.flow.opened(&attempt);
                }
                Step::Read { at, rest } => {
                    let read = match &mut self.source {
                        Some(source) => source.slice(at, at_most(rest), wanted.min(rest)),
                        None => Err(TransferFailure::Unexpected),
                    };
                    match read {
                        Ok(slice) => return Ok(slice),
                        Err(failure) => {
                            self.replica_failed(&failure);
                            last = Some(failure);
                        }
                    }
                }
                Step::Salvage { block, at, rest } => {
                    let found =
                        salvage(&self.link, block, (at, at_most(rest)), self.ignores_checksums);
                    let corrupt = |at| DfsError::Corrupt {
                        path: self.path.clone(),
                        block: block.id,
                        offset: block.offset + at,
                    };
                    return found.map_err(corrupt);
                }
                Step::Pause(pause) => {
                    std::thread::sleep(pause.mul_f64(rand::random_range(0.5..1.0)));
                    attempt.paused();
                }
                Step::Fetch { offset } => {
                    let located = self.link.locations(&self.path, offset, 1)?;
                    let fetched =
                        self.flow.fetched(&mut attempt, (located.status.inode, located.blocks));
                    fetched.map_err(|error| self.error(error, offset, None))?;
                }
                Step::End(error) => return Err(self.error(error, offset, last.as_ref())),
            }
        }
    }

    fn error(&self, error: ReadError, offset: u64, last: Option<&TransferFailure>) -> DfsError {
        let path = self.path.clone();
        match error {
            ReadError::Short { offset } => DfsError::Short { path, offset },
            ReadError::Unreachable { block } => {
                let reason = last.map_or_else(
                    || "it has no replica".to_owned(),
                    |failure| protocol::error::chain(failure),
                );
                DfsError::Unreachable { path, block, offset, reason }
            }
        }
    }

    fn replica_failed(&mut self, failure: &TransferFailure) {
        self.source = None;
        let is_damaged = matches!(failure, TransferFailure::Checksum(_));
        let Some(Failed { replica, report }) = self.flow.failed(is_damaged) else { return };
        let (block, datanode, cause) =
            (replica.block, replica.datanode, protocol::error::chain(failure));
        tracing::warn!(%block, %datanode, %cause, "cannot read a replica, trying the next");
        if report {
            self.reports.push(self.link.report_bad(vec![replica]));
        }
    }
}

/// Assembles bytes from the good chunks of all replicas; a chunk that is good nowhere comes from any replica if checksums are ignored. If there is none, the
/// error is where it begins in the block.
fn salvage(
    link: &Link,
    located: &LocatedBlock,
    (at, max): (u64, usize),
    ignores_checksums: bool,
) -> Result<BlockSlice, u64> {
    let replicas: Vec<PooledPacket> = located
        .replicas
        .iter()
        .chain(&located.damaged)
        .filter_map(|datanode| source::read_unverified(link, located, datanode, at).ok())
        .collect();
    let begin = at / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
    let mut packet = link.packets.take();
    let skip = (at - begin) as usize;
    let wanted = skip.saturating_add(max).min(READ_BYTES_MAX);
    while packet.data().len() < wanted {
        let chunk = packet.data().len() / CHUNK_BYTES;
        let good = replicas.iter().find_map(|replica| replica.good_chunk(chunk));
        let any = || replicas.iter().find_map(|replica| replica.chunk(chunk));
        let found = good.or_else(|| ignores_checksums.then(any).flatten());
        let Some(found) = found else { break };
        packet.append(found, READ_BYTES_MAX);
    }
    if packet.data().len() <= skip {
        return Err(begin);
    }
    let end = packet.data().len().min(skip + max);
    Ok(BlockSlice::of_packet(packet, skip..end))
}

/// Where the blocks are, and how much of the last one can be read. While no DataNode can report that length, locations are fetched again; in the end the
/// NameNode's length has to do.
fn locate(link: &Link, path: &DfsPath) -> Result<LocatedBlocks, DfsError> {
    let mut asked = 0;
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
        let Some(pause) = flow::reader::length_pause(asked) else { return Ok(located) };
        asked += 1;
        std::thread::sleep(pause.mul_f64(rand::random_range(0.5..1.0)));
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
            SeekFrom::End(delta) => self.flow.len().checked_add_signed(delta),
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
        transport::rpc::runtime().block_on(async {
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

//! Where the bytes of one block come from: the mapped files of a replica on this machine, or a stream of packets. Every byte is verified against its checksum
//! before it is handed out.

use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use protocol::checksum::{self, CHUNK_BYTES, ChecksumError};
use protocol::meta::{self, Layout};
use protocol::namenode::{DatanodeInfo, LocatedBlock};
use protocol::transfer::{Operation, PACKET_DATA_BYTES, Read as ReadOperation, Reply};
use sys::MappedFile;
use transport::{Connection, PooledPacket, TransferFailure};

use super::link::Link;

/// Least data that is verified at once in a mapped replica, so small reads do not verify their chunks repeatedly.
const VERIFY_STEP_BYTES: u64 = 64 << 10;
/// Least data requested in a read at a position, for the same reason.
const READ_STEP_BYTES: u64 = 64 << 10;

/// Complete blocks of at most so many bytes are streamed from this machine, too: one packet costs less than two descriptors and two maps.
const STREAMED_BYTES_MAX: u64 = 64 << 10;

/// Verified bytes of a file, without a copy if the replica is on this machine. Never crosses a block boundary.
#[derive(Clone, Debug, Default)]
pub struct BlockSlice {
    bytes: Bytes,
    range: Range<usize>,
}

#[derive(Clone, Debug, Default)]
enum Bytes {
    #[default]
    None,
    Mapped(Arc<Mapped>),
    Packet(Arc<PooledPacket>),
}

impl Deref for BlockSlice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all = match &self.bytes {
            Bytes::None => &[],
            Bytes::Mapped(mapped) => &mapped.block[..],
            Bytes::Packet(packet) => packet.data(),
        };
        &all[self.range.clone()]
    }
}

impl BlockSlice {
    /// The data of a packet assembled from verified chunks.
    pub(super) fn of_packet(packet: PooledPacket, range: Range<usize>) -> Self {
        BlockSlice { bytes: Bytes::Packet(Arc::new(packet)), range }
    }
}

/// The files of a finalized replica.
#[derive(Debug)]
struct Mapped {
    block: MappedFile,
    meta: MappedFile,
    layout: Layout,
}

/// An open replica.
#[derive(Debug)]
pub(super) enum Source {
    Local(Local),
    Remote(Box<Remote>),
}

#[derive(Debug)]
pub(super) struct Local {
    mapped: Arc<Mapped>,
    verified: Range<u64>,
}

#[derive(Debug)]
pub(super) struct Remote {
    link: Arc<Link>,
    block: LocatedBlock,
    datanode: DatanodeInfo,
    /// Present while packets are in transit.
    connection: Option<Connection>,
    /// Where the next packet begins.
    next: u64,
    packet: Option<Arc<PooledPacket>>,
}

impl Source {
    /// Opens the replica of `block` on `datanode`; through its files if it is on this machine and the DataNode hands them over.
    pub(super) fn open(link: &Arc<Link>, block: &LocatedBlock, datanode: &DatanodeInfo) -> Self {
        let is_small = !block.open && block.length <= STREAMED_BYTES_MAX;
        if !is_small && link.datanodes.is_local(datanode) {
            match Local::open(link, block, datanode) {
                Ok(Some(local)) => return Source::Local(local),
                Ok(None) => {}
                Err(error) => {
                    let error = protocol::error::chain(&error);
                    tracing::debug!(block = %block.id, %error, "cannot map a replica, reading it instead");
                }
            }
        }
        Source::Remote(Box::new(Remote {
            link: Arc::clone(link),
            block: block.clone(),
            datanode: datanode.clone(),
            connection: None,
            next: 0,
            packet: None,
        }))
    }

    /// At least one and at most `max` bytes from `offset` in the block. `wanted` is how much the caller will read from there.
    pub(super) fn slice(
        &mut self,
        offset: u64,
        max: usize,
        wanted: u64,
    ) -> Result<BlockSlice, TransferFailure> {
        match self {
            Source::Local(local) => local.slice(offset, max),
            Source::Remote(remote) => remote.slice(offset, max, wanted),
        }
    }
}

impl Local {
    fn open(
        link: &Link,
        block: &LocatedBlock,
        datanode: &DatanodeInfo,
    ) -> Result<Option<Self>, TransferFailure> {
        let mut connection = link.datanodes.take(datanode, block.permit())?;
        if !connection.passes_files() {
            link.datanodes.give_back(datanode, connection);
            return Ok(None);
        }
        let (id, stamp, token) = (block.id, block.stamp, block.token.name);
        let ask = Operation::Descriptors { block: id, stamp, token };
        let asked = connection.ask_descriptors(&ask, &block.token);
        if matches!(asked, Ok(_) | Err(TransferFailure::Remote(_))) {
            link.datanodes.give_back(datanode, connection);
        }
        let (length, block_file, meta_file) = asked?;
        if length < block.length {
            return Ok(None);
        }
        let size = |bytes: u64| usize::try_from(bytes).map_err(|_| TransferFailure::Unexpected);
        let mut preamble = [0; meta::PREAMBLE_BYTES];
        meta_file.read_exact_at(&mut preamble, 0)?;
        let Ok(layout) = meta::check_header(&preamble) else { return Ok(None) };
        let mapped = Mapped {
            block: MappedFile::map(&block_file, size(length)?)?,
            meta: MappedFile::map(&meta_file, size(layout.file_bytes(length))?)?,
            layout,
        };
        Ok(Some(Local { mapped: Arc::new(mapped), verified: 0..0 }))
    }

    fn slice(&mut self, offset: u64, max: usize) -> Result<BlockSlice, TransferFailure> {
        let length = self.mapped.block.len() as u64;
        let end = offset.saturating_add(max as u64).min(length);
        if offset >= end {
            return Err(TransferFailure::Unexpected);
        }
        self.verify(offset, end)?;
        Ok(BlockSlice {
            bytes: Bytes::Mapped(Arc::clone(&self.mapped)),
            range: offset as usize..end as usize,
        })
    }

    fn verify(&mut self, offset: u64, end: u64) -> Result<(), ChecksumError> {
        let begin = match self.verified.contains(&offset) {
            true if end <= self.verified.end => return Ok(()),
            true => self.verified.end,
            false => offset / CHUNK_BYTES as u64 * CHUNK_BYTES as u64,
        };
        let length = self.mapped.block.len() as u64;
        let end =
            end.max(begin + VERIFY_STEP_BYTES).next_multiple_of(CHUNK_BYTES as u64).min(length);
        let layout = self.mapped.layout;
        let crcs = layout.crc_position(begin) as usize..layout.file_bytes(end) as usize;
        let data = &self.mapped.block[begin as usize..end as usize];
        checksum::verify(data, &self.mapped.meta[crcs])
            .map_err(|error| ChecksumError { offset: begin + error.offset })?;
        self.verified =
            if begin == self.verified.end { self.verified.start..end } else { begin..end };
        Ok(())
    }
}

impl Remote {
    fn slice(
        &mut self,
        offset: u64,
        max: usize,
        wanted: u64,
    ) -> Result<BlockSlice, TransferFailure> {
        loop {
            if let Some(packet) = &self.packet
                && (packet.header.offset..packet.header.end()).contains(&offset)
            {
                let begin = (offset - packet.header.offset) as usize;
                let end = packet.data().len().min(begin.saturating_add(max));
                let bytes = Bytes::Packet(Arc::clone(packet));
                return Ok(BlockSlice { bytes, range: begin..end });
            }
            let begin = offset / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
            if self.connection.is_none() || self.next != begin {
                self.begin(offset, wanted)?;
            }
            self.read_packet(begin)?;
        }
    }

    /// Starts a stream of packets at `offset`; cuts off a running one.
    fn begin(&mut self, offset: u64, wanted: u64) -> Result<(), TransferFailure> {
        self.connection = None;
        let mut connection = self.link.datanodes.take(&self.datanode, self.block.permit())?;
        let read = read_operation(&self.block, offset, wanted.max(READ_STEP_BYTES));
        let Reply::Reading { length } = connection.ask(&read, &self.block.token)? else {
            return Err(TransferFailure::Unexpected);
        };
        // A replica that lacks bytes still serves those it has.
        if length <= offset {
            return Err(TransferFailure::Unexpected);
        }
        self.connection = Some(connection);
        self.next = offset / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
        Ok(())
    }

    fn read_packet(&mut self, expected: u64) -> Result<(), TransferFailure> {
        let Some(mut connection) = self.connection.take() else {
            return Err(TransferFailure::Unexpected);
        };
        self.packet = None;
        let mut packet = self.link.packets.take();
        connection.read_packet(&mut packet)?;
        if packet.header.offset != expected || packet.data().is_empty() {
            return Err(TransferFailure::Unexpected);
        }
        if let Err(error) = packet.verify() {
            return Err(ChecksumError { offset: expected + error.offset }.into());
        }
        self.next = packet.header.end();
        if packet.header.last {
            self.link.datanodes.give_back(&self.datanode, connection);
        } else {
            self.connection = Some(connection);
        }
        self.packet = Some(Arc::new(packet));
        Ok(())
    }
}

/// Reads one packet of data without verifying it.
pub(super) fn read_unverified(
    link: &Link,
    block: &LocatedBlock,
    datanode: &DatanodeInfo,
    offset: u64,
) -> Result<PooledPacket, TransferFailure> {
    let mut connection = link.datanodes.take(datanode, block.permit())?;
    let read = read_operation(block, offset, PACKET_DATA_BYTES as u64 - CHUNK_BYTES as u64);
    let Reply::Reading { .. } = connection.ask(&read, &block.token)? else {
        return Err(TransferFailure::Unexpected);
    };
    let mut packet = link.packets.take();
    connection.read_packet(&mut packet)?;
    if packet.header.last {
        link.datanodes.give_back(datanode, connection);
    }
    if packet.header.offset != offset / CHUNK_BYTES as u64 * CHUNK_BYTES as u64 {
        return Err(TransferFailure::Unexpected);
    }
    Ok(packet)
}

fn read_operation(block: &LocatedBlock, offset: u64, length: u64) -> Operation {
    let (id, stamp, token) = (block.id, block.stamp, block.token.name);
    Operation::Read(ReadOperation { block: id, stamp, token, offset, length })
}

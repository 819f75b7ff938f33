//! [`DfsWriter`]: writes a file, block after block, as packets through a pipeline of DataNodes.
//!
//! The caller's thread fills packets, sends them and takes acks as they arrive; a limited number of packets waits for acks, which bounds the buffer. When a
//! member of the pipeline fails, the NameNode assigns a new generation stamp and, if it can, a replacement. A survivor sends the acknowledged bytes to the
//! replacement, and the writer sends the rest again. A member that holds up all others is replaced like one that failed, and the writer reports it to the
//! NameNode.

mod ending;
mod open_block;
mod pipeline;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use protocol::checksum::CHUNK_BYTES;
use protocol::namenode::{Create, DatanodeInfo, LocatedBlock, Publish, WrittenBlock, calls};
use protocol::transfer::PACKET_DATA_BYTES;
use protocol::{BlockId, DatanodeId, DfsPath, GenerationStamp, InodeId, RemoteError};

use self::open_block::{OpenBlock, Until};
use super::create::CreateOptions;
use super::error::DfsError;
use super::lease::{Lease, Leases};
use super::link::Link;
use super::reader::DfsReader;
use super::transfer::PooledPacket;

/// An open file that this client writes. Nothing is promised before [`DfsWriter::hflush`], [`DfsWriter::hsync`] or [`DfsWriter::close`] returns; a new file
/// dropped before that is deleted. A file with promised bytes stays: if it is dropped without `close`, a recovery closes it.
#[derive(Debug)]
pub struct DfsWriter {
    link: Arc<Link>,
    path: DfsPath,
    publish: Option<Publish>,
    file: InodeId,
    block_size: u64,
    block: Option<OpenBlock>,
    packet: Option<PooledPacket>,
    previous: Option<WrittenBlock>,
    position: u64,
    /// DataNodes that failed, and when.
    excluded: Vec<(DatanodeId, Instant)>,
    failure_count: u32,
    /// The error of the last disk that refused a replica of this file.
    refused_by_disk: Option<RemoteError>,
    open: bool,
    /// True if somebody was promised bytes.
    promised: bool,
    /// Block and stamp under which the NameNode knows that the pipeline works, and whether it knows that something is on disk.
    confirmed: Option<(BlockId, GenerationStamp, bool)>,
    /// Bytes on disk of the block being written.
    synced: u64,
    _lease: Lease,
}

impl DfsWriter {
    pub(in crate::dfs) fn create(
        link: &Arc<Link>,
        leases: &Arc<Leases>,
        path: DfsPath,
        options: CreateOptions,
    ) -> Result<Self, DfsError> {
        let create = Create {
            path: path.clone(),
            mode: options.mode,
            unmasked: options.unmasked,
            overwrite: options.overwrite,
            parents: options.parents,
            replication: options.replication,
            block_size: options.block_size,
            first_block: true,
        };
        let created = link.ask(create)?;
        let overwrite = options.publish_overwrite;
        let lease = leases.hold();
        Ok(DfsWriter {
            link: Arc::clone(link),
            path,
            publish: options.publish_as.map(|path| Publish { path, overwrite }),
            file: created.file,
            block_size: created.block_size.max(1),
            block: created.first_block.map(OpenBlock::new),
            packet: None,
            previous: None,
            position: 0,
            excluded: Vec::new(),
            failure_count: 0,
            refused_by_disk: None,
            open: true,
            promised: false,
            confirmed: None,
            synced: 0,
            _lease: lease,
        })
    }

    pub(in crate::dfs) fn append(
        link: &Arc<Link>,
        leases: &Arc<Leases>,
        path: DfsPath,
        new_block: bool,
    ) -> Result<Self, DfsError> {
        let appended = link.ask(calls::Append { path: path.clone(), new_block })?;
        let lease = leases.hold();
        let mut writer = DfsWriter {
            link: Arc::clone(link),
            path,
            publish: None,
            file: appended.file,
            block_size: appended.block_size.max(1),
            block: None,
            packet: None,
            previous: None,
            position: appended.length,
            excluded: Vec::new(),
            failure_count: 0,
            refused_by_disk: None,
            open: true,
            promised: true,
            confirmed: None,
            synced: 0,
            _lease: lease,
        };
        if let Some(located) = appended.last {
            writer.go_on_with(located, appended.prior)?;
        }
        Ok(writer)
    }

    /// The DataNodes of the block being written, in the order in which its packets reach them; none between blocks.
    pub fn pipeline(&self) -> &[DatanodeInfo] {
        self.block.as_ref().map_or(&[], |block| &block.located.replicas)
    }

    /// Starts at the end of a block that others wrote. Packets begin at chunk boundaries, so the bytes of a partial chunk are read first.
    fn go_on_with(
        &mut self,
        located: LocatedBlock,
        prior: GenerationStamp,
    ) -> Result<(), DfsError> {
        let (begin, length) = (located.offset, located.length);
        let mut tail = vec![0; (length % CHUNK_BYTES as u64) as usize];
        let chunk = length - tail.len() as u64;
        self.block = Some(OpenBlock::resumed(located, prior));
        self.synced = length;
        if tail.is_empty() {
            return Ok(());
        }
        let mut reader = DfsReader::open(&self.link, self.path.clone())?;
        if reader.read_at(begin + chunk, &mut tail)? < tail.len() {
            return Err(DfsError::Short { path: self.path.clone(), offset: begin + length });
        }
        let mut packet = self.link.packets.take();
        packet.header.offset = chunk;
        packet.append(&tail, PACKET_DATA_BYTES);
        self.packet = Some(packet);
        Ok(())
    }

    /// The path it was created at.
    pub fn path(&self) -> &DfsPath {
        &self.path
    }

    /// Bytes written so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Writes everything from `source`, read straight into packets; returns how much it was.
    ///
    /// # Errors
    /// The error of `source` or of the cluster.
    pub fn write_from(&mut self, source: &mut impl Read) -> io::Result<u64> {
        let mut total = 0;
        loop {
            let limit = self.prepare().inspect_err(|_| self.give_up())?;
            let Some(packet) = &mut self.packet else { return Err(self.closed().into()) };
            match source.read(packet.room(limit)) {
                Ok(0) => return Ok(total),
                Ok(count) => {
                    packet.advance(count);
                    total += count as u64;
                    self.filled(count, limit).inspect_err(|_| self.give_up())?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns once all DataNodes of the pipeline have everything written so far in memory, as HDFS's `hflush`.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn hflush(&mut self) -> Result<(), DfsError> {
        self.flush_all(false, false).inspect_err(|_| self.give_up())
    }

    /// Returns once all DataNodes of the pipeline have everything written so far on disk, as HDFS's `hsync`: on at least as many as the NameNode asks for.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn hsync(&mut self) -> Result<(), DfsError> {
        self.flush_all(true, false).inspect_err(|_| self.give_up())
    }

    /// As [`DfsWriter::hsync`], and also updates the file's length in listings, as HDFS's `hsync(UPDATE_LENGTH)`.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn hsync_with_length(&mut self) -> Result<(), DfsError> {
        self.flush_all(true, true).inspect_err(|_| self.give_up())
    }

    fn flush_all(&mut self, sync: bool, update_length: bool) -> Result<(), DfsError> {
        let mut is_wide = sync && self.widen()?;
        self.push_all(sync)?;
        // Members may have failed meanwhile: their replacements must sync too.
        while is_wide && self.is_short() {
            is_wide = self.widen()?;
            self.push_all(true)?;
        }
        if sync {
            self.synced = self.block.as_ref().map_or(0, |block| block.window.acked_length());
        }
        self.confirm(update_length)?;
        self.promised = true;
        Ok(())
    }

    /// Confirms to the NameNode that every member has the acknowledged bytes, and how many of them are on disk. It does so the first time under each stamp,
    /// since replicas with older stamps lack something from then on; the first time that something is on disk; and whenever the length must become visible.
    /// Bytes that are only in the memory of DataNodes can be lost with their power, so their length is never reported.
    fn confirm(&mut self, update_length: bool) -> Result<(), DfsError> {
        let (id, stamp, acked, synced) = match (&self.block, &self.previous) {
            (Some(OpenBlock { located, window, .. }), _) => {
                (located.id, located.stamp, window.acked_length(), self.synced)
            }
            (None, Some(previous)) => {
                (previous.id, previous.stamp, previous.length, previous.length)
            }
            (None, None) => return Ok(()),
        };
        let told = (id, stamp, synced > 0);
        if acked == 0 || (self.confirmed == Some(told) && !update_length) {
            return Ok(());
        }
        self.link.ask(calls::SyncBlock { file: self.file, block: id, stamp, length: synced })?;
        self.confirmed = Some(told);
        Ok(())
    }

    /// Ends the file: when this returns, the file is complete, on disk on as many DataNodes as the NameNode asks for, and published.
    ///
    /// # Errors
    /// [`DfsError`]; the file is then deleted, or recovered if bytes of it were promised.
    pub fn close(mut self) -> Result<(), DfsError> {
        self.check_open()?;
        self.finish_block()?;
        let last = self.previous.clone();
        let publish = self.publish.take();
        self.link
            .ask_patiently(calls::Complete { file: self.file, last, publish })
            .map_err(|error| self.explain(error))?;
        self.open = false;
        Ok(())
    }

    /// Makes sure that there is a packet with room; returns how much data it can hold.
    fn prepare(&mut self) -> Result<usize, DfsError> {
        self.check_open()?;
        if self.block.is_none() {
            let previous = self.previous.clone();
            let exclude = self.exclude();
            let add = calls::AddBlock { file: self.file, previous, exclude };
            let located = self.link.ask(add).map_err(|error| self.explain(error))?;
            self.block = Some(OpenBlock::new(located));
            self.synced = 0;
        }
        let begin = self.block.as_ref().map_or(0, |block| block.length);
        let packet = self.packet.get_or_insert_with(|| {
            let mut packet = self.link.packets.take();
            packet.header.offset = begin;
            packet
        });
        let rest_of_block = self.block_size - packet.header.offset;
        Ok(PACKET_DATA_BYTES.min(usize::try_from(rest_of_block).unwrap_or(PACKET_DATA_BYTES)))
    }

    /// Notes that data was added to the packet; sends it if it is full.
    fn filled(&mut self, count: usize, limit: usize) -> Result<(), DfsError> {
        self.position += count as u64;
        let Some(packet) = &self.packet else { return Ok(()) };
        if packet.header.end() >= self.block_size {
            return self.finish_block();
        }
        if packet.header.data_bytes as usize == limit {
            self.push_packet(false, false)?;
            return self.transmit(Until::Sent);
        }
        Ok(())
    }

    fn push_packet(&mut self, last: bool, sync: bool) -> Result<(), DfsError> {
        let (Some(block), Some(mut packet)) = (&mut self.block, self.packet.take()) else {
            return Ok(());
        };
        packet.header.last = last;
        packet.header.sync = sync;
        packet.seal();
        block.length = packet.header.end();
        block.window.push(packet);
        Ok(())
    }

    fn push_all(&mut self, sync: bool) -> Result<(), DfsError> {
        self.check_open()?;
        let Some(block) = &self.block else { return Ok(()) };
        if self.packet.is_none() && !sync {
            return self.transmit(Until::Acked);
        }
        if self.packet.is_none() {
            if block.length == 0 {
                return Ok(());
            }
            self.prepare()?;
        }
        // The last partial chunk is sent again with the data that follows, because packets begin at chunk boundaries.
        let begun = self.packet.as_ref().map(|packet| {
            let data = packet.data();
            let whole = data.len() / CHUNK_BYTES * CHUNK_BYTES;
            (packet.header.offset + whole as u64, data[whole..].to_vec())
        });
        self.push_packet(false, sync)?;
        self.transmit(Until::Acked)?;
        if let Some((offset, bytes)) = begun
            && !bytes.is_empty()
        {
            let mut packet = self.link.packets.take();
            packet.header.offset = offset;
            packet.append(&bytes, PACKET_DATA_BYTES);
            self.packet = Some(packet);
        }
        Ok(())
    }

    /// Ends the block: its last packet is acknowledged by all when this returns.
    fn finish_block(&mut self) -> Result<(), DfsError> {
        let Some(block) = &self.block else { return Ok(()) };
        let has_data = self.packet.as_ref().is_some_and(|packet| packet.header.data_bytes > 0);
        if block.length == 0 && !has_data {
            // Nothing was written. If it is the only block, the NameNode drops it when the file is completed.
            let block = block.located.id;
            self.block = None;
            return match &self.previous {
                Some(_) => self.link.ask(calls::AbandonBlock { file: self.file, block }),
                None => Ok(()),
            };
        }
        self.widen()?;
        if self.packet.is_none() {
            self.prepare()?;
        }
        self.push_packet(true, false)?;
        self.transmit(Until::Acked)?;
        let Some(mut block) = self.block.take() else { return Ok(()) };
        let replicas = &block.located.replicas;
        self.previous = Some(WrittenBlock {
            id: block.located.id,
            stamp: block.located.stamp,
            length: block.length,
            replicas: replicas.iter().map(|replica| replica.id).collect(),
            durable_count: block.durable(),
        });
        if let (Some(connection), Some(first)) = (block.connection.take(), replicas.first()) {
            self.link.datanodes.give_back(first, connection);
        }
        Ok(())
    }

    fn check_open(&self) -> Result<(), DfsError> {
        if self.open { Ok(()) } else { Err(self.closed()) }
    }

    fn closed(&self) -> DfsError {
        DfsError::Closed { path: self.path.clone() }
    }
}

impl Write for DfsWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        // A file that cannot go on must not be closed as if it were whole: any failure gives it up.
        let limit = self.prepare().inspect_err(|_| self.give_up())?;
        let Some(packet) = &mut self.packet else { return Err(self.closed().into()) };
        let count = packet.append(bytes, limit);
        self.filled(count, limit).inspect_err(|_| self.give_up())?;
        Ok(count)
    }

    /// Does nothing: see [`DfsWriter::hflush`] for visibility to readers, [`DfsWriter::close`] for durability.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for DfsWriter {
    fn drop(&mut self) {
        self.give_up();
    }
}

//! [`DfsWriter`]: writes a file, block after block, as packets through a pipeline of DataNodes.
//!
//! The caller's thread fills packets, sends them and takes acks as they come; at most [`PACKETS_IN_FLIGHT_MAX`] packets wait for
//! acks, which bounds the buffer. When a member of the pipeline fails, the NameNode gives a new generation stamp and, if it can, a
//! replacement; the replacement gets what is acknowledged from a survivor, and what is not acknowledged is sent again.

use std::io::{self, Read, Write};
use std::time::Duration;

use protocol::checksum::CHUNK_BYTES;
use protocol::frame;
use protocol::namenode::{Call, Create, DatanodeInfo, LocatedBlock, Publish, Reply, WrittenBlock};
use protocol::transfer::{
    Operation, PACKET_DATA_BYTES, PacketHeader, Reply as TransferReply, Resume, Status,
    Write as WriteOperation,
};
use protocol::{BlockId, DatanodeId, DfsPath, ErrorKind, GenerationStamp, InodeId, RemoteError};

use super::client::{CreateOptions, DfsClient};
use super::error::DfsError;
use super::lease::Lease;
use super::transfer::{Connection, PooledPacket, TransferFailure};
use super::window::{Acked, Slot, Window};
use crate::rpc::CallOptions;

/// Packets sent ahead of their acks: the client's buffer is this many MiB, enough to keep three hops busy.
const PACKETS_IN_FLIGHT_MAX: usize = 8;
/// Failures of a pipeline in a row, without any progress, after which the file is given up.
const FAILURES_MAX: u32 = 8;
/// Pause before a block is tried again on DataNodes that all have failed; jittered.
const FAILED_ALL_PAUSE: Duration = Duration::from_millis(500);
/// Tries at finding more members for a pipeline that is too short for what the NameNode asks to be on disk, with
/// [`FAILED_ALL_PAUSE`] between them: DataNodes that restart are back by then.
const WIDEN_TRIES: u32 = 20;
/// Time to delete a file that was not closed.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(5);

/// An open file that this client writes. Nothing is promised before [`DfsWriter::hflush`], [`DfsWriter::hsync`] or
/// [`DfsWriter::close`] returns; dropped before, a new file is deleted. A file with promised bytes stays: dropped without `close`,
/// it is closed by a recovery.
#[derive(Debug)]
pub struct DfsWriter {
    client: DfsClient,
    path: DfsPath,
    publish: Option<Publish>,
    file: InodeId,
    block_size: u64,
    block: Option<OpenBlock>,
    packet: Option<PooledPacket>,
    previous: Option<WrittenBlock>,
    position: u64,
    exclude: Vec<DatanodeId>,
    failure_count: u32,
    open: bool,
    /// There are bytes that somebody was promised.
    promised: bool,
    /// Block and stamp under which the NameNode knows that the pipeline works.
    confirmed: Option<(BlockId, GenerationStamp)>,
    _lease: Lease,
}

/// The block that is being written.
#[derive(Debug)]
struct OpenBlock {
    located: LocatedBlock,
    /// Stamp under which the acknowledged bytes were acknowledged.
    prior: GenerationStamp,
    resume: Option<Resume>,
    connection: Option<Connection>,
    answered: bool,
    window: Window<PooledPacket>,
    /// Bytes handed to the window.
    length: u64,
}

/// A member of the pipeline that failed.
#[derive(Debug)]
struct Failure {
    member: usize,
    cause: TransferFailure,
}

/// How long to go on with sending and waiting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Everything is sent; acks may be missing.
    Sent,
    /// Everything is acknowledged.
    Acked,
}

impl Slot for PooledPacket {
    fn header(&self) -> &PacketHeader {
        &self.header
    }

    fn header_mut(&mut self) -> &mut PacketHeader {
        &mut self.header
    }
}

impl DfsWriter {
    pub(super) fn create(
        client: DfsClient,
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
        let created = client.create_file(create)?;
        let overwrite = options.publish_overwrite;
        let lease = Lease::hold(&client.inner);
        Ok(DfsWriter {
            client,
            path,
            publish: options.publish_as.map(|path| Publish { path, overwrite }),
            file: created.file,
            block_size: created.block_size.max(1),
            block: created.first_block.map(OpenBlock::new),
            packet: None,
            previous: None,
            position: 0,
            exclude: Vec::new(),
            failure_count: 0,
            open: true,
            promised: false,
            confirmed: None,
            _lease: lease,
        })
    }

    pub(super) fn append(
        client: DfsClient,
        path: DfsPath,
        new_block: bool,
    ) -> Result<Self, DfsError> {
        let appended = client.append_file(&path, new_block)?;
        let lease = Lease::hold(&client.inner);
        let mut writer = DfsWriter {
            client,
            path,
            publish: None,
            file: appended.file,
            block_size: appended.block_size.max(1),
            block: None,
            packet: None,
            previous: None,
            position: appended.length,
            exclude: Vec::new(),
            failure_count: 0,
            open: true,
            promised: true,
            confirmed: None,
            _lease: lease,
        };
        if let Some(located) = appended.last {
            writer.go_on_with(located, appended.prior)?;
        }
        Ok(writer)
    }

    /// Begins at the end of a block that others wrote. Packets begin at chunks, so the bytes of a partial one are read first.
    fn go_on_with(
        &mut self,
        located: LocatedBlock,
        prior: GenerationStamp,
    ) -> Result<(), DfsError> {
        let (begin, length) = (located.offset, located.length);
        let mut tail = vec![0; (length % CHUNK_BYTES as u64) as usize];
        let chunk = length - tail.len() as u64;
        self.block = Some(OpenBlock::resumed(located, prior));
        if tail.is_empty() {
            return Ok(());
        }
        let mut reader = self.client.open(&self.path)?;
        if reader.read_at(begin + chunk, &mut tail)? < tail.len() {
            return Err(DfsError::Short { path: self.path.clone(), offset: begin + length });
        }
        let mut packet = self.client.inner.packets.take();
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

    /// Writes everything that `source` gives, read straight into packets; returns how much it was.
    ///
    /// # Errors
    /// What `source` or the cluster says.
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

    /// Returns once all DataNodes of the pipeline have everything written so far on disk, as HDFS's `hsync`: on as many as the
    /// NameNode asks for at least.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn hsync(&mut self) -> Result<(), DfsError> {
        self.flush_all(true, false).inspect_err(|_| self.give_up())
    }

    /// As [`DfsWriter::hsync`], and the file's length in listings is up to date, as HDFS's `hsync(UPDATE_LENGTH)`.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn hsync_with_length(&mut self) -> Result<(), DfsError> {
        self.flush_all(true, true).inspect_err(|_| self.give_up())
    }

    fn flush_all(&mut self, sync: bool, update_length: bool) -> Result<(), DfsError> {
        if sync {
            self.widen()?;
        }
        self.push_all(sync)?;
        self.confirm(update_length)?;
        self.promised = true;
        Ok(())
    }

    /// Tells the NameNode how much of the block is with everybody: the first time under each stamp, since from then on
    /// replicas with older stamps lack what was promised, or whenever the length shall be seen.
    fn confirm(&mut self, update_length: bool) -> Result<(), DfsError> {
        let (id, stamp, length) = match (&self.block, &self.previous) {
            (Some(block), _) => {
                (block.located.id, block.located.stamp, block.window.acked_length())
            }
            (None, Some(previous)) => (previous.id, previous.stamp, previous.length),
            (None, None) => return Ok(()),
        };
        if length == 0 || (self.confirmed == Some((id, stamp)) && !update_length) {
            return Ok(());
        }
        self.client.done(Call::SyncBlock { file: self.file, block: id, stamp, length })?;
        self.confirmed = Some((id, stamp));
        Ok(())
    }

    /// Ends the file: when this returns, it is complete, on disk on as many DataNodes as the NameNode asks for, and published.
    ///
    /// # Errors
    /// [`DfsError`]; the file is then deleted, or recovered if bytes of it were promised.
    pub fn close(mut self) -> Result<(), DfsError> {
        self.check_open()?;
        self.finish_block()?;
        let last = self.previous.take();
        let publish = self.publish.take();
        self.client.done_patiently(Call::Complete { file: self.file, last, publish })?;
        self.open = false;
        Ok(())
    }

    /// Makes sure that there is a packet with room; returns how much data it may hold.
    fn prepare(&mut self) -> Result<usize, DfsError> {
        self.check_open()?;
        if self.block.is_none() {
            let previous = self.previous.clone();
            let exclude = self.exclude.clone();
            let located =
                self.client.block(Call::AddBlock { file: self.file, previous, exclude })?;
            self.block = Some(OpenBlock::new(located));
        }
        let begin = self.block.as_ref().map_or(0, |block| block.length);
        let packet = self.packet.get_or_insert_with(|| {
            let mut packet = self.client.inner.packets.take();
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
        // The chunk that is begun goes out again with what follows, because packets begin at chunks.
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
            let mut packet = self.client.inner.packets.take();
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
            // Nothing was written. An only block is dropped by the NameNode when the file is completed.
            let block = block.located.id;
            self.block = None;
            return match &self.previous {
                Some(_) => self.client.done(Call::AbandonBlock { file: self.file, block }),
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
            self.client.inner.datanodes.give_back(first, connection);
        }
        Ok(())
    }

    /// Failures may have left fewer members than must have the block on disk: asks for more before the block ends. If there are
    /// none, the NameNode decides at the end.
    fn widen(&mut self) -> Result<(), DfsError> {
        for _ in 0..WIDEN_TRIES {
            let Some(block) = &self.block else { return Ok(()) };
            if block.located.replicas.len() >= usize::from(block.located.durable_min) {
                return Ok(());
            }
            self.transmit(Until::Acked)?;
            let acked = self.block.as_ref().map_or(0, |block| block.window.acked_length());
            self.exclude.clear();
            if acked == 0 {
                self.replace_block(TransferFailure::Unexpected)?;
            } else if let Err(failure) = self.recover_pipeline(None, TransferFailure::Unexpected)? {
                self.rebuild(failure)?;
            }
            std::thread::sleep(FAILED_ALL_PAUSE.mul_f64(rand::random_range(0.5..1.0)));
        }
        Ok(())
    }

    /// Sends and waits, rebuilding the pipeline as often as it takes.
    fn transmit(&mut self, until: Until) -> Result<(), DfsError> {
        loop {
            let Some(block) = &mut self.block else { return Ok(()) };
            let acked_before = block.window.acked_length();
            let result = block.transmit(&self.client, until);
            if block.window.acked_length() > acked_before {
                self.failure_count = 0;
            }
            match result {
                Ok(()) => return Ok(()),
                Err(failure) => self.rebuild(failure)?,
            }
        }
    }

    /// Gets a new pipeline after a failure, and again if that fails on the way.
    fn rebuild(&mut self, mut failure: Failure) -> Result<(), DfsError> {
        loop {
            let Some(block) = &mut self.block else { return Ok(()) };
            block.connection = None;
            let failed = block.located.replicas.get(failure.member).cloned();
            let id = failed.as_ref().map(|datanode| datanode.id);
            tracing::warn!(
                block = %block.located.id,
                datanode = id.map(|id| id.to_string()).unwrap_or_default(),
                cause = %crate::error::chain(&failure.cause),
                "a DataNode of the pipeline failed"
            );
            self.failure_count += 1;
            if self.failure_count > FAILURES_MAX {
                let (path, block) = (self.path.clone(), block.located.id);
                return Err(DfsError::Write { path, block, failure: Some(failure.cause) });
            }
            self.exclude.extend(id);
            let result = if block.window.acked_length() == 0 {
                self.replace_block(failure.cause)?;
                Ok(())
            } else {
                self.recover_pipeline(failed, failure.cause)?
            };
            match result {
                Ok(()) => return Ok(()),
                Err(next) => failure = next,
            }
        }
    }

    /// Nothing is acknowledged: a new block elsewhere is simpler than a recovery.
    fn replace_block(&mut self, cause: TransferFailure) -> Result<(), DfsError> {
        let Some(block) = &mut self.block else { return Ok(()) };
        let old = block.located.id;
        self.client.done(Call::AbandonBlock { file: self.file, block: old })?;
        let add = |exclude: &[DatanodeId]| Call::AddBlock {
            file: self.file,
            previous: self.previous.clone(),
            exclude: exclude.to_vec(),
        };
        let located = match self.client.block(add(&self.exclude)) {
            Err(error) if error.kind() == Some(ErrorKind::NoDatanodes) => {
                // All have failed once. One that was merely restarted is better than none.
                std::thread::sleep(FAILED_ALL_PAUSE.mul_f64(rand::random_range(0.5..1.0)));
                self.exclude.clear();
                match self.client.block(add(&[])) {
                    Err(error) if error.kind() == Some(ErrorKind::NoDatanodes) => {
                        let path = self.path.clone();
                        return Err(DfsError::Write { path, block: old, failure: Some(cause) });
                    }
                    located => located?,
                }
            }
            located => located?,
        };
        block.move_to(located);
        block.resume = None;
        block.prior = block.located.stamp;
        Ok(())
    }

    /// A new stamp for the survivors, and a replacement that gets what is acknowledged. The inner result tells who failed
    /// while this was tried.
    fn recover_pipeline(
        &mut self,
        failed: Option<DatanodeInfo>,
        cause: TransferFailure,
    ) -> Result<Result<(), Failure>, DfsError> {
        let Some(block) = &mut self.block else { return Ok(Ok(())) };
        let failed_id = failed.map(|datanode| datanode.id);
        let survivors: Vec<DatanodeInfo> = block
            .located
            .replicas
            .iter()
            .filter(|replica| Some(replica.id) != failed_id)
            .cloned()
            .collect();
        if survivors.is_empty() {
            let (path, block) = (self.path.clone(), block.located.id);
            return Err(DfsError::Write { path, block, failure: Some(cause) });
        }
        let acked = block.window.acked_length();
        let written = WrittenBlock {
            id: block.located.id,
            stamp: block.located.stamp,
            length: acked,
            replicas: survivors.iter().map(|replica| replica.id).collect(),
            durable_count: 0,
        };
        // Whoever failed before is no replacement either.
        let is_survivor = |id: &DatanodeId| survivors.iter().any(|survivor| survivor.id == *id);
        let all = self.exclude.iter().copied().chain(failed_id);
        let failed = all.filter(|id| !is_survivor(id)).collect();
        let located =
            self.client.block(Call::RecoverPipeline { file: self.file, block: written, failed })?;
        block.move_to(located);
        block.resume = Some(Resume { prior: block.prior, offset: acked });
        Ok(block.fill_replacements(&self.client, &survivors, acked))
    }

    fn check_open(&self) -> Result<(), DfsError> {
        if self.open { Ok(()) } else { Err(self.closed()) }
    }

    fn closed(&self) -> DfsError {
        DfsError::Closed { path: self.path.clone() }
    }

    /// Has the NameNode close the file at what is with everybody, instead of after the lease.
    fn recover_own(&self) -> Result<(), DfsError> {
        let once = CallOptions::once(ABANDON_TIMEOUT);
        let path = self.path.clone();
        match self.client.call_with(Call::Status(path.clone()), once)? {
            Reply::Status(status) if status.open && status.inode == self.file => {
                self.client.call_with(Call::RecoverLease(path), once).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Deletes the half-written file, or has it recovered; best effort.
    fn give_up(&mut self) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        self.block = None;
        let ended = if self.promised { self.recover_own() } else { self.delete_own() };
        if let Err(error) = ended {
            let error = crate::error::chain(&error);
            tracing::warn!(path = %self.path, %error, "cannot end a file that was not closed");
        }
    }

    /// Deletes what is at the path if it is still this writer's open file: after a lost lease, a rename or an overwrite it is
    /// not.
    fn delete_own(&self) -> Result<(), DfsError> {
        let once = CallOptions::once(ABANDON_TIMEOUT);
        let path = self.path.clone();
        match self.client.call_with(Call::Status(path.clone()), once) {
            Ok(Reply::Status(status)) if status.open && status.inode == self.file => {
                let delete = Call::Delete { path, recursive: false };
                self.client.call_with(delete, once).map(drop)
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
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

    /// Does nothing: see [`DfsWriter::hflush`] for what readers may see, [`DfsWriter::close`] for what is durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for DfsWriter {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl OpenBlock {
    fn new(located: LocatedBlock) -> Self {
        OpenBlock {
            prior: located.stamp,
            located,
            resume: None,
            connection: None,
            answered: false,
            window: Window::new(),
            length: 0,
        }
    }

    /// A block of which the members have a part under the stamp `prior`.
    fn resumed(located: LocatedBlock, prior: GenerationStamp) -> Self {
        let length = located.length;
        OpenBlock {
            prior,
            resume: Some(Resume { prior, offset: length }),
            window: Window::resumed(length),
            length,
            ..OpenBlock::new(located)
        }
    }

    /// How many members sync before they acknowledge the last packet.
    fn durable(&self) -> u16 {
        let members = u16::try_from(self.located.replicas.len()).unwrap_or(u16::MAX);
        self.located.durable_min.min(members)
    }

    fn move_to(&mut self, located: LocatedBlock) {
        self.located = located;
        self.connection = None;
        self.window.restart();
    }

    fn transmit(&mut self, client: &DfsClient, until: Until) -> Result<(), Failure> {
        let first = |cause| Failure { member: 0, cause };
        let mut before = Vec::new();
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let Some(datanode) = self.located.replicas.first() else {
                    return Err(first(TransferFailure::Unexpected));
                };
                before = self.operation(client);
                self.answered = false;
                client.inner.datanodes.take(datanode).map_err(first)?
            }
        };
        loop {
            while self.window.in_flight() > 0 && connection.is_readable() {
                self.read_ack(&mut connection)?;
            }
            if self.window.in_flight() < PACKETS_IN_FLIGHT_MAX
                && let Some(packet) = self.window.next_unsent()
            {
                if let Err(cause) = connection.send_packet(&before, packet) {
                    return Err(self.last_words(&mut connection).unwrap_or_else(|| first(cause)));
                }
                before = Vec::new();
                continue;
            }
            let done = match until {
                Until::Sent => self.window.in_flight() < PACKETS_IN_FLIGHT_MAX,
                Until::Acked => self.window.is_empty(),
            };
            if done {
                // An operation that was not sent yet begins anew with the first packet.
                self.connection = before.is_empty().then_some(connection);
                return Ok(());
            }
            self.read_ack(&mut connection)?;
        }
    }

    fn operation(&self, client: &DfsClient) -> Vec<u8> {
        frame::encode(&Operation::Write(WriteOperation {
            block: self.located.id,
            stamp: self.located.stamp,
            token: self.located.token.clone(),
            client: client.id(),
            resume: self.resume,
            prefix_only: false,
            pipeline: self.located.replicas.get(1..).unwrap_or_default().to_vec(),
            durable: self.durable(),
        }))
    }

    fn read_ack(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let first = |cause| Failure { member: 0, cause };
        if !self.answered {
            match connection.read_answer().map_err(first)? {
                TransferReply::Writing => self.answered = true,
                _ => return Err(first(TransferFailure::Unexpected)),
            }
        }
        let ack = connection.read_ack().map_err(first)?;
        match self.window.on_ack(&ack, self.located.replicas.len()) {
            Acked::Packet(_) => {
                self.prior = self.located.stamp;
                Ok(())
            }
            Acked::Failed { member, status } => {
                Err(Failure { member, cause: TransferFailure::Remote(refusal(status)) })
            }
            Acked::Nonsense => Err(first(TransferFailure::Unexpected)),
        }
    }

    /// What the pipeline said before it broke.
    fn last_words(&mut self, connection: &mut Connection) -> Option<Failure> {
        while self.window.in_flight() > 0 {
            if let Err(failure) = self.read_ack(connection) {
                let told = matches!(failure.cause, TransferFailure::Remote(_));
                return told.then_some(failure);
            }
        }
        None
    }

    /// Has a survivor copy what is acknowledged to the members that are new.
    fn fill_replacements(
        &self,
        client: &DfsClient,
        survivors: &[DatanodeInfo],
        acked: u64,
    ) -> Result<(), Failure> {
        let is_survivor =
            |replica: &DatanodeInfo| survivors.iter().any(|survivor| survivor.id == replica.id);
        let position = self.located.replicas.iter().position(is_survivor);
        let Some((source, survivor)) =
            position.and_then(|at| Some((at, self.located.replicas.get(at)?)))
        else {
            return Err(Failure { member: 0, cause: TransferFailure::Unexpected });
        };
        for (member, target) in self.located.replicas.iter().enumerate() {
            if is_survivor(target) {
                continue;
            }
            let transfer = Operation::Transfer {
                block: self.located.id,
                prior: self.prior,
                stamp: self.located.stamp,
                length: acked,
                target: target.clone(),
                token: self.located.token.clone(),
            };
            let datanodes = &client.inner.datanodes;
            let mut connection =
                datanodes.take(survivor).map_err(|cause| Failure { member: source, cause })?;
            match connection.ask(&transfer) {
                Ok(TransferReply::Done) => datanodes.give_back(survivor, connection),
                Ok(_) => {
                    return Err(Failure { member: source, cause: TransferFailure::Unexpected });
                }
                Err(cause @ TransferFailure::Remote(_)) => return Err(Failure { member, cause }),
                Err(cause) => return Err(Failure { member: source, cause }),
            }
        }
        Ok(())
    }
}

fn refusal(status: Status) -> RemoteError {
    let (kind, text) = match status {
        Status::Success | Status::Failed => (ErrorKind::Storage, "it cannot write"),
        Status::Checksum => (ErrorKind::Storage, "it received damaged data"),
        Status::Unreachable => (ErrorKind::Unavailable, "it cannot be reached"),
        Status::Busy => (ErrorKind::Unavailable, "it has too many transfers"),
        Status::Refused => (ErrorKind::InvalidArgument, "it refused the write"),
        Status::Full => {
            (ErrorKind::Storage, "its disks are full: delete files, or add disks or datanodes")
        }
    };
    RemoteError::new(kind, text)
}

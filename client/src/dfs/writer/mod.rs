//! [`DfsWriter`]: writes a file. [`flow::writer`] decides what is done; the caller's thread does it, on real connections.
//!
//! The caller's thread fills packets, sends them and takes acks as they arrive.

mod sockets;
mod together;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use transport::{Pipe, TransferFailure};

use super::reader::DfsReader;
use flow::creation;
use flow::error::WriteError;
use flow::writer::{File, Filled, Goal, Patience, Step, Writer};
use protocol::checksum::CHUNK_BYTES;
use protocol::namenode::{
    Answer, Body, Create, Created, DatanodeInfo, LocatedBlock, Publish, calls,
};
use protocol::transfer::{Ack, Operation, Reply as TransferReply};
use protocol::{BlockId, DatanodeId, DfsPath, InodeId};
use transport::rpc::CallOptions;

use self::sockets::Sockets;
pub(in crate::dfs) use self::together::write_together;
pub use self::together::{SMALL_FILE_BYTES_MAX, SMALL_FILES_MAX, SmallFile};
use super::create::{CreateOptions, Parents};
use super::error::{DfsError, MemberFailure};
use super::lease::{Lease, Leases};
use super::link::Link;
use transport::RpcError;

/// An open file that this client writes. Nothing is promised before [`DfsWriter::hflush`], [`DfsWriter::hsync`] or [`DfsWriter::close`] returns; a new file
/// dropped before that is deleted. A file with promised bytes stays: if it is dropped without `close`, a recovery closes it.
#[derive(Debug)]
pub struct DfsWriter {
    link: Arc<Link>,
    flow: Writer<Sockets>,
    pipe: Option<Pipe>,
    _lease: Lease,
}

impl DfsWriter {
    pub(in crate::dfs) fn create(
        link: &Arc<Link>,
        leases: &Arc<Leases>,
        path: DfsPath,
        options: CreateOptions,
    ) -> Result<Self, DfsError> {
        let create = create_of(&path, &options);
        let created = match &options.parents {
            Parents::Below(root) => create_below(link, root, create)?,
            Parents::None | Parents::All => link.ask(create)?,
        };
        Ok(DfsWriter::begin(link, leases, path, options, created))
    }

    /// The writer of a file that was created.
    fn begin(
        link: &Arc<Link>,
        leases: &Arc<Leases>,
        path: DfsPath,
        options: CreateOptions,
        created: Created,
    ) -> Self {
        let overwrite = options.publish_overwrite;
        let file = File {
            path,
            inode: created.file,
            block_size: created.block_size.max(1),
            publish: options.publish_as.map(|path| Publish { path, overwrite }),
        };
        let flow = Writer::create(sockets(link), link.id, file, created.first_block);
        DfsWriter { link: Arc::clone(link), flow, pipe: None, _lease: leases.hold() }
    }

    pub(in crate::dfs) fn append(
        link: &Arc<Link>,
        leases: &Arc<Leases>,
        path: DfsPath,
        new_block: bool,
    ) -> Result<Self, DfsError> {
        let appended = link.ask(calls::Append { path: path.clone(), new_block })?;
        let last = appended.last.as_ref().map(|located| (located.offset, located.length));
        let flow = Writer::append(sockets(link), link.id, path, appended);
        let lease = leases.hold();
        let mut writer = DfsWriter { link: Arc::clone(link), flow, pipe: None, _lease: lease };
        if let Some((begin, length)) = last {
            writer.go_on_at(begin, length)?;
        }
        Ok(writer)
    }

    /// Starts at the end of a block that others wrote. Packets begin at chunk boundaries, so the bytes of a partial chunk are read first.
    fn go_on_at(&mut self, begin: u64, length: u64) -> Result<(), DfsError> {
        let mut tail = vec![0; (length % CHUNK_BYTES as u64) as usize];
        let chunk = length - tail.len() as u64;
        if tail.is_empty() {
            return Ok(());
        }
        let path = self.flow.path();
        let mut reader = DfsReader::open(&self.link, path.clone())?;
        if reader.read_at(begin + chunk, &mut tail)? < tail.len() {
            return Err(DfsError::Short { path: path.clone(), offset: begin + length });
        }
        self.flow.begin_at(chunk, &tail);
        Ok(())
    }

    /// The DataNodes of the block being written, in the order in which its packets reach them; none between blocks.
    pub fn pipeline(&self) -> &[DatanodeInfo] {
        self.flow.pipeline()
    }

    /// The path it was created at.
    pub fn path(&self) -> &DfsPath {
        self.flow.path()
    }

    /// The file.
    pub fn inode(&self) -> InodeId {
        self.flow.inode()
    }

    /// Bytes written so far.
    pub fn position(&self) -> u64 {
        self.flow.position()
    }

    /// Writes everything from `source`, read straight into packets; returns how much it was.
    ///
    /// # Errors
    /// The error of `source` or of the cluster.
    pub fn write_from(&mut self, source: &mut impl Read) -> io::Result<u64> {
        let mut total = 0;
        loop {
            self.prepare()?;
            let (packet, limit) = self.flow.packet();
            match source.read(packet.room(limit)) {
                Ok(0) => return Ok(total),
                Ok(count) => {
                    packet.advance(count);
                    total += count as u64;
                    self.added(count, limit)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds bytes.
    fn write_bytes(&mut self, mut bytes: &[u8]) -> Result<(), DfsError> {
        while !bytes.is_empty() {
            let count = self.add(bytes)?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Adds as many bytes as the packet has room for.
    fn add(&mut self, bytes: &[u8]) -> Result<usize, DfsError> {
        self.prepare()?;
        let (packet, limit) = self.flow.packet();
        let count = packet.append(bytes, limit);
        self.added(count, limit)?;
        Ok(count)
    }

    /// Returns once all DataNodes of the pipeline have everything written so far in memory, as HDFS's `hflush`.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn hflush(&mut self) -> Result<(), DfsError> {
        self.reach(Goal::Flush { sync: false, update_length: false })
    }

    /// Returns once all DataNodes of the pipeline have everything written so far on disk, as HDFS's `hsync`: on at least as many as the NameNode asks for.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn hsync(&mut self) -> Result<(), DfsError> {
        self.reach(Goal::Flush { sync: true, update_length: false })
    }

    /// As [`DfsWriter::hsync`], and also updates the file's length in listings, as HDFS's `hsync(UPDATE_LENGTH)`.
    ///
    /// # Errors
    /// [`DfsError`].
    pub fn hsync_with_length(&mut self) -> Result<(), DfsError> {
        self.reach(Goal::Flush { sync: true, update_length: true })
    }

    /// Ends the file: when this returns, the file is complete, on disk on as many DataNodes as the NameNode asks for, and published.
    ///
    /// # Errors
    /// [`DfsError`]; the file is then deleted, or recovered if bytes of it were promised.
    pub fn close(mut self) -> Result<(), DfsError> {
        self.run(Goal::Close)
    }

    /// Makes sure that data can be added.
    fn prepare(&mut self) -> Result<(), DfsError> {
        if self.flow.needs_block() { self.reach(Goal::Block) } else { Ok(()) }
    }

    /// Notes that data was added to the packet; sends it if it is full.
    fn added(&mut self, count: usize, limit: usize) -> Result<(), DfsError> {
        self.flow.added(count, limit).map_or(Ok(()), |goal| self.reach(goal))
    }

    /// A file that cannot go on must not be closed as if it were whole: any failure gives it up.
    fn reach(&mut self, goal: Goal) -> Result<(), DfsError> {
        self.run(goal).inspect_err(|_| self.give_up())
    }

    /// Deletes the half-written file, or has it recovered; best effort.
    fn give_up(&mut self) {
        if let Err(error) = self.run(Goal::GiveUp) {
            let (path, error) = (self.flow.path(), protocol::error::chain(&error));
            tracing::warn!(%path, %error, "cannot end a file that was not closed");
        }
    }

    /// Does what the machine says until the goal is reached.
    fn run(&mut self, goal: Goal) -> Result<(), DfsError> {
        self.flow.begin(goal);
        self.go_on()
    }

    /// Does what the machine says until the goal that it has is reached.
    fn go_on(&mut self) -> Result<(), DfsError> {
        loop {
            let DfsWriter { link, flow, pipe, .. } = self;
            match flow.next_step(Instant::now()) {
                Step::Call(call, patience) => {
                    let options = match patience {
                        Patience::Usual => link.options,
                        Patience::Once(timeout) => CallOptions::once(timeout),
                    };
                    let answer = link.call_with(call, options);
                    flow.answered(answer, Instant::now());
                }
                Step::Open { first, block, write } => {
                    let opened = Pipe::open(&link.datanodes, first, &block.token, write);
                    let opened = opened.map(|opened| *pipe = Some(opened));
                    flow.opened(opened.map_err(MemberFailure::from));
                }
                Step::Send(packet) => {
                    let sent = connected(pipe).and_then(|pipe| pipe.send(packet));
                    flow.sent(sent.map_err(MemberFailure::from));
                }
                Step::TakeAck { waits } => {
                    let acked = connected(pipe).and_then(|pipe| take_ack(pipe, waits));
                    flow.acked(acked.map_err(MemberFailure::from));
                }
                Step::Fill { survivor, block, operation } => {
                    let filled = fill(link, survivor, block, &operation);
                    flow.filled(filled);
                }
                Step::Pause(pause) => {
                    std::thread::sleep(pause.mul_f64(rand::random_range(0.5..1.0)));
                    flow.paused();
                }
                Step::Report { block, datanode, fault } => report(block, datanode, fault),
                Step::HangUp => *pipe = None,
                Step::GiveBack(first) => {
                    if let Some(pipe) = pipe.take() {
                        link.datanodes.give_back(&first, pipe.into_connection());
                    }
                }
                Step::Done(ended) => return ended.map_err(|error| self.error(error)),
            }
        }
    }

    fn error(&self, error: WriteError<DfsError, MemberFailure>) -> DfsError {
        let path = || self.flow.path().clone();
        match error {
            WriteError::Closed => DfsError::Closed { path: path() },
            WriteError::Call(error) => error,
            WriteError::Unexpected => DfsError::Unexpected,
            WriteError::Block { block, fault } => {
                DfsError::Write { path: path(), block, failure: fault }
            }
        }
    }
}

fn sockets(link: &Link) -> Sockets {
    Sockets { packets: link.packets.clone() }
}

/// The machine sends only on what it has had opened.
fn connected(pipe: &mut Option<Pipe>) -> Result<&mut Pipe, TransferFailure> {
    pipe.as_mut().ok_or(TransferFailure::Unexpected)
}

/// Takes an ack, and returns how long it waited for it; without waiting, `None` if none has arrived.
fn take_ack(pipe: &mut Pipe, waits: bool) -> Result<Option<(Ack, Duration)>, TransferFailure> {
    let waited = match waits {
        true => pipe.connection().wait_readable()?,
        false if pipe.connection().is_readable() => Duration::ZERO,
        false => return Ok(None),
    };
    Ok(Some((pipe.take_ack()?, waited)))
}

/// Has a survivor copy the acknowledged bytes to a new member.
fn fill(
    link: &Link,
    survivor: &DatanodeInfo,
    block: &LocatedBlock,
    operation: &Operation,
) -> Filled<MemberFailure> {
    let mut connection = match link.datanodes.take(survivor, block.permit()) {
        Ok(connection) => connection,
        Err(fault) => return Filled::Unreached(fault.into()),
    };
    match connection.ask(operation, &block.token) {
        Ok(TransferReply::Done) => {
            link.datanodes.give_back(survivor, connection);
            Filled::Done
        }
        Ok(_) => Filled::Failed(TransferFailure::Unexpected.into()),
        Err(fault) => Filled::Failed(fault.into()),
    }
}

fn report(block: BlockId, datanode: Option<DatanodeId>, fault: &MemberFailure) {
    tracing::warn!(
        %block,
        datanode = datanode.map(|id| id.to_string()).unwrap_or_default(),
        cause = %protocol::error::chain(fault),
        "a DataNode of the pipeline failed"
    );
}

impl Write for DfsWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() { Ok(0) } else { Ok(self.add(bytes)?) }
    }

    /// Does nothing: see [`DfsWriter::hflush`] for visibility to readers, [`DfsWriter::close`] for durability.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The call that creates a file, with its first block.
fn create_of(path: &DfsPath, options: &CreateOptions) -> Create {
    Create {
        path: path.clone(),
        mode: options.mode,
        unmasked: options.unmasked,
        overwrite: options.overwrite,
        parents: options.parents == Parents::All,
        replication: options.replication,
        block_size: options.block_size,
        first_block: true,
    }
}

/// Creates a file whose missing directories are made below `root` alone, in one message.
fn create_below(link: &Link, root: &DfsPath, create: Create) -> Result<Created, DfsError> {
    let calls = creation::below(root, create);
    let file = calls.last().cloned().ok_or(DfsError::Unexpected)?;
    let answers: Vec<Answer> = link.call(Body::Batch(calls))?.try_into()?;
    match creation::outcome(answers).ok_or(DfsError::Unexpected)? {
        Ok(reply) => Ok(reply.try_into()?),
        // By itself it is sent again for a while.
        Err(refusal) if refusal.kind.is_transient() => Ok(link.call(file)?.try_into()?),
        Err(refusal) => Err(RpcError::Remote(refusal).into()),
    }
}

impl Drop for DfsWriter {
    fn drop(&mut self) {
        self.give_up();
    }
}

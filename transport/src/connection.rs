//! A connection between operations and within one: frames, packets and acks in both directions.
//!
//! Reads go through a small buffer, so a small operation costs one system call; a packet's data is read straight into its own buffer.

use std::io::{BufReader, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use std::{fs::File, io};

use protocol::frame;
use protocol::namenode::DatanodeInfo;
use protocol::token::BlockToken;
use protocol::transfer::{
    ACK_BYTES, Ack, Answer, FRAME_BYTES_MAX, MoreBlock, NONCE_BYTES, Operation,
    PACKET_HEADER_BYTES, PROOF_BYTES, PacketHeader, Permit, Reply, Session,
};
use protocol::{BlockId, DatanodeId, GenerationStamp, RemoteError, wire};
use sys::poll::Wait;
use sys::wake::Wake;

use crate::{Local, Packet, Stream, Timeouts, TransferFailure};

/// Size of the read buffer: an operation with a small file's data fits.
const BUFFER_BYTES: usize = 16 << 10;
/// Descriptors that follow [`Reply::Descriptors`]: block and meta.
const DESCRIPTOR_COUNT: usize = 2;

/// A connection to a peer.
#[derive(Debug)]
pub struct Connection {
    reader: BufReader<Shared>,
    /// Present once both sides have sent their hello.
    session: Option<Session>,
}

/// An operation as received, with the proof that its sender may ask for it.
#[derive(Debug)]
pub struct Asked {
    /// The operation.
    pub operation: Operation,
    body: Vec<u8>,
    proof: [u8; PROOF_BYTES],
}

#[derive(Debug)]
struct Shared(Arc<Stream>);

impl Read for Shared {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

impl Connection {
    /// Takes over a connected socket.
    pub fn new(stream: Stream) -> Self {
        let reader = BufReader::with_capacity(BUFFER_BYTES, Shared(Arc::new(stream)));
        Connection { reader, session: None }
    }

    /// Connects to a DataNode over TCP, wherever it is, and has it prove its identity.
    ///
    /// # Errors
    /// [`TransferFailure::Connect`]; [`TransferFailure::Impostor`] if it is another.
    pub fn connect_over_tcp(
        datanode: &DatanodeInfo,
        timeouts: Timeouts,
        permit: (BlockId, GenerationStamp, &BlockToken),
    ) -> Result<Self, TransferFailure> {
        let local = Local { boot_id: String::new(), broker: None };
        Connection::connect(datanode, &local, timeouts, permit)
    }

    /// Connects to a DataNode and has it prove its identity; `local` says how to reach those on this machine.
    ///
    /// # Errors
    /// [`TransferFailure::Connect`]; [`TransferFailure::Impostor`] if it is another.
    pub(crate) fn connect(
        datanode: &DatanodeInfo,
        local: &Local,
        timeouts: Timeouts,
        permit: (BlockId, GenerationStamp, &BlockToken),
    ) -> Result<Self, TransferFailure> {
        let stream = Stream::connect(datanode, local, timeouts)?;
        Connection::greet(stream, datanode, permit)
    }

    /// Has the peer on `stream` prove that it is this DataNode.
    ///
    /// # Errors
    /// [`TransferFailure::Impostor`] if it is another; otherwise the failure of the connection.
    pub fn greet(
        stream: Stream,
        datanode: &DatanodeInfo,
        (block, stamp, token): (BlockId, GenerationStamp, &BlockToken),
    ) -> Result<Self, TransferFailure> {
        let mut connection = Connection::new(stream);
        let nonce = rand::random();
        let hello = Operation::Hello { block, stamp, token: token.name, nonce };
        frame::write(&mut &**connection.stream(), &hello)?;
        let impostor = || TransferFailure::Impostor { address: datanode.transfer_address.clone() };
        let Reply::Hello { nonce: theirs, proof } = connection.read_answer()? else {
            return Err(impostor());
        };
        let session = Session::new(nonce, theirs, connection.stream().certificate());
        if !session.is_hello(token, datanode.id, &proof) {
            return Err(impostor());
        }
        connection.session = Some(session);
        Ok(connection)
    }

    /// Proves to the peer that this is `datanode`.
    ///
    /// # Errors
    /// [`TransferFailure::Io`].
    pub fn answer_hello(
        &mut self,
        theirs: [u8; NONCE_BYTES],
        token: &BlockToken,
        datanode: DatanodeId,
    ) -> Result<(), TransferFailure> {
        let nonce = rand::random();
        let session = Session::new(theirs, nonce, self.stream().certificate());
        let proof = session.hello(token, datanode);
        self.session = Some(session);
        self.send_answer(&Ok(Reply::Hello { nonce, proof }))
    }

    /// True if the sender of an operation has the secret of the token that the operation names.
    pub fn is_proven(&mut self, asked: &Asked, token: &BlockToken) -> bool {
        let session = self.session.as_mut();
        session.is_some_and(|session| session.is_proven(token, &asked.body, &asked.proof))
    }

    /// The proof, for the next operation, that this side has the token of a block; `None` before the hello.
    pub fn permit(
        &self,
        token: &BlockToken,
        block: BlockId,
        stamp: GenerationStamp,
    ) -> Option<Permit> {
        Some(self.session.as_ref()?.permit(token, block, stamp))
    }

    /// True if the sender of the operation that came last has this block's token; asked before [`Connection::is_proven`].
    pub fn is_permitted(&self, token: &BlockToken, more: &MoreBlock) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_permitted(token, more))
    }

    /// An operation's frame with its proof, to be sent next.
    pub fn sealed(&mut self, operation: &Operation, token: &BlockToken) -> Vec<u8> {
        let mut frame = frame::encode(operation);
        if let Some(session) = &mut self.session {
            let proof = session.prove(token, &frame[frame::HEADER_BYTES..]);
            frame.extend_from_slice(&proof);
        }
        frame
    }

    /// The socket.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.reader.get_ref().0
    }

    /// True if the peer runs on this machine and open files can be passed.
    pub fn passes_files(&self) -> bool {
        self.stream().unix().is_some()
    }

    /// True if bytes were read that nobody has consumed.
    pub fn is_buffered(&self) -> bool {
        !self.reader.buffer().is_empty() || self.stream().is_buffered()
    }

    /// True if a read would not block: bytes have arrived, or the end.
    pub fn is_readable(&self) -> bool {
        self.is_buffered() || self.stream().is_readable()
    }

    /// Waits until a read would not block; returns how long the peer kept it waiting.
    ///
    /// # Errors
    /// [`TransferFailure::Io`].
    pub fn wait_readable(&self) -> Result<Duration, TransferFailure> {
        if self.is_buffered() {
            return Ok(Duration::ZERO);
        }
        Ok(self.stream().wait_readable()?)
    }

    /// Sends an operation.
    ///
    /// # Errors
    /// [`TransferFailure::Io`].
    pub fn send(
        &mut self,
        operation: &Operation,
        token: &BlockToken,
    ) -> Result<(), TransferFailure> {
        let frame = self.sealed(operation, token);
        self.send_bytes(&frame)
    }

    /// Reads the next operation; `None` if the peer ended the connection between operations.
    ///
    /// # Errors
    /// [`TransferFailure`].
    pub fn read_operation(&mut self) -> Result<Option<Asked>, TransferFailure> {
        let body = match frame::read_body(&mut self.reader, FRAME_BYTES_MAX) {
            Ok(body) => body,
            Err(error) if error.is_end() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let operation: Operation =
            wire::decode(&body, "transfer operation").map_err(frame::FrameError::from)?;
        let mut proof = [0; PROOF_BYTES];
        if !matches!(operation, Operation::Hello { .. }) {
            self.reader.read_exact(&mut proof)?;
        }
        Ok(Some(Asked { operation, body, proof }))
    }

    /// Sends an answer.
    ///
    /// # Errors
    /// [`TransferFailure::Io`].
    pub fn send_answer(&mut self, answer: &Answer) -> Result<(), TransferFailure> {
        Ok(frame::write(&mut &**self.stream(), answer)?)
    }

    /// Reads the answer to an operation.
    ///
    /// # Errors
    /// [`TransferFailure::Remote`] if the DataNode refused.
    pub fn read_answer(&mut self) -> Result<Reply, TransferFailure> {
        let answer: Answer = frame::read(&mut self.reader, FRAME_BYTES_MAX, "transfer answer")?;
        Ok(answer?)
    }

    /// Sends an operation and waits for the answer.
    ///
    /// # Errors
    /// [`TransferFailure`].
    pub fn ask(
        &mut self,
        operation: &Operation,
        token: &BlockToken,
    ) -> Result<Reply, TransferFailure> {
        self.send(operation, token)?;
        self.read_answer()
    }

    /// Asks for the descriptors of a replica: its length, block file and meta file.
    ///
    /// # Errors
    /// [`TransferFailure`]; [`TransferFailure::Unexpected`] on a connection that cannot pass descriptors.
    pub fn ask_descriptors(
        &mut self,
        operation: &Operation,
        token: &BlockToken,
    ) -> Result<(u64, File, File), TransferFailure> {
        self.send(operation, token)?;
        let stream = Arc::clone(self.stream());
        // Not through the buffer: reading ahead would swallow the descriptors.
        let answer: Answer = frame::read(&mut &*stream, FRAME_BYTES_MAX, "transfer answer")?;
        let (Reply::Descriptors { length }, Some(socket)) = (answer?, stream.unix()) else {
            return Err(TransferFailure::Unexpected);
        };
        let mut files = sys::descriptor::receive_files(socket, DESCRIPTOR_COUNT)?;
        match (files.pop(), files.pop()) {
            (Some(meta), Some(block)) => Ok((length, block, meta)),
            _ => Err(TransferFailure::Unexpected),
        }
    }

    /// Answers [`Connection::ask_descriptors`] with the length of a replica, its block file and its meta file.
    ///
    /// # Errors
    /// [`TransferFailure::Unexpected`] on a connection that cannot pass descriptors; [`TransferFailure::Io`].
    pub fn send_descriptors(
        &mut self,
        length: u64,
        files: [&File; DESCRIPTOR_COUNT],
    ) -> Result<(), TransferFailure> {
        let stream = Arc::clone(self.stream());
        let socket = stream.unix().ok_or(TransferFailure::Unexpected)?;
        self.send_answer(&Ok(Reply::Descriptors { length }))?;
        Ok(sys::descriptor::send_files(socket, &files)?)
    }

    /// Refuses an operation and ends the connection. First it drops what the peer has sent already, for at most `drain_max`, so that a reset does not lose
    /// the refusal.
    pub fn refuse(mut self, refusal: RemoteError, drain_max: Duration) {
        if self.stream().is_handshaking() {
            // Whoever has no key yet cannot read it.
            return;
        }
        // All of this is only a courtesy to the peer.
        let _ =
            self.send_answer(&Err(refusal)).and_then(|()| Ok(self.stream().drain(drain_max)?));
    }

    /// Sends a packet, after `before` (an operation's frame, or nothing). Returns how long the peer kept it waiting.
    ///
    /// # Errors
    /// [`TransferFailure::Io`].
    pub fn send_packet(
        &mut self,
        before: &[u8],
        packet: &Packet,
    ) -> Result<Duration, TransferFailure> {
        let header = packet.header.encode();
        let mut slices = [before, &header, packet.crcs(), packet.data()].map(IoSlice::new);
        Ok(self.stream().write_all_vectored(&mut slices)?)
    }

    /// Reads a packet into `packet`; its data is not yet compared with its checksums.
    ///
    /// # Errors
    /// [`TransferFailure`].
    pub fn read_packet(&mut self, packet: &mut Packet) -> Result<(), TransferFailure> {
        let mut header = [0; PACKET_HEADER_BYTES];
        self.reader.read_exact(&mut header)?;
        packet.reset(PacketHeader::decode(header)?);
        self.reader.read_exact(packet.crcs_mut())?;
        self.reader.read_exact(packet.data_mut())?;
        Ok(())
    }

    /// Sends an ack, after `before` (the answer's frame, or nothing).
    ///
    /// # Errors
    /// [`TransferFailure::Io`].
    pub fn send_ack(&mut self, before: &[u8], ack: Ack) -> Result<(), TransferFailure> {
        let bytes = ack.encode();
        let mut slices = [before, &bytes].map(IoSlice::new);
        self.stream().write_all_vectored(&mut slices)?;
        Ok(())
    }

    /// Reads an ack.
    ///
    /// # Errors
    /// [`TransferFailure`].
    pub fn read_ack(&mut self) -> Result<Ack, TransferFailure> {
        let mut bytes = [0; ACK_BYTES];
        self.reader.read_exact(&mut bytes)?;
        Ok(Ack::decode(bytes)?)
    }

    /// Sends bytes that are already encoded.
    ///
    /// # Errors
    /// [`TransferFailure::Io`].
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), TransferFailure> {
        Ok((&mut &**self.stream()).write_all(bytes)?)
    }
}

/// What [`wait_for_any`] has waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The first connection can be read.
    pub front: bool,
    /// The second one can.
    pub behind: bool,
    /// Somebody on this machine has woken the caller.
    pub wake: bool,
    /// How long it took, counting only time while this process ran.
    pub awake: Duration,
}

/// Waits until a read of one of two connections would not block, or `wake` is notified; for at most `timeout`. A `None` is not waited for. What was read ahead
/// does not count; [`Connection::is_buffered`] reports it.
///
/// # Errors
/// The system's error.
pub fn wait_for_any(
    front: Option<&Connection>,
    behind: Option<&Connection>,
    wake: Option<&Wake>,
    timeout: Duration,
) -> io::Result<Ready> {
    let [front, behind] = [front, behind].map(|it| it.map(|it| it.stream().as_fd()));
    let sockets = [front, behind, wake.map(AsFd::as_fd)];
    let Wait { ready: [front, behind, wake], awake } =
        sys::poll::wait_readable_awake(sockets, timeout)?;
    Ok(Ready { front, behind, wake, awake })
}

//! Block bytes: client to DataNode and DataNode to DataNode, over TCP or an abstract Unix socket.
//!
//! A connection begins with [`Operation::Hello`], which names a token and a nonce. The DataNode answers with a nonce of its own and proves two things: that it
//! derived the token's secret, and that it is the DataNode meant. Only then does the sender trust it and send more. The sender keeps the connection for many
//! operations, so the exchange costs nothing where connections are kept.
//!
//! A connection carries operations one after the other. Each begins with a [`crate::frame`] of [`Operation`], followed by 32 bytes that prove that the sender
//! has the secret of the token it names. A frame of [`Answer`] answers it. After `Write`, packets follow at once (the sender does not wait for the answer), and
//! [`Ack`]s follow the answer. After the answer to `Read`, packets follow. `WriteMany` is as `Write` for several small blocks. An operation that fails ends the connection if bytes may still be in transit, so a
//! reader of a connection is never out of step.
//!
//! ```text
//! permit   HMAC(secret, "hanno block\n" sender's nonce, DataNode's nonce, number of the operation u64 LE, block u64 LE, stamp u64 LE)
//! hello    HMAC(secret, "hanno datanode\n" sender's nonce, DataNode's nonce, DataNode's id, fingerprint of its certificate if there is one)
//! proof    HMAC(secret, "hanno operation\n" sender's nonce, DataNode's nonce, number of the operation u64 LE, body of its frame)
//!
//! packet   data_bytes u32 LE   at most DATA_BYTES_MAX
//!          sequence   u32 LE   counts from 0 in each operation
//!          offset     u64 LE   of the data in the block; a multiple of CHUNK_BYTES
//!          flags      u8       1 last, 2 sync
//!          zero       [u8; 3]
//!          crc        u32 LE   CRC-32 of the 20 bytes before
//!          crcs       one big-endian CRC-32 for each chunk of the data
//!          data       data_bytes
//!
//! ack      sequence   u32 LE
//!          count      u8       statuses that follow, at most PIPELINE_MEMBERS_MAX
//!          statuses   [u8; 16] of the pipeline's members from the sender on; zero behind `count`
//!          zero       [u8; 3]
//!          waits_ms   [u32 LE; 16] how long each of them has waited, since the operation began, for the members behind it to take
//!                     packets and to acknowledge them; zero behind `count`
//!          receipts   [[u8; 8]; 16] with the ack of the last packet, of each of them that has the whole block on disk; else zero
//!          crc        u32 LE   CRC-32 of the 216 bytes before
//! ```
//!
//! Invariants: the data of a packet begins at or before the end of the data sent so far (a packet can replace a partial last chunk but never leaves a hole);
//! only the last chunk of a packet may be partial.

use serde::{Deserialize, Serialize};

use crate::auth::Fingerprint;
use crate::checksum::{CHUNK_BYTES, CRC_BYTES, chunk_count};
use crate::namenode::DatanodeInfo;
use crate::token::{AccessMode, BlockToken, RECEIPT_BYTES, Receipt, TokenName};
use crate::wire::at_most;
use crate::{BlockId, ClientId, DatanodeId, GenerationStamp, RemoteError};

/// Data in a packet unless something forces a shorter one: large enough to make a packet's fixed costs vanish, small enough for the caches of three hops.
pub const PACKET_DATA_BYTES: usize = 1 << 20;
/// Most data a receiver takes in one packet.
pub const DATA_BYTES_MAX: usize = 4 << 20;
/// Longest pipeline.
pub const PIPELINE_MEMBERS_MAX: usize = 16;
/// Largest [`Operation`] or [`Answer`] frame; a pipeline of [`PIPELINE_MEMBERS_MAX`] members fits many times over.
pub const FRAME_BYTES_MAX: usize = 64 << 10;
/// Most blocks of a [`WriteMany`] after the first: more would gain little, and a lost connection loses them all.
pub const WRITE_MANY_MAX: usize = 127;
/// Most data of a block of a [`WriteMany`], bytes.
pub const WRITE_MANY_BYTES_MAX: u32 = 64 << 10;
/// Bytes of the proof behind an operation's frame.
pub const PROOF_BYTES: usize = 32;
/// Bytes of each side's nonce.
pub const NONCE_BYTES: usize = 16;
/// Bytes of a packet's header.
pub const PACKET_HEADER_BYTES: usize = 24;
/// Bytes of an ack.
pub const ACK_BYTES: usize = ACK_RECEIPTS_AT + PIPELINE_MEMBERS_MAX * RECEIPT_BYTES + 4;

/// Where the waits begin in an ack.
const ACK_WAITS_AT: usize = 24;
/// Where the receipts begin in an ack.
const ACK_RECEIPTS_AT: usize = ACK_WAITS_AT + PIPELINE_MEMBERS_MAX * 4;

const FLAG_LAST: u8 = 1;
const FLAG_SYNC: u8 = 2;

/// The answer to an [`Operation`].
pub type Answer = Result<Reply, RemoteError>;

/// What a connection does next. Append only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Operation {
    /// Packets follow. -> [`Reply::Writing`] and acks
    Write(Write),
    /// -> [`Reply::Reading`] and packets
    Read(Read),
    /// Asks for the open files of a finalized replica (Unix socket only). -> [`Reply::Descriptors`], then two descriptors:
    /// block, meta
    Descriptors {
        /// The block.
        block: BlockId,
        /// Its generation stamp.
        stamp: GenerationStamp,
        /// Permission to read.
        token: TokenName,
    },
    /// Begins the recovery of a block under a new stamp: stops its writer and asks for the state of the replica. -> [`Reply::State`]
    /// or [`Reply::Nothing`]
    ReplicaState {
        /// The block.
        block: BlockId,
        /// The stamp of the recovery.
        stamp: GenerationStamp,
        /// Permission to write under that stamp.
        token: TokenName,
    },
    /// Ends a recovery: cut to `length`, adopt the stamp, finalize, sync. -> [`Reply::Done`]
    UpdateReplica {
        /// The block.
        block: BlockId,
        /// The stamp of the recovery.
        stamp: GenerationStamp,
        /// The length that was agreed on.
        length: u64,
        /// Permission to write under that stamp.
        token: TokenName,
    },
    /// Copies the first bytes of a replica to a new member of a pipeline, where they stay unfinished under the new
    /// stamp. -> [`Reply::Done`]
    Transfer {
        /// The block.
        block: BlockId,
        /// As [`Resume::prior`].
        prior: GenerationStamp,
        /// The stamp of the copy.
        stamp: GenerationStamp,
        /// Bytes to copy.
        length: u64,
        /// The new member.
        target: DatanodeInfo,
        /// Permission to write under the new stamp.
        token: TokenName,
    },
    /// The first operation of a connection, without a proof: asks the DataNode to prove who it is. -> [`Reply::Hello`]
    Hello {
        /// The block of the token.
        block: BlockId,
        /// Its stamp.
        stamp: GenerationStamp,
        /// A token that the sender has.
        token: TokenName,
        /// The sender's nonce; random.
        nonce: [u8; NONCE_BYTES],
    },
    /// Ends a recovery at a member that has less than the receiver, which ended it: the member keeps what it has, gets the rest,
    /// adopts the stamp and finalizes. -> [`Reply::Done`]
    CompleteReplica {
        /// The block.
        block: BlockId,
        /// Stamp that the member's replica has at least.
        prior: GenerationStamp,
        /// The stamp of the recovery.
        stamp: GenerationStamp,
        /// Bytes that the member has.
        offset: u64,
        /// The member.
        target: DatanodeInfo,
        /// Permission to write under that stamp.
        token: TokenName,
    },
    /// Packets of several new blocks follow, one whole block each. -> [`Reply::Writing`], and an ack for each block in their order, after all have come
    WriteMany(WriteMany),
}

/// The permission that an operation needs.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// The block.
    pub block: BlockId,
    /// The stamp that the token is for.
    pub stamp: GenerationStamp,
    /// The token.
    pub token: TokenName,
    /// The access it must permit.
    pub mode: AccessMode,
}

impl Needs {
    /// True if the token is of a mode that permits it.
    pub fn is_permitted(&self) -> bool {
        self.token.mode.permits(self.mode)
    }
}

impl Operation {
    /// The permission it needs.
    pub fn needs(&self) -> Needs {
        let (block, stamp, token, mode) = match self {
            Operation::Write(write) | Operation::WriteMany(WriteMany { first: write, .. }) => {
                (&write.block, &write.stamp, &write.token, write.mode())
            }
            // The receiver sends it under a token that it makes itself.
            Operation::Transfer { block, stamp, token, .. } => {
                (block, stamp, token, AccessMode::Write)
            }
            Operation::ReplicaState { block, stamp, token }
            | Operation::UpdateReplica { block, stamp, token, .. }
            | Operation::CompleteReplica { block, stamp, token, .. } => {
                (block, stamp, token, AccessMode::Maintain)
            }
            Operation::Read(Read { block, stamp, token, .. })
            | Operation::Descriptors { block, stamp, token } => {
                (block, stamp, token, AccessMode::Read)
            }
            // Any token proves who greets.
            Operation::Hello { block, stamp, token, .. } => (block, stamp, token, token.mode),
        };
        Needs { block: *block, stamp: *stamp, token: *token, mode }
    }
}

/// The nonces of a connection, the certificate that it stands on, and how many operations went over it.
#[derive(Clone, Debug)]
pub struct Session {
    sender: [u8; NONCE_BYTES],
    datanode: [u8; NONCE_BYTES],
    certificate: Option<Fingerprint>,
    operation_count: u64,
}

impl Session {
    /// A connection on which both sides have sent their nonces; `certificate` is the DataNode's, if the connection is encrypted.
    pub fn new(
        sender: [u8; NONCE_BYTES],
        datanode: [u8; NONCE_BYTES],
        certificate: Option<Fingerprint>,
    ) -> Self {
        Session { sender, datanode, certificate, operation_count: 0 }
    }

    /// The proof that a DataNode gives of itself.
    pub fn hello(&self, token: &BlockToken, datanode: DatanodeId) -> [u8; PROOF_BYTES] {
        self.hello_over(datanode, |parts| token.mac(parts))
    }

    /// True if `proof` comes from this DataNode.
    pub fn is_hello(&self, token: &BlockToken, datanode: DatanodeId, proof: &[u8]) -> bool {
        self.hello_over(datanode, |parts| token.matches(parts, proof))
    }

    fn hello_over<T>(&self, datanode: DatanodeId, then: impl FnOnce(&[&[u8]]) -> T) -> T {
        let certificate = self.certificate.as_ref().map_or(&[][..], |it| &it.0);
        then(&[b"hanno datanode\n", &self.sender, &self.datanode, &datanode.0, certificate])
    }

    /// Proves that the sender of the next operation, whose frame has this body, has the token's secret.
    pub fn prove(&mut self, token: &BlockToken, body: &[u8]) -> [u8; PROOF_BYTES] {
        self.next_over(body, |parts| token.mac(parts))
    }

    /// True if `proof` proves that for the next operation.
    pub fn is_proven(&mut self, token: &BlockToken, body: &[u8], proof: &[u8]) -> bool {
        self.next_over(body, |parts| token.matches(parts, proof))
    }

    /// Proves that the sender of the next operation, which names several blocks, has the secret of this one's token. It is sent within the operation.
    pub fn permit(&self, token: &BlockToken, block: BlockId, stamp: GenerationStamp) -> Permit {
        self.permit_over(block, stamp, |parts| token.mac(parts))
    }

    /// True if `permit` proves that.
    pub fn is_permitted(&self, token: &BlockToken, more: &MoreBlock) -> bool {
        self.permit_over(more.block, more.stamp, |parts| token.matches(parts, &more.permit))
    }

    fn permit_over<T>(
        &self,
        block: BlockId,
        stamp: GenerationStamp,
        then: impl FnOnce(&[&[u8]]) -> T,
    ) -> T {
        let number = self.operation_count.to_le_bytes();
        let (block, stamp) = (block.0.to_le_bytes(), stamp.0.to_le_bytes());
        then(&[b"hanno block\n", &self.sender, &self.datanode, &number, &block, &stamp])
    }

    fn next_over<T>(&mut self, body: &[u8], then: impl FnOnce(&[&[u8]]) -> T) -> T {
        let number = self.operation_count.to_le_bytes();
        self.operation_count += 1;
        then(&[b"hanno operation\n", &self.sender, &self.datanode, &number, body])
    }
}

/// What to write and where to pass it on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Write {
    /// The block.
    pub block: BlockId,
    /// Generation stamp of the replica to write.
    pub stamp: GenerationStamp,
    /// Permission to write under that stamp.
    pub token: TokenName,
    /// Who writes; zero for a DataNode that sends what it has, which needs [`AccessMode::Maintain`].
    pub client: ClientId,
    /// Continue a replica that exists; `None` for a new one.
    pub resume: Option<Resume>,
    /// Leave the replica unfinished after the last packet: it becomes the prefix for a new member of a pipeline.
    pub prefix_only: bool,
    /// Members after the receiver, in order.
    #[serde(deserialize_with = "at_most::<PIPELINE_MEMBERS_MAX, _, _>")]
    pub pipeline: Vec<DatanodeInfo>,
    /// How many members, from the end of the pipeline, sync their replica to disk before they acknowledge the last packet.
    pub durable: u16,
    /// The receiver keeps what it writes in its page cache: readers are expected there. Other members may bypass it.
    pub cached: bool,
}

impl Write {
    /// The access that it needs. What is not a client's own data comes from a DataNode.
    pub fn mode(&self) -> AccessMode {
        match self.client == ClientId::default() || self.prefix_only {
            true => AccessMode::Maintain,
            false => AccessMode::Write,
        }
    }

    /// True for a copy of a complete block: as in HDFS no client waits for it, so what there is of it counts only when all of it is there.
    pub fn is_copy(&self) -> bool {
        self.client == ClientId::default() && self.resume.is_none() && !self.prefix_only
    }
}

/// Several small blocks through one pipeline: each is new, and comes in one packet that is its last. A member acknowledges them when it has all, so they share
/// what a block alone costs: messages, wake-ups, a sync.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WriteMany {
    /// The first block, and what holds for all of them.
    pub first: Write,
    /// The blocks after it.
    #[serde(deserialize_with = "at_most::<WRITE_MANY_MAX, _, _>")]
    pub more: Vec<MoreBlock>,
}

/// A block of a [`WriteMany`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MoreBlock {
    /// The block.
    pub block: BlockId,
    /// Generation stamp of the replica to write.
    pub stamp: GenerationStamp,
    /// Permission to write under that stamp.
    pub token: TokenName,
    /// [`Session::permit`].
    pub permit: Permit,
}

/// Proof that a sender has the secret of a token.
pub type Permit = [u8; PROOF_BYTES];

/// Where to continue a broken write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Resume {
    /// Stamp under which the bytes before `offset` were acknowledged. A replica with a later stamp up to the new one is accepted too, so a resume can be
    /// retried.
    pub prior: GenerationStamp,
    /// Bytes that every member has; the replica is cut to this length.
    pub offset: u64,
    /// Others of the block may have dropped out, as after a broken pipeline: the receiver compares what it goes on with, for it may be the only one. False for
    /// the first attempt of an append, to which all good replicas belong.
    pub after_break: bool,
}

/// What to read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Read {
    /// The block.
    pub block: BlockId,
    /// Its generation stamp.
    pub stamp: GenerationStamp,
    /// Permission to read.
    pub token: TokenName,
    /// First byte.
    pub offset: u64,
    /// Bytes wanted.
    pub length: u64,
}

/// Answers. Append only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Done; nothing to say.
    Done,
    /// The replica is open for writing; acks follow.
    Writing,
    /// Packets follow: whole chunks that cover the wanted range as far as the replica goes, the last one marked.
    Reading {
        /// Bytes of the replica.
        length: u64,
    },
    /// Two descriptors follow.
    Descriptors {
        /// Bytes of the replica.
        length: u64,
    },
    /// The state of the replica; `None` if there is none now, and one may be on a disk that is out of service.
    State(Option<ReplicaSummary>),
    /// The DataNode is who it should be.
    Hello {
        /// Its nonce; random.
        nonce: [u8; NONCE_BYTES],
        /// [`Session::hello`].
        proof: [u8; PROOF_BYTES],
    },
    /// There is no replica, on any disk.
    Nothing {
        /// Whatever the DataNode acknowledged under this stamp or a later one is still there; `None` if it cannot say so of any stamp.
        since: Option<GenerationStamp>,
    },
}

/// A replica as a recovery sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplicaSummary {
    /// Its generation stamp.
    pub stamp: GenerationStamp,
    /// Bytes that match their checksums.
    pub length: u64,
    /// True if its writer finished it.
    pub finalized: bool,
}

/// Prefix of the name of a DataNode's abstract Unix socket; the number of its user, a dash and a hexadecimal number of 128 bits follow.
const LOCAL_SOCKET_PREFIX: &str = "hanno-datanode-";
const LOCAL_SOCKET_DIGITS: usize = 32;

/// The name of the abstract Unix socket of a DataNode that runs as `user` and drew `number`. Anybody can listen there when it does not, so whoever connects
/// checks that the listener is that user ([`local_socket_user`]).
pub fn local_socket_name(user: u32, number: u128) -> String {
    format!("{LOCAL_SOCKET_PREFIX}{user}-{number:032x}")
}

/// The owner of a DataNode's abstract Unix socket, from its name; `None` if the name has another form.
pub fn local_socket_user(name: &str) -> Option<u32> {
    let (user, digits) = name.strip_prefix(LOCAL_SOCKET_PREFIX)?.split_once('-')?;
    let is_number = digits.len() == LOCAL_SOCKET_DIGITS
        && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let number: u32 = user.parse().ok().filter(|_| is_number)?;
    // Each user has exactly one form.
    (number.to_string() == user).then_some(number)
}

/// The header before the data of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketHeader {
    /// Bytes of data.
    pub data_bytes: u32,
    /// Counts from 0 in each operation.
    pub sequence: u32,
    /// Where the data begins in the block, bytes.
    pub offset: u64,
    /// No packet follows; the block ends here.
    pub last: bool,
    /// Sync everything so far to disk before acknowledging.
    pub sync: bool,
}

/// A packet header or an ack that does not decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// Damaged in transit, or something else entirely.
    #[error("{what} is damaged")]
    Damaged {
        /// What it should be.
        what: &'static str,
    },
    /// More data than a receiver takes.
    #[error("packet of {data_bytes} bytes is over the limit of {DATA_BYTES_MAX}")]
    TooLong {
        /// The announced length.
        data_bytes: u32,
    },
    /// The data does not begin at a chunk, or ends beyond the range of offsets.
    #[error("packet at offset {offset} does not fit the block's chunks")]
    Misplaced {
        /// The announced offset.
        offset: u64,
    },
}

impl PacketHeader {
    /// Bytes of checksums between header and data.
    pub fn crc_bytes(&self) -> usize {
        chunk_count(u64::from(self.data_bytes)) as usize * CRC_BYTES
    }

    /// Where the data ends in the block, bytes.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.data_bytes)
    }

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; PACKET_HEADER_BYTES] {
        let mut bytes = [0; PACKET_HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.data_bytes.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16] = if self.last { FLAG_LAST } else { 0 } | if self.sync { FLAG_SYNC } else { 0 };
        seal(&mut bytes);
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`TransferError`] if it is damaged or breaks a rule; a length that it returns is safe to allocate.
    pub fn decode(bytes: [u8; PACKET_HEADER_BYTES]) -> Result<Self, TransferError> {
        let flags = bytes[16];
        if !is_sealed(&bytes) || flags & !(FLAG_LAST | FLAG_SYNC) != 0 || bytes[17..20] != [0; 3] {
            return Err(TransferError::Damaged { what: "packet header" });
        }
        let header = PacketHeader {
            data_bytes: u32_at(&bytes, 0),
            sequence: u32_at(&bytes, 4),
            offset: u64::from(u32_at(&bytes, 8)) | u64::from(u32_at(&bytes, 12)) << 32,
            last: flags & FLAG_LAST != 0,
            sync: flags & FLAG_SYNC != 0,
        };
        if header.data_bytes as usize > DATA_BYTES_MAX {
            return Err(TransferError::TooLong { data_bytes: header.data_bytes });
        }
        let end = header.offset.checked_add(u64::from(header.data_bytes));
        if !header.offset.is_multiple_of(CHUNK_BYTES as u64) || end.is_none() {
            return Err(TransferError::Misplaced { offset: header.offset });
        }
        Ok(header)
    }
}

/// How a member of a pipeline fared with a packet. The number is the wire format: append only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// Written; on disk if it was asked for.
    Success = 0,
    /// It cannot write: a disk failure or a defect.
    Failed = 1,
    /// The data does not match its checksums: the hop before it is to blame.
    Checksum = 2,
    /// The member before it lost it or never reached it.
    Unreachable = 3,
    /// It has too many transfers.
    Busy = 4,
    /// It does not permit this: the token or the state of its replica is wrong.
    Refused = 5,
    /// Its disks are full.
    Full = 6,
}

impl Status {
    fn from_byte(byte: u8) -> Option<Self> {
        use Status::{Busy, Checksum, Failed, Full, Refused, Success, Unreachable};
        [Success, Failed, Checksum, Unreachable, Busy, Refused, Full]
            .get(usize::from(byte))
            .copied()
    }
}

/// The acknowledgement of a packet: who has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// Number of the packet.
    pub sequence: u32,
    count: u8,
    statuses: [Status; PIPELINE_MEMBERS_MAX],
    waits_ms: [u32; PIPELINE_MEMBERS_MAX],
    receipts: [Receipt; PIPELINE_MEMBERS_MAX],
}

impl Ack {
    /// An ack of one member.
    pub fn new(sequence: u32, status: Status) -> Self {
        let mut statuses = [Status::Success; PIPELINE_MEMBERS_MAX];
        statuses[0] = status;
        let receipts = [Receipt::default(); PIPELINE_MEMBERS_MAX];
        Ack { sequence, count: 1, statuses, waits_ms: [0; PIPELINE_MEMBERS_MAX], receipts }
    }

    /// This member's status, followed by those of the members behind it.
    pub fn followed_by(mut self, behind: &[Status]) -> Self {
        for status in behind.iter().take(PIPELINE_MEMBERS_MAX - usize::from(self.count)) {
            self.statuses[usize::from(self.count)] = *status;
            self.count += 1;
        }
        self
    }

    /// As [`Ack::followed_by`], with the waits and the receipts of the members behind it.
    pub fn ahead_of(self, behind: &Ack) -> Self {
        let mut ack = self.followed_by(behind.statuses());
        let count = usize::from(ack.count);
        ack.waits_ms[1..count].copy_from_slice(&behind.waits_ms[..count - 1]);
        ack.receipts[1..count].copy_from_slice(&behind.receipts[..count - 1]);
        ack
    }

    /// Sets how long this member has waited for those behind it.
    pub fn with_wait(mut self, waited_ms: u32) -> Self {
        self.waits_ms[0] = waited_ms;
        self
    }

    /// Sets this member's receipt for the whole block.
    pub fn with_receipt(mut self, receipt: Receipt) -> Self {
        self.receipts[0] = receipt;
        self
    }

    /// The receipts of the members, zero of those that give none.
    pub fn receipts(&self) -> &[Receipt] {
        &self.receipts[..usize::from(self.count)]
    }

    /// How long each has waited for the members behind it since the operation began, milliseconds.
    pub fn waits_ms(&self) -> &[u32] {
        &self.waits_ms[..usize::from(self.count)]
    }

    /// Statuses from the sender of the ack onwards.
    pub fn statuses(&self) -> &[Status] {
        &self.statuses[..usize::from(self.count)]
    }

    /// Position and status of the first member that failed.
    pub fn failure(&self) -> Option<(usize, Status)> {
        self.statuses().iter().copied().enumerate().find(|(_, status)| *status != Status::Success)
    }

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; ACK_BYTES] {
        let mut bytes = [0; ACK_BYTES];
        bytes[..4].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[4] = self.count;
        for (byte, status) in bytes[5..].iter_mut().zip(self.statuses()) {
            *byte = *status as u8;
        }
        for (place, ms) in bytes[ACK_WAITS_AT..].chunks_exact_mut(4).zip(self.waits_ms()) {
            place.copy_from_slice(&ms.to_le_bytes());
        }
        let places = bytes[ACK_RECEIPTS_AT..].chunks_exact_mut(RECEIPT_BYTES);
        for (place, receipt) in places.zip(self.receipts()) {
            place.copy_from_slice(&receipt.0);
        }
        seal(&mut bytes);
        bytes
    }

    /// Reads an ack.
    ///
    /// # Errors
    /// [`TransferError::Damaged`].
    pub fn decode(bytes: [u8; ACK_BYTES]) -> Result<Self, TransferError> {
        let damaged = TransferError::Damaged { what: "ack" };
        let count = bytes[4];
        if !is_sealed(&bytes) || count == 0 || usize::from(count) > PIPELINE_MEMBERS_MAX {
            return Err(damaged);
        }
        let mut statuses = [Status::Success; PIPELINE_MEMBERS_MAX];
        for (status, byte) in statuses.iter_mut().zip(&bytes[5..]) {
            *status = Status::from_byte(*byte).ok_or(damaged)?;
        }
        let waits_ms = std::array::from_fn(|number| u32_at(&bytes, ACK_WAITS_AT + 4 * number));
        let receipts = std::array::from_fn(|number| {
            let from = ACK_RECEIPTS_AT + RECEIPT_BYTES * number;
            Receipt(std::array::from_fn(|at| bytes[from + at]))
        });
        let ack = Ack { sequence: u32_at(&bytes, 0), count, statuses, waits_ms, receipts };
        // The bytes behind the last member's are zero.
        if ack.encode() == bytes { Ok(ack) } else { Err(damaged) }
    }
}

fn seal(bytes: &mut [u8]) {
    let (body, crc) = bytes.split_at_mut(bytes.len() - 4);
    crc.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
}

fn is_sealed(bytes: &[u8]) -> bool {
    let (body, crc) = bytes.split_at(bytes.len() - 4);
    *crc == crc32fast::hash(body).to_le_bytes()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests;

//! Edits: the only way the namespace changes, live and on replay.
//!
//! An edit contains everything that was decided (ids, times, targets), so applying it needs no clock, no generator and no view of
//! DataNodes. A [`Record`] is what one call changed. It is one journal record, so a call happens completely or not at all.
//!
//! Journal record body: `version u8 = 1 | postcard(Record)`. Enum order is the format: append only. A changed field makes a new version, of which
//! the old type is the form before ([`Form`], ADR 22). What edits keep of messages has forms of its own (`stored.rs`).

use protocol::acl::AclEntry;
use protocol::wire::form::{self, Form, FormError};
use protocol::xattr::XattrName;
use protocol::{
    BlockId, CallId, ClientId, ClusterId, DatanodeId, DfsPath, GenerationStamp, InodeId,
    RemoteError,
};
use serde::{Deserialize, Serialize};

use super::inodes::exactly;
use super::standing::StandingEdit;
use super::stored::{self, NameForm, RefusalForm};
use crate::error::CoreError;

/// Room made at once for the body of a record: nearly all are shorter, and writing one then allocates once.
const RECORD_BYTES_USUAL: usize = 256;

/// What one call changed, and its answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The call and its place in a batch; `None` for what the NameNode decided by itself.
    pub call: Option<CallKey>,
    /// When, milliseconds since the epoch; ages the answer in the retry cache.
    pub at_ms: u64,
    /// The changes in order.
    pub edits: Vec<Edit>,
    /// The answer for a repeated call.
    pub outcome: Outcome,
}

/// Names a call, or one call of a batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct CallKey {
    /// The call.
    pub call: CallId,
    /// Its place in a batch; 0 outside.
    pub index: u16,
}

/// One change. Append only.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Edit {
    /// First edit of a namespace: names the cluster and makes the root.
    Format {
        /// The new cluster.
        cluster: ClusterId,
        /// Owner of the root.
        owner: String,
        /// Group of the root.
        group: String,
        /// Time of the root.
        at_ms: u64,
    },
    /// Makes a directory.
    MakeDirectory {
        /// Its id.
        id: InodeId,
        /// Where.
        parent: InodeId,
        /// Its name.
        name: String,
        /// Its owner.
        owner: String,
        /// Its group.
        group: String,
        /// Its permission bits.
        mode: u16,
        /// Its time and its parent's.
        at_ms: u64,
    },
    /// Makes a file that is open for writing.
    MakeFile {
        /// Its id.
        id: InodeId,
        /// Where.
        parent: InodeId,
        /// Its name.
        name: String,
        /// Its owner.
        owner: String,
        /// Its group.
        group: String,
        /// Its permission bits.
        mode: u16,
        /// Its wanted replicas.
        replication: u16,
        /// Its bytes per block.
        block_size: u64,
        /// Who writes it.
        holder: ClientId,
        /// Its times and its parent's modification time.
        at_ms: u64,
    },
    /// Allocates the next block of an open file.
    AddBlock {
        /// The file.
        file: InodeId,
        /// The new block.
        block: BlockId,
        /// Its stamp.
        stamp: GenerationStamp,
        /// Its pipeline.
        targets: Vec<DatanodeId>,
    },
    /// Takes the last, incomplete block off an open file.
    DropBlock {
        /// The file.
        file: InodeId,
        /// The block.
        block: BlockId,
    },
    /// Completes the last block.
    CommitBlock {
        /// The file.
        file: InodeId,
        /// The block.
        block: BlockId,
        /// Its final length, bytes.
        length: u64,
    },
    /// Gives the last, incomplete block a new stamp and pipeline.
    RestampBlock {
        /// The file.
        file: InodeId,
        /// The block.
        block: BlockId,
        /// New stamp.
        stamp: GenerationStamp,
        /// New pipeline.
        targets: Vec<DatanodeId>,
        /// Oldest stamp of replicas that count until the pipeline is known to work under the new one.
        prior: Option<GenerationStamp>,
    },
    /// Takes an open file from its writer; `stamp` is for the recovery of its last block.
    BeginRecovery {
        /// The file.
        file: InodeId,
        /// Stamp of the recovery.
        stamp: GenerationStamp,
    },
    /// Closes a file.
    Close {
        /// The file.
        file: InodeId,
        /// Its new modification time.
        at_ms: u64,
    },
    /// Moves or renames.
    Move {
        /// What.
        inode: InodeId,
        /// New parent.
        parent: InodeId,
        /// New name.
        name: String,
        /// New modification time of both parents.
        at_ms: u64,
    },
    /// Deletes a file or a whole tree.
    Delete {
        /// What.
        inode: InodeId,
        /// New modification time of its parent.
        at_ms: u64,
    },
    /// Sets the wanted replicas of a file.
    SetReplication {
        /// The file.
        file: InodeId,
        /// Wanted replicas.
        replication: u16,
    },
    /// Sets permission bits.
    SetMode {
        /// Which.
        inode: InodeId,
        /// Permission bits.
        mode: u16,
    },
    /// Sets owner and group.
    SetOwner {
        /// Which.
        inode: InodeId,
        /// Owner.
        owner: String,
        /// Group.
        group: String,
    },
    /// Sets times.
    SetTimes {
        /// Which.
        inode: InodeId,
        /// Modification time.
        mtime_ms: Option<u64>,
        /// Access time, of a file.
        atime_ms: Option<u64>,
    },
    /// Sets the quotas of a directory.
    SetQuota {
        /// The directory.
        directory: InodeId,
        /// How many files and directories.
        names: Option<u64>,
        /// How many bytes times replicas.
        space: Option<u64>,
    },
    /// Opens a closed file at its end.
    Reopen {
        /// The file.
        file: InodeId,
        /// Who writes it.
        holder: ClientId,
        /// New stamp and pipeline of its last block, if writing continues in it.
        last: Option<(GenerationStamp, Vec<DatanodeId>)>,
    },
    /// Notes how much of the last, incomplete block every member of its pipeline has.
    SyncBlock {
        /// The file.
        file: InodeId,
        /// The block.
        block: BlockId,
        /// Bytes.
        length: u64,
    },
    /// Cuts a closed file.
    Truncate {
        /// The file.
        file: InodeId,
        /// New length, bytes.
        length: u64,
        /// The block that takes the place of the one that is cut, and its stamp; `None` at the border of a block.
        cut: Option<(BlockId, GenerationStamp)>,
        /// New modification time.
        at_ms: u64,
    },
    /// Moves all blocks of `sources` to the end of `target` and deletes the sources.
    Concat {
        /// File that grows.
        target: InodeId,
        /// Files that go.
        sources: Vec<InodeId>,
        /// New modification time.
        at_ms: u64,
    },
    /// Lets a directory have snapshots.
    AllowSnapshot {
        /// The directory.
        directory: InodeId,
    },
    /// Takes that back.
    DisallowSnapshot {
        /// The directory.
        directory: InodeId,
    },
    /// Takes a snapshot under the next number.
    CreateSnapshot {
        /// The directory.
        directory: InodeId,
        /// Name of the snapshot.
        name: String,
        /// New modification time of the directory, before and after.
        at_ms: u64,
    },
    /// Renames a snapshot.
    RenameSnapshot {
        /// The directory.
        directory: InodeId,
        /// Old name.
        from: String,
        /// New name.
        to: String,
        /// New modification time of the directory.
        at_ms: u64,
    },
    /// Deletes a snapshot.
    DeleteSnapshot {
        /// The directory.
        directory: InodeId,
        /// Its name.
        name: String,
        /// New modification time of the directory.
        at_ms: u64,
    },
    /// Replaces the stored entries of an access control list, and the permission bits with them.
    SetAcl {
        /// Which.
        inode: InodeId,
        /// Permission bits.
        mode: u16,
        /// Stored entries; none for none.
        #[serde(with = "stored::entries")]
        entries: Vec<AclEntry>,
    },
    /// Sets or removes an extended attribute.
    SetXattr {
        /// Which.
        inode: InodeId,
        /// Its name.
        #[serde(with = "NameForm")]
        name: XattrName,
        /// Its value; `None` removes it.
        value: Option<Vec<u8>>,
    },
    /// Never hands out ids below these: DataNodes hold some that a lost part of the metadata had handed out.
    SkipIds {
        /// Lowest id of the blocks to come.
        block: BlockId,
        /// Lowest of the stamps to come.
        stamp: GenerationStamp,
    },
    /// Changes what operators and users arranged beside the namespace.
    Standing(StandingEdit),
    /// A start of the NameNode goes on with these ids: see `namespace::gaps`.
    Leap {
        /// The next block.
        block: BlockId,
        /// The next stamp.
        stamp: GenerationStamp,
    },
}

/// The answer of a call in the form that outlives a restart: addresses and tokens are filled in when it is given. Append only.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// [`protocol::namenode::Reply::Done`].
    Done,
    /// [`protocol::namenode::Reply::Flag`].
    Flag(bool),
    /// [`protocol::namenode::Reply::Created`].
    Created {
        /// The file.
        file: InodeId,
        /// Its bytes per block.
        block_size: u64,
        /// Its wanted replicas.
        replication: u16,
        /// Its first block.
        first_block: Option<Allotted>,
    },
    /// [`protocol::namenode::Reply::Block`].
    Block(Allotted),
    /// A refusal.
    Refused(#[serde(with = "RefusalForm")] RemoteError),
    /// [`protocol::namenode::Reply::Appended`].
    Appended {
        /// The file.
        file: InodeId,
        /// Its bytes per block.
        block_size: u64,
        /// Its length.
        length: u64,
        /// Its last block, if writing continues in it.
        last: Option<Allotted>,
        /// Stamp of that block before.
        prior: GenerationStamp,
    },
    /// [`protocol::namenode::Reply::Path`].
    Path(DfsPath),
}

/// A block as it was handed to a writer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Allotted {
    /// The block.
    pub id: BlockId,
    /// Its stamp.
    pub stamp: GenerationStamp,
    /// Where it begins in the file, bytes.
    pub offset: u64,
    /// Bytes written so far.
    pub length: u64,
    /// Its pipeline.
    pub targets: Vec<DatanodeId>,
    /// Wanted replicas of its file.
    pub replication: u16,
}

impl Record {
    /// The body of the journal record.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(RECORD_BYTES_USUAL);
        body.push(Record::VERSION);
        postcard::to_extend(self, body)
            .expect("records are plain data: encoding into memory cannot fail")
    }

    /// Reads the body of a journal record.
    ///
    /// # Errors
    /// [`CoreError::NewerForm`] if a newer program wrote it, [`CoreError::BadRecord`] if it is not exactly one record.
    pub fn decode(body: &[u8]) -> Result<Record, CoreError> {
        let (&version, encoded) = body.split_first().ok_or(CoreError::BadRecord)?;
        form::read(version, encoded).map_err(|error| match error {
            FormError::Newer { version } => CoreError::NewerForm { what: "the journal", version },
            FormError::NoVersion | FormError::Damaged(()) => CoreError::BadRecord,
        })
    }
}

impl Form<'_> for Record {
    const VERSION: u8 = 1;
    type Before = Self;
    type Damage = ();

    fn parse(bytes: &[u8]) -> Result<Self, ()> {
        exactly(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Record {
        Record {
            call: Some(CallKey {
                call: CallId { client: ClientId([7; 16]), number: 300 },
                index: 2,
            }),
            at_ms: 1000,
            edits: vec![
                Edit::Move {
                    inode: InodeId(20000),
                    parent: InodeId::ROOT,
                    name: "n".into(),
                    at_ms: 5,
                },
                Edit::Delete { inode: InodeId(20001), at_ms: 6 },
            ],
            outcome: Outcome::Flag(true),
        }
    }

    #[test]
    fn golden_bytes() {
        let mut expected = vec![1, 1];
        expected.extend([7; 16]);
        expected.extend([0xac, 2, 2, 0xe8, 7, 2]);
        expected.extend([9, 0xa0, 0x9c, 1, 0x81, 0x80, 1, 1, b'n', 5]);
        expected.extend([10, 0xa1, 0x9c, 1, 6]);
        expected.extend([1, 1]);
        assert_eq!(sample().encode(), expected);
        assert_eq!(Record::decode(&expected).unwrap(), sample());
    }

    #[test]
    fn every_truncation_and_a_foreign_version_are_refused() {
        let bytes = sample().encode();
        for end in 0..bytes.len() {
            assert!(Record::decode(&bytes[..end]).is_err(), "{end}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Record::decode(&longer).is_err());
        let mut other = bytes;
        other[0] = 2;
        assert!(Record::decode(&other).is_err());
    }
}

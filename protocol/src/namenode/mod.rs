//! Requests of clients and tools to the NameNode: `POST /rpc` with a [`Request`], answered by `Result<Reply, RemoteError>`.

mod answers;
mod arguments;
mod call;
mod detail;
#[cfg(test)]
mod golden;
mod limits;
mod paths;
mod reply;
mod table;

use serde::{Deserialize, Serialize};

pub use crate::table::Kind;
use crate::wire::at_most;
use crate::{CallId, ClientId};

pub use answers::{
    AdminState, Appended, BlockInfo, BlockOn, ClusterStatus, ContentSummary, CorruptReason,
    Created, DatanodeInfo, DatanodeReport, DatanodeState, DiffEntry, DiffKind, DiffPage,
    DrainReport, FileStatus, FsckBlock, FsckFile, FsckPage, ImagePiece, ListPage, LocatedBlock,
    LocatedBlocks, MoveState, OpenFile, OpenFilePage, REPLICAS_MAX, ReplicaMove, ReplicaState,
    SnapshotPage, SnapshotStatus, SnapshottableDirectory, VOLUMES_MAX,
};
pub use arguments::{
    BadReplica, Create, DIRECTORY_MODE, Publish, QuotaChange, SafeModeAction, WrittenBlock,
};
pub use call::{Call, RenameInto, RenameTo, TypedCall, calls};
pub use detail::{
    DatanodeDetail, FAILURES_MAX, NodeFailure, NodeFailureKind, Room, Volume, VolumeFailure,
};
pub use limits::{
    BAD_REPLICAS_MAX, BATCH_CALLS_MAX, BLOCK_SIZE_MAX, CONCAT_SOURCES_MAX, COPYING_SUFFIX,
    DATANODES_MAX, DIFF_ENTRIES_MAX, DOT_SNAPSHOT, IMAGE_PIECE_BYTES, LIST_ENTRIES_MAX, MOVES_MAX,
    REPLICATION_MAX, XATTR_NAMES_MAX,
};
pub use reply::{Answer, Reply, UNEXPECTED};
pub use table::{About, By, Logged, Refused, Target};

/// Version of this conversation; both sides must agree.
pub const VERSION: u16 = 6;

/// A call and who makes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub version: u16,
    /// The calling process and the number of the call. A repeated mutating call gets the first answer.
    pub call: CallId,
    /// Acting user.
    pub user: String,
    /// Network name of the client's machine, to place the first replica there; may be empty.
    pub host: String,
    /// The call or batch itself.
    pub body: Body,
}

/// The content of one request. A batch is not a [`Call`], so batches do not nest. Append only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Body {
    /// One call.
    One(Call),
    /// Several, each with its own outcome, in order; refused as a whole if all of them are refused for now. -> [`Reply::Batch`]
    Batch(#[serde(deserialize_with = "at_most::<BATCH_CALLS_MAX, _, _>")] Vec<Call>),
}

impl From<Call> for Body {
    fn from(call: Call) -> Self {
        Body::One(call)
    }
}

impl Body {
    /// The calls, in order.
    pub fn calls(&self) -> &[Call] {
        match self {
            Body::One(call) => std::slice::from_ref(call),
            Body::Batch(calls) => calls,
        }
    }

    /// Which way it takes: a batch that does not only read is judged by the core, call by call.
    pub fn kind(&self) -> Kind {
        match self {
            Body::One(call) => call.kind(),
            Body::Batch(calls) if calls.iter().all(|call| call.kind() == Kind::Read) => Kind::Read,
            Body::Batch(_) => Kind::Change,
        }
    }

    /// Whether it is answered soon and briefly ([`Call::brief`]).
    pub fn is_brief(&self) -> bool {
        matches!(self, Body::One(call) if call.brief())
    }
}

impl Request {
    /// Builds a request.
    pub fn new(
        client: ClientId,
        number: u64,
        user: &str,
        host: &str,
        body: impl Into<Body>,
    ) -> Self {
        Request {
            version: VERSION,
            call: CallId { client, number },
            user: user.to_owned(),
            host: host.to_owned(),
            body: body.into(),
        }
    }
}

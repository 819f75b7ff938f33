//! What the process of a DataNode knows; the other files have what it does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use datanode::core::copy::{Copying, Order};
use datanode::core::member::Member;
use datanode::core::recovery::Lead;
use datanode::core::scrub::Scrub;
use datanode::core::session;
use datanode::store::{ReplicaWriter, Store};
use datanode::transfer::OpenSource;
use protocol::datanode::CommitRecovery;
use protocol::namenode::DatanodeInfo;
use protocol::token::BlockToken;
use protocol::transfer::Write;
use protocol::{BlockId, DatanodeId, Epoch, ErrorKind, GenerationStamp};

use crate::net::{Conn, Place};

/// Silence after which a stream counts as broken.
pub(crate) const IO_TIMEOUT: Duration = Duration::from_secs(4);

/// Time in which each replica is scanned once.
const SCAN_PERIOD: Duration = Duration::from_secs(25);
pub(super) const SCAN_RATE_BYTES: u64 = 1 << 20;

/// What dies with the process.
pub(super) struct Process {
    pub(super) place: Place,
    pub(super) store: Arc<Store>,
    pub(super) session: Session,
    pub(super) receptions: BTreeMap<Conn, Reception>,
    pub(super) sendings: BTreeMap<Conn, Sending>,
    pub(super) leads: Vec<Leading>,
    /// What a message with this number is for.
    pub(super) asked: BTreeMap<u64, For>,
    pub(super) next: u64,
    pub(super) now: Duration,
    pub(super) upkeep: Upkeep,
}

/// Why a message was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum For {
    Session,
    /// The lead of a recovery, by its number.
    Lead(u64),
}

/// What is known of the session.
pub(super) struct Session {
    /// The daemon's.
    pub(super) core: session::Session,
    /// Messages on the way, by the numbers under which they were sent; at most one report and one heartbeat or registration.
    pub(super) report_sent: Option<u64>,
    pub(super) beat_sent: Option<u64>,
    /// Losses of the store when the last registration was sent.
    pub(super) loss_count: u64,
    pub(super) commits: Vec<Ending>,
}

/// A recovery or a cut that is finished, and of which the NameNode does not know yet.
pub(super) struct Ending {
    /// Number of the message on the way.
    pub(super) sent: Option<u64>,
    /// Start of the NameNode that ordered it.
    pub(super) epoch: Epoch,
    pub(super) commit: CommitRecovery,
}

impl Session {
    pub(super) fn new(info: DatanodeInfo, process: u64) -> Self {
        Session {
            core: session::Session::new(info, process),
            report_sent: None,
            beat_sent: None,
            loss_count: 0,
            commits: Vec::new(),
        }
    }
}

/// A write that is received.
pub(super) struct Reception {
    pub(super) block: BlockId,
    pub(super) stamp: GenerationStamp,
    pub(super) front: Place,
    pub(super) behind: Option<(Conn, Place)>,
    /// For the one behind, until it is sent with the first packet.
    pub(super) before: Option<Box<Write>>,
    pub(super) member: Member,
    pub(super) writer: Option<ReplicaWriter>,
    /// When something last happened.
    pub(super) heard: Duration,
}

impl Reception {
    pub(super) fn writes(&self, block: BlockId) -> bool {
        self.block == block
    }
}

/// A copy under way.
pub(super) struct Sending {
    pub(super) order: Order,
    pub(super) copying: Copying<ErrorKind>,
    pub(super) source: OpenSource,
    pub(super) target: Place,
    /// The operation, until it is sent with the first packet.
    pub(super) before: Option<Box<Write>>,
    pub(super) heard: Duration,
    pub(super) asker: Asker,
}

/// Who wants a copy.
#[derive(Clone)]
pub(super) enum Asker {
    /// Another process, whose message has this number.
    Peer(Place, u64),
    /// The NameNode of this epoch; the targets.
    Master(Epoch, Vec<DatanodeId>),
}

/// A recovery under way.
pub(super) struct Leading {
    pub(super) number: u64,
    pub(super) epoch: Epoch,
    pub(super) block: BlockId,
    pub(super) stamps: (GenerationStamp, GenerationStamp),
    pub(super) replicas: Vec<DatanodeInfo>,
    pub(super) token: BlockToken,
    pub(super) lead: Lead,
}

impl Leading {
    pub(super) fn info(&self, id: DatanodeId) -> Option<&DatanodeInfo> {
        self.replicas.iter().find(|datanode| datanode.id == id)
    }
}

/// Where a DataNode is.
pub(crate) fn place_of(info: &DatanodeInfo) -> Option<Place> {
    info.host.strip_prefix("node")?.parse().ok().map(Place::Node)
}

/// When what is due of what a DataNode does beside its work.
pub(super) struct Upkeep {
    pub(super) begin: Duration,
    pub(super) scrub: Scrub,
    pub(super) checked: Duration,
    pub(super) compared: Duration,
}

impl Upkeep {
    /// Of a process that starts now.
    pub(super) fn new(now: Duration) -> Self {
        let scrub = Scrub::new(SCAN_PERIOD, SCAN_RATE_BYTES);
        Upkeep { begin: now, scrub, checked: now, compared: now }
    }
}

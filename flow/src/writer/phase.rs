//! What is under way in a [`super::Writer`]: one state for each layer.

use std::time::{Duration, Instant};

use protocol::namenode::Call;
use protocol::{BlockId, DatanodeId};

use super::open_block::Failure;
use super::step::Patience;

/// The way to a goal.
///
/// ```text
/// block     Adding ──► Idle
/// send      Sending ──► Idle
/// end       Ending: Begin ──► Abandon ───────────────┬──► Idle, or for a close:
///                     └──► Push ──► Acknowledged ────┘    Completing ──► Idle
/// flush     Flushing: Begin ──► Push ──► Sent ──► Confirm ──► Idle
///                       ▲                  │ the pipeline is too short again
///                       └──────────────────┘
/// give up   GivingUp ──► Idle
/// ```
#[derive(Debug)]
pub(super) enum Phase {
    Idle,
    /// Asks for a block.
    Adding,
    /// Waits until packets are sent.
    Sending,
    /// Ends the block; `closes` if the file ends with it.
    EndingBlock {
        stage: BlockEnd,
        closes: bool,
    },
    Flushing(Flush),
    /// Asks the NameNode to complete the file, until the deadline again and again.
    Completing {
        deadline: Option<Instant>,
        pauses: bool,
    },
    /// Ends a file that was not closed.
    GivingUp {
        /// A block to which nothing was sent.
        unused: Option<BlockId>,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum BlockEnd {
    Begin,
    /// Gives back a block without data.
    Abandon(BlockId),
    /// The pipeline is as long as it can be: sends the last packet.
    Push,
    /// All members have acknowledged it.
    Acknowledged,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Flush {
    pub(super) sync: bool,
    pub(super) update_length: bool,
    /// False if there are no members that a short pipeline could be widened by.
    pub(super) is_wide: bool,
    /// Rounds of a sync that have begun.
    pub(super) rounds: u32,
    pub(super) stage: FlushStage,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum FlushStage {
    Begin,
    Push,
    Sent,
    Confirm,
}

impl Phase {
    pub(super) fn ends_block(closes: bool) -> Self {
        Phase::EndingBlock { stage: BlockEnd::Begin, closes }
    }

    pub(super) fn flushes(sync: bool, update_length: bool) -> Self {
        let stage = FlushStage::Begin;
        Phase::Flushing(Flush { sync, update_length, is_wide: sync, rounds: 0, stage })
    }
}

/// Asks for more members of a pipeline that is too short.
///
/// ```text
/// Check ──► (all is acknowledged) Ask ──► (repair) Pause ──► Check
///   └──► the pipeline is long enough, or all tries are used up
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct Widening {
    pub(super) tries: u32,
    pub(super) stage: WideningStage,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum WideningStage {
    Check,
    Ask,
    Pause,
}

/// Sends packets and takes acks.
#[derive(Debug)]
pub(super) struct Sending<F> {
    /// Continue until everything is acknowledged; otherwise until everything is sent.
    pub(super) until_acked: bool,
    /// No ack has arrived since the last one was taken or the last packet was sent.
    pub(super) drained: bool,
    /// The connection broke while a packet was sent: acks that arrived before may name the member to blame.
    pub(super) broke: Option<F>,
}

impl<F> Sending<F> {
    pub(super) fn until_sent() -> Self {
        Sending { until_acked: false, drained: false, broke: None }
    }

    pub(super) fn until_acked() -> Self {
        Sending { until_acked: true, ..Sending::until_sent() }
    }
}

/// The way to a pipeline that works, after a failure.
///
/// ```text
/// Failed ──► Reported ──┬── nothing is acknowledged: Abandoning ──► Adding ──► another block
///    ▲                  │                                             ▲ │ no DataNode is left
///    │                  │                                             │ ▼
///    │                  │                                           Pausing
///    │                  └── Recovering ──► Filling ──► the same block under a new stamp
///    └──────────── another fails ────────────┘
/// ```
#[derive(Debug)]
pub(super) enum Repair<F> {
    /// A member failed.
    Failed(Failure<F>),
    /// That is logged.
    Reported(Failure<F>),
    /// Gives back the block: a new one elsewhere is simpler than a recovery.
    Abandoning { fault: F },
    /// Asks for another block; `is_last` if all DataNodes that failed may be in it again.
    Adding { fault: F, is_last: bool },
    /// All have failed once. One that only restarted is better than none.
    Pausing { fault: F },
    /// Asks for a new stamp for the survivors, and for a replacement.
    Recovering { failed: Option<DatanodeId>, is_slow: bool },
    /// Has a survivor copy the acknowledged bytes to new members, from this place on.
    Filling { begin: usize },
}

/// What the driver does next; the step has it with what it needs.
#[derive(Debug)]
pub(super) enum Turn {
    Call(Call, Patience),
    Open,
    Send,
    TakeAck { waits: bool },
    Fill { survivor: usize, member: usize },
    Pause(Duration),
    Report,
    Part,
    Done,
}

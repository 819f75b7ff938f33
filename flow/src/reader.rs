//! [`Reader`]: which replica of a file is read next, when locations are fetched again, when a read gives up.
//!
//! When a replica fails (node gone, timeout, bad checksum, too short), reading continues with the next one at the same byte. When all have failed, the reader
//! fetches locations again after growing pauses: a NameNode that was just restarted learns of replicas bit by bit. If all are damaged, the block is assembled
//! from the good chunks of each.
//!
//! ```text
//! Open ──► Read ──► bytes
//!  ▲        │ it failed: the next replica
//!  ├────────┤ all have failed
//!  │        ├─────────────────────► Pause ──► Fetch ──► (all may be tried again, but for damaged ones)
//!  └────────┼───────────────────────────────────┘
//!           │ every replica is damaged, or no pause is left and some are
//!           └─────────────────────► Salvage
//! ```
//!
//! Invariants: a byte is read at the offset at which the replica before it failed; a damaged replica is reported once and read no more, except chunk by chunk;
//! a read ends after a bounded number of steps.

use std::time::Duration;

use protocol::namenode::{BadReplica, DatanodeInfo, LocatedBlock};
use protocol::{DatanodeId, InodeId};

use crate::error::ReadError;

/// Pauses before locations are fetched again, milliseconds, each shortened by jitter. They last about 15 s in all; a replica that is still not reported then is
/// not expected any more.
const FETCH_PAUSES_MS: [u64; 10] = [0, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000];
/// Pauses before asking again for the length of a block being written, milliseconds: a pipeline that is being rebuilt answers within them.
const LENGTH_PAUSES_MS: [u64; 6] = [10, 50, 100, 200, 400, 800];

/// A file as it was when it was opened, and what is known of its replicas.
#[derive(Clone, Debug)]
pub struct Reader {
    file: InodeId,
    length: u64,
    blocks: Vec<Block>,
    /// The block of which a replica is open, and whose it is.
    open: Option<(usize, DatanodeId)>,
}

#[derive(Clone, Debug)]
struct Block {
    located: LocatedBlock,
    /// Replicas to skip: they failed since locations were fetched, or are damaged.
    failed: Vec<DatanodeId>,
    /// Replicas that did not match their checksums.
    damaged: Vec<DatanodeId>,
    /// All replicas failed and some are damaged: read chunk by chunk from whichever has a good one.
    salvage: bool,
}

/// The reading of some bytes at one offset.
#[derive(Debug)]
pub struct Attempt {
    index: usize,
    offset: u64,
    /// How often locations were fetched again.
    fetch_count: usize,
    paused: bool,
}

/// What the driver does next. It reports the outcome with the named method before it asks for the next step.
#[derive(Debug)]
pub enum Step<'a> {
    /// Open this replica; it replaces the one that is open. -> [`Reader::opened`]
    Open {
        /// The block.
        block: &'a LocatedBlock,
        /// Whose replica.
        datanode: &'a DatanodeInfo,
    },
    /// Read from the open replica. -> [`Reader::failed`] unless it succeeds
    Read {
        /// Offset in the block.
        at: u64,
        /// Bytes of the block from there on.
        rest: u64,
    },
    /// Assemble bytes from the good chunks of all replicas. This ends the attempt.
    Salvage {
        /// The block; damaged replicas count.
        block: &'a LocatedBlock,
        /// Offset in the block.
        at: u64,
        /// Bytes of the block from there on.
        rest: u64,
    },
    /// Wait this long, shortened by jitter. -> [`Attempt::paused`]
    Pause(Duration),
    /// Fetch the locations of this byte of the file. -> [`Reader::fetched`]
    Fetch {
        /// Offset in the file.
        offset: u64,
    },
    /// The bytes cannot be read.
    End(ReadError),
}

/// A replica that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    /// The replica.
    pub replica: BadReplica,
    /// True if the NameNode is to know that it is damaged.
    pub report: bool,
}

impl Attempt {
    /// Reports that a pause is over.
    pub fn paused(&mut self) {
        self.paused = true;
    }
}

impl Reader {
    /// A file of these blocks, in order.
    pub fn new(file: InodeId, blocks: Vec<LocatedBlock>) -> Self {
        let length = blocks.last().map_or(0, |block| block.offset + block.length);
        let blocks = blocks.into_iter().map(Block::new).collect();
        Reader { file, length, blocks, open: None }
    }

    /// Another reader of the file as this one saw it on opening.
    pub fn another(&self) -> Self {
        let blocks = self.blocks.iter().map(|block| Block::new(block.located.clone())).collect();
        Reader { file: self.file, length: self.length, blocks, open: None }
    }

    /// Its length, bytes.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Its blocks.
    pub fn blocks(&self) -> impl Iterator<Item = &LocatedBlock> {
        self.blocks.iter().map(|block| &block.located)
    }

    /// Begins to read at an offset of the file; `None` at its end.
    pub fn begin(&self, offset: u64) -> Option<Attempt> {
        if offset >= self.length {
            return None;
        }
        let behind = self.blocks.partition_point(|block| block.located.offset <= offset);
        let index = behind.saturating_sub(1);
        Some(Attempt { index, offset, fetch_count: 0, paused: false })
    }

    /// The next step.
    pub fn next_step(&mut self, attempt: &Attempt) -> Step<'_> {
        let index = attempt.index;
        let block = &mut self.blocks[index];
        let at = attempt.offset - block.located.offset;
        // A file that grew since it was opened still ends where it did then, even if the length of its last block has changed meanwhile.
        let rest = block.located.length.saturating_sub(at).min(self.length - attempt.offset);
        if rest == 0 {
            return Step::End(ReadError::Short { offset: attempt.offset });
        }
        if !block.salvage {
            if self.open.is_some_and(|(open, _)| open == index) {
                return Step::Read { at, rest };
            }
            if let Some(place) = block.next_replica() {
                return Step::Open {
                    block: &block.located,
                    datanode: &block.located.replicas[place],
                };
            }
            if !block.is_damaged_everywhere() {
                if attempt.paused {
                    return Step::Fetch { offset: block.located.offset };
                }
                if let Some(pause_ms) = FETCH_PAUSES_MS.get(attempt.fetch_count) {
                    return Step::Pause(Duration::from_millis(*pause_ms));
                }
                if block.damaged.is_empty() {
                    // The next attempt may try all of them again.
                    block.failed.clear();
                    return Step::End(ReadError::Unreachable { block: block.located.id });
                }
            }
            block.salvage = true;
        }
        Step::Salvage { block: &block.located, at, rest }
    }

    /// Reports that the replica of the last [`Step::Open`] is open.
    pub fn opened(&mut self, attempt: &Attempt) {
        let block = &self.blocks[attempt.index];
        let datanode = block.next_replica().map(|place| block.located.replicas[place].id);
        self.open = datanode.map(|datanode| (attempt.index, datanode));
    }

    /// Reports that the open replica failed: it did not match its checksums, or anything else. Returns which it was.
    pub fn failed(&mut self, is_damaged: bool) -> Option<Failed> {
        let (index, datanode) = self.open.take()?;
        let block = &mut self.blocks[index];
        block.failed.push(datanode);
        let report = is_damaged && !block.damaged.contains(&datanode);
        if report {
            block.damaged.push(datanode);
        }
        let LocatedBlock { id, stamp, .. } = block.located;
        Some(Failed { replica: BadReplica { block: id, stamp, datanode }, report })
    }

    /// Reports where the blocks of what has the file's name now are. Replicas known to be damaged are skipped. A block that was cut is another one, with the
    /// same first bytes: reading goes on in it. Whoever reads a file while others cut it and append to it again gets bytes of before and after.
    ///
    /// # Errors
    /// [`ReadError::Short`] if the block is not among those found, or the name has gone to another file.
    pub fn fetched(
        &mut self,
        attempt: &mut Attempt,
        (file, found): (InodeId, Vec<LocatedBlock>),
    ) -> Result<(), ReadError> {
        attempt.fetch_count += 1;
        attempt.paused = false;
        let block = &mut self.blocks[attempt.index];
        let (id, offset, seen) = (block.located.id, block.located.offset, block.located.length);
        let is_file = file == self.file;
        let in_place = |it: &LocatedBlock| it.id == id || (is_file && it.offset == offset);
        let Some(found) = found.into_iter().find(in_place) else {
            return Err(ReadError::Short { offset });
        };
        if found.id != id {
            // It is what is left of the block before, unless somebody has cut that off altogether and appended others since.
            if found.length > seen && !block.located.open {
                return Err(ReadError::Short { offset });
            }
            *block = Block::new(found);
            return Ok(());
        }
        block.failed.clone_from(&block.damaged);
        block.located = found;
        if block.located.open {
            block.located.length = block.located.length.max(seen);
        }
        Ok(())
    }
}

impl Block {
    fn new(located: LocatedBlock) -> Self {
        Block { located, failed: Vec::new(), damaged: Vec::new(), salvage: false }
    }

    /// The place of the nearest replica that may work.
    fn next_replica(&self) -> Option<usize> {
        self.located.replicas.iter().position(|replica| !self.failed.contains(&replica.id))
    }

    fn is_damaged_everywhere(&self) -> bool {
        let mut replicas = self.located.replicas.iter().peekable();
        replicas.peek().is_some() && replicas.all(|replica| self.damaged.contains(&replica.id))
    }
}

/// The pause before the length of a block being written is asked for again, after it was asked for `count` times; shortened by jitter. `None` if the length that
/// the NameNode knows has to do.
pub fn length_pause(count: usize) -> Option<Duration> {
    LENGTH_PAUSES_MS.get(count).map(|pause_ms| Duration::from_millis(*pause_ms))
}

/// How much of a block being written can be read; its DataNodes know that. They are asked one after the other.
#[derive(Debug)]
pub struct VisibleLength {
    /// Bytes that the NameNode knows of.
    known: u64,
    silent: bool,
    /// Somebody has said that it has no replica.
    absent: bool,
}

/// What a DataNode says of a block being written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    /// It has this many bytes.
    Length(u64),
    /// It has no replica.
    Absent,
    /// Nothing: it cannot say now.
    Nothing,
}

impl VisibleLength {
    /// Of a block of which the NameNode knows this many bytes; with members that nobody can ask, because the NameNode has not heard of them yet, if
    /// `has_unseen`.
    pub fn new(known: u64, has_unseen: bool) -> Self {
        VisibleLength { known, silent: has_unseen, absent: false }
    }

    /// Takes what a DataNode says. The first one that has no fewer bytes than the NameNode knows of decides.
    pub fn take(&mut self, said: Said) -> Option<u64> {
        match said {
            Said::Length(length) if length >= self.known => return Some(length),
            Said::Length(_) | Said::Nothing => self.silent = true,
            Said::Absent => self.absent = true,
        }
        None
    }

    /// The length when all were asked; `None` if none can say now: locations may have changed meanwhile. A block that no DataNode has yet is empty. One of which
    /// no DataNode is known may have bytes: a NameNode that was just restarted has not heard of its replicas.
    pub fn end(self) -> Option<u64> {
        (self.known == 0 && self.absent && !self.silent).then_some(0)
    }
}

#[cfg(test)]
mod tests;

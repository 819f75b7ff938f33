//! What clients were promised, and whether it is so.
//!
//! A file that was closed has its length; one that was synced has at least so much; all bytes are those that its writer wrote. When the faults are over no file
//! is open, and each block has its replicas.

use std::collections::BTreeMap;

use datanode::store::{Store, verify_range};
use needs::random::Random;
use protocol::DfsPath;
use protocol::namenode::LocatedBlock;

use crate::content::{Content, byte_at};

/// What is known of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    client: usize,
    /// Bytes that were synced.
    pub(crate) durable: u64,
    /// Bytes that were flushed, as far as no DataNode has lost its power or a disk since.
    visible: u64,
    /// Bytes of which the NameNode knows.
    listed: u64,
    /// Losses until the first byte was written that is not synced.
    cut_count: Option<u64>,
    /// Its length, while it is closed.
    pub(crate) closed: Option<u64>,
    /// Its creation was acknowledged, and its writer has not given it up since.
    is_created: bool,
    /// Its writer has asked to append to it since it was closed.
    is_wanted: bool,
    /// It is the keeper's: its path changes, and it may be gone.
    pub(crate) is_given_away: bool,
}

impl Known {
    /// Nobody was promised that it is there.
    pub(crate) fn may_be_missing(&self) -> bool {
        self.durable == 0 && self.closed.is_none() && !self.is_created
    }
}

/// What a reader is promised of a file when it asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) file: u64,
    known: Known,
    /// Losses until then.
    cut_count: u64,
}

/// All files.
#[derive(Default)]
pub(crate) struct Oracle {
    pub(crate) files: BTreeMap<u64, Known>,
    /// Losses of power or disks, with which flushed bytes may go.
    cut_count: u64,
    /// A disk may be out of service now, or go out of it.
    is_disk_failing: bool,
    /// Reads that got all the bytes that they wanted, at least one.
    pub(crate) read_count: u64,
    pub(crate) closed_count: u64,
    pub(crate) synced_count: u64,
}

impl Oracle {
    pub(crate) fn path(&self, file: u64) -> DfsPath {
        let client = self.files.get(&file).map_or(0, |known| known.client);
        DfsPath::parse(&format!("/c{client}/f{file}")).expect("a path")
    }

    /// A new file of a client.
    pub(crate) fn create(&mut self, client: usize) -> u64 {
        let file = self.files.len() as u64 + 1;
        let known = Known {
            client,
            durable: 0,
            visible: 0,
            listed: 0,
            cut_count: None,
            closed: None,
            is_created: false,
            is_wanted: false,
            is_given_away: false,
        };
        self.files.insert(file, known);
        file
    }

    /// A closed file of the client, for an append.
    pub(crate) fn closed_of(&self, client: usize, random: &mut Random) -> Option<u64> {
        random.pick(&self.at_rest(|known| known.client == client))
    }

    fn at_rest(&self, which: impl Fn(&Known) -> bool) -> Vec<u64> {
        let is_one = |known: &Known| known.closed.is_some() && !known.is_given_away && which(known);
        self.files.iter().filter(|(_, known)| is_one(known)).map(|(file, _)| *file).collect()
    }

    /// Its writer asks to append to a file.
    pub(crate) fn wanted(&mut self, file: u64) {
        self.known(file).is_wanted = true;
    }

    /// Gives a file away that is closed for good.
    pub(crate) fn give_away(&mut self, random: &mut Random) -> Option<u64> {
        let file = random.pick(&self.at_rest(|known| !known.is_wanted))?;
        self.known(file).is_given_away = true;
        Some(file)
    }

    /// What a closed file holds.
    pub(crate) fn content(&self, file: u64) -> Content {
        Content::of(file, self.files[&file].closed.unwrap_or_default())
    }

    fn known(&mut self, file: u64) -> &mut Known {
        self.files.get_mut(&file).expect("a file that was created")
    }

    /// A writer writes.
    pub(crate) fn written(&mut self, file: u64) {
        let cut_count = self.cut_count;
        self.known(file).cut_count.get_or_insert(cut_count);
    }

    /// A flush is acknowledged; it was a sync, and the NameNode was to know of it.
    pub(crate) fn flushed(&mut self, file: u64, length: u64, (sync, is_listed): (bool, bool)) {
        let (cut_count, is_disk_failing) = (self.cut_count, self.is_disk_failing);
        let known = self.known(file);
        let is_kept = known.cut_count.is_none_or(|count| count == cut_count);
        if sync || (is_kept && !is_disk_failing) {
            known.visible = length;
        }
        if sync {
            known.cut_count = None;
            known.durable = known.durable.max(length);
            if is_listed {
                known.listed = length;
            }
            self.synced_count += 1;
        }
    }

    pub(crate) fn closed(&mut self, file: u64, length: u64) {
        let known = self.known(file);
        (known.durable, known.visible, known.listed) = (length, length, length);
        (known.cut_count, known.closed) = (None, Some(length));
        known.is_wanted = false;
        self.closed_count += 1;
    }

    /// It is there.
    pub(crate) fn created(&mut self, file: u64) {
        self.known(file).is_created = true;
    }

    /// A DataNode has lost its power. What was only flushed was in its memory, and may be so on all that have it.
    pub(crate) fn power_cut(&mut self) {
        self.cut_count += 1;
        self.files.values_mut().for_each(|known| known.visible = known.durable);
    }

    /// A disk of a DataNode may go out of service, or none may any more. Of a pipeline whose other members have failed it may have the only replica.
    pub(crate) fn disk_failing(&mut self, is_failing: bool) {
        if is_failing && !self.is_disk_failing {
            self.power_cut();
        }
        self.is_disk_failing = is_failing;
    }

    /// Its writer does not know how it ended.
    pub(crate) fn unknown(&mut self, file: u64) {
        let known = self.known(file);
        (known.closed, known.is_created) = (None, false);
    }

    /// It is open again, at this length.
    pub(crate) fn reopened(&mut self, file: u64, length: u64) {
        let known = self.known(file);
        assert_eq!(known.closed, Some(length), "file {file} is opened at its end");
        known.closed = None;
    }

    /// What a reader of some file is promised now.
    pub(crate) fn expected_of_any(&self, random: &mut Random) -> Option<Expected> {
        let file = 1 + random.within(0..self.files.len().max(1) as u64);
        let known = *self.files.get(&file).filter(|known| !known.is_given_away)?;
        Some(Expected { file, known, cut_count: self.cut_count })
    }

    /// A reader has found no such file.
    pub(crate) fn check_absent(&self, expected: &Expected) {
        let Expected { file, known, .. } = expected;
        if self.files[file].is_given_away {
            return;
        }
        assert!(known.durable == 0 && known.closed.is_none(), "file {file} is gone: {known:?}");
        let is_kept = known.is_created && self.files[file].is_created;
        assert!(!is_kept, "file {file} was created and is gone: {known:?}");
    }

    /// A reader has opened a file and sees so many bytes. If no DataNode could say what it has of the last block, `is_exact` is false, and what the NameNode
    /// knows has to do.
    pub(crate) fn check_seen(&self, expected: &Expected, length: u64, is_exact: bool) {
        let Expected { file, known, cut_count } = expected;
        let least = match is_exact {
            false => known.listed,
            true if *cut_count == self.cut_count => known.visible,
            true => known.durable,
        };
        assert!(length >= least, "a reader of file {file} sees {length} bytes: {expected:?}");
    }

    /// A reader has got these bytes.
    pub(crate) fn check_bytes(&self, expected: &Expected, offset: u64, bytes: &[u8]) {
        let file = expected.file;
        let wrong = (offset..).zip(bytes).find(|(at, byte)| **byte != byte_at(file, *at));
        assert!(wrong.is_none(), "a reader of file {file} gets a wrong byte: {wrong:?}");
    }

    /// A read is over. When nothing fails any more it succeeds, unless the file was open.
    pub(crate) fn read_ended(
        &mut self,
        expected: &Expected,
        outcome: Result<u64, String>,
        is_settled: bool,
    ) {
        match outcome {
            Ok(byte_count) => self.read_count += u64::from(byte_count > 0),
            Err(why) => {
                let is_given_away = self.files[&expected.file].is_given_away;
                let must_succeed = is_settled && expected.known.closed.is_some() && !is_given_away;
                assert!(!must_succeed, "file {} cannot be read: {why}", expected.file);
            }
        }
    }

    /// The length that a listing says is one that it may say.
    pub(crate) fn check_length(&self, file: u64, length: u64) -> Result<(), String> {
        let known = &self.files[&file];
        match known.closed {
            Some(closed) if closed != length => {
                Err(format!("file {file} was closed at {closed} bytes and has {length}"))
            }
            None if length < known.durable => {
                Err(format!("file {file} has {length} bytes, {} were synced", known.durable))
            }
            _ => Ok(()),
        }
    }
}

/// Compares the replica of a DataNode with what was written.
pub(crate) fn check_replica(
    content: &Content,
    block: &LocatedBlock,
    store: &Store,
) -> Result<(), String> {
    let replica = store.open_replica(block.id, block.stamp).map_err(|error| error.to_string())?;
    if !replica.replica.is_finalized() || replica.replica.length != block.length {
        return Err(format!("replica {:?}, block of {} bytes", replica.replica, block.length));
    }
    let mut bytes = vec![0; block.length as usize];
    let files = (&replica.block, &replica.meta);
    verify_range(block.id, files.0, files.1, 0, block.length, |_| ())
        .map_err(|error| error.to_string())?;
    files.0.read_exact_at(&mut bytes, 0).map_err(|error| error.to_string())?;
    let wrong = (block.offset..).zip(bytes).find(|(at, byte)| Some(*byte) != content.byte_at(*at));
    wrong.map_or(Ok(()), |(at, _)| Err(format!("byte {at} is wrong")))
}

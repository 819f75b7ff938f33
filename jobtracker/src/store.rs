//! The JobTracker's durable state: edits in the journal, and a checkpoint with the edits of the jobs still known.
//!
//! ```text
//! row key    1 | job: cluster start u64 BE, number u32 BE (zeros for the JobTracker itself) | txid u64 BE | chunk u16 BE
//! row value  a piece of the body of the edit's record (`core/edit.rs`), at most VALUE_BYTES_MAX bytes
//! ```
//!
//! Invariants: replaying the rows' edits in the order of their txids gives the same state as replaying the whole log; the rows of a job are
//! deleted with the job; once a job is final its input splits are kept without their hosts, and if a job has many maps only their number is
//! kept.

use std::collections::BTreeMap;
use std::time::Duration;

use journal::{Change, Recover, RecoverError, Txid, VALUE_BYTES_MAX};
use protocol::JobId;
use protocol::jobs::Splits;
use protocol::level::Supported;

use crate::core::edit::{Edit, Submitted};
use crate::core::jobs::Job;
use crate::core::{Core, Rules, submit};

/// First byte of every row key; others are free for later kinds.
const EDIT_ROW: u8 = 1;
/// Changed rows that trigger a checkpoint: a restart replays little, and sled gets batches.
pub(crate) const CHECKPOINT_ROWS: usize = 512;
/// After this time, even a few changed rows go to the checkpoint: a quiet JobTracker has all of them there.
pub(crate) const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(60);
const KEY_BYTES: usize = 1 + 8 + 4 + 8 + 2;

/// What edits change.
pub(crate) struct State {
    pub(crate) core: Core,
    pub(crate) rows: Rows,
}

/// The existing rows, and those changed since the last checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    by_job: BTreeMap<Option<JobId>, Vec<RowGroup>>,
    changes: Vec<Change>,
}

/// The rows of one edit.
#[derive(Clone, Copy, Debug)]
struct RowGroup {
    txid: u64,
    chunk_count: u16,
}

impl Rows {
    /// Records an edit with its `txid`, already applied to `core`.
    pub(crate) fn note(&mut self, txid: Txid, edit: &Edit, body: &[u8], core: &Core) {
        let job = edit.job();
        match edit {
            Edit::Refused { .. } | Edit::Retired { .. } => {
                for group in self.by_job.remove(&job).unwrap_or_default() {
                    self.delete(job, group, 0);
                }
                return;
            }
            Edit::Ended { job: id, .. } => {
                if let Some(ended) = core.job(*id) {
                    self.slim(ended);
                }
            }
            _ => {}
        }
        let group = self.put(job, txid.0, body);
        self.by_job.entry(job).or_default().push(group);
    }

    /// Changes since the last checkpoint.
    pub(crate) fn dirty_count(&self) -> usize {
        self.changes.len()
    }

    /// The changes since the last checkpoint.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Rewrites the submission of an ended job, with the splits that the job still knows.
    fn slim(&mut self, job: &Job) {
        let Some(group) = self.by_job.get(&Some(job.id)).and_then(|groups| groups.first().copied())
        else {
            return;
        };
        let mut spec = job.spec.clone();
        if spec.splits.len() < job.maps.len() as usize {
            spec.splits = Splits::nowhere(job.maps.len() as usize);
        }
        let slim = Edit::Admitted(Box::new(Submitted {
            job: job.id,
            call: job.call,
            user: job.user.clone(),
            submitted_ms: job.submitted_ms,
            epoch: job.epoch,
            queue: job.queue.clone(),
            spec,
        }));
        let slimmed = self.put(Some(job.id), group.txid, &slim.encode());
        self.delete(Some(job.id), group, slimmed.chunk_count);
        if let Some(first) =
            self.by_job.get_mut(&Some(job.id)).and_then(|groups| groups.first_mut())
        {
            *first = slimmed;
        }
    }

    fn put(&mut self, job: Option<JobId>, txid: u64, body: &[u8]) -> RowGroup {
        let mut chunk_count = 0;
        for chunk in body.chunks(VALUE_BYTES_MAX) {
            let key = row_key(job, txid, chunk_count);
            self.changes.push(Change { key, value: Some(chunk.to_vec()) });
            chunk_count += 1;
        }
        RowGroup { txid, chunk_count }
    }

    fn delete(&mut self, job: Option<JobId>, group: RowGroup, from: u16) {
        for chunk in from..group.chunk_count {
            self.changes.push(Change { key: row_key(job, group.txid, chunk), value: None });
        }
    }
}

/// A start from the journal, in progress.
pub(crate) struct Replay {
    rules: Rules,
    core: Core,
    rows: Rows,
    loading: BTreeMap<(u64, u16), (Option<JobId>, Vec<u8>)>,
}

impl Replay {
    /// Nothing restored yet.
    pub(crate) fn new(rules: Rules) -> Self {
        Replay {
            core: Core::new(rules.clone()),
            rules,
            rows: Rows::default(),
            loading: BTreeMap::new(),
        }
    }

    /// The restored state.
    pub(crate) fn finish(self) -> State {
        State { core: self.core, rows: self.rows }
    }

    fn restore(&mut self, txid: u64, body: &[u8]) -> Result<(), RecoverError> {
        let edit = read(body)?;
        self.core.apply(&edit);
        let chunk_count = u16::try_from(body.len().div_ceil(VALUE_BYTES_MAX))
            .map_err(|_| RecoverError::new("an edit is too long"))?;
        self.rows.by_job.entry(edit.job()).or_default().push(RowGroup { txid, chunk_count });
        Ok(())
    }
}

impl Recover for Replay {
    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecoverError> {
        let (job, txid, chunk) =
            parse_key(key).ok_or_else(|| RecoverError::new("a row has an unknown key"))?;
        self.loading.insert((txid, chunk), (job, value.to_vec()));
        Ok(())
    }

    fn loaded(&mut self, _: Txid) -> Result<(), RecoverError> {
        let mut body = Vec::new();
        let mut rows = std::mem::take(&mut self.loading).into_iter().peekable();
        let mut expected_chunk = 0;
        while let Some(((txid, chunk), (job, piece))) = rows.next() {
            if chunk != expected_chunk {
                return Err(RecoverError::new("a piece of an edit is missing"));
            }
            body.extend_from_slice(&piece);
            if rows.peek().is_some_and(|((next, _), _)| *next == txid) {
                expected_chunk += 1;
                continue;
            }
            self.restore(txid, &body)?;
            if !self.rows.by_job.contains_key(&job) {
                return Err(RecoverError::new("a row is filed under another job"));
            }
            body.clear();
            expected_chunk = 0;
        }
        Ok(())
    }

    fn replay(&mut self, txid: Txid, body: &[u8]) -> Result<(), RecoverError> {
        let edit = read(body)?;
        self.core.apply(&edit);
        self.rows.note(txid, &edit, body, &self.core);
        Ok(())
    }

    fn reset(&mut self) {
        *self = Replay::new(self.rules.clone());
    }
}

/// Reads an edit; refuses one that begins a level which this program does not support, and a job that nobody could have submitted.
fn read(body: &[u8]) -> Result<Edit, RecoverError> {
    let edit = Edit::decode(body).map_err(RecoverError::new)?;
    if let Edit::LevelSet { level } = edit {
        Supported::OWN.check(level).map_err(RecoverError::new)?;
    }
    match &edit {
        Edit::Submitted(submitted) => submit::check_task_count(&submitted.spec),
        Edit::SubmittedInRounds { submitted, rounds } => {
            let spec = &submitted.spec;
            submit::check_task_count(spec).and_then(|()| submit::check_rounds(spec, *rounds))
        }
        Edit::Accepted(submitted) | Edit::Admitted(submitted) => {
            let spec = &submitted.spec;
            let rounds = spec.rounds.map_or(Ok(()), |rounds| submit::check_rounds(spec, rounds));
            submit::check_task_count(spec).and(rounds)
        }
        _ => Ok(()),
    }
    .map_err(RecoverError::new)?;
    Ok(edit)
}

fn row_key(job: Option<JobId>, txid: u64, chunk: u16) -> Vec<u8> {
    let (cluster_start, number) = job.map_or((0, 0), |job| (job.cluster_start, job.number));
    let mut key = Vec::with_capacity(KEY_BYTES);
    key.push(EDIT_ROW);
    key.extend_from_slice(&cluster_start.to_be_bytes());
    key.extend_from_slice(&number.to_be_bytes());
    key.extend_from_slice(&txid.to_be_bytes());
    key.extend_from_slice(&chunk.to_be_bytes());
    key
}

fn parse_key(key: &[u8]) -> Option<(Option<JobId>, u64, u16)> {
    let key: &[u8; KEY_BYTES] = key.try_into().ok()?;
    let (kind, rest) = key.split_first()?;
    let (cluster_start, rest) = rest.split_first_chunk::<8>()?;
    let (number, rest) = rest.split_first_chunk::<4>()?;
    let (txid, rest) = rest.split_first_chunk::<8>()?;
    let (chunk, _) = rest.split_first_chunk::<2>()?;
    let job = JobId {
        cluster_start: u64::from_be_bytes(*cluster_start),
        number: u32::from_be_bytes(*number),
    };
    let job = (job.number > 0).then_some(job);
    (*kind == EDIT_ROW).then(|| (job, u64::from_be_bytes(*txid), u16::from_be_bytes(*chunk)))
}

#[cfg(test)]
mod tests {
    use protocol::jobs::{Counters, JobState};
    use protocol::{CallId, ClientId, Epoch, FeatureLevel};

    use super::*;
    use crate::config::Config;
    use crate::core::spec;

    /// More maps than a finished job keeps splits for.
    const MAPS: u32 = 20_000;
    const JOB: JobId = JobId { cluster_start: 202_611_201_830, number: 1 };

    fn large() -> Submitted {
        Submitted {
            job: JOB,
            call: CallId { client: ClientId([1; 16]), number: 1 },
            user: "ann".to_owned(),
            submitted_ms: 1,
            epoch: Epoch(1),
            queue: "ann".to_owned(),
            spec: spec(1, &vec!["host"; MAPS as usize], 0),
        }
    }

    /// The rest of its submission is short, and was never a message.
    #[test]
    fn a_job_whose_splits_are_forgotten_is_known_after_a_restart() {
        let rules = Config::default().rules();
        let (mut core, mut rows) = (Core::new(rules.clone()), Rows::default());
        let (state, counters) = (JobState::Killed, Counters::default());
        let edits = [
            Edit::Admitted(Box::new(large())),
            Edit::Ended { job: JOB, state, finished_ms: 2, counters },
        ];
        for (txid, edit) in (1..).map(Txid).zip(&edits) {
            core.apply(edit);
            rows.note(txid, edit, &edit.encode(), &core);
        }
        let mut checkpoint = BTreeMap::new();
        for Change { key, value } in rows.take_changes() {
            match value {
                Some(value) => drop(checkpoint.insert(key, value)),
                None => drop(checkpoint.remove(&key)),
            }
        }
        let mut replay = Replay::new(rules);
        checkpoint.iter().for_each(|(key, value)| replay.load(key, value).unwrap());
        replay.loaded(Txid(2)).unwrap();
        let State { core: again, .. } = replay.finish();
        let job = again.job(JOB).unwrap();
        assert_eq!((job.maps.len(), job.final_state()), (MAPS, Some(state)));
    }

    #[test]
    fn a_journal_of_a_later_level_is_refused() {
        let mut replay = Replay::new(Config::default().rules());
        let at = |level| Edit::LevelSet { level: FeatureLevel(level) }.encode();
        replay.replay(Txid(1), &at(1)).unwrap();
        assert_eq!(replay.core.level(), FeatureLevel(1));
        assert!(replay.replay(Txid(2), &at(300)).is_err());
        let key = row_key(None, 2, 0);
        replay.load(&key, &at(300)).unwrap();
        assert!(replay.loaded(Txid(2)).is_err());
    }
}

//! What a writer does when members of its pipeline fail: it writes another block, or gets a new stamp for the survivors and a replacement.

use std::time::{Duration, Instant};

use protocol::namenode::{DatanodeInfo, WrittenBlock, calls};
use protocol::transfer::Resume;
use protocol::{DatanodeId, ErrorKind};

use super::super::error::DfsError;
use super::super::transfer::TransferFailure;
use super::DfsWriter;
use super::open_block::{Failure, OpenBlock, Until};

/// Consecutive failures of a pipeline without any progress after which the writer gives up the file.
const FAILURES_MAX: u32 = 8;
/// Pause before a block is tried again on DataNodes all of which have failed; jittered.
const FAILED_ALL_PAUSE: Duration = Duration::from_millis(500);
/// Attempts to find more members for a pipeline that is shorter than the number of durable replicas the NameNode asks for, [`FAILED_ALL_PAUSE`] apart:
/// DataNodes that restart are back within that time.
const WIDEN_TRIES: u32 = 20;

/// How long a DataNode that failed gets no block of this file, as HDFS (dfs.client.write.exclude.nodes.cache.expiry.interval). Writing a file can take longer
/// than a DataNode's outage.
const EXCLUDED_FOR: Duration = Duration::from_secs(600);

impl DfsWriter {
    /// DataNodes that failed this writer recently.
    pub(super) fn exclude(&mut self) -> Vec<DatanodeId> {
        self.excluded.retain(|(_, since)| since.elapsed() < EXCLUDED_FOR);
        self.excluded.iter().map(|(id, _)| *id).collect()
    }

    /// True if failures have left fewer members than must have the block on disk.
    pub(super) fn is_short(&self) -> bool {
        let is_short = |block: &OpenBlock| {
            block.located.replicas.len() < usize::from(block.located.durable_min)
        };
        self.block.as_ref().is_some_and(is_short)
    }

    /// Asks for more members of a pipeline that is too short, before a sync and before the block ends. False if there are none: the NameNode then decides at
    /// the end.
    pub(super) fn widen(&mut self) -> Result<bool, DfsError> {
        for _ in 0..WIDEN_TRIES {
            if !self.is_short() {
                return Ok(true);
            }
            self.transmit(Until::Acked)?;
            let acked = self.block.as_ref().map_or(0, |block| block.window.acked_length());
            self.excluded.clear();
            if acked == 0 {
                self.replace_block(TransferFailure::Unexpected)?;
            } else if let Err(failure) = self.recover_pipeline(None, TransferFailure::Unexpected)? {
                self.rebuild(failure)?;
            }
            std::thread::sleep(FAILED_ALL_PAUSE.mul_f64(rand::random_range(0.5..1.0)));
        }
        Ok(!self.is_short())
    }

    /// Why too few DataNodes have a block on disk, if disks have given the reason: the NameNode only knows that they do not.
    pub(super) fn explain(&mut self, error: DfsError) -> DfsError {
        let waits = error.kind() == Some(ErrorKind::NotReplicatedYet);
        let block = self.block.as_ref().map(|block| block.located.id);
        let block = block.or(self.previous.as_ref().map(|block| block.id));
        match (self.refused_by_disk.take(), block) {
            (Some(refusal), Some(block)) if waits => {
                let (path, failure) = (self.path.clone(), Some(TransferFailure::Remote(refusal)));
                DfsError::Write { path, block, failure }
            }
            _ => error,
        }
    }

    /// Sends and waits, rebuilding the pipeline as often as it takes.
    pub(super) fn transmit(&mut self, until: Until) -> Result<(), DfsError> {
        loop {
            let Some(block) = &mut self.block else { return Ok(()) };
            let acked_before = block.window.acked_length();
            let result = block.transmit(&self.link, until);
            if block.window.acked_length() > acked_before {
                self.failure_count = 0;
            }
            match result {
                Ok(()) => return Ok(()),
                Err(failure) => self.rebuild(failure)?,
            }
        }
    }

    /// Gets a new pipeline after a failure, and another if that fails meanwhile.
    pub(super) fn rebuild(&mut self, mut failure: Failure) -> Result<(), DfsError> {
        loop {
            let Some(block) = &mut self.block else { return Ok(()) };
            block.connection = None;
            let failed = block.located.replicas.get(failure.member).cloned();
            let id = failed.as_ref().map(|datanode| datanode.id);
            tracing::warn!(
                block = %block.located.id,
                datanode = id.map(|id| id.to_string()).unwrap_or_default(),
                cause = %crate::error::chain(&failure.cause),
                "a DataNode of the pipeline failed"
            );
            if let TransferFailure::Remote(refusal) = &failure.cause
                && refusal.kind == ErrorKind::Storage
            {
                self.refused_by_disk = Some(refusal.clone());
            }
            self.failure_count += 1;
            if self.failure_count > FAILURES_MAX {
                let (path, block) = (self.path.clone(), block.located.id);
                return Err(DfsError::Write { path, block, failure: Some(failure.cause) });
            }
            // The NameNode avoids a slow one as long as there are others.
            if !matches!(failure.cause, TransferFailure::Slow) {
                self.excluded.extend(id.map(|id| (id, Instant::now())));
            }
            let result = if block.window.acked_length() == 0 {
                self.replace_block(failure.cause)?;
                Ok(())
            } else {
                self.recover_pipeline(failed, failure.cause)?
            };
            match result {
                Ok(()) => return Ok(()),
                Err(next) => failure = next,
            }
        }
    }

    /// Nothing is acknowledged: a new block elsewhere is simpler than a recovery.
    fn replace_block(&mut self, cause: TransferFailure) -> Result<(), DfsError> {
        let exclude = self.exclude();
        let Some(block) = &mut self.block else { return Ok(()) };
        let old = block.located.id;
        self.link.ask(calls::AbandonBlock { file: self.file, block: old })?;
        let (file, previous) = (self.file, &self.previous);
        let add = |exclude| calls::AddBlock { file, previous: previous.clone(), exclude };
        let located = match self.link.ask(add(exclude)) {
            Err(error) if error.kind() == Some(ErrorKind::NoDatanodes) => {
                // All have failed once. One that only restarted is better than none.
                std::thread::sleep(FAILED_ALL_PAUSE.mul_f64(rand::random_range(0.5..1.0)));
                self.excluded.clear();
                match self.link.ask(add(Vec::new())) {
                    Err(error) if error.kind() == Some(ErrorKind::NoDatanodes) => {
                        let path = self.path.clone();
                        return Err(DfsError::Write { path, block: old, failure: Some(cause) });
                    }
                    located => located?,
                }
            }
            located => located?,
        };
        block.begin_anew(located);
        Ok(())
    }

    /// Gets a new stamp for the survivors, and a replacement that receives the acknowledged bytes. The inner result names the member that failed during this.
    fn recover_pipeline(
        &mut self,
        failed: Option<DatanodeInfo>,
        cause: TransferFailure,
    ) -> Result<Result<(), Failure>, DfsError> {
        let exclude = self.exclude();
        let Some(block) = &mut self.block else { return Ok(Ok(())) };
        let is_slow = matches!(cause, TransferFailure::Slow);
        let failed_id = failed.map(|datanode| datanode.id);
        let survivors = block.survivors(failed_id);
        if survivors.is_empty() {
            let (path, block) = (self.path.clone(), block.located.id);
            return Err(DfsError::Write { path, block, failure: Some(cause) });
        }
        let acked = block.window.acked_length();
        let written = WrittenBlock {
            id: block.located.id,
            stamp: block.located.stamp,
            length: acked,
            replicas: survivors.iter().map(|replica| replica.id).collect(),
            durable_count: 0,
        };
        // A member that failed before is no replacement either.
        let is_survivor = |id: &DatanodeId| survivors.iter().any(|survivor| survivor.id == *id);
        let all = exclude.into_iter().chain(failed_id);
        let failed = all.filter(|id| !is_survivor(id)).collect();
        let recover = calls::RecoverPipeline {
            file: self.file,
            block: written,
            failed,
            slow: failed_id.filter(|_| is_slow),
        };
        let located = self.link.ask(recover)?;
        block.move_to(located, &survivors);
        block.resume = Some(Resume { prior: block.prior, offset: acked });
        Ok(block.fill_replacements(&self.link, acked))
    }
}

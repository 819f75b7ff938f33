//! The reduce side of a job.
//!
//! Invariant: user code runs only inside [`guard`], so its panics become errors that name the group.

use std::cell::Cell;

use protocol::phase::Phase;
use shuffle::{ReduceInput, ReduceOptions};

use super::stage::{ReduceSide, ReduceTask};
use crate::error::{BoxError, Error, Result};
use crate::guard::guard;
use crate::reduce::{Groups, Reducer};
use crate::task::TaskState;
use crate::task::phases::{self, REDUCE_START_PROGRESS};

/// The reduce side of a map-only job.
pub(crate) struct NoReduce;

impl ReduceSide for NoReduce {
    fn run(&self, task: ReduceTask) -> Result<(), Error> {
        Err(Error::Conversation { what: format!("reduce {} of a map-only job", task.partition) })
    }
}

pub(crate) struct Reducing<R> {
    pub(crate) reducer: R,
    pub(crate) group_prefix: Option<shuffle::GroupPrefix>,
}

impl<R: Reducer> ReduceSide for Reducing<R> {
    fn run(&self, task: ReduceTask) -> Result<(), Error> {
        let ReduceTask { context, partition, sources, records, options, output } = task;
        let (group, state) = (Cell::new(0u64), TaskState::of(&context));
        let work = || -> Result<()> {
            let options = ReduceOptions { group_prefix: self.group_prefix, ..options };
            state.enter(Phase::ReduceMerge);
            let begin = phases::clock();
            let input = ReduceInput::with_life(sources, options, state.life())?;
            let merged = phases::clock();
            phases::spent(state, Phase::ReduceMerge, merged.saturating_sub(begin));
            let mut groups = Groups::new(input, records, &group, context.clone());
            state.set_progress(REDUCE_START_PROGRESS);
            state.enter(Phase::Reduce);
            let mut output = output;
            let mut reducer = self.reducer.clone();
            reducer.setup(&context)?;
            let reduced = reducer.run(&mut groups, &mut output);
            let cleaned = reducer.cleanup(&mut output);
            reduced.and(cleaned)?;
            let stats = groups.stats();
            state.add("REDUCE_INPUT_GROUPS", stats.groups);
            groups.count();
            state.add("SPILLED_RECORDS", stats.spilled_records);
            state.add("REDUCE_OUTPUT_RECORDS", output.close()?);
            state.set_hot_keys(groups.hot_keys());
            phases::spent(state, Phase::Reduce, phases::clock().saturating_sub(merged));
            Ok(())
        };
        let damaged = Cell::new(None);
        let watched = || work().inspect_err(|error| damaged.set(damaged_source(error)));
        guard(watched).map_err(|message| match damaged.get() {
            Some(index) => Error::DamagedInput { index, reason: message },
            None => Error::Reduce { partition, group: group.get(), message },
        })
    }
}

/// The index of the reduce's source that an error is about, if it is about one.
pub(super) fn damaged_source(error: &BoxError) -> Option<usize> {
    match error.downcast_ref::<shuffle::Error>()? {
        shuffle::Error::Corrupt { origin: shuffle::Origin::Source(index), .. }
        | shuffle::Error::SourceIo { index, .. } => Some(*index),
        _ => None,
    }
}

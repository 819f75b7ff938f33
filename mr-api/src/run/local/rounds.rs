//! The rounds of a job in this process.
//!
//! Invariant: what maps and rounds made goes when the round after it is done, except for what round 0 left fixed.

use std::fs;

use mr_model::runner::{
    RoundResult, RoundTask, TASK_COUNTERS, TaskState, map_options, reduce_options,
};
use mr_model::task::Context;
use mr_model::{Error, Result};
use protocol::TaskKind;
use protocol::jobs::Counters;
use protocol::rounds::{RoundsSpec, Summary};
use shuffle::MapOutput;

use super::tasks::{JobRun, Segments, run_all};
use crate::run::options;
use crate::run::progress::Progress;

/// What the tasks of a round read.
struct Before<'a> {
    round: u32,
    is_last: bool,
    /// Of the maps in round 0, later of the round before.
    outputs: Vec<MapOutput>,
    /// Of round 0; none in it.
    first: &'a [MapOutput],
    summaries: Vec<Summary>,
}

impl JobRun<'_> {
    /// Runs all rounds; adds up their counters.
    pub(super) fn rounds(
        &self,
        spec: RoundsSpec,
        maps: Vec<MapOutput>,
        thread_count: usize,
        progress: &mut Progress,
        counters: &mut Counters,
    ) -> Result<()> {
        let (mut outputs, mut first, mut summaries) = (maps, Vec::new(), Vec::new());
        for round in 0..=spec.last {
            let begin = round * self.reduces;
            let contexts = self.contexts(TaskKind::Reduce, begin..begin + self.reduces);
            let is_last = round == spec.last;
            let before = Before { round, is_last, outputs, first: &first, summaries };
            let results = run_all(
                thread_count,
                self.ended,
                &contexts,
                |index, context| self.round(&before, index as u32, context),
                |share| progress.update(1.0, (round as f32 + share) / (spec.last + 1) as f32),
            )?;
            contexts.iter().for_each(|context| counters.merge(&TaskState::of(context).counters()));
            if round != 1 {
                for output in &before.outputs {
                    fs::remove_file(&output.data).map_err(Error::file("remove", &output.data))?;
                }
            }
            summaries = results.iter().map(|result| result.summary.clone()).collect();
            outputs = results.into_iter().filter_map(|result| result.output).collect();
            if outputs.is_empty() {
                break;
            }
            if round == 0 {
                first.clone_from(&outputs);
            }
        }
        Ok(())
    }

    fn round(&self, before: &Before<'_>, partition: u32, context: &Context) -> Result<RoundResult> {
        let Before { round, is_last, outputs, first, summaries } = before;
        let directory = self.directory(context)?;
        let mut segments = Segments::default();
        if let (Some(first), Some(own)) =
            (first.get(partition as usize), outputs.get(partition as usize))
        {
            segments.add(first, self.reduces + 1);
            segments.add(own, self.reduces);
        }
        outputs.iter().for_each(|output| segments.add(output, partition));
        let Segments { sources, records, stored } = segments;
        TaskState::of(context).add_to(TASK_COUNTERS, "REDUCE_SHUFFLE_BYTES", stored);
        let (memory_bytes, merge_factor) = (self.memory_bytes, self.merge_factor);
        let work = context.directory().to_owned();
        let codec = options::map_codec(&self.properties)?;
        let task = RoundTask {
            context: context.clone(),
            round: *round,
            partition,
            is_last: *is_last,
            is_restored: false,
            sources,
            records,
            options: reduce_options(work.clone(), memory_bytes, merge_factor),
            messages: map_options(work, self.reduces, memory_bytes, merge_factor, codec),
            pool: self.pool.clone(),
            summaries: summaries.clone(),
            output: &|| self.output_of(&directory, context, partition),
        };
        Ok(self.stage.run_round(task)?)
    }
}

//! An attempt at a task of a job in rounds: brings what its partition needs to this machine, and keeps its state in the file system when it
//! is asked to.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Instant;

use client::dfs::CreateOptions;
use mr_model::runner::side_file::ENGINE_PREFIX;
use mr_model::runner::{
    MakeOutput, RoundResult, RoundTask, TaskState, map_options, phases, reduce_options,
};
use mr_model::{Error, Result};
use protocol::phase::Phase;
use protocol::rounds::{RoundWork, STATE_FILE};
use protocol::tracker::{AttemptState, FetchFailure};
use protocol::{AttemptId, DfsPath};
use shuffle::{MapOutput as MadeOutput, SegmentSource};

use super::attempt::{DAMAGED_INPUTS_MAX, Host, Launched, parents_of};
use super::fetch::Fetcher;
use super::gather::{Gather, Input};
use crate::run::options;

/// Part of the input: outputs of some tasks, and the partition that is read of them.
struct Wanted {
    fetcher: Fetcher,
    gather: Gather,
}

/// The outputs with the messages to a task. Of the many maps that round 0 reads, its launch may name only some; news bring the rest.
fn messages(work: &RoundWork, map_count: u32) -> Gather {
    match work.round == 0 && work.kept.is_none() {
        true => Gather::new(0..map_count, work.inputs.to_vec()),
        false => Gather::of(&work.inputs),
    }
}

impl Host {
    /// Runs a task of a round.
    pub(super) fn round(&self, work: RoundWork, launched: Launched) -> Result<AttemptState> {
        let attempt = launched.context.attempt();
        let directory = self.output_directory(attempt)?;
        let mut wanted = self.wanted(&work, &launched);
        for _ in 0..DAMAGED_INPUTS_MAX {
            let begin = phases::clock();
            let mut inputs = Vec::new();
            for Wanted { fetcher, gather } in &mut wanted {
                let Launched { news, channel, context, .. } = &launched;
                inputs.extend(fetcher.gather(gather, news, channel, context)?);
            }
            let shuffled = phases::clock().saturating_sub(begin);
            phases::spent(TaskState::of(&launched.context), Phase::Shuffle, shuffled);
            let output = || self.output_of(&directory, &launched.context, work.partition);
            let (makers, task) = self.round_task(&work, inputs, &launched, &output)?;
            let state = TaskState::of(&launched.context);
            let mark = state.mark();
            match self.stage.run_round(task) {
                Ok(result) => return self.round_done(&work, result, directory),
                Err(Error::DamagedInput { index, reason }) => {
                    let Some(map) = makers.get(index).copied().flatten() else {
                        return Err(reason.into());
                    };
                    state.return_to(&mark);
                    state.add("FAILED_SHUFFLE", 1);
                    let failure = FetchFailure { reduce: attempt, map, diagnostics: reason };
                    launched.channel.fetch_failed(failure);
                    let now = Instant::now();
                    wanted.iter_mut().for_each(|part| part.gather.restart(map, now));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::TooManyDamagedInputs { count: DAMAGED_INPUTS_MAX }.into())
    }

    /// What the task reads of other tasks: what is fixed, the state of its keys, messages to them.
    fn wanted(&self, work: &RoundWork, launched: &Launched) -> Vec<Wanted> {
        let own = work.partition;
        let part = |gather: Gather, partition: u32, memory_bytes: usize| {
            let fetcher = Fetcher::new(
                (&self.setup, &self.pass),
                (launched.context.attempt(), partition..partition + 1),
                &launched.directory,
                memory_bytes,
                launched.self_news.clone(),
            );
            Wanted { fetcher, gather }
        };
        let mut wanted = Vec::new();
        // What comes over the network and is read once goes to memory first; what is longer, to files.
        wanted.extend(
            work.fixed
                .as_slice()
                .first()
                .map(|_| part(Gather::of(work.fixed.as_slice()), work.fixed_partition(), 0)),
        );
        let state = work.inputs.get(own as usize).filter(|_| work.round > 0 && work.kept.is_none());
        let state = state.map(std::slice::from_ref);
        wanted.extend(state.map(|state| part(Gather::of(state), work.state_partition(), 0)));
        let messages = messages(work, self.setup.program.map_count);
        wanted.push(part(messages, own, self.memory_bytes));
        wanted
    }

    /// The task, and for each of its sources the attempt that made it; none made a state that was kept.
    fn round_task<'a>(
        &self,
        work: &RoundWork,
        inputs: Vec<Input>,
        launched: &Launched,
        output: &'a MakeOutput<'a>,
    ) -> Result<(Vec<Option<AttemptId>>, RoundTask<'a>)> {
        let Launched { context, directory, .. } = launched;
        let records = inputs.iter().map(|input| input.records).sum();
        let of_input =
            |input: Input| input.sources.into_iter().map(move |source| (Some(input.map), source));
        let (mut makers, mut sources): (Vec<_>, Vec<_>) =
            inputs.into_iter().flat_map(of_input).unzip();
        if let Some(kept) = &work.kept {
            makers.push(None);
            sources.push(self.bring_state(kept, directory)?);
        }
        let codec = options::map_codec(&self.setup.program.properties)?;
        let (memory_bytes, merge_factor) = (self.memory_bytes, self.merge_factor);
        let partitions = work.partition_count;
        let task = RoundTask {
            context: context.clone(),
            round: work.round,
            partition: work.partition,
            is_last: work.is_last,
            is_restored: work.kept.is_some(),
            sources,
            records,
            options: reduce_options(directory.clone(), memory_bytes, merge_factor),
            messages: map_options(directory.clone(), partitions, memory_bytes, merge_factor, codec),
            pool: self.pool.clone(),
            summaries: work.summaries.clone(),
            output,
        };
        Ok((makers, task))
    }

    fn round_done(
        &self,
        work: &RoundWork,
        result: RoundResult,
        directory: DfsPath,
    ) -> Result<AttemptState> {
        let RoundResult { output, summary, measure } = result;
        let Some(output) = output else {
            return Ok(AttemptState::OutputDone { directory, hot_keys: Vec::new() });
        };
        let kept = work.keeps.then(|| self.keep_state(work, &output, directory)).transpose()?;
        let data_path = output.data.to_string_lossy().into_owned();
        Ok(AttemptState::RoundDone { data_path, summary, measure, kept })
    }

    /// Copies the state of the task's keys into the file system.
    fn keep_state(
        &self,
        work: &RoundWork,
        output: &MadeOutput,
        directory: DfsPath,
    ) -> Result<DfsPath> {
        let path = directory.join(STATE_FILE)?;
        let parents = parents_of(&directory);
        let options = CreateOptions { overwrite: true, parents, ..CreateOptions::default() };
        let mut kept = self.dfs.create(&path, options).map_err(Error::dfs("create", &path))?;
        let segment = output.segments[work.state_partition() as usize];
        let read = Error::file("read", &output.data);
        let mut data = File::open(&output.data).map_err(Error::file("open", &output.data))?;
        data.seek(SeekFrom::Start(segment.offset)).map_err(read)?;
        io::copy(&mut data.take(segment.stored), &mut kept)?;
        kept.close().map_err(Error::dfs("write", &path))?;
        Ok(directory)
    }

    /// Brings a kept state to a file of the attempt.
    fn bring_state(&self, kept: &DfsPath, directory: &Path) -> Result<SegmentSource> {
        let from = kept.join(STATE_FILE)?;
        let mut reader = self.dfs.open(&from).map_err(Error::dfs("open", &from))?;
        let path = directory.join(format!("{ENGINE_PREFIX}kept-state"));
        let mut file = File::create(&path).map_err(Error::file("create", &path))?;
        let stored = io::copy(&mut reader, &mut file)?;
        file.flush().map_err(Error::file("write", &path))?;
        Ok(SegmentSource::Path { path, offset: 0, stored })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use protocol::tracker::MapOutput;
    use protocol::{JobId, TaskId, TaskKind};

    use super::*;

    fn output(index: u32) -> MapOutput {
        let job = JobId { cluster_start: 202611201830, number: 1 };
        let attempt = AttemptId { task: TaskId { job, kind: TaskKind::Map, index }, number: 0 };
        let text = String::new;
        MapOutput { attempt, http_address: text(), boot_id: text(), data_path: text() }
    }

    fn work(round: u32, kept: Option<DfsPath>, inputs: Vec<MapOutput>) -> RoundWork {
        RoundWork {
            round,
            partition: 0,
            partition_count: 2,
            is_last: false,
            keeps: false,
            kept,
            inputs: Arc::new(inputs),
            fixed: None,
            summaries: Vec::new(),
        }
    }

    #[test]
    fn round_0_waits_for_maps_that_its_launch_does_not_name() {
        let now = Instant::now();
        let mut gather = messages(&work(0, None, vec![output(0)]), 3);
        assert_eq!(gather.begin(now, &[]), [output(0)]);
        gather.announce(vec![output(1), output(2)]);
        assert_eq!(gather.begin(now, &[]), [output(1), output(2)]);
        assert!(!gather.is_complete());
        let mut later = messages(&work(1, None, vec![output(4), output(5)]), 3);
        assert_eq!(later.begin(now, &[]), [output(4), output(5)]);
        for round in [0, 1] {
            let kept = DfsPath::parse("/out/kept").unwrap();
            assert!(messages(&work(round, Some(kept), Vec::new()), 3).is_complete());
        }
    }
}

//! Messages between a worker and the job process it started, in frames ([`crate::frame`]) over a Unix socket that the process inherits. Descriptors 0 to 2 stay
//! the task's own.
//!
//! The worker starts the job's executable with the job's arguments and two variables. `HANNO_TASK_DESCRIPTORS` names that socket and the one on which the
//! process asks for connections to DataNodes (`sys::broker`). `HANNO_TASK_COOKIE` holds the hexadecimal mark of the process, which it sends first. Whoever
//! starts a process under a debugger, which may close descriptors, names an abstract socket in `HANNO_TASK_SOCKET` instead. One runner runs one attempt at a
//! time and serves further attempts of its job.
//!
//! ```text
//! runner -> Hello -> (worker) Setup -> runner Preparing* -> Ready | Refused
//! worker Launch -> runner (Progress | Status)* -> Ended    (again and again)
//! worker Pass* now and then, MapOutputs* while a reduce runs; FetchFailed* from it
//! ```
//!
//! A launch names the first map outputs. If there are more than fit, [`ToRunner::MapOutputs`] at once brings the rest: a reduce and a task of round 0
//! wait for the outputs of all maps that the program has.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::counters::Counters;
use super::phase::Phase;
use super::tracker::{AttemptState, FetchFailure, MapOutput, Program, Work};
use crate::AttemptId;
use crate::pass::Pass;
use crate::wire::{ENTRIES_MAX, at_most};

/// Environment variable: the numbers of two descriptors, separated by a comma: the socket to the worker, and the one to its broker.
pub const DESCRIPTORS_VARIABLE: &str = "HANNO_TASK_DESCRIPTORS";
/// Environment variable: the name of an abstract socket to connect to, where no descriptors are given.
pub const SOCKET_VARIABLE: &str = "HANNO_TASK_SOCKET";
/// Environment variable: the cookie that the runner sends in [`FromRunner::Hello`].
pub const COOKIE_VARIABLE: &str = "HANNO_TASK_COOKIE";
/// Property of the program in [`ToRunner::Setup`]: how long an attempt may be silent, milliseconds; 0 is for ever. An older worker does not set it.
pub const SILENCE_PROPERTY: &str = "hanno.task.silence.ms";
/// Longest message of a runner, bytes: all counters that a job may have fit twice.
pub const FROM_RUNNER_BYTES_MAX: usize = 6 << 20;
/// Most bytes of map outputs in one message. With the rest of a launch, which is mostly the summaries of a round, that is well below a frame.
pub const OUTPUTS_BYTES_MAX: usize = 16 << 20;
/// Bytes of a map output besides its texts, at most: the numbers of its attempt and three lengths.
const OUTPUT_NUMBERS_BYTES: usize = 64;

/// From the worker. Append only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToRunner {
    /// First message.
    Setup(Box<Setup>),
    /// Run this attempt.
    Launch {
        /// The attempt.
        attempt: AttemptId,
        /// Its work.
        work: Work,
        /// Directory for its spills and map output; exists, private to the attempt.
        directory: String,
    },
    /// More map outputs for the running reduce.
    MapOutputs {
        /// Newly available.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        available: Vec<MapOutput>,
        /// Forget these.
        #[serde(deserialize_with = "at_most::<ENTRIES_MAX, _, _>")]
        obsolete: Vec<AttemptId>,
    },
    /// Exit.
    Exit,
    /// A pass to replace the current one.
    Pass(Pass),
}

impl ToRunner {
    /// The messages that launch an attempt, in order.
    pub fn launch(
        attempt: AttemptId,
        mut work: Work,
        directory: String,
    ) -> impl Iterator<Item = ToRunner> {
        let mut rest = Vec::new();
        if let Some(outputs) = outputs_of_maps(&mut work) {
            let pieces = pieces(outputs);
            if let [first, others @ ..] = pieces.as_slice()
                && !others.is_empty()
            {
                let all = std::mem::take(outputs);
                *outputs = Arc::new(all[first.clone()].to_vec());
                rest = others.iter().map(|piece| (Arc::clone(&all), piece.clone())).collect();
            }
        }
        let rest = rest.into_iter().map(|(all, piece): (Arc<Vec<MapOutput>>, Range<usize>)| {
            ToRunner::MapOutputs { available: all[piece].to_vec(), obsolete: Vec::new() }
        });
        std::iter::once(ToRunner::Launch { attempt, work, directory }).chain(rest)
    }

    /// The messages that bring news of map outputs, in order.
    pub fn map_outputs(
        available: Vec<MapOutput>,
        mut obsolete: Vec<AttemptId>,
    ) -> impl Iterator<Item = ToRunner> {
        pieces(&available).into_iter().map(move |piece| ToRunner::MapOutputs {
            available: available[piece].to_vec(),
            obsolete: std::mem::take(&mut obsolete),
        })
    }
}

/// The list of map outputs that grows with the maps of a job. A round after the first reads no more outputs than a job in rounds has partitions.
fn outputs_of_maps(work: &mut Work) -> Option<&mut Arc<Vec<MapOutput>>> {
    match work {
        Work::Reduce(work) => Some(&mut work.outputs),
        Work::Round(work) if work.round == 0 => Some(&mut work.inputs),
        Work::Map { .. } | Work::Round(_) => None,
    }
}

/// Cuts a list so that each piece has at most [`OUTPUTS_BYTES_MAX`]. An empty list is one piece.
fn pieces(outputs: &[MapOutput]) -> Vec<Range<usize>> {
    let (mut pieces, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, output) in outputs.iter().enumerate() {
        let texts = [&output.http_address, &output.boot_id, &output.data_path];
        let own = OUTPUT_NUMBERS_BYTES + texts.iter().map(|text| text.len()).sum::<usize>();
        if bytes + own > OUTPUTS_BYTES_MAX && index > start {
            pieces.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += own;
    }
    pieces.push(start..outputs.len());
    pieces
}

/// The part that all attempts of a job share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Program and options.
    pub program: Program,
    /// `http://host:port` of the NameNode.
    pub namenode: String,
    /// The pass for calls to the file system and the shuffle; [`ToRunner::Pass`] renews it before it expires.
    pub pass: Pass,
    /// Name of this machine.
    pub host: String,
    /// Boot id of this machine's kernel.
    pub boot_id: String,
    /// Memory for sort buffers and shuffle of one attempt, bytes.
    pub memory_bytes_max: u64,
    /// Directory on this machine for output files, instead of the job's directory in the file system; only for an attempt that repeats another.
    pub local_output: Option<String>,
}

/// From the runner. Append only.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromRunner {
    /// First message.
    Hello {
        /// Value of [`COOKIE_VARIABLE`].
        cookie: String,
    },
    /// The job was rebuilt and is the same.
    Ready,
    /// The job cannot run here (a different fingerprint, bad arguments), or its attempt cannot go on; the process ends.
    Refused {
        /// Why.
        diagnostics: String,
    },
    /// A sign of life from the running attempt, at most four a second.
    Progress {
        /// The attempt.
        attempt: AttemptId,
        /// 0 to 1.
        progress: f32,
        /// Its phase.
        phase: Phase,
        /// Counters so far.
        #[serde(deserialize_with = "crate::counters::bounded")]
        counters: Counters,
    },
    /// A map output could not be fetched.
    FetchFailed(FetchFailure),
    /// The attempt ended: `MapDone`, `OutputDone` or `Failed`.
    Ended {
        /// The attempt.
        attempt: AttemptId,
        /// The final state.
        state: AttemptState,
        /// Final counters.
        #[serde(deserialize_with = "crate::counters::bounded")]
        counters: Counters,
        /// 0 to 1: how far it got.
        progress: f32,
        /// Its last phase.
        phase: Phase,
    },
    /// What the running attempt says that it does.
    Status {
        /// The attempt.
        attempt: AttemptId,
        /// For people.
        text: String,
    },
    /// A sign of life before it is ready, at most four a second beside the beginning of each step. A process that fetches nothing sends none.
    Preparing {
        /// What it does, for people: "fetching …".
        step: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use crate::rounds::RoundWork;
    use crate::tracker::{PATH_BYTES_MAX, ReduceWork};
    use crate::{JobId, TaskId, TaskKind};

    /// More outputs than a frame holds.
    fn many() -> Vec<MapOutput> {
        let count = u32::try_from(frame::BODY_BYTES_MAX / PATH_BYTES_MAX + 1).unwrap();
        let output = |index| MapOutput {
            attempt: attempt(TaskKind::Map, index),
            http_address: "worker:9864".to_owned(),
            boot_id: "0b".to_owned(),
            data_path: "d".repeat(PATH_BYTES_MAX),
        };
        (0..count).map(output).collect()
    }

    fn attempt(kind: TaskKind, index: u32) -> AttemptId {
        let job = JobId { cluster_start: u64::MAX, number: u32::MAX };
        AttemptId { task: TaskId { job, kind, index }, number: u32::MAX }
    }

    fn round(number: u32, inputs: Vec<MapOutput>) -> Work {
        Work::Round(Box::new(RoundWork {
            round: number,
            partition: 0,
            partition_count: 1,
            is_last: false,
            keeps: false,
            kept: None,
            inputs: Arc::new(inputs),
            fixed: None,
            summaries: Vec::new(),
        }))
    }

    /// The outputs that messages name; each message fits a frame.
    fn named(messages: impl Iterator<Item = ToRunner>) -> Vec<MapOutput> {
        let outputs = |message: ToRunner| {
            frame::encode_within(&message, frame::BODY_BYTES_MAX).unwrap();
            match message {
                ToRunner::Launch { mut work, .. } => {
                    Arc::unwrap_or_clone(outputs_of_maps(&mut work).cloned().unwrap_or_default())
                }
                ToRunner::MapOutputs { available, .. } => available,
                other => panic!("{other:?}"),
            }
        };
        messages.flat_map(outputs).collect()
    }

    #[test]
    fn outputs_of_more_maps_than_fit_a_frame_come_in_pieces() {
        let all = many();
        let reduce = Work::Reduce(ReduceWork {
            partitions: 0..1,
            reduce_count: 1,
            outputs: Arc::new(all.clone()),
        });
        for work in [reduce, round(0, all.clone())] {
            let id = attempt(TaskKind::Reduce, 0);
            assert_eq!(named(ToRunner::launch(id, work, String::new())), all);
        }
        assert_eq!(named(ToRunner::map_outputs(all.clone(), Vec::new())), all);
    }

    #[test]
    fn what_fits_is_one_message() {
        let (one, gone) = (many()[..1].to_vec(), attempt(TaskKind::Map, 7));
        let launch = |number, inputs: Vec<MapOutput>| {
            ToRunner::launch(gone, round(number, inputs), String::new()).count()
        };
        assert_eq!([launch(0, Vec::new()), launch(0, one.clone()), launch(1, many())], [1, 1, 1]);
        let news: Vec<_> = ToRunner::map_outputs(Vec::new(), vec![gone]).collect();
        assert!(matches!(
            news.as_slice(),
            [ToRunner::MapOutputs { obsolete, .. }] if *obsolete == [gone]
        ));
    }

    #[test]
    fn the_numbers_of_an_output_are_as_short_as_stated() {
        let mut output = many().remove(0);
        let texts = [&output.http_address, &output.boot_id, &output.data_path];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        output.attempt = attempt(TaskKind::Map, u32::MAX);
        assert!(crate::wire::encode(&output).len() <= texts + OUTPUT_NUMBERS_BYTES);
    }
}

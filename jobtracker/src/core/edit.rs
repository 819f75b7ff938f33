//! The durable facts of the JobTracker, as records of its journal.
//!
//! Body of a record: `version u8 | postcard(Edit)`. Older records have no version and begin with the number of their variant, which is
//! below every version; they are read as version 1. The order of variants and fields is the format: new variants are appended, and a
//! changed field makes a new version, of which the old type is the form before ([`Form`]). What edits keep of messages has forms of its own (`stored.rs`).
//!
//! Invariants: an [`Edit`] holds everything decided (ids, times, names), so replaying the edits in order rebuilds exactly the state that
//! made them. Edits of different jobs are independent of each other.

use protocol::jobs::{Counters, JobSpec, JobState, Priority};
use protocol::phase::Phase;
use protocol::rounds::{RoundsSpec, Summary};
use protocol::tracker::{HotKey, MapOutput};
use protocol::wire::WireError;
use protocol::wire::form::{self, Form, FormError};
use protocol::{AttemptId, CallId, DfsPath, Epoch, FeatureLevel, JobId, RecordAt, WorkerId, wire};
use serde::{Deserialize, Serialize};

use super::level::Level;
use super::stored::{self, OutputForm, PriorityForm, RoundsForm, SpecForm, StateForm, SummaryForm};
use crate::error::EditError;

/// A record whose first byte is not above this states no version, and begins with the number of its variant. Others begin with this and their version.
const NO_VERSION: u8 = 0x80;

/// A durable fact. Append only.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Edit {
    /// The JobTracker started. Earlier programs wrote this at the first start alone, without the seconds.
    Founded {
        /// `yyyyMMddHHmmss` in UTC as a number: first half of the ids of the jobs that it takes from now on.
        cluster_start: u64,
    },
    /// A job without rounds was accepted, in records from before splits were kept as a table.
    Submitted(Box<Submitted>),
    /// Its output directory could not be created: it never became a job.
    Refused {
        /// The job.
        job: JobId,
    },
    /// A task is done: for tasks that write files this is the commit.
    AttemptSucceeded {
        /// The winner.
        attempt: AttemptId,
        /// Where and when it ran.
        ran: Ran,
        /// Its output.
        made: Made,
        /// Its final counters.
        #[serde(with = "stored::counters")]
        counters: Counters,
    },
    /// An attempt counts against its task's limit.
    AttemptFailed {
        /// The attempt.
        attempt: AttemptId,
        /// Where and when it ran.
        ran: Ran,
        /// The reason.
        diagnostics: String,
        /// Of a map: the record it was in.
        #[serde(with = "stored::record")]
        record: Option<RecordAt>,
        /// Its progress.
        reached: Reached,
    },
    /// The output of a finished map is gone; the map runs again.
    OutputLost {
        /// The attempt that had made it.
        attempt: AttemptId,
        /// The reason, if the loss counts as a failure of the attempt.
        failed: Option<String>,
    },
    /// All tasks are done and the winners are fixed; the output is being published.
    Committing {
        /// The job.
        job: JobId,
    },
    /// The job will fail or was killed; its files are being removed.
    Ending {
        /// The job.
        job: JobId,
        /// `Failed` or `Killed`.
        #[serde(with = "StateForm")]
        outcome: JobState,
        /// The reason.
        diagnostics: String,
    },
    /// The job is over; nothing more will happen.
    Ended {
        /// The job.
        job: JobId,
        /// A final state.
        #[serde(with = "StateForm")]
        state: JobState,
        /// The time, milliseconds since the epoch.
        finished_ms: u64,
        /// Sums over the winning attempts and over the job.
        #[serde(with = "stored::counters")]
        counters: Counters,
    },
    /// The job left the history.
    Retired {
        /// The job.
        job: JobId,
    },
    /// A user made the job more or less urgent.
    Prioritized {
        /// The job.
        job: JobId,
        /// From now on.
        #[serde(with = "PriorityForm")]
        priority: Priority,
    },
    /// A user asked for the end of the job while its output directory was being created.
    KillAsked {
        /// The job.
        job: JobId,
        /// Who asked.
        user: String,
    },
    /// A user asked for the end of an attempt.
    StopAsked {
        /// The attempt.
        attempt: AttemptId,
        /// It counts against its task's limit.
        fail: bool,
    },
    /// An attempt ended without a result and without fault of its own. Only for the history: a restart can find it running again.
    AttemptKilled {
        /// The attempt.
        attempt: AttemptId,
        /// Where and when it ran.
        ran: Ran,
        /// The reason.
        diagnostics: String,
        /// Its progress.
        reached: Reached,
    },
    /// All maps are done, and the sizes of their outputs decided which partitions are reduced together.
    ReducesChosen {
        /// The job.
        job: JobId,
        /// For each reduce, the partition after its last one.
        ends: Vec<u32>,
    },
    /// What the edits behind this one may use of newer versions.
    LevelSet {
        /// The feature level.
        level: FeatureLevel,
    },
    /// A job that goes in rounds was accepted, in records from before splits were kept as a table.
    SubmittedInRounds {
        /// All else about it.
        submitted: Box<Submitted>,
        /// How it goes.
        #[serde(with = "RoundsForm")]
        rounds: RoundsSpec,
    },
    /// A job was accepted, in records from before paths were shortened.
    Accepted(#[serde(with = "accepted")] Box<Submitted>),
    /// A job was accepted.
    Admitted(#[serde(with = "admitted")] Box<Submitted>),
}

impl Form<'_> for Edit {
    const VERSION: u8 = 1;
    type Before = Self;
    type Damage = WireError;

    fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        wire::decode_stored(bytes, "edit")
    }
}

impl Edit {
    /// The body of the journal's record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        wire::encode_behind(vec![NO_VERSION + Edit::VERSION], self)
    }

    /// Reads the body of a record of this or an earlier version.
    ///
    /// # Errors
    /// [`EditError`].
    pub(crate) fn decode(body: &[u8]) -> Result<Edit, EditError> {
        let (version, encoded) = match body.split_first() {
            Some((&byte, encoded)) if byte > NO_VERSION => (byte - NO_VERSION, encoded),
            _ => (1, body),
        };
        form::read(version, encoded).map_err(|error| match error {
            FormError::Newer { version } => EditError::Version { version },
            FormError::NoVersion => EditError::Version { version: 0 },
            FormError::Damaged(damage) => EditError::Malformed(damage),
        })
    }

    /// The job that the edit is about; `None` for the JobTracker itself.
    pub(crate) fn job(&self) -> Option<JobId> {
        match self {
            Edit::Founded { .. } | Edit::LevelSet { .. } => None,
            Edit::Submitted(submitted)
            | Edit::SubmittedInRounds { submitted, .. }
            | Edit::Accepted(submitted)
            | Edit::Admitted(submitted) => Some(submitted.job),
            Edit::AttemptSucceeded { attempt, .. }
            | Edit::AttemptFailed { attempt, .. }
            | Edit::AttemptKilled { attempt, .. }
            | Edit::OutputLost { attempt, .. }
            | Edit::StopAsked { attempt, .. } => Some(attempt.task.job),
            Edit::Refused { job }
            | Edit::Committing { job }
            | Edit::Ending { job, .. }
            | Edit::Ended { job, .. }
            | Edit::Retired { job }
            | Edit::KillAsked { job, .. }
            | Edit::ReducesChosen { job, .. }
            | Edit::Prioritized { job, .. } => Some(*job),
        }
    }
}

/// A job as accepted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Submitted {
    /// Its id.
    pub(crate) job: JobId,
    /// The call that submitted it.
    pub(crate) call: CallId,
    /// Acting user.
    pub(crate) user: String,
    /// The time, milliseconds since the epoch.
    pub(crate) submitted_ms: u64,
    /// Start of the JobTracker that accepted it; each later start raises attempt numbers by a thousand.
    pub(crate) epoch: Epoch,
    /// The queue that it waits in.
    pub(crate) queue: String,
    /// What to run; that it goes in rounds has a kind of edit of its own.
    #[serde(with = "SpecForm")]
    pub(crate) spec: JobSpec,
}

/// Modules for `#[serde(with)]`: a job as accepted, with a form of what to run.
macro_rules! submitted {
    ($($(#[$doc:meta])* $name:ident: $form:literal;)*) => {$(
        $(#[$doc])*
        mod $name {
            use protocol::jobs::JobSpec;
            use protocol::{CallId, Epoch, JobId};
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            use crate::core::edit::Submitted;

            #[derive(Serialize, Deserialize)]
            #[serde(remote = "Submitted")]
            struct SubmittedForm {
                job: JobId,
                call: CallId,
                user: String,
                submitted_ms: u64,
                epoch: Epoch,
                queue: String,
                #[serde(with = $form)]
                spec: JobSpec,
            }

            pub(super) fn serialize<S: Serializer>(
                submitted: &Submitted,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                SubmittedForm::serialize(submitted, serializer)
            }

            pub(super) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Box<Submitted>, D::Error> {
                SubmittedForm::deserialize(deserializer).map(Box::new)
            }
        }
    )*};
}

submitted! {
    /// With its splits as a table of whole paths.
    accepted: "crate::core::stored::AcceptedForm";
    /// With paths in short.
    admitted: "crate::core::stored::AdmittedForm";
}

/// Where and when an attempt ran.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Ran {
    /// The worker process.
    pub(crate) worker: WorkerId,
    /// Name of its machine.
    pub(crate) host: String,
    /// `host:port` of its HTTP service.
    pub(crate) http_address: String,
    /// Start, milliseconds since the epoch.
    pub(crate) started_ms: u64,
    /// End, milliseconds since the epoch.
    pub(crate) finished_ms: u64,
    /// Started beside another that was slow.
    pub(crate) speculative: bool,
    /// How near it started to its input; `None` for reduces, and for attempts from before a restart.
    pub(crate) nearness: Option<Level>,
}

/// The progress of an attempt that had no result.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reached {
    /// The last phase, if one was reported.
    #[serde(with = "stored::phase")]
    pub(crate) phase: Option<Phase>,
    /// 0 to 1.
    pub(crate) progress: f32,
}

/// The output of a successful attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Made {
    /// A map output, kept by its worker.
    MapOutput {
        /// Its location.
        #[serde(with = "OutputForm")]
        output: MapOutput,
        /// Bytes of each partition, while they are still needed to choose the reduces.
        partition_bytes: Vec<u64>,
    },
    /// Complete files in this directory below `_temporary`.
    Files {
        /// Directory of the attempt.
        directory: DfsPath,
        /// For a reduce, the keys with a large share of its records.
        #[serde(with = "stored::hot_keys")]
        hot_keys: Vec<HotKey>,
    },
    /// The output of a task of a round, kept by its worker.
    RoundOutput {
        /// Its location.
        #[serde(with = "OutputForm")]
        output: MapOutput,
        /// What the next round learns of the task; empty if an earlier attempt had told it.
        #[serde(with = "SummaryForm")]
        summary: Summary,
        /// The job's own measure after the round before; finite.
        measure: Option<f64>,
        /// Directory with the state of its keys.
        kept: Option<DfsPath>,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use protocol::jobs::{Split, SplitPart};
    use protocol::sizing::ReduceSizing;
    use protocol::{BinaryHash, ClientId, TaskId, TaskKind};

    use super::*;

    /// Each version ever written: `VARIANT HEX` a line.
    const VERSIONS: [&str; 2] =
        [include_str!("../../testdata/edits-v0.txt"), include_str!("../../testdata/edits-v1.txt")];

    const JOB: JobId = JobId { cluster_start: 202_611_201_830, number: 7 };

    fn path(text: &str) -> DfsPath {
        DfsPath::parse(text).unwrap()
    }

    fn attempt(kind: TaskKind) -> AttemptId {
        AttemptId { task: TaskId { job: JOB, kind, index: 3 }, number: 1001 }
    }

    fn ran() -> Ran {
        Ran {
            worker: WorkerId([4; 16]),
            host: "host-a".to_owned(),
            http_address: "10.0.0.1:8042".to_owned(),
            started_ms: 1_700_000_000_000,
            finished_ms: 1_700_000_005_000,
            speculative: true,
            nearness: Some(Level::Rack),
        }
    }

    fn submitted() -> Submitted {
        let part = SplitPart { path: path("/in/b"), offset: 0, length: 20 };
        let split = Split {
            path: path("/in/a"),
            offset: 128 << 20,
            length: 4096,
            hosts: vec!["host-a".to_owned()],
            racks: vec!["/rack".to_owned()],
            input: 1,
            more: vec![part],
        };
        let spec = JobSpec {
            name: "words".to_owned(),
            binary: BinaryHash([5; 32]),
            args: vec!["--top".to_owned(), "10".to_owned()],
            stage: 1,
            fingerprint: 0x0123_4567_89ab_cdef,
            splits: [split].into_iter().collect(),
            reduce_count: 2,
            output: path("/out"),
            attempts_max: 4,
            slow_start_permille: 50,
            properties: BTreeMap::from([("mapreduce.job.priority".to_owned(), "HIGH".to_owned())]),
            sizing: Some(ReduceSizing { slot_count: 8 }),
            rounds: None,
        };
        Submitted {
            job: JOB,
            call: CallId { client: ClientId([6; 16]), number: 9 },
            user: "ann".to_owned(),
            submitted_ms: 1_700_000_000_000,
            epoch: Epoch(3),
            queue: "etl".to_owned(),
            spec,
        }
    }

    /// In rounds, and with a second split that the table has in short.
    fn accepted() -> Submitted {
        let mut accepted = submitted();
        let first = accepted.spec.splits.get(0).unwrap();
        let second = Split { offset: first.offset + first.length, ..first.clone() };
        accepted.spec.splits = [first, second].into_iter().collect();
        accepted.spec.rounds = Some(RoundsSpec { last: 300, keep_every: 5 });
        accepted
    }

    /// One edit of each variant, with a value in every field.
    fn samples() -> Vec<Edit> {
        let counters: Counters = [("records", "read", 300)].into_iter().collect();
        let reached = Reached { phase: Some(Phase::Sort), progress: 0.5 };
        let (map, reduce) = (attempt(TaskKind::Map), attempt(TaskKind::Reduce));
        let output = MapOutput {
            attempt: map,
            http_address: "10.0.0.1:8042".to_owned(),
            boot_id: "boot".to_owned(),
            data_path: "/data/out".to_owned(),
        };
        let files = Made::Files {
            directory: path("/out/_temporary/r"),
            hot_keys: vec![HotKey { text: "the".to_owned(), records: 12 }],
        };
        let partition_bytes = vec![1, 300];
        let of_rounds = of_rounds(MapOutput { attempt: reduce, ..output.clone() });
        let mut samples = vec![
            Edit::Founded { cluster_start: JOB.cluster_start },
            Edit::Submitted(Box::new(submitted())),
            Edit::Refused { job: JOB },
            Edit::AttemptSucceeded {
                attempt: map,
                ran: ran(),
                made: Made::MapOutput { output, partition_bytes },
                counters: counters.clone(),
            },
            Edit::AttemptSucceeded {
                attempt: reduce,
                ran: Ran { nearness: None, ..ran() },
                made: files,
                counters: counters.clone(),
            },
            Edit::AttemptFailed {
                attempt: map,
                ran: ran(),
                diagnostics: "bad line".to_owned(),
                record: Some(RecordAt { part: 1, offset: 77 }),
                reached,
            },
            Edit::OutputLost { attempt: map, failed: Some("no answer".to_owned()) },
            Edit::Committing { job: JOB },
            Edit::Ending { job: JOB, outcome: JobState::Failed, diagnostics: "why".to_owned() },
            Edit::Ended { job: JOB, state: JobState::Succeeded, finished_ms: 8, counters },
            Edit::Retired { job: JOB },
            Edit::Prioritized { job: JOB, priority: Priority::High },
            Edit::KillAsked { job: JOB, user: "bob".to_owned() },
            Edit::StopAsked { attempt: reduce, fail: true },
            Edit::AttemptKilled {
                attempt: reduce,
                ran: ran(),
                diagnostics: "overtaken".to_owned(),
                reached: Reached::default(),
            },
            Edit::ReducesChosen { job: JOB, ends: vec![1, 5] },
            Edit::LevelSet { level: FeatureLevel(300) },
        ];
        samples.extend(of_rounds);
        samples.push(Edit::Accepted(Box::new(accepted())));
        samples.push(Edit::Admitted(Box::new(accepted())));
        samples
    }

    /// Those of jobs in rounds.
    fn of_rounds(output: MapOutput) -> [Edit; 2] {
        let made = Made::RoundOutput {
            output,
            summary: Summary { bytes: vec![7, 255] },
            measure: Some(0.5),
            kept: Some(path("/out/_temporary/r")),
        };
        [
            Edit::SubmittedInRounds {
                submitted: Box::new(submitted()),
                rounds: RoundsSpec { last: 300, keep_every: 5 },
            },
            Edit::AttemptSucceeded {
                attempt: attempt(TaskKind::Reduce),
                ran: ran(),
                made,
                counters: [("records", "read", 300)].into_iter().collect(),
            },
        ]
    }

    /// Names the variant. A variant that is missing here does not compile.
    fn name(edit: &Edit) -> &'static str {
        match edit {
            Edit::Founded { .. } => "Founded",
            Edit::Submitted(_) => "Submitted",
            Edit::Refused { .. } => "Refused",
            Edit::AttemptSucceeded { made: Made::MapOutput { .. }, .. } => "MapSucceeded",
            Edit::AttemptSucceeded { made: Made::Files { .. }, .. } => "FilesSucceeded",
            Edit::AttemptSucceeded { made: Made::RoundOutput { .. }, .. } => "RoundSucceeded",
            Edit::AttemptFailed { .. } => "AttemptFailed",
            Edit::OutputLost { .. } => "OutputLost",
            Edit::Committing { .. } => "Committing",
            Edit::Ending { .. } => "Ending",
            Edit::Ended { .. } => "Ended",
            Edit::Retired { .. } => "Retired",
            Edit::Prioritized { .. } => "Prioritized",
            Edit::KillAsked { .. } => "KillAsked",
            Edit::StopAsked { .. } => "StopAsked",
            Edit::AttemptKilled { .. } => "AttemptKilled",
            Edit::ReducesChosen { .. } => "ReducesChosen",
            Edit::LevelSet { .. } => "LevelSet",
            Edit::SubmittedInRounds { .. } => "SubmittedInRounds",
            Edit::Accepted(_) => "Accepted",
            Edit::Admitted(_) => "Admitted",
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    #[test]
    fn golden_bytes() {
        let lines = samples()
            .iter()
            .map(|edit| format!("{} {}\n", name(edit), hex(&edit.encode())))
            .collect::<String>();
        let newest = VERSIONS[VERSIONS.len() - 1];
        assert!(lines == newest, "a field has changed; a new version has these lines:\n{lines}");
    }

    #[test]
    fn every_version_that_was_ever_written_is_read() {
        for version in VERSIONS {
            let mut lines = version.lines().peekable();
            assert!(lines.peek().is_some());
            for line in lines {
                let (variant, encoded) = line.split_once(' ').unwrap();
                let edit = Edit::decode(&bytes(encoded)).unwrap();
                assert!(samples().contains(&edit) && name(&edit) == variant, "{line}");
            }
        }
    }

    #[test]
    fn every_truncation_and_a_newer_version_are_refused() {
        for edit in samples() {
            let mut body = edit.encode();
            for end in 0..body.len() {
                assert!(Edit::decode(&body[..end]).is_err(), "{} {end}", name(&edit));
            }
            body.push(0);
            assert!(Edit::decode(&body).is_err(), "{}", name(&edit));
            body[0] = NO_VERSION + Edit::VERSION + 1;
            let refused = Edit::decode(&body).unwrap_err();
            assert!(
                matches!(refused, EditError::Version { version } if version == Edit::VERSION + 1)
            );
        }
    }
}

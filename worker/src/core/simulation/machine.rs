//! What surrounds a core on its machine: its files, as far as effects name them, and its runners.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use protocol::jobs::Counters;
use protocol::level::Supported;
use protocol::phase::Phase;
use protocol::rounds::Summary;
use protocol::tracker::{AttemptState, FetchFailure, Register, Work};
use protocol::{AttemptId, BinaryHash, DfsPath, JobId, TaskKind, WorkerId};

use super::super::event::{Event, News};
use super::super::rules::Rules;
use super::jobtracker::is_of_a_round;

pub(super) const SLOTS: u32 = 3;
pub(super) const MACHINE: &str = "here";
/// Idle runners end after this time.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(5);

/// A worker that may reuse runners and links outputs.
pub(in super::super) fn rules() -> Rules {
    Rules {
        register: Register {
            version: 1,
            levels: Supported::OWN,
            worker: WorkerId([7; 16]),
            host: "host".to_owned(),
            rack: "/rack".to_owned(),
            boot_id: MACHINE.to_owned(),
            http_address: "10.0.0.1:1".to_owned(),
            slot_count: SLOTS,
            isolation: String::new(),
            running: Vec::new(),
            held_outputs: Vec::new(),
        },
        outputs: PathBuf::from("/data/outputs"),
        links_outputs: true,
        reuses_runners: true,
        silence_max: Duration::from_secs(60),
        idle_max: IDLE_MAX,
    }
}

/// An order on its way to a runner.
#[derive(Debug)]
pub(super) enum Order {
    Launch(AttemptId),
    Pass,
    Exit,
    Kill,
}

/// What a runner reports.
#[derive(Debug)]
pub(super) enum Report {
    News(News),
    /// Its process is over.
    Over,
}

/// A runner with its process.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) job: JobId,
    pub(super) orders: VecDeque<Order>,
    /// Reports that the core has not received.
    pub(super) reports: VecDeque<Report>,
    /// What it was given and has not begun, with the news that followed.
    pub(super) waiting: Option<(AttemptId, Work)>,
    /// The attempt that it was given, until the core learns of its end.
    pub(super) given: Option<AttemptId>,
    /// The attempt that its process runs.
    pub(super) current: Option<AttemptId>,
    /// It was asked to end.
    pub(super) is_leaving: bool,
    pub(super) is_killed: bool,
    /// It does nothing until it is killed.
    pub(super) hangs: bool,
    pub(super) is_ready: bool,
    pub(super) is_dead: bool,
    /// Its worker knows that.
    pub(super) is_over: bool,
    /// The map outputs that a reduce or a task of a round knows.
    pub(super) outputs: BTreeMap<AttemptId, String>,
}

impl Runner {
    pub(super) fn new(job: JobId) -> Self {
        Runner {
            job,
            orders: VecDeque::new(),
            reports: VecDeque::new(),
            waiting: None,
            given: None,
            current: None,
            is_leaving: false,
            is_killed: false,
            hangs: false,
            is_ready: false,
            is_dead: false,
            is_over: false,
            outputs: BTreeMap::new(),
        }
    }

    pub(super) fn learn(&mut self, work: &Work) {
        self.outputs.clear();
        let (outputs, fixed) = match work {
            Work::Map { .. } => return,
            Work::Reduce(work) => (&work.outputs, &None),
            Work::Round(work) => (&work.inputs, &work.fixed),
        };
        let outputs = outputs.iter().chain(fixed);
        self.outputs.extend(outputs.map(|output| (output.attempt, output.data_path.clone())));
    }

    /// Its process works on the next order.
    pub(super) fn obey(&mut self) {
        let order = self.orders.pop_front();
        self.is_ready |= order.is_some();
        match order {
            Some(Order::Launch(attempt)) => {
                self.waiting = None;
                self.current = Some(attempt);
            }
            Some(Order::Kill) => self.die("killed"),
            Some(Order::Exit) if self.current.is_none() => self.die("exit"),
            Some(Order::Exit | Order::Pass) | None => {}
        }
    }

    pub(super) fn die(&mut self, reason: &str) {
        if !self.is_dead {
            self.is_dead = true;
            self.current = None;
            if self.is_ready {
                self.reports.push_back(Report::Over);
            }
            self.reports.push_back(Report::News(News::Gone { diagnostics: reason.to_owned() }));
        }
    }

    pub(super) fn progress(&mut self) {
        if let Some(attempt) = self.current {
            let counters = Counters::from_iter([("g", "n", 1)]);
            let news = News::Progress { attempt, progress: 0.5, phase: Phase::Map, counters };
            self.reports.push_back(Report::News(news));
        }
    }

    pub(super) fn fail_to_fetch(&mut self, map: AttemptId) {
        if let Some(reduce) = self.current {
            let failure = FetchFailure { reduce, map, diagnostics: String::new() };
            self.reports.push_back(Report::News(News::FetchFailed(failure)));
        }
    }

    /// Its process reports an end; of a reduce, or of a map with or without reduces.
    pub(super) fn end(&mut self, attempt: AttemptId, is_success: bool) {
        let state = match (is_success, attempt.task.kind) {
            (false, _) => AttemptState::Failed { diagnostics: "it failed".to_owned() },
            (true, TaskKind::Map) => AttemptState::MapDone {
                data_path: format!("/data/jobs/{attempt}/output.data"),
                partition_bytes: Vec::new(),
            },
            (true, TaskKind::Reduce) if is_of_a_round(attempt) => AttemptState::RoundDone {
                data_path: format!("/data/jobs/{attempt}/output.data"),
                summary: Summary { bytes: vec![1] },
                measure: Some(0.5),
                kept: None,
            },
            (true, TaskKind::Reduce) => AttemptState::OutputDone {
                directory: DfsPath::parse(&format!("/out/_temporary/{attempt}")).unwrap(),
                hot_keys: Vec::new(),
            },
        };
        let counters = Counters::default();
        let (progress, phase) = (1.0, Phase::Merge);
        let news = News::Ended { attempt, state, counters, progress, phase };
        self.reports.push_back(Report::News(news));
    }
}

/// Files of the worker, as far as effects name them.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) jobs: BTreeSet<JobId>,
    pub(super) attempts: BTreeSet<AttemptId>,
    pub(super) binaries: BTreeSet<BinaryHash>,
    pub(super) fetching: BTreeMap<BinaryHash, String>,
    pub(super) held: BTreeSet<AttemptId>,
    pub(super) linked: BTreeSet<AttemptId>,
    pub(super) deleting: BTreeSet<JobId>,
    pub(super) is_measuring: bool,
    /// Results that the core has not received.
    pub(super) results: Vec<Event>,
}

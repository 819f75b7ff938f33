//! What holds at every step: see the module above.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use protocol::tracker::{Action, AttemptState, AttemptUpdate, Launch, Reply, Request, Work};
use protocol::{AttemptId, BinaryHash, Epoch, JobId, TaskKind};

use super::super::event::Answer;
use super::super::outbox::Outbox;
use super::jobtracker::{JobTracker, is_of_a_round};
use super::machine::SLOTS;
use super::world::World;

/// How an attempt can end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum How {
    Output,
    Files,
    Failed,
    Killed,
}

/// What the core has learned, and what it has said.
#[derive(Debug, Default)]
pub(super) struct Laws {
    /// The newest start of the JobTracker that took a registration.
    highest: Epoch,
    number: u64,
    /// Orders in the last two answers.
    order_counts: [usize; 2],
    received: BTreeMap<AttemptId, (BinaryHash, String)>,
    /// Reduces and the map outputs that they have to know.
    due: BTreeMap<AttemptId, BTreeSet<AttemptId>>,
    /// Attempts that must not go on.
    stopped: BTreeSet<AttemptId>,
    forgotten: BTreeSet<AttemptId>,
    kills: BTreeMap<AttemptId, u32>,
    possible: BTreeSet<(AttemptId, How)>,
    outputs: BTreeSet<AttemptId>,
    /// Ends that were reported and not confirmed, in their order.
    pub(super) unconfirmed: VecDeque<(AttemptId, AttemptState)>,
    refused: BTreeSet<AttemptId>,
    /// Ends that replaced refused ones, that answer late kills, and of jobs whose files are being deleted.
    pub(super) oddities: [u64; 3],
    /// Jobs whose files were deleted: what is ordered meanwhile is killed at once.
    deleted: BTreeSet<JobId>,
    pub(super) confirmed: BTreeMap<AttemptId, AttemptState>,
}

impl Laws {
    pub(super) fn is_received(&self, attempt: AttemptId) -> bool {
        self.received.contains_key(&attempt)
    }

    /// An answer reaches the core.
    pub(super) fn answered(&mut self, request: &Request, answer: &Answer) {
        match (request, answer) {
            (_, Answer::Reply(Reply::Registered { epoch, .. })) if *epoch >= self.highest => {
                self.highest = *epoch;
                self.number = 0;
            }
            (_, Answer::Reply(Reply::Actions { number, actions })) if *number > self.number => {
                self.number = *number;
                self.order_counts = [self.order_counts[1], actions.len()];
                actions.iter().for_each(|action| self.ordered(action));
            }
            (Request::Report { updates, .. }, Answer::Reply(Reply::Done)) => {
                for _ in updates.iter().filter(|update| update.state != AttemptState::Running) {
                    let (attempt, state) = self.unconfirmed.pop_front().expect("it was reported");
                    self.confirmed.insert(attempt, state);
                }
            }
            (Request::Report { updates, .. }, Answer::Refused(_)) => {
                self.refused.extend(updates.iter().map(|update| update.attempt));
            }
            _ => {}
        }
    }

    fn ordered(&mut self, action: &Action) {
        match action {
            Action::Launch(launch) => {
                self.launched(launch);
                if let Work::Round(work) = &launch.work {
                    let outputs = work.inputs.iter().chain(&work.fixed);
                    let outputs = outputs.map(|output| output.attempt).collect();
                    self.due.insert(launch.attempt, outputs);
                }
            }
            Action::LaunchReduces { launches, outputs } => {
                for launch in launches {
                    self.launched(launch);
                    let outputs = outputs.iter().map(|output| output.attempt);
                    self.due.insert(launch.attempt, outputs.collect());
                }
            }
            Action::Kill(attempt) => {
                self.stopped.insert(*attempt);
                *self.kills.entry(*attempt).or_default() += 1;
                self.possible.insert((*attempt, How::Killed));
            }
            Action::MapOutputs { job, available, obsolete } => {
                let takes_news = |id: &AttemptId| id.task.job == *job && !is_of_a_round(*id);
                for (_, due) in self.due.iter_mut().filter(|(id, _)| takes_news(id)) {
                    due.extend(available.iter().map(|output| output.attempt));
                    due.retain(|output| !obsolete.contains(output));
                }
            }
            Action::DropOutputs { .. } => {}
            Action::ForgetJob(job) => {
                let attempts = self.received.keys().filter(|id| id.task.job == *job);
                for attempt in attempts {
                    self.stopped.insert(*attempt);
                    self.forgotten.insert(*attempt);
                    self.possible.insert((*attempt, How::Killed));
                }
            }
        }
    }

    fn launched(&mut self, launch: &Launch) {
        let program = &launch.program;
        self.received.insert(launch.attempt, (program.binary, program.user.clone()));
    }

    pub(super) fn deleted(&mut self, job: JobId) {
        self.deleted.insert(job);
    }

    pub(super) fn highest(&self) -> Epoch {
        self.highest
    }

    pub(super) fn may_fail(&mut self, attempt: AttemptId) {
        self.possible.insert((attempt, How::Failed));
    }

    /// What one user has not says nothing of another's jobs.
    pub(super) fn may_all_fail(&mut self, binary: BinaryHash, user: &str) {
        let needed = (binary, user.to_owned());
        let attempts = self.received.iter().filter(|(_, its)| **its == needed);
        self.possible.extend(attempts.map(|(attempt, _)| (*attempt, How::Failed)));
    }

    /// The process of an attempt reports its end.
    pub(super) fn reported(&mut self, attempt: AttemptId, state: &AttemptState) {
        match state {
            AttemptState::MapDone { .. } | AttemptState::RoundDone { .. } => {
                self.outputs.insert(attempt);
            }
            state => drop(self.possible.insert((attempt, how(state)))),
        }
    }

    /// True once for each output that a map reports.
    pub(super) fn made_output(&mut self, attempt: AttemptId) -> bool {
        self.outputs.remove(&attempt)
    }

    pub(super) fn taken(&mut self, attempt: AttemptId) {
        self.possible.insert((attempt, How::Output));
    }

    /// The core reports ends.
    pub(super) fn report<'a>(
        &mut self,
        ends: impl Iterator<Item = &'a AttemptUpdate>,
        (jobtracker, outbox): (&JobTracker, &Outbox),
    ) {
        for (index, AttemptUpdate { attempt, state, .. }) in ends.enumerate() {
            assert!(jobtracker.ordered.contains(attempt), "{attempt} was never ordered");
            let is_replaced = self.refused.contains(attempt) && outbox.is_replaced(*attempt);
            let is_possible = self.possible.contains(&(*attempt, how(state)))
                || (*state == AttemptState::Killed && self.deleted.contains(&attempt.task.job));
            assert!(is_possible || is_replaced, "{attempt} cannot be {state:?}");
            if let Some((known, before)) = self.unconfirmed.get_mut(index) {
                assert_eq!(known, attempt, "ends are reported in their order");
                assert!(state == before || is_replaced, "{attempt}: {before:?}, then {state:?}");
                self.oddities[0] += u64::from(state != before);
                *before = state.clone();
                continue;
            }
            let is_twice = self.unconfirmed.iter().any(|(known, _)| known == attempt);
            assert!(!is_twice, "{attempt} ended twice");
            if let Some(before) = self.confirmed.get(attempt) {
                let kills = self.kills.get_mut(attempt).filter(|kills| **kills > 0);
                let kills = kills.unwrap_or_else(|| panic!("{attempt} ended as {before:?} before"));
                assert_eq!(*state, AttemptState::Killed, "it is not here");
                *kills -= 1;
                self.oddities[1] += 1;
            }
            self.oddities[2] += u64::from(!self.possible.contains(&(*attempt, how(state))));
            self.unconfirmed.push_back((*attempt, state.clone()));
        }
    }

    pub(super) fn report_running(&self, attempt: AttemptId) {
        assert!(self.is_received(attempt), "{attempt} was never ordered");
        let has_ended = self.unconfirmed.iter().any(|(ended, _)| *ended == attempt);
        assert!(!has_ended && !self.confirmed.contains_key(&attempt), "{attempt} has ended");
    }
}

impl World {
    /// Checks what holds after every event.
    pub(super) fn check(&self) {
        let (core, laws) = (&self.core, &self.laws);
        let is_obeyed = core.backlog.is_empty();
        let mut given = BTreeSet::new();
        for (id, runner) in &self.runners {
            let Some(attempt) = runner.given else { continue };
            assert!(given.insert(attempt), "{attempt} runs twice");
            let is_stopped = is_obeyed && laws.stopped.contains(&attempt);
            assert!(!is_stopped || runner.is_killed, "{id:?} goes on with {attempt}");
            if attempt.task.kind == TaskKind::Reduce && is_obeyed && !is_stopped {
                let known: BTreeSet<AttemptId> = runner.outputs.keys().copied().collect();
                assert_eq!(known, laws.due[&attempt], "{attempt} knows other outputs");
                for (output, path) in &runner.outputs {
                    let is_linked = path.starts_with("/data/outputs");
                    assert!(!is_linked || self.files.linked.contains(output), "{output}");
                }
            }
        }
        let slots = given.iter().filter(|attempt| !laws.forgotten.contains(attempt)).count();
        assert!(slots <= SLOTS as usize, "{slots} attempts run");
        if core.stop_at.is_none() {
            self.check_memory();
        }
    }

    /// The core remembers nothing but what it was ordered and what is there.
    fn check_memory(&self) {
        let (core, laws) = (&self.core, &self.laws);
        assert!(core.attempts.keys().all(|attempt| laws.is_received(*attempt)));
        let ended = laws.unconfirmed.iter().map(|(attempt, _)| *attempt);
        assert!(ended.into_iter().all(|attempt| !core.attempts.contains_key(&attempt)));
        let unconfirmed: Vec<AttemptId> = core.outbox.attempts().collect();
        let distinct: BTreeSet<&AttemptId> = unconfirmed.iter().collect();
        assert_eq!(distinct.len(), unconfirmed.len(), "an end is kept once");
        assert!(distinct.into_iter().all(|attempt| self.jobtracker.ordered.contains(attempt)));
        assert!(core.backlog.len() <= laws.order_counts.iter().sum());
        assert!(core.runners.count() <= self.runners.len());
        let is_fetched = |(binary, user)| self.files.fetching.get(binary) == Some(user);
        assert!(core.fetching.iter().all(is_fetched));
        assert!(core.held.is_subset(&self.files.held));
        assert!(core.near.count() <= self.files.linked.len());
        let ordered = self.jobtracker.ordered.iter().map(|attempt| attempt.task.job);
        let jobs: BTreeSet<_> = ordered.chain(self.jobtracker.over.iter().copied()).collect();
        assert!(core.jobs.all().is_subset(&jobs));
    }

    /// What the core still remembers.
    pub(super) fn memory(&self) -> usize {
        let core = &self.core;
        core.backlog.len()
            + core.attempts.len()
            + core.fetching.len()
            + core.runners.count()
            + core.jobs.all().len()
            + core.held.len()
            + core.near.count()
            + core.outbox.attempts().count()
    }
}

fn how(state: &AttemptState) -> How {
    match state {
        AttemptState::MapDone { .. } | AttemptState::RoundDone { .. } => How::Output,
        AttemptState::OutputDone { .. } => How::Files,
        AttemptState::Failed { .. } => How::Failed,
        AttemptState::Killed => How::Killed,
        AttemptState::Running => panic!("not an end"),
    }
}

//! A core in its world: performs effects, delivers what they lead to in any order, and lets time pass.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::level::FeatureLevel;
use protocol::tracker::{AttemptState, Reply, Request, Work};
use protocol::{AttemptId, Epoch, JobId};

use super::super::effect::{Effect, Note};
use super::super::event::{Answer, CallNumber, Event, News, RunnerId};
use super::super::rules::Rules;
use super::super::{Core, merge_outputs};
use super::jobtracker::JobTracker;
use super::laws::Laws;
use super::machine::{Files, Order, Report, Runner};

/// A call that the core has begun and whose end it does not know.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) call: CallNumber,
    pub(super) request: Request,
    /// The answer on its way back.
    pub(super) answer: Option<Answer>,
}

pub(super) struct World {
    pub(super) core: Core,
    pub(super) now: Duration,
    pub(super) jobtracker: JobTracker,
    pub(super) flights: Vec<Flight>,
    /// Requests that arrive after their call was given up.
    pub(super) strays: Vec<Request>,
    /// An answer that arrives twice.
    pub(super) echo: Option<(CallNumber, Answer)>,
    pub(super) files: Files,
    pub(super) runners: BTreeMap<RunnerId, Runner>,
    /// What the next events are.
    undelivered: Vec<Event>,
    pub(super) laws: Laws,
    /// How often what happened.
    pub(super) seen: BTreeMap<&'static str, u64>,
    /// All effects, if they are recorded.
    pub(super) record: Option<Vec<String>>,
    pub(super) has_ended: bool,
}

impl World {
    pub(super) fn with(rules: Rules) -> Self {
        World {
            core: Core::new(rules),
            now: Duration::ZERO,
            jobtracker: JobTracker::new(),
            flights: Vec::new(),
            strays: Vec::new(),
            echo: None,
            files: Files::default(),
            runners: BTreeMap::new(),
            undelivered: Vec::new(),
            laws: Laws::default(),
            seen: BTreeMap::new(),
            record: None,
            has_ended: false,
        }
    }

    /// The core learns of an event; its effects are performed.
    pub(super) fn feed(&mut self, event: Event) {
        self.before(&event);
        let waiting = self.core.backlog.len();
        let effects = self.core.on(event, self.now);
        self.saw("orders wait behind links", self.core.backlog.len() > waiting.max(1));
        if let Some(record) = &mut self.record {
            record.extend(effects.iter().map(|effect| format!("{:?} {effect:?}", self.now)));
        }
        effects.iter().for_each(|effect| self.take(effect));
        self.check();
        while let Some(event) = self.undelivered.pop() {
            self.feed(event);
        }
    }

    pub(super) fn saw(&mut self, what: &'static str, is_so: bool) {
        if is_so {
            *self.seen.entry(what).or_default() += 1;
        }
    }

    /// Lets time pass, with every tick that falls due.
    pub(super) fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        while self.core.wake_at() <= end && !self.has_ended {
            self.now = self.now.max(self.core.wake_at());
            let woken = self.now;
            self.feed(Event::Tick);
            assert!(self.has_ended || self.core.wake_at() > woken, "time stands still");
        }
        self.now = end;
    }

    /// A request arrives at the JobTracker.
    pub(super) fn arrive(&mut self, index: usize, adopts: &mut dyn FnMut() -> bool) {
        let flight = &mut self.flights[index];
        if flight.answer.is_none() {
            flight.answer = Some(self.jobtracker.answer(&flight.request, adopts));
        }
    }

    /// A JobTracker that began earlier answers a registration.
    pub(super) fn answer_as_older(&mut self, index: usize) {
        let flight = &mut self.flights[index];
        let older = self.laws.highest().0.checked_sub(1);
        if let (Request::Register(_), None, Some(older)) = (&flight.request, &flight.answer, older)
        {
            let reply = Reply::Registered {
                epoch: Epoch(older),
                poll_ms: 1_000,
                level: FeatureLevel::FIRST,
            };
            flight.answer = Some(Answer::Reply(reply));
        }
    }

    /// An answer arrives at the worker.
    pub(super) fn answer(&mut self, index: usize) {
        if let Flight { call, request, answer: Some(answer) } = self.flights.remove(index) {
            self.answered(call, &request, answer);
        }
    }

    /// A call is given up. Its request may arrive all the same.
    pub(super) fn give_up(&mut self, index: usize, arrives: bool) {
        let Flight { call, request, answer } = self.flights.remove(index);
        self.answered(call, &request, Answer::Lost("no answer".to_owned()));
        // A connection carries registrations in their order.
        if arrives && answer.is_none() && matches!(request, Request::Report { .. }) {
            self.strays.push(request);
        }
    }

    fn answered(&mut self, call: CallNumber, request: &Request, answer: Answer) {
        self.echo = Some((call, answer.clone()));
        self.laws.answered(request, &answer);
        self.feed(Event::Answered { call, answer });
    }

    /// A runner's first report arrives.
    pub(super) fn deliver(&mut self, id: RunnerId) {
        let Some(runner) = self.runners.get_mut(&id) else { return };
        let news = match runner.reports.pop_front() {
            Some(Report::News(news)) => news,
            Some(Report::Over) => {
                runner.is_over = true;
                if let Some((attempt, work)) = runner.waiting.take() {
                    self.saw("a runner ends before it begins", true);
                    self.feed(Event::Undelivered { runner: id, attempt, work });
                }
                return;
            }
            None => return,
        };
        if matches!(news, News::Gone { .. })
            && let Some(attempt) = self.runners.remove(&id).and_then(|runner| runner.given)
        {
            self.laws.may_fail(attempt);
        }
        self.feed(Event::Runner(id, news));
    }

    fn before(&mut self, event: &Event) {
        match event {
            Event::Runner(id, News::Ended { attempt, state, .. }) => {
                let runner = self.runners.get_mut(id);
                if let Some(runner) = runner.filter(|runner| runner.given == Some(*attempt)) {
                    runner.given = None;
                    self.laws.reported(*attempt, state);
                }
            }
            Event::Undelivered { runner, .. } => {
                self.saw("an attempt comes back", self.runners.contains_key(runner));
                if let Some(runner) = self.runners.get_mut(runner) {
                    runner.given = None;
                }
            }
            Event::Prepared(attempt, Err(_)) => self.laws.may_fail(*attempt),
            Event::Fetched(binary, result) => {
                let user = self.files.fetching.remove(binary).expect("it was asked for");
                match result {
                    Ok(()) => drop(self.files.binaries.insert(*binary)),
                    Err(_) => self.laws.may_all_fail(*binary, &user),
                }
            }
            Event::OutputTaken(attempt, result) => match result {
                Ok(_) => self.laws.taken(*attempt),
                Err(_) => self.laws.may_fail(*attempt),
            },
            Event::DiskMeasured(_) => self.files.is_measuring = false,
            Event::JobDeleted(job) => drop(self.files.deleting.remove(job)),
            _ => {}
        }
    }

    fn take(&mut self, effect: &Effect) {
        assert!(!self.has_ended, "{effect:?} after the end");
        match effect {
            Effect::Call { call, request, .. } => self.called(*call, request),
            Effect::Prepare(attempt) => {
                let job = attempt.task.job;
                assert!(self.laws.is_received(*attempt), "{attempt} was never ordered");
                assert!(!self.files.deleting.contains(&job), "{job} is being deleted");
                self.files.jobs.insert(job);
                self.files.attempts.insert(*attempt);
                self.files.results.push(Event::Prepared(*attempt, Ok(())));
            }
            Effect::Fetch(binary, user) => {
                let before = self.files.fetching.insert(*binary, user.clone());
                assert_eq!(before, None, "one fetch at a time");
                self.files.results.push(Event::Fetched(*binary, Ok(())));
            }
            Effect::Link(outputs) => {
                assert!(!outputs.is_empty());
                let attempts: Vec<AttemptId> =
                    outputs.iter().map(|output| output.attempt).collect();
                self.files.results.push(Event::Linked(attempts));
            }
            Effect::TakeOutput { attempt, .. } => {
                self.saw("an output is taken", true);
                assert!(self.laws.made_output(*attempt), "{attempt} reported no output");
                self.files.held.insert(*attempt);
                self.files.results.push(Event::OutputTaken(*attempt, Ok(vec![1, 2])));
            }
            Effect::DropOutputs(attempts) => {
                self.saw("outputs of rounds are deleted", true);
                for attempt in attempts {
                    let (held, linked) = (&mut self.files.held, &mut self.files.linked);
                    let was_here = held.remove(attempt) | linked.remove(attempt);
                    assert!(was_here, "{attempt} is deleted twice, or was never here");
                }
            }
            Effect::ReadRecord(attempt) => {
                self.files.results.push(Event::RecordRead(*attempt, None));
            }
            Effect::DeleteAttempt(attempt) => {
                let uses = |runner: &Runner| !runner.is_dead && runner.given == Some(*attempt);
                assert!(!self.runners.values().any(uses), "{attempt} still runs");
                self.files.attempts.remove(attempt);
            }
            Effect::ForgetOutputs(job) => {
                self.files.held.retain(|attempt| attempt.task.job != *job);
            }
            Effect::DeleteJob(job) => self.delete(*job),
            Effect::MeasureDisk => {
                assert!(!self.files.is_measuring, "one measurement at a time");
                self.files.is_measuring = true;
                self.files.results.push(Event::DiskMeasured(Some(1)));
            }
            Effect::PruneLogs => self.saw("logs are pruned", true),
            Effect::Log(note) => self.note(note),
            Effect::End => self.has_ended = true,
            _ => self.take_of_runner(effect),
        }
    }

    fn note(&mut self, note: &Note) {
        let name = match note {
            Note::Registered { .. } => "registered",
            Note::OlderJobtracker { .. } => "an older jobtracker",
            Note::OddRegistration | Note::OddPoll => "an odd answer",
            Note::CannotRegister(_) => "a registration is lost",
            Note::RegistrationRefused(_) => "a registration is refused",
            Note::CannotPoll(_) => "a poll is lost",
            Note::Fenced => "fenced",
            Note::ReportKept(_) => "a report is kept",
            Note::ReportRefused { .. } => "a report is refused",
            Note::RunnersLeft => "runners are left",
        };
        self.saw(name, true);
    }

    fn take_of_runner(&mut self, effect: &Effect) {
        match effect {
            Effect::Start { runner, job, program, .. } => {
                assert!(self.files.jobs.contains(job), "{job} has no files");
                assert!(self.files.binaries.contains(&program.binary), "there is no executable");
                let old = self.runners.insert(*runner, Runner::new(*job));
                assert!(old.is_none(), "{runner:?} started twice");
            }
            Effect::Give { runner: id, attempt, work } => {
                assert!(self.files.attempts.contains(attempt), "{attempt} has no directory");
                let runner = self.runners.get_mut(id).expect("it was started");
                assert!(!runner.is_leaving, "{id:?} was asked to end");
                assert_eq!((runner.given, runner.job), (None, attempt.task.job));
                runner.given = Some(*attempt);
                runner.learn(work);
                if runner.is_over {
                    let (runner, attempt, work) = (*id, *attempt, work.clone());
                    self.undelivered.push(Event::Undelivered { runner, attempt, work });
                } else {
                    runner.waiting = Some((*attempt, work.clone()));
                    self.order(*id, Order::Launch(*attempt));
                }
            }
            Effect::Announce { runner, available, obsolete } => {
                self.saw("a reduce gets news", true);
                let runner = self.runners.get_mut(runner).expect("it was started");
                assert!(runner.given.is_some(), "only a reduce wants news");
                if let Some((_, Work::Reduce(work))) = &mut runner.waiting {
                    merge_outputs(&mut work.outputs, available.clone(), obsolete);
                }
                let paths = available.iter();
                let paths = paths.map(|output| (output.attempt, output.data_path.clone()));
                runner.outputs.extend(paths);
                runner.outputs.retain(|output, _| !obsolete.contains(output));
            }
            Effect::RenewPass(id) => {
                self.saw("a pass is renewed", true);
                self.order(*id, Order::Pass);
            }
            Effect::Exit(id) => {
                let runner = self.runners.get_mut(id).expect("it was started");
                assert_eq!(runner.given, None, "it is not idle");
                runner.is_leaving = true;
                self.order(*id, Order::Exit);
            }
            Effect::Kill(id) => {
                let runner = self.runners.get_mut(id).expect("it was started");
                (runner.is_leaving, runner.is_killed) = (true, true);
                self.order(*id, Order::Kill);
            }
            effect => panic!("{effect:?} is of no runner"),
        }
    }

    fn order(&mut self, id: RunnerId, order: Order) {
        let runner = self.runners.get_mut(&id).expect("it was started");
        // An order to a process that is over is lost.
        if !runner.is_dead {
            runner.orders.push_back(order);
        }
    }

    fn delete(&mut self, job: JobId) {
        assert!(!self.runners.values().any(|runner| runner.job == job), "{job} has processes");
        let is_taken = |event: &Event| matches!(event, Event::OutputTaken(attempt, _) if attempt.task.job == job);
        assert!(!self.files.results.iter().any(is_taken), "an output of {job} is being taken");
        assert!(self.files.deleting.insert(job), "deleted twice at once");
        self.laws.deleted(job);
        self.files.jobs.remove(&job);
        self.files.attempts.retain(|attempt| attempt.task.job != job);
        self.files.linked.retain(|attempt| attempt.task.job != job);
        self.files.results.push(Event::JobDeleted(job));
    }

    fn called(&mut self, call: CallNumber, request: &Request) {
        let is_report = matches!(request, Request::Report { .. });
        let is_same =
            |flight: &Flight| matches!(flight.request, Request::Report { .. }) == is_report;
        assert!(!self.flights.iter().any(is_same), "one call of a kind at a time: {request:?}");
        if let Request::Poll { epoch, .. } | Request::Report { epoch, .. } = request {
            assert_eq!(*epoch, self.laws.highest(), "the highest epoch wins");
        }
        if let Request::Report { updates, .. } = request {
            let ends = updates.iter().filter(|update| update.state != AttemptState::Running);
            self.laws.report(ends, (&self.jobtracker, &self.core.outbox));
            for update in updates.iter().filter(|update| update.state == AttemptState::Running) {
                self.laws.report_running(update.attempt);
            }
        }
        self.flights.push(Flight { call, request: request.clone(), answer: None });
    }
}

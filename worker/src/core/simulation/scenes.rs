//! Single scenes: what follows from a few events.

use std::sync::Arc;
use std::time::Duration;

use protocol::jobs::Counters;
use protocol::level::FeatureLevel;
use protocol::phase::Phase;
use protocol::rounds::{RoundWork, Summary};
use protocol::tracker::{
    Action, AttemptState, AttemptUpdate, Launch, MapOutput, Reply, Request, Work,
};
use protocol::{AttemptId, Epoch, JobId, RecordAt, TaskKind};

use super::super::effect::{Effect, Note};
use super::super::event::{Answer, CallNumber, Event, News, RunnerId};
use super::super::rules::Rules;
use super::super::{Core, STOP_TIMEOUT, merge_outputs};
use super::jobtracker::launch;
use super::machine::{IDLE_MAX, MACHINE, rules};

const JOB: JobId = JobId { cluster_start: 1, number: 1 };

/// A core whose calls are answered by hand; everything else that it orders works at once.
struct Scene {
    core: Core,
    now: Duration,
    conversation: Option<CallNumber>,
    report: Option<(CallNumber, Vec<AttemptUpdate>)>,
    number: u64,
    /// What it ordered besides calls, since the last check.
    effects: Vec<Effect>,
    /// Effects whose result is withheld.
    withheld: fn(&Effect) -> bool,
}

impl Scene {
    fn new(rules: Rules) -> Self {
        let mut scene = Scene {
            core: Core::new(rules),
            now: Duration::ZERO,
            conversation: None,
            report: None,
            number: 0,
            effects: Vec::new(),
            withheld: |_| false,
        };
        scene.feed(Event::Tick);
        scene.register(1);
        scene
    }

    fn feed(&mut self, event: Event) {
        for effect in self.core.on(event, self.now) {
            let result = match &effect {
                Effect::Call { call, request: Request::Report { updates, .. }, .. } => {
                    self.report = Some((*call, updates.clone()));
                    continue;
                }
                Effect::Call { call, .. } => {
                    self.conversation = Some(*call);
                    continue;
                }
                Effect::Prepare(attempt) => Event::Prepared(*attempt, Ok(())),
                Effect::Fetch(binary, _) => Event::Fetched(*binary, Ok(())),
                Effect::Link(outputs) => {
                    Event::Linked(outputs.iter().map(|output| output.attempt).collect())
                }
                Effect::TakeOutput { attempt, .. } => Event::OutputTaken(*attempt, Ok(vec![1, 2])),
                Effect::ReadRecord(attempt) => Event::RecordRead(*attempt, None),
                Effect::DeleteJob(job) => Event::JobDeleted(*job),
                _ => {
                    self.effects.push(effect);
                    continue;
                }
            };
            let is_withheld = (self.withheld)(&effect);
            self.effects.push(effect);
            if !is_withheld {
                self.feed(result);
            }
        }
    }

    fn register(&mut self, epoch: u64) {
        self.number = 0;
        let reply =
            Reply::Registered { epoch: Epoch(epoch), poll_ms: 1_000, level: FeatureLevel::FIRST };
        self.converse(Answer::Reply(reply));
    }

    fn converse(&mut self, answer: Answer) {
        let call = self.conversation.take().expect("it calls");
        self.feed(Event::Answered { call, answer });
    }

    fn obey(&mut self, actions: Vec<Action>) {
        self.number += 1;
        self.converse(Answer::Reply(Reply::Actions { number: self.number, actions }));
    }

    fn run(&mut self, index: u32, kind: TaskKind) -> AttemptId {
        let launch = launch(JOB, kind, index, 1);
        let id = launch.attempt;
        self.obey(vec![Action::Launch(Box::new(launch))]);
        id
    }

    fn end(&mut self, runner: u64, attempt: AttemptId, state: AttemptState) {
        let (counters, progress, phase) = (Counters::default(), 1.0, Phase::Map);
        let news = News::Ended { attempt, state, counters, progress, phase };
        self.feed(Event::Runner(RunnerId(runner), news));
    }

    fn gone(&mut self, runner: u64) {
        let diagnostics = "it ended".to_owned();
        self.feed(Event::Runner(RunnerId(runner), News::Gone { diagnostics }));
    }

    /// The report under way is taken; returns the ends in it.
    fn take_report(&mut self) -> Vec<(AttemptId, AttemptState)> {
        let (call, updates) = self.report.take().expect("it reports");
        self.feed(Event::Answered { call, answer: Answer::Reply(Reply::Done) });
        let ends = updates.into_iter().filter(|update| update.state != AttemptState::Running);
        ends.map(|update| (update.attempt, update.state)).collect()
    }

    /// The effects since the last check, as text without their contents.
    fn seen(&mut self) -> Vec<String> {
        let effects = std::mem::take(&mut self.effects);
        let name = |effect: &Effect| match effect {
            Effect::Start { runner, .. } => format!("start {}", runner.0),
            Effect::Give { runner, attempt, .. } => {
                format!("give {} {}", runner.0, attempt.task.index)
            }
            Effect::Exit(runner) => format!("exit {}", runner.0),
            Effect::Kill(runner) => format!("kill {}", runner.0),
            Effect::RenewPass(runner) => format!("pass {}", runner.0),
            Effect::DeleteJob(_) => "delete".to_owned(),
            Effect::End => "end".to_owned(),
            _ => String::new(),
        };
        effects.iter().map(name).filter(|name| !name.is_empty()).collect()
    }

    fn notes(&mut self) -> Vec<Note> {
        let effects = std::mem::take(&mut self.effects);
        let notes = effects.into_iter().filter_map(|effect| match effect {
            Effect::Log(note) => Some(note),
            _ => None,
        });
        notes.collect()
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.core.wake_at() <= end {
            self.now = self.core.wake_at();
            self.feed(Event::Tick);
        }
        self.now = end;
    }
}

fn done(index: u32) -> AttemptState {
    AttemptState::MapDone { data_path: format!("/made/{index}"), partition_bytes: Vec::new() }
}

#[test]
fn the_highest_epoch_wins_and_failed_calls_are_repeated_after_a_pause() {
    let mut scene = Scene::new(rules());
    scene.converse(Answer::Fenced("restarted".to_owned()));
    scene.register(5);
    scene.converse(Answer::Fenced("restarted".to_owned()));
    scene.notes();
    scene.register(4);
    assert_eq!(
        scene.notes(),
        [Note::OlderJobtracker { epoch: Epoch(4), highest: Epoch(5) }],
        "it is not obeyed"
    );
    assert!(scene.conversation.is_none(), "it pauses");
    scene.pass(Duration::from_millis(199));
    assert!(scene.conversation.is_none(), "it pauses");
    scene.pass(Duration::from_millis(1));
    scene.register(5);
    assert_eq!(scene.notes(), [Note::Registered { epoch: Epoch(5), level: FeatureLevel::FIRST }]);
    scene.converse(Answer::Lost("cut".to_owned()));
    assert_eq!(scene.notes(), [Note::CannotPoll("cut".to_owned())]);
    assert!(scene.conversation.is_none(), "it pauses");
    scene.pass(Duration::from_millis(200));
    scene.converse(Answer::Reply(Reply::Done));
    assert_eq!(scene.notes(), [Note::OddPoll]);
}

#[test]
fn orders_that_come_again_are_obeyed_once() {
    let mut scene = Scene::new(rules());
    let map = scene.run(1, TaskKind::Map);
    assert_eq!(scene.seen(), ["start 1", "give 1 1"]);
    scene.end(1, map, done(1));
    scene.take_report();
    let again = Action::Launch(Box::new(launch(JOB, TaskKind::Map, 1, 1)));
    scene.number -= 1;
    scene.obey(vec![again]);
    assert_eq!(scene.seen(), [""; 0], "it has that number");
}

#[test]
fn a_registration_names_what_runs_and_what_is_held() {
    let mut scene = Scene::new(rules());
    let held = scene.run(1, TaskKind::Map);
    scene.end(1, held, done(1));
    scene.take_report();
    let ended = scene.run(2, TaskKind::Map);
    scene.end(1, ended, AttemptState::Failed { diagnostics: "no".to_owned() });
    let running = scene.run(3, TaskKind::Map);
    let call = scene.conversation.take().expect("it polls");
    let answer = Answer::Fenced("restarted".to_owned());
    let effects = scene.core.on(Event::Answered { call, answer }, scene.now);
    let registration = effects.iter().find_map(|effect| match effect {
        Effect::Call { request: Request::Register(register), .. } => Some(register),
        _ => None,
    });
    let registration = registration.expect("it registers at once");
    assert_eq!(registration.running, [running, ended]);
    let outputs = registration.held_outputs.iter().map(|output| &*output.data_path);
    assert_eq!(outputs.collect::<Vec<_>>(), [format!("/data/outputs/{JOB}/{held}.data")]);
}

#[test]
fn an_attempt_whose_runner_was_over_gets_another() {
    for is_killed in [false, true] {
        let mut scene = Scene::new(rules());
        let first = scene.run(1, TaskKind::Map);
        scene.end(1, first, done(1));
        scene.take_report();
        let second = scene.run(2, TaskKind::Map);
        assert_eq!(scene.seen(), ["start 1", "give 1 1", "give 1 2"]);
        if is_killed {
            scene.obey(vec![Action::Kill(second)]);
            scene.seen();
        }
        let work = launch(JOB, TaskKind::Map, 2, 1).work;
        let runner = RunnerId(1);
        scene.feed(Event::Undelivered { runner, attempt: second, work });
        scene.gone(1);
        if is_killed {
            assert_eq!(scene.seen(), [""; 0]);
            assert_eq!(scene.take_report(), [(second, AttemptState::Killed)]);
        } else {
            assert_eq!(scene.seen(), ["start 2", "give 2 2"]);
            assert!(scene.report.is_none(), "it goes on");
        }
    }
}

#[test]
fn a_map_that_dies_names_its_record_and_one_that_fails_names_it_itself() {
    let inside = Some(RecordAt { part: 0, offset: 77 });
    let outside = Some(RecordAt { part: 9, offset: 77 });
    let named = "map failed at /in, byte 77: it ended";
    for (record, dies, expected, kept) in [
        (inside, true, named, inside),
        (outside, true, "it ended", None),
        (None, true, "it ended", None),
        (inside, false, "it failed", inside),
    ] {
        let mut scene = Scene::new(rules());
        scene.withheld = |effect| matches!(effect, Effect::ReadRecord(_));
        let map = scene.run(1, TaskKind::Map);
        if dies {
            scene.gone(1);
        } else {
            scene.end(1, map, AttemptState::Failed { diagnostics: "it failed".to_owned() });
        }
        assert!(scene.report.is_none(), "its record is read first");
        scene.feed(Event::RecordRead(map, record));
        let (_, updates) = scene.report.as_ref().expect("it reports");
        assert_eq!(updates[0].state, AttemptState::Failed { diagnostics: expected.to_owned() });
        assert_eq!(updates[0].record, kept);
    }
}

#[test]
fn runners_are_reused_unless_the_kernel_counts_their_time() {
    for reuses_runners in [true, false] {
        let mut scene = Scene::new(Rules { reuses_runners, ..rules() });
        for index in 1..=2 {
            let map = scene.run(index, TaskKind::Map);
            scene.end(u64::from(if reuses_runners { 1 } else { index }), map, done(index));
            assert!(matches!(scene.take_report()[..], [(_, AttemptState::MapDone { .. })]));
        }
        let expected: &[&str] = match reuses_runners {
            true => &["start 1", "give 1 1", "give 1 2"],
            false => &["start 1", "give 1 1", "exit 1", "start 2", "give 2 2", "exit 2"],
        };
        assert_eq!(scene.seen(), expected);
    }
}

#[test]
fn idle_runners_end_and_busy_ones_get_new_passes() {
    let mut scene = Scene::new(rules());
    let idle = scene.run(1, TaskKind::Map);
    scene.run(2, TaskKind::Map);
    scene.end(1, idle, done(1));
    scene.seen();
    scene.pass(IDLE_MAX - Duration::from_secs(1));
    assert_eq!(scene.seen(), [""; 0]);
    scene.pass(Duration::from_secs(1));
    assert_eq!(scene.seen(), ["exit 1"]);
    scene.pass(Duration::from_secs(2));
    assert_eq!(scene.seen(), ["kill 1"], "it does not exit");
    scene.gone(1);
    scene.pass(protocol::pass::PASS_RENEWAL);
    assert_eq!(scene.seen(), ["pass 2"]);
}

#[test]
fn an_output_that_is_taken_while_its_job_ends_is_not_held() {
    let mut scene = Scene::new(rules());
    scene.withheld = |effect| matches!(effect, Effect::TakeOutput { .. });
    let map = scene.run(1, TaskKind::Map);
    scene.end(1, map, done(1));
    scene.obey(vec![Action::ForgetJob(JOB)]);
    scene.feed(Event::OutputTaken(map, Ok(vec![1, 2])));
    assert_eq!(scene.take_report(), [(map, AttemptState::Killed)]);
    assert!(scene.core.held.is_empty());
    // It ends after its job, before its runner does.
    let map = scene.run(2, TaskKind::Map);
    scene.obey(vec![Action::ForgetJob(JOB)]);
    scene.end(2, map, done(2));
    assert_eq!(scene.take_report(), [(map, AttemptState::Killed)]);
    assert!(scene.core.held.is_empty());
}

#[test]
fn files_of_a_job_go_after_its_last_process_and_before_it_returns() {
    let mut scene = Scene::new(rules());
    scene.withheld = |effect| matches!(effect, Effect::DeleteJob(_));
    scene.run(1, TaskKind::Map);
    scene.seen();
    scene.obey(vec![Action::ForgetJob(JOB)]);
    assert_eq!(scene.seen(), ["kill 1"]);
    scene.gone(1);
    assert_eq!(scene.seen(), ["delete"]);
    scene.take_report();
    let early = scene.run(2, TaskKind::Map);
    assert_eq!(scene.take_report(), [(early, AttemptState::Killed)], "it is tried again");
    scene.feed(Event::JobDeleted(JOB));
    scene.run(3, TaskKind::Map);
    assert_eq!(scene.seen(), ["start 2", "give 2 3"]);
}

#[test]
fn files_of_a_job_stay_while_an_output_is_taken() {
    let mut scene = Scene::new(rules());
    scene.withheld = |effect| matches!(effect, Effect::TakeOutput { .. });
    let map = scene.run(1, TaskKind::Map);
    scene.end(1, map, done(1));
    scene.obey(vec![Action::ForgetJob(JOB)]);
    scene.seen();
    scene.gone(1);
    assert_eq!(scene.seen(), [""; 0]);
    scene.feed(Event::OutputTaken(map, Ok(vec![1, 2])));
    assert_eq!(scene.seen(), ["delete"]);
}

#[test]
fn a_job_that_nobody_speaks_of_is_forgotten() {
    let mut scene = Scene::new(rules());
    let map = scene.run(1, TaskKind::Map);
    scene.end(1, map, AttemptState::Killed);
    scene.seen();
    scene.pass(IDLE_MAX);
    scene.gone(1);
    scene.pass(Duration::from_secs(114));
    assert_eq!(scene.seen(), ["exit 1"]);
    scene.pass(Duration::from_secs(1));
    assert_eq!(scene.seen(), ["delete"]);
}

#[test]
fn reduces_wait_for_links_and_learn_their_paths() {
    let mut scene = Scene::new(rules());
    scene.withheld = |effect| matches!(effect, Effect::Link(_));
    let output = |index: u32| {
        let Launch { attempt, .. } = launch(JOB, TaskKind::Map, index, 1);
        MapOutput {
            attempt,
            http_address: "10.0.0.9:1".to_owned(),
            boot_id: MACHINE.to_owned(),
            data_path: format!("/other/{JOB}/{attempt}.data"),
        }
    };
    let (first, second) = (output(8), output(9));
    let launches = vec![launch(JOB, TaskKind::Reduce, 1, 1)];
    let outputs = vec![first.clone(), second.clone()];
    scene.obey(vec![Action::LaunchReduces { launches, outputs }]);
    assert_eq!(scene.seen(), [""; 0]);
    // Orders that come meanwhile wait, too, and no more are asked for.
    let map = launch(JOB, TaskKind::Map, 2, 1);
    scene.obey(vec![Action::Launch(Box::new(map))]);
    assert_eq!(scene.seen(), [""; 0]);
    assert!(scene.conversation.is_none(), "it does not poll");
    scene.feed(Event::Linked(vec![first.attempt]));
    assert!(scene.conversation.is_some(), "it polls");
    let given = scene.effects.iter().find_map(|effect| match effect {
        Effect::Give { work: Work::Reduce(work), .. } => Some(work.outputs.to_vec()),
        _ => None,
    });
    let linked = format!("/data/outputs/{JOB}/{}.data", first.attempt);
    assert_eq!(given.expect("it runs"), [MapOutput { data_path: linked, ..first }, second]);
    assert_eq!(scene.seen(), ["start 1", "give 1 1", "start 2", "give 2 2"]);
}

#[test]
fn reduces_that_start_together_share_their_list_until_one_gets_news() {
    let mut scene = Scene::new(rules());
    let Launch { attempt, .. } = launch(JOB, TaskKind::Map, 8, 1);
    let output = MapOutput {
        attempt,
        http_address: "10.0.0.9:1".to_owned(),
        boot_id: "elsewhere".to_owned(),
        data_path: "/other".to_owned(),
    };
    let launches = (1..4).map(|index| launch(JOB, TaskKind::Reduce, index, 1)).collect();
    scene.obey(vec![Action::LaunchReduces { launches, outputs: vec![output.clone()] }]);
    let mut lists: Vec<_> = scene
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Give { work: Work::Reduce(work), .. } => Some(Arc::clone(&work.outputs)),
            _ => None,
        })
        .collect();
    assert_eq!(lists.len(), 3);
    assert!(lists.iter().all(|list| Arc::ptr_eq(list, &lists[0]) && **list == [output.clone()]));
    let [changed, kept, _] = &mut lists[..] else { unreachable!("there are three") };
    merge_outputs(changed, Vec::new(), &[attempt]);
    assert_eq!((changed.len(), kept.len()), (0, 1));
}

#[test]
fn a_task_of_a_round_has_near_inputs_linked_and_its_output_is_held_until_it_is_dropped() {
    let mut scene = Scene::new(rules());
    let near = |index: u32| {
        let Launch { attempt, .. } = launch(JOB, TaskKind::Reduce, index, 1);
        MapOutput {
            attempt,
            http_address: "10.0.0.9:1".to_owned(),
            boot_id: MACHINE.to_owned(),
            data_path: format!("/other/{JOB}/{attempt}.data"),
        }
    };
    let (input, fixed) = (near(12), near(16));
    let mut launch = launch(JOB, TaskKind::Reduce, 4, 1);
    let Work::Round(work) = &mut launch.work else { panic!("{launch:?}") };
    (work.inputs, work.fixed) = (Arc::new(vec![input.clone()]), Some(fixed.clone()));
    let id = launch.attempt;
    scene.obey(vec![Action::Launch(Box::new(launch))]);
    let given = scene.effects.iter().find_map(|effect| match effect {
        Effect::Give { work: Work::Round(work), .. } => Some(work.clone()),
        _ => None,
    });
    let given = given.expect("it runs");
    let link = |output: &MapOutput| format!("/data/outputs/{JOB}/{}.data", output.attempt);
    assert_eq!(given.inputs[0].data_path, link(&input));
    assert_eq!(given.fixed.map(|fixed| fixed.data_path), Some(link(&fixed)));
    scene.effects.clear();
    let done = |data_path: String| AttemptState::RoundDone {
        data_path,
        summary: Summary { bytes: vec![7] },
        measure: Some(0.5),
        kept: None,
    };
    scene.end(1, id, done("/made".to_owned()));
    let taken = scene.effects.iter().find_map(|effect| match effect {
        Effect::TakeOutput { partition_count, .. } => Some(*partition_count),
        _ => None,
    });
    assert_eq!(taken, Some(RoundWork::output_partitions(1)));
    let held = format!("/data/outputs/{JOB}/{id}.data");
    assert_eq!(scene.take_report(), [(id, done(held))]);
    scene.effects.clear();
    for dropped in [vec![id, input.attempt], Vec::new()] {
        scene.obey(vec![Action::DropOutputs { attempts: vec![id, input.attempt] }]);
        let effects = std::mem::take(&mut scene.effects);
        let seen: Vec<AttemptId> = effects
            .into_iter()
            .filter_map(|effect| match effect {
                Effect::DropOutputs(attempts) => Some(attempts),
                _ => None,
            })
            .flatten()
            .collect();
        assert_eq!(seen, dropped, "once");
    }
}

#[test]
fn a_worker_that_stops_waits_for_its_runners_but_not_for_long() {
    let mut scene = Scene::new(rules());
    scene.feed(Event::Shutdown);
    assert_eq!(scene.seen(), ["end"], "there are none");
    for ends in [true, false] {
        let mut scene = Scene::new(rules());
        scene.run(1, TaskKind::Map);
        scene.seen();
        scene.feed(Event::Shutdown);
        assert_eq!(scene.seen(), ["kill 1"]);
        if ends {
            scene.gone(1);
        } else {
            assert_eq!(scene.core.wake_at(), scene.now + STOP_TIMEOUT);
            scene.now += STOP_TIMEOUT;
            scene.feed(Event::Tick);
            assert!(scene.effects.iter().any(|e| matches!(e, Effect::Log(Note::RunnersLeft))));
        }
        assert_eq!(scene.seen(), ["end"]);
    }
}

#[test]
fn launches_that_say_the_same_share_the_description_of_their_job() {
    let mut scene = Scene::new(rules());
    let [first, second, other] = [2, 4, 1].map(|index| scene.run(index, TaskKind::Map));
    let program = |id| Arc::clone(&scene.core.attempts[&id].launch.program);
    assert!(Arc::ptr_eq(&program(first), &program(second)));
    assert_ne!(program(first), program(other), "it reports sizes, the other does not");
}

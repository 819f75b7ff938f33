//! Workers that a job or all jobs avoid are used rather than left idle while tasks wait.

use std::time::Duration;

use protocol::{AttemptId, JobId, TaskKind, WorkerId};

use super::world::{World, spec};

const SECOND: Duration = Duration::from_secs(1);

/// Two workers. A job's three attempts on the first one, which has three slots, have failed, so the job avoids it. The only slot of the other
/// has a task that never ends. A map or a reduce that has not failed anywhere waits, too.
struct Avoided {
    world: World,
    workers: [WorkerId; 2],
    job: JobId,
    long: AttemptId,
}

impl Avoided {
    fn by(kind: TaskKind) -> Self {
        let mut world = World::new();
        let workers = [world.add_worker("a", 3), world.add_worker("bb", 1)];
        start(&mut world, 1, 1, 0);
        world.contact(workers[1], true);
        let long = world.running(workers[1])[0];
        world.contact(workers[0], true);
        let (maps, reduces) = if kind == TaskKind::Map { (4, 0) } else { (1, 4) };
        let job = start(&mut world, 2, maps, reduces);
        world.contact(workers[0], true);
        if kind == TaskKind::Reduce {
            succeed_all(&mut world, workers[0]);
        }
        let attempts = world.running(workers[0]);
        assert!(attempts.len() == 3 && attempts.iter().all(|attempt| attempt.task.kind == kind));
        attempts.into_iter().for_each(|attempt| world.fail(workers[0], attempt));
        let mut scene = Avoided { world, workers, job, long };
        scene.contact();
        assert_eq!(scene.of_the_job(), [], "it is avoided");
        scene
    }

    fn contact(&mut self) {
        self.workers.iter().for_each(|worker| self.world.contact(*worker, true));
    }

    /// The job's attempts on the worker that it avoids.
    fn of_the_job(&self) -> Vec<AttemptId> {
        let mut running = self.world.running(self.workers[0]);
        running.retain(|attempt| attempt.task.job == self.job);
        running
    }

    /// Seconds until the job gets a slot there; each second `meanwhile` happens.
    fn seconds(&mut self, meanwhile: impl Fn(&mut Avoided)) -> u64 {
        for second in 0..120 {
            if !self.of_the_job().is_empty() {
                return second;
            }
            meanwhile(self);
            self.world.advance(SECOND);
            self.contact();
        }
        panic!("a slot is free and tasks wait");
    }
}

/// A job whose input is nowhere.
fn start(world: &mut World, number: u64, maps: usize, reduces: u32) -> JobId {
    let mut spec = spec(number, &vec!["a"; maps], reduces);
    spec.splits.forget_places();
    let job = world.submit(number, spec).unwrap();
    world.do_all_effects();
    job
}

fn succeed_all(world: &mut World, worker: WorkerId) {
    world.running(worker).into_iter().for_each(|attempt| world.succeed(worker, attempt));
    world.contact(worker, true);
}

#[test]
fn a_job_avoids_a_worker_only_for_a_while_if_all_others_are_full() {
    for kind in [TaskKind::Map, TaskKind::Reduce] {
        let mut scene = Avoided::by(kind);
        assert_eq!(scene.seconds(|_| {}), 30, "{kind:?}");
        assert_eq!(scene.of_the_job().len(), 3, "{kind:?}: all free slots");
        assert_eq!(scene.world.running(scene.workers[1]), [scene.long]);
    }
}

#[test]
fn a_job_that_has_waited_gets_its_share_of_a_worker_that_it_avoids() {
    for kind in [TaskKind::Map, TaskKind::Reduce] {
        let mut scene = Avoided::by(kind);
        start(&mut scene.world, 3, 1_000, 0);
        scene.contact();
        let seconds = scene.seconds(|scene| {
            let first = scene.world.running(scene.workers[0])[0];
            scene.world.succeed(scene.workers[0], first);
        });
        assert!((30..=32).contains(&seconds), "{kind:?}: {seconds}");
    }
}

#[test]
fn a_job_that_gets_slots_elsewhere_goes_on_avoiding_a_worker() {
    let mut scene = Avoided::by(TaskKind::Map);
    for second in 0..80 {
        if second % 20 == 19 {
            let next = scene.world.running(scene.workers[1])[0];
            scene.world.succeed(scene.workers[1], next);
        }
        scene.world.advance(SECOND);
        scene.contact();
        assert_eq!(scene.of_the_job(), [], "after {second} s");
    }
    assert_eq!(scene.world.core.job_report(scene.job).unwrap().maps.completed, 3);
}

#[test]
fn of_two_free_workers_a_job_takes_the_one_that_it_does_not_avoid() {
    let mut scene = Avoided::by(TaskKind::Map);
    let other = scene.world.add_worker("c", 1);
    scene.world.pass(SECOND * 40);
    scene.world.contact(other, true);
    assert_eq!(scene.world.running(other).len(), 1);
    scene.contact();
    assert_eq!(scene.of_the_job(), [], "it waits anew");
}

/// It avoids one of two: with more failures on the other, the first one is good again, and has free slots.
#[test]
fn a_worker_that_a_job_avoids_no_longer_gets_its_tasks_at_once() {
    let mut world = World::new();
    let [first, second] = [("a", 3), ("bb", 4)].map(|(host, slots)| world.add_worker(host, slots));
    [first, second].into_iter().for_each(|worker| world.contact(worker, true));
    start(&mut world, 1, 7, 0);
    for (worker, count) in [(first, 3), (second, 4)] {
        world.contact(worker, true);
        let attempts = world.running(worker);
        assert_eq!(attempts.len(), count);
        attempts.into_iter().for_each(|attempt| world.fail(worker, attempt));
    }
    world.contact(first, true);
    assert_eq!(world.core.workers.worker(first).unwrap().running.len(), 0, "it is avoided");
    world.contact(second, true);
    assert_eq!(world.core.workers.worker(first).unwrap().running.len(), 3);
}

/// Its reduce holds the only slot where it likes to run. After a restart it has not been offered any slot that is far from its input.
#[test]
fn a_reduce_gives_way_to_a_map_whose_job_avoids_the_only_free_worker() {
    let mut world = World::new();
    let [bad, good, lost] = [("a", 3), ("bb", 1), ("c", 1)].map(|(host, slots)| {
        let worker = world.add_worker(host, slots);
        world.contact(worker, true);
        worker
    });
    let job = world.submit(1, spec(1, &["a", "a", "a", "c"], 1)).unwrap();
    world.do_all_effects();
    [bad, lost].into_iter().for_each(|worker| world.contact(worker, true));
    world.running(bad).into_iter().for_each(|attempt| world.fail(bad, attempt));
    world.contact(bad, true);
    for _ in 0..3 {
        world.contact(good, true);
        succeed_all(&mut world, good);
    }
    succeed_all(&mut world, lost);
    assert_eq!([bad, lost].map(|worker| world.running(worker).len()), [0, 0]);
    assert_eq!(world.running(good)[0].task.kind, TaskKind::Reduce);
    world.workers.remove(&lost);
    world.restart();
    for _ in 0..40 {
        world.do_all_effects();
        world.advance(SECOND);
        [bad, good].into_iter().for_each(|worker| world.contact(worker, true));
    }
    let running = world.running(good);
    assert!(running.iter().all(|attempt| attempt.task == running[0].task) && running.len() == 1);
    assert_eq!((running[0].task.job, running[0].task.kind), (job, TaskKind::Map));
}

/// One is on the list, the others are gone or drained.
#[test]
fn the_last_worker_is_taken_off_the_list() {
    for is_drained in [false, true] {
        let mut world = World::new();
        let workers = ["a", "bb"].map(|host| world.add_worker(host, 1));
        workers.iter().for_each(|worker| world.contact(*worker, true));
        (0..4).for_each(|_| world.core.workers.add_fault(workers[0], world.now.at, 2));
        assert!(!world.core.workers.worker(workers[0]).unwrap().is_usable());
        let job = start(&mut world, 1, 2, 0);
        world.contact(workers[1], true);
        match is_drained {
            true => world.exclude(&["bb"]),
            false => drop(world.workers.remove(&workers[1])),
        }
        for _ in 0..40 {
            world.advance(SECOND);
            world.workers.keys().copied().collect::<Vec<_>>().into_iter().for_each(|worker| {
                world.contact(worker, true);
            });
        }
        let running = world.running(workers[0]);
        assert_eq!(running.len(), 1, "drained: {is_drained}");
        assert_eq!(running[0].task.job, job);
    }
}

//! Workers that die at each stage of a job, and a JobTracker that dies at each change of its jobs.

use std::collections::BTreeSet;

use super::{Stand, options};
use crate::support::report::assert_no_panics;

/// Reduces begin when all maps are done.
const LATE: [&str; 2] = ["-D", "mapreduce.job.reduce.slowstart.completedmaps=1"];
/// Reduces begin with the first map that is done.
const EARLY: [&str; 2] = ["-D", "mapreduce.job.reduce.slowstart.completedmaps=0.01"];
const MAPS: usize = 6;

#[test]
fn a_worker_that_dies_at_any_stage_of_a_job_changes_nothing() {
    let stand = Stand::start(MAPS, options());
    while_attempts_run(&stand, "map", 4);
    before_its_outputs_are_fetched(&stand);
    in_the_shuffle(&stand);
    while_attempts_run(&stand, "reduce", 2);
    with_outputs_that_were_fetched(&stand);
    with_an_output_that_is_written(&stand);
    assert_no_panics(&stand.cluster);
}

/// It dies while attempts wait at a gate, of which at most so many can be there at once.
fn while_attempts_run(stand: &Stand, gate: &str, count: usize) {
    let job = stand.begin(gate, &[gate], &["-numReduceTasks", "2"]);
    let (_, worker) = job.wait_at(gate, count)[0];
    stand.kill(&format!("worker-{worker}"));
    job.open(gate);
    job.succeed();
}

/// Its finished maps run again: a reduce still needs them.
fn before_its_outputs_are_fetched(stand: &Stand) {
    let job = stand.begin("held", &["map-5"], &[&LATE[..], &["-numReduceTasks", "2"]].concat());
    let id = newest(stand, 2);
    let waits = || job.at("map").into_iter().find(|(attempt, _)| attempt.contains("_m_000005_"));
    stand.wait("five maps are done and the last one waits", |_| {
        stand.attempts(&id, "MAP", "completed").len() == 5 && waits().is_some()
    });
    let done = stand.attempts(&id, "MAP", "completed");
    let workers: BTreeSet<u32> =
        done.iter().filter_map(|attempt| stand.worker_of(attempt)).collect();
    let busy = waits().expect("it waits").1;
    let worker = workers.iter().find(|worker| **worker != busy).unwrap_or(&busy);
    stand.kill(&format!("worker-{worker}"));
    stand.wait("maps run again", |_| job.at("map").len() > MAPS);
    job.open("map-5");
    job.succeed();
}

fn in_the_shuffle(stand: &Stand) {
    let job = stand.begin("shuffle", &["map-5"], &EARLY);
    let id = newest(stand, 3);
    let mut place = None;
    stand.wait("a reduce fetches", |_| {
        let reduces = stand.attempts(&id, "REDUCE", "running");
        place = reduces.iter().find_map(|reduce| stand.worker_of(reduce));
        place.is_some() && stand.attempts(&id, "MAP", "completed").len() == 5
    });
    stand.kill(&format!("worker-{}", place.unwrap()));
    job.open("map-5");
    job.succeed();
}

/// The only reduce has fetched them all, which the JobTracker does not know: maps may run again, the reduce goes on.
fn with_outputs_that_were_fetched(stand: &Stand) {
    let job = stand.begin("fetched", &["reduce"], &LATE);
    let (_, worker) = job.wait_at("reduce", 1)[0];
    let other = 3 - worker;
    assert!(job.at("map").iter().any(|(_, map)| *map == other), "it ran no map");
    stand.kill(&format!("worker-{other}"));
    stand.wait("both workers are there", |_| stand.active_workers() == 2);
    assert_eq!(job.at("reduce").len(), 1, "the reduce goes on");
    job.open("reduce");
    job.succeed();
}

fn with_an_output_that_is_written(stand: &Stand) {
    let job = stand.begin("written", &["reduced"], &[]);
    let (first, worker) = job.wait_at("reduced", 1)[0].clone();
    stand.kill(&format!("worker-{worker}"));
    stand.wait("another attempt has written it", |_| {
        job.at("reduced").iter().any(|(attempt, _)| *attempt != first)
    });
    job.open("reduced");
    job.succeed();
}

/// The newest of so many jobs.
fn newest(stand: &Stand, count: usize) -> String {
    stand.wait("the job is there", |_| stand.jobs().len() == count);
    stand.jobs().remove(0)
}

/// Three jobs; nothing runs twice, because what ran goes on and what is done stays done.
#[test]
fn a_jobtracker_that_dies_at_each_change_of_its_jobs_runs_nothing_twice() {
    let stand = Stand::start(4, options());
    let kill = || stand.kill("jobtracker-1");
    let jobs = ["a", "b", "c"].map(|name| stand.begin(name, &["map", "reduce", "reduced"], &LATE));
    stand.wait("the jobs are submitted", |_| stand.jobs().len() == 3);
    kill();
    let at = |gate: &str| jobs.iter().map(|job| job.at(gate).len()).sum::<usize>();
    stand.wait("maps run", |_| at("map") == 4);
    kill();
    jobs.iter().for_each(|job| job.open("map"));
    stand.wait("a map has printed all", |_| at("mapped") > 0);
    kill();
    stand.wait("all maps are done", |_| at("mapped") == 12);
    kill();
    stand.wait("all reduces run", |_| at("reduce") == 3);
    kill();
    jobs.iter().for_each(|job| job.open("reduce"));
    stand.wait("all reduces have written", |_| at("reduced") == 3);
    kill();
    // Somewhere between the end of the reduces and the end of the jobs.
    jobs[0].open("reduced");
    kill();
    jobs[1].open("reduced");
    stand.wait("it asks for workers", |_| stand.active_workers() == 2);
    jobs[2].open("reduced");
    kill();
    for job in jobs {
        let marks = ["map", "reduce"].map(|gate| job.at(gate).len());
        assert_eq!(marks, [4, 1], "attempts of {}", job.output);
        job.succeed();
    }
    assert_no_panics(&stand.cluster);
}

//! Fifty jobs at once, of eight users: each comes out right, who comes last is served before most of those who came first, nothing is left
//! behind; a small job does not wait for large ones.

use std::fs;

use super::{Running, Stand, options};
use crate::support::report::assert_no_panics;

/// Jobs that are there, held at their maps, before the last one comes.
const BEFORE: usize = 49;
/// Users who share them.
const USERS: usize = 7;
/// Of those jobs, how many may be done when the last one is. Served in order of arrival, all of them would be; served fairly, its user gets an eighth of the
/// slots for three attempts, in which time each of the others gets about as much.
const DONE_BEFORE_MAX: usize = BEFORE / 2;

#[test]
fn of_fifty_jobs_all_come_out_right_the_last_user_is_served_soon_and_nothing_is_left() {
    let stand = Stand::start(2, options());
    stand.cluster.dfs(&["-chmod", "777", "/"]).ok();
    stand.begin("first", &[], &[]).succeed();
    let open = [1, 2].map(|number| open_files(&stand, number));

    let mut jobs: Vec<Running<'_>> = (0..BEFORE)
        .map(|number| {
            let user = format!("user{}", number % USERS);
            // One is much larger than the others.
            let small = "mapreduce.input.fileinputformat.split.maxsize=4096";
            let more: &[&str] = if number == 0 { &["-D", small] } else { &[] };
            stand.begin_as(&user, &format!("many-{number}"), &["map"], more)
        })
        .collect();
    stand.wait("all but the last are known", |_| stand.jobs().len() == 1 + BEFORE);
    let mut last = stand.begin_as("late", "last", &[], &[]);
    stand.wait("all jobs are known", |_| stand.jobs().len() == 1 + BEFORE + 1);
    jobs.iter().for_each(|job| job.open("map"));
    last.driver.wait().unwrap();
    let done = jobs.iter_mut().filter_map(|job| job.driver.try_wait().unwrap()).count();
    last.succeed();
    assert!(done <= DONE_BEFORE_MAX, "{done} of {BEFORE} jobs were done before the last one");
    jobs.into_iter().for_each(Running::succeed);

    for (number, open) in (1..).zip(open) {
        for files in ["jobs", "outputs"] {
            let directory = stand.cluster.directory.join(format!("worker-{number}/{files}"));
            stand.wait("the files of all jobs are gone", |_| {
                fs::read_dir(&directory).unwrap().next().is_none()
            });
        }
        stand.wait("no descriptor is left open", |_| open_files(&stand, number) <= open);
    }
    assert_eq!(stand.active_workers(), 2);
    assert_no_panics(&stand.cluster);
}

/// Small jobs that run one after the other beside the large ones.
const SMALL: usize = 9;

/// How many attempts of others come before its own is counted in `jobtracker/src/core/simulation/pools.rs`, without a clock.
#[test]
fn small_jobs_end_while_large_ones_from_before_them_run_on() {
    let stand = Stand::start(2, options());
    stand.cluster.dfs(&["-chmod", "777", "/"]).ok();
    // Ten thousand maps in all.
    let split = "mapreduce.input.fileinputformat.split.maxsize=70";
    let begin = |number| {
        let user = format!("user{number}");
        stand.begin_as(&user, &format!("large-{number}"), &[], &["-D", split])
    };
    let large: Vec<Running<'_>> = (0..USERS).map(begin).collect();
    stand.wait("all large jobs are known", |_| stand.jobs().len() == USERS);
    (0..SMALL).for_each(|run| stand.begin_as("late", &format!("small-{run}"), &[], &[]).succeed());
    let list = stand.hanno(&["job", "-list"]);
    assert_eq!(list.matches("RUNNING").count(), USERS, "they all run on: {list}");
    drop(large);
    assert_no_panics(&stand.cluster);
}

/// Descriptors of a worker that are not sockets: connections are kept for a while on purpose.
fn open_files(stand: &Stand, worker: u32) -> usize {
    let pid = stand.cluster.pid(&format!("worker-{worker}")).unwrap();
    let links = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().filter_map(Result::ok);
    let targets = links.filter_map(|link| fs::read_link(link.path()).ok());
    targets.filter(|target| !target.to_string_lossy().starts_with("socket:")).count()
}

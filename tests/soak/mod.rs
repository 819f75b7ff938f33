//! A long run of everything at once: kills, stops, orderly ends and power cuts of every daemon ([`schedule`], [`faults`]) while files are
//! written, synced, appended to, renamed, deleted, kept in snapshots (the load of the power cuts), put and got by commands ([`files`]),
//! and jobs run ([`jobs`]). It goes in rounds: after each, all is quiet, and what is there is compared with what was acknowledged.
//!
//! `HANNO_SOAK_MINUTES`, half of them on each file system (`HANNO_POWER_FILE_SYSTEM`: all on that one), and `HANNO_TEST_SEED`. It needs
//! root, loop devices and `mkfs.ext4`, `mkfs.xfs`.

mod faults;
mod files;
mod jobs;
mod schedule;

use std::path::Path;
use std::time::{Duration, Instant};

use faults::FaultCounts;
use files::Files;
use jobs::Jobs;
use schedule::Schedule;

use crate::support::load::{Counts, Flaw, Load, Patience, Problem};
use crate::support::report::{assert_no_panics, replica_count};
use crate::support::rig::{self, FileSystem, Rig};
use crate::support::signal::Signal;
use crate::support::{Cluster, Options, variable, wait};

/// Minutes, unless `HANNO_SOAK_MINUTES` says otherwise.
const MINUTES: u64 = 60;
const SEED: u64 = 1;
const COPIES: usize = 3;
/// Steps of faults between two looks at everything.
const STEPS_OF_A_ROUND: u64 = 6;
/// Time for every block to have its replicas when all is quiet.
const HEALTHY_MAX: Duration = Duration::from_secs(120);
/// Time for replicas of deleted files to go.
const CLEAN_MAX: Duration = Duration::from_secs(120);

/// One more DataNode than copies, so that writers find a replacement.
fn options() -> Options {
    let mut options = Options { datanodes: 4, workers: 2, ..Options::tight() };
    // Each fault may cost a worker an attempt.
    options.variables.push(("HANNO_JOBTRACKER_WORKER_FAULTS_MAX", "0".to_owned()));
    // Each open block reserves as much, on disks of 512 MB.
    options.variables.push(("HANNO_NAMENODE_BLOCK_SIZE", (4 << 20).to_string()));
    // A NameNode lives for half a minute here: what it does not know goes within that time, or disks fill up.
    options.variables.push(("HANNO_NAMENODE_UNKNOWN_GRACE_MS", "1000".to_owned()));
    options
}

/// All that goes on, and what came of it.
struct Soak {
    rig: Rig,
    schedule: Schedule,
    files: Files,
    jobs: Jobs,
    local: tempfile::TempDir,
    seed: u64,
    rounds: u64,
    faults: FaultCounts,
    load: Counts,
}

impl Soak {
    fn start(file_system: FileSystem, seed: u64) -> Self {
        let options = options();
        let schedule = Schedule::new(options.daemons(), seed);
        let rig = Rig::start(file_system, options);
        let local = tempfile::tempdir().unwrap();
        rig.cluster().dfs(&["-mkdir", "/kept"]).ok();
        let jobs = Jobs::prepare(&rig.cluster().caller(), local.path(), seed);
        let (files, faults, load) = (Files::default(), FaultCounts::default(), Counts::default());
        Soak { rig, schedule, files, jobs, local, seed, rounds: 0, faults, load }
    }

    /// Some faults under load, then a look at everything.
    fn round(&mut self) {
        self.rounds += 1;
        let kept_before = kept_reports(self.rig.cluster());
        let seed = self.seed.wrapping_mul(1_000_000).wrapping_add(self.rounds);
        let caller = self.rig.cluster().caller();
        let load = Load::start(&caller.namenode, seed, Patience::Usual);
        let (over, trouble) = (Signal::default(), Signal::default());
        let local: &Path = self.local.path();
        let (files, jobs) = (&self.files, &self.jobs);
        let (rig, schedule, counts) = (&mut self.rig, &mut self.schedule, &mut self.faults);
        let tell = |end: Result<(), Problem>| end.inspect_err(|_| trouble.tell());
        let ends: Vec<Result<(), Problem>> = std::thread::scope(|scope| {
            let workers = [
                scope.spawn(|| tell(files.put(&caller, local, &over))),
                scope.spawn(|| tell(files.get((&caller, local, seed), &over))),
                scope.spawn(|| tell(jobs.run(&caller, &over))),
            ];
            let _over = Tell(&over);
            let mut steps = (0..STEPS_OF_A_ROUND).map(|_| schedule.deal());
            let end = steps.try_for_each(|step| faults::carry_out(rig, &step, &trouble, counts));
            over.tell();
            let ends = workers.map(|worker| worker.join().unwrap());
            ends.into_iter().chain([end]).collect()
        });
        let ledger = load.stop();
        let mut counts = ledger.check(&caller);
        counts.problems.extend(ends.into_iter().filter_map(Result::err));
        counts.problems.extend(self.files.check(&caller));
        let cluster = self.rig.cluster();
        if !wait::until(HEALTHY_MAX, || cluster.is_healthy()) {
            let report = cluster.hanno(&["fsck", "/"]).stdout_text();
            counts.problems.push((Flaw::Stuck, format!("not healthy: {report}")));
        }
        counts.problems.extend(ledger.remove(&caller).err());
        if kept_reports(cluster) > kept_before {
            report_all(cluster);
        }
        if !wait::until(CLEAN_MAX, || is_clean(cluster)) {
            let text =
                format!("{:?} replicas: those of what is deleted stay", replica_count(cluster));
            counts.problems.push((Flaw::Stuck, text));
        }
        self.load.add(&counts);
        assert_no_panics(self.rig.cluster());
    }

    fn count(&self, flaw: Flaw) -> usize {
        self.load.problems.iter().filter(|(of, _)| *of == flaw).count()
    }

    fn report(&self) -> String {
        let FaultCounts { kills, stops, terminations, cuts } = self.faults;
        let files = self.files.counts();
        let [lost, wrong, stuck] = [Flaw::Lost, Flaw::Wrong, Flaw::Stuck].map(|of| self.count(of));
        format!(
            "{} rounds; {kills} kills, {stops} stops, {terminations} orderly ends, {cuts} power cuts; {} files, {} bytes, {} changes of \
             names; {} puts, {} gets ({} commands failed), {} bytes put; {} jobs; {lost} lost, {wrong} wrong, {stuck} stuck",
            self.rounds,
            self.load.files,
            self.load.acknowledged_bytes,
            self.load.changes,
            files.puts,
            files.gets,
            files.failed,
            files.bytes,
            self.jobs.count(),
        )
    }
}

/// How often the NameNode has said that it keeps replicas until a DataNode's next report: much was deleted while that was away, and it has started since.
fn kept_reports(cluster: &Cluster) -> usize {
    let log = std::fs::read_to_string(cluster.directory.join("logs/namenode-1.log")).unwrap();
    log.matches("they are kept until its next full report").count()
}

/// Has all DataNodes report, as that line of the log advises.
fn report_all(cluster: &Cluster) {
    let report = cluster.hanno(&["dfsadmin", "-report", "-live"]).stdout_text();
    for line in report.lines().filter_map(|line| line.strip_prefix("Name: ")) {
        let address = line.split_whitespace().next().unwrap_or_default();
        cluster.hanno(&["dfsadmin", "-triggerBlockReport", address]).ok();
    }
}

/// True if there are exactly the replicas that `fsck` wants.
fn is_clean(cluster: &Cluster) -> bool {
    let report = cluster.hanno(&["fsck", "/"]).stdout_text();
    let count = report.split("Total blocks (validated):\t").nth(1);
    let count = count.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
    let replicas = replica_count(cluster);
    count.is_some_and(|blocks| replicas == Some((COPIES * blocks) as u64))
}

/// Ends what goes on when dropped, also by a panic: the threads of a scope are waited for.
struct Tell<'a>(&'a Signal);

impl Drop for Tell<'_> {
    fn drop(&mut self) {
        self.0.tell();
    }
}

/// Rounds for so long, one at least.
fn soak(file_system: FileSystem, time: Duration) {
    let seed = variable("HANNO_TEST_SEED", SEED);
    println!("HANNO_TEST_SEED={seed}, {file_system:?} for {time:?}");
    let begin = Instant::now();
    let mut soak = Soak::start(file_system, seed);
    while soak.rounds == 0 || begin.elapsed() < time {
        soak.round();
        println!("{file_system:?}, {} s: {}", begin.elapsed().as_secs(), soak.report());
        assert!(soak.load.problems.is_empty(), "{:#?}", soak.load.problems);
    }
    let counts = soak.files.counts();
    let has_worked = counts.puts > 0 && counts.gets > 0 && soak.jobs.count() > 0;
    assert!(has_worked && soak.load.acknowledged_bytes > 0 && soak.load.changes > 0);
}

#[test]
fn a_round_of_kills_stops_and_cuts_under_load_loses_nothing() {
    if rig::is_possible(FileSystem::Ext4) {
        soak(FileSystem::Ext4, Duration::ZERO);
    }
}

#[test]
#[ignore = "long: an hour of faults"]
fn an_hour_of_kills_stops_and_cuts_under_load_loses_nothing() {
    let only = std::env::var("HANNO_POWER_FILE_SYSTEM").ok();
    let chosen: Vec<FileSystem> = FileSystem::ALL
        .into_iter()
        .filter(|file_system| only.as_deref().is_none_or(|only| only == file_system.name()))
        .collect();
    let minutes = variable("HANNO_SOAK_MINUTES", MINUTES);
    let time = Duration::from_secs(60 * minutes) / chosen.len() as u32;
    for file_system in chosen {
        assert!(rig::is_possible(file_system), "{file_system:?} cannot be mounted here");
        soak(file_system, time);
    }
}

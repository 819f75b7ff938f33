//! Scheduling on real processes: backups of slow attempts, queues and priorities, attempts ended by hand, workers emptied.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::support::cluster::hanno_binary;
use crate::support::{Cluster, Options, Outcome, data};

/// How long anything may take here; a pass never needs it.
const SECONDS_MAX: u64 = 60;

/// The first attempt of the first map takes far longer than the others.
const SLOW_FIRST: &str = "#!/bin/sh\n\
    case $mapreduce_task_attempt_id in *_m_000000_0) sleep 300;; esac\nsleep 1\ncat\n";

struct Stand {
    cluster: Cluster,
    text: Vec<u8>,
}

impl Stand {
    fn start(variables: &[(&'static str, &str)]) -> Self {
        let mut options = Options { slots: 2, ..Options::tight() };
        let more = variables.iter().map(|(name, value)| (*name, (*value).to_owned()));
        options.variables.extend(more);
        let cluster = Cluster::start(options);
        let text = data::text(3, 400_000);
        let local = cluster.directory.join("input");
        fs::write(&local, &text).unwrap();
        let put = ["-D", "dfs.blocksize=65536", "-put", local.to_str().unwrap(), "/in"];
        cluster.dfs(&put).ok();
        Stand { cluster, text }
    }

    fn streaming(&self, script: &str, output: &str, more: &[&str]) -> Command {
        fs::write(self.cluster.directory.join("map.sh"), script).unwrap();
        let mut words = vec!["job", "streaming"];
        words.extend(more);
        words.extend(["-input", "/in", "-output", output, "-file", "map.sh"]);
        words.extend(["-mapper", "sh map.sh", "-reducer", "NONE"]);
        let mut command = self.cluster.command(&hanno_binary(), &words);
        command.current_dir(&self.cluster.directory);
        command
    }

    fn start_job(&self, script: &str, output: &str, more: &[&str]) -> Child {
        let mut command = self.streaming(script, output, more);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The newest job, once there is one more than `before`.
    fn newest(&self, before: usize) -> String {
        let jobs = |cluster: &Cluster| -> Vec<String> {
            let list = cluster.hanno(&["job", "-list", "all"]).ok().stdout_text();
            let words = list.split_whitespace().filter(|word| word.starts_with("job_"));
            words.map(str::to_owned).collect()
        };
        self.cluster
            .wait_until("the job is there", SECONDS_MAX, |cluster| jobs(cluster).len() > before);
        jobs(&self.cluster).remove(0)
    }

    fn running_maps(&self, job: &str) -> Vec<String> {
        let ids = self.cluster.hanno(&["job", "-list-attempt-ids", job, "MAP", "running"]).ok();
        ids.stdout_text().lines().map(str::to_owned).collect()
    }

    fn counter(&self, job: &str, group: &str, name: &str) -> u64 {
        let text = self.cluster.hanno(&["job", "-counter", job, group, name]).ok().stdout_text();
        text.trim().parse().unwrap()
    }

    /// The output is that of the same job without any disturbance, byte for byte.
    fn is_as_undisturbed(&self, directory: &str) {
        Outcome::of(self.streaming("#!/bin/sh\ncat\n", "/undisturbed", &[])).ok();
        let output = |directory: &str| {
            self.cluster.dfs(&["-cat", &format!("{directory}/part-*")]).ok().stdout
        };
        let expected = output("/undisturbed");
        assert!(!expected.is_empty() && output(directory) == expected, "{directory}");
    }
}

#[test]
fn a_straggler_is_overtaken_by_a_backup_and_killed() {
    let stand = Stand::start(&[("HANNO_JOBTRACKER_SPECULATION_AFTER_MS", "1000")]);
    let begin = Instant::now();
    Outcome::of(stand.streaming(SLOW_FIRST, "/out", &[])).ok();
    assert!(begin.elapsed().as_secs() < SECONDS_MAX, "{:?}", begin.elapsed());
    let job = stand.newest(0);
    stand.is_as_undisturbed("/out");
    assert_eq!(stand.counter(&job, "Engine", "SPECULATIVE_WON"), 1);
    assert_eq!(stand.counter(&job, "Job Counters", "Failed map tasks"), 0);
    let lines = stand.text.iter().filter(|byte| **byte == b'\n').count();
    let read = stand.counter(&job, "Map-Reduce Framework", "Map input records");
    assert_eq!(read, lines as u64, "the loser's counters do not count");
    let killed = stand.cluster.hanno(&["job", "-list-attempt-ids", &job, "MAP", "killed"]).ok();
    assert!(killed.stdout_text().contains("_m_000000_0"), "{}", killed.stdout_text());
    let events = stand.cluster.hanno(&["job", "-events", &job, "0", "100"]).ok().stdout_text();
    assert!(
        events.contains("KILLED attempt_") && events.contains("_m_000000_0 http://"),
        "{events}"
    );
    history_outlives_everything(stand, &job);
}

/// The history is the same from the JobTracker, from its file, and after a restart.
fn history_outlives_everything(mut stand: Stand, job: &str) {
    let told = stand.cluster.hanno(&["job", "-history", job, "-format", "json"]).ok().stdout_text();
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].contains("HISTORY_VERSION"), "{told}");
    assert!(lines[lines.len() - 2].contains("JOB_FINISHED"), "{told}");
    assert!(lines[lines.len() - 1].contains("HISTORY_END"), "{told}");
    let text = stand.cluster.hanno(&["job", "-history", job]).ok().stdout_text();
    for part in ["Status: SUCCEEDED", "KILLED attempts", "another attempt was faster"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let files = stand.cluster.directory.join("jobtracker-1/history");
    let find =
        Command::new("find").arg(&files).args(["-name", &format!("{job}.jsonl")]).output().unwrap();
    let file = String::from_utf8(find.stdout).unwrap().trim().to_owned();
    assert_eq!(fs::read_to_string(&file).unwrap().trim_end(), told.trim_end());
    assert_eq!(stand.cluster.hanno(&["job", "-history", &file]).ok().stdout_text(), text);
    stand.cluster.restart();
    assert_eq!(stand.cluster.hanno(&["job", "-history", job]).ok().stdout_text(), text);
    let unknown = stand.cluster.hanno(&["job", "-history", "job_190001010000_0001"]);
    assert!(unknown.code != 0 && unknown.stderr.contains("Could not find job"), "{unknown:?}");
}

#[test]
fn queues_priorities_and_attempts_by_hand() {
    let queues = "{ etl = { policy = \"fifo\", slots_max = 1 }, old = { running = false } }";
    let stand = Stand::start(&[("HANNO_JOBTRACKER_QUEUES", queues)]);
    let hanno = |words: &[&str]| stand.cluster.hanno(words);
    let wait = "#!/bin/sh\nsleep 300\n";
    for (queue, reason) in [("nowhere", "does not exist"), ("old", "is not running")] {
        let queue = format!("mapreduce.job.queuename={queue}");
        let refused = Outcome::of(stand.streaming(wait, "/no", &["-D", &queue]));
        assert!(refused.code != 0 && refused.stderr.contains(reason), "{}", refused.stderr);
    }
    let etl = ["-D", "mapreduce.job.queuename=etl", "-D", "mapreduce.job.priority=LOW"];
    let mut driver = stand.start_job(wait, "/out", &etl);
    let job = stand.newest(0);
    stand.cluster.wait_until("one map runs", SECONDS_MAX, |_| stand.running_maps(&job).len() == 1);
    let info = hanno(&["queue", "-info", "etl", "-showJobs"]).ok().stdout_text();
    for part in ["Queue Name : etl", "at most 1 slots", "1 in use", &job, "\tetl\tLOW\t1 slots"] {
        assert!(info.contains(part), "{part} is not in {info}");
    }
    hanno(&["job", "-set-priority", &job, "VERY_HIGH"]).ok().prints("Changed job priority.\n");
    let list = hanno(&["job", "-list"]).ok().stdout_text();
    assert!(list.contains("\tetl\tVERY_HIGH\t"), "{list}");
    for (command, how, state) in
        [("-kill-task", "", "killed"), ("-fail-task", " by failing it", "failed")]
    {
        stand
            .cluster
            .wait_until("a map runs", SECONDS_MAX, |_| stand.running_maps(&job).len() == 1);
        let attempt = stand.running_maps(&job).remove(0);
        hanno(&["job", command, &attempt]).ok().prints(&format!("Killed task {attempt}{how}\n"));
        stand.cluster.wait_until("it is over", SECONDS_MAX, |cluster| {
            let ids = cluster.hanno(&["job", "-list-attempt-ids", &job, "MAP", state]).ok();
            ids.stdout_text().contains(&attempt)
        });
    }
    hanno(&["job", "-kill", &job]).ok();
    assert!(!driver.wait().unwrap().success());
}

#[test]
fn an_excluded_worker_is_emptied() {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("exclude");
    fs::write(&list, "").unwrap();
    let path = list.to_str().unwrap();
    let stand = Stand::start(&[("HANNO_JOBTRACKER_WORKERS_EXCLUDE_FILE", path)]);
    let trackers = |which: &str| stand.cluster.hanno(&["job", which]).ok().stdout_text();
    let address = |line: &str| line.split_once(':').expect("tracker_host:address").1.to_owned();
    let active = trackers("-list-active-trackers");
    let excluded = address(active.lines().next().expect("a worker"));
    fs::write(&list, format!("# being repaired\n{excluded}\n")).unwrap();
    stand.cluster.hanno(&["mradmin", "-refreshNodes"]).ok();
    let barred = trackers("-list-blacklisted-trackers");
    assert!(barred.contains(&excluded) && barred.contains("excluded, empty"), "{barred}");
    Outcome::of(stand.streaming("#!/bin/sh\ncat\n", "/out", &[])).ok();
    let events = stand.cluster.hanno(&["job", "-events", &stand.newest(0), "0", "99"]).ok();
    assert!(!events.stdout_text().contains(&excluded), "{}", events.stdout_text());
    fs::write(&list, "").unwrap();
    stand.cluster.hanno(&["mradmin", "-refreshNodes"]).ok();
    assert_eq!(trackers("-list-active-trackers").lines().count(), 2);
    stand.is_as_undisturbed("/out");
}

#[test]
fn rules_of_queues_are_read_again_and_wrong_ones_refused() {
    let stand = Stand::start(&[]);
    let file = stand.cluster.directory.join("conf/jobtracker-1.toml");
    let before = fs::read_to_string(&file).unwrap();
    let write = |queues: &str| fs::write(&file, format!("{before}\n{queues}\n")).unwrap();
    let refresh = || stand.cluster.hanno(&["mradmin", "-refreshQueues"]);
    let list = || stand.cluster.hanno(&["queue", "-list"]).ok().stdout_text();
    write("[queues.etl]\nslots_max = 1");
    assert!(!list().contains("etl"));
    refresh().ok();
    assert!(list().contains("etl"), "{}", list());
    let wait = "#!/bin/sh\nsleep 300\n";
    let mut driver = stand.start_job(wait, "/out", &["-D", "mapreduce.job.queuename=etl"]);
    let job = stand.newest(0);
    stand.cluster.wait_until("a map runs", SECONDS_MAX, |_| stand.running_maps(&job).len() == 1);
    for (queues, reason) in [
        ("[queues.etl]\nweight = 0", "the weight of a queue"),
        ("[queues.etl]\nwait = 1", "wait"),
        ("[queues.etl", "conf/jobtracker-1.toml"),
        ("", "etl has 1 jobs"),
    ] {
        write(queues);
        let refused = refresh();
        assert!(refused.code != 0 && refused.stderr.contains(reason), "{}", refused.stderr);
        assert_eq!(refused.stderr.trim_end().lines().count(), 1, "{}", refused.stderr);
    }
    assert_eq!(stand.running_maps(&job).len(), 1, "the old rules hold");
    write("[queues.etl]\nslots_max = 3");
    refresh().ok();
    stand.cluster.wait_until("three run", SECONDS_MAX, |_| stand.running_maps(&job).len() == 3);
    stand.cluster.hanno(&["job", "-kill", &job]).ok();
    assert!(!driver.wait().unwrap().success());
}

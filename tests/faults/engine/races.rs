//! Attempts of one task that end together; jobs whose input, output or rights change under them.

use super::{Stand, options, with};
use crate::support::report::assert_no_panics;
use crate::support::{Outcome, cluster::hanno_binary};

/// A slow attempt and its backup are held at the last moment and let go together.
#[test]
fn of_two_attempts_that_end_together_one_commits() {
    let stand =
        Stand::start(4, with(options(), &[("HANNO_JOBTRACKER_SPECULATION_AFTER_MS", "500")]));
    // A backup never runs beside its slow attempt: two early reduces could take both slots of the other worker.
    for (name, gate, reduces) in [("race-reduce", "reduced-0", 2), ("race-map", "mapped-0", 1)] {
        let job = stand.begin(name, &[gate], &["-numReduceTasks", &reduces.to_string()]);
        let (kind, task) = match gate {
            "mapped-0" => ("mapped", "_m_000000_"),
            _ => ("reduced", "_r_000000_"),
        };
        let both =
            || job.at(kind).iter().filter(|(attempt, _)| attempt.contains(task)).count() == 2;
        stand.wait("a backup has come as far", |_| both());
        job.open(gate);
        let id = stand.jobs().remove(0);
        let output = job.output.clone();
        job.succeed();
        let events = stand.hanno(&["job", "-events", &id, "0", "100"]);
        let won = events.lines().filter(|line| line.contains("SUCCEEDED") && line.contains(task));
        assert_eq!(won.count(), 1, "{events}");
        let lines = stand.text.iter().filter(|byte| **byte == b'\n').count() as u64;
        let read = stand.counter(&id, "Map-Reduce Framework", "Map input records");
        assert_eq!(read, lines, "the loser's counters do not count");
        let listed = stand.hanno(&["dfs", "-ls", &output]);
        assert_eq!(listed.matches("/part-").count(), reduces, "{listed}");
    }
    assert_no_panics(&stand.cluster);
}

#[test]
fn a_job_whose_input_or_rights_go_away_fails_cleanly_and_clobbers_nothing() {
    let mut options = options();
    let groups = "{ bob = [\"staff\"] }";
    options.variables.push(("HANNO_NAMENODE_GROUPS", "static".to_owned()));
    options.variables.push(("HANNO_NAMENODE_STATIC_GROUPS", groups.to_owned()));
    options.slots = 1;
    let stand = Stand::start(6, options);
    let dfs = |words: &[&str]| stand.cluster.dfs(words);
    dfs(&["-cp", "/in", "/safe"]).ok();
    dfs(&["-chmod", "777", "/"]).ok();
    for (what, change, back, reason) in [
        ("deleted", &["-mv", "/in", "/gone"][..], &["-mv", "/gone", "/in"][..], "/in"),
        ("forbidden", &["-chmod", "000", "/in"], &["-chmod", "644", "/in"], "Permission denied"),
    ] {
        let job = stand.begin_as("bob", what, &["map"], &[]);
        job.wait_at("map", 2);
        dfs(change).ok();
        job.open("map");
        let said = job.fail();
        assert!(said.contains(reason), "{what}: {said}");
        dfs(back).ok();
    }
    // Where the output is to be, something else is by now.
    dfs(&["-mkdir", "/taken"]).ok();
    dfs(&["-chmod", "777", "/taken"]).ok();
    dfs(&["-cp", "/safe", "/taken/part-00000"]).ok();
    let words = ["job", "streaming", "-input", "/in", "-output", "/taken", "-mapper", "cat"];
    let refused = Outcome::of(stand.cluster.command(&hanno_binary(), &words));
    assert!(refused.code != 0 && refused.stderr.contains("already exists"), "{}", refused.stderr);
    let kept = dfs(&["-cat", "/taken/part-00000"]).ok().stdout;
    assert!(kept == stand.text, "what was there is clobbered");
    assert_no_panics(&stand.cluster);
}

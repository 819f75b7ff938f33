//! `--json`: whatever takes it prints one document, and whatever does not says so. A script that asked for JSON must never get anything else.

use serde_json::Value;

use crate::support::{Cluster, Options};

/// Command lines by which a script asks, with `ID` for a job, `ATTEMPT` for one of its attempts, `BLOCK` for a block and `QUEUE` for a queue.
const READING: &[&[&str]] = &[
    &["job", "-list"],
    &["job", "-list", "all"],
    &["job", "-status", "ID"],
    &["job", "-counter", "ID", "Map-Reduce Framework", "Map input records"],
    &["job", "-events", "ID", "0", "100"],
    &["job", "-list-attempt-ids", "ID", "MAP", "completed"],
    &["job", "-list-active-trackers"],
    &["job", "-list-blacklisted-trackers"],
    &["job", "-history", "ID", "-format"],
    &["queue", "-list"],
    &["queue", "-info", "QUEUE"],
    &["queue", "-info", "QUEUE", "-showJobs"],
    &["fsck", "/"],
    &["fsck", "/", "-list-corruptfileblocks"],
    &["fsck", "-blockId", "BLOCK"],
    &["dfs", "-ls"],
    &["dfs", "-du"],
    &["dfs", "-count"],
    &["dfs", "-stat"],
    &["admin", "report"],
];

/// Others of the same commands.
const OTHERS: &[&[&str]] = &[
    &["job", "-kill", "ID"],
    &["job", "-kill-task", "ATTEMPT"],
    &["job", "-fail-task", "ATTEMPT"],
    &["job", "-set-priority", "ID", "LOW"],
    &["job", "-config", "ID", "/no/such/file"],
    &["queue", "-showacls"],
    &["mradmin", "-refreshNodes"],
    &["dfs", "-cat", "/f"],
    &["dfs", "-rm", "/f"],
    &["dfsadmin", "-safemode", "get"],
    &["fsck", "/", "-files"],
];

/// Lines that have a note to tell, or that ask for what is not there.
const ODD: &[&[&str]] = &[
    &["dfs", "-count", "-q", "-x", "--json", "/f"],
    &["dfs", "-count", "-u", "-v", "--json", "/f", "/none"],
    &["dfs", "-du", "-v", "-x", "--json", "/none", "/f"],
    &["dfs", "-ls", "-R", "--json", "/none"],
    &["dfs", "-lsr", "--json", "/"],
    &["dfs", "-stat", "--json", "/none"],
    &["fsck", "/none", "--json"],
    &["fsck", "/none", "-list-corruptfileblocks", "--json"],
    &["fsck", "/", "-delete", "-move", "--json"],
    &["fsck", "-blockId", "nonsense", "--json"],
    &["fsck", "-blockId", "blk_9999", "--json"],
    &["job", "-status", "nonsense", "--json"],
    &["job", "-history", "job_1_0001", "--json"],
    &["job", "-counter", "job_1_0001", "a", "b", "--json"],
    &["job", "-events", "job_1_0001", "0", "1", "--json"],
    &["queue", "-info", "none", "--json"],
    &["admin", "doctor", "--json"],
];

#[test]
fn who_asks_for_json_gets_a_document_or_a_refusal() {
    let cluster = Cluster::start(Options { datanodes: 1, workers: 1, ..Options::tight() });
    let local = tempfile::tempdir().unwrap();
    let text = local.path().join("f");
    std::fs::write(&text, "a b\n").unwrap();
    cluster.dfs(&["-put", text.to_str().unwrap(), "/f"]).ok();
    cluster.example("wordcount", &["/f", "/out"]).ok();
    let told = |words: &[&str]| -> Value {
        let outcome = cluster.hanno(words).ok();
        serde_json::from_slice(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {outcome:?}"))
    };
    let jobs = told(&["job", "-list", "all", "--json"]);
    let id = jobs[0]["id"].as_str().unwrap();
    let attempts = told(&["job", "-list-attempt-ids", id, "MAP", "completed", "--json"]);
    let attempt = attempts[0].as_str().unwrap();
    let blocks = cluster.hanno(&["fsck", "/f", "-files", "-blocks"]).ok().stdout_text();
    let block = blocks.split("blk_").nth(1).unwrap().split('_').next().unwrap();
    let block = format!("blk_{block}");
    let queues = told(&["queue", "-list", "--json"]);
    let queue_name = queues[0]["name"].as_str().unwrap();
    let filled = |words: &[&'static str]| -> Vec<String> {
        let word = |word: &&str| match *word {
            "ID" => id.to_owned(),
            "ATTEMPT" => attempt.to_owned(),
            "BLOCK" => block.clone(),
            "QUEUE" => queue_name.to_owned(),
            word => word.to_owned(),
        };
        words.iter().map(word).collect()
    };
    for words in READING {
        let mut words = filled(words);
        match words.last().map(String::as_str) {
            // Its events, one a line, are what `--json` prints, too.
            Some("-format") => {
                words.pop();
                words.push("--json".to_owned());
                let outcome = cluster.hanno(&words).ok();
                let lines = outcome.stdout_text();
                assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
                continue;
            }
            Some(last) if last.starts_with('-') && words[0] == "dfs" => {
                words.extend(["--json".to_owned(), "/f".to_owned()]);
            }
            _ => words.push("--json".to_owned()),
        }
        told(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    for words in OTHERS {
        let mut words = filled(words);
        words.insert(2, "--json".to_owned());
        let outcome = cluster.hanno(&words);
        assert_ne!(outcome.code, 0, "{words:?}: {outcome:?}");
        let is_named = outcome.stderr.contains("--json") || outcome.stderr.contains("Usage:");
        assert!(is_named, "{words:?}: {outcome:?}");
        assert!(outcome.stdout.is_empty(), "{words:?}: {outcome:?}");
    }
    odd_lines_print_nothing_else(&cluster);
    let value =
        told(&["job", "-counter", id, "Map-Reduce Framework", "Map input records", "--json"]);
    assert_eq!(value["value"], 1);
    let queue = told(&["queue", "-info", queue_name, "-showJobs", "--json"]);
    assert!(queue["queue"].is_object() && queue["jobs"].is_array(), "{queue}");
    let found = told(&["fsck", "-blockId", &block, "--json"]);
    assert_eq!((&found[0]["block"], &found[0]["facts"]["path"]), (&block.into(), &"/f".into()));
    // Nothing of the refused was done.
    cluster.dfs(&["-test", "-e", "/f"]).ok();
}

/// Notes and failures are for people, and go to standard error.
fn odd_lines_print_nothing_else(cluster: &Cluster) {
    for words in ODD {
        let outcome = cluster.hanno(words);
        match outcome.stdout.is_empty() {
            true => assert!(outcome.code != 0 && !outcome.stderr.is_empty(), "{words:?}"),
            false => drop(
                serde_json::from_slice::<Value>(&outcome.stdout)
                    .unwrap_or_else(|error| panic!("{words:?}: {error}: {outcome:?}")),
            ),
        }
    }
    let absent = cluster.hanno(&["fsck", "/none", "--json"]);
    assert_eq!((absent.code, absent.stderr.trim()), (255, "fsck: Path '/none' does not exist"));
    let noted = cluster.hanno(&["dfs", "-count", "-q", "-x", "--json", "/f"]).ok();
    assert_eq!(noted.stderr.trim(), "q or u option is given, the -x option is ignored.");
}

//! Programs with steps: the same on a cluster, on an embedded one and in one process; what they leave behind, also after Ctrl-C.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::support::cluster::{example_binary, hanno_binary};
use crate::support::{Cluster, Options, Outcome};

/// Rounds until all numbers are 1, by the definition of the sequence.
fn rounds(numbers: &[u64], factor: u64) -> usize {
    let length = |number: u64| {
        let next =
            |n: &u64| (*n != 1).then(|| if n.is_multiple_of(2) { n / 2 } else { n * factor + 1 });
        std::iter::successors(Some(number), next).count() - 1
    };
    numbers.iter().map(|number| length(*number)).max().unwrap()
}

#[test]
fn a_program_loops_and_leaves_nothing() {
    let cluster = Cluster::start(Options::tight());
    let here = tempfile::tempdir().unwrap();
    let path = |name: &str| here.path().join(name).to_string_lossy().into_owned();
    let numbers = [1, 6, 7, 12];
    fs::write(path("numbers"), "1\n6\n7\n12\n").unwrap();
    cluster.dfs(&["-mkdir", "-p", "/user/hdfs"]).ok();
    cluster.dfs(&["-put", &path("numbers"), "/numbers"]).ok();
    let expected = format!("{} rounds, 4 numbers\n", rounds(&numbers, 3));

    let local = ["--local", "--quiet", &path("numbers"), &path("local")];
    cluster.example("stepping", &local).ok().prints(&expected);
    cluster.example("stepping", &["--quiet", "/numbers", "/stepped"]).ok().prints(&expected);
    let there = cluster.dfs(&["-cat", "/stepped/part-*"]).ok().stdout_text();
    assert_eq!(there, "1\n1\n1\n1\n");
    let staged = [format!("file://{}", path("numbers")), format!("file://{}", path("staged"))];
    cluster.example("stepping", &staged).ok().prints(&expected);
    assert_eq!(fs::read_to_string(path("staged/part-m-00000")).unwrap(), there);

    // 1 → 1, 2 → 1, 4 → 2 → 1, and 3 → 2 of a step that multiplies by 1 and adds 1.
    let mut command = cluster.command(&example_binary("stepping"), &["/numbers", "/by-one"]);
    command.env("FACTOR", "1");
    Outcome::of(command).ok().prints(&format!("{} rounds, 4 numbers\n", rounds(&numbers, 1)));

    let most = ["-D", "stepping.most=30", "-D", "mapreduce.map.maxattempts=1"];
    let failed = cluster.example("stepping", &[&most[..], &["/numbers", "/most"]].concat());
    assert!(failed.code == 1 && failed.stderr.contains("34 is above 30"), "{failed:?}");
    let refused = cluster.example("stepping", &["/numbers", "/stepped"]);
    assert!(refused.code == 1 && refused.stderr.contains("/stepped already exists"), "{refused:?}");
    let refused = cluster.example("stepping", &["--unnamed", "/numbers", "/unnamed"]);
    assert!(refused.code == 1 && refused.stderr.contains("stepping::unnamed"), "{refused:?}");
    let help = cluster.example("stepping", &["--help"]).ok().stdout_text();
    assert!(help.contains("Usage: stepping") && help.contains("--reducers"), "{help}");

    interrupted_between_two_jobs(&cluster);
    let left = cluster.dfs(&["-ls", "-R", "-C", "/user"]).ok().stdout_text();
    assert!(!left.contains("kept") && !left.contains("staged"), "{left}");
}

fn interrupted_between_two_jobs(cluster: &Cluster) {
    let words = ["--quiet", "--pause", "/numbers", "/paused"];
    let mut command = cluster.command(&example_binary("stepping"), &words);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = said.next().expect("it pauses").unwrap();
    let kept = line.strip_prefix("paused ").unwrap();
    cluster.dfs(&["-test", "-e", kept]).ok();
    // It must not read an end of its input before it learns of the interrupt.
    let stdin = child.stdin.take();
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(stdin);
    assert_eq!(cluster.dfs(&["-test", "-e", kept]).code, 1, "{kept} is gone");
}

#[test]
fn an_embedded_cluster_serves_all_steps() {
    let here = tempfile::tempdir().unwrap();
    let path = |name: &str| here.path().join(name).to_string_lossy().into_owned();
    fs::write(path("numbers"), "3\n10\n").unwrap();
    let mut command = super::plain(&example_binary("stepping"), &["numbers", "out"]);
    command.env("HANNO_BIN", hanno_binary()).env("TMPDIR", here.path()).current_dir(here.path());
    let outcome = Outcome::of(command).ok();
    assert_eq!(outcome.stderr.matches("starting an embedded one").count(), 1);
    assert_eq!(outcome.stdout_text(), format!("{} rounds, 2 numbers\n", rounds(&[3, 10], 3)));
    assert_eq!(fs::read_to_string(path("out/part-m-00000")).unwrap(), "1\n1\n");
    let left: Vec<_> = fs::read_dir(here.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

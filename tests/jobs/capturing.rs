//! What the driver's closures capture is the same on workers, or the job is refused with the reason.

use std::fs;

use crate::support::cluster::example_binary;
use crate::support::{Cluster, Options, Outcome};

#[test]
fn what_closures_capture_is_the_same_on_workers_or_refused() {
    let cluster = Cluster::start(Options::tight());
    let here = tempfile::tempdir().unwrap();
    let path = |name: &str| here.path().join(name).to_string_lossy().into_owned();
    fs::write(path("words"), "a bb ccc dddd\nbb ccc dddd\nccc stop dddd\n").unwrap();
    fs::write(path("stop words"), "stop\n").unwrap();
    cluster.dfs(&["-put", &path("words"), "/words"]).ok();
    let run = |variable: Option<&str>, words: &[&str]| {
        let mut command = cluster.command(&example_binary("capturing"), words);
        command.env_remove("MIN_LENGTH").current_dir(here.path());
        command.envs(variable.map(|value| ("MIN_LENGTH", value)));
        Outcome::of(command)
    };
    for (variable, expected) in [
        (None, "a\t1\nbb\t2\nccc\t3\ndddd\t3\n"),
        (Some("3"), "ccc\t3\ndddd\t3\n"),
        (Some("4"), "dddd\t3\n"),
    ] {
        let output = format!("/captured-{}", variable.unwrap_or("none"));
        run(variable, &["stop words", "/words", &output]).ok();
        let there = cluster.dfs(&["-cat", &format!("{output}/part-*")]).ok().stdout_text();
        assert_eq!(there, expected, "MIN_LENGTH={variable:?} on the cluster");
        let local = path(&format!("local-{}", variable.unwrap_or("none")));
        run(variable, &["--local", "stop words", "words", &local]).ok();
        let here = fs::read_to_string(format!("{local}/part-r-00000")).unwrap();
        assert_eq!(here, expected, "MIN_LENGTH={variable:?} in the driver's process");
    }
    let refused = run(None, &["--unsent", &path("words"), "stop words", "/words", "/unsent"]);
    assert_eq!(refused.code, 1);
    for part in ["ran again on a worker", "`Args::file` sends a file"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    let refused = run(None, &["--clock", "stop words", "/words", "/clock"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("submitted was `depends on SystemTime"), "{}", refused.stderr);
    let missing = run(None, &["no such file", "/words", "/missing"]);
    assert!(missing.code == 1 && missing.stderr.contains("no such file"), "{missing:?}");
    assert_eq!(cluster.dfs(&["-test", "-e", "/missing"]).code, 1);
}

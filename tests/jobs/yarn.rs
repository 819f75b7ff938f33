//! The commands of `yarn`: jobs as applications, workers as nodes, attempts as containers.

use std::process::Command;

use crate::support::{Cluster, Options, Outcome};

use super::{cluster_with_text_on, job_id};

/// `yarn ARGS` by the link of that name.
fn yarn(cluster: &Cluster, path: &std::ffi::OsStr, line: &str) -> Outcome {
    let mut command: Command = cluster.command("sh".as_ref(), &["-c", &format!("yarn {line}")]);
    command.env("PATH", path);
    Outcome::of(command)
}

/// The fields of a table's line.
fn fields(line: &str) -> Vec<&str> {
    line.split('\t').map(str::trim).collect()
}

#[test]
fn jobs_are_applications_and_workers_are_nodes() {
    // Timers that a busy machine does not outrun: a worker that is late is no running node.
    let (cluster, _) = cluster_with_text_on(Options::default(), 100_000);
    let links = tempfile::tempdir().unwrap();
    let path = cluster.path_with_links(links.path());
    let yarn = |line: &str| yarn(&cluster, path.as_ref(), line);
    let words = ["job", "streaming", "-input", "/text", "-output", "/out", "-mapper", "cat"];
    cluster.hanno(&[&words[..], &["-reducer", "NONE"]].concat()).ok();
    let job = job_id(&cluster);
    let application = job.replace("job_", "application_");

    let listed = yarn("application -list -appStates FINISHED").ok().stdout_text();
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].ends_with("states: [FINISHED] and tags: []):1"), "{listed}");
    let row = fields(lines[2]);
    assert_eq!(
        [row[0], row[2], row[5], row[6], row[7]],
        [application.as_str(), "MAPREDUCE", "FINISHED", "SUCCEEDED", "100%"]
    );
    assert!(row[8].ends_with(&format!("/jobs/{job}")), "{listed}");
    assert!(yarn("app -list").ok().stdout_text().contains("tags: []):0"));
    assert!(yarn("app -list -appStates ALL -appTypes SPARK").ok().stdout_text().contains("[]):0"));

    for id in [&application, &job] {
        let text = yarn(&format!("application -status {id}")).ok().stdout_text();
        assert!(text.contains(&format!("\tApplication-Id : {application}\n")), "{text}");
        assert!(text.contains("\tFinal-State : SUCCEEDED\n"), "{text}");
    }
    let text = yarn(&format!("application -kill {application}")).ok().stdout_text();
    assert_eq!(text, format!("Application {application} has already finished \n"));

    let text = yarn(&format!("applicationattempt -list {application}")).ok().stdout_text();
    let attempt = fields(text.lines().nth(2).unwrap())[0].to_owned();
    assert_eq!(attempt, format!("{}_000001", job.replace("job_", "appattempt_")));
    let text = yarn(&format!("container -list {attempt}")).ok().stdout_text();
    let container = fields(text.lines().nth(2).unwrap())[0].to_owned();
    assert!(container.starts_with(&job.replace("job_", "attempt_")), "{text}");
    let text = yarn(&format!("container -status {container}")).ok().stdout_text();
    assert!(text.contains("\tState : COMPLETE\n"), "{text}");
    let text = yarn(&format!("logs -applicationId {application} -containerId {container}"));
    assert!(text.ok().stdout_text().starts_with(&format!("=== {container} SUCCEEDED")));
    let refused = yarn(&format!("logs -applicationId {application} -appOwner nobody-else"));
    assert_eq!(refused.code, 255, "{}", refused.stderr);

    let text = yarn("node -list -all").ok().stdout_text();
    let nodes: Vec<Vec<&str>> = text.lines().skip(2).map(fields).collect();
    assert!(nodes.iter().all(|node| node[1] == "RUNNING"), "{text}");
    assert_eq!(text.lines().next(), Some(format!("Total Nodes:{}", nodes.len()).as_str()));
    let text = yarn(&format!("node -status {}", nodes[0][0])).ok().stdout_text();
    assert!(text.contains("\tNode-State : RUNNING\n"), "{text}");
}

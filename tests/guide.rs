//! The operator's guide, `docs/operations.md`: its blocks marked `sh run` are run against a real cluster, in the order of the page.

use std::fs;
use std::path::Path;

use crate::support::{Cluster, Options, Outcome};

/// Opens a block that is to be run.
const OPEN: &str = "```sh run";
/// Time for a block, seconds: one that waits for something that never comes fails.
const BLOCK_TIME_MAX_S: &str = "120";
/// Ends it.
const CLOSE: &str = "```";

/// The blocks to run, each with the line it begins at.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (line, text) in (1..).zip(page.lines()) {
        match text {
            OPEN => {
                inside = true;
                found.push((line + 1, String::new()));
            }
            CLOSE => inside = false,
            text if inside => {
                let (_, block) = found.last_mut().unwrap();
                block.push_str(text);
                block.push('\n');
            }
            _ => {}
        }
    }
    found
}

#[test]
fn the_operators_guide_works() {
    let local = tempfile::tempdir().unwrap();
    let exclude = local.path().join("exclude");
    fs::write(&exclude, "").unwrap();
    let hosts = local.path().join("hosts.json");
    fs::write(&hosts, "[]").unwrap();
    let mut options = Options { datanodes: 4, ..Options::tight() };
    options.variables.extend([
        ("HANNO_NAMENODE_HOSTS_EXCLUDE_FILE", exclude.to_str().unwrap().to_owned()),
        ("HANNO_NAMENODE_HOSTS_FILE", hosts.to_str().unwrap().to_owned()),
    ]);
    let cluster = Cluster::start(options);
    let path = cluster.path_with_links(local.path());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let blocks = blocks(&fs::read_to_string(page).unwrap());
    assert!(blocks.len() > 10, "only {} blocks were found", blocks.len());
    for (line, block) in blocks {
        let mut command =
            cluster.command(Path::new("timeout"), &[BLOCK_TIME_MAX_S, "sh", "-ec", &block]);
        command.current_dir(local.path()).env("PATH", &path).env("DATA", &cluster.directory);
        command.env("HOSTS_EXCLUDE", &exclude).env("HOSTS", &hosts);
        let outcome = Outcome::of(command);
        assert_eq!(
            outcome.code,
            0,
            "docs/operations.md, line {line}:\n{block}\nstdout: {}\nstderr: {}",
            outcome.stdout_text(),
            outcome.stderr
        );
    }
}

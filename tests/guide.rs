//! The operator's guide, `docs/operations.md`: its blocks marked `sh run` are run against a real cluster, in the order of the page.

use std::fs;
use std::path::Path;

use crate::support::cluster::hanno_binary;
use crate::support::{Cluster, Options, Outcome};

/// Opens a block that is to be run.
const OPEN: &str = "```sh run";
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
    let cluster = Cluster::start(Options::tight());
    let local = tempfile::tempdir().unwrap();
    let programs = local.path().join("bin");
    fs::create_dir(&programs).unwrap();
    cluster.hanno(&["install-links", programs.to_str().unwrap()]).ok();
    let path = format!(
        "{}:{}:{}",
        programs.display(),
        hanno_binary().parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let blocks = blocks(&fs::read_to_string(page).unwrap());
    assert!(blocks.len() > 10, "only {} blocks were found", blocks.len());
    for (line, block) in blocks {
        let mut command = cluster.command(Path::new("sh"), &["-ec", &block]);
        command.current_dir(local.path()).env("PATH", &path).env("DATA", &cluster.directory);
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

//! Pages that show commands, `docs/operations.md` and those for newcomers: their blocks marked `sh run` are run against a real cluster, in the order of
//! the page.

use std::fs;
use std::path::Path;
use std::process::Command;

use needs::{Need, lacks};

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

/// Does what a page says, in a directory that is the reader's home, too.
fn follow(page: &str, blocks_min: usize, cluster: &Cluster, reader: &Reader<'_>) {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    let blocks = blocks(&text);
    assert!(blocks.len() >= blocks_min, "{page}: only {} blocks were found", blocks.len());
    for (line, block) in blocks {
        let words = [BLOCK_TIME_MAX_S, "sh", "-ec", &block];
        let mut command = cluster.command(Path::new("timeout"), &words);
        command.current_dir(reader.home).env("HOME", reader.home).env("PATH", reader.path);
        command.env("DATA", &cluster.directory).envs(reader.variables.iter().copied());
        let outcome = Outcome::of(command);
        assert_eq!(
            outcome.code,
            0,
            "{page}, line {line}:\n{block}\nstdout: {}\nstderr: {}",
            outcome.stdout_text(),
            outcome.stderr
        );
    }
}

/// Who follows a page.
struct Reader<'a> {
    home: &'a Path,
    path: &'a str,
    variables: &'a [(&'a str, &'a Path)],
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
    let variables = [("HOSTS_EXCLUDE", &*exclude), ("HOSTS", &*hosts)];
    let reader = Reader { home: local.path(), path: &path, variables: &variables };
    follow("docs/operations.md", 11, &cluster, &reader);
}

#[test]
fn the_pages_for_newcomers_work() {
    let cluster = Cluster::start(Options::default());
    let homes = [(), ()].map(|()| tempfile::tempdir().unwrap());
    let path = cluster.path_with_links(homes[0].path());
    let [hadoop, pandas] =
        homes.each_ref().map(|home| Reader { home: home.path(), path: &path, variables: &[] });
    follow("docs/from-hadoop.md", 3, &cluster, &hadoop);
    if Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success()) {
        follow("docs/from-pandas.md", 5, &cluster, &pandas);
    } else {
        lacks(Need::Python, "there is no python3: docs/from-pandas.md was not followed");
    }
}

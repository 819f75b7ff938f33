//! Pages that show commands: their blocks marked `sh run` are run against a real cluster, in the order of the page. The others are listed with the reason
//! ([`NOT_RUN`]), so that none is forgotten. `docs/tutorial.md` has a test of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use needs::{Need, lacks};

use crate::support::cluster::{example_binary, hanno_binary};
use crate::support::{Cluster, Options, Outcome};

/// Opens a block that is to be run.
const OPEN: &str = "```sh run";
/// Opens a block of commands that is not.
const OPEN_SHOWN: &str = "```sh";
/// Blocks that are only shown: page, how the first line begins, why.
const NOT_RUN: &[(&str, &str, &str)] = &[
    ("README.md", "cargo build --release", "takes minutes; the test command builds what it builds"),
    (
        "README.md",
        "target/release/hanno cluster",
        "runs until it is stopped: here the cluster runs",
    ),
    ("README.md", "cargo test --workspace", "this is it"),
    (
        "docs/clients.md",
        "hanno admin token --user alice",
        "Apache's client: tests/clients/hadoop.py",
    ),
    ("docs/clients.md", "pip install pyspark", "Apache's client: tests/clients/hadoop.py"),
    ("docs/clients.md", "pip install hdfs", "installed by tests/clients/run.sh"),
    ("docs/clients.md", "pip install fsspec", "installed by tests/clients/run.sh"),
    ("docs/clients.md", "pip install opendal", "installed by tests/clients/run.sh"),
    ("docs/clients.md", "bench/webhdfs.py", "a benchmark of minutes"),
    ("docs/from-hadoop.md", "hanno admin token", "needs a cluster of Hadoop's"),
    ("docs/from-hadoop.md", "hanno distcp", "needs a cluster of Hadoop's"),
    ("docs/from-hadoop.md", "hadoop jar", "needs a program of the reader's"),
    ("docs/from-pandas.md", "pip install", "installed by tests/clients/run.sh"),
    ("docs/from-spark.md", "hanno admin token", "Spark: tests/clients/spark.py"),
    ("docs/install.md", "cargo build", "takes minutes; the test command builds what it builds"),
    ("docs/install.md", "hanno cluster", "runs until it is stopped: here the cluster runs"),
    (
        "docs/mapreduce.md",
        "hanno job streaming",
        "scripts of the reader's; the tutorial has such a job",
    ),
    ("docs/mapreduce.md", "hanno job -list-attempt-ids", "opens a debugger: tests/jobs/replay.rs"),
    (
        "docs/mapreduce.md",
        "wordcount --skip-bad",
        "shows an answer: tests/faults/engine/skipping.rs",
    ),
    (
        "docs/operations.md",
        "hanno admin metadata",
        "needs damage: journal/tests/damage.rs makes it",
    ),
    ("docs/packages.md", "apt install", "deploy/test does it"),
    ("docs/packages.md", "systemctl enable", "deploy/test does it"),
    ("docs/packages.md", "systemctl edit", "opens an editor"),
    ("docs/packages.md", "mkdir /etc/systemd", "deploy/test does it"),
    ("docs/packages.md", "mkdir -p ~/.local", "deploy/test does it"),
    ("docs/packages.md", "mkdir -p context", "deploy/test does it"),
    ("docs/packages.md", "helm install", "deploy/test checks the chart"),
    ("docs/shell.md", "hadoop distcp", "needs another cluster: tests/jobs/distcp.rs"),
    ("docs/testing.md", "cargo test --workspace", "this is it"),
];
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
        let named = |block: String, (from, to): &(&str, &str)| block.replace(from, to);
        let block = reader.named.iter().fold(block, named);
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
    /// What the page names otherwise than it is here.
    named: &'a [(&'a str, &'a str)],
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
    let reader = Reader { home: local.path(), path: &path, variables: &variables, named: &[] };
    follow("docs/operations.md", 11, &cluster, &reader);
}

#[test]
fn the_pages_for_newcomers_work() {
    let cluster = Cluster::start(Options::default());
    let homes = [(), ()].map(|()| tempfile::tempdir().unwrap());
    let path = cluster.path_with_links(homes[0].path());
    let [hadoop, pandas] = homes.each_ref().map(|home| Reader {
        home: home.path(),
        path: &path,
        variables: &[],
        named: &[],
    });
    follow("docs/from-hadoop.md", 3, &cluster, &hadoop);
    if Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success()) {
        follow("docs/from-pandas.md", 5, &cluster, &pandas);
    } else {
        lacks(Need::Python, "there is no python3: docs/from-pandas.md was not followed");
    }
}

/// What a reader does who has just built it, from the README and from the page on installation; then the pages on clients and on the shell.
#[test]
fn the_first_steps_and_the_pages_for_clients_work() {
    for pages in [&[("README.md", 1)][..], &[("docs/install.md", 2), ("docs/shell.md", 1)]] {
        let cluster = Cluster::start(Options::default());
        let home = tempfile::tempdir().unwrap();
        fs::copy(root("LICENSE"), home.path().join("LICENSE")).unwrap();
        let path = cluster.path_with_links(home.path());
        let data = cluster.directory.display().to_string();
        let program = hanno_binary().display().to_string();
        let examples = example_binary("wordcount").parent().unwrap().display().to_string();
        let named = [
            ("/tmp/hanno", data.as_str()),
            ("target/release/hanno", &program),
            ("target/release/examples", &examples),
        ];
        let reader = Reader { home: home.path(), path: &path, variables: &[], named: &named };
        for (page, blocks_min) in pages {
            follow(page, *blocks_min, &cluster, &reader);
        }
        if pages.len() > 1 {
            clients(&cluster, home.path(), &path);
        }
    }
}

fn clients(cluster: &Cluster, home: &Path, path: &str) {
    if !Command::new("curl").arg("--version").output().is_ok_and(|run| run.status.success()) {
        lacks(Need::Curl, "there is no curl: docs/clients.md was not followed");
        return;
    }
    // A refusal is a failure here.
    fs::write(home.join(".curlrc"), "fail-with-body\n").unwrap();
    fs::write(home.join("file"), vec![b'x'; 2000]).unwrap();
    let token = cluster.hanno(&["admin", "token", "--user", "alice"]).ok().stdout_text();
    let proof = format!("delegation={}", token.trim());
    let named =
        [("http://nn:9870", cluster.namenode.as_str()), ("http://jt:8088", &cluster.jobtracker)];
    let variables = [("proof", Path::new(&proof))];
    let reader = Reader { home, path, variables: &variables, named: &named };
    follow("docs/clients.md", 3, cluster, &reader);
}

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn every_command_of_the_book_is_run_or_says_why_not() {
    let docs = fs::read_dir(root("docs")).unwrap();
    let pages = docs.map(|entry| format!("docs/{}", entry.unwrap().file_name().display()));
    let pages = pages.filter(|page| page.ends_with(".md") && page != "docs/tutorial.md");
    let mut seen = vec![0; NOT_RUN.len()];
    for page in pages.chain(["README.md".to_owned()]) {
        let text = fs::read_to_string(root(&page)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2).filter(|pair| pair[0] == OPEN_SHOWN) {
            let of_page =
                |(of, first, _): &(&str, &str, &str)| *of == page && pair[1].starts_with(first);
            let index = NOT_RUN.iter().position(of_page);
            let index = index.unwrap_or_else(|| panic!("{page}: `{}` is not run", pair[1]));
            seen[index] += 1;
        }
    }
    let stale: Vec<_> = NOT_RUN.iter().zip(seen).filter(|(_, count)| *count == 0).collect();
    assert!(stale.is_empty(), "these are no blocks any more: {stale:#?}");
}

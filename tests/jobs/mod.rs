//! Jobs through the cluster: results against independent computations, faults in user code, the job commands.

mod capturing;
mod classics;
mod distcp;
mod live;
mod programs;
mod replay;
mod scheduling;
mod stepping;
mod streaming;
mod streaming_rules;
mod wide;
mod yarn;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::cluster::{SUPERUSER, example_binary, fresh_directory, hanno_binary};
use crate::support::{Cluster, Options, Outcome, data};

fn cluster_with_text(len: usize) -> (Cluster, Vec<u8>) {
    cluster_with_text_on(Options::tight(), len)
}

fn cluster_with_text_on(options: Options, len: usize) -> (Cluster, Vec<u8>) {
    let cluster = Cluster::start(options);
    let local = tempfile::tempdir().unwrap();
    let text = data::text(11, len);
    let input = local.path().join("text");
    fs::write(&input, &text).unwrap();
    cluster.dfs(&["-D", "dfs.blocksize=1048576", "-put", input.to_str().unwrap(), "/text"]).ok();
    (cluster, text)
}

/// The first job of the list.
fn job_id(cluster: &Cluster) -> String {
    let list = cluster.hanno(&["job", "-list", "all"]).ok().stdout_text();
    list.split_whitespace().find(|word| word.starts_with("job_")).expect("a job").to_owned()
}

fn output_of(cluster: &Cluster, directory: &str) -> Vec<u8> {
    cluster.dfs(&["-cat", &format!("{directory}/part-*")]).ok().stdout
}

#[test]
fn wordcount_equals_an_independent_program() {
    let (cluster, text) = cluster_with_text(5_000_000);
    let expected = data::word_count(&text);
    for reducers in ["1", "3"] {
        let output = format!("/out-{reducers}");
        let outcome =
            cluster.example("wordcount", &["--reducers", reducers, "/text", &output]).ok();
        assert!(outcome.stderr.contains("completed"), "{}", outcome.stderr);
        assert!(
            data::sorted_lines(&output_of(&cluster, &output)) == expected,
            "{reducers} reducers"
        );
        cluster.dfs(&["-test", "-z", &format!("{output}/_SUCCESS")]).ok();
    }
    let local = tempfile::tempdir().unwrap();
    let file = local.path().join("job.xml");
    let id = job_id(&cluster);
    cluster.hanno(&["job", "-config", &id, file.to_str().unwrap()]).ok();
    let properties = fs::read_to_string(&file).unwrap();
    assert!(properties.starts_with("<?xml") && properties.ends_with("</configuration>\n"));
    let unknown = cluster.hanno(&["job", "-config", "job_202601010000_0001", "x"]);
    assert_eq!(unknown.code, 255, "{}", unknown.stderr);
    let again = cluster.example("wordcount", &["/text", "/out-1"]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("Output directory /out-1 already exists"), "{}", again.stderr);
    let missing = cluster.example("wordcount", &["/nothing", "/out-x"]);
    assert!(missing.code == 1 && missing.stderr.contains("/nothing"), "{}", missing.stderr);
    assert_eq!(cluster.dfs(&["-test", "-e", "/out-x"]).code, 1);
}

/// Names of the part files in a directory.
fn parts_of(cluster: &Cluster, directory: &str) -> Vec<String> {
    let list = cluster.dfs(&["-ls", "-C", directory]).ok().stdout_text();
    list.lines().filter(|path| path.contains("/part-")).map(str::to_owned).collect()
}

#[test]
fn reduces_are_as_many_as_what_the_maps_made_is_worth() {
    let (cluster, _) = cluster_with_text(20_000_000);
    let outcome = cluster.example("wordcount", &["/text", "/auto"]).ok();
    assert!(outcome.stderr.contains("up to 5 reduces"), "{}", outcome.stderr);
    cluster.example("wordcount", &["--reducers", "1", "/text", "/one"]).ok();
    assert_eq!(parts_of(&cluster, "/auto"), ["/auto/part-r-00000"]);
    assert!(output_of(&cluster, "/auto") == output_of(&cluster, "/one"), "sorted over partitions");
    // 76 MiB and two slots: two reduces, of ranges that are sorted as a whole.
    cluster.example("teragen", &["800000", "/tera"]).ok();
    cluster.example("terasort", &["/tera", "/sorted"]).ok();
    assert_eq!(parts_of(&cluster, "/sorted"), ["/sorted/part-r-00000", "/sorted/part-r-00001"]);
    cluster.example("teravalidate", &["/sorted", "/report"]).ok();
    cluster.example("teravalidate", &["--unsorted", "/tera", "/sum"]).ok();
    let (report, sum) = (output_of(&cluster, "/report"), output_of(&cluster, "/sum"));
    assert_eq!(String::from_utf8(report).unwrap(), String::from_utf8(sum).unwrap());
}

/// What one machine does by shared files and sockets, done as between machines: blocks over TCP, map outputs over HTTP.
#[test]
fn without_local_short_cuts_everything_crosses_the_network() {
    let mut options = Options::tight();
    for name in ["HANNO_DATANODE_LOCAL_SOCKET", "HANNO_WORKER_SHARED_OUTPUTS"] {
        options.variables.push((name, "false".to_owned()));
    }
    let (cluster, text) = cluster_with_text_on(options, 5_000_000);
    assert!(cluster.dfs(&["-cat", "/text"]).ok().stdout == text);
    cluster.example("wordcount", &["--reducers", "2", "/text", "/out"]).ok();
    assert!(data::sorted_lines(&output_of(&cluster, "/out")) == data::word_count(&text));
    let id = job_id(&cluster);
    let counter = |group: &str, name: &str| -> u64 {
        let text = cluster.hanno(&["job", "-counter", &id, group, name]).ok().stdout_text();
        text.trim().parse().unwrap()
    };
    let all = counter("org.apache.hadoop.mapreduce.TaskCounter", "REDUCE_SHUFFLE_BYTES");
    let local = counter("Engine", "LOCAL_SHUFFLE_BYTES");
    assert!(local < all, "{local} of {all} shuffled bytes were opened directly");
}

#[test]
fn local_and_cluster_runs_give_the_same_bytes() {
    let (cluster, text) = cluster_with_text(2_000_000);
    cluster.example("wordcount", &["--reducers", "2", "/text", "/out"]).ok();
    let directory = tempfile::tempdir().unwrap();
    let (input, output) = (directory.path().join("text"), directory.path().join("out"));
    fs::write(&input, &text).unwrap();
    let args = ["--local", "--reducers", "2", input.to_str().unwrap(), output.to_str().unwrap()];
    Outcome::of(plain(&example_binary("wordcount"), &args)).ok();
    for part in ["part-r-00000", "part-r-00001"] {
        let cluster_bytes = cluster.dfs(&["-cat", &format!("/out/{part}")]).ok().stdout;
        assert!(fs::read(output.join(part)).unwrap() == cluster_bytes, "{part}");
    }
}

/// What a program prints by itself is printed, or it fails and says what it could not write to.
#[test]
fn a_list_that_is_lost_fails_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("text"), "a b a\n").unwrap();
    let program = example_binary("wordcount");
    for (number, (to, expected)) in [
        (">&-", "cannot write to standard output: Bad file descriptor"),
        (">/dev/full", "cannot write to standard output: No space left on device"),
        ("| true", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let line = format!(
            "{} --local --quiet --top 1 {} {} {to}",
            program.display(),
            path("text"),
            path(&format!("out-{number}"))
        );
        let outcome = Outcome::of(plain(Path::new("sh"), &["-c", &line]));
        assert_eq!(outcome.code, i32::from(!expected.is_empty()), "{to}: {outcome:?}");
        assert!(outcome.stderr.contains(expected), "{to}: {outcome:?}");
    }
}

/// The sections of a program: name and entry of its section table.
fn sections(program: &[u8]) -> Vec<(String, &[u8])> {
    let number = |at: usize, bytes: usize| {
        let digits = program[at..][..bytes].iter().rev();
        digits.fold(0, |number, digit| number << 8 | usize::from(*digit))
    };
    let (table, count, names) = (number(40, 8), number(60, 2), number(62, 2));
    let entry = |index: usize| table + index * 64;
    let names = number(entry(names) + 24, 8);
    let name = |index: usize| {
        let name = program[names + number(entry(index), 4)..].split(|byte| *byte == 0).next();
        String::from_utf8_lossy(name.unwrap()).into_owned()
    };
    (0..count).map(|index| (name(index), &program[entry(index)..][..64])).collect()
}

/// A program as a build with debug information leaves it: with a section `.debug_info` of so many bytes.
fn with_debug_info(program: &[u8], bytes: usize) -> Vec<u8> {
    let little = |number: usize| (number as u64).to_le_bytes();
    let all = sections(program);
    let (mut table, mut built, mut names) = (Vec::new(), program.to_vec(), Vec::new());
    built.resize(program.len() + bytes, b'd');
    for (name, entry) in &all {
        let mut entry = entry.to_vec();
        entry[..4].copy_from_slice(&little(names.len())[..4]);
        names.extend([name.as_bytes(), &[0]].concat());
        table.push(entry);
    }
    let index = all.iter().position(|(name, _)| name == ".shstrtab").unwrap();
    let mut debug = vec![0; 64];
    debug[..4].copy_from_slice(&little(names.len())[..4]);
    debug[4] = 1;
    debug[24..40].copy_from_slice(&[little(program.len()), little(bytes)].concat());
    names.extend(b".debug_info\0");
    table[index][24..40].copy_from_slice(&[little(built.len()), little(names.len())].concat());
    table.push(debug);
    built.extend(names);
    let place = little(built.len());
    built[40..48].copy_from_slice(&place);
    built[60..62].copy_from_slice(&little(table.len())[..2]);
    built.extend(table.concat());
    built
}

/// Writes a program, by another process: a child that some test starts meanwhile inherits what is open here, and nobody can run what is open for writing.
fn install(program: &Path, bytes: &[u8]) {
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(program);
    let mut child = install.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    assert!(child.wait().unwrap().success());
}

/// A job program as it is stored: it does not have the daemons' half. A debug build is larger.
const PROGRAM_BYTES_MAX: usize = if cfg!(debug_assertions) { 10_000_000 } else { 8_000_000 };

#[test]
fn a_program_is_stored_without_symbols_and_debug_sections() {
    let (cluster, text) = cluster_with_text(300_000);
    let bytes = 1 << 20;
    let built = with_debug_info(&fs::read(example_binary("wordcount")).unwrap(), bytes);
    let program = cluster.directory.join("counts");
    install(&program, &built);
    for (option, output) in [("--json", "/first"), ("--quiet", "/second")] {
        let command = cluster.command(&program, &[option, "/text", output]);
        let outcome = Outcome::of(command).ok();
        let is_told =
            outcome.stderr.contains("debug build") && outcome.stderr.contains("--release");
        assert_eq!(is_told, cfg!(debug_assertions) && option != "--quiet", "{}", outcome.stderr);
        assert!(data::sorted_lines(&output_of(&cluster, output)) == data::word_count(&text));
    }
    let directory = format!("{}/{SUPERUSER}", protocol::jobs::FILES_DIR);
    let files = cluster.dfs(&["-ls", "-C", &directory]).ok().stdout_text();
    assert_eq!(files.lines().count(), 1, "stored once: {files}");
    let stored = cluster.dfs(&["-cat", files.trim()]).ok().stdout;
    assert!(stored.len() + bytes < built.len(), "{} of {} bytes", stored.len(), built.len());
    assert!(stored.len() < PROGRAM_BYTES_MAX, "{}", stored.len());
    let names = |program| sections(program).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let (before, after) = (names(&built), names(&stored));
    assert!(before.iter().any(|name| name == ".debug_info"), "{before:?}");
    assert!(after.iter().any(|name| name == ".text"), "{after:?}");
    let is_gone = |name: &String| ![".debug_info", ".debug_line", ".symtab"].contains(&&**name);
    assert!(after.iter().all(is_gone), "{after:?}");
}

#[test]
fn grep_counts_matches_and_sorts_by_frequency() {
    let (cluster, text) = cluster_with_text(2_000_000);
    cluster.example("grep", &["/text", "/found", "w[0-9a]{1,2}é"]).ok();
    let pattern = regex::bytes::Regex::new("w[0-9a]{1,2}é").unwrap();
    let mut counts = std::collections::BTreeMap::new();
    for line in text.split(|byte| *byte == b'\n') {
        for found in pattern.find_iter(line) {
            *counts.entry(found.as_bytes().to_vec()).or_insert(0u64) += 1;
        }
    }
    let output = output_of(&cluster, "/found");
    let lines: Vec<(u64, &[u8])> = output
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(parse_count)
        .collect();
    assert!(lines.windows(2).all(|pair| pair[0].0 >= pair[1].0), "not sorted by frequency");
    let found: std::collections::BTreeMap<Vec<u8>, u64> =
        lines.iter().map(|(count, word)| (word.to_vec(), *count)).collect();
    assert_eq!(found, counts);
}

fn parse_count(line: &[u8]) -> (u64, &[u8]) {
    let tab = line.iter().position(|byte| *byte == b'\t').expect("count<TAB>match");
    (String::from_utf8_lossy(&line[..tab]).parse().expect("a count"), &line[tab + 1..])
}

#[test]
fn a_mapper_that_panics_fails_the_job_after_four_attempts_and_says_where() {
    let cluster = Cluster::start(Options::tight());
    let local = tempfile::tempdir().unwrap();
    let input = local.path().join("in");
    fs::write(&input, "good\nfine\npoison here\nmore\n").unwrap();
    cluster.dfs(&["-put", input.to_str().unwrap(), "/in"]).ok();
    let outcome = cluster.example("poison", &["/in", "/out"]);
    assert_eq!(outcome.code, 1);
    for part in ["/in", "10", "this line is poison"] {
        assert!(outcome.stderr.contains(part), "`{part}` is not in: {}", outcome.stderr);
    }
    assert_eq!(cluster.dfs(&["-test", "-e", "/out"]).code, 1, "an output directory is left");
    let list = cluster.hanno(&["job", "-list", "all"]).ok().stdout_text();
    let id =
        list.split_whitespace().find(|word| word.starts_with("job_")).expect("a job").to_owned();
    assert!(list.contains("FAILED"), "{list}");
    let status = cluster.hanno(&["job", "-status", &id]).ok().stdout_text();
    assert!(status.contains("poison"), "{status}");
    let logs = cluster.hanno(&["job", "-logs", &id]).ok().stdout_text();
    assert_eq!(logs.matches("about to fail").count(), 4, "{logs}");
    let failed = cluster.hanno(&["job", "-logs", "--failed", &id]).ok().stdout_text();
    assert_eq!(failed, logs, "all have failed");
    let ids = ["job", "-list-attempt-ids", &id, "MAP", "failed"];
    let ids = cluster.hanno(&ids).ok().stdout_text();
    let one = cluster.hanno(&["job", "logs", ids.lines().next().unwrap()]).ok().stdout_text();
    assert_eq!(one.matches("about to fail").count(), 1, "{one}");
}

#[test]
fn a_log_is_followed_while_it_grows() {
    let cluster = Cluster::start(Options::tight());
    let input = cluster.directory.join("in");
    fs::write(&input, "a line\n").unwrap();
    cluster.dfs(&["-put", "-f", input.to_str().unwrap(), "/in"]).ok();
    let gate = cluster.directory.join("gate");
    let script = format!(
        "echo before >&2; while [ ! -e {} ]; do sleep 0.05; done; echo behind >&2; cat",
        gate.display()
    );
    let path = cluster.directory.join("map.sh");
    fs::write(&path, script).unwrap();
    let words = ["job", "streaming", "-input", "/in", "-output", "/out", "-mapper", "sh map.sh"];
    let words = [&words[..], &["-reducer", "NONE", "-file", path.to_str().unwrap()]].concat();
    let mut driver = cluster.command(&hanno_binary(), &words);
    let mut driver = driver.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    cluster.wait_until("the job is there", 60, |cluster| {
        cluster.hanno(&["job", "-list"]).ok().stdout_text().contains("job_")
    });
    let id = job_id(&cluster);
    let mut follower = cluster.command(&hanno_binary(), &["job", "logs", "-f", &id]);
    let mut follower = follower.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "before"));
    fs::write(&gate, "").unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(rest, ["behind"], "no byte comes twice");
    assert!(follower.wait().unwrap().success());
    assert!(driver.wait().unwrap().success());
}

#[test]
fn job_commands_know_a_finished_job() {
    let (cluster, text) = cluster_with_text(1_000_000);
    cluster.example("wordcount", &["/text", "/out"]).ok();
    let id = job_id(&cluster);
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    let counter =
        ["job", "-counter", &id, "org.apache.hadoop.mapreduce.TaskCounter", "MAP_INPUT_RECORDS"];
    cluster.hanno(&counter).ok().prints(&format!("{lines}\n"));
    let unknown = cluster.hanno(&["job", "-status", "job_190001010000_0001"]);
    assert!(
        unknown.code != 0 && unknown.stderr.contains("Could not find job job_190001010000_0001"),
        "{unknown:?}"
    );
}

#[test]
fn without_a_cluster_an_embedded_one_runs_the_job() {
    let directory = fresh_directory();
    let text = data::text(5, 300_000);
    let (input, output) = (directory.join("some text.txt"), directory.join("out"));
    fs::write(&input, &text).unwrap();
    let args = ["--reducers", "1", input.to_str().unwrap(), output.to_str().unwrap()];
    let mut command = plain(&example_binary("wordcount"), &args);
    command.env("HANNO_BIN", hanno_binary()).current_dir(&directory);
    Outcome::of(command).ok();
    assert!(
        data::sorted_lines(&fs::read(output.join("part-r-00000")).unwrap())
            == data::word_count(&text)
    );
    fs::remove_dir_all(directory).unwrap();
}

fn plain(binary: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.args(args).env_remove("HANNO_NAMENODE").env_remove("HANNO_JOBTRACKER");
    command
}

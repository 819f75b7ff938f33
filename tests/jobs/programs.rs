//! Job programs as people write them, on a cluster: compressed input, joins with side files, a graph of jobs, sorting as a whole. Each
//! result is compared with one that was computed another way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use mr_api::codec::FileCodec;
use protocol::jobs::FILES_DIR;

use crate::support::cluster::{SUPERUSER, example_binary, hanno_binary};
use crate::support::{Cluster, Options, Outcome, data};

/// One cluster for all: starting one takes longer than any of the jobs.
#[test]
fn programs_on_a_cluster() {
    let cluster = Cluster::start(Options::tight());
    compressed_input(&cluster);
    compressed_output(&cluster);
    joins(&cluster);
    total_order(&cluster);
    iterations(&cluster);
    giant_record(&cluster);
    own_format(&cluster);
    rights(&cluster);
    files_of_jobs(&cluster);
    taken_directory(&cluster);
    unused_files(&cluster);
}

pub(super) fn put(cluster: &Cluster, path: &str, bytes: &[u8]) {
    let local = tempfile::tempdir().unwrap();
    let file = local.path().join("file");
    fs::write(&file, bytes).unwrap();
    cluster.dfs(&["-mkdir", "-p", path.rsplit_once('/').unwrap().0]).ok();
    cluster.dfs(&["-D", "dfs.blocksize=1048576", "-put", file.to_str().unwrap(), path]).ok();
}

fn output(cluster: &Cluster, directory: &str) -> Vec<u8> {
    cluster.dfs(&["-cat", &format!("{directory}/part-*")]).ok().stdout
}

fn compressed_input(cluster: &Cluster) {
    let text = data::text(23, 400_000);
    let codecs =
        [FileCodec::Gzip, FileCodec::Bzip2, FileCodec::Zstd, FileCodec::Lz4, FileCodec::Snappy];
    for codec in codecs {
        let path = format!("/packed/text.{}", codec.extension());
        put(cluster, &path, &codec.compress(&text).unwrap());
    }
    cluster.example("wordcount", &["--reducers", "2", "/packed", "/packed-counts"]).ok();
    let expected = data::word_count(&text.repeat(codecs.len()));
    assert!(data::sorted_lines(&output(cluster, "/packed-counts")) == expected);
    let cut = FileCodec::Gzip.compress(&text).unwrap();
    put(cluster, "/cut/text.gz", &cut[..cut.len() / 2]);
    let failed =
        cluster.example("wordcount", &["-D", "mapreduce.map.maxattempts=1", "/cut", "/cut-out"]);
    assert!(failed.code == 1 && failed.stderr.contains("/cut/text.gz"), "{}", failed.stderr);
    assert_eq!(cluster.dfs(&["-test", "-e", "/cut-out"]).code, 1, "no half an output");
}

/// What a program does with its output is the same if that is compressed.
fn compressed_output(cluster: &Cluster) {
    let local = tempfile::tempdir().unwrap();
    let path = |name: &str| local.path().join(name).to_string_lossy().into_owned();
    let text = data::text(31, 200_000);
    put(cluster, "/top/text", &text);
    fs::write(path("text"), &text).unwrap();
    let top = |words: &[&str], input: &str, output: &str| {
        let words = [words, &["--quiet", "--top", "3", input, output]].concat();
        cluster.example("wordcount", &words).ok().stdout_text()
    };
    let plain = top(&[], "/top/text", "/top/plain");
    assert_eq!(plain.lines().count(), 3, "{plain}");
    let compress = ["-D", "mapreduce.output.fileoutputformat.compress=true"];
    assert_eq!(top(&compress, "/top/text", "/top/packed"), plain);
    let local = [&compress[..], &["--local"]].concat();
    assert_eq!(top(&local, &path("text"), &path("packed")), plain);
}

/// A job writes files in a format of its own, and one reads them in splits of their groups.
fn own_format(cluster: &Cluster) {
    let text = data::text(29, 300_000);
    put(cluster, "/framed/text", &text);
    let run = |words: &[&str]| cluster.example("framed", words).ok();
    run(&["write", "--reducers", "2", "/framed/text", "/framed/files"]);
    let names = |path: &str| cluster.dfs(&["-ls", "-C", path]).ok().stdout_text();
    let one_for_each_task = ["_SUCCESS", "part-r-00000", "part-r-00001"];
    let one_for_each_task = one_for_each_task.map(|name| format!("/framed/files/{name}\n"));
    assert_eq!(names("/framed/files"), one_for_each_task.concat());
    let cut = ["-D", "mapreduce.input.fileinputformat.split.maxsize=4000"];
    run(&[&["read"][..], &cut, &["/framed/files", "/framed/read"]].concat());
    assert!(data::sorted_lines(&output(cluster, "/framed/read")) == data::word_count(&text));
    let maps = names("/framed/read").lines().filter(|name| name.contains("/part-m-")).count();
    let bytes = output(cluster, "/framed/files").len();
    assert!((bytes / 8000..=bytes / 2000).contains(&maps), "{maps} maps of {bytes} bytes");
    let packed = ["-D", "mapreduce.output.fileoutputformat.compress=true", "--reducers", "2"];
    let gzip = ["-D", "mapreduce.output.fileoutputformat.compress.codec=GzipCodec"];
    run(&[&["write"][..], &packed, &gzip, &["/framed/text", "/framed/packed"]].concat());
    let local = tempfile::tempdir().unwrap();
    let path = |name: &str| local.path().join(name).to_string_lossy().into_owned();
    fs::write(path("text"), &text).unwrap();
    run(&["write", "--local", "--reducers", "2", &path("text"), &path("out")]);
    for part in ["part-r-00000", "part-r-00001"] {
        let plain = cluster.dfs(&["-cat", &format!("/framed/files/{part}")]).ok().stdout;
        let packed = cluster.dfs(&["-cat", &format!("/framed/packed/{part}.gz")]).ok().stdout;
        let mut raw = Vec::new();
        FileCodec::Gzip.decompress(&packed, 1 << 20, &mut raw).unwrap();
        assert!(raw == plain, "{part} compressed");
        assert!(fs::read(path(&format!("out/{part}"))).unwrap() == plain, "{part} of a local run");
    }
}

/// A line of one word that is larger than the sort buffer many times over, and spans all maps but for the rest of the file.
fn giant_record(cluster: &Cluster) {
    let text = [&b"one two\n"[..], &vec![b'x'; 20 << 20], b"\ntwo three\n"].concat();
    put(cluster, "/giant/text", &text);
    let sort = ["-D", "mapreduce.task.io.sort.mb=1", "--reducers", "2"];
    cluster.example("wordcount", &[&sort[..], &["/giant", "/giant-counts"]].concat()).ok();
    assert!(data::sorted_lines(&output(cluster, "/giant-counts")) == data::word_count(&text));
}

fn joins(cluster: &Cluster) {
    let (mut users, mut visits, mut expected) = (String::new(), String::new(), Vec::new());
    for id in 0..300u32 {
        users.push_str(&format!("{id}\tuser{id}\n"));
    }
    for visit in 0..2000u32 {
        // Some ids have no user, some users no visit.
        let id = visit * 7919 % 350;
        visits.push_str(&format!("{id}\t/page{visit}\n"));
        if id < 300 {
            expected.push(format!("user{id}\t/page{visit}"));
        }
    }
    expected.sort();
    put(cluster, "/join/users", users.as_bytes());
    put(cluster, "/join/visits", visits.as_bytes());
    for way in ["reduce", "merge", "broadcast"] {
        let out = format!("/join-{way}");
        let options: &[&str] = match way {
            "broadcast" => &["--files", "hanno:///join/users"],
            _ => &["--reducers", "3"],
        };
        let words = [options, &[way, "/join/users", "/join/visits", &out]].concat();
        cluster.example("joins", &words).ok();
        let text = String::from_utf8(output(cluster, &out)).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert!(lines == expected, "{way}: {} lines for {}", lines.len(), expected.len());
    }
    let listed = cluster.dfs(&["-ls", "/"]).ok().stdout_text();
    assert!(!listed.contains(".stage-"), "intermediate outputs are gone: {listed}");
}

fn total_order(cluster: &Cluster) {
    cluster.example("teragen", &["--maps", "3", "20k", "/tera"]).ok();
    cluster.example("terasort", &["--reducers", "4", "/tera", "/tera-sorted"]).ok();
    let (before, after) =
        (cluster.dfs(&["-cat", "/tera/part-*"]).ok().stdout, output(cluster, "/tera-sorted"));
    let mut records: Vec<&[u8]> = before.chunks(100).collect();
    records.sort();
    assert!(records.len() == 20_000 && records.concat() == after);
    cluster.example("teravalidate", &["/tera-sorted", "/tera-report"]).ok();
    let report = String::from_utf8(output(cluster, "/tera-report")).unwrap();
    assert!(report.starts_with("checksum\t") && report.ends_with("\t20000\n"), "{report}");
    let unsorted = cluster.example("teravalidate", &["--unsorted", "/tera", "/tera-sum"]);
    unsorted.ok();
    assert_eq!(String::from_utf8(output(cluster, "/tera-sum")).unwrap(), report);
}

fn iterations(cluster: &Cluster) {
    let graph: String = (0..500u32)
        .map(|node| format!("{node} {} {} {}\n", (node * 7) % 500, (node + 1) % 500, node % 3))
        .collect();
    put(cluster, "/graph/adj", graph.as_bytes());
    cluster.example("pagerank", &["--iterations", "3", "--reducers", "2", "/graph", "/ranks"]).ok();
    let mut ranks = vec![1.0; 500];
    for _ in 0..3 {
        let mut given = vec![0.0; 500];
        for (node, rank) in ranks.iter().enumerate() {
            for target in [node * 7 % 500, (node + 1) % 500, node % 3] {
                given[target] += rank / 3.0;
            }
        }
        ranks = given.into_iter().map(|sum: f64| 0.15 + 0.85 * sum).collect();
    }
    let text = String::from_utf8(output(cluster, "/ranks")).unwrap();
    let found: BTreeMap<usize, f64> = text
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(node, rank)| (node.parse().unwrap(), rank.parse().unwrap()))
        .collect();
    assert_eq!(found.len(), ranks.len());
    for (node, rank) in ranks.iter().enumerate() {
        assert!((found[&node] - rank).abs() < 1e-9, "{node}: {} for {rank}", found[&node]);
    }
}

/// Who gives a program what it cannot read is told what it should be, and the record.
#[test]
fn examples_name_the_fields_and_arguments_that_they_cannot_read() {
    const NODE: &str = "`x1` is no number of a node";
    let directory = tempfile::tempdir().unwrap();
    let refused = |example: &str, words: &[&str]| {
        let mut command = Command::new(example_binary(example));
        command.args(["--local", "--quiet"]).args(words).current_dir(&directory);
        let outcome = Outcome::of(command);
        assert_ne!(outcome.code, 0, "{example}");
        outcome.stderr
    };
    for (example, words, line, expected) in [
        ("topk", &["top", "2"][..], "x1", "`x1` is no whole number"),
        ("mean_variance", &[], "k\tx1", "`x1` is no number"),
        ("pagerank", &[], "1 x1", NODE),
        ("connected_components", &[], "1 x1", NODE),
        ("triangles", &[], "1 x1", NODE),
        ("shortest_paths", &["--from", "1"], "1\t2\tx1", "`x1` is no length"),
    ] {
        fs::write(directory.path().join(example), format!("{line}\n")).unwrap();
        let said = refused(example, &[words, &[example, "out"]].concat());
        let record = format!("in the record `{}`", line.replace('\t', "\\t"));
        for part in [expected, &record, &format!("{example}, byte 0")] {
            assert!(said.contains(part), "{example}, {part}: {said}");
        }
    }
    for (example, words, expected) in [
        ("topk", &["top", "x1", "in", "out"][..], "`x1` is no number above 0"),
        ("pi", &["x1", "10"], "`x1` is no number of maps"),
        ("pi", &["2", "x1"], "`x1` is no number of points"),
    ] {
        let said = refused(example, words);
        assert!(said.contains(expected) && said.contains("--help"), "{example}: {said}");
    }
}

/// The umask is the job's, and in a directory with a default list the list decides.
fn rights(cluster: &Cluster) {
    put(cluster, "/rights/in", b"a b a\n");
    let listed = |path: &str| {
        let lines = cluster.dfs(&["-ls", "-R", path]).ok().stdout_text();
        lines.lines().map(|line| line[..10].to_owned()).collect::<Vec<_>>()
    };
    let masked = ["-D", "fs.permissions.umask-mode=077", "--reducers", "1"];
    cluster.example("wordcount", &[&masked[..], &["/rights/in", "/rights/masked"]].concat()).ok();
    assert_eq!(listed("/rights/masked"), ["-rw-------", "-rw-------"]);
    cluster.dfs(&["-mkdir", "/rights/team"]).ok();
    cluster.dfs(&["-setfacl", "-m", "default:user:bob:rwx", "/rights/team"]).ok();
    cluster.example("wordcount", &["--reducers", "1", "/rights/in", "/rights/team/out"]).ok();
    for (path, bits) in [("", "rwx"), ("/part-r-00000", "rw-"), ("/_SUCCESS", "rw-")] {
        let acl = cluster.dfs(&["-getfacl", &format!("/rights/team/out{path}")]).ok();
        let mask = format!("\nmask::{bits}\n");
        assert!(acl.stdout_text().contains(&mask), "{path}: {}", acl.stdout_text());
    }
}

/// What goes with a job is its user's alone, program or not.
fn files_of_jobs(cluster: &Cluster) {
    let listed = |path: &str, option: &str| {
        let text = cluster.dfs(&["-ls", option, path]).ok().stdout_text();
        text.lines().map(|line| line[..10].to_owned()).collect::<Vec<_>>()
    };
    let directory = user_files();
    assert_eq!(listed(&directory, "-d"), ["drwx------"]);
    let files = listed(&directory, "-R");
    assert!(!files.is_empty() && files.iter().all(|mode| mode == "-rw-------"), "{files:?}");
}

/// Who takes another's place below the files of jobs gets nothing of theirs, and is named.
fn taken_directory(cluster: &Cluster) {
    let command_of = |user: &str, mut command: Command| {
        command.env("HADOOP_USER_NAME", user);
        Outcome::of(command)
    };
    let (place, output) = (format!("{FILES_DIR}/bob"), "/rights/of-bob");
    let words = ["dfs", "-mkdir", place.as_str()];
    command_of("eve", cluster.command(&hanno_binary(), &words)).ok();
    cluster.dfs(&["-chmod", "1777", "/rights"]).ok();
    let words = ["--reducers", "1", "/rights/in", output];
    let job = || command_of("bob", cluster.command(&example_binary("wordcount"), &words));
    let refused = job();
    assert!(refused.code == 1 && refused.stderr.contains(&place), "{}", refused.stderr);
    assert!(cluster.dfs(&["-ls", &place]).ok().stdout.is_empty());
    cluster.dfs(&["-rm", "-r", "-skipTrash", &place]).ok();
    job().ok();
    assert!(!self::output(cluster, output).is_empty());
}

/// A new file takes the place of those that no job was submitted with for long. What one was submitted with today stays.
fn unused_files(cluster: &Cluster) {
    let directory = user_files();
    let names = || {
        let text = cluster.dfs(&["-ls", "-C", &directory]).ok().stdout_text();
        text.lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let side_file = cluster.directory.join("side");
    let run_with = |text: &str, number: u32| {
        let before = names();
        fs::write(&side_file, text).unwrap();
        let output = format!("/rights/with-{number}");
        let files = ["--files", side_file.to_str().unwrap(), "--reducers", "1"];
        cluster.example("wordcount", &[&files[..], &["/rights/in", &output]].concat()).ok();
        names().difference(&before).cloned().collect::<Vec<_>>()
    };
    let first = run_with("first", 1);
    let second = run_with("second", 2);
    assert!(first.len() == 1 && second.len() == 1, "{first:?} {second:?}");
    for name in names() {
        cluster.dfs(&["-touch", "-m", "-t", "20250101:000000", &name]).ok();
    }
    assert!(run_with("first", 3).is_empty() && names().contains(&second[0]));
    let third = run_with("third", 4);
    let left: Vec<String> = names().into_iter().filter(|name| !third.contains(name)).collect();
    assert!(left.len() == 2 && left.contains(&first[0]), "the program and the first: {left:?}");
}

fn user_files() -> String {
    format!("{FILES_DIR}/{SUPERUSER}")
}

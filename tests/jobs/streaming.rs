//! Streaming jobs as people write them, on one real cluster: their results against programs that know nothing of MapReduce.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Cluster, Options, Outcome, data, processes, wait};

/// Longest wait for what takes less than a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Streaming {
    pub(crate) cluster: Cluster,
    pub(crate) scripts: PathBuf,
}

impl Streaming {
    pub(crate) fn start() -> Self {
        let cluster = Cluster::start(Options::tight());
        let scripts = cluster.directory.join("scripts");
        fs::create_dir(&scripts).unwrap();
        Streaming { cluster, scripts }
    }

    /// A file beside the driver, `-file` of a job.
    pub(crate) fn script(&self, name: &str, text: &str) {
        fs::write(self.scripts.join(name), text).unwrap();
    }

    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        let local = self.scripts.join("input");
        fs::write(&local, bytes).unwrap();
        let words = ["-D", "dfs.blocksize=131072", "-put", "-f", local.to_str().unwrap(), path];
        self.cluster.dfs(&words).ok();
    }

    pub(crate) fn run(&self, words: &[&str]) -> Outcome {
        let words = [&["job", "streaming"], words].concat();
        let mut command = self.cluster.command(&crate::support::cluster::hanno_binary(), &words);
        command.current_dir(&self.scripts);
        Outcome::of(command)
    }

    pub(crate) fn output(&self, directory: &str) -> String {
        self.cluster.dfs(&["-cat", &format!("{directory}/*-*")]).ok().stdout_text()
    }

    /// The job that was submitted last.
    fn last_job(&self) -> String {
        let list = self.cluster.hanno(&["job", "-list", "all"]).ok().stdout_text();
        list.split_whitespace().find(|word| word.starts_with("job_")).expect("a job").to_owned()
    }

    pub(crate) fn counter(&self, group: &str, name: &str) -> String {
        let id = self.last_job();
        self.cluster.hanno(&["job", "-counter", &id, group, name]).ok().stdout_text().trim().into()
    }

    /// Attempts of its maps and of its reduces that failed.
    pub(crate) fn failed_attempts(&self) -> (usize, usize) {
        let id = self.last_job();
        let failed = |kind| {
            let words = ["job", "-list-attempt-ids", &id, kind, "failed"];
            self.cluster.hanno(&words).ok().stdout_text().matches("attempt_").count()
        };
        (failed("MAP"), failed("REDUCE"))
    }
}

fn has_python() -> bool {
    let found = Command::new("python3").arg("-c").arg("").status().is_ok_and(|s| s.success());
    if !found {
        eprintln!("no python3 here: its scripts are left out");
    }
    found
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn streaming_jobs_as_people_write_them() {
    let streaming = Streaming::start();
    word_count(&streaming);
    log_analysis(&streaming);
    environment_files_and_counters(&streaming);
    secondary_sort(&streaming);
    binary_records(&streaming);
    aggregate_and_map_only(&streaming);
    failures(&streaming);
}

const WORD_COUNT_REDUCER: &str = r#"#!/usr/bin/awk -f
BEGIN { FS = OFS = "\t" }
$1 != word { if (NR > 1) print word, sum; word = $1; sum = 0 }
{ sum += $2 }
END { if (NR > 0) print word, sum }
"#;

fn word_count(streaming: &Streaming) {
    let text = data::text(3, 600_000);
    streaming.put("/text", &text);
    streaming.script("count.awk", WORD_COUNT_REDUCER);
    streaming.script(
        "words.awk",
        "#!/usr/bin/awk -f\nBEGIN { FS = \"[ \\t\\r\\f]+\" } { for (i = 1; i <= NF; i++) if ($i != \"\") print $i \"\\t\" 1 }\n",
    );
    let expected = String::from_utf8(data::word_count(&text)).unwrap();
    for (output, extra) in [
        ("/words-plain", &[][..]),
        ("/words-combined", &["-combiner", "count.awk", "-D", "mapreduce.task.io.sort.mb=1"]),
        ("/words-three", &["-numReduceTasks", "3"]),
    ] {
        let words = [
            "-input",
            "/text",
            "-output",
            output,
            "-mapper",
            "words.awk",
            "-reducer",
            "./count.awk",
        ];
        let files = ["-file", "words.awk", "-file", "count.awk"];
        streaming.run(&[&words[..], &files, extra].concat()).ok();
        assert_eq!(sorted(&streaming.output(output)), sorted(&expected), "{output}");
    }
    let combined: u64 = streaming
        .counter("org.apache.hadoop.mapreduce.TaskCounter", "COMBINE_OUTPUT_RECORDS")
        .parse()
        .unwrap();
    assert_eq!(combined, 0, "the last job had no combiner");
    if has_python() {
        streaming.script("mapper.py", "import sys\nfor line in sys.stdin.buffer:\n    for word in line.split():\n        sys.stdout.buffer.write(word + b'\\t1\\n')\n");
        streaming.script("reducer.py", "import sys\nfrom itertools import groupby\nrows = (line.rstrip(b'\\n').split(b'\\t') for line in sys.stdin.buffer)\nfor word, group in groupby(rows, key=lambda row: row[0]):\n    sys.stdout.buffer.write(b'%s\\t%d\\n' % (word, sum(int(n) for _, n in group)))\n");
        let words =
            ["-files", "mapper.py,reducer.py", "-input", "/text", "-output", "/words-python"];
        streaming
            .run(
                &[&words[..], &["-mapper", "python3 mapper.py", "-reducer", "python3 reducer.py"]]
                    .concat(),
            )
            .ok();
        assert_eq!(streaming.output("/words-python"), expected);
    }
}

fn log_analysis(streaming: &Streaming) {
    let (mut log, mut bytes) = (String::new(), BTreeMap::<String, u64>::new());
    let mut choices = data::Choices::new(5);
    for second in 0..8000 {
        let (host, size) = (format!("10.0.0.{}", choices.below(40)), choices.below(9000));
        let status = [200, 200, 404, 500][choices.below(4) as usize];
        log.push_str(&format!(
            "{host} - - [{second}] \"GET /{}\" {status} {size}\n",
            choices.below(100)
        ));
        if status == 200 {
            *bytes.entry(host).or_default() += size;
        }
    }
    streaming.put("/log", log.as_bytes());
    streaming.script("count.awk", WORD_COUNT_REDUCER);
    let mapper = "awk '$7 == 200 { print $1 \"\\t\" $8 }'";
    streaming
        .run(&[
            "-input",
            "/log",
            "-output",
            "/traffic",
            "-mapper",
            mapper,
            "-reducer",
            "count.awk",
            "-file",
            "count.awk",
        ])
        .ok();
    let expected: String = bytes.iter().map(|(host, sum)| format!("{host}\t{sum}\n")).collect();
    assert_eq!(streaming.output("/traffic"), expected);
}

/// A reduce-side join whose mapper tells its inputs apart by name, with a side file and all reports.
fn environment_files_and_counters(streaming: &Streaming) {
    streaming.cluster.dfs(&["-mkdir", "/join"]).ok();
    streaming.put("/join/users", b"1\tada\n2\tbob\n3\tcyd\n");
    streaming.put("/join/visits", b"2\t/home\n1\t/about\n2\t/\n9\t/lost\n");
    streaming.script("skip.txt", "/about\n");
    streaming.script(
        "join.sh",
        r#"#!/bin/sh
case $map_input_file in */users) tag=A ;; *) tag=B ;; esac
[ -n "$mapreduce_task_id" ] && [ "$mapred_job_name" = "the join" ] && [ "$GREETING" = "hello world" ] || exit 9
while read -r id rest; do
  if [ "$rest" = "$(cat skip.txt)" ]; then echo "reporter:counter:Join,skipped,1" >&2; else printf '%s\t%s\t%s\n' "$id" $tag "$rest"; fi
done
echo "reporter:status:done with $map_input_file" >&2
"#,
    );
    streaming.script(
        "joined.awk",
        "#!/usr/bin/awk -f\nBEGIN { FS = OFS = \"\\t\" } $2 == \"A\" { id = $1; name = $3 } $2 == \"B\" && $1 == id { print name, $3 }\n",
    );
    streaming
        .run(&[
            "-D",
            "mapred.job.name=the join",
            "-D",
            "stream.num.map.output.key.fields=2",
            "-D",
            "mapred.text.key.partitioner.options=-k1,1",
            "-partitioner",
            "org.apache.hadoop.mapred.lib.KeyFieldBasedPartitioner",
            "-input",
            "/join",
            "-output",
            "/joined",
            "-mapper",
            "join.sh",
            "-reducer",
            "joined.awk",
            "-numReduceTasks",
            "2",
            "-file",
            "join.sh",
            "-file",
            "joined.awk",
            "-file",
            "skip.txt",
            "-cmdenv",
            "GREETING=hello world",
        ])
        .ok();
    assert_eq!(sorted(&streaming.output("/joined")), ["bob\t/", "bob\t/home"]);
    assert_eq!(streaming.counter("Join", "skipped"), "1");
}

/// Four key fields, partitions by two of them, a numeric falling order in the third.
fn secondary_sort(streaming: &Streaming) {
    let (mut rows, mut choices) = (Vec::new(), data::Choices::new(8));
    for _ in 0..3000 {
        rows.push([choices.below(5), choices.below(4), choices.below(2000), choices.below(9)]);
    }
    let input: String = rows.iter().map(|[a, b, c, d]| format!("{a}.{b}.{c}.{d}\n")).collect();
    streaming.put("/rows", input.as_bytes());
    streaming
        .run(&[
            "-D", "stream.map.output.field.separator=.", "-D", "stream.num.map.output.key.fields=4",
            "-D", "mapreduce.map.output.key.field.separator=.",
            "-D", "mapreduce.partition.keypartitioner.options=-k1,2",
            "-D", "mapreduce.job.output.key.comparator.class=org.apache.hadoop.mapreduce.lib.partition.KeyFieldBasedComparator",
            "-D", "mapreduce.partition.keycomparator.options=-k1,1 -k2,2 -k3,3nr",
            "-partitioner", "KeyFieldBasedPartitioner", "-numReduceTasks", "3",
            "-input", "/rows", "-output", "/sorted", "-mapper", "cat", "-reducer", "cat",
        ])
        .ok();
    rows.sort_by_key(|[a, b, c, d]| (*a, *b, std::cmp::Reverse(*c), *d));
    let mut found = BTreeMap::<&str, Vec<&str>>::new();
    let text = streaming.output("/sorted");
    for line in text.lines() {
        let line = line.trim_end_matches('\t');
        let group = line.match_indices('.').nth(1).map(|(at, _)| &line[..at]).unwrap();
        found.entry(group).or_default().push(line);
    }
    let found: Vec<&str> = found.into_values().flatten().collect();
    let expected: Vec<String> =
        rows.iter().map(|[a, b, c, d]| format!("{a}.{b}.{c}.{d}")).collect();
    assert_eq!(found, expected);
}

/// Pairs that no text could hold, through both binary encodings.
fn binary_records(streaming: &Streaming) {
    if !has_python() {
        return;
    }
    streaming.put("/numbers", (0..500).map(|n| format!("{n}\n")).collect::<String>().as_bytes());
    let common = "import sys, struct\nout, inp = sys.stdout.buffer, sys.stdin.buffer\n";
    streaming.script("typed_map.py", &format!("{common}for line in inp:\n    n = int(line)\n    out.write(struct.pack('>bi', 3, n % 7) + struct.pack('>bq', 4, n))\n"));
    streaming.script("typed_reduce.py", &format!("{common}sums = {{}}\nlast = -1\nwhile True:\n    record = inp.read(5 + 9)\n    if not record: break\n    assert len(record) == 14\n    key, value = struct.unpack('>xixq', record)\n    assert key >= last; last = key\n    sums[key] = sums.get(key, 0) + value\nfor key, value in sums.items():\n    name = b'key\\n%d' % key\n    out.write(struct.pack('>bi', 7, len(name)) + name + struct.pack('>bq', 4, value))\n"));
    streaming
        .run(&[
            "-D",
            "stream.map.output=typedbytes",
            "-D",
            "stream.reduce.input=typedbytes",
            "-D",
            "stream.reduce.output=typedbytes",
            "-input",
            "/numbers",
            "-output",
            "/typed",
            "-file",
            "typed_map.py",
            "-file",
            "typed_reduce.py",
            "-mapper",
            "python3 typed_map.py",
            "-reducer",
            "python3 typed_reduce.py",
        ])
        .ok();
    let sum = |rest: u64| (0..500).filter(|n| n % 7 == rest).sum::<u64>();
    let expected: String = (0..7).map(|rest| format!("key\n{rest}\t{}\n", sum(rest))).collect();
    assert_eq!(streaming.output("/typed"), expected);

    streaming.script("raw.py", &format!("{common}def read():\n    head = inp.read(4)\n    return inp.read(struct.unpack('>i', head)[0]) if head else None\nwhile True:\n    place = read()\n    if place is None: break\n    value = read()\n    assert len(place) == 8 and value[0] == len(value) - 1\n    value = value[1:]\n    key = bytes([int(value) % 3, 10, 9])\n    for part in (key, value): out.write(struct.pack('>i', len(part)) + part)\n"));
    streaming.script("raw_reduce.py", &format!("{common}count = {{}}\nwhile True:\n    head = inp.read(4)\n    if not head: break\n    key = inp.read(struct.unpack('>i', head)[0])\n    inp.read(struct.unpack('>i', inp.read(4))[0])\n    count[key] = count.get(key, 0) + 1\nfor key, n in count.items():\n    print(key[0], n, sep='\\t')\n"));
    streaming
        .run(&[
            "-io",
            "rawbytes",
            "-D",
            "stream.reduce.output=text",
            "-input",
            "/numbers",
            "-output",
            "/raw",
            "-file",
            "raw.py",
            "-file",
            "raw_reduce.py",
            "-mapper",
            "python3 raw.py",
            "-reducer",
            "python3 raw_reduce.py",
        ])
        .ok();
    assert_eq!(streaming.output("/raw"), "0\t167\n1\t167\n2\t166\n");
}

fn aggregate_and_map_only(streaming: &Streaming) {
    let mapper = "awk '{ print \"LongValueSum:sum\\t\" $1; print \"UniqValueCount:tens\\t\" int($1 / 10); print \"LongValueMax:max\\t\" $1 }'";
    streaming.put("/n", (0..200).map(|n| format!("{n}\n")).collect::<String>().as_bytes());
    streaming
        .run(&["-input", "/n", "-output", "/sums", "-mapper", mapper, "-reducer", "aggregate"])
        .ok();
    assert_eq!(sorted(&streaming.output("/sums")), ["max\t199", "sum\t19900", "tens\t20"]);

    let words = ["-input", "/n", "-reducer", "NONE", "-lazyOutput"];
    streaming.run(&[&words[..], &["-output", "/grep", "-mapper", "grep 7"]].concat()).ok();
    let sevens = (0..200).filter(|n| n.to_string().contains('7')).count();
    assert_eq!(streaming.output("/grep").lines().count(), sevens);
    let nothing = ["-output", "/nothing", "-mapper", "sed d"];
    streaming.run(&[&words[..], &nothing].concat()).ok();
    let listed = streaming.cluster.dfs(&["-ls", "/nothing"]).ok().stdout_text();
    assert!(listed.contains("_SUCCESS") && !listed.contains("part-"), "{listed}");
}

fn failures(streaming: &Streaming) {
    streaming.script("bad.sh", "#!/bin/sh\necho 'cannot go on' >&2\nexit 3\n");
    let words = [
        "-D",
        "mapreduce.map.maxattempts=2",
        "-input",
        "/n",
        "-output",
        "/failed",
        "-file",
        "bad.sh",
    ];
    for (mapper, expected) in [
        ("bad.sh", &["exit status: 3", "cannot go on", "/n"][..]),
        ("missing.sh", &["missing.sh", "No such file", "`-file missing.sh`"]),
        ("python3 -c 'raise SystemExit(1)'", &["exit status: 1"]),
    ] {
        let outcome = streaming.run(&[&words[..], &["-mapper", mapper]].concat());
        assert_eq!(outcome.code, 1, "{mapper}: {outcome:?}");
        for part in expected {
            assert!(
                outcome.stderr.contains(part),
                "{mapper}: `{part}` is not in {}",
                outcome.stderr
            );
        }
        assert_eq!(streaming.cluster.dfs(&["-test", "-e", "/failed"]).code, 1, "{mapper}");
    }
    let forgiven =
        ["-D", "stream.non.zero.exit.is.failure=false", "-input", "/n", "-output", "/forgiven"];
    streaming.run(&[&forgiven[..], &["-mapper", "sh -c 'cat; exit 3'"]].concat()).ok();
    assert_eq!(streaming.output("/forgiven").lines().count(), 200);
    for (words, expected) in [
        (&["-input", "/n"][..], "-output is missing"),
        (
            &["-input", "/n", "-output", "/x", "-file", "no-such-file", "-mapper", "cat"],
            "no-such-file",
        ),
        (&["-input", "/not-there", "-output", "/x", "-mapper", "cat"], "/not-there"),
    ] {
        let outcome = streaming.run(words);
        assert!(outcome.code != 0 && outcome.stderr.contains(expected), "{words:?}: {outcome:?}");
    }
}

/// Without a cluster: the same commands on local files.
#[test]
fn streaming_runs_locally() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    fs::write(path("in"), "b\na\nb\n").unwrap();
    let output = path("out");
    let mut command = Command::new(crate::support::cluster::hanno_binary());
    command.args([
        "job",
        "streaming",
        "--local",
        "--quiet",
        "-input",
        &path("in"),
        "-output",
        &output,
    ]);
    command.args(["-mapper", "sed s/$/\\t1/", "-reducer", "uniq -c"]).current_dir(&directory);
    Outcome::of(command).ok();
    let text = fs::read_to_string(Path::new(&output).join("part-00000")).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words, ["1", "a", "1", "2", "b", "1"]);
    assert!(!Path::new(&output).join("_scratch").try_exists().unwrap());
}

/// The script ends with its children, and nothing is left that the next run would find in its way.
#[test]
fn a_signal_leaves_nothing_of_a_local_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    fs::write(path("in"), "a\n").unwrap();
    let mapper =
        format!("sh -c 'sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait'", path("pid"));
    let mut command = Command::new(crate::support::cluster::hanno_binary());
    let (input, output) = (path("in"), path("made/out"));
    command.args(["job", "streaming", "--local", "--quiet", "-input", &input, "-output", &output]);
    command.args(["-mapper", &mapper, "-reducer", "NONE"]).current_dir(&directory);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let running = command.spawn().unwrap();
    let is_there = || Path::new(&path("pid")).try_exists().unwrap();
    assert!(wait::until(PATIENCE, is_there), "the script does not run");
    let child = fs::read_to_string(path("pid")).unwrap().trim().parse().unwrap();
    sys::process::terminate(running.id()).unwrap();
    let outcome = Outcome::from(running.wait_with_output().unwrap());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (143, ""));
    assert!(wait::until(PATIENCE, || processes::has_ended(child)), "its child lives");
    assert_eq!(fs::read_dir(path("made")).unwrap().count(), 0);
}

/// As on a worker, which gives what was sent a mode of its own.
#[test]
fn scripts_that_nobody_may_execute_run_locally_as_on_a_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    fs::write(path("in"), "b\na\n").unwrap();
    fs::write(path("m.sh"), "#!/bin/sh\n./more.sh | sed s/$/!/\n").unwrap();
    fs::write(path("more.sh"), "#!/bin/sh\nsed s/^/-/\n").unwrap();
    for script in ["m.sh", "more.sh"] {
        fs::set_permissions(path(script), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let (input, output) = (path("in"), path("out"));
    let mut command = Command::new(crate::support::cluster::hanno_binary());
    command.args(["job", "streaming", "--local", "--quiet", "-input", &input, "-output", &output]);
    command.args(["-mapper", "m.sh", "-reducer", "NONE", "-file", "m.sh", "-file", "more.sh"]);
    command.current_dir(&directory);
    Outcome::of(command).ok();
    assert_eq!(
        fs::read_to_string(Path::new(&output).join("part-00000")).unwrap(),
        "-b!\t\n-a!\t\n"
    );
    let mode = fs::metadata(path("m.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "what was sent stays as it is");
}

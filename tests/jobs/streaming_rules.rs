//! Rules of Hadoop Streaming that a script relies on without a word: what it may leave unread, what its records and files look like, which
//! inputs there are, and that nothing asked for is dropped in silence.

use std::fs;

use crate::jobs::streaming::Streaming;
use crate::support::Outcome;

/// One cluster for all: starting one takes longer than any of the jobs.
#[test]
fn streaming_as_scripts_rely_on_it() {
    let streaming = Streaming::start();
    streaming.put("/one", b"one\n");
    scripts_that_do_not_read(&streaming);
    counted_lines(&streaming);
    records(&streaming);
    inputs(&streaming);
    bounds_of_tasks(&streaming);
    outputs_and_environment(&streaming);
    nothing_in_silence(&streaming);
}

fn job(streaming: &Streaming, input: &str, output: &str, more: &[&str]) -> Outcome {
    streaming.run(&[&["-input", input, "-output", output], more].concat())
}

/// Only the exit status of a script counts, however much of its input it leaves.
fn scripts_that_do_not_read(streaming: &Streaming) {
    let line = format!("{}\n", "x".repeat(99));
    streaming.put("/much", line.repeat(80_000).as_bytes());
    for (number, mapper) in
        ["echo hi", "sh -c 'exec 0<&-; echo hi'", "sh -c 'head -c 10 > /dev/null; echo hi'"]
            .into_iter()
            .enumerate()
    {
        let output = format!("/unread-{number}");
        job(streaming, "/much", &output, &["-mapper", mapper, "-reducer", "NONE"]).ok();
        let text = streaming.output(&output);
        assert!(text.lines().count() > 40, "a map per split: {}", text.lines().count());
        assert!(text.lines().all(|line| line == "hi\t"), "{mapper}");
    }
    job(streaming, "/much", "/unread-reduce", &["-mapper", "cat", "-reducer", "echo hi"]).ok();
    assert_eq!(streaming.output("/unread-reduce"), "hi\t\n");
    let failed = job(
        streaming,
        "/much",
        "/unread-failed",
        &["-mapper", "sh -c 'exit 4'", "-D", "mapreduce.map.maxattempts=1"],
    );
    assert!(failed.code == 1 && failed.stderr.contains("exit status: 4"), "{}", failed.stderr);
    // Nobody knows the record, for the script may be far behind what was written to it.
    assert!(failed.stderr.contains("map failed at /much: the command"), "{}", failed.stderr);
    // What a script has left behind keeps nobody waiting, not even where no time is set.
    let leaves = "sh -c 'sleep 1000 & echo the cause >&2; exit 5'";
    let words =
        ["-mapper", leaves, "-D", "mapreduce.task.timeout=0", "-D", "mapreduce.map.maxattempts=1"];
    let failed = job(streaming, "/one", "/unread-left", &words);
    for part in ["exit status: 5", "the cause"] {
        assert!(failed.code == 1 && failed.stderr.contains(part), "{}", failed.stderr);
    }
    // What a reducer says about no record at all is no output.
    let words = ["-mapper", "cat", "-reducer", "sh -c 'echo begin; wc -l'", "-numReduceTasks", "4"];
    job(streaming, "/one", "/unread-none", &words).ok();
    assert_eq!(streaming.output("/unread-none"), "begin\t\n1\t\n");
}

/// Each map gets so many lines, with their positions.
fn counted_lines(streaming: &Streaming) {
    streaming.put("/list", b"a\nb\nc\nd\ne\n");
    let mapper = "sh -c 'while read -r line; do last=$line; n=$((n + 1)); done; echo \"$n $last\"'";
    let lines = "mapreduce.input.lineinputformat.linespermap=2";
    let words = ["-inputformat", "org.apache.hadoop.mapred.lib.NLineInputFormat", "-D", lines];
    job(
        streaming,
        "/list",
        "/list-out",
        &[&words[..], &["-mapper", mapper, "-reducer", "NONE"]].concat(),
    )
    .ok();
    let mut found: Vec<_> = streaming.output("/list-out").lines().map(str::to_owned).collect();
    found.sort();
    assert_eq!(found, ["1 8\te", "2 2\tb", "2 6\td"]);
}

fn records(streaming: &Streaming) {
    let cat = ["-mapper", "cat", "-reducer", "NONE"];
    let with = |extra: &[&'static str]| [&cat[..], extra].concat();
    streaming.put("/delimited", "\u{feff}one||two\nlines||three".as_bytes());
    let delimiter = with(&["-D", "textinputformat.record.delimiter=||"]);
    job(streaming, "/delimited", "/delimited-out", &delimiter).ok();
    assert_eq!(streaming.output("/delimited-out"), "one\t\ntwo\t\nlines\t\nthree\t\n");
    job(streaming, "/delimited", "/marked-out", &cat).ok();
    assert_eq!(streaming.output("/marked-out"), "one||two\t\nlines||three\t\n", "no mark");
    let many: String = (0..40_000).map(|n| format!("record {n}<>")).collect();
    streaming.put("/many", many.as_bytes());
    let cut = with(&["-D", "textinputformat.record.delimiter=<>"]);
    job(streaming, "/many", "/many-out", &cut).ok();
    let mut found: Vec<String> = streaming.output("/many-out").lines().map(str::to_owned).collect();
    let mut expected: Vec<String> = (0..40_000).map(|n| format!("record {n}\t")).collect();
    found.sort();
    expected.sort();
    assert!(found == expected, "each record belongs to one split: {}", found.len());
    streaming.put("/long", b"short\nfour+\nthis one is long\nend\n");
    let bounded = with(&["-D", "mapred.linerecordreader.maxlength=6"]);
    job(streaming, "/long", "/long-out", &bounded).ok();
    assert_eq!(streaming.output("/long-out"), "end\t\n", "shorter than 6 with their ends");
    assert_eq!(streaming.counter("Engine", "LINES_TOO_LONG"), "3");
    // Keys: 8 bytes big endian in rawbytes, in which lines begin with their length as Hadoop's `Text` does; a long in typedbytes, none as text.
    streaming.put("/two", b"ab\ncd\n");
    for (io, expected) in [
        (
            "rawbytes",
            "0000000800000000000000000000000302 61620000000800000000000000030000000302 6364",
        ),
        ("typedbytes", "04000000000000000007000000026162040000000000000003070000000263 64"),
        ("text", "61620a63640a"),
    ] {
        let (output, io) = (format!("/io-{io}"), format!("stream.map.input={io}"));
        let mapper = "sh -c 'od -An -v -tx1 | tr -d \" \\n\"; echo'";
        job(streaming, "/two", &output, &["-mapper", mapper, "-reducer", "NONE", "-D", &io]).ok();
        assert_eq!(streaming.output(&output).trim(), expected.replace(' ', ""), "{io}");
    }
    // Pairs that no script has seen are as a script would have printed them.
    streaming.put("/pair", b"k\tv\n");
    let reducer = "sh -c 'od -An -v -tx1 | tr -d \" \\n\"; echo'";
    let words = ["-inputformat", "KeyValueTextInputFormat", "-reducer", reducer];
    let words = [&words[..], &["-io", "typedbytes", "-D", "stream.reduce.output=text"]].concat();
    job(streaming, "/pair", "/pair-out", &words).ok();
    assert_eq!(streaming.output("/pair-out").trim(), "07000000016b070000000176");
    streaming.put("/keys", b"a z\na b\nab\na\nx 10\nx 9\nx\n");
    let sorted = |output: &str, options: &str| {
        let options = format!("mapreduce.partition.keycomparator.options={options}");
        let comparator = "mapreduce.job.output.key.comparator.class=org.apache.hadoop.mapred.lib.KeyFieldBasedComparator";
        let words = [
            "-mapper",
            "cat",
            "-reducer",
            "cat",
            "-D",
            &options,
            "-D",
            comparator,
            "-D",
            "map.output.key.field.separator= ",
        ];
        job(streaming, "/keys", output, &words).ok();
        let text = streaming.output(output);
        text.lines().map(|line| line.trim_end_matches('\t').to_owned()).collect::<Vec<_>>()
    };
    let crossing = sorted("/keys-crossing", "-k1.2,1.3");
    assert_eq!(crossing, ["a", "x", "x 10", "x 9", "a b", "a z", "ab"]);
    let numeric = sorted("/keys-numeric", "-k2,2n");
    assert_eq!(numeric[numeric.len() - 2..], ["x 9", "x 10"]);
    assert_eq!(numeric[..3], ["a", "ab", "x"], "a field that is missing comes first");
}

fn inputs(streaming: &Streaming) {
    streaming.cluster.dfs(&["-mkdir", "-p", "/tree/2024/sub", "/tree/2025"]).ok();
    for (path, text) in [
        ("/tree/2024/a.txt", "24a\n"),
        ("/tree/2024/b.log", "24b\n"),
        ("/tree/2024/sub/deep", "deep\n"),
        ("/tree/2025/a.txt", "25a\n"),
    ] {
        streaming.put(path, text.as_bytes());
    }
    let cat = ["-mapper", "cat", "-reducer", "cat"];
    for (number, (input, expected)) in [
        ("/tree/*/a.txt", "24a\t\n25a\t\n"),
        ("/tree/2024/{a,b}.*", "24a\t\n24b\t\n"),
        ("/tree/{2024/a,2025/a}.txt", "24a\t\n25a\t\n"),
        ("/tree/202[5-9]", "25a\t\n"),
        ("/tree/202?/[^a]*.log", "24b\t\n"),
        ("/tree/2024/a.txt,/tree/2025", "24a\t\n25a\t\n"),
        ("hdfs:///tree/2025/a.txt", "25a\t\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let output = format!("/globbed-{number}");
        job(streaming, input, &output, &cat).ok();
        assert_eq!(streaming.output(&output), expected, "{input}");
    }
    let refused = job(streaming, "/tree/2024", "/inner", &cat);
    assert!(
        refused.code == 1 && refused.stderr.contains("Not a file: /tree/2024/sub"),
        "{refused:?}"
    );
    let with = |property: &'static str| [&cat[..], &["-D", property]].concat();
    for name in
        ["mapreduce.input.fileinputformat.input.dir.recursive", "mapred.input.dir.recursive"]
    {
        let (property, output) = (format!("{name}=true"), format!("/{name}"));
        job(streaming, "/tree", &output, &[&cat[..], &["-D", &property]].concat()).ok();
        assert_eq!(streaming.output(&output), "24a\t\n24b\t\n25a\t\ndeep\t\n");
    }
    let ignoring =
        with("mapreduce.input.fileinputformat.input.dir.nonrecursive.ignore.subdirs=true");
    job(streaming, "/tree/2024", "/ignoring", &ignoring).ok();
    assert_eq!(streaming.output("/ignoring"), "24a\t\n24b\t\n");
    let nothing = job(streaming, "/tree/*.csv", "/nothing-there", &cat);
    assert!(nothing.stderr.contains("matches 0 files"), "{nothing:?}");
}

/// Limits of a job's own, and those of maps and of reduces apart.
fn bounds_of_tasks(streaming: &Streaming) {
    streaming.put("/one", b"1\n");
    let attempts = |output: &str, mapper: &str, reducer: &str| {
        let limits = ["-D", "mapreduce.map.maxattempts=1", "-D", "mapreduce.reduce.maxattempts=2"];
        let words = [&["-mapper", mapper, "-reducer", reducer], &limits[..]].concat();
        assert_eq!(job(streaming, "/one", output, &words).code, 1);
        streaming.failed_attempts()
    };
    assert_eq!(attempts("/map-fails", "false", "cat"), (1, 0));
    assert_eq!(attempts("/reduce-fails", "cat", "false"), (0, 2));
    let silent = [
        "-mapper",
        "sleep 60",
        "-reducer",
        "NONE",
        "-D",
        "mapred.task.timeout=500",
        "-D",
        "mapreduce.map.maxattempts=1",
    ];
    let ended = job(streaming, "/one", "/silent", &silent);
    assert!(ended.code == 1 && ended.stderr.contains("no sign of life for 500ms"), "{ended:?}");
}

fn outputs_and_environment(streaming: &Streaming) {
    let listed = |output: &str| {
        let text = streaming.cluster.dfs(&["-ls", "-C", output]).ok().stdout_text();
        text.lines().map(|line| line.rsplit('/').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let compressed = [
        "-mapper",
        "cat",
        "-reducer",
        "cat",
        "-numReduceTasks",
        "2",
        "-D",
        "mapred.output.compress=true",
        "-D",
        "mapred.output.compression.codec=org.apache.hadoop.io.compress.GzipCodec",
    ];
    job(streaming, "/one", "/named", &compressed).ok();
    assert_eq!(listed("/named"), ["_SUCCESS", "part-00000.gz", "part-00001.gz"]);
    for (output, none) in [
        ("/none-1", &["-D", "mapred.reduce.tasks=0"][..]),
        ("/none-2", &["-numReduceTasks", "0"]),
        ("/none-3", &["--reducers", "0"]),
        ("/none-4", &["-reducer", "NONE"]),
    ] {
        let reducer = if none.contains(&"NONE") { &[][..] } else { &["-reducer", "false"] };
        job(streaming, "/one", output, &[&["-mapper", "cat"], reducer, none].concat()).ok();
        assert_eq!(listed(output), ["_SUCCESS", "part-00000"], "{none:?}");
    }
    environment(streaming);
    counters(streaming);
}

fn environment(streaming: &Streaming) {
    streaming.script(
        "env.sh",
        r#"#!/bin/sh
cat > /dev/null
for name in mapreduce_job_name mapred_job_name mapreduce_input_fileinputformat_inputdir mapred_output_dir \
  mapreduce_task_ismap FROM_MAP FROM_ALL FROM_CMDENV; do eval "printf '%s=%s\n' $name \"\$$name\""; done
case $mapreduce_task_attempt_id in attempt_*_m_*) echo attempt ;; esac
[ "$mapreduce_task_attempt_id" = "$mapred_task_id" ] && echo same
"#,
    );
    fs::write(
        streaming.scripts.join("site.xml"),
        "<configuration><property><name>mapred.job.name</name><value>from a &lt;file&gt;</value></property></configuration>",
    )
    .unwrap();
    let words = [
        "-conf",
        "site.xml",
        "-mapper",
        "env.sh",
        "-file",
        "env.sh",
        "-reducer",
        "NONE",
        "-cmdenv",
        "FROM_CMDENV=c d",
        "-D",
        "mapreduce.map.env.FROM_MAP=m",
        "-D",
        "mapred.child.env=FROM_ALL=a",
    ];
    job(streaming, "/one", "/environment", &words).ok();
    let expected = "mapreduce_job_name=from a <file>\nmapred_job_name=from a <file>\n\
        mapreduce_input_fileinputformat_inputdir=/one\nmapred_output_dir=/environment\n\
        mapreduce_task_ismap=true\nFROM_MAP=m\nFROM_ALL=a\nFROM_CMDENV=c d\nattempt\nsame\n";
    assert_eq!(streaming.output("/environment").replace("\t\n", "\n"), expected);
}

fn counters(streaming: &Streaming) {
    let cpu = [
        "-mapper",
        "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'",
        "-reducer",
        "NONE",
    ];
    job(streaming, "/one", "/cpu", &cpu).ok();
    let counter = |name| -> u64 {
        let group = "org.apache.hadoop.mapreduce.TaskCounter";
        streaming.counter(group, name).parse().unwrap()
    };
    assert!(
        counter("CPU_MILLISECONDS") >= 20,
        "that of the script: {}",
        counter("CPU_MILLISECONDS")
    );
    assert!(counter("PHYSICAL_MEMORY_BYTES") > 1 << 20);
    // What was consumed for the splits is the file, read once.
    let read = ["-mapper", "wc -l", "-reducer", "NONE"];
    job(streaming, "/much", "/counted", &read).ok();
    let group = "org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter";
    assert_eq!(streaming.counter(group, "BYTES_READ"), (80_000 * 100).to_string());
}

/// Wrong values, unknown names, what cannot be had: one line, before anything runs.
fn nothing_in_silence(streaming: &Streaming) {
    let cat = ["-mapper", "cat", "-reducer", "NONE"];
    for (words, part) in [
        (&["-D", "io.sort.mb=abc"][..], "property mapreduce.task.io.sort.mb: `abc` is not"),
        (&["-D", "mapreduce.map.failures.maxpercent=5"], "=5 cannot be had: a job whose map fails"),
        (&["-D", "stream.map.output=json"], "`json` is not one of text, rawbytes, typedbytes"),
        (&["-archives", "x.zip"], "option `-archives` is not here"),
        (&["-mapper", "com.example.job.MyMapper"], "option -mapper is given twice"),
        (&["-combiner", "com.example.job.MyCombiner"], "looks like a Java class"),
        (&["-combiner", "./forgotten.sh"], "`-file forgotten.sh` sends it along"),
        (&["-D", "dfs.replication=0"], "property dfs.replication: `0` is not"),
        (&["-D", "dfs.block.size=7e"], "property dfs.blocksize: `7e` is not"),
        (&["-D", "mapreduce.output.basename=a/b"], "basename: `a/b` is not"),
        (&["-D", "mapreduce.map.env=A=1,B"], "property mapreduce.map.env: `B` is not NAME=VALUE"),
        (&["-D", "mapreduce.map.maxattempts=200"], "mapreduce.map.maxattempts: `200` is not"),
        (&["-jobname", "x"], "`-D mapreduce.job.name=NAME`"),
        (&["--json=false"], "option --json takes no value"),
        (&["-conf", "no-such.xml"], "no-such.xml"),
        (&["-input", "s3a://bucket/x"], "s3a"),
    ] {
        let refused = job(streaming, "/one", "/refused", &[&cat[..], words].concat());
        assert_ne!(refused.code, 0, "{words:?}");
        assert!(refused.stderr.contains(part), "{words:?}: {}", refused.stderr);
        assert!(!refused.stderr.contains("Running job"), "{words:?} ran: {}", refused.stderr);
    }
    let warned = job(
        streaming,
        "/one",
        "/warned",
        &[
            &cat[..],
            &["-D", "textinputformat.record.delimeter=x", "-D", "mapreduce.map.memory.mb=99"],
        ]
        .concat(),
    )
    .ok();
    for part in
        ["did you mean textinputformat.record.delimiter?", "mapreduce.map.memory.mb has no effect"]
    {
        assert!(warned.stderr.contains(part), "{}", warned.stderr);
    }
    streaming.script("bare.sh", "echo hi\n");
    let once = ["-D", "mapreduce.map.maxattempts=1", "-file", "bare.sh", "-mapper"];
    for (mapper, part) in
        [("bare.sh", "`#!/bin/sh`"), ("forgotten.sh", "`-file forgotten.sh` sends it along")]
    {
        let failed = job(streaming, "/one", "/failed", &[&once[..], &[mapper]].concat());
        assert!(failed.code == 1 && failed.stderr.contains(part), "{mapper}: {}", failed.stderr);
    }
}

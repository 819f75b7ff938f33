//! What the table says of names and values, against the lists of Hadoop 3.4.

use std::collections::BTreeSet;

use super::*;

fn judged(name: &str, value: &str) -> Verdict {
    judge(name, value, Scope::Jobs)
}

#[test]
fn the_page_is_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/properties.md");
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page == markdown(), "`hanno job properties > docs/properties.md` writes it anew");
}

#[test]
fn every_name_stands_once() {
    let mut seen = BTreeSet::new();
    for row in ROWS {
        for name in [row.name].iter().chain(row.former) {
            assert!(seen.insert(*name), "{name} stands twice");
        }
        assert!(!row.text.is_empty() && !row.text.contains('|'), "{}", row.name);
    }
}

#[test]
fn values_are_checked_and_named() {
    let error = keys::SORT_MB.get(&[(keys::SORT_MB.name().into(), "abc".into())].into());
    assert!(error.unwrap_err().to_string().contains("`abc` is not"));
    for (name, value) in [
        ("io.sort.mb", "abc"),
        ("mapreduce.map.maxattempts", "0"),
        ("mapreduce.map.speculative", "maybe"),
        ("mapreduce.task.timeout", "-1"),
        ("fs.permissions.umask-mode", "9"),
        ("mapreduce.job.reduce.slowstart.completedmaps", "2"),
        ("mapreduce.output.fileoutputformat.compress.codec", "x.Y"),
        ("stream.map.input", "json"),
    ] {
        assert!(matches!(judged(name, value), Verdict::Refusal(_)), "{name}={value}");
    }
    assert_eq!(judged("mapred.task.timeout", "0"), Verdict::Fine);
    assert_eq!(judged("mapred.min.split.size", "64m"), Verdict::Fine);
}

#[test]
fn what_would_change_the_outcome_is_refused_and_the_rest_told() {
    assert_eq!(judged("mapreduce.map.failures.maxpercent", " 0 "), Verdict::Fine);
    let refused = judged("mapred.max.map.failures.percent", "5");
    assert!(matches!(refused, Verdict::Refusal(text) if text.contains("=5")));
    for (name, part) in [
        ("mapreduce.job.reducers", "did you mean mapreduce.job.reduces?"),
        ("mapreduce.xyzzy.frobnicate.the.quux.of.all", "tasks can read it"),
        ("textinputformat.record.delimeter", "did you mean textinputformat.record.delimiter?"),
        ("mapreduce.map.java.opts", "no effect"),
        ("yarn.nodemanager.aux-services", "no effect"),
        ("stream.map.input", "for streaming jobs"),
    ] {
        let verdict = judged(name, "text");
        assert!(matches!(&verdict, Verdict::Warning(text) if text.contains(part)), "{verdict:?}");
    }
    assert_eq!(judged("my.own", "1"), Verdict::Fine);
    assert_eq!(present_name("mapred.reduce.tasks"), "mapreduce.job.reduces");
    assert_eq!(present_name("yarn.x"), "yarn.x");
    assert_eq!(former_names("mapreduce.job.name"), ["mapred.job.name"]);
}

/// Hadoop's own defaults (mapred-default.xml, hdfs-default.xml, core-default.xml, and those in the code of Hadoop Streaming) of all names that have an effect
/// here, and of those that are refused with other values. A value that stands for no limit is one that people write out.
const DEFAULTS: &[(&str, &str)] = &[
    ("mapreduce.job.name", ""),
    ("mapreduce.job.queuename", "default"),
    ("mapreduce.job.priority", "DEFAULT"),
    ("mapreduce.job.reduces", "1"),
    ("fs.defaultFS", "file:///"),
    ("mapreduce.job.max.map", "-1"),
    ("mapreduce.map.maxattempts", "4"),
    ("mapreduce.reduce.maxattempts", "4"),
    ("mapreduce.task.timeout", "600000"),
    ("mapreduce.job.reduce.slowstart.completedmaps", "0.05"),
    ("mapreduce.job.running.map.limit", "0"),
    ("mapreduce.job.running.map.limit", "-1"),
    ("mapreduce.job.running.reduce.limit", "0"),
    ("mapreduce.job.running.reduce.limit", "-1"),
    ("mapreduce.map.speculative", "true"),
    ("mapreduce.reduce.speculative", "true"),
    ("mapreduce.job.maxtaskfailures.per.tracker", "3"),
    ("mapreduce.job.acl-modify-job", " "),
    ("mapreduce.job.acl-view-job", " "),
    ("mapreduce.map.skip.maxrecords", "0"),
    ("mapreduce.map.skip.maxrecords", "9223372036854775807"),
    ("mapreduce.task.skip.start.attempts", "2"),
    ("mapreduce.map.skip.proc-count.auto-incr", "true"),
    ("mapreduce.task.io.sort.mb", "100"),
    ("mapreduce.task.io.sort.factor", "10"),
    ("mapreduce.map.output.compress", "false"),
    ("mapreduce.input.fileinputformat.split.minsize", "0"),
    ("mapreduce.input.fileinputformat.split.maxsize", "9223372036854775807"),
    ("mapreduce.input.fileinputformat.input.dir.recursive", "false"),
    ("mapreduce.input.fileinputformat.input.dir.nonrecursive.ignore.subdirs", "false"),
    ("textinputformat.record.delimiter", ""),
    ("mapreduce.input.linerecordreader.line.maxlength", "2147483647"),
    ("mapreduce.input.keyvaluelinerecordreader.key.value.separator", "\t"),
    ("mapreduce.output.basename", "part"),
    ("mapreduce.output.textoutputformat.separator", "\t"),
    ("mapreduce.output.fileoutputformat.compress", "false"),
    (
        "mapreduce.output.fileoutputformat.compress.codec",
        "org.apache.hadoop.io.compress.DefaultCodec",
    ),
    ("mapreduce.output.fileoutputformat.compress.type", "RECORD"),
    ("dfs.replication", "3"),
    ("dfs.blocksize", "134217728"),
    ("fs.permissions.umask-mode", "022"),
    ("stream.map.input", "text"),
    ("stream.map.output", "text"),
    ("stream.reduce.input", "text"),
    ("stream.reduce.output", "text"),
    ("stream.map.input.ignoreKey", "false"),
    ("stream.map.input.field.separator", "\t"),
    ("stream.map.output.field.separator", "\t"),
    ("stream.reduce.input.field.separator", "\t"),
    ("stream.reduce.output.field.separator", "\t"),
    ("stream.num.map.output.key.fields", "1"),
    ("stream.num.reduce.output.key.fields", "1"),
    ("stream.non.zero.exit.is.failure", "true"),
    ("stream.stderr.reporter.prefix", "reporter:"),
    ("stream.addenvironment", ""),
    ("stream.jobconf.truncate.limit", "-1"),
    ("mapred.child.env", ""),
    ("mapreduce.map.env", ""),
    ("mapreduce.reduce.env", ""),
    ("mapreduce.job.partitioner.class", "org.apache.hadoop.mapred.lib.HashPartitioner"),
    ("mapreduce.aggregate.max.num.unique.values", "9223372036854775807"),
    ("mapreduce.partition.keypartitioner.options", ""),
    ("num.key.fields.for.partition", "1"),
    ("mapreduce.job.output.key.comparator.class", "org.apache.hadoop.io.Text$Comparator"),
    ("mapreduce.partition.keycomparator.options", ""),
    ("mapreduce.map.output.key.field.separator", "\t"),
    ("mapreduce.map.failures.maxpercent", "0"),
    ("mapreduce.reduce.failures.maxpercent", "0"),
    ("mapreduce.reduce.skip.maxgroups", "0"),
    ("mapreduce.job.skip.outdir", ""),
    ("mapreduce.job.end-notification.url", ""),
    ("mapreduce.job.end-notification.retry.attempts", "0"),
    ("mapreduce.job.end-notification.retry.interval", "1000"),
    ("mapreduce.job.end-notification.max.attempts", "5"),
    ("mapreduce.job.end-notification.max.retry.interval", "5000"),
    ("mapreduce.job.encrypted-intermediate-data", "false"),
    ("mapreduce.job.encrypted-intermediate-data-key-size-bits", "128"),
    ("mapreduce.job.encrypted-intermediate-data.buffer.kb", "128"),
    ("mapreduce.shuffle.ssl.enabled", "false"),
    ("mapreduce.job.node-label-expression", ""),
    ("mapreduce.map.node-label-expression", ""),
    ("mapreduce.reduce.node-label-expression", ""),
    ("mapreduce.job.am.node-label-expression", ""),
    ("mapreduce.job.am-access-disabled", "false"),
    ("mapreduce.input.lineinputformat.linespermap", "1"),
    ("mapreduce.fileoutputcommitter.marksuccessfuljobs", "true"),
    ("mapreduce.job.cache.files", ""),
    ("mapreduce.job.cache.archives", ""),
    ("mapreduce.map.debug.script", ""),
    ("mapreduce.reduce.debug.script", ""),
    ("mapred.output.committer.class", "org.apache.hadoop.mapred.FileOutputCommitter"),
    ("mapred.map.runner.class", "org.apache.hadoop.mapred.MapRunner"),
];

/// Names that are Hanno's own, and have no default there.
const NO_DEFAULT: [&str; 2] = ["locality_wait", "hanno.input.files.per.map.max"];

#[test]
fn hadoops_own_defaults_are_taken() {
    for (name, value) in DEFAULTS {
        assert_eq!(judge(name, value, Scope::Streaming), Verdict::Fine, "{name}={value}");
    }
    let has_effect = |row: &&Row| match row.class {
        Class::Honoured { .. } => !NO_DEFAULT.contains(&row.name) && !row.name.ends_with('*'),
        Class::Refused { unless } => !unless.is_empty() && !row.name.ends_with('*'),
        Class::Ignored => false,
    };
    for row in ROWS.iter().filter(has_effect) {
        let is_here = DEFAULTS.iter().any(|(name, _)| *name == row.name);
        assert!(is_here || NOT_IN_A_FILE.contains(&row.name), "{} is not in the list", row.name);
    }
}

/// Names to which no file of Hadoop's gives a value; they are Hadoop's own business.
const NOT_IN_A_FILE: [&str; 2] = ["tmpjars", "mapred.outputformat.numOfTrailingLegs"];

#[test]
fn values_that_only_a_task_would_meet_are_refused_at_once() {
    for (name, value) in [
        ("dfs.replication", "0"),
        ("dfs.replication", "513"),
        ("dfs.blocksize", "0"),
        ("dfs.block.size", "7e"),
        ("mapreduce.output.basename", "a/b"),
        ("mapreduce.output.basename", ""),
        ("io.sort.factor", "1"),
        ("mapreduce.map.maxattempts", "200"),
        ("mapred.max.tracker.failures", "0"),
        ("mapreduce.job.max.map", "many"),
        ("mapred.child.env", "A"),
        ("stream.addenvironment", "=b"),
        ("mapreduce.reduce.env.A-B", "A-B"),
        ("mapred.output.key.comparator.class", "com.foo.KeyFieldBasedComparator"),
        ("mapred.partitioner.class", "com.foo.KeyFieldBasedPartitioner"),
        ("mapred.output.compression.codec", "com.foo.GzipCodec"),
    ] {
        let verdict = judge(name, value, Scope::Streaming);
        let names_it = |text: &str| text.contains(name) && text.contains(value);
        assert!(matches!(&verdict, Verdict::Refusal(text) if names_it(text)), "{verdict:?}");
    }
}
/// A key for each first word in Hadoop's core-, hdfs-, mapred- and yarn-default.xml, in Streaming and the libraries of MapReduce, and in the names of
/// former versions.
const FIRST_WORDS: [&str; 39] = [
    "adl.feature.ownerandgroup.enableupn",
    "aggregate.max.num.unique.items",
    "aggregator.user.defined",
    "datanode.https.port",
    "dfs.encrypt.data.transfer",
    "file.blocksize",
    "fs.s3a.access.key",
    "ftp.replication",
    "ha.zookeeper.quorum",
    "hadoop.tmp.dir",
    "heartbeat.recheck.interval",
    "httpfs.buffer.size",
    "io.mapfile.bloom.size",
    "ipc.client.ping",
    "job.end.retry.count",
    "jobclient.output",
    "key.value.separator",
    "kfs.blocksize",
    "map.sort.order",
    "mapred.nothing",
    "mapreduce.nothing",
    "net.topology.impl",
    "nfs.exports.allowed.hosts",
    "nfs3.mountd.port",
    "num.key.fields",
    "reduce.output.key",
    "rpc.metrics.quantile.enable",
    "s3.blocksize",
    "s3native.blocksize",
    "security.client.protocol.acl",
    "seq.io.sort.mb",
    "sequencefile.filter",
    "ssl.client.truststore.location",
    "stream.nothing",
    "textinputformat.record",
    "tfile.io.chunk.size",
    "topology.script.number.args",
    "yarn.acl.enable",
    "zlib.compress.level",
];

#[test]
fn names_that_look_like_hadoops_are_never_silent() {
    for name in FIRST_WORDS {
        let verdict = judge(name, "1", Scope::Streaming);
        assert!(matches!(&verdict, Verdict::Warning(text) if text.contains(name)), "{verdict:?}");
    }
    for prefix in HADOOP_PREFIXES.iter().filter(|prefix| **prefix != "hanno.") {
        assert!(FIRST_WORDS.iter().any(|name| name.starts_with(prefix)), "{prefix}");
    }
    let verdict = judge("aggregator.descriptor.0", "UserDefined,com.foo.Sum", Scope::Streaming);
    assert!(matches!(verdict, Verdict::Refusal(_)), "{verdict:?}");
}

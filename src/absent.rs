//! Commands and options of Hadoop that this program lacks: by name, with what to do instead, so no script is left to guess.
//!
//! Each table is complete together with the table of what exists: the tests compare both with Hadoop 3.4's lists.

use crate::output::report;

/// A command that this program lacks.
pub(crate) struct Absent {
    /// As it is typed, without a dash.
    pub(crate) name: &'static str,
    /// What to do instead.
    pub(crate) instead: &'static str,
}

/// Refuses `name` if `table` has it: prints one line on standard error that begins with `program`.
pub(crate) fn refuse(program: &str, name: &str, table: &[Absent]) -> bool {
    let Some(absent) = table.iter().find(|absent| absent.name == name) else { return false };
    report!("{program}: {name} is not supported: {}", absent.instead);
    true
}

const fn absent(name: &'static str, instead: &'static str) -> Absent {
    Absent { name, instead }
}

const DAEMON: &str =
    "a daemon is started by `hanno namenode|datanode|jobtracker|worker --config FILE`";
const ONE_NAMENODE: &str = "there is one NameNode, without failover; `log_dirs` keeps its metadata on further disks, and \
                            `hdfs dfsadmin -safemode get` tells whether it serves";
const NO_KEYS: &str = "files are not encrypted on the disks of the cluster: encrypt the disks, or the data before they are put in; between machines everything is encrypted (TLS 1.3)";
const NO_ROUTER: &str = "there is no federation: a path belongs to the one cluster that is called";
const NO_PROXY: &str = "other file systems speak to the cluster over WebHDFS (docs/clients.md)";
const NO_JAVA: &str = "there are no Java classes here; programs in Java use Hadoop's own client over WebHDFS (docs/clients.md)";
const NO_KERBEROS: &str =
    "there is no Kerberos here; `hanno admin token` makes tokens that other clients show";
const ONE_TYPE: &str = "there is one type of storage; `hdfs balancer` evens out the use of DataNodes, \
                        which spread blocks over their directories by themselves";
const NO_YARN: &str = "there is no YARN here; `yarn application`, `yarn node` and `yarn queue` look at jobs, workers and queues";

/// Of `hdfs`.
#[rustfmt::skip]
pub(crate) const HDFS: &[Absent] = &[
    absent("cacheadmin", "DataNodes keep no blocks in memory of their own: the system caches what is read"),
    absent("classpath", NO_JAVA),
    absent("crypto", NO_KEYS),
    absent("datanode", DAEMON),
    absent("dfsrouter", NO_ROUTER),
    absent("dfsrouteradmin", NO_ROUTER),
    absent("diskbalancer", ONE_TYPE),
    absent("httpfs", "`hanno gateway --config FILE` is one address for clients of WebHDFS"),
    absent("jmxget", "every daemon answers `GET /jmx` and `GET /metrics` at its HTTP address"),
    absent("journalnode", ONE_NAMENODE),
    absent("mover", ONE_TYPE),
    absent("namenode", DAEMON),
    absent("nfs3", NO_PROXY),
    absent("oiv_legacy", "`hdfs oiv` reads the images that there are here"),
    absent("portmap", NO_PROXY),
    absent("secondarynamenode", "the NameNode writes images of its metadata itself (`image_interval_ms`)"),
    absent("sps", ONE_TYPE),
    absent("zkfc", ONE_NAMENODE),
];

const REPLICATED: &str = "files are replicated, none is erasure coded; `hdfs dfs -setrep 2 PATH` saves a third of the space";

/// Of `hdfs ec`, with their dashes.
#[rustfmt::skip]
pub(crate) const EC: &[Absent] = &[
    absent("-addPolicies", REPLICATED),
    absent("-disablePolicy", REPLICATED),
    absent("-enablePolicy", REPLICATED),
    absent("-removePolicy", REPLICATED),
    absent("-setPolicy", REPLICATED),
    absent("-unsetPolicy", REPLICATED),
    absent("-verifyClusterSetup", REPLICATED),
];

/// Of `hdfs haadmin`.
#[rustfmt::skip]
pub(crate) const HAADMIN: &[Absent] = &[
    absent("failover", ONE_NAMENODE),
    absent("ns", "there is no federation: the one cluster that is called is meant"),
    absent("transitionToActive", ONE_NAMENODE),
    absent("transitionToObserver", ONE_NAMENODE),
    absent("transitionToStandby", ONE_NAMENODE),
];

/// Processors of `hdfs oiv`.
#[rustfmt::skip]
pub(crate) const OIV_PROCESSORS: &[Absent] = &[
    absent("DetectCorruption", "`hanno admin metadata verify --dir DIR` checks images and logs; `hdfs oiv` reads none that is damaged"),
    absent("ReverseXML", "images are not made of XML; the NameNode writes them itself (`hdfs dfsadmin -saveNamespace`)"),
    absent("Transformed", "`-p Delimited` writes lines, `-p XML` elements"),
    absent("Web", "name `-p XML`, `-p Delimited` or `-p FileDistribution`; files of a cluster that runs are at its NameNode's web address"),
];

const IN_MEMORY: &str = "the name space is read into memory, by one thread";

/// Options of `hdfs oiv`.
#[rustfmt::skip]
pub(crate) const OIV_OPTIONS: &[Absent] = &[
    absent("-addr", "it is of the processor Web, which is not here"),
    absent("--addr", "it is of the processor Web, which is not here"),
    absent("-ec", "files are replicated, none is erasure coded"),
    absent("--printECPolicy", "files are replicated, none is erasure coded"),
    absent("-m", IN_MEMORY),
    absent("--multiThread", IN_MEMORY),
    absent("-sp", "policies of storage are among the attributes that `-p XML` writes"),
    absent("--printStoragePolicy", "policies of storage are among the attributes that `-p XML` writes"),
    absent("-t", IN_MEMORY),
    absent("--temp", IN_MEMORY),
];

/// Processors of `hdfs oev`.
pub(crate) const OEV_PROCESSORS: &[Absent] =
    &[absent("binary", "logs are not made of XML; only the NameNode writes them")];

const REPAIR: &str = "`hanno admin metadata repair --dir DIR` makes a damaged log start again, and tells what would be given up";

/// Options of `hdfs oev`.
#[rustfmt::skip]
pub(crate) const OEV_OPTIONS: &[Absent] = &[
    absent("-f", "numbers of records are never given out again, and not changed here"),
    absent("--fix-txids", "numbers of records are never given out again, and not changed here"),
    absent("-r", REPAIR),
    absent("--recover", REPAIR),
    absent("-v", "`-o -` writes to the screen"),
    absent("--verbose", "`-o -` writes to the screen"),
];

/// Of `hadoop`.
#[rustfmt::skip]
pub(crate) const HADOOP: &[Absent] = &[
    absent("archive", "archives (.har) are not read or written; `hdfs dfs -getmerge` joins small files, `hdfs dfsadmin -setQuota` limits their number"),
    absent("classpath", NO_JAVA),
    absent("conftest", "a daemon checks its file when it starts, and names what is wrong"),
    absent("credential", NO_KEYS),
    absent("daemonlog", "`hanno admin log-level DAEMON LOGGER [LEVEL]` tells and sets what a daemon logs"),
    absent("datanode", DAEMON),
    absent("distch", "`hadoop fs -chmod -R`, `-chown -R` and `-chgrp -R` change trees"),
    absent("dtutil", "`hanno admin token` makes, lists, renews and cancels tokens"),
    absent("fedbalance", NO_ROUTER),
    absent("gridmix", "`hanno bench` measures a cluster"),
    absent("jnipath", NO_JAVA),
    absent("kdiag", NO_KERBEROS),
    absent("kerbname", NO_KERBEROS),
    absent("key", NO_KEYS),
    absent("kms", NO_KEYS),
    absent("namenode", DAEMON),
    absent("nfs3", NO_PROXY),
    absent("portmap", NO_PROXY),
    absent("registrydns", NO_YARN),
    absent("resourceestimator", NO_YARN),
    absent("rumenfolder", "`hanno job -history ID -format json` tells how a job went"),
    absent("rumentrace", "`hanno job -history ID -format json` tells how a job went"),
    absent("s3guard", "files of S3 are not reached; copy them in by `hadoop fs -put -`"),
    absent("secondarynamenode", "the NameNode writes images of its metadata itself (`image_interval_ms`)"),
    absent("trace", "`HANNO_LOG=debug` makes a daemon tell more"),
];

/// Of `mapred`.
#[rustfmt::skip]
pub(crate) const MAPRED: &[Absent] = &[
    absent("archive", "archives (.har) are not read or written; `hdfs dfs -getmerge` joins small files"),
    absent("archive-logs", "logs of attempts are kept by the workers, and deleted with their jobs"),
    absent("classpath", NO_JAVA),
    absent("frameworkuploader", "the program of a job is sent to the workers by its driver"),
    absent("historyserver", "the JobTracker keeps the history itself; `mapred job -history ID` shows it"),
    absent("hsadmin", "the JobTracker keeps the history itself; `mapred mradmin` refreshes its rules"),
    absent("minicluster", "`hanno cluster --data DIR` is a whole cluster on this machine"),
    absent("pipes", "C++ programs run as `mapred streaming` commands, jobs of their own are written in Rust (docs/mapreduce.md)"),
    absent("sampler", "`Job::total_order()` samples its input itself (docs/mapreduce.md)"),
    absent("successfile", "jobs write `_SUCCESS` into their output when they succeed"),
];

/// Of `yarn`.
#[rustfmt::skip]
pub(crate) const YARN: &[Absent] = &[
    absent("classpath", NO_JAVA),
    absent("cluster", "there is no YARN here; `hanno job top --once` shows workers, queues and jobs"),
    absent("daemonlog", "`hanno admin log-level DAEMON LOGGER [LEVEL]` tells and sets what a daemon logs"),
    absent("fs2cs", NO_YARN),
    absent("nodeattributes", NO_YARN),
    absent("nodemanager", DAEMON),
    absent("proxyserver", NO_YARN),
    absent("registrydns", NO_YARN),
    absent("resourcemanager", DAEMON),
    absent("rmadmin", "there is no YARN here; `mapred mradmin -refreshQueues|-refreshNodes|-refreshUserToGroupsMappings` do it for the JobTracker"),
    absent("router", NO_YARN),
    absent("scmadmin", NO_YARN),
    absent("schedulerconf", "there is no YARN here; the rules of queues are in the JobTracker's file, `mapred mradmin -refreshQueues` reads them again"),
    absent("sharedcachemanager", NO_YARN),
    absent("timelinereader", NO_YARN),
    absent("timelineserver", NO_YARN),
];

const NO_SECOND: &str = "there are no such files here: who may do what is in permissions, ACLs and the daemons' own files";

/// Of `hdfs dfsadmin`.
#[rustfmt::skip]
pub(crate) const DFSADMIN: &[Absent] = &[
    absent("deleteBlockPool", "a DataNode serves one NameNode: what belongs to another is never deleted; empty its directories by hand"),
    absent("evictWriters", "`hdfs dfsadmin -shutdownDatanode NODE` ends its writers, which go on with other DataNodes at once"),
    absent("provisionSnapshotTrash", "what is deleted below a snapshottable directory goes to the trash of its user"),
    absent("reconfig", "a daemon reads its file when it starts: change it and start it again; `hanno admin log-level` sets what it logs"),
    absent("refresh", "a daemon reads its file when it starts: change it and start it again"),
    absent("refreshCallQueue", "a daemon reads its file when it starts: change it and start it again"),
    absent("refreshNamenodes", "a DataNode serves one NameNode: change `namenode` in its file and start it again"),
    absent("refreshServiceAcl", NO_SECOND),
    absent("refreshSuperUserGroupsConfiguration", NO_SECOND),
];

/// Options of `hdfs getconf`.
#[rustfmt::skip]
pub(crate) const GETCONF: &[Absent] = &[
    absent("-secondaryNameNodes", ONE_NAMENODE),
    absent("-backupNodes", ONE_NAMENODE),
    absent("-journalNodes", ONE_NAMENODE),
];

/// Of `hdfs debug`.
#[rustfmt::skip]
pub(crate) const DEBUG: &[Absent] = &[
    absent("verifyEC", "files are replicated, none is erasure coded; `hdfs fsck PATH -files -blocks` checks replicas"),
    absent("verifyReadable", "`hdfs dfs -cat PATH >/dev/null` reads all of a file and checks every byte; `hdfs fsck PATH` tells of missing blocks"),
];

/// Of `mapred job`.
#[rustfmt::skip]
pub(crate) const JOB: &[Absent] = &[
    absent("submit", "a job is a program that submits itself (docs/mapreduce.md), or `mapred streaming …`"),
];

//! Examples of Hadoop's commands whose own helps have none: those texts are Hadoop's, word for word.

/// What stands behind the help of a command of `hanno`.
pub(crate) fn of(command: &str) -> Option<&'static str> {
    let (_, text) = EXAMPLES.iter().find(|(name, _)| *name == command)?;
    Some(text)
}

const EXAMPLES: &[(&str, &str)] = &[
    ("app", "  yarn app -list\n  yarn app -status application_202611201830_0001"),
    (
        "application",
        "  yarn application -list -appStates ALL\n  yarn application -kill application_202611201830_0001",
    ),
    ("applicationattempt", "  yarn applicationattempt -list application_202611201830_0001"),
    ("balancer", "  hdfs balancer -threshold 5"),
    ("checknative", "  hadoop checknative -a"),
    ("container", "  yarn container -list appattempt_202611201830_0001_000001"),
    (
        "debug",
        "  hdfs debug verifyMeta -meta blk_1_1.meta -block blk_1_1\n  hdfs debug recoverLease -path /logs/open -retries 3",
    ),
    ("dfs", "  hdfs dfs -ls -h /user\n  hdfs dfs -put report.txt /user/ada/"),
    (
        "dfsadmin",
        "  hdfs dfsadmin -report -live\n  hdfs dfsadmin -safemode get\n  hdfs dfsadmin -setSpaceQuota 10g /user/ada",
    ),
    (
        "distcp",
        "  hadoop distcp -update -p /logs hdfs://other:9870/logs\n  hadoop distcp -m 4 file:///data /data",
    ),
    ("ec", "  hdfs ec -getPolicy -path /logs"),
    ("envvars", "  hdfs envvars"),
    ("fetchdt", "  hdfs fetchdt --renewer etl etl.token"),
    ("fs", "  hadoop fs -ls -h /user\n  hadoop fs -put report.txt /user/ada/"),
    ("fsck", "  hdfs fsck / -files -blocks -locations\n  hdfs fsck /logs -list-corruptfileblocks"),
    ("getconf", "  hdfs getconf -namenodes\n  hdfs getconf -confKey dfs.replication"),
    ("groups", "  hdfs groups ada bob"),
    ("haadmin", "  hdfs haadmin -getServiceState nn1\n  hdfs haadmin -checkHealth nn1"),
    ("logs", "  yarn logs -applicationId application_202611201830_0001"),
    ("lsSnapshot", "  hdfs lsSnapshot /logs"),
    ("lsSnapshottableDir", "  hdfs lsSnapshottableDir"),
    ("mradmin", "  mapred mradmin -refreshNodes\n  mapred mradmin -refreshQueues"),
    ("node", "  yarn node -list -all"),
    (
        "queue",
        "  mapred queue -list\n  mapred queue -info default -showJobs\n  yarn queue -status default",
    ),
    (
        "snapshotDiff",
        "  hdfs snapshotDiff /logs monday tuesday\n  hdfs snapshotDiff /logs monday .",
    ),
    (
        "storagepolicies",
        "  hdfs storagepolicies -listPolicies\n  hdfs storagepolicies -getStoragePolicy -path /logs",
    ),
    ("top", "  yarn top"),
    ("version", "  hdfs version"),
];

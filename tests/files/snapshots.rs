//! Snapshots and quotas on real processes: a snapshot outlives its files and the NameNode, and its blocks go with it.

use std::fs;

use crate::support::{Cluster, Options, data};

const LEN: usize = 2_500_000;

#[test]
fn a_snapshot_keeps_a_deleted_file_through_a_restart_and_gives_its_blocks_back() {
    let cluster = Cluster::start(Options::tight());
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join("x");
    let content = data::bytes(7, LEN);
    fs::write(&source, &content).unwrap();
    let dfs = |args: &[&str]| cluster.dfs(args).ok().stdout_text();
    dfs(&["-mkdir", "-p", "/d/sub"]);
    dfs(&["-put", source.to_str().unwrap(), "/d/sub/x"]);
    dfs(&["-touchz", "/d/old"]);
    let allowed = cluster.hanno(&["dfsadmin", "-allowSnapshot", "/d"]).ok();
    assert_eq!(allowed.stdout_text(), "Allowing snapshot on /d succeeded\n");
    assert_eq!(dfs(&["-createSnapshot", "/d", "s"]), "Created snapshot /d/.snapshot/s\n");
    dfs(&["-rm", "-r", "-skipTrash", "/d/sub"]);
    dfs(&["-mv", "/d/old", "/d/new"]);
    dfs(&["-touchz", "/d/fresh"]);
    let refused = cluster.dfs(&["-rm", "-r", "-skipTrash", "/d"]);
    let text =
        "The directory /d cannot be deleted since /d is snapshottable and already has snapshots";
    assert!(refused.code == 1 && refused.stderr.contains(text), "{}", refused.stderr);

    cluster.kill("namenode-1");
    // Who reports a replica only when its block is gone keeps it for a while: it could be the metadata that is old.
    cluster.wait_until("every DataNode has told of its replicas", 60, |cluster| {
        let checked = cluster.hanno(&["fsck", "/d/.snapshot/s/sub/x", "-files", "-blocks"]);
        let text = checked.stdout_text();
        text.contains("Live_repl=3") && !text.contains("Live_repl=2")
    });
    let read = cluster.dfs(&["-cat", "/d/.snapshot/s/sub/x"]).ok().stdout;
    assert_eq!(data::sha256(&read), data::sha256(&content));
    let difference = cluster.hanno(&["snapshotDiff", "/d", "s", "."]).ok().stdout_text();
    assert_eq!(
        difference,
        "Difference between snapshot s and current directory under directory /d:\nM\t.\n+\t./fresh\nR\t./old -> ./new\n-\t./sub\n\n"
    );
    let listed = cluster.hanno(&["lsSnapshottableDir"]).ok().stdout_text();
    assert!(listed.ends_with(" 1 65536 /d\n"), "{listed}");
    assert!(dfs(&["-ls", "/d/.snapshot"]).contains("/d/.snapshot/s\n"));
    assert!(!dfs(&["-ls", "/d"]).contains(".snapshot"));
    assert!(!cluster.replicas().is_empty());

    let renamed = dfs(&["-renameSnapshot", "/d", "s", "t"]);
    let directory = format!("{}/d", cluster.namenode.replace("http:", "hanno:"));
    assert_eq!(renamed, format!("Renamed snapshot s to t under {directory}\n"));
    let deleted = dfs(&["-deleteSnapshot", "/d", "t"]);
    assert_eq!(deleted, format!("Deleted snapshot t under {directory}\n"));
    cluster
        .wait_until("the snapshot's blocks are gone", 60, |cluster| cluster.replicas().is_empty());
    let disallowed = cluster.hanno(&["dfsadmin", "-disallowSnapshot", "/d"]).ok();
    assert_eq!(disallowed.stdout_text(), "Disallowing snapshot on /d succeeded\n");
}

#[test]
fn quotas_refuse_in_hdfs_words_and_are_shown_by_count() {
    let cluster = Cluster::start(Options::tight());
    let admin = |args: &[&str]| {
        let words: Vec<&str> = ["dfsadmin"].iter().chain(args).copied().collect();
        cluster.hanno(&words)
    };
    cluster.dfs(&["-mkdir", "/d"]).ok();
    admin(&["-setQuota", "1", "/d"]).ok().prints("");
    let refused = cluster.dfs(&["-mkdir", "/d/a"]);
    let text = "mkdir: The NameSpace quota (directories and files) of directory /d is exceeded: quota=1 file count=2\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (1, text));
    admin(&["-setSpaceQuota", "1k", "/d"]).ok().prints("");
    let counted = cluster.dfs(&["-count", "-q", "/d"]).ok().stdout_text();
    let expected = "           1               0            1024            1024            1            0                  0 /d\n";
    assert_eq!(counted, expected);
    admin(&["-clrQuota", "/d"]).ok().prints("");
    let refused = cluster.dfs(&["-put", "/etc/hostname", "/d/f"]);
    let text =
        "The DiskSpace quota of /d is exceeded: quota = 1024 B = 1 KB but diskspace consumed = ";
    assert!(refused.code == 1 && refused.stderr.contains(text), "{}", refused.stderr);
    admin(&["-clrSpaceQuota", "/d"]).ok().prints("");
    cluster.dfs(&["-touchz", "/d/f"]).ok();
    for (words, expected) in [
        (
            &["-setQuota", "0", "/d"][..],
            "setQuota: Invalid values for quota : 0 and 9223372036854775807\n\
             Usage: hdfs dfsadmin [-setQuota <quota> <dirname>...<dirname>]\n",
        ),
        (&["-clrQuota", "/x"], "clrQuota: Directory does not exist: /x\n"),
        (&["-setQuota", "5", "/d/f"], "setQuota: `/d/f': Is not a directory\n"),
        (
            &["-setSpaceQuota", "a5", "/d"],
            "setSpaceQuota: \"a5\" is not a valid value for a quota.\n\
             Usage: hdfs dfsadmin [-setSpaceQuota <quota> [-storageType <storagetype>] <dirname>...<dirname>]\n",
        ),
    ] {
        let outcome = admin(words);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (255, expected));
    }
}

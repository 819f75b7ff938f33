//! Disks that refuse: no inodes left, read-only, not mounted any more, closed by rights. The DataNode lives on with its other
//! disks, tells which one has failed, its replicas are made anew elsewhere, and a disk that works again is used again.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{assert_content, assert_no_panics, datanodes, options, put};
use crate::support::{Cluster, Options, data, mount};

/// Bytes of each small disk.
const DISK_BYTES: u64 = 100 << 20;
/// Files on each: more than a DataNode begins with.
const DISK_INODES: u32 = 600;

fn failed_volumes(cluster: &Cluster) -> Vec<String> {
    let all = datanodes(cluster);
    let failed = all.iter().flat_map(|node| node["failed_volumes"].as_array().cloned());
    failed.flatten().map(|path| path.as_str().unwrap_or_default().to_owned()).collect()
}

/// Waits until exactly this disk has failed, and everything is there three times without it.
fn expect_failed(cluster: &Cluster, disk: &str) {
    cluster.wait_until("the disk is told to have failed", 60, |cluster| {
        let failed = failed_volumes(cluster);
        failed.len() == 1 && failed[0].ends_with(disk)
    });
    cluster.wait_healthy(60);
}

fn expect_back(cluster: &Cluster) {
    cluster.wait_until("the disk is back", 60, |cluster| failed_volumes(cluster).is_empty());
    cluster.wait_healthy(60);
}

/// Empty files until there is no inode left; removed when dropped.
struct Crowd<'a>(&'a Path);

impl Crowd<'_> {
    fn fill(directory: &Path) -> Crowd<'_> {
        for number in 0..=DISK_INODES {
            if File::create(directory.join(format!("crowd-{number}"))).is_err() {
                return Crowd(directory);
            }
        }
        panic!("{} takes any number of files", directory.display());
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        for number in 0..=DISK_INODES {
            let _ = fs::remove_file(self.0.join(format!("crowd-{number}")));
        }
    }
}

#[test]
fn a_datanode_lives_on_when_a_disk_refuses_files_writes_or_entry() {
    if !mount::is_possible() {
        return;
    }
    let disks = ["datanode-1-disk-2", "datanode-2-disk-2"];
    let mut options = Options {
        disks: 2,
        mounts: disks.map(|disk| (disk, DISK_BYTES)).to_vec(),
        mount_inodes: DISK_INODES,
        unprivileged: true,
        ..options(3)
    };
    options.variables.push(("HANNO_DATANODE_VOLUME_CHECK_MS", "300".to_owned()));
    let cluster = Cluster::start(options);
    let daemons = ["datanode-1", "datanode-2", "datanode-3"];
    let pids = daemons.map(|daemon| cluster.pid(daemon));
    let content = |number: u64| data::bytes(number, 150_000);
    let mut file_count = 0;
    let mut put_some = || {
        for _ in 0..6 {
            put(&cluster, &format!("/f{file_count}"), &content(file_count), (1 << 20, 3));
            file_count += 1;
        }
    };
    put_some();
    {
        let volume = cluster.seen_by_daemons("datanode-1-disk-2");
        let _crowd = Crowd::fill(&volume);
        put_some();
    }
    expect_back(&cluster);
    put_some();

    let second = cluster.directory.join("datanode-2-disk-2");
    let second = second.to_str().unwrap();
    let beside = pids[1].unwrap();
    // A file system with open files cannot be made read-only by hand: the same one is mounted over itself, read-only.
    mount::run_beside(beside, &["mount", "--bind", "-o", "ro", second, second]);
    put_some();
    expect_failed(&cluster, "datanode-2-disk-2");
    mount::run_beside(beside, &["umount", second]);
    expect_back(&cluster);

    let third = cluster.seen_by_daemons("datanode-3-disk-2");
    fs::set_permissions(&third, Permissions::from_mode(0o000)).unwrap();
    expect_failed(&cluster, "datanode-3-disk-2");
    put_some();
    fs::set_permissions(&third, Permissions::from_mode(0o700)).unwrap();
    expect_back(&cluster);

    // What is below the mount point is empty: like a new disk.
    mount::run_beside(beside, &["umount", "--lazy", second]);
    put_some();
    cluster.wait_until("what it held is made anew", 60, |cluster| {
        cluster.hanno(&["fsck", "/"]).stdout_text().contains("Under-replicated blocks:\t0")
            && failed_volumes(cluster).is_empty()
    });
    cluster.wait_healthy(60);
    for number in 0..file_count {
        assert_content(&cluster, &format!("/f{number}"), &content(number));
    }
    assert_eq!(pids, daemons.map(|daemon| cluster.pid(daemon)), "all of them live on");
    assert_no_panics(&cluster);
}

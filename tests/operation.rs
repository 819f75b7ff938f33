//! Operating DataNodes on a running cluster: draining them, losing a disk, evening them out.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::report::{Stop, address, admin_state, datanodes};
use crate::support::{Cluster, Options, data, http, mount, processes};

fn put(cluster: &Cluster, local: &Path, name: &str, content: &[u8]) {
    let source = local.join(name);
    fs::write(&source, content).unwrap();
    let path = format!("/{name}");
    cluster.dfs(&["-D", "dfs.blocksize=1048576", "-put", source.to_str().unwrap(), &path]).ok();
}

#[test]
fn a_datanode_is_drained_under_load_and_comes_back() {
    let local = tempfile::tempdir().unwrap();
    let exclude = local.path().join("exclude");
    fs::write(&exclude, "").unwrap();
    let mut options = Options { datanodes: 4, workers: 1, ..Options::tight() };
    let variable = ("HANNO_NAMENODE_HOSTS_EXCLUDE_FILE", exclude.to_str().unwrap().to_owned());
    options.variables.push(variable);
    let cluster = Cluster::start(options);
    let content =
        |number: u64| data::bytes(number, 300_000 + (number as usize * 77_777) % 2_000_000);
    for number in 0..8 {
        put(&cluster, local.path(), &format!("f{number}"), &content(number));
    }
    let drained = address(&cluster, 2);
    let done = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 8;
            while !done.load(Ordering::Relaxed) {
                put(&cluster, local.path(), &format!("f{number}"), &content(number));
                number += 1;
            }
            number
        });
        let stop = Stop(&done);
        fs::write(&exclude, format!("# switched off soon\n{drained}\n")).unwrap();
        cluster.hanno(&["dfsadmin", "-refreshNodes"]).ok().prints("Refresh nodes successful\n");
        cluster.wait_until("it is drained", 90, |cluster| {
            admin_state(cluster, &drained) == "Decommissioned"
        });
        drop(stop);
        writer.join().unwrap()
    });
    // Without it everything is there three times.
    let elsewhere = |cluster: &Cluster| {
        let replicas = cluster.replicas();
        let mut counts = std::collections::BTreeMap::new();
        for (number, path) in replicas {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            *counts.entry(name).or_insert(0) += u32::from(number != 2);
        }
        counts.values().all(|count| *count >= 3)
    };
    cluster.wait_until("every block has three replicas elsewhere", 60, elsewhere);
    for number in 0..written {
        let found = cluster.dfs(&["-cat", &format!("/f{number}")]).ok().stdout;
        assert!(found == content(number), "/f{number}");
    }
    let ordinary = cluster.hanno(&["dfsadmin", "-printTopology"]).ok().stdout_text();
    assert!(ordinary.contains("Rack: /default-rack\n   ") && ordinary.contains(&drained));
    // Back in service: what is too much goes.
    fs::write(&exclude, "").unwrap();
    cluster.hanno(&["dfsadmin", "-refreshNodes"]).ok();
    cluster
        .wait_until("it is in service", 60, |cluster| admin_state(cluster, &drained) == "Normal");
    cluster.wait_healthy(60);
}

/// Names DataNodes as in maintenance until a time, milliseconds since the epoch, in HDFS's list of JSON.
fn maintain(cluster: &Cluster, list: &Path, entries: &[(&str, u64)]) {
    let entry = |(address, until_ms): &(&str, u64)| {
        let (host, port) = address.rsplit_once(':').unwrap();
        serde_json::json!({
            "hostName": host,
            "port": port.parse::<u16>().unwrap(),
            "adminState": "IN_MAINTENANCE",
            "maintenanceExpireTimeInMS": until_ms,
        })
    };
    let entries: Vec<serde_json::Value> = entries.iter().map(entry).collect();
    fs::write(list, serde_json::to_vec(&entries).unwrap()).unwrap();
    cluster.hanno(&["dfsadmin", "-refreshNodes"]).ok();
}

/// Numbers of the DataNodes with the only block of `/single`.
fn holders_of_single(cluster: &Cluster) -> Vec<u32> {
    let text = cluster.hanno(&["fsck", "/single", "-files", "-blocks", "-locations"]).stdout_text();
    let held = (1..=4).filter(|number| text.contains(&address(cluster, *number)));
    held.collect()
}

/// True if a DataNode's liveness is this.
fn is_state(cluster: &Cluster, address: &str, state: &str) -> bool {
    let nodes = datanodes(cluster);
    let mut named = nodes.iter().filter(|node| node["info"]["transfer_address"] == address);
    named.any(|node| node["state"] == state)
}

/// A DataNode in maintenance is silent for longer than it takes to be dead: everything can be read and nothing is copied. It is
/// left silent.
fn stays_off(
    cluster: &Cluster,
    (number, kept): (u32, &str),
    local: &Path,
    content: fn(u64) -> Vec<u8>,
) {
    let before = cluster.replicas().len();
    processes::pause(cluster.pid(&format!("datanode-{number}")).unwrap());
    cluster.wait_until("it is dead", 60, |cluster| is_state(cluster, kept, "Dead"));
    for number in 0..8 {
        assert!(cluster.dfs(&["-cat", &format!("/f{number}")]).ok().stdout == content(number));
    }
    assert!(cluster.dfs(&["-cat", "/single"]).ok().stdout == content(99));
    put(cluster, local, "meanwhile", &content(50));
    // The last replica of a block is told behind its acknowledgement.
    cluster.wait_until(
        "everything has its replicas, those in maintenance included",
        60,
        |cluster| {
            let fsck = cluster.hanno(&["fsck", "/", "-maintenance"]).stdout_text();
            fsck.contains(" Under-replicated blocks:\t0 (0.0 %)")
                && fsck.contains(" InMaintenanceReplicas:\t")
        },
    );
    let status = cluster.hanno(&["admin", "report", "--json"]).ok().stdout_text();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["status"]["low_redundancy_count"], 0, "nothing is to be copied");
    assert_eq!(cluster.replicas().len(), before + 3 * 2, "no copies but those of the new file");
    stays_off_over_a_restart(cluster, kept, before + 3 * 2);
}

/// A NameNode that restarts meanwhile still knows the node and what it has.
fn stays_off_over_a_restart(cluster: &Cluster, kept: &str, replica_count: usize) {
    let former = cluster.pid("namenode-1");
    cluster.kill("namenode-1");
    cluster.wait_until("another NameNode is out of safe mode", 60, |cluster| {
        let state = cluster.hanno(&["dfsadmin", "-safemode", "get"]);
        cluster.pid("namenode-1") != former && state.stdout_text().contains("Safe mode is OFF")
    });
    assert!(is_state(cluster, kept, "Dead"));
    assert_eq!(admin_state(cluster, kept), "InMaintenance");
    cluster.wait_until("everything has its replicas again", 60, |cluster| {
        let fsck = cluster.hanno(&["fsck", "/", "-maintenance"]).stdout_text();
        fsck.contains(" Under-replicated blocks:\t0 (0.0 %)")
            && fsck.contains(" InMaintenanceReplicas:\t")
    });
    assert_eq!(cluster.replicas().len(), replica_count, "nothing was copied");
}

/// A DataNode stays off for longer than was said: at the end of the time the copies are made.
fn stays_off_too_long(cluster: &Cluster, (number, kept): (u32, &str), list: &Path) {
    let daemon = format!("datanode-{number}");
    maintain(cluster, list, &[(kept, transport::rpc::now_ms() + 2000)]);
    processes::pause(cluster.pid(&daemon).unwrap());
    cluster.wait_until("its time is over and it is dead", 60, |cluster| {
        admin_state(cluster, kept) == "Normal" && is_state(cluster, kept, "Dead")
    });
    cluster.wait_until("every other file has three replicas elsewhere", 60, |cluster| {
        let mut counts = std::collections::BTreeMap::new();
        for (holder, path) in cluster.replicas() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            *counts.entry(name).or_insert(0) += u32::from(holder != number);
        }
        counts.values().filter(|count| **count >= 3).count() >= 9 * 2
    });
    cluster.kill(&daemon);
}

#[test]
fn a_datanode_in_maintenance_may_be_off_without_copies_and_everything_is_exact_afterwards() {
    let local = tempfile::tempdir().unwrap();
    let list = local.path().join("hosts.json");
    fs::write(&list, "[]").unwrap();
    let mut options = Options { datanodes: 4, workers: 1, ..Options::tight() };
    options.variables.push(("HANNO_NAMENODE_HOSTS_FILE", list.to_str().unwrap().to_owned()));
    // A NameNode that starts again waits for all that are not off: one that came too late would be copied from.
    options.variables.push(("HANNO_NAMENODE_SAFE_MODE_DATANODES", "3".to_owned()));
    let cluster = Cluster::start(options);
    let content = |number: u64| data::bytes(number, 1_300_000);
    for number in 0..8 {
        put(&cluster, local.path(), &format!("f{number}"), &content(number));
    }
    // One whose only replica must first be copied, wherever it is.
    let source = local.path().join("single");
    fs::write(&source, content(99)).unwrap();
    let source = source.to_str().unwrap();
    cluster.dfs(&["-D", "dfs.replication=1", "-put", source, "/single"]).ok();
    cluster.wait_healthy(60);
    let number = holders_of_single(&cluster)[0];
    let kept = address(&cluster, number);
    maintain(&cluster, &list, &[(&kept, u64::MAX)]);
    cluster.wait_until("it is in maintenance", 60, |cluster| {
        admin_state(cluster, &kept) == "InMaintenance"
    });
    assert_eq!(holders_of_single(&cluster).len(), 2, "its only replica was copied");
    let report = cluster.hanno(&["dfsadmin", "-report", "-inmaintenance"]).ok().stdout_text();
    assert!(report.contains("In maintenance datanodes (1):\n\nName: ") && report.contains(&kept));
    assert!(report.contains("Decommission Status : In maintenance\n"), "{report}");
    stays_off(&cluster, (number, &kept), local.path(), content);
    // Back as another process, and out of maintenance: exactly what is wanted everywhere.
    cluster.kill(&format!("datanode-{number}"));
    cluster.wait_until("it is back", 60, |cluster| is_state(cluster, &kept, "Live"));
    maintain(&cluster, &list, &[]);
    assert_eq!(admin_state(&cluster, &kept), "Normal");
    cluster.wait_healthy(60);
    cluster.wait_until("the copy that was made too much is gone", 60, |cluster| {
        holders_of_single(cluster).len() == 1 && cluster.replicas().len() == 9 * 3 * 2 + 1
    });
    stays_off_too_long(&cluster, (number, &kept), &list);
    cluster.wait_healthy(60);
}

#[test]
fn a_disk_that_goes_away_is_fenced_its_blocks_are_copied_and_it_comes_back() {
    let mut options = Options { workers: 1, disks: 2, ..Options::tight() };
    options.variables.push(("HANNO_DATANODE_VOLUME_CHECK_MS", "300".to_owned()));
    let cluster = Cluster::start(options);
    let local = tempfile::tempdir().unwrap();
    let contents: Vec<Vec<u8>> = (0..6).map(|number| data::bytes(number, 1_500_000)).collect();
    for (number, content) in contents.iter().enumerate() {
        put(&cluster, local.path(), &format!("f{number}"), content);
    }
    cluster.wait_healthy(60);
    cluster.wait_until("what is used is told", 60, |cluster| {
        let nodes = datanodes(cluster);
        let used: u64 = nodes.iter().filter_map(|node| node["used"].as_u64()).sum();
        used >= 6 * 3 * 1_500_000
    });
    let disk = cluster.directory.join("datanode-1-disk-2");
    let aside = cluster.directory.join("aside");
    let pid = cluster.pid("datanode-1");
    fs::rename(&disk, &aside).unwrap();
    let failed_count = |cluster: &Cluster| -> usize {
        let nodes = datanodes(cluster);
        nodes.iter().filter_map(|node| Some(node["failed_volumes"].as_array()?.len())).sum()
    };
    cluster.wait_until("the failed disk is reported", 60, |cluster| failed_count(cluster) == 1);
    cluster.wait_healthy(60);
    for (number, content) in contents.iter().enumerate() {
        assert!(cluster.dfs(&["-cat", &format!("/f{number}")]).ok().stdout == *content);
    }
    assert_eq!(cluster.pid("datanode-1"), pid, "it lives on with its other disk");
    assert_eq!(failed_on_pages(&cluster), ["datanode-1-disk-2"]);
    fs::rename(&aside, &disk).unwrap();
    cluster.wait_until("the disk is back", 60, |cluster| failed_count(cluster) == 0);
    cluster.wait_healthy(60);
    assert_eq!(cluster.pid("datanode-1"), pid);
    assert_eq!(failed_on_pages(&cluster), Vec::<String>::new());
}

/// Names of the volumes that have failed, as the pages of the DataNodes tell those who are signed in.
fn failed_on_pages(cluster: &Cluster) -> Vec<String> {
    let session = cluster.session("NameNode", "tester");
    let mut failed = Vec::new();
    for node in datanodes(cluster) {
        let id = node["info"]["id"].as_str().unwrap();
        let page = format!("{}/datanodes/{id}", cluster.namenode);
        http::request("GET", &page, b"").is(401);
        let page = http::request_with("GET", &page, &session, b"").is(200).text();
        let rows = page.split("<tr id=\"volume-").skip(1);
        let told = rows.filter(|row| row.split("</tr>").next().unwrap().contains(">failed<"));
        let paths = told.map(|row| row.split('"').next().unwrap());
        failed.extend(paths.map(|path| path.rsplit('/').next().unwrap().to_owned()));
    }
    let nobody = format!("{}/datanodes/{}", cluster.namenode, "0".repeat(32));
    http::request_with("GET", &nobody, &session, b"").is(404);
    http::request_with("GET", &format!("{nobody}0"), &session, b"").is(404);
    failed
}

#[test]
fn the_balancer_evens_out_a_cluster_with_a_new_datanode() {
    if !mount::is_possible() {
        return;
    }
    let local = tempfile::tempdir().unwrap();
    let exclude = local.path().join("exclude");
    fs::write(&exclude, "127.0.0.1\n").unwrap();
    // Small disks, so that some megabytes are many per cent of them.
    let daemons = ["datanode-1", "datanode-2", "datanode-3"];
    let mounts = daemons.map(|daemon| (daemon, 100 << 20)).to_vec();
    let mut options = Options { workers: 1, mounts, ..Options::tight() };
    let variable = ("HANNO_NAMENODE_HOSTS_EXCLUDE_FILE", exclude.to_str().unwrap().to_owned());
    options.variables.push(variable);
    let cluster = Cluster::start(options);
    // The third one is as good as new until it is in service.
    let third = address(&cluster, 3);
    fs::write(&exclude, &third).unwrap();
    cluster.hanno(&["dfsadmin", "-refreshNodes"]).ok();
    let contents: Vec<Vec<u8>> = (0..10).map(|number| data::bytes(number, 3 << 20)).collect();
    for (number, content) in contents.iter().enumerate() {
        let source = local.path().join("x");
        fs::write(&source, content).unwrap();
        let (source, path) = (source.to_str().unwrap(), format!("/f{number}"));
        let sizes = ["-D", "dfs.blocksize=1048576", "-D", "dfs.replication=2"];
        cluster.dfs(&[&sizes[..], &["-put", source, &path]].concat()).ok();
    }
    fs::write(&exclude, "").unwrap();
    cluster.hanno(&["dfsadmin", "-refreshNodes"]).ok();
    let used = |cluster: &Cluster| -> Vec<u64> {
        datanodes(cluster).iter().filter_map(|node| node["used"].as_u64()).collect()
    };
    assert_eq!(used(&cluster).iter().filter(|used| **used == 0).count(), 1, "{:?}", used(&cluster));
    cluster.hanno(&["dfsadmin", "-setBalancerBandwidth", "2000000"]).ok();
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| cluster.hanno(&["balancer", "-threshold", "3"]));
        cluster.wait_until("it holds its lease", 60, |cluster| {
            cluster.dfs(&["-test", "-e", "/system/balancer.id"]).code == 0
        });
        let second = cluster.hanno(&["balancer", "-threshold", "3"]);
        (first.join().unwrap(), second)
    });
    assert_eq!(second.code, 255, "one at a time: {}", second.stdout_text());
    let text = first.ok().stdout_text();
    assert!(text.contains("The cluster is balanced. Exiting..."), "{text}");
    println!("{text}");
    let after = used(&cluster);
    let total: u64 = after.iter().sum();
    assert_eq!(total, 2 * 30 * (1 << 20), "two replicas of everything: {after:?}");
    for used in after {
        assert!(used.abs_diff(total / 3) <= 4 << 20, "within the threshold");
    }
    assert_eq!(
        cluster.dfs(&["-test", "-e", "/system/balancer.id"]).code,
        1,
        "the lease is given back"
    );
    cluster.wait_healthy(60);
    for (number, content) in contents.iter().enumerate() {
        assert!(cluster.dfs(&["-cat", &format!("/f{number}")]).ok().stdout == *content);
    }
    let again = cluster.hanno(&["balancer", "-threshold", "3"]).ok().stdout_text();
    assert!(again.contains("The cluster is balanced"), "{again}");
}

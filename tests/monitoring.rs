//! What monitors read of a live cluster: `/metrics` of each daemon, `/jmx` and `/healthz` of the NameNode.

use std::collections::BTreeMap;
use std::fs;

use protocol::auth::Role;
use transport::RpcError;
use transport::rpc::{RpcClient, read_secret, runtime};

use crate::support::cluster::SUPERUSER;
use crate::support::{Cluster, Options, http};

/// The samples of an OpenMetrics text, by name and labels. Panics on a line that is none.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    assert!(text.ends_with("# EOF\n"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with("# ")) {
        let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        let bare = name.split('{').next().unwrap();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        assert!(!bare.is_empty() && bare.chars().all(is_name), "{line}");
        assert_eq!(name.contains('{'), name.ends_with('}'), "{line}");
        let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        assert!(samples.insert(name.to_owned(), value).is_none(), "twice: {line}");
    }
    samples
}

/// The figures of a daemon.
pub(crate) fn metrics(address: &str) -> BTreeMap<String, f64> {
    let answer = http::request("GET", &format!("{address}/metrics"), b"").is(200);
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    samples(&answer.text())
}

/// A job shows in the figures of the only worker.
fn check_worker(cluster: &Cluster, worker: &str) {
    let health = http::request("GET", &format!("{worker}/healthz"), b"").is(200);
    assert_eq!(health.json()["service"], "worker");
    let ended =
        |kind| format!("worker_attempts_ended_total{{kind=\"{kind}\",state=\"succeeded\"}}");
    let before = metrics(worker);
    assert_eq!(before["worker_slots"], 1.0);
    cluster.example("wordcount", &["--reducers", "2", "/file", "/counted"]).ok();
    let after = metrics(worker);
    assert!(after[&ended("map")] > before[&ended("map")], "{after:?}");
    assert_eq!(after[&ended("reduce")] - before[&ended("reduce")], 2.0, "{after:?}");
    for figure in [
        "worker_attempts_running{kind=\"map\"}",
        "worker_limits_exceeded_total{limit=\"memory\"}",
        "worker_task_memory_bytes",
        "worker_task_disk_bytes",
        "worker_shuffle_served_bytes_total",
        "process_resident_memory_bytes",
    ] {
        assert!(after.contains_key(figure), "{figure} is not in {after:?}");
    }
}

fn text(url: &str) -> String {
    http::request("GET", url, b"").is(200).text()
}

/// What the owner of the secret is answered, or the status.
fn signed(cluster: &Cluster, address: &str, path: &str) -> Result<String, u16> {
    let secret = read_secret(&cluster.directory.join("secret")).unwrap();
    let rpc = RpcClient::new(address, Role::Client, Some(&secret)).unwrap();
    runtime().block_on(async {
        match rpc.get_as(SUPERUSER, path).await {
            Ok(answer) => Ok(answer.text().await.unwrap()),
            Err(RpcError::Status { status, .. }) => Err(status),
            Err(error) => panic!("{error}"),
        }
    })
}

/// What tools built around Hadoop ask of every daemon; `key` is one of its settings.
fn check_daemon(cluster: &Cluster, address: &str, key: &str) {
    let jmx = http::request("GET", &format!("{address}/jmx?qry=java.lang:*"), b"").is(200).json();
    assert!(jmx["beans"][0]["HeapMemoryUsage"]["used"].as_u64().unwrap() > 0, "{jmx}");
    assert!(text(&format!("{address}/prom")).ends_with("# EOF\n"));
    // How a daemon is set up is told to users; NameNode and DataNodes believe names here.
    let believes = !["jobtracker", "worker"].iter().any(|daemon| key.contains(daemon));
    for path in ["/conf", "/logLevel?log=x", "/stacks", "/logLevel?log=x&level=debug"] {
        let status = http::request("GET", &format!("{address}{path}"), b"").status;
        assert_eq!(status == 401, !believes || path.contains("level=debug"), "{path}: {status}");
    }
    let asked = |path: &str| signed(cluster, address, path);
    let one = asked(&format!("/conf?name={key}&format=json")).unwrap();
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["property"]["key"], key);
    assert!(asked("/conf").unwrap().contains(&format!("<name>{key}</name>")));
    assert_eq!(asked("/conf?name=x"), Err(404));
    assert_eq!(asked("/stacks"), Err(404));
    let level = || asked("/logLevel?log=some_part").unwrap();
    assert!(level().contains("Effective Level: <b>INFO</b>"), "{}", level());
    let set = ["admin", "log-level", address, "some_part", "debug"];
    assert_eq!(cluster.hanno(&set).ok().stdout_text(), "debug\n");
    assert!(level().contains("Effective Level: <b>DEBUG</b>"));
    assert_eq!(cluster.hanno(&["admin", "log-level", address, "some_part", "loud"]).code, 1);
}

fn check_namenode(cluster: &Cluster) {
    let address = &cluster.namenode;
    check_daemon(cluster, address, "dfs.replication");
    assert_eq!(text(&format!("{address}/isActive")), "I am Active!");
    let startup = http::request("GET", &format!("{address}/startupProgress"), b"").is(200).json();
    assert_eq!(startup["percentComplete"], 1.0);
    // The start is over: its times are what they were.
    let phases = startup["phases"].as_array().unwrap();
    let times = phases.iter().map(|phase| phase["elapsedTime"].as_u64().unwrap());
    assert!(startup["elapsedTime"].as_u64().unwrap().abs_diff(times.sum()) <= 3, "{startup}");
    let again = http::request("GET", &format!("{address}/startupProgress"), b"").is(200).json();
    assert_eq!(again, startup);
    // The times are those of the call.
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with("FSCK "));
        lines.map(str::to_owned).collect()
    };
    let ours = cluster.hanno(&["fsck", "/", "-files", "-blocks"]).ok().stdout_text();
    let query = "ugi=tester&path=%2F&files=1&blocks=1";
    let theirs = text(&format!("{address}/fsck?{query}"));
    assert_eq!(lines(&theirs), lines(&ours));
    assert!(theirs.contains("is HEALTHY") && theirs.contains("/file"), "{theirs}");
    let repair = http::request("GET", &format!("{address}/fsck?ugi=tester&path=%2F&delete=1"), b"");
    assert_eq!(repair.status, 403);
}

fn check_datanode(address: &str) {
    let bean = format!("{address}/jmx?qry=Hadoop:service=DataNode,name=FSDatasetState");
    let bean = http::request("GET", &bean, b"").is(200).json();
    assert!(bean["beans"][0]["NumBlocks"].as_u64().unwrap() > 0, "{bean}");
    let report = text(&format!("{address}/blockScannerReport"));
    assert!(report.starts_with("Bytes verified since restart      :"), "{report}");
}

#[test]
fn monitors_see_what_happens() {
    let mut options = Options { workers: 1, ..Options::tight() };
    // Hadoop's tool asks for `/fsck` with a name and nothing else.
    let simple = r#"{ auth = "simple" }"#.to_owned();
    options.variables.push(("HANNO_NAMENODE_WEBHDFS", simple.clone()));
    options.variables.push(("HANNO_DATANODE_WEBHDFS", simple));
    let cluster = Cluster::start(options);
    let before = metrics(&cluster.namenode);
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join("file");
    fs::write(&source, vec![7; 2500]).unwrap();
    cluster.dfs(&["-D", "dfs.blocksize=1024", "-put", source.to_str().unwrap(), "/file"]).ok();
    assert_eq!(cluster.dfs(&["-cat", "/missing"]).code, 1);
    cluster.wait_healthy(60);

    let after = metrics(&cluster.namenode);
    assert_eq!(after["namenode_blocks"] - before["namenode_blocks"], 3.0);
    assert_eq!(after["namenode_datanodes_live"], 3.0);
    assert_eq!(after["namenode_missing_blocks"], 0.0);
    for grows in [
        "namenode_changes_seconds_count",
        "namenode_reads_seconds_count",
        "namenode_refused_calls_total",
        "namenode_journal_commits_total",
        "namenode_last_txid",
    ] {
        assert!(after[grows] > before[grows], "{grows}");
    }
    let report = cluster.hanno(&["admin", "report", "--json"]).ok().stdout_text();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let mut replicas = 0.0;
    for node in report["datanodes"].as_array().unwrap() {
        let address = format!("http://{}", node["info"]["http_address"].as_str().unwrap());
        let figures = metrics(&address);
        replicas += figures["datanode_replicas"];
        assert!(figures["process_resident_memory_bytes"] > 0.0);
    }
    assert_eq!(replicas, 9.0);
    assert!(metrics(&cluster.jobtracker).contains_key("mr_slots{state=\"free\"}"));

    let jmx = |query: &str| {
        let url = format!("{}/jmx{query}", cluster.namenode);
        http::request("GET", &url, b"").is(200).json()["beans"].clone()
    };
    let state = jmx("?qry=Hadoop:service=NameNode,name=FSNamesystemState");
    assert_eq!(state[0]["NumLiveDataNodes"], 3);
    assert_eq!(state[0]["BlocksTotal"], 3);
    assert!(jmx("").as_array().unwrap().len() > 5);
    let health = http::request("GET", &format!("{}/healthz", cluster.namenode), b"").is(200);
    assert_eq!(health.json()["ready"], true);
    let nodes = report["datanodes"].as_array().unwrap();
    let datanode = format!("http://{}", nodes[0]["info"]["http_address"].as_str().unwrap());
    check_namenode(&cluster);
    check_datanode(&datanode);
    check_daemon(&cluster, &datanode, "hanno.datanode.rack");
    check_daemon(&cluster, &cluster.jobtracker, "hanno.jobtracker.namenode");

    let workers = format!("{}/api/v1/workers", cluster.jobtracker);
    let workers = http::request("GET", &workers, b"").is(200).json();
    let worker = format!("http://{}", workers[0]["http_address"].as_str().unwrap());
    check_worker(&cluster, &worker);
    check_daemon(&cluster, &worker, "hanno.worker.bind");
}

/// The number after a label, in the text of a command.
fn number_after(text: &str, label: &str) -> u64 {
    let rest = text.split_once(label).unwrap_or_else(|| panic!("no `{label}` in {text}")).1;
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// Three DataNodes on one disk: the cluster has that disk once, wherever it is told, and each DataNode has all of it.
#[test]
fn a_disk_that_datanodes_share_counts_once() {
    let mut options = Options { workers: 1, ..Options::tight() };
    options.variables.push(("HANNO_NAMENODE_WEBHDFS", r#"{ auth = "simple" }"#.to_owned()));
    let cluster = Cluster::start(options);
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join("file");
    fs::write(&source, vec![7; 2500]).unwrap();
    cluster.dfs(&["-put", source.to_str().unwrap(), "/file"]).ok();
    let used = 3.0 * 2500.0;
    cluster.wait_until("all replicas are counted", 30, |cluster| {
        metrics(&cluster.namenode)["namenode_used_bytes"] == used
    });

    let json = cluster.hanno(&["admin", "report", "--json"]).ok().stdout_text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let nodes = json["datanodes"].as_array().unwrap();
    let capacity = json["room"]["capacity"].as_u64().unwrap();
    assert_eq!(nodes.len(), 3);
    for node in nodes {
        assert_eq!(node["capacity"], capacity, "each has all of the disk: {json}");
    }
    let disk = sys::fs::space(&cluster.directory).unwrap().capacity;
    assert!(0 < capacity && capacity <= disk, "{capacity} of {disk}");

    let report = cluster.hanno(&["dfsadmin", "-report"]).ok().stdout_text();
    let df = cluster.dfs(&["-df", "/"]).ok().stdout_text();
    let df: Vec<&str> = df.lines().last().unwrap().split_whitespace().collect();
    let status = format!("{}/webhdfs/v1/?op=GETSTATUS", cluster.namenode);
    let status = http::request("GET", &status, b"").is(200).json()["FsStatus"].clone();
    let beans = format!("{}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystem", cluster.namenode);
    let bean = http::request("GET", &beans, b"").is(200).json()["beans"][0].clone();
    let figures = metrics(&cluster.namenode);
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    for (who, told) in [
        ("-report", number_after(&report, "Configured Capacity: ")),
        ("-df", df[1].parse().unwrap()),
        ("GETSTATUS", number(&status["capacity"])),
        ("/jmx", number(&bean["CapacityTotal"])),
        ("/metrics", figures["namenode_capacity_bytes"] as u64),
    ] {
        assert_eq!(told, capacity, "{who}");
    }
    for (who, told) in [
        ("-report", number_after(&report, "DFS Used: ")),
        ("-df", df[2].parse().unwrap()),
        ("GETSTATUS", number(&status["used"])),
        ("/jmx", number(&bean["CapacityUsed"])),
    ] {
        assert_eq!(told, used as u64, "{who}");
    }
    assert!(number(&json["room"]["remaining"]) <= capacity, "{json}");
}

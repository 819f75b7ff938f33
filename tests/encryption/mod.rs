//! What leaves a machine: nobody on the way reads it, changes it or takes a daemon's place.

mod machines;
mod relay;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use client::ClientConfig;
use client::dfs::DfsClient;
use protocol::DfsPath;

use self::machines::{Link, Machines, outer};
use crate::support::Outcome;
use crate::support::cluster::SUPERUSER;
use crate::support::http;

/// Words that occur nowhere else.
const MARK: &str = "Mhyperborea";
const NAME: &str = "Nultimathule";

/// Lines with the mark, about so many bytes.
fn marked(bytes: usize) -> String {
    let line = |number: usize| format!("{MARK} {number} {MARK}\n");
    (0..).map(line).take(bytes / line(100_000).len()).collect()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    regex::bytes::Regex::new(text).unwrap().is_match(bytes)
}

#[test]
fn whoever_holds_the_links_reads_nothing() {
    let Some(ip) = outer() else { return };
    let machines = Machines::start(ip, Link::Honest, "");
    let (file, content) = (machines.directory.join("in.txt"), marked(3 << 20));
    fs::write(&file, &content).unwrap();
    let path = format!("/{NAME}/in.txt");
    machines.hanno(&["dfs", "-mkdir", &format!("/{NAME}")]).ok();
    machines.hanno(&["dfs", "-D", "dfs.replication=2", "-put", file.to_str().unwrap(), &path]).ok();
    let read = machines.hanno(&["dfs", "-cat", &path]).ok();
    assert!(read.stdout == content.as_bytes());
    let blocks = ["-D", "mapreduce.input.fileinputformat.split.maxsize=1048576"];
    let plain = ["-D", "mapreduce.map.output.compress=false"];
    let out = format!("/{NAME}/out");
    let arguments = [&blocks[..], &plain, &["--reducers", "2", &path, &out]].concat();
    machines.example("wordcount", &arguments).ok();
    let counts = machines.hanno(&["dfs", "-cat", &format!("{out}/part-*")]).ok().stdout_text();
    let count = content.matches(MARK).count();
    assert!(counts.contains(&format!("{MARK}\t{count}\n")), "the job counts right");

    let secret = fs::read_to_string(machines.directory.join("secret")).unwrap();
    let secret = secret.lines().find(|line| line.len() >= 64).unwrap().trim().to_owned();
    for (name, link) in &machines.links {
        let bytes = link.bytes();
        let least = match name.strip_suffix("-blocks") {
            Some(_) => content.len(),
            // Of DataNodes only foreign clients use more than that port.
            None if name.starts_with("datanode") => 0,
            None => 4096,
        };
        assert!(bytes.len() >= least, "{name}: {} bytes", bytes.len());
        for text in [MARK, NAME, SUPERUSER, secret.as_str(), "HTTP/1.1", "authorization"] {
            assert!(!holds(&bytes, text), "{name}: {text} can be read on the link");
        }
    }
}

#[test]
fn whoever_shows_another_certificate_is_found_out() {
    let Some(ip) = outer() else { return };
    let machines = Machines::start(ip, Link::Between, "");
    let file = machines.directory.join("in.txt");
    fs::write(&file, marked(1 << 16)).unwrap();
    let put = machines.hanno(&["dfs", "-put", file.to_str().unwrap(), "/in.txt"]);
    assert_ne!(put.code, 0);
    for (name, link) in machines.links.iter().filter(|(name, _)| name.ends_with("-blocks")) {
        let bytes = link.bytes();
        assert!(!bytes.is_empty(), "{name}: somebody said hello");
        assert!(!holds(&bytes, MARK), "{name}: data went to somebody else");
    }

    let between = relay::Relay::between(machines.namenode);
    let mut command = machines.caller.dfs(&["-ls", "/"]);
    command.env("HANNO_NAMENODE", format!("http://{}", between.address));
    command.env("HANNO_SECRET_FILE", machines.directory.join("secret"));
    let refused = Outcome::of(command);
    assert_ne!(refused.code, 0);
    let unproven = transport::RpcError::Unproven { address: format!("http://{}", between.address) };
    assert!(refused.stderr.contains(&unproven.to_string()), "{}", refused.stderr);
    assert!(!holds(&between.bytes(), "POST /rpc"), "no call went to somebody else");
}

#[test]
fn plain_requests_of_other_machines_are_told_why_and_served_where_that_is_allowed() {
    let Some(ip) = outer() else { return };
    let machines = Machines::start(ip, Link::Honest, "");
    let health = |machines: &Machines| {
        http::request("GET", &format!("http://{}/healthz", machines.namenode), b"")
    };
    let refused = health(&machines).is(426);
    assert_eq!(refused.header("upgrade"), Some("TLS/1.3"));
    let text = fs::read_to_string(machines.directory.join("datanode-1.toml")).unwrap();
    let bind = text.lines().find_map(|line| line.strip_prefix("bind = ")).unwrap();
    let address: SocketAddr = bind.trim_matches('"').parse().unwrap();
    let mut plain = TcpStream::connect(address).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    plain.write_all(&[40, 0, 0, 0, 1, 2, 3, 4, 5]).unwrap();
    let mut answer = Vec::new();
    // A reset is an end, too.
    let _ = plain.read_to_end(&mut answer);
    let is_alert = answer.first().is_none_or(|first| *first == 0x15);
    assert!(is_alert, "blocks are not served in plain text: {answer:?}");
    drop(machines);

    let machines = Machines::start(ip, Link::Honest, "allow_unencrypted = true\n");
    health(&machines).is(200);
    machines.hanno(&["dfs", "-touchz", "/encrypted-none-the-less"]).ok();
    let link = &machines.links.iter().find(|(name, _)| name == "namenode").unwrap().1;
    assert!(!holds(&link.bytes(), "encrypted-none-the-less"));
}

#[test]
fn a_client_outlives_the_certificates_of_its_daemons() {
    let Some(ip) = outer() else { return };
    let mut machines = Machines::start(ip, Link::Honest, "");
    let client = DfsClient::connect(&ClientConfig {
        user: Some(SUPERUSER.to_owned()),
        namenode: Some(machines.caller.namenode.clone()),
        secret_file: Some(machines.directory.join("secret")),
        ..ClientConfig::default()
    })
    .unwrap();
    let path = |name: &str| DfsPath::parse(&format!("/{name}")).unwrap();
    let content = marked(1 << 16);
    let write = |name: &str| {
        let mut file = client.create(&path(name), Default::default()).unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file.close().unwrap();
    };
    write("before");
    for daemon in ["namenode", "datanode-1", "datanode-2"] {
        machines.restart(daemon);
    }
    machines.hanno(&["dfsadmin", "-safemode", "wait"]).ok();
    let mut found = String::new();
    client.open(&path("before")).unwrap().read_to_string(&mut found).unwrap();
    assert!(found == content);
    write("after");
}

/// A certificate for an address, and its key.
fn write_certificate(directory: &Path, name: &str) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    fs::write(directory.join("certificate.pem"), made.cert.pem()).unwrap();
    let key = directory.join("key.pem");
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&key, private).unwrap();
}

#[test]
fn a_certificate_from_files_serves_other_clients() {
    let Some(ip) = outer() else { return };
    let directory = tempfile::tempdir().unwrap();
    write_certificate(directory.path(), &ip.to_string());
    let at = |name: &str| directory.path().join(name).display().to_string();
    let tls = format!(
        "[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n",
        at("certificate.pem"),
        at("key.pem")
    );
    let machines = Machines::start(ip, Link::Honest, &tls);
    let file = machines.directory.join("in.txt");
    fs::write(&file, marked(1 << 16)).unwrap();
    let token = machines.hanno(&["admin", "token"]).ok().stdout_text();
    let base = machines.caller.namenode.replace("http://", "https://");
    let url = |op: &str| format!("{base}/webhdfs/v1/in.txt?op={op}&delegation={}", token.trim());
    let curl = |arguments: &[&str]| {
        let mut command = std::process::Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--location"]);
        Outcome::of({
            command.args(["--cacert", &at("certificate.pem")]).args(arguments);
            command
        })
    };
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        return needs::lacks(needs::Need::Network, "curl is not installed");
    }
    curl(&["--upload-file", file.to_str().unwrap(), &url("CREATE")]).ok();
    let read = curl(&[&url("OPEN")]).ok();
    assert!(read.stdout == fs::read(&file).unwrap());
    // Hanno's own clients check it as they check every other.
    let read = machines.hanno(&["dfs", "-cat", "/in.txt"]).ok();
    assert!(read.stdout == fs::read(&file).unwrap());
}

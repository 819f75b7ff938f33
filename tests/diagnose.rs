//! `hanno admin diagnose`: what it packs, and that nothing which is nobody else's business gets in, wherever it stands.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::support::cluster::hanno_binary;
use crate::support::{Cluster, Options, Outcome, report};

/// Bytes of a block of the archive.
const BLOCK_BYTES: usize = 512;
/// Stands in every place that users or secrets have; short words are not looked for by their looks.
const USERS_WORDS: &str = "plum-and-custard";
/// As long as a token, and as random.
const TOKEN: &str = "HAAFYWxpY2UFYWxpY2UAigGU0qZ1b4oBlPay-W97AQEU9kEJ8";

/// The files of an archive, and all bytes of it as they are unpacked.
fn unpack(path: &Path) -> (BTreeMap<String, String>, String) {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    let (mut files, mut at) = (BTreeMap::new(), 0);
    while bytes[at] != 0 {
        let field = |begin: usize, end: usize| {
            let text = String::from_utf8(bytes[at + begin..at + end].to_vec()).unwrap();
            text.trim_end_matches('\0').to_owned()
        };
        let size = usize::from_str_radix(&field(124, 136), 8).unwrap();
        let begin = at + BLOCK_BYTES;
        let text = String::from_utf8(bytes[begin..begin + size].to_vec()).unwrap();
        assert!(files.insert(field(0, 100), text).is_none());
        at = begin + size.next_multiple_of(BLOCK_BYTES);
    }
    (files, String::from_utf8_lossy(&bytes).into_owned())
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Secrets and users' words where daemons, operators and users leave them.
fn plant(cluster: &Cluster, secret: &str) {
    let directory = &cluster.directory;
    let logs = directory.join("logs");
    append(
        &logs.join("namenode-1.log"),
        &format!(
            "2026-01-01T00:00:00Z  WARN namenode: odd secret={secret} user={USERS_WORDS}\n\
             seen {secret} in https://h:1/webhdfs/v1/user/{USERS_WORDS}?delegation={TOKEN}&op=OPEN\n\
             Authorization: Negotiate {USERS_WORDS}\n\
             path=\"/user/a/{USERS_WORDS} b\" size=3\n\
             a line that helps\n{TOKEN}\n"
        ),
    );
    append(&logs.join("audit.log"), USERS_WORDS);
    append(&logs.join("now.txt"), USERS_WORDS);
    symlink(directory.join("secret"), logs.join("gateway-1.log")).unwrap();
    append(
        &directory.join("conf/gateway.toml"),
        &format!(
            "api_token = \"{USERS_WORDS}\"\nbind = \"{secret}\"\n[tls]\nkey = \"{USERS_WORDS}\"\n"
        ),
    );
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join(USERS_WORDS);
    fs::write(&source, format!("{USERS_WORDS} {TOKEN}\n")).unwrap();
    cluster.dfs(&["-put", source.to_str().unwrap(), &format!("/{USERS_WORDS}")]).ok();
    let input = format!("/{USERS_WORDS}");
    let job = ["job", "streaming", "-mapper", "cat", "-reducer", "cat", "-input", &input];
    let output = format!("/{USERS_WORDS}-counts");
    cluster.hanno(&[&job[..], &["-output", &output]].concat()).ok();
}

#[test]
fn nothing_secret_is_packed() {
    let cluster = Cluster::start(Options { datanodes: 2, workers: 1, ..Options::tight() });
    report::wait_live(&cluster, 2);
    let secret = fs::read_to_string(cluster.directory.join("secret")).unwrap();
    let secret = secret.lines().next().unwrap();
    plant(&cluster, secret);
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("all.tar.gz");
    let arguments =
        ["admin", "diagnose", "-o", path.to_str().unwrap(), "--dir", out.path().to_str().unwrap()];
    let mut command = cluster.command(&hanno_binary(), &arguments);
    command.env("HANNO_PLANTED", secret).current_dir(out.path());
    let outcome = Outcome::of(command).ok();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let (files, all) = unpack(&path);
    for word in [secret, TOKEN, USERS_WORDS] {
        let with: Vec<_> = files.iter().filter(|(_, text)| text.contains(word)).collect();
        assert!(!all.contains(word), "{word}: {with:?}");
    }
    for name in [
        "about.txt",
        "doctor.json",
        "report.json",
        "workers.json",
        "missing.txt",
        "metrics/namenode.txt",
        "metrics/datanode-1.txt",
        "metrics/datanode-2.txt",
        "metrics/jobtracker.txt",
        "metrics/worker-1.txt",
        "conf/namenode.txt",
        "conf/datanode-2.txt",
        "conf/jobtracker.txt",
        "conf/worker-1.txt",
        "files/gateway.toml",
        "files/worker-1.toml",
        "logs-1/namenode-1.log",
        "logs-1/worker-1.log",
    ] {
        assert!(files.contains_key(name), "{name} is not in {:?}, {outcome:?}", files.keys());
    }
    assert!(!files.keys().any(|name| name.contains("audit") || name.contains("gateway-1")));
    assert!(files["logs-1/namenode-1.log"].contains("a line that helps"));
    assert!(files["metrics/namenode.txt"].contains("namenode_datanodes_live 2\n"));
    assert!(files["conf/namenode.txt"].contains("hanno.namenode.bind 127.0.0.1:"));
    assert!(files["missing.txt"].contains("gateway-1.log"), "{}", files["missing.txt"]);
    // What is there is not overwritten.
    let again = cluster.hanno(&arguments);
    assert_eq!((again.code, unpack(&path).1 == all), (1, true));
}

/// A cluster that is down leaves its logs, and what cannot be had is told.
#[test]
fn a_cluster_that_is_down_has_logs() {
    let mut cluster = Cluster::start(Options { datanodes: 1, workers: 1, ..Options::tight() });
    let config = cluster.directory.join("hanno.toml");
    cluster.stop();
    let out = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(hanno_binary());
    command.args(["admin", "diagnose"]).env("HANNO_CONFIG", &config).current_dir(out.path());
    Outcome::of(command).ok();
    let made: Vec<_> =
        fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(made.len(), 1, "{made:?}");
    let (files, _) = unpack(&made[0]);
    assert!(
        files.contains_key("logs-1/namenode-1.log") && files.contains_key("files/namenode-1.toml")
    );
    for name in ["report.json", "metrics/namenode.txt", "metrics/jobtracker.txt"] {
        assert!(!files.contains_key(name) && files["missing.txt"].contains(name), "{name}");
    }
}

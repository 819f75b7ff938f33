//! Copies of trees as jobs: within a cluster, to and from this machine, between two clusters, and while a worker dies.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use super::job_id;
use crate::support::cluster::{SUPERUSER, hanno_binary};
use crate::support::{Cluster, Options, Outcome, data};

/// Hadoop's exit code of a copy that failed, -999, as a shell sees it.
const FAILED: i32 = 25;
const USAGE: i32 = 255;
const DUPLICATE: i32 = 254;
/// Long enough for a busy machine.
const SECONDS_MAX: u64 = 60;

struct Stand {
    cluster: Cluster,
}

impl Stand {
    fn start() -> Self {
        Stand { cluster: Cluster::start(Options::tight()) }
    }

    /// `hanno distcp LINE`.
    fn distcp(&self, line: &str) -> Outcome {
        let words: Vec<&str> = std::iter::once("distcp").chain(line.split(' ')).collect();
        self.cluster.hanno(&words)
    }

    /// Commands of the shell, one a line; each succeeds.
    fn dfs(&self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.cluster.dfs(&line.split(' ').collect::<Vec<_>>()).ok();
        }
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        let local = self.cluster.directory.join("put");
        fs::write(&local, bytes).unwrap();
        let words = ["-D", "dfs.blocksize=131072", "-put", "-f", local.to_str().unwrap(), path];
        self.cluster.dfs(&words).ok();
    }

    fn text(&self, path: &str) -> String {
        self.cluster.dfs(&["-cat", path]).ok().stdout_text()
    }

    /// The paths below a directory, without it.
    fn tree(&self, path: &str) -> Vec<String> {
        let text = self.cluster.dfs(&["-ls", "-R", "-C", path]).ok().stdout_text();
        let below =
            |line: &str| line.strip_prefix(path).map(|rest| rest.trim_matches('/').to_owned());
        text.lines().filter_map(below).collect()
    }

    /// A counter of the job that was submitted last, by its name on the screen.
    fn counter(&self, name: &str) -> u64 {
        let words = ["job", "-counter", &job_id(&self.cluster), "DistCp Counters", name];
        self.cluster.hanno(&words).ok().stdout_text().trim().parse().unwrap()
    }

    /// Copied, skipped, deleted.
    fn counters(&self) -> [u64; 3] {
        ["Files Copied", "Files Skipped", "Files Deleted"].map(|name| self.counter(name))
    }
}

#[track_caller]
fn refused(outcome: &Outcome, code: i32, text: &str) {
    assert_eq!(outcome.code, code, "{}", outcome.stderr);
    assert!(outcome.stderr.contains(text), "{}", outcome.stderr);
}

#[test]
fn trees_are_copied_within_a_cluster() {
    let stand = Stand::start();
    stand.dfs("-mkdir -p /s/sub/empty");
    for (path, text) in [("/s/a", "one"), ("/s/sub/b", "two"), ("/s/sub/c d", "three")] {
        let local = stand.cluster.directory.join("put");
        fs::write(&local, text).unwrap();
        stand.cluster.dfs(&["-put", local.to_str().unwrap(), path]).ok();
    }
    let all = ["a", "sub", "sub/b", "sub/c d", "sub/empty"];
    names(&stand, &all);
    updates(&stand, &all);
    appends(&stand);
    choices(&stand, &all);
    mistakes(&stand);
    homes(&stand, &all);
}

/// What a source is called in the target.
fn names(stand: &Stand, all: &[&str]) {
    stand.distcp("/s /t").ok();
    assert_eq!(stand.tree("/t"), all);
    assert_eq!(stand.text("/t/sub/c*"), "three");
    assert_eq!((stand.counters(), stand.counter("Directories Copied")), ([3, 0, 0], 3));
    assert_eq!(stand.counter("Bytes Copied"), 11);
    // The target exists now.
    stand.distcp("-m 2 /s /t").ok();
    assert_eq!(stand.tree("/t/s"), all);
    // Several sources keep their names; a file may become another.
    stand.distcp("/s/a /s/sub /many").ok();
    assert_eq!(stand.tree("/many"), all);
    stand.distcp("/s/a /renamed").ok();
    assert_eq!(stand.text("/renamed"), "one");
    stand.distcp("/s/{a,sub/b*} /matched").ok();
    assert_eq!(stand.tree("/matched"), ["a", "b"]);
    refused(&stand.distcp("/s/a /t/s/a /same"), DUPLICATE, "would cause duplicates");
    let home = format!("/user/{SUPERUSER}/.staging");
    assert!(stand.tree(&home).is_empty(), "lists are left");
}

/// `-update`, `-overwrite`, `-delete`.
fn updates(stand: &Stand, all: &[&str]) {
    // Without an option what is there stays.
    stand.put("/t/a", b"changed");
    stand.distcp("-log /log /s/* /t").ok();
    assert_eq!((stand.text("/t/a"), stand.counters()), ("changed".to_owned(), [0, 3, 0]));
    assert!(stand.text("/log/*/part-r-00000").contains("SKIP: hanno://"));
    stand.distcp("-log /log /s/* /t").ok();
    assert_eq!(stand.text("/log/*/part-r-00000").lines().count(), 6);
    stand.put("/t/sub/b", b"TWO");
    stand.distcp("-update /s /t").ok();
    assert_eq!((stand.text("/t/a"), stand.text("/t/sub/b")), ("one".into(), "two".into()));
    assert_eq!(stand.counters(), [2, 1, 0]);
    stand.dfs("-mkdir /t/sub/gone\n-touchz /t/sub/gone/x\n-touchz /t/z");
    stand.distcp("-update -delete /s /t").ok();
    // The copy named `s`, the directory and the file.
    assert_eq!(
        (stand.tree("/t"), stand.counters()),
        (all.iter().map(|it| (*it).to_owned()).collect(), [0, 3, 3])
    );
    stand.distcp("-overwrite -log /log2 -v /s /t").ok();
    assert_eq!(stand.counters(), [3, 0, 0]);
    assert!(stand.text("/log2/*/part-r-00000").contains("FILE_COPIED: source=hanno://"));
}

fn appends(stand: &Stand) {
    let more = data::text(5, 300_000);
    stand.put("/grows", &more[..200_000]);
    stand.distcp("/grows /grown").ok();
    stand.put("/grows", &more);
    stand.distcp("-update -append /grows /grown").ok();
    assert_eq!(stand.cluster.dfs(&["-cat", "/grown"]).ok().stdout, more);
    assert_eq!(stand.counter("Bytes Copied"), more.len() as u64 - 200_000);
    // What is not its beginning is replaced.
    stand.put("/grown", b"other");
    stand.distcp("-update -append /grows /grown").ok();
    assert_eq!(stand.cluster.dfs(&["-cat", "/grown"]).ok().stdout, more);
    assert_eq!(stand.counter("Bytes Copied"), more.len() as u64);
}

/// Lists, filters, strategies, and how a copy appears.
fn choices(stand: &Stand, all: &[&str]) {
    let filters = stand.cluster.directory.join("filters");
    fs::write(&filters, ".*/sub/b\n.*empty\n").unwrap();
    stand.distcp(&format!("-filters {} /s /filtered", filters.display())).ok();
    assert_eq!(stand.tree("/filtered"), ["a", "sub", "sub/c d"]);
    stand.put("/filtered/sub/b", b"kept");
    stand.put("/filtered/other", b"not kept");
    stand.distcp(&format!("-update -delete -filters {} /s /filtered", filters.display())).ok();
    assert_eq!(stand.tree("/filtered"), ["a", "sub", "sub/b", "sub/c d"]);
    stand.put("/list", b"/s/a\n\nhdfs:///s/sub\n");
    stand.distcp("-f /list -strategy dynamic -m 1 -numListstatusThreads 3 /listed").ok();
    assert_eq!(stand.tree("/listed"), all);
    stand.distcp("-atomic -tmp /work /s /atomic/deep").ok();
    assert_eq!(stand.tree("/atomic/deep"), all);
    refused(&stand.distcp("-atomic /s /atomic/deep"), USAGE, "already exists");
    let elsewhere = stand.distcp("-atomic -tmp webhdfs://127.0.0.1:1/t /s /atomic/other");
    refused(&elsewhere, USAGE, "different file systems");
    stand.distcp("-direct -copybuffersize 2 -bandwidth 100 -skipcrccheck /s /direct").ok();
    assert_eq!(stand.tree("/direct"), all);
    stand.distcp("-async /s /later").ok();
    let id = job_id(&stand.cluster).parse().unwrap();
    let report = stand.cluster.jobs().watch(id, |_| {}).unwrap();
    assert_eq!(report.state, protocol::jobs::JobState::Succeeded);
    assert_eq!(stand.tree("/later"), all);
    lost_lists(stand);
}

/// A last step that finds no list has not been done.
fn lost_lists(stand: &Stand) {
    stand.put("/slow", &data::text(1, 60_000));
    stand.distcp("-async -atomic -bandwidth 0.01 /slow /lost").ok();
    stand.cluster.wait_until("a file is being written", SECONDS_MAX, |cluster| {
        cluster.dfs(&["-ls", "-R", "-C", "/"]).stdout_text().contains("/attempt_")
    });
    stand.dfs(&format!("-rm -r -skipTrash /user/{SUPERUSER}/.staging/*/lists"));
    let id = job_id(&stand.cluster).parse().unwrap();
    let report = stand.cluster.jobs().watch(id, |_| {}).unwrap();
    assert_eq!(report.state, protocol::jobs::JobState::Failed);
}

fn mistakes(stand: &Stand) {
    let kept = format!("/user/{SUPERUSER}/kept");
    stand.put(&kept, b"of the home directory");
    for (line, code, text) in [
        ("/none /x", USAGE, "doesn't exist"),
        // The last word is empty.
        ("-update -delete /s ", USAGE, "Can not create a Path from an empty string"),
        ("-update -delete /s hdfs://", USAGE, "names no path"),
        ("/s /renamed", USAGE, "which is not a file"),
        ("/s/a /s/sub /renamed", USAGE, "Multiple source"),
        ("-update -overwrite /s /x", USAGE, "mutually exclusive"),
        ("-blocksperchunk 2 /s /x", USAGE, "-blocksperchunk is not supported"),
        ("-rdiff a b /s /x", USAGE, "-rdiff is not supported"),
        ("-pe /s /x", USAGE, "-pe is not supported"),
        ("hdfs://far:8020/s /x", USAGE, "webhdfs://HOST:PORT/s"),
        ("s3a://bucket/s /x", USAGE, "s3a"),
        ("-update -diff a b /s /t", FAILED, "compare snapshots"),
    ] {
        refused(&stand.distcp(line), code, text);
    }
    assert_eq!(stand.text(&kept), "of the home directory");
    // A directory where a file shall be.
    stand.dfs("-mkdir -p /x/a");
    refused(&stand.distcp("-update /s /x"), FAILED, "Target is dir, Source is file");
    assert!(!stand.tree("/x").iter().any(|path| path.contains(".distcp.tmp")));
}

/// Targets above what copies and jobs have in the file system.
fn homes(stand: &Stand, all: &[&str]) {
    let home = format!("/user/{SUPERUSER}");
    let system = |rest: &[&str]| -> Vec<String> {
        [".staging"].iter().chain(rest).map(|path| (*path).to_owned()).collect()
    };
    let of_bob = [".staging/job_1", ".staging/job_1/part"];
    stand.dfs("-mkdir -p /user/bob/.staging/job_1\n-touchz /user/bob/.staging/job_1/part");
    stand.put("/user/bob/old", b"goes");
    // What earlier runs have left there is theirs.
    let in_home = || -> Vec<String> {
        let tree = stand.tree(&home).into_iter();
        tree.filter(|path| !path.starts_with(".staging/distcp-")).collect()
    };
    stand.distcp("-update -delete /s /user").ok();
    assert_eq!(in_home(), system(&[]));
    assert_eq!(stand.tree("/user/bob"), system(&of_bob));
    stand.put(&format!("{home}/old"), b"goes");
    stand.distcp(&format!("-update -delete -p /s {home}")).ok();
    assert_eq!(in_home(), system(all));
    assert_eq!(stand.counter("Files Deleted"), 1);
    let staging = format!("{home}/.staging");
    refused(&stand.distcp(&format!("-update -delete /s {staging}")), USAGE, "leave it alone");
    // The log of the run, and of the one before.
    for runs in 1..=2 {
        stand.distcp("-update -delete -log /logged/log /s /logged").ok();
        let tree = stand.tree("/logged");
        let logs = tree.iter().filter(|path| path.ends_with("/part-r-00000")).count();
        assert_eq!(logs, runs, "{tree:?}");
    }
    // What would be the target before all is copied.
    let early = "would be made before all is copied";
    refused(&stand.distcp("-atomic -log /early/log /s /early"), USAGE, early);
    refused(&stand.distcp("-atomic -tmp /early/work /s /early"), USAGE, early);
    let mut command =
        stand.cluster.command(&hanno_binary(), &["distcp", "-atomic", "/s", "/user/eve"]);
    command.env("HADOOP_USER_NAME", "eve");
    refused(&Outcome::of(command), USAGE, early);
    // A job that runs does not change a home directory.
    for path in ["/s", &home] {
        stand.cluster.hanno(&["dfsadmin", "-allowSnapshot", path]).ok();
        stand.dfs(&format!("-createSnapshot {path} s1"));
    }
    stand.dfs(&format!("-mkdir {staging}/job_2"));
    stand.put("/s/new", b"new");
    stand.dfs("-createSnapshot /s s2");
    stand.distcp(&format!("-update -diff s1 s2 /s {home}")).ok();
    assert_eq!(stand.text(&format!("{home}/new")), "new");
    assert!(stand.tree(&staging).contains(&"job_2".to_owned()));
}

#[test]
fn attributes_snapshots_and_unreadable_sources() {
    let stand = Stand::start();
    attributes(&stand);
    differences(&stand);
    unreadable(&stand);
}

fn attributes(stand: &Stand) {
    stand.dfs("-mkdir -p /s/d");
    stand.put("/s/d/f", b"text");
    stand.dfs(
        "-chmod 640 /s/d/f
        -setrep 2 /s/d/f
        -chown ann:staff /s/d/f
        -setfacl -m user:bob:r-x,default:user:bob:rwx /s/d
        -setfacl -m user:bob:r-- /s/d/f
        -setfattr -n user.note -v kept /s/d/f
        -chown eve:ops /s/d
        -chmod 1750 /s/d
        -touch -t 20200102:030405 /s/d/f
        -touch -m -t 20200102:030405 /s/d",
    );
    stand.distcp("-prbugpaxt /s /t").ok();
    for path in ["d", "d/f"] {
        let [from, to] = ["/s", "/t"].map(|top| {
            let path = format!("{top}/{path}");
            let stat = stand.cluster.dfs(&["-stat", "%F %a %u %g %o %r %b %Y", &path]).ok();
            let acl = stand.cluster.dfs(&["-getfacl", &path]).ok().stdout_text();
            let xattrs = stand.cluster.dfs(&["-getfattr", "-d", &path]).ok().stdout_text();
            format!("{}{acl}{xattrs}", stat.stdout_text()).replace(top, "")
        });
        assert_eq!(from, to);
    }
    // Without an option the copy is a new file of the user's.
    stand.distcp("/s /plain").ok();
    let stat = stand.cluster.dfs(&["-stat", "%a %r", "/plain/d/f"]).ok().stdout_text();
    assert_ne!(stat, "640 2\n");
    // Properties say how new files are made.
    stand.distcp(&format!("{MADE} -m 2 /s /made")).ok();
    let stat = |path: &str| {
        stand.cluster.dfs(&["-stat", "%a %r %o", path]).ok().stdout_text().trim().to_owned()
    };
    assert_eq!([stat("/made/d"), stat("/made/d/f")], ["750 0 0", "640 2 262144"]);
    // What is kept of the source counts.
    stand.distcp(&format!("{MADE} -prb /s /kept")).ok();
    assert_eq!(stat("/kept/d/f"), "640 2 131072");
    let refused_mask = stand.distcp("-D fs.permissions.umask-mode=9 /s /x");
    refused(&refused_mask, USAGE, "fs.permissions.umask-mode");
}

/// Properties of new files and directories.
const MADE: &str = "-D fs.permissions.umask-mode=027 -D dfs.replication=2 -D dfs.blocksize=262144";

fn differences(stand: &Stand) {
    stand.dfs("-mkdir -p /v/old/in\n-mkdir /v/dead");
    for (path, text) in
        [("/v/keep", "1"), ("/v/old/in/x", "2"), ("/v/old/y", "3"), ("/v/dead/z", "4")]
    {
        stand.put(path, text.as_bytes());
    }
    let admin = |line: &str| stand.cluster.hanno(&line.split(' ').collect::<Vec<_>>());
    admin("dfsadmin -allowSnapshot /v").ok();
    stand.dfs("-createSnapshot /v s1");
    stand.distcp("-update /v/.snapshot/s1 /w").ok();
    admin("dfsadmin -allowSnapshot /w").ok();
    stand.dfs("-createSnapshot /w s1");
    stand.dfs(
        "-mv /v/old /v/new
        -rm -r -skipTrash /v/dead
        -mkdir /v/old
        -mkdir /v/new/more",
    );
    for (path, text) in [("/v/new/in/x", "22"), ("/v/new/more/n", "5"), ("/v/old/y", "6")] {
        stand.put(path, text.as_bytes());
    }
    stand.dfs("-createSnapshot /v s2");
    // It is not in the snapshot.
    stand.put("/v/later", b"7");
    // What a run leaves that is killed in the middle is put back.
    stand.dfs("-mkdir /w/.distcp.diff.tmp.0\n-mv /w/old /w/.distcp.diff.tmp.0/0");
    let plan = br#"{"moves":[{"from":"old","to":"new"}],"steps":[{"Place":[0,"new"]}]}"#;
    stand.put("/w/.distcp.diff.tmp.0/plan", plan);
    stand.distcp("-update -diff s1 s2 /v /w").ok();
    assert_eq!(stand.tree("/w"), stand.tree("/v/.snapshot/s2"));
    for path in ["keep", "new/in/x", "new/y", "new/more/n", "old/y"] {
        assert_eq!(stand.text(&format!("/w/{path}")), stand.text(&format!("/v/{path}")), "{path}");
    }
    // Only what is new or changed was copied.
    assert_eq!(stand.counter("Files Copied"), 3);
    refused(&stand.distcp("-update -diff s1 s2 /v /w"), FAILED, "modified since snapshot s1");
}

/// As a user who may not read one of the files.
fn unreadable(stand: &Stand) {
    stand.dfs("-mkdir -p /user/bob /mixed\n-chown bob /user/bob");
    for name in ["a", "b", "secret"] {
        stand.put(&format!("/mixed/{name}"), name.as_bytes());
    }
    stand.dfs("-chmod 600 /mixed/secret");
    let bob = |words: &[&str]| {
        let mut command = stand.cluster.command(&hanno_binary(), words);
        command.env("HADOOP_USER_NAME", "bob");
        Outcome::of(command)
    };
    let strict = bob(&["distcp", "/mixed", "/user/bob/strict"]);
    refused(&strict, FAILED, "secret");
    bob(&["distcp", "-i", "-log", "/user/bob/log", "/mixed", "/user/bob/lenient"]).ok();
    assert_eq!(stand.tree("/user/bob/lenient"), ["a", "b"]);
    assert_eq!((stand.counter("Files Failed"), stand.counter("Files Copied")), (1, 2));
    assert!(stand.text("/user/bob/log/*/part-r-00000").starts_with("FAIL: hanno://"));
    // A directory that cannot be listed counts as a file; nothing is deleted where it would be.
    stand.dfs(
        "-mkdir -p /mixed/closed/in
        -chmod 700 /mixed/closed
        -mkdir -p /user/bob/lenient/closed
        -touchz /user/bob/lenient/closed/kept
        -touchz /user/bob/lenient/old
        -chown -R bob /user/bob/lenient",
    );
    let line = ["-update", "-delete", "-log", "/user/bob/log2", "/mixed", "/user/bob/lenient"];
    let strict = bob(&[&["distcp"], &line[..]].concat());
    refused(&strict, FAILED, "cannot list");
    bob(&[&["distcp", "-i"], &line[..]].concat()).ok();
    assert_eq!(stand.tree("/user/bob/lenient"), ["a", "b", "closed", "closed/kept"]);
    assert_eq!((stand.counter("Files Failed"), stand.counter("Files Deleted")), (2, 1));
    let log = stand.text("/user/bob/log2/*/part-r-00000");
    assert!(log.contains("/mixed/closed") && log.contains("/mixed/secret"), "{log}");
}

#[test]
fn this_machine_and_another_cluster() {
    let (stand, other) = (Stand::start(), Stand::start());
    machine(&stand);
    let text = data::text(9, 400_000);
    stand.dfs("-mkdir -p /from/sub");
    stand.put("/from/large", &text);
    stand.put("/from/sub/a b", b"small");
    let token = other.cluster.hanno(&["admin", "token"]).ok().stdout_text().trim().to_owned();
    let authority = other.cluster.namenode.trim_start_matches("http://").to_owned();
    let between = |line: &str| {
        let line = line.replace("OTHER", &format!("webhdfs://{authority}"));
        let words: Vec<&str> = std::iter::once("distcp").chain(line.split(' ')).collect();
        let mut command = stand.cluster.command(&hanno_binary(), &words);
        command.env("HANNO_WEBHDFS_TOKENS", format!("{authority}={token}"));
        Outcome::of(command)
    };
    between("-pt /from OTHER/there").ok();
    assert_eq!(other.tree("/there"), ["large", "sub", "sub/a b"]);
    assert_eq!(other.cluster.dfs(&["-cat", "/there/large"]).ok().stdout, text);
    // The token is in nothing that others may see of the job.
    let job = job_id(&stand.cluster);
    let seen = stand.cluster.hanno(&["job", "-history", "all", &job, "-format", "json"]).ok();
    assert!(!seen.stdout_text().contains(&token));
    between("-update /from OTHER/there").ok();
    assert_eq!(stand.counters(), [0, 2, 0]);
    other.put("/there/new", b"new");
    between("-update -delete OTHER/there /back").ok();
    assert_eq!(stand.tree("/back"), ["large", "new", "sub", "sub/a b"]);
    assert_eq!(stand.cluster.dfs(&["-cat", "/back/large"]).ok().stdout, text);
    let mut longer = text.clone();
    longer.extend_from_slice(b"and more");
    stand.put("/from/large", &longer);
    between("-update -append -delete /from OTHER/there").ok();
    assert_eq!(other.cluster.dfs(&["-cat", "/there/large"]).ok().stdout, longer);
    assert_eq!((stand.counter("Bytes Copied"), stand.counter("Files Deleted")), (8, 1));
    between(&format!("{MADE} /from OTHER/made")).ok();
    let stat = |path: &str| other.cluster.dfs(&["-stat", "%a %r %o", path]).ok().stdout_text();
    assert_eq!([stat("/made/sub"), stat("/made/large")], ["750 0 0\n", "640 2 262144\n"]);
    odd_names(&stand, &other, &between);
    // Without a token nothing is shown.
    let stranger = stand.distcp(&format!("webhdfs://{authority}/there /x"));
    assert_ne!(stranger.code, 0);
}

/// A name reaches the other cluster as it is: `a\b` is not `b` in a directory `a`.
fn odd_names(stand: &Stand, other: &Stand, between: &impl Fn(&str) -> Outcome) {
    other.dfs("-mkdir -p /odd/a");
    other.put("/odd/a/b", b"stays");
    stand.dfs("-mkdir -p /names/a");
    stand.put("/names/a/b", b"stays");
    let names = ["a\\b", "c?op=DELETE", "d#e", "f%5Cg", "h;i", "j|k^l", "m+n&o=p", "~q@r!$'(),"];
    // As the shell takes them: its targets are patterns.
    let quoted = |name: &str| name.replace('\\', "\\\\").replace('?', "\\?");
    for name in names {
        other.put(&format!("/odd/{}", quoted(name)), b"goes");
    }
    between("-update -delete /names OTHER/odd").ok();
    assert_eq!(other.tree("/odd"), ["a", "a/b"]);
    assert_eq!(stand.counter("Files Deleted"), names.len() as u64);
    for name in names {
        stand.put(&format!("/names/{}", quoted(name)), name.as_bytes());
    }
    between("/names OTHER/named").ok();
    assert_eq!(other.tree("/named"), stand.tree("/names"));
    between("-update -skipcrccheck OTHER/named /named").ok();
    assert_eq!(stand.tree("/named"), stand.tree("/names"));
}

/// Files of this machine are copied by the driver's process.
fn machine(stand: &Stand) {
    let local = stand.cluster.directory.join("local");
    fs::create_dir_all(local.join("in/sub")).unwrap();
    fs::write(local.join("in/sub/x"), "from here").unwrap();
    let url = |name: &str| format!("file://{}/{name}", local.display());
    stand.distcp(&format!("{} /machine", url("in"))).ok();
    assert_eq!(stand.text("/machine/sub/x"), "from here");
    stand.distcp(&format!("-update -log {} /machine {}", url("log"), url("out"))).ok();
    assert_eq!(fs::read_to_string(local.join("out/sub/x")).unwrap(), "from here");
    assert_eq!(fs::read_dir(local.join("out")).unwrap().count(), 1);
    stand.distcp(&format!("{MADE} /machine {}", url("made"))).ok();
    let modes = ["made/sub", "made/sub/x"]
        .map(|path| fs::metadata(local.join(path)).unwrap().permissions().mode() & 0o777);
    assert_eq!(modes, [0o750, 0o640]);
    fs::write(local.join("out/extra"), "").unwrap();
    let again = stand.distcp(&format!("-overwrite -delete /machine {}", url("out"))).ok();
    assert!(!local.join("out/extra").try_exists().unwrap());
    assert!(again.stderr.contains("Files Copied=1"), "{}", again.stderr);
    // What is no file keeps its place.
    std::os::unix::fs::symlink("out/sub/x", local.join("link")).unwrap();
    let link = stand.distcp(&format!("-overwrite /machine/sub/x {}", url("link")));
    refused(&link, USAGE, "is a symbolic link: no copy goes there");
    assert!(fs::symlink_metadata(local.join("link")).unwrap().is_symlink());
    refused(&stand.distcp(&format!("-pa /machine {}", url("acl"))), 253, "ACLs are not supported");
    refused(&stand.distcp(&format!("-px /machine {}", url("x"))), 252, "XAttrs are not supported");
    refused(
        &stand.distcp(&format!("-async /machine {}", url("y"))),
        USAGE,
        "-async is not possible",
    );
}

/// A signal ends a copy that runs in the driver, and what it has begun goes.
#[test]
fn an_interrupted_copy_leaves_nothing() {
    let stand = Stand::start();
    let local = stand.cluster.directory.join("local");
    fs::create_dir_all(local.join("in")).unwrap();
    fs::create_dir(local.join("tmp")).unwrap();
    fs::write(local.join("in/x"), data::text(3, 4 << 20)).unwrap();
    let from = format!("file://{}/in", local.display());
    for (options, target) in [("", "/t"), ("-atomic", "/atomic/t")] {
        let line = format!("distcp {options} -bandwidth 1 -copybuffersize 65536 {from} {target}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = stand.cluster.command(&hanno_binary(), &words);
        command.env("TMPDIR", local.join("tmp")).stdout(Stdio::null()).stderr(Stdio::piped());
        let driver = command.spawn().unwrap();
        stand.cluster.wait_until("a temporary file is being written", SECONDS_MAX, |cluster| {
            let list = cluster.dfs(&["-ls", "-R", "-C", "/"]).stdout_text();
            list.lines().any(|line| line.contains("/.distcp.tmp.") && line.contains("/attempt_"))
        });
        sys::process::terminate(driver.id()).unwrap();
        let outcome = Outcome::from(driver.wait_with_output().unwrap());
        assert_eq!(outcome.code, 143, "{}", outcome.stderr);
        let left = stand.cluster.dfs(&["-ls", "-R", "-C", "/"]).ok().stdout_text();
        assert!(!left.contains("distcp.tmp") && !left.contains("._WIP_"), "{left}");
        assert_eq!(fs::read_dir(local.join("tmp")).unwrap().count(), 0);
    }
}

#[test]
fn a_copy_survives_the_death_of_a_worker_and_leaves_nothing_else() {
    let stand = Stand::start();
    let text = data::text(3, 1 << 20);
    stand.dfs("-mkdir /s");
    for name in ["a", "b", "c", "d"] {
        stand.put(&format!("/s/{name}"), &text);
    }
    let words = ["distcp", "-m", "4", "-bandwidth", "0.5", "-copybuffersize", "65536", "/s", "/t"];
    let mut command = stand.cluster.command(&hanno_binary(), &words);
    let driver = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    stand.cluster.wait_until("a temporary file is being written", SECONDS_MAX, |cluster| {
        let list = cluster.dfs(&["-ls", "-R", "-C", "/t"]).stdout_text();
        list.lines().any(|line| line.contains("/.distcp.tmp.") && line.contains("/attempt_"))
    });
    for path in stand.tree("/t").iter().filter(|path| path.len() == 1) {
        let bytes = stand.cluster.dfs(&["-stat", "%b", &format!("/t/{path}")]).ok().stdout_text();
        assert_eq!(bytes, "1048576\n", "a half-written file is seen");
    }
    stand.cluster.kill("worker-1");
    let outcome = Outcome::from(driver.wait_with_output().unwrap()).ok();
    assert!(outcome.stderr.contains("Files Copied=4"), "{}", outcome.stderr);
    assert_eq!(stand.tree("/t"), ["a", "b", "c", "d"]);
    for name in ["a", "b", "c", "d"] {
        assert_eq!(stand.cluster.dfs(&["-cat", &format!("/t/{name}")]).ok().stdout, text);
    }
}

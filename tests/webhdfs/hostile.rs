//! What a client without rights tries over HTTP: names that prove nothing, tokens that are forged, altered, foreign, ended or meant for something
//! else, paths that are not what they seem, requests that are too much, and pages that ask in somebody else's name. Nothing of the owner's is
//! read or changed, and no daemon falls.

use std::fs;

use protocol::DfsPath;
use protocol::auth::Key;
use webhdfs::op::Op;
use webhdfs::token::{DELEGATION_KIND, Delegation, Redirect, token_key};

use super::Web;
use super::features::Gateway;
use crate::support::http::{Answer, Connection, request};

/// What the owner keeps to themselves.
const SECRET: &[u8] = b"of the owner alone";
/// Below the longest address and above what any name has.
const LONG: usize = 40_000;
/// What refuses a request.
const REFUSED: &[u16] = &[400, 401, 403, 404, 405, 413, 414, 421, 431];

/// A cluster with a secret of its owner's, and eve, who has a home and a token of her own.
struct Scene {
    web: Web,
    eve: String,
    datanode: String,
}

impl Scene {
    fn start() -> Self {
        let web = Web::start();
        web.put("/secret", SECRET);
        web.ask("PUT", "/secret?op=SETPERMISSION&permission=600").is(200);
        web.ask("PUT", "/user/eve?op=MKDIRS").is(200);
        web.ask("PUT", "/user/eve?op=SETOWNER&owner=eve").is(200);
        let eve = web.token("eve");
        let first = request("PUT", &web.url("eve", "/user/eve/f?op=CREATE"), b"").is(307);
        let location = first.header("location").unwrap().to_owned();
        request("PUT", &location, b"of eve").is(201);
        let datanode = location.split("/webhdfs").next().unwrap().to_owned();
        Scene { web, eve, datanode }
    }

    /// One request, exactly as it is written; `{eve}` stands for her token.
    fn send(&self, daemon: &str, method: &str, target: &str, headers: &str) -> Answer {
        let target = target.replace("{eve}", &self.eve);
        let mut connection = Connection::open(daemon);
        let host = daemon.trim_start_matches("http://");
        let host =
            if headers.contains("Host:") { "".to_owned() } else { format!("Host: {host}\r\n") };
        let head =
            format!("{method} {target} HTTP/1.1\r\n{host}Connection: close\r\n{headers}\r\n");
        // It may be refused before all of it was sent.
        let _ = connection.send(head.as_bytes());
        connection.answer()
    }

    /// As [`Scene::send`], for what may be cut off before it was read: the status, 0 if there was none.
    fn try_send(&self, daemon: &str, method: &str, target: &str, headers: &str) -> u16 {
        let mut connection = Connection::open(daemon);
        let host = daemon.trim_start_matches("http://");
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n"
        );
        let _ = connection.send(head.as_bytes());
        let answer = String::from_utf8_lossy(&connection.bytes(1 << 20)).into_owned();
        let status = answer.split(' ').nth(1).map(str::parse);
        status.and_then(Result::ok).unwrap_or(0)
    }

    /// Nothing was read, nothing was changed, everybody lives.
    fn is_whole(&self, pids: &[Option<u32>]) {
        assert!(self.web.read("/secret") == SECRET);
        let listed = self.web.ask("GET", "/?op=LISTSTATUS").is(200).json();
        let entries = listed["FileStatuses"]["FileStatus"].as_array().unwrap();
        let names = entries.iter().map(|entry| entry["pathSuffix"].as_str().unwrap());
        // The JobTracker makes `/system` when it is up.
        let names: Vec<_> = names.filter(|name| *name != "system").collect();
        assert_eq!(names, ["secret", "user"]);
        let status = self.web.ask("GET", "/secret?op=GETFILESTATUS").is(200).json();
        assert_eq!(status["FileStatus"]["permission"], "600");
        assert_eq!(self.pids(), pids);
    }

    fn pids(&self) -> Vec<Option<u32>> {
        let daemons = ["namenode-1", "datanode-1", "datanode-2", "jobtracker-1", "worker-1"];
        daemons.map(|daemon| self.web.cluster.pid(daemon)).to_vec()
    }
}

/// What is tried, method, target, headers.
type Attack = (&'static str, &'static str, &'static str, &'static str);

const ATTACKS: &[Attack] = &[
    ("a name alone", "GET", "/webhdfs/v1/secret?op=OPEN&user.name=tester", ""),
    ("a name in other letters", "GET", "/webhdfs/v1/secret?op=OPEN&USER.NAME=tester", ""),
    ("a name that changes", "DELETE", "/webhdfs/v1/secret?op=DELETE&user.name=tester", ""),
    ("no name", "GET", "/webhdfs/v1/?op=LISTSTATUS", ""),
    (
        "a name with a token of another",
        "GET",
        "/webhdfs/v1/secret?op=OPEN&user.name=tester&delegation={eve}",
        "",
    ),
    (
        "doas without the right",
        "GET",
        "/webhdfs/v1/secret?op=OPEN&doas=tester&delegation={eve}",
        "",
    ),
    (
        "doas behind one's own name",
        "GET",
        "/webhdfs/v1/secret?op=OPEN&doas=eve&doas=tester&delegation={eve}",
        "",
    ),
    ("doas without a token", "GET", "/webhdfs/v1/secret?op=OPEN&doas=tester", ""),
    ("a name that is no text", "GET", "/webhdfs/v1/secret?op=OPEN&user.name=%ff%fe", ""),
    ("Hadoop's empty token", "GET", "/webhdfs/v1/secret?op=OPEN&delegation=AAAAAA", ""),
    ("a token that is no base64", "GET", "/webhdfs/v1/secret?op=OPEN&delegation=%00%0d%0a", ""),
    (
        "a header with no token",
        "GET",
        "/webhdfs/v1/secret?op=OPEN",
        "X-Hadoop-Delegation-Token: AAAAAA\r\n",
    ),
    (
        "a header with a token of another",
        "GET",
        "/webhdfs/v1/secret?op=OPEN",
        "X-Hadoop-Delegation-Token: {eve}\r\n",
    ),
    (
        "a cookie of HttpFS",
        "GET",
        "/webhdfs/v1/secret?op=OPEN",
        "Cookie: hadoop.auth=\"u=tester&p=tester&t=simple&e=9999999999999&s=AAAA\"\r\n",
    ),
    ("a cookie of a page", "GET", "/browse?path=/secret", "Cookie: hanno-namenode-9870=00\r\n"),
    (
        "a signature that is none",
        "GET",
        "/webhdfs/v1/secret?op=OPEN&user.name=tester",
        "Authorization: Hanno-1 client 1 0 0\r\n",
    ),
    ("a token bred by a token", "GET", "/webhdfs/v1/?op=GETDELEGATIONTOKEN&delegation={eve}", ""),
    ("a token bred by nothing", "GET", "/webhdfs/v1/?op=GETDELEGATIONTOKEN&user.name=tester", ""),
    ("a token renewed by its text", "PUT", "/webhdfs/v1/?op=RENEWDELEGATIONTOKEN&token={eve}", ""),
    (
        "a token ended by its text",
        "PUT",
        "/webhdfs/v1/?op=CANCELDELEGATIONTOKEN&token={eve}&user.name=tester",
        "",
    ),
    ("the list of tokens", "POST", "/rpc/tokens", "Content-Length: 2\r\n\r\n\u{1}\u{4}"),
    (
        "the list of tokens with a token",
        "POST",
        "/rpc/tokens?delegation={eve}",
        "Content-Length: 0\r\n",
    ),
    ("dots in a path", "GET", "/webhdfs/v1/user/eve/../../secret?op=OPEN&delegation={eve}", ""),
    (
        "encoded dots",
        "GET",
        "/webhdfs/v1/user/eve/%2e%2e/%2e%2e/secret?op=OPEN&delegation={eve}",
        "",
    ),
    (
        "an encoded slash",
        "GET",
        "/webhdfs/v1/user/eve/..%2f..%2fsecret?op=OPEN&delegation={eve}",
        "",
    ),
    (
        "dots encoded twice",
        "GET",
        "/webhdfs/v1/user/eve/%252e%252e/%252e%252e/secret?op=OPEN&delegation={eve}",
        "",
    ),
    ("slashes doubled", "GET", "/webhdfs/v1//secret//?op=OPEN&delegation={eve}", ""),
    ("dots before the prefix", "GET", "/../webhdfs/v1/secret?op=OPEN&delegation={eve}", ""),
    ("a NUL in a path", "GET", "/webhdfs/v1/secret%00?op=OPEN&delegation={eve}", ""),
    ("a NUL in the middle", "PUT", "/webhdfs/v1/user%00/x?op=MKDIRS&delegation={eve}", ""),
    (
        "a line end in a path",
        "PUT",
        "/webhdfs/v1/user/eve/a%0d%0aSet-Cookie:x?op=MKDIRS&delegation={eve}",
        "",
    ),
    ("the raw tree", "GET", "/webhdfs/v1/.reserved/raw/secret?op=OPEN&delegation={eve}", ""),
    (
        "a move out of reach",
        "PUT",
        "/webhdfs/v1/secret?op=RENAME&destination=/user/eve/s&delegation={eve}",
        "",
    ),
    (
        "a move with dots",
        "PUT",
        "/webhdfs/v1/user/eve/f?op=RENAME&destination=/user/eve/../../f&delegation={eve}",
        "",
    ),
    (
        "an offset beyond everything",
        "GET",
        "/webhdfs/v1/user/eve/f?op=OPEN&offset=9223372036854775807&delegation={eve}",
        "",
    ),
    (
        "an offset before the beginning",
        "GET",
        "/webhdfs/v1/user/eve/f?op=OPEN&offset=-1&delegation={eve}",
        "",
    ),
    (
        "an offset of 40 digits",
        "GET",
        "/webhdfs/v1/user/eve/f?op=OPEN&offset=9999999999999999999999999999999999999999&delegation={eve}",
        "",
    ),
    (
        "a length below zero",
        "GET",
        "/webhdfs/v1/user/eve/f?op=OPEN&length=-9223372036854775808&delegation={eve}",
        "",
    ),
    (
        "a block of a byte",
        "PUT",
        "/webhdfs/v1/user/eve/g?op=CREATE&blocksize=0&delegation={eve}",
        "",
    ),
    (
        "replicas without number",
        "PUT",
        "/webhdfs/v1/user/eve/f?op=SETREPLICATION&replication=32767&delegation={eve}",
        "",
    ),
    (
        "bits beyond bits",
        "PUT",
        "/webhdfs/v1/user/eve/g?op=MKDIRS&permission=7777&delegation={eve}",
        "",
    ),
    (
        "the owner's file as one's own",
        "PUT",
        "/webhdfs/v1/user/eve/f?op=SETOWNER&owner=tester&delegation={eve}",
        "",
    ),
    (
        "an attribute of the system",
        "PUT",
        "/webhdfs/v1/user/eve/f?op=SETXATTR&xattr.name=system.a&xattr.value=x&flag=CREATE&delegation={eve}",
        "",
    ),
    ("a method that echoes", "TRACE", "/webhdfs/v1/secret?op=OPEN&delegation={eve}", ""),
    ("a tunnel", "CONNECT", "127.0.0.1:22", ""),
    ("a method of WebDAV", "PROPFIND", "/webhdfs/v1/secret?op=OPEN&delegation={eve}", ""),
    (
        "a read by another method",
        "POST",
        "/webhdfs/v1/secret?op=OPEN&delegation={eve}",
        "Content-Length: 0\r\n",
    ),
    (
        "a method in a header",
        "GET",
        "/webhdfs/v1/secret?op=DELETE&delegation={eve}",
        "X-HTTP-Method-Override: DELETE\r\n",
    ),
    (
        "another host's name",
        "GET",
        "/webhdfs/v1/?op=LISTSTATUS&delegation={eve}",
        "Host: evil.example\r\n",
    ),
    ("another host's name on health", "GET", "/healthz", "Host: evil.example\r\n"),
    (
        "another host behind a name of ours",
        "GET",
        "/webhdfs/v1/user/eve/f?op=OPEN&delegation={eve}",
        "Host: localhost:1@evil.example\r\n",
    ),
    (
        "another host behind an address",
        "PUT",
        "/webhdfs/v1/user/eve/h?op=CREATE&delegation={eve}",
        "Host: [::1]@evil.example\r\n",
    ),
    (
        "another host behind a name, in the address, too",
        "GET",
        "http://localhost:1@evil.example/webhdfs/v1/user/eve/f?op=OPEN&delegation={eve}",
        "Host: localhost:1@evil.example\r\n",
    ),
    (
        "two hosts",
        "GET",
        "/webhdfs/v1/?op=LISTSTATUS&delegation={eve}",
        "Host: localhost\r\nHost: evil.example\r\n",
    ),
    (
        "a host in the address",
        "GET",
        "http://evil.example/webhdfs/v1/?op=LISTSTATUS&delegation={eve}",
        "",
    ),
    (
        "a page of another site that changes",
        "PUT",
        "/webhdfs/v1/user/eve/h?op=MKDIRS&delegation={eve}",
        "Sec-Fetch-Site: cross-site\r\n",
    ),
    (
        "a page of another site that reads",
        "GET",
        "/webhdfs/v1/?op=LISTSTATUS&delegation={eve}",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
    ),
    (
        "a page of another host that changes",
        "PUT",
        "/webhdfs/v1/user/eve/h?op=MKDIRS&delegation={eve}",
        "Origin: http://evil.example\r\n",
    ),
    ("files for nobody", "GET", "/browse?path=/", ""),
    ("files for nobody's script", "GET", "/api/v1/files?path=/", ""),
    ("content for nobody", "GET", "/api/v1/files/content?path=/secret", ""),
    ("snapshots for nobody", "GET", "/snapshots", ""),
    ("settings for nobody", "GET", "/about", ""),
    ("a check of files for nobody", "GET", "/fsck?path=/&files=1&ugi=tester", ""),
    (
        "a file made by nobody",
        "PUT",
        "/api/v1/files?path=/x&type=directory",
        "x-hanno-page: 1\r\nContent-Length: 0\r\n",
    ),
    (
        "two lengths of a body",
        "PUT",
        "/webhdfs/v1/user/eve/h?op=MKDIRS&delegation={eve}",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
    ),
];

#[test]
fn clients_without_rights_get_nothing() {
    let scene = Scene::start();
    let pids = scene.pids();
    let namenode = scene.web.cluster.namenode.clone();
    for (what, method, target, headers) in ATTACKS {
        let headers = headers.replace("{eve}", &scene.eve);
        let mut answer = scene.send(&namenode, method, target, &headers);
        if answer.status == 307 {
            // It was let through the first step: the second must refuse.
            let location = answer.header("location").unwrap().to_owned();
            answer = request(method, &location, b"");
        }
        assert!(REFUSED.contains(&answer.status), "{what}: {} {}", answer.status, answer.text());
        assert!(!answer.text().contains("of the owner"), "{what}");
    }
    scene.is_whole(&pids);
}

#[test]
fn tokens_are_good_for_what_they_were_given_for_and_no_longer() {
    let scene = Scene::start();
    let pids = scene.pids();
    let Scene { web, eve, datanode } = &scene;
    let home = |token: &str| {
        let url =
            format!("{}/webhdfs/v1/?op=GETHOMEDIRECTORY&delegation={token}", web.cluster.namenode);
        request("GET", &url, b"").status
    };
    assert_eq!(home(eve), 200);
    // Every character altered.
    for index in 0..eve.len() - 4 {
        let mut altered = eve.clone().into_bytes();
        altered[index] = if altered[index] == b'A' { b'B' } else { b'A' };
        let altered = String::from_utf8(altered).unwrap();
        // Behind the password stand kind and service; the service is only an address for the client.
        let told = home(&altered);
        let is_service = index * 3 / 4 > eve.len() * 3 / 4 - 32;
        assert!(told == 403 || (is_service && told == 200), "{index}: {told}");
    }
    // Of another cluster, with the owner's name.
    let foreign = Delegation {
        owner: "tester".to_owned(),
        renewer: String::new(),
        issued_ms: transport::rpc::now_ms(),
        last_ms: u64::MAX >> 1,
        sequence: 1,
    };
    let other_key = token_key(&Key::new([7; 32]));
    assert_eq!(home(&foreign.seal(&other_key, DELEGATION_KIND, "")), 403);
    // Genuine by its password, and never issued.
    let text = fs::read_to_string(web.cluster.directory.join("secret")).unwrap();
    let key = token_key(&Key::from_file_text(&text).unwrap());
    assert_eq!(home(&foreign.seal(&key, DELEGATION_KIND, "")), 403);
    // A token of a redirect is for a DataNode, and one of the NameNode's is not.
    let path = DfsPath::parse("/secret").unwrap();
    let redirect = Redirect { user: "tester".to_owned(), expires_ms: u64::MAX >> 1 };
    let sealed = redirect.seal(&key, Op::Open, &path);
    assert_eq!(home(&sealed), 403);
    let at_datanode = |target: &str| request("GET", &format!("{datanode}/webhdfs/v1{target}"), b"");
    assert_eq!(at_datanode(&format!("/secret?op=OPEN&delegation={sealed}")).is(200).body, SECRET);
    let late = Redirect { expires_ms: transport::rpc::now_ms() - 1, ..redirect };
    for target in [
        format!("/secret?op=OPEN&delegation={eve}"),
        format!("/secret?op=OPEN&delegation={}", late.seal(&key, Op::Open, &path)),
        format!("/secret?op=OPEN&delegation={}", late.seal(&other_key, Op::Open, &path)),
        "/secret?op=OPEN&user.name=tester".to_owned(),
        format!("/user/eve/f?op=OPEN&delegation={sealed}"),
        format!("/secret?op=GETFILECHECKSUM&delegation={sealed}"),
        format!("/secret/../secret?op=OPEN&delegation={sealed}"),
        format!("/%2e/secret?op=OPEN&delegation={sealed}"),
    ] {
        let status = at_datanode(&target).status;
        assert!(REFUSED.contains(&status), "{target}: {status}");
    }
    // Ended by time, by its number, by an operator who has its text.
    let fetch = |arguments: &[&str]| {
        let all = [&["admin", "token", "--user", "eve"], arguments].concat();
        web.cluster.hanno(&all).ok().stdout_text().trim().to_owned()
    };
    let short = fetch(&["--lifetime", "1s"]);
    web.cluster.wait_until("its time is over", 60, |_| home(&short) == 403);
    let listed = web.cluster.hanno(&["admin", "token", "list"]).ok().stdout_text();
    let number = listed.lines().find(|line| line.contains(" eve ")).unwrap();
    let number = number.split_whitespace().next().unwrap();
    web.cluster.hanno(&["admin", "token", "cancel", number]).ok();
    assert_ne!(web.cluster.hanno(&["admin", "token", "cancel", number]).code, 0);
    assert_eq!(home(eve), 403);
    let third = fetch(&[]);
    web.cluster.hanno(&["admin", "token", "renew", &third]).ok();
    web.cluster.hanno(&["admin", "token", "cancel", &third]).ok();
    assert_eq!(home(&third), 403);
    scene.is_whole(&pids);
}

/// Whatever was answered before a NameNode is killed is so afterwards: tokens that were issued, extended and ended. Safe mode by hand ends, as in HDFS.
#[test]
fn tokens_are_what_they_were_when_the_namenode_was_killed() {
    let web = Web::start();
    let admin = |arguments: &[&str]| {
        let all = [&["admin", "token"], arguments].concat();
        web.cluster.hanno(&all).ok().stdout_text().trim().to_owned()
    };
    let home = |token: &str| {
        let url =
            format!("{}/webhdfs/v1/?op=GETHOMEDIRECTORY&delegation={token}", web.cluster.namenode);
        request("GET", &url, b"").status
    };
    let [kept, extended, ended] = ["ann", "bob", "eve"].map(|user| admin(&["--user", user]));
    admin(&["renew", &extended]);
    admin(&["cancel", &ended]);
    let listed = admin(&["list"]);
    for round in 0..2 {
        if round > 0 {
            web.cluster.hanno(&["dfsadmin", "-safemode", "enter"]).ok();
        }
        let former = web.cluster.pid("namenode-1");
        web.cluster.kill("namenode-1");
        web.cluster.wait_until("another NameNode is out of safe mode", 60, |cluster| {
            let state = cluster.hanno(&["dfsadmin", "-safemode", "get"]);
            cluster.pid("namenode-1") != former && state.stdout_text().contains("Safe mode is OFF")
        });
        assert_eq!([&kept, &extended, &ended].map(|token| home(token)), [200, 200, 403]);
        assert_eq!(admin(&["list"]), listed);
    }
}

#[test]
fn requests_that_are_too_much_are_refused_and_cost_little() {
    let scene = Scene::start();
    let pids = scene.pids();
    let namenode = scene.web.cluster.namenode.clone();
    let token = &scene.eve;
    let long = "x".repeat(LONG);
    let entries: Vec<String> = (0..2000).map(|n| format!("user:u{n}:rwx")).collect();
    let sources: Vec<String> = (0..2000).map(|n| format!("/user/eve/{n}")).collect();
    for (what, method, target) in [
        ("a long name", "PUT", format!("/user/eve/{long}?op=MKDIRS")),
        ("a deep path", "PUT", format!("/user/eve{}?op=MKDIRS", "/a".repeat(LONG / 2))),
        (
            "a long attribute",
            "PUT",
            format!("/user/eve/f?op=SETXATTR&xattr.name=user.a&xattr.value={long}&flag=CREATE"),
        ),
        (
            "a list of 2,000 rights",
            "PUT",
            format!("/user/eve/f?op=SETACL&aclspec={}", entries.join(",")),
        ),
        (
            "2,000 files to join",
            "POST",
            format!("/user/eve/f?op=CONCAT&sources={}", sources.join(",")),
        ),
        (
            "a long name of a snapshot",
            "PUT",
            format!("/user/eve?op=CREATESNAPSHOT&snapshotname={long}"),
        ),
        ("a long user", "GET", format!("/?op=GETHOMEDIRECTORY&doas={long}")),
        ("a long operation", "GET", format!("/?op={long}")),
    ] {
        let target = format!("/webhdfs/v1{target}&delegation={token}");
        let status = scene.try_send(&namenode, method, &target, "Content-Length: 0\r\n");
        assert!(REFUSED.contains(&status), "{what}: {status}");
    }
    for daemon in [&namenode, &scene.datanode] {
        let lines = |count: usize, bytes: usize| -> String {
            (0..count).map(|n| format!("X-{n}: {}\r\n", "y".repeat(bytes))).collect()
        };
        for (what, target, headers) in [
            ("many headers", "/healthz".to_owned(), lines(200, 10)),
            ("headers of 70 KB", "/healthz".to_owned(), lines(7, 10_000)),
            ("an address and headers of 70 KB", format!("/healthz?{long}"), lines(3, 10_000)),
            ("an address of 100 KB", format!("/healthz?{long}{long}{long}"), String::new()),
        ] {
            let status = scene.try_send(daemon, "GET", &target, &headers);
            assert!(matches!(status, 0 | 414 | 431), "{what}: {status}");
        }
        assert_eq!(scene.try_send(daemon, "GET", "/healthz", &lines(5, 10_000)), 200);
    }
    bodies_that_lie(&scene);
    scene.is_whole(&pids);
}

/// Uploads whose chunks are endless, absurd or cut leave nothing.
fn bodies_that_lie(scene: &Scene) {
    let web = &scene.web;
    let first = request("PUT", &web.url("eve", "/user/eve/g?op=CREATE"), b"").is(307);
    let location = first.header("location").unwrap();
    for (what, framing, body) in [
        ("a chunk of all sizes", "Transfer-Encoding: chunked\r\n", "FFFFFFFFFFFFFFFF\r\nx"),
        ("a chunk without a number", "Transfer-Encoding: chunked\r\n", "zz\r\nx\r\n0\r\n\r\n"),
        ("a chunk below zero", "Transfer-Encoding: chunked\r\n", "-5\r\nx\r\n0\r\n\r\n"),
        ("a length and chunks", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "5\r\nab"),
        (
            "a coding that nobody undoes",
            "Transfer-Encoding: gzip, chunked\r\n",
            "1\r\nx\r\n0\r\n\r\n",
        ),
        ("a length that is none", "Content-Length: 99999999999999999999\r\n", "x"),
        ("a body that ends early", "Content-Length: 1000\r\n", "x"),
        ("chunks that end early", "Transfer-Encoding: chunked\r\n", "5\r\nabcde\r\n"),
    ] {
        let mut connection = Connection::open(location);
        connection.send_head("PUT", location, framing);
        let _ = connection.send(body.as_bytes());
        drop(connection);
        web.cluster
            .wait_until(what, 60, |_| web.ask("GET", "/user/eve/g?op=GETFILESTATUS").status == 404);
    }
}

/// Every route of every daemon, asked in ways that none may answer, and once rightly.
#[test]
fn every_route_of_every_daemon_is_behind_the_same_layer() {
    let web = Web::start();
    let gateway = Gateway::start(&web);
    let setting = |daemon: &str, key: &str| {
        let file = web.cluster.directory.join(format!("conf/{daemon}.toml"));
        let table: toml::Table = fs::read_to_string(file).unwrap().parse().unwrap();
        format!("http://{}", table[key].as_str().unwrap())
    };
    let daemons = [
        web.cluster.namenode.clone(),
        web.cluster.jobtracker.clone(),
        setting("datanode-1", "http_bind"),
        setting("worker-1", "bind"),
        gateway.address.clone(),
    ];
    let routes = routes();
    for known in ["/rpc", "/healthz", "/webhdfs/v1/x", "/logs/x", "/jobs/x", "/jmx", "/conf"] {
        assert!(routes.iter().any(|route| route == known), "{known} of {routes:?}");
    }
    for daemon in &daemons {
        let host = daemon.trim_start_matches("http://");
        for route in &routes {
            let ask = |headers: &str| {
                let mut connection = Connection::open(daemon);
                let head = format!("GET {route} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
                connection.send(head.as_bytes()).unwrap();
                // Some answers are streams without an end.
                connection.head()
            };
            for (headers, status) in [
                (String::new(), Some(400)),
                (format!("Host: {host}\r\nHost: {host}\r\n"), Some(400)),
                ("Host: evil.example\r\n".to_owned(), Some(421)),
                (format!("Host: {host}@evil.example\r\n"), Some(400)),
                ("Host: [::1]evil.example\r\n".to_owned(), Some(400)),
                (format!("Host: {host}\r\nSec-Fetch-Site: cross-site\r\n"), Some(403)),
                (format!("Host: {host}\r\n"), None),
            ] {
                let answer = ask(&headers);
                let told = format!("{daemon}{route} {headers:?}: {}", answer.status);
                assert!(status.is_none_or(|status| status == answer.status), "{told}");
                assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{told}");
            }
        }
    }
}

/// All routes of all daemons, as their sources name them; what stands for something in them is `x`.
fn routes() -> Vec<String> {
    // Routes that are put together, and what they begin with.
    const COMPUTED: [(&str, &str); 7] = [
        ("bundle::TARGET", protocol::wire::bundle::TARGET),
        ("ROUTE", protocol::shuffle::ROUTE),
        ("jobs", "/ws/v1/history/mapreduce/jobs"),
        ("&format!(\"{jobs}/{{job}}\")", "/ws/v1/mapreduce/jobs/x"),
        ("HELLO,", "/hello"),
        ("&of(", "/ws/v1/history/mapreduce/jobs/x"),
        ("&format!(", "/ws/v1/mapreduce/jobs/x"),
    ];
    let mut found = Vec::new();
    for daemon in ["daemon", "namenode", "datanode", "jobtracker", "worker", "webhdfs"] {
        let mut folders =
            vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(daemon).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    folders.push(entry);
                    continue;
                }
                let text = fs::read_to_string(&entry).unwrap_or_default();
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                for rest in code.split(".route(").skip(1) {
                    let first = rest.trim_start();
                    if let Some(quoted) = first.strip_prefix('"') {
                        found.push(quoted.split('"').next().unwrap().to_owned());
                        continue;
                    }
                    let known = COMPUTED.iter().find(|(begin, _)| first.starts_with(begin));
                    let told = first.lines().next().unwrap_or_default();
                    let (_, route) = known.unwrap_or_else(|| panic!("{}: {told}", entry.display()));
                    found.push((*route).to_owned());
                }
            }
        }
    }
    let filled = found.into_iter().map(|route| {
        let parts = route.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        parts.collect::<Vec<_>>().join("/")
    });
    let mut routes: Vec<String> = filled.collect();
    routes.sort_unstable();
    routes.dedup();
    assert!(routes.len() > 60, "{routes:?}");
    routes
}

//! WebHDFS on a real cluster, byte by byte: every operation with its error twin, both steps of reads and writes, uploads that
//! are cut off, bodies that nobody asked for, names of every kind.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::support::http::{Answer, Connection, request};
use crate::support::{Cluster, Options, data};

mod attributes;
mod crowds;
mod deaths;
mod directories;
mod features;
mod hostile;
mod refusals;

/// A cluster, and who asks.
struct Web {
    cluster: Cluster,
    /// The superuser.
    root: String,
    /// Of each user that asked; none where names are believed.
    tokens: Mutex<HashMap<String, String>>,
    believes: bool,
}

/// The table that makes a daemon believe names.
const SIMPLE: &str = r#"{ auth = "simple" }"#;

impl Web {
    fn start() -> Self {
        Web::start_with(&[])
    }

    /// With a cluster that believes names.
    fn start_simple() -> Self {
        let names = ["HANNO_NAMENODE_WEBHDFS", "HANNO_DATANODE_WEBHDFS"];
        Web { believes: true, ..Web::start_with(&names.map(|name| (name, SIMPLE))) }
    }

    /// With more variables for the daemons.
    fn start_with(variables: &[(&'static str, &str)]) -> Self {
        Web::start_on(2, variables)
    }

    /// With so many DataNodes, and more variables for the daemons.
    fn start_on(datanodes: u32, variables: &[(&'static str, &str)]) -> Self {
        let mut options = Options { datanodes, workers: 1, ..Options::tight() };
        options
            .variables
            .extend(variables.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let cluster = Cluster::start(options);
        Web { cluster, root: "tester".to_owned(), tokens: Mutex::default(), believes: false }
    }

    fn url(&self, user: &str, rest: &str) -> String {
        let mark = if rest.contains('?') { '&' } else { '?' };
        let proof = match self.believes {
            true => format!("user.name={user}"),
            false => format!("delegation={}", self.token(user)),
        };
        format!("{}/webhdfs/v1{rest}{mark}{proof}", self.cluster.namenode)
    }

    /// A token of a user.
    fn token(&self, user: &str) -> String {
        let fetch = || {
            let fetched = self.cluster.hanno(&["admin", "token", "--user", user]).ok();
            fetched.stdout_text().trim().to_owned()
        };
        self.tokens.lock().unwrap().entry(user.to_owned()).or_insert_with(fetch).clone()
    }

    /// One request without a body, as the superuser.
    fn ask(&self, method: &str, rest: &str) -> Answer {
        request(method, &self.url(&self.root, rest), b"")
    }

    /// Both steps, as the superuser.
    fn send(&self, method: &str, rest: &str, body: &[u8]) -> Answer {
        let first = self.ask(method, rest);
        match first.status {
            307 => request(method, first.header("location").unwrap(), body),
            _ => first,
        }
    }

    fn put(&self, path: &str, body: &[u8]) {
        self.send("PUT", &format!("{path}?op=CREATE&overwrite=true"), body).is(201);
    }

    fn read(&self, path: &str) -> Vec<u8> {
        self.send("GET", &format!("{path}?op=OPEN"), b"").is(200).body
    }

    fn second_step(&self, method: &str, rest: &str) -> String {
        let answer = self.ask(method, &format!("{rest}&noredirect=true")).is(200);
        answer.json()["Location"].as_str().unwrap().to_owned()
    }
}

const ILLEGAL: &str = "java.lang.IllegalArgumentException";
const NOT_FOUND: &str = "java.io.FileNotFoundException";
const EXISTS: &str = "org.apache.hadoop.fs.FileAlreadyExistsException";
const DENIED: &str = "org.apache.hadoop.security.AccessControlException";
const IO: &str = "java.io.IOException";

/// The exception of an answer.
fn exception(answer: &Answer) -> (u16, String, String) {
    let body = answer.json();
    let exception = &body["RemoteException"];
    let class = exception["javaClassName"].as_str().unwrap_or_default().to_owned();
    let simple = class.rsplit(['.', '$']).next().unwrap_or_default();
    assert_eq!(exception["exception"], simple, "{body}");
    assert_eq!(answer.header("content-type"), Some("application/json;charset=utf-8"));
    (answer.status, class, exception["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn every_operation_answers_as_hadoop_does() {
    let web = Web::start();
    let flag = |flag: bool| json!({ "boolean": flag });
    assert_eq!(web.ask("PUT", "/d/sub?op=MKDIRS&permission=750").is(200).json(), flag(true));
    assert_eq!(web.ask("PUT", "/d/sub?op=MKDIRS").is(200).json(), flag(true));
    web.put("/d/f", b"12345678901234\n");
    let status = web.ask("GET", "/d/f?op=GETFILESTATUS").is(200).json()["FileStatus"].clone();
    for (field, expected) in [
        ("pathSuffix", json!("")),
        ("type", json!("FILE")),
        ("length", json!(15)),
        ("permission", json!("644")),
        ("owner", json!(web.root)),
        ("group", json!("supergroup")),
        ("replication", json!(2)),
        ("blockSize", json!(134_217_728)),
        ("childrenNum", json!(0)),
        ("storagePolicy", json!(0)),
    ] {
        assert_eq!(status[field], expected, "{field}");
    }
    let listed = web.ask("GET", "/d?op=LISTSTATUS").is(200).json();
    let entries = listed["FileStatuses"]["FileStatus"].as_array().unwrap();
    let names: Vec<_> = entries.iter().map(|entry| entry["pathSuffix"].as_str().unwrap()).collect();
    assert_eq!(names, ["f", "sub"]);
    let mut same = entries[0].clone();
    same["pathSuffix"] = json!("");
    assert_eq!(same, status);
    let alone = web.ask("GET", "/d/f?op=LISTSTATUS").is(200).json();
    assert_eq!(alone["FileStatuses"]["FileStatus"], json!([status]));
    let batch = web.ask("GET", "/d?op=LISTSTATUS_BATCH&startAfter=f").is(200).json();
    assert_eq!(batch["DirectoryListing"]["remainingEntries"], 0);
    let partial = &batch["DirectoryListing"]["partialListing"]["FileStatuses"]["FileStatus"];
    assert_eq!(partial, &json!([entries[1]]));

    let summary =
        web.ask("GET", "/d?op=GETCONTENTSUMMARY").is(200).json()["ContentSummary"].clone();
    assert_eq!((&summary["length"], &summary["fileCount"]), (&json!(15), &json!(1)));
    assert_eq!((&summary["directoryCount"], &summary["spaceConsumed"]), (&json!(2), &json!(30)));
    assert_eq!((&summary["quota"], &summary["typeQuota"]), (&json!(-1), &json!({})));
    web.ask("PUT", "/d?op=SETQUOTA&namespacequota=100&storagespacequota=-1").is(200);
    let usage = web.ask("GET", "/d?op=GETQUOTAUSAGE").is(200).json()["QuotaUsage"].clone();
    assert_eq!((&usage["quota"], &usage["fileAndDirectoryCount"]), (&json!(100), &json!(3)));

    let home = |user: &str, op: &str| {
        request("GET", &web.url(user, &format!("/?op={op}")), b"").is(200).json()["Path"].clone()
    };
    assert_eq!(home("alice", "GETHOMEDIRECTORY"), "/user/alice");
    assert_eq!(home("alice", "GETTRASHROOT"), "/user/alice/.Trash");
    let defaults = web.ask("GET", "/?op=GETSERVERDEFAULTS").is(200).json();
    assert_eq!(defaults["FsServerDefaults"]["blockSize"], 134_217_728);
    assert_eq!(defaults["FsServerDefaults"]["checksumType"], 2);

    let blocks =
        web.ask("GET", "/d/f?op=GET_BLOCK_LOCATIONS").is(200).json()["LocatedBlocks"].clone();
    assert_eq!((&blocks["fileLength"], &blocks["isLastBlockComplete"]), (&json!(15), &json!(true)));
    assert_eq!(blocks["locatedBlocks"].as_array().unwrap().len(), 1);
    assert_eq!(blocks["lastLocatedBlock"]["block"]["numBytes"], 15);
    let public = web.ask("GET", "/d/f?op=GETFILEBLOCKLOCATIONS&offset=3&length=2").is(200).json();
    let block = &public["BlockLocations"]["BlockLocation"][0];
    assert_eq!((&block["offset"], &block["length"]), (&json!(0), &json!(15)));
    assert_eq!(block["hosts"].as_array().unwrap().len(), 2);
    let sum = web.send("GET", "/d/f?op=GETFILECHECKSUM", b"").is(200).json();
    let expected = json!({ "FileChecksum": {
        "algorithm": "MD5-of-0MD5-of-512CRC32C",
        "bytes": "0000020000000000000000007267e9528002723a30939aefc238d66500000000",
        "length": 28,
    }});
    assert_eq!(sum, expected);
    newer_operations(&web);
    changes(&web);
}

/// What Hadoop 3.4 has and 3.3 has not; and what is left out or said too much.
fn newer_operations(web: &Web) {
    let get = |rest: &str| web.ask("GET", rest).is(200).json();
    assert_eq!(get("/d/f?op=GETFILELINKSTATUS"), get("/d/f?op=GETFILESTATUS"));
    let room = &get("/?op=GETSTATUS")["FsStatus"];
    let of = |name: &str| room[name].as_u64().unwrap();
    assert!(of("capacity") >= of("used") + of("remaining") && of("remaining") > 0, "{room}");
    assert_eq!(
        get("/?op=GETECPOLICIES")["ErasureCodingPolicies"]["ErasureCodingPolicyInfo"],
        json!([])
    );
    assert_eq!(get("/?op=GETECCODECS"), json!({ "ErasureCodingCodecs": {} }));
    assert_eq!(get("/?op=GETTRASHROOTS&allusers=true"), json!({ "Paths": [] }));
    for user in ["tester", "alice"] {
        web.ask("PUT", &format!("/user/{user}/.Trash?op=MKDIRS&permission=700")).is(200);
    }
    let paths = |rest: &str| -> Vec<String> {
        let found = get(rest)["Paths"].clone();
        let paths = found.as_array().unwrap().iter();
        paths.map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(paths("/?op=GETTRASHROOTS"), ["/user/tester/.Trash"]);
    let all = ["/user/alice/.Trash", "/user/tester/.Trash"];
    assert_eq!(paths("/?op=GETTRASHROOTS&allusers=TRUE"), all);
    web.ask("DELETE", "/user?op=DELETE&recursive=true").is(200);
    // Left out, they are the server's own.
    let status = |path: &str| get(&format!("{path}?op=GETFILESTATUS"))["FileStatus"].clone();
    web.ask("PUT", "/d/f?op=SETREPLICATION&replication=1").is(200);
    web.ask("PUT", "/d/f?op=SETREPLICATION").is(200);
    assert_eq!(status("/d/f")["replication"], 2);
    web.ask("PUT", "/d/f?op=SETPERMISSION").is(200);
    assert_eq!(status("/d/f")["permission"], "755");
    web.ask("PUT", "/d/f?op=SETPERMISSION&permission=644").is(200);
    // What is ignored is told.
    let answer = web.ask("PUT", "/d/sub?op=MKDIRS&overwrite=true&noredirect=true").is(200);
    let warning = "299 hanno \"ignored, MKDIRS has not: overwrite, noredirect\"";
    assert_eq!(answer.header("warning"), Some(warning));
    assert_eq!(web.ask("GET", "/d?op=LISTSTATUS").header("warning"), None);
    both_steps_judge_alike(web);
    // The audit log tells addresses, whether or not a DataNode runs there.
    let log = web.cluster.directory.join("namenode-1/audit.log");
    let told = || std::fs::read_to_string(&log).unwrap_or_default();
    web.cluster.wait_until("the calls are told", 60, |_| told().contains("proto=webhdfs"));
    let told = told();
    let lines = told.lines().filter(|line| line.contains("proto=webhdfs"));
    for line in lines {
        assert!(line.contains("\tip=/127.0.0.1\t"), "{line}");
    }
}

#[test]
fn files_grow_shrink_and_join() {
    let web = Web::start();
    let content = data::bytes(3, 2_000_000);
    web.put("/d/a", &content[..700_001]);
    // One URL serves for every piece, as fsspec does it.
    let url = web.second_step("POST", "/d/a?op=APPEND");
    for piece in content[700_001..].chunks(650_000) {
        assert_eq!(request("POST", &url, piece).is(200).header("content-length"), Some("0"));
    }
    assert!(web.read("/d/a") == content);
    let flag = |rest: &str| web.ask("POST", rest).is(200).json()["boolean"].clone();
    assert_eq!(flag("/d/a?op=TRUNCATE&newlength=2000000"), true);
    if flag("/d/a?op=TRUNCATE&newlength=1234567") == false {
        web.cluster.wait_until("the last block is cut", 60, |_| {
            let blocks = web.ask("GET", "/d/a?op=GET_BLOCK_LOCATIONS").is(200).json();
            blocks["LocatedBlocks"]["isUnderConstruction"] == false
        });
    }
    assert!(web.read("/d/a") == content[..1_234_567]);
    web.put("/d/b", &content[1_234_567..1_500_000]);
    web.put("/d/c%2C", b"not taken");
    web.put("/d/e", &content[1_500_000..]);
    // As Java splits a list, a comma at its end is none too many.
    web.ask("POST", "/d/a?op=CONCAT&sources=/d/b%2C/d/e,").is(200);
    assert!(web.read("/d/a") == content);
    assert_eq!(web.ask("GET", "/d/b?op=GETFILESTATUS").status, 404);
    let argument = "org.apache.hadoop.HadoopIllegalArgumentException";
    for (rest, status, class, text) in [
        (
            "/x?op=APPEND",
            404,
            NOT_FOUND,
            "Failed to append to non-existent file /x for client 127.0.0.1",
        ),
        (
            "/d?op=APPEND",
            403,
            EXISTS,
            "Cannot append to directory /d; already exists as a directory.",
        ),
        (
            "/d/a?op=TRUNCATE",
            400,
            ILLEGAL,
            "Required param newlength for op: TRUNCATE is null or empty",
        ),
        (
            "/d/a?op=TRUNCATE&newlength=2000001",
            400,
            argument,
            "Cannot truncate to a larger file size. Current size: 2000000, truncate size: 2000001.",
        ),
        ("/d/a?op=CONCAT", 400, ILLEGAL, "Required param sources for op: CONCAT is null or empty"),
        (
            "/d/a?op=CONCAT&sources=/d/a",
            400,
            argument,
            "concat: the src file /d/a is the same with the target file /d/a",
        ),
    ] {
        let (found_status, found_class, message) = exception(&web.send("POST", rest, b"x"));
        assert_eq!((found_status, found_class.as_str()), (status, class), "{rest}: {message}");
        assert_eq!(message, text, "{rest}");
    }
}

fn changes(web: &Web) {
    let flag = |flag: bool| json!({ "boolean": flag });
    let status = |path: &str| web.ask("GET", &format!("{path}?op=GETFILESTATUS")).is(200).json();
    let empty = |rest: &str| {
        let answer = web.ask("PUT", rest).is(200);
        assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
        assert_eq!(answer.header("content-length"), Some("0"));
    };
    assert_eq!(web.ask("PUT", "/d/f?op=SETREPLICATION&replication=1").is(200).json(), flag(true));
    assert_eq!(web.ask("PUT", "/d?op=SETREPLICATION&replication=1").is(200).json(), flag(false));
    assert_eq!(web.ask("PUT", "/x?op=SETREPLICATION&replication=1").is(200).json(), flag(false));
    empty("/d/f?op=SETPERMISSION&permission=1640");
    empty("/d/f?op=SETOWNER&owner=alice&group=staff");
    empty("/d/f?op=SETTIMES&modificationtime=1500000000000&accesstime=-1");
    let found = &status("/d/f")["FileStatus"];
    assert_eq!((&found["permission"], &found["owner"]), (&json!("1640"), &json!("alice")));
    assert_eq!(
        (&found["group"], &found["modificationTime"]),
        (&json!("staff"), &json!(1_500_000_000_000_u64))
    );
    // A directory has an access time where one was set.
    assert_eq!(status("/d")["FileStatus"]["accessTime"], 0);
    empty("/d?op=SETTIMES&modificationtime=-1&accesstime=1234");
    assert_eq!(status("/d")["FileStatus"]["accessTime"], 1234);
    for (rest, expected) in [
        ("/d/f?op=RENAME&destination=/nowhere/f", false),
        ("/x?op=RENAME&destination=/y", false),
        ("/d/f?op=RENAME&destination=/d/f", true),
        ("/d/f?op=RENAME&destination=/d/sub", true),
        ("/d/sub/f?op=RENAME&destination=/d/g&renameoptions=NONE", true),
        ("/d/g?op=rename&Destination=/d/f&renameOptions=overwrite", true),
    ] {
        assert_eq!(web.ask("PUT", rest).is(200).json(), flag(expected), "{rest}");
    }
    for (rest, expected) in [
        ("/x?op=DELETE", false),
        ("/?op=DELETE&recursive=true", false),
        ("/d/f?op=DELETE", true),
        ("/d?op=DELETE&recursive=True", true),
    ] {
        assert_eq!(web.ask("DELETE", rest).is(200).json(), flag(expected), "{rest}");
    }
}

#[test]
fn both_steps_in_every_manner() {
    let web = Web::start();
    let content = data::bytes(1, 3_000_000);
    // Small blocks, so that everything crosses some.
    let rest = "/f?op=CREATE&overwrite=true&blocksize=1048576&permission=600&replication=1";
    let first = web.ask("PUT", rest).is(307);
    let url = first.header("location").unwrap().to_owned();
    assert_eq!(first.header("content-length"), Some("0"));
    for part in [
        "op=CREATE",
        "overwrite=true",
        "blocksize=1048576",
        "permission=600",
        "replication=1",
        "namenoderpcaddress=",
    ] {
        assert!(url.contains(part), "{url}");
    }
    let second = request("PUT", &url, &content).is(201);
    assert!(second.header("location").unwrap().starts_with("hdfs://"), "{second:?}");
    assert_eq!(second.header("access-control-allow-origin"), Some("*"));
    assert_eq!(web.read("/f"), content);
    // The URL serves again, chunked this time, after asking whether to go on.
    let mut connection = Connection::open(&url);
    connection.send_head("PUT", &url, "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n");
    assert_eq!(connection.answer().status, 100);
    for chunk in content.chunks(777_777) {
        connection.send(format!("{:x}\r\n", chunk.len()).as_bytes()).unwrap();
        connection.send(chunk).unwrap();
        connection.send(b"\r\n").unwrap();
    }
    connection.send(b"0\r\n\r\n").unwrap();
    connection.answer().is(201);
    let opened = web.second_step("GET", "/f?op=OPEN");
    assert!(!opened.contains("offset") && !opened.contains("length"), "{opened}");
    for (offset, length, expected) in [
        (0, 10, &content[..10]),
        (1_048_570, 20, &content[1_048_570..1_048_590]),
        (2_999_990, 100, &content[2_999_990..]),
        (3_000_000, 100, &content[..0]),
        (5, 2_999_000, &content[5..2_999_005]),
    ] {
        let answer =
            request("GET", &format!("{opened}&offset={offset}&length={length}"), b"").is(200);
        assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
        assert!(answer.body == expected, "{offset} {length}: {} bytes", answer.body.len());
    }
    web.put("/empty", b"");
    assert_eq!(web.read("/empty"), b"");
    nothing_is_read_behind_the_end(&web, &opened);
    let preflight = request("OPTIONS", &url, b"").is(200);
    assert_eq!(preflight.header("access-control-allow-methods"), Some("PUT"));
    let sum = web.send("GET", "/f?op=GETFILECHECKSUM", b"").is(200).json()["FileChecksum"].clone();
    assert_eq!(sum["algorithm"], "MD5-of-2048MD5-of-512CRC32C");
    let shown = web.cluster.dfs(&["-checksum", "/f"]).ok().stdout_text();
    let bytes = sum["bytes"].as_str().unwrap().strip_suffix("00000000").unwrap();
    let line = format!("/f\t{}\t{bytes}\n", sum["algorithm"].as_str().unwrap());
    assert_eq!(shown, line);
}

/// `opened` is the second step of an OPEN of 3,000,000 bytes.
fn nothing_is_read_behind_the_end(web: &Web, opened: &str) {
    let empty = web.second_step("GET", "/empty?op=OPEN");
    assert_eq!(request("GET", &format!("{empty}&offset=0"), b"").is(200).body, b"");
    for url in [
        format!("{opened}&offset=3000001"),
        format!("{opened}&offset=9000000&length=100"),
        format!("{opened}&offset=9223372036854775807&length=0"),
        format!("{empty}&offset=1"),
    ] {
        let (status, class, text) = exception(&request("GET", &url, b""));
        let told = (status, class.as_str(), text.as_str());
        assert_eq!(told, (403, "java.io.EOFException", "Cannot seek after EOF"), "{url}");
    }
}

#[test]
fn an_upload_that_is_cut_off_leaves_nothing() {
    let web = Web::start();
    let url = web.second_step("PUT", "/cut?op=CREATE");
    for framing in ["Transfer-Encoding: chunked\r\n", "Content-Length: 9000000\r\n"] {
        let mut connection = Connection::open(&url);
        connection.send_head("PUT", &url, framing);
        if framing.starts_with("Transfer") {
            connection.send(b"200000\r\n").unwrap();
        }
        connection.send(&data::bytes(1, 1 << 21)).unwrap();
        web.cluster.wait_until("the file is being written", 60, |_| {
            web.ask("GET", "/cut?op=GETFILESTATUS").status == 200
        });
        drop(connection);
        web.cluster.wait_until("the file is gone", 60, |_| {
            web.ask("GET", "/cut?op=GETFILESTATUS").status == 404
        });
    }
    web.put("/cut", b"whole");
    assert_eq!(web.read("/cut"), b"whole");
}

#[test]
fn a_body_that_nobody_asked_for_does_not_hide_the_answer() {
    let web = Web::start();
    let body = data::bytes(1, 8 << 20);
    // As log shippers do: the body follows at once, and the answer decides what comes next.
    let url = web.url(&web.root, "/log?op=APPEND");
    let mut connection = Connection::open(&url);
    connection.send_head("POST", &url, &format!("Content-Length: {}\r\n", body.len()));
    connection.send(&body).unwrap();
    assert_eq!(connection.answer().status, 404);
    // The connection is still good.
    let url = web.url(&web.root, "/?op=LISTSTATUS");
    connection.send_head("GET", &url, "");
    connection.answer().is(200);
    // A client that waits for leave to send never sends.
    let url = web.url(&web.root, "/f?op=CREATE");
    let mut connection = Connection::open(&url);
    connection.send_head("PUT", &url, "Content-Length: 5\r\nExpect: 100-continue\r\n");
    connection.answer().is(307);
}

#[test]
fn names_of_every_kind_make_the_round_trip() {
    let web = Web::start();
    let long = "x".repeat(255);
    let mut names = vec![
        "a b",
        "100%",
        "a%25b",
        "a%2Fb",
        "a+b",
        "a&b",
        "a=b;c",
        "a?b",
        "a#b",
        "'\"",
        "日本語",
        "😀",
        "é",
        &long,
    ];
    for name in &names {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        web.put(&format!("/n/{encoded}"), name.as_bytes());
        assert_eq!(web.read(&format!("/n/{encoded}")), name.as_bytes());
        assert_eq!(web.cluster.dfs(&["-cat", &format!("/n/{name}")]).ok().stdout, name.as_bytes());
        let moved = format!("/n/{encoded}?op=RENAME&destination=/m/{encoded}");
        web.ask("PUT", "/m?op=MKDIRS").is(200);
        assert_eq!(web.ask("PUT", &moved).is(200).json()["boolean"], true);
    }
    names.sort_unstable();
    let listed = web.ask("GET", "/m?op=LISTSTATUS").is(200).json();
    let found: Vec<&str> = listed["FileStatuses"]["FileStatus"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["pathSuffix"].as_str().unwrap())
        .collect();
    assert_eq!(found, names);
}

#[test]
fn large_directories_are_listed_whole_and_in_pages() {
    let web = Web::start();
    let url = web.url(&web.root, "/?op=LISTSTATUS");
    let mut connection = Connection::open(&url);
    let count = 2500;
    for number in 0..count {
        let url = web.url(&web.root, &format!("/big/{:05}?op=MKDIRS", number * 7919 % count));
        connection.send_head("PUT", &url, "Content-Length: 0\r\n");
        connection.answer().is(200);
    }
    let names = |list: &Value| -> Vec<String> {
        let entries = list["FileStatuses"]["FileStatus"].as_array().unwrap();
        entries.iter().map(|entry| entry["pathSuffix"].as_str().unwrap().to_owned()).collect()
    };
    let expected: Vec<String> = (0..count).map(|number| format!("{number:05}")).collect();
    assert_eq!(names(&web.ask("GET", "/big?op=LISTSTATUS").is(200).json()), expected);
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = web.ask("GET", &format!("/big?op=LISTSTATUS_BATCH&startAfter={after}")).is(200);
        let listing = page.json()["DirectoryListing"].clone();
        found.extend(names(&listing["partialListing"]));
        after = found.last().unwrap().clone();
        let remaining = listing["remainingEntries"].as_u64().unwrap();
        assert_eq!(found.len() as u64 + remaining, count);
        if remaining == 0 {
            break;
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn only_known_hosts_are_served_and_names_are_checked() {
    let web = Web::start_simple();
    let nobody = format!("{}/webhdfs/v1?op=gethomedirectory", web.cluster.namenode);
    assert_eq!(request("GET", &nobody, b"").is(200).json()["Path"], "/user/dr.who");
    assert_eq!(web.ask("GET", "/?op=GETDELEGATIONTOKEN").is(200).json(), json!({ "Token": null }));
    let (address, _) = web.cluster.namenode.trim_start_matches("http://").split_once(':').unwrap();
    for (host, status) in [(address, 200), ("localhost", 200), ("evil.example", 421)] {
        let mut connection = Connection::open(&web.cluster.namenode);
        let head = format!("GET /webhdfs/v1/?op=LISTSTATUS HTTP/1.1\r\nHost: {host}:1\r\n\r\n");
        connection.send(head.as_bytes()).unwrap();
        assert_eq!(connection.answer().status, status, "{host}");
    }
    // Clients of HttpFS say their name once and send back the cookie that they are given.
    let options = request("OPTIONS", &web.url("alice", "/?op=GETHOMEDIRECTORY"), b"").is(200);
    let cookie = options.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert!(cookie.starts_with("hadoop.auth=\"u=alice&"), "{cookie}");
    let home = |cookie: &str| {
        let mut connection = Connection::open(&nobody);
        connection.send_head("GET", &nobody, &format!("Cookie: {cookie}\r\n"));
        connection.answer().is(200).json()["Path"].clone()
    };
    assert_eq!(home(&cookie), "/user/alice");
    assert_eq!(home(&cookie.replace("alice", "admin")), "/user/dr.who");
    let (status, class, _) = exception(&request("GET", &web.url("1x", "/?op=LISTSTATUS"), b""));
    assert_eq!((status, class.as_str()), (400, ILLEGAL));
    let url = format!("{}&doas=bob", web.url("alice", "/?op=LISTSTATUS"));
    let (status, class, message) = exception(&request("GET", &url, b""));
    assert_eq!((status, message.as_str()), (403, "User: alice is not allowed to impersonate bob"));
    assert_eq!(class, "org.apache.hadoop.security.authorize.AuthorizationException");
}

/// What the NameNode's step says of parameters, the DataNode's step says, too.
fn both_steps_judge_alike(web: &Web) {
    let flags = "op=CREATE&createflag=CREATE,OVERWRITE,LAZY_PERSIST,SYNC_BLOCK";
    let told = "299 hanno \"ignored, CREATE does nothing with createflag=LAZY_PERSIST\"";
    let first = web.ask("PUT", &format!("/d/flags?{flags}")).is(307);
    assert_eq!(first.header("warning"), Some(told));
    let second = request("PUT", first.header("location").unwrap(), b"x").is(201);
    assert_eq!(second.header("warning"), Some(told));
    let synced = web.send("PUT", "/d/flags?op=CREATE&createflag=CREATE,OVERWRITE,SYNC_BLOCK", b"y");
    assert_eq!(synced.is(201).header("warning"), None);
    let open = web.second_step("GET", "/d/flags?op=OPEN");
    let append = web.second_step("POST", "/d/flags?op=APPEND");
    for (method, url, more, told) in [
        ("GET", &open, "recursive=true", "OPEN has not: recursive"),
        ("GET", &open, "length=1&length=0", "the first value counts of: length"),
        ("POST", &append, "createflag=OVERWRITE", "APPEND does nothing with createflag=OVERWRITE"),
    ] {
        let answer = request(method, &format!("{url}&{more}"), b"").is(200);
        let told = format!("299 hanno \"ignored, {told}\"");
        assert_eq!(answer.header("warning"), Some(told.as_str()), "{more}");
    }
    for (method, url, more) in [
        ("GET", &open, "lenght=1"),
        ("GET", &open, "length=-1"),
        ("GET", &open, "length=%FF"),
        ("POST", &append, "createflag=SYNC"),
        ("POST", &append, "bufersize=1"),
    ] {
        let refused = exception(&request(method, &format!("{url}&{more}"), b"z"));
        assert_eq!((refused.0, refused.1.as_str()), (400, ILLEGAL), "{more}: {}", refused.2);
    }
    assert_eq!(web.read("/d/flags"), b"y", "what was refused was not done");
}

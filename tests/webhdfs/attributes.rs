//! What HDFS keeps beside a file and shows to few: attributes of the namespace `raw`, the one that closes a file to the superuser, storage
//! policies. Over WebHDFS and by the commands, before and after a restart.

use std::fs;

use serde_json::json;

use super::{DENIED, IO, Web, exception};
use crate::support::Outcome;
use crate::support::cluster::hanno_binary;
use crate::support::http::{Answer, request};

const CLOSED: &str = "security.hdfs.unreadable.by.superuser";

/// Both steps, as a user.
fn send(web: &Web, user: &str, method: &str, rest: &str, body: &[u8]) -> Answer {
    let first = request(method, &web.url(user, rest), b"");
    match first.status {
        307 => request(method, first.header("location").unwrap(), body),
        _ => first,
    }
}

fn names(web: &Web, user: &str, path: &str) -> String {
    let answer = request("GET", &web.url(user, &format!("{path}?op=LISTXATTRS")), b"");
    answer.is(200).json()["XAttrNames"].as_str().unwrap().to_owned()
}

/// Runs `hanno dfs ARGS` as a user.
fn dfs(web: &Web, user: &str, args: &[&str]) -> Outcome {
    let mut command = web.cluster.command(&hanno_binary(), &[&["dfs"], args].concat());
    command.env("HADOOP_USER_NAME", user);
    Outcome::of(command)
}

#[test]
fn raw_attributes_are_the_superusers_and_belong_to_the_raw_path() {
    let mut web = Web::start();
    web.put("/d/f", b"content");
    web.ask("PUT", "/d/f?op=SETPERMISSION&permission=640").is(200);
    let set = |user: &str, path: &str, name: &str| {
        let rest = format!("{path}?op=SETXATTR&xattr.name={name}&xattr.value=0x01&flag=CREATE");
        request("PUT", &web.url(user, &rest), b"")
    };
    let (_, class, message) = exception(&set("tester", "/d/f", "raw.a"));
    assert_eq!(
        (class.as_str(), message.as_str()),
        (DENIED, "User doesn't have permission for xattr: raw.a")
    );
    assert_eq!(exception(&set("alice", "/.reserved/raw/d/f", "raw.a")).1, DENIED);
    set("tester", "/.reserved/raw/d/f", "raw.a").is(200);
    set("tester", "/d/f", "user.b").is(200);

    // The same file with the same rights, whoever asks for what.
    let status = |path: &str| {
        web.ask("GET", &format!("{path}?op=GETFILESTATUS")).is(200).json()["FileStatus"].clone()
    };
    assert_eq!(status("/.reserved/raw/d/f"), status("/d/f"));
    assert_eq!(status("/.reserved/raw")["fileId"], status("/")["fileId"]);
    assert_eq!(web.read("/.reserved/raw/d/f"), b"content");
    for path in ["/d/f", "/.reserved/raw/d/f"] {
        let opened = send(&web, "alice", "GET", &format!("{path}?op=OPEN"), b"");
        assert_eq!(exception(&opened).1, DENIED, "{path}");
    }
    web.send("PUT", "/.reserved/raw/d/g?op=CREATE", b"more").is(201);
    assert_eq!(web.read("/d/g"), b"more");
    web.send("POST", "/.reserved/raw/d/g?op=APPEND", b"!").is(200);
    let sum = |path: &str| {
        let answer = web.send("GET", &format!("{path}?op=GETFILECHECKSUM"), b"").is(200);
        answer.json()["FileChecksum"]["bytes"].clone()
    };
    assert_eq!(sum("/d/g"), sum("/.reserved/raw/d/g"));
    let created = send(&web, "alice", "PUT", "/.reserved/raw/d/h?op=CREATE", b"");
    assert_eq!(exception(&created).1, DENIED);
    let concat = web.ask("POST", "/.reserved/raw/d/g?op=CONCAT&sources=/d/f");
    let text = "Concat operation doesn't support .reserved relative path : /.reserved/raw/d/g";
    assert_eq!(exception(&concat).2, text);

    // Copies take them along within the raw path, with and without `-p`, and do not leave it.
    let tester = |args: &[&str]| dfs(&web, "tester", args);
    tester(&["-cp", "/.reserved/raw/d", "/.reserved/raw/e"]).ok();
    tester(&["-cp", "-p", "/d/f", "/plain"]).ok();
    for args in [["-cp", "/.reserved/raw/d/f", "/x"], ["-cp", "/d/f", "/.reserved/raw/x"]] {
        let refused = tester(&args);
        let text = "Either both source and target must be in '/.reserved/raw' or neither.': Operation not supported";
        assert!(refused.code == 1 && refused.stderr.contains(text), "{}", refused.stderr);
    }
    assert_eq!(tester(&["-test", "-e", "/x"]).code, 1, "nothing was copied");
    let fattr = tester(&["-getfattr", "-d", "-e", "hex", "/.reserved/raw/e/f"]).ok().stdout_text();
    assert_eq!(fattr, "# file: /.reserved/raw/e/f\nraw.a=0x01\n");
    let check = |web: &Web| {
        assert_eq!(names(web, "tester", "/.reserved/raw/d/f"), r#"["user.b","raw.a"]"#);
        assert_eq!(names(web, "tester", "/d/f"), r#"["user.b"]"#);
        assert_eq!(names(web, "tester", "/.reserved/raw/plain"), "[]");
    };
    check(&web);
    web.cluster.restart();
    check(&web);
    let removed = web.ask("PUT", "/d/f?op=REMOVEXATTR&xattr.name=raw.a");
    assert_eq!(exception(&removed).1, DENIED);
    web.ask("PUT", "/.reserved/raw/d/f?op=REMOVEXATTR&xattr.name=raw.a").is(200);
    assert_eq!(names(&web, "tester", "/.reserved/raw/d/f"), r#"["user.b"]"#);
}

#[test]
fn a_file_that_is_closed_to_the_superuser_is_his_to_delete_and_not_to_read() {
    let mut web = Web::start();
    web.ask("PUT", "/d?op=MKDIRS&permission=777").is(200);
    send(&web, "alice", "PUT", "/d/f?op=CREATE&permission=600", b"secret").is(201);
    assert_eq!(web.read("/d/f"), b"secret");
    let set = |user: &str, path: &str, rest: &str| {
        let rest = format!("{path}?op=SETXATTR&xattr.name={CLOSED}&flag=CREATE,REPLACE{rest}");
        request("PUT", &web.url(user, &rest), b"")
    };
    for (user, path, rest, class, text) in [
        ("alice", "/d", "", IO, format!("Can only set '{CLOSED}' on a file.")),
        (
            "alice",
            "/d/f",
            "&xattr.value=0x01",
            DENIED,
            format!(
                "Attempt to set a value for '{CLOSED}'. Values are not allowed for this xattr."
            ),
        ),
    ] {
        let (_, found, message) = exception(&set(user, path, rest));
        assert_eq!((found.as_str(), message), (class, text));
    }
    assert_eq!(exception(&set("eve", "/d/f", "")).1, DENIED);
    set("alice", "/d/f", "").is(200);
    let check = |web: &Web| {
        for rest in ["/d/f?op=OPEN", "/.reserved/raw/d/f?op=OPEN", "/d/f?op=GETFILECHECKSUM"] {
            let answer = web.ask("GET", rest);
            let text = "Access is denied for tester since the superuser is not allowed to perform this operation.";
            assert_eq!(exception(&answer), (403, DENIED.to_owned(), text.to_owned()), "{rest}");
        }
        assert_eq!(send(web, "alice", "GET", "/d/f?op=OPEN", b"").is(200).body, b"secret");
        let opened = send(web, "eve", "GET", "/d/f?op=OPEN", b"");
        assert!(exception(&opened).2.contains("Permission denied: user=eve"));
        let read = dfs(web, "tester", &["-cat", "/d/f"]);
        assert!(read.code == 1 && read.stdout.is_empty(), "{}", read.stderr);
        assert!(read.stderr.contains("the superuser is not allowed"), "{}", read.stderr);
        assert_eq!(dfs(web, "alice", &["-cat", "/d/f"]).ok().stdout, b"secret");
        for user in ["tester", "alice"] {
            let found = request("GET", &web.url(user, "/d/f?op=GETXATTRS"), b"").is(200).json();
            assert_eq!(found["XAttrs"], json!([{ "name": CLOSED, "value": null }]));
        }
    };
    check(&web);
    for user in ["tester", "alice"] {
        let url = web.url(user, &format!("/d/f?op=REMOVEXATTR&xattr.name={CLOSED}"));
        let text = format!("The xattr '{CLOSED}' can not be deleted.");
        let refused = exception(&request("PUT", &url, b""));
        assert_eq!(refused, (403, DENIED.to_owned(), text));
    }
    web.cluster.restart();
    check(&web);
    web.ask("PUT", "/d/f?op=RENAME&destination=/d/g").is(200);
    assert_eq!(exception(&web.ask("GET", "/d/g?op=OPEN")).1, DENIED);
    web.ask("DELETE", "/d/g?op=DELETE").is(200);
}

#[test]
fn storage_policies_are_kept_and_what_is_not_done_is_told() {
    let mut web = Web::start();
    web.put("/d/sub/f", b"x");
    web.put("/other/g", b"y");
    let set = |path: &str, name: &str| {
        web.ask("PUT", &format!("{path}?op=SETSTORAGEPOLICY&storagepolicy={name}"))
    };
    assert_eq!(set("/d", "hot").is(200).header("warning"), None);
    let ssd = set("/d", "ALL_SSD").is(200);
    let told = "299 hanno \"the storage policy ALL_SSD is kept, but there is no SSD here: all replicas are on DISK\"";
    assert_eq!(ssd.header("warning"), Some(told));
    let (status, class, message) = exception(&set("/d", "COLD"));
    assert_eq!((status, class.rsplit('.').next()), (400, Some("HadoopIllegalArgumentException")));
    assert!(message.contains("COLD needs ARCHIVE"), "{message}");

    set("/d/sub", "WARM").is(200);

    let check = |web: &Web, expected: &[(&str, u64, &str)]| {
        for (path, id, name) in expected {
            let asked = web.ask("GET", &format!("{path}?op=GETSTORAGEPOLICY")).is(200).json();
            assert_eq!(asked["BlockStoragePolicy"]["name"], *name, "{path}");
            let status = web.ask("GET", &format!("{path}?op=GETFILESTATUS")).is(200).json();
            assert_eq!(status["FileStatus"]["storagePolicy"], *id, "{path}");
            let got = web.cluster.hanno(&["storagepolicies", "-getStoragePolicy", "-path", path]);
            let text = match id {
                0 => format!("The storage policy of {path} is unspecified\n"),
                id => format!("The storage policy of {path}:\nBlockStoragePolicy{{{name}:{id}, "),
            };
            assert!(got.ok().stdout_text().starts_with(&text), "{path}");
        }
        let listed = web.ask("GET", "/d?op=LISTSTATUS").is(200).json();
        let mut entries = listed["FileStatuses"]["FileStatus"].as_array().unwrap().iter();
        let sub = entries.find(|entry| entry["pathSuffix"] == "sub").unwrap();
        assert_eq!(sub["storagePolicy"], 5);
    };
    let all = [
        ("/d", 12, "ALL_SSD"),
        ("/d/sub", 5, "WARM"),
        ("/d/sub/f", 5, "WARM"),
        ("/other/g", 0, "HOT"),
        ("/", 0, "HOT"),
    ];
    check(&web, &all);
    web.cluster.restart();
    check(&web, &all);
    web.ask("PUT", "/other/g?op=RENAME&destination=/d/g").is(200);
    check(&web, &[("/d/g", 12, "ALL_SSD")]);
    let checked = web.cluster.hanno(&["fsck", "/", "-storagepolicies"]).ok().stdout_text();
    assert!(checked.contains("Blocks NOT satisfying the specified storage policy:"), "{checked}");
    assert!(checked.contains("WARM") && checked.contains("ALL_SSD"), "{checked}");
    let unset = web.cluster.hanno(&["storagepolicies", "-unsetStoragePolicy", "-path", "/d"]).ok();
    assert_eq!(unset.stdout_text(), "Unset storage policy from /d\n");
    check(&web, &[("/d/g", 0, "HOT"), ("/d/sub/f", 5, "WARM")]);
    web.ask("POST", "/d/sub?op=UNSETSTORAGEPOLICY").is(200);
    let status = web.ask("GET", "/d/sub/f?op=GETFILESTATUS").is(200).json();
    assert_eq!(status["FileStatus"]["storagePolicy"], 0);
    let log = web.cluster.directory.join("namenode-1/audit.log");
    let told = |command| fs::read_to_string(&log).unwrap_or_default().contains(command);
    web.cluster.wait_until("the calls are told", 60, |_| {
        told("cmd=setStoragePolicy\tsrc=/d/sub\t") && told("cmd=unsetStoragePolicy\tsrc=/d/sub\t")
    });
}

#[test]
fn the_command_for_storage_policies_answers_as_hadoops() {
    let web = Web::start();
    web.put("/d/sub/f", b"x");
    let policies = |args: &[&str]| web.cluster.hanno(&[&["storagepolicies"], args].concat());
    let kept = policies(&["-setStoragePolicy", "-path", "/d/sub", "-policy", "WARM"]).ok();
    assert_eq!(kept.stdout_text(), "Set storage policy WARM on /d/sub\n");
    assert!(kept.stderr.contains("there is no ARCHIVE here"), "{}", kept.stderr);
    for (args, text) in [
        (["-setStoragePolicy", "-path", "/d", "-policy", "COLD"], "COLD needs ARCHIVE"),
        (
            ["-setStoragePolicy", "-path", "/d", "-policy", "X"],
            "Cannot find a block policy with the name X",
        ),
        (
            ["-setStoragePolicy", "-path", "/x", "-policy", "HOT"],
            "File/Directory does not exist: /x",
        ),
    ] {
        let refused = policies(&args);
        assert!(refused.code == 2 && refused.stderr.contains(text), "{}", refused.stderr);
    }
    let refused = policies(&["-satisfyStoragePolicy", "-path", "/d"]);
    assert!(refused.code == 2 && refused.stderr.contains("not supported"), "{}", refused.stderr);
    let list = policies(&["-listPolicies"]).ok().stdout_text();
    assert!(
        list.starts_with("Block Storage Policies:\n\tBlockStoragePolicy{PROVIDED:1,"),
        "{list}"
    );
    assert_eq!(list.lines().count(), 9);
}

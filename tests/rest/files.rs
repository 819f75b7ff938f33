//! What the browser of files asks the NameNode for: changes with the rights of who is signed in, made once however often they are sent, and uploads that
//! are there as a whole or not at all.

use serde_json::json;

use crate::support::http::{Answer, Connection};
use crate::support::{Cluster, Options, data};

/// Bytes of an upload: several pieces of a relay.
const UPLOAD_BYTES: usize = 300_000;

/// A page of the NameNode that somebody has open.
struct Page<'a> {
    cluster: &'a Cluster,
    session: String,
}

impl<'a> Page<'a> {
    fn of(cluster: &'a Cluster, user: &str) -> Self {
        Page { cluster, session: cluster.session("NameNode", user) }
    }

    /// The headers of a request that changes something.
    fn headers(&self, length: usize, more: &str) -> String {
        let Page { cluster, session } = self;
        let own = format!("Origin: {}\r\nX-Hanno-Page: 1\r\n{session}{more}", cluster.namenode);
        format!("{own}Content-Length: {length}\r\nConnection: close\r\n")
    }

    fn send(&self, method: &str, target: &str, more: &str) -> Answer {
        let url = format!("{}/api/v1/files{target}", self.cluster.namenode);
        let mut connection = Connection::open(&url);
        connection.send_head(method, &url, &self.headers(0, more));
        connection.answer()
    }

    fn post(&self, target: &str) -> Answer {
        self.send("POST", target, "")
    }

    /// Under a number.
    fn post_as(&self, number: &str, target: &str) -> Answer {
        self.send("POST", target, &format!("X-Hanno-Call: {number}\r\n"))
    }

    /// Begins an upload, with the first half of its bytes.
    fn begin_upload(&self, target: &str, bytes: &[u8]) -> Connection {
        let url = format!("{}/api/v1/files{target}", self.cluster.namenode);
        let mut connection = Connection::open(&url);
        // All under one number: each has bytes of its own nevertheless.
        connection.send_head("PUT", &url, &self.headers(bytes.len(), "X-Hanno-Call: 7\r\n"));
        connection.send(&bytes[..bytes.len() / 2]).unwrap();
        connection
    }
}

/// A cluster with a home of ann's and one of eve's.
fn start() -> Cluster {
    let cluster = Cluster::start(Options { workers: 1, ..Options::tight() });
    for user in ["ann", "eve"] {
        let home = format!("/user/{user}");
        cluster.dfs(&["-mkdir", "-p", &home]).ok();
        cluster.dfs(&["-chown", user, &home]).ok();
    }
    cluster
}

/// Makes a file of ann's.
fn touch(cluster: &Cluster, path: &str) {
    cluster.dfs(&["-touchz", path]).ok();
    cluster.dfs(&["-chown", "ann", path]).ok();
}

fn is_there(cluster: &Cluster, path: &str) -> bool {
    cluster.dfs(&["-test", "-e", path]).code == 0
}

/// What `-stat` says of a path.
fn stat(cluster: &Cluster, path: &str) -> String {
    cluster.dfs(&["-stat", "%a %u %g %r", path]).ok().stdout_text().trim().to_owned()
}

#[test]
fn files_are_changed_from_pages_by_those_who_may() {
    let cluster = start();
    let (ann, eve) = (Page::of(&cluster, "ann"), Page::of(&cluster, "eve"));
    changes(&cluster, &ann);
    others_change_nothing(&cluster, &eve);
    what_is_no_change_is_refused(&ann);
    the_trash(&cluster, &ann);
    once(&cluster, &ann);
}

fn changes(cluster: &Cluster, ann: &Page<'_>) {
    ann.send("PUT", "?type=directory&path=/user/ann/d", "").is(201);
    touch(cluster, "/user/ann/f");
    let moved = ann.post("/move?path=/user/ann/f&to=/user/ann/g").is(200);
    assert_eq!(moved.json(), json!({ "path": "/user/ann/g" }));
    let moved = ann.post("/move?path=/user/ann/g&to=/user/ann/d/").is(200);
    assert_eq!(moved.json(), json!({ "path": "/user/ann/d/g" }));
    assert!(is_there(cluster, "/user/ann/d/g") && !is_there(cluster, "/user/ann/f"));
    ann.post("/permission?path=/user/ann/d/g&mode=640").is(200);
    ann.post("/replication?path=/user/ann/d/g&replication=1").is(200);
    let before = stat(cluster, "/user/ann/d/g");
    assert!(before.starts_with("640 ann ") && before.ends_with(" 1"), "{before}");
    // What a form sends that changes neither needs no right.
    let group = before.split(' ').nth(2).unwrap();
    ann.post(&format!("/owner?path=/user/ann/d/g&owner=ann&group={group}")).is(200);
    ann.post("/owner?path=/user/ann/d/g&owner=eve").is(403);
    assert_eq!(stat(cluster, "/user/ann/d/g"), before);
    let root = Page::of(cluster, "tester");
    root.post("/owner?path=/user/ann/d/g&owner=&group=staff").is(200);
    assert_eq!(stat(cluster, "/user/ann/d/g"), "640 ann staff 1");
}

fn others_change_nothing(cluster: &Cluster, eve: &Page<'_>) {
    let before = stat(cluster, "/user/ann/d/g");
    for target in [
        "/move?path=/user/ann/d/g&to=/user/eve/g",
        "/trash?path=/user/ann/d/g",
        "/permission?path=/user/ann/d/g&mode=777",
        "/owner?path=/user/ann/d/g&owner=eve",
        "/replication?path=/user/ann/d/g&replication=2",
    ] {
        let refused = eve.post(target).is(403).json();
        let message = refused["message"].as_str().unwrap();
        assert!(!message.is_empty() && !message.contains('\n'), "{target}: {message}");
    }
    eve.send("PUT", "?type=directory&path=/user/ann/e", "").is(403);
    eve.send("DELETE", "?path=/user/ann/d&recursive=true", "").is(403);
    assert_eq!(stat(cluster, "/user/ann/d/g"), before);
    assert!(!is_there(cluster, "/user/eve/g") && !is_there(cluster, "/user/ann/e"));
}

fn what_is_no_change_is_refused(ann: &Page<'_>) {
    for (target, status) in [
        ("/move?path=/user/ann/none&to=/user/ann/x", 404),
        ("/move?path=/user/ann/d/g&to=/user/ann/d/g", 409),
        ("/move?path=/user/ann/d&to=/user/ann/d/e/f", 400),
        ("/move?path=/user/ann/d&to=relative", 400),
        ("/move?path=/user/ann/d", 400),
        ("/trash", 400),
        ("/trash?path=/user/ann/none", 404),
        ("/trash?path=/user/ann", 400),
        ("/trash?path=/", 400),
        ("/permission?path=/user/ann/d&mode=999", 400),
        ("/permission?path=/user/ann/none&mode=644", 404),
        ("/owner?path=/user/ann/d", 400),
        ("/replication?path=/user/ann/d&replication=2", 400),
        ("/replication?path=/user/ann/d/g&replication=0", 400),
    ] {
        let refused = ann.post(target).is(status);
        assert!(refused.json()["message"].is_string(), "{target}");
    }
    ann.post_as("seven", "/trash?path=/user/ann/d/g").is(400);
}

fn the_trash(cluster: &Cluster, ann: &Page<'_>) {
    let trashed = ann.post("/trash?path=/user/ann/d/g").is(200);
    assert_eq!(trashed.json(), json!({ "path": "/user/ann/d" }));
    let place = "/user/ann/.Trash/Current/user/ann/d";
    assert!(is_there(cluster, &format!("{place}/g")) && !is_there(cluster, "/user/ann/d/g"));
    assert_eq!(&stat(cluster, "/user/ann/.Trash")[..7], "700 ann");
    // Another of that name, and one below what is a file there.
    touch(cluster, "/user/ann/d/g");
    ann.post("/trash?path=/user/ann/d/g").is(200);
    let count = |path: &str| {
        let listed = cluster.dfs(&["-ls", "-C", path]).ok().stdout_text();
        listed.lines().filter(|line| line.contains("/g")).count()
    };
    assert_eq!(count(place), 2);
    cluster.dfs(&["-mkdir", "/user/ann/d/g"]).ok();
    cluster.dfs(&["-chown", "ann", "/user/ann/d/g"]).ok();
    touch(cluster, "/user/ann/d/g/h");
    ann.post("/trash?path=/user/ann/d/g/h").is(200);
    assert_eq!(count(place), 3, "a directory beside the file");
    assert!(!is_there(cluster, "/user/ann/d/g/h"));
    ann.post(&format!("/trash?path={place}/g")).is(400);
    ann.send("DELETE", &format!("?path={place}/g"), "").is(200);
    assert_eq!(count(place), 2);
}

/// A request whose answer was lost is sent again.
fn once(cluster: &Cluster, ann: &Page<'_>) {
    touch(cluster, "/user/ann/a");
    let target = "/move?path=/user/ann/a&to=/user/ann/b";
    for _ in 0..2 {
        let moved = ann.post_as("5", target).is(200);
        assert_eq!(moved.json(), json!({ "path": "/user/ann/b" }));
    }
    ann.post_as("6", target).is(404);
    ann.post_as("100", "/trash?path=/user/ann/b").is(200);
    touch(cluster, "/user/ann/b");
    ann.post_as("100", "/trash?path=/user/ann/b").is(200);
    assert!(is_there(cluster, "/user/ann/b"), "it was made after the first");
    for (number, status) in [("200", 200), ("200", 200), ("201", 404)] {
        let number = format!("X-Hanno-Call: {number}\r\n");
        ann.send("DELETE", "?path=/user/ann/b", &number).is(status);
    }
    // Another session of the same user has numbers of its own.
    touch(cluster, "/user/ann/b");
    let elsewhere = Page::of(cluster, "ann");
    elsewhere.send("DELETE", "?path=/user/ann/b", "X-Hanno-Call: 200\r\n").is(200);
    assert!(!is_there(cluster, "/user/ann/b"));
}

#[test]
fn an_upload_is_there_as_a_whole_or_not_at_all() {
    let cluster = start();
    let ann = Page::of(&cluster, "ann");
    let bytes = data::text(9, UPLOAD_BYTES);
    ann.send("PUT", "?type=directory&path=/user/ann/up", "").is(201);
    let listed = || cluster.dfs(&["-ls", "-C", "/user/ann/up"]).ok().stdout_text();
    let is_under_way = |_: &Cluster| listed().contains("._COPYING_");

    let mut whole = ann.begin_upload("?path=/user/ann/up/f", &bytes);
    cluster.wait_until("the upload is under way", 60, is_under_way);
    assert!(!is_there(&cluster, "/user/ann/up/f"), "{}", listed());
    whole.send(&bytes[bytes.len() / 2..]).unwrap();
    whole.answer().is(201);
    let cat = |path: &str| cluster.dfs(&["-cat", path]).ok().stdout;
    assert!(cat("/user/ann/up/f") == bytes);
    assert_eq!(listed().trim(), "/user/ann/up/f");

    for target in ["?path=/user/ann/up/new", "?overwrite=true&path=/user/ann/up/f"] {
        let cut = ann.begin_upload(target, &bytes);
        cluster.wait_until("the upload is under way", 60, is_under_way);
        drop(cut);
        cluster.wait_until("nothing of it is left", 60, |_| listed().trim() == "/user/ann/up/f");
        assert!(cat("/user/ann/up/f") == bytes, "{target}: what was there stays");
    }

    let mut replaced = ann.begin_upload("?overwrite=true&path=/user/ann/up/f", &bytes[..1000]);
    replaced.send(&bytes[500..1000]).unwrap();
    replaced.answer().is(201);
    assert!(cat("/user/ann/up/f") == bytes[..1000]);
    for (target, status) in [("?path=/user/ann/up/f", 409), ("?path=/user/ann/up", 400)] {
        ann.begin_upload(target, b"x").answer().is(status);
    }
    let eve = Page::of(&cluster, "eve");
    eve.begin_upload("?path=/user/ann/up/eve", b"xx").answer().is(403);
    assert_eq!(listed().trim(), "/user/ann/up/f");
}

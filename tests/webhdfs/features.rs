//! What not every file has - lists of rights, attributes, snapshots - and who may call: tokens, proxies, a gateway.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::{DENIED, ILLEGAL, IO, SIMPLE, Web, exception};
use crate::support::Cluster;
use crate::support::cluster::{Ports, hanno_binary};
use crate::support::data;
use crate::support::http::{Answer, Connection, request, request_with};

#[test]
fn rights_attributes_and_policies() {
    let web = Web::start();
    web.put("/d/f", b"x");
    let acl = |path: &str| {
        web.ask("GET", &format!("{path}?op=GETACLSTATUS")).is(200).json()["AclStatus"].clone()
    };
    assert_eq!(acl("/d/f")["entries"], json!([]));
    web.ask("PUT", "/d/f?op=MODIFYACLENTRIES&aclspec=user:alice:rw-,group:etl:r--").is(200);
    let status = acl("/d/f");
    assert_eq!(status["entries"], json!(["user:alice:rw-", "group::r--", "group:etl:r--"]));
    assert_eq!((&status["owner"], &status["stickyBit"]), (&json!("tester"), &json!(false)));
    assert_eq!(web.ask("GET", "/d/f?op=GETFILESTATUS").json()["FileStatus"]["aclBit"], true);
    let check = |user: &str, action: &str| {
        request("GET", &web.url(user, &format!("/d/f?op=CHECKACCESS&fsaction={action}")), b"")
    };
    check("alice", "rw-").is(200);
    assert_eq!(exception(&check("bob", "-w-")).1, DENIED);
    assert_eq!(check("bob", "w").status, 400);
    web.ask("PUT", "/d/f?op=REMOVEACLENTRIES&aclspec=group:etl").is(200);
    web.ask("PUT", "/d?op=SETACL&aclspec=user::rwx,group::r-x,other::---,default:user:bob:rwx")
        .is(200);
    web.ask("PUT", "/d?op=REMOVEDEFAULTACL").is(200);
    web.ask("PUT", "/d/f?op=REMOVEACL").is(200);
    assert_eq!(acl("/d/f")["entries"], json!([]));
    let (status, class, message) = exception(&web.ask("PUT", "/d/f?op=SETACL&aclspec=user::rwx"));
    assert_eq!((status, class.rsplit('.').next()), (403, Some("AclException")), "{message}");

    let set = |value: &str, flag: &str| {
        web.ask(
            "PUT",
            &format!("/d/f?op=SETXATTR&xattr.name=user.a&xattr.value={value}&flag={flag}"),
        )
    };
    set("0x3132", "CREATE").is(200);
    set("%2212%22", "REPLACE").is(200);
    web.ask("PUT", "/d/f?op=SETXATTR&xattr.name=user.b&flag=CREATE").is(200);
    let get = |rest: &str| {
        web.ask("GET", &format!("/d/f?op=GETXATTRS{rest}")).is(200).json()["XAttrs"].clone()
    };
    assert_eq!(get("&xattr.name=user.a"), json!([{ "name": "user.a", "value": "\"12\"" }]));
    assert_eq!(get("&xattr.name=user.a&encoding=hex")[0]["value"], "0x3132");
    assert_eq!(get("&encoding=BASE64").as_array().unwrap().len(), 2);
    let names = web.ask("GET", "/d/f?op=LISTXATTRS").is(200).json();
    assert_eq!(names["XAttrNames"], "[\"user.a\",\"user.b\"]");
    web.ask("PUT", "/d/f?op=REMOVEXATTR&xattr.name=user.b").is(200);
    for (rest, text) in [
        ("GETXATTRS&xattr.name=user.b", "At least one of the attributes provided was not found."),
        (
            "GETXATTRS&xattr.name=b",
            "An XAttr name must be prefixed with user/trusted/security/system/raw, followed by a '.'",
        ),
    ] {
        assert_eq!(exception(&web.ask("GET", &format!("/d/f?op={rest}"))).2, text);
    }

    let (status, class, text) = exception(&set(&"v".repeat(16_384), "REPLACE"));
    let illegal = "org.apache.hadoop.HadoopIllegalArgumentException";
    assert_eq!((status, class.as_str()), (400, illegal));
    let told = "The XAttr is too big. The maximum combined size of the name and value is 16384, but the total size is 16385";
    assert_eq!(text, told);
    set(&"v".repeat(16_383), "REPLACE").is(200);

    let policy = web.ask("GET", "/d/f?op=GETSTORAGEPOLICY").is(200).json();
    assert_eq!(policy["BlockStoragePolicy"]["name"], "HOT");
    let all = web.ask("GET", "/?op=GETALLSTORAGEPOLICY").is(200).json();
    assert_eq!(all["BlockStoragePolicies"]["BlockStoragePolicy"].as_array().unwrap().len(), 8);
}

#[test]
fn a_default_list_takes_the_place_of_the_umask() {
    let web = Web::start();
    web.ask("PUT", "/p?op=MKDIRS").is(200);
    web.ask("PUT", "/m?op=MKDIRS").is(200);
    web.ask("PUT", "/none?op=MKDIRS").is(200);
    let defaults = "default:user:bob:rwx,default:group:etl:r-x,default:mask::rwx";
    web.ask("PUT", &format!("/p?op=MODIFYACLENTRIES&aclspec={defaults}")).is(200);
    // Without named entries there is no mask: the group's own entry is limited.
    let minimal = "default:user::rwx,default:group::rwx,default:other::r-x";
    web.ask("PUT", &format!("/m?op=MODIFYACLENTRIES&aclspec={minimal}")).is(200);
    let named = ["user:bob:rwx", "group::r-x", "group:etl:r-x"];
    let inherited = [
        "default:user::rwx",
        "default:user:bob:rwx",
        "default:group::r-x",
        "default:group:etl:r-x",
        "default:mask::rwx",
        "default:other::r-x",
    ];
    let of_m = ["default:user::rwx", "default:group::rwx", "default:other::r-x"];
    // Where, with which parameters, what the bits are then, and the entries; a file lacks the inherited defaults.
    for (parent, parameters, bits, own, more) in [
        ("p", "&permission=750&unmaskedpermission=777", "775", &named[..], &inherited[..]),
        ("p", "&permission=750", "750", &named, &inherited),
        ("p", "&permission=700&unmaskedpermission=770", "770", &named, &inherited),
        ("m", "&permission=750&unmaskedpermission=777", "775", &[], &of_m),
        ("m", "&permission=750", "750", &[], &of_m),
        ("none", "&permission=750&unmaskedpermission=777", "750", &[], &[]),
    ] {
        for (op, status) in [("MKDIRS", 200), ("CREATE", 201)] {
            let path = format!("/{parent}/{op}");
            web.send("PUT", &format!("{path}?op={op}{parameters}"), b"").is(status);
            let told = web.ask("GET", &format!("{path}?op=GETACLSTATUS")).is(200).json();
            let told = &told["AclStatus"];
            let is_directory = op == "MKDIRS";
            let entries: Vec<&str> =
                own.iter().chain(more.iter().filter(|_| is_directory)).copied().collect();
            assert_eq!(told["entries"], json!(entries), "{path} {parameters}");
            let found = web.ask("GET", &format!("{path}?op=GETFILESTATUS")).is(200).json();
            assert_eq!(found["FileStatus"]["permission"], bits, "{path} {parameters}");
            web.ask("DELETE", &format!("{path}?op=DELETE")).is(200);
        }
    }
    // What is missing above a new directory inherits too, and its owner can go on below it.
    web.ask("PUT", "/p/a/b/c?op=MKDIRS&permission=500&unmaskedpermission=577").is(200);
    let bits = |path: &str| {
        let found = web.ask("GET", &format!("{path}?op=GETFILESTATUS")).is(200).json();
        found["FileStatus"]["permission"].clone()
    };
    assert_eq!(
        (bits("/p/a"), bits("/p/a/b"), bits("/p/a/b/c")),
        (json!("775"), json!("775"), json!("575"))
    );
    let refused = web.ask("PUT", "/p/d?op=MKDIRS&unmaskedpermission=7777");
    assert_eq!(exception(&refused).0, 400);
}

#[test]
fn snapshots_are_taken_compared_and_read() {
    let web = Web::start();
    web.put("/d/f", b"old");
    assert_eq!(
        web.ask("GET", "/?op=GETSNAPSHOTTABLEDIRECTORYLIST").is(200).json()["SnapshottableDirectoryList"],
        json!(null)
    );
    let enabled = |path: &str| {
        let status = web.ask("GET", &format!("{path}?op=GETFILESTATUS")).is(200).json();
        status["FileStatus"]["snapshotEnabled"].clone()
    };
    assert_eq!(enabled("/d"), json!(null));
    web.ask("PUT", "/d?op=ALLOWSNAPSHOT").is(200);
    assert_eq!((enabled("/d"), enabled("/d/f")), (json!(true), json!(null)));
    for (path, status, class) in [
        ("/", 403, "SnapshotException"),
        ("/d/f", 403, "SnapshotException"),
        ("/none", 404, "FileNotFoundException"),
    ] {
        let refused = exception(&web.ask("GET", &format!("{path}?op=GETSNAPSHOTLIST")));
        assert_eq!((refused.0, refused.1.rsplit('.').next()), (status, Some(class)), "{path}");
        assert!(!refused.2.contains(".snapshot"), "{path}: {}", refused.2);
    }
    let made = web.ask("PUT", "/d?op=CREATESNAPSHOT&snapshotname=s1").is(200).json();
    assert_eq!(made["Path"], "/d/.snapshot/s1");
    web.put("/d/f", b"new");
    web.put("/d/g", b"more");
    assert_eq!(web.read("/d/.snapshot/s1/f"), b"old");
    web.ask("PUT", "/d?op=RENAMESNAPSHOT&oldsnapshotname=s1&snapshotname=s2").is(200);
    let named = web.ask("PUT", "/d?op=CREATESNAPSHOT").is(200).json();
    assert!(named["Path"].as_str().unwrap().starts_with("/d/.snapshot/s"), "{named}");
    let report =
        web.ask("GET", "/d?op=GETSNAPSHOTDIFF&oldsnapshotname=s2&snapshotname=").is(200).json();
    let report = &report["SnapshotDiffReport"];
    assert_eq!((&report["snapshotRoot"], &report["fromSnapshot"]), (&json!("/d"), &json!("s2")));
    let list = report["diffList"].as_array().unwrap();
    assert!(list.contains(&json!({ "type": "CREATE", "sourcePath": "g" })), "{report}");
    // The same as lists, from which Java's client makes the report: what was created hangs on its directory's number.
    let listing = "/d?op=GETSNAPSHOTDIFFLISTING&oldsnapshotname=s2&snapshotname=\
                   &snapshotdiffstartpath=&snapshotdiffindex=-1";
    let listing = web.ask("GET", listing).is(200).json()["SnapshotDiffReportListing"].clone();
    let created = listing["createList"].as_array().unwrap();
    let g = created.iter().find(|entry| entry["sourcePath"] == "g").unwrap();
    let modified = listing["modifyList"].as_array().unwrap();
    let top = modified.iter().find(|entry| entry["sourcePath"] == "").unwrap();
    assert_eq!((&g["dirId"], &top["isReference"]), (&top["dirId"], &json!(true)), "{listing}");
    assert_eq!((&listing["lastPath"], &listing["lastIndex"]), (&json!(""), &json!(-1)));
    listing_in_pages(&web);
    let listed = numbers(&web);
    assert_eq!((listed.len(), listed[0].0.as_str()), (2, "s2"), "{listed:?}");
    assert_eq!(listed[1].1, listed[0].1 + 1, "by age");
    web.ask("PUT", "/d?op=CREATESNAPSHOT&snapshotname=a").is(200);
    // One between was deleted.
    let last = numbers(&web).pop().unwrap();
    assert_eq!(last, ("a".to_owned(), listed[1].1 + 2), "no number comes again");
    web.ask("DELETE", "/d?op=DELETESNAPSHOT&snapshotname=a").is(200);
    let directories = web.ask("GET", "/?op=GETSNAPSHOTTABLEDIRECTORYLIST").is(200).json();
    let directory = &directories["SnapshottableDirectoryList"][0];
    assert_eq!(
        (&directory["parentFullPath"], &directory["snapshotNumber"]),
        (&json!("/"), &json!(2))
    );
    let (status, class, _) = exception(&web.ask("PUT", "/d?op=DISALLOWSNAPSHOT"));
    assert_eq!((status, class.rsplit('.').next()), (403, Some("SnapshotException")));
    web.ask("DELETE", "/d?op=DELETESNAPSHOT&snapshotname=s2").is(200);
    assert_eq!(web.ask("GET", "/d/.snapshot/s2/f?op=OPEN").status, 404);
}

/// The snapshots of `/d` in the order of the answer, each with its number.
fn numbers(web: &Web) -> Vec<(String, u64)> {
    let list = web.ask("GET", "/d?op=GETSNAPSHOTLIST").is(200).json()["SnapshotList"].clone();
    let entry = |entry: &serde_json::Value| {
        let path = entry["fullPath"].as_str().unwrap();
        (path.trim_start_matches("/d/.snapshot/").to_owned(), entry["snapshotID"].as_u64().unwrap())
    };
    list.as_array().unwrap().iter().map(entry).collect()
}

/// More differences than fit in one answer; a client goes on where the last answer ended.
fn listing_in_pages(web: &Web) {
    let names: Vec<String> = (0..1_200).map(|number| format!("/d/many/{number:04}")).collect();
    let mut mkdir = vec!["-mkdir", "-p"];
    mkdir.extend(names.iter().map(String::as_str));
    web.cluster.dfs(&["-mkdir", "/d/many"]).ok();
    web.ask("PUT", "/d?op=CREATESNAPSHOT&snapshotname=before").is(200);
    web.cluster.dfs(&mkdir).ok();
    let page = |path: &str, index: i64| {
        let query = format!(
            "oldsnapshotname=before&snapshotname=&snapshotdiffstartpath={path}&snapshotdiffindex={index}"
        );
        web.ask("GET", &format!("/d?op=GETSNAPSHOTDIFFLISTING&{query}"))
    };
    let (mut found, mut pages) = (BTreeSet::new(), 0);
    let (mut path, mut index) = (String::new(), -1);
    loop {
        let listing = page(&path, index).is(200).json()["SnapshotDiffReportListing"].clone();
        pages += 1;
        for entry in listing["createList"].as_array().unwrap() {
            assert!(
                found.insert(entry["sourcePath"].as_str().unwrap().to_owned()),
                "{entry} twice"
            );
        }
        path = listing["lastPath"].as_str().unwrap().to_owned();
        index = listing["lastIndex"].as_i64().unwrap();
        if path.is_empty() && index == -1 {
            break;
        }
    }
    assert_eq!((found.len(), pages), (names.len(), 2));
    for (path, index, status) in
        [("many/0001", -1, 400), ("many/0001", 1_000, 403), ("", 5_000, 403)]
    {
        assert_eq!(page(path, index).status, status, "{path} {index}");
    }
    web.ask("DELETE", "/d/many?op=DELETE&recursive=true").is(200);
    web.ask("DELETE", "/d?op=DELETESNAPSHOT&snapshotname=before").is(200);
}

#[test]
fn tokens_open_a_cluster_that_believes_no_names() {
    let token_mode = r#"{ auth = "token", proxy_users = { alice = ["bob"] } }"#;
    let mut web = Web::start_with(&[
        ("HANNO_NAMENODE_WEBHDFS", token_mode),
        ("HANNO_DATANODE_WEBHDFS", token_mode),
    ]);
    web.cluster.dfs(&["-mkdir", "-p", "/user/alice"]).ok();
    web.cluster.dfs(&["-chown", "alice:alice", "/user/alice"]).ok();
    let token = |user: &str, renewer: &str| {
        let args = ["admin", "token", "--user", user, "--renewer", renewer];
        web.cluster.hanno(&args).ok().stdout_text().trim().to_owned()
    };
    let alice = token("alice", "yarn");
    let yarn = token("yarn", "yarn");
    let url = |web: &Web, rest: &str, token: &str| {
        format!("{}/webhdfs/v1{rest}&delegation={token}", web.cluster.namenode)
    };
    let ask = |web: &Web, method: &str, rest: &str, token: &str| {
        request(method, &url(web, rest, token), b"")
    };
    // Names beside the token do not matter; redirects carry a token of their own.
    let first = ask(&web, "PUT", "/user/alice/f?op=CREATE&user.name=tester", &alice).is(307);
    let location = first.header("location").unwrap().to_owned();
    assert!(location.contains("&delegation=") && !location.contains("user.name"), "{location}");
    request("PUT", &location, b"by token").is(201);
    let status = ask(&web, "GET", "/user/alice/f?op=GETFILESTATUS", &alice).is(200).json();
    assert_eq!(status["FileStatus"]["owner"], "alice");
    // A redirect's token is for its path and operation; without one the DataNode does nothing.
    for other in [
        location.replace("/f?", "/g?"),
        location.replace("op=CREATE", "op=OPEN"),
        location.replace("&delegation=", "&x="),
        location.replace("&delegation=", "&user.name=alice&x="),
    ] {
        let method = if other.contains("OPEN") { "GET" } else { "PUT" };
        let status = request(method, &other, b"x").status;
        assert!(status == 401 || status == 403, "{other}: {status}");
    }
    let home = |rest: &str| ask(&web, "GET", &format!("/?op=GETHOMEDIRECTORY{rest}"), &alice);
    assert_eq!(home("&doas=bob").is(200).json()["Path"], "/user/bob");
    assert_eq!(home("&doas=eve").status, 403);
    no_token_begets_another(&web, &alice);
    // Only its renewer renews it; it survives a restart, until it is cancelled.
    let renew = format!("/?op=RENEWDELEGATIONTOKEN&token={alice}");
    assert_eq!(exception(&ask(&web, "PUT", &renew, &alice)).1, DENIED);
    let until = ask(&web, "PUT", &renew, &yarn).is(200).json()["long"].as_u64().unwrap();
    assert!(until > transport::rpc::now_ms() + 23 * 3_600_000);
    web.cluster.restart();
    ask(&web, "GET", "/user/alice/f?op=GETFILESTATUS", &alice).is(200);
    let cancel = format!("/?op=CANCELDELEGATIONTOKEN&token={alice}");
    ask(&web, "PUT", &cancel, &alice).is(200);
    let (status, class, _) = exception(&ask(&web, "GET", "/?op=LISTSTATUS", &alice));
    assert_eq!((status, class.rsplit('$').next()), (403, Some("InvalidToken")));
    assert_eq!(ask(&web, "GET", "/?op=LISTSTATUS", "AAAAAA").status, 403);
}

/// Hadoop's refusals, of a token in the address and of one in the header.
fn no_token_begets_another(web: &Web, token: &str) {
    let plain = format!("{}/webhdfs/v1/?op=GETDELEGATIONTOKEN", web.cluster.namenode);
    let answer = request("GET", &format!("{plain}&delegation={token}"), b"");
    let (status, class, text) = exception(&answer);
    assert_eq!((status, class.as_str()), (400, ILLEGAL));
    assert_eq!(text, "delegation parameter is not null.");
    let header = format!("X-Hadoop-Delegation-Token: {token}\r\n");
    let (status, class, text) = exception(&request_with("GET", &plain, &header, b""));
    assert_eq!((status, class.as_str()), (403, IO));
    assert_eq!(text, "Delegation Token can be issued only with kerberos or web authentication");
    // Who the token is for comes first.
    let (status, class, _) = exception(&request("GET", &format!("{plain}&delegation=AAAAAA"), b""));
    assert_eq!((status, class.rsplit('$').next()), (403, Some("InvalidToken")));
}

/// A gateway of a cluster; ended when dropped.
pub(super) struct Gateway {
    child: Child,
    pub(super) address: String,
    /// By which the superuser asks.
    proof: String,
    _ports: Ports,
}

impl Gateway {
    pub(super) fn start(web: &Web) -> Self {
        let ports = Ports::take();
        let free = format!("127.0.0.1:{}", ports.base);
        let config = web.cluster.directory.join("gateway.toml");
        let text = format!(
            "namenode = \"{}\"\nsecret_file = \"{}\"\nbind = \"{free}\"\n",
            web.cluster.namenode,
            web.cluster.directory.join("secret").display()
        );
        let (text, proof) = match web.believes {
            true => (text + "webhdfs = " + SIMPLE + "\n", "user.name=tester".to_owned()),
            false => (text, format!("delegation={}", web.token("tester"))),
        };
        fs::write(&config, text).unwrap();
        let mut command = Command::new(hanno_binary());
        command.args(["gateway", "--config"]).arg(&config).stdin(Stdio::null());
        let log = fs::File::create(web.cluster.directory.join("gateway.log")).unwrap();
        let child = command.stderr(log).spawn().unwrap();
        let gateway = Gateway { child, address: format!("http://{free}"), proof, _ports: ports };
        web.cluster
            .wait_until("the gateway listens", 60, |_| std::net::TcpStream::connect(&free).is_ok());
        gateway
    }

    fn ask(&self, method: &str, rest: &str, body: &[u8]) -> Answer {
        let url = format!("{}/webhdfs/v1{rest}&{}", self.address, self.proof);
        request(method, &url, body)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Names, forged tokens and cancelled ones get nothing of a gateway, whichever way it answers.
fn only_tokens_pass_a_gateway(web: &Web, gateway: &Gateway) {
    let token = web.cluster.hanno(&["admin", "token", "--user", "bob"]).ok().stdout_text();
    let token = token.trim();
    let ask = |method: &str, rest: &str, proof: &str| {
        let url = format!("{}/webhdfs/v1{rest}&{proof}", gateway.address);
        request(method, &url, b"").status
    };
    let all = |proof: &str, statuses: [u16; 4]| {
        for ((method, rest), status) in [
            ("GET", "/?op=GETHOMEDIRECTORY"),
            ("GET", "/g/a%20b?op=OPEN"),
            ("GET", "/g/a%20b?op=OPEN&offset=1"),
            ("PUT", "/g/x?op=CREATE"),
        ]
        .into_iter()
        .zip(statuses)
        {
            assert_eq!(ask(method, rest, proof), status, "{method} {rest} {proof}");
        }
    };
    all("user.name=tester", [401; 4]);
    all("delegation=AAAAAA", [403; 4]);
    all("delegation=AAAAAA&user.name=tester", [403; 4]);
    let swapped: String = token.chars().map(|c| if c == 'A' { 'B' } else { c }).collect();
    assert_ne!(swapped, token);
    all(&format!("delegation={swapped}"), [403; 4]);
    // A genuine one of somebody without rights on the file.
    all(&format!("delegation={token}"), [200, 403, 403, 307]);
    assert_eq!(
        ask("GET", "/?op=GETHOMEDIRECTORY&doas=tester", &format!("delegation={token}")),
        403
    );
    web.cluster.hanno(&["admin", "token", "cancel", token]).ok();
    let proof = format!("delegation={token}");
    web.cluster.wait_until("the gateway knows that it is cancelled", 60, |_| {
        ask("GET", "/?op=GETHOMEDIRECTORY", &proof) == 403
    });
}

/// What a browser sends to `daemon` for a page that it has from elsewhere.
fn from_another_page(daemon: &str, method: &str, rest: &str) -> Answer {
    let url = format!("{daemon}/webhdfs/v1{rest}&user.name=tester");
    let mut connection = Connection::open(daemon);
    let headers = "Origin: http://evil.example\r\nContent-Length: 0\r\n";
    connection.send_head(method, &url, headers);
    connection.answer()
}

#[test]
fn pages_of_other_hosts_get_nothing_from_datanodes() {
    let web = Web::start_simple();
    web.put("/f", b"content");
    let located = web.ask("GET", "/f?op=OPEN&noredirect=true").is(200).json();
    let located = located["Location"].as_str().unwrap().to_owned();
    let datanode = located.split("/webhdfs").next().unwrap();
    from_another_page(datanode, "GET", "/f?op=OPEN").is(403);
    from_another_page(datanode, "PUT", "/f?op=CREATE&overwrite=true").is(403);
    from_another_page(datanode, "POST", "/f?op=APPEND").is(403);
    from_another_page(datanode, "OPTIONS", "/f?op=CREATE").is(200);
    assert_eq!(request("GET", &located, b"").is(200).body, b"content");
}

#[test]
fn uploads_that_stay_silent_do_not_keep_others_waiting() {
    let web = Web::start_simple();
    web.put("/f", b"content");
    let located = web.ask("GET", "/f?op=OPEN&noredirect=true").is(200).json();
    let located = located["Location"].as_str().unwrap().to_owned();
    let datanode = located.split("/webhdfs").next().unwrap();
    let url_of =
        |user: &str, name: &str| format!("{datanode}/webhdfs/v1{name}?op=CREATE&user.name={user}");
    let url = |name: &str| url_of("tester", name);
    web.ask("PUT", "/open?op=MKDIRS&permission=777").is(200);
    let silent: Vec<Connection> = (0..256)
        .map(|number| {
            let mut connection = Connection::open(datanode);
            connection.send_head(
                "PUT",
                &url(&format!("/silent{number}")),
                "Content-Length: 10\r\n",
            );
            connection
        })
        .collect();
    let silent_files =
        |cluster: &Cluster| cluster.dfs(&["-ls", "/"]).stdout_text().matches("/silent").count();
    // A user alone gets three quarters of the room.
    web.cluster.wait_until("his share is under way", 60, |cluster| silent_files(cluster) == 192);
    let (status, class, text) = exception(&request("PUT", &url("/late"), b"x"));
    assert_eq!((status, class.rsplit('.').next()), (403, Some("RetriableException")), "{text}");
    assert_eq!(request("GET", &located, b"").is(200).body, b"content");
    request("PUT", &url_of("another", "/open/another"), b"x").is(201);
    drop(silent);
    web.cluster.wait_until("they are given up", 60, |cluster| silent_files(cluster) == 0);
    request("PUT", &url("/late"), b"x").is(201);
}

#[test]
fn a_gateway_serves_names_and_data_on_one_address() {
    for web in [Web::start_simple(), Web::start()] {
        serve_by_a_gateway(&web);
    }
}

/// Uploads as clients of HttpFS make them that leave the first step out.
fn write_at_once(web: &Web, gateway: &Gateway) {
    gateway.ask("PUT", "/g/once?op=CREATE&data=true", b"one step").is(201);
    gateway.ask("POST", "/g/once?op=APPEND&data=true", b", and more").is(200);
    assert_eq!(gateway.ask("GET", "/g/once?op=OPEN", b"").is(200).body, b"one step, and more");
    if web.believes {
        return;
    }
    let by_header = |token: &str| {
        let mut connection = Connection::open(&gateway.address);
        let url = format!("{}/webhdfs/v1/g/header?op=CREATE&data=true", gateway.address);
        let headers = format!("X-Hadoop-Delegation-Token: {token}\r\nContent-Length: 1\r\n");
        connection.send_head("PUT", &url, &headers);
        connection.send(b"x").unwrap();
        connection.answer()
    };
    by_header(gateway.proof.strip_prefix("delegation=").unwrap()).is(201);
    by_header("AAAAAA").is(403);
    for (proof, status) in [("user.name=tester", 401), ("delegation=AAAAAA", 403)] {
        let url = format!("{}/webhdfs/v1/g/x?op=CREATE&data=true&{proof}", gateway.address);
        request("PUT", &url, b"x").is(status);
    }
}

/// `noredirect=true`: the address that is told does it, for each operation in two steps; its token is good for that alone.
fn addresses_that_are_told_lead_to_the_data(web: &Web, gateway: &Gateway, content: &[u8]) {
    let told = |method: &str, rest: &str| {
        let answer = gateway.ask(method, &format!("{rest}&noredirect=true"), b"").is(200).json();
        answer["Location"].as_str().unwrap().to_owned()
    };
    let open = told("GET", "/g/a%20b?op=OPEN");
    assert!(open.starts_with(&gateway.address), "{open}");
    let read = request("GET", &open, b"").is(200).body;
    assert!(read == [content, b"end"].concat());
    for (offset, length, expected) in
        [(1_000_000, 10, &content[1_000_000..1_000_010]), (2_500_000, 9, &b"end"[..])]
    {
        let part = format!("{open}&offset={offset}&length={length}");
        assert_eq!(request("GET", &part, b"").is(200).body, expected, "{part}");
        let rest = format!("/g/a%20b?op=OPEN&offset={offset}&length={length}");
        assert_eq!(request("GET", &told("GET", &rest), b"").is(200).body, expected, "{rest}");
    }
    let sum = told("GET", "/g/a%20b?op=GETFILECHECKSUM");
    let direct = gateway.ask("GET", "/g/a%20b?op=GETFILECHECKSUM", b"").is(200).json();
    assert_eq!(request("GET", &sum, b"").is(200).json(), direct);
    let create = told("PUT", "/g/told?op=CREATE");
    request("PUT", &create, b"told").is(201);
    let append = told("POST", "/g/told?op=APPEND");
    request("POST", &append, b", twice").is(200);
    assert_eq!(gateway.ask("GET", "/g/told?op=OPEN", b"").is(200).body, b"told, twice");
    if web.believes {
        return;
    }
    // A token for one thing does no other.
    for (method, url) in [
        ("GET", open.replace("/a%20b?", "/told?")),
        ("GET", open.replace("op=OPEN", "op=GETFILECHECKSUM")),
        ("GET", sum.replace("op=GETFILECHECKSUM", "op=OPEN")),
        ("PUT", open.replace("op=OPEN", "op=CREATE")),
        ("POST", create.replace("op=CREATE", "op=APPEND")),
        ("GET", open.replace("op=OPEN", "op=GETFILESTATUS")),
    ] {
        let refused = exception(&request(method, &url, b"x"));
        assert_eq!((refused.0, refused.1.rsplit('$').next()), (403, Some("InvalidToken")), "{url}");
    }
    assert_eq!(gateway.ask("GET", "/g/told?op=OPEN", b"").is(200).body, b"told, twice");
}

fn serve_by_a_gateway(web: &Web) {
    let gateway = Gateway::start(web);
    let content = data::bytes(5, 2_500_000);
    assert_eq!(gateway.ask("PUT", "/g?op=MKDIRS", b"").is(200).json()["boolean"], true);
    let first = gateway.ask("PUT", "/g/a%20b?op=CREATE&permission=600", b"").is(307);
    let location = first.header("location").unwrap().to_owned();
    assert!(location.starts_with(&gateway.address), "{location}");
    request("PUT", &location, &content).is(201);
    assert!(gateway.ask("GET", "/g/a%20b?op=OPEN", b"").is(200).body == content);
    let part = gateway.ask("GET", "/g/a%20b?op=OPEN&offset=1000000&length=10", b"").is(200);
    assert_eq!(part.body, &content[1_000_000..1_000_010]);
    let told = gateway.ask("POST", "/g/a%20b?op=APPEND&noredirect=true", b"").is(200).json();
    request("POST", told["Location"].as_str().unwrap(), b"end").is(200);
    let status = gateway.ask("GET", "/g/a%20b?op=GETFILESTATUS", b"").is(200).json();
    assert_eq!(status["FileStatus"]["length"], 2_500_003);
    assert_eq!(status["FileStatus"]["permission"], "600");
    let sum = gateway.ask("GET", "/g/a%20b?op=GETFILECHECKSUM", b"").is(200).json();
    assert_eq!(sum["FileChecksum"]["length"], 28);
    assert_eq!(exception(&gateway.ask("GET", "/x?op=OPEN", b"")).0, 404);
    let (status, _, text) = exception(&gateway.ask("GET", "/g/a%20b?op=OPEN&offset=2500003", b""));
    assert_eq!(status, 403);
    assert!(text.starts_with("Offset=2500003 out of the range [0, 2500003)"), "{text}");
    let refused = |method: &str, rest: &str| {
        let status = from_another_page(&gateway.address, method, rest).status;
        assert!(matches!(status, 401 | 403), "{method} {rest}: {status}");
    };
    refused("PUT", "/g?op=MKDIRS");
    refused("POST", "/g/a%20b?op=TRUNCATE&newlength=0");
    refused("GET", "/g/a%20b?op=OPEN");
    if !web.believes {
        only_tokens_pass_a_gateway(web, &gateway);
    }
    addresses_that_are_told_lead_to_the_data(web, &gateway, &content);
    write_at_once(web, &gateway);
    let status = gateway.ask("GET", "/g/a%20b?op=GETFILESTATUS", b"").is(200).json();
    assert_eq!(status["FileStatus"]["length"], 2_500_003);
    assert_eq!(
        gateway.ask("DELETE", "/g?op=DELETE&recursive=true", b"").is(200).json()["boolean"],
        true
    );
    redirects_lead_to_this_gateway(&gateway);
}

/// Nothing of what a request says of the host becomes part of an address but a name and a port.
fn redirects_lead_to_this_gateway(gateway: &Gateway) {
    let (_, port) = gateway.address.rsplit_once(':').unwrap();
    let create = |host: &str| {
        let mut connection = Connection::open(&gateway.address);
        let (proof, length) = (&gateway.proof, "Content-Length: 0");
        let head = format!(
            "PUT /webhdfs/v1/x?op=CREATE&{proof} HTTP/1.1\r\nHost: {host}\r\n{length}\r\n\r\n"
        );
        connection.send(head.as_bytes()).unwrap();
        connection.answer()
    };
    for host in [&format!("localhost:{port}"), "localhost", "127.0.0.1:1", "[::1]", "[::1]:80"] {
        let answer = create(host).is(307);
        let location = answer.header("location").unwrap();
        assert!(location.starts_with(&format!("http://{host}/webhdfs/v1/x?")), "{location}");
    }
    for (host, status) in [
        ("evil.example", 421),
        ("localhost:1@evil.example", 400),
        ("localhost@evil.example", 400),
        ("127.0.0.1:80@evil.example", 400),
        ("[::1]@evil.example", 400),
        ("[::1]evil.example", 400),
        ("[::1].evil.example:80", 400),
        ("localhost:80/evil", 400),
        ("localhost#evil", 400),
    ] {
        let answer = create(host);
        assert_eq!((answer.status, answer.header("location")), (status, None), "{host}");
    }
}

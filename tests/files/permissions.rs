//! Several users on one cluster: rights, lists, attributes, jobs of ordinary users, the audit log; all of it after a restart, too.

use std::fs;

use needs::{Need, lacks};

use crate::support::cluster::hanno_binary;
use crate::support::{Cluster, Options, Outcome};

/// A cluster that knows bob and carl of `staff`, and eve.
fn cluster() -> Cluster {
    let mut options = Options::tight();
    let groups = "{ bob = [\"staff\"], carl = [\"staff\"], eve = [] }";
    options.variables.push(("HANNO_NAMENODE_GROUPS", "static".to_owned()));
    options.variables.push(("HANNO_NAMENODE_STATIC_GROUPS", groups.to_owned()));
    Cluster::start(options)
}

/// Runs `hanno dfs ARGS` as a user.
fn dfs(cluster: &Cluster, user: &str, args: &[&str]) -> Outcome {
    let mut command = cluster.command(&hanno_binary(), &[&["dfs"], args].concat());
    command.env("HADOOP_USER_NAME", user);
    Outcome::of(command)
}

#[track_caller]
fn refused(outcome: Outcome, text: &str) {
    assert_eq!((outcome.code, outcome.stderr.trim_end()), (1, text));
}

/// bob's home with a file of his that the group may read, and a directory open to everybody with the sticky bit.
fn furnish(cluster: &Cluster, local: &std::path::Path) {
    fs::write(local.join("f"), "a b a\n").unwrap();
    let file = local.join("f");
    let file = file.to_str().unwrap();
    cluster.dfs(&["-mkdir", "-p", "/user/bob", "/tmp"]).ok();
    cluster.dfs(&["-chown", "bob:staff", "/user/bob"]).ok();
    cluster.dfs(&["-chmod", "1777", "/tmp"]).ok();
    dfs(cluster, "bob", &["-put", file, "f"]).ok();
    dfs(cluster, "bob", &["-chmod", "640", "f"]).ok();
    dfs(cluster, "bob", &["-put", file, "/tmp/bobs"]).ok();
}

fn denied(command: &str, user: &str, access: &str, inode: &str) -> String {
    format!("{command}: Permission denied: user={user}, access={access}, {inode}")
}

/// What bob gave his file and home before the NameNode was restarted.
fn check_lists_and_attributes(cluster: &Cluster) {
    let facl = "# file: /user/bob/f\n# owner: bob\n# group: staff\nuser::rw-\nuser:eve:rw-\t#effective:r--\n\
                group::r--\nmask::r--\nother::---\n\n";
    dfs(cluster, "bob", &["-getfacl", "/user/bob/f"]).ok().prints(facl);
    refused(
        dfs(cluster, "eve", &["-cat", "/user/bob/f"]),
        &denied("cat", "eve", "EXECUTE", r#"inode="/user/bob":bob:staff:drwxrwxr-x"#),
    );
    dfs(cluster, "bob", &["-setfacl", "-x", "user:eve", "."]).ok();
    dfs(cluster, "eve", &["-cat", "/user/bob/f"]).ok().prints("a b a\n");
    let list = dfs(cluster, "bob", &["-ls", "/user/bob/f"]).ok().stdout_text();
    assert!(list.starts_with("-rw-r-----+  3 bob staff"), "{list}");
    let attributes = "# file: f\nuser.a=\"v\"\nuser.empty\n";
    dfs(cluster, "bob", &["-getfattr", "-d", "f"]).ok().prints(attributes);
    dfs(cluster, "bob", &["-getfattr", "-n", "user.a", "-e", "base64", "f"])
        .ok()
        .prints("# file: f\nuser.a=0sdg==\n");
    refused(
        dfs(cluster, "bob", &["-getfattr", "-n", "user.b", "f"]),
        "getfattr: At least one of the attributes provided was not found.",
    );
    refused(
        dfs(cluster, "bob", &["-setfattr", "-n", "trusted.a", "f"]),
        "setfattr: User doesn't have permission for xattr: trusted.a",
    );
    dfs(cluster, "bob", &["-setfattr", "-x", "user.a", "f"]).ok();
    dfs(cluster, "bob", &["-setfacl", "-b", "f"]).ok();
    dfs(cluster, "bob", &["-mkdir", "d"]).ok();
    let inherited = dfs(cluster, "bob", &["-getfacl", "d"]).ok().stdout_text();
    assert!(inherited.contains("\nuser:eve:rwx"), "{inherited}");
}

fn check_audit_log(cluster: &Cluster) {
    let log = fs::read_to_string(cluster.directory.join("namenode-1/audit.log")).unwrap();
    for line in [
        "allowed=true\tugi=bob (auth:SIMPLE)\tip=/127.0.0.1\tcmd=setPermission\tsrc=/user/bob/f\tdst=null\tperm=bob:staff:rw-r-----\tproto=rpc",
        "allowed=false\tugi=eve (auth:SIMPLE)\tip=/127.0.0.1\tcmd=open\tsrc=/user/bob/f\tdst=null\tperm=null\tproto=rpc",
        "allowed=true\tugi=carl (auth:SIMPLE)\tip=/127.0.0.1\tcmd=open\tsrc=/user/bob/f\tdst=null\tperm=null\tproto=rpc",
        "allowed=false\tugi=bob (auth:SIMPLE)\tip=/127.0.0.1\tcmd=safemode_enter\tsrc=null\tdst=null\tperm=null\tproto=rpc",
    ] {
        assert!(log.lines().any(|found| found.ends_with(line)), "{line} in\n{log}");
    }
}

#[test]
fn users_have_the_rights_they_are_given() {
    let mut cluster = cluster();
    let local = tempfile::tempdir().unwrap();
    furnish(&cluster, local.path());
    let root = r#"inode="/":tester:supergroup:drwxr-xr-x"#;
    let file = r#"inode="/user/bob/f":bob:staff:-rw-r-----"#;
    refused(dfs(&cluster, "bob", &["-mkdir", "/x"]), &denied("mkdir", "bob", "WRITE", root));
    refused(dfs(&cluster, "eve", &["-cat", "/user/bob/f"]), &denied("cat", "eve", "READ", file));
    dfs(&cluster, "carl", &["-cat", "/user/bob/f"]).ok().prints("a b a\n");
    refused(
        dfs(&cluster, "carl", &["-chmod", "777", "/user/bob/f"]),
        "chmod: changing permissions of '/user/bob/f': Permission denied. user=carl is not the owner of inode=/user/bob/f",
    );
    refused(
        dfs(&cluster, "bob", &["-chown", "eve", "f"]),
        "chown: changing ownership of 'f': User bob is not a super user (non-super user cannot change owner).",
    );
    let stuck = dfs(&cluster, "carl", &["-rm", "-skipTrash", "/tmp/bobs"]);
    assert!(
        stuck.stderr.contains("Permission denied by sticky bit: user=carl"),
        "{}",
        stuck.stderr
    );
    for (user, flag, code) in [
        ("bob", "-w", 0),
        ("carl", "-r", 0),
        ("carl", "-w", 1),
        ("eve", "-r", 1),
        ("tester", "-w", 0),
    ] {
        let outcome = dfs(&cluster, user, &["-test", flag, "/user/bob/f"]);
        assert_eq!(outcome.code, code, "{user} {flag}: {}", outcome.stderr);
    }
    let mut enter = cluster.command(&hanno_binary(), &["dfsadmin", "-safemode", "enter"]);
    enter.env("HADOOP_USER_NAME", "bob");
    let enter = Outcome::of(enter);
    assert!(
        enter.stderr.contains("Access denied for user bob. Superuser privilege is required"),
        "{}",
        enter.stderr
    );

    dfs(&cluster, "bob", &["-setfacl", "-m", "user:eve:rw-,default:user:eve:rwx", "."]).ok();
    dfs(&cluster, "bob", &["-setfacl", "-m", "user:eve:rw-", "f"]).ok();
    dfs(&cluster, "bob", &["-chmod", "640", "f"]).ok();
    dfs(&cluster, "bob", &["-setfattr", "-n", "user.a", "-v", "0x76", "f"]).ok();
    dfs(&cluster, "bob", &["-setfattr", "-n", "user.empty", "f"]).ok();
    cluster.restart();
    cluster.wait_healthy(60);
    check_lists_and_attributes(&cluster);
    check_audit_log(&cluster);
}

#[test]
fn ordinary_users_run_jobs() {
    let cluster = cluster();
    let local = tempfile::tempdir().unwrap();
    furnish(&cluster, local.path());
    let wordcount = crate::support::cluster::example_binary("wordcount");
    let run = |user: &str, output: &str| {
        let mut command = cluster.command(&wordcount, &["/user/bob/f", output]);
        command.env("HADOOP_USER_NAME", user);
        Outcome::of(command)
    };
    run("bob", "/user/bob/out").ok();
    dfs(&cluster, "bob", &["-cat", "/user/bob/out/part-*"]).ok().prints("a\t2\nb\t1\n");
    let list = dfs(&cluster, "bob", &["-ls", "/user/bob/out"]).ok().stdout_text();
    assert!(list.contains(" bob staff "), "{list}");
    run("carl", "/tmp/carls").ok();
    for (user, output) in [("eve", "/tmp/eves"), ("carl", "/user/bob/carls")] {
        let outcome = run(user, output);
        assert_eq!(outcome.code, 1, "{user}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("Permission denied: user="), "{}", outcome.stderr);
        assert_eq!(cluster.dfs(&["-test", "-e", output]).code, 1, "{output}");
    }
}

/// A user id that nobody has.
const STRANGER: u32 = 54_322;

#[test]
fn another_user_of_the_machine_is_told_what_to_ask_for() {
    let cluster = cluster();
    let as_stranger = |program: &std::path::Path| {
        let ids = [format!("--reuid={STRANGER}"), format!("--regid={STRANGER}")];
        let mut command = cluster.command(std::path::Path::new("setpriv"), &ids);
        command.args(["--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--"]);
        command.arg(program).current_dir("/").env("HOME", "/");
        command
    };
    let mut probe = as_stranger(&hanno_binary());
    if Outcome::of({
        probe.arg("--version");
        probe
    })
    .code
        != 0
    {
        lacks(Need::Users, format_args!("nobody else may execute {}", hanno_binary().display()));
        return;
    }
    for line in [&["dfs", "-ls", "/"][..], &["dfsadmin", "-report"], &["job", "-list"]] {
        let mut command = as_stranger(&hanno_binary());
        command.args(line);
        let outcome = Outcome::of(command);
        assert!(outcome.code != 0, "{line:?}");
        for part in ["secret", "hanno admin token --user", "HANNO_SECRET_FILE"] {
            assert!(outcome.stderr.contains(part), "{line:?}: {}", outcome.stderr);
        }
        assert_eq!(outcome.stderr.trim_end().lines().count(), 1, "{}", outcome.stderr);
    }
}

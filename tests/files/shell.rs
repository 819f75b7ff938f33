//! The file system through the command: contents, names, columns, messages, exit codes.

use std::fs;

use crate::support::{Cluster, Options, data};

/// Small blocks, so that block and packet boundaries are crossed by small files.
fn cluster() -> Cluster {
    Cluster::start(Options::tight())
}

#[test]
fn files_of_every_awkward_size_come_back_the_same() {
    let cluster = cluster();
    let local = tempfile::tempdir().unwrap();
    cluster.dfs(&["-mkdir", "-p", "/sizes"]).ok();
    const MIB: usize = 1 << 20;
    for (seed, len) in
        [0, 1, 511, 512, 513, 65_535, 65_536, 65_537, MIB - 1, MIB, MIB + 1, 3 * MIB + 7]
            .into_iter()
            .enumerate()
    {
        let source = local.path().join("source");
        let content = data::bytes(seed as u64, len);
        fs::write(&source, &content).unwrap();
        let path = format!("/sizes/{len}");
        cluster.dfs(&["-D", "dfs.blocksize=1048576", "-put", source.to_str().unwrap(), &path]).ok();
        assert!(cluster.dfs(&["-cat", &path]).ok().stdout == content, "cat of {len} bytes");
        let back = local.path().join(format!("back-{len}"));
        cluster.dfs(&["-get", &path, back.to_str().unwrap()]).ok();
        assert!(fs::read(&back).unwrap() == content, "get of {len} bytes");
        cluster.dfs(&["-stat", "%b", &path]).ok().prints(&format!("{len}\n"));
    }
    cluster.hanno(&["fsck", "/sizes"]).ok();
}

#[test]
fn what_was_acknowledged_survives_a_restart() {
    let mut cluster = cluster();
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join("x");
    fs::write(&source, data::bytes(1, 3_000_000)).unwrap();
    cluster.dfs(&["-mkdir", "/keep"]).ok();
    cluster.dfs(&["-put", source.to_str().unwrap(), "/keep/x"]).ok();
    cluster.dfs(&["-setrep", "2", "/keep/x"]).ok().prints("Replication 2 set: /keep/x\n");
    cluster.dfs(&["-mv", "/keep/x", "/keep/y"]).ok();
    cluster.restart();
    cluster.dfs(&["-stat", "%r %b %n", "/keep/y"]).ok().prints("2 3000000 y\n");
    assert!(cluster.dfs(&["-cat", "/keep/y"]).ok().stdout == fs::read(&source).unwrap());
    cluster.wait_healthy(60);
}

#[test]
fn every_kind_of_name_works() {
    let cluster = cluster();
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join("source");
    for name in [
        "with space",
        "quo'te\"s",
        "ünïcödé-日本語-🦀",
        "per%20cent",
        "a+b&c=d;e",
        "#hash?q",
        "tab\u{a0}nbsp",
        "~tilde$HOME`x`",
    ] {
        fs::write(&source, name).unwrap();
        let path = format!("/{name}");
        // A target is a pattern, too: without a backslash, `?` stands for any character.
        let target = path.replace('?', r"\?");
        cluster.dfs(&["-put", source.to_str().unwrap(), &target]).ok();
        cluster.dfs(&["-cat", &path]).ok().prints(name);
        cluster.dfs(&["-test", "-e", &path]).ok();
        cluster.dfs(&["-rm", "-skipTrash", &path]).ok().prints(&format!("Deleted {path}\n"));
        assert_eq!(cluster.dfs(&["-test", "-e", &path]).code, 1);
    }
    let dash = local.path().join("-dash");
    fs::write(&dash, "dash").unwrap();
    let mut command = cluster.command(
        &crate::support::cluster::hanno_binary(),
        &["dfs", "-put", "--", "-dash", "/-dash"],
    );
    command.current_dir(local.path());
    crate::support::Outcome::of(command).ok();
    cluster.dfs(&["-cat", "--", "/-dash"]).ok().prints("dash");
}

#[test]
fn wrong_input_gets_hadoops_message_and_exit_code() {
    let cluster = cluster();
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join("f");
    fs::write(&source, "123").unwrap();
    let source = source.to_str().unwrap();
    let new = local.path().join("new").to_str().unwrap().to_owned();
    cluster.dfs(&["-mkdir", "/d"]).ok();
    cluster.dfs(&["-put", source, "/f"]).ok();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["-ls", "/x"], 1, "ls: `/x': No such file or directory"),
        (&["-cat", "/x"], 1, "cat: `/x': No such file or directory"),
        (&["-cat", "/d"], 1, "cat: `/d': Is a directory"),
        (&["-put", source, "/f"], 1, "put: `/f': File exists"),
        (&["-put", "/no/such/local", "/g"], 1, "put: `/no/such/local': No such file or directory"),
        (&["-get", "/x", source], 1, &format!("get: `{source}': File exists")),
        (&["-get", "/x", &new], 1, "get: `/x': No such file or directory"),
        (&["-get", "/f", source], 1, &format!("get: `{source}': File exists")),
        (&["-mkdir", "/d"], 1, "mkdir: `/d': File exists"),
        (&["-mkdir", "/f/x"], 1, "mkdir: /f (is not a directory)"),
        (&["-rm", "/d"], 1, "rm: `/d': Is a directory"),
        (&["-rm", "/x"], 1, "rm: `/x': No such file or directory"),
        (&["-mv", "/x", "/y"], 1, "mv: `/x': No such file or directory"),
        (&["-setrep", "0", "/f"], 255, "-setrep: replication must be >= 1"),
    ];
    for (args, code, message) in cases {
        let outcome = cluster.dfs(args);
        let first = outcome.stderr.lines().next().unwrap_or_default();
        assert_eq!((outcome.code, first), (*code, *message), "{args:?}");
    }
    let outcome = cluster.dfs(&["-foo"]);
    assert!(
        outcome.code == 255 && outcome.stderr.starts_with("-foo: Unknown command"),
        "{outcome:?}"
    );
    cluster.dfs(&["-ls", "/"]).ok();
    cluster.dfs(&["-cat", "/f"]).ok().prints("123");
}

#[test]
fn a_cluster_that_is_away_is_named() {
    let cluster = cluster();
    let mut command =
        cluster.command(&crate::support::cluster::hanno_binary(), &["dfs", "-ls", "/"]);
    command.env("HANNO_NAMENODE", "http://127.0.0.1:1");
    let outcome = crate::support::Outcome::of(command);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stderr.contains("127.0.0.1:1") && outcome.stderr.contains("Connection refused"),
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.stderr.trim_end().lines().count(), 1, "{}", outcome.stderr);
}

#[test]
fn safe_mode_refuses_changes_and_serves_reads() {
    let cluster = cluster();
    cluster.dfs(&["-mkdir", "/d"]).ok();
    cluster.hanno(&["admin", "safemode", "enter"]).ok().prints("Safe mode is ON\n");
    let outcome = cluster.dfs(&["-mkdir", "/e"]);
    assert_eq!(
        (outcome.code, outcome.stderr.trim_end()),
        (1, "mkdir: Cannot create directory /e. Name node is in safe mode.")
    );
    cluster.dfs(&["-test", "-d", "/d"]).ok();
    cluster.hanno(&["admin", "safemode", "leave"]).ok().prints("Safe mode is OFF\n");
    cluster.dfs(&["-mkdir", "/e"]).ok();
}

#[test]
fn listings_totals_and_trees() {
    let cluster = cluster();
    let local = tempfile::tempdir().unwrap();
    let tree = local.path().join("tree");
    for (path, len) in [("a", 10), ("b/c", 5), ("b/d/e", 0), ("b/d/.hidden", 7)] {
        let path = tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, data::bytes(len, len as usize)).unwrap();
    }
    fs::create_dir_all(tree.join("empty")).unwrap();
    cluster.dfs(&["-put", tree.to_str().unwrap(), "/"]).ok();
    cluster
        .dfs(&["-count", "/tree"])
        .ok()
        .prints("           4            4                 22 /tree\n");
    cluster.dfs(&["-du", "-s", "/tree"]).ok().prints("22  66  /tree\n");
    let listing = cluster.dfs(&["-ls", "/tree"]).ok().stdout_text();
    let names: Vec<&str> =
        listing.lines().skip(1).filter_map(|line| line.split_whitespace().last()).collect();
    assert!(listing.starts_with("Found 3 items\n"), "{listing}");
    assert_eq!(names, ["/tree/a", "/tree/b", "/tree/empty"]);
    assert!(listing.lines().nth(1).unwrap().starts_with("-rw-r--r--   3 tester "), "{listing}");
    let back = local.path().join("back");
    cluster.dfs(&["-get", "/tree", back.to_str().unwrap()]).ok();
    let diff = std::process::Command::new("diff").arg("-r").args([&tree, &back]).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
    cluster.dfs(&["-rm", "-r", "-skipTrash", "/tree"]).ok().prints("Deleted /tree\n");
}

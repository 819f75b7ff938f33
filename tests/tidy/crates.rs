//! How crates depend on each other, and which of them may use what is risky.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::house::{House, is_below, root};
use super::names::Name;
use super::{assert_found, assert_kept, assert_passed};

/// Which workspace crates a crate may depend on. Arrows point only downwards, so that a daemon never pulls in another and
/// the pure crates stay free of I/O.
const GRAPH: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("flow", &["protocol"]),
    ("shuffle", &[]),
    ("sys", &[]),
    ("journal", &["sys"]),
    ("host", &["journal", "protocol"]),
    ("transport", &["protocol", "sys"]),
    ("client", &["flow", "protocol", "sys", "transport"]),
    ("daemon", &["protocol", "sys"]),
    ("mr-formats", &["protocol", "shuffle"]),
    ("mr-api", &["client", "mr-formats", "protocol", "shuffle", "sys"]),
    ("webhdfs", &["client", "daemon", "protocol", "sys"]),
    ("namenode", &["client", "daemon", "host", "journal", "protocol", "sys", "webhdfs"]),
    ("datanode", &["client", "daemon", "protocol", "sys", "transport", "webhdfs"]),
    ("jobtracker", &["client", "daemon", "host", "journal", "protocol", "sys"]),
    ("worker", &["client", "daemon", "protocol", "shuffle", "sys"]),
    (
        "sim",
        &[
            "datanode",
            "flow",
            "host",
            "jobtracker",
            "journal",
            "namenode",
            "protocol",
            "sys",
            "transport",
            "worker",
        ],
    ),
];

/// Crates that only one of ours may import: the seams that hide them.
const SEAMS: &[(&str, &str)] = &[
    ("sled", "journal"),
    ("memmap2", "sys"),
    ("rustix", "sys"),
    ("landlock", "sys"),
    ("seccompiler", "sys"),
    ("libc", "sys"),
];

#[test]
fn crates_depend_only_downwards() {
    let names: BTreeSet<&str> = GRAPH.iter().map(|(name, _)| *name).collect();
    for (name, allowed) in GRAPH {
        for dependency in dependencies(name) {
            let ours = names.contains(&*dependency);
            assert!(
                !ours || allowed.contains(&&*dependency),
                "{name} must not depend on {dependency}"
            );
            let seam = SEAMS.iter().find(|(hidden, _)| *hidden == dependency);
            assert!(
                seam.is_none_or(|(_, owner)| owner == name),
                "only the seam may import {dependency}, not {name}"
            );
        }
    }
}

#[test]
fn the_graph_has_every_member() {
    let members = manifest("Cargo.toml")["workspace"]["members"].clone();
    let members: Vec<String> = members.try_into().unwrap();
    let drawn = GRAPH.iter().map(|(name, _)| *name).chain(["examples", "tests/needs"]);
    assert_eq!(members.iter().map(|name| &**name).collect::<BTreeSet<_>>(), drawn.collect());
}

fn names_behind_seams(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    for source in house.production() {
        for name in source.found.all() {
            let seam =
                SEAMS.iter().find(|(hidden, _)| name.text.starts_with(&format!("{hidden}::")));
            if let Some((hidden, owner)) = seam.filter(|(_, owner)| !is_below(&source.path, owner))
            {
                violations.push(format!("{}: only {owner} may use {hidden}", source.at(name.line)));
            }
        }
    }
    violations
}

#[test]
fn risky_crates_stay_behind_their_seam() {
    assert_kept(names_behind_seams);
    let code = "fn f() { let page = rustix::param::page_size(); }";
    assert_found(names_behind_seams, &[("worker/src/lib.rs", code)]);
    assert_passed(names_behind_seams, &[("sys/src/lib.rs", code)]);
}

/// What an author names and how one task works: rooms of `mr-api` that know neither who runs them nor where.
const AUTHORS_ROOMS: &[&str] = &["datum", "task", "map", "reduce", "engine", "job"];

/// Who runs them, and by what.
const RUNNERS: &[&str] =
    &["client", "reqwest", "tokio", "crate::run", "crate::streaming", "crate::testing"];

fn runners_in_rooms_of_authors(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    for room in AUTHORS_ROOMS {
        for source in house.below(&format!("mr-api/src/{room}")) {
            let is_runner = |name: &&Name| RUNNERS.iter().any(|runner| name.is_in(runner));
            for name in source.found.all().filter(is_runner) {
                let place = source.at(name.line);
                violations.push(format!("{place}: {room} stands below {}", name.text));
            }
        }
    }
    violations
}

#[test]
fn what_an_author_names_knows_nothing_of_who_runs_it() {
    assert_kept(runners_in_rooms_of_authors);
    const FACE: [(&str, &str); 2] =
        [("mr-api/src/lib.rs", "mod job; mod run;"), ("mr-api/src/job/mod.rs", "mod plan;")];
    for code in [
        "fn f() { tokio::spawn(work()); }",
        "use client::dfs::DfsClient;",
        "fn f() { crate::run::main(); }",
    ] {
        let plan = ("mr-api/src/job/plan.rs", code);
        assert_found(runners_in_rooms_of_authors, &[FACE[0], FACE[1], plan]);
    }
    let run = [("mr-api/src/lib.rs", "mod run;"), ("mr-api/src/run/mod.rs", "use client::dfs;")];
    assert_passed(runners_in_rooms_of_authors, &run);
}

fn dependencies(name: &str) -> Vec<String> {
    let manifest = manifest(&format!("{name}/Cargo.toml"));
    let tables: BTreeMap<String, toml::Value> =
        manifest["dependencies"].clone().try_into().unwrap();
    tables.into_keys().collect()
}

fn manifest(path: &str) -> toml::Table {
    fs::read_to_string(root().join(path)).unwrap().parse().unwrap()
}

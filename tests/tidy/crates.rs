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
    ("tls", &["protocol", "sys"]),
    ("transport", &["protocol", "sys", "tls"]),
    ("client", &["flow", "protocol", "sys", "transport"]),
    ("daemon", &["protocol", "sys", "tls"]),
    ("mr-derive", &[]),
    ("mr-formats", &["protocol", "shuffle"]),
    ("mr-model", &["mr-formats", "protocol", "shuffle"]),
    (
        "mr-api",
        &[
            "client",
            "mr-derive",
            "mr-formats",
            "mr-model",
            "protocol",
            "shuffle",
            "sys",
            "transport",
        ],
    ),
    ("distcp", &["client", "mr-api", "protocol", "sys", "transport"]),
    ("webhdfs", &["client", "daemon", "protocol", "sys", "transport"]),
    (
        "namenode",
        &["client", "daemon", "host", "journal", "protocol", "sys", "transport", "webhdfs"],
    ),
    ("datanode", &["client", "daemon", "protocol", "sys", "transport", "webhdfs"]),
    ("jobtracker", &["client", "daemon", "host", "journal", "protocol", "sys", "transport"]),
    ("worker", &["client", "daemon", "protocol", "shuffle", "sys", "transport"]),
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
    ("rustls", "tls"),
    ("rcgen", "tls"),
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
    let drawn =
        GRAPH.iter().map(|(name, _)| *name).chain(["examples", "examples/learning", "tests/needs"]);
    assert_eq!(members.iter().map(|name| &**name).collect::<BTreeSet<_>>(), drawn.collect());
}

/// Cargo only warns of a profile for a package that does not exist, and builds with the profile of all others.
#[test]
fn profiles_name_packages() {
    let lock: toml::Table = manifest("Cargo.lock");
    let packages = lock["package"].as_array().unwrap();
    let known: BTreeSet<&str> =
        packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    let manifest = manifest("Cargo.toml");
    let profiles = manifest["profile"].as_table().unwrap().values();
    let named: Vec<&String> = profiles
        .filter_map(|profile| profile.get("package")?.as_table())
        .flat_map(toml::Table::keys)
        .filter(|name| *name != "*")
        .collect();
    assert!(named.len() > 10, "{named:?}");
    let unknown: Vec<_> = named.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "no package has the name {unknown:?}");
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

/// What runs jobs, and by what: nothing for the crate of what an author names.
const RUNNERS: &[&str] = &["client", "mr_api", "reqwest", "tokio", "sys", "std::net", "async"];

/// The rooms of that crate, and which of them each stands on.
const AUTHORS_ROOMS: &[(&str, &[&str])] = &[
    ("datum", &[]),
    ("task", &[]),
    ("map", &["datum", "task"]),
    ("reduce", &["datum", "task"]),
    ("engine", &["datum", "task", "map", "reduce"]),
    ("job", &["datum", "task", "map", "reduce", "engine"]),
];

fn names_above_authors(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    for source in house.below("mr-model/src") {
        let is_runner = |name: &&Name| RUNNERS.iter().any(|runner| name.is_in(runner));
        for name in source.found.all().filter(is_runner) {
            violations.push(format!("{}: stands below {}", source.at(name.line), name.text));
        }
    }
    for (room, below) in AUTHORS_ROOMS {
        let rooms = AUTHORS_ROOMS.iter().map(|(other, _)| *other).chain(["runner"]);
        let above: Vec<String> = rooms
            .filter(|other| other != room && !below.contains(other))
            .map(|other| format!("crate::{other}"))
            .collect();
        for source in house.below(&format!("mr-model/src/{room}")) {
            for name in source.found.all().filter(|name| above.iter().any(|path| name.is_in(path)))
            {
                let place = source.at(name.line);
                violations.push(format!("{place}: {room} does not stand on {}", name.text));
            }
        }
    }
    violations
}

/// What only runners see of jobs is not handed on to authors.
fn runners_view_handed_on(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    for source in house.below("mr-api/src") {
        let exports = source.found.exports.iter().filter(|name| name.is_in("mr_model::runner"));
        violations.extend(exports.map(|name| format!("{}: {}", source.at(name.line), name.text)));
    }
    violations
}

#[test]
fn what_an_author_names_knows_nothing_of_who_runs_it() {
    assert_kept(names_above_authors);
    const FACE: [(&str, &str); 2] =
        [("mr-model/src/lib.rs", "mod job; mod map;"), ("mr-model/src/map/mod.rs", "mod mapper;")];
    for code in [
        "fn f() { tokio::spawn(work()); }",
        "use std::net::TcpStream;",
        "fn f() { sys::process::pause(7); }",
        "fn f() { crate::job::text(); }",
        "use crate::runner::Stage;",
    ] {
        let mapper = ("mr-model/src/map/mapper.rs", code);
        assert_found(names_above_authors, &[FACE[0], FACE[1], mapper]);
    }
    let mapper = ("mr-model/src/map/mapper.rs", "use crate::task::Context; use std::io::Read;");
    assert_passed(names_above_authors, &[FACE[0], FACE[1], mapper]);
}

#[test]
fn authors_do_not_get_what_runners_see() {
    assert_kept(runners_view_handed_on);
    for code in ["pub use mr_model::runner::Stage;", "pub use mr_model::{Job, runner::Stage};"] {
        assert_found(runners_view_handed_on, &[("mr-api/src/lib.rs", code)]);
    }
    let inside = [("mr-api/src/lib.rs", "use mr_model::runner::Stage; pub use mr_model::Job;")];
    assert_passed(runners_view_handed_on, &inside);
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

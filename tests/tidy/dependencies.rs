//! `deny.toml` is kept without a network: licences, sources, banned and doubled crates. It has nothing in it that is not needed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// What of `deny.toml` needs no network.
#[derive(Deserialize)]
struct Table {
    graph: Graph,
    advisories: Advisories,
    licenses: Licenses,
    sources: Sources,
    bans: Bans,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Advisories {
    ignore: Vec<Advisory>,
}

#[derive(Deserialize)]
struct Advisory {
    id: String,
    reason: String,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
    allow_git: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
    skip: Vec<Skip>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    #[serde(default)]
    wrappers: Vec<String>,
    reason: String,
}

#[derive(Deserialize)]
struct Skip {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

/// What `cargo metadata` prints.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

/// What a package was resolved to depend on.
#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

/// `None` for what the library itself needs.
#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

#[derive(Clone, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Clone, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    source: Option<String>,
}

impl Metadata {
    /// Everything that is linked with a library of this name.
    fn linked_with(&self, name: &str) -> BTreeSet<&str> {
        let named = |package: &&Package| package.name == name;
        let mut waiting = vec![&self.packages.iter().find(named).unwrap().id];
        let mut found = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            let package = self.packages.iter().find(|package| package.id == *id).unwrap();
            if !found.insert(&*package.name) {
                continue;
            }
            let node = self.resolve.nodes.iter().find(|node| node.id == *id).unwrap();
            let is_linked = |edge: &&Edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none());
            waiting.extend(node.deps.iter().filter(is_linked).map(|edge| &edge.pkg));
        }
        found
    }
}

impl Table {
    fn read() -> Table {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deny.toml");
        toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Everything in which packages do not keep the table, or it has more than they need.
    fn findings(&self, packages: &[Package]) -> Vec<String> {
        let mut found = self.licenses(packages);
        found.extend(self.sources(packages));
        found.extend(self.bans(packages));
        found.extend(self.doubles(packages));
        found.extend(self.advisories(packages));
        found
    }

    fn licenses(&self, packages: &[Package]) -> Vec<String> {
        let (mut found, mut used) = (Vec::new(), BTreeSet::new());
        for package in packages {
            let license = package.license.as_deref().unwrap_or("none");
            match permitted(license, &self.licenses.allow) {
                Some(by) => used.extend(by),
                None => found.push(format!("{}: licence {license}", package.name)),
            }
        }
        let unused = self.licenses.allow.difference(&used);
        found.extend(unused.map(|license| format!("nothing needs the licence {license}")));
        found
    }

    fn sources(&self, packages: &[Package]) -> Vec<String> {
        assert!(self.sources.allow_git.is_empty(), "this reader knows registries alone");
        let is_known = |source: &str| {
            let registry = source.strip_prefix("registry+");
            registry.is_some_and(|url| self.sources.allow_registry.iter().any(|own| own == url))
        };
        let mut found = Vec::new();
        for package in packages {
            match &package.source {
                Some(source) if !is_known(source) => {
                    found.push(format!("{} comes from {source}", package.name));
                }
                Some(_) => {}
                None => found.extend(
                    package
                        .dependencies
                        .iter()
                        .filter(|dependency| dependency.source.is_some() && dependency.req == "*")
                        .map(|any| format!("{} takes any {}", package.name, any.name)),
                ),
            }
        }
        found
    }

    fn bans(&self, packages: &[Package]) -> Vec<String> {
        let mut found = Vec::new();
        for ban in &self.bans.deny {
            assert!(!ban.reason.is_empty(), "{} has no reason", ban.name);
            let users = packages.iter().filter(|package| {
                package.dependencies.iter().any(|dependency| dependency.name == ban.name)
            });
            let is_there = packages.iter().any(|package| package.name == ban.name);
            if ban.wrappers.is_empty() && is_there {
                found.push(format!("{} is banned: {}", ban.name, ban.reason));
            }
            for user in users.filter(|_| is_there && !ban.wrappers.is_empty()) {
                if !ban.wrappers.contains(&user.name) {
                    found.push(format!("{} uses {}: {}", user.name, ban.name, ban.reason));
                }
            }
        }
        found
    }

    fn doubles(&self, packages: &[Package]) -> Vec<String> {
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for package in packages {
            versions.entry(&package.name).or_default().insert(&package.version);
        }
        let mut found = Vec::new();
        for skip in &self.bans.skip {
            assert!(!skip.reason.is_empty(), "{} has no reason", skip.name);
            let (name, wanted) = skip.name.split_once('@').unwrap();
            let is_skipped = |version: &str| {
                version.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.'))
            };
            let known = versions.entry(name).or_default();
            let count = known.len();
            known.retain(|version| !is_skipped(version));
            if known.len() == count || known.is_empty() {
                found.push(format!("{} is not there twice", skip.name));
            }
        }
        versions.retain(|_, versions| versions.len() > 1);
        found.extend(
            versions.iter().map(|(name, versions)| format!("{name} is there as {versions:?}")),
        );
        found
    }

    fn advisories(&self, packages: &[Package]) -> Vec<String> {
        let is_stale = |advisory: &&Advisory| {
            let name = advisory.reason.split(',').next().unwrap_or_default();
            !packages.iter().any(|package| package.name == name)
        };
        let stale = self.advisories.ignore.iter().filter(is_stale);
        stale.map(|advisory| format!("nothing needs the exception {}", advisory.id)).collect()
    }
}

/// The allowed licences that let something be used whose licence is such an expression of SPDX's; `/` is `OR`, as it was once written.
fn permitted(expression: &str, allowed: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let by = either(&mut rest, allowed);
    assert!(rest.is_empty(), "{expression}");
    by
}

fn either(rest: &mut &[&str], allowed: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let mut by = both(rest, allowed);
    while let ["OR", behind @ ..] = rest {
        *rest = behind;
        let other = both(rest, allowed);
        by = match (by, other) {
            (Some(by), Some(other)) => Some(&by | &other),
            (by, other) => by.or(other),
        };
    }
    by
}

fn both(rest: &mut &[&str], allowed: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let mut by = one(rest, allowed);
    while let ["AND", behind @ ..] = rest {
        *rest = behind;
        by = by.zip(one(rest, allowed)).map(|(by, other)| &by | &other);
    }
    by
}

fn one(rest: &mut &[&str], allowed: &BTreeSet<String>) -> Option<BTreeSet<String>> {
    let name = match rest {
        ["(", behind @ ..] => {
            *rest = behind;
            let by = either(rest, allowed);
            *rest = rest.strip_prefix(&[")"]).unwrap();
            return by;
        }
        [name, "WITH", exception, behind @ ..] => {
            *rest = behind;
            format!("{name} WITH {exception}")
        }
        [name, behind @ ..] => {
            *rest = behind;
            (*name).to_owned()
        }
        [] => panic!("an expression ends too early"),
    };
    allowed.contains(&name).then(|| [name].into())
}

fn metadata(table: &Table) -> Metadata {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--offline", "--format-version", "1", "--all-features"]);
    for target in &table.graph.targets {
        cargo.args(["--filter-platform", target]);
    }
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn dependencies_keep_their_table() {
    let table = Table::read();
    let packages = metadata(&table).packages;
    assert!(packages.len() > 100, "only {} packages were found", packages.len());
    assert_eq!(table.findings(&packages), Vec::<String>::new());
}

#[test]
fn what_breaks_the_table_is_found() {
    let table = Table::read();
    let sound = metadata(&table).packages;
    let own = sound.iter().find(|package| package.name == "hanno-worker").unwrap();
    let foreign = sound.iter().find(|package| package.name == "serde").unwrap();
    let dependency = |name: &str, req: &str| Dependency {
        name: name.to_owned(),
        req: req.to_owned(),
        source: foreign.source.clone(),
    };
    let named = |name: &str| Package { name: name.to_owned(), ..foreign.clone() };
    for (broken, finding) in [
        (Package { license: Some("GPL-3.0-only".into()), ..named("x") }, "x: licence GPL-3.0-only"),
        (Package { license: None, ..named("x") }, "x: licence none"),
        (
            Package { license: Some("MIT AND (AGPL-3.0 OR SSPL-1.0)".into()), ..named("x") },
            "x: licence MIT AND",
        ),
        (
            Package { source: Some("git+https://example.org/x".into()), ..named("x") },
            "x comes from git+https://example.org/x",
        ),
        (named("bincode"), "bincode is banned: "),
        (
            Package { dependencies: vec![dependency("sled", "1")], ..own.clone() },
            "hanno-worker uses sled: ",
        ),
        (
            Package { dependencies: vec![dependency("serde", "*")], ..own.clone() },
            "hanno-worker takes any serde",
        ),
        (Package { version: "99.0.0".into(), ..foreign.clone() }, "serde is there as {"),
    ] {
        let found = table.findings(&[&sound[..], &[broken]].concat());
        assert!(found.len() == 1 && found[0].starts_with(finding), "{finding}: {found:?}");
    }
    let without: Vec<Package> = sound
        .iter()
        .filter(|package| !matches!(&package.name[..], "fxhash" | "syn"))
        .cloned()
        .collect();
    let found = table.findings(&without);
    assert_eq!(
        found,
        ["syn@2 is not there twice", "nothing needs the exception RUSTSEC-2025-0057"]
    );
}

/// A library, and what may not be linked with it: formats are read and written, and jobs described, without a runtime, a network or a cluster, and blocks
/// are written and read without sockets.
const PURE: &[(&str, &[&str])] = &[
    ("mr-formats", &["hanno-client", "hyper", "reqwest", "tokio"]),
    ("mr-model", &["hanno-client", "hyper", "reqwest", "rustix", "hanno-sys", "tokio"]),
    ("hanno-flow", &["rand", "rustix", "hanno-sys", "tokio", "tracing", "hanno-transport"]),
];

#[test]
fn formats_jobs_and_flow_link_no_runtime_and_no_network() {
    let metadata = metadata(&Table::read());
    for (name, refused) in PURE {
        let linked = metadata.linked_with(name);
        assert!(linked.contains("hanno-protocol"), "{name}: {linked:?}");
        let impure: Vec<_> = refused.iter().filter(|refused| linked.contains(*refused)).collect();
        assert!(impure.is_empty(), "{name} is linked with {impure:?}");
        let above = metadata.linked_with("mr-api");
        assert!(
            refused.iter().all(|refused| above.contains(refused)),
            "all are found where they are"
        );
    }
}

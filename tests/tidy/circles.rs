//! Modules of a crate import each other in one direction, so that each can be read after those that it stands on.

use std::collections::{BTreeMap, BTreeSet};

use super::house::{House, Source};
use super::names::resolved;
use super::{assert_found, assert_kept, assert_passed};

/// Modules of one crate by their paths.
type Modules<'a> = BTreeMap<&'a [String], &'a Source>;

fn circles(house: &House) -> Vec<String> {
    let circles = all(house).into_iter().map(Vec::from_iter);
    circles.map(|files| format!("{}: a circle of {}: {files:?}", files[0], files.len())).collect()
}

/// All circles, of each crate.
pub(super) fn all(house: &House) -> Vec<BTreeSet<&str>> {
    let mut crates: BTreeMap<&str, Modules<'_>> = BTreeMap::new();
    for source in house.production() {
        crates.entry(&source.root).or_default().insert(&source.module, source);
    }
    let mut circles = Vec::new();
    for modules in crates.values() {
        let edges: BTreeMap<&str, BTreeSet<&str>> =
            modules.values().map(|source| (&*source.path, imported(source, modules))).collect();
        circles.extend(tied(&edges));
    }
    circles
}

/// The files of its crate that one names.
fn imported<'a>(source: &Source, modules: &Modules<'a>) -> BTreeSet<&'a str> {
    let names = source.found.names.iter().chain(&source.found.imports);
    let paths = names.filter_map(|name| absolute(&name.text, source, modules));
    paths.filter_map(|path| owner(&path, modules, 0)).filter(|path| *path != source.path).collect()
}

/// A path from the root of the crate, if it is one of this crate.
fn absolute(text: &str, source: &Source, modules: &Modules<'_>) -> Option<Vec<String>> {
    // A single word may be anything; what is imported has its whole path.
    let mut parts = text.contains("::").then(|| text.split("::").peekable())?;
    let mut path: Vec<String> = match *parts.peek()? {
        "crate" => Vec::new(),
        "self" | "super" => source.module.clone(),
        child => {
            let mut below = source.module.clone();
            below.push(child.to_owned());
            modules.contains_key(&*below).then(|| source.module.clone())?
        }
    };
    for part in parts {
        match part {
            "crate" | "self" => {}
            "super" => drop(path.pop()),
            part => path.push(part.to_owned()),
        }
    }
    Some(path)
}

/// The file in which it is defined: what a face hands on is its maker's.
fn owner<'a>(path: &[String], modules: &Modules<'a>, depth: usize) -> Option<&'a str> {
    let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length]))?;
    let source = modules[&path[..length]];
    let Some(name) = path.get(length).filter(|_| depth < 8) else { return Some(&source.path) };
    let handed_on =
        source.found.aliases.get(name).map(|whole| resolved(whole, &source.found.aliases));
    let maker = handed_on.and_then(|whole| absolute(&whole, source, modules));
    match maker {
        Some(maker) if maker != path => owner(&maker, modules, depth + 1),
        _ => Some(&source.path),
    }
}

/// The sets of more than one that reach each other (Tarjan).
fn tied<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<BTreeSet<&'a str>> {
    let mut search = Search {
        edges,
        order: BTreeMap::new(),
        lowest: BTreeMap::new(),
        open: Vec::new(),
        tied: Vec::new(),
    };
    for node in edges.keys() {
        if !search.order.contains_key(node) {
            search.visit(node);
        }
    }
    search.tied
}

struct Search<'a, 'e> {
    edges: &'e BTreeMap<&'a str, BTreeSet<&'a str>>,
    order: BTreeMap<&'a str, usize>,
    lowest: BTreeMap<&'a str, usize>,
    open: Vec<&'a str>,
    tied: Vec<BTreeSet<&'a str>>,
}

impl<'a> Search<'a, '_> {
    fn visit(&mut self, node: &'a str) {
        let order = self.order.len();
        self.order.insert(node, order);
        self.open.push(node);
        let mut lowest = order;
        for next in &self.edges[node] {
            if !self.order.contains_key(next) {
                self.visit(next);
                lowest = lowest.min(self.lowest[next]);
            } else if self.open.contains(next) {
                lowest = lowest.min(self.order[next]);
            }
        }
        self.lowest.insert(node, lowest);
        if lowest == order {
            let begin = self.open.iter().position(|open| *open == node).unwrap();
            let circle: BTreeSet<&str> = self.open.drain(begin..).collect();
            self.tied.extend((circle.len() > 1).then_some(circle));
        }
    }
}

#[test]
fn modules_import_each_other_in_one_direction() {
    assert_kept(circles);
}

#[test]
fn a_circle_is_found_through_faces_and_aliases() {
    const FACE: (&str, &str) = ("sys/src/lib.rs", "mod a; mod b; pub use a::A;");
    const A: (&str, &str) = ("sys/src/a.rs", "use crate::b as other; pub struct A(other::B);");
    let files = [FACE, ("sys/src/b.rs", "pub struct B(Box<crate::A>);"), A];
    assert_found(circles, &files);
    let files = [FACE, ("sys/src/b.rs", "pub struct B; #[cfg(test)] use super::A;"), A];
    assert_passed(circles, &files);
}

//! The house in figures, of any checkout: for looking at what a change of the design did. `HANNO_HOUSE` is the checkout; without it, this one.
//!
//! ```text
//! cargo test --test tidy figures -- --ignored --nocapture
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use syn::{Item, UseTree, Visibility};

use super::circles;
use super::house::{House, root};

/// Names that a glob stands for cannot be counted here; it counts as one.
fn leaves(tree: &UseTree) -> usize {
    match tree {
        UseTree::Path(path) => leaves(&path.tree),
        UseTree::Group(group) => group.items.iter().map(leaves).sum(),
        UseTree::Name(_) | UseTree::Rename(_) | UseTree::Glob(_) => 1,
    }
}

/// How many names the root of a crate gives to others.
fn public_names(text: &str) -> usize {
    let is_public = |visibility: &Visibility| matches!(visibility, Visibility::Public(_));
    let names = syn::parse_file(text).unwrap().items.into_iter().map(|item| match item {
        Item::Use(item) if is_public(&item.vis) => leaves(&item.tree),
        Item::Struct(item) => is_public(&item.vis).into(),
        Item::Enum(item) => is_public(&item.vis).into(),
        Item::Trait(item) => is_public(&item.vis).into(),
        Item::Fn(item) => is_public(&item.vis).into(),
        Item::Mod(item) => is_public(&item.vis).into(),
        Item::Type(item) => is_public(&item.vis).into(),
        Item::Const(item) => is_public(&item.vis).into(),
        _ => 0,
    });
    names.sum()
}

/// Lines before the tests of a file that are neither empty nor a comment.
fn code_lines(text: &str) -> usize {
    let tests = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    text[..tests].lines().filter(is_code).count()
}

#[test]
#[ignore = "prints figures for people"]
fn the_house_in_figures() {
    let checkout = std::env::var_os("HANNO_HOUSE").map_or(root().to_owned(), PathBuf::from);
    let house = House::read(&checkout);
    let mut crates: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for source in house.production() {
        let name = source.path.split('/').next().unwrap();
        let (files, lines) = crates.entry(name).or_default();
        *files += 1;
        *lines += code_lines(&source.text);
        *folders.entry(source.path.rsplit_once('/').unwrap().0).or_default() += 1;
    }
    println!("| crate | files | lines of code |\n|---|---:|---:|");
    for (name, (files, lines)) in &crates {
        println!("| {name} | {files} | {lines} |");
    }
    let total: usize = crates.values().map(|(_, lines)| lines).sum();
    println!("| all | {} | {total} |", crates.values().map(|(files, _)| files).sum::<usize>());
    let (fullest, files) = folders.iter().max_by_key(|(_, files)| **files).unwrap();
    println!("fullest folder: {files} files, {fullest}");
    let circles = circles::all(&house);
    let files: Vec<usize> = circles.iter().map(|circle| circle.len()).collect();
    println!("circles of modules: {}, of {files:?} files", circles.len());
    let faces = house.sources.get("mr-api/src/lib.rs");
    println!("names at the root of mr-api: {}", faces.map_or(0, |face| public_names(&face.text)));
}

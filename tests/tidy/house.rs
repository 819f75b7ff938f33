//! The sources of all crates: every file that some crate reaches by `mod`, with what it says outside tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Block, ImplItem, Item, ItemImpl, ItemMod, Meta, Stmt};

use super::names::{Found, found};

/// Folders that have no sources of the house, from the project's root.
const OUTSIDE: &[&str] = &[
    "target",
    ".git",
    "docs",
    "tests/clients",
    "fuzz/target",
    "fuzz/corpus",
    "fuzz/artifacts",
    "fuzz/fuzz_targets",
];

/// One file.
pub(super) struct Source {
    /// From the project's root.
    pub(super) path: String,
    /// The root file of the crate (or of the test, example or bench) that reaches it.
    pub(super) root: String,
    /// Where `crate::` finds it.
    pub(super) module: Vec<String>,
    pub(super) text: String,
    /// True for files of tests and benchmarks: no rule for production holds there.
    pub(super) is_test: bool,
    /// What stands in it outside `#[cfg(test)]`.
    pub(super) found: Found,
}

/// All files, each under its path.
pub(super) struct House {
    pub(super) sources: BTreeMap<String, Source>,
    /// Files that no crate reaches.
    pub(super) orphans: Vec<String>,
    /// Modules whose files are not among them.
    pub(super) missing: Vec<String>,
}

impl House {
    /// The one that this test belongs to.
    pub(super) fn here() -> &'static Self {
        static HERE: LazyLock<House> = LazyLock::new(|| House::read(root()));
        &HERE
    }

    /// A checkout.
    pub(super) fn read(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                if path.is_dir() {
                    if !OUTSIDE.contains(&&*name) {
                        folders.push(path);
                    }
                } else if name.ends_with(".rs") {
                    files.insert(name, fs::read_to_string(&path).unwrap());
                }
            }
        }
        assert!(files.len() > 500, "the walk found the sources");
        Self::new(files)
    }

    /// One of these files, to see what a rule finds in it.
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        Self::new(files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect())
    }

    fn new(files: BTreeMap<String, String>) -> Self {
        let mut house = Self { sources: BTreeMap::new(), orphans: Vec::new(), missing: Vec::new() };
        for root in files.keys().filter(|path| is_root(path)) {
            reach(&files, root, root, Vec::new(), is_test_root(root), &mut house);
        }
        let is_orphan = |path: &&String| !house.sources.contains_key(*path);
        house.orphans = files.keys().filter(is_orphan).cloned().collect();
        house
    }

    /// Files whose code is in what users run.
    pub(super) fn production(&self) -> impl Iterator<Item = &Source> {
        self.sources.values().filter(|source| !source.is_test)
    }

    /// Of these, the ones below a folder.
    pub(super) fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a Source> {
        self.production().filter(move |source| is_below(&source.path, folder))
    }
}

impl Source {
    pub(super) fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path)
    }
}

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(super) fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether cargo compiles the file as a crate's root.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        [.., "src", "lib.rs" | "main.rs"] | [.., "src", "bin", _] => true,
        ["examples", _] | ["examples", "learning", _] | ["tests", "programs", _] => true,
        ["examples", "support", "lib.rs"] | ["examples", "learning", "support", "lib.rs"] => true,
        ["tests", "main.rs"] | ["tests", "tidy", "main.rs"] => true,
        [_, "tests" | "examples" | "benches", _]
        | [_, "tests" | "examples" | "benches", _, "main.rs"] => parts[0] != "tests",
        _ => false,
    }
}

fn is_test_root(path: &str) -> bool {
    let mut parts = path.split('/');
    let first = parts.next().unwrap();
    matches!(first, "tests" | "fuzz")
        || parts.any(|part| matches!(part, "tests" | "examples" | "benches"))
}

/// Takes in a file and all that it declares.
fn reach(
    files: &BTreeMap<String, String>,
    root: &str,
    path: &str,
    module: Vec<String>,
    is_test: bool,
    house: &mut House,
) {
    let text = &files[path];
    // What production and tests share (`#[path]`) is production.
    if house.sources.get(path).is_some_and(|known| is_test || !known.is_test) {
        return;
    }
    let mut file = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let children = declared(&file.items, path, is_test);
    TestsOut.visit_file_mut(&mut file);
    let found = found(file.to_token_stream());
    house.sources.insert(
        path.to_owned(),
        Source {
            path: path.to_owned(),
            root: root.to_owned(),
            module: module.clone(),
            text: text.clone(),
            is_test,
            found,
        },
    );
    for (name, places, is_test) in children {
        let mut module = module.clone();
        module.push(name);
        match places.iter().find(|place| files.contains_key(*place)) {
            Some(place) => reach(files, root, place, module, is_test, house),
            None => house.missing.push(format!("{path}: {} has no file here", module.join("::"))),
        }
    }
}

/// The modules that a file declares: name, files where each may be, whether it is for tests.
fn declared(items: &[Item], path: &str, is_test: bool) -> Vec<(String, Vec<String>, bool)> {
    let path = Path::new(path);
    let folder = path.parent().unwrap();
    let stem = path.file_stem().unwrap().to_str().unwrap();
    let is_face = matches!(stem, "lib" | "main" | "mod") || is_root(path.to_str().unwrap());
    let below = if is_face { folder.to_owned() } else { folder.join(stem) };
    let mut modules = Vec::new();
    for item in items {
        let Item::Mod(item) = item else { continue };
        if item.content.is_some() {
            continue;
        }
        let name = item.ident.to_string();
        let places = match item.attrs.iter().find_map(path_of) {
            Some(place) => vec![normal(&folder.join(place))],
            None => [format!("{name}.rs"), format!("{name}/mod.rs")]
                .map(|place| normal(&below.join(place)))
                .into(),
        };
        modules.push((name, places, is_test || is_for_tests(&item.attrs)));
    }
    modules
}

/// What `#[path = "…"]` says.
fn path_of(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let is_path = pair.path.is_ident("path");
    is_path.then(|| pair.value.to_token_stream().to_string().trim_matches('"').to_owned())
}

pub(super) fn normal(path: &Path) -> String {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.to_str().unwrap().to_owned()
}

/// True for `#[cfg(test)]` and `#[cfg(any(test, fuzzing))]`, which users never compile.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string().replace(' ', "");
        list.path.is_ident("cfg") && matches!(&*condition, "test" | "any(test,fuzzing)")
    })
}

/// Takes out what is compiled for tests alone, wherever it stands.
struct TestsOut;

impl VisitMut for TestsOut {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        file.items.retain(|item| !is_for_tests(attributes(item)));
        visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|item| !is_for_tests(attributes(item)));
        }
        visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, item: &mut ItemImpl) {
        item.items.retain(|item| match item {
            ImplItem::Const(item) => !is_for_tests(&item.attrs),
            ImplItem::Fn(item) => !is_for_tests(&item.attrs),
            ImplItem::Type(item) => !is_for_tests(&item.attrs),
            ImplItem::Macro(item) => !is_for_tests(&item.attrs),
            _ => true,
        });
        visit_mut::visit_item_impl_mut(self, item);
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        block.stmts.retain(|statement| match statement {
            Stmt::Item(item) => !is_for_tests(attributes(item)),
            Stmt::Local(local) => !is_for_tests(&local.attrs),
            Stmt::Macro(statement) => !is_for_tests(&statement.attrs),
            Stmt::Expr(..) => true,
        });
        visit_mut::visit_block_mut(self, block);
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

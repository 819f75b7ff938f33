//! Every decoder that is fuzzed has a target, a place in the manifest of `fuzz/`, and seeds that the tests of its crate replay; there is no
//! target without a decoder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn names(folder: &str) -> Vec<PathBuf> {
    fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// The targets in the tables `DECODERS`, and the one of the command itself.
fn decoders() -> BTreeSet<String> {
    let mut found: BTreeSet<String> = ["avro_files".to_owned()].into();
    for folder in names("") {
        let Ok(text) = fs::read_to_string(folder.join("src/fuzz.rs")) else { continue };
        let (_, table) = text.split_once("pub const DECODERS").unwrap();
        let (table, _) = table.split_once("];").unwrap();
        for entry in table.split("(\"").skip(1) {
            let name = entry.split('"').next().unwrap();
            assert!(found.insert(name.to_owned()), "two decoders are called {name}");
        }
        assert!(
            text.contains("fuzz/replay.rs\"]\nmod replay;"),
            "{} replays no seeds",
            folder.display()
        );
    }
    found
}

#[test]
fn every_decoder_has_a_target_and_seeds() {
    let decoders = decoders();
    assert!(decoders.len() > 40, "only {} decoders were found", decoders.len());
    // One folder for the targets of each crate.
    let targets: BTreeMap<String, PathBuf> = names("fuzz/fuzz_targets")
        .iter()
        .flat_map(|folder| names(folder.to_str().unwrap()))
        .map(|path| (stem(&path), path))
        .collect();
    assert_eq!(targets.keys().cloned().collect::<BTreeSet<_>>(), decoders);
    let seeds: BTreeSet<String> = names("fuzz/seeds").iter().map(|path| stem(path)).collect();
    assert_eq!(seeds, decoders);
    let record = fs::read_to_string(root().join("fuzz/runs.tsv")).unwrap();
    for line in record.lines().skip(1) {
        let [name, seconds, runs] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert!(decoders.contains(name), "{name} in the record is no target");
        assert!(
            seconds.parse::<f64>().unwrap() > 0.0 && runs.parse::<u64>().unwrap() > 0,
            "{line}"
        );
    }
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    for (name, path) in &targets {
        let target = fs::read_to_string(path).unwrap();
        let path = path.strip_prefix(root().join("fuzz")).unwrap().display();
        assert!(target.contains(&format!("::{name}(bytes)")), "{name} is not what it says");
        assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"{path}\"\n")), "{name}");
        assert!(!names(&format!("fuzz/seeds/{name}")).is_empty(), "{name} has no seeds");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), decoders.len());
}

/// What a package of the lock file of `fuzz/` depends on, if it is the project's own.
fn locked() -> BTreeMap<String, BTreeSet<String>> {
    let lock: toml::Table =
        toml::from_str(&fs::read_to_string(root().join("fuzz/Cargo.lock")).unwrap()).unwrap();
    let own = lock["package"].as_array().unwrap().iter().filter(|it| it.get("source").is_none());
    own.map(|package| {
        let none = Vec::new();
        let dependencies =
            package.get("dependencies").and_then(toml::Value::as_array).unwrap_or(&none);
        // A version follows the name where there are two. The folder of `hanno-NAME` is NAME.
        let name_of = |one: &toml::Value| {
            let name = one.as_str().unwrap().split(' ').next().unwrap();
            name.strip_prefix("hanno-").unwrap_or(name).to_owned()
        };
        (name_of(&package["name"]), dependencies.iter().map(name_of).collect())
    })
    .collect()
}

/// The workspace does not build `fuzz/`, so nothing else notices.
#[test]
fn the_lock_file_of_the_targets_is_up_to_date() {
    let locked = locked();
    assert!(locked.len() > 10, "{locked:?}");
    for (name, dependencies) in locked {
        let manifest = fs::read_to_string(root().join(&name).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        let wanted: BTreeSet<String> =
            manifest["dependencies"].as_table().unwrap().keys().cloned().collect();
        assert_eq!(dependencies, wanted, "{name}: run `cargo update --workspace` in fuzz/");
    }
}

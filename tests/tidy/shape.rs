//! Files and folders that a newcomer finds a place in: a file opens with what it is for and stays short, a folder has few files.

use std::collections::BTreeMap;

use super::house::House;
use super::{assert_found, assert_kept, assert_passed};

/// Longest file, lines, tests included: beyond that a newcomer does not find the place for a change.
const FILE_LINES_MAX: usize = 800;
/// Longest file in the middle.
const FILE_LINES_MEDIAN_MAX: usize = 300;
/// Most files of a folder: more do not fit one look.
const FOLDER_FILES_MAX: usize = 20;
fn files_without_purpose(house: &House) -> Vec<String> {
    let sources = house.sources.values().filter(|source| !source.text.starts_with("//!"));
    sources.map(|source| format!("{} does not open with what it is for", source.path)).collect()
}

fn long_files(house: &House) -> Vec<String> {
    let lengths = house.sources.values().map(|source| (&source.path, source.text.lines().count()));
    let long = lengths.filter(|(_, count)| *count > FILE_LINES_MAX);
    long.map(|(path, count)| format!("{path} has {count} lines")).collect()
}

fn crowded_folders(house: &House) -> Vec<String> {
    let mut counts = BTreeMap::new();
    for source in house.sources.values() {
        let folder = source.path.rsplit_once('/').unwrap().0;
        *counts.entry(folder).or_insert(0_usize) += 1;
    }
    let crowded = counts.into_iter().filter(|(_, count)| *count > FOLDER_FILES_MAX);
    crowded
        .map(|(folder, count)| format!("{folder} has {count} files, {FOLDER_FILES_MAX} at most"))
        .collect()
}

fn missing_modules(house: &House) -> Vec<String> {
    house.missing.clone()
}

fn orphans(house: &House) -> Vec<String> {
    house.orphans.iter().map(|path| format!("{path} belongs to no crate")).collect()
}

#[test]
fn files_open_with_their_purpose_and_stay_short() {
    assert_kept(files_without_purpose);
    assert_kept(long_files);
    let mut lengths: Vec<usize> =
        House::here().sources.values().map(|source| source.text.lines().count()).collect();
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    assert!(median <= FILE_LINES_MEDIAN_MAX, "the median file has {median} lines");
}

#[test]
fn folders_have_few_files_and_every_file_a_crate() {
    assert_kept(crowded_folders);
    assert_kept(orphans);
    assert_kept(missing_modules);
}

#[test]
fn what_grew_or_was_forgotten_is_found() {
    const FACE: (&str, &str) = ("sys/src/lib.rs", "//! A crate.\nmod a;");
    assert_found(files_without_purpose, &[FACE, ("sys/src/a.rs", "fn f() {}")]);
    let long = format!("//! Long.\n{}", "const A: u8 = 0;\n".repeat(FILE_LINES_MAX));
    assert_found(long_files, &[FACE, ("sys/src/a.rs", &long)]);
    assert_passed(long_files, &[FACE, ("sys/src/a.rs", "//! Short.")]);
    assert_found(missing_modules, &[("sys/src/lib.rs", "//! A crate.\nmod docs;")]);
    assert_found(orphans, &[FACE, ("sys/src/b.rs", "//! Nobody's.")]);
    let names: Vec<String> = (0..FOLDER_FILES_MAX).map(|number| format!("m{number}")).collect();
    let face: String = names.iter().map(|name| format!("mod {name};")).collect();
    let mut files: Vec<(String, String)> =
        names.iter().map(|name| (format!("sys/src/{name}.rs"), String::new())).collect();
    files.push(("sys/src/lib.rs".to_owned(), face));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let violations = crowded_folders(&House::of(&files));
    assert_eq!(violations, ["sys/src has 21 files, 20 at most"]);
}

//! The defects that `sim/planted/run` plants still fit the code.

use std::fs;

use super::house::{House, root};

/// The parts of a patch that do not stand in the files that it changes.
fn misfits(house: &House, patch: &str) -> Vec<String> {
    let mut misfits = Vec::new();
    for file in patch.split("--- a/").skip(1) {
        let path = file.lines().next().unwrap();
        let text = house.sources.get(path).map_or("", |source| &source.text);
        for hunk in file.split("\n@@ ").skip(1) {
            let stays = |line: &&str| line.is_empty() || line.starts_with([' ', '-']);
            let before = hunk.lines().skip(1).filter(stays);
            let before: String =
                before.map(|line| format!("\n{}", line.get(1..).unwrap_or(""))).collect();
            if !format!("\n{text}").contains(&format!("{before}\n")) {
                misfits.push(format!("{path} does not have:{before}"));
            }
        }
    }
    misfits
}

#[test]
fn planted_defects_fit_the_code() {
    let patches = fs::read_dir(root().join("sim/planted")).unwrap();
    let patches = patches.map(|entry| entry.unwrap().path());
    let patches: Vec<_> =
        patches.filter(|path| path.extension().is_some_and(|end| end == "patch")).collect();
    assert!(!patches.is_empty(), "there are patches");
    for path in patches {
        let patch = fs::read_to_string(&path).unwrap();
        assert!(patch.contains("\n@@ "), "{} changes nothing", path.display());
        let misfits = misfits(House::here(), &patch);
        assert!(misfits.is_empty(), "{}: {}", path.display(), misfits.join("\n"));
    }
}

#[test]
fn a_patch_of_other_code_is_found() {
    let patch = "Why.\n\n--- a/x/src/lib.rs\n+++ b/x/src/lib.rs\n@@ -1,3 +1,3 @@\n fn a() {\n-    b();\n+    c();\n }\n";
    let at = |path: &str, text: &str| misfits(&House::of(&[(path, text)]), patch).len();
    assert_eq!(at("x/src/lib.rs", "use d;\nfn a() {\n    b();\n}\n"), 0);
    assert_eq!(at("x/src/lib.rs", "fn a() {\n    c();\n}\n"), 1, "it is changed");
    assert_eq!(at("y/src/lib.rs", "fn a() {\n    b();\n}\n"), 1, "it has moved");
}

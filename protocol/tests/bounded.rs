//! Every list in a message states its maximum length. The test reads the sources of this crate, since a type cannot show what its decoder would accept.

use std::fs;
use std::path::Path;

/// Modules without messages: their types are parsed or built here, never decoded.
const NO_MESSAGES: &[&str] =
    &["checksum.rs", "decoder.rs", "frame.rs", "hex.rs", "history.rs", "path.rs"];
/// Types of any length.
const LISTS: &[&str] =
    &["Vec<", "VecDeque<", "BTreeMap<", "BTreeSet<", "HashMap<", "HashSet<", "Box<["];

#[test]
fn every_list_in_a_message_says_how_long_it_may_be() {
    let mut seen = 0;
    for (file, text) in sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))) {
        let lists = lists(&text);
        seen += lists.len();
        for (line, is_bounded) in lists {
            assert!(is_bounded, "{file}: `{line}` needs #[serde(deserialize_with = \"at_most…\")]");
        }
    }
    assert!(seen > 60, "only {seen} lists were found: does this test still read the sources?");
}

#[test]
fn a_list_without_a_bound_is_found() {
    let derive = "#[derive(Debug, Deserialize)]\n";
    let bounded = "#[serde(deserialize_with = \"at_most::<3, _, _>\")]";
    for (declared, expected) in [
        ("pub struct S {\n    pub a: Vec<u8>,\n}\n".to_owned(), vec![false]),
        (
            format!("pub enum E {{\n    A(Vec<u8>),\n    B({bounded} Vec<u8>),\n}}\n"),
            vec![false, true],
        ),
        (
            format!("pub struct S {{\n    {bounded}\n    pub a: Vec<u8>,\n    b: u8,\n}}\n"),
            vec![true],
        ),
        (
            format!(
                "pub struct S;\ncalls! {{\n    0: A(\n        {bounded}\n        a: Vec<u8>,\n    ) -> Vec<u8> = Read, logged on(a);\n    1: B(b: Vec<u8>) -> () = Read;\n}}\n"
            ),
            vec![true, false],
        ),
    ] {
        let found = lists(&format!("{derive}{declared}"));
        let found: Vec<bool> = found.into_iter().map(|(_, is_bounded)| is_bounded).collect();
        assert_eq!(found, expected, "{declared}");
    }
    assert!(lists("pub struct S {\n    pub a: Vec<u8>,\n}\n").is_empty(), "it is never decoded");
}

/// The list fields of types that are decoded, and whether each has a bound.
fn lists(text: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let (mut is_decoded, mut is_inside, mut before) = (false, false, String::new());
    let mut is_table = false;
    for line in text.lines() {
        if line.starts_with("#[derive(") || line.starts_with("    Clone, ") {
            is_decoded |= line.contains("Deserialize");
        }
        if line.starts_with("pub struct ") || line.starts_with("pub enum ") {
            is_inside = is_decoded;
            is_decoded = false;
        }
        // The rows of a table of calls are decoded; what they answer is bounded where it is declared.
        is_table |= line.starts_with("calls! {");
        is_inside |= is_table;
        let code = line.trim().split("-> ").next().unwrap();
        let is_field = is_inside && !code.starts_with("//") && !code.starts_with("#[");
        let is_inline = code.starts_with("#[serde") && code.contains("] ");
        if (is_field || is_inside && is_inline) && LISTS.iter().any(|list| code.contains(list)) {
            found.push((code.to_owned(), before.contains("at_most") || code.contains("at_most")));
        }
        is_table &= line != "}";
        if line == "}" || !is_table && line.ends_with(");") {
            is_inside = false;
        }
        before = code.to_owned();
    }
    found
}

fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if !NO_MESSAGES.contains(&name.as_str()) {
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

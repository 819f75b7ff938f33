//! `docs/faults.md` is true: every test that it names exists, and every fault of the matrix has one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Faults that must have a test on real processes.
const FAULTS: [&str; 38] = [
    "D1", "D2", "D3", "D4", "D6", "D7", "D8", "D9", "D10", "D11", "K1", "K2", "K4", "K6", "K7",
    "K8", "K9", "K10", "K11", "N6", "M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M10",
    "A1", "A2", "A3", "A4", "A5", "A6", "T1", "T2",
];

#[test]
fn every_fault_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/faults.md")).unwrap();
    let mut shown = BTreeSet::new();
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| fault |");
    for row in text.lines().filter(is_row) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let fault = cells[1].split(' ').next().unwrap_or_default();
        let named: Vec<&str> = cells[3].split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{fault} has no test");
        for test in named {
            let (file, function) = test.split_once("::").expect("file::function");
            let source = fs::read_to_string(root.join(file)).unwrap_or_default();
            let declared = format!("#[test]\nfn {function}(");
            let inner = format!("#[test]\n    fn {function}(");
            assert!(
                source.contains(&declared) || source.contains(&inner),
                "{fault}: {file} has no test {function}"
            );
        }
        shown.insert(fault.to_owned());
    }
    for fault in FAULTS {
        assert!(shown.contains(fault), "docs/faults.md has no row for {fault}");
    }
}

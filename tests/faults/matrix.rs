//! `docs/faults.md` and `docs/security.md` are true: every test that they name exists, and every fault of the matrix has one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The faults of the matrix: none is lost.
const FAULTS: [&str; 78] = [
    "D1", "D2", "D3", "D4", "D6", "D7", "D8", "D9", "D10", "D11", "D12", "D13", "D14", "D15",
    "D16", "D17", "D18", "D19", "D20", "D21", "D22", "D23", "D24", "D25", "D26", "D27", "D28",
    "D29", "D30", "D31", "D32", "D33", "D34", "D35", "K1", "K2", "K4", "K6", "K7", "K8", "K9",
    "K10", "K11", "K12", "K13", "K14", "K15", "K16", "K17", "K18", "K19", "K20", "N6", "N7", "M1",
    "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M10", "M11", "M12", "M13", "M14", "M15", "A1",
    "A2", "A3", "A4", "A5", "A6", "A7", "T1", "T2",
];

#[test]
fn every_fault_names_tests_that_exist() {
    let rows = rows("docs/faults.md");
    let shown = rows.iter().map(|row| row[0].split(' ').next().unwrap_or_default());
    let (shown, wanted) = (shown.collect::<BTreeSet<&str>>(), BTreeSet::from(FAULTS));
    assert_eq!(shown, wanted, "rows of docs/faults.md, and those that there must be");
}

#[test]
fn every_threat_names_tests_that_exist() {
    rows("docs/security.md");
}

/// Rows of the tables of a page whose last column is `tests`, after a look at each test.
fn rows(page: &str) -> Vec<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join(page)).unwrap();
    let mut rows = Vec::new();
    let mut names_tests = false;
    for line in text.lines() {
        let Some(line) = line.strip_prefix("| ") else {
            names_tests = names_tests && line.starts_with('|');
            continue;
        };
        let cells: Vec<String> = line.split('|').map(|cell| cell.trim().to_owned()).collect();
        let last = cells.iter().rev().find(|cell| !cell.is_empty()).expect("a row has cells");
        if last == "tests" {
            names_tests = true;
        } else if names_tests {
            check_tests(root, page, &cells[0], last);
            rows.push(cells);
        }
    }
    rows
}

fn check_tests(root: &Path, page: &str, what: &str, cell: &str) {
    let named: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
    assert!(!named.is_empty(), "{page}: {what} has no test");
    for test in named {
        let (file, function) = test.split_once("::").expect("file::function");
        let source = fs::read_to_string(root.join(file)).unwrap_or_default();
        let declared = source.lines().zip(source.lines().skip(1)).any(|(before, line)| {
            let line = line.trim_start();
            let line = line.strip_prefix("async ").unwrap_or(line);
            before.trim_start().starts_with("#[")
                && line
                    .strip_prefix("fn ")
                    .and_then(|rest| rest.strip_prefix(function))
                    .is_some_and(|rest| rest.starts_with('('))
        });
        assert!(declared, "{page}: {what}: {file} has no test {function}");
    }
}

//! Keeps the house as ARCHITECTURE.md draws it. A rule is a function from the sources to what violates it; each is shown a violation that it
//! must find, so that none passes because it looks at nothing. A rule changes together with the design.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod circles;
mod crates;
mod dependencies;
mod effects;
mod figures;
mod fuzzing;
mod house;
mod names;
mod pages;
mod planted;
mod prose;
mod seams;
mod shape;

use house::House;

/// Finds what in a house violates a rule, each as `PLACE: WHAT`.
type Rule = fn(&House) -> Vec<String>;

/// Fails unless this house keeps the rule.
fn assert_kept(rule: Rule) {
    let violations = rule(House::here());
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// Fails unless the rule finds violations in a house of these files, all in the last of them.
fn assert_found(rule: Rule, files: &[(&str, &str)]) {
    let violations = rule(&House::of(files));
    let (place, _) = files.last().unwrap();
    let are_there = violations.iter().all(|violation| violation.starts_with(place));
    assert!(are_there && !violations.is_empty(), "{place}: {violations:?}");
}

/// Fails if the rule finds anything in a house of these files.
fn assert_passed(rule: Rule, files: &[(&str, &str)]) {
    assert_eq!(rule(&House::of(files)), Vec::<String>::new());
}

//! Pure cores, and `flow`, stay pure: time, files, sockets, threads, randomness, and the environment come in as arguments.

use super::house::{House, is_below};
use super::{assert_found, assert_kept, assert_passed};

/// What has no place in a core, however it was imported.
const EFFECTS: &[&str] = &[
    "std::time::Instant::now",
    "std::time::SystemTime",
    "std::fs",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::net",
    "std::os",
    "std::thread",
    "std::process",
    "std::env",
    "tokio",
    "reqwest",
    "sys",
    "rand::rng",
    "rand::random",
    "async",
    "println!",
    "eprintln!",
];

/// The daemons: each decides in a core.
const DAEMONS: &[&str] = &["namenode", "datanode", "jobtracker", "worker"];

fn effects_in_cores(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    let is_core =
        |path: &str| is_below(path, "flow/src") || path.split('/').any(|part| part == "core");
    for source in house.production().filter(|source| is_core(&source.path)) {
        for name in
            source.found.all().filter(|name| EFFECTS.iter().any(|effect| name.is_in(effect)))
        {
            violations.push(format!("{}: `{}` in a pure core", source.at(name.line), name.text));
        }
    }
    violations
}

#[test]
fn cores_are_pure() {
    assert_kept(effects_in_cores);
    for daemon in DAEMONS {
        let core = format!("{daemon}/src/core");
        assert!(House::here().below(&core).count() > 1, "{daemon} has no core");
    }
}

#[test]
fn effects_are_found_however_they_are_imported() {
    const FACE: (&str, &str) = ("namenode/src/lib.rs", "mod core;");
    const OPEN_FACE: (&str, &str) = ("worker/src/lib.rs", "pub mod core;");
    for code in [
        "fn f() { let now = std::time::Instant::now(); }",
        "use std::time::Instant as Moment; fn f() { Moment::now(); }",
        "#[cfg(test)] mod tests { fn t() {} } async fn f() {}",
        "fn f() { trace!(\"{}\", rand::random::<u8>()); }",
        "use std::fs;",
    ] {
        assert_found(
            effects_in_cores,
            &[FACE, ("namenode/src/core.rs", "mod a;"), ("namenode/src/core/a.rs", code)],
        );
        assert_found(
            effects_in_cores,
            &[OPEN_FACE, ("worker/src/core/mod.rs", "mod a;"), ("worker/src/core/a.rs", code)],
        );
    }
    let clock = "fn f() { let now = std::time::Instant::now(); }";
    assert_found(effects_in_cores, &[("flow/src/lib.rs", "mod a;"), ("flow/src/a.rs", clock)]);
    let tests =
        "#[cfg(test)] mod tests { use std::fs; } use std::time::Instant; fn f(now: Instant) {}";
    assert_passed(
        effects_in_cores,
        &[FACE, ("namenode/src/core.rs", "mod a;"), ("namenode/src/core/a.rs", tests)],
    );
}

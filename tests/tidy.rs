//! Keeps the house as ARCHITECTURE.md draws it. Each rule says why; a rule changes together with the design.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which workspace crates a crate may depend on. Arrows point only downwards, so that a daemon never pulls in another and
/// the pure crates stay free of I/O.
const GRAPH: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("shuffle", &[]),
    ("sys", &[]),
    ("journal", &["protocol", "sys"]),
    ("client", &["protocol", "sys"]),
    ("daemon", &["protocol", "sys"]),
    ("mr-api", &["client", "protocol", "shuffle", "sys"]),
    ("webhdfs", &["client", "daemon", "protocol", "sys"]),
    ("namenode", &["client", "daemon", "journal", "protocol", "sys", "webhdfs"]),
    ("datanode", &["client", "daemon", "protocol", "sys", "webhdfs"]),
    ("jobtracker", &["client", "daemon", "journal", "protocol", "sys"]),
    ("worker", &["client", "daemon", "protocol", "shuffle", "sys"]),
];

/// Crates that only one of ours may import: the seams that hide them.
const SEAMS: &[(&str, &str)] = &[
    ("sled", "journal"),
    ("memmap2", "sys"),
    ("rustix", "sys"),
    ("landlock", "sys"),
    ("seccompiler", "sys"),
    ("libc", "sys"),
];

/// Words that have no place in a pure core: time, files, sockets, threads, randomness come in as arguments.
const EFFECTS: &[&str] = &[
    "Instant::now",
    "SystemTime",
    "std::fs",
    "std::net",
    "std::thread",
    "tokio",
    "rand::rng(",
    "rand::random",
    "async fn",
];

/// Ways to a file by its path. What a task can rename, a worker reaches from a descriptor (`sys::beneath`): by its path it may be anything's by then.
const BY_PATH: &[&str] = &[
    "fs::{self",
    "std::fs;",
    "std::fs::read",
    "std::fs::write",
    "std::fs::remove",
    "std::fs::rename",
    "std::fs::copy",
    "std::fs::hard_link",
    "std::fs::create",
    "std::fs::set_permissions",
    "fs::metadata",
    "tokio::fs",
    "File::open",
    "File::create",
    "File::options",
    "OpenOptions",
    "DirBuilder",
    "read_dir(",
    "symlink_metadata",
    ".metadata(&",
    ".is_file()",
    ".is_dir()",
    ".try_exists()",
    ".canonicalize()",
    "sys::fs::",
    "Dir::open(",
    "Place::open(",
];

/// Where a worker may use paths: for its data directory, as its configuration names it, and to open what no task can move.
const BY_PATH_ALLOWED: &[(&str, &[&str])] = &[
    // The data directory itself, made, found and locked before any task runs.
    ("directories.rs", &["sys::fs::", ".canonicalize()", "Place::open("]),
    // The lock of a share of the machine's users.
    ("users.rs", &["sys::fs::"]),
    // What `Place::open` is.
    ("scratch.rs", &["Dir::open("]),
    // The error of the lock of the data directory.
    ("error.rs", &["sys::fs::"]),
];

/// Longest file, lines, tests included: beyond that a newcomer does not find the place for a change.
const FILE_LINES_MAX: usize = 800;

#[test]
fn crates_depend_only_downwards() {
    let names: BTreeSet<&str> = GRAPH.iter().map(|(name, _)| *name).collect();
    for (name, allowed) in GRAPH {
        for dependency in dependencies(name, "[dependencies]") {
            let ours = names.contains(dependency.as_str());
            assert!(
                !ours || allowed.contains(&dependency.as_str()),
                "{name} must not depend on {dependency}"
            );
        }
    }
}

#[test]
fn risky_crates_stay_behind_their_seam() {
    for (name, _) in GRAPH {
        for dependency in dependencies(name, "[dependencies]") {
            let seam = SEAMS.iter().find(|(hidden, _)| *hidden == dependency);
            assert!(
                seam.is_none_or(|(_, owner)| owner == name),
                "only the seam may import {dependency}, not {name}"
            );
        }
    }
}

#[test]
fn cores_are_pure() {
    for file in sources()
        .into_iter()
        .filter(|file| file.components().any(|part| part.as_os_str() == "core"))
    {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in
            code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            let effect = EFFECTS.iter().find(|effect| line.contains(*effect));
            assert!(
                effect.is_none(),
                "{}:{}: `{}` in a pure core",
                file.display(),
                number + 1,
                effect.unwrap()
            );
        }
    }
}

/// A name of a property that stands in code could be read there, whatever the table says of it.
#[test]
fn names_of_properties_stand_in_their_table_alone() {
    let prefixes = [
        "mapreduce.",
        "mapred.",
        "stream.",
        "textinputformat.",
        "dfs.replication",
        "dfs.blocksize",
        "io.sort.",
    ];
    let table = root().join("protocol/src/property");
    let crates =
        ["mr-api", "jobtracker", "worker", "client", "examples"].map(|name| root().join(name));
    for file in sources() {
        let in_tests = file.iter().any(|part| {
            let part = part.to_string_lossy();
            matches!(&*part, "tests" | "simulation") || part.ends_with("tests.rs")
        });
        if in_tests || file.starts_with(&table) || !crates.iter().any(|name| file.starts_with(name))
        {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let is_prose = line.trim_start().starts_with("//") || line.contains("-D ");
            let named = prefixes.iter().find(|prefix| line.contains(&format!("\"{prefix}")));
            assert!(
                is_prose || named.is_none(),
                "{}:{}: a property by its name; take its key from protocol::property",
                file.display(),
                number + 1
            );
        }
    }
}

#[test]
fn a_worker_reaches_files_from_descriptors() {
    let mut used = BTreeSet::new();
    for file in sources().into_iter().filter(|file| file.starts_with(root().join("worker/src"))) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let allowed = BY_PATH_ALLOWED.iter().find(|(place, _)| *place == name);
        let allowed = allowed.map_or(&[][..], |(_, ways)| ways);
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code.lines().enumerate();
        for (number, line) in code.filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for way in BY_PATH.iter().filter(|way| line.contains(*way)) {
                let place = format!("{}:{}", file.display(), number + 1);
                assert!(allowed.contains(way), "{place}: `{way}` opens by a path");
                used.insert((name.clone(), *way));
            }
        }
    }
    for (name, ways) in BY_PATH_ALLOWED {
        for way in *ways {
            assert!(used.contains(&((*name).to_owned(), *way)), "{name} needs no `{way}`");
        }
    }
}

/// Routes are made of `daemon::access::Routes`, which wants to know of each whose it is: a plain router would not ask.
#[test]
fn routes_around_jobs_say_whose_they_are() {
    let of_jobs = |path: &PathBuf| {
        ["jobtracker/src", "worker/src"].iter().any(|folder| path.starts_with(root().join(folder)))
    };
    let mut wrong = Vec::new();
    for path in sources().iter().filter(|path| of_jobs(path)) {
        let text = fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        if code.contains("Router") {
            wrong.push(path.display().to_string());
        }
    }
    assert!(wrong.is_empty(), "these make routes past daemon::access: {wrong:?}");
}

/// Who looks for a line of the operator's guide in a log finds it there.
#[test]
fn log_lines_of_the_guide_are_written() {
    let page = fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let (_, behind) = page.split_once("\nLog lines (").unwrap();
    let table = behind.split("\n\n").nth(1).unwrap();
    let named: Vec<&str> = table
        .lines()
        .filter_map(|row| row.strip_prefix("| `")?.split(" | ").next())
        .flat_map(|cell| cell.split('`').step_by(2))
        .filter(|line| !line.is_empty())
        .collect();
    assert!(named.len() > 10, "{named:?}");
    let is_code = |path: &PathBuf| path.iter().any(|part| part == "src");
    let code: Vec<String> = sources()
        .iter()
        .filter(|path| is_code(path))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    for line in named {
        assert!(code.iter().any(|text| text.contains(line)), "nothing logs `{line}`");
    }
}

#[test]
fn files_open_with_their_purpose_and_stay_short() {
    let mut lines = Vec::new();
    for file in sources() {
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//!"), "{} does not open with a module doc", file.display());
        let count = text.lines().count();
        assert!(count <= FILE_LINES_MAX, "{} has {count} lines", file.display());
        lines.push(count);
    }
    lines.sort_unstable();
    let median = lines[lines.len() / 2];
    assert!(median <= 300, "the median file has {median} lines");
}

#[test]
fn nothing_is_imported_by_glob_outside_tests() {
    for file in sources() {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code
            .lines()
            .map(str::trim_start)
            .filter(|line| line.starts_with("use ") || line.starts_with("pub use "))
        {
            let in_tests = file.starts_with(root().join("tests"))
                || file
                    .iter()
                    .any(|part| part.to_string_lossy().ends_with("tests.rs") || part == "tests");
            assert!(in_tests || !line.ends_with("::*;"), "{}: {line}", file.display());
        }
    }
}

/// Who may write to the standard streams of commands and drivers: everything else goes through these, because what others wrote must not
/// steer a terminal.
const PRINTERS: &[&str] = &[
    "src/output.rs",
    "src/dfs/context.rs",
    "src/dfs/progress.rs",
    "src/top.rs",
    "mr-api/src/progress.rs",
    "mr-api/src/runner/mod.rs",
    "mr-api/src/streaming/process.rs",
];

#[test]
fn text_of_others_reaches_a_terminal_through_the_seams_alone() {
    let prints = |line: &str| {
        let writes = ["stdout()", "stderr()", "println!", "print!(", "dbg!"];
        let looks = ["is_terminal()", "use_stderr()", ".flush()"];
        writes.iter().any(|word| line.contains(word))
            && !looks.iter().any(|word| line.contains(word))
    };
    assert!(
        prints("eprintln!(\"{name}\");") && prints("writeln!(io::stdout().lock(), \"{name}\")")
    );
    let folders = ["src", "mr-api/src"].map(|folder| root().join(folder));
    for file in sources().into_iter().filter(|file| folders.iter().any(|f| file.starts_with(f))) {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_seam = PRINTERS.iter().any(|seam| file == root().join(seam));
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            assert!(is_seam || !prints(line), "{}: {line}", file.display());
        }
    }
}

#[test]
fn the_manifest_lists_every_member() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for (name, _) in GRAPH {
        assert!(manifest.contains(&format!("\"{name}\"")), "{name} is no workspace member");
    }
}

fn dependencies(name: &str, section: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(name).join("Cargo.toml")).unwrap();
    let lines = text
        .lines()
        .skip_while(|line| *line != section)
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

fn sources() -> Vec<PathBuf> {
    let mut folders: BTreeMap<PathBuf, ()> =
        GRAPH.iter().map(|(name, _)| (root().join(name), ())).collect();
    folders.extend(["src", "examples", "tests"].map(|name| (root().join(name), ())));
    let mut files = Vec::new();
    while let Some((folder, ())) = folders.pop_first() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.insert(path, ());
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 50, "the walk found the sources");
    files
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

//! What only some files may do: open by a path in a worker, make routes, name a property, write to a terminal.

use std::collections::BTreeSet;
use std::fs;

use super::house::{House, Source, is_below, root};
use super::names::Name;
use super::{assert_found, assert_kept, assert_passed};

/// Ways to a file by its path. What a task can rename, a worker reaches from a descriptor (`sys::beneath`): by its path it may be anything's by then.
const BY_PATH: &[&str] = &[
    "std::fs",
    "tokio::fs",
    "sys::fs",
    "sys::beneath::Dir::open",
    "crate::scratch::OpenDir::open",
    ".metadata(..)",
    ".is_file()",
    ".is_dir()",
    ".is_symlink()",
    ".exists()",
    ".try_exists()",
    ".canonicalize()",
    ".read_dir()",
    ".read_link()",
    ".symlink_metadata()",
];

/// What is the same of a descriptor.
const WITHOUT_PATH: &[&str] = &["std::fs::Metadata", "std::fs::Permissions", "std::fs::FileType"];

/// Where a worker may use paths: for its data directory, as its configuration names it, and to open what no task can move.
const BY_PATH_ALLOWED: &[(&str, &[&str])] = &[
    // The data directory itself, made, found and locked before any task runs.
    ("worker/src/directories.rs", &["sys::fs", ".canonicalize()", "OpenDir::open"]),
    // The lock of a share of the machine's users.
    ("worker/src/walls/users.rs", &["sys::fs"]),
    // What `OpenDir::open` is.
    ("worker/src/scratch.rs", &["Dir::open"]),
    // The error of the lock of the data directory.
    ("worker/src/error.rs", &["sys::fs"]),
];

/// The uses of paths in the worker: of whom, where, which.
fn paths_in_workers(house: &House) -> Vec<(&Source, &Name, &'static str)> {
    let mut uses = Vec::new();
    for source in house.below("worker/src") {
        for name in source.found.all() {
            let way = BY_PATH.iter().find(|way| name.is_in(way));
            let is_harmless =
                name.text == "std::fs::File" || WITHOUT_PATH.iter().any(|path| name.is_in(path));
            if let Some(way) = way.filter(|_| !is_harmless) {
                uses.push((source, name, *way));
            }
        }
    }
    uses
}

fn allowance(source: &Source, way: &str) -> Option<&'static str> {
    let (_, ways) = BY_PATH_ALLOWED.iter().find(|(path, _)| *path == source.path)?;
    ways.iter().find(|allowed| way.ends_with(*allowed)).copied()
}

fn opened_by_path(house: &House) -> Vec<String> {
    let uses = paths_in_workers(house).into_iter();
    let refused = uses.filter(|(source, _, way)| allowance(source, way).is_none());
    refused
        .map(|(source, name, _)| {
            format!("{}: `{}` opens by a path", source.at(name.line), name.text)
        })
        .collect()
}

#[test]
fn a_worker_reaches_files_from_descriptors() {
    assert_kept(opened_by_path);
    let uses = paths_in_workers(House::here()).into_iter();
    let used: BTreeSet<(&str, &str)> = uses
        .filter_map(|(source, _, way)| Some((&*source.path, allowance(source, way)?)))
        .collect();
    for (name, ways) in BY_PATH_ALLOWED {
        for way in *ways {
            assert!(used.contains(&(*name, *way)), "{name} needs no `{way}`");
        }
    }
}

#[test]
fn a_path_of_a_worker_is_found_however_it_is_used() {
    const FACE: (&str, &str) = ("worker/src/lib.rs", "mod a;");
    for code in [
        "fn f() { std::fs::File::open(p); }",
        "use std::fs as files; fn f() { files::read(p); }",
        "fn f() { let size = path.metadata().len(); let it = directory.metadata(&name); }",
        "#[cfg(test)] use std::fs; fn f() { if path.is_file() {} }",
        "fn f() { vec![tokio::fs::read(p)]; }",
    ] {
        assert_found(opened_by_path, &[FACE, ("worker/src/a.rs", code)]);
    }
    let code = "fn f(file: &std::fs::File) { file.metadata(); } #[cfg(test)] mod tests { use std::fs::write; }";
    assert_passed(opened_by_path, &[FACE, ("worker/src/a.rs", code)]);
}

/// Routes are made of `daemon::access::Routes`, which wants to know of each whose it is: a plain router would not ask.
fn plain_routers(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    for source in house.below("jobtracker/src").chain(house.below("worker/src")) {
        let names = source.found.all();
        for name in names.filter(|name| name.text.split("::").any(|part| part == "Router")) {
            violations.push(format!("{}: a route past daemon::access", source.at(name.line)));
        }
    }
    violations
}

#[test]
fn routes_around_jobs_say_whose_they_are() {
    assert_kept(plain_routers);
    let code = "fn f() { axum::Router::new(); }";
    assert_found(plain_routers, &[("jobtracker/src/lib.rs", code)]);
}

/// What knows sockets. Of clients and DataNodes only `transport` does, so that encryption will have one place.
const SOCKETS: &[&str] = &[
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::os::unix::net",
    "std::os::fd",
    "sys::socket",
    "sys::poll",
    "sys::descriptor",
];

fn sockets_past_transport(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    for source in house.below("client/src").chain(house.below("datanode/src")) {
        for name in source.found.all().filter(|name| SOCKETS.iter().any(|way| name.is_in(way))) {
            violations.push(format!("{}: `{}` past transport", source.at(name.line), name.text));
        }
    }
    violations
}

#[test]
fn only_transport_knows_the_sockets_of_datanodes() {
    assert_kept(sockets_past_transport);
    for code in [
        "use std::net::TcpStream; fn f(stream: &TcpStream) { stream.peer_addr(); }",
        "fn f() { sys::poll::wait_readable([stop], pause); }",
        "use std::os::fd::AsFd; fn f(it: &impl AsFd) { it.as_fd(); }",
    ] {
        assert_found(sockets_past_transport, &[("client/src/lib.rs", code)]);
    }
}

/// Prefixes of properties.
const PROPERTIES: &[&str] = &[
    "mapreduce.",
    "mapred.",
    "stream.",
    "textinputformat.",
    "dfs.replication",
    "dfs.blocksize",
    "io.sort.",
];

/// Where properties may not be read by their names.
const JOBS: &[&str] =
    &["mr-api", "mr-model", "mr-formats", "jobtracker", "worker", "client", "examples"];

/// A name of a property that stands in code could be read there, whatever the table says of it.
fn properties_by_name(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    for source in JOBS.iter().flat_map(|folder| house.below(folder)) {
        for text in &source.found.texts {
            // Messages name options as they are typed.
            let is_named = PROPERTIES.iter().any(|prefix| text.text.starts_with(prefix));
            if is_named && !text.text.contains(' ') {
                violations.push(format!(
                    "{}: take the key from protocol::property",
                    source.at(text.line)
                ));
            }
        }
    }
    violations
}

#[test]
fn names_of_properties_stand_in_their_table_alone() {
    assert_kept(properties_by_name);
    let code = "fn f() {}\n#[cfg(test)]\nmod tests {}\nconst A: &str = \"mapreduce.job.reduces\";";
    assert_found(properties_by_name, &[("worker/src/lib.rs", code)]);
    assert_passed(properties_by_name, &[("protocol/src/lib.rs", code)]);
}

/// Where the scheme of daemons stands.
const ADDRESSES: &str = "protocol/src/address.rs";

/// Whoever adds or strips the scheme would have to be found when there is a second one.
fn schemes(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    for source in house.production().filter(|source| source.path != ADDRESSES) {
        for text in source
            .found
            .texts
            .iter()
            .filter(|text| text.text == "http://" || text.text.contains("http://{"))
        {
            violations.push(format!("{}: use protocol::address", source.at(text.line)));
        }
    }
    violations
}

#[test]
fn the_scheme_of_daemons_is_added_and_stripped_in_one_place() {
    assert_kept(schemes);
    let code = "fn f(host: &str) -> String { format!(\"http://{host}\") }";
    assert_found(schemes, &[("worker/src/lib.rs", code)]);
    let code = "fn f(text: &str) -> &str { text.trim_start_matches(\"http://\") }";
    assert_found(schemes, &[("worker/src/lib.rs", code)]);
}

/// What is imported by glob hides where a name comes from.
fn globs(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    for source in house.production() {
        for name in source.found.all().filter(|name| name.text.ends_with('*')) {
            violations.push(format!("{}: {}", source.at(name.line), name.text));
        }
    }
    violations
}

#[test]
fn nothing_is_imported_by_glob_outside_tests() {
    assert_kept(globs);
    let code = "#[cfg(test)] mod tests { use super::*; }\nuse std::{io, fs::*};";
    assert_found(globs, &[("sys/src/lib.rs", code)]);
}

/// Who may write to the standard streams of commands and drivers: everything else goes through these, because what others wrote must not
/// steer a terminal.
const PRINTERS: &[&str] = &[
    "src/output.rs",
    "src/dfs/context.rs",
    "src/dfs/contents/progress.rs",
    "src/top.rs",
    "mr-model/src/console.rs",
    "mr-api/src/run/printing.rs",
    "mr-api/src/run/runner/mod.rs",
    "mr-api/src/streaming/process.rs",
];

const PRINTS: &[&str] =
    &["println!", "print!", "eprintln!", "eprint!", "dbg!", "std::io::stdout", "std::io::stderr"];

/// What may be done with a stream by everybody.
const LOOKS: &[&str] = &[".is_terminal()", ".flush()"];

fn prints(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    let folders = ["src", "mr-api/src", "mr-model/src", "mr-formats/src"];
    for source in folders.iter().flat_map(|folder| house.below(folder)) {
        if PRINTERS.contains(&&*source.path) {
            continue;
        }
        let names = &source.found.names;
        for (at, name) in names.iter().enumerate().filter(|(_, name)| PRINTS.contains(&&*name.text))
        {
            let looks = names.get(at + 1).is_some_and(|next| LOOKS.contains(&&*next.text));
            if !looks {
                violations.push(format!("{}: `{}` past the seam", source.at(name.line), name.text));
            }
        }
    }
    violations
}

#[test]
fn text_of_others_reaches_a_terminal_through_the_seams_alone() {
    assert_kept(prints);
    for code in [
        "fn f() { eprintln!(\"{name}\"); }",
        "use std::io; fn f() { writeln!(io::stdout().lock(), \"{name}\"); }",
        "use std::io::stderr as errors; fn f() { errors().write_all(b\"\"); }",
    ] {
        assert_found(prints, &[("src/main.rs", "mod a;"), ("src/a.rs", code)]);
    }
    let code = "use std::io; fn f() { io::stderr().is_terminal() }";
    assert_passed(prints, &[("src/main.rs", "mod a;"), ("src/a.rs", code)]);
}

/// Ways to read a file that wait for whoever writes to a FIFO, and read a device without end.
const WAITING: &[&str] = &["std::fs::File::open", "std::fs::read", "std::fs::read_to_string"];

/// Where a user may name a pipe, which is then read to its end as by `cat`.
const READS_PIPES: &[&str] =
    &["src/dfs/fs/machine.rs", "src/dfs/contents/put.rs", "src/dfs/contents/rewrite.rs"];

/// Commands open what users name by `sys::fs::open_input`.
fn waits_for_pipes(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    let sources = house.below("src").chain(house.below("distcp/src"));
    for source in sources.filter(|source| !READS_PIPES.contains(&&*source.path)) {
        for name in source.found.all().filter(|name| WAITING.iter().any(|way| name.is_in(way))) {
            violations.push(format!("{}: `{}` may wait for ever", source.at(name.line), name.text));
        }
    }
    violations
}

#[test]
fn commands_wait_for_no_fifo() {
    assert_kept(waits_for_pipes);
    const FACE: (&str, &str) = ("distcp/src/lib.rs", "mod a;");
    for code in [
        "fn f() { std::fs::File::open(path); }",
        "use std::fs; fn f() { fs::read_to_string(path); }",
        "use std::fs::{self, File}; fn f() { File::open(path); }",
    ] {
        assert_found(waits_for_pipes, &[FACE, ("distcp/src/a.rs", code)]);
    }
    let code = "use std::fs::{self, File}; fn f(file: &File) { fs::read_dir(path); sys::fs::open_input(path); }";
    assert_passed(waits_for_pipes, &[FACE, ("distcp/src/a.rs", code)]);
    let house = House::here();
    for path in READS_PIPES {
        let names = house.sources[*path].found.all().any(|name| name.is_in("std::fs::File::open"));
        assert!(names, "{path} reads no pipe");
    }
}

/// Ways to put a file where another thing may be: what a user names may be a link, a FIFO or a device, which must stay.
const REPLACING: &[&str] =
    &["sys::fs::publish", "sys::fs::write_atomic", "sys::fs::write_atomic_with"];

/// Commands write what users name by `sys::fs::write_output`.
fn replaced_outputs(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    for source in house.below("src") {
        for name in source.found.all().filter(|name| REPLACING.iter().any(|way| name.is_in(way))) {
            violations.push(format!(
                "{}: `{}` past sys::fs::write_output",
                source.at(name.line),
                name.text
            ));
        }
    }
    violations
}

#[test]
fn commands_replace_no_link_fifo_or_device() {
    assert_kept(replaced_outputs);
    const FACE: (&str, &str) = ("src/main.rs", "mod a;");
    for code in [
        "fn f() { sys::fs::publish(path, 0o600, write); }",
        "use sys::fs::write_atomic; fn f() { write_atomic(path, bytes, 0o600); }",
    ] {
        assert_found(replaced_outputs, &[FACE, ("src/a.rs", code)]);
    }
    let code = "fn f() { sys::fs::write_output(path, 0o600, bytes); }";
    assert_passed(replaced_outputs, &[FACE, ("src/a.rs", code)]);
}

/// Locks of directories without a look at whose they are.
const UNCLAIMED: &[&str] = &["sys::fs::LockFile::of_directory"];

/// Daemons that delete in their directories claim them by `sys::fs::claim`.
fn unclaimed_directories(house: &House) -> Vec<String> {
    let mut violations = Vec::new();
    for source in house.below("worker/src").chain(house.below("datanode/src")) {
        for name in source.found.all().filter(|name| UNCLAIMED.iter().any(|way| name.is_in(way))) {
            violations.push(format!(
                "{}: `{}` past sys::fs::claim",
                source.at(name.line),
                name.text
            ));
        }
    }
    violations
}

#[test]
fn who_deletes_in_a_directory_has_claimed_it() {
    assert_kept(unclaimed_directories);
    let code = "use sys::fs::LockFile; fn f() { LockFile::of_directory(path); }";
    assert_found(unclaimed_directories, &[("worker/src/lib.rs", code)]);
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
    let sources = House::here().production().filter(|source| !is_below(&source.path, "examples"));
    let texts: Vec<&Name> = sources.flat_map(|source| &source.found.texts).collect();
    for line in named {
        assert!(texts.iter().any(|text| text.text.contains(line)), "nothing logs `{line}`");
    }
}

//! Finds what processes hold in places that are easily overlooked (`hide.c`): shared memory, memfds, files without a name, processes whose first thread has
//! ended.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

mod support;

use needs::{Need, lacks};
use support::copy_of_this_program;
use sys::family::{Table, kill_family};
use sys::holding::{deleted_bytes, memory_bytes};

const HELD_BYTES: u64 = 40_000_000;
/// Upper bound for the rest of a small program.
const REST_BYTES: u64 = 8_000_000;
const MARK: &str = "HANNO_TEST_HOLDING=1";

/// A process that holds something, with its children; ended when dropped.
struct Holder(Child);

impl Holder {
    fn members(&self) -> BTreeSet<u32> {
        Table::read().unwrap().family(self.0.id())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = kill_family(self.0.id(), MARK);
        let _ = self.0.wait();
    }
}

/// Starts `command` and waits for its first line.
fn begin(mut command: Command) -> Holder {
    let mut child = command.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let holder = Holder(child);
    assert_eq!(line, "ready\n");
    holder
}

/// `None`, with a message, if there is no C compiler.
fn build(directory: &Path) -> Option<std::path::PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hide.c");
    let program = directory.join("hide");
    match Command::new("cc").args(["-O1", "-pthread", "-o"]).args([&program, &source]).output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => {
            lacks(Need::Compiler, error);
            return None;
        }
    }
    Some(program)
}

#[test]
fn memory_and_files_are_found_however_they_are_held() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = build(directory.path()) else { return };
    let held = HELD_BYTES..HELD_BYTES + REST_BYTES;
    for (how, is_memory) in [
        ("private", true),
        ("shared", true),
        ("memfd", true),
        ("memfd-mapped", true),
        ("memfd-closed", true),
        ("memfd-inherited", true),
        ("headless", true),
        ("deleted", false),
        ("deleted-mapped", false),
    ] {
        let mut command = Command::new(&program);
        command.args([how, &HELD_BYTES.to_string()]).arg(directory.path());
        let holder = begin(command);
        let members = holder.members();
        let most = memory_bytes(&members, None).unwrap();
        let exact = memory_bytes(&members, Some(1)).unwrap();
        let deleted = deleted_bytes(&members).unwrap();
        assert_eq!(held.contains(&exact), is_memory, "{how}: {exact} of {most} bytes of memory");
        assert!(most >= exact.saturating_sub(REST_BYTES), "{how}: {most}");
        assert_eq!(held.contains(&deleted), !is_memory, "{how}: {deleted} bytes of files");
        assert!(is_memory || exact < REST_BYTES, "{how}: {exact}");
    }
    assert_eq!(memory_bytes(&BTreeSet::from([u32::MAX >> 1]), None).unwrap(), 0);
}

#[test]
fn memory_shared_since_a_fork_counts_once() {
    let script = format!(
        "x=$(head -c {HELD_BYTES} /dev/zero | tr '\\0' x); \
         for i in 1 2 3 4 5 6 7; do (while :; do sleep 1000; done) & done; echo ready; wait; echo $x"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let holder = begin(command);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    // The shell, seven of its copies, and the `sleep` of each of those.
    while holder.members().len() < 15 {
        assert!(std::time::Instant::now() < deadline, "it does not fork");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let members = holder.members();
    let most = memory_bytes(&members, None).unwrap();
    let exact = memory_bytes(&members, Some(1)).unwrap();
    assert!(most >= 8 * HELD_BYTES, "{most}");
    assert!((HELD_BYTES..4 * HELD_BYTES).contains(&exact), "{exact}");
}

/// Root can read everything; anybody else gets an error that something is hidden.
#[test]
fn a_process_that_cannot_be_looked_at_is_an_error() {
    const ORDINARY_USER: u32 = 65_534;
    const AGAIN_VARIABLE: &str = "HANNO_TEST_OTHER_PROCESS";
    if let Ok(pid) = std::env::var(AGAIN_VARIABLE) {
        let members = BTreeSet::from([pid.parse().unwrap()]);
        for error in
            [memory_bytes(&members, None).unwrap_err(), deleted_bytes(&members).unwrap_err()]
        {
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        }
        return;
    }
    let (_directory, program) = copy_of_this_program();
    let mut command = Command::new(&program);
    command.args(["--exact", "a_process_that_cannot_be_looked_at_is_an_error", "--nocapture"]);
    // If this is root, this process belongs to another user than that copy.
    command.env(AGAIN_VARIABLE, std::process::id().to_string());
    if command.uid(ORDINARY_USER).gid(ORDINARY_USER).spawn().is_err() {
        lacks(Need::Users, "this is not root");
        return;
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

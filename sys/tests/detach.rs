//! What a process passes on to its children. It is alone in this file: an inheritable descriptor goes to all children of the process, those of other tests too,
//! and they may live long.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use rustix::io::{FdFlags, fcntl_setfd};

use sys::detach::{detach, inherited, keep_inherited};
use sys::process::Limits;

/// A shell's view: its descriptors, and from its line in the process table the process, its session and its terminal.
fn seen(change: impl FnOnce(&mut Command)) -> (Vec<String>, Vec<String>) {
    let script = "ls /proc/$$/fd; echo; cut -d ' ' -f 1,6,7 /proc/$$/stat";
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    change(&mut command);
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let (descriptors, row) = output.split_once("\n\n").unwrap();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    (words(descriptors), words(row))
}

/// Descriptors are the whole process's: only one test at a time changes which are inherited.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_detached_process_leads_a_session_without_a_terminal_and_has_only_what_it_is_given() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let secret = tempfile::tempfile().unwrap();
    // As if whoever started this process had left it open.
    fcntl_setfd(&secret, FdFlags::empty()).unwrap();
    let [given, leaked] = [theirs.as_raw_fd(), secret.as_raw_fd()].map(|fd| fd.to_string());
    let (descriptors, row) = seen(|_| {});
    assert!(descriptors.contains(&leaked), "{descriptors:?}");
    assert_ne!(row[0], row[1]);
    let (descriptors, row) =
        seen(|c| detach(c, vec![theirs.into()], &Limits::default(), None).unwrap());
    assert!(descriptors.contains(&given) && !descriptors.contains(&leaked), "{descriptors:?}");
    assert_eq!((&row[0], row[2].as_str()), (&row[1], "0"), "a session of its own, no terminal");
    // Nobody holds the other end any more.
    assert_eq!(ours.read(&mut [0]).unwrap(), 0);
}

#[test]
fn what_was_inherited_stays_here() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let secret = tempfile::tempfile().unwrap();
    fcntl_setfd(&secret, FdFlags::empty()).unwrap();
    let leaked = secret.as_raw_fd().to_string();
    assert!(seen(|_| {}).0.contains(&leaked));
    assert!(keep_inherited().unwrap() > 0);
    assert!(!seen(|_| {}).0.contains(&leaked));
}

#[test]
fn a_descriptor_is_taken_by_its_number_and_goes_no_further() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    fcntl_setfd(&theirs, FdFlags::empty()).unwrap();
    let number = theirs.as_raw_fd();
    let taken = UnixStream::from(inherited(number).unwrap());
    assert!(!seen(|_| {}).0.contains(&number.to_string()));
    drop((theirs, taken));
    assert_eq!(ours.read(&mut [0]).unwrap(), 0);
    for number in [-1, 0, 2, 1 << 20] {
        assert!(inherited(number).is_err(), "{number}");
    }
}

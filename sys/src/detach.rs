//! Starting a process that has nothing of ours but what it is given: no terminal, no descriptors, and a control group of its own.

#![allow(unsafe_code, reason = "what runs between fork and exec; the proofs are at the calls")]

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::setrlimit;

use crate::cgroup::Group;
use crate::process::Limits;

/// The first descriptor that is not a standard stream.
const FIRST: RawFd = 3;

/// Lets `command` start a process in a session and group of its own, both led by it, and so without a controlling terminal; it gets the standard streams and
/// `kept`, at the numbers that they have here, and no other descriptor, whoever opened it; `limits` and the bounds of the control group hold from its first moment,
/// and for all that come from it.
///
/// # Errors
/// If the control group cannot be opened.
pub fn detach(
    command: &mut Command,
    kept: Vec<OwnedFd>,
    limits: &Limits,
    group: Option<&Group>,
) -> io::Result<()> {
    if let Some(group) = group {
        group.enter(command)?;
    }
    let limits = limits.told();
    let prepare = move || {
        rustix::process::setsid()?;
        limits.iter().try_for_each(|(resource, limit)| setrlimit(*resource, *limit))?;
        close_at_exec()?;
        kept.iter().try_for_each(|kept| fcntl_setfd(kept, FdFlags::empty()))?;
        Ok(())
    };
    // SAFETY: runs in the child of a fork of a process with threads, so it may do nothing that waits for another thread. It calls setsid(2),
    // setrlimit(2), close_range(2) and fcntl(2), which are async-signal-safe, on values made before the fork; it takes no lock, and neither allocates nor frees.
    unsafe { command.pre_exec(prepare) };
    Ok(())
}

/// Marks all descriptors but the standard streams, so that an exec closes them.
fn close_at_exec() -> io::Result<()> {
    // SAFETY: the call takes three numbers and touches no memory; it only sets flags, so that no descriptor of anybody is closed.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    match result {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // Kernels before 5.11: there only [`keep_inherited`] has been at work.
            error if error.raw_os_error() == Some(Errno::NOSYS.raw_os_error()) => Ok(()),
            error if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(()),
            error => Err(error),
        },
    }
}

/// Marks what this process was started with, the standard streams aside, so that no process that it starts inherits it. How many there were.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn keep_inherited() -> io::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse::<RawFd>().ok()) else {
            continue;
        };
        // SAFETY: only its flag is set; if it is not open any more, as that of this very look, the kernel says so.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if number >= FIRST && fcntl_setfd(descriptor, FdFlags::CLOEXEC).is_ok() {
            count += 1;
        }
    }
    Ok(count)
}

/// A copy of the descriptor that this process was started with under a number; the original goes to no process that this one starts.
///
/// # Errors
/// If there is none.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < FIRST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: it is only copied and marked; if it is not open, the kernel says so.
    let original = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_setfd(original, FdFlags::CLOEXEC)?;
    Ok(fcntl_dupfd_cloexec(original.as_fd(), FIRST)?)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    /// What a shell sees: its descriptors, and of its line in the process table the process, its session and its terminal.
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

    /// Descriptors are the whole process's: one test at a time changes what they pass on.
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
}

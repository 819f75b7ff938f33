//! Starts a process that inherits nothing of ours but what it is given: no terminal, no descriptors, and a control group of its own.

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

/// Lets `command` start a process in a session and group of its own. It leads both, and so has no controlling terminal. It gets the standard streams and
/// `kept`, under their present numbers, and no other descriptor, whoever opened it. `limits` and the bounds of the control group hold from its first moment,
/// for it and all its descendants.
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
    let limits = limits.effective();
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
    // SAFETY: the call takes three numbers and touches no memory; it only sets flags and closes no descriptor.
    let result = unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    match result {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // Kernels before 5.11: there, only [`keep_inherited`] protects.
            error if error.raw_os_error() == Some(Errno::NOSYS.raw_os_error()) => Ok(()),
            error if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(()),
            error => Err(error),
        },
    }
}

/// Marks the descriptors that this process was started with, except the standard streams, so that no process it starts inherits them. Returns their number.
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
        // SAFETY: only its flag is set; if it is not open any more, like the descriptor of this very listing, the kernel returns an error.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if number >= FIRST && fcntl_setfd(descriptor, FdFlags::CLOEXEC).is_ok() {
            count += 1;
        }
    }
    Ok(count)
}

/// A copy of the inherited descriptor with this number; no process that this one starts gets the original.
///
/// # Errors
/// If there is none.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number < FIRST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: it is only copied and marked; if it is not open, the kernel returns an error.
    let original = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_setfd(original, FdFlags::CLOEXEC)?;
    Ok(fcntl_dupfd_cloexec(original.as_fd(), FIRST)?)
}

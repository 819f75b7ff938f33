//! Processes: signals to groups, death with the parent.

use std::io;

use rustix::process::{Pid, Signal};

/// Ends every process of the group `pgid` at once (SIGKILL). A group that is gone already is fine.
///
/// # Errors
/// What the system says.
pub fn kill_group(pgid: u32) -> io::Result<()> {
    signal(pgid, |pid| rustix::process::kill_process_group(pid, Signal::KILL))
}

/// Asks one process to end (SIGTERM). A process that is gone already is fine.
///
/// # Errors
/// What the system says.
pub fn terminate(pid: u32) -> io::Result<()> {
    signal(pid, |pid| rustix::process::kill_process(pid, Signal::TERM))
}

/// Ends one process at once (SIGKILL). A process that is gone already is fine.
///
/// # Errors
/// What the system says.
pub fn kill(pid: u32) -> io::Result<()> {
    signal(pid, |pid| rustix::process::kill_process(pid, Signal::KILL))
}

/// Stops one process where it is (SIGSTOP) until [`resume`]. A process that is gone already is fine.
///
/// # Errors
/// What the system says.
pub fn pause(pid: u32) -> io::Result<()> {
    signal(pid, |pid| rustix::process::kill_process(pid, Signal::STOP))
}

/// Lets a stopped process go on (SIGCONT). A process that is gone already is fine.
///
/// # Errors
/// What the system says.
pub fn resume(pid: u32) -> io::Result<()> {
    signal(pid, |pid| rustix::process::kill_process(pid, Signal::CONT))
}

/// True if a process with this id exists.
pub fn is_alive(pid: u32) -> bool {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

/// Has the kernel end this process when the thread that started it ends. Call first thing in a child.
///
/// # Errors
/// What the system says.
pub fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

fn signal(pid: u32, send: impl FnOnce(Pid) -> rustix::io::Result<()>) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    match send(pid) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

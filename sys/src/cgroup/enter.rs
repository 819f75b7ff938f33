//! Entering a group between fork and exec.

#![allow(unsafe_code, reason = "what runs between fork and exec; the proof is at the call")]

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets `command` start a process in the control group that this file opens.
pub(crate) fn enter(command: &mut Command, door: File) {
    // For the kernel, 0 means the writer.
    let prepare = move || rustix::io::write(&door, b"0").map(drop).map_err(io::Error::from);
    // SAFETY: runs in the child of a fork of a process with threads: it calls write(2) only, which is async-signal-safe, on a file and bytes made before the fork; it
    // takes no lock, and neither allocates nor frees.
    unsafe { command.pre_exec(prepare) };
}
